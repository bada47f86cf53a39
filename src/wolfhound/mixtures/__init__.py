"""Mixing distributions by maximum likelihood, proved, and what empirical Bayes makes of them."""

# SPDX-License-Identifier: Apache-2.0

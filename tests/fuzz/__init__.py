"""Attacks on the package: hostile problems, shared oracles, forged folders, wrong uses."""

# SPDX-License-Identifier: Apache-2.0

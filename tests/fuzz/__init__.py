"""Attacks on the package: hostile problems, shared oracles, forged files, wrong uses."""

# SPDX-License-Identifier: Apache-2.0

"""Compiled cores that know neither atoms nor objectives."""

# SPDX-License-Identifier: Apache-2.0

"""Checks that every implementation of a protocol must pass, one module each."""

# SPDX-License-Identifier: Apache-2.0

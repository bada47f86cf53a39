"""Finitely many states with a known model; its names are those of `wolfhound.policy`."""

# SPDX-License-Identifier: Apache-2.0

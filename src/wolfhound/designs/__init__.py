"""Designs of experiments: which of very many possible runs to make, with a proved efficiency."""

# SPDX-License-Identifier: Apache-2.0

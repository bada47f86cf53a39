"""Few atoms and all their products: a compiled active set, target by target, with its proofs."""

# SPDX-License-Identifier: Apache-2.0

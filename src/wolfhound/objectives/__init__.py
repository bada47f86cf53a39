"""What is minimised: smooth f with values, gradients and proved bounds on the rounding of both.

An objective knows no atoms, no oracle and no method; `core.contracts.Objective` is what it promises.
Begin with `plain`: what all share, and the squared distance. `linear` has sums of losses of A x (a new
loss is three short methods there), `likelihood` mixtures, `custom` any function of the caller, which is
trusted where nothing can be proved.
"""

# SPDX-License-Identifier: Apache-2.0

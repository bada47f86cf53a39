"""Compiled cores: how kernels are made and kept, and the one active set.

`jit` is the only way to compile a kernel: it keeps them on disk under the text of all files they depend on,
and says when a user waits for them. `active_set` minimises a quadratic over a simplex, a cone or a box, in
flat compiled loops; its mathematics stand at its head. `corral` is its face in Python, for those whose
prices come from outside. Nothing here knows atoms, objectives or who calls.
"""

# SPDX-License-Identifier: Apache-2.0

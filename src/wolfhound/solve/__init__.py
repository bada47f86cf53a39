"""`minimize`: one problem, one driver, one result.

It knows objectives, oracles and methods by their contracts. Begin with `minimize`: check, pool, method,
drive, result, top to bottom. `driver` runs the states of any method, here and in the rooms above;
`checkpoint` is what a stopped run needs to go on, `result` what every run gives back. `cones` solves many
targets over one cone, for `nnls` and for `many`.
"""

# SPDX-License-Identifier: Apache-2.0

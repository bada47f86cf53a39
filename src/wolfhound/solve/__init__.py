"""`minimize`: one problem, one driver, one result.

It knows objectives, oracles and methods by their contracts. Begin with `minimize`: check, pool, method,
drive, result, top to bottom. `arguments` is the door, for tables too; `driver` runs the states of any
method, here and in the rooms above; `checkpoint` is what a stopped run needs to go on, `result` what every
run gives back.
"""

# SPDX-License-Identifier: Apache-2.0

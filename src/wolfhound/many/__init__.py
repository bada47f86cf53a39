"""Many targets over the same atoms, each with its own proved gap: `minimize_many`.

Begin with `solve`, the public call: it reads what is given (`given`) and chooses a solver. Few atoms go to
`gram_solver`, many to `pass_solver`, which lists atoms for all targets of a chunk in passes (`rows`); any
other oracle is asked by `oracle_solver`. These two share `pools`, where each target is solved on the atoms
that were listed for it. `_target_kernels` holds the compiled loops of all three, `proofs` what is proved of
their points. `run` goes over chunks of targets, in threads, and keeps answers on disk; `batch` brings chunks
into a solver's units and back; `result` is the answer. Nothing here knows the command line or who calls.
"""

# SPDX-License-Identifier: Apache-2.0

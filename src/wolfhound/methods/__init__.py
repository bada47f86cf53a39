"""How f is minimised: generators of states that move a point of the hull.

A method moves; it never stops, times or prints, which is the driver's (`solve.driver`). It meets f and the
oracle by their contracts only. Begin with `asking`: where a run begins, and the one place that asks an
oracle and turns its answer into a proved lower bound. Then `fully_corrective`, the default, whose
inner solves for other than quadratic f are in `newton`; or `frank_wolfe`, one loop for all `directions` and
`steps`. `atom_sets` holds the atoms in hand: active set and pool.
"""

# SPDX-License-Identifier: Apache-2.0

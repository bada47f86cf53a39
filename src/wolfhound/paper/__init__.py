"""The paper in one room: Shrivastava, Song and Xu's conditional gradients by inner-product search, corrected.

Whatever serves the paper only is here, and nothing below imports it. What an index itself needs (its
promise, collisions) is in `oracles`; Algorithm 5 is in `policy`. docs/paper-corrections.md says what was
corrected and why (E1 .. E19). Begin with `theory` for a formula, with `sublinear_frank_wolfe` for the
algorithm.

=============================================================  ========================================
In the paper                                                   Here
=============================================================  ========================================
Definitions: convex, smooth, hull, diameter                    `core.contracts.Objective`, `data.atoms`
LSH, its families; (c, tau)-MaxIP; MaxIP by LSH                `oracles.hashes`, `oracles.lsh`, `.promises`
ANN exponents, space against time, collision probabilities     `theory.rho`, `.space_time`, `.*_collision`
Repetition: copies kappa of an index                           `theory.copies`, `.copies_printed`
Projected MaxIP (phi, psi)                                     `projected.Projected`
phi0, psi0; phi1, psi1; both together; for policies            `transforms.shift_*`, `sphere_*`, `paper_*`,
                                                               `policy_*`
Polynomials of distances; regularised MinIP; fewer dimensions  `transforms.polynomial_*`, `.*_min_ip*`,
                                                               `.johnson_lindenstrauss`
Algorithm 1, Frank-Wolfe                                       `methods.frank_wolfe.FrankWolfe`
Algorithm 2, Sublinear Frank-Wolfe; w^0; Case 1 and 2          `sublinear_frank_wolfe`
its theorem: gap after t steps, steps T, D_x and D_y           `theory.gap_after*`, `.steps`, `.lift_norms`
Adaptive queries: lattice, (c, tau, lambda)-MaxIP, theorem     `adaptive`, `theory.lattice_side`,
                                                               `.additive_error`
Algorithm 3, Herding                                           `herding.in_features`
Algorithm 4, Sublinear Herding; its theorem                    `sublinear_herding`,
                                                               `theory.herding_gap_after`
Algorithm 5, SFWPO; its lemma and theorems                     `policy.tabular`
Accuracy against efficiency                                    `planning`, `theory.break_even`,
                                                               `.candidates`, `.probed_share`
=============================================================  ========================================
"""

# SPDX-License-Identifier: Apache-2.0

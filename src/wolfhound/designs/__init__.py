"""Designs of experiments: which of very many possible runs to make, with a proved efficiency.

Knows factors, models and criteria, and nothing of mixtures, herds or policies; passes over all candidates are
those of `oracles.forms`. Begin with `design`, the door; `search` alternates Newton steps to the best weights
on a pool with passes that `proof` turns into an efficiency. `factors` makes rows of terms of whatever the
caller has, `criteria` says what is optimised, `exact` finds whole runs, `result` tells and saves, and
`ellipsoid` is the dual problem.
"""

# SPDX-License-Identifier: Apache-2.0

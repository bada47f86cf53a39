"""Mixing distributions by maximum likelihood, proved, and what empirical Bayes makes of them.

Knows likelihoods, and nothing of atoms, oracles or methods: a matrix of likelihoods is read in blocks of
rows, and a continuum of parameters is bounded. Begin with `npmle`, the door, and `weights`, that of matrices.
`families` are the likelihoods; `_newton` finds the weights of given components, `_exchange` their places too,
`_continuum` proves both; `fit` is what a fit says of observations.
"""

# SPDX-License-Identifier: Apache-2.0

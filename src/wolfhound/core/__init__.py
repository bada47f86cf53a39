"""The words that all rooms share: contracts, checks of arguments, rounding, threads, progress.

Nothing here knows an atom's file, an objective or an oracle. Begin with `contracts`: what an objective, an
oracle, a method and an answer (`Hits`, `State`, `Status`) promise. `validate` says every error of a wrong
argument and refuses numbers that a cast would change, `rounding` bounds what floating point can do.
"""

# SPDX-License-Identifier: Apache-2.0

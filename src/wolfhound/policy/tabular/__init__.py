"""Finitely many states with a known model; its names are those of `wolfhound.policy`.

`models` are rewards and transitions, `acmdp` checks them and evaluates policies, `steps` says how far each
state goes, `fwpo` is the loop and its door, `result` what it gives back. Nothing here learns from samples.
"""

# SPDX-License-Identifier: Apache-2.0

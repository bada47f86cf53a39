"""Many targets over the same atoms, each with its own proved gap."""

# SPDX-License-Identifier: Apache-2.0

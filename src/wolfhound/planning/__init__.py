"""What will pay: estimates from a cost model and the speeds of a machine.

Weighs what the entries of `INDEXES` say of themselves; knows none of them.
"""

# SPDX-License-Identifier: Apache-2.0

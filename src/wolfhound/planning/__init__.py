"""What will pay: estimates from a cost model and the speeds of a machine.

Knows what oracles cost; asks no clock, except to measure a calibration.
"""

# SPDX-License-Identifier: Apache-2.0

"""What serves the paper's constructions only: its maps, and its plan of an adaptive run.

Nothing else needs them; docs/paper.md says what each is. Formulas alone are in `theory`.
"""

# SPDX-License-Identifier: Apache-2.0

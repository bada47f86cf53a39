"""How a result is told: a `Summary` of fields, tables and pictures, drawn once and shown everywhere.

It knows no kind of result; each gives its own `Summary` (`markup`). Begin there, then `plot` (the style of
all figures, matplotlib) and `report`: a page of any results, by the template in `page_parts/`.
"""

# SPDX-License-Identifier: Apache-2.0

"""What will pay: which oracle is the cheapest for so many queries, and what a run would cost.

Knows costs, not how an oracle works: it weighs what the entries of `INDEXES` say of themselves (what they
build, what a query reads, what ratio is typical), with two speeds of the machine that are measured in about
a second, and the exponents of `paper.theory`. Nothing is built here. Begin with `plan.weigh`.
"""

# SPDX-License-Identifier: Apache-2.0

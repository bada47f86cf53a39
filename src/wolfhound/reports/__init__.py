"""Results as pages: one file of HTML that needs no network.

`report` writes it, `kinds` says who describes which result, `page` is the template.
"""

# SPDX-License-Identifier: Apache-2.0

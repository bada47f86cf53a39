"""What exists: `load` opens whatever was saved, `warm_up` compiles whatever is named.

Both know every room by its names and nothing of how it works; only the command line stands above.
"""

# SPDX-License-Identifier: Apache-2.0

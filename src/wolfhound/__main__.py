"""`python -m wolfhound`, for where the script is not on the path."""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.cli import main

main()

"""A word as a mixture of others, told as a page that anyone can open.

    python examples/report_a_run.py king king.html

The page holds its pictures and asks no network.
"""

# SPDX-License-Identifier: Apache-2.0
import sys
import tempfile
from pathlib import Path

import wolfhound as wh
from wolfhound.data import shipped as data

word = sys.argv[1] if len(sys.argv) > 1 else "king"
page = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp()) / f"{word}.html"

words = data.words()
i = words.id(word)
result = wh.minimize(
    wh.SquaredDistance(words.vectors[i]), words.vectors, exclude=[i], names=words.names, rtol=1e-6
)
wh.report(
    result,
    page,
    title=f'"{word}" as a mixture of other words',
    plan=wh.choose_oracle(words.vectors, queries=5),
    command=f"python examples/report_a_run.py {word}",
)
print(result)
print(f"open {page} in a browser: {page.stat().st_size / 1e6:.1f} MB, no network needed")

"""A process that runs attacks: ``python -m tests.fuzz.worker MODULE SEED FIRST LAST STEP``."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import json
import sys
import warnings


def main(module: str, seed: int, *batches: int) -> None:
    """Judge batches of a module and print what happens, line by line."""
    judge = importlib.import_module(f"tests.fuzz.{module}").judge
    for batch in range(*batches):
        for step in judge(seed, batch):
            said = {"case": step} if isinstance(step, str) else vars(step)
            print(json.dumps({"batch": batch, **said}), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(sys.argv[1], *map(int, sys.argv[2:]))

"""Explain a word as a sparse convex mixture of other words, with a proved gap."""

# SPDX-License-Identifier: Apache-2.0
from wolfhound import SquaredDistance, minimize
from wolfhound.data.shipped import words


def main() -> None:
    glove = words()
    king = glove.id("king")
    result = minimize(
        SquaredDistance(glove.vectors[king]), glove.vectors, exclude=[king], names=glove.names, rtol=1e-6
    )
    print(result)
    for atom in result.top(5):
        print(f"{atom.weight:6.3f}  {atom.name}")


if __name__ == "__main__":
    main()

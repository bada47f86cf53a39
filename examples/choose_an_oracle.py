"""Choose an oracle for a number of queries, and use an index without losing the proof."""

# SPDX-License-Identifier: Apache-2.0
from wolfhound import BlendedPairwise, FrankWolfe, SquaredDistance, Tiered, choose_oracle, minimize
from wolfhound.data.shipped import words


def main() -> None:
    glove = words()
    # A few proved queries: nothing that must be built first is worth it.
    print(choose_oracle(glove.vectors, queries=3), end="\n\n")
    # A million that need no proof: now building pays.
    choice = choose_oracle(glove.vectors, queries=1_000_000, ratio=0.9, proof=False)
    print(choice, end="\n\n")

    # An index alone proves nothing. Behind Tiered it answers what it can; the rest, and the proof, is a pass.
    king = glove.id("king")
    oracle = Tiered(choice.build())
    result = minimize(
        SquaredDistance(glove.vectors[king]),
        oracle,
        method=FrankWolfe(BlendedPairwise()),
        exclude=[king],
        names=glove.names,
        rtol=1e-4,
    )
    print(result)
    print("queries answered by", ", ".join(f"{tier}: {times}" for tier, times in oracle.counts.items()))


if __name__ == "__main__":
    main()

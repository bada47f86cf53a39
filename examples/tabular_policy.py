"""Find the best policy of a small decision process whose actions are mixtures of 20,000 vectors."""

# SPDX-License-Identifier: Apache-2.0
from wolfhound import ClusterIndex
from wolfhound.policy import ActionSet, fwpo, random_acmdp, sfwpo


def main() -> None:
    # 50 states; actions are distributions over 12 pure ones, of which 20,000 are on offer.
    acmdp = random_acmdp(50, 20_000, 12)
    exact = fwpo(acmdp)
    print(exact)

    # The same with an index: it answers from a few hundred atoms, and a pass confirms the end.
    atoms = acmdp.actions.atoms
    indexed = acmdp.with_actions(ActionSet(atoms, oracle=ClusterIndex.build(atoms)))
    found = sfwpo(indexed)
    passes = f"{found.passes:.0f} passes in {found.steps} steps"
    print(f"with an index: J {found.J:.6f} against {exact.J:.6f}, {passes}")


if __name__ == "__main__":
    main()

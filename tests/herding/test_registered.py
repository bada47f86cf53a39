"""A kernel from outside the package: herds, is saved, loaded and extended."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import wolfhound
from tests.conformance.kernel import check_kernel
from tests.outside import Rational
from wolfhound import KERNELS, herd
from wolfhound.data import store
from wolfhound.herding import Kernel, mmd
from wolfhound.herding.result import HerdResult

ROWS = np.random.default_rng(0).normal(size=(300, 3))


@pytest.fixture
def registered() -> Iterator[None]:
    KERNELS.add(Rational)
    yield
    del KERNELS._things["rational"]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("kernel", [Rational(), Rational(2.0, 0.7)], ids=repr)
def test_a_kernel_from_outside_keeps_all_promises(kernel: Kernel) -> None:
    check_kernel(kernel)


@pytest.mark.usefixtures("registered")
def test_a_kernel_of_ones_own_is_saved_loaded_and_extended(tmp_path: Path) -> None:
    short, long = (herd(ROWS, m, kernel=Rational(2.0)) for m in (10, 18))
    assert short.gain > 1.0
    assert short.mmd == pytest.approx(mmd(ROWS[short.ids], ROWS, short.kernel), abs=1e-9)  # type: ignore[arg-type]
    short.save(tmp_path / "saved")
    loaded = wolfhound.load(tmp_path / "saved", ROWS)
    assert loaded.kernel == short.kernel
    assert loaded.kernel.length == pytest.approx(np.std(ROWS))
    np.testing.assert_array_equal(loaded.extend(18, atoms=ROWS).ids, long.ids)
    assert loaded.space == f"Rational(power=2, length={loaded.kernel.length:.4g})"


@pytest.mark.parametrize(
    "options",
    [{"by": np.arange(300) % 4}, {"target": ROWS[:90]}, {"weights": True}],
    ids=["labels", "target", "weights"],
)
def test_a_kernel_need_not_be_registered_to_herd(options: dict[str, object]) -> None:
    result = herd(ROWS, 20, kernel=Rational(), **options)  # type: ignore[arg-type]
    assert result.gain > 1.0
    assert len(result.extend(25).ids) == 25


def test_a_kernel_that_is_no_longer_known_is_named(tmp_path: Path) -> None:
    KERNELS.add(Rational)
    herd(ROWS, 5, kernel=Rational()).save(tmp_path / "saved")
    del KERNELS._things["rational"]
    with pytest.raises(store.StoreError, match=r"one of gaussian, laplace, linear, stein. Got 'rational'"):
        HerdResult.load(tmp_path / "saved")


def test_herd_is_the_function_whatever_was_imported() -> None:
    import wolfhound.herding.herd
    from wolfhound.herding import herd as inner

    assert callable(inner)
    assert inner is wolfhound.herd
    assert wolfhound.herding.herd is inner


@pytest.mark.parametrize("name", ["gaussian", "laplace", "linear", "stein"])
def test_a_kernel_is_what_its_name_says(name: str) -> None:
    made = KERNELS.find(name)
    assert made.name == name
    assert made.from_json(made().to_json()) == made()

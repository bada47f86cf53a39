"""Calibrations: the formula, where they are kept, and that damage is never overlooked."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wolfhound.machine import Calibration, CalibrationError, Origin, Speed, default_path
from wolfhound.machine import _checksum as calibration_checksum

ORIGIN = Origin(
    machine="box", cores=4, date="2026-01-02T03:04:05+00:00", wolfhound="1", numpy="2", numba="3", faiss="4"
)
MEASURED = replace(Calibration(), threads=3, read=1e-9, origin=ORIGIN)


def test_seconds_of_a_call_are_shared_by_its_queries() -> None:
    speed = Speed(call=8.0, query=2.0, first=0.5, more=0.25)
    assert speed.seconds(4.0) == 8.0 + 0.5 * 4.0
    assert speed.seconds(4.0, batch=5) == (8.0 + 0.5 * 4.0 + 4 * (2.0 + 0.25 * 4.0)) / 5


@pytest.mark.parametrize("value", [-1e-9, math.inf, math.nan])
@pytest.mark.parametrize("name", ["call", "query", "first", "more"])
def test_speeds_are_finite_and_not_negative(name: str, value: float) -> None:
    numbers = {"call": 0.0, "query": 0.0, "first": 0.0, "more": 0.0}
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        Speed(**(numbers | {name: value}))


@pytest.mark.parametrize("name", ["read", "file", "fetch", "encode", "kmeans", "quantise", "train"])
def test_numbers_are_finite(name: str) -> None:
    numbers: dict[str, Any] = {name: math.inf}
    with pytest.raises(ValueError, match=f"`{name}` must be finite"):
        Calibration(**numbers)


def test_the_fixed_defaults_rank_the_oracles_as_they_are() -> None:
    fixed = Calibration()
    assert fixed.origin is None
    assert fixed.int8.seconds(0.27e9) < fixed.scan.seconds(1e9)  # d + 8 bytes for 4 d
    assert fixed.scan.seconds(1e9, batch=64) < fixed.scan.seconds(1e9)
    assert fixed.encode > fixed.scan.first


# ---------------------------------------------------------------- where it is kept


def test_the_variable_names_the_file(place: Path) -> None:
    assert default_path() == place


def test_the_cache_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WOLFHOUND_CALIBRATION")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "wolfhound" / "calibration.json"


@pytest.mark.parametrize("cache", ["", "relative/cache"])
def test_the_home_folder_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: str) -> None:
    monkeypatch.delenv("WOLFHOUND_CALIBRATION")
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".cache" / "wolfhound" / "calibration.json"


@pytest.mark.parametrize("calibration", [Calibration(), MEASURED], ids=["fixed", "measured"])
def test_what_is_saved_is_loaded(place: Path, calibration: Calibration) -> None:
    assert calibration.save() == place
    assert Calibration.load() == calibration
    assert Calibration.here() == calibration


def test_a_path_may_be_given(tmp_path: Path, place: Path) -> None:
    MEASURED.save(tmp_path / "other.json")
    assert Calibration.load(tmp_path / "other.json") == MEASURED
    assert not place.exists()


def test_without_a_file_the_fixed_defaults_serve() -> None:
    assert Calibration.here() == Calibration()
    with pytest.raises(FileNotFoundError):
        Calibration.load()


def test_a_second_save_takes_the_place_of_the_first(place: Path) -> None:
    Calibration().save()
    MEASURED.save()
    assert Calibration.load() == MEASURED
    assert [path.name for path in place.parent.iterdir()] == [place.name]


# ---------------------------------------------------------------- damage


def altered(place: Path, **values: Any) -> None:
    place.write_text(json.dumps(json.loads(place.read_text()) | values))


def test_a_truncated_file_is_refused(place: Path) -> None:
    data = MEASURED.save().read_bytes()
    for size in range(0, len(data) - 2, 7):
        place.write_bytes(data[:size])
        with pytest.raises(CalibrationError, match=r"calibration\.json is damaged: it is not JSON; run"):
            Calibration.here()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"read": 2e-9}, "its checksum differs"),
        ({"threads": 8}, "its checksum differs"),
        ({"surprise": 1}, "its checksum differs"),
        ({"format": "another"}, "it is no wolfhound calibration"),
    ],
)
def test_an_altered_file_is_refused(place: Path, values: dict[str, Any], why: str) -> None:
    MEASURED.save()
    altered(place, **values)
    with pytest.raises(CalibrationError, match=f"is damaged: {why}; run `wolfhound bench` again, or delete"):
        Calibration.here()


def test_every_flipped_bit_of_a_number_is_seen(place: Path) -> None:
    text = MEASURED.save().read_text()
    for at in [i for i, letter in enumerate(text) if letter.isdigit()]:
        place.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])
        with pytest.raises(CalibrationError):
            Calibration.load()


def test_another_version_is_refused(place: Path) -> None:
    MEASURED.save()
    altered(place, version=7)
    with pytest.raises(
        CalibrationError, match=r"must be of version 2, .* Got 7: run `wolfhound bench` again"
    ):
        Calibration.load()


@pytest.mark.parametrize("text", ["[]", "3", '"wolfhound"', "null", "[" * 100_000])
def test_json_of_another_shape_is_refused(place: Path, text: str) -> None:
    place.parent.mkdir()
    place.write_text(text)
    with pytest.raises(CalibrationError, match="is damaged"):
        Calibration.load()


@pytest.mark.parametrize(
    "values", [{"scan": 3}, {"scan": {"call": "fast"}}, {"threads": -1}, {"origin": [1]}, {"later": 1}]
)
def test_entries_that_were_forged_are_refused(place: Path, values: dict[str, Any]) -> None:
    content = json.loads(MEASURED.save().read_text()) | values
    del content["checksum"]
    place.write_text(json.dumps(content | {"checksum": calibration_checksum(content)}))
    with pytest.raises(CalibrationError, match=r"is damaged: an entry is missing or wrong"):
        Calibration.load()

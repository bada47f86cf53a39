"""Tables of things that describe themselves."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from wolfhound.core import registry
from wolfhound.core.registry import Registry


class Round:
    """A shape."""

    name = "round"
    area = 3.14


def make() -> Registry[Any]:
    """A table with one thing of the package, which is imported when asked for."""
    return Registry("shape", ("area",), {"fraction": "fractions:Fraction"})


def install(monkeypatch: pytest.MonkeyPatch, load: Callable[[], object]) -> None:
    """Let an installed package name one plugin."""

    class Entry:
        name, value = "shapes", "shapes:add"

        def load(self) -> object:
            return load()

    def entry_points(group: str) -> list[EntryPoint]:
        assert group == registry.PLUGINS
        return [Entry()]  # type: ignore[list-item]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    monkeypatch.setattr(registry, "_loaded", set())


def test_things_are_found_by_name() -> None:
    table = make()
    assert table.add(Round) is Round
    assert list(table) == ["fraction", "round"]
    assert len(table) == 2
    assert table.find("round") is table["round"] is Round
    assert table["fraction"](1, 2) * 2 == 1
    assert "fraction, round" in repr(table)


def test_an_unknown_name_is_answered_with_all_names() -> None:
    with pytest.raises(ValueError, match=r"^`--shape` must be one of fraction. Got 'square'.$"):
        make().find("square", "--shape")
    with pytest.raises(KeyError):
        make()["square"]


@pytest.mark.parametrize("name", ["Round", "a b", "", "../x", 5])
def test_names_are_plain(name: Any) -> None:
    thing = type("Thing", (), {"name": name, "area": 1.0})
    with pytest.raises(ValueError, match="`name` must be small letters"):
        make().add(thing)


def test_a_name_has_one_owner() -> None:
    table = make()
    table.add(Round)
    table.add(Round)
    with pytest.raises(ValueError, match="`name` must be new in the table of this kind, shape"):
        table.add(type("Other", (), {"name": "round", "area": 1.0}))
    with pytest.raises(ValueError, match="`name` must be new in the table of this kind, shape"):
        table.add(type("Other", (), {"name": "fraction", "area": 1.0}))


def test_what_a_thing_lacks_is_named() -> None:
    with pytest.raises(TypeError, match=r"^`shape` must have `area`\."):
        make().add(type("Flat", (), {"name": "flat"}))


def test_plugins_are_loaded_once_when_a_name_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    table, calls = make(), []

    def add() -> None:
        calls.append("add")
        table.add(Round)

    install(monkeypatch, lambda: add)
    assert table["fraction"](1, 2)  # known here: no plugin is needed
    assert calls == []
    assert table.find("round") is Round
    assert list(table) == ["fraction", "round"]
    assert calls == ["add"]


def test_a_plugin_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> object:
        raise RuntimeError("no such library")

    install(monkeypatch, load)
    for _ in range(2):
        with pytest.raises(ImportError, match=r"'shapes' \(shapes:add\) cannot be loaded: no such library"):
            list(make())

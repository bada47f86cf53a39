"""Tables of things that describe themselves: kernels, indexes, policy rules.

A thing owns all that is known of it; a `Registry` finds it by its name. Saving,
planning, the command line and the conformance kits read the same table, so one
that is added, from here or from another package, is known everywhere.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from wolfhound.core.validate import require

Thing = TypeVar("Thing")

PLUGINS = "wolfhound.plugins"
"""Entry points of this group are loaded before a table is read whole or a name is not found.

Each names a function without arguments, which adds to the tables, or a module that
does so when it is imported.
"""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_loaded: set[str] = set()


class Registry(Mapping[str, Thing], Generic[Thing]):
    """Things of one kind by name.

    Parameters
    ----------
    kind
        What they are, for errors.
    members
        Attributes that each must have, besides `name`.
    home
        Where those of this package live: ``"module:attribute"`` by name; imported
        when first asked for.

    Examples
    --------
    >>> class Round:
    ...     name = "round"
    >>> shapes = Registry("shape", (), {})
    >>> shapes.add(Round) is Round
    True
    >>> shapes.find("square")
    Traceback (most recent call last):
    ...
    ValueError: `shape` must be one of round. Got 'square'.
    """

    def __init__(self, kind: str, members: tuple[str, ...], home: Mapping[str, str]) -> None:
        self._kind, self._members, self._home = kind, members, dict(home)
        self._things: dict[str, Thing] = {}

    def add(self, thing: Thing) -> Thing:
        """Enter a thing under its `name`, and return it: can be used as a decorator.

        Raises
        ------
        TypeError
            If it lacks a member.
        ValueError
            If its name is taken, or is not of small letters, digits, "-" and "_".
        """
        missing = [f"`{member}`" for member in ("name", *self._members) if not hasattr(thing, member)]
        if missing:
            raise TypeError(f"`{self._kind}` must have {', '.join(missing)}. Got {thing!r}.")
        name = cast(str, getattr(thing, "name"))  # noqa: B009 - things have no common type
        good = isinstance(name, str) and _NAME.fullmatch(name) is not None
        require(good, "name", "small letters, digits, - and _", name)
        taken = name in self._home or self._things.get(name, thing) is not thing
        require(not taken, "name", f"new in the table of this kind, {self._kind}", name)
        self._things[name] = thing
        return thing

    def find(self, name: str, argument: str | None = None) -> Thing:
        """Return the thing of this name; ValueError that lists all names if there is none."""
        if name not in self:
            require(False, argument or self._kind, f"one of {', '.join(self)}", repr(name))
        return self[name]

    def __getitem__(self, name: str) -> Thing:
        if name not in self._things and name in self._home:
            self._things[name] = pkgutil.resolve_name(self._home[name])
        elif name not in self._things:
            load_plugins()
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._home and name not in self._things:
            load_plugins()
        return name in self._home or name in self._things

    def __iter__(self) -> Iterator[str]:
        load_plugins()
        return iter([*self._home, *(name for name in self._things if name not in self._home)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"Registry({self._kind}: {', '.join(self)})"


def load_plugins() -> None:
    """Load the installed packages that add to the tables, each once; ImportError says which fails."""
    if PLUGINS in _loaded:  # to look for packages takes milliseconds
        return
    for entry in entry_points(group=PLUGINS):
        if entry.value in _loaded:
            continue
        _loaded.add(entry.value)
        try:
            found = entry.load()
            if callable(found):
                found()
        except Exception as error:
            _loaded.discard(entry.value)  # said again by the next call, rather than a name that is not known
            what = f"the plugin {entry.name!r} ({entry.value})"
            raise ImportError(f"{what} cannot be loaded: {error}") from error
    _loaded.add(PLUGINS)

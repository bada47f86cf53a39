"""Argument checks: one clear error that names the argument, the rule, the value.

And one refusal for numbers that a cast to float64 would change: a rounded atom, target or weight makes
whatever is proved of it false, so every door casts only what passed here. Knows numpy only.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeGuard, TypeVar

import numpy as np

from wolfhound.core.contracts import Ids, Matrix, Oracle, Vector

_LONGEST = 200  # characters of a value that a message shows


def require(ok: bool, name: str, rule: str, got: object) -> None:
    """Raise ValueError "`name` must be rule. Got ...".

    Examples
    --------
    >>> require(-1 >= 0, "rtol", ">= 0", -1)
    Traceback (most recent call last):
    ...
    ValueError: `rtol` must be >= 0. Got -1.
    """
    if not ok:
        raise ValueError(f"`{name}` must be {rule}. Got {_line(str(got))}.")


def require_distinct(names: Sequence[str], name: str, rule: str, where: str = "") -> None:
    """Raise ValueError if some of these names come twice; there may be very many of them."""
    twice = sorted(each for each, times in Counter(names).items() if times > 1)
    require(not twice, name, rule, f"{', '.join(twice)} twice{where}")


def describe(value: object) -> str:
    """Say in one line what a value is.

    Examples
    --------
    >>> describe(dict), describe(np.zeros((2, 3))), describe("5")
    ('the class dict', 'an array of float64, shape (2, 3)', "'5'")
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}, shape {value.shape}"
    try:
        return _line(repr(value))
    except Exception:  # a foreign object need not have a repr that works
        return f"a {type(value).__name__}"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def number(value: Any, name: str, *, low: float = -math.inf, strict: bool = False) -> float:
    """Return a real number >= low (> low if strict); inf is allowed, nan is not."""
    if type(value) is float and (value > low or (value == low and not strict)):
        return value
    rule = f"a number {'>' if strict else '>='} {low:g}" if low > -math.inf else "a number"
    out = _float(value, name, rule)
    require(out > low if strict else out >= low, name, rule, value)
    return out


def within(value: Any, name: str, interval: str) -> float:
    """Return a number in an interval that is written as in mathematics: "(0, 1]"."""
    out = _float(value, name, f"a number in {interval}")
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = out > low if interval[0] == "(" else out >= low
    below = out < high if interval[-1] == ")" else out <= high
    require(above and below, name, f"in {interval}", value)
    return out


def _float(value: Any, name: str, rule: str) -> float:
    # float() reads strings, truths and arrays of one entry too: mostly slips.
    out: float | None = None
    if not isinstance(value, (str, bytes, bool, np.bool_)) and getattr(value, "ndim", 0) == 0:
        with contextlib.suppress(TypeError, ValueError, OverflowError, RuntimeError):
            out = math.nan if value is np.ma.masked else float(value)
    if out is None:
        raise TypeError(f"`{name}` must be {rule}. Got {describe(value)}.")
    whole = isinstance(value, (int, np.integer)) and math.isfinite(out)  # fractions are nearest, at best
    require(not whole or int(value) == int(out), name, HELD, value)
    return out


_BYTES = re.compile(r"(\d+(?:\.\d+)?) ?([kmgt]?)(i?)b", re.IGNORECASE)


def memory(value: Any, name: str, *, strict: bool = True) -> float:
    """Return a number of bytes > 0 (>= 0 if not strict): a number, or a text such as "1.5 GB" or "512MiB".

    Examples
    --------
    >>> memory("1.5GB", "max_memory"), memory("2 KiB", "max_memory"), memory(1e6, "max_memory")
    (1500000000.0, 2048.0, 1000000.0)
    """
    if not isinstance(value, str):
        return number(value, name, low=0.0, strict=strict)
    found = _BYTES.fullmatch(value.strip())
    if found is None or not float(found[1]):
        raise ValueError(f"`{name}` must be a number of bytes > 0, or a text such as 1.5GB. Got {value!r}.")
    return float(found[1]) * (1024.0 if found[3] else 1000.0) ** " kmgt".index(found[2].lower() or " ")


def count(value: Any, name: str, *, low: int = 0) -> int:
    """Return an integer >= low."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be an integer >= {low}. Got {describe(value)}.")
    require(bool(value >= low), name, f"an integer >= {low}", value)
    return int(value)


def real_array(value: Any, name: str, ndim: int) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an array of real numbers with `ndim` axes, not copied if it is one."""
    if type(value).__module__.startswith("scipy.sparse"):
        raise TypeError(f"`{name}` must be a dense array. Got a scipy.sparse {type(value).__name__}.")
    out = array(value, name, "an array of real numbers")
    if out.dtype.kind not in "fiub" or out.dtype.itemsize > 8:
        wide = "; .astype(float) rounds them" if out.dtype.kind in "fO" else ""  # long double, Python's own
        got = f"dtype {out.dtype}{wide}" if out.ndim else describe(value)
        raise TypeError(f"`{name}` must be an array of real numbers. Got {got}.")
    require(out.ndim == ndim, name, f"an array with {ndim} axes", f"shape {out.shape}")
    require_exact(out, name)
    return out


def as_floats(value: Any, name: str) -> Vector:
    """Return real numbers of any shape as float64, the array itself if it is one."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    return real_array(value, name, np.ndim(value)).astype(np.float64, copy=False)


def array(value: Any, name: str, rule: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Read as an array, with all entries: numpy drops masks, and other libraries refuse."""
    if type(value) is np.ndarray:
        return value
    masked = int(np.ma.getmaskarray(value).sum()) if isinstance(value, np.ma.MaskedArray) else 0
    if masked:
        got = f"a masked array with {masked:,} of {value.size:,} masked: fill or drop them"
        raise TypeError(f"`{name}` must be {rule}, without masked entries. Got {got}.")
    try:
        plain = value
        if type(value).__module__.startswith("torch") and hasattr(value, "detach"):
            plain = value.detach()  # numpy wants no gradient, and has no bfloat16
            plain = plain.float() if str(plain.dtype) == "torch.bfloat16" else plain
        out = np.asarray(plain)
    except Exception as error:  # ragged lists; tensors on a device, with a gradient or of other types
        why = "entries of unequal length" if isinstance(value, (list, tuple)) else _line(str(error))
        raise TypeError(f"`{name}` must be {rule}. Got a {type(value).__name__}: {why}") from None
    require_unrounded(value, out, name)
    return out


def vector(value: Any, name: str, *, size: int | None = None) -> Vector:
    """Return a finite float64 vector, optionally of a given size."""
    out = np.ascontiguousarray(real_array(value, name, 1), np.float64)
    if size is not None:
        require(len(out) == size, name, f"a vector of length {size}", f"length {len(out)}")
    require_finite(out, name)
    return out


def row_shares(weights: Any, n: int, name: str = "weights") -> Vector | None:
    """Return weights >= 0 of n rows, divided by their sum; None stays None, equal weights."""
    if weights is None:
        return None
    shares = vector(weights, name, size=n)
    require(bool(shares.min() >= 0.0), name, ">= 0 in each entry", f"{shares.min():g}")
    largest = shares.max()
    require(bool(largest > 0.0), name, "above 0 in some entry", "all 0")
    shares = shares / largest  # the sum of huge weights would overflow
    return np.asarray(shares / shares.sum())


def matrix(value: Any, name: str, *, axes: int = 2) -> Vector:
    """Return a finite, non-empty, C-ordered float64 matrix, or an array of so many axes."""
    out = np.ascontiguousarray(real_array(value, name, axes), np.float64)
    require(out.size > 0, name, "non-empty", f"shape {out.shape}")
    require_finite(out, name)
    return out


def require_finite(value: np.ndarray[Any, Any], name: str) -> None:
    """Raise if an entry is nan or infinite, naming the first."""
    bad = ~np.isfinite(value)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        at = where[0] if len(where) == 1 else where
        raise ValueError(f"`{name}` must be finite. Got {value[where]} at index {at}.")


def singles(value: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return finite numbers as float32, where that is our choice: what is infinite there is refused."""
    require_finite(value, name)
    size, most = float(np.abs(value).max(initial=0.0)), float(np.finfo(np.float32).max)
    require(size <= most, name, f"at most {most:.3g} in size, as float32 holds; scale them", f"{size:g}")
    return np.ascontiguousarray(value, np.float32)


LARGEST = 1e150  # numbers up to this have squares that can be summed


def require_moderate(value: Matrix | float, name: str) -> None:
    """Raise if a number is so large that squares overflow."""
    size = max(float(np.max(value, initial=0.0)), -float(np.min(value, initial=0.0)))
    require(size <= LARGEST, name, f"at most {LARGEST:g} in size; scale the problem", f"{size:g}")


def ids(value: Any, name: str, n: int) -> Ids:
    """Return a vector of distinct int64 atom ids in [0, n)."""
    out = array(value, name, "a vector of integer ids")
    if out.size == 0:
        return np.empty(0, np.int64)
    if out.dtype.kind not in "iu" or out.ndim != 1:
        got = f"{out.dtype}, shape {out.shape}" if out.ndim else describe(value)
        raise TypeError(f"`{name}` must be a vector of integer ids. Got {got}.")
    out = out.astype(np.int64)
    require(bool(out.min() >= 0 and out.max() < n), name, f"ids in [0, {n})", f"{out.min()} .. {out.max()}")
    require(len(np.unique(out)) == len(out), name, "distinct ids", "repeated ids")
    return out


def path(value: Any, name: str) -> Path:
    """Return a path that names something: no None, no bytes, not "", which would be where we are."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise TypeError(f"`{name}` must be a path. Got {describe(value)}.")
    text = os.fspath(value)
    require(text != "" and "\0" not in text, name, "a path", repr(text))
    return Path(text)


def file_path(value: Any, name: str, endings: Collection[str]) -> Path:
    """Return the path of a file that can be written: of a known ending, in a folder that exists.

    Examples
    --------
    >>> file_path("run.txt", "path", [".png", ".svg"])
    Traceback (most recent call last):
    ...
    ValueError: `path` must be a file that ends in .png or .svg. Got run.txt.
    """
    where = path(value, name)
    require(where.suffix.lower() in endings, name, f"a file that ends in {' or '.join(endings)}", where)
    target = Path(os.path.realpath(where))  # as it will be written: links stay
    require(target.parent.is_dir(), name, "in a folder that exists", where)
    require(not target.is_dir(), name, "a file", f"{where}, a folder")
    return where


def rng(seed: int | np.random.Generator) -> np.random.Generator:
    """Return the generator itself or a new one from an integer seed."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(count(seed, "seed"))


# ---------------------------------------------------------------- objects


def flag(value: Any, name: str) -> bool:
    """Return True or False; a string or a number is neither."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"`{name}` must be True or False. Got {describe(value)}.")
    return bool(value)


def function(value: Any, name: str, rule: str = "a function") -> None:
    """Raise TypeError if a value cannot be called."""
    if not callable(value):
        raise TypeError(f"`{name}` must be {rule}. Got {describe(value)}.")


def kind(value: Any, name: str, rule: str, *members: str | type) -> None:
    """Raise TypeError unless a value is an object of a type, or has all these members.

    `rule` says what it must be, with an example of how to make one; members are types, any of which will
    do, or names of what a protocol asks for.

    Examples
    --------
    >>> kind(dict, "method", "a method such as FullyCorrective()", "begin", "states")
    Traceback (most recent call last):
    ...
    TypeError: `method` must be a method such as FullyCorrective(). Got the class dict.
    """
    names = [each for each in members if isinstance(each, str)]
    known = isinstance(value, tuple(each for each in members if isinstance(each, type)))
    known = known or (bool(names) and all(hasattr(value, each) for each in names))
    if not known or isinstance(value, type):
        raise TypeError(f"`{name}` must be {rule}. Got {describe(value)}.")


def is_oracle(value: Any) -> TypeGuard[Oracle]:
    """Whether a value can be asked for atoms; a pandas frame has a `query` too."""
    atoms = getattr(value, "atoms", None)
    return callable(getattr(value, "query", None)) and hasattr(atoms, "take") and hasattr(atoms, "blocks")


def oracle(value: Any, name: str) -> Oracle:
    """Return an oracle, or raise TypeError."""
    if not is_oracle(value):
        raise TypeError(f"`{name}` must be an oracle such as Scan(atoms). Got {describe(value)}.")
    return value


# ---------------------------------------------------------------- numbers that float64 holds

EXACT = 2**53  # whole numbers up to this size are all floats; beyond it, most are not

HELD = (
    "made of numbers that float64 holds exactly, as whole ones up to 2^53 are; "
    "subtract an offset (of time stamps, the first), leave out what is a key, "
    "or round them yourself with .astype(float)"
)

_SLICE = 1 << 20  # entries that are looked into at once


def require_exact(values: np.ndarray[Any, Any], name: str, rows: int | Ids = 0) -> None:
    """Raise ValueError if a cast to float64 changes an integer, naming the first.

    Only integers of 64 bits are looked at: narrower ones are floats, all of them. `rows` is what the first
    row is called, or each of them.
    """
    wide_integers = values.dtype.kind in "iu" and values.dtype.itemsize > 4
    if not wide_integers or not values.size:
        return
    if int(values.max()) <= EXACT and int(values.min()) >= -EXACT:  # two reads, and nothing is copied
        return
    values = np.atleast_1d(values)
    step = max(1, _SLICE // values[0].size)
    for first in range(0, len(values), step):
        part = values[first : first + step]
        wide = part.astype(np.float64)
        beyond = wide == (2.0**64 if part.dtype.kind == "u" else 2.0**63)  # what it casts to is undefined
        changed = beyond | (np.where(beyond, 0.0, wide).astype(part.dtype) != part)
        if changed.any():
            place = tuple(np.argwhere(changed)[0].tolist())
            row = rows + first + place[0] if isinstance(rows, int) else int(rows[first + place[0]])
            raise ValueError(f"`{name}` must be {HELD}. Got {part[place]} {_tell(row, *place[1:])}.")


def _tell(*place: int) -> str:
    if len(place) == 2:
        return f"in row {place[0]}, column {place[1]}"
    return f"at index {place[0] if len(place) == 1 else place}"


def join_numbers(parts: Sequence[np.ndarray[Any, Any]], name: str) -> np.ndarray[Any, Any]:
    """Return arrays one after the other; integers that are rounded because others are floats are refused."""
    if np.result_type(*parts).kind == "f":
        for first, part in zip(np.cumsum([0, *map(len, parts)]).tolist(), parts, strict=False):
            require_exact(part, name, first)
    return np.concatenate(parts)


def cast_objects(values: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Return Python's own numbers: integers as int64, where labels stay apart, others as float64.

    One beyond 2^53 that is no float is refused; smaller decimal fractions are rounded to
    nearest, as those of a text are.
    """
    if all(isinstance(value, (int, np.integer)) for value in values):
        with contextlib.suppress(OverflowError):
            return values.astype(np.int64)
    try:
        out = values.astype(np.float64)
    except OverflowError:  # an integer beyond all floats
        raise ValueError(f"`{name}` must be {HELD}. Got more than {math.inf}.") from None
    require_same(values.tolist, out, name)
    return out


def require_unrounded(value: Any, out: np.ndarray[Any, Any], name: str) -> None:
    """Raise ValueError if integers were rounded when a list or a frame became one array of floats."""
    if out.dtype.kind != "f" or not (np.abs(out) >= EXACT).any():
        return
    columns: Iterable[Any] = ()
    if hasattr(value, "iloc") and hasattr(value, "columns"):  # pandas
        columns = (value.iloc[:, i] for i in range(value.shape[1]))
    elif hasattr(value, "get_columns") or hasattr(value, "itercolumns"):  # polars, Arrow
        columns = value.get_columns() if hasattr(value, "get_columns") else value.itercolumns()
    for column in columns:
        require_exact(np.asarray(column), name)
    if isinstance(value, (list, tuple)):
        require_same(lambda: np.asarray(value, object).reshape(out.shape), out, name)


def require_same(read: Callable[[], Any], out: np.ndarray[Any, Any], name: str) -> None:
    """Raise ValueError if a number beyond 2^53 is not what it became; what it was is read only then."""
    large = np.argwhere(np.abs(out) >= EXACT).tolist()
    kept = np.asarray(read(), object) if large else out
    for place in map(tuple, large):
        if kept[place] != float(out[place]):
            raise ValueError(f"`{name}` must be {HELD}. Got {kept[place]} {_tell(*place)}.")


# ---------------------------------------------------------------- names as people type them


P = ParamSpec("P")
R = TypeVar("R")

_MEANT = {
    "by": "stratify groups strata",
    "seed": "random_state rng",
    "rtol": "tol tolerance",
    "max_steps": "max_iter maxiter",
    "max_seconds": "timeout",
    "m": "n_samples k",
    "row_weights": "sample_weight",
    "start": "x0 warm_start",
    "progress": "verbose",
    "model": "formula",
    "criterion": "optimality",
    "query": "search kneighbors",
    "append": "add",
}
FOREIGN = {word: ours for ours, words in _MEANT.items() for word in words.split()}
"""Words of scikit-learn, scipy, faiss and R -> ours."""


def make_named(value: Any, table: Mapping[str, Callable[[], Any]], name: str) -> Any:
    """Return what a text names in a table, with its usual settings; anything that is no text as it is."""
    if not isinstance(value, str):
        return value
    if value not in table:
        require(False, name, f"one of {', '.join(table)}", repr(value))
    return table[value]()


def suggest(word: str, known: Collection[str]) -> str:
    """Return what a word may have meant, as the end of an error; "" if nobody knows."""
    ours = FOREIGN.get(word, "")
    close = [ours] if ours in known else difflib.get_close_matches(word, list(known), 1)
    return f" Did you mean `{close[0]}`?" if close else ""


def hint_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function say of a keyword that it does not take which one may have been meant."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        for word in options:
            if word not in known:
                raise TypeError(f"{function.__name__}() takes no `{word}`.{suggest(word, known)}")
        return function(*args, **options)

    return call

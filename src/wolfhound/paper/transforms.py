"""Maps phi of queries and psi of atoms that make a search one of inner products.

Pure functions in pairs, after Shrivastava, Song and Xu: the atom is wanted that
has the largest <phi(x), psi(y)>. Rows in, rows out: (m, a) real arrays become (m, b)
float64 arrays, each row by itself, so that `MappedAtoms` can apply them.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike

from wolfhound.core.contracts import AtomsLike, Ids, Ints, Matrix, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import gamma
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import (
    count,
    number,
    real_array,
    require,
    require_finite,
    require_moderate,
    rng,
    vector,
    within,
)
from wolfhound.data.atoms import as_atoms, block_rows, check_finite

_DEGREE = 100
"""Of a polynomial, at most."""


def shift_query(x: ArrayLike, grad: ArrayLike) -> Vector:
    """phi0(x) = [grad g(x), <x, grad g(x)>]: (m, d) points to (m, d+1).

    ``<phi0(x), psi0(y)> = -<y - x, grad g(x)>``, the gap at x along the atom y.

    Examples
    --------
    >>> x, grad, y = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]]), np.array([[0.0, 1.0]])
    >>> shift_query(x, grad) @ shift_atom(y).T, -(y - x) @ grad.T
    (array([[2.]]), array([[2.]]))
    """
    points, slopes = _pair(x, grad, "x", "grad")
    return np.hstack([slopes, _dots(points, slopes)])


def shift_atom(y: ArrayLike) -> Vector:
    """psi0(y) = [-y, 1]: (m, d) atoms to (m, d+1); see `shift_query`."""
    rows = _rows(y, "y")
    return np.hstack([-rows, np.ones((len(rows), 1))])


def policy_query(pi: ArrayLike, grad: ArrayLike) -> Vector:
    """phi0(s, pi) = [grad_a Q, <pi, grad_a Q>]: (m, d) actions to (m, d+1).

    ``<phi0, psi0(a)> = <a - pi(s), grad_a Q(s, pi(s))>``, what the action a gains. (The
    paper prints Q for its gradient in the last entry: pi(s) would not gain 0.)

    Examples
    --------
    >>> policy_query([[0.5]], [[0.6]]) @ policy_atom([[0.5], [1.5]]).T
    array([[0. , 0.6]])
    """
    actions, slopes = _pair(pi, grad, "pi", "grad")
    return np.hstack([slopes, _dots(actions, slopes)])


def policy_atom(a: ArrayLike) -> Vector:
    """psi0(a) = [a, -1]: (m, d) actions to (m, d+1); see `policy_query`."""
    rows = _rows(a, "a")
    return np.hstack([rows, -np.ones((len(rows), 1))])


def sphere_query(x: ArrayLike, size: ArrayLike) -> Vector:
    """phi1(x) = [x/D_x, 0, sqrt(1 - |x/D_x|^2)]: (m, a) queries to (m, a+2).

    Rows have norm 1, and ``<phi1(x), psi1(y)> = <x, y> / (D_x D_y)``. D_x = `size` is at
    least the norm of every row, or (m,), one for each: with |x| itself no query
    collapses to a pole.

    Examples
    --------
    >>> 5.0 * 2.0 * sphere_query([[3.0, 4.0]], 5.0) @ sphere_atom([[0.0, 1.0]], 2.0).T
    array([[4.]])
    """
    unit, rest = _on_sphere(_rows(x, "x"), size)
    return np.hstack([unit, np.zeros_like(rest), rest])


def sphere_atom(y: ArrayLike, size: ArrayLike) -> Vector:
    """psi1(y) = [y/D_y, sqrt(1 - |y/D_y|^2), 0]: (m, a) atoms to (m, a+2).

    D_y = `size` is at least the norm of every row, or (m,), one for each, such as
    ``upper[owner]`` of `norm_ranges`; see `sphere_query`.
    """
    unit, rest = _on_sphere(_rows(y, "y"), size)
    return np.hstack([unit, rest, np.zeros_like(rest)])


def paper_query(x: ArrayLike, grad: ArrayLike, size: ArrayLike) -> Vector:
    """phi(x) = phi1(phi0(x)): (m, d) points to (m, d+3), on the sphere.

    ``<y - x, grad g(x)> = -D_x D_y <phi(x), psi(y)>`` with D_x = `size`, at least the norm
    of every phi0(x); `theory.lift_norms` has bounds for a whole run.
    """
    return sphere_query(shift_query(x, grad), size)


def paper_atom(y: ArrayLike, size: ArrayLike) -> Vector:
    """psi(y) = psi1(psi0(y)): (m, d) to (m, d+3), D_y >= sqrt(1 + |y|^2); see `paper_query`."""
    return sphere_atom(shift_atom(y), size)


def norm_ranges(norms: Vector, ranges: int) -> tuple[Ids, Vector]:
    """Group n atoms by norm; with one lift per group, short atoms are not crushed.

    With one D_y for all, short atoms are lifted to nearly the same pole. Groups
    have nearly equal sizes; equal norms share a group, so there may be fewer.
    Returns (n,) the group of each atom, the shortest first, and (groups,) the largest
    norm of each group, its D_y.

    Examples
    --------
    >>> norm_ranges(np.array([5.0, 1.0, 2.0, 9.0]), 2)
    (array([1, 0, 0, 1]), array([2., 9.]))
    """
    lengths, groups = vector(norms, "norms"), count(ranges, "ranges", low=1)
    require(len(lengths) > 0, "norms", "non-empty", "none")
    groups = min(groups, len(lengths))
    last = -(-np.arange(1, groups + 1) * len(lengths) // groups) - 1
    upper = np.unique(np.sort(lengths)[last])
    return np.searchsorted(upper, lengths).astype(np.int64), upper


def polynomial_dim(k1: int, k2: int, degree: int) -> int:
    """Columns of `polynomial_query`: ``k1 + C(k2 + 1 + D, D)``.

    Examples
    --------
    >>> polynomial_dim(0, 3, 3)
    35
    """
    return count(k1, "k1") + math.comb(count(k2, "k2") + 1 + _degree(degree, "degree"), degree)


def polynomial_query(a1: ArrayLike, a2: ArrayLike, coefficients: ArrayLike) -> Vector:
    """phi with ``<phi, psi> = <a1, b1> + p(|a2 - b2|^2)``, psi of `polynomial_atom`.

    As ``|a - b|^2 = |a|^2 + <[-2a, 1], [b, |b|^2]>``, Taylor's series of p at |a|^2 is a
    sum over the monomials of (b, |b|^2) up to degree D, with multinomial weights.
    (The paper sums (a_j - b_j)^(2i) over j, which is not |a - b|^(2i).)

    (m, k1) `a1` and (m, k2) `a2` are phi_1(x) and phi_2(x) of the proposition, k1 may be
    0; (D+1,) `coefficients` are those of ``p(z) = sum_i a_i z^i``, the constant first.

    Examples
    --------
    >>> none, p = np.empty((1, 0)), [0.0, 0.0, 1.0]
    >>> polynomial_query(none, [[1.0, 0.0]], p) @ polynomial_atom(none, [[0.0, 1.0]], 2).T
    array([[4.]])
    """
    left, right = _pair(a1, a2, "a1", "a2", columns=False)
    p = vector(coefficients, "coefficients")
    require(len(p) > 0, "coefficients", "non-empty", "none")
    _degree(len(p) - 1, "coefficients")
    columns = np.hstack([-2.0 * right, np.ones((len(right), 1))])
    at, parts = _dots(right, right), [left]
    with np.errstate(over="ignore", invalid="ignore"):
        for g, (places, weights) in enumerate(_monomials(columns.shape[1], len(p) - 1)):
            taylor = polyval(at, np.array([math.comb(i, g) * p[i] for i in range(g, len(p))]))
            parts.append(taylor * (weights * _products(columns, places)))
    return _require_held(np.hstack(parts), "a2")


def polynomial_atom(b1: ArrayLike, b2: ArrayLike, degree: int) -> Vector:
    """psi = [b1, the monomials of (b2, |b2|^2) up to D = `degree`]; see `polynomial_query`."""
    left, right = _pair(b1, b2, "b1", "b2", columns=False)
    columns = np.hstack([right, _dots(right, right)])
    table = _monomials(columns.shape[1], _degree(degree, "degree"))
    with np.errstate(over="ignore", invalid="ignore"):
        return _require_held(np.hstack([left, *(_products(columns, places) for places, _ in table)]), "b2")


@functools.lru_cache(maxsize=8)
def _monomials(variables: int, degree: int) -> list[tuple[Ints, Vector]]:
    """(r, g) factors of the r monomials of degree g = 0 .. D, and multinomial weights."""
    table = []
    for g in range(degree + 1):
        places = np.array(list(itertools.combinations_with_replacement(range(variables), g)), np.int64)
        run, repeats = np.ones(len(places)), np.ones(len(places))
        for t in range(1, g):
            run = np.where(places[:, t] == places[:, t - 1], run + 1.0, 1.0)
            repeats *= run
        table.append((places, math.factorial(g) / repeats))
    return table


def _products(columns: Vector, places: Ints) -> Vector:
    """(m, r) products of the columns that make each monomial."""
    out = np.ones((len(columns), len(places)))
    for factors in places.T:
        out *= columns[:, factors]
    return out


def squared_min_ip_query(x: ArrayLike, direction: ArrayLike, alpha: float) -> Vector:
    """[2 alpha x - direction, -alpha], for the least <y - x, direction> + alpha |x - y|^2.

    ``<phi, psi> = alpha |x|^2 - <x, direction> - value``. The norm itself has no such
    pair: see `regularized_min_ip`.
    """
    points, slopes = _pair(x, direction, "x", "direction")
    weight = _weight(alpha)
    return np.hstack([2.0 * weight * points - slopes, np.broadcast_to(-weight, (len(points), 1))])


def squared_min_ip_atom(y: ArrayLike) -> Vector:
    """[y, |y|^2]: (m, d) atoms to (m, d+1); see `squared_min_ip_query`."""
    rows = _rows(y, "y")
    require_moderate(rows, "y")
    return np.hstack([rows, _dots(rows, rows)])


def regularized_min_ip(
    atoms: AtomsLike, x: ArrayLike, direction: ArrayLike, alpha: float
) -> tuple[int, float]:
    """(phi, alpha)-MinIP: id and value of the least <y - x, phi(x)> + alpha |x - y|.

    One pass, exact but for the rounding of float64; equal values give the
    smallest id. `direction` is phi(x), such as the gradient at x.

    Examples
    --------
    >>> regularized_min_ip([[-4.0], [-1.0], [0.0]], [0.0], [1.0], 0.5)
    (0, -2.0)
    """
    table = as_atoms(atoms)
    point = vector(x, "x", size=table.shape[1])
    slope = vector(direction, "direction", size=table.shape[1])
    weight = _weight(alpha)
    require_moderate(point, "x")
    require_moderate(slope, "direction")

    def least(task: tuple[int, Matrix]) -> tuple[int, int, float]:
        first, block = task
        check_finite(block, first)
        require_moderate(block, "atoms")
        away = block - point
        values = np.einsum("ij,j->i", away, slope) + weight * np.sqrt(_dots(away, away)[:, 0])
        place = int(values.argmin())
        return len(block), first + place, float(values[place])

    best = (-1, math.inf)
    for size, atom, value in map_ordered(least, table.blocks(block_rows(table))):
        report_rows(size)
        best = (atom, value) if value < best[1] else best
    return best


def projection_dim(n: int, eps: float, *, delta: float = 0.01) -> int:
    """Dimensions that keep all squared distances of n points within 1 +- eps.

    ``(4 ln n + 2 ln(1/delta)) / (eps^2/2 - eps^3/3)``, with probability 1 - delta: the bound
    of Dasgupta and Gupta (2003), whose 4 ln n alone promises only 1/n.

    Examples
    --------
    >>> projection_dim(10**6, 0.5), projection_dim(10**6, 0.1)
    (774, 13816)
    """
    within(eps, "eps", "(0, 1)")
    within(delta, "delta", "(0, 1)")
    logarithms = 4.0 * math.log(count(n, "n", low=1)) - 2.0 * math.log(delta)
    exact = Fraction(eps)  # whose cube may be below float64
    return math.ceil(Fraction(logarithms) / (exact**2 / 2 - exact**3 / 3))


def johnson_lindenstrauss(d: int, dim: int, seed: int | np.random.Generator = 0) -> Vector:
    """(d, dim) independent N(0, 1/dim): ``rows @ matrix`` keeps distances, see `projection_dim`."""
    shape = count(d, "d", low=1), count(dim, "dim", low=1)
    require(math.prod(shape) < 2**59, "dim", "so small that d * dim < 2^59", dim)
    return rng(seed).standard_normal(shape) / math.sqrt(dim)


def _rows(value: Any, name: str) -> Vector:
    """Return finite float64 rows; there may be none."""
    rows = np.ascontiguousarray(real_array(value, name, 2), np.float64)
    require_finite(rows, name)
    return rows


def _pair(a: Any, b: Any, first: str, second: str, *, columns: bool = True) -> tuple[Vector, Vector]:
    """Return rows of two arguments: as many of both, with as many columns."""
    one, other = _rows(a, first), _rows(b, second)
    alike = one.shape == other.shape if columns else len(one) == len(other)
    require(alike, second, f"like `{first}`, of shape {one.shape}", f"shape {other.shape}")
    require_moderate(one, first)
    require_moderate(other, second)
    return one, other


def _weight(alpha: float) -> Vector:
    """Return alpha as a vector of one."""
    weight = vector([number(alpha, "alpha")], "alpha")
    require_moderate(weight, "alpha")
    return weight


def _degree(value: int, name: str) -> int:
    """Return a degree whose factorial float64 can hold."""
    require(count(value, name) <= _DEGREE, name, f"of a degree <= {_DEGREE}", value)
    return value


def _require_held(out: Vector, name: str) -> Vector:
    """Return polynomials, all of which float64 can hold."""
    require(
        bool(np.isfinite(out).all()), name, "so small that no power overflows; scale the problem", "others"
    )
    return out


def _dots(a: Vector, b: Vector) -> Vector:
    """(m, 1) inner products of rows."""
    return np.asarray(np.einsum("ij,ij->i", a, b)[:, None])


def _on_sphere(rows: Vector, size: ArrayLike) -> tuple[Vector, Vector]:
    """Rows divided by their sizes, and (m, 1) what is missing to norm 1."""
    sizes = real_array(size, "size", np.ndim(size)).astype(np.float64)
    require(sizes.shape in ((), (len(rows),)), "size", f"a number or {len(rows)} of them", sizes.shape)
    require(bool((sizes > 0.0).all() and (sizes < np.inf).all()), "size", "finite and > 0", size)
    with np.errstate(over="ignore"):
        unit = rows / sizes.reshape(-1, 1)
        squares = _dots(unit, unit)
    longest = float(squares.max(initial=0.0))
    within = longest <= 1.0 + 2.0 * gamma(rows.shape[1] + 4)
    rule = "at least the norm of every row (not a diameter)"
    require(within, "size", rule, f"one {math.sqrt(longest):.3g} times too small")
    return unit, np.sqrt(np.maximum(1.0 - squares, 0.0))

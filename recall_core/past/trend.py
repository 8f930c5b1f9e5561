"""A change point in a series of nights, instead of an alarm on a single one.

The question is whether the order of the nights matters. For each place to cut the series in two, the
binomial likelihood ratio says how much better two shares explain it than one; the largest of these is held
against the same maximum in series with the nights in random order. That is exact whatever the spread of a
night, which matters here: the same cases are asked every night, so counts vary less than binomially. The
largest of the ratios is that of Hinkley and Hinkley (Biometrika 1970); p counts the series itself among
the permutations (Phipson and Smyth, 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

ALPHA = 0.01
"""Chance of a false alarm in one night, over all its series together."""
NIGHTS = 30
"""The longest series that is looked at."""
PERMUTATIONS = 9_999


class Change(NamedTuple):
    """The likeliest change of a series. `at`: index of the first night after it; `p`: of no change at all."""

    at: int
    p: float


def change_point(hits: Sequence[int], n: Sequence[int], seed: int = 0) -> Change:
    """Where a series of counts changed, if it did; (nights,) each.

    One odd night at the end is not a change: in random order it would stand at an end of m nights two times
    in m. A constant series, or one of fewer than two nights, has p = 1. The seed is fixed, so that a report
    can be made again.
    """
    found, asked = np.asarray(hits, dtype=np.float64), np.asarray(n, dtype=np.float64)
    if len(found) < 2 or not asked.all() or np.ptp(found / asked) == 0:
        return Change(len(found), 1.0)
    rng = np.random.default_rng(seed)
    orders = rng.permuted(np.tile(np.arange(len(found)), (PERMUTATIONS, 1)), axis=1)
    (own,) = _ratios(found[None], asked[None])
    others = _ratios(found[orders], asked[orders]).max(axis=1)
    reached = int((others >= own.max() - 1e-9).sum())
    return Change(int(own.argmax()) + 1, (1 + reached) / (1 + PERMUTATIONS))


def fewest_nights(tests: int) -> int:
    """The shortest series in which a change can be shown at all, with that many series in a night.

    Half its nights at one share and half at another: of all orders, two are as far apart.
    """
    nights = 2
    while 2 / comb(nights, nights // 2) > ALPHA / max(tests, 1):
        nights += 1
    return nights


def _ratios(hits: NDArray[np.float64], n: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log likelihood ratio of every cut: (series, nights) -> (series, nights - 1)."""
    left, asked = hits.cumsum(axis=1), n.cumsum(axis=1)
    fits = [
        xlogy(found, found / of) + xlogy(of - found, 1 - found / of)
        for found, of in (
            (left[:, :-1], asked[:, :-1]),
            (left[:, -1:] - left[:, :-1], asked[:, -1:] - asked[:, :-1]),
            (left[:, -1:], asked[:, -1:]),
        )
    ]
    ratios: NDArray[np.float64] = fits[0] + fits[1] - fits[2]
    return ratios

"""How sure a share is."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import pandas as pd
import pytest

from recall_core.stats import share, wilson, with_intervals


def by_formula(hits: int, n: int, confidence: float) -> tuple[float, float]:
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p = hits / n
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return middle - half, middle + half


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("hits", "n"), [(0, 5), (1, 5), (5, 5), (18, 25), (1, 1), (500, 1000)])
def test_wilson_is_the_closed_formula(hits: int, n: int, confidence: float) -> None:
    assert wilson(hits, n, confidence) == pytest.approx(by_formula(hits, n, confidence), abs=1e-9)


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_agrees_with_the_table_of_newcombe(hits: int, n: int, low: float, high: float) -> None:
    """Newcombe, Statistics in Medicine 17 (1998), table I, method 3."""
    assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)


def test_no_cases_leave_the_share_open() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_wilson_is_the_same_seen_from_the_other_side() -> None:
    low, high = wilson(3, 10)
    assert wilson(7, 10) == pytest.approx((1 - high, 1 - low))


def test_share_says_percent_count_and_interval() -> None:
    assert share(18, 25) == "72.0% (18/25) [52, 86]"
    assert share(0, 5) == "0.0% (0/5) [0, 43]"
    assert share(5, 5) == "100.0% (5/5) [57, 100]"
    assert share(0, 0) == "no cases"


def test_intervals_join_the_counts_and_a_share_of_nothing_is_no_number() -> None:
    table = with_intervals(pd.DataFrame({"metric": ["a", "b"], "hits": [1, 0], "n": [4, 0]}))
    assert list(table["metric"]) == ["a", "b"]
    assert table["share"][0] == 1 / 4
    assert pd.isna(table["share"][1])
    assert (table["low"][0], table["high"][0]) == pytest.approx(by_formula(1, 4, 0.95))
    assert (table["low"][1], table["high"][1]) == (0.0, 1.0)

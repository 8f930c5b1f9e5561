"""How sure a share is."""

from __future__ import annotations

from math import comb, sqrt
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from builders import examples
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import bootstrap

from recall_core.stats import auroc, mcnemar, paired_bootstrap, share, wilson, with_intervals


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


# McNemar


def both_tails(one: int, two: int) -> float:
    """Twice the smaller tail of a fair coin thrown once for each case that changed."""
    changed = one + two
    return min(1.0, 2 * sum(comb(changed, k) for k in range(min(one, two) + 1)) / 2**changed)


@pytest.mark.parametrize(
    ("lost", "gained", "p"),
    [
        (1, 6, 2 * (1 + 7) / 2**7),
        (0, 5, 2 * 1 / 2**5),
        (0, 1, 1.0),
        (2, 9, 2 * (1 + 11 + 55) / 2**11),
        (3, 3, 1.0),
        (3, 4, 1.0),
    ],
)
def test_mcnemar_is_a_coin_thrown_for_each_changed_case(lost: int, gained: int, p: float) -> None:
    assert mcnemar(lost, gained) == pytest.approx(p, rel=1e-12)
    assert mcnemar(gained, lost) == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize("lost", [0, 1, 7, 30])
@pytest.mark.parametrize("gained", [1, 2, 20, 45])
def test_mcnemar_is_exact_for_larger_counts_too(lost: int, gained: int) -> None:
    assert mcnemar(lost, gained) == pytest.approx(both_tails(lost, gained), rel=1e-9)


def test_no_change_is_no_evidence() -> None:
    assert mcnemar(0, 0) == 1.0


# The paired bootstrap

MONTE_CARLO = 0.15
"""Of a standard error. The 2.5% quantile of 10,000 draws has a deviation of sqrt(.025 * .975 / 10,000) over
the density there, 0.0584 an error: 0.027 errors. Of two such quantiles the difference deviates by 0.038; this
is four times that. A 90% interval would be off by 1.96 - 1.64 = 0.32."""


def some_differences(n: int = 80) -> NDArray[np.float64]:
    return np.random.default_rng(5).normal(0.3, 1.0, n)


def test_the_bootstrap_agrees_with_scipy() -> None:
    values = some_differences()
    found = bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=1).confidence_interval
    error = values.std() / sqrt(len(values))
    assert paired_bootstrap(values) == pytest.approx((found.low, found.high), abs=MONTE_CARLO * error)


def test_the_bootstrap_of_unequal_clusters_agrees_with_scipy() -> None:
    """Sum over size, both of the drawn clusters: a ratio, which scipy resamples in pairs."""
    values = some_differences()
    labels = np.repeat(np.arange(40), [1, 3] * 20)
    sums = np.array([values[labels == label].sum() for label in range(40)])
    sizes = np.array([1.0, 3.0] * 20)
    found = bootstrap(
        (sums, sizes),
        lambda s, n, axis: s.sum(axis=axis) / n.sum(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=10_000,
        rng=1,
    )
    low, high = found.confidence_interval
    assert paired_bootstrap(values, [f"topic {label}" for label in labels]) == pytest.approx(
        (low, high), abs=MONTE_CARLO * found.standard_error
    )


def test_clusters_are_drawn_whole() -> None:
    differences, clusters = [1, 1, 1, 0, 0, 0], ["a", "a", "a", "b", "b", "b"]
    # Six cases on their own: none of the ones is drawn with 1/64 = 1.6%, at most one with 7/64 = 10.9%; 2.5%
    # lies between. Two clusters: the same one is drawn twice half of the time.
    assert paired_bootstrap(differences) == (1 / 6, 5 / 6)
    assert paired_bootstrap(differences, clusters) == (0.0, 1.0)


def test_a_large_cluster_weighs_by_its_cases() -> None:
    # a and a: 1, with 1/4. a and b, in either order: 1 of 4 cases, with 1/2. b and b: 0, with 1/4.
    assert paired_bootstrap([1, 0, 0, 0], list("abbb"), confidence=0.4) == (1 / 4, 1 / 4)


def test_clusters_need_not_stand_together() -> None:
    assert paired_bootstrap([1, 0, 1, 0, 1, 0], list("ababab")) == (0.0, 1.0)


@pytest.mark.parametrize("difference", [-1.0, 0.0, 0.1])
def test_equal_differences_leave_no_width(difference: float) -> None:
    assert paired_bootstrap([difference] * 30) == pytest.approx((difference, difference), abs=1e-12)


def test_the_bootstrap_is_the_same_each_time_and_another_with_another_seed() -> None:
    values = some_differences()
    assert paired_bootstrap(values) == paired_bootstrap(values)
    assert paired_bootstrap(values) != paired_bootstrap(values, seed=1)


def test_the_order_of_the_cases_does_not_matter() -> None:
    values = some_differences()
    error = values.std() / sqrt(len(values))
    mixed = np.random.default_rng(2).permutation(values)
    assert paired_bootstrap(mixed) == pytest.approx(paired_bootstrap(values), abs=MONTE_CARLO * error)


def test_less_confidence_is_a_narrower_interval() -> None:
    low, high = paired_bootstrap(some_differences(), confidence=0.5)
    wide_low, wide_high = paired_bootstrap(some_differences())
    # A normal curve: 2 * 0.674 errors against 2 * 1.960, each end within the Monte-Carlo error.
    assert (high - low) / (wide_high - wide_low) == pytest.approx(0.674 / 1.960, abs=0.05)


def test_no_cases_have_no_interval() -> None:
    assert np.isnan(paired_bootstrap([])).all()
    assert np.isnan(paired_bootstrap([], [])).all()


# AUROC

signals = st.lists(st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 1.0, np.inf]), min_size=1, max_size=8)


@examples
@given(signals, signals)
def test_auroc_counts_the_pairs_in_order(positive: list[float], negative: list[float]) -> None:
    pairs = [(above > below) + (above == below) / 2 for above in positive for below in negative]
    assert auroc(positive, negative) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


@pytest.mark.parametrize(
    ("positive", "negative", "area"),
    [
        ([0.8, 0.9], [0.1, 0.2, 0.3], 1.0),
        ([0.1], [0.8, 0.9], 0.0),
        ([0.5, 0.5], [0.5], 0.5),
        ([0.35, 0.8], [0.1, 0.4], 3 / 4),
        ([0.6, 0.4], [0.4], (1 + 1 / 2) / 2),
    ],
)
def test_auroc_of_what_can_be_seen(positive: list[float], negative: list[float], area: float) -> None:
    assert auroc(positive, negative) == area


def test_auroc_needs_both_sides() -> None:
    assert np.isnan(auroc([], [0.5]))
    assert np.isnan(auroc([0.5], []))

"""Bounds that are promised, cases that are needed, and confidence against what came true."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations
from math import ceil, log

import numpy as np
import pytest
from builders import few_examples
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, bootstrap, mannwhitneyu
from sklearn.calibration import calibration_curve

from recall_core.records import InputError
from recall_core.stats import (
    aurc,
    auroc_interval,
    calibration_error,
    clopper_pearson_upper,
    mcnemar,
    reliability,
    silent_needed,
    silent_needed_to_tell,
)

# The bound that is promised


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("hits", "n"), [(0, 30), (0, 59), (3, 40), (39, 40), (40, 40), (0, 1)])
def test_the_upper_bound_is_that_of_scipy(hits: int, n: int, confidence: float) -> None:
    exact = binomtest(hits, n, alternative="less").proportion_ci(confidence, method="exact")
    assert clopper_pearson_upper(hits, n, confidence) == pytest.approx(exact.high, abs=1e-9)


def test_none_in_thirty_still_allow_nine_and_a_half_percent() -> None:
    assert clopper_pearson_upper(0, 30) == pytest.approx(1 - 0.05 ** (1 / 30))
    assert round(clopper_pearson_upper(0, 30), 3) == 0.095
    assert round(clopper_pearson_upper(0, 59), 4) == 0.0495


def test_no_cases_promise_nothing() -> None:
    assert clopper_pearson_upper(0, 0) == 1.0


@pytest.mark.parametrize(
    ("max_false", "confidence", "n"),
    [(0.05, 0.95, 59), (0.05, 0.9, 45), (0.1, 0.95, 29), (0.01, 0.95, 299), (0.97, 0.95, 1)],
)
def test_the_silent_cases_a_promise_needs(max_false: float, confidence: float, n: int) -> None:
    assert silent_needed(max_false, confidence) == n == ceil(log(1 - confidence) / log(1 - max_false))


@pytest.mark.parametrize("observed", [0, 1, 2, 7])
@pytest.mark.parametrize("max_false", [0.02, 0.1, 0.5])
def test_one_case_fewer_would_not_promise_it(observed: int, max_false: float) -> None:
    n = silent_needed(max_false, 0.95, observed)
    assert clopper_pearson_upper(observed, n) <= max_false < clopper_pearson_upper(observed, n - 1)


@pytest.mark.parametrize(
    ("max_false", "confidence", "said"), [(0.0, 0.9, "max_false"), (0.1, 1.0, "confidence")]
)
def test_a_promise_that_cannot_be_given_is_refused(max_false: float, confidence: float, said: str) -> None:
    with pytest.raises(InputError, match=f"{said} is"):
        silent_needed(max_false, confidence)


# The cases that tell two settings apart


@pytest.mark.parametrize(("p", "q"), [(0.1, 0.05), (0.05, 0.1), (0.2, 0.0), (0.5, 0.3), (0.04, 0.03)])
def test_one_case_fewer_would_not_tell_them_apart(p: float, q: float) -> None:
    """All change one way, so the exact test has p = 2 / 2^changes: 0.0625 of five, 0.03125 of six."""
    assert mcnemar(0, 6) <= 0.05 < mcnemar(0, 5)
    n = silent_needed_to_tell(p, q)
    assert binom.sf(5, n, abs(p - q)) >= 0.8 > binom.sf(5, n - 1, abs(p - q))


def test_the_power_is_what_simulated_fixtures_have() -> None:
    p, q, times = 0.12, 0.05, 4_000
    first = np.random.default_rng(11).random((times, silent_needed_to_tell(p, q)))
    changed = Counter(((first < p) & ~(first < q)).sum(axis=1))
    told = sum(seen for lost, seen in changed.items() if mcnemar(lost, 0) <= 0.05) / times
    # Four standard errors of a simulated share: 4 * sqrt(0.25 / 4000) = 0.032 at most.
    assert told == pytest.approx(0.8, abs=0.032)


def test_more_power_more_confidence_and_a_smaller_step_need_more_cases() -> None:
    plain = silent_needed_to_tell(0.1, 0.05)
    assert silent_needed_to_tell(0.1, 0.05, power=0.9) > plain
    assert silent_needed_to_tell(0.1, 0.05, confidence=0.99) > plain
    assert silent_needed_to_tell(0.1, 0.06) > plain


# AUROC with its interval

MONTE_CARLO = 0.2
"""Of a standard error: the quantiles of two bootstraps of 4,000 deviate by 0.06 from each other."""


def sides(n: int = 60, m: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    return rng.normal(0.8, 1, n).round(1), rng.normal(0, 1, m).round(1)


def area(positive, negative, axis: int = -1):
    pairs = np.shape(positive)[axis] * np.shape(negative)[axis]
    return mannwhitneyu(positive, negative, axis=axis, method="asymptotic").statistic / pairs


def test_the_interval_is_that_of_scipy() -> None:
    positive, negative = sides()
    found = bootstrap((positive, negative), area, method="percentile", n_resamples=4_000, rng=1)
    near = MONTE_CARLO * found.standard_error
    assert auroc_interval(positive, negative, resamples=4_000) == pytest.approx(
        tuple(found.confidence_interval), abs=near
    )


def test_the_clustered_interval_draws_topics_whole_on_both_sides() -> None:
    positive, negative = sides()
    topic = np.arange(60) % 7, np.arange(40) % 5
    rng = np.random.default_rng(1)
    areas = []
    for _ in range(4_000):
        drawn = rng.integers(0, 7, 7)
        up = np.concatenate([positive[topic[0] == name] for name in drawn])
        down = np.concatenate([negative[topic[1] == name] for name in drawn])
        if len(down):
            areas.append(((up[:, None] > down).mean() + (up[:, None] >= down).mean()) / 2)
    names = [[f"topic {label}" for label in side] for side in topic]
    found = auroc_interval(positive, negative, *names, resamples=4_000)
    assert found == pytest.approx(tuple(np.quantile(areas, [0.025, 0.975])), abs=MONTE_CARLO * np.std(areas))


def test_the_interval_holds_the_area_and_shrinks_with_confidence() -> None:
    low, high = auroc_interval(*sides())
    narrow_low, narrow_high = auroc_interval(*sides(), confidence=0.5)
    assert low < narrow_low < area(*sides()) < narrow_high < high


def test_areas_that_leave_no_doubt_have_no_width() -> None:
    assert auroc_interval([0.8, 0.9], [0.1, 0.2]) == (1.0, 1.0)
    assert auroc_interval([0.5] * 9, [0.5] * 9) == (0.5, 0.5)
    assert auroc_interval([np.inf, np.inf], [-np.inf]) == (1.0, 1.0)


def test_an_interval_needs_both_sides() -> None:
    assert np.isnan(auroc_interval([], [0.5])).all()
    assert np.isnan(auroc_interval([0.5], [])).all()


def test_many_cases_are_drawn_in_parts_and_give_what_one_part_gives(monkeypatch) -> None:
    at_once = auroc_interval(*sides(), resamples=50)
    monkeypatch.setattr("recall_core.stats.AT_ONCE", 1_000)
    in_parts = auroc_interval(*sides(), resamples=50)
    assert in_parts == pytest.approx(at_once, abs=0.05)
    assert in_parts != (np.nan, np.nan)


# Risk and coverage

judged = st.lists(
    st.tuples(st.sampled_from([-np.inf, 0.1, 0.5, 0.9, np.inf]), st.booleans()), min_size=1, max_size=6
)


def test_the_area_of_what_can_be_seen() -> None:
    # One answered: 0. Two: one of the tied pair, half an error. Three: 1. Four: 2.
    area = (0 + 0.5 / 2 + 1 / 3 + 2 / 4) / 4
    assert aurc([0.9, 0.8, 0.8, 0.1], [True, False, True, False]) == pytest.approx(area)


@few_examples
@given(judged)
def test_the_area_is_the_mean_over_all_orders_of_what_ties(cases) -> None:
    sure, right = (list(side) for side in zip(*cases, strict=True))
    areas = []
    for order in permutations(range(len(cases))):
        if all(sure[a] >= sure[b] for a, b in pairwise(order)):
            errors = np.cumsum([not right[case] for case in order])
            areas.append(np.mean(errors / np.arange(1, len(cases) + 1)))
    assert aurc(sure, right) == pytest.approx(np.mean(areas))


def test_scores_that_are_all_alike_leave_the_error_rate() -> None:
    assert aurc([0.5] * 4, [True, False, False, True]) == pytest.approx(2 / 4)


def test_the_best_order_has_the_smallest_area_and_the_worst_the_largest() -> None:
    best = aurc([4, 3, 2, 1], [True, True, False, False])
    assert best == pytest.approx((0 + 0 + 1 / 3 + 2 / 4) / 4)
    worst = aurc([1, 2, 3, 4], [True, True, False, False])
    assert worst == pytest.approx((1 + 1 + 2 / 3 + 2 / 4) / 4)


def test_one_case_or_none() -> None:
    assert aurc([0.3], [False]) == 1.0
    assert aurc([0.3], [True]) == 0.0
    assert np.isnan(aurc([], []))


# Calibration


def some_chances() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    sure = rng.random(400).round(2)
    return sure, rng.random(400) < sure**2


@pytest.mark.parametrize("bins", [1, 5, 10])
def test_reliability_is_that_of_scikit_learn(bins: int) -> None:
    sure, right = some_chances()
    true, stated = calibration_curve(right, sure, n_bins=bins)
    table = reliability(sure, right, bins)
    assert len(table) == bins
    held = table[table["n"] > 0]
    assert held["share"].tolist() == pytest.approx(true.tolist())
    assert held["confidence"].tolist() == pytest.approx(stated.tolist())


def test_the_gap_between_stated_and_true_by_hand() -> None:
    table = reliability([0.0, 0.5, 0.6, 0.9, 1.0], [False, True, True, True, False], bins=2)
    assert table[["left", "right"]].to_numpy().tolist() == [[0, 0.5], [0.5, 1]]
    assert (table["n"].tolist(), table["hits"].tolist()) == ([2, 3], [1, 2])
    gaps = abs((0.0 + 0.5) / 2 - 1 / 2), abs((0.6 + 0.9 + 1.0) / 3 - 2 / 3)
    assert calibration_error(table) == pytest.approx((2 * gaps[0] + 3 * gaps[1]) / 5)


def test_an_empty_bin_says_nothing() -> None:
    table = reliability([0.95, 0.95], [True, True], bins=2)
    assert np.isnan(table["confidence"][0])
    assert (table["low"][0], table["high"][0]) == (0.0, 1.0)
    assert calibration_error(table) == pytest.approx(0.05)
    assert np.isnan(calibration_error(reliability([], [])))

"""The promise holds as often as it says, and MAPIE finds the same settings."""

from __future__ import annotations

import numpy as np
import pytest
from mapie import risk_control
from mapie.risk_control import methods
from numpy.typing import NDArray
from scipy.stats import binom, binomtest

from recall_core.choosing.learn_then_test import (
    RefusedError,
    accepted,
    best_of,
    p_values,
    refuse_too_few,
)
from recall_core.records import InputError
from recall_core.stats import silent_needed

DRAWS = 4_000
THRESHOLDS = np.arange(200, -1, -1) / 200
"""Strictest first. A uniform score is above t with probability 1 - t, so the true rate of t is known."""


def test_a_p_value_is_the_chance_of_so_few_at_the_rate_that_breaks_the_promise() -> None:
    assert p_values(0, 45, 0.05) == pytest.approx(0.95**45)
    assert p_values(1, 63, 0.05) == pytest.approx(0.95**63 + 63 * 0.05 * 0.95**62)
    assert p_values(0, 0, 0.05) == 1, "without silent cases nothing is known"


@pytest.mark.parametrize(
    ("false", "silent", "rate"), [(0, 63, 0.05), (2, 63, 0.1), (7, 40, 0.2), (40, 40, 0.9)]
)
def test_a_p_value_is_that_of_scipys_one_sided_binomial_test(false: int, silent: int, rate: float) -> None:
    found = p_values(false, silent, rate)
    assert found == pytest.approx(binomtest(false, silent, rate, alternative="less").pvalue)


def test_fixed_sequence_testing_stops_at_the_first_that_is_not_rejected() -> None:
    p = [0.01, 0.09, 0.11, 0.02]
    assert accepted(p, 0.9).tolist() == [True, True, False, False]
    assert accepted([p, p[::-1]], 0.9).tolist() == [[True, True, False, False], [True, False, False, False]]


def test_the_best_answers_most_of_equals_the_strictest_and_something() -> None:
    answered = np.array([[0, 2, 5, 5, 9], [0, 0, 1, 2, 3]])
    kept = np.array([[True, True, True, True, False], [True, True, False, False, False]])
    assert best_of(answered, kept).tolist() == [2, -1]


@pytest.mark.parametrize(
    ("max_false", "confidence", "n"), [(0.05, 0.9, 45), (0.1, 0.9, 22), (0.05, 0.95, 59), (0.5, 0.5, 1)]
)
def test_the_fewest_silent_cases_are_those_of_the_rule(max_false: float, confidence: float, n: int) -> None:
    """(1 - max_false)^n must come down to 1 - confidence: 0.95^45 is 0.0994, 0.95^44 is 0.1047."""
    assert silent_needed(max_false, confidence) == n
    assert (1 - max_false) ** n <= 1 - confidence
    assert (1 - max_false) ** (n - 1) > 1 - confidence


def test_too_few_silent_cases_are_refused_with_the_number_missing() -> None:
    with pytest.raises(RefusedError) as caught:
        refuse_too_few(5, 0.05, 0.9)
    assert str(caught.value).endswith(
        "45 silent cases in the tune half would be needed, there are 5: 40 missing"
    )
    assert caught.value.exit_code == 2
    refuse_too_few(45, 0.05, 0.9)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 5.0, np.nan])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="max_false is"):
        refuse_too_few(99, share, 0.9)
    with pytest.raises(InputError, match="confidence is"):
        refuse_too_few(99, 0.05, share)


# ---- the promise, in draws of fixtures whose true rates are known


def above(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """(draws, thresholds): how many scores of each draw are above each threshold."""
    return np.array([len(draw) - np.searchsorted(np.sort(draw), THRESHOLDS, "right") for draw in scores])


def broken(silent_scores: NDArray[np.float64], max_false: float, rule: str) -> float:
    """The share of draws whose chosen setting has a true rate above `max_false`."""
    rng = np.random.default_rng(1)
    answered = above(rng.uniform(size=(len(silent_scores), 2_000)))
    false, n = above(silent_scores), silent_scores.shape[1]
    kept = false <= max_false * n if rule == "in_sample" else accepted(p_values(false, n, max_false), 0.9)
    best = best_of(answered, kept)
    true_rate = 1 - THRESHOLDS[best]
    return float(((best >= 0) & (true_rate > max_false + 1e-9)).mean())


@pytest.mark.parametrize(("n", "max_false"), [(45, 0.05), (63, 0.05), (63, 0.1), (120, 0.05)])
def test_the_promise_is_broken_in_at_most_one_draw_of_ten(n: int, max_false: float) -> None:
    """It is broken when the first setting beyond the promise is accepted, which has a rate of
    max_false + 1/200: with at most k spoken accepted that is P(Binomial(n, that) <= k), below 0.1.
    """
    scores = np.random.default_rng(n).uniform(size=(DRAWS, n))
    found = broken(scores, max_false, "fixed_sequence")
    k = binom.ppf(0.1, n, max_false) - (binom.cdf(binom.ppf(0.1, n, max_false), n, max_false) > 0.1)
    expected = binom.cdf(k, n, max_false + 1 / 200)
    four_sigma = 4 * np.sqrt(expected * (1 - expected) / DRAWS)
    assert expected < 0.1
    assert found == pytest.approx(expected, abs=four_sigma)


def test_the_best_in_sample_breaks_the_promise_in_about_half_of_the_draws() -> None:
    """Three of 63 may be seen spoken (4.8%), so the loosest setting with three is taken. Its rate is above
    5.5% in P(Binomial(63, 0.055) <= 3) = 54% of the draws.
    """
    scores = np.random.default_rng(0).uniform(size=(DRAWS, 63))
    found = broken(scores, 0.05, "in_sample")
    assert found == pytest.approx(binom.cdf(3, 63, 0.055), abs=0.04)
    assert 0.4 < found < 0.65


def test_what_the_promise_rests_on_silent_cases_that_are_one_case_break_it() -> None:
    """21 lives whose three silent cases are copies count as 63 and are 21: broken in 0.945^21 = 30%."""
    lives = np.random.default_rng(0).uniform(size=(DRAWS, 21))
    found = broken(np.repeat(lives, 3, axis=1), 0.05, "fixed_sequence")
    assert found == pytest.approx(0.945**21, abs=0.03)
    assert found > 0.2


def test_kinds_with_different_rates_do_no_harm() -> None:
    """A third of the silent cases is never spoken to: a mixture's count varies less than a binomial's."""
    scores = np.random.default_rng(0).uniform(size=(DRAWS, 63))
    scores[:, :21] = 0.0
    rng = np.random.default_rng(1)
    answered, false = above(rng.uniform(size=(DRAWS, 2_000))), above(scores)
    best = best_of(answered, accepted(p_values(false, 63, 0.05), 0.9))
    true_rate = (1 - THRESHOLDS[best]) * 42 / 63
    assert ((best >= 0) & (true_rate > 0.05)).mean() <= 0.1 + 3 * np.sqrt(0.09 / DRAWS)


# ---- MAPIE as an oracle


@pytest.mark.parametrize("max_false", [0.05, 0.1, 0.3])
def test_mapie_has_the_same_p_values(max_false: float) -> None:
    """Its p-value is the smaller of Hoeffding's bound and the binomial tail, which is always the tail.

    It goes by ceil(n * (k / n)), which float arithmetic makes k + 1 for some k, as 49 * (1 / 49) < 1 but
    55 * (7 / 55) > 7. There it is the larger: careful, and off by one. Everywhere else the two agree.
    """
    for n in (1, 20, 45, 49, 55, 63, 200):
        k = np.arange(n)
        theirs = methods.compute_hoeffding_bentkus_p_value(
            k / n, np.full(n, n), np.array([max_false]), binary=True
        )[:, 0]
        ours = p_values(k, n, max_false)
        exact = np.ceil(n * (k / n)) == k
        assert exact.mean() > 0.8
        np.testing.assert_allclose(theirs[exact], ours[exact], rtol=1e-9)
        assert (theirs[~exact] >= ours[~exact]).all()


@pytest.mark.parametrize("seed", range(6))
def test_mapie_accepts_the_same_settings_and_answers_as_many(seed: int) -> None:
    rng = np.random.default_rng(seed)
    silent, right = rng.beta(2, 5, size=150), rng.beta(4, 3, size=120)
    thresholds = np.linspace(0.005, 0.995, 34)
    controller = risk_control.BinaryClassificationController(
        predict_function=lambda x: np.column_stack([1 - x, x]),
        risk="fpr",
        target_level=0.1,
        confidence_level=0.9,
        best_predict_param_choice="recall",
        list_predict_params=thresholds,
        fwer_method="fixed_sequence",
    )
    controller.calibrate(np.r_[silent, right], np.r_[np.zeros(150), np.ones(120)])

    strict_first = thresholds[::-1]
    false = (silent[:, None] >= strict_first).sum(axis=0)
    answered = (right[:, None] >= strict_first).sum(axis=0)
    kept = accepted(p_values(false, 150, 0.1), 0.9)
    best = best_of(answered[None], kept[None])[0]

    assert 0 < kept.sum() < len(kept), "the comparison would be empty"
    assert sorted(strict_first[kept]) == sorted(controller.valid_predict_params)
    assert answered[best] == (right >= controller.best_predict_param).sum()

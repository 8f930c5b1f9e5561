"""Signals weighed into one: fitted with scikit-learn, applied without it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from builders import case_of, examples, row_lists
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from recall_core import gates, scoring
from recall_core.choosing import combine
from recall_core.choosing.combine import Combination
from recall_core.choosing.gate_file import opened_above
from recall_core.records import InputError

PLACES = ("right_first", "wrong_on_top", "silent")


def cases(n: int = 240, seed: int = 0) -> pd.DataFrame:
    """Right ones have more of `near` and `own`; wrong ones have as much of `near` and little of `own`."""
    rng = np.random.default_rng(seed)
    place = rng.choice(PLACES, n)
    near = rng.normal(0, 1, n) + 1.5 * (place != "silent")
    own = rng.normal(0, 1, n) + 1.5 * (place == "right_first")
    return pd.DataFrame(
        {
            "near": 0.8 + 0.05 * near,
            "own": own,
            "place": place,
            "answerable": place != "silent",
            "failed": False,
            "topic": [f"topic {i % 8}" for i in range(n)],
        }
    )


def combination(**more: object) -> Combination:
    given = {
        "target": "silent",
        "features": ("near", "own"),
        "means": (0.8, 1.0),
        "scales": (0.1, 2.0),
        "coefficients": (3.0, 0.5),
        "intercept": -1.0,
    }
    return Combination(**(given | more))


def table_of(place: list[str], **columns: list[float]) -> pd.DataFrame:
    failed = columns.pop("failed", [False] * len(place))
    answerable = [name != "silent" for name in place]
    return pd.DataFrame({**columns, "place": place, "answerable": answerable, "failed": failed})


# Applying


def test_a_score_is_arithmetic() -> None:
    rows = table_of(["silent", "silent"], near=[0.9, 0.8], own=[3.0, -1.0])
    found = combine.score(rows, combination())
    assert found.tolist() == pytest.approx([-1 + 3 * 1 + 0.5 * 1, -1 + 3 * 0 + 0.5 * -1])
    assert found.dtype == np.float64


def test_a_feature_counts_for_four_deviations_at_most() -> None:
    rows = table_of(["silent"] * 4, near=[np.inf, -np.inf, 99.0, 1.2], own=[1.0] * 4)
    high, low = -1 + 3 * 4, -1 - 3 * 4
    assert combine.score(rows, combination()).tolist() == pytest.approx([high, low, high, high])


def test_applying_needs_no_scikit_learn(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert len(combine.score(cases(), combination())) == 240


def test_a_combination_goes_through_json_unchanged() -> None:
    fitted = combine.fit(cases(), ["near", "own"], "rest")
    read = Combination(**json.loads(json.dumps(asdict(fitted))))
    assert combine.score(cases(), read).tobytes() == combine.score(cases(), fitted).tobytes()


def test_what_counts_against_an_answer_is_named() -> None:
    assert combination().reversed == ()
    assert combination(coefficients=(3.0, -0.5)).reversed == ("own",)


# Fitting


@pytest.mark.parametrize("target", ["silent", "rest"])
def test_the_fit_is_where_the_penalised_likelihood_is_flat(target) -> None:
    """Of C * sum of log-losses + |w|^2 / 2 the gradient is w - C * X'(y - p), and sum(y - p) for the bias."""
    rows = cases()
    fitted = combine.fit(rows, ["near", "own"], target)
    used = rows if target == "rest" else rows[rows["place"] != "wrong_on_top"]
    right = (used["place"] == "right_first").to_numpy()
    missed = right - 1 / (1 + np.exp(-combine.score(used, fitted)))
    values = (used[["near", "own"]].to_numpy() - fitted.means) / fitted.scales
    assert abs(values).max() < combine.LIMIT, "nothing is clipped here"
    assert fitted.coefficients == pytest.approx(combine.STRENGTH * values.T @ missed, abs=1e-4)
    assert missed.sum() == pytest.approx(0, abs=1e-4)
    assert fitted.means == pytest.approx(used[["near", "own"]].mean().tolist())
    assert fitted.scales == pytest.approx(used[["near", "own"]].std(ddof=0).tolist())


def test_the_target_decides_which_errors_it_lets_through() -> None:
    """Wrong answers are as near as right ones: only a fit that saw them looks at the other feature more."""
    rows = cases(600)
    silent, rest = (combine.fit(rows, ["near", "own"], target) for target in ("silent", "rest"))
    weight = [fitted.coefficients[1] / fitted.coefficients[0] for fitted in (silent, rest)]
    assert weight[1] > 1.5 * weight[0]
    wrong = rows[rows["place"] != "silent"]
    told = [roc_auc_score(wrong["place"] == "right_first", combine.score(wrong, f)) for f in (silent, rest)]
    assert told[1] > told[0]


def test_two_signals_tell_more_than_either() -> None:
    rows, fresh = cases(), cases(2_000, seed=1)
    fitted = combine.fit(rows, ["near", "own"], "silent")
    table = combine.separation(
        fresh, {"near": fresh["near"], "own": fresh["own"], "both": combine.score(fresh, fitted)}
    ).set_index("signal")
    assert table["auroc"]["both"] > max(table["auroc"]["near"], table["auroc"]["own"])


def test_infinite_values_are_left_out_of_means_and_scales() -> None:
    place = ["right_first", "right_first", "silent", "silent"]
    rows = table_of(place, near=[np.inf, 3.0, 1.0, -np.inf], own=[np.inf] * 4)
    fitted = combine.fit(rows, ["near", "own"], "silent")
    assert (fitted.means, fitted.scales) == ((2.0, 0.0), (1.0, 1.0))
    assert combine.score(rows, fitted)[0] > combine.score(rows, fitted)[1]


def test_scores_that_are_all_alike_say_what_is_commoner() -> None:
    rows = table_of(["right_first"] * 3 + ["silent"], near=[0.1] * 4)
    fitted = combine.fit(rows, ["near"], "silent")
    assert fitted.coefficients == pytest.approx((0.0,), abs=1e-6)
    assert combine.score(rows, fitted) == pytest.approx([np.log(3 / 1)] * 4, abs=1e-4)


def test_failed_searches_teach_nothing() -> None:
    rows = cases()
    broken = table_of(["silent", "wrong_on_top"], near=[np.nan, -np.inf], own=[9.0, 9.0], failed=[True, True])
    both = pd.concat([rows, broken])
    for target in ("silent", "rest"):
        assert combine.fit(both, ["near", "own"], target) == combine.fit(rows, ["near", "own"], target)
    assert np.isfinite(combine.score(both, combination())).all()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (["right_first"], "1 cases without cases to tell them from"),
        (["silent"], "1 cases without right answers"),
        (["right_first", "wrong_on_top"], "1 cases without cases to tell"),
        (["wrong_on_top", "silent"], "1 cases without right answers"),
        ([], "0 cases without"),
    ],
)
def test_one_side_is_not_enough_to_fit(place: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        combine.fit(table_of(place, near=[0.5] * len(place)), ["near"], "silent")


# Cross-validation


def test_each_topic_is_scored_by_a_fit_on_the_others() -> None:
    rows = cases()
    found = combine.cross_validated(rows, ["near", "own"], "silent", rows["topic"].tolist())
    for topic in ("topic 0", "topic 5"):
        inside = (rows["topic"] == topic).to_numpy()
        fitted = combine.fit(rows[~inside], ["near", "own"], "silent")
        assert found[inside].tolist() == combine.score(rows[inside], fitted).tolist()


def test_a_cluster_is_never_split_over_folds() -> None:
    rows = cases()
    clusters = [f"life {i % 30}" for i in range(len(rows))]
    before = combine.cross_validated(rows, ["near"], "rest", clusters, folds=4)
    inside = np.array([name == "life 7" for name in clusters])
    turned = rows.assign(place=np.where(inside, "silent", rows["place"]))
    turned["answerable"] = turned["place"] != "silent"
    after = combine.cross_validated(turned, ["near"], "rest", clusters, folds=4)
    assert after[inside].tolist() == before[inside].tolist(), "its own answers do not reach it"
    assert (after[~inside] != before[~inside]).any()


def test_a_signal_of_pure_chance_tells_nothing_on_cases_it_did_not_see() -> None:
    rng = np.random.default_rng(2)
    noise = {f"n{i}": rng.normal(size=120) for i in range(20)}
    rows = cases(120).assign(**noise)
    seen = combine.score(rows, combine.fit(rows, list(noise), "silent"))
    unseen = combine.cross_validated(rows, list(noise), "silent", rows["topic"].tolist())
    table = combine.separation(rows, {"seen": seen, "unseen": unseen}).set_index("signal")
    assert table["auroc"]["seen"] > 0.75
    assert table["low"]["unseen"] < 0.5


# At a rate of false recall


def kept(rows: pd.DataFrame, scores: pd.Series, rate: float) -> float:
    """The share of the right that a threshold at this rate keeps."""
    values = np.where(rows["failed"], np.inf, scores)[rows["place"] == "right_first"]
    return float((values > combine.threshold_at(rows, scores, rate)).mean()) if len(values) else np.nan


def test_the_share_kept_at_ten_percent_by_hand() -> None:
    silent = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.95]
    right = [0.79, 0.8, 0.81, 0.99]
    rows = table_of(["silent"] * 10 + ["right_first"] * 4 + ["wrong_on_top"], s=[*silent, *right, 0.97])
    assert combine.threshold_at(rows, rows["s"], 0.10) == 0.8
    assert kept(rows, rows["s"], 0.10) == 2 / 4
    assert kept(rows, rows["s"], 0.0) == 1 / 4
    assert kept(rows, rows["s"], 0.2) == 4 / 4
    assert kept(rows, rows["s"], 1.0) == 4 / 4


def test_silent_cases_that_tie_are_let_through_together_or_not() -> None:
    rows = table_of(["silent"] * 4 + ["right_first"] * 2, s=[0.9, 0.9, 0.1, 0.1, 0.9, 0.5])
    assert kept(rows, rows["s"], 0.25) == 0 / 2
    assert kept(rows, rows["s"], 0.50) == 2 / 2


@examples
@given(row_lists, st.sampled_from([0.0, 0.1, 0.34, 0.5, 1.0]))
def test_no_threshold_keeps_more_within_the_rate(rows, rate: float) -> None:
    table = scoring.frame(rows)
    swept = gates.counted(
        table, opened_above(table, "margin", np.array([-np.inf, *table["margin"], np.inf]), -np.inf)
    )
    first = swept["answered"][0] + swept["silenced"][0]
    if first and swept["silent"][0]:
        allowed = swept[swept["false_recall"] <= rate * swept["silent"] + 1e-9]
        most = allowed["answered"].max() / first if len(allowed) else 0
        assert kept(table, table["margin"], rate) == most


def test_failed_searches_use_up_the_rate() -> None:
    rows = scoring.frame([scoring.failed_case(case_of(()), "no disk")])
    more = table_of(["silent", "right_first"], s=[0.1, 0.9])
    rows = pd.concat([rows.assign(s=-np.inf), more])
    assert combine.threshold_at(rows, rows["s"], 0.4) == np.inf
    assert kept(rows, rows["s"], 0.4) == 0.0
    assert kept(rows, rows["s"], 0.5) == 1.0


def test_a_rate_needs_silent_cases() -> None:
    only_right, only_silent = table_of(["right_first"], s=[0.5]), table_of(["silent"], s=[0.5])
    assert combine.threshold_at(only_right, only_right["s"], 0.1) == np.inf
    assert combine.threshold_at(only_silent, only_silent["s"], 0.1) == 0.5


@pytest.mark.parametrize("target", ["silent", "rest"])
def test_separation_is_the_area_of_scikit_learn(target) -> None:
    rows = cases()
    table = combine.separation(rows, {"near": rows["near"]}, rows["topic"].tolist(), target=target)
    used = rows if target == "rest" else rows[rows["place"] != "wrong_on_top"]
    (found,) = table.itertuples()
    assert found.auroc == pytest.approx(roc_auc_score(used["place"] == "right_first", used["near"]))
    assert found.low < found.auroc < found.high
    assert (found.right, found.right + found.others) == ((used["place"] == "right_first").sum(), len(used))


def test_a_failed_search_is_the_surest_of_those_that_should_be_silent() -> None:
    rows = table_of(["right_first", "silent", "silent"], s=[0.9, 0.1, -np.inf], failed=[False, False, True])
    assert combine.separation(rows, {"s": rows["s"]})["auroc"][0] == 1 / 2

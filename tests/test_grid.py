"""A grid of gates, and a sweep of any signal, count what a loop over the cases counts."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from builders import case_of, examples, right, row_lists, row_of, silent, wrong
from hypothesis import given
from hypothesis import strategies as st

from recall_core import gates, scoring
from recall_core.gates import Gate
from recall_core.records import InputError
from recall_core.scoring import Row

some_scores = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5]), max_size=5)
some_deltas = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 2.0]), max_size=5)
some_thresholds = st.lists(st.sampled_from([-np.inf, -0.1, 0.0, 0.25, 0.5, 1.0, np.inf]), max_size=5)


def by_loop(rows: list[Row], min_score: float, delta: float) -> tuple[int, int, int]:
    """(answered, false recall, misled), one case after the other."""
    answered = false = misled = 0
    for row in rows:
        top, second = (*row.scores, -np.inf, -np.inf)[:2]
        margin = top - second if row.scores else -np.inf
        if row.error or (top >= min_score and margin > delta):
            answered += row.place == "right_first"
            false += row.place == "silent"
            misled += row.place in ("wrong_on_top", "tie_on_top")
    return answered, false, misled


@examples
@given(row_lists, some_scores, some_deltas)
def test_the_grid_counts_what_a_loop_over_the_cases_counts(
    rows: list[Row], min_scores: list[float], deltas: list[float]
) -> None:
    found = gates.grid(scoring.frame(rows), min_scores, deltas)
    assert all(part.shape == (len(min_scores), len(deltas)) for part in found)
    for i, min_score in enumerate(min_scores):
        for j, delta in enumerate(deltas):
            counted = found.answered[i, j], found.false_recall[i, j], found.misled[i, j]
            assert counted == by_loop(rows, min_score, delta), (min_score, delta)


@examples
@given(row_lists, st.sampled_from([0.0, 0.25, 0.5]), some_deltas)
def test_a_row_of_the_grid_is_a_sweep(rows: list[Row], min_score: float, deltas: list[float]) -> None:
    table = scoring.frame(rows)
    chosen = Gate(min_score, 0.1)
    swept = gates.sweep(table, [Gate(min_score, delta) for delta in deltas], chosen)
    found = gates.grid(table, [min_score], swept["delta"].tolist())
    for name in found._fields:
        assert getattr(found, name)[0].tolist() == swept[name].tolist(), name


@examples
@given(row_lists, st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_a_case_that_counts_twice_is_as_two_cases(rows: list[Row], drawn: list[int]) -> None:
    times = np.array(drawn[: len(rows)])
    table = scoring.frame(rows)
    min_scores, deltas = [0.0, 0.5, 1.0], [0.0, 0.25]
    found = gates.grid(table, min_scores, deltas, times)
    repeated = gates.grid(table.loc[np.repeat(np.arange(len(rows)), times)], min_scores, deltas)
    for name in found._fields:
        assert getattr(found, name).tolist() == getattr(repeated, name).tolist(), name


def test_a_threshold_is_met_by_the_score_and_passed_by_the_margin() -> None:
    rows = scoring.frame([right(0.75, 0.25)])
    found = gates.grid(rows, [0.75, np.nextafter(0.75, 1)], [np.nextafter(0.25, 0), 0.25])
    assert found.answered.tolist() == [[1, 0], [0, 0]]


def test_a_single_candidate_passes_every_delta_and_a_failed_search_everything() -> None:
    rows = [right(0.5), scoring.failed_case(case_of("a"), "no disk"), scoring.failed_case(case_of(()), "no")]
    found = gates.grid(scoring.frame(rows), [0.25, 0.75], [0.0, 1e9])
    assert found.answered.tolist() == [[1, 1], [0, 0]]
    assert found.misled.tolist() == [[1, 1], [1, 1]]
    assert found.false_recall.tolist() == [[1, 1], [1, 1]]


def test_nothing_found_is_never_spoken() -> None:
    found = gates.grid(scoring.frame([row_of(case_of("a"))]), [-1e9], [0.0])
    assert (found.answered.sum(), found.misled.sum()) == (0, 0)


def test_settings_may_stand_in_any_order_and_twice() -> None:
    rows = scoring.frame([right(0.9, 0.3), right(0.6, 0.1), silent(0.7, 0.2)])
    found = gates.grid(rows, [0.8, 0.5, 0.8], [0.15, 0.0])
    assert found.answered.tolist() == [[1, 1], [1, 2], [1, 1]]
    assert found.false_recall.tolist() == [[0, 0], [1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("min_scores", "deltas", "said"),
    [([np.nan], [0.0], "min_score is nan"), ([0.0], [np.nan], "delta"), ([0.0], [-0.1], "-0.1")],
)
def test_a_setting_no_gate_can_have_is_refused(min_scores, deltas, said: str) -> None:
    with pytest.raises(InputError, match=said):
        gates.grid(scoring.frame([right(0.9, 0.3)]), min_scores, deltas)


@pytest.mark.parametrize("column", ["top1", "margin"])
def test_a_score_that_is_no_number_is_refused(column: str) -> None:
    rows = scoring.frame([right(0.9, 0.3), right(0.8, 0.3)])
    rows.loc[1, column] = np.nan
    with pytest.raises(InputError, match=f"{column} is NaN in 1 of 2 cases"):
        gates.grid(rows, [0.5], [0.0])


def many(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    place = rng.choice(["right_first", "wrong_on_top", "silent"], n)
    return pd.DataFrame(
        {
            "top1": rng.random(n),
            "margin": rng.random(n) / 10,
            "place": place,
            "answerable": place != "silent",
            "failed": rng.random(n) < 0.01,
        }
    )


def test_a_large_grid_is_small() -> None:
    rows = many(100_000)
    min_scores, deltas = np.linspace(0, 1, 200).tolist(), np.linspace(0, 0.1, 200).tolist()
    tracemalloc.start()
    found = gates.grid(rows, min_scores, deltas)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500e6, "bytes"
    opens = rows["failed"] | ((rows["top1"] >= min_scores[70]) & (rows["margin"] > deltas[40]))
    assert found.answered[70, 40] == (opens & (rows["place"] == "right_first")).sum()


# A sweep of any signal


@examples
@given(row_lists, some_deltas, st.sampled_from([0.25, 0.5]))
def test_a_sweep_of_the_margin_is_the_sweep_of_the_margin_gate(
    rows: list[Row], deltas: list[float], min_score: float
) -> None:
    table = scoring.frame(rows)
    swept = gates.sweep(table, [Gate(min_score, delta) for delta in deltas], Gate(min_score, 0.1))
    found = gates.sweep_signal(table, "margin", swept["delta"].tolist(), min_score)
    counts = ["answered", "silenced", "misled", "answerable", "false_recall", "silent", "on_frontier"]
    assert found["threshold"].tolist() == swept["delta"].tolist()
    assert found[counts].to_dict("list") == swept[counts].to_dict("list")


@examples
@given(row_lists, some_thresholds, st.data())
def test_a_sweep_of_a_signal_counts_what_a_loop_counts(rows, thresholds, data) -> None:
    some = st.sampled_from([-np.inf, 0.0, 0.25, 0.5, np.inf])
    values = data.draw(st.lists(some, min_size=len(rows), max_size=len(rows)))
    found = gates.sweep_signal(scoring.frame(rows).assign(mine=values), "mine", thresholds)
    assert found["threshold"].tolist() == sorted(set(thresholds))
    for counted in found.itertuples():
        opens = [
            bool(row.error) or value > counted.threshold for row, value in zip(rows, values, strict=True)
        ]
        said = [row.place for row, open_ in zip(rows, opens, strict=True) if open_]
        assert counted.answered == said.count("right_first")
        assert counted.false_recall == said.count("silent")
        assert counted.misled == len(said) - counted.answered - counted.false_recall
        assert counted.answered + counted.silenced == sum(row.place == "right_first" for row in rows)


def test_a_signal_without_numbers_or_name_is_refused() -> None:
    rows = scoring.frame([right(0.9, 0.3), wrong(0.9, 0.1)]).assign(mine=[0.5, np.nan])
    with pytest.raises(InputError, match="mine is NaN in 1 of 2 cases"):
        gates.sweep_signal(rows, "mine", [0.0])
    with pytest.raises(InputError, match="have no column 'yours'"):
        gates.sweep_signal(rows, "yours", [0.0])
    with pytest.raises(InputError, match="NaN"):
        gates.sweep_signal(rows, "margin", [np.nan])


def test_a_failed_search_needs_no_signal() -> None:
    rows = scoring.frame([scoring.failed_case(case_of(()), "no disk")]).assign(mine=[np.nan])
    assert gates.sweep_signal(rows, "mine", [0.9])["false_recall"].tolist() == [1]


def test_a_sweep_without_silent_or_answerable_cases_counts_none() -> None:
    only_right = gates.sweep_signal(scoring.frame([right(0.9, 0.3)]), "margin", [0.0])
    assert (only_right["silent"][0], only_right["false_recall"][0], only_right["answered"][0]) == (0, 0, 1)
    only_silent = gates.sweep_signal(scoring.frame([silent(0.9, 0.3)]), "margin", [0.0])
    assert (only_silent["answerable"][0], only_silent["false_recall"][0]) == (0, 1)

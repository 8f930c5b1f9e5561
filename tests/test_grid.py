"""A grid of gates, and a sweep of any signal, count what a loop over the cases counts."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
from builders import case_of, examples, right, row_lists, row_of
from hypothesis import given
from hypothesis import strategies as st

from recall_core import gates, scoring
from recall_core.gates import Gate
from recall_core.scoring import Row

some_scores = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5]), max_size=5).map(sorted)
some_deltas = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 2.0]), max_size=5).map(sorted)


def by_loop(rows: list[Row], min_score: float, delta: float) -> tuple[int, int]:
    """(answered, false recall), one case after the other."""
    answered = false = 0
    for row in rows:
        top, second = (*row.scores, -np.inf, -np.inf)[:2]
        margin = top - second if row.scores else -np.inf
        if row.error or (top >= min_score and margin > delta):
            answered += row.place == "right_first"
            false += row.place == "silent"
    return answered, false


@examples
@given(row_lists, some_scores, some_deltas)
def test_the_grid_counts_what_a_loop_over_the_cases_counts(
    rows: list[Row], min_scores: list[float], deltas: list[float]
) -> None:
    found = gates.grid(scoring.frame(rows), min_scores, deltas)
    assert all(part.shape == (len(min_scores), len(deltas)) for part in found)
    for i, min_score in enumerate(min_scores):
        for j, delta in enumerate(deltas):
            counted = found.answered[i, j], found.false_recall[i, j]
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
    assert found.false_recall.tolist() == [[1, 1], [1, 1]]


def test_nothing_found_is_never_spoken() -> None:
    found = gates.grid(scoring.frame([row_of(case_of("a")), row_of(case_of(()))]), [-1e9], [0.0])
    assert (found.answered.sum(), found.false_recall.sum()) == (0, 0)


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

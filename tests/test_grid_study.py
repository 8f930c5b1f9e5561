"""The frontier of a grid, its band, and the next steps of a gate, on cases small enough to count by eye."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from builders import case_of, right, row_lists, silent, wrong
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_core import gates, scoring
from recall_core.choosing import grid_study
from recall_core.gates import Gate
from recall_core.scoring import Row


def marked(*rows: Row, units: str | None = None) -> pd.DataFrame:
    """Scored rows, each in a unit of its own unless `units` names one letter a row."""
    return scoring.frame(rows).assign(unit=list(units) if units else [str(at) for at in range(len(rows))])


ROWS = (
    right(0.9, 0.4),
    right(0.7, 0.3),
    right(0.5, 0.1),
    silent(0.6, 0.2),
    silent(0.8, 0.1),
    wrong(0.9, 0.1),
)
"""Shut out both silent ones and 2 of 3 are answered, by a delta of 0.2; by min_score alone it is 1."""


def corners(table: pd.DataFrame) -> list[tuple[int, int]]:
    return list(zip(table["false_recall"], table["answered"], strict=True))


def test_the_frontier_is_the_most_answered_at_so_many_false_recalls() -> None:
    found = grid_study.study(marked(*ROWS), 9)
    # Margins up to 0.4 in nine steps: 0, 0.05, ... 0.2 shuts out both silent ones. The third right one leads
    # by as little as a silent one that scores higher, so it costs both.
    assert corners(found.frontier) == [(0, 2), (1, 2), (2, 3)]
    assert found.frontier[["answerable", "silent"]].iloc[0].tolist() == [4, 2]


def test_the_setting_named_gives_what_is_said_of_it() -> None:
    rows = marked(*ROWS)
    for line in grid_study.study(rows, 9).frontier.itertuples():
        counted = gates.sweep(rows, [], Gate(line.min_score, line.delta)).iloc[0]
        assert counted["answered"] == line.answered
        assert counted["false_recall"] <= line.false_recall


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(row_lists, st.integers(2, 6))
def test_the_best_settings_are_those_that_no_other_one_dominates(rows: list[Row], steps: int) -> None:
    found = grid_study.study(marked(*rows), steps, resamples=2)
    answered, false = found.counts.answered.ravel(), found.counts.false_recall.ravel()
    wanted = gates.frontier(pd.Series(answered), pd.Series(false))
    assert found.best.ravel().tolist() == wanted.tolist()


def test_one_unit_leaves_nothing_to_draw() -> None:
    found = grid_study.study(marked(*ROWS, units="aaaaaa"), 9, resamples=20)
    assert found.frontier["low"].tolist() == found.frontier["high"].tolist() == [2, 2, 3]
    assert np.allclose(found.often, found.best)


def test_the_band_is_of_whole_units() -> None:
    # Both silent cases in one unit with all that is right: a draw that has them has them all. The other unit
    # is one wrong case. So answered at no false recall is 2 of 3 right in 3, 2, 1 ... draws of unit a; with
    # one of each unit that is 2 of 4 asked, with unit a twice 4 of 6; scaled to the 4 asked: 2 and 2.67.
    found = grid_study.study(marked(*ROWS, units="aaaaab"), 9, resamples=400)
    at_none = found.frontier.iloc[0]
    assert (at_none["low"], at_none["high"]) == pytest.approx((2, 4 * 4 / 6))


def test_alike_cases_have_a_band_that_holds_the_curve() -> None:
    rows = [*(right(0.9, 0.4) for _ in range(30)), *(silent(0.6, 0.2) for _ in range(20))]
    found = grid_study.study(marked(*rows), 5, resamples=100)
    assert (found.frontier["low"] == 30).all()
    assert (found.frontier["high"] == 30).all()


def test_without_silent_cases_there_is_no_band() -> None:
    found = grid_study.study(marked(right(0.9, 0.4), right(0.7, 0.3)), 5, resamples=10)
    assert corners(found.frontier) == [(0, 2)]
    assert found.frontier["low"].isna().all()


def test_memories_that_stand_alone_have_no_margin_to_set() -> None:
    found = grid_study.study(marked(right(0.9), right(0.7)), 3, resamples=5)
    assert corners(found.frontier) == [(0, 2)]


def test_a_failed_search_is_never_silent() -> None:
    rows = marked(right(0.9, 0.4), scoring.failed_case(case_of(()), "no disk"), silent(0.6, 0.2))
    found = grid_study.study(rows, 5, resamples=10)
    assert corners(found.frontier) == [(1, 1), (2, 1)]


def steps_of(gate: Gate) -> dict[str, tuple[int, int]]:
    rows = marked(*ROWS)
    table = grid_study.next_steps(rows, grid_study.study(rows, 9, resamples=2), gate)
    return {line.step: (line.answered, line.false_recall) for line in table.itertuples()}


def test_a_gate_off_the_frontier_is_shown_what_it_could_have_had() -> None:
    # min_score 0.65 lets in the silent one at 0.8 and shuts out none of the two best.
    assert steps_of(Gate(0.65)) == {
        "the configured gate": (2, 1),
        "the next that answers more": (3, 2),
        "the next with less false recall": (2, 0),
    }
    assert steps_of(Gate(0.75)) == {
        "the configured gate": (1, 1),
        "the frontier at no more false recall": (2, 0),
        "the next that answers more": (3, 2),
    }


def test_a_gate_at_the_end_of_the_frontier_has_one_neighbour() -> None:
    assert steps_of(Gate(0.0)) == {
        "the configured gate": (3, 2),
        "the next with less false recall": (2, 0),
    }
    assert steps_of(Gate(0.5, 0.2)) == {
        "the configured gate": (2, 0),
        "the next that answers more": (3, 2),
    }


def test_its_standing_counts_the_grid() -> None:
    rows = marked(*ROWS)
    found = grid_study.study(rows, 9, resamples=2)
    gate = Gate(0.5, 0.2)
    pairs = list(zip(found.counts.answered.ravel(), found.counts.false_recall.ravel(), strict=True))
    beaten = sum(answered <= 2 and (answered, false) != (2, 0) for answered, false in pairs)
    said = f"min_score 0.5, delta 0.2: beats {beaten} of the 81 settings of the grid and is beaten by 0"
    assert grid_study.standing(rows, found, gate) == said


def test_the_table_is_of_few_rows_and_ends_at_all_silent_cases() -> None:
    rows = [*(right(0.9, 0.4) for _ in range(3)), *(silent(0.6 + at / 1000, 0.2) for at in range(200))]
    table = grid_study.study(marked(*rows), 30, resamples=2).table()
    assert table["false_recall"].tolist() == [0, 1, 2, 3, 5, 8, 12, 18, 25, 35, 50, 70, 100, 200]

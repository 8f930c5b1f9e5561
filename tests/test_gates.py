"""A gate speaks or keeps quiet; a sweep counts what each setting costs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from builders import (
    case_of,
    examples,
    expected_ids,
    gated,
    published_rows,
    ranking_of,
    right,
    row_lists,
    row_of,
    scores_by_id,
    silent,
    some_gates,
    wrong,
)
from hypothesis import given
from hypothesis import strategies as st

from recall_core import gates, scoring
from recall_core.gates import Gate
from recall_core.records import InputError, Ranking
from recall_core.scoring import Row

PUBLISHED = {
    0.000: (18, 5),
    0.002: (17, 3),
    0.005: (17, 2),
    0.008: (17, 1),
    0.010: (15, 1),
    0.012: (14, 1),
    0.015: (12, 1),
    0.020: (11, 0),
    0.025: (9, 0),
    0.030: (8, 0),
    0.040: (4, 0),
    0.050: (2, 0),
    0.060: (0, 0),
}
"""delta: (answered of 25, false recalls of 5), from note-recall-evaluation.txt."""

points = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=12)


def opens(gate: Gate, **scores: float) -> bool:
    return bool(gates.opened(scoring.frame([row_of(case_of("a"), **scores)]), gate)[0])


def opens_by_hand(row: Row, gate: Gate) -> bool:
    if row.error:
        return True
    if not row.scores or row.scores[0] < gate.min_score:
        return False
    return gate.delta is None or len(row.scores) == 1 or row.scores[0] - row.scores[1] > gate.delta


def outcome(row: Row, gate: Gate) -> str:
    return gated([row], gate)["outcome"][0]


def beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """(answered, false recalls): as many and as few, and not the same."""
    return one[0] >= other[0] and one[1] <= other[1] and one != other


def table_of(counts: list[tuple[int, int]]) -> pd.DataFrame:
    return pd.DataFrame(counts, columns=["answered", "false_recall"])


def test_the_absolute_gate_opens_at_min_score() -> None:
    assert opens(Gate(0.5), a=0.5, b=0.5)
    assert not opens(Gate(0.5), a=np.nextafter(0.5, 0), b=0.1)


def test_the_margin_gate_opens_only_above_delta() -> None:
    assert not opens(Gate(0.0, 0.125), a=0.5, b=0.375)
    assert opens(Gate(0.0, 0.125), a=0.5, b=np.nextafter(0.375, 0))


def test_the_margin_stands_on_top_of_the_floor() -> None:
    assert not opens(Gate(0.6, 0.1), a=0.5, b=0.1)
    assert opens(Gate(0.5, 0.1), a=0.5, b=0.1)


@pytest.mark.parametrize("delta", [None, 0.0, 0.9])
def test_of_a_single_candidate_the_floor_alone_decides(delta: float | None) -> None:
    assert opens(Gate(0.5, delta), a=0.5)
    assert not opens(Gate(0.5, delta), a=0.4)


@pytest.mark.parametrize("gate", [Gate(-1.0), Gate(-1.0, 0.0)])
def test_an_empty_ranking_is_never_spoken(gate: Gate) -> None:
    assert not opens(gate)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_gate_refuses_what_is_not_a_finite_number(number: float) -> None:
    with pytest.raises(InputError, match=f"min_score is {number}"):
        Gate(number)
    with pytest.raises(InputError, match=f"delta is {number}"):
        Gate(0.5, number)


def test_a_gate_refuses_a_delta_below_zero_and_quotes_it() -> None:
    with pytest.raises(InputError, match=r"-0\.001"):
        Gate(0.5, -0.001)


def test_a_tie_never_passes_a_margin_gate() -> None:
    assert not opens(Gate(0.0, 0.0), a=0.9, b=0.9, c=0.1)
    assert outcome(wrong(0.9, 0.0), Gate(0.5, 0.0)) == "withheld"


def test_a_tie_that_is_spoken_is_misled() -> None:
    row = wrong(0.9, 0.0)
    assert row.place == "tie_on_top"
    assert outcome(row, Gate(0.5)) == "misled"


@pytest.mark.parametrize(
    ("row", "open_", "shut"),
    [
        (right(0.9, 0.2), "answered", "silenced"),
        (wrong(0.9, 0.2), "misled", "withheld"),
        (silent(0.9, 0.2), "false_recall", "kept_quiet"),
    ],
)
def test_each_place_has_one_outcome_open_and_one_shut(row: Row, open_: str, shut: str) -> None:
    assert outcome(row, Gate(0.5, 0.1)) == open_
    assert outcome(row, Gate(0.95, 0.1)) == shut
    assert outcome(row, Gate(0.5, 0.5)) == shut


def test_no_gate_shuts_on_a_search_that_failed() -> None:
    assert outcome(scoring.failed_case(case_of("a"), "no disk"), Gate(1.0, 1.0)) == "misled"
    assert outcome(scoring.failed_case(case_of(""), "no disk"), Gate(1.0, 1.0)) == "false_recall"


@examples
@given(row_lists, some_gates)
def test_outcomes_partition_the_cases(rows: list[Row], gate: Gate) -> None:
    found = Counter(gated(rows, gate)["outcome"])
    first = sum(row.place == "right_first" for row in rows)
    answerable = sum(bool(row.case.expected) for row in rows)
    assert found["answered"] + found["silenced"] == first
    assert found["misled"] + found["withheld"] == answerable - first
    assert found["false_recall"] + found["kept_quiet"] == len(rows) - answerable
    assert found.total() == len(rows)


@examples
@given(row_lists, st.lists(some_gates, max_size=6), some_gates)
def test_a_sweep_counts_what_a_loop_over_the_cases_counts(
    rows: list[Row], settings: list[Gate], chosen: Gate
) -> None:
    table = gates.sweep(scoring.frame(rows), settings, chosen)
    swept = [Gate(row.min_score, None if np.isnan(row.delta) else row.delta) for row in table.itertuples()]
    assert set(swept) == {*settings, chosen}
    assert len(swept) == len(set(swept))
    for gate, counted in zip(swept, table.itertuples(), strict=True):
        by_hand = Counter(
            (row.place if row.place in ("right_first", "silent") else "wrong", opens_by_hand(row, gate))
            for row in rows
        )
        assert counted.answered == by_hand["right_first", True]
        assert counted.silenced == by_hand["right_first", False]
        assert counted.misled == by_hand["wrong", True]
        assert counted.false_recall == by_hand["silent", True]
        assert counted.answerable == sum(bool(row.case.expected) for row in rows)
        assert counted.silent == sum(not row.case.expected for row in rows)


def test_the_chosen_setting_joins_the_sweep_once_and_in_its_place() -> None:
    rows = scoring.frame([right(0.9, 0.2)])
    joined = gates.sweep(rows, [Gate(0.5, 0.3), Gate(0.5, 0.1)], Gate(0.5, 0.2))
    assert list(joined["delta"]) == [0.1, 0.2, 0.3]
    assert list(joined["chosen"]) == [False, True, False]
    there = gates.sweep(rows, [Gate(0.5, 0.3), Gate(0.5, 0.1)], Gate(0.5, 0.1))
    assert list(there["delta"]) == [0.1, 0.3]
    assert list(there["chosen"]) == [True, False]


def test_the_absolute_gate_comes_before_a_margin_of_zero() -> None:
    rows = scoring.frame([right(0.9, 0.0)])
    table = gates.sweep(rows, [Gate(0.5, 0.0), Gate(0.5)], Gate(0.5))
    assert table["delta"].isna().tolist() == [True, False]


@examples
@given(points)
def test_the_frontier_is_what_nothing_beats(counts: list[tuple[int, int]]) -> None:
    table = table_of(counts)
    by_hand = [not any(beats(other, one) for other in counts) for one in counts]
    assert gates.frontier(table["answered"], table["false_recall"]).tolist() == by_hand


def test_equal_settings_are_on_the_frontier_together() -> None:
    table = table_of([(5, 1), (5, 1), (5, 2), (4, 1), (6, 2)])
    assert gates.frontier(table["answered"], table["false_recall"]).tolist() == [
        True,
        True,
        False,
        False,
        True,
    ]


@examples
@given(points, st.data())
def test_dominance_is_at_least_as_good_on_both_and_better_on_one(counts, data) -> None:
    at = data.draw(st.integers(0, len(counts) - 1))
    dominates, dominated_by = gates.compared(*(np.array(counts) - counts[at]).T)
    assert dominates.tolist() == [beats(counts[at], other) for other in counts]
    assert dominated_by.tolist() == [beats(other, counts[at]) for other in counts]


@examples
@given(expected_ids, scores_by_id, some_gates)
def test_explain_says_spoken_exactly_when_the_gate_opens(expected, scores, gate: Gate) -> None:
    ranking = Ranking.of("vector", scores.items())
    row = scoring.score_case(case_of(sorted(expected)), ranking, depth=2)
    spoken = gates.explain(ranking, gate).startswith("spoken")
    assert spoken == bool(gates.opened(scoring.frame([row]), gate)[0])
    assert "\n" not in gates.explain(ranking, gate)


def test_explain_quotes_the_numbers_it_weighed() -> None:
    assert "0.4000" in gates.explain(ranking_of(a=0.4), Gate(0.5))
    assert "0.5" in gates.explain(ranking_of(a=0.4), Gate(0.5))
    assert "0.1250" in gates.explain(ranking_of(a=0.5, b=0.375), Gate(0.5, 0.2))
    assert "no runner-up" in gates.explain(ranking_of(a=0.5), Gate(0.5, 0.2))
    assert "nothing was found" in gates.explain(ranking_of(), Gate(0.5))


def test_a_gate_prints_its_settings() -> None:
    assert str(Gate(0.55)) == "min_score 0.55"
    assert str(Gate(0.55, 0.008)) == "min_score 0.55, delta 0.008"


def test_the_published_delta_sweep_comes_out_in_miniature() -> None:
    rows = scoring.frame(published_rows())
    table = gates.sweep(rows, [Gate(0.55, delta) for delta in PUBLISHED], Gate(0.55, 0.008))
    found = {
        delta: (answered, false)
        for delta, answered, false in zip(
            table["delta"], table["answered"], table["false_recall"], strict=True
        )
    }
    assert found == PUBLISHED
    assert set(table["answerable"]) == {25}
    assert set(table["silent"]) == {5}


def test_the_published_choice_dominates_exactly_three_of_the_settings_above_it() -> None:
    rows = scoring.frame(published_rows())
    table = gates.sweep(rows, [Gate(0.55, delta) for delta in PUBLISHED], Gate(0.55, 0.008))
    beaten = table["delta"][table["beaten_by_chosen"]]
    assert list(beaten[beaten > 0.008]) == [0.010, 0.012, 0.015]
    assert list(beaten[beaten < 0.008]) == [0.002, 0.005], "17 answered too, but 3 and 2 false recalls for 1"
    assert not table["beats_chosen"].any()
    assert list(table[table["on_frontier"]]["delta"]) == [0.0, 0.008, 0.020]


def test_the_published_floor_rejects_nothing() -> None:
    rows = scoring.frame(published_rows())
    absolute = gates.sweep(rows, [Gate(0.5), Gate(0.7)], Gate(0.55))
    assert set(zip(absolute["answered"], absolute["false_recall"], strict=True)) == {(18, 5)}

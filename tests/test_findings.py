"""A finding is said when the numbers support it, and only then."""

from __future__ import annotations

import pytest
from builders import case_of, published_rows, result_of, right, row_of, silent, wrong

from recall_core import gates, scoring
from recall_core.gates import Gate
from recall_core.reporting import findings
from recall_core.reporting.findings import Said
from recall_core.runs import Result
from recall_core.scoring import Row

TEXTS = {
    "a": "the kettle is blue",
    "b": "the guitar is green",
    "c": "the cat is red",
    "hub": "learned some chords",
}
GATE = Gate(0.5, 0.1)
RULES = {
    "failed": "searches failed",
    "false recalls": "have no answer",
    "silenced": "rank first, only",
    "misled": "something else",
    "scores overlap": "The score cannot separate",
    "scores part": "The score separates",
    "margins overlap": "The margin cannot separate",
    "margins part": "The margin separates",
    "floor idle": "The absolute gate rejects nothing",
    "margin idle": "The margin gate rejects nothing",
    "mute": "never speaks",
    "hub": "comes out on top of",
}
"""A rule, and words that only its headline has."""


def heard(rows: list[Row], gate: Gate = GATE) -> dict[str, Said]:
    """What is said, by rule. Each rule speaks at most once here."""
    said: dict[str, Said] = {}
    for finding in findings.findings(result_of(rows, gate), TEXTS):
        (rule,) = [name for name, words in RULES.items() if words in finding.headline]
        assert rule not in said
        said[rule] = finding
    return said


def whole(said: Said) -> str:
    return " ".join([said.headline, said.body, *said.texts])


def test_a_run_without_fault_has_only_good_news() -> None:
    rows = [right(0.9, 0.3), silent(0.6, 0.05), silent(0.4, 0.05)]
    assert heard(rows).keys() == {"scores part", "margins part"}


def test_failed_searches_are_named_with_their_error() -> None:
    rows = [right(0.9, 0.3), scoring.failed_case(case_of("a", id_="case-7"), "OSError: no disk")]
    said = heard(rows)["failed"]
    assert said.texts == ("case-7: OSError: no disk",)
    assert said.headline.startswith("1 ")
    assert "failed" not in heard(rows[:1])


def test_a_false_recall_is_quoted_with_question_and_memory() -> None:
    said = heard([right(0.9, 0.3), silent(0.8, 0.25, query="who rang?"), silent(0.1, 0.05)])["false recalls"]
    (text,) = said.texts
    assert "who rang?" in text
    assert TEXTS["b"] in text
    assert "0.800" in text
    assert "0.250" in text
    assert "1 of 2" in said.headline


def test_kept_quiet_is_no_false_recall() -> None:
    assert "false recalls" not in heard([right(0.9, 0.3), silent(0.8, 0.05), silent(0.4, 0.2)])


def test_a_failed_silent_case_is_not_quoted_as_a_false_recall() -> None:
    assert "false recalls" not in heard([right(0.9, 0.3), scoring.failed_case(case_of(""), "no disk")])


def test_a_false_recall_without_a_runner_up_can_be_quoted() -> None:
    said = heard([right(0.9, 0.3), row_of(case_of("", query="who rang?"), c=0.8)])["false recalls"]
    assert TEXTS["c"] in said.texts[0]
    assert "inf" not in said.texts[0]


def test_silenced_answers_are_set_against_the_right_first() -> None:
    said = heard([right(0.9, 0.3), right(0.9, 0.05), right(0.4, 0.3), wrong(0.9, 0.01)])["silenced"]
    assert "1/4" in whole(said)
    assert "3/4" in whole(said)
    assert "silences 2" in whole(said)


def test_nothing_silenced_is_not_said() -> None:
    assert "silenced" not in heard([right(0.9, 0.3), wrong(0.9, 0.01)])


def test_misled_is_counted_among_the_answerable() -> None:
    assert "1 of 3" in heard([right(0.9, 0.3), wrong(0.9, 0.2), wrong(0.9, 0.05)])["misled"].headline
    assert "misled" not in heard([right(0.9, 0.3), wrong(0.9, 0.05)])


def test_ranges_that_overlap_are_said_with_their_ends() -> None:
    said = heard([right(0.6, 0.2), right(0.9, 0.3), silent(0.7, 0.25), silent(0.1, 0.05)])
    assert "0.600" in said["scores overlap"].body
    assert "0.700" in said["scores overlap"].body
    assert "0.200" in said["margins overlap"].body
    assert "0.250" in said["margins overlap"].body
    assert not {"scores part", "margins part"} & said.keys()


def test_ranges_that_part_are_said_with_their_ends() -> None:
    said = heard([right(0.6, 0.2), right(0.9, 0.3), silent(0.55, 0.15), silent(0.1, 0.05)])
    assert "0.600" in said["scores part"].body
    assert "0.550" in said["scores part"].body
    assert "0.200" in said["margins part"].body
    assert "0.150" in said["margins part"].body
    assert not {"scores overlap", "margins overlap"} & said.keys()


def test_ranges_that_touch_overlap() -> None:
    assert {"scores overlap", "margins overlap"} <= heard([right(0.75, 0.25), silent(0.75, 0.25)]).keys()


@pytest.mark.parametrize(
    "rows", [[right(0.9, 0.3)], [silent(0.4, 0.05)], [wrong(0.9, 0.3), silent(0.4, 0.05)]]
)
def test_ranges_are_not_compared_when_one_is_empty(rows: list[Row]) -> None:
    assert not {"scores overlap", "scores part", "margins overlap", "margins part"} & heard(rows).keys()


def test_a_floor_that_rejects_nothing_is_idle() -> None:
    said = heard([right(0.9, 0.3), silent(0.5, 0.05)])["floor idle"]
    assert "0.5" in said.headline
    assert "0.500" in said.body
    assert "floor idle" not in heard([right(0.9, 0.3), silent(0.49, 0.05)])


def test_a_failed_search_does_not_keep_the_floor_from_being_idle() -> None:
    failed = scoring.failed_case(case_of("a"), "no disk")
    assert "floor idle" in heard([right(0.9, 0.3), failed])
    assert "floor idle" not in heard([failed])


def test_a_margin_that_rejects_nothing_above_the_floor_is_idle() -> None:
    said = heard([right(0.9, 0.3), wrong(0.8, 0.125), silent(0.4, 0.0)])["margin idle"]
    assert "0.1250" in said.body
    assert "margin idle" not in heard([right(0.9, 0.3), wrong(0.8, 0.05)])
    assert "margin idle" not in heard([right(0.9, 0.3)], Gate(0.5))
    assert "margin idle" not in heard([right(0.4, 0.3)])


def test_a_memory_that_never_speaks_is_called_mute() -> None:
    said = heard([right(0.4, 0.3), silent(0.3, 0.2)])["mute"]
    assert "0.400" in said.body
    assert "0.5" in said.body
    assert "mute" not in heard([right(0.9, 0.3), silent(0.3, 0.2)])
    assert "mute" not in heard([right(0.4, 0.3), silent(0.9, 0.2)])


def test_a_failed_search_does_not_count_as_speaking() -> None:
    failed = scoring.failed_case(case_of("a"), "no disk")
    assert "mute" in heard([right(0.4, 0.3), failed])
    assert "mute" not in heard([failed])


def test_a_memory_that_found_nothing_at_all_is_mute() -> None:
    assert "inf" not in heard([row_of(case_of("a"))])["mute"].body


def test_a_memory_on_top_of_three_questions_it_does_not_answer_is_a_hub() -> None:
    rows = [
        wrong(0.9, 0.3, "hub", query="where is the token?"),
        wrong(0.9, 0.0, "b", query="a tie, sorted after the right one"),
        silent(0.4, 0.05, "hub", query="who rang?"),
        wrong(0.9, 0.3, "hub", query="why is it full?"),
    ]
    said = heard(rows)["hub"]
    assert "3" in said.headline
    assert "hub" in said.body
    assert TEXTS["hub"] in said.texts[0]
    for text, query in zip(said.texts[1:], ["token?", "rang?", "full?"], strict=True):
        assert query in text
    assert "hub" not in heard(rows[:3])


def test_a_memory_on_top_of_questions_it_answers_is_no_hub() -> None:
    assert "hub" not in heard([right(0.9, 0.3)] * 5)


def test_hubs_come_with_the_largest_first() -> None:
    rows = [*[wrong(0.9, 0.3, "b")] * 3, *[wrong(0.9, 0.3, "hub")] * 4]
    said = [s for s in findings.findings(result_of(rows, GATE), TEXTS) if RULES["hub"] in s.headline]
    assert ["4" in s.headline for s in said] == [True, False]
    assert ["3" in s.headline for s in said] == [False, True]


def test_the_headline_gives_answered_misled_and_false_recall() -> None:
    rows = [
        right(0.9, 0.3),
        right(0.9, 0.3),
        wrong(0.9, 0.3),
        wrong(0.9, 0.05),
        silent(0.9, 0.3),
        silent(0.1, 0.0),
    ]
    said = findings.headline(result_of(rows, GATE, path="tiny"))
    assert said.startswith("tiny ")
    assert "2 of 4" in said
    assert "wrong to 1" in said
    assert "1 of 2" in said


def caveats(rows: list[Row]) -> str:
    return " ".join(findings.caveats(result_of(rows, GATE)))


def test_caveats_say_what_one_silent_case_weighs_and_what_none_leaves_open() -> None:
    said = caveats([right(0.9, 0.3)] * 8 + [silent(0.1, 0.0)] * 5)
    assert f"{1 - 0.05 ** (1 / 5):.0%}" == "45%"
    assert "45%" in said
    assert "20 points" in said
    assert "12.5 points" in said


def test_more_silent_cases_leave_less_open() -> None:
    assert f"{1 - 0.05 ** (1 / 59):.0%}" == "5%"
    assert " 5% " in caveats([silent(0.1, 0.0)] * 59)


def test_without_silent_cases_the_caveat_says_so() -> None:
    said = caveats([right(0.9, 0.3)])
    assert "says nothing about false recall" in said
    assert "100.0 points" in said


def dominance(rows: list[Row], chosen: float, deltas: list[float]) -> str:
    table = gates.sweep(scoring.frame(rows), [Gate(0.5, delta) for delta in deltas], Gate(0.5, chosen))
    return findings.dominance(table, "delta")


def test_the_published_choice_is_said_to_dominate_three_above_it() -> None:
    said = dominance(published_rows(), 0.008, [0.0, 0.008, 0.01, 0.012, 0.015, 0.02])
    assert "0.008 dominates" in said
    assert "0.01, 0.012, 0.015" in said


def test_a_dominated_choice_is_said_to_be_dominated() -> None:
    said = dominance(published_rows(), 0.015, [0.008, 0.015])
    assert "is dominated by delta 0.008" in said


def test_a_knob_that_changes_nothing_is_said_to_do_nothing() -> None:
    assert "does nothing" in dominance([right(0.9, 0.3)], 0.1, [0.0, 0.1, 0.2])


def test_a_choice_that_trades_is_neither() -> None:
    said = dominance(published_rows(), 0.008, [0.008, 0.02])
    assert "No setting tried dominates" in said
    assert "dominates none" in said


def test_a_result_is_what_the_findings_read_and_it_is_left_alone() -> None:
    result: Result = result_of([right(0.9, 0.3), silent(0.6, 0.2)], GATE)
    before = result.rows.copy()
    findings.findings(result, TEXTS)
    assert result.rows.equals(before)

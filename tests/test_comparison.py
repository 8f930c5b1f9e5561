"""Before and after: cases paired by id, differences counted, and the cases that changed by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders import case_of, result_of, right, silent, wrong

from recall_core import scoring, stats
from recall_core.comparison import compare
from recall_core.gates import Gate
from recall_core.records import InputError
from recall_core.runs import Result
from recall_core.scoring import Row

GATE = Gate(0.5, 0.1)
INSIDE = "inside its interval: no difference shown"

ROWS: Mapping[str, Callable[..., Row]] = {
    "answered": lambda id_: right(0.9, 0.2, id_=id_, query=f"about {id_}?"),
    "silenced": lambda id_: right(0.9, 0.05, id_=id_, query=f"about {id_}?"),
    "misled": lambda id_: wrong(0.8, 0.2, id_=id_, query=f"about {id_}?"),
    "withheld": lambda id_: wrong(0.8, 0.05, id_=id_, query=f"about {id_}?"),
    "tied": lambda id_: wrong(0.8, 0.0, id_=id_, query=f"about {id_}?"),
    "failed": lambda id_: scoring.failed_case(case_of("a", id_=id_, query=f"about {id_}?"), "no disk"),
    "spoke": lambda id_: silent(0.7, 0.2, id_=id_, query=f"about {id_}?"),
    "kept_quiet": lambda id_: silent(0.7, 0.05, id_=id_, query=f"about {id_}?"),
}


def run(outcomes: Mapping[str, str] | Sequence[str], path: str = "old", **more: Any) -> Result:
    """A run whose cases came out as named; without ids they are `c0`, `c1`, and so on."""
    named = outcomes if isinstance(outcomes, Mapping) else {f"c{i}": o for i, o in enumerate(outcomes)}
    rows = [ROWS[outcome](id_=id_) for id_, outcome in named.items()]
    return result_of(rows, GATE, path=path, kind=more.pop("kind", "onnx"), **more)


def by_metric(before: Result, after: Result) -> pd.DataFrame:
    return compare(before, after).table.set_index("metric")


def flipped(before: Result, after: Result) -> list[tuple[str, str, str]]:
    flips = compare(before, after).flips
    return list(zip(flips["metric"], flips["direction"], flips["case_id"], strict=True))


OLD = {"p": "answered", "q": "misled", "r": "silenced", "s": "withheld", "t": "kept_quiet", "u": "spoke"}
NEW = {"p": "withheld", "q": "answered", "r": "answered", "s": "tied", "t": "kept_quiet", "u": "kept_quiet"}


def test_hash_is_never_compared_with_a_model() -> None:
    with pytest.raises(InputError, match=r"^hash is of kind hash and mini of kind onnx; .*one kind$"):
        compare(run(["answered"], "hash", kind="hash"), run(["answered"], "mini"))


@pytest.mark.parametrize("kind", ["hash", "onnx"])
def test_words_alone_are_compared_with_anything(kind: str) -> None:
    words, other = run(["silenced"], "words", kind="keyword"), run(["answered"], "other", kind=kind)
    for before, after in ((words, other), (other, words)):
        found = compare(before, after)
        assert (found.before, found.after) == (before.path, after.path)


@pytest.mark.parametrize("swapped", [False, True])
def test_other_cases_are_refused_and_one_is_named(swapped: bool) -> None:
    pair = run({"a": "answered", "b": "answered"}), run({"a": "answered", "z": "answered", "y": "spoke"})
    with pytest.raises(
        InputError, match=r"^3 cases are in one run only \(b first\); run both on one fixture"
    ):
        compare(*(reversed(pair) if swapped else pair))


def test_counts_differences_and_p_are_arithmetic() -> None:
    table = by_metric(run(OLD), run(NEW, "new"))
    counts = {row.Index: (row.before, row.after, row.n) for row in table.itertuples()}
    assert counts == {
        "recall@1": (2, 2, 4),
        "recall@3": (4, 4, 4),
        "answered": (1, 2, 4),
        "misled": (1, 0, 4),  # a tie has no margin, so the gate stays shut on it
        "false_recall": (1, 0, 2),
        "passed": (2, 4, 6),
    }
    differences = [0, 0, (2 - 1) / 4, (0 - 1) / 4, (0 - 1) / 2, (4 - 2) / 6]
    assert table["difference"].tolist() == pytest.approx(differences, abs=1e-12)
    # Answered: q and r gained, p lost. Passed: u too.
    assert table["p"]["answered"] == 1.0
    assert table["p"]["false_recall"] == 1.0
    assert table["p"]["passed"] == pytest.approx(2 * (1 + 4) / 2**4)


def test_the_interval_is_that_of_the_paired_cases() -> None:
    table = by_metric(run(OLD), run(NEW, "new"))
    paired = {"recall@1": [-1, 1, 0, 0], "answered": [-1, 1, 1, 0], "passed": [-1, 1, 1, 0, 0, 1]}
    for metric, differences in paired.items():
        low, high = stats.paired_bootstrap(differences)
        assert low < high
        assert (table["low"][metric], table["high"][metric]) == (low, high)


def test_counts_are_those_of_the_summaries() -> None:
    before, after = run(OLD), run(NEW, "new")
    for row in compare(before, after).table.itertuples():
        assert before.counted(row.metric) == (row.before, row.n)
        assert after.counted(row.metric) == (row.after, row.n)


def test_the_runs_are_named() -> None:
    found = compare(run(OLD), run(NEW, "new"))
    assert (found.before, found.after) == ("old", "new")


def test_cases_are_paired_by_id_whatever_their_order() -> None:
    before, after = run(OLD), run(NEW, "new")
    backwards = run(dict(reversed(NEW.items())), "new")
    assert list(backwards.rows["case_id"]) != list(before.rows["case_id"])
    pd.testing.assert_frame_equal(compare(before, backwards).table, compare(before, after).table)
    pd.testing.assert_frame_equal(compare(before, backwards).flips, compare(before, after).flips)


@pytest.mark.parametrize(
    ("worse", "better", "metrics"),
    [
        ("withheld", "answered", {"recall@1", "answered", "passed"}),
        ("misled", "withheld", {"misled"}),
        ("misled", "answered", {"recall@1", "answered", "misled", "passed"}),
        ("spoke", "kept_quiet", {"false_recall", "passed"}),
        ("failed", "withheld", {"recall@3", "misled"}),
    ],
)
def test_better_is_more_recall_and_fewer_wrong_answers(worse: str, better: str, metrics: set[str]) -> None:
    old, new = run([worse] * 8), run([better] * 8, "new")
    for pair, verdict in (((old, new), "better"), ((new, old), "worse")):
        found = by_metric(*pair)["verdict"]
        assert set(found.index[found == verdict]) == metrics
        assert set(found[~found.index.isin(metrics)]) == {INSIDE}


def test_all_changed_alike_has_no_width_and_a_small_p() -> None:
    row = by_metric(run(["spoke"] * 8), run(["kept_quiet"] * 8, "new")).loc["false_recall"]
    assert (row["difference"], row["low"], row["high"]) == (-1.0, -1.0, -1.0)
    assert row["p"] == pytest.approx(2 / 2**8)


def test_a_difference_inside_its_interval_is_called_that() -> None:
    # One of five gained: it is missing from a draw of five with (4/5)^5 = 33%, so the interval starts at 0.
    old, new = run(["answered"] * 4 + ["withheld"]), run(["answered"] * 5, "new")
    row = by_metric(old, new).loc["answered"]
    assert (row["difference"], row["low"], row["verdict"]) == (1 / 5, 0.0, INSIDE)


def test_equal_runs_differ_in_nothing() -> None:
    found = compare(run(OLD), run(OLD, "new"))
    assert set(found.table["difference"]) == {0.0}
    assert set(found.table["p"]) == {1.0}
    assert set(found.table["verdict"]) == {INSIDE}
    assert found.flips.empty


def test_flips_are_told_by_name_and_direction() -> None:
    assert flipped(run(OLD), run(NEW, "new")) == [
        ("recall@1", "gained", "q"),
        ("recall@1", "lost", "p"),
        ("passed", "gained", "q"),
        ("passed", "gained", "r"),
        ("passed", "gained", "u"),
        ("passed", "lost", "p"),
    ]


def test_seen_from_the_other_side_gained_is_lost() -> None:
    there = flipped(run(OLD), run(NEW, "new"))
    back = flipped(run(NEW, "new"), run(OLD))
    other = {"gained": "lost", "lost": "gained"}
    assert sorted((metric, other[way], case) for metric, way, case in there) == sorted(back)


def test_a_flip_shows_both_tops() -> None:
    flip = compare(run({"q": "misled"}), run({"q": "answered"}, "new")).flips.iloc[0]
    assert flip["query"] == "about q?"
    assert (flip["before_top"], flip["before_score"]) == ("b", 0.8)
    assert (flip["after_top"], flip["after_score"]) == ("a", 0.9)


def test_a_search_that_failed_is_lost_and_has_no_top() -> None:
    found = compare(run({"q": "answered"}), run({"q": "failed"}, "new"))
    assert list(found.flips["direction"]) == ["lost", "lost"]
    assert set(found.flips["after_top"]) == {""}
    table = found.table.set_index("metric")
    assert (table["after"]["misled"], table["n"]["misled"]) == (1, 1)


@pytest.mark.parametrize(
    ("outcome", "unasked"), [("answered", ["false_recall"]), ("spoke", ["recall@1", "answered", "misled"])]
)
def test_a_metric_that_asks_no_case_says_nothing(outcome: str, unasked: list[str]) -> None:
    found = compare(run([outcome] * 3), run([outcome] * 3, "new"))
    part = found.table.set_index("metric").loc[unasked]
    assert set(part["n"]) == {0}
    assert part[["difference", "low", "high"]].isna().to_numpy().all()
    assert set(part["p"]) == {1.0}
    assert set(part["verdict"]) == {INSIDE}
    assert found.flips.empty


@pytest.mark.parametrize(
    ("one", "two", "recalls"),
    [(3, 3, ["recall@1", "recall@3"]), (5, 3, ["recall@1", "recall@3"]), (1, 5, ["recall@1"])],
)
def test_recall_is_compared_where_both_runs_have_it(one: int, two: int, recalls: list[str]) -> None:
    table = compare(run(OLD, top_k=one), run(NEW, "new", top_k=two)).table
    assert [metric for metric in table["metric"] if metric.startswith("recall")] == recalls
    assert not np.isnan(table["difference"]).any()

"""A ranking becomes a row, and rows become counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from builders import (
    case_of,
    examples,
    expected_ids,
    few_examples,
    gated,
    ranking_of,
    right,
    row_lists,
    row_of,
    scores_by_id,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import rankdata

from recall_core import gates, pipeline, scoring
from recall_core.config import PathConfig
from recall_core.embedders.hashing import HashEmbedder
from recall_core.gates import Gate
from recall_core.paths.local import LocalPath
from recall_core.records import Fixture, Hit, Memory, Ranking
from recall_core.scoring import Row

WIDE_OPEN = Gate(0.0)


def count(rows: pd.DataFrame, metric: str, part: str = "all", ks: Sequence[int] = (1, 3)) -> tuple[int, int]:
    table = scoring.summarise(rows, ks).set_index(["metric", "slice"])
    return tuple(table.loc[(metric, part), ["hits", "n"]])  # type: ignore[return-value]


def test_the_expected_memory_alone_on_top_is_right_first() -> None:
    assert scoring.place(case_of("a"), ranking_of(a=0.9, b=0.8)) == "right_first"


def test_another_memory_on_top_is_wrong() -> None:
    assert scoring.place(case_of("a"), ranking_of(a=0.8, b=0.9)) == "wrong_on_top"


def test_scores_equal_as_float32_tie_on_top() -> None:
    near, nearer = float(np.float32(0.8)), float(np.float32(0.8 + 1e-9))
    assert scoring.place(case_of("a"), ranking_of(a=near, b=nearer)) == "tie_on_top"
    above = float(np.nextafter(np.float32(0.8), np.float32(1)))
    assert scoring.place(case_of("a"), ranking_of(a=above, b=near)) == "right_first"


def test_two_expected_memories_that_tie_are_right_first() -> None:
    assert scoring.place(case_of("ab"), ranking_of(a=0.9, b=0.9, c=0.8)) == "right_first"
    assert scoring.place(case_of("ab"), ranking_of(a=0.9, b=0.9, c=0.9)) == "tie_on_top"


def test_nothing_expected_has_no_place_but_silent() -> None:
    assert scoring.place(case_of(""), ranking_of(a=0.9)) == "silent"
    assert scoring.place(case_of(""), ranking_of()) == "silent"


def test_evidence_decides_between_equal_scores_and_never_against_a_better_one() -> None:
    ranking = Ranking.ordered("p", [Hit("a", 0.5, evidence=2.0), Hit("b", 0.5, evidence=1.0), Hit("c", 0.4)])
    assert scoring.place(case_of("a"), ranking) == "right_first"
    assert scoring.place(case_of("b"), ranking) == "wrong_on_top"
    for id_, rank in (("a", 1), ("b", 2), ("c", 3)):
        assert scoring.score_case(case_of(id_), ranking, depth=3).ranks == (rank,)
    rows = scoring.frame([scoring.score_case(case_of("a"), ranking, depth=1)])
    assert rows["ids"][0] == ("a",), "b is behind: it does not tie with the last that is kept"
    even = Ranking.ordered("p", [Hit("a", 0.5, evidence=1.0), Hit("b", 0.5, evidence=1.0)])
    assert scoring.place(case_of("a"), even) == "tie_on_top"
    assert scoring.score_case(case_of("a"), even, depth=1).ids == ("a", "b")
    better = Ranking.ordered("p", [Hit("a", 0.5, evidence=9.0), Hit("b", 0.6)])
    assert scoring.place(case_of("b"), better) == "right_first"


STREAMS = (("vector",), ("keyword",), ("keyword", "entity", "graph", "vector"))


@pytest.mark.parametrize("streams", STREAMS, ids=" ".join)
@pytest.mark.parametrize("fusion", ["rrf", "minmax", "dbsf"])
def test_two_notes_with_the_same_words_tie_on_top(streams: tuple[str, ...], fusion: str) -> None:
    notes = [Memory(id=id_, text=text) for id_, text in [("a", "red kite"), ("b", "red kite"), ("c", "tea")]]
    case = case_of("a", query="red kite")
    fixture = Fixture(format=1, name="t", version="1.0.0", isolation="shared", filler=notes, cases=[case])
    embedder = HashEmbedder() if "vector" in streams else None
    path = LocalPath("p", PathConfig(streams=streams, fusion=fusion), embedder)
    (row,) = pipeline.run_cases(fixture, path, quiet=True).itertuples()
    assert (row.place, row.ids[:2], row.margin, row.rank) == ("tie_on_top", ("a", "b"), 0.0, 2.0)


def test_unexpected_memories_with_an_equal_score_are_ahead() -> None:
    assert row_of(case_of("a"), a=0.5, b=0.5, c=0.5, d=0.4).ranks == (3,)
    assert row_of(case_of("z"), z=0.5, b=0.9, c=0.1).ranks == (2,)


def test_expected_memories_do_not_push_each_other_behind_a_tie() -> None:
    assert row_of(case_of("ab"), a=0.9, b=0.9).ranks == (1, 2)
    assert row_of(case_of("ac"), a=0.9, b=0.5, c=0.5, d=0.5).ranks == (1, 1 + 1 + 2)
    assert row_of(case_of("ax"), b=0.9, a=0.8).ranks == (2, None)


def test_recall_at_k_needs_one_expected_memory_and_full_recall_counts_each() -> None:
    rows = gated(
        [row_of(case_of("abx"), a=0.9, c=0.8, d=0.7, b=0.6), row_of(case_of("a"), b=0.9, a=0.8)], WIDE_OPEN
    )
    assert count(rows, "recall@1") == (1, 2)
    assert count(rows, "recall@3") == (2, 2)
    assert count(rows, "full_recall@1") == (1, 3 + 1)
    assert count(rows, "full_recall@3") == (1 + 1, 3 + 1)
    assert count(rows, "full_recall@4", ks=[4]) == (2 + 1, 3 + 1)


def test_an_empty_ranking_is_wrong_and_stays_in_the_denominator() -> None:
    row = row_of(case_of("a"))
    assert (row.place, row.ranks, row.ids) == ("wrong_on_top", (None,), ())
    rows = gated([row], WIDE_OPEN)
    assert (rows["top1"][0], rows["margin"][0], rows["failed"][0]) == (-np.inf, -np.inf, False)
    assert count(rows, "recall@3") == (0, 1)
    assert count(rows, "withheld") == (1, 1)


def test_metrics_over_no_cases_count_zero_of_zero() -> None:
    rows = gated([row_of(case_of(""), a=0.9)], WIDE_OPEN)
    assert count(rows, "recall@1") == (0, 0)
    assert count(rows, "full_recall@1") == (0, 0)
    assert count(rows, "answered") == (0, 0)
    assert count(rows, "false_recall") == (1, 1)
    assert count(rows, "passed", "hard") == (0, 0)


def test_a_failed_case_scores_its_worst_value_everywhere() -> None:
    rows = gated(
        [
            right(0.9, 0.2),
            scoring.failed_case(case_of("ab"), "OSError: no disk"),
            row_of(case_of(""), a=0.1),
            scoring.failed_case(case_of(""), "OSError: no disk"),
        ],
        Gate(0.5, 0.1),
    )
    assert count(rows, "recall@1") == (1, 2)
    assert count(rows, "full_recall@3") == (1, 1 + 2)
    assert count(rows, "right_first") == (1, 2)
    assert count(rows, "wrong_on_top") == (1, 2)
    assert count(rows, "answered") == (1, 2)
    assert count(rows, "misled") == (1, 2)
    assert count(rows, "false_recall") == (1, 2)
    assert count(rows, "passed") == (2, 4)
    assert count(rows, "failed") == (2, 4)
    assert list(rows["error"][rows["failed"]]) == ["OSError: no disk"] * 2


class Deaf(HashEmbedder):
    """Cannot embed one of the questions."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if "bad" in texts:
            raise OSError("no disk")
        return super().embed_queries(texts)


def test_a_search_that_raises_becomes_a_failed_row_and_the_others_go_on() -> None:
    cases = [
        case_of("a", id_=id_, query=query) for id_, query in [("1", "red kite"), ("2", "bad"), ("3", "kite")]
    ]
    notes = [Memory(id="a", text="red kite"), Memory(id="b", text="tea")]
    fixture = Fixture(format=1, name="t", version="1.0.0", isolation="shared", filler=notes, cases=cases)
    path = LocalPath("deaf", PathConfig(streams=("vector",), centre=False), Deaf())
    rows = pipeline.run_cases(fixture, path, quiet=True)
    rows["outcome"] = gates.outcomes(rows, Gate(0.1, 0.1))
    assert list(rows["case_id"]) == ["1", "2", "3"]
    assert list(rows["place"]) == ["right_first", "wrong_on_top", "right_first"]
    (listed,) = pipeline.failures(fixture, rows).itertuples()
    assert (listed.case_id, listed.error, listed.on_top) == ("2", "OSError: no disk", "")


def test_cases_that_did_not_fail_list_no_error() -> None:
    notes = [Memory(id="a", text="x"), Memory(id="b", text="y")]
    cases = [case_of("a", id_="first"), case_of("a", id_="second")]
    fixture = Fixture(format=1, name="t", version="1.0.0", isolation="shared", filler=notes, cases=cases)
    rows = gated([scoring.failed_case(cases[0], "no disk"), row_of(cases[1], b=0.9, a=0.1)], WIDE_OPEN)
    assert list(pipeline.failures(fixture, rows)["error"]) == ["no disk", ""]


def test_a_single_candidate_has_an_infinite_margin() -> None:
    rows = scoring.frame([row_of(case_of("a"), a=0.25), row_of(case_of("a"), a=0.75, b=0.5)])
    assert list(rows["margin"]) == [np.inf, 0.75 - 0.5]
    assert list(rows["top1"]) == [0.25, 0.75]


def test_hits_of_one_memory_collapse_before_the_margin() -> None:
    ranking = Ranking.of("vector", [("a", 0.5), ("a", 1.0), ("a", 0.875), ("b", 0.25)])
    rows = scoring.frame([scoring.score_case(case_of("a"), ranking, depth=3)])
    assert (rows["ids"][0], rows["margin"][0]) == (("a", "b"), 1.0 - 0.25)


def test_depth_keeps_what_ties_with_the_last() -> None:
    row = row_of(case_of("e"), depth=2, a=0.9, b=0.5, c=0.5, d=0.5, e=0.4)
    assert row.ids == ("a", "b", "c", "d")
    assert row.scores == (0.9, 0.5, 0.5, 0.5)
    assert row.ranks == (5,), "the rank is of the whole ranking, not of what is kept"
    assert row_of(case_of("a"), depth=9, a=0.9, b=0.5).ids == ("a", "b")


@examples
@given(expected_ids, scores_by_id, st.randoms(use_true_random=False))
def test_permuting_what_goes_into_a_ranking_changes_nothing(expected, scores, random) -> None:
    shuffled = list(scores.items())
    random.shuffle(shuffled)
    case = case_of(sorted(expected))
    assert scoring.score_case(case, Ranking.of("v", shuffled), depth=3) == scoring.score_case(
        case, Ranking.of("v", scores.items()), depth=3
    )


@few_examples
@given(row_lists)
def test_the_three_places_add_up_to_the_answerable_cases(rows: list[Row]) -> None:
    table = gated(rows, WIDE_OPEN)
    answerable = sum(bool(row.case.expected) for row in rows)
    summary = scoring.summarise(table).query("slice == 'all' and metric in @scoring.PLACES")
    assert summary["hits"].sum() == answerable
    assert summary["n"].tolist() == [answerable] * 3


@examples
@given(expected_ids.filter(bool), scores_by_id)
def test_ranks_are_those_of_a_list_that_puts_the_expected_last_among_equals(expected, scores) -> None:
    worst_first = sorted(scores, key=lambda id_: (-scores[id_], id_ in expected, id_))
    wanted = tuple(worst_first.index(id_) + 1 if id_ in scores else None for id_ in sorted(expected))
    assert row_of(case_of(sorted(expected)), **scores).ranks == wanted


@examples
@given(scores_by_id.filter(bool), st.data())
def test_one_expected_memory_has_the_worst_rank_that_scipy_gives(scores, data) -> None:
    id_ = data.draw(st.sampled_from(sorted(scores)))
    worst = dict(zip(scores, rankdata([-score for score in scores.values()], method="max"), strict=True))
    assert row_of(case_of(id_), **scores).ranks == (worst[id_],)


@few_examples
@given(st.lists(st.tuples(expected_ids, scores_by_id), min_size=1, max_size=8), st.integers(1, 5))
def test_recall_at_k_is_what_a_count_by_hand_gives(asked, k: int) -> None:
    success, found, wanted, answerable = 0, 0, 0, 0
    for expected, scores in asked:
        first_k = set(sorted(scores, key=lambda id_: (-scores[id_], id_ in expected))[:k])
        answerable += bool(expected)
        success += bool(expected & first_k)
        found += len(expected & first_k)
        wanted += len(expected)
    rows = gated([row_of(case_of(sorted(expected)), **scores) for expected, scores in asked], WIDE_OPEN)
    summary = scoring.summarise(rows, [k]).query("slice == 'all'").set_index("metric")
    assert tuple(summary.loc[f"recall@{k}", ["hits", "n"]]) == (success, answerable)
    assert tuple(summary.loc[f"full_recall@{k}", ["hits", "n"]]) == (found, wanted)


@few_examples
@given(row_lists)
def test_the_languages_add_up_to_all_and_hard_to_the_rest(rows: list[Row]) -> None:
    table = gated(rows, Gate(0.5, 0.25))
    summary = scoring.summarise(table)
    everything = summary[summary["slice"] == "all"].set_index("metric")[["hits", "n"]]
    languages = summary[summary["slice"].str.startswith("lang=")].groupby("metric")[["hits", "n"]].sum()
    assert languages.to_dict("index") == everything.to_dict("index")
    hard = summary[summary["slice"] == "hard"].set_index("metric")[["hits", "n"]]
    rest = scoring.summarise(table[~table["hard"]]).query("slice == 'all'").set_index("metric")[["hits", "n"]]
    assert (hard + rest).to_dict("index") == everything.to_dict("index")


def test_each_language_and_hard_are_slices_of_their_own() -> None:
    rows = gated([right(0.9, lang="ru"), right(0.9, lang="ru", hard=True), right(0.1, lang="en")], Gate(0.5))
    assert count(rows, "passed", "lang=ru") == (2, 2)
    assert count(rows, "passed", "lang=en") == (0, 1)
    assert count(rows, "passed", "hard") == (1, 1)


@pytest.mark.parametrize("ks", [(1, 3), (1,), (1, 10)])
def test_metric_names_are_what_summarise_counts(ks: tuple[int, ...]) -> None:
    summary = scoring.summarise(gated([right(0.9)], WIDE_OPEN), ks)
    assert list(summary[summary["slice"] == "all"]["metric"]) == scoring.metric_names(ks)


def test_spreads_are_of_finite_numbers_in_their_own_group() -> None:
    rows = gated(
        [
            right(0.75, 0.25),
            right(0.5, 0.125),
            right(1.0),
            row_of(case_of("a"), a=0.25, b=0.25),
            row_of(case_of(""), a=0.5, b=0.0),
            scoring.failed_case(case_of("a"), "no disk"),
        ],
        WIDE_OPEN,
    )
    spread = scoring.distributions(rows).set_index(["quantity", "group"])
    assert tuple(spread.loc[("top1", "right")])[:3] == (3, 0.5, 0.75)
    assert tuple(spread.loc[("margin", "right")]) == pytest.approx(
        (2, 0.125, (0.125 + 0.25) / 2, 0.125 + 0.95 * 0.125, 0.25)
    )
    assert tuple(spread.loc[("margin", "wrong")]) == (1, 0.0, 0.0, 0.0, 0.0)
    assert tuple(spread.loc[("margin", "silent")])[:2] == (1, 0.5)
    assert tuple(spread.loc[("total_ms", "all")])[:3] == (5, 2.0 + 1.0, 3.0)


def test_the_spread_of_nothing_is_not_a_number() -> None:
    spread = scoring.distributions(gated([right(0.9)], WIDE_OPEN)).set_index(["quantity", "group"])
    assert spread.loc[("top1", "silent"), "n"] == 0
    assert spread.loc[("top1", "silent"), ["min", "median", "p95", "max"]].isna().all()

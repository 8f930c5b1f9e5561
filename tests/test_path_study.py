"""The study of paths: its tables by hand on a world of ten memories, and on runs that were made up."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest
from builders import case_of, result_of, right, row_of, silent, wrong
from conftest import PROBES, built, note
from ir_measures import RR, Qrel, ScoredDoc, Success

from recall_core import fixtures, path_study, pipeline, runs, scoring
from recall_core.config import PathConfig
from recall_core.embedders.hashing import HashEmbedder
from recall_core.gates import Gate
from recall_core.paths.local import LocalPath
from recall_core.records import Fixture
from recall_core.runs import Result

OPEN = Gate(0.0)

# A world small enough to check by eye

MEMORIES = [
    note("outage", "Saturday broke the exam.", kind="page", links=("resolvers",)),
    note("resolvers", "Two answer names.", kind="page"),
    note("sticker", "One comes out empty.", kind="page", entities=("Zebra",)),
    *(note(f"twin{i}", "kettle", kind="page") for i in range(6)),
    note("seen", "The vessel was pumped.", kind="observation"),
]


def asked(id_: str, query: str, *expected: str, tags: str) -> dict[str, object]:
    why = {} if expected else {"silent_because": "nothing says"}
    return {"id": id_, "query": query, "lang": "en", "expected": list(expected), "tags": tags.split()} | why


WORLD = built(
    asked("direct", "the exam on Saturday", "outage", tags="direct stream:keyword stream:vector"),
    asked("link", "what broke the exam", "resolvers", tags="link stream:graph"),
    asked("entity", "anything on Zebra?", "sticker", tags="entity stream:entity"),
    # It claims no stream and is of two kinds.
    asked("raw", "pumped vessel", "seen", tags="raw direct"),
    # Six twins tie for bm25, and what is not expected counts as ahead.
    asked("tied", "kettle", "twin5", tags="twins stream:keyword"),
    asked("lost", "nowhere", "sticker", tags="paraphrase stream:vector"),
    asked("quiet", "goose", tags="nothing"),
    # "name" stands on the page of the resolvers.
    asked("loud", "a name for a goose", tags="nothing"),
    isolation="shared",
    memories=[memory.model_dump() for memory in MEMORIES],
)
WORDS = LocalPath("words", PathConfig(streams=("keyword",)), quiet=True)
EVERY = LocalPath("every", PathConfig(streams=("keyword", "entity", "graph"), k=1, decay=0.5), quiet=True)
STREAMS = {path.name: path.options.streams for path in (WORDS, EVERY)}


def run(path: LocalPath, gate: Gate = OPEN, fixture: Fixture = WORLD) -> Result:
    return pipeline.evaluate(fixture, path, gate=gate, top_k=5, quiet=True)


@pytest.fixture(scope="module")
def words() -> Result:
    return run(WORDS)


@pytest.fixture(scope="module")
def every() -> Result:
    """What one stream finds first is worth 1 / (1 + 1), and a page that is linked with it half of that."""
    return run(EVERY)


@pytest.fixture(scope="module")
def changed() -> list[Result]:
    return [run(path) for path in path_study.variants(EVERY)]


def test_what_is_found_and_how_far_down_by_hand(words: Result, every: Result) -> None:
    nan = float("nan")
    ids = ["direct", "link", "entity", "raw", "tied", "lost", "quiet", "loud"]
    for result, within, rank in (
        (words, [1, 0, 0, 1, 0, 0, nan, nan], [1, nan, nan, 1, 6, nan, nan, nan]),
        # The link leads from the outage to the resolvers, second; the name to the sticker, which is alone.
        (every, [1, 1, 1, 1, 0, 0, nan, nan], [1, 2, 1, 1, 6, nan, nan, nan]),
    ):
        found, reciprocal = path_study.found(result), path_study.reciprocal_rank(result)
        assert list(found.index) == list(reciprocal.index) == ids
        assert found.tolist() == pytest.approx(within, nan_ok=True)
        assert reciprocal[:6].tolist() == [0.0 if np.isnan(at) else 1 / at for at in rank[:6]]
        assert reciprocal[6:].isna().all()


def test_k_is_that_of_the_run() -> None:
    rows = [right(0.9, 0.1, id_="first"), wrong(0.9, 0.1, id_="second"), silent(0.9, 0.1, id_="none")]
    for top_k, within in ((1, [1, 0]), (2, [1, 1])):
        assert path_study.found(result_of(rows, OPEN, top_k=top_k))[:2].tolist() == within


def test_side_by_side_by_hand(words: Result, every: Result) -> None:
    table = path_study.side_by_side([words, every], WORLD)
    assert list(table.columns) == ["path", "hits", "n", "mrr", "quiet", "silent", "context", "p50", "p95"]
    one, other = table.to_dict("records")
    assert (one["path"], one["hits"], one["n"]) == ("words", 2, 6)
    assert (other["path"], other["hits"], other["n"]) == ("every", 4, 6)
    assert one["mrr"] == pytest.approx((1 + 0 + 0 + 1 + 1 / 6 + 0) / 6)
    assert other["mrr"] == pytest.approx((1 + 1 / 2 + 1 + 1 + 1 / 6 + 0) / 6)
    # Open gates are quiet where nothing is found: of `quiet` and `loud`, of the first.
    assert [(line["quiet"], line["silent"]) for line in (one, other)] == [(1, 2), (1, 2)]


def test_quiet_is_what_the_gate_of_the_path_keeps_quiet(every: Result) -> None:
    # The resolvers, found for `loud` by their words alone, are worth a half.
    shut = run(EVERY, Gate(0.6))
    table = path_study.side_by_side([every, shut], WORLD)
    assert table["quiet"].tolist() == [1, 2]
    assert table["hits"].tolist() == [4, 4], "the gate has no say in what is found"


def test_the_context_is_the_median_size_of_the_first_k(words: Result, every: Result) -> None:
    # In words and marks: outage 5, resolvers 4, sticker 5, seen 5, a twin 1.
    told = path_study.side_by_side([words, every], WORLD)["context"].tolist()
    by_words = {
        "direct": 5,
        "link": 5,
        "entity": 0,
        "raw": 5,
        "tied": 5 * 1,
        "lost": 0,
        "quiet": 0,
        "loud": 4,
    }
    # The outage and the resolvers lead to each other.
    by_every = by_words | {"direct": 5 + 4, "link": 5 + 4, "entity": 5, "loud": 4 + 5}
    assert told == [np.median([*by_words.values()]), np.median([*by_every.values()])] == [4.5, 5]


def test_the_time_is_that_of_a_search() -> None:
    rows = [right(0.9, 0.1, id_=f"q{at}") for at in range(21)]
    result = result_of(rows, OPEN)
    spent = np.arange(21.0)
    timed = result.rows.assign(search_ms=spent, embed_ms=1e6)
    result = Result(**vars(result) | {"rows": timed, "spread": scoring.distributions(timed)})
    fixture = built(isolation="shared", memories=[note(id_).model_dump() for id_ in "ab"])
    (line,) = path_study.side_by_side([result], fixture).to_dict("records")
    assert (line["p50"], line["p95"]) == (10.0, 19.0)


def test_kinds_by_hand(words: Result, every: Result) -> None:
    assert path_study.kinds([words, every]).to_dict("records") == [
        {"kind": "direct", "words": 2, "every": 2, "n": 2},
        {"kind": "link", "words": 0, "every": 1, "n": 1},
        {"kind": "entity", "words": 0, "every": 1, "n": 1},
        {"kind": "raw", "words": 1, "every": 1, "n": 1},
        {"kind": "twins", "words": 0, "every": 0, "n": 1},
        {"kind": "paraphrase", "words": 0, "every": 0, "n": 1},
    ]


def test_cases_without_tags_are_of_no_kind() -> None:
    table = path_study.kinds([result_of([right(0.9, 0.1), silent(0.9, 0.1, id_="s")], OPEN, path="p")])
    assert list(table.columns) == ["kind", "p", "n"]
    assert table.empty


# Variants


def fields_of(options: PathConfig, other: PathConfig) -> set[str]:
    return {name for name in PathConfig.model_fields if getattr(options, name) != getattr(other, name)}


def test_each_variant_changes_one_thing_and_is_named_after_it() -> None:
    tried = {path.name: path.options for path in path_study.variants(EVERY)}
    assert list(tried) == [
        *("without keyword", "without entity", "without graph", "minmax", "dbsf"),
        *("rrf, k 10", "rrf, k 60", "rrf, k 200"),
        *("keyword weighs 0.5", "keyword weighs 2", "entity weighs 0.5", "entity weighs 2"),
        *("decay 0.3", "decay 0.7", "decay 0.9", "observations stream", "observations fallback"),
    ]
    assert [len(fields_of(EVERY.options, options)) for options in tried.values()] == [1] * len(tried)
    assert tried["without entity"].streams == ("keyword", "graph")
    assert (tried["dbsf"].fusion, tried["rrf, k 60"].k) == ("dbsf", 60)
    assert tried["entity weighs 2"].weights == {"entity": 2.0}
    assert (tried["decay 0.9"].decay, tried["observations stream"].observations) == (0.9, "stream")


def test_a_path_of_one_stream_has_none_to_leave_out() -> None:
    assert not [path for path in path_study.variants(WORDS) if path.name.startswith("without")]


def test_weights_of_other_streams_are_kept() -> None:
    options = PathConfig(streams=("keyword", "entity"), weights={"keyword": 3.0, "entity": 0.25})
    tried = {path.name: path.options for path in path_study.variants(LocalPath("p", options))}
    assert tried["entity weighs 2"].weights == {"keyword": 3.0, "entity": 2.0}
    assert "decay 0.3" not in tried


def test_of_another_fusion_every_constant_of_ranks_is_tried() -> None:
    options = PathConfig(streams=("keyword", "entity"), fusion="minmax", k=1)
    tried = {path.name: path.options for path in path_study.variants(LocalPath("p", options))}
    assert [name for name in tried if name.startswith("rrf")] == [f"rrf, k {k}" for k in path_study.KS]
    assert {"minmax", "dbsf"} & set(tried) == {"dbsf"}
    assert all(tried[f"rrf, k {k}"].fusion == "rrf" for k in path_study.KS)


@pytest.mark.parametrize(("centre", "name"), [(True, "not centred"), (False, "centred")])
def test_vectors_are_tried_with_their_mean_or_without_and_embedded_once(centre: bool, name: str) -> None:
    path = LocalPath("p", PathConfig(centre=centre), HashEmbedder(), quiet=True)
    tried = {variant.name: variant for variant in path_study.variants(path)}
    assert tried[name].options.centre is not centre
    assert all(variant.known is path.known for variant in tried.values())
    assert tried["without vector"].options.streams == ("keyword", "entity", "graph")


def test_every_variant_has_a_fingerprint_of_its_own() -> None:
    path = LocalPath("p", PathConfig(), HashEmbedder(), quiet=True)
    marks = [variant.fingerprint for variant in (path, *path_study.variants(path))]
    assert len(set(marks)) == len(marks)


# What each part is worth


def test_what_is_rescued_by_hand(every: Result, changed: list[Result]) -> None:
    effects = path_study.rescues(every, changed)
    assert set(effects.itertuples(index=False, name=None)) == {
        ("keyword", "rescued", "direct", "the exam on Saturday"),
        ("keyword", "rescued", "link", "what broke the exam"),
        ("keyword", "rescued", "raw", "pumped vessel"),
        ("entity", "rescued", "entity", "anything on Zebra?"),
        ("graph", "rescued", "link", "what broke the exam"),
    }


BASE = [
    right(0.9, 0.1, id_="p"),
    right(0.9, 0.1, id_="q"),
    wrong(0.9, 0.1, id_="r"),
    silent(0.9, 0.1, id_="s"),
]
"""Of three cases two are first and one is second."""
OTHER = [
    right(0.9, 0.1, id_="p"),
    wrong(0.9, 0.1, id_="q"),
    right(0.9, 0.1, id_="r"),
    silent(0.9, 0.1, id_="s"),
]
"""q for r."""
WORSE = [right(0.9, 0.1, id_="p"), row_of(case_of("a", id_="q"), b=0.9), wrong(0.9, 0.1, id_="r"), BASE[3]]
"""q does not come back at all."""


def made(rows: list[scoring.Row], path: str) -> Result:
    return result_of(rows, OPEN, path=path, top_k=1)


def test_what_is_found_only_without_a_stream_is_hurt_by_it() -> None:
    others = [made(OTHER, "without graph"), made(WORSE, "minmax"), made(BASE, "without entity")]
    effects = path_study.rescues(made(BASE, "p"), others)
    assert effects.to_dict("records") == [
        {"stream": "graph", "effect": "rescued", "case_id": "q", "query": "?"},
        {"stream": "graph", "effect": "hurt", "case_id": "r", "query": "?"},
    ]
    nothing = path_study.rescues(made(BASE, "p"), others[1:])
    assert nothing.empty
    assert list(nothing.columns) == list(effects.columns)


def test_differences_by_hand() -> None:
    base, swap, worse = path_study.differences(
        made(BASE, "p"), [made(OTHER, "swap"), made(WORSE, "worse")]
    ).to_dict("records")
    assert [(line["path"], line["hits"], line["n"]) for line in (base, swap, worse)] == [
        *(("p", 2, 3), ("swap", 2, 3), ("worse", 1, 3)),
    ]
    assert base["mrr"] == swap["mrr"] == pytest.approx((1 + 1 + 1 / 2) / 3)
    assert worse["mrr"] == pytest.approx((1 + 0 + 1 / 2) / 3)
    assert (base["difference"], base["low"], base["high"]) == (0, 0, 0)
    # Of the differences 0, -1 and 1 three draws are all -1 in one of 27: more often than in one of 40.
    assert (swap["difference"], swap["low"], swap["high"]) == (0, -1, 1)
    # Of 0, -1 and 0 none is -1 in 8 of 27, and all are in 1.
    assert (worse["difference"], worse["low"], worse["high"]) == (pytest.approx(-1 / 3), -1, 0)


def test_differences_of_nothing_are_no_numbers() -> None:
    (line,) = path_study.differences(made([silent(0.9, 0.1)], "p"), []).to_dict("records")
    assert (line["hits"], line["n"]) == (0, 0)
    assert np.isnan([line[name] for name in ("mrr", "difference", "low", "high")]).all()


def test_rescued_less_hurt_is_the_difference(every: Result, changed: list[Result]) -> None:
    table = path_study.differences(every, changed).set_index("path")
    assert list(table.index) == ["every", *(result.path for result in changed)]
    effects = path_study.rescues(every, changed)
    for stream in EVERY.options.streams:
        of = effects[effects["stream"] == stream]["effect"].value_counts()
        change = of.get("hurt", 0) - of.get("rescued", 0)
        assert table.loc[f"without {stream}", "hits"] - table.loc["every", "hits"] == change
        assert table.loc[f"without {stream}", "difference"] == pytest.approx(change / 6)


# What is held, and what is lost


def test_a_path_is_held_to_the_cases_that_claim_its_streams_or_none(words: Result, every: Result) -> None:
    # Words: direct, raw and tied. Every: these, the link and the entity. Of vectors, neither.
    assert path_study.held_to([words, every], STREAMS).to_dict("records") == [
        {"path": "words", "hits": 2, "n": 3, "lost": "tied"},
        {"path": "every", "hits": 4, "n": 5, "lost": "tied"},
    ]
    (line,) = path_study.held_to([words], {"words": ("vector",)}).to_dict("records")
    # Of its own are then direct, which claims it too, raw and lost.
    assert line == {"path": "words", "hits": 2, "n": 3, "lost": "lost"}


def test_what_the_first_finds_and_another_does_not(words: Result, every: Result) -> None:
    assert path_study.below(every, [words, every]).to_dict("records") == [
        {"path": "words", "case_id": "link", "query": "what broke the exam"},
        {"path": "words", "case_id": "entity", "query": "anything on Zebra?"},
    ]
    nothing = path_study.below(words, [every])
    assert nothing.empty
    assert list(nothing.columns) == ["path", "case_id", "query"]


def test_what_is_lost_is_told_with_what_came_instead(words: Result, every: Result) -> None:
    pd.testing.assert_frame_equal(
        path_study.lost(every),
        pd.DataFrame(
            {
                "case_id": ["tied", "lost"],
                "kind": ["twins", "paraphrase"],
                "query": ["kettle", "nowhere"],
                "expected": ["twin5", "sticker"],
                "rank": [6.0, np.nan],
                "top": ["twin0", "nothing"],
            }
        ),
    )
    assert path_study.lost(words)["case_id"].tolist() == ["link", "entity", "tied", "lost"]
    found = path_study.lost(made([right(0.9, 0.1), silent(0.9, 0.1, id_="s")], "p"))
    assert found.empty
    assert list(found.columns) == ["case_id", "kind", "query", "expected", "rank", "top"]


def test_a_search_that_failed_found_nothing() -> None:
    failed = scoring.failed_case(case_of("a", id_="f", query="why?"), "OSError: no disk")
    result = made([*BASE, failed], "p")
    assert path_study.found(result)["f"] == path_study.reciprocal_rank(result)["f"] == 0
    assert path_study.lost(result).set_index("case_id").loc["f", "top"] == "nothing"


def test_runs_that_were_kept_give_the_same_tables(words: Result, every: Result, tmp_path: Path) -> None:
    again = []
    for result in (words, every):
        runs.write_rows(result.rows, tmp_path / "run.jsonl")
        again.append(Result(**vars(result) | {"rows": runs.read_rows(tmp_path / "run.jsonl")}))
    for table in (
        lambda results: path_study.kinds(results),
        lambda results: path_study.side_by_side(results, WORLD),
        lambda results: path_study.held_to(results, STREAMS),
        lambda results: path_study.lost(results[1]),
    ):
        pd.testing.assert_frame_equal(table(again), table([words, every]))


# The wiki we ship


def test_ir_measures_agrees_on_the_wiki_we_ship() -> None:
    fixture = fixtures.load(PROBES)
    path = LocalPath("all", PathConfig(), HashEmbedder(), quiet=True)
    session = path.open(list(fixtures.all_memories(fixture)))
    qrels, given = [], []
    for case in fixture.cases:
        if case.answerable:
            qrels += [Qrel(case.id, id_, 1) for id_ in case.expected]
            hits = session.search(case.query, pipeline.DEPTH).hits
            # What is not expected comes first among equals.
            ordered = sorted(hits, key=lambda hit: (-hit.score, -hit.evidence, hit.id in case.expected))
            given += [ScoredDoc(case.id, hit.id, 1 / place) for place, hit in enumerate(ordered, 1)]
    measured = ir_measures.calc_aggregate([Success @ 5, RR], qrels, given)
    (line,) = path_study.side_by_side([run(path, fixture=fixture)], fixture).to_dict("records")
    assert measured[Success @ 5] == pytest.approx(line["hits"] / line["n"], rel=1e-9)
    assert measured[RR] == pytest.approx(line["mrr"], rel=1e-9)

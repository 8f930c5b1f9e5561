"""Read paths: what each finds, what explains a score, what is in a fingerprint, and that no order counts."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from contextlib import closing
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar

import pytest
from conftest import ROOT, ByHand, note

from recall_core import catalogue, config, fixtures, pipeline
from recall_core.config import PathConfig
from recall_core.embedders import Embedder
from recall_core.embedders.hashing import HashEmbedder
from recall_core.gates import Gate
from recall_core.paths import local
from recall_core.paths.local import LocalPath
from recall_core.records import FingerprintError, Fixture, Memory, Part, Ranking, UnknownPathError
from recall_core.store import SqliteStore

ALL = ("keyword", "entity", "graph", "vector")


def path_of(*streams: str, embedder: Embedder | None = None, **options: Any) -> LocalPath:
    if "vector" in streams:
        embedder = embedder or HashEmbedder()
    return LocalPath("p", PathConfig(streams=streams, **options), embedder, quiet=True)


def search(path: LocalPath, memories: Sequence[Memory], query: str, depth: int = 50) -> Ranking:
    return path.open(memories).search(query, depth)


def ids(ranking: Ranking) -> list[str]:
    return [hit.id for hit in ranking.hits]


def parts(ranking: Ranking) -> dict[str, list[str]]:
    return {hit.id: [part.stream for part in hit.parts] for hit in ranking.hits}


LIBRARY = [
    note("kettle", "the kettle boils in the kitchen", kind="page", links=("tap",), entities=("Brita",)),
    note("tap", "it drips at night", kind="page"),
    note("filter", "change it in spring", kind="page", entities=("Brita",)),
    note("bicycle", "the tyre takes four bars", kind="page"),
    note("raw", "somebody spoke of a kettle", kind="observation"),
]


# By name


@pytest.mark.parametrize(
    ("name", "kind", "streams"),
    [
        ("keyword", "keyword", ("keyword",)),
        ("hash", "hash", ("vector",)),
        ("hybrid", "hash", ALL),
    ],
)
def test_a_built_in_path_opens_and_searches(name: str, kind: str, streams: tuple[str, ...]):
    path = catalogue.open_path(name, ROOT, quiet=True)
    assert (path.name, path.kind, path.options.streams) == (name, kind, streams)
    ranking = search(path, LIBRARY, "where does the kettle boil")
    assert ranking.stream == name
    assert ids(ranking)[0] == "kettle"
    assert {part.stream for hit in ranking.hits for part in hit.parts} <= {*streams}
    assert path.options.centre == (name != "hash")


def test_a_path_of_recall_toml_is_opened_by_its_name():
    plain = PathConfig(streams=("keyword", "vector"), fusion="minmax")
    other = PathConfig(streams=("keyword",), near=0.0)
    settings = config.Config(paths={"mine": plain, "keyword": other})
    path = catalogue.open_path("mine", ROOT, settings, quiet=True)
    assert (path.options, path.embedder.name) == (plain, "hash")
    # It may take the place of a built-in one.
    assert catalogue.open_path("keyword", ROOT, settings).options == other
    assert catalogue.open_path("keyword", ROOT).options.near == 0.5
    with pytest.raises(
        UnknownPathError, match=r"no path is called 'none'; known: hash, .*hybrid, mine\. Add"
    ):
        catalogue.open_path("none", ROOT, settings)


def test_only_an_embedder_ships_with_the_gate_of_all():
    own = config.GateConfig(min_score=0.3, delta=None)
    settings = config.Config(gates={"mine": own}, paths={"mine": PathConfig()})
    assert catalogue.gate_of("hash", ROOT, settings) == Gate(settings.gate.min_score, settings.gate.delta)
    assert catalogue.gate_of("mine", ROOT, settings) == Gate(0.3, None)
    assert catalogue.gate_of("hybrid", ROOT, settings) == Gate(0.0)


# One stream alone


def test_one_stream_keeps_its_own_scores():
    path = path_of("keyword")
    ranking, (stream,) = search(path, LIBRARY, "kettle"), path.open(LIBRARY).streams("kettle", 50)
    assert ids(ranking) == ["raw", "kettle"]  # the shorter text is ahead
    assert [(hit.id, hit.score) for hit in ranking.hits] == [(hit.id, hit.score) for hit in stream.hits]
    assert [hit.parts for hit in ranking.hits] == [
        (Part("keyword", rank, hit.score, hit.score),) for rank, hit in enumerate(stream.hits, 1)
    ]


def test_hits_are_cut_off_at_the_depth_asked_for():
    memories = [note(f"m{i}", f"kettle number {i}") for i in range(9)]
    for path in (path_of("keyword"), path_of("vector"), path_of(*ALL)):
        full = search(path, memories, "kettle number 3", 9)
        assert len(full.hits) == 9
        assert search(path, memories, "kettle number 3", 4) == full.top(4)


@pytest.mark.parametrize(
    "path", [path_of("keyword"), path_of("vector"), path_of(*ALL)], ids=["k", "v", "all"]
)
@pytest.mark.parametrize("query", ["kettle", "🙂", "'; DROP TABLE memories; --"])
def test_a_memory_that_holds_nothing_finds_nothing(path: LocalPath, query: str):
    assert search(path, [], query) == Ranking("p", ())


EAST, NORTH, NORTH_EAST = (1.0, 0.0), (0.0, 1.0), (0.6, 0.8)


def test_vectors_are_compared_less_their_mean_where_that_is_asked_for():
    rows = ByHand({"a": EAST, "b": NORTH, "?": NORTH_EAST})
    memories = [note("a"), note("b")]
    plain = search(path_of("vector", embedder=rows, centre=False), memories, "?")
    assert {hit.id: hit.score for hit in plain.hits} == pytest.approx({"b": 0.8, "a": 0.6})
    # Less (0.5, 0.5): a is (1, -1) / sqrt(2), the question (0.1, 0.3) / sqrt(0.1).
    centred = search(path_of("vector", embedder=rows), memories, "?")
    expected = (0.3 - 0.1) / sqrt(0.1 * 2)
    assert {hit.id: hit.score for hit in centred.hits} == pytest.approx({"b": expected, "a": -expected})


def test_a_turn_is_compared_alone_and_between_its_neighbours():
    rows = ByHand({"a": EAST, "b": NORTH, "z": NORTH, "a\nb": NORTH_EAST, "?": EAST})
    memories = [note("a", thread="t", position=0), note("b", thread="t", position=1), note("z")]
    ranking = search(path_of("vector", embedder=rows, centre=False), memories, "?")
    # a: 1 alone, 0.6 in its window; b: 0 and 0.6; z, in no thread, is itself twice.
    assert {hit.id: hit.score for hit in ranking.hits} == pytest.approx(
        {"a": (1 + 0.6) / 2, "b": (0 + 0.6) / 2, "z": 0.0}
    )
    alone = search(path_of("vector", embedder=rows, centre=False, window=False), memories, "?")
    assert {hit.id: hit.score for hit in alone.hits} == {"a": 1.0, "b": 0.0, "z": 0.0}


# What explains a score


@pytest.mark.parametrize("fusion", ["rrf", "minmax", "dbsf"])
@pytest.mark.parametrize("observations", ["searched", "stream", "fallback"])
def test_the_parts_add_up_to_the_score(fusion: str, observations: str):
    memories = [
        *LIBRARY,
        note("said", "my kettle is new", speaker="Ann Bell", kind="page", links=("filter",)),
    ]
    path = path_of(*ALL, fusion=fusion, observations=observations)
    session = path.open(memories)
    for query in ("kettle", "what of Brita", "Ann, is the kettle by Brita?", "bars", "violin"):
        ranking = session.search(query, 50)
        own = {
            found.stream: {hit.id: hit.score for hit in found.hits} for found in session.streams(query, 50)
        }
        assert ranking.hits
        for hit in ranking.hits:
            total = math.fsum(part.contribution for part in hit.parts)
            assert hit.score == pytest.approx(total, rel=1e-12)
            for part in hit.parts:
                if part.stream not in ("graph", "speaker"):
                    assert own[part.stream][hit.id] == part.score
    assert {"keyword", "entity", "graph", "vector", "speaker"} <= {
        part.stream for hit in session.search("Ann, is the kettle by Brita?", 50).hits for part in hit.parts
    }


def test_streams_are_fused_as_the_options_say():
    memories = [note("a", "kettle", entities=("Brita",)), note("b", "kettle steel"), note("c", "pot")]
    # keyword: a then b (it is longer); entity: a.
    plain = search(path_of("keyword", "entity", k=1), memories, "brita kettle")
    assert {hit.id: hit.score for hit in plain.hits} == {"a": 1 / 2 + 1 / 2, "b": 1 / 3}
    other = search(path_of("keyword", "entity", k=0, weights={"entity": 0.25}), memories, "brita kettle")
    assert {hit.id: hit.score for hit in other.hits} == {"a": 1 + 0.25, "b": 1 / 2}
    scaled = search(path_of("keyword", "entity", fusion="minmax"), memories, "brita kettle")
    assert {hit.id: hit.score for hit in scaled.hits} == {"a": 1.0, "b": 0.0}


def test_a_linked_page_comes_after_the_page_it_was_reached_from():
    memories = [page for page in LIBRARY if page.kind == "page"]
    for decay in (0.0, 0.5, 0.9):
        ranking = search(path_of("keyword", "graph", decay=decay), memories, "kettle")
        assert [(hit.id, hit.score) for hit in ranking.hits] == [("kettle", 1 / 2), ("tap", decay / 2)]
        assert parts(ranking) == {"kettle": ["keyword"], "tap": ["graph"]}


# Who said it


TALK = [
    note("ann", "a new kettle", speaker="Ann Bell", thread="t", position=0),
    note("bo", "a kettle of steel", speaker="Bo", thread="s", position=0),
]


def test_what_a_named_speaker_said_is_raised():
    plain = {hit.id: hit.score for hit in search(path_of("keyword"), TALK, "the kettle").hits}
    named = search(path_of("keyword", speaker=0.5), TALK, "the kettle of Bo")
    assert {hit.id: hit.score for hit in named.hits} == pytest.approx(plain | {"bo": 1.5 * plain["bo"]})
    assert parts(named) == {"ann": ["keyword"], "bo": ["keyword", "speaker"]}
    assert named.hits[0].id == "bo"
    # Both are named, one by the first name; a last name names nobody.
    both = search(path_of("keyword", speaker=0.5), TALK, "bo's and ann's kettle")
    assert {hit.id: hit.score for hit in both.hits} == pytest.approx(
        {id_: 1.5 * s for id_, s in plain.items()}
    )
    assert parts(search(path_of("keyword"), TALK, "the kettle of Bell"))["ann"] == ["keyword"]


def test_without_a_share_no_speaker_is_raised():
    ranking = search(path_of("keyword", speaker=0.0), TALK, "the kettle of Bo")
    assert parts(ranking) == {"ann": ["keyword"], "bo": ["keyword"]}


def test_neighbours_and_dates_are_searched_where_they_weigh_something():
    memories = [
        note("a", "a new kettle", thread="t", position=0, ts="2023-05-08T10:00:00+00:00"),
        note("b", "steel", thread="t", position=1),
        *(note(f"z{i}", "pot") for i in range(5)),
    ]
    assert ids(search(path_of("keyword"), memories, "kettle")) == ["a", "b"]
    assert ids(search(path_of("keyword", near=0.0), memories, "kettle")) == ["a"]
    assert ids(search(path_of("keyword"), memories, "8 May")) == ["a"]
    assert ids(search(path_of("keyword", date=0.0), memories, "8 May")) == []


def test_two_paths_over_one_store_do_not_change_each_other():
    with_near, without = path_of("keyword", k=1), path_of("keyword", near=0.0, date=0.0)
    memories = [note(f"m{i}", f"kettle {i}" if i < 2 else "pot", thread="t", position=i) for i in range(9)]
    store = SqliteStore()
    store.add(memories)
    query = "kettle or pot"
    for path in (with_near, without, with_near):
        assert path.session(store).search(query, 50) == search(path, memories, query)


# Raw observations


def test_raw_observations_are_searched_like_any_memory():
    ranking = search(path_of("keyword", "vector"), LIBRARY, "kettle")
    assert parts(ranking)["raw"] == ["keyword", "vector"]


def test_raw_observations_are_a_stream_of_their_own_by_words_alone():
    memories = [*LIBRARY, note("named", "hello", kind="observation", entities=("Brita",))]
    ranking = search(
        path_of("keyword", "entity", "vector", observations="stream"), memories, "kettle by Brita"
    )
    assert parts(ranking)["raw"] == ["observation"]
    assert "named" not in ids(ranking)
    found = path_of("keyword", "vector", observations="stream").open(memories).streams("kettle", 50)
    assert [stream.stream for stream in found] == ["keyword", "vector", "observation"]
    assert [ids(stream) for stream in found][0::2] == [["kettle"], ["raw"]]
    assert sorted(ids(found[1])) == ["bicycle", "filter", "kettle", "tap"]
    # A stream of vectors that is cut off is cut off after the raw ones are left out.
    cut = path_of("keyword", "vector", observations="stream").open(memories).streams("kettle", 4)
    assert len(cut[1].hits) == 4


def test_raw_observations_are_asked_last_of_all():
    path = path_of("keyword", "entity", observations="fallback")
    assert ids(search(path, LIBRARY, "kettle")) == ["kettle"]
    nothing_else = search(path, LIBRARY, "who spoke?")
    assert parts(nothing_else) == {"raw": ["observation"]}
    assert search(path, LIBRARY, "violin") == Ranking("p", ())


# Fingerprints

OTHER: dict[str, Any] = {
    "streams": ("keyword", "vector"),
    "fusion": "minmax",
    "k": 60,
    "weights": {"keyword": 2.0},
    "decay": 0.25,
    "observations": "stream",
    "centre": False,
    "near": 0.0,
    "date": 0.0,
    "speaker": 0.0,
    "window": False,
    "rerank_top": 3,
}


def test_each_option_has_a_fingerprint_of_its_own():
    assert {*OTHER} == {*PathConfig.model_fields} - {"embedder", "rerank"}
    plain, embedder = PathConfig(), HashEmbedder()
    made = [plain, *(PathConfig(**{name: value}) for name, value in OTHER.items())]
    found = {LocalPath("p", options, embedder).fingerprint for options in made}
    assert len(found) == len(made) == 1 + len(OTHER)


def test_the_embedder_is_in_the_fingerprint_and_names_are_not():
    one, two = ByHand({"a": EAST}, "one"), ByHand({"a": EAST}, "two")
    options = PathConfig(streams=("vector",))
    prints = {LocalPath("p", options, embedder).fingerprint for embedder in (one, two, HashEmbedder())}
    assert len(prints) == 3
    renamed = options.model_copy(update={"embedder": "other"})
    assert LocalPath("q", renamed, one, quiet=True).fingerprint == LocalPath("p", options, one).fingerprint
    assert len(LocalPath("p", options, one).fingerprint) == 64


def test_the_order_weights_are_written_in_changes_no_fingerprint():
    one, two = ({"keyword": 2.0, "vector": 3.0}, {"vector": 3.0, "keyword": 2.0})
    assert path_of("keyword", weights=one).fingerprint == path_of("keyword", weights=two).fingerprint


def test_another_method_is_another_fingerprint(monkeypatch: pytest.MonkeyPatch):
    before = path_of("keyword").fingerprint
    monkeypatch.setattr(local, "METHOD", "next")
    assert path_of("keyword").fingerprint != before


# Stores


def test_a_store_that_is_there_is_asked_as_one_that_was_filled(tmp_path: Path):
    path = path_of(*ALL)
    memories = [*LIBRARY, *TALK]
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        store.add(memories)
        with pytest.raises(FingerprintError, match="7 of 7 memories have no vector"):
            path.session(store)
        local.embed(store, path.embedder, quiet=True)
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        assert path.session(store).search("the kettle", 50) == search(path, memories, "the kettle")
        # By words alone no vector is needed, whichever there are.
        assert ids(path_of("keyword").session(store).search("bars", 50)) == ["bicycle"]


def test_a_path_embeds_what_many_stores_share_once():
    class Counting(HashEmbedder):
        seen: ClassVar[list[str]] = []

        def embed_passages(self, texts: Sequence[str]) -> Any:
            self.seen += texts
            return super().embed_passages(texts)

    path = path_of("vector", embedder=Counting())
    for own in ("one", "two"):
        path.open([note("shared", "the same"), note(own)])
    assert sorted(Counting.seen) == ["one", "the same", "two"]


# No order counts

PATHS = {
    "keyword": path_of("keyword"),
    "vector": path_of("vector"),
    "plain vector": path_of("vector", centre=False, window=False),
    "rrf": path_of(*ALL),
    "minmax": path_of(*ALL, fusion="minmax"),
    "dbsf": path_of(*ALL, fusion="dbsf", observations="stream"),
    "fallback": path_of("keyword", "entity", "graph", observations="fallback"),
}


def everything() -> list[Memory]:
    said = ["a new kettle", "of steel?", "of steel, by Brita", "and the old kettle", "a new kettle", "gone"]
    turns = [
        note(
            f"t{at}",
            text,
            speaker=("Ann", "Bo")[at % 2],
            thread=f"s{at % 2}",
            position=at // 2,
            ts=f"2023-05-0{at + 1}T10:00:00+00:00",
        )
        for at, text in enumerate(said)
    ]
    return [*LIBRARY, *turns, note("twin", "the tyre takes four bars")]


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("seed", range(4))
def test_the_order_memories_arrive_in_changes_nothing(name: str, seed: int):
    path, memories = PATHS[name], everything()
    shuffled = random.Random(seed).sample(memories, len(memories))
    queries = (
        "kettle",
        "did Ann get a new kettle on 5 May?",
        "four bars by Brita",
        "steel",
        "spoke",
        "violin",
    )
    once, again = path.open(memories), LocalPath("p", path.options, path.embedder).open(shuffled)
    for query in queries:
        assert once.search(query, 50) == again.search(query, 50)
        assert once.search(query, 50) == once.search(query, 50)


def test_the_streams_of_the_options_may_stand_in_any_order():
    memories, query = everything(), "did Ann get a new kettle by Brita?"
    assert search(path_of(*ALL[::-1]), memories, query) == search(path_of(*ALL), memories, query)


@pytest.mark.parametrize("name", ["keyword", "hash", "hybrid"])
def test_a_run_is_the_same_twice(notes: Fixture, name: str):
    first, second = (
        pipeline.run_cases(notes, catalogue.open_path(name, ROOT, quiet=True), quiet=True) for _ in range(2)
    )
    timings = ["embed_ms", "search_ms"]
    assert first.drop(columns=timings).equals(second.drop(columns=timings))
    assert not first["failed"].any()
    assert first["case_hash"].tolist() == [fixtures.case_hash(notes, case) for case in notes.cases]
    assert first["search_ms"].notna().all()
    assert first["embed_ms"].notna().any() == (name != "keyword")

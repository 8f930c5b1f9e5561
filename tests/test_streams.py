"""Streams: the full scan against plain arithmetic, and keywords that take anything a person types."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from conftest import note
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_core import streams
from recall_core.records import Hit, InputError, Ranking
from recall_core.store import MemoryStore, SqliteStore, Store

F = "f" * 64
both = pytest.mark.parametrize("make", [MemoryStore, SqliteStore])
Make = Callable[[], Store]


def unit_rows(n: int, dim: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def holding(make: Make, vectors: dict[str, list[float]]) -> Store:
    store = make()
    memories = [note(id_) for id_ in vectors]
    store.add(memories)
    store.put_vectors(F, memories, np.array(list(vectors.values()), dtype=np.float32))
    return store


def words(**texts: str) -> SqliteStore:
    store = SqliteStore()
    store.add([note(id_, text) for id_, text in texts.items()])
    return store


def ids(ranking: Ranking) -> list[str]:
    return [hit.id for hit in ranking.hits]


# Vector


@both
def test_cosine_by_hand(make: Make):
    store = holding(make, {"a": [0.6, 0.8], "b": [1.0, 0.0], "c": [-1.0, 0.0], "d": [0.8, 0.6]})
    ranking = streams.vector(store, np.array([1, 0], dtype=np.float32), F)
    as_float32 = [float(np.float32(score)) for score in (1.0, 0.8, 0.6, -1.0)]
    assert ranking == Ranking("vector", tuple(map(Hit, ["b", "d", "a", "c"], as_float32)))


@both
@pytest.mark.parametrize(("n", "dim"), [(1, 3), (40, 8), (200, 384)])
def test_a_full_scan_equals_plain_loops(make: Make, n: int, dim: int):
    rows, (query,) = unit_rows(n, dim, seed=n), unit_rows(1, dim, seed=0)
    store = holding(make, {f"m{i:03}": row for i, row in enumerate(rows)})
    scored = []
    for i, row in enumerate(rows):
        exact = math.fsum(float(x) * float(y) for x, y in zip(row, query, strict=True))
        scored.append((f"m{i:03}", float(np.float32(exact))))
    by_hand = sorted(scored, key=lambda pair: (-pair[1], pair[0]))
    assert [(hit.id, hit.score) for hit in streams.vector(store, query, F).hits] == by_hand


@pytest.mark.parametrize("seed", range(5))
@both
def test_the_order_memories_arrive_in_changes_nothing(make: Make, seed: int):
    rows = dict(zip("abcdefghijkl", unit_rows(12, 4, seed=3), strict=True))
    rows["k"] = rows["b"]  # another text, the same row: a tie
    (query,) = unit_rows(1, 4, seed=4)
    shuffled = random.Random(seed).sample(sorted(rows), len(rows))
    ranking = streams.vector(holding(make, {id_: rows[id_] for id_ in shuffled}), query, F)
    assert ranking == streams.vector(holding(make, rows), query, F)
    place = ids(ranking).index("b")
    assert ids(ranking)[place + 1] == "k"


@both
@pytest.mark.parametrize("n", [1, 2, 7, 64, 257])
def test_one_row_scores_the_same_wherever_it_lies(make: Make, n: int):
    rows, (query,) = unit_rows(n, 384, seed=5), unit_rows(1, 384, seed=6)
    alone = streams.vector(holding(make, {"m000": rows[0]}), query, F).hits[0]
    together = streams.vector(holding(make, {f"m{i:03}": row for i, row in enumerate(rows)}), query, F)
    assert alone in together.hits


@both
def test_a_single_note_is_ranked(make: Make):
    ranking = streams.vector(holding(make, {"a": [0.0, 1.0]}), np.array([0, 1], dtype=np.float32), F)
    assert ranking.hits == (Hit("a", 1.0),)


@both
def test_an_empty_store_gives_an_empty_ranking(make: Make):
    assert streams.vector(make(), np.array([1, 0], dtype=np.float32), F) == Ranking("vector", ())


@both
@pytest.mark.parametrize("shape", [(3,), (1, 2), ()])
def test_a_query_of_another_dimension_is_refused(make: Make, shape: tuple[int, ...]):
    store = holding(make, {"a": [0.0, 1.0]})
    with pytest.raises(InputError) as caught:
        streams.vector(store, np.ones(shape, dtype=np.float32), F)
    assert str(caught.value) == f"the query vector has shape {shape}, the store's have (2,)"


@both
@pytest.mark.parametrize(("top_k", "kept"), [(None, 3), (2, 2), (0, 0), (9, 3)])
def test_top_k_keeps_the_best(make: Make, top_k: int | None, kept: int):
    store = holding(make, {"a": [0.6, 0.8], "b": [1.0, 0.0], "c": [0.0, 1.0]})
    ranking = streams.vector(store, np.array([1, 0], dtype=np.float32), F, top_k)
    assert ids(ranking) == ["b", "a", "c"][:kept]


# Keyword


def test_scores_are_positive_and_fall():
    store = words(
        once="kettle " + "filler " * 20,
        short="kettle",
        twice="kettle kettle",
        none="pot",
        both="kettle steel",
    )
    ranking = streams.keyword(store, "kettle steel")
    scores = [hit.score for hit in ranking.hits]
    assert set(ids(ranking)) == {"once", "short", "twice", "both"}
    assert min(scores) > 0
    assert scores == sorted(scores, reverse=True)
    # bm25: both words beat one, and a word weighs more in a short text than in a long one.
    assert ids(ranking)[0] == "both"
    assert ids(ranking).index("short") < ids(ranking).index("once")


def test_a_score_is_okapi_bm25():
    # k1 1.2, b 0.75, as SQLite documents; idf = ln((N - n + 0.5) / (n + 0.5)), titles empty.
    texts = {"a": "kettle steel", "b": "pot", "c": "pan lid", "d": "cup of tea"}
    (hit,) = streams.keyword(words(**texts), "kettle").hits
    idf = math.log((4 - 1 + 0.5) / (1 + 0.5))
    length, mean_length = 2, (2 + 1 + 2 + 3) / 4
    expected = idf * 1 * (1.2 + 1) / (1 + 1.2 * (1 - 0.75 + 0.75 * length / mean_length))
    assert hit.score == pytest.approx(expected, rel=1e-12)


def test_equal_scores_are_sorted_by_id():
    assert ids(streams.keyword(words(c="kettle", a="kettle", b="kettle", z="pot"), "kettle")) == [
        "a",
        "b",
        "c",
    ]


def test_a_word_asked_twice_counts_once():
    store = words(a="kettle", b="steel pot")
    assert streams.keyword(store, "kettle KETTLE kettle") == streams.keyword(store, "kettle")


def test_a_title_is_searched_too():
    store = SqliteStore()
    store.add([note("a", "text", title="Kettle"), note("b", "text")])
    assert ids(streams.keyword(store, "kettle")) == ["a"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("alpha NOT beta", ["both", "one", "two"]),
        ("alpha AND gamma", ["both", "one"]),
        ("NOT beta", ["both", "two"]),
        ("NEAR(alpha beta, 0)", ["both", "one", "two"]),
        ("text:alpha", ["both", "one"]),
        ("{title text}: beta", ["both", "two"]),
        ("alph*", []),
        ("^alpha", ["both", "one"]),
        ('"alpha', ["both", "one"]),
        ('alpha" OR "beta', ["both", "one", "two"]),
        ("alpha-beta", ["both", "one", "two"]),
        ("- alpha", ["both", "one"]),
        ("(alpha", ["both", "one"]),
        ("alpha)", ["both", "one"]),
        ("alpha + beta", ["both", "one", "two"]),
        ("alpha's", ["both", "one"]),
        ("o'alpha; DROP TABLE memories; --", ["both", "one"]),
        ("🙂 alpha", ["both", "one"]),
        ("\0alpha\ud800", ["both", "one"]),
        ("alpha\nbeta", ["both", "one", "two"]),
        ("alpha? beta!", ["both", "one", "two"]),
        ("alpha % beta \\", ["both", "one", "two"]),
        ("?1 :alpha @beta $x", ["both", "one", "two"]),
    ],
)
def test_nothing_typed_is_an_operator(query: str, found: list[str]):
    store = words(one="alpha here", two="beta here", both="alpha beta", other="delta")
    assert sorted(ids(streams.keyword(store, query))) == found


@pytest.mark.parametrize("query", ["", "   ", "🙂", "?!", "…—", '"', "''", "*", "()", "\0", "_", "\ud800"])
def test_a_query_without_words_finds_nothing(query: str):
    assert streams.keyword(words(a="alpha"), query) == Ranking("keyword", ())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("alpha " * 1_700, ["a"]),
        ("a" * 10_000, []),
        (" ".join(f"w{i}" for i in range(2_000)), ["w"]),
        (" ".join(chr(0x4E00 + i) for i in range(5_001)), ["z"]),
    ],
    ids=["one word", "one long word", "2000 words", "5001 words"],
)
def test_a_query_of_ten_thousand_characters_is_answered(query: str, found: list[str]):
    assert len(query) >= 10_000
    assert ids(streams.keyword(words(a="alpha", w="w7", z="\u4e00"), query)) == found


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_anything_typed_is_answered(query: str):
    ranking = streams.keyword(SEARCHED, query)
    assert all(hit.score > 0 for hit in ranking.hits)
    # Typed together with a word of the note, it finds the note.
    assert "a" in ids(streams.keyword(SEARCHED, f"{query} alpha"))


SEARCHED = words(a="alpha", b="beta", c="not or and near")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Ёлка в углу", "ёлка"),
        ("Ёлка в углу", "елка"),
        ("елка в углу", "Ёлка"),
        ("die Straße", "straße"),
        ("die Straße", "STRASSE"),
        ("квартира №5", "5"),
        ("квартира 5", "№5"),
        ("café", "cafe"),
        ("cafe", "café"),
        ("foo_bar", "foo_bar"),
        ("日本語 テスト", "日本語"),
    ],
)
def test_a_word_is_found_however_it_is_spelt(text: str, query: str):
    assert ids(streams.keyword(words(a=text, b="other"), query)) == ["a"]


@pytest.mark.parametrize(("top_k", "kept"), [(1, ["a"]), (2, ["a", "b"]), (50, ["a", "b", "c"])])
def test_keyword_keeps_the_first_k(top_k: int, kept: list[str]):
    store = words(c="kettle", a="kettle", b="kettle", z="pot")
    assert ids(streams.keyword(store, "kettle", top_k)) == kept

"""Streams: the full scan against plain arithmetic, and keywords that take anything a person types."""

import math
import random
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from builders import examples
from conftest import note
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_core import streams
from recall_core.records import Hit, InputError, Memory, Ranking
from recall_core.store import COLUMNS, SqliteStore, Vectors

F = "f" * 64


def unit_rows(n: int, dim: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def holding(vectors: dict[str, list[float]]) -> list[Vectors]:
    store = SqliteStore()
    store.add([note(id_) for id_ in vectors])
    store.put_vectors(F, list(vectors), np.array(list(vectors.values()), dtype=np.float32))
    return [store.vectors(F)]


def words(**texts: str) -> SqliteStore:
    store = SqliteStore()
    store.add([note(id_, text) for id_, text in texts.items()])
    return store


def ids(ranking: Ranking) -> list[str]:
    return [hit.id for hit in ranking.hits]


# Vector


def test_cosine_by_hand():
    held = holding({"a": [0.6, 0.8], "b": [1.0, 0.0], "c": [-1.0, 0.0], "d": [0.8, 0.6]})
    ranking = streams.vector(held, np.array([1, 0], dtype=np.float32))
    as_float32 = [float(np.float32(score)) for score in (1.0, 0.8, 0.6, -1.0)]
    assert ranking == Ranking("vector", tuple(map(Hit, ["b", "d", "a", "c"], as_float32)))


@pytest.mark.parametrize(("n", "dim"), [(1, 3), (40, 8), (200, 384)])
def test_a_full_scan_equals_plain_loops(n: int, dim: int):
    rows, (query,) = unit_rows(n, dim, seed=n), unit_rows(1, dim, seed=0)
    held = holding({f"m{i:03}": row for i, row in enumerate(rows)})
    scored = []
    for i, row in enumerate(rows):
        exact = math.fsum(float(x) * float(y) for x, y in zip(row, query, strict=True))
        scored.append((f"m{i:03}", float(np.float32(exact))))
    by_hand = sorted(scored, key=lambda pair: (-pair[1], pair[0]))
    assert [(hit.id, hit.score) for hit in streams.vector(held, query).hits] == by_hand


@pytest.mark.parametrize("seed", range(5))
def test_the_order_memories_arrive_in_changes_nothing(seed: int):
    rows = dict(zip("abcdefghijkl", unit_rows(12, 4, seed=3), strict=True))
    rows["k"] = rows["b"]  # another text, the same row: a tie
    (query,) = unit_rows(1, 4, seed=4)
    shuffled = random.Random(seed).sample(sorted(rows), len(rows))
    ranking = streams.vector(holding({id_: rows[id_] for id_ in shuffled}), query)
    assert ranking == streams.vector(holding(rows), query)
    place = ids(ranking).index("b")
    assert ids(ranking)[place + 1] == "k"


@pytest.mark.parametrize("n", [1, 2, 7, 64, 257])
def test_one_row_scores_the_same_wherever_it_lies(n: int):
    rows, (query,) = unit_rows(n, 384, seed=5), unit_rows(1, 384, seed=6)
    alone = streams.vector(holding({"m000": rows[0]}), query).hits[0]
    together = streams.vector(holding({f"m{i:03}": row for i, row in enumerate(rows)}), query)
    assert alone in together.hits


def test_a_single_note_is_ranked():
    ranking = streams.vector(holding({"a": [0.0, 1.0]}), np.array([0, 1], dtype=np.float32))
    assert ranking.hits == (Hit("a", 1.0),)


def test_an_empty_store_gives_an_empty_ranking():
    for held in (SqliteStore().vectors(F), SqliteStore().vectors(F).centred()):
        assert streams.vector([held], np.array([1, 0], dtype=np.float32)) == Ranking("vector", ())


@pytest.mark.parametrize("shape", [(3,), (1, 2), ()])
def test_a_query_of_another_dimension_is_refused(shape: tuple[int, ...]):
    held = holding({"a": [0.0, 1.0]})
    with pytest.raises(InputError) as caught:
        streams.vector(held, np.ones(shape, dtype=np.float32))
    assert str(caught.value) == f"the query vector has shape {shape}, the store's (2,)"


@pytest.mark.parametrize(("top_k", "kept"), [(None, 3), (2, 2), (0, 0), (9, 3)])
def test_top_k_keeps_the_best(top_k: int | None, kept: int):
    held = holding({"a": [0.6, 0.8], "b": [1.0, 0.0], "c": [0.0, 1.0]})
    ranking = streams.vector(held, np.array([1, 0], dtype=np.float32), top_k)
    assert ids(ranking) == ["b", "a", "c"][:kept]


def test_of_several_vectors_of_a_memory_the_mean_counts():
    once, again = holding({"a": [1.0, 0.0], "b": [0.0, 1.0]}), holding({"a": [0.6, 0.8], "b": [0.8, 0.6]})
    ranking = streams.vector([*once, *again], np.array([1, 0], dtype=np.float32))
    assert ids(ranking) == ["a", "b"]
    assert [hit.score for hit in ranking.hits] == pytest.approx([(1 + 0.6) / 2, (0 + 0.8) / 2], rel=1e-6)
    # Each is a float32, so equal means tie.
    assert all(hit.score == float(np.float32(hit.score)) for hit in ranking.hits)


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
        ("alpha*", ["both", "one"]),
        ("alpha:beta", ["both", "one", "two"]),
        ("words:alpha", ["both", "one"]),
        ("body:alpha", ["both", "one"]),
        ("alpha NEAR/2 gamma", ["both", "one"]),
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


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("我的猫住在东京。", "东京在哪里？"),
        ("黒い猫の名前はタマ", "猫はどこにいますか"),
        ("黒猫", "猫"),
        ("トースターが壊れた", "ﾄｰｽﾀｰは?"),
        ("แมวชอบกินปลา", "แมวอยู่ที่ไหน"),
        ("ແມວກິນປາ", "ແມວຢູ່ໃສ"),
        ("ឆ្មាស៊ីត្រី", "ឆ្មានៅឯណា"),
        ("ကြောင်ငါးစား", "ကြောင်ဘယ်မှာလဲ"),
        ("बिल्ली घर में है", "बिल्ली कहाँ है"),
        ("고양이 집", "고양이"),
        ("ένας καφές", "ΚΑΦΕΣ"),
        ("written in C++17", "c++"),
        ("runs node.js", "where is Node.JS?"),
        ("set foo_bar to 1", "foo"),
    ],
)
@pytest.mark.parametrize("postings", [None, 0])
def test_a_question_in_any_script_finds(text: str, question: str, postings: int | None):
    store = words(a=text, b="other", c="天気 อากาศ ອາກາດ អាកាស မိုး मौसम 날씨 καιρός")
    assert ids(streams.keyword(store, question, postings=postings)) == ["a"]


@pytest.mark.parametrize("whole", ["C++", "C#", ".NET", "node.js", "v2.0.1", "foo_bar", "me@example.com"])
def test_the_whole_of_a_compound_comes_before_its_parts(whole: str):
    parts = "c net node js v2 0 1 foo bar example com"
    store = words(a=parts, b=f"it is {whole} " + "and a longer text about other things " * 9, z="other")
    assert ids(streams.keyword(store, f"where is {whole}?")) == ["b", "a"]


@pytest.mark.parametrize(("top_k", "kept"), [(1, ["a"]), (2, ["a", "b"]), (50, ["a", "b", "c"])])
def test_keyword_keeps_the_first_k(top_k: int, kept: list[str]):
    store = words(c="kettle", a="kettle", b="kettle", z="pot")
    assert ids(streams.keyword(store, "kettle", top_k)) == kept


def of_kinds(**texts: str) -> SqliteStore:
    """A store of one memory a kind; `page="kettle"` is a page named `page`."""
    store = SqliteStore()
    store.add([note(kind, text, kind=kind) for kind, text in texts.items()])
    return store


@pytest.mark.parametrize("query", ["kettle", "kettle steel", "of the kettle"])
def test_a_title_outranks_an_alias_and_an_alias_a_body(query: str):
    store = SqliteStore()
    store.add(
        [
            note("body", "kettle pot", title="pan"),
            note("title", "pan pot", title="kettle"),
            note("alias", "pan", title="pot", aliases=("kettle",)),
            *(note(f"other{i}", "cup saucer spoon") for i in range(5)),
        ]
    )
    assert ids(streams.keyword(store, query)) == ["title", "alias", "body"]


@pytest.mark.parametrize(
    ("where", "weight"), [({"title": "kettle"}, 4), ({"aliases": ("kettle",)}, 3), ({}, 1)]
)
def test_a_column_weighs_its_words(where: dict[str, str], weight: int):
    store = SqliteStore()
    body = "steel" if where else "kettle steel"
    store.add([note("a", body, **where), note("b", "pot"), note("c", "pan lid"), note("d", "cup of tea")])
    (hit,) = streams.keyword(store, "kettle").hits
    idf = math.log((4 - 1 + 0.5) / (1 + 0.5))
    length, mean_length = 2, (2 + 1 + 2 + 3) / 4
    expected = idf * weight * (1.2 + 1) / (weight + 1.2 * (1 - 0.75 + 0.75 * length / mean_length))
    assert hit.score == pytest.approx(expected, rel=1e-12)


def test_a_word_in_every_memory_still_scores_above_nothing():
    ranking = streams.keyword(words(a="kettle", b="kettle steel", c="kettle"), "kettle")
    assert len(ranking.hits) == 3
    assert min(hit.score for hit in ranking.hits) > 0


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("what is the kettle", ["pot"]),
        ("где мой чайник", ["чайник"]),
        ("what is the", ["stop"]),
        ("Что это?", ["стоп"]),
    ],
)
def test_stop_words_are_dropped_unless_there_is_nothing_else(query: str, found: list[str]):
    store = words(pot="a kettle", stop="what is the", чайник="чайник", стоп="где мой и что это")
    assert ids(streams.keyword(store, query)) == found


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("серверы упали", "сервером"),
        ("о ключах", "ключ"),
        ("мы настраивали сеть", "настраивать"),
        ("printed labels", "printing a label"),
        ("we connected it", "connection"),
        ("docker-контейнеры", "контейнера"),
        ("перезапустил containers", "container"),
    ],
)
def test_forms_of_a_word_meet(text: str, query: str):
    assert ids(streams.keyword(words(a=text, b="другое other"), query)) == ["a"]


def test_every_kind_is_searched_unless_some_are_named():
    store = of_kinds(note="kettle", fact="kettle", page="kettle", observation="kettle")
    assert ids(streams.keyword(store, "kettle")) == ["fact", "note", "observation", "page"]
    assert ids(streams.keyword(store, "kettle", kinds=streams.PAGES)) == ["fact", "note", "page"]
    assert ids(streams.keyword(store, "kettle", kinds=[])) == []
    assert ids(streams.keyword(store, "kettle", kinds=["page", "observation"])) == ["observation", "page"]
    ranking = streams.observation(store, "kettle")
    assert (ranking.stream, ids(ranking)) == ("observation", ["observation"])


@pytest.fixture(scope="module")
def common_and_rare() -> SqliteStore:
    """`rare` stands in 2 memories, `scarce` in 11, `common` in 42; the best of each has a long text.

    By all words `title` is best, then `loud`, which hold only what is less rare.
    """
    store = SqliteStore()
    store.add(
        note(f"{'r' if i < 2 else 's' if i < 10 else 'c'}{i:02}", f"{held} {'filler ' * 40}")
        for i in range(40)
        for held in [" ".join(["common", *["scarce"] * (i < 10), *["rare"] * (i < 2)])]
    )
    store.add([note("title", "common", title="scarce scarce"), note("loud", "common", title="common common")])
    store.add([note(f"x{i}", "other", title="pot") for i in range(60)])
    return store


BUDGET = "common scarce rare"


def same(one: Ranking, other: Ranking) -> bool:
    """Equal but for the last bits of a score."""
    return ids(one) == ids(other) and [hit.score for hit in one.hits] == pytest.approx(
        [hit.score for hit in other.hits], rel=1e-12
    )


@pytest.mark.parametrize(
    ("postings", "proposing", "best"),
    [
        *((postings, "rare", "r00") for postings in (0, 2, 12)),
        *((postings, "rare scarce", "title") for postings in (13, 54)),
        *((postings, BUDGET, "title") for postings in (55, 1_000, None)),
    ],
)
def test_rare_words_propose_and_all_words_rank(
    common_and_rare: SqliteStore, postings: int | None, proposing: str, best: str
):
    everything = streams.keyword(common_and_rare, BUDGET, 100, postings=None)
    proposed = ids(streams.keyword(common_and_rare, proposing, 100, postings=None))
    expected = tuple(hit for hit in everything.hits if hit.id in proposed)[:2]
    ranking = streams.keyword(common_and_rare, BUDGET, 2, postings=postings)
    assert same(ranking, Ranking("keyword", expected))
    assert ids(ranking)[0] == best


@pytest.mark.parametrize(("top_k", "proposed"), [(2, 2), (3, 11), (11, 11), (12, 42), (50, 42)])
def test_commoner_words_propose_too_when_too_little_was_found(
    common_and_rare: SqliteStore, monkeypatch: pytest.MonkeyPatch, top_k: int, proposed: int
):
    found: list[int] = []
    matching = common_and_rare.matching

    def counted(*asked):
        found.append(len(matching(*asked)))
        return matching(*asked)

    monkeypatch.setattr(common_and_rare, "matching", counted)
    ranking = streams.keyword(common_and_rare, BUDGET, top_k, postings=1)
    assert found[-1] == proposed
    assert len(ranking.hits) == min(top_k, 42)


@pytest.mark.parametrize("top_k", [42, 43, 200])
def test_a_small_budget_loses_nothing_where_all_is_asked_for(common_and_rare: SqliteStore, top_k: int):
    everything = streams.keyword(common_and_rare, BUDGET, top_k, postings=None)
    assert same(streams.keyword(common_and_rare, BUDGET, top_k, postings=1), everything)
    assert len(everything.hits) == 42


@given(st.lists(st.sampled_from(["common", "scarce", "rare", "other"]), min_size=1), st.integers(1, 120))
@examples
def test_a_generous_budget_is_the_full_search(common_and_rare: SqliteStore, typed: list[str], top_k: int):
    query = " ".join(typed)
    full = streams.keyword(common_and_rare, query, top_k, postings=None)
    assert streams.keyword(common_and_rare, query, top_k, postings=2 + 11 + 42 + 60) == full


word_lists = st.lists(st.sampled_from(["decision", "café", "technology", "ёлка", "x", "key"]), max_size=6)


@pytest.mark.parametrize("more", [{}, {"near": 0.5, "date": 0.25}, {"near": 2.0, "date": 0.0}], ids=str)
@given(st.lists(st.tuples(word_lists, word_lists, word_lists), min_size=2, max_size=12), word_lists)
@examples
def test_our_bm25_is_that_of_sqlite(
    more: dict[str, float], texts: list[tuple[list[str], list[str], list[str]]], asked: list[str]
):
    store = SqliteStore()
    store.add(
        [
            Memory(
                id=f"m{i}",
                title=" ".join(title),
                aliases=tuple(aliases),
                text=" ".join(["w", *body]),
                thread=f"t{i % 3}" if i % 3 else None,
                position=i,
                ts=f"2023-05-{i + 1:02}T10:00:00+00:00",
            )
            for i, (title, aliases, body) in enumerate(texts)
        ]
    )
    query, weights = " ".join([*asked, "May", "3"][: 8 if more else 6]), COLUMNS | more
    sqlites, ours = (
        {hit.id: hit.score for hit in streams.keyword(store, query, 50, weights=weights, postings=n).hits}
        for n in (None, 0)
    )
    assert ours == pytest.approx(sqlites, rel=1e-9)
    assert all(score > 0 for score in ours.values())


@pytest.mark.parametrize(
    ("text", "query"), [("café", "cafe pot"), ("décisions", "decision pot"), ("öre", "ORE pot")]
)
def test_a_word_counts_alike_however_it_is_looked_up(text: str, query: str):
    store = words(a=text, b="pot", c="pot", d="pan")
    full = streams.keyword(store, query, postings=None)
    assert same(streams.keyword(store, query, postings=0), full)
    assert ids(full) == ["a", "b", "c"]


@pytest.mark.parametrize("same_connection", [True, False])
def test_what_is_written_counts_in_the_next_search(tmp_path: Path, same_connection: bool):
    path = tmp_path / "store.db"
    with closing(SqliteStore(path)) as reader, closing(SqliteStore(path)) as other:
        writer = reader if same_connection else other
        for i in range(4):
            writer.add([note(f"m{i}", "kettle pot" if i % 2 else "kettle", title="T" * (i > 1))])
            for query in ("kettle", "pot kettle"):
                full = streams.keyword(reader, query, postings=None)
                assert same(streams.keyword(reader, query, postings=0), full)
                assert len(full.hits) == i + 1


def test_a_search_widens_in_few_steps(monkeypatch: pytest.MonkeyPatch):
    # Every word stands in 2 pages and 3 observations; no word brings the 50 that are asked for.
    many = [f"w{i:03}" for i in range(500)]
    store = SqliteStore()
    store.add([note(f"p{i}", " ".join(many), kind="page") for i in range(2)])
    store.add([note(f"o{i}", " ".join(many), kind="observation") for i in range(3)])
    searched: list[int] = []
    matching = store.matching

    def counted(terms, *more):
        searched.append(len(terms))
        return matching(terms, *more)

    monkeypatch.setattr(store, "matching", counted)
    assert ids(streams.keyword(store, " ".join(many), kinds=streams.PAGES, postings=5)) == ["p0", "p1"]
    assert searched == [1, 2, 4, 8, 16, 32, 64, 128, 256, 500]


# Columns of a thread


def kettle_thread() -> SqliteStore:
    """Six memories; b is the neighbour of a, which speaks of a kettle."""
    store = SqliteStore()
    a = note("a", "kettle", thread="t", position=0, ts="2023-05-08T10:00:00+00:00")
    store.add([a, note("b", "pot", thread="t", position=1), *(note(id_, "cup") for id_ in "cdef")])
    return store


def test_words_of_neighbours_count_where_they_weigh_something():
    store = kettle_thread()
    # a: kettle, near: pot, date: 8 May 2023. b: pot, near: kettle. The others have one word.
    lengths, mean_length = {"a": 1 + 1 + 3, "b": 1 + 1}, (5 + 2 + 4 * 1) / 6

    def bm25(id_: str, times: float, held: int) -> float:
        idf = math.log((6 - held + 0.5) / (held + 0.5))
        return idf * times * 2.2 / (times + 1.2 * (1 - 0.75 + 0.75 * lengths[id_] / mean_length))

    alone = streams.keyword(store, "kettle")
    near = streams.keyword(store, "kettle", weights=COLUMNS | {"near": 0.5})
    assert {hit.id: hit.score for hit in alone.hits} == pytest.approx({"a": bm25("a", 1, held=1)})
    assert {hit.id: hit.score for hit in near.hits} == pytest.approx(
        {"a": bm25("a", 1, held=2), "b": bm25("b", 0.5, held=2)}
    )
    # What weighs nothing is not searched, even if it is named; and one search does not change the next.
    assert streams.keyword(store, "kettle", weights=COLUMNS | {"near": 0.0}) == alone
    assert streams.keyword(store, "kettle", weights=COLUMNS | {"near": 0.0, "date": 0.5}) == alone


@pytest.mark.parametrize(("weight", "found"), [(0.5, ["a"]), (0.0, [])])
@pytest.mark.parametrize("query", ["on 8 May 2023?", "may", "2023", "the 8th, or the 8"])
def test_a_date_is_found_in_words_where_it_weighs_something(query: str, weight: float, found: list[str]):
    assert ids(streams.keyword(kettle_thread(), query, weights=COLUMNS | {"date": weight})) == found


# Entities


def naming(**entities: tuple[str, ...]) -> streams.EntityIndex:
    return streams.entity_index([note(id_, kind="page", entities=named) for id_, named in entities.items()])


@pytest.mark.parametrize(
    ("entity", "query", "found"),
    [
        ("Zebra ZD421", "is the zebra zd421 any good?", True),
        ("Zebra ZD421", "ZEBRA-ZD421!", True),
        ("Zebra ZD421", "zebra", False),
        ("Zebra ZD421", "ZD421 by Zebra", False),
        ("Zebra ZD421", "zebra crossing ZD421", False),
        ("art", "start the cart", False),
        ("art", "arts", False),
        ("Соня", "где Соня?", True),
        ("Соня", "где соня?", True),
        ("Соня", "о Соне", False),
        ("Ёлка", "елка", True),
        ("Wi-Fi", "wi‑fi is down", True),
        ("C", "c", True),
        ("東京", "東京はどこ", True),
        ("東京", "京都はどこ", False),
        ("Node.js", "node js?", True),
        ("the", "the pot", True),
        ("🙂", "🙂", False),
        ("", "anything", False),
    ],
)
def test_an_entity_is_met_word_for_word(entity: str, query: str, found: bool):
    assert ids(streams.entity(naming(a=(entity,), b=("Kettle",)), query)) == ["a"] * found


def test_a_rare_entity_counts_more_and_entities_add_up():
    index = naming(a=("rare", "common"), b=("common",), c=("common",), d=("other",))
    # 4 memories name anything; `rare` is named by 1 of them, `common` by 3.
    ranking = streams.entity(index, "common and rare")
    assert ids(ranking) == ["a", "b", "c"]
    rare, common = math.log(1 + 4 / 1), math.log(1 + 4 / 3)
    assert [hit.score for hit in ranking.hits] == pytest.approx([rare + common, common, common], rel=1e-12)


def test_an_entity_asked_twice_or_named_twice_counts_once():
    once = streams.entity(naming(a=("pot",)), "pot")
    assert streams.entity(naming(a=("pot", "Pot", "POT")), "pot and pot") == once


def test_a_name_and_a_longer_name_both_count():
    ranking = streams.entity(naming(a=("Zebra",), b=("Zebra ZD421",)), "zebra zd421")
    assert ids(ranking) == ["a", "b"]


def test_memories_of_every_kind_name_entities():
    kinds = ("page", "note", "fact", "observation")
    named = [note(kind, kind=kind, entities=("pot",)) for kind in kinds]
    assert ids(streams.entity(streams.entity_index(named), "pot")) == sorted(kinds)


@pytest.mark.parametrize("query", ["", "🙂", "pot " * 5_000, "'; DROP TABLE memories; --"])
def test_any_query_is_answered_by_entities(query: str):
    assert ids(streams.entity(naming(a=("pot",)), query)) == ["a"] * ("pot" in query)
    assert streams.entity({}, query) == Ranking("entity", ())


def test_entity_keeps_the_first_k():
    index = naming(**dict.fromkeys("dbca", ("pot",)))
    assert ids(streams.entity(index, "pot", 2)) == ["a", "b"]


# Links


def linking(**targets: str) -> streams.Links:
    """One page a letter; `a="bc"` links to b and c."""
    return streams.links([note(id_, kind="page", links=tuple(to)) for id_, to in targets.items()])


def test_a_link_leads_both_ways_and_never_to_itself_or_nowhere():
    assert linking(a="ba", b="", c="ax", d="") == {"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}


@given(
    st.permutations("abcxyz"), st.permutations([("a", "x"), ("b", "x"), ("c", "y"), ("z", "a"), ("y", "b")])
)
@examples
def test_the_order_pages_arrive_in_changes_no_link(ids_: list[str], pairs: list[tuple[str, str]]):
    targets = {id_: "".join(to for source, to in pairs if source == id_) for id_ in ids_}
    assert linking(**targets) == linking(a="x", b="x", c="y", x="", y="b", z="a")


# Speakers


def test_a_speaker_is_known_by_the_first_word_of_the_name():
    said = [("a", "Ann Bell"), ("b", "ANN"), ("c", "Соня"), ("d", "Ёжи"), ("e", None), ("f", "🙂"), ("g", "")]
    found = streams.speakers(note(id_, speaker=speaker) for id_, speaker in said)
    assert found == {"ann": {"a", "b"}, "соня": {"c"}, "ежи": {"d"}}

"""The store: what it keeps, what it refuses, and that a crash costs at most the last transaction."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ByHand, note

from recall_core import streams
from recall_core.embedders.hashing import HashEmbedder
from recall_core.passages import CHUNK, hash_of, passages
from recall_core.paths import local
from recall_core.records import FingerprintError, Hit, Memory, StoreError
from recall_core.store import COLUMNS, SqliteStore, Vectors
from recall_core.store.database import MIGRATIONS
from recall_core.words import indexed, search_terms

EAST, NORTH, NORTH_EAST = (1.0, 0.0), (0.0, 1.0), (0.6, 0.8)
MINE, OTHER = "f" * 64, "0" * 64


def rows(*rows_: tuple[float, ...]) -> np.ndarray:
    return np.array(rows_, dtype=np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


# What is kept


def test_memories_come_back_whole_and_sorted():
    store = SqliteStore()
    full = note(
        "b",
        "Ёлка 🙂\nв углу",
        kind="page",
        ts="2026-07-31T09:00:00+00:00",
        lang="ru",
        title="Ёлка",
        path="wiki/tree.md",
        entities=("Соня", "ёлка"),
        links=("a",),
        speaker="Соня",
        source="chat",
        thread="t",
        position=3,
    )
    store.add([full, note("a", "")])
    store.add([note("c")])
    assert store.memories() == [note("a", ""), full, note("c")]


@pytest.mark.parametrize("text", ["слово " * 170_000, "🙂" * 9, "\u202eשלום", "a\nb\r\nc", "'; DROP TABLE x"])
def test_any_text_survives_the_file(path: Path, text: str):
    with closing(SqliteStore(path)) as store:
        store.add([note("a", text)])
    with closing(SqliteStore(path)) as store:
        assert [memory.text for memory in store.memories()] == [text]


def test_two_memories_with_one_text_stay_two_and_tie():
    store = SqliteStore()
    store.add([note("b", "same"), note("a", "same"), note("c", "other")])
    assert store.unembedded(MINE) in (["same", "other"], ["other", "same"])
    store.put_vectors(MINE, ["same", "other"], rows(NORTH_EAST, EAST))
    ranking = streams.vector([store.vectors(MINE)], rows(NORTH)[0])
    first, second, _ = ranking.hits
    assert (first.id, second.id) == ("a", "b")
    assert first.score == second.score == np.float32(0.8)
    # Three ids, and 2 distinct texts.
    assert (len(store.vectors(MINE).ids), len(store.vectors(MINE).matrix)) == (3, 2)


# Passages


def chunked(*words: str, id_: str = "p", **more: Any) -> Memory:
    """A page of one chunk a word, each longer than half a chunk."""
    return note(id_, "\n\n".join(word.ljust(CHUNK, ".") for word in words), kind="page", **more)


def test_the_best_chunk_of_a_page_counts():
    store = SqliteStore()
    page = chunked("one", "two")
    store.add([page, note("n", "note")])
    whole, one, two = passages(page)
    store.put_vectors(MINE, [whole, one, two, "note"], rows(EAST, NORTH, NORTH_EAST, NORTH_EAST))
    assert store.vectors(MINE).ids == ("n", "p", "p", "p")
    assert streams.vector([store.vectors(MINE)], rows(NORTH)[0]).hits == (
        Hit("p", 1.0),
        Hit("n", float(np.float32(0.8))),
    )


def test_two_pages_share_the_vector_of_a_common_chunk():
    store = SqliteStore()
    one, two = chunked("same", "left", id_="one"), chunked("same", "right", id_="two")
    store.add([one, two])
    missing = store.unembedded(MINE)
    assert sorted(missing) == sorted({*passages(one), *passages(two)})
    assert len(missing) == 3 + 3 - 1
    store.put_vectors(MINE, missing, np.tile(rows(EAST), (5, 1)))
    table = store.vectors(MINE)
    assert (table.ids, table.matrix.shape) == (("one",) * 3 + ("two",) * 3, (5, 2))
    assert store.unembedded(MINE) == []


def test_what_is_missing_comes_in_a_fixed_order():
    store = SqliteStore()
    page = chunked("one", "two")
    store.add([page])
    assert store.unembedded(MINE) == passages(page)
    store.put_vectors(MINE, [passages(page)[1]], rows(EAST))
    assert store.unembedded(MINE) == [passages(page)[0], passages(page)[2]]
    assert store.unembedded(OTHER) == passages(page)


def test_a_page_that_misses_one_chunk_is_refused():
    store = SqliteStore()
    page = chunked("one", "two")
    store.add([page, note("n")])
    store.put_vectors(MINE, [*passages(page)[:2], "n"], rows(EAST, EAST, EAST))
    with pytest.raises(FingerprintError, match="1 of 2 memories have no vector of fingerprint ffffffffffff"):
        store.vectors(MINE)


@pytest.mark.parametrize("id_", ["notes/my page.md", "a  b", "папка/моя страница.md"])
def test_an_id_may_hold_blanks_inside(id_: str):
    store = SqliteStore()
    store.add([note(id_, "kettle")])
    assert [memory.id for memory in store.memories()] == [id_]
    assert [hit.id for hit in streams.keyword(store, "kettle").hits] == [id_]


# Words


def test_a_term_is_counted_once_a_memory_and_anywhere_in_it():
    store = SqliteStore()
    store.add(
        [
            note("a", "kettle kettle", title="Kettle"),
            note("b", "pot", aliases=("kettle",)),
            note("c", "pot", kind="observation"),
        ]
    )
    assert [store.frequency(term) for term in ("kettl", "pot", "pan")] == [2, 2, 0]


@pytest.mark.parametrize(
    "word", ["decision", "database", "technology", "because", "öl", "café", "ёлка", "серверы"]
)
def test_a_term_is_counted_however_the_index_spells_it(word: str):
    # The tokenizer of the index stems once more and takes marks off: "decis" stands in it as "deci".
    store = SqliteStore()
    store.add([note("a", word), note("b", f"other {word}"), note("c", "else")])
    (term,) = search_terms(word)
    assert store.frequency(term) == 2


@pytest.mark.parametrize("same_connection", [True, False])
def test_counts_are_forgotten_when_something_is_written(path: Path, same_connection: bool):
    with closing(SqliteStore(path)) as reader, closing(SqliteStore(path)) as other:
        writer = reader if same_connection else other
        writer.add([note("a", "pot")])
        assert [reader.frequency("pot"), reader.frequency("pan")] == [1, 0]
        writer.add([note("b", "pot pan")])
        assert [reader.frequency("pot"), reader.frequency("pan")] == [2, 1]


def test_counting_twice_asks_the_index_once():
    asked: list[str] = []

    class Counting(sqlite3.Connection):
        def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
            asked.append(sql)
            return super().execute(sql, *more)

    store = SqliteStore(connection=Counting)
    store.add([note("a", "pot")])
    asked.clear()
    assert [store.frequency("pot") for _ in range(3)] == [1, 1, 1]
    assert len([sql for sql in asked if "words" in sql]) == 1


def test_matching_takes_the_kinds_asked_for():
    store = SqliteStore()
    kinds = ("note", "fact", "page", "observation")
    store.add([note(kind, "kettle", kind=kind) for kind in kinds])
    for kind in kinds:
        assert [id_ for id_, _ in store.matching(["kettl"], 9, [kind])] == [kind]
    assert [id_ for id_, _ in store.matching(["kettl"], 3, kinds)] == ["fact", "note", "observation"]
    assert [id_ for id_, _ in store.matching(["kettl"], 9)] == sorted(kinds)
    assert store.matching(["kettl"], 9, []) == []


# Threads


def talk(*texts: str, first: int = 0, thread: str = "t", **more: Any) -> list[Memory]:
    """Memories t0, t1 and so on, one after another in a thread."""
    return [
        note(f"{thread}{at}", text, thread=thread, position=at, **more)
        for at, text in enumerate(texts, first)
    ]


def column(store: SqliteStore, name: str) -> dict[str, str]:
    ids = [memory.id for memory in store.memories()]
    return {id_: columns[name] for id_, columns in store.indexed_columns(ids)}


def windows(store: SqliteStore) -> dict[str, str]:
    found = store._db.execute("SELECT id, text FROM passages JOIN memories USING (seq) WHERE position = -1")
    return dict(found.fetchall())


def test_words_of_two_neighbours_on_either_side_stand_near_a_memory():
    store = SqliteStore()
    store.add([*talk("one", "two", "three", "four", "five"), note("alone", "six")])
    # Stemmed, as all that is indexed.
    assert column(store, "near") == {
        "t0": "two three",
        "t1": indexed("one three four"),
        "t2": indexed("one two four five"),
        "t3": indexed("two three five"),
        "t4": "three four",
        "alone": "",
    }


def test_a_window_holds_a_memory_between_its_neighbours():
    store = SqliteStore()
    store.add(
        [*talk("one", "two", "three"), note("alone", "six"), note("s0", "seven", thread="s", position=0)]
    )
    assert windows(store) == {"t0": "one\ntwo", "t1": "one\ntwo\nthree", "t2": "two\nthree"}
    assert store.unembedded(MINE) == ["one", "two", "three", "six", "seven"]
    # In the order of the store; of a memory its window comes first.
    both = ["one\ntwo", "one", "one\ntwo\nthree", "two", "two\nthree", "three", "six", "seven"]
    assert store.unembedded(MINE, windows=True) == both


def test_vectors_of_windows_stand_in_for_those_of_memories_in_threads():
    store = SqliteStore()
    page = chunked("left", "right")
    store.add([*talk("one", "two"), page])
    texts = ["one", "two", *passages(page)]
    store.put_vectors(MINE, texts, np.tile(rows(EAST), (5, 1)))
    store.put_vectors(MINE, ["one\ntwo"], rows(NORTH))
    alone, between = store.vectors(MINE), store.vectors(MINE, windows=True)
    assert alone.ids == between.ids == ("p", "p", "p", "t0", "t1")
    assert alone.matrix[alone.row_of].tolist() == [list(EAST)] * 5
    assert between.matrix[between.row_of].tolist() == [list(EAST)] * 3 + [list(NORTH)] * 2
    # Both are remembered, each as itself.
    assert store.vectors(MINE) is alone
    assert store.vectors(MINE, windows=True) is between


def test_a_date_is_kept_in_words_of_the_language_of_the_memory():
    store = SqliteStore()
    at = {"thread": "t", "ts": "2023-05-08T23:30:00-05:00"}
    store.add(
        [
            note("en", **at),
            note("ru", lang="ru", **at),
            note("de", lang="de", **at),
            note("alone", ts=at["ts"]),
            note("never", thread="t"),
        ]
    )
    assert column(store, "date") == {
        "en": indexed("8 May 2023"),
        "ru": indexed("8 мая 2023"),
        "de": indexed("8 Mai 2023"),
        "alone": "",
        "never": "",
    }


@pytest.mark.parametrize("cut", range(1, 6))
@pytest.mark.parametrize("on_file", [False, True])
def test_a_thread_that_grows_is_indexed_as_if_it_had_come_at_once(path: Path, cut: int, on_file: bool):
    memories = [*talk("one", "two", "three", "four", "five"), *talk("other", thread="s")]
    at_once, grown = SqliteStore(), SqliteStore(path if on_file else ":memory:")
    at_once.add(memories)
    grown.add(memories[:cut])
    if on_file:
        grown.close()
        grown = SqliteStore(path)
    grown.add(memories[cut:])
    assert everything(grown) == everything(at_once)
    grown._db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    assert grown.memories() == at_once.memories()
    grown.close()


def test_a_memory_that_comes_late_takes_its_place_in_the_middle():
    store = SqliteStore()
    first, middle, last = talk("one", "two", "three")
    store.add([first, last])
    assert windows(store) == {"t0": "one\nthree", "t2": "one\nthree"}
    store.add([middle])
    assert windows(store) == {"t0": "one\ntwo", "t1": "one\ntwo\nthree", "t2": "two\nthree"}
    assert column(store, "near")["t0"] == indexed("two three")
    (hit, *_) = streams.keyword(store, "two", weights=COLUMNS | {"near": 0.5}).hits
    assert hit.id == "t1"


def test_growth_leaves_other_threads_and_the_vectors_alone():
    store = SqliteStore()
    store.add([*talk("one", "two"), *talk("red", "blue", thread="s")])
    store.put_vectors(MINE, store.unembedded(MINE, windows=True), np.tile(rows(EAST), (6, 1)))
    assert store.unembedded(MINE, windows=True) == []
    store.add(talk("three", first=2))
    # The window of the first stays as it was; that of the second holds the third too.
    assert store.unembedded(MINE, windows=True) == ["one\ntwo\nthree", "two\nthree", "three"]
    assert windows(store)["s0"] == "red\nblue"


def test_a_refused_memory_leaves_its_thread_as_it_was():
    store = SqliteStore()
    store.add(talk("one", "two"))
    before = everything(store)
    with pytest.raises(StoreError, match="already in the store: 't0'"):
        store.add([*talk("three", first=2), note("t0")])
    assert everything(store) == before


def test_a_count_is_of_the_columns_that_weigh_something():
    store = SqliteStore()
    store.add(talk("kettle", "pot", "pan"))
    assert store.frequency("kettl") == 1
    assert store.frequency("kettl", COLUMNS | {"near": 0.5}) == 3
    # A column that weighs nothing is not searched; one answer is not taken for another's.
    assert store.frequency("kettl", COLUMNS | {"near": 0.0}) == 1
    assert store.frequency("kettl", {"near": 1.0}) == 2
    assert [id_ for id_, _ in store.matching(["kettl"], 9, None, {"near": 1.0})] == ["t1", "t2"]


# What is refused


@pytest.mark.parametrize(
    ("held", "added", "named"),
    [
        (["a"], ["z", "a"], "'a'"),
        ([], ["z", "a", "a"], "'a'"),
        (["a", "b"], ["z", "b", "c", "a", "c"], "'a', 'b', 'c'"),
    ],
)
def test_a_taken_id_is_refused_and_nothing_is_added(held: list[str], added: list[str], named: str):
    store = SqliteStore()
    store.add([note(id_, f"old {id_}") for id_ in held])
    with pytest.raises(StoreError) as caught:
        store.add([note(id_, f"new {id_}") for id_ in added])
    assert str(caught.value) == (
        f"memory id already in the store: {named}; nothing was added, give each memory its own id"
    )
    assert store.memories() == [note(id_, f"old {id_}") for id_ in held]
    store.add([note("z")])
    assert [memory.id for memory in store.memories()] == [*held, "z"]


def test_vectors_of_another_embedder_are_refused():
    store = SqliteStore()
    store.add([note("a"), note("b")])
    store.put_vectors(OTHER, ["a", "b"], rows(EAST, NORTH))
    with pytest.raises(FingerprintError) as caught:
        store.vectors(MINE)
    said = str(caught.value)
    assert "2 of 2 memories have no vector of fingerprint ffffffffffff" in said
    assert "the store holds vectors of: 000000000000" in said
    assert "`recall store reembed " in said


def test_a_partly_embedded_store_is_refused():
    store = SqliteStore()
    store.add([note(id_) for id_ in "abcde"])
    store.put_vectors(MINE, ["b", "d"], rows(EAST, NORTH))
    with pytest.raises(FingerprintError, match="3 of 5 memories have no vector of fingerprint ffffffffffff"):
        streams.vector([store.vectors(MINE)], rows(EAST)[0])


def test_the_refusal_names_the_file_to_re_embed(path: Path):
    with closing(SqliteStore(path)) as store:
        store.add([note("a")])
        with pytest.raises(FingerprintError) as caught:
            store.vectors(MINE)
    assert str(caught.value).endswith(f"or run `recall store reembed {path} --embedder NAME`")


def test_a_vector_too_few_is_refused_and_none_is_kept():
    store = SqliteStore()
    store.add([note("a"), note("b")])
    with pytest.raises(ValueError, match="shorter"):
        store.put_vectors(MINE, ["a", "b"], rows(EAST))
    assert store.fingerprints() == set()


# Migrations and the file


def migrations_of(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT name, applied FROM migrations ORDER BY name").fetchall()


def test_migrations_are_named_and_applied_once(path: Path):
    SqliteStore(path).close()
    first = migrations_of(path)
    assert [name for name, _ in first] == [name for name, _ in MIGRATIONS]
    assert len(set(first)) == len(MIGRATIONS)
    with closing(SqliteStore(path)) as store:
        store.add([note("a")])
    assert migrations_of(path) == first


def older(path: Path, memories: list[Memory], migrations: int = 3) -> Path:
    """A store as the first so many migrations left it, with a vector for each passage of a memory."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, applied TEXT)")
        for name, statements in MIGRATIONS[:migrations]:
            for statement in statements:
                db.execute(statement)
            db.execute("INSERT INTO migrations VALUES (?, 'then')", (name,))
        for seq, memory in enumerate(memories, 1):
            db.execute(
                "INSERT INTO memories VALUES (?, ?, 'note', ?)", (seq, memory.id, memory.model_dump_json())
            )
            if migrations >= 2:
                columns = (memory.title or "", " ".join(memory.aliases), memory.text)
                db.execute(
                    "INSERT INTO words (rowid, title, aliases, body) VALUES (?, ?, ?, ?)",
                    (seq, *map(indexed, columns)),
                )
            for position, text in enumerate(passages(memory) if migrations >= 3 else ()):
                db.execute("INSERT INTO passages VALUES (?, ?, ?, ?)", (seq, position, text, hash_of(text)))
                one = rows(EAST).tobytes()
                db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (MINE, hash_of(text), one))
    return path


def everything(store: SqliteStore) -> list[list[tuple[Any, ...]]]:
    """All that is indexed, in order."""
    return [
        store._db.execute(
            "SELECT rowid, title, aliases, body, near, date FROM words ORDER BY rowid"
        ).fetchall(),
        store._db.execute("SELECT * FROM passages ORDER BY seq, position").fetchall(),
    ]


@pytest.mark.parametrize("migrations", range(len(MIGRATIONS)))
def test_an_older_store_is_brought_up_to_date(path: Path, migrations: int):
    memories = [*talk("kettle", "pot"), note("z", "pan", title="Pan", aliases=("lid",))] if migrations else []
    anew = SqliteStore()
    anew.add(memories)
    with closing(SqliteStore(older(path, memories, migrations))) as store:
        assert store.memories() == anew.memories() == sorted(memories, key=lambda memory: memory.id)
        assert everything(store) == everything(anew)
    assert [name for name, _ in migrations_of(path)] == [name for name, _ in MIGRATIONS]


def test_an_older_store_keeps_its_vectors_and_lacks_those_of_windows(path: Path):
    memories = [*talk("kettle", "pot"), note("z", "pan")]
    with closing(SqliteStore(older(path, memories))) as store:
        assert store.vectors(MINE).ids == ("t0", "t1", "z")
        assert store.unembedded(MINE) == []
        assert store.unembedded(MINE, windows=True) == ["kettle\npot"]
        with pytest.raises(FingerprintError, match="2 of 3 memories have no vector"):
            store.vectors(MINE, windows=True)
    # It is indexed once: another opening writes nothing.
    before = path.read_bytes()
    with closing(SqliteStore(path)) as store:
        assert store._db.total_changes == 0
    assert path.read_bytes() == before


def test_two_that_open_an_older_store_at_once_index_it_once(path: Path):
    class Late(sqlite3.Connection):
        """Before it writes for the second time, another has opened the store and indexed it."""

        begun = 0

        def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
            self.begun += sql == "BEGIN IMMEDIATE"
            if self.begun == 2 and sql == "BEGIN IMMEDIATE":
                SqliteStore(path).close()
            return super().execute(sql, *more)

    with closing(SqliteStore(older(path, talk("kettle", "pot")), connection=Late)) as store:
        assert store._db.begun == 2
        found = streams.keyword(store, "kettle", weights=COLUMNS | {"near": 0.5})
        assert [hit.id for hit in found.hits] == ["t0", "t1"]


def test_an_older_store_that_is_damaged_is_refused_untouched(path: Path):
    older(path, talk("kettle", "pot"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE memories SET record = '{broken' WHERE seq = 2")
    with pytest.raises(StoreError, match="build it anew") as caught:
        SqliteStore(path)
    assert str(path) in str(caught.value)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM words").fetchone() == (0,)


def test_a_store_of_older_words_is_indexed_anew(path: Path):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, applied TEXT)")
        for name, statements in MIGRATIONS[:3]:
            for statement in statements:
                db.execute(statement)
            db.execute("INSERT INTO migrations VALUES (?, 'long ago')", (name,))
        written = (
            note("a", "我的猫在东京", title="C++", aliases=("node.js", "καφέ")),
            note("b", "plain words"),
        )
        for seq, memory in enumerate(written, 1):
            db.execute(
                "INSERT INTO memories VALUES (?, ?, 'note', ?)", (seq, memory.id, memory.model_dump_json())
            )
        # As the words were when a run of Chinese was one word and "C++" a "c".
        db.execute(
            "INSERT INTO words (rowid, title, aliases, body) VALUES (1, 'c', 'node js καφέ', '我的猫在东京')"
        )
        db.execute("INSERT INTO words (rowid, title, aliases, body) VALUES (2, '', '', 'plain word')")
    with closing(SqliteStore(path)) as store:
        for question in ("东京", "猫", "C++", "Node.js", "ΚΑΦΕ"):
            assert [hit.id for hit in streams.keyword(store, question).hits] == ["a"], question
        assert [hit.id for hit in streams.keyword(store, "plain").hits] == ["b"]
        assert store.indexed_columns(["b"]) == [
            ("b", {"title": "", "aliases": "", "body": "plain word", "near": "", "date": ""})
        ]
        assert store.memories() == list(written)
        fresh = SqliteStore()
        fresh.add(written)
        assert store.indexed_columns(["a"]) == fresh.indexed_columns(["a"])


def test_a_newer_store_is_refused_untouched(path: Path):
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO migrations VALUES ('999_future', 'later')")
        db.commit()
    before = migrations_of(path)
    with pytest.raises(StoreError) as caught:
        SqliteStore(path)
    assert str(caught.value).startswith(
        f"{path}: holds migration '999_future', which this version does not know"
    )
    assert migrations_of(path) == before


def test_a_store_opens_again_with_its_vectors(path: Path):
    with closing(SqliteStore(path)) as store:
        store.add([note("a"), note("b")])
        store.put_vectors(MINE, ["a", "b"], rows(EAST, NORTH_EAST))
    with closing(SqliteStore(path, create=False)) as store:
        ranking = streams.vector([store.vectors(MINE)], rows(EAST)[0])
    assert ranking.hits == (Hit("a", 1.0), Hit("b", float(np.float32(0.6))))


def test_a_store_that_must_exist_is_not_made(path: Path):
    with pytest.raises(StoreError, match="no such store; make one with `recall store build`"):
        SqliteStore(path, create=False)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"# Notes\n" * 200, bytes(range(256)) * 40])
def test_a_file_that_is_no_database_is_refused_untouched(path: Path, content: bytes):
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is not a recall store; give the path of a new or an existing one"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_a_store_cut_short_is_refused(path: Path):
    with closing(SqliteStore(path)) as store:
        store.add([note(f"m{i}", "word " * 500) for i in range(50)])
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(StoreError, match=r"store\.db: "):
        SqliteStore(path)


def test_a_path_below_a_file_cannot_be_written(path: Path):
    path.write_text("a regular file")
    with pytest.raises(StoreError, match=r"below\.db: SQLite says .*check that the folder exists"):
        SqliteStore(path / "below.db")


def test_a_missing_folder_is_told(tmp_path: Path):
    with pytest.raises(StoreError, match="check that the folder exists and can be written"):
        SqliteStore(tmp_path / "no" / "store.db")


def test_a_folder_is_no_store(tmp_path: Path):
    with pytest.raises(StoreError, match="SQLite says unable to open database file"):
        SqliteStore(tmp_path)


class WithoutFts5(sqlite3.Connection):
    """What a SQLite built without FTS5 says."""

    def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
        if "fts5" in sql:
            raise sqlite3.OperationalError("no such module: fts5")
        return super().execute(sql, *more)


def test_without_fts5_the_remedy_is_told_and_nothing_is_made(path: Path):
    with pytest.raises(StoreError) as caught:
        SqliteStore(path, connection=WithoutFts5)
    said = str(caught.value)
    assert said.startswith(f"the SQLite of this Python ({sqlite3.sqlite_version}) has no FTS5")
    assert "install a Python whose sqlite3 has it" in said
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    SqliteStore(path).close()


# The cache of vectors


def test_reading_twice_reads_once():
    store = SqliteStore()
    store.add([note("a")])
    store.put_vectors(MINE, ["a"], rows(EAST))
    assert store.vectors(MINE) is store.vectors(MINE)


def test_a_fingerprint_never_gets_the_vectors_of_another():
    store = SqliteStore()
    store.add([note("a")])
    for fingerprint, row in ((MINE, EAST), (OTHER, NORTH)):
        store.put_vectors(fingerprint, ["a"], rows(row))
    for _ in range(2):
        assert store.vectors(MINE).matrix.tolist() == [[1.0, 0.0]]
        assert store.vectors(OTHER).matrix.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("same_connection", [True, False])
def test_a_write_is_seen_by_the_next_read(path: Path, same_connection: bool):
    with closing(SqliteStore(path)) as reader, closing(SqliteStore(path)) as other:
        writer = reader if same_connection else other
        writer.add([note("a")])
        writer.put_vectors(MINE, ["a"], rows(EAST))
        assert reader.vectors(MINE).matrix.tolist() == [[1.0, 0.0]]
        writer.put_vectors(MINE, ["a"], rows(NORTH))
        assert reader.vectors(MINE).matrix.tolist() == [[0.0, 1.0]]
        writer.add([note("b", "a")])
        assert reader.vectors(MINE).ids == ("a", "b")
        writer.add([note("c")])
        with pytest.raises(FingerprintError, match="1 of 3"):
            reader.vectors(MINE)


# The mean taken away


def centred(**given: tuple[float, float]) -> Vectors:
    store = SqliteStore()
    store.add([note(id_) for id_ in given])
    store.put_vectors(MINE, list(given), rows(*given.values()))
    return store.vectors(MINE).centred()


def test_a_centred_row_is_the_difference_scaled_to_one():
    # The mean of (1, 0), (0, 1) and (0.2, 0.2) is (0.4, 0.4); the differences are (0.6, -0.4) and so on.
    held = centred(a=(1, 0), b=(0, 1), c=(0.2, 0.2))
    long, short = sqrt(0.6**2 + 0.4**2), sqrt(2 * 0.2**2)
    by_hand = [(0.6 / long, -0.4 / long), (-0.4 / long, 0.6 / long), (-0.2 / short, -0.2 / short)]
    assert held.mean == pytest.approx([0.4, 0.4], abs=1e-7)
    assert held.matrix[held.row_of] == pytest.approx(np.array(by_hand), abs=1e-6)
    assert held.names == ("a", "b", "c")


def test_a_question_loses_the_same_mean():
    held = centred(a=(1, 0), b=(0, 1))
    # (0.6, 0.8) less (0.5, 0.5) is (0.1, 0.3), of length sqrt(0.1); a is (1, -1) / sqrt(2), b the opposite.
    (question,) = rows(NORTH_EAST)
    expected = (0.1 - 0.3) / sqrt(0.1 * 2)
    assert held.best(question).tolist() == pytest.approx([expected, -expected], abs=1e-6)
    assert held.best(question).dtype == np.float32


def test_a_row_or_a_question_that_is_the_mean_keeps_its_direction():
    # One memory: its row is the mean. So is that of c among these three.
    alone = centred(a=NORTH_EAST)
    assert alone.matrix.tolist() == rows(NORTH_EAST).astype(float).tolist()
    (question,) = rows(NORTH_EAST)
    assert alone.best(question).tolist() == pytest.approx([1.0])
    held = centred(a=(1, 0.5), b=(0, 0.5), c=(0.5, 0.5))
    assert held.matrix[held.row_of] == pytest.approx(np.array([(1, 0), (-1, 0), (0.5, 0.5)]), abs=1e-7)


def test_centred_rows_are_unit_rows_and_their_mean_was_that_of_distinct_passages():
    texts = ["red kite", "a kettle", "чайник", "the red kite again"]
    embedder, store = HashEmbedder(128), SqliteStore()
    store.add(
        [
            *(note(text) for text in texts if " " not in text),
            *(note(f"m{i}", text) for i, text in enumerate(texts)),
        ]
    )
    local.embed(store, embedder, quiet=True)
    plain = store.vectors(embedder.fingerprint)
    held = plain.centred()
    assert len(plain.ids) == 5
    assert len(plain.matrix) == 4
    assert held.mean == pytest.approx(plain.matrix.mean(axis=0))
    assert np.abs(np.linalg.norm(held.matrix, axis=1) - 1).max() < 1e-6
    assert np.abs(held.matrix - plain.matrix).max() > 0.01
    assert plain.mean is None, "the store's own vectors stay as they were"
    assert store.vectors(embedder.fingerprint) is plain


# Re-embedding


class Stops(ByHand):
    """Embeds so many texts, then stops as a person would stop it."""

    def __init__(self, texts: list[str], after: int) -> None:
        super().__init__(dict.fromkeys(texts, EAST))
        self.left = after
        self.seen: list[str] = []

    def embed_passages(self, texts: Any) -> Any:
        if len(texts) > self.left:
            raise KeyboardInterrupt
        self.left -= len(texts)
        self.seen += texts
        return super().embed_passages(texts)


def test_re_embedding_goes_on_where_it_stopped(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local, "EMBED_AT_ONCE", 4)
    texts = [f"m{i:02}" for i in range(20)]
    with closing(SqliteStore(path)) as store:
        store.add([note(text) for text in texts])
        first = Stops(texts, after=10)
        with pytest.raises(KeyboardInterrupt):
            local.embed(store, first, quiet=True)
        # Two whole batches of four fit in ten; the third does not.
        assert first.seen == texts[:8]
    with closing(SqliteStore(path)) as store:
        second = Stops(texts, after=100)
        assert local.embed(store, second, quiet=True) == 20 - 8
        assert second.seen == texts[8:]
        assert len(store.vectors(second.fingerprint).ids) == 20
        assert local.embed(store, second, quiet=True) == 0


def test_re_embedding_keeps_what_another_embedder_made():
    store = SqliteStore()
    store.add([note("a")])
    east, north = ByHand({"a": EAST}, "east"), ByHand({"a": NORTH}, "north")
    local.embed(store, east, quiet=True)
    local.embed(store, north, quiet=True)
    assert store.fingerprints() == {east.fingerprint, north.fingerprint}
    assert store.vectors(east.fingerprint).matrix.tolist() == [[1.0, 0.0]]


def test_what_is_known_is_not_embedded_again_and_what_is_new_is_learnt():
    known = {"a": np.array(NORTH, dtype=np.float32)}
    embedder, store = Stops(["a", "b"], after=9), SqliteStore()
    store.add([note("a"), note("b")])
    assert local.embed(store, embedder, known=known, quiet=True) == 2
    assert embedder.seen == ["b"]
    assert sorted(known) == ["a", "b"]
    held = store.vectors(embedder.fingerprint)
    assert held.matrix[held.row_of].tolist() == [list(NORTH), list(EAST)]


@pytest.mark.parametrize(
    ("windows_too", "texts"), [(True, ["one\ntwo", "one", "two"]), (False, ["one", "two"])]
)
def test_windows_are_embedded_unless_they_are_not_wanted(windows_too: bool, texts: list[str]):
    embedder, store = Stops(["one", "two", "one\ntwo"], after=9), SqliteStore()
    store.add(talk("one", "two"))
    assert local.embed(store, embedder, windows=windows_too, quiet=True) == len(texts)
    assert embedder.seen == texts


# Crashes

BATCH = 40
WRITER = """
import sys
import numpy as np
from recall_core.records import Memory
from recall_core.store import SqliteStore

path, first = sys.argv[1], int(sys.argv[2])
store = SqliteStore(path)
for batch in range(first, 100_000):
    memories = [Memory(id=f"{batch:06}-{i:02}", text=f"word{i} of batch {batch} " * 20) for i in range(BATCH)]
    store.add(memories)
    print(batch, flush=True)
    store.put_vectors("f" * 64, [memory.text for memory in memories], np.eye(BATCH, dtype=np.float32))
""".replace("BATCH", str(BATCH))


def write_until_killed(path: Path, first: int, after: float) -> int:
    """Kill a writer `after` seconds after its first commit; return the last batch it told of."""
    command = [sys.executable, "-c", WRITER, str(path), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = writer.stdout.readline()
        time.sleep(after)
        writer.send_signal(signal.SIGKILL)
        told += writer.stdout.read()
    assert writer.returncode == -signal.SIGKILL
    return int(told.split("\n")[-2])


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_costs_at_most_the_transaction_under_way(path: Path):
    rng = random.Random(11)
    held = 0
    for kills in range(1, 6):
        last = write_until_killed(path, first=held, after=rng.uniform(0.0, 0.15))
        with closing(SqliteStore(path)) as store:
            assert store._db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            store._db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
            ids = [memory.id for memory in store.memories()]
            found = streams.keyword(store, "word7", top_k=10_000)
            bare = Counter(text.split()[3] for text in store.unembedded(MINE))
        held = len(ids) // BATCH
        assert ids == [f"{batch:06}-{i:02}" for batch in range(held) for i in range(BATCH)]
        assert last + 1 <= held <= last + 2
        assert len(found.hits) == held
        # Vectors too are written whole or not at all, and each kill so far cost at most one batch of them.
        assert set(bare.values()) <= {BATCH}
        assert len(bare) <= kills
    assert held > 5


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memories SET record = '{broken'",
        """UPDATE memories SET record = '{"id": "a", "text": "x", "more": 1}'""",
        "UPDATE vectors SET vector = x'0000c07f0000c07f'",  # not a number, twice
        "UPDATE vectors SET vector = x'00000000' WHERE text_hash IN (SELECT min(text_hash) FROM vectors)",
        "UPDATE vectors SET vector = x'00'",
    ],
)
def test_a_damaged_store_is_named_with_what_to_do(path: Path, damage: str):
    with closing(SqliteStore(path)) as store:
        store.add([note("a"), note("b")])
        store.put_vectors(MINE, ["a", "b"], np.eye(2, dtype=np.float32))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(damage)
    with closing(SqliteStore(path)) as store:
        read = store.memories if "memories" in damage else lambda: store.vectors(MINE)
        with pytest.raises(StoreError, match="build it anew") as caught:
            read()
    assert str(path) in str(caught.value)

"""The store: what it keeps, what it refuses, and that a crash costs at most the last transaction."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ByHand, note

from recall_core import fixtures, pipeline, streams
from recall_core.embedders.hashing import HashEmbedder
from recall_core.passages import CHUNK, passages
from recall_core.records import FingerprintError, Fixture, Hit, Memory, StoreError
from recall_core.store import MemoryStore, SqliteStore, Store
from recall_core.store.database import MIGRATIONS
from recall_core.words import search_terms

EAST, NORTH, NORTH_EAST = (1.0, 0.0), (0.0, 1.0), (0.6, 0.8)
MINE, OTHER = "f" * 64, "0" * 64

both = pytest.mark.parametrize("make", [MemoryStore, SqliteStore])
Make = Callable[[], Store]


def rows(*rows_: tuple[float, ...]) -> np.ndarray:
    return np.array(rows_, dtype=np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


# What is kept


@both
def test_memories_come_back_whole_and_sorted(make: Make):
    store = make()
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


@both
def test_two_memories_with_one_text_stay_two_and_tie(make: Make):
    store = make()
    store.add([note("b", "same"), note("a", "same"), note("c", "other")])
    assert store.unembedded(MINE) in (["same", "other"], ["other", "same"])
    store.put_vectors(MINE, ["same", "other"], rows(NORTH_EAST, EAST))
    ranking = streams.vector(store, rows(NORTH)[0], MINE)
    first, second, _ = ranking.hits
    assert (first.id, second.id) == ("a", "b")
    assert first.score == second.score == np.float32(0.8)
    # Three ids, and 2 distinct texts.
    assert (len(store.vectors(MINE).ids), len(store.vectors(MINE).matrix)) == (3, 2)


# Passages


def chunked(*words: str, id_: str = "p", **more: Any) -> Memory:
    """A page of one chunk a word, each longer than half a chunk."""
    return note(id_, "\n\n".join(word.ljust(CHUNK, ".") for word in words), kind="page", **more)


@both
def test_the_best_chunk_of_a_page_counts(make: Make):
    store = make()
    page = chunked("one", "two")
    store.add([page, note("n", "note")])
    whole, one, two = passages(page)
    store.put_vectors(MINE, [whole, one, two, "note"], rows(EAST, NORTH, NORTH_EAST, NORTH_EAST))
    assert store.vectors(MINE).ids == ("n", "p", "p", "p")
    assert streams.vector(store, rows(NORTH)[0], MINE).hits == (
        Hit("p", 1.0),
        Hit("n", float(np.float32(0.8))),
    )


@both
def test_two_pages_share_the_vector_of_a_common_chunk(make: Make):
    store = make()
    one, two = chunked("same", "left", id_="one"), chunked("same", "right", id_="two")
    store.add([one, two])
    missing = store.unembedded(MINE)
    assert sorted(missing) == sorted({*passages(one), *passages(two)})
    assert len(missing) == 3 + 3 - 1
    store.put_vectors(MINE, missing, np.tile(rows(EAST), (5, 1)))
    table = store.vectors(MINE)
    assert (table.ids, table.matrix.shape) == (("one",) * 3 + ("two",) * 3, (5, 2))
    assert store.unembedded(MINE) == []


@both
def test_what_is_missing_comes_in_a_fixed_order(make: Make):
    store = make()
    page = chunked("one", "two")
    store.add([page])
    assert store.unembedded(MINE) == passages(page)
    store.put_vectors(MINE, [passages(page)[1]], rows(EAST))
    assert store.unembedded(MINE) == [passages(page)[0], passages(page)[2]]
    assert store.unembedded(OTHER) == passages(page)


@both
def test_a_page_that_misses_one_chunk_is_refused(make: Make):
    store = make()
    page = chunked("one", "two")
    store.add([page, note("n")])
    store.put_vectors(MINE, [*passages(page)[:2], "n"], rows(EAST, EAST, EAST))
    with pytest.raises(FingerprintError, match="1 of 2 memories have no vector of fingerprint ffffffffffff"):
        store.vectors(MINE)


@pytest.mark.parametrize("id_", ["notes/my page.md", "a  b", "папка/моя страница.md"])
@both
def test_an_id_may_hold_blanks_inside(make: Make, id_: str):
    store = make()
    store.add([note(id_, "kettle")])
    assert [memory.id for memory in store.memories()] == [id_]
    if isinstance(store, SqliteStore):
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
    assert store.matching(["kettl"], 9, []) == []


# What is refused


@both
@pytest.mark.parametrize(
    ("held", "added", "named"),
    [
        (["a"], ["z", "a"], "'a'"),
        ([], ["z", "a", "a"], "'a'"),
        (["a", "b"], ["z", "b", "c", "a", "c"], "'a', 'b', 'c'"),
    ],
)
def test_a_taken_id_is_refused_and_nothing_is_added(
    make: Make, held: list[str], added: list[str], named: str
):
    store = make()
    store.add([note(id_, f"old {id_}") for id_ in held])
    with pytest.raises(StoreError) as caught:
        store.add([note(id_, f"new {id_}") for id_ in added])
    assert str(caught.value) == (
        f"memory id already in the store: {named}; nothing was added, give each memory its own id"
    )
    assert store.memories() == [note(id_, f"old {id_}") for id_ in held]
    store.add([note("z")])
    assert [memory.id for memory in store.memories()] == [*held, "z"]


@both
def test_vectors_of_another_embedder_are_refused(make: Make):
    store = make()
    store.add([note("a"), note("b")])
    store.put_vectors(OTHER, ["a", "b"], rows(EAST, NORTH))
    with pytest.raises(FingerprintError) as caught:
        store.vectors(MINE)
    said = str(caught.value)
    assert "2 of 2 memories have no vector of fingerprint ffffffffffff" in said
    assert "the store holds vectors of: 000000000000" in said
    assert "`recall store reembed " in said


@both
def test_a_partly_embedded_store_is_refused(make: Make):
    store = make()
    store.add([note(id_) for id_ in "abcde"])
    store.put_vectors(MINE, ["b", "d"], rows(EAST, NORTH))
    with pytest.raises(FingerprintError, match="3 of 5 memories have no vector of fingerprint ffffffffffff"):
        streams.vector(store, rows(EAST)[0], MINE)


def test_the_refusal_names_the_file_to_re_embed(path: Path):
    with closing(SqliteStore(path)) as store:
        store.add([note("a")])
        with pytest.raises(FingerprintError) as caught:
            store.vectors(MINE)
    assert str(caught.value).endswith(f"or run `recall store reembed {path} --embedder NAME`")


@both
def test_a_vector_too_few_is_refused_and_none_is_kept(make: Make):
    store = make()
    store.add([note("a"), note("b")])
    with pytest.raises(ValueError, match="shorter"):
        store.put_vectors(MINE, ["a", "b"], rows(EAST))
    if isinstance(store, SqliteStore):
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


def test_an_older_store_is_brought_up_to_date(path: Path):
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE vectors")
        db.execute("DROP TABLE passages")
        db.execute("DELETE FROM migrations WHERE name = '003_vectors'")
        db.commit()
    with closing(SqliteStore(path)) as store:
        store.add([note("a")])
        store.put_vectors(MINE, ["a"], rows(EAST))
        assert store.fingerprints() == {MINE}


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
        assert store.indexed_columns(["b"]) == [("b", ("", "", "plain word"))]
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
        ranking = streams.vector(store, rows(EAST)[0], MINE)
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


# The two stores score alike


def filled(make: Make, fixture: Fixture, case_id: str, embedder: HashEmbedder) -> Store:
    (case,) = (case for case in fixture.cases if case.id == case_id)
    held = fixtures.memories_for(fixture, case)
    store = make()
    store.add(held)
    missing = store.unembedded(embedder.fingerprint)
    store.put_vectors(embedder.fingerprint, missing, pipeline.embed_passages(embedder, missing, quiet=True))
    return store


def test_both_stores_score_the_shipped_fixture_alike(notes: Fixture):
    embedder = HashEmbedder()
    for case in notes.cases:
        (query,) = embedder.embed_queries([case.query])
        in_memory, in_sqlite = (
            streams.vector(filled(make, notes, case.id, embedder), query, embedder.fingerprint)
            for make in (MemoryStore, SqliteStore)
        )
        assert len(in_memory.hits) == 15
        assert in_memory == in_sqlite


def test_a_run_is_the_same_on_either_store(notes: Fixture):
    in_memory, in_sqlite = (
        pipeline.run_cases(notes, HashEmbedder(), store=kind, quiet=True) for kind in ("memory", "sqlite")
    )
    timings = ["embed_ms", "search_ms"]
    assert in_memory.drop(columns=timings).equals(in_sqlite.drop(columns=timings))
    assert not in_memory["failed"].any()


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
    monkeypatch.setattr(pipeline, "EMBED_AT_ONCE", 4)
    texts = [f"m{i:02}" for i in range(20)]
    with closing(SqliteStore(path)) as store:
        store.add([note(text) for text in texts])
        first = Stops(texts, after=10)
        with pytest.raises(KeyboardInterrupt):
            pipeline.reembed(store, first, quiet=True)
        # Two whole batches of four fit in ten; the third does not.
        assert first.seen == texts[:8]
    with closing(SqliteStore(path)) as store:
        second = Stops(texts, after=100)
        assert pipeline.reembed(store, second, quiet=True) == 20 - 8
        assert second.seen == texts[8:]
        assert len(store.vectors(second.fingerprint).ids) == 20
        assert pipeline.reembed(store, second, quiet=True) == 0


def test_re_embedding_keeps_what_another_embedder_made():
    store = SqliteStore()
    store.add([note("a")])
    east, north = ByHand({"a": EAST}, "east"), ByHand({"a": NORTH}, "north")
    pipeline.reembed(store, east, quiet=True)
    pipeline.reembed(store, north, quiet=True)
    assert store.fingerprints() == {east.fingerprint, north.fingerprint}
    assert store.vectors(east.fingerprint).matrix.tolist() == [[1.0, 0.0]]


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

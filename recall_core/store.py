"""The store: memories, their words (FTS5) and their vectors, in one SQLite file or in memory.

Vectors are keyed by (fingerprint, text hash). Two memories with the same text stay two rows and share
one vector, so that their scores are equal to the last bit and a tie is seen as a tie.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recall_core.records import FingerprintError, Memory, StoreError
from recall_core.words import folded

MIGRATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "001_memories",
        (
            """CREATE TABLE memories (
                seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT, text TEXT NOT NULL,
                text_hash TEXT NOT NULL, record TEXT NOT NULL)""",
            "CREATE INDEX memories_by_text ON memories (text_hash)",
        ),
    ),
    (
        "002_words",
        (
            """CREATE VIRTUAL TABLE words USING fts5 (title, text, content='memories',
                content_rowid='seq', tokenize='unicode61 remove_diacritics 2')""",
            """CREATE TRIGGER words_after_insert AFTER INSERT ON memories BEGIN
                INSERT INTO words (rowid, title, text) VALUES (new.seq, new.title, new.text); END""",
            """CREATE TRIGGER words_after_delete AFTER DELETE ON memories BEGIN
                INSERT INTO words (words, rowid, title, text)
                VALUES ('delete', old.seq, old.title, old.text); END""",
        ),
    ),
    (
        "003_vectors",
        (
            """CREATE TABLE vectors (
                fingerprint TEXT NOT NULL, text_hash TEXT NOT NULL, vector BLOB NOT NULL,
                PRIMARY KEY (fingerprint, text_hash)) WITHOUT ROWID""",
        ),
    ),
)


@dataclass(frozen=True)
class Vectors:
    """All vectors of one fingerprint, ready for a full scan.

    `ids`: n memory ids, sorted. `row_of`: (n,) intp, the matrix row of each. `matrix`: (distinct texts,
    dim) float64, contiguous, unit rows. Float64, so that a float32 score does not depend on where in the
    matrix its row happens to lie.
    """

    ids: tuple[str, ...]
    row_of: NDArray[np.intp]
    matrix: NDArray[np.float64]


class Store(Protocol):
    """What a search needs of a store. Both implementations score alike; a test holds them to it."""

    def add(self, memories: Sequence[Memory]) -> None:
        """Add memories, all or none. Raises StoreError if an id is taken."""

    def memories(self) -> list[Memory]:
        """All memories, sorted by id."""

    def without_vector(self, fingerprint: str) -> list[Memory]:
        """Memories that have no vector of this fingerprint yet, sorted by id."""

    def put_vectors(self, fingerprint: str, memories: Sequence[Memory], vectors: NDArray[np.float32]) -> None:
        """Keep one vector a memory, `vectors`: (n, dim) float32, unit rows."""

    def vectors(self, fingerprint: str) -> Vectors:
        """All vectors. Raises FingerprintError if any memory has none of this fingerprint."""


def embedding_text(memory: Memory) -> str:
    """What is embedded of a memory: its title, where it has one, then its text."""
    return f"{memory.title}\n{memory.text}" if memory.title else memory.text


def text_hash(memory: Memory) -> str:
    """SHA-256 of what is embedded of a memory."""
    return hashlib.sha256(embedding_text(memory).encode()).hexdigest()


class MemoryStore:
    """A store in plain Python, for a fresh store a case."""

    def __init__(self) -> None:
        self._memories: dict[str, Memory] = {}
        self._vectors: dict[tuple[str, str], NDArray[np.float32]] = {}

    def add(self, memories: Sequence[Memory]) -> None:
        ids = Counter(memory.id for memory in memories)
        taken = {id_ for id_, n in ids.items() if n > 1 or id_ in self._memories}
        if taken:
            raise _id_taken(taken)
        self._memories.update((memory.id, memory) for memory in memories)

    def memories(self) -> list[Memory]:
        return [self._memories[id_] for id_ in sorted(self._memories)]

    def without_vector(self, fingerprint: str) -> list[Memory]:
        return [memory for memory in self.memories() if (fingerprint, text_hash(memory)) not in self._vectors]

    def put_vectors(self, fingerprint: str, memories: Sequence[Memory], vectors: NDArray[np.float32]) -> None:
        for memory, vector in zip(memories, vectors, strict=True):
            self._vectors[fingerprint, text_hash(memory)] = vector

    def vectors(self, fingerprint: str) -> Vectors:
        keyed = [(memory.id, text_hash(memory)) for memory in self.memories()]
        held = {text for found, text in self._vectors if found == fingerprint}
        _refuse_gaps(fingerprint, keyed, held, {found for found, _ in self._vectors}, "STORE")
        return _stack(keyed, {text: self._vectors[fingerprint, text] for text in held})


class SqliteStore:
    """A store in one SQLite file, or `:memory:`. Every write is one transaction.

    Raises StoreError when the file is not a store, comes from a newer version, cannot be written, or when
    this Python's SQLite has no FTS5.
    """

    def __init__(
        self,
        path: Path | str = ":memory:",
        *,
        create: bool = True,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        self.path = str(path)
        if not create and not Path(path).is_file():
            raise StoreError(f"{path}: no such store; make one with `recall store build`")
        self._cached: tuple[int, str, Vectors] | None = None
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=10, factory=connection)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._migrate()
        except sqlite3.Error as error:
            raise _store_error(self.path, error) from error

    def close(self) -> None:
        """Close the file. Later calls fail."""
        self._db.close()

    def add(self, memories: Sequence[Memory]) -> None:
        rows = [
            # The word index knows only texts folded as a query is; the record keeps them as written.
            (
                memory.id,
                folded(memory.title or ""),
                folded(memory.text),
                text_hash(memory),
                memory.model_dump_json(),
            )
            for memory in memories
        ]
        with self._writing():
            try:
                self._db.executemany(
                    "INSERT INTO memories (id, title, text, text_hash, record) VALUES (?, ?, ?, ?, ?)", rows
                )
            except sqlite3.IntegrityError:
                self._db.execute("ROLLBACK")  # else the rows before the offending one look taken too
                ids = Counter(memory.id for memory in memories)
                taken = {id_ for id_, n in ids.items() if n > 1 or self._holds(id_)}
                raise _id_taken(taken) from None

    def memories(self) -> list[Memory]:
        rows = self._db.execute("SELECT record FROM memories ORDER BY id")
        return [Memory.model_validate_json(record) for (record,) in rows]

    def without_vector(self, fingerprint: str) -> list[Memory]:
        rows = self._db.execute(
            """SELECT record FROM memories WHERE NOT EXISTS (
                 SELECT 1 FROM vectors
                 WHERE fingerprint = ? AND vectors.text_hash = memories.text_hash) ORDER BY id""",
            (fingerprint,),
        )
        return [Memory.model_validate_json(record) for (record,) in rows]

    def put_vectors(self, fingerprint: str, memories: Sequence[Memory], vectors: NDArray[np.float32]) -> None:
        rows = [
            (fingerprint, text_hash(memory), vector.astype("<f4").tobytes())
            for memory, vector in zip(memories, vectors, strict=True)
        ]
        with self._writing():
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def vectors(self, fingerprint: str) -> Vectors:
        version = self._version()
        if self._cached and self._cached[:2] == (version, fingerprint):
            return self._cached[2]
        keyed = self._db.execute("SELECT id, text_hash FROM memories ORDER BY id").fetchall()
        rows = dict(
            self._db.execute("SELECT text_hash, vector FROM vectors WHERE fingerprint = ?", (fingerprint,))
        )
        _refuse_gaps(fingerprint, keyed, rows.keys(), self.fingerprints(), self.path)
        found = _stack(keyed, {text: np.frombuffer(blob, "<f4") for text, blob in rows.items()})
        self._cached = (version, fingerprint, found)
        return found

    def fingerprints(self) -> set[str]:
        """The fingerprints this store holds vectors of."""
        return {found for (found,) in self._db.execute("SELECT DISTINCT fingerprint FROM vectors")}

    def matching(self, match: str, top_k: int) -> list[tuple[str, float]]:
        """(id, bm25) of the memories an FTS5 expression matches. bm25 is negative: less is better."""
        rows = self._db.execute(
            """SELECT memories.id, bm25(words) FROM words JOIN memories ON memories.seq = words.rowid
               WHERE words MATCH ? ORDER BY bm25(words), memories.id LIMIT ?""",
            (match, top_k),
        )
        return rows.fetchall()

    def _holds(self, id_: str) -> bool:
        return self._db.execute("SELECT 1 FROM memories WHERE id = ?", (id_,)).fetchone() is not None

    def _version(self) -> int:
        """Changes whenever this or another process commits a write."""
        (seen,) = self._db.execute("PRAGMA data_version").fetchone()
        return int(seen) * 1_000_000_007 + self._db.total_changes

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise _store_error(self.path, error) from error
            raise

    def _migrate(self) -> None:
        with self._writing():
            self._db.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied TEXT)")
            done = {name for (name,) in self._db.execute("SELECT name FROM migrations")}
            unknown = done - {name for name, _ in MIGRATIONS}
            if unknown:
                raise StoreError(
                    f"{self.path}: holds migration {min(unknown)!r}, which this version does not know; "
                    "it was written by a newer version, so update this one"
                )
            for name, statements in MIGRATIONS:
                if name not in done:
                    for statement in statements:
                        self._db.execute(statement)
                    self._db.execute(
                        "INSERT INTO migrations VALUES (?, ?)", (name, datetime.now(UTC).isoformat())
                    )


def _stack(keyed: Sequence[tuple[str, str]], vectors: dict[str, NDArray[np.float32]]) -> Vectors:
    texts = sorted({text for _, text in keyed})
    place = {text: row for row, text in enumerate(texts)}
    matrix = np.array([vectors[text] for text in texts], dtype=np.float64)
    row_of = np.fromiter((place[text] for _, text in keyed), dtype=np.intp, count=len(keyed))
    return Vectors(tuple(id_ for id_, _ in keyed), row_of, np.ascontiguousarray(matrix))


def _refuse_gaps(
    fingerprint: str,
    keyed: Sequence[tuple[str, str]],
    held: set[str] | object,
    known: set[str],
    path: str,
) -> None:
    missing = [id_ for id_, text in keyed if text not in held]  # type: ignore[operator]
    if not missing:
        return
    others = ", ".join(sorted(other[:12] for other in known - {fingerprint})) or "none"
    raise FingerprintError(
        f"{path}: {len(missing)} of {len(keyed)} memories have no vector of fingerprint {fingerprint[:12]} "
        f"(the store holds vectors of: {others}); cosine between two embedders means nothing. "
        f"Run `recall store reembed {path} --embedder NAME`"
    )


def _id_taken(taken: set[str]) -> StoreError:
    shown = ", ".join(repr(id_) for id_ in sorted(taken)[:5])
    return StoreError(
        f"memory id already in the store: {shown}; nothing was added, give each memory its own id"
    )


def _store_error(path: str, error: sqlite3.Error) -> StoreError:
    if "fts5" in str(error):
        return StoreError(
            f"the SQLite of this Python ({sqlite3.sqlite_version}) has no FTS5, which keyword search needs; "
            "install a Python whose sqlite3 has it (python.org, Debian and conda builds do)"
        )
    if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
        return StoreError(f"{path}: is not a recall store; give the path of a new or an existing one")
    return StoreError(f"{path}: SQLite says {error}; check that the folder exists and can be written")

"""The store: memories, their words (FTS5) and their vectors, in one SQLite file or in memory.

Vectors are keyed by (fingerprint, text hash). Two memories with the same text stay two rows and share
one vector, so that their scores are equal to the last bit and a tie is seen as a tie.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recall_core.records import FingerprintError, Memory, StoreError
from recall_core.words import indexed

MIGRATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "001_memories",
        (
            """CREATE TABLE memories (
                seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
                record TEXT NOT NULL)""",
        ),
    ),
    (
        "002_words",
        (
            """CREATE VIRTUAL TABLE words USING fts5 (
                title, aliases, body, tokenize='porter unicode61 remove_diacritics 2')""",
        ),
    ),
    (
        "003_vectors",
        (
            """CREATE TABLE passages (
                seq INTEGER NOT NULL REFERENCES memories, position INTEGER NOT NULL, text TEXT NOT NULL,
                text_hash TEXT NOT NULL, PRIMARY KEY (seq, position)) WITHOUT ROWID""",
            "CREATE INDEX passages_by_text ON passages (text_hash)",
            """CREATE TABLE vectors (
                fingerprint TEXT NOT NULL, text_hash TEXT NOT NULL, vector BLOB NOT NULL,
                PRIMARY KEY (fingerprint, text_hash)) WITHOUT ROWID""",
        ),
    ),
)


COLUMN_WEIGHTS = (4.0, 3.0, 1.0)
"""What a word in the title, in an alias and in the body counts for bm25."""
CHUNK = 600
"""Characters of a page in one passage, about: a paragraph or two."""


@dataclass(frozen=True)
class Vectors:
    """All vectors of one fingerprint, ready for a full scan.

    `ids`: n memory ids, sorted, one for each passage of a memory. `row_of`: (n,) intp, the matrix row of
    each. `matrix`: (distinct passages, dim) float64, contiguous, unit rows. Float64, so that a float32
    score does not depend on where in the matrix its row happens to lie.
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

    def unembedded(self, fingerprint: str) -> list[str]:
        """The distinct passages that have no vector of this fingerprint yet, in a fixed order."""

    def put_vectors(self, fingerprint: str, passages: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Keep one vector a passage, `vectors`: (n, dim) float32, unit rows."""

    def vectors(self, fingerprint: str) -> Vectors:
        """All vectors. Raises FingerprintError if any memory has none of this fingerprint."""


def passages(memory: Memory) -> list[str]:
    """What is embedded of a memory: the whole of it, and of a page each chunk too. Its best one counts."""
    whole = f"{memory.title}\n{memory.text}" if memory.title else memory.text
    if memory.kind != "page":
        return [whole]
    return list(dict.fromkeys([whole, *chunks(memory)]))


def chunks(memory: Memory) -> list[str]:
    """A text cut at blank lines into pieces of up to `CHUNK` characters, each under the memory's title."""
    pieces: list[str] = []
    for paragraph in re.split(r"\n\s*\n", memory.text.strip()):
        if pieces and len(pieces[-1]) + len(paragraph) < CHUNK:
            pieces[-1] += f"\n\n{paragraph}"
        else:
            pieces.append(paragraph)
    head = f"{memory.title}\n" if memory.title else ""
    return [head + piece for piece in pieces]


def hash_of(passage: str) -> str:
    """SHA-256 of a passage, hexadecimal: the key its vectors are kept under."""
    return hashlib.sha256(passage.encode()).hexdigest()


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

    def unembedded(self, fingerprint: str) -> list[str]:
        every = (passage for memory in self.memories() for passage in passages(memory))
        return [text for text in dict.fromkeys(every) if (fingerprint, hash_of(text)) not in self._vectors]

    def put_vectors(self, fingerprint: str, passages: Sequence[str], vectors: NDArray[np.float32]) -> None:
        for passage, vector in zip(passages, vectors, strict=True):
            self._vectors[fingerprint, hash_of(passage)] = vector

    def vectors(self, fingerprint: str) -> Vectors:
        keyed = [(memory.id, hash_of(text)) for memory in self.memories() for text in passages(memory)]
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
        self._frequencies: dict[str, int] = {}
        self._size: tuple[int, int, float] | None = None
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=10, factory=connection)
            _use_wal(self._db)
            self._migrate()
        except sqlite3.Error as error:
            raise _store_error(self.path, error) from error

    def close(self) -> None:
        """Close the file. Later calls fail."""
        self._db.close()

    def add(self, memories: Sequence[Memory]) -> None:
        with self._writing():
            (last,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM memories").fetchone()
            numbered = list(enumerate(memories, last + 1))
            try:
                self._db.executemany(
                    "INSERT INTO memories VALUES (?, ?, ?, ?)",
                    ((seq, memory.id, memory.kind, memory.model_dump_json()) for seq, memory in numbered),
                )
            except sqlite3.IntegrityError:
                self._db.execute("ROLLBACK")  # else the rows before the offending one look taken too
                ids = Counter(memory.id for memory in memories)
                taken = {id_ for id_, n in ids.items() if n > 1 or self._holds(id_)}
                raise _id_taken(taken) from None
            self._db.executemany(
                "INSERT INTO words (rowid, title, aliases, body) VALUES (?, ?, ?, ?)",
                (
                    (seq, *map(indexed, (memory.title or "", " ".join(memory.aliases), memory.text)))
                    for seq, memory in numbered
                ),
            )
            self._db.executemany(
                "INSERT INTO passages VALUES (?, ?, ?, ?)",
                (
                    (seq, position, text, hash_of(text))
                    for seq, memory in numbered
                    for position, text in enumerate(passages(memory))
                ),
            )

    def memories(self) -> list[Memory]:
        rows = self._db.execute("SELECT record FROM memories ORDER BY id")
        return [Memory.model_validate_json(record) for (record,) in rows]

    def unembedded(self, fingerprint: str) -> list[str]:
        rows = self._db.execute(
            """SELECT min(text) FROM passages WHERE NOT EXISTS (
                 SELECT 1 FROM vectors
                 WHERE fingerprint = ? AND vectors.text_hash = passages.text_hash)
               GROUP BY text_hash ORDER BY min(seq), min(position)""",
            (fingerprint,),
        )
        return [text for (text,) in rows]

    def put_vectors(self, fingerprint: str, passages: Sequence[str], vectors: NDArray[np.float32]) -> None:
        rows = [
            (fingerprint, hash_of(passage), vector.astype("<f4").tobytes())
            for passage, vector in zip(passages, vectors, strict=True)
        ]
        with self._writing():
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def vectors(self, fingerprint: str) -> Vectors:
        version = self._version()
        if self._cached and self._cached[:2] == (version, fingerprint):
            return self._cached[2]
        keyed = self._db.execute(
            "SELECT id, text_hash FROM memories JOIN passages USING (seq) ORDER BY id, position"
        ).fetchall()
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

    def matching(self, terms: Sequence[str], top_k: int, kinds: Sequence[str]) -> list[tuple[str, float]]:
        """(id, bm25) of memories of these kinds with any of the terms, best first; bm25 is negative.

        `terms` are as `words.search_terms` gives them, and each is quoted: none can be an operator.
        """
        rows = self._db.execute(
            f"""SELECT memories.id, bm25(words, {", ".join(map(str, COLUMN_WEIGHTS))}) AS score
                FROM words JOIN memories ON memories.seq = words.rowid
                WHERE words MATCH ? AND memories.kind IN ({",".join("?" * len(kinds))})
                ORDER BY score, memories.id LIMIT ?""",
            (" OR ".join(f'"{term}"' for term in terms), *kinds, top_k),
        )
        return rows.fetchall()

    def frequency(self, term: str) -> int:
        """In how many memories a term stands. Remembered until something is written."""
        version = self._version()
        if self._frequencies.get("") != version:
            self._frequencies = {"": version}
        if term not in self._frequencies:
            # Not from fts5vocab: it knows terms as the tokenizer leaves them, and that is slower too.
            count = "SELECT count(*) FROM words WHERE words MATCH ?"
            (self._frequencies[term],) = self._db.execute(count, (f'"{term}"',)).fetchone()
        return self._frequencies[term]

    def size(self) -> tuple[int, float]:
        """How many memories there are, and their mean length in words. Remembered like frequencies."""
        version = self._version()
        if self._size is None or self._size[0] != version:
            words = "length(title || ' ' || aliases || ' ' || body)"
            marks = "length(replace(title || aliases || body, ' ', ''))"
            columns = "(title <> '') + (aliases <> '') + (body <> '') - 2"
            total, mean = self._db.execute(
                f"SELECT count(*), coalesce(avg({words} - {marks} + {columns}), 0) FROM words"
            ).fetchone()
            self._size = (version, total, max(mean, 1.0))
        return self._size[1], self._size[2]

    def indexed_columns(self, ids: Sequence[str]) -> list[tuple[str, tuple[str, str, str]]]:
        """(id, (title, aliases, body)) as the word index holds them, in the order of the store."""
        rows = self._db.execute(
            f"""SELECT memories.id, title, aliases, body FROM memories JOIN words ON words.rowid = seq
                WHERE memories.id IN ({",".join("?" * len(ids))}) ORDER BY seq""",
            ids,
        )
        return [(id_, (title, aliases, body)) for id_, title, aliases, body in rows]

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


def _use_wal(db: sqlite3.Connection, patience: float = 10.0) -> None:
    """Switch to a write-ahead log. SQLite does not wait for another process that is doing the same."""
    until = time.monotonic() + patience
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _stack(keyed: Sequence[tuple[str, str]], vectors: dict[str, NDArray[np.float32]]) -> Vectors:
    texts = sorted({text for _, text in keyed})
    place = {text: row for row, text in enumerate(texts)}
    matrix = np.array([vectors[text] for text in texts], dtype=np.float64)
    row_of = np.fromiter((place[text] for _, text in keyed), dtype=np.intp, count=len(keyed))
    return Vectors(tuple(id_ for id_, _ in keyed), row_of, np.ascontiguousarray(matrix))


def _refuse_gaps(
    fingerprint: str,
    keyed: Sequence[tuple[str, str]],
    held: Container[str],
    known: set[str],
    path: str,
) -> None:
    missing = {id_ for id_, text in keyed if text not in held}
    if not missing:
        return
    memories = {id_ for id_, _ in keyed}
    others = ", ".join(sorted(other[:12] for other in known - {fingerprint})) or "none"
    raise FingerprintError(
        f"{path}: {len(missing)} of {len(memories)} memories have no vector of fingerprint "
        f"{fingerprint[:12]} (the store holds vectors of: {others}); cosine between two embedders means "
        f"nothing. Run `recall store reembed {path} --embedder NAME`"
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

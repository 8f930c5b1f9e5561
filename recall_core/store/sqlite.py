"""A store in one SQLite file: memories, the words in them, their vectors."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recall_core.passages import hash_of, passages
from recall_core.records import Memory, StoreError
from recall_core.store import database
from recall_core.store.interface import id_taken
from recall_core.store.vectors import Vectors, stacked
from recall_core.words import indexed

COLUMN_WEIGHTS = (4.0, 3.0, 1.0)
"""What a word in the title, in an alias and in the body counts for bm25."""


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
        self._db = database.opened(self.path, connection)

    def close(self) -> None:
        """Close the file. Later calls fail."""
        self._db.close()

    def add(self, memories: Sequence[Memory]) -> None:
        with database.writing(self._db, self.path):
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
                raise id_taken(taken) from None
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
        with database.reading(self.path):
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
        with database.writing(self._db, self.path):
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
        with database.reading(self.path):
            held = {text: np.frombuffer(blob, "<f4") for text, blob in rows.items()}
            found = stacked(fingerprint, keyed, held, self.fingerprints(), self.path)
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

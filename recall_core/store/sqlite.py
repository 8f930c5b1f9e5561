"""A store in one SQLite file: memories, the words in them, their vectors."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recall_core.passages import hash_of, passages
from recall_core.records import Memory, StoreError
from recall_core.store import database
from recall_core.store.vectors import Vectors, stacked
from recall_core.threads import day, neighbours, window
from recall_core.words import indexed

COLUMNS = {"title": 4.0, "aliases": 3.0, "body": 1.0}
"""What a word in each column counts for bm25. `near` holds the words of a memory's neighbours in its thread,
`date` the date of it; they count where a path weighs them."""
ALL = (*COLUMNS, "near", "date")
WINDOW = -1
"""The position of the passage that holds a memory between its neighbours."""


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
        self._cached: dict[tuple[str, bool], tuple[int, Vectors]] = {}
        self._frequencies: tuple[int, dict[tuple[str, tuple[str, ...]], int]] = (-1, {})
        self._size: tuple[int, int, float] | None = None
        self._db = database.opened(self.path, connection)
        (stale,) = self._db.execute(
            "SELECT count(*) FROM memories WHERE seq NOT IN (SELECT rowid FROM words)"
        ).fetchone()
        if stale:
            with database.writing(self._db, self.path), database.reading(self.path):
                # Asked again: another process may have filled them since.
                rows = self._db.execute(
                    "SELECT seq, record FROM memories WHERE seq NOT IN (SELECT rowid FROM words)"
                ).fetchall()
                self._index((seq, Memory.model_validate_json(record)) for seq, record in rows)

    def close(self) -> None:
        """Close the file. Later calls fail."""
        self._db.close()

    def add(self, memories: Sequence[Memory]) -> None:
        """Add memories, all or none. Raises StoreError if an id is taken."""
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
                shown = ", ".join(repr(id_) for id_ in sorted(taken)[:5])
                raise StoreError(
                    f"memory id already in the store: {shown}; nothing was added, give each memory its own id"
                ) from None
            self._index([*self._of_threads({memory.thread for memory in memories}, last), *numbered])

    def _of_threads(self, names: set[str | None], last: int) -> list[tuple[int, Memory]]:
        """What is there already of these threads: it gets new neighbours."""
        known = sorted(name for name in names if name is not None)
        if not known:
            return []
        rows = self._db.execute(
            f"""SELECT seq, record FROM memories WHERE seq <= ?
                AND json_extract(record, '$.thread') IN ({",".join("?" * len(known))})""",
            (last, *known),
        ).fetchall()
        self._db.executemany("DELETE FROM words WHERE rowid = ?", ((seq,) for seq, _ in rows))
        self._db.executemany("DELETE FROM passages WHERE seq = ?", ((seq,) for seq, _ in rows))
        with database.reading(self.path):
            return [(seq, Memory.model_validate_json(record)) for seq, record in rows]

    def _index(self, numbered: Iterable[tuple[int, Memory]]) -> None:
        numbered = list(numbered)
        near = neighbours([memory for _, memory in numbered])
        self._db.executemany(
            "INSERT INTO words (rowid, title, aliases, body, near, date) VALUES (?, ?, ?, ?, ?, ?)",
            ((seq, *map(indexed, _columns(memory, near.get(memory.id, ())))) for seq, memory in numbered),
        )
        self._db.executemany(
            "INSERT INTO passages VALUES (?, ?, ?, ?)",
            (
                (seq, position, text, hash_of(text))
                for seq, memory in numbered
                for position, text in _numbered_passages(memory, near.get(memory.id, ()))
            ),
        )

    def memories(self) -> list[Memory]:
        """All memories, sorted by id."""
        rows = self._db.execute("SELECT record FROM memories ORDER BY id")
        with database.reading(self.path):
            return [Memory.model_validate_json(record) for (record,) in rows]

    def unembedded(self, fingerprint: str, *, windows: bool = False) -> list[str]:
        """The distinct passages that have no vector of this fingerprint yet, in a fixed order.

        `windows`: also those that hold a memory between its neighbours.
        """
        rows = self._db.execute(
            """SELECT min(text) FROM passages WHERE position >= ? AND NOT EXISTS (
                 SELECT 1 FROM vectors
                 WHERE fingerprint = ? AND vectors.text_hash = passages.text_hash)
               GROUP BY text_hash ORDER BY min(seq), min(position)""",
            (WINDOW if windows else 0, fingerprint),
        )
        return [text for (text,) in rows]

    def put_vectors(self, fingerprint: str, passages: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Keep one vector a passage, `vectors`: (n, dim) float32, unit rows."""
        rows = [
            (fingerprint, hash_of(passage), vector.astype("<f4").tobytes())
            for passage, vector in zip(passages, vectors, strict=True)
        ]
        with database.writing(self._db, self.path):
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def vectors(self, fingerprint: str, *, windows: bool = False) -> Vectors:
        """All vectors. Raises FingerprintError if any memory has none of this fingerprint.

        `windows`: of each memory between its neighbours instead, where it has any.
        """
        version = self._version()
        held_at, found = self._cached.get((fingerprint, windows), (None, None))
        if found and held_at == version:
            return found
        keyed = self._db.execute(
            """SELECT id, text_hash FROM memories JOIN passages AS own USING (seq)
               WHERE position = -1
                 OR NOT EXISTS (SELECT 1 FROM passages WHERE seq = own.seq AND position = -1)
               ORDER BY id, position"""
            if windows
            else """SELECT id, text_hash FROM memories JOIN passages USING (seq)
                    WHERE position >= 0 ORDER BY id, position"""
        ).fetchall()
        rows = dict(
            self._db.execute("SELECT text_hash, vector FROM vectors WHERE fingerprint = ?", (fingerprint,))
        )
        with database.reading(self.path):
            held = {text: np.frombuffer(blob, "<f4") for text, blob in rows.items()}
            found = stacked(fingerprint, keyed, held, self.fingerprints(), self.path)
        self._cached[fingerprint, windows] = (version, found)
        return found

    def fingerprints(self) -> set[str]:
        """The fingerprints this store holds vectors of."""
        return {found for (found,) in self._db.execute("SELECT DISTINCT fingerprint FROM vectors")}

    def matching(
        self,
        terms: Sequence[str],
        top_k: int,
        kinds: Sequence[str] | None = None,
        weights: Mapping[str, float] = COLUMNS,
    ) -> list[tuple[str, float]]:
        """(id, bm25) of memories of these kinds with any of the terms, best first; bm25 is negative.

        `weights`: of the columns that are searched. `terms` are as `words.search_terms` gives them, and each
        is quoted: none can be an operator.
        """
        of_kind = f"AND memories.kind IN ({','.join('?' * len(kinds))})" if kinds is not None else ""
        weighed = ", ".join(str(weights.get(column, 0.0)) for column in ALL)
        rows = self._db.execute(
            f"""SELECT memories.id, bm25(words, {weighed}) AS score
                FROM words JOIN memories ON memories.seq = words.rowid
                WHERE words MATCH ? {of_kind}
                ORDER BY score, memories.id LIMIT ?""",
            (_any_of(terms, weights), *(kinds or ()), top_k),
        )
        return rows.fetchall()

    def frequency(self, term: str, weights: Mapping[str, float] = COLUMNS) -> int:
        """In how many memories a term stands, in these columns. Remembered until something is written."""
        version = self._version()
        if self._frequencies[0] != version:
            self._frequencies = (version, {})
        found = self._frequencies[1]
        key = (term, tuple(column for column in ALL if weights.get(column)))
        if key not in found:
            # Not from fts5vocab: it knows terms as the tokenizer leaves them, and that is slower too.
            count = "SELECT count(*) FROM words WHERE words MATCH ?"
            (found[key],) = self._db.execute(count, (_any_of([term], weights),)).fetchone()
        return found[key]

    def size(self) -> tuple[int, float]:
        """How many memories there are, and their mean length in words. Remembered like frequencies."""
        version = self._version()
        if self._size is None or self._size[0] != version:
            apart, together = " || ' ' || ".join(ALL), " || ".join(ALL)
            words = f"length({apart})"
            marks = f"length(replace({together}, ' ', ''))"
            columns = " + ".join(f"({column} <> '')" for column in ALL) + f" - {len(ALL) - 1}"
            total, mean = self._db.execute(
                f"SELECT count(*), coalesce(avg({words} - {marks} + {columns}), 0) FROM words"
            ).fetchone()
            self._size = (version, total, max(mean, 1.0))
        return self._size[1], self._size[2]

    def indexed_columns(self, ids: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
        """(id, {column: words}) as the word index holds them, in the order of the store."""
        rows = self._db.execute(
            f"""SELECT memories.id, {", ".join(ALL)} FROM memories JOIN words ON words.rowid = seq
                WHERE memories.id IN ({",".join("?" * len(ids))}) ORDER BY seq""",
            ids,
        )
        return [(id_, dict(zip(ALL, columns, strict=True))) for id_, *columns in rows]

    def _holds(self, id_: str) -> bool:
        return self._db.execute("SELECT 1 FROM memories WHERE id = ?", (id_,)).fetchone() is not None

    def _version(self) -> int:
        """Changes whenever this or another process commits a write."""
        (seen,) = self._db.execute("PRAGMA data_version").fetchone()
        return int(seen) * 1_000_000_007 + self._db.total_changes


def _columns(memory: Memory, near: Sequence[Memory]) -> tuple[str, ...]:
    around = " ".join(one.text for one in near)
    return memory.title or "", " ".join(memory.aliases), memory.text, around, day(memory)


def _numbered_passages(memory: Memory, near: Sequence[Memory]) -> Iterator[tuple[int, str]]:
    if near:
        yield WINDOW, window(memory, near)
    yield from enumerate(passages(memory))


def _any_of(terms: Sequence[str], weights: Mapping[str, float]) -> str:
    searched = " ".join(column for column in ALL if weights.get(column))
    quoted = " OR ".join(f'"{term}"' for term in terms)
    return f"{{{searched}}} : ({quoted})"

"""The SQLite file under a store: opened, brought up to date, written in transactions, its faults told."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from recall_core.records import StoreError
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
    (
        "004_words_in_every_script",
        (
            "DELETE FROM words",
            """INSERT INTO words (rowid, title, aliases, body) SELECT seq,
                indexed(json_extract(record, '$.title')),
                indexed((SELECT group_concat(value, ' ') FROM json_each(record, '$.aliases'))),
                indexed(json_extract(record, '$.text')) FROM memories""",
        ),
    ),
)


def opened(path: str, connection: type[sqlite3.Connection]) -> sqlite3.Connection:
    """Open a store's file, or make it, with every migration applied."""
    try:
        db = sqlite3.connect(path, isolation_level=None, timeout=10, factory=connection)
        _use_wal(db)
        with writing(db, path):
            _migrate(db, path)
        return db
    except sqlite3.Error as error:
        raise _store_error(path, error) from error


@contextmanager
def writing(db: sqlite3.Connection, path: str) -> Iterator[None]:
    """One transaction: all that is done within it, or none."""
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("COMMIT")
    except BaseException as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise _store_error(path, error) from error
        raise


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raises StoreError on what is in the file and cannot be what we wrote."""
    try:
        yield
    except ValueError as error:  # also pydantic's
        why = " ".join(str(error).split())
        raise StoreError(
            f"{path}: holds what no store writes ({why:.120}); restore it from a copy, or build it anew"
        ) from error
    except sqlite3.Error as error:
        raise _store_error(path, error) from error


def _migrate(db: sqlite3.Connection, path: str) -> None:
    db.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied TEXT)")
    done = {name for (name,) in db.execute("SELECT name FROM migrations")}
    unknown = done - {name for name, _ in MIGRATIONS}
    if unknown:
        raise StoreError(
            f"{path}: holds migration {min(unknown)!r}, which this version does not know; "
            "it was written by a newer version, so update this one"
        )
    db.create_function("indexed", 1, lambda text: indexed(text or ""))
    for name, statements in MIGRATIONS:
        if name not in done:
            for statement in statements:
                db.execute(statement)
            db.execute("INSERT INTO migrations VALUES (?, ?)", (name, datetime.now(UTC).isoformat()))


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


def _store_error(path: str, error: sqlite3.Error) -> StoreError:
    if "fts5" in str(error):
        return StoreError(
            f"the SQLite of this Python ({sqlite3.sqlite_version}) has no FTS5, which keyword search needs; "
            "install a Python whose sqlite3 has it (python.org, Debian and conda builds do)"
        )
    if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
        return StoreError(f"{path}: is not a recall store; give the path of a new or an existing one")
    if "malformed" in str(error):
        return StoreError(f"{path}: SQLite says {error}; restore it from a copy, or build it anew")
    return StoreError(f"{path}: SQLite says {error}; check that the folder exists and can be written")

"""The vector cache: what was embedded once is not embedded again.

One SQLite file, keyed by (fingerprint, side, hash of the text). Two processes may use it at once: a write
is one transaction, and the same text embedded twice gives the same row.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recall_core.embedders import Embedder
from recall_core.records import StoreError

LOOK_UP_AT_ONCE = 500
"""Keys in one SQL statement; SQLite allows 999 variables on old builds."""


class CachedEmbedder:
    """An embedder that remembers. Its name, kind, dim and fingerprint are those of the one inside.

    `computed` counts the texts that really went through the model. Raises StoreError when the file cannot
    be used.
    """

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self.inner = embedder
        self.name = embedder.name
        self.kind: Literal["hash", "onnx"] = embedder.kind
        self.dim = embedder.dim
        self.fingerprint = embedder.fingerprint
        self.computed = 0
        self._path = path
        with self._usable():
            # Not in WAL mode: of two processes that switch a new file to it, SQLite locks one out at once.
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=60)
            self._db.execute(
                """CREATE TABLE IF NOT EXISTS vectors (
                     fingerprint TEXT, side TEXT, text_hash TEXT, vector BLOB NOT NULL,
                     PRIMARY KEY (fingerprint, side, text_hash)) WITHOUT ROWID"""
            )

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows."""
        return self._embed("query", texts, self.inner.embed_queries)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows."""
        return self._embed("passage", texts, self.inner.embed_passages)

    def _embed(
        self,
        side: Literal["query", "passage"],
        texts: Sequence[str],
        embed: Callable[[Sequence[str]], NDArray[np.float32]],
    ) -> NDArray[np.float32]:
        keys = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        with self._usable():
            known = self._look_up(side, list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            rows = embed(list(missing.values()))
            self.computed += len(missing)
            known |= dict(zip(missing, rows, strict=True))
            with self._usable():
                self._keep(side, list(missing), rows)
        return np.array([known[key] for key in keys], dtype=np.float32).reshape(len(texts), self.dim)

    def _look_up(self, side: str, keys: list[str]) -> dict[str, NDArray[np.float32]]:
        found: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(keys), LOOK_UP_AT_ONCE):
            part = keys[start : start + LOOK_UP_AT_ONCE]
            rows = self._db.execute(
                f"""SELECT text_hash, vector FROM vectors WHERE fingerprint = ? AND side = ?
                    AND text_hash IN ({",".join("?" * len(part))})""",
                (self.fingerprint, side, *part),
            )
            found |= {key: np.frombuffer(blob, "<f4") for key, blob in rows}
        return found

    def _keep(self, side: str, keys: list[str], rows: NDArray[np.float32]) -> None:
        blobs = [row.astype("<f4").tobytes() for row in rows]
        values = [(self.fingerprint, side, key, blob) for key, blob in zip(keys, blobs, strict=True)]
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", values)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self._path}: the vector cache cannot be used ({error}); delete the file"
            ) from error

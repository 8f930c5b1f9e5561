"""Streams: one question in, one Ranking out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recall_core.records import InputError, Ranking
from recall_core.store import SqliteStore, Store
from recall_core.words import tokens


def vector(store: Store, query: NDArray[np.float32], fingerprint: str, top_k: int | None = None) -> Ranking:
    """Full-scan cosine. `query`: (dim,) float32, unit. `top_k` None ranks the whole store.

    Scores are float32: equal texts, and texts that differ by less than a float32 can hold, tie.
    Raises FingerprintError when the store's vectors come from another embedder.
    """
    table = store.vectors(fingerprint)
    if not table.ids:
        return Ranking("vector", ())
    if query.shape != (table.matrix.shape[1],):
        raise InputError(
            f"the query vector has shape {query.shape}, the store's have {table.matrix.shape[1:]}"
        )
    cosine = (table.matrix @ query.astype(np.float64)).astype(np.float32)[table.row_of]
    ranking = Ranking.of("vector", zip(table.ids, cosine.tolist(), strict=True))
    return ranking if top_k is None else ranking.top(top_k)


def keyword(store: SqliteStore, query: str, top_k: int = 50) -> Ranking:
    """FTS5 over title and text: any of the query's words, best bm25 first. Scores are positive.

    Each word is quoted, so nothing a person types is an operator. A query without words finds nothing.
    """
    words = tokens(query)
    match = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
    found = store.matching(match, top_k) if match else []
    return Ranking.of("keyword", ((id_, -score) for id_, score in found))

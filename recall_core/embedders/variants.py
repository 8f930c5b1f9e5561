"""An embedder that is wrong on purpose: queries and passages from two models."""

from __future__ import annotations

from typing import Literal

from recall_core.embedders import Embedder, fingerprint_of
from recall_core.records import InputError


class Stale:
    """Passages embedded by one model, queries by another: what a store scores that was never re-embedded.

    Only for showing the damage. A store refuses this; see `SqliteStore.vectors`.
    """

    def __init__(self, written_by: Embedder, asked_by: Embedder) -> None:
        if written_by.dim != asked_by.dim:
            raise InputError(
                f"{written_by.name} has dimension {written_by.dim} and {asked_by.name} has {asked_by.dim}; "
                "vectors of two dimensions cannot be mixed, even on purpose"
            )
        self.name = f"written by {written_by.name}, asked by {asked_by.name}"
        self.kind: Literal["hash", "onnx"] = asked_by.kind
        self.dim = asked_by.dim
        self.fingerprint = fingerprint_of(
            kind="stale", written=written_by.fingerprint, asked=asked_by.fingerprint
        )
        self.embed_queries = asked_by.embed_queries
        self.embed_passages = written_by.embed_passages

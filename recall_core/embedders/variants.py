"""Variants of an embedder, for controls: the mean taken away, or queries and passages from two models."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recall_core.embedders import Embedder, fingerprint_of
from recall_core.records import InputError


class Centred:
    """An embedder with a mean taken from both sides, rows scaled to length 1 again.

    It opens the narrow band some models keep all cosines in. `mean`: (dim,), usually the mean of a store's
    passage vectors; it is part of the fingerprint.
    """

    def __init__(self, embedder: Embedder, mean: NDArray[np.float32]) -> None:
        if mean.shape != (embedder.dim,):
            raise InputError(
                f"the mean has shape {mean.shape}, the embedder's vectors have ({embedder.dim},)"
            )
        self.inner = embedder
        self.name = f"{embedder.name}, centred"
        self.kind: Literal["hash", "onnx"] = embedder.kind
        self.dim = embedder.dim
        self._mean = mean.astype(np.float32)
        self.fingerprint = fingerprint_of(
            kind="centred",
            inner=embedder.fingerprint,
            mean=hashlib.sha256(self._mean.astype("<f4").tobytes()).hexdigest(),
        )

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows."""
        return self._centre(self.inner.embed_queries(texts))

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows."""
        return self._centre(self.inner.embed_passages(texts))

    def _centre(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """A row that is the mean itself has no direction left: it keeps the one it had."""
        moved = rows - self._mean
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        scaled: NDArray[np.float32] = np.where(length > 1e-6, moved / np.maximum(length, 1e-6), rows)
        return scaled.astype(np.float32)


class Stale:
    """Passages embedded by one model, queries by another: what a store scores that was never re-embedded.

    Only for showing the damage. A store refuses this; see `Store.vectors`.
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

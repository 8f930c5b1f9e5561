"""The hash embedder: words and character n-grams, hashed into a row. The ratchet CI runs without a model.

Feature hashing as in Weinberger et al., "Feature hashing for large scale multitask learning", ICML 2009:
each feature adds +1 or -1 to one place of the row, both chosen by its hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recall_core.embedders import fingerprint_of
from recall_core.words import tokens


class HashEmbedder:
    """Lexical, deterministic across processes and platforms, no model file.

    A text without words (empty, white space, emoji) is one feature of its own, so that it too has a unit
    row.
    """

    name = "hash"
    kind: Literal["hash"] = "hash"

    def __init__(self, dim: int = 1024, shortest: int = 3, longest: int = 5) -> None:
        self.dim = dim
        self._sizes = range(shortest, longest + 1)
        self.fingerprint = fingerprint_of(
            kind="hash", version=2, dim=dim, shortest=shortest, longest=longest, hash="blake2b-64"
        )

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows."""
        return self.embed_passages(texts)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows."""
        rows = np.zeros((len(texts), self.dim), dtype=np.float64)
        for row, text in zip(rows, texts, strict=True):
            for feature in self._features(text):
                place, sign = _place(feature, self.dim)
                row[place] += sign
            if not row.any():
                row[0] = 1.0
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.astype(np.float32)

    def _features(self, text: str) -> Iterator[str]:
        """One at a time: a page of 9 MB has 25 million."""
        words = tokens(text)
        if not words:
            yield f"text {text.strip()}"
        for word in words:
            yield f"word {word}"
            marked = f"<{word}>"
            for size in self._sizes:
                for i in range(len(marked) - size + 1):
                    yield f"gram {marked[i : i + size]}"


@lru_cache(maxsize=200_000)
def _place(feature: str, dim: int) -> tuple[int, int]:
    bits = int.from_bytes(blake2b(feature.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
    return bits % dim, 1 if bits >> 63 else -1

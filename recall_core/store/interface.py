"""What a search needs of a store, whichever of the two it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recall_core.records import Memory, StoreError
from recall_core.store.vectors import Vectors


class Store(Protocol):
    """Both implementations score alike; a test holds them to it."""

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


def id_taken(taken: set[str]) -> StoreError:
    shown = ", ".join(repr(id_) for id_ in sorted(taken)[:5])
    return StoreError(
        f"memory id already in the store: {shown}; nothing was added, give each memory its own id"
    )

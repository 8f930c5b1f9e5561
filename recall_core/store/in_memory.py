"""A store in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recall_core.passages import hash_of, passages
from recall_core.records import Memory
from recall_core.store.interface import id_taken
from recall_core.store.vectors import Vectors, stacked


class MemoryStore:
    """A store in plain Python, for a fresh store a case."""

    def __init__(self) -> None:
        self._memories: dict[str, Memory] = {}
        self._vectors: dict[tuple[str, str], NDArray[np.float32]] = {}

    def add(self, memories: Sequence[Memory]) -> None:
        ids = Counter(memory.id for memory in memories)
        taken = {id_ for id_, n in ids.items() if n > 1 or id_ in self._memories}
        if taken:
            raise id_taken(taken)
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
        held = {text: vector for (found, text), vector in self._vectors.items() if found == fingerprint}
        return stacked(fingerprint, keyed, held, {found for found, _ in self._vectors}, "STORE")

"""Read paths: what a system under test does between a question and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from recall_core.records import Memory, Ranking

Kind = Literal["hash", "keyword", "onnx"]


class Session(Protocol):
    """A memory that was filled and can be asked."""

    def search(self, query: str, depth: int) -> Ranking:
        """The best hits, `depth` of them or more, each with its parts. Fewer where there are no more."""


class ReadPath(Protocol):
    """A way to search. Two paths agree on a number only if their fingerprints do."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind:
        """What its numbers come from: `keyword` words alone, `hash` the lexical embedder, `onnx` a model."""

    @property
    def fingerprint(self) -> str:
        """SHA-256, hexadecimal, of everything that changes the numbers."""

    def open(self, memories: Sequence[Memory]) -> Session:
        """A fresh memory that holds these, and nothing else."""

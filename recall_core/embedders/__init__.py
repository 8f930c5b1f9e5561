"""Embedders: text to unit float32 rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into comparable rows. Two embedders agree on a number only if their fingerprints do."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Literal["hash", "onnx"]:
        """`hash` numbers are lexical and are never compared with `onnx` numbers."""

    @property
    def dim(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """SHA-256, hexadecimal, of everything that changes the numbers."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows, in the order of `texts`."""

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows, in the order of `texts`."""


def fingerprint_of(**parts: str | int | bool | None) -> str:
    """SHA-256 of named parts; the order they are given in does not matter."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

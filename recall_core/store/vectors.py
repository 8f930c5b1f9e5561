"""The vectors of a store, stacked for a full scan."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recall_core.records import FingerprintError, InputError


@dataclass(frozen=True)
class Vectors:
    """All vectors of one fingerprint, ready for a full scan.

    `ids`: n memory ids, sorted, one for each passage of a memory. `row_of`: (n,) intp, the matrix row of
    each. `matrix`: (distinct passages, dim) float64, contiguous, unit rows. Float64, so that a float32
    score does not depend on where in the matrix its row happens to lie.
    """

    ids: tuple[str, ...]
    row_of: NDArray[np.intp]
    matrix: NDArray[np.float64]
    mean: NDArray[np.float64] | None = None
    """(dim,), already taken from the rows of `matrix` and to be taken from a question."""

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each memory's passages begin in `ids`."""
        return np.array(
            [at for at, id_ in enumerate(self.ids) if not at or self.ids[at - 1] != id_], dtype=np.intp
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The memories, sorted, each once."""
        return tuple(self.ids[at] for at in self.starts.tolist())

    def best(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """(memories,) cosine of the best passage of each of `names` with a question, (dim,) unit."""
        return np.asarray(np.maximum.reduceat(self.cosines(query), self.starts))

    def cosines(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n,) cosine of each of `ids`' passages with a question, (dim,) unit."""
        return np.asarray((self.matrix @ self.asked(query)).astype(np.float32)[self.row_of])

    def asked(self, query: NDArray[np.float32]) -> NDArray[np.float64]:
        """A question as the rows are: with the mean taken from it. Raises InputError on another dimension."""
        if query.shape != self.matrix.shape[1:]:
            raise InputError(f"the query vector has shape {query.shape}, the store's {self.matrix.shape[1:]}")
        asked = query.astype(np.float64)
        return asked if self.mean is None else _unit(asked - self.mean, asked)

    def centred(self) -> Vectors:
        """The same with the mean of the rows taken from each, of length 1 again.

        It opens the narrow band that some models keep all cosines in. A row that is the mean itself has no
        direction left and keeps the one it had.
        """
        mean = self.matrix.mean(axis=0) if len(self.matrix) else np.zeros(self.matrix.shape[1:])
        return Vectors(self.ids, self.row_of, _unit(self.matrix - mean, self.matrix), mean)


def _unit(moved: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(moved, axis=-1, keepdims=True)
    return np.where(length > 1e-6, moved / np.maximum(length, 1e-6), rows)


def stacked(
    fingerprint: str,
    keyed: Sequence[tuple[str, str]],
    held: Mapping[str, NDArray[np.float32]],
    known: set[str],
    path: str,
) -> Vectors:
    """The vectors of one fingerprint, from what the store at `path` holds.

    `keyed`: (memory id, text hash), sorted by id. `held`: the vector of each text hash. `known`: every
    fingerprint the store has. Raises FingerprintError if a memory lacks one.
    """
    _refuse_gaps(fingerprint, keyed, held, known, path)
    texts = sorted({text for _, text in keyed})
    place = {text: row for row, text in enumerate(texts)}
    matrix = np.array([held[text] for text in texts], dtype=np.float64)
    if not np.isfinite(matrix).all():
        raise ValueError("a vector is not finite")
    row_of = np.fromiter((place[text] for _, text in keyed), dtype=np.intp, count=len(keyed))
    return Vectors(tuple(id_ for id_, _ in keyed), row_of, np.ascontiguousarray(matrix))


def _refuse_gaps(
    fingerprint: str,
    keyed: Sequence[tuple[str, str]],
    held: Container[str],
    known: set[str],
    path: str,
) -> None:
    missing = {id_ for id_, text in keyed if text not in held}
    if not missing:
        return
    memories = {id_ for id_, _ in keyed}
    others = ", ".join(sorted(other[:12] for other in known - {fingerprint})) or "none"
    raise FingerprintError(
        f"{path}: {len(missing)} of {len(memories)} memories have no vector of fingerprint "
        f"{fingerprint[:12]} (the store holds vectors of: {others}); cosine between two embedders means "
        f"nothing. Ask with the embedder that wrote it, or run `recall store reembed {path} --embedder NAME`"
    )

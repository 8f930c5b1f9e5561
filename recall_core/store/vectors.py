"""The vectors of a store, stacked for a full scan."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recall_core.records import FingerprintError


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

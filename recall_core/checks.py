"""What must be true of any embedder, measured: on its own vectors, and on the margins a gate reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import skew

from recall_core.embedders import Embedder

INVARIANT = 0.99999
"""Least cosine of one text's vectors that still counts as the same vector."""
NEIGHBOURS = 10
"""The k of k-occurrence."""


@dataclass(frozen=True)
class Check:
    """One property: whether it holds, and the measurement that says so. `ok` None: nothing to hold it to."""

    name: str
    ok: bool | None
    measured: str


def vectors(embedder: Embedder, texts: Sequence[str]) -> list[Check]:
    """Unit norm, finite, and the same again on a second run."""
    rows = embedder.embed_passages(texts)
    off = float(np.abs(np.linalg.norm(rows.astype(np.float64), axis=1) - 1).max())
    again = embedder.embed_passages(texts)
    same = int((rows == again).all(axis=1).sum())
    again_said = f"{same} of {len(rows)} vectors equal to the bit on a second run"
    return [
        Check("finite", bool(np.isfinite(rows).all()), f"{len(rows)} vectors of dimension {rows.shape[1]}"),
        Check("unit norm", off < 1e-5, f"furthest from 1 by {off:.1e}"),
        Check("deterministic", same == len(rows), again_said),
    ]


def batches(
    batched: Embedder, texts: Sequence[str], queries: Sequence[str], delta: float | None
) -> list[Check]:
    """Does a text's vector depend on what shares its batch, and what would that do to margins?

    `batched` must really batch. Each text is embedded alone, in one mixed batch, and in reverse order.
    """
    alone = np.vstack([batched.embed_passages([text]) for text in texts])
    together = batched.embed_passages(texts)
    backwards = batched.embed_passages(texts[::-1])[::-1]
    worst = min(_least_cosine(alone, together), _least_cosine(alone, backwards))
    asked = np.vstack([batched.embed_queries([query]) for query in queries])
    moved = np.abs(_margins(asked @ alone.T) - _margins(asked @ together.T))
    said = f"margins move by up to {moved.max():.4f}" + ("" if delta is None else f", delta is {delta:g}")
    return [
        Check("batch invariant", worst >= INVARIANT, f"least cosine, alone against in a batch: {worst:.6f}"),
        Check("margins hold in a batch", delta is None or bool(moved.max() <= delta), said),
    ]


def threads(one: Embedder, many: Embedder, texts: Sequence[str]) -> Check:
    """Does the number of threads change a vector?"""
    worst = _least_cosine(one.embed_passages(texts), many.embed_passages(texts))
    said = f"least cosine, one thread against all: {worst:.6f}"
    return Check("same on one thread", worst >= INVARIANT, said)


def truncation(counts: NDArray[np.int64], limit: int) -> Check:
    """How many texts are cut, and by how much. `counts`: (n,) tokens of each text before cutting."""
    cut = counts[counts > limit]
    said = f"{len(cut)} of {len(counts)} texts are longer than {limit} tokens (longest: {counts.max()})"
    if len(cut):
        said += f"; {int((cut - limit).sum())} tokens of {int(counts.sum())} are lost"
    return Check("texts fit", len(cut) == 0, said)


def band(rows: NDArray[np.float32], pairs: int = 20_000, seed: int = 0) -> pd.Series[float]:
    """Percentiles of the cosine of random pairs of different texts: `p1`, `p25`, `p50`, `p75`, `p99`.

    A model that keeps them in a narrow band leaves an absolute gate no room. `rows`: (n, dim), unit.
    """
    rng = np.random.default_rng(seed)
    left = rng.integers(0, len(rows), pairs)
    right = (left + rng.integers(1, max(len(rows), 2), pairs)) % len(rows)
    cosines = np.einsum("ij,ij->i", rows[left], rows[right])
    return pd.Series({f"p{at}": float(np.percentile(cosines, at)) for at in (1, 25, 50, 75, 99)})


def hubness(
    queries: NDArray[np.float32], passages: NDArray[np.float32], ids: Sequence[str], k: int = NEIGHBOURS
) -> tuple[float, pd.DataFrame]:
    """Skewness of the k-occurrence and the counts behind it (Radovanovic et al., JMLR 2010).

    How often is each passage among the k nearest of a query, everything in one store? Evenly would be a
    skewness near 0; hubs make it large. Frame: `id`, `times`, most frequent first.
    """
    k = min(k, len(ids))
    nearest = np.argpartition(-(queries @ passages.T), k - 1, axis=1)[:, :k]
    times = np.bincount(nearest.ravel(), minlength=len(ids))
    counted = pd.DataFrame({"id": list(ids), "times": times}).sort_values("id")
    counted = counted.sort_values("times", ascending=False, kind="stable", ignore_index=True)
    return float(skew(times)) if times.std() else 0.0, counted


def same_answers(embed: Callable[[Sequence[str]], NDArray[np.float32]], text: str, padded: str) -> Check:
    """White space around a text must not change its vector."""
    cosine = _least_cosine(embed([text]), embed([padded]))
    return Check("white space ignored", cosine >= INVARIANT, f"cosine with and without: {cosine:.6f}")


def _margins(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    top = np.sort(scores, axis=1)
    return top[:, -1] - top[:, -2]


def _least_cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float((one * other).sum(axis=1).min())

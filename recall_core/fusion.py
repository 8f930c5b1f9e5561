"""Fusion: several rankings become one. Every hit says what each stream gave it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from recall_core.records import InputError, Ranking

K = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke, Buettcher, SIGIR 2009)."""


Contribution = Callable[[Ranking, int, float], float]
"""(ranking, rank from 1, score) -> what the stream adds before its weight."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one stream gave a hit: its rank from 1, its own score, and what that added to the fused score."""

    stream: str
    rank: int
    score: float
    contribution: float


@dataclass(frozen=True, slots=True)
class FusedHit:
    """One memory after fusion. `parts`: the streams that found it, by name."""

    id: str
    score: float
    parts: tuple[Part, ...]


def rrf(
    rankings: Sequence[Ranking], weights: Mapping[str, float] | None = None, k: float = K
) -> list[FusedHit]:
    """Weighted RRF: score(d) = sum over streams of weight / (k + rank), sorted by (-score, id).

    A stream without a weight counts 1. Raises InputError on a k below 0, a negative weight, or two rankings
    of one stream.
    """
    if not k >= 0:
        raise InputError(f"k is {k}; give 0 or more (60 is usual)")
    return _fuse(rankings, weights, lambda _, rank, __: 1 / (k + rank))


def minmax(rankings: Sequence[Ranking], weights: Mapping[str, float] | None = None) -> list[FusedHit]:
    """Convex combination of min-max scaled scores (Bruch, Gai, Ingber, TOIS 2023), sorted (-score, id).

    In each stream the best score becomes 1 and the worst 0; a stream whose scores are all equal gives 1.
    A memory a stream did not find gets 0 from it. Weights are scaled to add up to 1 over the streams given.
    """
    given = _weights(rankings, weights)
    total = sum(given.values())
    scaled = {stream: weight / total if total else 0.0 for stream, weight in given.items()}

    def contribution(ranking: Ranking, _: int, score: float) -> float:
        best, worst = ranking.hits[0].score, ranking.hits[-1].score
        return (score - worst) / (best - worst) if best > worst else 1.0

    return _fuse(rankings, scaled, contribution)


def ranking_of(hits: Sequence[FusedHit], stream: str = "hybrid") -> Ranking:
    """Fused hits as a Ranking."""
    return Ranking.of(stream, ((hit.id, hit.score) for hit in hits))


def _weights(rankings: Sequence[Ranking], weights: Mapping[str, float] | None) -> dict[str, float]:
    streams = [ranking.stream for ranking in rankings]
    if len(set(streams)) < len(streams):
        raise InputError(f"two rankings of one stream among {', '.join(streams)}; fuse each stream once")
    weighted = {stream: (weights or {}).get(stream, 1.0) for stream in streams}
    for stream, weight in weighted.items():
        if not 0 <= weight < math.inf:
            raise InputError(f"the weight of {stream} is {weight}; give a finite number of 0 or more")
    return weighted


def _fuse(
    rankings: Sequence[Ranking],
    weights: Mapping[str, float] | None,
    contribution: Contribution,
) -> list[FusedHit]:
    weighted = _weights(rankings, weights)
    parts: dict[str, list[Part]] = {}
    for ranking in sorted(rankings, key=lambda ranking: ranking.stream):
        if weight := weighted[ranking.stream]:
            for rank, hit in enumerate(ranking.hits, 1):
                added = weight * contribution(ranking, rank, hit.score)
                parts.setdefault(hit.id, []).append(Part(ranking.stream, rank, hit.score, added))
    fused = [
        FusedHit(id_, math.fsum(part.contribution for part in found), tuple(found))
        for id_, found in parts.items()
    ]
    return sorted(fused, key=lambda hit: (-hit.score, hit.id))

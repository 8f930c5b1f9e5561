"""Fusion: the rankings of several streams become one. Every hit says what each stream gave it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import numpy as np

from recall_core.records import Fusion, Hit, InputError, Part, Ranking

K = 60
"""The usual constant of reciprocal rank fusion (Cormack, Clarke, Buettcher, SIGIR 2009)."""
DEVIATIONS = 3
"""Of distribution-based score fusion: so far below the mean is 0, so far above it 1 (Mazzeschi, 2023)."""


def fuse(
    rankings: Sequence[Ranking],
    method: Fusion = "rrf",
    weights: Mapping[str, float] | None = None,
    k: float = K,
    name: str = "hybrid",
) -> Ranking:
    """One ranking of all that the streams found; `parts` of each hit say what each stream added.

    `rrf`: the sum of weight / (k + rank), ranks pessimistic. `minmax`: the convex combination of scores
    scaled to 0..1 between a stream's worst and best (Bruch, Gai, Ingber, TOIS 2023). `dbsf`: the same
    between mean - 3 and mean + 3 deviations of a stream. A stream whose scores are all equal gives 1 (minmax)
    or a half (dbsf). What a stream did not find gets 0 from it. A stream without a weight counts 1; for
    minmax and dbsf weights are scaled to add up to 1 over the streams given.

    Equal sums are settled by the streams' own evidence, their min-max scaled scores added up; hits that are
    equal in that too tie. Raises InputError on an unknown method, a k below 0, a negative weight, or two
    rankings of one stream.
    """
    if method not in get_args(Fusion):
        raise InputError(f"fusion is {method!r}; known: {', '.join(get_args(Fusion))}")
    if not k >= 0:
        raise InputError(f"k is {k}; give 0 or more (60 is usual)")
    weighted = _weights(rankings, weights)
    if method != "rrf" and (total := math.fsum(weighted.values())):
        weighted = {stream: weight / total for stream, weight in weighted.items()}
    parts: dict[str, list[Part]] = {}
    evidence: dict[str, float] = {}
    for ranking in sorted(rankings, key=lambda ranking: ranking.stream):
        if not (weight := weighted[ranking.stream]) or not ranking.hits:
            continue
        own, worth = _minmax(ranking), _worth(ranking, method, k)
        for hit, rank in zip(ranking.hits, ranking.ranks(), strict=True):
            added = weight * worth(rank, hit.score)
            parts.setdefault(hit.id, []).append(Part(ranking.stream, rank, hit.score, added))
            evidence[hit.id] = evidence.get(hit.id, 0.0) + own(rank, hit.score)
    return Ranking.ordered(
        name,
        (
            Hit(id_, math.fsum(part.contribution for part in found), tuple(found), evidence[id_])
            for id_, found in parts.items()
        ),
    )


def passed_on(fused: Ranking, linked: Mapping[str, frozenset[str]], decay: float, seeds: int = 5) -> Ranking:
    """The ranking with the pages that its first `seeds` hits, and what ties with them, are linked with.

    A neighbour is worth `decay` (0 to below 1) of its best seed, or what it had, if that is more: so it
    never ties with the page it was reached from. A seed worth nothing passes nothing on. Of equal neighbours,
    the one that more or better seeds are linked with is ahead. The part is of the stream `graph`.
    """
    own = {hit.id: hit for hit in fused.hits}
    reached: dict[str, list[float]] = {}
    last = [hit.worth for hit in fused.hits[:seeds]][-1:]
    for seed in (hit for hit in fused.hits if hit.score > 0 and [hit.worth] >= last):
        for id_ in linked.get(seed.id, frozenset()):
            reached.setdefault(id_, []).append(decay * seed.score)
    graph = Ranking.of("graph", ((id_, math.fsum(given)) for id_, given in reached.items()))
    found = dict(own)
    for hit, rank in zip(graph.hits, graph.ranks(), strict=True):
        before = own.get(hit.id, Hit(hit.id, 0.0))
        score = max(before.score, *reached[hit.id])
        part = Part("graph", rank, hit.score, score - before.score)
        parts = tuple(sorted((*before.parts, part), key=lambda part: part.stream))
        found[hit.id] = Hit(hit.id, score, parts, before.evidence + hit.score)
    return Ranking.ordered(fused.stream, found.values())


def raised(ranking: Ranking, why: str, ids: frozenset[str], share: float) -> Ranking:
    """The ranking with the scores above 0 of these memories raised by a share of themselves.

    What is added stands among their parts, under the name `why`.
    """
    found = []
    for hit in ranking.hits:
        added = share * hit.score if hit.id in ids and hit.score > 0 else 0.0
        part = Part(why, 1, share, added)
        parts = tuple(sorted((*hit.parts, part), key=lambda part: part.stream)) if added else hit.parts
        found.append(Hit(hit.id, hit.score + added, parts, hit.evidence))
    return Ranking.ordered(ranking.stream, found)


def _weights(rankings: Sequence[Ranking], weights: Mapping[str, float] | None) -> dict[str, float]:
    streams = [ranking.stream for ranking in rankings]
    if len(set(streams)) < len(streams):
        raise InputError(f"two rankings of one stream among {', '.join(streams)}; fuse each stream once")
    weighted = {stream: (weights or {}).get(stream, 1.0) for stream in streams}
    for stream, weight in weighted.items():
        if not 0 <= weight < math.inf:
            raise InputError(f"the weight of {stream} is {weight}; give a finite number of 0 or more")
    return weighted


Worth = Callable[[int, float], float]
"""(rank from 1, score) -> what the stream gives before its weight."""


def _worth(ranking: Ranking, method: Fusion, k: float) -> Worth:
    if method == "rrf":
        return lambda rank, _: 1 / (k + rank)
    return _minmax(ranking) if method == "minmax" else _dbsf(ranking)


def _minmax(ranking: Ranking) -> Worth:
    best, worst = ranking.hits[0].score, ranking.hits[-1].score
    return lambda _, score: (score - worst) / (best - worst) if best > worst else 1.0


def _dbsf(ranking: Ranking) -> Worth:
    scores = np.array([hit.score for hit in ranking.hits])
    mean, width = float(scores.mean()), 2 * DEVIATIONS * float(scores.std())
    return lambda _, score: min(max((score - mean) / width + 0.5, 0.0), 1.0) if width else 0.5

"""Streams: one question in, one Ranking out."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from recall_core.records import Memory, Ranking
from recall_core.store import COLUMNS, SqliteStore, Vectors
from recall_core.words import search_terms, words_of

PAGES = ("note", "fact", "page")
"""Every kind but raw observations."""
POSTINGS = 1_000
"""Entries of the word index one question may touch, about, before commoner words only help to rank."""
CANDIDATES = 100
"""Memories that the rare words propose and all words rank."""

EntityIndex = Mapping[tuple[str, ...], frozenset[str]]
Links = Mapping[str, frozenset[str]]


def vector(vectors: Sequence[Vectors], query: NDArray[np.float32], top_k: int | None = None) -> Ranking:
    """Full-scan cosine, the best passage of each memory. `query`: (dim,) float32, unit.

    Of several `vectors` of the same memories, as of a turn alone and between its neighbours, the mean counts.
    Scores are float32: equal texts, and texts that differ by less than a float32 can hold, tie. `top_k` None
    ranks the whole store. Raises InputError when question and store are of different dimensions.
    """
    names = vectors[0].names
    if not names:
        return Ranking("vector", ())
    best = np.asarray(np.mean([one.best(query) for one in vectors], axis=0), dtype=np.float32)
    chosen = np.arange(len(best))
    if top_k is not None and top_k < len(best):
        chosen = np.flatnonzero(best >= np.partition(best, -top_k)[-top_k])
    found = ((names[at], score) for at, score in zip(chosen.tolist(), best[chosen].tolist(), strict=True))
    return Ranking.of("vector", found).top(top_k)


def keyword(
    store: SqliteStore,
    query: str,
    top_k: int = 50,
    *,
    kinds: Sequence[str] | None = None,
    weights: Mapping[str, float] = COLUMNS,
    postings: int | None = POSTINGS,
) -> Ranking:
    """FTS5 over the columns that weigh something: any of the query's words, best bm25 first, positive.

    `kinds`: of the memories that are searched; None for all. Nothing a person types is an operator. Rare
    words propose memories; commoner ones join in that while the index entries stay within `postings`, and
    whenever too little was found. All of them rank what was proposed. With `postings` None all words propose
    too, which is slow where there are many memories.
    """
    terms = sorted(search_terms(query), key=lambda term: (store.frequency(term, weights), term))
    cost = np.cumsum([store.frequency(term, weights) for term in terms])
    taken = len(terms) if postings is None else max(1, int((cost <= postings).sum()))
    if taken >= len(terms):
        found = store.matching(terms, top_k, kinds, weights) if terms else []
        return Ranking.of("keyword", ((id_, -score) for id_, score in found))
    candidates = store.matching(terms[:taken], max(CANDIDATES, top_k), kinds, weights)
    while len(candidates) < top_k and taken < len(terms):
        taken = min(2 * taken, len(terms))
        candidates = store.matching(terms[:taken], max(CANDIDATES, top_k), kinds, weights)
    return Ranking.of("keyword", _bm25(store, [id_ for id_, _ in candidates], terms, weights)).top(top_k)


def _bm25(
    store: SqliteStore, ids: Sequence[str], terms: Sequence[str], weights: Mapping[str, float]
) -> list[tuple[str, float]]:
    """(id, score) by SQLite's own bm25 over all terms, for these memories only.

    Asked of SQLite, it would read every entry of every term, also of the commonest.
    """
    total, mean_length = store.size()
    held = {term: store.frequency(term, weights) for term in terms}
    idf = {term: max(math.log((total - n + 0.5) / (n + 0.5)), 1e-6) for term, n in held.items()}
    scored = []
    for id_, columns in store.indexed_columns(ids):
        counts = {name: Counter(column.split()) for name, column in columns.items()}
        length = sum(count.total() for count in counts.values())
        norm = 1.2 * (1 - 0.75 + 0.75 * length / mean_length)
        weighted = {
            term: sum(weight * counts[name][term] for name, weight in weights.items()) for term in terms
        }
        scored.append((id_, sum(idf[t] * f * 2.2 / (f + norm) for t, f in weighted.items() if f)))
    return scored


def observation(store: SqliteStore, query: str, top_k: int = 50) -> Ranking:
    """Keyword search over raw observations alone."""
    return Ranking("observation", keyword(store, query, top_k, kinds=("observation",)).hits)


def speakers(memories: Iterable[Memory]) -> Mapping[str, frozenset[str]]:
    """Who said what: the ids of the memories, by the first word of the speaker's name, folded."""
    said: dict[str, set[str]] = defaultdict(set)
    for memory in memories:
        if memory.speaker and (words := words_of(memory.speaker)):
            said[words[0]].add(memory.id)
    return {word: frozenset(ids) for word, ids in said.items()}


def entity_index(memories: Iterable[Memory]) -> EntityIndex:
    """Which memories name an entity, by the entity's words."""
    named: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for memory in memories:
        for name in memory.entities:
            if words := tuple(words_of(name)):
                named[words].add(memory.id)
    return {words: frozenset(ids) for words, ids in named.items()}


def entity(index: EntityIndex, query: str, top_k: int = 50) -> Ranking:
    """Memories whose entities stand in the query, word for word. Rare entities count more.

    Score: the sum over matched entities of log(1 + memories / memories that name it).
    """
    words = words_of(query)
    longest = max((len(name) for name in index), default=0)
    runs = {
        tuple(words[start : start + size])
        for size in range(1, longest + 1)
        for start in range(len(words) - size + 1)
    }
    total = len(frozenset().union(*index.values())) if index else 0
    scores: Counter[str] = Counter()
    for name in sorted(runs & index.keys()):
        for id_ in index[name]:
            scores[id_] += math.log1p(total / len(index[name]))  # type: ignore[assignment]
    return Ranking.of("entity", scores.items()).top(top_k)


def links(memories: Iterable[Memory]) -> Links:
    """Who is linked with whom, in either direction, among these memories. No page links itself."""
    memories = list(memories)
    known = {memory.id for memory in memories}
    linked: dict[str, set[str]] = defaultdict(set)
    for memory in memories:
        for target in set(memory.links) & known - {memory.id}:
            linked[memory.id].add(target)
            linked[target].add(memory.id)
    return {id_: frozenset(ids) for id_, ids in linked.items()}

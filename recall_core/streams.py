"""Streams: one question in, one Ranking out."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from recall_core.records import InputError, Memory, Ranking
from recall_core.store import COLUMN_WEIGHTS, SqliteStore, Store
from recall_core.words import search_terms, words_of

PAGES = ("note", "fact", "page")
"""The kinds a page stream searches: everything but raw observations."""
POSTINGS = 1_000
"""Entries of the word index one question may touch, about, before commoner words only help to rank."""
CANDIDATES = 100
"""Memories that the rare words propose and all words rank."""
DECAY = 0.5
"""What a link passes on of its page's worth."""

EntityIndex = Mapping[tuple[str, ...], frozenset[str]]
Links = Mapping[str, frozenset[str]]


def vector(
    store: Store,
    query: NDArray[np.float32],
    fingerprint: str,
    top_k: int | None = None,
) -> Ranking:
    """Full-scan cosine, the best passage of each memory. `query`: (dim,) float32, unit.

    Scores are float32: equal texts, and texts that differ by less than a float32 can hold, tie. `top_k`
    None ranks the whole store.
    Raises FingerprintError when the store's vectors come from another embedder.
    """
    table = store.vectors(fingerprint)
    if not table.ids:
        return Ranking("vector", ())
    if query.shape != (table.matrix.shape[1],):
        raise InputError(
            f"the query vector has shape {query.shape}, the store's have {table.matrix.shape[1:]}"
        )
    cosine = (table.matrix @ query.astype(np.float64)).astype(np.float32)[table.row_of]
    ranking = Ranking.of("vector", zip(table.ids, cosine.tolist(), strict=True))
    return ranking if top_k is None else ranking.top(top_k)


def standing_out(ranking: Ranking, deviations: float | None) -> Ranking:
    """The hits whose score is that many standard deviations above the mean of the ranking. None keeps all.

    Everything has some cosine with everything. Without this, a vector stream is never empty. Where all
    scores are equal, none stands out.
    """
    if deviations is None or not ranking.hits:
        return ranking
    scores = np.array([hit.score for hit in ranking.hits])
    least = scores.mean() + deviations * scores.std()
    level = scores.max() == scores.min()
    return Ranking(ranking.stream, () if level else tuple(hit for hit in ranking.hits if hit.score >= least))


def keyword(
    store: SqliteStore,
    query: str,
    top_k: int = 50,
    *,
    kinds: Sequence[str] = PAGES,
    postings: int | None = POSTINGS,
) -> Ranking:
    """FTS5 over title, aliases and body: any of the query's words, best bm25 first. Scores are positive.

    Nothing a person types is an operator. Rare words propose memories; commoner ones join in that while the
    index entries stay within `postings`, and whenever too little was found. All of them rank what was
    proposed. With `postings` None all words propose too, which is slow where there are many memories.
    """
    terms = sorted(search_terms(query), key=lambda term: (store.frequency(term), term))
    cost = np.cumsum([store.frequency(term) for term in terms])
    taken = len(terms) if postings is None else max(1, int((cost <= postings).sum()))
    if taken >= len(terms):
        found = store.matching(terms, top_k, kinds) if terms else []
        return Ranking.of("keyword", ((id_, -score) for id_, score in found))
    candidates = store.matching(terms[:taken], max(CANDIDATES, top_k), kinds)
    while len(candidates) < top_k and taken < len(terms):
        taken = min(2 * taken, len(terms))
        candidates = store.matching(terms[:taken], max(CANDIDATES, top_k), kinds)
    return Ranking.of("keyword", _bm25(store, [id_ for id_, _ in candidates], terms)).top(top_k)


def _bm25(store: SqliteStore, ids: Sequence[str], terms: Sequence[str]) -> list[tuple[str, float]]:
    """(id, score) by SQLite's own bm25 over all terms, for these memories only.

    Asked of SQLite, it would read every entry of every term, also of the commonest.
    """
    total, mean_length = store.size()
    idf = {
        term: max(math.log((total - store.frequency(term) + 0.5) / (store.frequency(term) + 0.5)), 1e-6)
        for term in terms
    }
    scored = []
    for id_, columns in store.indexed_columns(ids):
        counts = [Counter(column.split()) for column in columns]
        length = sum(count.total() for count in counts)
        norm = 1.2 * (1 - 0.75 + 0.75 * length / mean_length)
        weighted = {
            term: sum(weight * count[term] for weight, count in zip(COLUMN_WEIGHTS, counts, strict=True))
            for term in terms
        }
        scored.append((id_, sum(idf[t] * f * 2.2 / (f + norm) for t, f in weighted.items() if f)))
    return scored


def observation(store: SqliteStore, query: str, top_k: int = 50) -> Ranking:
    """Keyword search over raw observations: the fallback when every page stream came back empty."""
    return Ranking("observation", keyword(store, query, top_k, kinds=("observation",)).hits)


def entity_index(memories: Iterable[Memory]) -> EntityIndex:
    """Which memories name an entity, by the entity's words. Observations are not pages and are left out."""
    named: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for memory in memories:
        if memory.kind in PAGES:
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


def graph(
    linked: Links, found: Sequence[Ranking], top_k: int = 50, *, seeds: int = 5, decay: float = DECAY
) -> Ranking:
    """Pages linked from or to the first `seeds` hits of other streams, which are not among those themselves.

    A seed of rank r passes on decay / r, split over nothing: a page that two seeds link to gets both.
    """
    worth: dict[str, float] = defaultdict(float)
    for ranking in found:
        for rank, hit in enumerate(ranking.hits[:seeds], 1):
            worth[hit.id] = max(worth[hit.id], 1 / rank)
    scores: dict[str, float] = defaultdict(float)
    for id_ in sorted(worth):
        for neighbour in linked.get(id_, frozenset()) - worth.keys():
            scores[neighbour] += decay * worth[id_]
    return Ranking.of("graph", scores.items()).top(top_k)

"""The built-in paths: streams over one SQLite store, fused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recall_core import fusion, progress, streams
from recall_core.config import PathConfig
from recall_core.embedders import Embedder
from recall_core.embedders.reranker import Reranker
from recall_core.paths import Kind
from recall_core.records import Hit, Memory, Part, Ranking
from recall_core.store import COLUMNS, SqliteStore, Vectors
from recall_core.threads import neighbours, said, window
from recall_core.words import words_of

METHOD = "1"
"""Raised when the code below gives other numbers for the same options."""
EMBED_AT_ONCE = 256
"""Passages embedded between two steps of the progress bar, and in one transaction of a store."""
CANDIDATES = 200
"""Hits of each stream that are fused, at least."""


@dataclass(frozen=True)
class LocalPath:
    """Words, names, links and vectors, as `options` says. `embedder`: of the stream `vector`, else None.

    It remembers the vectors of passages, for memories that stand in many stores.
    """

    name: str
    options: PathConfig
    embedder: Embedder | None = None
    quiet: bool | None = None
    known: dict[str, NDArray[np.float32]] = field(default_factory=dict, repr=False, compare=False)
    reranker: Reranker | None = None

    @property
    def kind(self) -> Kind:
        return "onnx" if self.reranker else self.embedder.kind if self.embedder else "keyword"

    @property
    def fingerprint(self) -> str:
        told = self.options.model_dump(mode="json", exclude={"embedder", "rerank"})
        parts = {"embedder": self.embedder, "rerank": self.reranker}
        told |= {"method": METHOD, **{name: part.fingerprint for name, part in parts.items() if part}}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def open(self, memories: Sequence[Memory]) -> LocalSession:
        """A store in memory that holds these, embedded."""
        store = SqliteStore()
        store.add(memories)
        if self.embedder:
            embed(store, self.embedder, known=self.known, windows=self.options.window, quiet=self.quiet)
        return self.session(store)

    def session(self, store: SqliteStore) -> LocalSession:
        """Ask a store that is there. Raises FingerprintError when its vectors are another embedder's."""
        return LocalSession(self, store)


class LocalSession:
    """A store, with what its streams need at hand."""

    def __init__(self, path: LocalPath, store: SqliteStore) -> None:
        self.path = path
        self.store = store
        options = path.options
        memories = store.memories()
        self.vectors: list[Vectors] = []
        if path.embedder:
            held = [store.vectors(path.embedder.fingerprint)]
            if options.window and any(memory.thread is not None for memory in memories):
                held.append(store.vectors(path.embedder.fingerprint, windows=True))
            self.vectors = [one.centred() if options.centre else one for one in held]
        raw = options.observations != "searched"
        kept = [memory for memory in memories if not (raw and memory.kind == "observation")]
        self._entities = streams.entity_index(kept)
        self._speakers = streams.speakers(memories) if options.speaker else {}
        near = neighbours(memories) if path.reranker else {}
        self._texts = {
            memory.id: window(memory, near[memory.id]) if memory.id in near else said(memory)
            for memory in (memories if path.reranker else ())
        }
        self._columns = COLUMNS | {"near": options.near, "date": options.date}
        self._links = streams.links(kept) if "graph" in options.streams else {}
        self._raw = frozenset(memory.id for memory in memories) - {memory.id for memory in kept}

    def search(self, query: str, depth: int) -> Ranking:
        """The first hits, with what each stream gave them. One stream alone keeps its own scores."""
        options = self.path.options
        found = self.streams(query, max(depth, CANDIDATES))
        if options.observations == "fallback" and not any(ranking.hits for ranking in found):
            found = [streams.observation(self.store, query, max(depth, CANDIDATES))]
        if len(found) == 1 and "graph" not in options.streams:
            fused = _alone(found[0], self.path.name)
        else:
            fused = fusion.fuse(found, options.fusion, options.weights, options.k, self.path.name)
        if "graph" in options.streams:
            fused = fusion.passed_on(fused, self._links, options.decay)
        named = [ids for word in words_of(query) if (ids := self._speakers.get(word))]
        if named:
            fused = fusion.raised(fused, "speaker", frozenset().union(*named), options.speaker)
        return self._reread(query, fused.top(max(depth, options.rerank_top))).top(depth)

    def _reread(self, query: str, ranking: Ranking) -> Ranking:
        """The first hits by what the reranker says of them, the others below them, by what they had."""
        if not (reranker := self.path.reranker) or not ranking.hits:
            return ranking
        read = ranking.hits[: self.path.options.rerank_top]
        texts = [self._texts[hit.id] for hit in read]
        scores = dict(zip((hit.id for hit in read), reranker.scores(query, texts).tolist(), strict=True))
        given = Ranking.of("rerank", scores.items())
        place = {hit.id: rank for hit, rank in zip(given.hits, given.ranks(), strict=True)}
        below = 1 + ranking.hits[0].score
        found = []
        for hit in ranking.hits:
            if hit.id in scores:
                part = Part("rerank", place[hit.id], scores[hit.id], scores[hit.id] - hit.score)
                parts = tuple(sorted((*hit.parts, part), key=lambda part: part.stream))
                found.append(Hit(hit.id, scores[hit.id], parts, hit.evidence))
            else:
                found.append(Hit(hit.id, hit.score - below, hit.parts, hit.evidence))
        return Ranking.ordered(ranking.stream, found)

    def streams(self, query: str, depth: int) -> list[Ranking]:
        """What each stream gives before fusion; the graph grows from what they give together."""
        options = self.path.options
        found = []
        if "keyword" in options.streams:
            kinds = None if options.observations == "searched" else streams.PAGES
            found.append(streams.keyword(self.store, query, depth, kinds=kinds, weights=self._columns))
        if "entity" in options.streams:
            found.append(streams.entity(self._entities, query, depth))
        if "vector" in options.streams and self.path.embedder and self.vectors:
            (vector,) = self.path.embedder.embed_queries([query])
            every = streams.vector(self.vectors, vector, depth + len(self._raw))
            pages = tuple(hit for hit in every.hits if hit.id not in self._raw)
            found.append(Ranking("vector", pages).top(depth))
        if options.observations == "stream":
            found.append(streams.observation(self.store, query, depth))
        return found


def embed(
    store: SqliteStore,
    embedder: Embedder,
    *,
    known: dict[str, NDArray[np.float32]] | None = None,
    windows: bool = True,
    quiet: bool | None = None,
) -> int:
    """Give every passage a vector of this embedder; returns how many had none.

    `known`: vectors by passage, which learn what is embedded. One transaction a batch, so it can be stopped
    and resumed.
    """
    missing = store.unembedded(embedder.fingerprint, windows=windows)
    rows = {} if known is None else known
    new = [text for text in missing if text not in rows]
    few = len(new) < EMBED_AT_ONCE or None
    with progress.bar(len(new), f"embed, {embedder.name}", "text", quiet=quiet or few) as bar:
        for start in range(0, len(missing), EMBED_AT_ONCE):
            part = missing[start : start + EMBED_AT_ONCE]
            unknown = [text for text in part if text not in rows]
            if unknown:
                rows.update(zip(unknown, embedder.embed_passages(unknown), strict=True))
                bar.update(len(unknown))
            store.put_vectors(embedder.fingerprint, part, np.array([rows[text] for text in part]))
    return len(missing)


def _alone(ranking: Ranking, name: str) -> Ranking:
    return Ranking(
        name,
        tuple(
            Hit(hit.id, hit.score, (Part(ranking.stream, rank, hit.score, hit.score),))
            for hit, rank in zip(ranking.hits, ranking.ranks(), strict=True)
        ),
    )

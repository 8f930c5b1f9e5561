"""A wiki ready to be asked: every stream over one store, fused into one answer that explains itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recall_core import config, fusion, streams
from recall_core.embedders import Embedder
from recall_core.records import Memory, Ranking
from recall_core.store import SqliteStore

PAGE_STREAMS = ("keyword", "entity", "graph", "vector")
STAND_OUT = 2.5
"""Standard deviations above the mean cosine of the whole wiki that make a page a vector hit."""


@dataclass(frozen=True)
class Options:
    """How streams are searched and fused."""

    streams: tuple[str, ...] = PAGE_STREAMS
    method: Literal["rrf", "minmax"] = "rrf"
    k: float = fusion.K
    weights: Mapping[str, float] = field(default_factory=dict)
    depth: int = 50
    """How many hits of each stream are fused."""
    stand_out: float | None = STAND_OUT
    fallback: bool = True
    """Ask the raw observations when every page stream came back empty."""


def options_of(pages: config.PagesConfig | None) -> Options:
    """What `recall.toml` says of fusion; the defaults where it says nothing."""
    return Options(method=pages.method, k=pages.k, weights=pages.weights) if pages else Options()


@dataclass(frozen=True)
class Found:
    """What each stream gave for one question, before fusion. `cosines` ranks every page, `vector` those that
    stand out; both are empty without an embedder."""

    keyword: Ranking
    entity: Ranking
    vector: Ranking
    observation: Ranking
    cosines: Ranking


@dataclass(frozen=True)
class Answer:
    """One question's hits. `rankings`: the streams that were fused. `fell_back`: they were all empty."""

    hits: tuple[fusion.FusedHit, ...]
    rankings: tuple[Ranking, ...]
    fell_back: bool

    @property
    def ranking(self) -> Ranking:
        return fusion.ranking_of(self.hits)


class Wiki:
    """Pages and observations in one store, with what the entity and graph streams need.

    `store` must hold the memories, embedded if an embedder is given.
    """

    def __init__(self, store: SqliteStore, embedder: Embedder | None = None) -> None:
        memories = store.memories()
        self.store = store
        self.embedder = embedder
        self.entities = streams.entity_index(memories)
        self.links = streams.links(memories)
        self.pages = frozenset(memory.id for memory in memories if memory.kind in streams.PAGES)

    def find(self, query: str, options: Options, vector: NDArray[np.float32] | None = None) -> Found:
        """Search every stream but the graph, which grows from the others. `vector`: (dim,), if known."""
        if vector is None and self.embedder is not None:
            (vector,) = self.embedder.embed_queries([query])
        cosines = Ranking("vector", ())
        if vector is not None and self.embedder is not None:
            every = streams.vector(self.store, vector, self.embedder.fingerprint)
            cosines = Ranking("vector", tuple(hit for hit in every.hits if hit.id in self.pages))
        return Found(
            streams.keyword(self.store, query, options.depth),
            streams.entity(self.entities, query, options.depth),
            streams.standing_out(cosines, options.stand_out).top(options.depth),
            streams.observation(self.store, query, options.depth),
            cosines,
        )

    def fuse(self, found: Found, options: Options) -> Answer:
        """Fuse the chosen streams; the graph grows from those of keyword and entity that are chosen."""
        seeds = [ranking for ranking in (found.keyword, found.entity) if ranking.stream in options.streams]
        chosen = list(seeds)
        if "graph" in options.streams:
            chosen.append(streams.graph(self.links, seeds, options.depth))
        if "vector" in options.streams and self.embedder is not None:
            chosen.append(found.vector)
        fell_back = options.fallback and not any(ranking.hits for ranking in chosen)
        if fell_back:
            chosen = [found.observation]
        return Answer(tuple(_fused(chosen, options)), tuple(chosen), fell_back)

    def ask(self, query: str, options: Options | None = None) -> Answer:
        """One question, from words to fused hits."""
        options = options or Options()
        return self.fuse(self.find(query, options), options)


def vectors_are_mute(wiki: Wiki, options: Options) -> str:
    """Why no page of a small wiki can be a vector hit, in words; empty where one can.

    Of n values none is more than (n - 1) / sqrt(n) deviations above their mean (Samuelson, JASA 1968).
    """
    n = len(wiki.pages)
    if options.stand_out is None or (n - 1) > options.stand_out * n**0.5:
        return ""
    return f"of {n} pages none can stand out by {options.stand_out:g} deviations: vector search finds nothing"


def explain(answer: Answer, memory: Memory) -> str:
    """One line on why a memory is where it is: each stream's rank, score and contribution."""
    hit = next((hit for hit in answer.hits if hit.id == memory.id), None)
    if hit is None:
        return f"{memory.id}: no stream found it"
    parts = "; ".join(
        f"{part.stream} rank {part.rank}, score {part.score:.4f}, gives {part.contribution:.4f}"
        for part in hit.parts
    )
    return f"{memory.id}: {hit.score:.4f} = {parts}"


def _fused(rankings: Sequence[Ranking], options: Options) -> list[fusion.FusedHit]:
    if options.method == "minmax":
        return fusion.minmax(rankings, options.weights)
    return fusion.rrf(rankings, options.weights, options.k)

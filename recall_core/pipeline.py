"""The wiring: fixture -> store -> embed -> search -> score -> gate -> a folder of results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recall_core import config, fixtures, gates, progress, scoring, signals, stats, streams
from recall_core.embedders import Embedder
from recall_core.embedders.cache import CachedEmbedder
from recall_core.passages import passages
from recall_core.records import Case, Fixture, Memory
from recall_core.runs import Result
from recall_core.store import MemoryStore, SqliteStore, Store

EMBED_AT_ONCE = 256
"""Passages embedded between two steps of the progress bar, and in one transaction of a re-embedding."""

PROBES = 40
"""Questions whose embedding is timed."""


def embed_passages(
    embedder: Embedder, passages: Sequence[str], *, quiet: bool | None = None
) -> NDArray[np.float32]:
    """(n, dim) float32, unit rows, with a progress bar on a terminal."""
    rows = np.empty((len(passages), embedder.dim), dtype=np.float32)
    with progress.bar(len(passages), f"embed, {embedder.name}", "text", quiet=quiet) as bar:
        for start in range(0, len(passages), EMBED_AT_ONCE):
            part = passages[start : start + EMBED_AT_ONCE]
            rows[start : start + len(part)] = embedder.embed_passages(part)
            bar.update(len(part))
    return rows


def reembed(store: Store, embedder: Embedder, *, quiet: bool | None = None) -> int:
    """Give every passage a vector of this embedder; returns how many were embedded.

    One transaction a batch, so it can be stopped and resumed.
    """
    missing = store.unembedded(embedder.fingerprint)
    with progress.bar(len(missing), f"re-embed, {embedder.name}", "text", quiet=quiet) as bar:
        for start in range(0, len(missing), EMBED_AT_ONCE):
            part = missing[start : start + EMBED_AT_ONCE]
            store.put_vectors(embedder.fingerprint, part, embedder.embed_passages(part))
            bar.update(len(part))
    return len(missing)


def run_cases(
    fixture: Fixture,
    embedder: Embedder,
    *,
    store: Literal["memory", "sqlite"] = "memory",
    top_k: int = 3,
    quiet: bool | None = None,
) -> pd.DataFrame:
    """Ask every case; one row each, as `scoring.frame` describes.

    Embedding latency is measured on up to `PROBES` questions spread over the fixture, each embedded alone,
    warmed up, and never taken from a cache. It is NaN for the others.
    """
    every = (text for memory in fixtures.all_memories(fixture) for text in passages(memory))
    texts = list(dict.fromkeys(every))
    vector_of = dict(zip(texts, embed_passages(embedder, texts, quiet=quiet), strict=True))
    latency = _embedding_latency(embedder, [case.query for case in fixture.cases])
    rows = []
    stores: dict[str, tuple[Store, signals.Known]] = {}
    with progress.bar(len(fixture.cases), f"ask, {embedder.name}", "case", quiet=quiet) as bar:
        for at, case in enumerate(fixture.cases):
            key = store_key(fixture, case)
            if key not in stores:
                held = fixtures.memories_for(fixture, case)
                filled = _filled_store(store, held, embedder, vector_of)
                stores = {key: (filled, signals.known(held, filled.vectors(embedder.fingerprint)))}
            rows.append(_ask(*stores[key], embedder, case, max(top_k, 2), latency.get(at, np.nan)))
            bar.update(1)
    return scoring.frame(rows)


def _embedding_latency(embedder: Embedder, queries: Sequence[str]) -> dict[int, float]:
    """Milliseconds a question takes, by its place in `queries`. Fills the cache first, if there is one."""
    model = embedder.inner if isinstance(embedder, CachedEmbedder) else embedder
    found = {}
    # A question that cannot be embedded fails again when its case is asked, and is told of there.
    with suppress(Exception):
        if model is not embedder:
            embedder.embed_queries(queries)
        model.embed_queries(queries[:1])
    for at in range(0, len(queries), -(-len(queries) // PROBES)):
        with suppress(Exception):
            start = time.perf_counter()
            model.embed_queries([queries[at]])
            found[at] = 1e3 * (time.perf_counter() - start)
    return found


def store_key(fixture: Fixture, case: Case) -> str:
    """Cases with the same key are asked of the same store."""
    return {"per_case": case.id, "per_group": case.group or case.id, "shared": ""}[fixture.isolation]


def _filled_store(
    kind: Literal["memory", "sqlite"],
    memories: Sequence[Memory],
    embedder: Embedder,
    vector_of: Mapping[str, NDArray[np.float32]],
) -> Store:
    store: Store = MemoryStore() if kind == "memory" else SqliteStore()
    store.add(memories)
    missing = store.unembedded(embedder.fingerprint)
    store.put_vectors(embedder.fingerprint, missing, np.array([vector_of[text] for text in missing]))
    store.vectors(embedder.fingerprint)
    return store


def _ask(
    store: Store, known: signals.Known, embedder: Embedder, case: Case, depth: int, embed_ms: float
) -> scoring.Row:
    try:
        (vector,) = embedder.embed_queries([case.query])
        start = time.perf_counter()
        ranking = streams.vector(store, vector, embedder.fingerprint)
        search_ms = 1e3 * (time.perf_counter() - start)
    except Exception as error:
        return scoring.failed_case(case, f"{type(error).__name__}: {error}")
    return scoring.score_case(
        case,
        ranking,
        depth=depth,
        embed_ms=embed_ms,
        search_ms=search_ms,
        signals=signals.signals_of(case.query, case.lang, ranking, known),
    )


def evaluate(
    fixture: Fixture,
    embedder: Embedder,
    *,
    gate: gates.Gate,
    sweep: config.SweepConfig | None = None,
    store: Literal["memory", "sqlite"] = "memory",
    top_k: int = 3,
    quiet: bool | None = None,
) -> Result:
    """Run every case, gate it, count it and sweep the gate."""
    sweep = sweep or config.SweepConfig()
    rows = run_cases(fixture, embedder, store=store, top_k=top_k, quiet=quiet)
    rows["outcome"] = gates.outcomes(rows, gate)
    deltas = [gates.Gate(gate.min_score, delta) for delta in sweep.deltas]
    margin_gate = gate if gate.delta is not None else gates.Gate(gate.min_score, 0.0)
    return Result(
        embedder=embedder.name,
        kind=embedder.kind,
        dim=embedder.dim,
        fingerprint=embedder.fingerprint,
        min_score=gate.min_score,
        delta=gate.delta,
        top_k=top_k,
        rows=rows,
        summary=stats.with_intervals(scoring.summarise(rows, ks=sorted({1, top_k}))),
        spread=scoring.distributions(rows),
        absolute=gates.sweep(rows, [gates.Gate(s) for s in sweep.min_scores], gates.Gate(gate.min_score)),
        margin=gates.sweep(rows, deltas, margin_gate),
    )


def failures(fixture: Fixture, rows: pd.DataFrame) -> pd.DataFrame:
    """The cases that did not pass: what was asked, what came out on top instead, and how sure it was."""
    texts = {memory.id: memory.text for memory in fixtures.all_memories(fixture)}
    failed = rows[~rows["outcome"].isin(["answered", "kept_quiet"])]
    on_top = [ids[0] if len(ids) else "" for ids in failed["ids"]]
    columns = ["case_id", "query", "lang", "outcome", "place", "top1", "margin", "rank", "error"]
    return failed[columns].assign(
        error=failed["error"].fillna(""),
        on_top=on_top,
        on_top_text=[texts.get(id_, "") for id_ in on_top],
        expected_text=[" / ".join(texts[id_] for id_ in ids) for ids in failed["expected"]],
    )

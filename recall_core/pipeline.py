"""The wiring: fixture -> store -> embed -> search -> score -> gate -> a folder of results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from recall_core import config, fixtures, gates, scoring, stats, streams
from recall_core.embedders import Embedder
from recall_core.embedders.cache import CachedEmbedder
from recall_core.records import Case, Fixture, Memory
from recall_core.runs import Result
from recall_core.store import MemoryStore, SqliteStore, Store, embedding_text

EMBED_AT_ONCE = 256
"""Memories embedded between two steps of the progress bar, and in one transaction of a re-embedding."""

PROBES = 40
"""Questions whose embedding is timed."""


def embed_memories(
    embedder: Embedder, memories: Sequence[Memory], *, quiet: bool | None = None
) -> NDArray[np.float32]:
    """(n, dim) float32, unit rows, with a progress bar on a terminal."""
    rows = np.empty((len(memories), embedder.dim), dtype=np.float32)
    with tqdm(total=len(memories), desc=f"embed, {embedder.name}", unit="text", disable=quiet) as bar:
        for start in range(0, len(memories), EMBED_AT_ONCE):
            part = memories[start : start + EMBED_AT_ONCE]
            rows[start : start + len(part)] = embedder.embed_passages([embedding_text(m) for m in part])
            bar.update(len(part))
    return rows


def reembed(store: SqliteStore, embedder: Embedder, *, quiet: bool | None = None) -> int:
    """Give every memory a vector of this embedder. One transaction a batch, so it can be stopped and resumed.

    Returns how many were embedded.
    """
    missing = store.without_vector(embedder.fingerprint)
    for start in tqdm(range(0, len(missing), EMBED_AT_ONCE), desc="re-embed", disable=quiet):
        part = missing[start : start + EMBED_AT_ONCE]
        store.put_vectors(embedder.fingerprint, part, embed_memories(embedder, part, quiet=True))
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
    memories = sorted(fixtures.all_memories(fixture), key=lambda memory: memory.id)
    vectors = embed_memories(embedder, memories, quiet=quiet)
    row_of = {memory.id: row for row, memory in enumerate(memories)}
    latency = _embedding_latency(embedder, [case.query for case in fixture.cases])
    rows = []
    stores: dict[str, Store] = {}
    for at, case in enumerate(tqdm(fixture.cases, desc=f"ask, {embedder.name}", unit="case", disable=quiet)):
        key = store_key(fixture, case)
        if key not in stores:
            held = fixtures.memories_for(fixture, case)
            stores = {key: _filled_store(store, held, embedder, vectors[[row_of[m.id] for m in held]])}
        rows.append(_ask(stores[key], embedder, case, max(top_k, 2), latency.get(at, np.nan)))
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
    vectors: NDArray[np.float32],
) -> Store:
    store: Store = MemoryStore() if kind == "memory" else SqliteStore()
    store.add(memories)
    store.put_vectors(embedder.fingerprint, memories, vectors)
    store.vectors(embedder.fingerprint)
    return store


def _ask(store: Store, embedder: Embedder, case: Case, depth: int, embed_ms: float) -> scoring.Row:
    try:
        (vector,) = embedder.embed_queries([case.query])
        start = time.perf_counter()
        ranking = streams.vector(store, vector, embedder.fingerprint)
        search_ms = 1e3 * (time.perf_counter() - start)
    except Exception as error:
        return scoring.failed_case(case, f"{type(error).__name__}: {error}")
    return scoring.score_case(case, ranking, depth=depth, embed_ms=embed_ms, search_ms=search_ms)


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

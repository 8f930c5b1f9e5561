"""The wiring: fixture -> path -> ranking -> score -> gate -> a result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pandas as pd

from recall_core import config, fixtures, gates, progress, scoring, signals, stats
from recall_core.embedders import Embedder
from recall_core.embedders.cache import CachedEmbedder
from recall_core.paths import ReadPath, Session
from recall_core.records import Case, Fixture
from recall_core.runs import Result

DEPTH = 50
"""Hits that are asked for: a memory that is expected and further down was not found."""
PROBES = 40
"""Questions whose embedding is timed."""
SETTINGS = 20
"""Of a gate that are swept, where recall.toml names none."""


def run_cases(
    fixture: Fixture, path: ReadPath, *, top_k: int = 3, depth: int = DEPTH, quiet: bool | None = None
) -> pd.DataFrame:
    """Ask every case; one row each, as `scoring.frame` describes, with the first `top_k` hits or two.

    `search_ms` is a whole search. `embed_ms` is measured, where a path has an `embedder`, on up to `PROBES`
    questions spread over the fixture, each embedded alone, warmed up, and never taken from a cache; it is
    NaN for the others.
    """
    latency = _embedding_latency(getattr(path, "embedder", None), [case.query for case in fixture.cases])
    rows = []
    opened: dict[str, tuple[Session, signals.Known]] = {}
    with progress.bar(len(fixture.cases), f"ask, {path.name}", "case", quiet=quiet) as bar:
        for at, case in enumerate(fixture.cases):
            key = fixtures.store_key(fixture, case)
            if key not in opened:
                held = fixtures.memories_for(fixture, case)
                opened = {key: (path.open(held), signals.known(held))}
            rows.append(_ask(*opened[key], case, max(depth, top_k), max(top_k, 2), latency.get(at, np.nan)))
            bar.update(1)
    hashes = [fixtures.case_hash(fixture, case) for case in fixture.cases]
    return scoring.frame(rows).assign(case_hash=hashes)


def _embedding_latency(embedder: Embedder | None, queries: Sequence[str]) -> dict[int, float]:
    """Milliseconds a question takes, by its place in `queries`. Fills the cache first, if there is one."""
    if embedder is None:
        return {}
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


def _ask(
    session: Session, known: signals.Known, case: Case, depth: int, kept: int, embed_ms: float
) -> scoring.Row:
    try:
        start = time.perf_counter()
        ranking = session.search(case.query, depth)
        search_ms = 1e3 * (time.perf_counter() - start)
    except Exception as error:
        return scoring.failed_case(case, f"{type(error).__name__}: {error}")
    return scoring.score_case(
        case,
        ranking,
        depth=kept,
        embed_ms=embed_ms,
        search_ms=search_ms,
        signals=signals.signals_of(case.query, case.lang, ranking, known),
    )


def evaluate(
    fixture: Fixture,
    path: ReadPath,
    *,
    gate: gates.Gate,
    sweep: config.SweepConfig | None = None,
    top_k: int = 3,
    quiet: bool | None = None,
) -> Result:
    """Run every case, gate it, count it and sweep the gate: over `sweep`, or the range of what was found."""
    rows = run_cases(fixture, path, top_k=top_k, quiet=quiet)
    rows["outcome"] = gates.outcomes(rows, gate)
    min_scores = sweep.min_scores if sweep else _over(rows["top1"])
    deltas = sweep.deltas if sweep else (0.0, *_over(rows["margin"]))
    margin_gate = gate if gate.delta is not None else gates.Gate(gate.min_score, 0.0)
    return Result(
        path=path.name,
        kind=path.kind,
        fixture=fixture.name,
        fixture_hash=fixtures.fixture_hash(fixture),
        fingerprint=path.fingerprint,
        min_score=gate.min_score,
        delta=gate.delta,
        top_k=top_k,
        rows=rows,
        summary=stats.with_intervals(scoring.summarise(rows, ks=sorted({1, top_k}))),
        spread=scoring.distributions(rows),
        absolute=gates.sweep(rows, [gates.Gate(s) for s in min_scores], gates.Gate(gate.min_score)),
        margin=gates.sweep(rows, [gates.Gate(gate.min_score, d) for d in deltas], margin_gate),
    )


def _over(values: pd.Series[float]) -> list[float]:
    """Round settings over the range of a signal: its quantiles, to three digits."""
    finite = values[np.isfinite(values)]
    if finite.empty:
        return []
    spread = np.quantile(finite, np.linspace(0, 1, SETTINGS))
    return sorted({float(f"{value:.3g}") for value in spread})


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

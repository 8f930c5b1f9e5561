"""Paths taken apart on one fixture: side by side, by kind of case, and what each part of a path is worth."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from recall_core import config, fixtures, stats
from recall_core.paths.local import LocalPath
from recall_core.records import Fixture
from recall_core.runs import Result

KS = (1, 10, 60, 200)
CLAIM = "stream:"
"""A tag that begins so names a stream that should be able to find the case; a test holds the claim."""


def found(result: Result) -> pd.Series[float]:
    """By case id: 1.0 where an expected memory is among the first k, 0.0 where not, NaN if none is expected.

    k is the `top_k` of the run. Ranks are pessimistic.
    """
    rows = result.rows.set_index("case_id")
    return (rows["rank"] <= result.top_k).astype(float).where(rows["answerable"])


def reciprocal_rank(result: Result) -> pd.Series[float]:
    """1 / rank of the first expected memory, 0.0 where none came back, NaN where none is expected."""
    rows = result.rows.set_index("case_id")
    return (1 / rows["rank"]).fillna(0.0).where(rows["answerable"])


def side_by_side(results: Iterable[Result], fixture: Fixture) -> pd.DataFrame:
    """A row a path: `path`, `hits` of `n` within k, `mrr`, `quiet` of `silent`, `context`, `p50`, `p95`.

    `quiet`: cases that must stay silent and are kept so by the path's gate. `context`: the median size of
    what the first k would hand to a model, in words and marks. The last two: milliseconds of a search.
    """
    size = {m.id: len(re.findall(r"\w+|[^\w\s]", m.text)) for m in fixtures.all_memories(fixture)}
    lines = []
    for result in results:
        false, silent = result.counted("false_recall")
        within, spent = found(result), result.spread_of("search_ms")
        context = [sum(size[id_] for id_ in ids[: result.top_k]) for ids in result.rows["ids"]]
        lines.append(
            {
                "path": result.path,
                "hits": int(within.sum()),
                "n": int(within.count()),
                "mrr": float(reciprocal_rank(result).mean()),
                "quiet": silent - false,
                "silent": silent,
                "context": float(np.median(context)),
                "p50": spent["median"],
                "p95": spent["p95"],
            }
        )
    return pd.DataFrame(lines)


def kinds(results: Sequence[Result]) -> pd.DataFrame:
    """Hits within k by tag of the case: `kind`, a column for each path, `n`. Claims are no kinds."""
    marks = pd.DataFrame({result.path: found(result) for result in results})
    tags = results[0].rows.set_index("case_id")["tags"].explode()
    held = marks.join(tags).dropna()
    held = held[~held["tags"].astype(str).str.startswith(CLAIM)].rename(columns={"tags": "kind"})
    grouped = held.groupby("kind", sort=False)
    return grouped.sum().astype(int).assign(n=grouped.size()).reset_index()


def variants(path: LocalPath) -> list[LocalPath]:
    """The path with one thing changed at a time: a stream left out, the fusion, its constant, the decay."""
    options = path.options
    tried: dict[str, dict[str, object]] = {}
    fused = len(options.streams) > 1
    for stream in options.streams if fused else ():
        tried[f"without {stream}"] = {"streams": tuple(s for s in options.streams if s != stream)}
    for fusion in ("minmax", "dbsf") if fused else ():
        if fusion != options.fusion:
            tried[fusion] = {"fusion": fusion}
    for k in KS if fused else ():
        if (options.fusion, options.k) != ("rrf", k):
            tried[f"rrf, k {k}"] = {"fusion": "rrf", "k": k}
    for stream in [s for s in options.streams if s != "graph"] if fused else ():
        for weight in (0.5, 2.0):
            tried[f"{stream} weighs {weight:g}"] = {"weights": {**options.weights, stream: weight}}
    if "graph" in options.streams:
        tried |= {f"decay {decay:g}": {"decay": decay} for decay in (0.3, 0.7, 0.9) if decay != options.decay}
    if "vector" in options.streams:
        tried["not centred" if options.centre else "centred"] = {"centre": not options.centre}
    tried |= {
        f"observations {how}": {"observations": how}
        for how in ("searched", "stream", "fallback")
        if how != options.observations
    }
    found = []
    for name, changed in tried.items():
        other = config.PathConfig.model_validate(options.model_dump() | changed)
        embedder = path.embedder if "vector" in other.streams else None
        found.append(replace(path, name=name, options=other, embedder=embedder))
    return found


def differences(base: Result, others: Iterable[Result]) -> pd.DataFrame:
    """Each against the base: `path`, `hits` of `n`, `mrr`, and `difference`, `low`, `high`.

    The difference is in recall@k, paired, with its 95% bootstrap interval. The base is the first row.
    """
    before = found(base).dropna()
    lines = []
    for result in (base, *others):
        within = found(result)[before.index]
        low, high = stats.paired_bootstrap(within - before)
        lines.append(
            {
                "path": result.path,
                "hits": int(within.sum()),
                "n": len(within),
                "mrr": float(reciprocal_rank(result).mean()),
                "difference": float((within - before).mean()) if len(within) else np.nan,
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(lines)


def rescues(base: Result, others: Iterable[Result]) -> pd.DataFrame:
    """What leaving a stream out loses and gains: `stream`, `effect`, `case_id`, `query`.

    `others`: those of `variants` named `without STREAM`; the rest is passed over. `rescued`: found only with
    the stream. `hurt`: found only without it.
    """
    query, full = base.rows.set_index("case_id")["query"], found(base)
    lines = []
    for result in others:
        if result.path.startswith("without "):
            without = found(result)
            for effect, mask in (("rescued", full > without), ("hurt", full < without)):
                lines += [
                    {"stream": result.path[8:], "effect": effect, "case_id": id_, "query": query[id_]}
                    for id_ in full.index[mask]
                ]
    return pd.DataFrame(lines, columns=["stream", "effect", "case_id", "query"])


def held_to(results: Iterable[Result], streams: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """What the floors are held against: `path`, `hits`, `n`, and `lost`, the ids of the cases not found.

    `streams`: of each path. A case that claims streams counts for the paths that have one of them.
    """
    lines = []
    for result in results:
        claims = result.rows.set_index("case_id")["tags"].map(
            lambda tags: {tag.removeprefix(CLAIM) for tag in tags if tag.startswith(CLAIM)}
        )
        own = {*streams[result.path]}
        within = found(result)[[not claimed or bool(claimed & own) for claimed in claims]].dropna()
        missed = within.index[within == 0]
        lines.append(
            {"path": result.path, "hits": int(within.sum()), "n": len(within), "lost": " ".join(missed)}
        )
    return pd.DataFrame(lines)


def below(first: Result, others: Iterable[Result]) -> pd.DataFrame:
    """What the first path finds within k and another does not: `path`, `case_id`, `query`."""
    query = first.rows.set_index("case_id")["query"]
    return pd.DataFrame(
        [
            {"path": result.path, "case_id": id_, "query": query[id_]}
            for result in others
            for id_ in query.index[found(first) > found(result)]
        ],
        columns=["path", "case_id", "query"],
    )


def lost(result: Result) -> pd.DataFrame:
    """The cases that are not found within k: `case_id`, `kind`, `query`, `expected`, `rank`, `top`."""
    rows = result.rows.set_index("case_id")[(found(result) == 0).to_numpy()].reset_index()
    return pd.DataFrame(
        {
            "case_id": rows["case_id"],
            "kind": [", ".join(tag for tag in tags if not tag.startswith(CLAIM)) for tags in rows["tags"]],
            "query": rows["query"],
            "expected": [", ".join(ids) for ids in rows["expected"]],
            "rank": rows["rank"],
            "top": [ids[0] if len(ids) else "nothing" for ids in rows["ids"]],
        }
    )

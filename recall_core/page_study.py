"""The study of a wiki: what each mode and stream finds, what it costs, what tells a hit from a miss."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from recall_core import fusion, pipeline, probes, scoring, stats, streams
from recall_core.embedders import Embedder
from recall_core.probes import Probe
from recall_core.records import Memory, Ranking
from recall_core.store import SqliteStore
from recall_core.vault import NOT_UTF8, Vault
from recall_core.wiki import PAGE_STREAMS, Answer, Found, Options, Wiki, vectors_are_mute

AT = 5
"""The k of recall@k for pages: what a person looks at, or a model is handed."""
KEPT = 10
"""Hits kept of each ranking in the rows."""
KS = (0, 1, 5, 10, 20, 40, 60, 100, 200)
WEIGHTS = (0.5, 2.0)
KEYWORD = Options(streams=("keyword",), fallback=False)
"""Plain keyword search over pages: what hybrid search must not fall below."""


@dataclass(frozen=True)
class Asked:
    """Every probe's streams, searched once; modes and settings are fused from them."""

    wiki: Wiki
    probes: tuple[Probe, ...]
    found: tuple[Found, ...]
    options: Options
    keyword_ms: tuple[float, ...]
    hybrid_ms: tuple[float, ...]

    def answers(self, options: Options) -> list[Answer]:
        """One answer a probe, fused anew."""
        return [self.wiki.fuse(found, options) for found in self.found]

    def rows(self, options: Options) -> pd.DataFrame:
        """One scored row a probe, as `scoring.frame`, with `outcome`, `kind` and `fell_back`."""
        answers = self.answers(options)
        scored = [
            scoring.score_case(probe.as_case(), answer.ranking, depth=KEPT)
            for probe, answer in zip(self.probes, answers, strict=True)
        ]
        table = scoring.frame(scored)
        return table.assign(
            outcome=outcomes(table),
            kind=[probe.kind for probe in self.probes],
            fell_back=[answer.fell_back for answer in answers],
        )


def asked(
    memories: Sequence[Memory], probes_path: Path, embedder: Embedder | None, options: Options
) -> Asked:
    """Build a wiki of these memories in memory, read the probes, and ask all of them."""
    loaded = probes.load(probes_path, memories)
    store = SqliteStore()
    store.add(memories)
    if embedder:
        pipeline.reembed(store, embedder)
    return ask(Wiki(store, embedder), loaded.probes, options)


def inventory(vault: Vault, observations: Sequence[Memory], asked: Asked) -> pd.DataFrame:
    """What was read, and how it is searched, as `name` and `value`."""
    options = asked.options
    weights = ", ".join(f"{stream} {weight:g}" for stream, weight in options.weights.items())
    fused = f"{options.method}" + (f", k {options.k:g}" if options.method == "rrf" else "")
    broken = [page for page, why in vault.unreadable if NOT_UTF8 not in why]
    misread = [page for page, why in vault.unreadable if NOT_UTF8 in why]
    named = {
        "pages": f"{len(vault.pages)}, with {sum(len(page.links) for page in vault.pages)} links",
        "links that lead nowhere": ", ".join(f"{page} to {to}" for page, to in vault.dangling) or "none",
        "front matter that is broken": ", ".join(broken) or "none",
        "observations": str(len(observations)),
        "probes": f"{len(asked.probes)}, {sum(not probe.expected for probe in asked.probes)} find nothing",
        "embedder": asked.wiki.embedder.name if asked.wiki.embedder else "none",
        "fusion": fused + (f"; weights: {weights}" if weights else ""),
        "a vector hit stands out by": f"{options.stand_out:g} standard deviations"
        if options.stand_out is not None
        else "anything",
    }
    if misread:
        named[NOT_UTF8] = ", ".join(misread)
    if mute := vectors_are_mute(asked.wiki, options):
        named["a vector hit stands out by"] += f"; {mute}"
    return pd.DataFrame(named.items(), columns=["name", "value"])


def ask(wiki: Wiki, probes: Sequence[Probe], options: Options) -> Asked:
    """Search every stream for every probe. Latencies in milliseconds: the words alone, and everything."""
    found, keyword_ms, hybrid_ms = [], [], []
    vectors = wiki.embedder.embed_queries([probe.query for probe in probes]) if wiki.embedder else None
    wiki.find(probes[0].query, options, None if vectors is None else vectors[0])
    for at, probe in enumerate(probes):
        start = time.perf_counter()
        fusion.rrf([streams.keyword(wiki.store, probe.query, KEYWORD.depth)])
        middle = time.perf_counter()
        found.append(wiki.find(probe.query, options, None if vectors is None else vectors[at]))
        wiki.fuse(found[-1], options)
        end = time.perf_counter()
        keyword_ms.append(1e3 * (middle - start))
        hybrid_ms.append(1e3 * (end - middle))
    return Asked(wiki, tuple(probes), tuple(found), options, tuple(keyword_ms), tuple(hybrid_ms))


def found_within(rows: pd.DataFrame, k: int = AT) -> pd.Series[float]:
    """1.0 where an expected memory is among the first k, 0.0 where not, NaN where nothing must be found."""
    return (rows["rank"] <= k).astype(float).where(rows["answerable"])


def outcomes(rows: pd.DataFrame) -> list[str]:
    """What came of each probe: `found` within five or `lost`; `kept_quiet` or `false_recall` where nothing
    must be found."""
    words = {1.0: "found", 0.0: "lost"}
    return [
        words.get(within, "false_recall" if len(ids) else "kept_quiet")
        for within, ids in zip(found_within(rows), rows["ids"], strict=True)
    ]


def reciprocal_rank(rows: pd.DataFrame) -> pd.Series[float]:
    """1 / rank of the first expected memory, 0.0 where none came back, NaN where nothing must be found."""
    return (1 / rows["rank"]).fillna(0.0).where(rows["answerable"])


def modes(asked: Asked) -> pd.DataFrame:
    """Keyword alone and hybrid, a row each.

    `mode`, `hits` of `n` within five, `mrr`, `silent` of `nothing` (probes that must find nothing, and got
    nothing), `context` (the median size of what the first hits would hand to a model, in words and marks),
    `p50`, `p95` (milliseconds).
    """
    texts = {memory.id: memory.text for memory in asked.wiki.store.memories()}
    lines = []
    for mode, options, spent in (
        ("keyword", KEYWORD, asked.keyword_ms),
        ("hybrid", asked.options, asked.hybrid_ms),
    ):
        rows = asked.rows(options)
        within, nothing = found_within(rows), ~rows["answerable"]
        context = [sum(_size(texts[id_]) for id_ in ids[:AT]) for ids in rows["ids"]]
        lines.append(
            {
                "mode": mode,
                "hits": int(within.sum()),
                "n": int(within.count()),
                "mrr": float(reciprocal_rank(rows).mean()),
                "silent": int((rows["ids"].map(len)[nothing] == 0).sum()),
                "nothing": int(nothing.sum()),
                "context": float(np.median(context)),
                "p50": float(np.quantile(spent, 0.5)),
                "p95": float(np.quantile(spent, 0.95)),
            }
        )
    return pd.DataFrame(lines)


def kept(asked: Asked) -> dict[str, pd.DataFrame]:
    """The rows of each mode with what its search took, to compare later nights with probe by probe."""
    return {
        "keyword": asked.rows(KEYWORD).assign(search_ms=asked.keyword_ms),
        "hybrid": asked.rows(asked.options).assign(search_ms=asked.hybrid_ms),
    }


def conditions(asked: Asked, wiki_hash: str) -> pd.DataFrame:
    """All that decides a mode's numbers: two nights are comparable only if it is the same.

    `mode`, `kind` (of its embedder; `keyword` has none), `wiki` and `probes` (SHA-256), `path` (the options
    as JSON), `fingerprint` (of its embedder, or empty).
    """
    embedder = asked.wiki.embedder
    by_all = (embedder.kind, embedder.fingerprint) if embedder else ("keyword", "")
    modes = ("keyword", KEYWORD, "keyword", ""), ("hybrid", asked.options, *by_all)
    return pd.DataFrame(
        [
            {
                "mode": mode,
                "kind": kind,
                "wiki": wiki_hash,
                "probes": probes.probes_hash(asked.probes),
                "path": json.dumps(asdict(options), sort_keys=True),
                "fingerprint": fingerprint,
            }
            for mode, options, kind, fingerprint in modes
        ]
    )


def kinds(asked: Asked) -> pd.DataFrame:
    """Hits within five by mode and kind of probe: `kind`, `keyword`, `hybrid`, `n`."""
    keyword, hybrid = asked.rows(KEYWORD), asked.rows(asked.options)
    table = pd.DataFrame(
        {"kind": hybrid["kind"], "keyword": found_within(keyword), "hybrid": found_within(hybrid)}
    ).dropna()
    grouped = table.groupby("kind", sort=False)
    return grouped.sum().astype(int).assign(n=grouped.size()).reset_index()


def subsets(asked: Asked) -> pd.DataFrame:
    """Every subset of the page streams beside all of them.

    `streams`, `size`, `hits`, `n`, `mrr`, and `difference`, `low`, `high`: to all streams, paired, with its
    95% bootstrap interval.
    """
    everything = found_within(asked.rows(asked.options)).dropna()
    lines = []
    for size in range(len(PAGE_STREAMS), 0, -1):
        for chosen in itertools.combinations(PAGE_STREAMS, size):
            rows = asked.rows(replace(asked.options, streams=chosen))
            within = found_within(rows).dropna()
            low, high = stats.paired_bootstrap(within - everything)
            lines.append(
                {
                    "streams": ", ".join(chosen),
                    "size": size,
                    "hits": int(within.sum()),
                    "n": len(within),
                    "mrr": float(reciprocal_rank(rows).mean()),
                    "difference": float((within - everything).mean()),
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(lines)


def rescues(asked: Asked) -> pd.DataFrame:
    """What is lost and what is gained when one stream is left out: `stream`, `effect`, `case_id`, `query`.

    `rescued`: found only with the stream. `hurt`: found only without it.
    """
    rows = asked.rows(asked.options)
    full = found_within(rows)
    lines = []
    for stream in PAGE_STREAMS:
        others = tuple(name for name in PAGE_STREAMS if name != stream)
        without = found_within(asked.rows(replace(asked.options, streams=others)))
        for effect, mask in (("rescued", full > without), ("hurt", full < without)):
            lines += [
                {"stream": stream, "effect": effect, "case_id": row.case_id, "query": row.query}
                for row in rows[mask].itertuples()
            ]
    return pd.DataFrame(lines, columns=["stream", "effect", "case_id", "query"])


def settings(asked: Asked) -> pd.DataFrame:
    """k, each stream's weight, and the other fusion, changed one at a time.

    `setting`, `hits`, `n`, `mrr`, and `difference`, `low`, `high` to the configured setting, paired.
    """
    tried = {"as configured": asked.options}
    tried |= {f"rrf, k {k:g}": replace(asked.options, method="rrf", k=float(k)) for k in KS}
    for stream, weight in itertools.product(PAGE_STREAMS, WEIGHTS):
        weights = {**asked.options.weights, stream: weight}
        tried[f"{asked.options.method}, {stream} weighs {weight:g}"] = replace(asked.options, weights=weights)
    other: Options = replace(asked.options, method="minmax" if asked.options.method == "rrf" else "rrf")
    tried[f"{other.method} fusion"] = other
    base = found_within(asked.rows(asked.options)).dropna()
    lines = []
    for name, options in tried.items():
        rows = asked.rows(options)
        within = found_within(rows).dropna()
        low, high = stats.paired_bootstrap(within - base)
        lines.append(
            {
                "setting": name,
                "hits": int(within.sum()),
                "n": len(within),
                "mrr": float(reciprocal_rank(rows).mean()),
                "difference": float((within - base).mean()),
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(lines)


def signals(asked: Asked) -> pd.DataFrame:
    """How well each score tells a probe answered first from one that must find nothing, as AUROC.

    The fused score and its margin, beside the scores underneath: bm25, cosine, and how far the best cosine
    stands out. `signal`, `right`, `nothing`, `auroc`.
    """
    rows = asked.rows(asked.options)
    right, nothing = rows["place"] == "right_first", ~rows["answerable"]
    words = [
        found.observation if fell_back else found.keyword
        for found, fell_back in zip(asked.found, rows["fell_back"], strict=True)
    ]
    values = {
        "fused score": rows["top1"].to_numpy(),
        "margin of fused scores": rows["margin"].to_numpy(),
        "best bm25": np.array([_best(ranking) for ranking in words]),
        "margin of bm25": np.array([_lead(ranking) for ranking in words]),
    }
    if asked.wiki.embedder:
        cosines = [found.cosines for found in asked.found]
        values["best cosine"] = np.array([_best(ranking) for ranking in cosines])
        values["margin of cosine"] = np.array([_lead(ranking) for ranking in cosines])
        values["deviations of the best cosine"] = np.array([_deviations(ranking) for ranking in cosines])
    return pd.DataFrame(
        [
            {
                "signal": name,
                "right": int(right.sum()),
                "nothing": int(nothing.sum()),
                "auroc": stats.auroc(found[right], found[nothing]),
            }
            for name, found in values.items()
        ]
    )


def verdicts(asked: Asked) -> pd.DataFrame:
    """What the floors are held against: `mode`, `hits`, `n`, and `lost`, the ids of the probes not found.

    A mode's floor counts the probes that name one of its streams; a probe that names none counts for both.
    """
    lines = []
    for mode, options, own in (
        ("keyword", KEYWORD, {"keyword"}),
        ("hybrid", asked.options, {*PAGE_STREAMS, "observation"}),
    ):
        counts = [bool(p.expected) and (not p.streams or bool(own & {*p.streams})) for p in asked.probes]
        rows = asked.rows(options)
        within = found_within(rows)[counts]
        missed = rows.loc[within.index[within == 0], "case_id"]
        lines.append({"mode": mode, "hits": int(within.sum()), "n": len(within), "lost": " ".join(missed)})
    return pd.DataFrame(lines)


def below(asked: Asked) -> pd.DataFrame:
    """What keyword search alone finds within five and hybrid search does not: `case_id`, `query`."""
    rows = asked.rows(asked.options)
    worse = found_within(asked.rows(KEYWORD)) > found_within(rows)
    return rows.loc[worse, ["case_id", "query"]]


def lost(asked: Asked) -> pd.DataFrame:
    """The probes hybrid search does not find within five, and the silent ones that found something.

    `case_id`, `kind`, `query`, `expected`, `rank`, `top` (what is first instead).
    """
    rows = asked.rows(asked.options)
    missed = rows[(found_within(rows) == 0) | (~rows["answerable"] & (rows["ids"].map(len) > 0))]
    return pd.DataFrame(
        {
            "case_id": missed["case_id"],
            "kind": missed["kind"],
            "query": missed["query"],
            "expected": [", ".join(ids) for ids in missed["expected"]],
            "rank": missed["rank"],
            "top": [ids[0] if len(ids) else "" for ids in missed["ids"]],
        }
    )


def _best(ranking: Ranking) -> float:
    return ranking.hits[0].score if ranking.hits else 0.0


def _lead(ranking: Ranking) -> float:
    return ranking.hits[0].score - ranking.hits[1].score if len(ranking.hits) > 1 else _best(ranking)


def _deviations(ranking: Ranking) -> float:
    scores = np.array([hit.score for hit in ranking.hits])
    return float((scores[0] - scores.mean()) / scores.std()) if len(scores) > 1 and scores.std() else 0.0


def _size(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))

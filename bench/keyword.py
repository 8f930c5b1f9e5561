"""Keyword search over 100,000 short documents: the full OR, ours with rare words first, and bm25s."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from bench import timing
from recall_core import streams
from recall_core.records import Memory
from recall_core.store import SqliteStore

DOCUMENTS = 100_000
QUERIES = 200
TOP = 10


def corpus(documents: int = DOCUMENTS, seed: int = 0) -> tuple[list[str], list[str], list[str]]:
    """Documents of 8 to 40 words of a Zipf vocabulary; queries of 4 to 12 words of one document; its id."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{number:05d}" for number in range(50_000)])
    chance = 1 / np.arange(1, len(words) + 1)
    chance /= chance.sum()
    texts = [" ".join(rng.choice(words, rng.integers(8, 41), p=chance)) for _ in range(documents)]
    picked = rng.choice(documents, QUERIES, replace=False)
    queries = [" ".join(rng.choice(texts[at].split(), rng.integers(4, 13))) for at in picked]
    return texts, queries, [f"d{at}" for at in picked]


def run() -> None:
    """Print the median milliseconds a query, and how much of the full OR's first ten each finds."""
    texts, queries, wanted = corpus()
    store = SqliteStore()
    store.add([Memory(id=f"d{at}", text=text) for at, text in enumerate(texts)])
    full = _asked(lambda query: streams.keyword(store, query, TOP, postings=None), queries)
    ours = _asked(lambda query: streams.keyword(store, query, TOP), queries)
    answers = {"ours: rare words first": ours, "FTS5, OR of all words": full}
    if peer := _bm25s(texts):
        answers["bm25s"] = _asked(peer, queries)
    timing.table(
        f"{DOCUMENTS:,} documents, median a query",
        {name: statistics.median(spent) for name, (spent, _) in answers.items()},
    )
    for name, (_, found) in answers.items():
        shared = [len({*a} & {*b}) / max(len(b), 1) for a, b in zip(found, full[1], strict=True)]
        recall = statistics.fmean(id_ in ids for id_, ids in zip(wanted, found, strict=True))
        print(
            f"  {name:<44} recall@{TOP} {recall:.1%}; "
            f"{statistics.fmean(shared):.1%} of the full OR's first {TOP}"
        )


def _asked(search: Callable[[str], object], queries: list[str]) -> tuple[list[float], list[list[str]]]:
    for query in queries:
        search(query)
    spent, found = [], []
    for query in queries:
        start = time.perf_counter()
        answer = search(query)
        spent.append(time.perf_counter() - start)
        found.append(answer if isinstance(answer, list) else [hit.id for hit in answer.hits])
    return spent, found


def _bm25s(texts: list[str]) -> Callable[[str], list[str]] | None:
    try:
        import bm25s
    except ImportError:
        print("  (bm25s is not installed: pip install -e '.[bench]')")
        return None
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(query: str) -> list[str]:
        tokens = bm25s.tokenize([query], show_progress=False)
        ids, _ = index.retrieve(tokens, k=TOP, show_progress=False)
        return [f"d{at}" for at in ids[0]]

    return search

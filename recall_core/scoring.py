"""Scoring: a ranking becomes one row a case, and rows become counts.

Conventions. Ranks are pessimistic: memories that are not expected and have an equal score count as ahead.
recall@k is success@k over the answerable cases; full recall@k pools the expected memories of all cases.
A case that must stay silent has no rank and is in neither. A search that failed counts as wrong on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import pandas as pd

from recall_core.records import Case, Ranking
from recall_core.signals import MEASURED, NOTHING, UNMEASURED, Signals

Place = Literal["right_first", "tie_on_top", "wrong_on_top", "silent"]
PLACES = ("right_first", "tie_on_top", "wrong_on_top")
"""These three add up to the answerable cases."""
OUTCOMES = ("answered", "silenced", "misled", "withheld")
"""So do these four."""
PASSED = ("answered", "kept_quiet")
"""The outcomes of a case that passed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case asked of one memory. Latencies are in milliseconds."""

    case: Case
    ids: tuple[str, ...]
    scores: tuple[float, ...]
    ranks: tuple[int | None, ...]
    place: Place
    embed_ms: float
    search_ms: float
    error: str | None = None
    signals: Signals = UNMEASURED


def score_case(
    case: Case,
    ranking: Ranking,
    *,
    depth: int,
    embed_ms: float = 0.0,
    search_ms: float = 0.0,
    signals: Signals = UNMEASURED,
) -> Row:
    """Score a full ranking; keep its first `depth` hits and whatever ties with the last of them."""
    ranks = tuple(pessimistic_rank(ranking, case.expected, id_) for id_ in case.expected)
    last = ranking.hits[depth - 1].worth if len(ranking.hits) >= depth else (-np.inf, -np.inf)
    kept = [hit for hit in ranking.hits if hit.worth >= last]
    return Row(
        case,
        ids=tuple(hit.id for hit in kept),
        scores=tuple(hit.score for hit in kept),
        ranks=ranks,
        place=place(case, ranking),
        embed_ms=embed_ms,
        search_ms=search_ms,
        signals=signals,
    )


def failed_case(case: Case, error: str) -> Row:
    """The row of a case whose search failed. It stays in every denominator, at its worst value."""
    return Row(
        case,
        ids=(),
        scores=(),
        ranks=tuple(None for _ in case.expected),
        place="wrong_on_top" if case.answerable else "silent",
        embed_ms=np.nan,
        search_ms=np.nan,
        error=error,
        signals=NOTHING,
    )


def pessimistic_rank(ranking: Ranking, expected: Sequence[str], id_: str) -> int | None:
    """1 + the memories ahead of `id_`: unexpected ones that score as much, expected ones sorted before it."""
    ahead_expected = 0
    for hit in ranking.hits:
        if hit.id == id_:
            unexpected = sum(other.worth >= hit.worth for other in ranking.hits if other.id not in expected)
            return 1 + ahead_expected + unexpected
        ahead_expected += hit.id in expected
    return None


def place(case: Case, ranking: Ranking) -> Place:
    """Who holds the best score. Two expected memories that tie are right first: either is an answer."""
    if not case.answerable:
        return "silent"
    best = [hit.id for hit in ranking.hits if hit.worth == ranking.hits[0].worth]
    expected = sum(id_ in case.expected for id_ in best)
    if not expected:
        return "wrong_on_top"
    return "right_first" if expected == len(best) else "tie_on_top"


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One line a case, with what `derive` adds."""
    return derive(pd.DataFrame([_line(row) for row in rows]))


def derive(table: pd.DataFrame) -> pd.DataFrame:
    """Add what the gates and plots read to a frame of scored cases: `top1`, `margin`, `rank`, `failed`.

    `top1` is -inf when nothing came back. `margin` is +inf with a single candidate and -inf with none.
    `rank` is the best pessimistic rank of an expected memory, NaN where none was found. The signals become
    float64, NaN where they were not measured.
    """
    top1, margin = [], []
    for scores in table["scores"]:
        first, second = (*scores[:2], -np.inf, -np.inf)[:2]
        top1.append(first)
        margin.append(first - second if len(scores) else -np.inf)
    rank = [min((r for r in ranks if r is not None), default=np.nan) for ranks in table["ranks"]]
    return table.assign(
        top1=np.array(top1, dtype=np.float64),
        margin=np.array(margin, dtype=np.float64),
        rank=np.array(rank, dtype=np.float64),
        failed=table["error"].notna(),
        **{name: table[name].astype(np.float64) for name in MEASURED},
    )


def summarise(rows: pd.DataFrame, ks: Sequence[int] = (1, 3)) -> pd.DataFrame:
    """Counts by metric and slice: columns `metric`, `slice`, `hits`, `n`.

    `rows` need `outcome` (from the gate). Slices: all, each language, hard.
    """
    marks = indicators(rows, ks)
    slices = {"all": rows.index}
    slices |= {f"lang={lang}": part.index for lang, part in rows.groupby("lang")}
    slices["hard"] = rows.index[rows["hard"]]
    counts = []
    for name, index in slices.items():
        part = marks.loc[index]
        counted = {metric: (int(part[metric].sum()), int(part[metric].count())) for metric in marks}
        ranks = [rank for found in rows.loc[index, "ranks"] for rank in found]
        for k in ks:
            found = sum(rank is not None and rank <= k for rank in ranks)
            counted[f"full_recall@{k}"] = (found, len(ranks))
        counts += [(metric, name, *counted[metric]) for metric in metric_names(ks)]
    return pd.DataFrame(counts, columns=["metric", "slice", "hits", "n"])


def indicators(rows: pd.DataFrame, ks: Sequence[int] = (1, 3)) -> pd.DataFrame:
    """One row a case, one column a metric: 1.0 or 0.0, NaN where the metric does not ask this case.

    What `summarise` adds up, and what two runs are paired on. `rows` need `outcome`.
    """
    answerable = rows["answerable"].to_numpy(bool)
    asked = {f"recall@{k}": rows["rank"] <= k for k in ks}
    asked |= {place: rows["place"] == place for place in PLACES}
    asked |= {outcome: rows["outcome"] == outcome for outcome in OUTCOMES}
    marks = {metric: found.astype(float).where(answerable) for metric, found in asked.items()}
    marks["false_recall"] = (rows["outcome"] == "false_recall").astype(float).where(~answerable)
    marks["passed"] = rows["outcome"].isin(PASSED).astype(float)
    marks["failed"] = rows["failed"].astype(float)
    return pd.DataFrame(marks, index=rows.index)


def metric_names(ks: Sequence[int]) -> list[str]:
    """What `summarise` counts, in its order."""
    ranked = [f"{kind}@{k}" for kind in ("recall", "full_recall") for k in ks]
    return [*ranked, *PLACES, *OUTCOMES, "false_recall", "passed", "failed"]


def distributions(rows: pd.DataFrame) -> pd.DataFrame:
    """Score, margin and latency by group: columns `quantity`, `group`, `n`, `min`, `median`, `p95`, `max`.

    Scores and margins of the right-first, wrong-or-tied and must-stay-silent cases; latency in
    milliseconds. Infinite margins (no runner-up) and failed cases are left out and so not counted in `n`.
    """
    groups = {
        "right": rows[rows["place"] == "right_first"],
        "wrong": rows[rows["place"].isin(["wrong_on_top", "tie_on_top"])],
        "silent": rows[rows["place"] == "silent"],
    }
    asked = [(q, name, part[q]) for q in ("top1", "margin") for name, part in groups.items()]
    times = rows[["embed_ms", "search_ms"]].assign(total_ms=rows["embed_ms"] + rows["search_ms"])
    found = []
    for quantity, group, values in [*asked, *((name, "all", times[name]) for name in times)]:
        finite = values[np.isfinite(values)]
        found.append((quantity, group, len(finite), *finite.quantile([0, 0.5, 0.95, 1])))
    return pd.DataFrame(found, columns=["quantity", "group", "n", "min", "median", "p95", "max"])


def _line(row: Row) -> dict[str, object]:
    asked = ("query", "lang", "hard", "tags", "answerable", "expected")
    found = {"case_id": row.case.id} | {name: getattr(row.case, name) for name in asked}
    found |= {name: getattr(row, name) for name in Row.__slots__ if name not in ("case", "signals")}
    return found | asdict(row.signals)

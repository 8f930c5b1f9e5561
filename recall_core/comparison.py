"""Before and after: two runs of one fixture, paired case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from recall_core import scoring, stats
from recall_core.records import InputError
from recall_core.runs import Result

LOWER_IS_BETTER = frozenset({"misled", "false_recall", "silenced", "wrong_on_top", "tie_on_top"})


@dataclass(frozen=True)
class Comparison:
    """What changed from `before` to `after`, both names of paths.

    `table`: a row a metric with `before`, `after` (hits), `n`, `difference` (share), `low`, `high` (95%
    paired bootstrap), `p` (exact McNemar) and `verdict`. `flips`: a row a case that changed, with `metric`,
    `direction` (`gained` or `lost`) and both tops.
    """

    before: str
    after: str
    table: pd.DataFrame
    flips: pd.DataFrame


def compare(before: Result, after: Result) -> Comparison:
    """Pair two runs by case.

    Raises InputError when they did not ask the same cases, or when one goes by the lexical embedder and the
    other by a model.
    """
    if {before.kind, after.kind} == {"hash", "onnx"}:
        raise InputError(
            f"{before.path} is of kind {before.kind} and {after.path} of kind {after.kind}; the hash "
            "embedder is a ratchet and says nothing of a model: compare paths of one kind"
        )
    ks = sorted({1, min(before.top_k, after.top_k)})
    metrics = [*(f"recall@{k}" for k in ks), "answered", "misled", "false_recall", "passed"]
    table, flips = paired(before.rows, after.rows, metrics, ("recall@1", "passed"), ks)
    return Comparison(before.path, after.path, table, flips)


def paired(
    before: pd.DataFrame,
    after: pd.DataFrame,
    metrics: Sequence[str],
    watched: Sequence[str],
    ks: Sequence[int],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`table` of the metrics and `flips` of those that are watched, of two frames of scored rows.

    `ks`: of every recall@k that is asked for. Raises InputError when the cases are not the same.
    """
    left, right = (rows.set_index("case_id") for rows in (before, after))
    odd = left.index.symmetric_difference(right.index)
    if len(odd):
        raise InputError(f"{len(odd)} cases are in one run only ({odd[0]} first); run both on one fixture")
    right = right.loc[left.index]
    marks = scoring.indicators(left, ks), scoring.indicators(right, ks)
    table = pd.DataFrame([_difference(metric, marks[0][metric], marks[1][metric]) for metric in metrics])
    return table, pd.concat([_flips(metric, left, right, *marks) for metric in watched])


def _difference(metric: str, before: pd.Series[float], after: pd.Series[float]) -> dict[str, object]:
    asked = before.notna()
    one, two = before[asked].to_numpy(), after[asked].to_numpy()
    low, high = stats.paired_bootstrap(two - one)
    return {
        "metric": metric,
        "before": int(one.sum()),
        "after": int(two.sum()),
        "n": len(one),
        "difference": float((two - one).mean()) if len(one) else np.nan,
        "low": low,
        "high": high,
        "p": stats.mcnemar(int((one > two).sum()), int((two > one).sum())),
        "verdict": _verdict(metric, low, high),
    }


def _verdict(metric: str, low: float, high: float) -> str:
    if not low > 0 and not high < 0:
        return "inside its interval: no difference shown"
    return "better" if (low > 0) != (metric in LOWER_IS_BETTER) else "worse"


def _flips(
    metric: str,
    left: pd.DataFrame,
    right: pd.DataFrame,
    before: pd.DataFrame,
    after: pd.DataFrame,
) -> pd.DataFrame:
    changed = after[metric] - before[metric]
    flipped = changed.index[changed.fillna(0) != 0]
    return pd.DataFrame(
        {
            "metric": metric,
            "direction": ["gained" if changed[case] > 0 else "lost" for case in flipped],
            "case_id": list(flipped),
            "query": left.loc[flipped, "query"].to_numpy(),
            "before_top": [_top(ids) for ids in left.loc[flipped, "ids"]],
            "before_score": left.loc[flipped, "top1"].to_numpy(),
            "after_top": [_top(ids) for ids in right.loc[flipped, "ids"]],
            "after_score": right.loc[flipped, "top1"].to_numpy(),
        }
    ).sort_values(["direction", "case_id"])


def _top(ids: list[str]) -> str:
    return ids[0] if len(ids) else ""

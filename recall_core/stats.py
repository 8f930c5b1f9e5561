"""Honest statistics: how sure a share is, and whether two runs differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import binomtest, mannwhitneyu


def wilson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The Wilson score interval of a share, `(low, high)` (Wilson, JASA 1927). No cases: `(0.0, 1.0)`."""
    if n == 0:
        return 0.0, 1.0
    interval = binomtest(hits, n).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def with_intervals(counts: pd.DataFrame) -> pd.DataFrame:
    """Add `share`, `low` and `high` (95% Wilson) to a frame of `hits` and `n`. A share of nothing is NaN."""
    intervals = [wilson(int(hits), int(n)) for hits, n in zip(counts["hits"], counts["n"], strict=True)]
    return counts.assign(
        share=counts["hits"] / counts["n"].where(counts["n"] > 0),
        low=[low for low, _ in intervals],
        high=[high for _, high in intervals],
    )


def share(hits: int, n: int) -> str:
    """`72.0% (18/25) [52, 86]`: the share, its count, and its 95% Wilson interval in percent."""
    if not n:
        return "no cases"
    low, high = wilson(hits, n)
    return f"{hits / n:.1%} ({hits}/{n}) [{100 * low:.0f}, {100 * high:.0f}]"


def mcnemar(only_before: int, only_after: int) -> float:
    """Exact two-sided p of a paired yes/no question (McNemar, Psychometrika 1947).

    Given how many cases only the one and only the other got right. 1.0 when none changed.
    """
    changed = only_before + only_after
    return float(binomtest(only_after, changed, 0.5).pvalue) if changed else 1.0


def paired_bootstrap(
    differences: ArrayLike,
    clusters: Sequence[str] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of the mean of paired differences, `(low, high)` (Efron, Ann. Stat. 1979).

    `differences`: (n,), one a case. With `clusters`, whole clusters are drawn: cases that share a topic are
    not independent. No cases: `(nan, nan)`. The seed is fixed, so that a report can be made again.
    """
    values = np.asarray(differences, dtype=np.float64)
    if not len(values):
        return np.nan, np.nan
    labels = np.arange(len(values)) if clusters is None else np.unique(list(clusters), return_inverse=True)[1]
    sums = np.bincount(labels, values)
    sizes = np.bincount(labels).astype(np.float64)
    drawn = np.random.default_rng(seed).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), resamples)
    means = (drawn @ sums) / (drawn @ sizes)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def auroc(positive: ArrayLike, negative: ArrayLike) -> float:
    """Chance that a positive scores above a negative, ties half (Mann-Whitney U / nm). NaN without either."""
    above, below = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if not len(above) or not len(below):
        return np.nan
    return float(mannwhitneyu(above, below).statistic / (len(above) * len(below)))

"""Honest statistics: how sure a share is, and whether two runs differ."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import beta, binom, binomtest, mannwhitneyu

from recall_core.records import InputError

AT_ONCE = 4_000_000
"""Numbers of a bootstrap held in memory together: 32 MB."""
MOST = 10_000_000
"""Silent cases beyond which nobody looks."""


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
    drawn_from = np.column_stack([np.bincount(labels, values), np.bincount(labels)])
    # Clusters of one sum and one size are interchangeable: it is enough to draw how many of each kind.
    kinds, alike = np.unique(drawn_from, axis=0, return_counts=True)
    draws = np.random.default_rng(seed).multinomial(len(drawn_from), alike / len(drawn_from), resamples)
    means = (draws @ kinds.T[0]) / (draws @ kinds.T[1])
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def auroc(positive: ArrayLike, negative: ArrayLike) -> float:
    """Chance that a positive scores above a negative, ties half (Mann-Whitney U / nm). NaN without either."""
    above, below = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if not len(above) or not len(below):
        return np.nan
    return float(mannwhitneyu(above, below).statistic / (len(above) * len(below)))


def auroc_interval(
    positive: ArrayLike,
    negative: ArrayLike,
    positive_clusters: Sequence[str] | None = None,
    negative_clusters: Sequence[str] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the AUROC, `(low, high)`. `(nan, nan)` without either side.

    Positives and negatives are drawn apart. With the clusters of both, whole clusters are drawn with all
    that is theirs on either side; a draw that leaves a side empty is left out. Where the sides do not
    overlap, neither does a resample: the interval is a point, and says less than it seems to.
    """
    above, below = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if not len(above) or not len(below):
        return np.nan, np.nan
    every, place = np.unique(np.concatenate([above, below]), return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(every)))
    good = (order < len(above)).astype(np.float64)
    if positive_clusters is None or negative_clusters is None:
        sizes, labels = [len(above), len(below)], np.arange(len(order))
    else:
        names, labels = np.unique([*positive_clusters, *negative_clusters], return_inverse=True)
        sizes = [len(names)]
    rng = np.random.default_rng(seed)
    step = max(1, AT_ONCE // len(order))
    areas = []
    for start in range(0, resamples, step):
        times = min(step, resamples - start)
        drawn = np.hstack([rng.multinomial(n, np.full(n, 1 / n), times) for n in sizes])
        weight = drawn[:, labels[order]]
        up = np.add.reduceat(weight * good, starts, axis=1)
        down = np.add.reduceat(weight * (1 - good), starts, axis=1)
        won = (up * (np.cumsum(down, axis=1) - down / 2)).sum(axis=1)
        pairs = up.sum(axis=1) * down.sum(axis=1)
        areas.append(won[pairs > 0] / pairs[pairs > 0])
    low, high = np.quantile(np.concatenate(areas), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def clopper_pearson_upper(hits: int, n: int, confidence: float = 0.95) -> float:
    """The one-sided upper bound of a share (Clopper and Pearson, Biometrika 1934). No cases: 1.0.

    A true share above it would give so few hits with a chance of at most 1 - confidence.
    """
    return 1.0 if hits == n else float(beta.ppf(confidence, hits + 1, n - hits))


def silent_needed(max_false: float, confidence: float = 0.95, observed: int = 0) -> int:
    """The fewest silent cases that promise a false recall of at most `max_false`, given what is observed.

    With `observed` false recalls among them, `clopper_pearson_upper` is then at most `max_false`. Of none:
    log(1 - confidence) / log(1 - max_false), rounded up. Raises InputError on a share that is none.
    """
    for name, value in (("max_false", max_false), ("confidence", confidence)):
        if not 0 < value < 1:
            raise InputError(f"{name} is {value}; give a share between 0 and 1, such as 0.05 or 0.9")
    tries = range(observed + 1, MOST)
    return tries[bisect_left(tries, True, key=lambda n: binom.cdf(observed, n, max_false) <= 1 - confidence)]


def silent_needed_to_tell(p: float, q: float, *, power: float = 0.8, confidence: float = 0.95) -> int:
    """The fewest silent cases on which two settings of false recall `p` and `q` differ in `mcnemar`.

    With a chance of `power`, where that is `1 - confidence` or less. Whatever the stricter setting lets
    through the looser one does too, so |p - q| of the cases change, all one way, and of k changes the exact
    test has p = 2 / 2^k.
    """
    changes = math.ceil(math.log2(2 / (1 - confidence)))
    tries = range(changes, MOST)
    return tries[bisect_left(tries, True, key=lambda n: binom.sf(changes - 1, n, abs(p - q)) >= power)]


def aurc(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Area under the risk-coverage curve: the mean risk of answering 1, 2, ... n cases, surest first.

    (Geifman and El-Yaniv, NeurIPS 2017.) (n,) each. Cases that tie count as in random order. Lower is better:
    all alike give the error rate. No cases: NaN.
    """
    sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.bool_)
    if not len(sure):
        return np.nan
    _, place = np.unique(-sure, return_inverse=True)
    covered, errors = np.bincount(place).cumsum(), np.bincount(place, ~right).cumsum()
    answered = np.arange(1, len(sure) + 1)
    return float((np.interp(answered, [0, *covered], [0, *errors]) / answered).mean())


def reliability(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> pd.DataFrame:
    """Stated confidence against what came true, in `bins` equal widths of (left, right]; 0 joins the first.

    Columns: `left`, `right`, `confidence` (mean stated, NaN in an empty bin), `hits`, `n`, `share`, `low`
    and `high` (95% Wilson).
    """
    sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.bool_)
    edges = np.linspace(0, 1, bins + 1)
    place = np.searchsorted(edges[1:-1], sure)
    n = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        stated = np.bincount(place, sure, minlength=bins) / n
    hits = np.bincount(place, right, minlength=bins).astype(np.intp)
    frame = pd.DataFrame({"left": edges[:-1], "right": edges[1:], "confidence": stated, "hits": hits, "n": n})
    return with_intervals(frame)


def calibration_error(table: pd.DataFrame) -> float:
    """Expected calibration error of a `reliability` table: mean gap between stated and true, by cases.

    (Guo et al., ICML 2017.) No cases: NaN.
    """
    held = table[table["n"] > 0]
    gaps = (held["confidence"] - held["share"]).abs()
    return float((gaps * held["n"]).sum() / held["n"].sum()) if len(held) else np.nan

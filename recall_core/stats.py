"""Honest statistics: how sure a share is, and whether two runs differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom, binomtest, mannwhitneyu

AT_ONCE = 4_000_000
"""Numbers of a bootstrap held in memory together: 32 MB."""


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
    not independent. No cases: `(nan, nan)`. The seed is fixed, so that a report can be made again. Raises
    ValueError on NaN.
    """
    values = _numbers(differences, "a difference")
    if clusters is not None and len(clusters) != len(values):
        raise ValueError(f"{len(clusters)} clusters for {len(values)} differences; give one a case")
    if not len(values):
        return np.nan, np.nan
    labels = np.arange(len(values)) if clusters is None else np.unique(list(clusters), return_inverse=True)[1]
    drawn_from = np.column_stack([np.bincount(labels, values), np.bincount(labels)])
    # Clusters of one sum and one size are interchangeable: it is enough to draw how many of each kind.
    kinds, alike = np.unique(drawn_from, axis=0, return_counts=True)
    draws = np.random.default_rng(seed).multinomial(len(drawn_from), alike / len(drawn_from), resamples)
    sums, sizes = draws @ kinds.T[0], draws @ kinds.T[1]
    means = sums / sizes
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
    above, below = _numbers(positive, "a positive"), _numbers(negative, "a negative")
    if (positive_clusters is None) != (negative_clusters is None):
        raise ValueError("clusters are given for one side only; give both or neither")
    if not len(above) or not len(below):
        return np.nan, np.nan
    every, place = np.unique(np.concatenate([above, below]), return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(every)))
    good = (order < len(above)).astype(np.float64)
    if positive_clusters is None or negative_clusters is None:
        draw = _drawn_apart(len(above), len(below))
    else:
        draw = _drawn_whole([*positive_clusters, *negative_clusters], len(above) + len(below))
    rng = np.random.default_rng(seed)
    step = max(1, AT_ONCE // len(order))
    areas = []
    for start in range(0, resamples, step):
        weight = draw(rng, min(step, resamples - start))[:, order]
        up = np.add.reduceat(weight * good, starts, axis=1)
        down = np.add.reduceat(weight * (1 - good), starts, axis=1)
        won = (up * (np.cumsum(down, axis=1) - down / 2)).sum(axis=1)
        pairs = up.sum(axis=1) * down.sum(axis=1)
        areas.append(won[pairs > 0] / pairs[pairs > 0])
    low, high = np.quantile(np.concatenate(areas), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


Draw = Callable[[np.random.Generator, int], NDArray[np.int64]]
"""How often each of n cases is drawn: (resamples, n)."""


def _drawn_apart(positives: int, negatives: int) -> Draw:
    sizes = (positives, negatives)
    return lambda rng, times: np.hstack([rng.multinomial(n, np.full(n, 1 / n), times) for n in sizes])


def _drawn_whole(clusters: Sequence[str], cases: int) -> Draw:
    if len(clusters) != cases:
        raise ValueError(f"{len(clusters)} clusters for {cases} cases; give one a case")
    names, labels = np.unique(clusters, return_inverse=True)
    n = len(names)
    return lambda rng, times: rng.multinomial(n, np.full(n, 1 / n), times)[:, labels]


def clopper_pearson_upper(hits: int, n: int, confidence: float = 0.95) -> float:
    """The one-sided upper bound of a share (Clopper and Pearson, Biometrika 1934). No cases: 1.0.

    A true share above it would give so few hits with a chance of at most 1 - confidence.
    """
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} hits of {n} cases; hits lie between 0 and the cases")
    return 1.0 if hits == n else float(beta.ppf(confidence, hits + 1, n - hits))


def silent_needed(max_false: float, confidence: float = 0.95, observed: int = 0) -> int:
    """The fewest silent cases that promise a false recall of at most `max_false`, given what is observed.

    With `observed` false recalls among them, `clopper_pearson_upper` is then at most `max_false`. Of none:
    log(1 - confidence) / log(1 - max_false), rounded up.
    """
    _refuse_outside("max_false", max_false)
    _refuse_outside("confidence", confidence)
    if observed < 0:
        raise ValueError(f"observed is {observed}; give 0 or more false recalls")
    return _fewest(lambda n: binom.cdf(observed, n, max_false) <= 1 - confidence, observed + 1)


def silent_needed_to_tell(
    p: float, q: float, *, power: float = 0.8, confidence: float = 0.95, nested: bool = True
) -> int:
    """The fewest silent cases on which two settings of false recall `p` and `q` differ in `mcnemar`.

    With a chance of `power`, where that is `1 - confidence` or less. As `power_to_tell` describes. Equal
    rates are never told apart: ValueError.
    """
    _refuse_outside("power", power)
    if p == q:
        raise ValueError(f"both rates are {p}; no number of cases tells equal rates apart")
    return _fewest(lambda n: power_to_tell(n, p, q, confidence=confidence, nested=nested) >= power, 1)


def power_to_tell(n: int, p: float, q: float, *, confidence: float = 0.95, nested: bool = True) -> float:
    """Chance that the exact McNemar test tells two settings apart on the same n silent cases.

    Their true false recalls are `p` and `q`. `nested`: whatever the stricter setting lets through the
    looser one does too, as two thresholds of one gate do, so |p - q| of the cases change, all one way. Else
    the two err independently, as two unrelated signals might: p(1-q) change one way and q(1-p) the other.
    """
    for name, value in (("p", p), ("q", q)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}; a rate lies between 0 and 1")
    _refuse_outside("confidence", confidence)
    one, two = (abs(p - q), 0.0) if nested else (p * (1 - q), q * (1 - p))
    if one + two == 0:
        return 0.0
    least, most = binom.ppf([1e-12, 1 - 1e-12], n, one + two)
    changed = np.arange(max(least, 1), most + 1)
    tail = (1 - confidence) / 2
    few = binom.ppf(tail, changed, 0.5)
    few -= binom.cdf(few, changed, 0.5) > tail
    told = binom.cdf(few, changed, one / (one + two)) + binom.cdf(few, changed, two / (one + two))
    return float(binom.pmf(changed, n, one + two) @ told)


def _fewest(enough: Callable[[int], bool], least: int) -> int:
    """The smallest n >= least that is enough, where every larger one is."""
    most = least
    while not enough(most):
        most *= 2
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle + 1, most)
    return least


def risk_coverage(confidence: ArrayLike, correct: ArrayLike) -> pd.DataFrame:
    """What is wrong among the cases answered first, by how many are answered.

    One row for each distinct confidence, highest first; cases that tie are answered together. Columns:
    `confidence`, `covered` and `errors` (counts), `coverage` (of all cases) and `risk` (errors of those
    covered). (n,) each; (El-Yaniv and Wiener, JMLR 2010). No cases: no rows.
    """
    sure, right = _paired(confidence, correct)
    values, place = np.unique(-sure, return_inverse=True)
    covered = np.bincount(place, minlength=len(values)).cumsum()
    errors = np.bincount(place, ~right, minlength=len(values)).cumsum().astype(np.intp)
    return pd.DataFrame(
        {
            "confidence": -values,
            "covered": covered,
            "errors": errors,
            "coverage": covered / max(len(sure), 1),
            "risk": errors / covered,
        }
    )


def aurc(curve: pd.DataFrame) -> float:
    """Area under a `risk_coverage` curve: the mean risk of answering 1, 2, ... n cases, surest first.

    (Geifman and El-Yaniv, NeurIPS 2017.) Cases that tie count as in random order. Lower is better: all
    alike give the error rate. No cases: NaN.
    """
    if curve.empty:
        return np.nan
    answered = np.arange(1, curve["covered"].iloc[-1] + 1)
    errors = np.interp(answered, [0, *curve["covered"]], [0, *curve["errors"]])
    return float((errors / answered).mean())


def reliability(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> pd.DataFrame:
    """Stated confidence against what came true, in `bins` equal widths of (left, right]; 0 joins the first.

    Columns: `left`, `right`, `confidence` (mean stated, NaN in an empty bin), `hits`, `n`, `share`, `low`
    and `high` (95% Wilson). Raises ValueError on a confidence that is no chance between 0 and 1.
    """
    sure, right = _paired(confidence, correct)
    if len(sure) and not (sure.min() >= 0 and sure.max() <= 1):
        raise ValueError(f"a confidence of {sure[(sure < 0) | (sure > 1)][0]}; a chance lies between 0 and 1")
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


def _paired(confidence: ArrayLike, correct: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    sure, right = _numbers(confidence, "a confidence"), np.asarray(correct, dtype=np.bool_)
    if sure.shape != right.shape:
        raise ValueError(f"{len(sure)} confidences for {len(right)} cases; give one a case")
    return sure, right


def _numbers(values: ArrayLike, named: str) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if np.isnan(found).any():
        raise ValueError(f"{named} is NaN; it has no place in an order, so measure it first")
    return found


def _refuse_outside(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}; give a share above 0 and below 1")

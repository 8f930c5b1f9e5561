"""Combining signals: a few numbers weighed into one, fitted once and exported as plain coefficients.

Fitting needs scikit-learn; applying does not:
score = intercept + sum of coefficient * clip((value - mean) / scale, -limit, limit) over the features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recall_core import stats
from recall_core.records import InputError

Target = Literal["silent", "rest"]
LIMIT = 4.0
"""Standard deviations a feature can count for. An infinite one counts for as many."""
STRENGTH = 1.0
"""Inverse strength of the ridge penalty on standardised features, scikit-learn's `C`."""


@dataclass(frozen=True)
class Combination:
    """A logistic combination. 1 / (1 + exp(-score)) is the chance it states of right against the target."""

    target: Target
    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float
    limit: float = LIMIT

    @property
    def reversed(self) -> tuple[str, ...]:
        """Features that count against an answer, though every signal is larger for more confident.

        Either another feature already says it, or the cases are made so. Look before it is trusted.
        """
        pairs = zip(self.features, self.coefficients, strict=True)
        return tuple(name for name, coefficient in pairs if coefficient < 0)


def fit(rows: pd.DataFrame, features: Sequence[str], target: Target) -> Combination:
    """Fit on scored cases: right first against must-stay-silent, or against the rest, which adds the wrong.

    Failed searches measured nothing and are left out of the fit, not of any count. Means and scales are of
    the finite values; a feature that never varies gets scale 1. Needs scikit-learn. Raises InputError when
    either side is empty.
    """
    from sklearn.linear_model import LogisticRegression

    used = rows[_asked(rows, target) & ~rows["failed"].to_numpy(np.bool_)]
    right = _right(used)
    if right.all() or not right.any():
        lacking = "right answers" if not right.any() else "cases to tell them from"
        raise InputError(f"{len(used)} cases without {lacking}; a combination is fitted on both")
    values = _values(used, features)
    finite = np.ma.masked_invalid(values)
    means = finite.mean(axis=0).filled(0.0)
    scales = finite.std(axis=0).filled(0.0)
    scales[scales <= 1e-12 * np.abs(means)] = 1.0
    model = LogisticRegression(C=STRENGTH, max_iter=1000, tol=1e-8)
    model.fit(_standardised(values, means, scales, LIMIT), right)
    return Combination(
        target=target,
        features=tuple(features),
        means=tuple(means.tolist()),
        scales=tuple(scales.tolist()),
        coefficients=tuple(model.coef_[0].tolist()),
        intercept=float(model.intercept_[0]),
    )


def score(rows: pd.DataFrame, combination: Combination) -> NDArray[np.float64]:
    """(n,) float64, larger for more confident: the log-odds. Needs no scikit-learn."""
    values = _values(rows, combination.features)
    means, scales = np.array(combination.means), np.array(combination.scales)
    standardised = _standardised(values, means, scales, combination.limit)
    return np.asarray(combination.intercept + standardised @ np.array(combination.coefficients))


def cross_validated(
    rows: pd.DataFrame, features: Sequence[str], target: Target, clusters: Sequence[str], folds: int = 10
) -> NDArray[np.float64]:
    """(n,) float64: each case scored by a fit that saw no case of its cluster.

    Clusters go round into at most `folds` folds, by name. What `score` gives on the cases of the fit itself
    is too good.
    """
    names, labels = np.unique(list(clusters), return_inverse=True)
    fold_of = labels % min(folds, len(names))
    found = np.empty(len(rows))
    for fold in np.unique(fold_of):
        fitted = fit(rows[fold_of != fold], features, target)
        found[fold_of == fold] = score(rows[fold_of == fold], fitted)
    return found


def threshold_at(rows: pd.DataFrame, scores: ArrayLike, rate: float) -> float:
    """The lowest threshold whose false recall is at most `rate` when a gate opens above it.

    -inf when every case may be spoken; +inf when failed searches alone exceed the rate, or without a silent
    case: nothing is then known of false recall.
    """
    silent = np.sort(_worst(rows, scores)[~rows["answerable"].to_numpy(np.bool_)])[::-1]
    if not len(silent):
        return np.inf
    allowed = int(np.floor(rate * len(silent) + 1e-9))
    return float(silent[allowed]) if allowed < len(silent) else -np.inf


def separation(
    rows: pd.DataFrame,
    scores: Mapping[str, ArrayLike],
    clusters: Sequence[str] | None = None,
    target: Target = "silent",
) -> pd.DataFrame:
    """How well each score tells right first from the target: a row a score.

    Columns: `signal`, `auroc`, `low`, `high` (95% bootstrap, by cluster if given), `right` and `others`
    (counts). A failed search that should have stayed silent or been answered counts as surer than everything.
    """
    right = _right(rows)
    parts = right, _asked(rows, target) & ~right
    names = np.array([] if clusters is None else clusters)
    whose = (None, None) if clusters is None else [names[part].tolist() for part in parts]
    table = []
    for name, given in scores.items():
        above, below = (_worst(rows, given)[part] for part in parts)
        ends = stats.auroc_interval(above, below, *whose)
        table.append((name, stats.auroc(above, below), *ends, len(above), len(below)))
    return pd.DataFrame(table, columns=["signal", "auroc", "low", "high", "right", "others"])


def _right(rows: pd.DataFrame) -> NDArray[np.bool_]:
    return np.asarray(rows["place"] == "right_first", dtype=np.bool_)


def _asked(rows: pd.DataFrame, target: Target) -> NDArray[np.bool_]:
    """(n,) bool: the right, and what they are told from."""
    return np.asarray(_right(rows) | ~rows["answerable"].to_numpy(np.bool_) | (target == "rest"))


def _values(rows: pd.DataFrame, features: Sequence[str]) -> NDArray[np.float64]:
    """(n, f) float64. Infinities stay; of a failed search nothing is known, -inf."""
    return np.where(rows[["failed"]].to_numpy(np.bool_), -np.inf, rows[list(features)].to_numpy(np.float64))


def _standardised(
    values: NDArray[np.float64], means: NDArray[np.float64], scales: NDArray[np.float64], limit: float
) -> NDArray[np.float64]:
    return np.asarray(np.clip((values - means) / scales, -limit, limit))


def _worst(rows: pd.DataFrame, scores: ArrayLike) -> NDArray[np.float64]:
    """The scores, and +inf for a failed search: it counts as opened on something wrong."""
    return np.where(rows["failed"].to_numpy(np.bool_), np.inf, np.asarray(scores, dtype=np.float64))

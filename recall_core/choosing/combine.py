"""Combining signals: a few numbers weighed into one, fitted once and exported as plain coefficients.

Fitting needs scikit-learn; applying does not:
score = intercept + sum of coefficient * clip((value - mean) / scale, -limit, limit) over the features.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, FiniteFloat, model_validator

from recall_core import stats
from recall_core.records import InputError, RecallError, Record

Target = Literal["silent", "rest"]
LIMIT = 4.0
"""Standard deviations a feature can count for. An infinite one counts for as many."""
STRENGTH = 1.0
"""Inverse strength of the ridge penalty on standardised features, scikit-learn's `C`."""


class Combination(Record):
    """A logistic combination. 1 / (1 + exp(-score)) is the chance it states of right against the target."""

    target: Target
    features: tuple[str, ...]
    means: tuple[FiniteFloat, ...]
    scales: tuple[FiniteFloat, ...]
    coefficients: tuple[FiniteFloat, ...]
    intercept: FiniteFloat
    limit: FiniteFloat = Field(default=LIMIT, gt=0)

    @model_validator(mode="after")
    def _one_each(self) -> Combination:
        lengths = {len(self.features), len(self.means), len(self.scales), len(self.coefficients)}
        if len(lengths) > 1 or not self.features:
            raise ValueError("needs one mean, scale and coefficient for each of its features")
        if min(self.scales) <= 0:
            raise ValueError(f"a scale of {min(self.scales)}; scales are above 0")
        return self

    @property
    def reversed(self) -> tuple[str, ...]:
        """Features that count against an answer, though every signal is larger for more confident.

        Either another feature already says it, or the cases are made so. Look before it is trusted.
        """
        pairs = zip(self.features, self.coefficients, strict=True)
        return tuple(name for name, coefficient in pairs if coefficient < 0)


def available() -> bool:
    """Whether scikit-learn is here, which fitting needs and scoring does not."""
    return importlib.util.find_spec("sklearn") is not None


def fit(rows: pd.DataFrame, features: Sequence[str], target: Target) -> Combination:
    """Fit on scored cases: right first against must-stay-silent, or against the rest, which adds the wrong.

    Failed searches measured nothing and are left out of the fit, not of any count. Means and scales are of
    the finite values; a feature that never varies gets scale 1. Raises InputError on NaN, on a feature that
    is not there, and when either side is empty; RecallError without scikit-learn.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise RecallError(
            "fitting a combination needs scikit-learn; install it with pip install 'recall-workbench[learn]'"
        ) from None
    used = rows[_asked(rows, target)]
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
    labels = np.unique(list(clusters), return_inverse=True)[1]
    if len(labels) != len(rows):
        raise InputError(f"{len(labels)} clusters for {len(rows)} cases; give one a case")
    if labels.max(initial=0) == 0:
        raise InputError("all cases are of one cluster; cross-validation needs two or more")
    found = np.empty(len(rows))
    for held_out in _folds(labels, folds):
        found[held_out] = score(rows[held_out], fit(rows[~held_out], features, target))
    return found


def threshold_at(rows: pd.DataFrame, scores: ArrayLike, rate: float) -> float:
    """The lowest threshold whose false recall is at most `rate` when a gate opens above it.

    -inf when every case may be spoken; +inf when failed searches alone exceed the rate, or without a silent
    case: nothing is then known of false recall.
    """
    if not 0 <= rate <= 1:
        raise InputError(f"rate is {rate}; a rate of false recall lies between 0 and 1")
    silent = np.sort(_worst(rows, scores)[~rows["answerable"].to_numpy(np.bool_)])[::-1]
    if not len(silent):
        return np.inf
    allowed = int(np.floor(rate * len(silent) + 1e-9))
    return float(silent[allowed]) if allowed < len(silent) else -np.inf


def at_false_recall(rows: pd.DataFrame, scores: ArrayLike, rate: float) -> float:
    """Share of the right-first cases that `threshold_at` keeps. NaN without a right or a silent case."""
    right = _right(rows)
    if not right.any() or rows["answerable"].all():
        return np.nan
    return float((_worst(rows, scores)[right] > threshold_at(rows, scores, rate)).mean())


def separation(
    rows: pd.DataFrame,
    scores: Mapping[str, ArrayLike],
    clusters: Sequence[str] | None = None,
    rate: float = 0.10,
    target: Target = "silent",
) -> pd.DataFrame:
    """How well each score tells right first from the target: a row a score.

    Columns: `signal`, `auroc`, `low`, `high` (95% bootstrap, by cluster if given), `right` and `others`
    (counts), `kept` (share of the right at `rate` false recall). A failed search that should have stayed
    silent or been answered counts as surer than everything.
    """
    right, asked = _right(rows), _asked(rows, target, failed=True)
    others = asked & ~right
    labels = None if clusters is None else np.array(list(clusters), dtype=np.str_)
    table = []
    for name, given in scores.items():
        values = _worst(rows, given)
        sides = values[right], values[others]
        whose = (None, None) if labels is None else (labels[right].tolist(), labels[others].tolist())
        low, high = stats.auroc_interval(*sides, *whose)
        kept = at_false_recall(rows, given, rate)
        table.append((name, stats.auroc(*sides), low, high, int(right.sum()), int(others.sum()), kept))
    return pd.DataFrame(table, columns=["signal", "auroc", "low", "high", "right", "others", "kept"])


def _folds(labels: NDArray[np.intp], folds: int) -> Iterator[NDArray[np.bool_]]:
    clusters = int(labels.max()) + 1
    for fold in range(min(folds, clusters)):
        yield labels % min(folds, clusters) == fold


def _right(rows: pd.DataFrame) -> NDArray[np.bool_]:
    return np.asarray(rows["place"] == "right_first", dtype=np.bool_)


def _asked(rows: pd.DataFrame, target: Target, *, failed: bool = False) -> NDArray[np.bool_]:
    """(n,) bool: the right, and what they are told from."""
    if target not in ("silent", "rest"):
        raise InputError(f"target is {target!r}; known targets: silent, rest")
    asked: NDArray[np.bool_] = _right(rows) | ~rows["answerable"].to_numpy(np.bool_) | (target == "rest")
    return asked if failed else asked & ~rows["failed"].to_numpy(np.bool_)


def _values(rows: pd.DataFrame, features: Sequence[str]) -> NDArray[np.float64]:
    """(n, f) float64. Infinities stay; of a failed search nothing is known, -inf."""
    if lacking := [name for name in features if name not in rows]:
        raise InputError(f"the rows have no column {lacking[0]!r}; they have {', '.join(map(str, rows))}")
    values: NDArray[np.float64] = rows[list(features)].to_numpy(np.float64)
    values = np.where(rows[["failed"]].to_numpy(np.bool_), -np.inf, values)
    missing = np.isnan(values).sum(axis=0)
    for name, n in zip(features, missing, strict=True):
        if n:
            raise InputError(f"{name} is NaN in {n} of {len(rows)} cases; measure it for every case")
    return values


def _standardised(
    values: NDArray[np.float64], means: NDArray[np.float64], scales: NDArray[np.float64], limit: float
) -> NDArray[np.float64]:
    return np.asarray(np.clip((values - means) / scales, -limit, limit))


def _worst(rows: pd.DataFrame, scores: ArrayLike) -> NDArray[np.float64]:
    """The scores, and +inf for a failed search: it counts as opened on something wrong."""
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(rows),):
        raise InputError(f"scores of shape {values.shape} for {len(rows)} cases; give one a case")
    values = np.where(rows["failed"].to_numpy(np.bool_), np.inf, values)
    if missing := int(np.isnan(values).sum()):
        raise InputError(f"a score is NaN in {missing} of {len(rows)} cases; measure it for every case")
    return values

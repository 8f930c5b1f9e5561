"""How far a frontier would move with other cases of the same kind: a bootstrap band over cases."""

from __future__ import annotations

import numpy as np
import pandas as pd

from recall_core import gates

POINTS = 60
"""At most so many steps along the axis of false recalls."""


def frontier_band(
    rows: pd.DataFrame,
    sweep: pd.DataFrame,
    *,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> pd.DataFrame:
    """The most that any setting answers at so many false recalls, and its percentile interval.

    `rows`: scored cases; `sweep`: settings as `gates.sweep` lists them. Answerable and silent cases are drawn
    apart, so both counts keep their totals (Efron, Ann. Stat. 1979). In each draw the best setting is
    picked anew, so the band is that of the curve and not of one setting, and a curve of best settings looks
    better than the next cases will be. Columns: `false_recall`, `answered`, `low`, `high` (counts).
    """
    asked = rows["answerable"].to_numpy(np.bool_)
    right = (rows["place"] == "right_first").to_numpy(np.bool_)
    settings = [
        gates.Gate(score, None if np.isnan(delta) else delta)
        for score, delta in zip(sweep["min_score"], sweep["delta"].astype(float), strict=True)
    ]
    opens = np.array([gates.opened(rows, gate) for gate in settings]).reshape(len(settings), len(rows))
    answering, false = (opens & right)[:, asked], opens[:, ~asked]
    rng = np.random.default_rng(seed)
    answered = _counts(answering, resamples, rng)
    spoken = _counts(false, resamples, rng)
    silent = false.shape[1]
    allowed = np.unique(np.linspace(0, silent, min(silent, POINTS) + 1).round().astype(int))
    best = np.array([np.where(spoken <= most, answered, 0).max(axis=1) for most in allowed])
    tail = (1 - confidence) / 2
    low, high = np.quantile(best[:, 1:], [tail, 1 - tail], axis=1)
    return pd.DataFrame({"false_recall": allowed, "answered": best[:, 0], "low": low, "high": high})


def _counts(hits: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """(1 + resamples, settings): how many cases of a draw are hits; the first row is the cases as given."""
    n = hits.shape[1]
    if not n:
        return np.zeros((1 + resamples, len(hits)), dtype=np.intp)
    drawn = rng.multinomial(n, np.full(n, 1 / n), resamples)
    return np.vstack([np.ones(n, dtype=drawn.dtype), drawn]) @ hits.T.astype(drawn.dtype)

"""The grid of both knobs: its frontier, how far that would move, and what the next step costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recall_core import gates
from recall_core.choosing.held_out import budgets

RESAMPLES = 500


@dataclass(frozen=True)
class GridStudy:
    """Every pair of `min_scores` (m,) and `deltas` (d,), counted on one set of cases.

    `frontier`: for every number of false recalls that can be had, the most that any setting answers, its 95%
    band (`low`, `high`, scaled to the cases there are), one setting that does it (`min_score`, `delta`), and
    the totals `answerable` and `silent`. `best`: (m, d) bool, the settings that no other one of the grid
    beats. `often`: (m, d) float64, the share of resamples in which each of them is such a setting.
    """

    min_scores: list[float]
    deltas: list[float]
    counts: gates.Grid
    best: NDArray[np.bool_]
    often: NDArray[np.float64]
    frontier: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """The frontier at a few numbers of false recalls."""
        held = self.frontier
        return held[held["false_recall"].isin(budgets(int(held["silent"].iloc[0])))]


def study(rows: pd.DataFrame, steps: int = 120, *, resamples: int = RESAMPLES, seed: int = 0) -> GridStudy:
    """Count the grid on scored cases that `split.mark` marked, then again on resamples of their units.

    Whole units are drawn with replacement, since cases of one life are not independent (Efron, Ann. Stat.
    1979). The best setting is picked anew in each draw: the band is that of the curve, not of one setting.
    """
    min_scores, deltas = axes(rows, steps)
    answerable = rows["answerable"].to_numpy(np.bool_)
    asked, silent = int(answerable.sum()), int((~answerable).sum())
    counts = gates.grid(rows, min_scores, deltas)
    most, best = gates.best(counts.answered, counts.false_recall, silent)
    labels, units = pd.factorize(rows["unit"])
    draws = np.random.default_rng(seed).multinomial(
        len(units), np.full(len(units), 1 / len(units)), resamples
    )
    often, curves = np.zeros(best.shape), []
    for times in draws[:, labels]:
        drawn = gates.grid(rows, min_scores, deltas, times)
        right, quiet = int(times[answerable].sum()), int(times[~answerable].sum())
        answered, on = gates.best(drawn.answered, drawn.false_recall, quiet)
        often += on / resamples
        if right and quiet:
            # The same share of false recalls, whatever the draw's totals.
            allowed = np.floor(np.arange(silent + 1) * quiet / silent + 1e-9).astype(int)
            curves.append(np.maximum(answered, 0)[allowed] * asked / right)
    low, high = np.quantile(curves, [0.025, 0.975], axis=0) if curves else np.full((2, silent + 1), np.nan)
    table = pd.DataFrame({"false_recall": range(silent + 1), "answered": most, "low": low, "high": high})
    loosest = [
        int(np.argmax((counts.answered == answered) & (counts.false_recall <= false)))
        for false, answered in enumerate(most)
    ]
    table["min_score"] = np.repeat(min_scores, len(deltas))[loosest]
    table["delta"] = np.tile(deltas, len(min_scores))[loosest]
    reachable = table["false_recall"] >= counts.false_recall.min()  # a failed search is never silent
    table = table[reachable].assign(answerable=asked, silent=silent)
    return GridStudy(min_scores, deltas, counts, best, often, table)


def axes(rows: pd.DataFrame, steps: int) -> tuple[list[float], list[float]]:
    """Settings over what was seen: min_scores from the lowest top1 up, deltas from 0 up."""
    top1, margin = (rows[name][np.isfinite(rows[name])] for name in ("top1", "margin"))
    least, most = (top1.min(), top1.max()) if len(top1) else (0.0, 1.0)
    lead = margin.max() if len(margin) else 0.0
    return np.linspace(least, most, steps).tolist(), np.linspace(0, max(lead, 1e-6), steps).tolist()


def next_steps(rows: pd.DataFrame, found: GridStudy, gate: gates.Gate) -> pd.DataFrame:
    """A gate and its neighbours on the frontier: what it costs to answer more, and what less costs.

    A row a step: `step` (in words), `min_score`, `delta`, and the counts `answered`, `answerable`,
    `false_recall`, `silent`. Steps that are not there, because the gate stands at an end, are left out.
    """
    counted = gates.sweep(rows, [], gate).iloc[0]
    answered, false = int(counted["answered"]), int(counted["false_recall"])
    curve = found.frontier
    corners = curve[curve["answered"].diff().fillna(1) > 0]
    level = corners[corners["false_recall"] <= false].tail(1)
    better = level[level["answered"] > answered]
    at = better.iloc[0] if len(better) else counted
    steps = {
        "the frontier at no more false recall": better,
        "the next that answers more": corners[corners["answered"] > at["answered"]].head(1),
        "the next with less false recall": corners[corners["false_recall"] < at["false_recall"]].tail(1),
    }
    kept = [part.assign(step=said) for said, part in steps.items() if len(part)]
    here = {
        "step": "the configured gate",
        "min_score": gate.min_score,
        "delta": 0.0 if gate.delta is None else gate.delta,
        **counted[["answered", "answerable", "false_recall", "silent"]],
    }
    return pd.concat([pd.DataFrame([here]), *kept], ignore_index=True)[list(here)]


def standing(rows: pd.DataFrame, found: GridStudy, gate: gates.Gate) -> str:
    """One sentence: how many settings of the grid a gate beats, and how many beat it."""
    counted = gates.sweep(rows, [], gate).iloc[0]
    beats, beaten = gates.compared(
        found.counts.answered - int(counted["answered"]),
        found.counts.false_recall - int(counted["false_recall"]),
    )
    return (
        f"{gate}: beats {beats.sum():,} of the {beats.size:,} settings of the grid and is beaten by "
        f"{beaten.sum():,}"
    )

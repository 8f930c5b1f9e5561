"""Plots of gates: the grid of both knobs, every signal's frontier, and drift with the size of a store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from recall_core.plots import style

CURVES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#777777", "#000000", "#999933")
BEST = "#CC79A7"
SOMETIMES = 0.1
"""Least share of resamples in which a setting is tinted."""


def grid(
    answered: NDArray[np.intp],
    false_recall: NDArray[np.intp],
    min_scores: Sequence[float],
    deltas: Sequence[float],
    chosen: tuple[float, float],
    best: NDArray[np.bool_],
    often: NDArray[np.float64],
    ax: Axes,
) -> Axes:
    """Answered as shade, false recalls as contour lines, a column a delta and a row a min_score.

    `answered`, `false_recall`: (m, d) counts. `chosen`: (min_score, delta), marked with a star. `best`:
    (m, d) bool, the settings on the frontier, dotted. `often`: (m, d), the share of resamples in which a
    setting is on it; those that are in one of ten or more are tinted.
    """
    shade = ax.pcolormesh(deltas, min_scores, answered, cmap="Blues", shading="nearest")
    ax.figure.colorbar(shade, ax=ax, label="answered")
    top = int(false_recall.max())
    levels = sorted({1, *(round(top * share) for share in (0.05, 0.1, 0.25, 0.5, 0.75))} - {0})
    red = style.COLOURS["silent"]
    lines = ax.contour(deltas, min_scores, false_recall, levels=levels, colors=red, linewidths=1)
    ax.clabel(lines, fmt="%d false", fontsize=8)
    for where, size, alpha, label in (
        (often >= SOMETIMES, 14, 0.3, f"in {SOMETIMES:.0%} of resamples"),
        (best, 5, 1.0, "frontier"),
    ):
        row, column = np.nonzero(where)
        at = np.array(deltas)[column], np.array(min_scores)[row]
        ax.scatter(*at, s=size, color=BEST, alpha=alpha, linewidths=0, label=label)
    right, bottom = ax.get_xlim()[1], ax.get_ylim()[0]
    style.star(ax, (min(chosen[1], right), max(chosen[0], bottom)), "configured gate")
    if chosen[0] < bottom:
        style.say(ax, f"min_score {chosen[0]:g}, below every score", (chosen[1], bottom), (10, 5))
    ax.set_xlabel("delta: lead over the runner-up")
    ax.set_ylabel("min_score")
    style.legend(ax, 3)
    return ax


def grid_frontier(curve: pd.DataFrame, steps: pd.DataFrame, ax: Axes) -> Axes:
    """The most any setting of a grid answers at so many false recalls, its band, and a gate's next steps.

    `curve`: `GridStudy.frontier`; `steps`: `grid_study.next_steps`, the gate itself first.
    """
    style.band(ax, curve, BEST)
    style.curve(ax, curve, "frontier of the grid", BEST)
    dots: style.Look = {"linestyle": "none", "marker": "o", "markeredgecolor": style.GATE}
    style.curve(ax, steps.iloc[1:], "next steps", BEST, **dots)
    gate = steps.iloc[0]
    at = (gate["false_recall"], gate["answered"])
    style.star(ax, at, "configured gate")
    style.say(ax, f"{at[1]} answered for {at[0]} false", at, (9, -12))
    ax.set_ylim(bottom=0)
    style.cost_axes(ax, steps, 2)
    return ax


def signal_frontiers(curves: pd.DataFrame, ax: Axes) -> Axes:
    """Every signal's frontier on one axis. `curves`: `signal`, `answered`, `false_recall`, and the totals."""
    for at, (name, part) in enumerate(curves.groupby("signal", sort=False)):
        again, colour = divmod(at, len(CURVES))
        looks = {"linewidth": 2.6 if name == "margin" else 1.3, "linestyle": "--" if again else "-"}
        style.curve(ax, part, name, CURVES[colour], **looks)
    style.cost_axes(ax, curves, 3)
    return ax


def drift(table: pd.DataFrame, ax: Axes) -> Axes:
    """Recall@1, answered and false recall of one gate in stores of growing size. `table`: `drift.sizes`."""
    if table.empty:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "no sizes were asked for", ha="center", va="center")
        return ax
    for column, total, colour, label in (
        ("right_first", "answerable", "#56B4E9", "recall@1"),
        ("answered", "answerable", style.COLOURS["right"], "answered"),
        ("false_recall", "silent", style.COLOURS["silent"], "false recall"),
    ):
        shares = table[column] / table[total]
        ax.plot(table["size"], shares, marker="o", color=colour, label=label)
        last = (table["size"].iloc[-1], shares.iloc[-1])
        style.say(ax, f"{last[1]:.0%}", last, (6, 0), color=colour)
    ax.set_xscale("log")
    ax.set_xticks(table["size"], [f"{size:,}" for size in table["size"]])
    ax.minorticks_off()
    ax.set_ylim(0, 1)
    ax.set_xlabel("memories in the store")
    ax.set_ylabel("share")
    style.legend(ax, 3)
    return ax

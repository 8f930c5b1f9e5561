"""Plots of gates: the grid of both knobs, every signal's frontier, and drift with the size of a store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from recall_core.plots.style import COLOURS, GATE, legend

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
    lines = ax.contour(
        deltas, min_scores, false_recall, levels=levels, colors=COLOURS["silent"], linewidths=1
    )
    ax.clabel(lines, fmt="%d false", fontsize=8)
    for where, size, label in (
        (often >= SOMETIMES, 14, f"in {SOMETIMES:.0%} of resamples"),
        (best, 5, "frontier"),
    ):
        at = np.argwhere(where)
        ax.scatter(
            np.array(deltas)[at[:, 1]],
            np.array(min_scores)[at[:, 0]],
            s=size,
            color=BEST,
            alpha=1.0 if size == 5 else 0.3,
            linewidths=0,
            label=label,
        )
    edges = ax.get_xlim()[1], ax.get_ylim()[0]
    _star(min(chosen[1], edges[0]), max(chosen[0], edges[1]), ax)
    if chosen[0] < edges[1]:
        ax.annotate(f"min_score {chosen[0]:g}, below every score", (chosen[1], edges[1]), xytext=(10, 5),
                    textcoords="offset points", fontsize=8)  # fmt: skip
    ax.set_xlabel("delta: lead over the runner-up")
    ax.set_ylabel("min_score")
    legend(ax, 3)
    return ax


def grid_frontier(curve: pd.DataFrame, steps: pd.DataFrame, ax: Axes) -> Axes:
    """The most any setting of a grid answers at so many false recalls, its band, and a gate's next steps.

    `curve`: `GridStudy.frontier`; `steps`: `grid_study.next_steps`, the gate itself first.
    """
    at = curve["false_recall"]
    ax.fill_between(
        at, curve["low"], curve["high"], step="post", color=BEST, alpha=0.25, linewidth=0, label="95% band"
    )
    ax.plot(at, curve["answered"], drawstyle="steps-post", color=BEST, label="frontier of the grid")
    onward = steps.iloc[1:]
    ax.plot(
        onward["false_recall"], onward["answered"], "o", color=BEST, markeredgecolor=GATE, label="next steps"
    )
    gate = steps.iloc[0]
    _star(gate["false_recall"], gate["answered"], ax)
    ax.annotate(f"{gate['answered']} answered for {gate['false_recall']} false",
                (gate["false_recall"], gate["answered"]), xytext=(9, -12), textcoords="offset points",
                fontsize=8)  # fmt: skip
    ax.set_xlabel(f"false recalls, of {steps['silent'].iloc[0]} that must stay silent")
    ax.set_ylabel(f"answered, of {steps['answerable'].iloc[0]}")
    ax.set_ylim(bottom=0)
    legend(ax, 2)
    return ax


def _star(x: float, y: float, ax: Axes) -> None:
    ax.plot(x, y, marker="*", markersize=14, color=GATE, markeredgecolor="white", linestyle="",
            label="configured gate", clip_on=False, zorder=4)  # fmt: skip


def signal_frontiers(curves: pd.DataFrame, ax: Axes) -> Axes:
    """Every signal's frontier on one axis. `curves`: `signal`, `answered`, `false_recall`, and the totals."""
    for colour, (name, part) in zip(CURVES, curves.groupby("signal", sort=False), strict=False):
        bold = name == "margin"
        ax.plot(
            part["false_recall"],
            part["answered"],
            drawstyle="steps-post",
            color=colour,
            linewidth=2.6 if bold else 1.3,
            label=name,
        )
    ax.set_xlabel(f"false recalls, of {int(curves['silent'].iloc[0])} that must stay silent")
    ax.set_ylabel(f"answered, of {int(curves['answerable'].iloc[0])}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    legend(ax, 3)
    return ax


def drift(table: pd.DataFrame, ax: Axes) -> Axes:
    """Recall@1, answered and false recall of one gate in stores of growing size. `table`: `drift.sizes`."""
    if table.empty:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "no sizes were asked for", ha="center", va="center")
        return ax
    for column, total, colour, label in (
        ("right_first", "answerable", "#56B4E9", "recall@1"),
        ("answered", "answerable", COLOURS["right"], "answered"),
        ("false_recall", "silent", COLOURS["silent"], "false recall"),
    ):
        shares = table[column] / table[total]
        ax.plot(table["size"], shares, marker="o", color=colour, label=label)
        ax.annotate(f"{shares.iloc[-1]:.0%}", (table["size"].iloc[-1], shares.iloc[-1]), xytext=(6, 0),
                    textcoords="offset points", fontsize=8, color=colour)  # fmt: skip
    ax.set_xscale("log")
    ax.set_xticks(table["size"], [f"{size:,}" for size in table["size"]])
    ax.minorticks_off()
    ax.set_ylim(0, 1)
    ax.set_xlabel("memories in the store")
    ax.set_ylabel("share")
    legend(ax, 3)
    return ax

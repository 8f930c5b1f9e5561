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


def grid(
    answered: NDArray[np.intp],
    false_recall: NDArray[np.intp],
    min_scores: Sequence[float],
    deltas: Sequence[float],
    chosen: tuple[float, float],
    best: NDArray[np.bool_],
    ax: Axes,
) -> Axes:
    """Answered as shade, false recalls as contour lines, a column a delta and a row a min_score.

    `answered`, `false_recall`: (m, d) counts. `chosen`: (min_score, delta), marked with a star. `best`:
    (m, d) bool, the settings on the frontier, dotted.
    """
    shade = ax.pcolormesh(deltas, min_scores, answered, cmap="Blues", shading="nearest")
    ax.figure.colorbar(shade, ax=ax, label="answered")
    top = int(false_recall.max())
    levels = sorted({1, *(round(top * share) for share in (0.05, 0.1, 0.25, 0.5, 0.75))} - {0})
    lines = ax.contour(
        deltas, min_scores, false_recall, levels=levels, colors=COLOURS["silent"], linewidths=1
    )
    ax.clabel(lines, fmt="%d false", fontsize=8)
    ax.plot(
        chosen[1], chosen[0], marker="*", markersize=14, color=GATE, markeredgecolor="white", linestyle=""
    )
    at = np.argwhere(best)
    ax.scatter(np.array(deltas)[at[:, 1]], np.array(min_scores)[at[:, 0]], s=5, color="#E69F00", linewidths=0)
    ax.set_xlabel("delta: lead over the runner-up")
    ax.set_ylabel("min_score")
    return ax


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

"""What all plots share: the style file, one colour an outcome, and where legends and words go.

The colours are of the palette of Okabe and Ito, which colour-blind readers can tell apart; shape or hatching
says the same a second time. What is no outcome has a colour of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

Look = dict[str, Any]
STYLE = Path(__file__).parents[1] / "recall.mplstyle"
COLOURS = {"right": "#0072B2", "wrong": "#E69F00", "silent": "#CC3311"}
HATCHES = {"right": "", "wrong": "//", "silent": ".."}
MARKERS = {"right": "o", "wrong": "s", "silent": "X"}
LABELS = {"right": "right first", "wrong": "wrong or tie on top", "silent": "must stay silent"}
ON_BARS = {"right": "white", "wrong": "#222222", "silent": "white"}
PLAIN, OTHER, TRACK = "#8A8A8A", "#009E73", "#ECECEC"
"""For what is no outcome: the plain thing, what it is compared with, and the whole that a bar is part of."""
GATE = "#222222"
BINS = 20
FEW = 60
"""Up to so many cases, the bars carry their counts."""
QUANTITIES = {"top1": "top-1 score (cosine)", "margin": "margin, top-1 minus top-2"}
TRENDS = {"recall@1": "right", "answered": "right", "false_recall": "silent"}
"""The metrics a trend is drawn of, and the outcome whose colour each has."""


def use_style() -> None:
    """Draw everything that follows in the project's style."""
    matplotlib.style.use(STYLE)


def groups(rows: pd.DataFrame, quantity: str) -> dict[str, NDArray[np.float64]]:
    """A score or a margin of each case, by outcome."""
    place = rows["place"]
    wanted = {
        "right": place == "right_first",
        "wrong": place.isin(["wrong_on_top", "tie_on_top"]),
        "silent": place == "silent",
    }
    return {name: rows.loc[mask, quantity].to_numpy(np.float64) for name, mask in wanted.items()}


def legend(ax: Axes, columns: int) -> None:
    """Above the axes, where it hides nothing."""
    ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=columns)


def cost_axes(ax: Axes, counts: pd.DataFrame, columns: int) -> None:
    """Axes of false recalls against answered. `counts`: with the totals `answerable` and `silent`."""
    answerable, silent = counts[["answerable", "silent"]].iloc[0].astype(int)
    ax.set_xlabel(f"false recalls, of {silent} that must stay silent (fewer is better)")
    ax.set_ylabel(f"answered, of {answerable}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    legend(ax, columns)


def curve(ax: Axes, table: pd.DataFrame, label: str, colour: str, **look: Any) -> None:
    """The most that is answered at so many false recalls, in steps."""
    look = {"drawstyle": "steps-post", "color": colour, **look}
    ax.plot(table["false_recall"], table["answered"], label=label, **look)


def band(ax: Axes, table: pd.DataFrame, colour: str) -> None:
    """The interval of a `curve`. `table`: as `bands.frontier_band` gives it."""
    look: Look = {"step": "post", "color": colour, "alpha": 0.15, "linewidth": 0}
    ax.fill_between(table["false_recall"], table["low"], table["high"], label="95% band", **look)


def star(ax: Axes, at: tuple[float, float], label: str) -> None:
    """The setting that is configured."""
    look: Look = {"color": GATE, "markeredgecolor": "white", "clip_on": False, "zorder": 4}
    ax.plot(*at, "*", markersize=15, label=label, **look)


def say(ax: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **look: Any) -> None:
    """A few words beside a point, `offset` points away; with a negative one they end there."""
    look = {"fontsize": 8.5, "color": GATE, "ha": "right" if offset[0] < 0 else "left", **look}
    ax.annotate(text, at, xytext=offset, textcoords="offset points", **look)


def name_sides(ax: Axes, gate_at: float) -> None:
    """Say on which side of a gate the memory speaks, where there is room for it."""
    low, high = ax.get_xlim()
    place = (gate_at - low) / (high - low)
    top = ax.get_ylim()[1]
    if place > 0.2:
        say(ax, "quiet ◂", (gate_at, top), (-5, -9))
    if place < 0.8:
        say(ax, "▸ spoken", (gate_at, top), (5, -9))

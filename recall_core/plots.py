"""Plots: (frame, ax) -> ax. No files, no state; the style is `recall.mplstyle`.

One colour an outcome everywhere, from the palette of Okabe and Ito, which colour-blind readers can tell
apart; shape or hatching says the same a second time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

STYLE = Path(__file__).with_name("recall.mplstyle")
COLOURS = {"right": "#0072B2", "wrong": "#E69F00", "silent": "#CC3311"}
HATCHES = {"right": "", "wrong": "//", "silent": ".."}
MARKERS = {"right": "o", "wrong": "s", "silent": "X"}
LABELS = {"right": "right first", "wrong": "wrong or tie on top", "silent": "must stay silent"}
GATE = "#222222"


def use_style() -> None:
    """Draw everything that follows in the project's style."""
    matplotlib.style.use(STYLE)


def histogram(
    rows: pd.DataFrame, ax: Axes, quantity: Literal["top1", "margin"], gate_at: float | None = None
) -> Axes:
    """Score or margin by outcome, one row of bars each on a shared axis, the gate as a line.

    Infinite values (nothing came back, or no runner-up) are left out and counted under the axis.
    """
    groups = _groups(rows, quantity)
    finite = {name: values[np.isfinite(values)] for name, values in groups.items()}
    left_out = sum(len(groups[name]) - len(finite[name]) for name in groups)
    everything = np.concatenate([*finite.values(), [] if gate_at is None else [gate_at]])
    if not len(everything):
        everything = np.array([0.0, 1.0])
    edges = np.linspace(everything.min(), max(everything.max(), everything.min() + 1e-6), 25)
    bottom = np.zeros(len(edges) - 1)
    for name, values in finite.items():
        counts, _ = np.histogram(values, edges)
        ax.bar(
            edges[:-1],
            counts,
            width=np.diff(edges),
            align="edge",
            bottom=bottom,
            color=COLOURS[name],
            hatch=HATCHES[name],
            edgecolor="white",
            linewidth=0.4,
            label=f"{LABELS[name]} (n={len(values)})",
        )
        bottom += counts
    if gate_at is not None:
        ax.axvline(gate_at, color=GATE, linestyle="--", linewidth=1.3, label=f"gate {gate_at:g}")
    named = {"top1": "top-1 score (cosine)", "margin": "margin, top-1 minus top-2"}[quantity]
    ax.set_xlabel(named + (f"; {left_out} not finite, not drawn" if left_out else ""))
    ax.set_ylabel("cases")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(axis="x", visible=False)
    ax.set_ylim(0, max(bottom.max() * 1.08, 1))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax


def frontier(sweep: pd.DataFrame, ax: Axes, knob: Literal["min_score", "delta"]) -> Axes:
    """False recalls against answered, a point a setting; the frontier is a line, the chosen point named."""
    settings = sweep.drop_duplicates(["answered", "false_recall"])
    ax.plot(
        settings["false_recall"],
        settings["answered"],
        linestyle="none",
        marker="o",
        markersize=5,
        markerfacecolor="white",
        color="#777777",
        label="dominated settings",
    )
    best = sweep[sweep["on_frontier"]].drop_duplicates(["answered", "false_recall"])
    best = best.sort_values("false_recall")
    ax.plot(
        best["false_recall"],
        best["answered"],
        drawstyle="steps-post",
        marker="o",
        markersize=6,
        color=COLOURS["right"],
        label="frontier",
    )
    for _, setting in best.iterrows():
        ax.annotate(
            f"{setting[knob]:g}",
            (setting["false_recall"], setting["answered"]),
            xytext=(6, 6),
            textcoords="offset points",
            fontsize=8,
            color="#444444",
        )
    chosen = sweep[sweep["chosen"]].iloc[0]
    ax.plot(
        chosen["false_recall"],
        chosen["answered"],
        linestyle="none",
        marker="*",
        markersize=15,
        color=COLOURS["silent"],
        markeredgecolor="white",
        label=f"chosen: {knob} {chosen[knob]:g}",
    )
    answerable, silent = int(chosen["answerable"]), int(chosen["silent"])
    ax.set_xlabel(f"false recalls, of {silent} that must stay silent (fewer is better)")
    ax.set_ylabel(f"answered, of {answerable}")
    highest = max(int(sweep["answered"].max()), 1)
    ax.set_xlim(-0.05 * max(silent, 1), 1.05 * max(silent, 1))
    ax.set_ylim(-0.08 * highest, 1.15 * highest)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return ax


def strips(runs: dict[str, pd.DataFrame], ax: Axes, quantity: Literal["top1", "margin"]) -> Axes:
    """Score or margin of every case, one strip an embedder and outcome, all on one axis. A bar is the median.

    `runs`: scored rows by embedder. Infinite values are left out.
    """
    names = list(runs)
    for at, name in enumerate(names):
        for offset, (group, values) in enumerate(_groups(runs[name], quantity).items()):
            finite = np.sort(values[np.isfinite(values)])
            height = at + 0.27 * (offset - 1)
            spread = 0.08 * np.sin(2.4 * np.arange(len(finite)))
            ax.scatter(
                finite,
                height + spread,
                s=16,
                color=COLOURS[group],
                marker=MARKERS[group],
                alpha=0.75,
                linewidths=0,
                label=LABELS[group] if at == 0 else None,
            )
            if len(finite):
                middle = float(np.median(finite))
                ax.plot([middle, middle], [height - 0.12, height + 0.12], color=GATE, linewidth=1.6)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel({"top1": "top-1 score (cosine)", "margin": "margin, top-1 minus top-2"}[quantity])
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return ax


def _groups(rows: pd.DataFrame, quantity: str) -> dict[str, np.ndarray]:
    place = rows["place"]
    wanted = {
        "right": place == "right_first",
        "wrong": place.isin(["wrong_on_top", "tie_on_top"]),
        "silent": place == "silent",
    }
    return {name: rows.loc[mask, quantity].to_numpy(np.float64) for name, mask in wanted.items()}

"""Plots of one run: its scores and margins, its frontier, where it loses cases, how far its word holds."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from recall_core.plots import style


def binned(
    rows: pd.DataFrame, quantity: Literal["top1", "margin"], gate_at: float | None = None
) -> pd.DataFrame:
    """What `histogram` draws: `left` and `right` of each bin and the cases in it, by outcome.

    Bins are [left, right), the last one with its right edge; the gate lies between two of them. Infinite
    values are in none.
    """
    finite = {name: values[np.isfinite(values)] for name, values in style.groups(rows, quantity).items()}
    everything = np.concatenate([*finite.values(), [] if gate_at is None else [gate_at]])
    if not len(everything):
        everything = np.array([0.0, 1.0])
    edges = _edges(everything.min(), max(everything.max(), everything.min() + 1e-6), gate_at)
    counts = {name: np.histogram(values, edges)[0] for name, values in finite.items()}
    return pd.DataFrame({"left": edges[:-1], "right_edge": edges[1:], **counts})


def _edges(low: float, high: float, gate_at: float | None) -> NDArray[np.float64]:
    if gate_at is None:
        return np.linspace(low, high, style.BINS + 1)
    width = (high - low) / style.BINS
    below, above = (gate_at - low) / width, (high - gate_at) / width
    edges = gate_at + width * np.arange(-np.ceil(below - 1e-9), np.ceil(above - 1e-9) + 1)
    # Rounding may leave the outermost values a hair outside.
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    return np.asarray(edges)


def histogram(
    rows: pd.DataFrame, ax: Axes, quantity: Literal["top1", "margin"], gate_at: float | None = None
) -> Axes:
    """Score or margin by outcome, stacked on a shared axis, the gate as a line.

    Infinite values (nothing came back, or no runner-up) are left out and counted under the axis.
    """
    groups = style.groups(rows, quantity)
    table = binned(rows, quantity, gate_at)
    left_out = sum(int((~np.isfinite(values)).sum()) for values in groups.values())
    width = table["right_edge"] - table["left"]
    bottom = np.zeros(len(table))
    for name, values in groups.items():
        colour = style.COLOURS[name]
        look: style.Look = {"color": colour, "hatch": style.HATCHES[name], "edgecolor": "white"}
        label = f"{style.LABELS[name]} (n={len(values)})"
        bars = ax.bar(table["left"], table[name], width, bottom, align="edge", lw=0.6, label=label, **look)
        bottom += table[name].to_numpy()
        if len(rows) <= style.FEW:
            shown = [str(count) if count > 1 else "" for count in table[name]]
            words: style.Look = {"color": style.ON_BARS[name], "fontsize": 8.5, "weight": "bold"}
            around = [withStroke(linewidth=3, foreground=colour)]
            ax.bar_label(bars, shown, label_type="center", path_effects=around, zorder=3, **words)
    if gate_at is not None:
        ax.axvline(gate_at, color=style.GATE, linestyle="--", linewidth=1.3, label=f"gate {gate_at:g}")
    ax.set_xlabel(style.QUANTITIES[quantity] + (f"; {left_out} not finite, not drawn" if left_out else ""))
    ax.set_ylabel("cases")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(axis="x", visible=False)
    ax.set_ylim(0, max(bottom.max() * 1.15, 1))
    if gate_at is not None:
        style.name_sides(ax, gate_at)
    style.legend(ax, 2)
    return ax


def frontier(
    sweep: pd.DataFrame, ax: Axes, knob: Literal["min_score", "delta"], band: pd.DataFrame | None = None
) -> Axes:
    """False recalls against answered, a point a setting; the frontier is a line, the chosen point named.

    `band`: as `bands.frontier_band` gives it.
    """
    if band is not None:
        style.band(ax, band, style.COLOURS["right"])
    settings = sweep.drop_duplicates(["answered", "false_recall"]).sort_values("false_recall")
    best = settings[settings["on_frontier"]]
    dots: style.Look = {"linestyle": "none", "marker": "o", "markersize": 5, "markerfacecolor": "white"}
    style.curve(ax, settings, "dominated", "#777777", **dots)
    style.curve(ax, best, "frontier", style.COLOURS["right"], marker="o", markersize=6)
    chosen = sweep[sweep["chosen"]].iloc[0]
    at = (chosen["false_recall"], chosen["answered"])
    for setting in best.to_dict("records"):
        point = (setting["false_recall"], setting["answered"])
        if point != at:
            style.say(ax, f"{setting[knob]:g}", point, (5, 5), color="#444444")
    named = f"{knob} {chosen[knob]:g}"
    style.star(ax, at, f"chosen: {named}")
    width = max(int(chosen["silent"]), 1)
    style.say(ax, named, at, (-8 if at[0] > 0.6 * width else 8, -13), weight="bold")
    highest = max(int(sweep["answered"].max()), 1, *([] if band is None else [band["high"].max()]))
    ax.set_xlim(-0.05 * width, 1.08 * width)
    ax.set_ylim(-0.12 * highest, 1.12 * highest)
    style.cost_axes(ax, sweep, 3 if band is None else 4)
    return ax


def steps(rows: pd.DataFrame, k: int = 3) -> pd.DataFrame:
    """What `funnel` draws: `step`, `cases`, `of`, `outcome`. `rows`: scored and gated cases."""
    asked = rows[rows["answerable"]]
    quiet = rows[~rows["answerable"]]
    found = asked["rank"].between(1, k)
    counted = [
        (f"found within {k}", found, "right"),
        ("right first", asked["place"] == "right_first", "right"),
        ("answered", asked["outcome"] == "answered", "right"),
        ("misled", asked["outcome"] == "misled", "wrong"),
        ("kept quiet", quiet["outcome"] == "kept_quiet", "quiet"),
        ("spoke: false recall", quiet["outcome"] == "false_recall", "silent"),
    ]
    return pd.DataFrame(
        [(step, int(held.sum()), len(held), outcome) for step, held, outcome in counted],
        columns=["step", "cases", "of", "outcome"],
    )


def funnel(rows: pd.DataFrame, ax: Axes, k: int = 3) -> Axes:
    """Where cases are lost: of the answerable found, first, answered; of the silent kept quiet, spoken.

    Bars are shares of their own kind of case, on a track that is all of them; the counts stand beside.
    """
    table = steps(rows, k)
    at = np.array([0, 1, 2, 3, 4.6, 5.6])
    ax.barh(at, np.where(table["of"] > 0, 1.0, 0.0), 0.72, color=style.TRACK)
    fill = {**style.COLOURS, "quiet": style.PLAIN}
    for place, row in zip(at, table.itertuples(), strict=True):
        look: style.Look = {"color": fill[row.outcome], "hatch": style.HATCHES.get(row.outcome, "")}
        ax.barh(place, row.cases / max(row.of, 1), 0.72, edgecolor="white", linewidth=0, **look)
        said = f"{row.cases}/{row.of}" if row.of else "no cases"
        ax.text(1.02, place, said, va="center", fontsize=9.5, color="#222222")
    ax.set_yticks(at, list(table["step"]))
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 1.16)
    ax.set_xticks(np.linspace(0, 1, 5))
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.grid(axis="y", visible=False)
    ax.spines["left"].set_visible(False)
    for place, kind in ((-0.55, "answerable"), (4.05, "must stay silent")):
        ax.text(0, place, kind, fontsize=9, color="#555555", va="bottom")
    ax.set_ylim(6.1, -1.1)
    ax.set_xlabel("share of the cases of that kind")
    return ax


def calibration(table: pd.DataFrame, ax: Axes) -> Axes:
    """Stated confidence against what came true, a point a bin with its 95% interval and its cases.

    `table`: as `stats.reliability` gives it. On the diagonal, what is said is what happens.
    """
    diagonal: style.Look = {"color": style.PLAIN, "linestyle": "--", "linewidth": 1}
    ax.plot([0, 1], [0, 1], label="what it says is what happens", **diagonal)
    held = table[table["n"] > 0]
    bars = [held["share"] - held["low"], held["high"] - held["share"]] if len(held) else None
    look: style.Look = {"color": style.COLOURS["right"], "ecolor": "#7fb4d6", "elinewidth": 2.5}
    label = "right, of the cases in the bin"
    ax.errorbar(held["confidence"], held["share"], bars, fmt="o", markersize=6, label=label, **look)
    for row in held.itertuples():
        style.say(ax, f"{row.hits}/{row.n}", (row.confidence, row.share), (7, -4))
    ax.set_xlim(-0.02, 1.08)
    ax.set_ylim(-0.04, 1.04)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.set_xlabel("stated confidence")
    ax.set_ylabel("came true")
    style.legend(ax, 2)
    return ax

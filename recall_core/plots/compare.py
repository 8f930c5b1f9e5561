"""Plots side by side: embedders, search modes, subsets of streams, and a run with its past."""

from __future__ import annotations

from datetime import date
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from recall_core.plots import style


def strips(runs: dict[str, pd.DataFrame], ax: Axes, quantity: Literal["top1", "margin"]) -> Axes:
    """Score or margin of every case, one strip an embedder and outcome, all on one axis. A bar is the median.

    `runs`: scored rows by embedder. Infinite values are left out.
    """
    names = list(runs)
    for at, name in enumerate(names):
        for offset, (group, values) in enumerate(style.groups(runs[name], quantity).items()):
            finite = np.sort(values[np.isfinite(values)])
            height = at + 0.27 * (offset - 1)
            spread = 0.08 * np.sin(2.4 * np.arange(len(finite)))
            ax.scatter(
                finite,
                height + spread,
                s=16,
                color=style.COLOURS[group],
                marker=style.MARKERS[group],
                alpha=0.75,
                linewidths=0,
                label=style.LABELS[group] if at == 0 else None,
            )
            if len(finite):
                middle = float(np.median(finite))
                ax.plot([middle, middle], [height - 0.12, height + 0.12], color=style.GATE, linewidth=1.6)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel(style.QUANTITIES[quantity])
    ax.grid(axis="y", visible=False)
    style.legend(ax, 3)
    return ax


def kinds(table: pd.DataFrame, ax: Axes) -> Axes:
    """Probes found within five, two bars a kind: keyword alone and hybrid, the counts on the bars.

    `table`: `kind`, `keyword`, `hybrid`, `n`.
    """
    at = np.arange(len(table))
    for offset, (mode, colour) in enumerate((("keyword", style.PLAIN), ("hybrid", style.OTHER))):
        shares = table[mode] / table["n"]
        bars = ax.bar(at + 0.4 * offset - 0.2, shares, 0.38, color=colour, label=mode)
        counted = [f"{hits}/{n}" for hits, n in zip(table[mode], table["n"], strict=True)]
        ax.bar_label(bars, counted, fontsize=8, padding=2)
    ax.set_xticks(at, table["kind"])
    ax.set_ylim(0, 1.12)
    ax.set_ylabel("share found within five")
    ax.grid(axis="x", visible=False)
    style.legend(ax, 2)
    return ax


def subsets(table: pd.DataFrame, ax: Axes) -> Axes:
    """Difference of each subset of streams to all of them, in points, with its 95% interval.

    `table`: `streams`, `difference`, `low`, `high`, `hits`, `n`.
    """
    at = np.arange(len(table))
    middle = 100 * table["difference"].to_numpy()
    bars = np.abs(100 * table[["low", "high"]].to_numpy().T - middle)
    ax.errorbar(middle, at, xerr=bars, fmt="o", color=style.OTHER, ecolor="#8fd0bb", elinewidth=3)
    ax.axvline(0, color=style.GATE, linewidth=1)
    labels = [f"{row.streams} ({row.hits}/{row.n})" for row in table.itertuples()]
    ax.set_yticks(at, labels)
    ax.invert_yaxis()
    ax.set_xlabel("recall@5 against all streams, in points")
    return ax


def trend(history: pd.DataFrame, ax: Axes, metric: str) -> Axes:
    """One metric of one embedder over time with its 95% interval, the last value named.

    `history`: `day`, `hits`, `n`, `share`, `low`, `high` and `series`, oldest first. Runs of another series
    measured something else (a fixture, a model): the line breaks there, and a dotted line says so.
    """
    colour = style.COLOURS[style.TRENDS.get(metric, "right")]
    runs = history[history["n"] > 0]
    at = pd.to_datetime(runs["day"]).map(pd.Timestamp.toordinal)
    broken = (runs["series"] != runs["series"].shift()).cumsum()
    before = None
    for _, part in runs.groupby(broken):
        days = at[part.index].to_numpy()
        ax.fill_between(days, part["low"], part["high"], color=colour, alpha=0.16, linewidth=0)
        if len(part) == 1:
            ax.vlines(days, part["low"], part["high"], color=colour, alpha=0.3, linewidth=4)
        ax.plot(days, part["share"], color=colour, marker="o", markersize=4.5)
        if before is not None:
            ax.axvline((before + days[0]) / 2, color=style.PLAIN, linestyle=":", linewidth=1.2)
        before = days[-1]
    ax.set_ylim(-0.03, 1.12)
    ax.set_yticks([0, 0.5, 1])
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.grid(axis="x", visible=False)
    ax.set_xticks([])
    if before is not None:
        last = runs.iloc[-1]
        said = f"{last['share']:.0%} ({int(last['hits'])}/{int(last['n'])})"
        ax.set_title(said, loc="right", fontsize=10, weight="bold", color=style.GATE)
        _name_days(ax, at.iloc[0], before)
    return ax


def _name_days(ax: Axes, first: int, last: int) -> None:
    """The first and the last day on the axis: what is between can be counted."""
    shown = sorted({first, last})
    ax.set_xticks(shown, [f"{date.fromordinal(day):%d-%m-%Y}" for day in shown])
    if len(shown) == 1:
        ax.set_xlim(first - 1, last + 1)
        return
    start, end = ax.get_xticklabels()
    start.set_horizontalalignment("left")
    end.set_horizontalalignment("right")

"""Plots side by side: paths, their parts, and a run with its past."""

from __future__ import annotations

import itertools
from datetime import date
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from recall_core.plots import style


def strips(runs: dict[str, pd.DataFrame], ax: Axes, quantity: Literal["top1", "margin"]) -> Axes:
    """Score or margin of every case, one strip a path and outcome, all on one axis. A bar is the median.

    `runs`: scored rows by path. Infinite values are left out.
    """
    names = list(runs)
    for at, name in enumerate(names):
        for offset, (group, values) in enumerate(style.groups(runs[name], quantity).items()):
            finite = np.sort(values[np.isfinite(values)])
            height = at + 0.27 * (offset - 1)
            spread = 0.08 * np.sin(2.4 * np.arange(len(finite)))
            look: style.Look = {"color": style.COLOURS[group], "marker": style.MARKERS[group]}
            label = style.LABELS[group] if at == 0 else None
            ax.scatter(finite, height + spread, s=16, alpha=0.75, linewidths=0, label=label, **look)
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
    """Cases found within k, a bar a path for each kind of case, the counts on the bars.

    `table`: `kind`, a column for each path, `n`.
    """
    at = np.arange(len(table))
    paths = [name for name in table.columns if name not in ("kind", "n")]
    width = 0.8 / len(paths)
    colours = [style.PLAIN, style.OTHER, *style.COLOURS.values()]
    for offset, (path, colour) in enumerate(zip(paths, itertools.cycle(colours), strict=False)):
        place = at + width * (offset - (len(paths) - 1) / 2)
        bars = ax.bar(place, table[path] / table["n"], 0.95 * width, color=colour, label=path)
        counted = [f"{hits}/{n}" for hits, n in zip(table[path], table["n"], strict=True)]
        ax.bar_label(bars, counted, fontsize=8, padding=2)
    ax.set_xticks(at, table["kind"])
    ax.set_ylim(0, 1.12)
    ax.set_ylabel("share found")
    ax.grid(axis="x", visible=False)
    style.legend(ax, min(len(paths), 4))
    return ax


def parts(table: pd.DataFrame, ax: Axes) -> Axes:
    """Difference of each path to the first, in points, with its 95% interval.

    `table`: `path`, `difference`, `low`, `high`, `hits`, `n`; the first row is what the others are held to.
    """
    shown = table.iloc[1:]
    at = np.arange(len(shown))
    middle = 100 * shown["difference"].to_numpy()
    bars = np.abs(100 * shown[["low", "high"]].to_numpy().T - middle)
    ax.errorbar(middle, at, xerr=bars, fmt="o", color=style.OTHER, ecolor="#8fd0bb", elinewidth=3)
    ax.axvline(0, color=style.GATE, linewidth=1)
    ax.set_yticks(at, [f"{row.path} ({row.hits}/{row.n})" for row in shown.itertuples()])
    ax.invert_yaxis()
    ax.set_xlabel(f"recall against {table['path'].iloc[0]}, in points")
    return ax


def trend(history: pd.DataFrame, ax: Axes, metric: str) -> Axes:
    """One metric of one path over time with its 95% interval, the last value named.

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

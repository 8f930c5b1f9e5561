"""The numbers behind each figure of a report, as a table that says the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import numpy as np
import pandas as pd

from recall_core import plots
from recall_core.reporting import bands
from recall_core.runs import Result

Tables = dict[str, dict[str, pd.DataFrame]]


def table(job: str, file: str, results: Sequence[Result], tables: Tables) -> pd.DataFrame | None:
    """What the figure `file` of a job shows, in words and digits; None where nobody knows.

    `job`: the embedder of a run, or a section of the report. A section's figure has the table of the same
    name among `tables`, where there is one.
    """
    figure = PurePosixPath(file).stem.removeprefix(f"{job}-")
    for result in results:
        if result.path == job and figure in OF_A_RUN:
            return OF_A_RUN[figure](result)
    if job == "embedders" and figure in STRIPS:
        return _strips([result for result in results if result.kind != "hash"], STRIPS[figure])
    held = tables.get(job, {}).get(figure)
    return None if held is None else held.map(_said).rename(columns=lambda name: name.replace("_", " "))


def _histogram(result: Result, quantity: str, gate_at: float | None) -> pd.DataFrame:
    binned = plots.binned(result.rows, quantity, gate_at)  # type: ignore[arg-type]
    names = list(plots.LABELS)
    held = binned[binned[names].sum(axis=1) > 0]
    shown = held[names].astype(str).rename(columns=plots.LABELS)
    at = [f"{left:.4f} to {right:.4f}" for left, right in zip(held["left"], held["right_edge"], strict=True)]
    shown.insert(0, {"top1": "score", "margin": "margin"}[quantity], at)
    if gate_at is not None:
        shown["the gate"] = np.where(held["left"] >= gate_at - 1e-9, "opens", "stays shut")
    return shown


def _frontier(result: Result) -> pd.DataFrame:
    sweep = result.margin
    band = bands.frontier_band(result.rows, sweep).set_index("false_recall")
    points = []
    for (false, answered), same in sweep.groupby(["false_recall", "answered"], sort=True):
        low, high = (band[side].get(false, np.nan) for side in ("low", "high"))
        on = bool(same["on_frontier"].iloc[0])
        deltas = ", ".join(f"{delta:g}" for delta in same["delta"])
        interval = f"{low:.0f} to {high:.0f}" if on and low == low else ""
        marks = " and ".join(["frontier"] * on + ["chosen"] * bool(same["chosen"].any()))
        points.append((deltas, str(false), str(answered), interval, marks))
    names = ["delta", "false recalls", "answered", "95% band of the frontier", ""]
    return pd.DataFrame(points, columns=names)


def _strips(results: Sequence[Result], quantity: str) -> pd.DataFrame:
    rows = []
    for result in results:
        for name, values in plots.groups(result.rows, quantity).items():
            about = pd.Series(values[np.isfinite(values)]).describe()
            cells = map(_said, about[["min", "25%", "50%", "75%", "max"]])
            rows.append((result.path, plots.LABELS[name], f"{about['count']:.0f}", *cells))
    columns = ["path", "outcome", "drawn", "least", "25%", "median", "75%", "most"]
    return pd.DataFrame(rows, columns=columns)


def _said(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if np.isfinite(value) else "-"
    return str(value)


STRIPS = {"scores": "top1", "margins": "margin"}
OF_A_RUN: dict[str, Callable[[Result], pd.DataFrame]] = {
    "scores": lambda result: _histogram(result, "top1", result.min_score),
    "margins": lambda result: _histogram(result, "margin", result.delta),
    "frontier": _frontier,
    "funnel": lambda result: plots.steps(result.rows, result.top_k)[["step", "cases", "of"]].astype(str),
}

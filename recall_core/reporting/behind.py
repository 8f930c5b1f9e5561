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
        points.append(
            {
                "delta": ", ".join(f"{delta:g}" for delta in same["delta"]),
                "false recalls": f"{false}",
                "answered": f"{answered}",
                "95% band of the frontier": f"{low:.0f} to {high:.0f}" if on and low == low else "",
                "": " and ".join(["frontier"] * on + ["chosen"] * bool(same["chosen"].any())),
            }
        )
    return pd.DataFrame(points)


def _funnel(result: Result) -> pd.DataFrame:
    steps = plots.steps(result.rows, result.top_k)
    return pd.DataFrame(
        {"step": steps["step"], "cases": steps["cases"].astype(str), "of": steps["of"].astype(str)}
    )


def _strips(results: Sequence[Result], quantity: str) -> pd.DataFrame:
    rows = []
    for result in results:
        for name, values in plots.groups(result.rows, quantity).items():
            finite = values[np.isfinite(values)]
            quartiles = np.quantile(finite, [0, 0.25, 0.5, 0.75, 1]) if len(finite) else [np.nan] * 5
            cells = dict(zip(["least", "25%", "median", "75%", "most"], map(_said, quartiles), strict=True))
            rows.append(
                {
                    "path": result.path,
                    "outcome": plots.LABELS[name],
                    "drawn": str(len(finite)),
                    **cells,
                }
            )
    return pd.DataFrame(rows)


def _said(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if np.isfinite(value) else "-"
    return str(value)


STRIPS = {"scores": "top1", "margins": "margin"}
OF_A_RUN: dict[str, Callable[[Result], pd.DataFrame]] = {
    "scores": lambda result: _histogram(result, "top1", result.min_score),
    "margins": lambda result: _histogram(result, "margin", result.delta),
    "frontier": _frontier,
    "funnel": _funnel,
}

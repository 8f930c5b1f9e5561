"""Plots: (frame, ax) -> ax. No files, no state; the style is `recall.mplstyle`."""

from recall_core.plots.cases import binned, calibration, frontier, funnel, histogram, steps
from recall_core.plots.compare import kinds, parts, strips, trend
from recall_core.plots.gates import drift, grid, grid_frontier, signal_frontiers
from recall_core.plots.style import COLOURS, HATCHES, LABELS, STYLE, groups, use_style

__all__ = [
    "COLOURS",
    "HATCHES",
    "LABELS",
    "STYLE",
    "binned",
    "calibration",
    "drift",
    "frontier",
    "funnel",
    "grid",
    "grid_frontier",
    "groups",
    "histogram",
    "kinds",
    "parts",
    "signal_frontiers",
    "steps",
    "strips",
    "trend",
    "use_style",
]

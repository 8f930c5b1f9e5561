"""Plots draw what the frame holds, whatever it holds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from io import BytesIO

import matplotlib.style
import numpy as np
import pytest
from builders import case_of, published_rows, result_of, right, row_of, silent, wrong
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recall_core import plots, scoring
from recall_core.gates import Gate
from recall_core.scoring import Row

GATE = Gate(0.55, 0.008)
KINDS = {
    "normal": published_rows(),
    "no silent case": [right(0.9, 0.3), wrong(0.8, 0.1)],
    "all scores equal": [right(0.75, 0.25), wrong(0.75, 0.25), silent(0.75, 0.25)],
    "infinite margins": [right(0.9), right(0.8), row_of(case_of(""), c=0.7)],
    "a single case": [right(0.9, 0.3)],
    "only silent": [silent(0.9, 0.3)],
    "nothing found": [row_of(case_of("a")), scoring.failed_case(case_of("a"), "no disk")],
}

every_kind = pytest.mark.parametrize("rows", KINDS.values(), ids=KINDS.keys())
either = pytest.mark.parametrize(
    ("quantity", "gate_at"), [("top1", 0.55), ("margin", 0.008), ("margin", None)]
)


@pytest.fixture
def ax() -> Iterator[Axes]:
    with matplotlib.style.context(plots.STYLE):
        yield Figure().subplots()


def draw(ax: Axes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.savefig(BytesIO(), format="png", dpi=40)


def drawn_histogram(ax: Axes, rows: list[Row], quantity: str, gate_at: float | None = None) -> Axes:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return plots.histogram(scoring.frame(rows), ax, quantity, gate_at)  # type: ignore[arg-type]


def bars(ax: Axes) -> float:
    return sum(patch.get_height() for patch in ax.patches)  # type: ignore[attr-defined]


def points(ax: Axes) -> set[tuple[float, float]]:
    return {tuple(point) for line in ax.lines for point in np.column_stack(line.get_data())}


@every_kind
@either
def test_a_histogram_of_anything_is_drawn_and_its_bars_count_the_finite_cases(
    ax: Axes, rows: list[Row], quantity: str, gate_at: float | None
) -> None:
    assert drawn_histogram(ax, rows, quantity, gate_at) is ax
    draw(ax)
    finite = np.isfinite(scoring.frame(rows)[quantity])
    assert bars(ax) == finite.sum()
    assert ("not finite" in ax.get_xlabel()) == (not finite.all())
    assert ax.get_ylabel()


def test_the_bars_of_the_published_margins_are_all_thirty(ax: Axes) -> None:
    assert bars(drawn_histogram(ax, published_rows(), "margin")) == 18 + 7 + 5


def test_infinite_margins_are_left_out_and_counted(ax: Axes) -> None:
    drawn_histogram(ax, [right(0.9, 0.3), right(0.9), right(0.8)], "margin")
    assert bars(ax) == 1
    assert "2" in ax.get_xlabel().split(";")[1]


def test_each_bar_stands_where_its_value_is(ax: Axes) -> None:
    drawn_histogram(ax, [right(0.25), right(0.25), silent(0.75, 0.5)], "top1")
    tall = [
        (bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height())
        for bar in ax.patches
        if bar.get_height()
    ]
    ((left, right_edge, height), (other_left, other_right, other_height)) = sorted(tall)
    assert left <= 0.25 < right_edge
    assert other_left < 0.75 <= other_right + 1e-12
    assert (height, other_height) == (2, 1)


@pytest.mark.parametrize(("quantity", "at"), [("top1", 0.55), ("margin", 0.008)])
def test_the_gate_line_is_at_the_gate(ax: Axes, quantity: str, at: float) -> None:
    drawn_histogram(ax, published_rows(), quantity, at)
    (line,) = ax.lines
    assert list(line.get_xdata()) == [at, at]
    low, high = ax.get_xlim()
    assert low < at < high


def test_without_a_gate_there_is_no_line(ax: Axes) -> None:
    drawn_histogram(ax, published_rows(), "margin")
    assert not ax.lines


def test_the_legend_names_each_group_with_its_count(ax: Axes) -> None:
    drawn_histogram(ax, published_rows(), "margin", 0.008)
    texts = " ".join(text.get_text() for text in ax.get_legend().get_texts())
    assert [n for n in ("n=18", "n=7", "n=5", "0.008") if n not in texts] == []


def test_groups_can_be_told_apart_without_colour() -> None:
    assert len(set(plots.HATCHES.values())) == len(plots.HATCHES) == len(plots.COLOURS)


@every_kind
@pytest.mark.parametrize("knob", ["delta", "min_score"])
def test_a_frontier_of_anything_is_drawn_on_its_axes(ax: Axes, rows: list[Row], knob: str) -> None:
    result = result_of(rows, GATE)
    sweep = result.margin if knob == "delta" else result.absolute
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plots.frontier(sweep, ax, knob) is ax  # type: ignore[arg-type]
    draw(ax)
    assert ax.get_xlabel()
    assert ax.get_ylabel()


def test_a_frontier_shows_every_setting_and_names_the_chosen(ax: Axes) -> None:
    result = result_of(published_rows(), GATE, deltas=[0.0, 0.005, 0.008, 0.01, 0.02])
    plots.frontier(result.margin, ax, "delta")
    assert {(5, 18), (2, 17), (1, 17), (1, 15), (0, 11)} <= points(ax)
    texts = " ".join(text.get_text() for text in ax.get_legend().get_texts())
    assert "0.008" in texts


def test_the_frontier_line_holds_only_what_nothing_beats(ax: Axes) -> None:
    result = result_of(published_rows(), GATE, deltas=[0.0, 0.005, 0.008, 0.01, 0.02])
    plots.frontier(result.margin, ax, "delta")
    (line,) = [line for line in ax.lines if line.get_label() == "frontier"]
    assert [tuple(point) for point in np.column_stack(line.get_data())] == [(0, 11), (1, 17), (5, 18)]


def test_the_style_is_used_when_asked_for() -> None:
    with matplotlib.style.context("default"):
        plots.use_style()
        assert not matplotlib.rcParams["axes.spines.top"]

"""Plots draw what the frame holds, whatever it holds."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from io import BytesIO

import matplotlib.style
import numpy as np
import pandas as pd
import pytest
from builders import case_of, gated, published_rows, result_of, right, row_of, silent, wrong
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recall_core import plots, scoring, stats
from recall_core.gates import Gate
from recall_core.plots import style
from recall_core.reporting import bands
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


@pytest.mark.parametrize(("quantity", "at"), [("top1", 0.55), ("margin", 0.008)])
def test_no_bar_lies_on_both_sides_of_the_gate(quantity: str, at: float) -> None:
    binned = plots.binned(scoring.frame(published_rows()), quantity, at)  # type: ignore[arg-type]
    assert not ((binned["left"] < at - 1e-12) & (binned["right_edge"] > at + 1e-12)).any()
    assert binned[list(plots.LABELS)].sum().to_dict() == {"right": 18, "wrong": 7, "silent": 5}


def test_few_cases_have_their_counts_on_the_bars_and_many_have_not(ax: Axes) -> None:
    drawn_histogram(ax, [right(0.9, 0.3)] * 7, "top1")
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["7"]
    ax.clear()
    drawn_histogram(ax, [right(0.9, 0.3)] * 70, "top1")
    assert not [text for text in ax.texts if text.get_text()]


def test_the_band_lies_around_the_frontier_and_is_the_same_each_time() -> None:
    result = result_of(published_rows(), GATE, deltas=[0.0, 0.005, 0.008, 0.01, 0.02])
    band = bands.frontier_band(result.rows, result.margin)
    assert band["false_recall"].tolist() == [0, 1, 2, 3, 4, 5]
    assert band["answered"].tolist() == [11, 17, 17, 17, 17, 18]
    assert (band["low"] <= band["answered"]).all()
    assert (band["answered"] <= band["high"]).all()
    assert band["high"].is_monotonic_increasing
    pd.testing.assert_frame_equal(band, bands.frontier_band(result.rows, result.margin))


def test_cases_that_are_all_alike_leave_the_band_no_width() -> None:
    rows = [*[right(0.9, 0.3)] * 5, *[silent(0.3, 0.2)] * 3]
    result = result_of(rows, GATE, deltas=[0.0])
    band = bands.frontier_band(result.rows, result.margin, resamples=50)
    assert band[["answered", "low", "high"]].to_numpy().tolist() == [[5, 5, 5]] * 4


@every_kind
def test_a_band_and_a_funnel_of_anything_are_drawn(ax: Axes, rows: list[Row]) -> None:
    result = result_of(rows, GATE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        band = bands.frontier_band(result.rows, result.margin, resamples=20)
        plots.frontier(result.margin, ax, "delta", band)
        draw(ax)
        ax.clear()
        plots.funnel(result.rows, ax, 3)
    draw(ax)


def test_a_funnel_counts_each_step() -> None:
    rows = [right(0.9, 0.3), right(0.9, 0.001), wrong(0.9, 0.2), silent(0.9, 0.3), silent(0.1, 0.05)]
    table = plots.steps(gated(rows, GATE), 3).set_index("step")
    assert table["cases"].to_dict() == {
        "found within 3": 3,
        "right first": 2,
        "answered": 1,
        "misled": 1,
        "kept quiet": 1,
        "spoke: false recall": 1,
    }
    assert table["of"].tolist() == [3, 3, 3, 3, 2, 2]


def test_calibration_draws_a_point_a_bin_that_holds_cases(ax: Axes) -> None:
    table = stats.reliability([0.1, 0.1, 0.9, 0.9], [False, True, True, True], bins=5)
    plots.calibration(table, ax)
    draw(ax)
    assert {(0.1, 0.5), (0.9, 1.0)} <= points(ax)
    assert [text.get_text() for text in ax.texts] == ["1/2", "2/2"]
    empty = Figure().subplots()
    plots.calibration(stats.reliability([], []), empty)
    draw(empty)


def past(*nights: tuple[str, int, int]) -> pd.DataFrame:
    """(day, hits, series), each of ten cases."""
    frame = pd.DataFrame([(day, hits, 10, kind) for day, hits, kind in nights])
    return stats.with_intervals(frame.set_axis(["day", "hits", "n", "series"], axis=1))


def test_no_line_of_a_trend_joins_nights_that_are_not_comparable(ax: Axes) -> None:
    plots.trend(past(("2026-11-01", 5, 0), ("2026-11-02", 6, 0), ("2026-11-05", 9, 1)), ax, "recall@1")
    draw(ax)
    solid = [line.get_ydata().tolist() for line in ax.lines if line.get_linestyle() == "-"]
    dotted = [line.get_xdata() for line in ax.lines if line.get_linestyle() == ":"]
    assert solid == [[0.5, 0.6], [0.9]]
    days = [line.get_xdata() for line in ax.lines if line.get_linestyle() == "-"]
    assert days[0][-1] < dotted[0][0] < days[1][0]
    assert len(dotted) == 1
    assert "90% (9/10)" in ax.get_title(loc="right")


@pytest.mark.parametrize("nights", [[], [("2026-11-01", 5, 0)]])
def test_a_trend_of_one_night_or_none_is_drawn(ax: Axes, nights: list[tuple[str, int, int]]) -> None:
    frame = past(*nights) if nights else past(("2026-11-01", 5, 0)).head(0)
    plots.trend(frame, ax, "false_recall")
    draw(ax)


def test_what_is_no_outcome_has_no_outcome_s_colour() -> None:
    assert not {style.PLAIN, style.OTHER, style.TRACK} & set(plots.COLOURS.values())


COUNTS = np.array([[2, 1], [1, 0]])


@pytest.mark.parametrize(
    ("gate", "stands", "said"),
    [
        ((0.7, 0.05), (0.05, 0.7), None),
        ((0.2, 0.05), (0.05, "bottom"), "min_score 0.2, below every score"),
    ],
)
def test_a_gate_below_the_grid_stands_at_its_edge(
    ax: Axes, gate: tuple[float, float], stands: tuple[float, float | str], said: str | None
) -> None:
    plots.grid(COUNTS, COUNTS, [0.5, 0.9], [0.0, 0.1], gate, COUNTS == 1, COUNTS / 4, ax)
    draw(ax)
    (star,) = [line for line in ax.lines if line.get_marker() == "*"]
    bottom = ax.get_ylim()[0]
    assert star.get_xydata().tolist() == [[stands[0], bottom if stands[1] == "bottom" else stands[1]]]
    assert said is None or said in [text.get_text() for text in ax.texts]


def test_a_grid_dots_its_frontier_and_tints_what_is_often_on_it(ax: Axes) -> None:
    often = np.array([[0.09, 0.1], [0.5, 0.0]])
    plots.grid(COUNTS, COUNTS, [0.5, 0.9], [0.0, 0.1], (0.7, 0.05), COUNTS == 2, often, ax)
    tinted, dotted = [
        found.get_offsets().tolist()
        for found in ax.collections
        if len(found.get_offsets()) and found.get_label()[0] != "_"
    ]
    assert (tinted, dotted) == ([[0.1, 0.5], [0.0, 0.9]], [[0.0, 0.5]])


def test_the_frontier_of_a_grid_marks_the_gate_and_its_steps(ax: Axes) -> None:
    curve = pd.DataFrame({"false_recall": [0, 1], "answered": [2, 4], "low": [1.0, 3.0], "high": [3.0, 5.0]})
    steps = pd.DataFrame(
        {"step": ["here", "more"], "answered": [1, 4], "answerable": 6, "false_recall": [0, 1], "silent": 2}
    )
    plots.grid_frontier(curve, steps, ax)
    draw(ax)
    assert [line.get_xydata().tolist() for line in ax.lines if line.get_marker() in ("o", "*")] == [
        [[1, 4]],
        [[0, 1]],
    ]
    assert "1 answered for 0 false" in [text.get_text() for text in ax.texts]


def test_kinds_have_a_bar_a_path_with_its_count_and_no_two_lie_on_each_other(ax: Axes) -> None:
    table = pd.DataFrame(
        {"kind": ["direct", "link"], "keyword": [3, 0], "one": [1, 2], "two": [4, 2], "n": [4, 2]}
    )
    assert plots.kinds(table, ax) is ax
    draw(ax)
    assert [text.get_text() for text in ax.texts] == ["3/4", "0/2", "1/4", "2/2", "4/4", "2/2"]
    assert [bar.get_height() for bar in ax.patches] == [3 / 4, 0, 1 / 4, 1, 1, 1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["keyword", "one", "two"]
    edges = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches)
    assert all(before[1] <= after[0] + 1e-9 for before, after in itertools.pairwise(edges))
    assert [round(edges[at][0] + edges[at][1], 9) / 2 for at in (1, 4)] == [0, 1], (
        "the middle one on its tick"
    )
    assert len({bar.get_facecolor() for bar in ax.patches}) == 3


def test_more_paths_than_colours_are_all_drawn(ax: Axes) -> None:
    names = [f"path {at}" for at in range(12)]
    plots.kinds(pd.DataFrame({"kind": ["direct"], **{name: [1] for name in names}, "n": [2]}), ax)
    draw(ax)
    assert len(ax.patches) == len(names)


def test_parts_stand_against_the_first_row_which_is_not_drawn(ax: Axes) -> None:
    table = pd.DataFrame(
        [
            ("hybrid", 0.0, 0.0, 0.0, 8, 10),
            ("without graph", -0.2, -0.4, 0.0, 6, 10),
            ("rrf, k 60", 0.1, 0.0, 0.3, 9, 10),
        ],
        columns=["path", "difference", "low", "high", "hits", "n"],
    )
    assert plots.parts(table, ax) is ax
    draw(ax)
    assert ax.get_xlabel() == "recall against hybrid, in points"
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "without graph (6/10)",
        "rrf, k 60 (9/10)",
    ]
    middle = next(line for line in ax.lines if line.get_marker() == "o")
    assert middle.get_xydata().tolist() == [[-20, 0], [10, 1]]
    spans = [sorted(segment[:, 0]) for segment in ax.collections[0].get_segments()]
    assert np.allclose(spans, [[-40, 0], [0, 30]])
    bottom, top = ax.get_ylim()
    assert bottom > top, "the first on top"


def test_a_path_with_nothing_to_change_draws_no_parts(ax: Axes) -> None:
    table = pd.DataFrame(
        {"path": ["x"], "difference": [0.0], "low": [0.0], "high": [0.0], "hits": [1], "n": [1]}
    )
    plots.parts(table, ax)
    draw(ax)
    assert not ax.get_yticklabels()

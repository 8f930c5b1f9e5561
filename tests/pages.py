"""Whole pages to look at: a report with figures, the index of many nights, a notebook that was executed."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import matplotlib.style
import nbformat
import pandas as pd
from builders import published_rows, result_of, right, silent, wrong
from matplotlib.figure import Figure
from nbformat import v4

from recall_core import pipeline, plots, runs
from recall_core.gates import Gate
from recall_core.night import notebooks, site
from recall_core.past import history
from recall_core.records import Fixture, Memory
from recall_core.reporting import bands, report
from recall_core.runs import Result
from recall_core.scoring import Row

GATE = Gate(0.55, 0.008)
DAY = date(2026, 11, 30)
HOSTILE = "</td><script>alert(1)</script><img src=http://evil.example/a.png> `x` | ![x](http://evil.example)"
DELTAS = (0.0, 0.005, 0.008, 0.01, 0.02)


def rows(*, better: bool = False) -> list[Row]:
    """Cases with texts in two scripts, a hostile one and a very long word."""
    return [
        *(right(0.9, 0.3, id_=f"right-{n}", query="где ключ от гаража?") for n in range(8)),
        wrong(0.9, 0.0, id_="tie", query="which " + "verylongword" * 12),
        wrong(0.8, 0.2, id_="wrong", query=HOSTILE, hard=True),
        right(0.7, 0.3 if better else 0.005, id_="flip", query="напомни адрес"),
        *(silent(0.5 + 0.05 * n, 0.02, id_=f"silent-{n}", query="no such thing?") for n in range(4)),
    ]


def draw(result: Result, folder: Path) -> list[tuple[str, str]]:
    """The four figures of a run, as (file, alternative text)."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    drawn = []
    with matplotlib.style.context(plots.STYLE):
        for name in ("scores", "margins", "frontier", "funnel"):
            figure = Figure()
            ax = figure.subplots()
            if name == "funnel":
                plots.funnel(result.rows, ax, result.top_k)
            elif name == "frontier":
                band = bands.frontier_band(result.rows, result.margin, resamples=50)
                plots.frontier(result.margin, ax, "delta", band)
            else:
                quantity, at = ("top1", 0.55) if name == "scores" else ("margin", 0.008)
                plots.histogram(result.rows, ax, quantity, at)  # type: ignore[arg-type]
            file = f"figures/{result.path}-{name}.png"
            figure.savefig(folder / file)
            drawn.append((file, f"The {name} of {result.path}"))
    return drawn


def write_report(folder: Path, *, broken: Sequence[str] = ()) -> Path:
    """A report with figures, tables that are wider than a phone, and a link to a notebook."""
    results = [
        result_of(rows(), GATE, deltas=DELTAS),
        result_of(rows(), GATE, path="e5_small", kind="onnx", deltas=DELTAS),
        result_of(published_rows()[:15], GATE, path="a-model-with-a-long-name", kind="onnx"),
    ]
    memories = [Memory(id=id_, text=f"{id_}: {HOSTILE}") for id_ in "abc"]
    cases = [row.case for row in [*rows(), *published_rows()[:1]]]
    fixture = Fixture(format=1, name="t", version="1.0.0", isolation="shared", filler=memories, cases=cases)
    page = report.Page(
        day=DAY,
        facts=[("fixture", f"tiny 1.0.0, SHA-256 {'c' * 64}")],
        provenance=[("commit", "c" * 40)],
        broken=broken,
        floors=3,
        missing=[],
        texts={memory.id: memory.text for memory in memories},
        failures={result.path: pipeline.failures(fixture, result.rows) for result in results},
        figures={result.path: draw(result, folder) for result in results},
        notebooks=[f"notebooks/{write_notebook(folder / 'notebooks').with_suffix('.ipynb').name}"],
    )
    text = report.markdown(page, results)
    (folder / f"RECALL-EVAL-{DAY:%d-%m-%Y}.md").write_text(text, encoding="utf-8")
    path = folder / f"RECALL-EVAL-{DAY:%d-%m-%Y}.html"
    path.write_text(report.html(text, f"Recall evaluation, {DAY:%d-%m-%Y}", folder), encoding="utf-8")
    return path


def write_notebook(folder: Path, *outputs: Any) -> Path:
    """A rendered notebook: a table, a picture, a print, a warning, and whatever `outputs` adds."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = Figure(figsize=(11, 3.6))
    plots.histogram(result_of(rows(), GATE).rows, picture.subplots(), "top1", 0.55)
    png = folder / "picture.png"
    picture.savefig(png)
    frame = pd.DataFrame({"query": [HOSTILE, "ключ"], "share": [0.5, 1.0]})
    shown = [
        v4.new_output("stream", name="stdout", text="32 cases\n"),
        v4.new_output("stream", name="stderr", text="a warning\n"),
        v4.new_output("execute_result", {"text/html": frame._repr_html_(), "text/plain": "frame"}),
        v4.new_output("display_data", {"image/png": _base64(png), "text/plain": "<Figure>"}),
        *outputs,
    ]
    png.unlink()
    book = v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# What came of it?\n\nRead the *table* first. Then the `picture`."),
            v4.new_code_cell("secret_input = 1", outputs=shown),
        ],
        metadata={"papermill": {"parameters": {"path": "hash", "out": "/somewhere/secret"}}},
    )
    path = folder / "10_note_recall-hash.ipynb"
    nbformat.write(book, path)
    return notebooks.render(path)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def line(day: date, results: Sequence[Result], **about: Any) -> Any:
    """A line of the history, as the night writes it."""
    told = {
        "started": f"{day}T03:00:00+00:00",
        "finished": f"{day}T03:02:00+00:00",
        "date": f"{day}",
        "commit": "c" * 40,
        "fixture": {"path": "t.json", "name": "t", "version": "1.0.0", "sha256": "a" * 64},
        "versions": dict.fromkeys(history.RUNTIME, "1.0"),
        "platform": "here",
        "threads": 1,
        "broken_floors": [],
        "missing": [],
        "only": [],
        "seconds": {},
    }
    return history.line_of(
        told | about, {"runs": [runs.metrics(result) | {"name": result.path} for result in results]}
    )


def write_night(reports: Path, day: date, results: Sequence[Result], **about: Any) -> None:
    """A night in the history, with its runs and an empty report."""
    folder = reports / f"{day}"
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    for result in results:
        runs.write_rows(result.rows, folder / "runs" / f"{result.path}.jsonl")
    (folder / f"RECALL-EVAL-{day:%d-%m-%Y}.md").write_text("# a report\n")
    history.append(reports, line(day, results, **about))


def write_index(reports: Path, nights: int = 4) -> Path:
    """An index over some nights; a case was added before the last two, and one flipped in the last."""
    reports.mkdir(parents=True, exist_ok=True)
    for at in range(nights):
        told = rows(better=at == nights - 1)
        results = [result_of(told, GATE), result_of(told, GATE, path="e5_small", kind="onnx")]
        results = [replace(result, fixture_hash="ab"[at >= nights - 2] * 64) for result in results]
        write_night(reports, DAY - timedelta(nights - 1 - at), results)
    return site.write(reports)

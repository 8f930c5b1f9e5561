"""Projects to run a night in: a bare checkout, and a small one whose notebook is light or misbehaves."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
from conftest import ROOT, raw_case, raw_fixture

from recall_core import catalogue, config, fixtures, gates, pipeline, runs
from recall_core.night import jobs
from recall_core.night.nightwork import Order

DAY = date(2026, 7, 31)
TINY = """\
fixture = "data/tiny.json"
measure = ["hash"]

[gate]
min_score = 0.1
delta = 0.02
"""


def stub(path: Path, source: str, original: Path) -> None:
    """Write a notebook with the parameters of a real one and one cell of other code."""
    notebook = nbformat.read(original, as_version=4)
    parameters = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    notebook.cells = [parameters, nbformat.v4.new_code_cell(source)]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def stub_notes(folder: Path, source: str) -> None:
    """Put other code in the place of the note recall notebook."""
    stub(folder / jobs.NOTES, source, ROOT / jobs.NOTES)


NOTES_ALONE = """
fixture = "data/notes/recall_v1.json"
measure = ["hash"]

[gate]
min_score = 0.1
delta = 0.02
"""
"""The hash embedder on our fixture, behind a gate that lets some of it through."""
PLAIN = f"""{NOTES_ALONE}
[pages]
fixture = "data/probes.json"
"""
"""And our wiki."""


def bare_project(folder: Path, settings: str) -> Path:
    """Our notebooks, fixtures and registry with other settings: no reports, no model files, no cache."""
    for part in ("notebooks", "data"):
        shutil.copytree(ROOT / part, folder / part)
    (folder / "models").mkdir()
    shutil.copy(ROOT / catalogue.REGISTRY, folder / "models")
    (folder / config.NAME).write_text(settings)
    return folder


def tiny_project(folder: Path, settings: str = TINY) -> Path:
    """Three cases, the hash embedder, and a notebook that copies results made here: a night of seconds."""
    (folder / "data").mkdir(parents=True)
    (folder / "models").mkdir()
    shutil.copy(ROOT / catalogue.REGISTRY, folder / "models")
    queries = {"amber": "a yellow stone?", "birch": "a white trunk?", "cedar": "a scented wood?"}
    cases = [raw_case(name, query=query) for name, query in queries.items()]
    silent = raw_case("dune", expected=[], silent_because="no memory says")
    (folder / "data/tiny.json").write_text(json.dumps(raw_fixture(*cases, silent)))
    (folder / config.NAME).write_text(settings)
    prepare(folder)
    return folder


def prepare(folder: Path) -> None:
    """Measure the tiny project once, for its notebook to hand out."""
    made = folder / "prepared"
    shutil.rmtree(made, ignore_errors=True)
    settings = config.load(folder / config.NAME)
    result = pipeline.evaluate(
        fixtures.load(folder / settings.fixture),
        catalogue.open_path("hash", folder),
        gate=gates.Gate(**settings.gate.model_dump()),
        quiet=True,
    )
    figure, _ = plt.subplots(figsize=(1, 1))
    runs.save(result, dict.fromkeys(jobs.FIGURES[jobs.NOTES], figure), str(made))
    plt.close(figure)
    stub_notes(folder, f"import shutil; shutil.copytree({str(made)!r}, out)")


def order(folder: Path, day: date = DAY, **more: object) -> Order:
    """The order for a night of that project, as recall.toml has it."""
    settings = config.load(folder / config.NAME)
    return Order(folder, settings, folder / "reports", day, **more)  # type: ignore[arg-type]

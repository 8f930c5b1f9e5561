"""The night: notebooks through papermill, floors, the dated report moved into place at the end."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

from recall_core import (
    config,
    fixtures,
    floors,
    lint,
    models,
    notebooks,
    pipeline,
    provenance,
    publishing,
    report,
    runs,
)
from recall_core.records import ConfigError, Fixture, FixtureError, RecallError

NOTEBOOK = Path("notebooks") / "10_note_recall.ipynb"
FIGURES = {
    "scores": "Histogram of the best score of each case, by outcome",
    "margins": "Histogram of the margin of each case, by outcome",
    "frontier": "False recalls against answered questions, a point for each delta",
}


@dataclass
class Night:
    """What a night came to."""

    report: Path
    results: list[runs.Result] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Floors that do not hold."""
    missing: list[str] = field(default_factory=list)
    """What failed to run."""


def run(root: Path, settings: config.Config, reports: Path, day: date, *, quiet: bool) -> Night:
    """Run the night and publish its report in `reports/YYYY-MM-DD/`.

    A notebook that fails is named in the report, and the others go on. Raises InputError before anything
    runs when the fixture or the configuration is wrong, RecallError when the folder is locked or cannot be
    written.
    """
    fixture = _checked_fixture(root, settings)
    _check_names(root, settings, fixture)
    with publishing.locked(reports):
        publishing.recover(reports)
        _pull_missing(root, settings, quiet=quiet)
        work = reports / f".{day.isoformat()}.work"
        shutil.rmtree(work, ignore_errors=True)
        night = Night(reports / day.isoformat() / f"RECALL-EVAL-{day:%d-%m-%Y}.md")
        started = datetime.now(UTC)
        for name in settings.embedders:
            try:
                night.results.append(_run_notebook(root, settings, name, work, quiet=quiet))
            except RecallError as error:
                night.missing.append(f"{name} has no results: {error}")
        night.broken = floors.broken(settings.floors, night.results)
        _write_report(root, settings, fixture, night, work, day, started)
        publishing.publish(work, reports / day.isoformat())
    return night


def _checked_fixture(root: Path, settings: config.Config) -> Fixture:
    path = root / settings.fixture
    fixture = fixtures.load(path)
    errors = [f"{found.case_id}: {found.message}" for found in lint.lint(fixture) if found.level == "error"]
    if errors:
        raise FixtureError(str(path), errors)
    return fixture


def _check_names(root: Path, settings: config.Config, fixture: Fixture) -> None:
    known = pipeline.embedder_names(root)
    used = {*settings.embedders, *settings.gates, *(floor.embedder for floor in settings.floors)}
    unknown = sorted(used - set(known))
    if unknown:
        raise ConfigError(
            f"{config.NAME}: no embedder is called {', '.join(unknown)}; known: {', '.join(known)}"
        )
    floors.check(settings, fixture)


def _pull_missing(root: Path, settings: config.Config, *, quiet: bool) -> None:
    registry = models.load_registry(root / "models" / "registry.toml")
    for name in settings.embedders:
        if name in registry:
            models.pull(registry[name], root / "models", quiet=quiet)


def _run_notebook(root: Path, settings: config.Config, name: str, work: Path, *, quiet: bool) -> runs.Result:
    gate = settings.gate_for(name)
    part = work / "parts" / name
    parameters = {
        "fixture": settings.fixture,
        "embedder": name,
        "store": settings.store,
        "top_k": settings.top_k,
        "min_score": gate.min_score,
        "delta": gate.delta,
        "out": str(part),
    }
    executed = work / "notebooks" / f"{NOTEBOOK.stem}-{name}.ipynb"
    notebooks.execute(root / NOTEBOOK, executed, parameters, root, quiet=quiet)
    notebooks.render(executed)
    return runs.read(part)


def _write_report(
    root: Path,
    settings: config.Config,
    fixture: Fixture,
    night: Night,
    work: Path,
    day: date,
    started: datetime,
) -> None:
    for result in night.results:
        part = work / "parts" / result.embedder
        _move(part / "run.jsonl", work / "runs" / f"{result.embedder}.jsonl")
        for name in FIGURES:
            _move(part / f"{name}.png", work / "figures" / f"{result.embedder}-{name}.png")
    shutil.rmtree(work / "parts", ignore_errors=True)
    manifest = provenance.manifest(root, settings, fixture, night.results, started)
    page = report.Page(
        day=day,
        facts=provenance.facts(settings, fixture, manifest["commit"]),
        provenance=provenance.rows(manifest),
        broken=night.broken,
        floors=len(settings.floors),
        missing=night.missing,
        texts={memory.id: memory.text for memory in fixtures.all_memories(fixture)},
        failures={result.embedder: pipeline.failures(fixture, result.rows) for result in night.results},
        figures={
            result.embedder: [
                (f"figures/{result.embedder}-{name}.png", f"{alt} ({result.embedder})")
                for name, alt in FIGURES.items()
            ]
            for result in night.results
        },
    )
    work.mkdir(parents=True, exist_ok=True)
    text = report.markdown(page, night.results)
    (work / night.report.name).write_text(text, encoding="utf-8")
    title = f"Recall evaluation, {day:%d-%m-%Y}"
    (work / night.report.with_suffix(".html").name).write_text(
        report.html(text, title, work), encoding="utf-8"
    )
    runs.write_json([runs.metrics(result) for result in night.results], work / "metrics.json")
    manifest |= {"broken_floors": night.broken, "missing": night.missing}
    runs.write_json(manifest, work / "manifest.json")


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)

"""The night: notebooks through papermill, floors, the dated report moved into place at the end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import pandas as pd

from recall_core import (
    catalogue,
    config,
    fixtures,
    floors,
    jobs,
    lint,
    notebooks,
    pipeline,
    provenance,
    publishing,
    report,
    runs,
)
from recall_core.records import ConfigError, Fixture, FixtureError, RecallError


@dataclass
class Night:
    """What a night came to."""

    report: Path
    results: list[runs.Result] = field(default_factory=list)
    tables: dict[str, dict[str, pd.DataFrame]] = field(default_factory=dict)
    """What the notebooks of each section of the report left, by section."""
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
        catalogue.pull_missing(settings.embedders, root, quiet=quiet)
        work = reports / f".{day.isoformat()}.work"
        shutil.rmtree(work, ignore_errors=True)
        night = Night(reports / day.isoformat() / f"RECALL-EVAL-{day:%d-%m-%Y}.md")
        started = datetime.now(UTC)
        planned = jobs.planned(settings)
        for job in planned:
            try:
                _run_job(root, job, work, night, quiet=quiet)
            except RecallError as error:
                night.missing.append(f"{job.name} has no results: {error}")
        night.broken = floors.broken(settings.floors, night.results)
        _write_report(root, settings, fixture, planned, night, work, day, started)
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
    known = catalogue.names(root)
    used = {*settings.embedders, *settings.gates, *(floor.embedder for floor in settings.floors)}
    unknown = sorted(used - set(known))
    if unknown:
        raise ConfigError(
            f"{config.NAME}: no embedder is called {', '.join(unknown)}; known: {', '.join(known)}"
        )
    floors.check(settings, fixture)


def _run_job(root: Path, job: jobs.Job, work: Path, night: Night, *, quiet: bool) -> None:
    part = work / "parts" / job.name
    executed = work / "notebooks" / f"{job.notebook.stem}-{job.name}.ipynb"
    notebooks.execute(root / job.notebook, executed, {**job.parameters, "out": str(part)}, root, quiet=quiet)
    notebooks.render(executed)
    if job.section == "notes":
        night.results.append(runs.read(part))
        _move(part / "run.jsonl", work / "runs" / f"{job.name}.jsonl")
    else:
        night.tables[job.section] = runs.read_tables(part)
    for figure in jobs.FIGURES[job.notebook]:
        _move(part / f"{figure}.png", work / "figures" / f"{job.name}-{figure}.png")


def _write_report(
    root: Path,
    settings: config.Config,
    fixture: Fixture,
    planned: Sequence[jobs.Job],
    night: Night,
    work: Path,
    day: date,
    started: datetime,
) -> None:
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
        figures={job.name: job.figures for job in planned},
        tables=night.tables,
    )
    work.mkdir(parents=True, exist_ok=True)
    text = report.markdown(page, night.results)
    (work / night.report.name).write_text(text, encoding="utf-8")
    title = f"Recall evaluation, {day:%d-%m-%Y}"
    (work / night.report.with_suffix(".html").name).write_text(
        report.html(text, title, work), encoding="utf-8"
    )
    metrics = {"notes": [runs.metrics(result) for result in night.results]}
    runs.write_json(
        metrics | {name: runs.records(t) for name, t in night.tables.items()}, work / "metrics.json"
    )
    manifest |= {"broken_floors": night.broken, "missing": night.missing}
    runs.write_json(manifest, work / "manifest.json")


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)

"""The night: notebooks through papermill, verdicts, changes, the dated report moved into place at the end."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recall_core import catalogue, config, fixtures, lint, pipeline, runs
from recall_core.night import (
    baselines,
    jobs,
    nightlog,
    nightwork,
    provenance,
    publishing,
    site,
    verdicts,
)
from recall_core.night.nightwork import Night, Order
from recall_core.night.verdicts import Verdict
from recall_core.past import changes, history
from recall_core.records import ConfigError, Fixture, FixtureError, InputError, RecallError
from recall_core.reporting import report


def checked(order: Order) -> tuple[Fixture, list[jobs.Job]]:
    """The fixture and the jobs of a night. Raises InputError for what is wrong with what was given."""
    path = order.root / order.settings.fixture
    fixture = fixtures.load(path)
    errors = [f"{found.case_id}: {found.message}" for found in lint.lint(fixture) if found.level == "error"]
    if errors:
        raise FixtureError(str(path), errors)
    _check_names(order.root, order.settings)
    verdicts.check_floors(order.settings, fixture)
    planned = jobs.chosen(order.settings, order.root, order.only)
    folder = order.reports / order.day.isoformat()
    with suppress(OSError, *history.UNREADABLE):
        if order.only and not runs.read_json(folder / "manifest.json").get("only"):
            raise InputError(
                f"{folder}: holds a whole report, which one of --only jobs does not replace; give another "
                "--date or --reports"
            )
    return fixture, planned


def run(order: Order) -> Night:
    """Run the night and publish its report in `reports/YYYY-MM-DD/`.

    A notebook that fails is named in the report, and the others go on. Raises InputError before anything
    runs when the fixture or the configuration is wrong, RecallError when the folder is locked or cannot be
    written. Whatever ends it early, also a signal, nothing half-done is published and no process is left.
    """
    fixture, planned = checked(order)
    started = datetime.now(UTC)
    reports, day = order.reports, order.day.isoformat()
    with publishing.locked(reports) as stale:
        log = nightlog.Log(reports / "logs" / f"{day}-{started:%H%M%S}.log", quiet=order.quiet)
        publishing.recover(reports)
        if site.behind(reports):
            site.write(reports)
        work = Path(tempfile.mkdtemp(prefix=f".{day}.", suffix=".work", dir=reports))
        work.chmod(reports.stat().st_mode)
        night = Night(reports / day / f"RECALL-EVAL-{order.day:%d-%m-%Y}.md", log.path)
        ended = "ended early, nothing was published"
        try:
            for said in (stale, *jobs.lines(order.root, order.settings, fixture, planned)):
                log.say(said)
            nightwork.run_jobs(order, planned, work, night, log)
            manifest, metrics = _measured(order, fixture, planned, night, started)
            line = history.line_of(manifest, metrics)
            _judge(order, planned, line, night, log)
            manifest["broken_floors"] = line["broken"] = night.broken
            shutil.rmtree(work / "parts", ignore_errors=True)
            _write_report(order, fixture, planned, night, work, manifest)
            runs.write_json(metrics, work / "metrics.json")
            runs.write_json(manifest, work / "manifest.json")
            publishing.publish(work, reports / day, line)
            ended = "the report was published, and then something failed"
            log.say(f"published: {night.report}; {verdicts.headline(night.verdicts)}")
            keep = order.keep or order.settings.night.keep
            for gone in publishing.prune(reports, keep, day) if keep else []:
                log.say(f"removed the report of {gone}")
                night.removed.append(gone)
            site.write(reports)
        except BaseException as error:
            log.say(f"{ended}: {type(error).__name__}: {error}")
            raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
            log.close()
    return night


def _check_names(root: Path, settings: config.Config) -> None:
    embedders, paths = catalogue.names(root), catalogue.options_by_name(settings)
    used = {*settings.measure, *settings.gates, *(floor.path for floor in settings.floors)}
    used |= {*(settings.pages.paths if settings.pages else ())}
    used |= {name for choice in settings.choice for name in (choice.path, choice.other) if name}
    embedded = {path.embedder for path in paths.values()}
    for kind, asked, known in (("path", used, [*embedders, *paths]), ("embedder", embedded, embedders)):
        if odd := sorted(asked - {*known}):
            raise ConfigError(
                f"{config.NAME}: no {kind} is called {', '.join(odd)}; known: {', '.join(known)}"
            )
    if both := sorted({*settings.paths} & {*embedders}):
        raise ConfigError(f"{config.NAME}: [paths.{both[0]}] has the name of an embedder; give it another")


def _measured(
    order: Order, fixture: Fixture, planned: Sequence[jobs.Job], night: Night, started: datetime
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What manifest.json and metrics.json hold."""
    manifest = provenance.manifest(order.root, order.settings, fixture, night.runs, started)
    manifest |= {"date": order.day.isoformat(), "threads": order.threads(planned), "only": list(order.only)}
    manifest |= {"seconds": night.seconds, "missing": night.missing, "broken_floors": []}
    held = [runs.metrics(run) | {"name": name} for name, run in night.runs.items()]
    return manifest, {"runs": held} | {job: runs.records(tables) for job, tables in night.tables.items()}


def _judge(
    order: Order, planned: Sequence[jobs.Job], line: dict[str, Any], night: Night, log: nightlog.Log
) -> None:
    """Hold the night against its floors and against earlier nights. `line`: its own, of the history."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lines = history.read(order.reports)
    for warning in caught:
        log.say(str(warning.message))
    baseline = None
    try:
        baseline = baselines.read(order.reports, order.settings.night.baseline)
    except RecallError as error:
        log.say(str(error))
    rows = {name: run.rows for name, run in night.runs.items()}
    night.changes = changes.since(order.reports, lines, line, rows, baseline)
    ran, settings = {job.name for job in planned}, order.settings
    night.verdicts += verdicts.judged([one for one in settings.floors if one.path in ran], night.results)
    if settings.pages and "pages" in ran:
        night.verdicts += verdicts.judged_pages(settings.pages, night.tables.get("pages"))
    for one in night.changes.compared:
        if one.deterministic:
            said = one.regression or f"{one.now.name}: nothing flipped against {one.against}"
            state: verdicts.State = "broken" if one.regression else "holds"
            night.verdicts.append(Verdict("flips", one.now.name, f"against {one.against}", state, said))


def _write_report(
    order: Order,
    fixture: Fixture,
    planned: Sequence[jobs.Job],
    night: Night,
    work: Path,
    manifest: dict[str, Any],
) -> None:
    facts = provenance.facts(order.settings, fixture, manifest["commit"])
    page = report.Page(
        day=order.day,
        facts=[*_asked(order, planned, night), *facts],
        provenance=provenance.rows(manifest),
        broken=night.broken,
        floors=len(night.demands),
        missing=night.missing,
        texts={memory.id: memory.text for memory in fixtures.all_memories(fixture)},
        failures={result.path: pipeline.failures(fixture, result.rows) for result in night.results},
        figures={job.name: job.figures for job in planned},
        tables=night.tables,
        changes=night.changes,
        notebooks=[f"notebooks/{path.name}" for path in sorted((work / "notebooks").glob("*.ipynb"))],
    )
    text = report.markdown(page, night.results)
    title = f"Recall evaluation, {order.day:%d-%m-%Y}"
    written = {
        night.report.name: text,
        night.report.with_suffix(".html").name: report.html(text, title, work),
        "verdicts.xml": verdicts.junit(night.verdicts, order.day),
        "summary.md": verdicts.summary(night.verdicts, order.day),
    }
    for name, said in written.items():
        (work / name).write_text(said, encoding="utf-8")


def _asked(order: Order, planned: Sequence[jobs.Job], night: Night) -> list[tuple[str, str]]:
    """What a reader must know of how the night ran."""
    at_once, took = order.at_once(planned), f"{sum(night.seconds.values()):.0f} s of notebooks"
    said = "one notebook at a time, on every core: latencies are the machine's own"
    if at_once > 1:
        said = (
            f"{at_once} notebooks at a time, {order.threads(planned)} thread(s) each: latencies were taken "
            "while another notebook ran; compare them within this report, and set at_once = 1 under [night] "
            "in recall.toml to have the machine's own"
        )
    only = f"only {', '.join(order.only)} (--only); floors on anything else were not checked"
    return [*([("asked for", only)] * bool(order.only)), ("run", f"{said}; {took}")]

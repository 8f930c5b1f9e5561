"""The night: notebooks through papermill, verdicts, changes, the dated report moved into place at the end."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recall_core import catalogue, config, fixtures, lint, pipeline, runs
from recall_core.night import (
    baselines,
    floors,
    jobs,
    nightlog,
    nightwork,
    plan,
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
    fixture = _checked_fixture(order.root, order.settings)
    _check_names(order.root, order.settings, fixture)
    planned = jobs.chosen(order.settings, order.root, order.only)
    if order.only:
        _refuse_partial_over_whole(order.reports / order.day.isoformat())
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
            for said in [
                *([stale] if stale else []),
                *plan.lines(order.root, order.settings, fixture, planned),
            ]:
                log.say(said)
            nightwork.run_jobs(order, planned, work, night, log)
            line = _write_report(order, fixture, planned, night, work, started, log)
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


def _checked_fixture(root: Path, settings: config.Config) -> Fixture:
    path = root / settings.fixture
    fixture = fixtures.load(path)
    errors = [f"{found.case_id}: {found.message}" for found in lint.lint(fixture) if found.level == "error"]
    if errors:
        raise FixtureError(str(path), errors)
    return fixture


def _check_names(root: Path, settings: config.Config, fixture: Fixture) -> None:
    embedders = catalogue.names(root)
    paths = catalogue.options_by_name(settings)
    known = [*embedders, *paths]
    chosen = [name for choice in settings.choice for name in (choice.path, choice.other) if name]
    compared = settings.pages.paths if settings.pages else ()
    floors_on = [floor.path for floor in settings.floors]
    used = {*settings.measure, *settings.gates, *floors_on, *compared, *chosen}
    if unknown := sorted(used - {*known}):
        raise ConfigError(f"{config.NAME}: no path is called {', '.join(unknown)}; known: {', '.join(known)}")
    if odd := sorted({path.embedder for path in paths.values()} - {*embedders}):
        raise ConfigError(
            f"{config.NAME}: no embedder is called {', '.join(odd)}; known: {', '.join(embedders)}"
        )
    if both := sorted({*settings.paths} & {*embedders}):
        raise ConfigError(f"{config.NAME}: [paths.{both[0]}] has the name of an embedder; give it another")
    floors.check(settings, fixture)


def _refuse_partial_over_whole(folder: Path) -> None:
    try:
        whole = not runs.read_json(folder / "manifest.json").get("only")
    except (OSError, ValueError):
        return
    if whole:
        raise InputError(
            f"{folder}: holds a whole report, which one of --only jobs does not replace; give another "
            "--date or --reports"
        )


def _judge(order: Order, planned: Sequence[jobs.Job], night: Night) -> None:
    ran = {job.name for job in planned}
    night.verdicts += floors.judged(
        [floor for floor in order.settings.floors if floor.path in ran], night.results
    )
    if order.settings.pages and "pages" in ran:
        night.verdicts += floors.judged_pages(order.settings.pages, night.tables.get("pages"))
    for one in night.changes.compared:
        if one.deterministic:
            said = one.regression or f"{one.now.name}: nothing flipped against {one.against}"
            state: verdicts.State = "broken" if one.regression else "holds"
            night.verdicts.append(Verdict("flips", one.now.name, f"against {one.against}", state, said))


def _compare(order: Order, line: Mapping[str, Any], night: Night, log: nightlog.Log) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lines = history.read(order.reports)
    for warning in caught:
        log.say(str(warning.message))
    try:
        baseline = baselines.read(order.reports, order.settings.night.baseline)
    except RecallError as error:
        log.say(str(error))
        baseline = None
    night.changes = changes.since(
        order.reports, lines, line, {name: run.rows for name, run in night.runs.items()}, baseline
    )


def _write_report(
    order: Order,
    fixture: Fixture,
    planned: Sequence[jobs.Job],
    night: Night,
    work: Path,
    started: datetime,
    log: nightlog.Log,
) -> dict[str, Any]:
    """Write the report into `work`; returns its line for the history."""
    shutil.rmtree(work / "parts", ignore_errors=True)
    settings, root = order.settings, order.root
    manifest = provenance.manifest(root, settings, fixture, night.runs, started)
    manifest |= {
        "date": order.day.isoformat(),
        "threads": order.threads(planned),
        "only": list(order.only),
        "seconds": night.seconds,
        "missing": night.missing,
        "broken_floors": [],
    }
    metrics: dict[str, Any] = {
        "runs": [runs.metrics(run) | {"name": name} for name, run in night.runs.items()]
    }
    metrics |= {name: runs.records(tables) for name, tables in night.tables.items()}
    _compare(order, history.line_of(manifest, metrics), night, log)
    _judge(order, planned, night)
    manifest["broken_floors"] = night.broken
    page = report.Page(
        day=order.day,
        facts=[*_asked(order, planned, night), *provenance.facts(settings, fixture, manifest["commit"])],
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
    (work / night.report.name).write_text(text, encoding="utf-8")
    title = f"Recall evaluation, {order.day:%d-%m-%Y}"
    (work / night.report.with_suffix(".html").name).write_text(
        report.html(text, title, work), encoding="utf-8"
    )
    (work / "verdicts.xml").write_text(verdicts.junit(night.verdicts, order.day), encoding="utf-8")
    (work / "summary.md").write_text(verdicts.summary(night.verdicts, order.day), encoding="utf-8")
    runs.write_json(metrics, work / "metrics.json")
    runs.write_json(manifest, work / "manifest.json")
    return history.line_of(manifest, metrics)


def _asked(order: Order, planned: Sequence[jobs.Job], night: Night) -> list[tuple[str, str]]:
    """What a reader must know of how the night ran."""
    at_once, threads = order.at_once(planned), order.threads(planned)
    said = []
    if order.only:
        said.append(
            ("asked for", f"only {', '.join(order.only)} (--only); floors on anything else were not checked")
        )
    shared = f"{at_once} notebooks at a time, {threads} thread(s) each: "
    alone = "one notebook at a time, on every core: "
    took = f"{sum(night.seconds.values()):.0f} s of notebooks"
    fair = (
        "latencies were taken while another notebook ran; compare them within this report, and set "
        "at_once = 1 under [night] in recall.toml to have the machine's own"
        if at_once > 1
        else "latencies are the machine's own"
    )
    return [*said, ("run", (shared if at_once > 1 else alone) + f"{fair}; {took}")]

"""The night's work: what is asked of it, its notebooks run, and what they left taken up."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pandas as pd

from recall_core import catalogue, config, runs
from recall_core.night import jobs, nightlog, verdicts, workers
from recall_core.night.verdicts import Verdict
from recall_core.past import changes, history
from recall_core.records import RecallError

LONG = 60.0
"""Seconds an embedder is reckoned to take in a notebook that never ran."""


@dataclass
class Night:
    """What a night came to."""

    report: Path
    log: Path
    results: list[runs.Result] = field(default_factory=list)
    others: dict[str, runs.Result] = field(default_factory=dict)
    """Of other fixtures than the notes', by job and path: `pages/hybrid`."""
    tables: dict[str, dict[str, pd.DataFrame]] = field(default_factory=dict)
    """What the notebooks that make tables left, by job."""
    verdicts: list[Verdict] = field(default_factory=list)
    changes: changes.Changes = field(default_factory=changes.Changes)
    seconds: dict[str, float] = field(default_factory=dict)
    """What each notebook took."""
    missing: list[str] = field(default_factory=list)
    """What failed to run."""
    removed: list[str] = field(default_factory=list)
    """Dates of the old reports that made room."""

    @property
    def runs(self) -> dict[str, runs.Result]:
        """Every run, by the name that the history knows it by."""
        return {result.path: result for result in self.results} | self.others

    @property
    def demands(self) -> list[Verdict]:
        """The floors, and each flip that must not be, which counts as one broken."""
        return [one for one in self.verdicts if one.group == "floor" or one.state == "broken"]

    @property
    def broken(self) -> list[str]:
        """Floors that do not hold, and flips that must not be."""
        return [one.said for one in self.demands if one.state != "holds"]


@dataclass(frozen=True)
class Order:
    """What is asked of a night: where, with which settings, and how."""

    root: Path
    settings: config.Config
    reports: Path
    day: date
    quiet: bool = True
    only: tuple[str, ...] = ()
    """Names of jobs; empty for all."""
    keep: int | None = None
    """How many reports to keep, instead of what recall.toml says."""

    def at_once(self, planned: Sequence[jobs.Job]) -> int:
        """How many notebooks run side by side."""
        return max(1, min(self.settings.night.at_once, len(planned)))

    def threads(self, planned: Sequence[jobs.Job]) -> int:
        """How many threads each of them gets: they share the cores and do not fight for them."""
        return max(1, workers.cores() // self.at_once(planned))


def run_jobs(order: Order, planned: Sequence[jobs.Job], work: Path, night: Night, log: nightlog.Log) -> None:
    """Run the notebooks in the folder `work`, and take up in `night` what they leave there.

    One that fails is named in `night.missing`; the others go on.
    """
    needs = {job.name: job.needs(order.root, order.settings) for job in planned}
    absent, failed = {}, {}
    for name in jobs.needed(order.root, order.settings, planned):
        try:
            catalogue.pull_missing([name], order.root, quiet=order.quiet)
        except RecallError as error:
            absent[name] = str(error)
            log.say(f"{name}: cannot be had: {error}")
    for name, needed in needs.items():
        if reasons := [absent[one] for one in needed if one in absent]:
            failed[name] = "; ".join(reasons)
    tasks = [
        workers.Task(
            job.name,
            order.root / job.notebook,
            work / "notebooks" / f"{job.notebook.stem}-{job.name}.ipynb",
            {**job.parameters, "out": str(work / "parts" / job.name)},
        )
        for job in planned
        if job.name not in failed
    ]
    # The longest are started first, so that none is left to run alone.
    last = {name: LONG * len(needed) for name, needed in needs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in history.read(order.reports):
            last |= line.get("seconds", {})
    failed |= workers.run_all(
        sorted(tasks, key=lambda task: -last[task.name]),
        order.root,
        work / "parts" / ".events",
        at_once=order.at_once(planned),
        threads=order.threads(planned),
        time_limit=order.settings.night.time_limit,
        watch=log,
    )
    night.seconds = log.seconds
    for job in planned:
        reason = failed.get(job.name) or _collect(job, work, night)
        if reason:
            night.missing.append(f"{job.name} has no results: {reason}")
        state: verdicts.State = "missing" if reason else "holds"
        took = night.seconds.get(job.name, 0.0)
        said = reason or f"ran in {took:.1f} s"
        night.verdicts.append(Verdict("notebook", job.name, job.notebook.name, state, said, took))


def _collect(job: jobs.Job, work: Path, night: Night) -> str:
    """Take up what a notebook left. Why it cannot be used, or an empty string."""
    part = work / "parts" / job.name
    moved = {f"{name}.png": f"figures/{job.name}-{name}.png" for name in jobs.FIGURES[job.notebook]}
    try:
        if job.section == "notes":
            results, tables = [runs.read(part)], None
            moved["run.jsonl"] = f"runs/{job.name}.jsonl"
        else:
            results, tables = runs.read_runs(part), runs.read_tables(part)
            moved |= {f"{one.path}.jsonl": f"runs/{job.name}/{one.path}.jsonl" for one in results}
        for source, target in moved.items():
            (work / target).parent.mkdir(parents=True, exist_ok=True)
            (part / source).replace(work / target)
    except (RecallError, *history.UNREADABLE) as error:
        return str(error)
    except OSError as error:
        return f"{Path(error.filename or job.name).name}: {error.strerror}"
    if tables is None:
        night.results += results
    else:
        night.others |= {f"{job.name}/{one.path}": one for one in results}
        night.tables[job.name] = tables
    return ""

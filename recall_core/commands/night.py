"""The commands of the night: run it, set a baseline, raise the floors."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from recall_core import config
from recall_core.records import FloorError, InputError, RecallError

Day = Annotated[str | None, typer.Option("--date", help="Of which report. Default: the latest.")]
Reports = Annotated[Path | None, typer.Option(help="Where reports are. Default: reports/.")]
baseline_app = typer.Typer(help="Baselines: set a night aside, list them.", no_args_is_help=True)


def nightly(
    reports: Annotated[Path | None, typer.Option(help="Where reports go. Default: reports/.")] = None,
    day: Annotated[str | None, typer.Option("--date", help="Date of the report, YYYY-MM-DD.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Run this job alone (again for more): a name of --dry-run.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Remove all but so many reports. The history stays.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
) -> None:
    """Run every configured embedder on the fixture and write the dated report."""
    from recall_core.night import jobs, nightly
    from recall_core.night.nightwork import Order

    root = config.find_root()
    order = Order(
        root=root,
        settings=config.load(root / config.NAME),
        reports=(reports or root / "reports").resolve(),
        day=_day(day),
        quiet=not sys.stderr.isatty(),
        only=tuple(only or ()),
        keep=keep,
    )
    if dry_run:
        fixture, planned = nightly.checked(order)
        for line in jobs.lines(root, order.settings, fixture, planned):
            typer.echo(line)
        return
    night = nightly.run(order)
    typer.echo(f"report: {night.report}\nlog: {night.log}")
    if night.removed:
        typer.echo(f"removed the reports of {', '.join(night.removed)}")
    broken = [f"floor broken: {'; '.join(night.broken)}"] if night.broken else []
    if night.missing:
        raise RecallError("; ".join([*night.missing, *broken]))
    if broken:
        raise FloorError(broken[0])
    typer.echo(f"all {len(night.demands)} floors hold" if night.demands else "no floors are set")


@baseline_app.command("set")
def baseline_set(
    name: Annotated[str | None, typer.Argument(help="Default: the one recall.toml compares with.")] = None,
    day: Day = None,
    reports: Reports = None,
) -> None:
    """Set a night aside, for later nights to be compared with."""
    from recall_core.night import baselines, publishing

    root = config.find_root()
    name = name or config.load(root / config.NAME).night.baseline
    folder = reports or root / "reports"
    with publishing.locked(folder):
        publishing.recover(folder)
        source = _report(folder, day)
        baselines.set_(folder, name, source)
    typer.echo(f"baseline {name}: the report of {source.name}")


@baseline_app.command("list")
def baseline_list(reports: Reports = None) -> None:
    """List the baselines, and the night each was set from."""
    from recall_core.night import baselines
    from recall_core.past import history

    folder = reports or config.find_root() / "reports"
    for name in baselines.names(folder):
        line = history.published(folder / baselines.FOLDER / name)
        typer.echo(f"{name:<20} {line['date']}  fixture {line['fixture']['sha256'][:16]}")


def ratchet(day: Day = None, reports: Reports = None) -> None:
    """Raise the floors in recall.toml to what was measured. None is ever lowered."""
    from recall_core.night import ratchet

    root = config.find_root()
    source = _report(reports or root / "reports", day)
    moved = ratchet.tighten(root, source)
    for said in moved or [f"every floor stands where the report of {source.name} is, or above"]:
        typer.echo(said)


def _report(reports: Path, day: str | None) -> Path:
    """The report of that day, or the latest."""
    from recall_core.night import publishing

    found = publishing.dated(reports)
    wanted = [folder for folder in found if day is None or folder.name == _day(day).isoformat()]
    if not wanted:
        raise InputError(f"{reports}: no report{f' of {day}' if day else ''}; run `recall nightly` first")
    return wanted[-1]


def _day(given: str | None) -> date:
    try:
        return date.fromisoformat(given) if given else date.today()
    except ValueError:
        raise InputError(f"--date {given!r} is not a date; write it as 2026-07-31") from None

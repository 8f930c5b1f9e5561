"""`reports/index.html`: the verdict of the last night, how it came to this, and every dated report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from recall_core import plots, runs, stats
from recall_core.past import history
from recall_core.records import RecallError
from recall_core.reporting import report, svg, web
from recall_core.writing import write_whole

NAME = "index.html"
METRICS = {"recall@1": "recall@1", "answered": "answered", "false_recall": "false recall"}
"""What is shown over time, and its name in words."""
NIGHTS = 60
"""A trend shows so many nights at most."""
INCHES = (3.6, 1.9)
MOST = 30
"""So many flips of one name at most: the rest is in the report."""


@dataclass(frozen=True)
class Trend:
    """One path over time: a drawing for each metric, and the numbers behind them, newest first."""

    path: str
    kind: str
    drawn: list[tuple[str, str]]
    """(name of the metric, SVG)."""
    numbers: list[list[str]]
    """Date, a share for each metric, and why it is not comparable with the night before."""
    last: bool
    """Whether the last night measured it."""


@dataclass(frozen=True)
class Flips:
    """Cases of one path that came out otherwise than on the comparable night before."""

    name: str
    before: str
    """Date of that night; empty where there is none."""
    cases: list[tuple[str, str, str, str]]
    """(case, what was asked, outcome before, outcome now)."""
    left_out: int = 0


@dataclass(frozen=True)
class Dated:
    """One dated report, as links below `reports/`."""

    day: str
    page: str
    text: str
    look: str
    said: str
    """Its verdict, as a class and in words; empty where the history does not know it."""


def behind(reports: Path) -> bool:
    """Whether a night was added to the history after the index was written: it was killed in between."""
    lines, index = reports / history.NAME, reports / NAME
    if not lines.exists():
        return False
    return not index.exists() or index.stat().st_mtime_ns < lines.stat().st_mtime_ns


def write(reports: Path) -> Path:
    """Write the index anew from the history and the dated reports beside it, whole or not at all."""
    path = reports / NAME
    write_whole(path, page(reports))
    return path


def page(reports: Path) -> str:
    """The index as one HTML file that asks nothing of any server."""
    lines = history.read(reports)
    dated = _dated(reports, lines)
    last = lines[-1] if lines else None
    names = dict.fromkeys(held["name"] for line in reversed(lines) for held in line["runs"])
    # The lexical embedder is a ratchet and no candidate: last, as in the report.
    trends = sorted((_trend(lines, name) for name in names), key=lambda trend: trend.kind == "hash")
    return (
        web.environment()
        .get_template("index.html.j2")
        .render(
            title="Recall, night by night",
            last=last,
            troubles=[report.clean(said) for said in (*last["missing"], *last["broken"])] if last else [],
            verdict=_verdict(last) if last else ("none", "No night has run yet."),
            latest=next((one for one in dated if last and one.day == last["date"]), None),
            trends=trends,
            metrics=list(METRICS.values()),
            flips=[_flips(reports, lines, name) for name in (trend.path for trend in trends if trend.last)],
            dated=dated,
            written=_written,
        )
    )


def _verdict(line: Any) -> tuple[str, str]:
    """A class and a sentence."""
    if line["missing"]:
        return "bad", "Incomplete: not everything ran."
    broken = len(line["broken"])
    if broken:
        return "bad", f"{broken} floor{'s' if broken > 1 else ''} broken."
    if line.get("only"):
        return "none", f"No floor broken, but only {', '.join(line['only'])} ran."
    return "good", "No floor broken."


def _dated(reports: Path, lines: Sequence[Any]) -> list[Dated]:
    """The dated reports, newest first."""
    said = {line["date"]: _verdict(line) for line in lines}
    found = []
    for folder in sorted(reports.iterdir(), reverse=True) if reports.is_dir() else []:
        files = {file.suffix: f"{folder.name}/{file.name}" for file in folder.glob("RECALL-EVAL-*")}
        if re.fullmatch(r"\d{4}-\d\d-\d\d", folder.name) and files:
            links = files.get(".html", ""), files.get(".md", "")
            found.append(Dated(folder.name, *links, *said.get(folder.name, ("", ""))))
    return found


def _trend(lines: Sequence[Any], name: str) -> Trend:
    rows = history.frame(lines)
    own = rows[(rows["path"] == name) & (rows["slice"] == "all")]
    nights = history.measured(lines, name)[-NIGHTS:]
    drawn = []
    for metric, said in METRICS.items():
        counted = stats.with_intervals(
            own[own["metric"] == metric].tail(NIGHTS).rename(columns={"date": "day"})
        )
        alt = f"{said} of {name} over {len(counted)} night{'' if len(counted) == 1 else 's'}"
        draw = partial(plots.trend, counted, metric=metric)
        drawn.append((said, svg.inline(draw, alt, f"{web.slug(name)}-{web.slug(metric)}", INCHES)))
    numbers = []
    before = None
    for night in nights:
        shares = [stats.share(*(night.counted(metric) or (0, 0))) for metric in METRICS]
        numbers.append([night.date, *shares, _changed(before, night)])
        before = night
    return Trend(name, nights[-1].kind, drawn, numbers[::-1], nights[-1].started == lines[-1]["started"])


def _changed(before: history.Measured | None, now: history.Measured) -> str:
    """Why no line may be drawn from one night to the next; empty where it may."""
    if before is None:
        return ""
    if before.fixture_hash != now.fixture_hash:
        return history.differs(before, now) or "the fixture changed"
    return history.differs(before, now) or ("the gate changed" if before.gate != now.gate else "")


def _flips(reports: Path, lines: Sequence[Any], name: str) -> Flips:
    nights = history.measured(lines, name)
    now = nights[-1]
    for before in reversed(nights[:-1]):
        if history.differs(before, now):
            break
        old, new = (reports / night.date / "runs" / f"{name}.jsonl" for night in (before, now))
        if before.date != now.date and old.is_file() and new.is_file():
            try:
                sides = runs.read_rows(old), runs.read_rows(new)
            except (OSError, RecallError):
                continue  # damaged since: an older night may still be whole
            pair = sides[0].merge(sides[1], on=["case_id", "case_hash"], suffixes=("_before", "_now"))
            changed = pair[pair["outcome_before"] != pair["outcome_now"]]
            return Flips(name, before.date, _listed(changed.head(MOST)), max(len(changed) - MOST, 0))
    return Flips(name, "", [])


def _listed(changed: pd.DataFrame) -> list[tuple[str, str, str, str]]:
    columns = ["case_id", "query_now", "outcome_before", "outcome_now"]
    return [
        (
            report.clean(case),
            report.clean(report.clip(query)),
            before.replace("_", " "),
            now.replace("_", " "),
        )
        for case, query, before, now in changed[columns].itertuples(index=False)
    ]


def _written(day: str) -> str:
    """A date as the reports write it."""
    year, month, date = day.split("-")
    return f"{date}-{month}-{year}"

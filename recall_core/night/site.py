"""`reports/index.html`: the verdict of the last night, how it came to this, and every dated report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from recall_core import plots, runs, stats
from recall_core.night import publishing
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
    last = lines[-1] if lines else None
    verdicts = {line["date"]: _verdict(line) for line in lines}
    dated = []
    for folder in reversed(publishing.dated(reports)):
        if files := {file.suffix: f"{folder.name}/{file.name}" for file in folder.glob("RECALL-EVAL-*")}:
            look, said = verdicts.get(folder.name, ("", ""))
            links = {"page": files.get(".html", ""), "text": files.get(".md", "")}
            dated.append({"day": folder.name, "look": look, "said": said, **links})
    names = dict.fromkeys(held["name"] for line in reversed(lines) for held in line["runs"])
    nights = {name: history.measured(lines, name) for name in names}
    # The lexical embedder is a ratchet and no candidate: last, as in the report.
    ordered = sorted(names, key=lambda name: nights[name][-1].kind == "hash")
    table = history.frame(lines)
    of_last = [name for name in ordered if last and nights[name][-1].started == last["started"]]
    return (
        web.environment()
        .get_template("index.html.j2")
        .render(
            title="Recall, night by night",
            last=last,
            troubles=[report.clean(said) for said in (*last["missing"], *last["broken"])] if last else [],
            verdict=_verdict(last) if last else ("none", "No night has run yet."),
            latest=next((one for one in dated if last and one["day"] == last["date"]), None),
            trends=[_trend(table, nights[name]) for name in ordered],
            metrics=list(METRICS.values()),
            flips=[_flips(reports, nights[name]) for name in of_last],
            dated=dated,
            written=lambda day: f"{date.fromisoformat(day):%d-%m-%Y}",
        )
    )


def _verdict(line: Any) -> tuple[str, str]:
    """A class and a sentence."""
    if line["missing"]:
        return "bad", "Incomplete: not everything ran."
    if broken := len(line["broken"]):
        return "bad", f"{broken} floor{'s' if broken > 1 else ''} broken."
    if line.get("only"):
        return "none", f"No floor broken, but only {', '.join(line['only'])} ran."
    return "good", "No floor broken."


def _trend(table: pd.DataFrame, nights: Sequence[history.Measured]) -> dict[str, Any]:
    """One path over time: an SVG a metric, and the numbers behind them, newest first.

    Of each night: date, a share for each metric, and why it is not comparable with the night before.
    """
    name, kind = nights[-1].name, nights[-1].kind
    own = table[(table["path"] == name) & (table["slice"] == "all")].rename(columns={"date": "day"})
    drawn = []
    for metric, said in METRICS.items():
        counted = stats.with_intervals(own[own["metric"] == metric].tail(NIGHTS))
        alt = f"{said} of {name} over {len(counted)} night{'' if len(counted) == 1 else 's'}"
        draw = partial(plots.trend, counted, metric=metric)
        drawn.append((said, svg.inline(draw, alt, f"{web.slug(name)}-{web.slug(metric)}", INCHES)))
    shown = nights[-NIGHTS:]
    numbers = [
        [now.date, *(stats.share(*(now.counted(metric) or (0, 0))) for metric in METRICS), why]
        for now, why in zip(shown, ["", *map(history.apart, shown, shown[1:])], strict=True)
    ]
    return {"path": name, "kind": kind, "drawn": drawn, "numbers": numbers[::-1]}


def _flips(reports: Path, nights: Sequence[history.Measured]) -> dict[str, Any]:
    """Cases of one path that came out otherwise than on the comparable night `before`; "" if there is none.

    Of each: case, what was asked, outcome before, outcome now.
    """
    now = nights[-1]
    for before in reversed(nights[:-1]):
        if history.differs(before, now):
            break
        if before.date == now.date:
            continue
        try:
            files = [reports / one.date / "runs" / f"{now.name}.jsonl" for one in (before, now)]
            old, new = map(runs.read_rows, files)
        except (OSError, RecallError):
            continue  # gone or damaged since: an older night may still be whole
        pair = old.merge(new, on=["case_id", "case_hash"], suffixes=("_before", "_now"))
        changed = pair[pair["outcome_before"] != pair["outcome_now"]]
        cases = [
            (
                *(report.clean(row.case_id), report.clean(report.clip(row.query_now))),
                *(row.outcome_before.replace("_", " "), row.outcome_now.replace("_", " ")),
            )
            for row in changed.head(MOST).itertuples()
        ]
        left_out = max(len(changed) - MOST, 0)
        return {"name": now.name, "before": before.date, "cases": cases, "left_out": left_out}
    return {"name": now.name, "before": "", "cases": [], "left_out": 0}

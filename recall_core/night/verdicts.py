"""Verdicts: what of the floors held and what did not, for a person, for CI, and for the exit code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal
from xml.etree import ElementTree

import pandas as pd

from recall_core import config, scoring
from recall_core.records import ConfigError, Fixture
from recall_core.reporting.report import clip, escape
from recall_core.runs import Result
from recall_core.stats import share

State = Literal["holds", "broken", "missing"]


@dataclass(frozen=True)
class Verdict:
    """One thing that was demanded. `missing`: nothing was measured to hold it against."""

    group: Literal["floor", "flips", "notebook"]
    subject: str
    """The embedder, or the job."""
    what: str
    state: State
    said: str
    seconds: float = 0.0


def check_floors(settings: config.Config, fixture: Fixture) -> None:
    """Raises ConfigError for a floor that nothing could ever be held against."""
    metrics = scoring.metric_names(sorted({1, settings.top_k}))
    slices = ["all", "hard", *sorted({f"lang={case.lang}" for case in fixture.cases})]
    for floor in settings.floors:
        asked = {floor.path: settings.measure, floor.metric: metrics, floor.slice: slices}
        for value, known in asked.items():
            if value not in known:
                raise ConfigError(
                    f"{config.NAME}: a floor on {value!r}, which this night does not measure; "
                    f"known: {', '.join(known)}"
                )


def judged(floors: Sequence[config.Floor], results: Sequence[Result]) -> list[Verdict]:
    """A verdict a floor. A floor whose path has no results is missing."""
    by_name = {result.path: result for result in results}
    found = []
    for floor in floors:
        what = floor.metric + ("" if floor.slice == "all" else f" of {floor.slice}")
        state, said = _held(floor, by_name.get(floor.path))
        found.append(Verdict("floor", floor.path, what, state, f"{floor.path}, {what}: {said}"))
    return found


def _held(floor: config.Floor, result: Result | None) -> tuple[State, str]:
    least = floor.min is not None
    bound = (floor.min if least else floor.max) or 0.0
    wanted = f"wanted at {'least' if least else 'most'} {bound:.2%}"
    if result is None:
        return "missing", f"{wanted}, and there is no result"
    hits, n = result.counted(floor.metric, floor.slice)
    if not n:
        return "broken", f"{wanted}, and the fixture has no such case"
    if (hits < bound * n - 1e-9) if least else (hits > bound * n + 1e-9):
        by = f"{100 * abs(hits / n - bound):.1f} points {'below' if least else 'above'}"
        return "broken", f"{share(hits, n)}, {wanted}; {by}"
    return "holds", f"{share(hits, n)}, {wanted}"


def judged_pages(settings: config.PagesConfig, tables: Mapping[str, pd.DataFrame] | None) -> list[Verdict]:
    """The same where paths are compared: each one's recall@k, and the others against the first.

    `tables`: `held_to` and `below` as `path_study` makes them; None where nothing was measured. What is lost
    is named.
    """
    metric = f"recall@{settings.top_k}"
    if tables is None:
        return [Verdict("floor", "pages", metric, "missing", f"pages, {metric}: there is no result")]
    found = []

    def demand(what: str, holds: bool, said: str, lost: str) -> None:
        found.append(Verdict("floor", "pages", what, "holds" if holds else "broken", f"pages{said}{lost}"))

    for row in tables["held_to"].itertuples():
        said = f", {row.path} {metric}: {share(row.hits, row.n)}, wanted at least {settings.floor:.1%}"
        holds = row.hits >= settings.floor * row.n - 1e-9
        demand(f"{metric}, {row.path}", holds, said, "" if holds else f"; lost: {row.lost}")
    hits, below = tables["paths"].set_index("path")["hits"], tables["below"]
    first, *others = settings.paths
    for name in others if not settings.below_first else ():
        said, lost = f": {name} finds {hits[name]}, {first} {hits[first]}", ""
        if hits[name] < hits[first]:
            lost = f"; found by {first} and lost by {name}: "
            lost += " ".join(below.loc[below["path"] == name, "case_id"])
        demand(f"{name} not below {first}", not lost, said, lost)
    return found


def headline(verdicts: Sequence[Verdict]) -> str:
    """The whole night in one line."""
    failed = [one for one in verdicts if one.group == "notebook" and one.state != "holds"]
    held = [one for one in verdicts if one.group != "notebook"]
    broken = sum(one.state != "holds" for one in held)
    floors = f"{broken} of {len(held)} broken" if broken else f"all {len(held)} hold"
    said = [f"{len(failed)} notebook(s) without results"] * bool(failed)
    return "; ".join([*said, floors if held else "no floors are set"])


def junit(verdicts: Sequence[Verdict], day: date) -> str:
    """JUnit XML, as CI servers read it: a broken demand is a failure, a missing measurement an error."""
    suites = ElementTree.Element("testsuites")
    count = Counter(one.state for one in verdicts)
    about = {"tests": len(verdicts), "failures": count["broken"], "errors": count["missing"], "skipped": 0}
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        {name: str(number) for name, number in about.items()},
        name=f"recall nightly {day.isoformat()}",
        time=f"{sum(one.seconds for one in verdicts):.3f}",
    )
    for one in verdicts:
        about_it = {"classname": _xml(f"{one.group}.{one.subject}"), "name": _xml(one.what)}
        case = ElementTree.SubElement(suite, "testcase", about_it, time=f"{one.seconds:.3f}")
        if one.state != "holds":
            tag = "failure" if one.state == "broken" else "error"
            ElementTree.SubElement(case, tag, message=_xml(one.said)).text = _xml(one.said)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def summary(verdicts: Sequence[Verdict], day: date) -> str:
    """Markdown for the page of a CI job: what failed first, the rest in a table that holds all."""
    lines = [f"# Recall, {day:%d-%m-%Y}: {headline(verdicts)}", ""]
    lines += [f"- **{one.state}** {_md(one.said)}" for one in verdicts if one.state != "holds"]
    lines += ["", "| | what | verdict | measured |", "|---|---|---|---|"]
    lines += [f"| {_md(one.subject)} | {_md(one.what)} | {one.state} | {_md(one.said)} |" for one in verdicts]
    return "\n".join(lines) + "\n"


def _md(text: str) -> str:
    return escape(clip(text))


def _xml(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold, such as the colours of a traceback."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)

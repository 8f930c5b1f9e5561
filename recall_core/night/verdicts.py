"""Verdicts: what held and what did not, for a person, for CI, and for the exit code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal
from xml.etree import ElementTree

from recall_core.reporting.report import clip, escape

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

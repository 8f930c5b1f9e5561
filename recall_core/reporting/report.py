"""The report: results -> Markdown, and the same as one self-contained HTML file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from recall_core.past.changes import Changes
from recall_core.reporting import behind, findings, web
from recall_core.runs import Result
from recall_core.stats import calibration_error, share, wilson

KINDS = {
    "onnx": (
        "Paths with a model",
        "What a deployed memory would do. Compare these columns with each other only.",
    ),
    "keyword": ("Words alone", "No model: the same numbers on every machine."),
    "hash": (
        "The lexical ratchet",
        "The hash embedder sees spelling, not meaning. It needs no model file and gives the same numbers on "
        "every machine, so a build can be held to them. They say nothing about a model embedder, and are "
        "never compared with one.",
    ),
}
"""In this order. Each kind has a table of its own, so that no verdict reads across them."""


@dataclass(frozen=True)
class Page:
    """Everything a report says that is not in the runs themselves."""

    day: date
    facts: Sequence[tuple[str, str]]
    """What was measured: name and value, in plain words."""
    provenance: Sequence[tuple[str, str]]
    broken: Sequence[str]
    """Floors that do not hold, each in one sentence."""
    floors: int
    """How many floors were checked."""
    missing: Sequence[str]
    """What failed to run."""
    texts: dict[str, str]
    """The text of each memory, for those that are quoted."""
    failures: dict[str, pd.DataFrame]
    """For each path, `pipeline.failures`."""
    figures: dict[str, Sequence[tuple[str, str]]]
    """For each job, (file relative to the report, alternative text)."""
    tables: dict[str, dict[str, pd.DataFrame]] = field(default_factory=dict)
    """Tables of the other sections, by section."""
    notebooks: Sequence[str] = ()
    """The executed notebooks, as files below the report's folder."""
    changes: Changes = field(default_factory=Changes)
    """What is different from earlier nights."""


def markdown(page: Page, results: Sequence[Result]) -> str:
    """The report as Markdown. Fixture texts are escaped: they can hold no table, link or HTML."""
    env = web.environment(autoescape=False)
    env.filters["md"] = lambda text: escape(clip(text))
    kinds = list(KINDS)
    results = sorted(results, key=lambda result: kinds.index(result.kind))
    groups = [(*KINDS[kind], list(group)) for kind, group in groupby(results, lambda result: result.kind)]
    text = env.get_template("report.md.j2").render(
        page=page,
        results=results,
        groups=groups,
        said=findings,
        table=results_table,
        sweep=sweep_lines,
        number=_number,
        share=share,
        points=_points,
        flips=_flips,
        health=_health,
        calibration_error=calibration_error,
        numbers=partial(_numbers, page, results),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def html(text: str, title: str, folder: Path) -> str:
    """The Markdown as one HTML file that asks nothing of any server. Figures are read below `folder`."""
    return web.page(text, title, folder)


def results_table(results: Sequence[Result]) -> list[list[str]]:
    """Rows of the results table, one column a path; the first cell names the row."""
    named = {
        "recall@1": "recall@1",
        **{f"recall@{k}": f"recall@{k}" for k in sorted({result.top_k for result in results} - {1})},
        "right_first": "right first",
        "wrong_on_top": "wrong on top",
        "tie_on_top": "tie on top",
        "answered": "answered, after the gate",
        "silenced": "right first, then silenced",
        "misled": "misled: a wrong memory is spoken",
        "false_recall": "false recall, of those that must stay silent",
        "passed": "cases passed",
    }
    counted = [(title, metric, "all") for metric, title in named.items()]
    slices = list(dict.fromkeys(part for result in results for part in result.summary["slice"]))
    for part in slices[1:]:
        title = f"passed, {part.removeprefix('lang=')}" + (" cases" if part == "hard" else "")
        counted.append((title, "passed", part))
    if any(result.counted("failed")[0] for result in results):
        counted.append(("searches that failed", "failed", "all"))
    rows = [
        [title, *(share(*result.counted(metric, part)) for result in results)]
        for title, metric, part in counted
    ]
    for quantity, what, digits in (("top1", "top-1 score", 3), ("margin", "margin", 4)):
        for group, when in (("right", "right first"), ("silent", "must stay silent")):
            cells = [_spread(result.spread_of(quantity, group), digits) for result in results]
            rows.append([f"{what}, {when}: min / median / max", *cells])
    for quantity, what in (("embed_ms", "embedding"), ("search_ms", "search")):
        found = [result.spread_of(quantity)[["median", "p95", "max"]] for result in results]
        cells = [" / ".join(f"{value:.2f}" for value in one) + " ms" for one in found]
        rows.append([f"latency of {what}: p50 / p95 / max", *cells])
    return rows


def sweep_lines(table: pd.DataFrame, knob: str) -> list[str]:
    """One line a setting; neighbours with equal counts share a line, the chosen one stands alone."""
    counted = ["answered", "false_recall", "chosen"]
    blocks = (table[counted] != table[counted].shift()).any(axis=1).cumsum()
    lines = []
    for _, block in table.groupby(blocks):
        first, last = block.iloc[0], block.iloc[-1]
        setting = f"{first[knob]:.3f}" + (f" to {last[knob]:.3f}" if len(block) > 1 else "")
        answered = _counted(first["answered"], first["answerable"])
        false = _counted(first["false_recall"], first["silent"])
        marks = "   <- chosen" * bool(first["chosen"]) + "   * frontier" * bool(first["on_frontier"])
        lines.append(f"{knob} {setting + ':':<16} answered {answered:<21}  false recall {false}{marks}")
    return lines


def clean(text: str) -> str:
    """Text as one line, without control characters and direction overrides."""
    shown = (" " if unicodedata.category(char)[0] == "C" and char != "\u200d" else char for char in text)
    return " ".join("".join(shown).split())


def escape(text: str) -> str:
    """Text that Markdown and HTML show as it is: one line, no mark-up, no control or direction overrides."""
    shown = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~!$])", r"\\\1", shown)


def clip(text: str, most: int = 400) -> str:
    """A text short enough to quote."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _numbers(page: Page, results: Sequence[Result], job: str, file: str) -> str:
    """The table behind a figure, as Markdown; nothing where there is none."""
    table = behind.table(job, file, results, page.tables)
    if table is None or table.empty:
        return ""
    rows = [["---"] * len(table.columns), *table.map(escape).values.tolist()]
    return "\n".join(f"| {' | '.join(row)} |" for row in [map(escape, table.columns), *rows])


def _spread(found: pd.Series[float], digits: int) -> str:
    if not found["n"]:
        return "no cases"
    return " / ".join(f"{found[name]:.{digits}f}" for name in ("min", "median", "max"))


def _counted(hits: int, n: int) -> str:
    if not n:
        return "no cases"
    low, high = wilson(int(hits), int(n))
    return f"{hits}/{n} ({hits / n:.0%}) [{100 * low:.0f}, {100 * high:.0f}]"


def _number(value: float | None, digits: int = 3) -> str:
    if value is None or np.isnan(value):
        return "-"
    return f"{value:.{digits}f}" if np.isfinite(value) else "no runner-up" if value > 0 else "nothing found"


def _points(difference: float, low: float, high: float) -> str:
    """A difference of shares and its interval, in percentage points."""
    return f"{100 * difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _flips(table: pd.DataFrame, before: str, after: str) -> pd.DataFrame:
    """The cases that changed between two embedders, one row each: `changed` names the metrics."""
    if not len(table):
        return table
    own = table[(table["before_name"] == before) & (table["after_name"] == after)]
    said = (own["metric"] + " " + own["direction"]).groupby(own["case_id"]).agg(", ".join)
    return own.drop_duplicates("case_id").assign(changed=lambda rows: rows["case_id"].map(said))


def _health(table: pd.DataFrame) -> pd.DataFrame:
    """Checks as `checks.Check`, a row a property and a column an embedder, each cell what was measured."""
    holds = table["ok"].map({True: "", False: "**does not hold**: ", None: ""}).fillna("")
    return table.assign(said=holds + table["measured"]).pivot_table(
        index="name", columns="embedder", values="said", aggfunc="first", sort=False
    )

"""Findings: sentences written from the numbers, each only when they support it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from recall_core import stats
from recall_core.runs import Result

HUB_CASES = 3
"""A memory on top of this many questions it does not answer is called a hub."""


@dataclass(frozen=True)
class Said:
    """One finding: a headline, then what supports it. `texts` are quoted from the fixture."""

    headline: str
    body: str
    texts: tuple[str, ...] = ()


def findings(result: Result, texts: dict[str, str]) -> list[Said]:
    """All findings of one run. `texts`: the text of each memory id, for those quoted by name."""
    rules = (_failed, _false_recalls, _silenced, _misled, _overlap, _floor_idle, _margin_idle, _mute, _hubs)
    return [said for rule in rules for said in rule(result, texts)]


def headline(result: Result) -> str:
    """What a person asks first, in one sentence."""
    answered, asked = result.counted("answered")
    false, silent = result.counted("false_recall")
    misled, _ = result.counted("misled")
    return (
        f"{result.path} says the right thing to {answered} of {asked} questions it could answer, and "
        f"something wrong to {misled}. It speaks up in {false} of {silent} cases where it should keep quiet."
    )


def caveats(result: Result) -> list[str]:
    """What the numbers cannot carry."""
    _, silent = result.counted("false_recall")
    _, answerable = result.counted("answered")
    said = []
    if silent:
        bound = 1 - 0.05 ** (1 / silent)
        said.append(
            f"{silent} cases must stay silent, so one case moves false recall by {100 / silent:.0f} points. "
            f"Even no false recall in {silent} would leave a true rate of up to {bound:.0%} open "
            "(one-sided 95%). Two settings one false recall apart are not told apart by this fixture."
        )
    else:
        said.append("No case must stay silent: this fixture says nothing about false recall.")
    if answerable:
        said.append(
            f"{answerable} answerable cases: one case moves recall@1 by {100 / answerable:.1f} points. "
            "The intervals in the tables say how far a share can be trusted."
        )
    return said


def dominance(table: pd.DataFrame, knob: str) -> str:
    """One sentence on how the configured setting stands to the others of its sweep."""
    chosen = table[table["chosen"]].iloc[0]
    named = f"{knob} {chosen[knob]:g}"
    beats, beaten = (
        ", ".join(f"{value:g}" for value in table.loc[table[how], knob])
        for how in ("beats_chosen", "beaten_by_chosen")
    )
    if beats:
        return (
            f"The configured {named} is dominated by {knob} {beats}: "
            "no fewer answered, no more false recalls, and one of them better."
        )
    if beaten:
        return f"The configured {named} dominates {knob} {beaten}, and no setting tried dominates it."
    same = (table["answered"] == chosen["answered"]) & (table["false_recall"] == chosen["false_recall"])
    if same.all():
        return f"Every setting tried gives what {named} gives: on this fixture the knob does nothing."
    return f"No setting tried dominates the configured {named}, and it dominates none."


def needed(table: pd.DataFrame) -> str:
    """How many silent cases it takes to promise a bound, and to tell the chosen setting from the next."""
    chosen = table[table["chosen"]].iloc[0]
    silent, false = int(chosen["silent"]), int(chosen["false_recall"])
    said = (
        f"A promise of at most 5% false recall (95% confidence) takes {stats.silent_needed(0.05)} silent "
        f"cases without one false recall; here are {silent}."
    )
    fewer = table.loc[table["false_recall"] < false, "false_recall"]
    if not silent or not len(fewer):
        return said
    cases = stats.silent_needed_to_tell(false / silent, int(fewer.max()) / silent)
    return (
        f"{said} To tell {false}/{silent} from the next lower {int(fewer.max())}/{silent} takes {cases} "
        "silent cases (exact McNemar, power 80%)."
    )


def _failed(result: Result, _: dict[str, str]) -> Iterator[Said]:
    rows = result.rows[result.rows["failed"]]
    if len(rows):
        yield Said(
            f"{len(rows)} searches failed",
            "They count as not passed, at their worst value:",
            tuple(f"{row.case_id}: {row.error}" for row in rows.itertuples()),
        )


def _false_recalls(result: Result, texts: dict[str, str]) -> Iterator[Said]:
    rows = result.rows[(result.rows["outcome"] == "false_recall") & ~result.rows["failed"]]
    _, silent = result.counted("false_recall")
    if len(rows):
        yield Said(
            f"{len(rows)} of {silent} questions that have no answer get one",
            "Each is a wrong memory said with confidence:",
            tuple(
                f"“{row.query}” is answered with “{texts[row.ids[0]]}” "
                f"(score {row.top1:.3f}, margin {_number(row.margin)})"
                for row in rows.itertuples()
            ),
        )


def _silenced(result: Result, _: dict[str, str]) -> Iterator[Said]:
    hits, n = result.counted("silenced")
    if hits:
        first, _n = result.counted("right_first")
        spoken, _n = result.counted("answered")
        yield Said(
            f"{first}/{n} rank first, only {spoken}/{n} are said",
            f"The gate silences {hits} of them. The person asking lives what is said, not what ranks first.",
        )


def _misled(result: Result, _: dict[str, str]) -> Iterator[Said]:
    hits, n = result.counted("misled")
    if hits:
        yield Said(
            f"{hits} of {n} questions that have an answer get something else",
            "What is spoken is not the memory that answers. The person asking cannot see that.",
        )


def _overlap(result: Result, _: dict[str, str]) -> Iterator[Said]:
    for quantity, named, knob in (("top1", "score", "min_score"), ("margin", "margin", "delta")):
        right, silent = result.spread_of(quantity, "right"), result.spread_of(quantity, "silent")
        if not right["n"] or not silent["n"]:
            continue
        overlap = right["min"] <= silent["max"]
        ends = f"; cases that must stay silent {'reach' if overlap else 'end at'} {silent['max']:.3f}."
        more = f" The two ranges overlap, so no {knob} keeps every right answer and rejects every false one."
        yield Said(
            f"The {named} cannot separate a real recall from a false one"
            if overlap
            else f"The {named} separates real recalls from false ones on this fixture",
            f"Right-first cases start at {named} {right['min']:.3f}{ends}{more * bool(overlap)}",
        )


def _floor_idle(result: Result, _: dict[str, str]) -> Iterator[Said]:
    top = result.rows.loc[~result.rows["failed"], "top1"]
    if len(top) and (top >= result.min_score).all():
        yield Said(
            f"The absolute gate rejects nothing: min_score {result.min_score:g} is a no-op",
            f"The lowest top score of all {len(top)} cases is {top.min():.3f}. Only a threshold above that "
            "does any work with this embedder.",
        )


def _margin_idle(result: Result, _: dict[str, str]) -> Iterator[Said]:
    rows = result.rows[~result.rows["failed"] & (result.rows["top1"] >= result.min_score)]
    if result.delta is not None and len(rows) and (rows["margin"] > result.delta).all():
        smallest = rows["margin"].min()
        yield Said(
            f"The margin gate rejects nothing: delta {result.delta:g} is a no-op",
            f"The smallest margin of the {len(rows)} cases that clear min_score is {smallest:.4f}."
            if np.isfinite(smallest)
            else f"None of the {len(rows)} cases that clear min_score has a runner-up.",
        )


def _mute(result: Result, _: dict[str, str]) -> Iterator[Said]:
    rows = result.rows[~result.rows["failed"]]
    if len(rows) and not rows["outcome"].isin(["answered", "misled", "false_recall"]).any():
        highest = rows["top1"].replace(-np.inf, np.nan).max()
        yield Said(
            "The gate lets nothing through: the memory never speaks",
            f"The highest top score of all cases is {_number(highest)}, and min_score is "
            f"{result.min_score:g}. Zero false recall here is silence, not judgement.",
        )


def _hubs(result: Result, texts: dict[str, str]) -> Iterator[Said]:
    asked: dict[str, list[str]] = defaultdict(list)
    for row in result.rows.itertuples():
        if len(row.ids) and row.ids[0] not in row.expected:
            asked[row.ids[0]].append(row.query)
    for id_, queries in sorted(asked.items(), key=lambda hub: (-len(hub[1]), hub[0])):
        if len(queries) >= HUB_CASES:
            yield Said(
                f"One memory comes out on top of {len(queries)} unrelated questions",
                f"{id_} draws questions that it does not answer:",
                (f"the memory: “{texts[id_]}”", *(f"asked: “{query}”" for query in queries)),
            )


def _number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "without a runner-up" if value > 0 else "none"

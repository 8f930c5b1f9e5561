"""Drift: what becomes of a gate when the store grows, and when the path is another.

A store of fifteen notes has fifteen chances of a near miss, one of four thousand has four thousand: the best
wrong score rises with the size, and with it the runner-up. A threshold chosen in the one is not one for the
other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain, zip_longest

import pandas as pd

from recall_core import fixtures, gates, progress, scoring, stats
from recall_core.choosing import choice
from recall_core.choosing.gate_file import Counts, GateFile
from recall_core.choosing.learn_then_test import RefusedError
from recall_core.choosing.loglines import log_lines
from recall_core.paths import ReadPath, Session
from recall_core.pipeline import DEPTH
from recall_core.records import Fixture, InputError, Memory


def pool(fixture: Fixture, size: int) -> list[Memory]:
    """The first `size` memories of filler: the fixture's own and log lines in turn, then log lines alone.

    A larger pool begins with a smaller.
    """
    notes = sorted(fixtures.all_memories(fixture), key=lambda memory: memory.id)
    random.Random(0).shuffle(notes)
    lines = [Memory(id=f"log line {n}", text=line) for n, line in enumerate(log_lines(size))]
    return [memory for memory in chain(*zip_longest(notes[:size], lines)) if memory is not None][:size]


def sizes(
    fixture: Fixture, path: ReadPath, gate: gates.Gate, sizes: Sequence[int], *, quiet: bool | None = None
) -> pd.DataFrame:
    """The same cases asked of stores of each size: a row a size.

    A store holds what the case brings and what its group holds, filled up to the size from `pool` with what
    does not say the same. Some of the filler is other lives' notes, and a note of another life may answer a
    silent question in its own way.

    Columns: `size`; counts `answerable`, `right_first` (recall@1), `answered`, `misled`, `silent`,
    `false_recall`; medians `top1_right`, `margin_right` (of the cases right first in this store),
    `top1_silent` and `margin_silent`. Without sizes, of no rows. Raises
    InputError when a size is smaller than what a case must have.
    """
    if not sizes:
        return pd.DataFrame()
    shared = {memory.id for memory in fixture.filler}
    own = [[m for m in fixtures.memories_for(fixture, case) if m.id not in shared] for case in fixture.cases]
    most, least = max(map(len, own)), min(sizes)
    if least < most:
        named = next(case.id for case, held in zip(fixture.cases, own, strict=True) if len(held) == most)
        raise InputError(
            f"size {least} is smaller than the {most} memories that case {named!r} comes with; "
            f"give {most} or more"
        )
    filler = pool(fixture, max(sizes) + len(list(fixtures.all_memories(fixture))))
    rows: dict[int, list[scoring.Row]] = {size: [] for size in sizes}
    stores: dict[int, Session] = {}
    before: list[Memory] = []
    with progress.bar(len(own), f"grow, {path.name}", "case", quiet=quiet) as bar:
        for case, held in zip(fixture.cases, own, strict=True):
            if not stores or held != before:
                said = {memory.text for memory in held}
                filled = [*held, *(memory for memory in filler if memory.text not in said)]
                stores, before = {size: path.open(filled[:size]) for size in sizes}, held
            for size, session in stores.items():
                rows[size].append(scoring.score_case(case, session.search(case.query, DEPTH), depth=3))
            bar.update(1)
    return pd.DataFrame([{"size": size, **_measured(scoring.frame(rows[size]), gate)} for size in sizes])


def _measured(rows: pd.DataFrame, gate: gates.Gate) -> dict[str, object]:
    counted = gates.counted(rows, gates.opened(rows, gate)[:, None]).iloc[0]
    parts = {"right": rows["place"] == "right_first", "silent": rows["place"] == "silent"}
    return {
        "answerable": counted["answerable"],
        "right_first": int(parts["right"].sum()),
        **counted[["answered", "misled", "silent", "false_recall"]],
        **{
            f"{signal}_{name}": float(rows.loc[part, signal].median())
            for name, part in parts.items()
            for signal in ("top1", "margin")
        },
    }


def transfer(rows_a: pd.DataFrame, rows_b: pd.DataFrame, gate: GateFile, other: str) -> str:
    """In one loud line: a gate chosen on A used with B, on purpose and against `GateFile.check`.

    Counts on the test half, beside those at home and those of B's own choice of the same promise. Both are
    scored cases of one fixture that `split.mark` marked.
    """
    home, lent = (
        choice.counts(
            rows[rows["half"] == "test"], gate.signal, gate.threshold, gate.confidence, gate.min_score
        )
        for rows in (rows_a, rows_b)
    )
    try:
        promise = {"max_false": gate.max_false, "confidence": gate.confidence}
        own = f"its own choice: {_said(choice.choose(rows_b, gate.signal, **promise).test)}"
    except RefusedError as error:
        own = f"its own choice is refused: {error}"
    return f"WRONG PATH: the gate of {gate.path} on {other}: {_said(lent)}; at home: {_said(home)}; {own}"


def _said(found: Counts) -> str:
    false = stats.share(found.false_recall, found.silent)
    return f"false recall {false}, answered {stats.share(found.answered, found.answerable)}"

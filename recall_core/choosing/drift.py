"""Drift: what becomes of a gate when the store grows, and when the path is another.

A store of fifteen notes has fifteen chances of a near miss, one of four thousand has four thousand: the best
wrong score rises with the size, and with it the runner-up. A threshold chosen in the one is not one for the
other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Literal

import numpy as np
import pandas as pd

from recall_core import fixtures, gates, progress, scoring, signals, stats
from recall_core.choosing import choice
from recall_core.choosing.gate_file import Counts, GateFile
from recall_core.choosing.learn_then_test import RefusedError
from recall_core.choosing.loglines import log_lines
from recall_core.paths import ReadPath, Session
from recall_core.pipeline import DEPTH
from recall_core.records import Case, Fixture, InputError, Memory

SIZES = (15, 60, 250, 1_000)
Filler = Literal["both", "lines"]


@dataclass(frozen=True)
class Pool:
    """Memories that fill a store up, in the order they are added, so that a larger store holds a smaller."""

    memories: tuple[Memory, ...]
    notes: int
    """How many are memories of the fixture: every other one from the first, until there are no more."""


def pool(fixture: Fixture, size: int, filler: Filler = "both", seed: int = 0) -> Pool:
    """The first `size` memories of filler: the fixture's own and log lines in turn, or log lines alone."""
    every = sorted(fixtures.all_memories(fixture), key=lambda memory: memory.id)
    random.Random(seed).shuffle(every)
    notes = every[:size] if filler == "both" else []
    lines = [Memory(id=f"log line {n}", text=line) for n, line in enumerate(log_lines(size, seed))]
    mixed = [memory for memory in chain(*zip_longest(notes, lines)) if memory is not None][:size]
    return Pool(tuple(mixed), sum(not memory.id.startswith("log line ") for memory in mixed))


def sizes(
    fixture: Fixture,
    path: ReadPath,
    gate: gates.Gate | GateFile,
    sizes: Sequence[int] = SIZES,
    *,
    cases: Sequence[Case] | None = None,
    filler: Filler = "both",
    seed: int = 0,
    quiet: bool | None = None,
) -> pd.DataFrame:
    """The same cases asked of stores of each size: a row a size.

    A store holds what the case brings and what its group holds, filled up to the size from `pool` without
    them. With `both`, some of the filler is other lives' notes, and a note of another life may answer a
    silent question in its own way; `lines` has no such doubt, and is easier to tell apart.

    Columns: `size`; counts `answerable`, `right_first` (recall@1), `answered`, `misled`, `silent`,
    `false_recall`; medians `top1_right`, `margin_right` (of the cases right first in this store),
    `top1_silent` and `margin_silent`. Without sizes, of no rows. Raises
    InputError when a size is smaller than what a case must have.
    """
    asked = list(fixture.cases if cases is None else cases)
    shared = {memory.id for memory in fixture.filler}
    own = [[m for m in fixtures.memories_for(fixture, case) if m.id not in shared] for case in asked]
    if not sizes:
        return pd.DataFrame()
    if not asked:
        raise InputError("there are no cases; give at least one")
    largest = max(zip(map(len, own), asked, strict=True), key=lambda pair: pair[0])
    if min(sizes) < largest[0]:
        raise InputError(
            f"size {min(sizes)} is smaller than the {largest[0]} memories that case {largest[1].id!r} "
            f"comes with; give {largest[0]} or more"
        )
    held = _filled(own, pool(fixture, max(sizes) + len(list(fixtures.all_memories(fixture))), filler, seed))
    rows: dict[int, list[scoring.Row]] = {size: [] for size in sizes}
    stores: dict[int, tuple[Session, signals.Known]] = {}
    before: list[Memory] = []
    with progress.bar(len(asked), f"grow, {path.name}", "case", quiet=quiet) as bar:
        for at, case in enumerate(asked):
            if not stores or own[at] != before:
                parts = {size: held[at][:size] for size in sizes}
                stores = {size: (path.open(part), signals.known(part)) for size, part in parts.items()}
                before = own[at]
            for size, (session, known) in stores.items():
                ranking = session.search(case.query, DEPTH)
                told = signals.signals_of(case.query, case.lang, ranking, known)
                rows[size].append(scoring.score_case(case, ranking, depth=3, signals=told))
            bar.update(1)
    return pd.DataFrame([{"size": size, **_measured(scoring.frame(rows[size]), gate)} for size in sizes])


def _filled(own: Sequence[Sequence[Memory]], added: Pool) -> list[list[Memory]]:
    """Each case's own memories, then all filler that does not say the same as one of them."""
    found = []
    for memories in own:
        known = {memory.text for memory in memories}
        found.append([*memories, *(memory for memory in added.memories if memory.text not in known)])
    return found


def _measured(rows: pd.DataFrame, gate: gates.Gate | GateFile) -> dict[str, object]:
    opens = gate.opens(rows) if isinstance(gate, GateFile) else gates.opened(rows, gate)
    right = (rows["place"] == "right_first").to_numpy()
    answerable = rows["answerable"].to_numpy(np.bool_)
    return {
        "answerable": int(answerable.sum()),
        "right_first": int(right.sum()),
        "answered": int((right & opens).sum()),
        "misled": int((answerable & ~right & opens).sum()),
        "silent": int((~answerable).sum()),
        "false_recall": int((~answerable & opens).sum()),
        **{
            f"{signal}_{name}": float(rows.loc[part, signal].median())
            for name, part in (("right", right), ("silent", ~answerable))
            for signal in ("top1", "margin")
        },
    }


@dataclass(frozen=True)
class Transfer:
    """A gate chosen on one path, used with another, on purpose and against `GateFile.check`.

    Counts on the test half: `home` with its own path, `lent` with the other, `own` what the other's own
    choice does there (None: refused, as `own_said` tells).
    """

    path: str
    other: str
    home: Counts
    lent: Counts
    own: Counts | None
    own_said: str

    def said(self) -> str:
        """What went wrong, in one loud line."""
        false = stats.share(self.lent.false_recall, self.lent.silent)
        answered = stats.share(self.lent.answered, self.lent.answerable)
        own = self.own_said
        if self.own:
            own = (
                f"its own choice: false recall {stats.share(self.own.false_recall, self.own.silent)}, "
                f"answered {stats.share(self.own.answered, self.own.answerable)}"
            )
        return (
            f"WRONG PATH: the gate of {self.path} on {self.other}: false recall {false}, answered "
            f"{answered}, where at home it has {stats.share(self.home.false_recall, self.home.silent)} and "
            f"{stats.share(self.home.answered, self.home.answerable)}; {own}"
        )


def transfer(rows_a: pd.DataFrame, rows_b: pd.DataFrame, gate: GateFile, other: str = "another") -> Transfer:
    """What a gate chosen on A does on the test half of B, beside B's own choice of the same promise.

    Both are scored cases of one fixture that `split.mark` marked. Raises InputError when they are not.
    """
    if set(rows_a["case_id"]) != set(rows_b["case_id"]):
        raise InputError("the two runs did not ask the same cases; ask both paths one fixture")
    home, lent = (
        choice.counts(
            rows[rows["half"] == "test"], gate.signal, gate.threshold, gate.min_score, gate.confidence
        )
        for rows in (rows_a, rows_b)
    )
    own, said = None, ""
    try:
        own = choice.choose(
            rows_b,
            gate.signal,
            max_false=gate.max_false,
            confidence=gate.confidence,
            min_score=gate.min_score,
        ).test
    except RefusedError as error:
        said = f"its own choice is refused: {error}"
    return Transfer(gate.path, other, home, lent, own, said)

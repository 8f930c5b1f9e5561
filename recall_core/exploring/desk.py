"""The desk a run is explored at: one run, one gate, and what every panel says about them, as HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from recall_core.exploring import drafts, explore
from recall_core.exploring import html as show
from recall_core.exploring.ask import NOTES, Library
from recall_core.gates import Gate
from recall_core.records import Memory

LISTED = 200
"""Failed cases in the list to pick from."""
LATER, SILENT = "", "\0silent"
"""What a draft may expect besides a memory: whoever marks it does not say yet, or nothing."""


class View(NamedTuple):
    """A question as HTML, and what a draft of it would hold: the question and the memories shown."""

    html: str
    query: str = ""
    seen: Sequence[Memory] = ()
    lang: str | None = None


class Desk:
    """One run under one gate. `panels`: who is told, by name, when either changes.

    `gate`: where to start, as min_score and delta; empty: the run's own.
    """

    def __init__(
        self,
        root: Path,
        *,
        run: str | explore.Run = "",
        fixture: str = "",
        gate: Sequence[float] = (),
        drafts_path: str = "data/drafts.json",
    ) -> None:
        self.root, self.fixture, self.drafts_path = root, fixture, drafts_path
        self.library = Library(root)
        self.panels: dict[str, Callable[[], None]] = {}
        self._asked = lru_cache(1)(self.library.ask)
        self._ranked = lru_cache(LISTED)(self.library.ranking)
        self.open(run, Gate(*gate) if gate else None)

    def open(self, wanted: str | explore.Run, gate: Gate | None = None) -> None:
        """Explore a run, from this gate or its own. Flips are told against its own.

        Raises RecallError when it cannot be opened; the present one then stays.
        """
        run = self.library.run(wanted, self.fixture) if isinstance(wanted, str) else wanted
        self.run = run
        self.before, self.why = explore.starting_gate(run)
        self.dials = explore.dials(run.rows, self.before, gate or self.before)
        self.table = explore.settings(run.rows, *self.dials)
        self.move(gate or self.before)

    def move(self, gate: Gate, *, compare: bool = False) -> None:
        """Set the gate, and tell every panel. `compare`: flips are told against it from now on."""
        self.gate = gate
        self.before = gate if compare else self.before
        self.step = explore.step(self.run.rows, self.before, gate)
        for refresh in self.panels.values():
            refresh()

    def about(self) -> str:
        """The run in a line or two, as HTML."""
        run = self.run
        said = f"{run.name}: {len(run.rows)} cases, measured with {run.gate}."
        return show.note(said) + show.note(run.note) + show.note(self.why)

    def counted(self) -> str:
        """The numbers under the present gate, as HTML."""
        return show.counts(self.step, explore.beaten_by(self.table, self.step.counts))

    def asked(self, query: str, shelf: str = NOTES) -> View:
        """One question of a shelf, under the present gate."""
        found = self._asked(self.run, shelf, query)
        seen = [found.memories[hit.id] for hit in found.fused.hits[: show.TOP]]
        return View(show.asked(found, self.gate), query, seen)

    def failed(self, case_id: str) -> View:
        """A case that failed, under the present gate."""
        ranking, remark = self._ranked(self.run, case_id)
        table = explore.neighbours(self.run, case_id, ranking)
        seen = [self.run.memories[id_] for id_ in table["id"] if id_ in self.run.memories]
        html = show.neighbours(self.run, case_id, table, self.gate, remark)
        case = self.run.cases.get(case_id)
        return View(html, case.query if case else "", seen, case.lang if case else None)

    def mark(self, view: View, answer: str, why: str) -> str:
        """Append a draft; returns what was done."""
        id_ = drafts.mark(
            self.root / self.drafts_path,
            view.query,
            view.seen,
            lock=self.root / ".cache" / "drafts.lock",
            expected=None if answer in (LATER, SILENT) else answer,
            silent_because=why if answer == SILENT else "",
            lang=view.lang,
        )
        open_ = answer == LATER or (answer == SILENT and not why.strip())
        left = "; complete it there: expected, or silent_because" if open_ else ""
        return f"{id_} is in {self.drafts_path}{left}."

    def drafted(self) -> str:
        """How many drafts there are, in words."""
        n = drafts.count(self.root / self.drafts_path)
        return f"{n} draft{'' if n == 1 else 's'} in {self.drafts_path}"

    def failures(self) -> list[tuple[str, str]]:
        """(what to show, case id) of the cases that fail under the present gate, the worst first."""
        found = explore.failures(self.run.rows, self.step.outcomes, LISTED)
        return [(f"{show.plain(c.outcome)} · {c.case_id} · {c.query}", c.case_id) for c in found.itertuples()]

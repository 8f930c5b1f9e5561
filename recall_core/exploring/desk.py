"""The desk a run is explored at: one run, one gate, and what every panel says about them, as HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from recall_core.exploring import drafts, explore
from recall_core.exploring import html as show
from recall_core.exploring.ask import NOTES, Asked, Library
from recall_core.gates import Gate
from recall_core.records import Memory

LISTED = 200
"""Failed cases in the list to pick from."""
LATER, SILENT = "", "\0silent"
"""What a draft may expect besides a memory: whoever marks it does not say yet, or nothing."""


class Desk:
    """One run under one gate. `on_run`, `on_gate`: who is told, by name, when they change.

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
        self.root = root
        self.library = Library(root)
        self.fixture = fixture
        self.drafts_path = drafts_path
        self.on_run: dict[str, Callable[[], None]] = {}
        self.on_gate: dict[str, Callable[[], None]] = {}
        self._step: tuple[tuple[Gate, Gate], explore.Step] | None = None
        self._tables: dict[tuple[str, str], tuple[pd.DataFrame, str]] = {}
        self.open(self._opened(run), Gate(*gate) if gate else None)

    def open(self, run: explore.Run, gate: Gate | None = None) -> None:
        """Explore this run, from this gate or its own. Flips are told against its own."""
        self.run, self._step = run, None
        self.before, self.why = explore.starting_gate(run)
        self.gate = gate or self.before
        self.dials = explore.dials(run.rows, self.before, self.gate)
        self.table = explore.settings(run.rows, *self.dials)

    def _opened(self, run: str | explore.Run) -> explore.Run:
        return self.library.run(run, self.fixture) if isinstance(run, str) else run

    def pick(self, wanted: str | explore.Run) -> None:
        """Explore another run. Raises RecallError when it cannot be opened; the present one then stays."""
        self.open(self._opened(wanted))
        for told in self.on_run.values():
            told()

    def move(self, gate: Gate) -> None:
        """Set the gate, and tell every panel."""
        self.gate = gate
        for told in self.on_gate.values():
            told()

    def step(self) -> explore.Step:
        """What the gate gives now, beside the one it is compared with; worked out once for all panels."""
        asked = (self.before, self.gate)
        if self._step is None or self._step[0] != asked:
            self._step = asked, explore.step(self.run.rows, self.before, self.gate)
        return self._step[1]

    def about(self) -> str:
        """The run in a line or two, as HTML."""
        run = self.run
        said = f"{run.name}: {len(run.rows)} cases, measured with {run.gate}."
        return show.note(said) + show.note(run.note) + show.note(self.why)

    def counted(self, step: explore.Step) -> str:
        """The numbers of a step, as HTML."""
        return show.counts(step, explore.beaten_by(self.table, step.counts))

    def flips(self, step: explore.Step) -> str:
        """The cases that flip, as HTML."""
        return show.flips(step, self.before)

    def asked(self, found: Asked) -> str:
        """An answer under the present gate, as HTML."""
        return show.asked(found, self.gate)

    def ask(self, query: str, shelf: str = NOTES) -> Asked:
        """One question of a shelf."""
        return self.library.ask(self.run, shelf, query)

    def failed(self, case_id: str) -> tuple[str, list[Memory]]:
        """A case that failed as HTML, and the memories it shows."""
        key = (self.run.name, case_id)
        if key not in self._tables:
            ranking, remark = self.library.ranking(self.run, case_id)
            self._tables[key] = explore.neighbours(self.run, case_id, ranking), remark
        table, remark = self._tables[key]
        seen = [self.run.memories[id_] for id_ in table["id"] if id_ in self.run.memories]
        return show.neighbours(self.run, case_id, table, self.gate, remark), seen

    def mark(self, query: str, seen: Sequence[Memory], answer: str, why: str, lang: str | None) -> str:
        """Append a draft; returns what was done."""
        expected = None if answer in (LATER, SILENT) else answer
        draft = drafts.Draft(query, seen, expected, why if answer == SILENT else None, lang)
        lock = self.root / ".cache" / "drafts.lock"
        id_ = drafts.mark(self.root / self.drafts_path, draft, lock=lock)
        open_ = answer == LATER or (answer == SILENT and not why.strip())
        left = "; complete it there: expected, or silent_because" if open_ else ""
        return f"{id_} is in {self.drafts_path}{left}."

    def drafted(self) -> str:
        """How many drafts there are, in words."""
        n = drafts.count(self.root / self.drafts_path)
        return f"{n} draft{'' if n == 1 else 's'} in {self.drafts_path}"

    def failures(self) -> list[tuple[str, str]]:
        """(what to show, case id) of the cases that fail under the present gate, the worst first."""
        found = explore.failures(self.run.rows, self.step().outcomes, LISTED)
        return [(f"{show.SAID[c.outcome]} · {c.case_id} · {c.query}", c.case_id) for c in found.itertuples()]

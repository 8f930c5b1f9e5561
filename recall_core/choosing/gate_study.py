"""Choosing a gate from a fixture and a path: the wiring of split, run, choice and file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from statistics import median

import pandas as pd

from recall_core import fixtures, pipeline, split
from recall_core.choosing import choice, drift, learn_then_test, optimism
from recall_core.choosing.gate_file import GateFile
from recall_core.paths import ReadPath
from recall_core.records import Fixture


@dataclass(frozen=True)
class Study:
    """A choice, the file of it, and what it is worth. `rows`: the scored cases, marked by `split.mark`."""

    rows: pd.DataFrame
    choice: choice.Choice
    file: GateFile
    optimism: optimism.Optimism

    def lines(self) -> list[str]:
        """The choice in plain words."""
        again = self.optimism.chosen.set_index("threshold")["share"].get(self.choice.threshold, 0.0)
        false, answered = self.optimism.table.to_dict("records")
        return [
            *choice.summary(self.choice),
            f"test half, false recall by kind: {', '.join(self.kinds())}",
            f"chosen again in {again:.0%} of {RESAMPLES} resamples of the tune half, nothing chosen in "
            f"{self.optimism.refused:.0%}; on the cases left out false recall is "
            f"{false['out_of_bag']:.1%} (in the resample {false['in_bag']:.1%}), answered "
            f"{answered['out_of_bag']:.1%} ({answered['in_bag']:.1%})",
        ]

    def kinds(self) -> list[str]:
        """False recalls of the test half for each tag of a silent case: `far 0/21`."""
        silent = self.rows[(self.rows["half"] == "test") & ~self.rows["answerable"].astype(bool)]
        spoken = self.file.opens(silent)
        told = pd.DataFrame({"tag": silent["tags"], "spoken": spoken}).explode("tag")
        by_tag = told.fillna({"tag": "all"} if told["tag"].isna().all() else {}).groupby("tag")["spoken"]
        return [f"{tag} {part.sum()}/{len(part)}" for tag, part in by_tag]


RESAMPLES = 500


def choose(
    fixture: Fixture,
    path: ReadPath,
    *,
    signal: str = "margin",
    max_false: float = 0.05,
    confidence: float = 0.9,
    rows: pd.DataFrame | None = None,
    today: date | None = None,
    quiet: bool | None = None,
) -> Study:
    """Run the fixture, unless its scored `rows` are at hand, and choose its gate.

    Raises RefusedError as `choice.choose` does; when the fixture is too small, before anything is asked.
    """
    half_of = split.halves(fixture)
    silent = sum(half_of[case.id] == "tune" and not case.answerable for case in fixture.cases)
    learn_then_test.refuse_too_few(silent, max_false, confidence)
    rows = split.mark(pipeline.run_cases(fixture, path, quiet=quiet) if rows is None else rows, fixture)
    chosen = choice.choose(rows, signal, max_false=max_false, confidence=confidence)
    held = median(len(fixtures.memories_for(fixture, case)) for case in fixture.cases)
    file = GateFile(
        signal=signal,
        min_score=0.0,
        threshold=chosen.threshold,
        path=path.name,
        fingerprints=(path.fingerprint,),
        fixture=fixture.name,
        fixture_hash=fixtures.fixture_hash(fixture),
        memories=int(held),
        max_false=max_false,
        confidence=confidence,
        tune=chosen.tune,
        test=chosen.test,
        chosen_on=today or date.today(),
    )
    again = optimism.optimism(
        rows[rows["half"] == "tune"],
        chosen.table["threshold"].to_numpy(),
        max_false,
        confidence,
        signal=signal,
        resamples=RESAMPLES,
    )
    return Study(rows, chosen, file, again)


def attempt(
    fixture: Fixture,
    path: ReadPath,
    rows: pd.DataFrame,
    max_false: float,
    confidence: float,
    signal: str = "margin",
) -> tuple[Study | None, list[str]]:
    """The choice and what to say of it; None with the reason where no promise can be made."""
    try:
        study = choose(fixture, path, signal=signal, max_false=max_false, confidence=confidence, rows=rows)
    except learn_then_test.RefusedError as error:
        return None, [f"refused: {error}"]
    return study, study.lines()


def lent(study: Study | None, fixture: Fixture, other: ReadPath) -> str:
    """What the chosen gate does with another path, on purpose."""
    if study is None:
        return "no gate was chosen, so there is none to lend"
    rows = split.mark(pipeline.run_cases(fixture, other, quiet=True), fixture)
    return drift.transfer(study.rows, rows, study.file, other.name)

"""Exploring a run: what a gate setting changes, which settings there are, what beat a failed case.

Frames and a gate in, frames out; nothing here draws or waits. A step is quick enough to follow a slider.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from recall_core import fixtures, gates
from recall_core.gates import Gate
from recall_core.records import Case, Fixture, Memory, Ranking

GOOD = ("answered", "kept_quiet")
"""Outcomes of a case that passed."""
OUTCOMES = (*GOOD, "silenced", "withheld", "misled", "false_recall")
SILENT = ("kept_quiet", "false_recall")
"""Outcomes of a case that must stay silent."""
STEPS = 80
"""About how many settings a dial has."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run that is explored: its rows, the gate it was measured with, and the fixture behind it.

    `fixture` is None where it cannot be read any more; `note` then says why.
    """

    name: str
    path: str
    fingerprint: str
    gate: Gate
    rows: pd.DataFrame
    fixture: Fixture | None = None
    note: str = ""

    @cached_property
    def memories(self) -> Mapping[str, Memory]:
        """Every memory of the fixture, by id."""
        every = fixtures.all_memories(self.fixture) if self.fixture else ()
        return {memory.id: memory for memory in every}

    @cached_property
    def hubs(self) -> Mapping[str, tuple[str, ...]]:
        """The questions each memory comes out on top of without answering them."""
        rows = self.rows.assign(top=self.rows["ids"].str[0])
        won = [top not in expected for top, expected in zip(rows["top"], rows["expected"], strict=True)]
        return {top: tuple(part) for top, part in rows[won].groupby("top")["query"]}

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        """Every case of the fixture, by id."""
        return {case.id: case for case in self.fixture.cases} if self.fixture else {}


@dataclass(frozen=True)
class Step:
    """What a gate gives, beside what another one gave.

    `outcomes`: (n,) one word a case. `counts` and `was`: cases by outcome, in the order of `OUTCOMES`, under
    the gate and under the one `before`. `flips`: the cases whose outcome differs, worse first: `case_id`,
    `query`, `before`, `after`, `better`, `top1`, `margin`.
    """

    before: Gate
    outcomes: pd.Series[str]
    counts: pd.Series[int]
    was: pd.Series[int]
    flips: pd.DataFrame


def step(rows: pd.DataFrame, before: Gate, gate: Gate) -> Step:
    """Move the gate of scored cases from one setting to another."""
    was, now = (gates.outcomes(rows, setting) for setting in (before, gate))
    flips = rows[["case_id", "query", "top1", "margin"]].assign(
        before=was, after=now, better=now.isin(GOOD) | was.isin(["misled", "false_recall"])
    )
    counts, counted = (words.value_counts().reindex(OUTCOMES, fill_value=0) for words in (now, was))
    return Step(before, now, counts, counted, flips[was != now].sort_values("better", kind="stable"))


def dials(rows: pd.DataFrame, *held: Gate) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Settings of min_score and of delta, ascending: they span what the cases score, and hold these gates."""
    top1, margin = (rows[name][np.isfinite(rows[name])] for name in ("top1", "margin"))
    scores = [*top1, *(gate.min_score for gate in held)]
    leads = [0.01, *(1.25 * (gate.delta or 0) for gate in held), *margin.quantile([0.98]).dropna()]
    return _dial(min(scores), max(scores)), _dial(0.0, max(leads))


def _dial(low: float, high: float) -> NDArray[np.float64]:
    """Round numbers, evenly spaced, the last one above `high`."""
    ticks = MaxNLocator(STEPS, steps=[1, 2, 5, 10]).tick_values(low, max(high, low + 1e-3))
    return np.round([*ticks, 2 * ticks[-1] - ticks[-2]], 6)


def settings(
    rows: pd.DataFrame, min_scores: NDArray[np.float64], deltas: NDArray[np.float64]
) -> pd.DataFrame:
    """What every pair of settings of two dials gives, one row a distinct outcome.

    Columns: `false_recall`, `answered` (counts), `min_score`, `delta` (of the first setting that gives
    this), `on_frontier`.
    """
    counted = gates.grid(rows, min_scores.tolist(), deltas.tolist())
    pairs = pd.MultiIndex.from_product([min_scores, deltas], names=["min_score", "delta"])
    every = {"false_recall": counted.false_recall.ravel(), "answered": counted.answered.ravel()}
    distinct = pd.DataFrame(every, pairs).drop_duplicates().reset_index()
    return distinct.assign(on_frontier=gates.frontier(distinct["answered"], distinct["false_recall"]))


def beaten_by(table: pd.DataFrame, counts: pd.Series[int]) -> pd.Series[float] | None:
    """A setting of the frontier that is no worse on answered and false recall, and better on one of them."""
    front = table[table["on_frontier"]]
    more = front["answered"].to_numpy() - counts["answered"]
    fewer = counts["false_recall"] - front["false_recall"].to_numpy()
    found = front[(more >= 0) & (fewer >= 0) & (more + fewer > 0)]
    return None if found.empty else found.sort_values(["false_recall", "answered"]).iloc[-1]


def starting_gate(run: Run) -> tuple[Gate, str]:
    """Where to start exploring: the run's own gate, or, where that lets nothing through, one that does.

    With why, or an empty text.
    """
    speaks = gates.opened(run.rows, run.gate) & ~run.rows["failed"].to_numpy(np.bool_)
    lowest = float(run.rows["top1"].replace(-np.inf, np.inf).min())
    if speaks.any() or not np.isfinite(lowest):
        return run.gate, ""
    table = settings(run.rows, *dials(run.rows, Gate(lowest)))
    best = table.loc[(table["answered"] - table["false_recall"]).idxmax()]
    gate = Gate(float(best["min_score"]), float(best["delta"]))
    return gate, f"The gate of this run ({run.gate}) lets nothing through; the sliders start at {gate}."


def failures(rows: pd.DataFrame, outcomes: pd.Series[str], most: int | None = None) -> pd.DataFrame:
    """The cases that do not pass, by outcome, the worst first: `case_id`, `outcome`, `query`."""
    failed = rows.assign(outcome=outcomes)[~outcomes.isin(GOOD)]
    worst = failed["outcome"].map(OUTCOMES[::-1].index).sort_values(kind="stable").index[:most]
    return failed.loc[worst, ["case_id", "outcome", "query"]].reset_index(drop=True)


def recorded(row: pd.Series[float]) -> Ranking:
    """The hits a run kept of a case, given its row: its first few."""
    return Ranking.of("vector", zip(row["ids"], row["scores"], strict=True))


def neighbours(run: Run, case_id: str, ranking: Ranking, k: int = 8) -> pd.DataFrame:
    """The first k hits of a case, and where its expected memories stand.

    `rank` (NaN: not found), `id`, `text`, `score` (NaN: the run did not keep it), `expected`, and `wins`:
    of how many questions the memory comes out on top without answering them.
    """
    row = run.rows[run.rows["case_id"] == case_id].iloc[0]
    expected = dict(zip(row["expected"], row["ranks"], strict=True))
    found = {hit.id: (at, hit.score) for at, hit in enumerate(ranking.hits, 1)}
    shown = dict.fromkeys([*list(found)[:k], *expected])
    lines = [(*found.get(id_, (expected.get(id_), math.nan)), id_, id_ in expected) for id_ in shown]
    table = pd.DataFrame(lines, columns=["rank", "score", "id", "expected"]).astype({"rank": float})
    texts = [run.memories[id_].text if id_ in run.memories else "" for id_ in table["id"]]
    wins = [len(run.hubs.get(id_, ())) for id_ in table["id"]]
    return table.assign(text=texts, wins=wins).sort_values("rank", kind="stable", ignore_index=True)

"""Exploring a run: what a gate setting changes, which settings there are, what beat a failed case.

Frames and a gate in, frames out; nothing here draws or waits. A step is quick enough to follow a slider.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from recall_core import fixtures, gates, plots
from recall_core.gates import Gate
from recall_core.records import Case, Fixture, Memory, Ranking

GOOD = ("answered", "kept_quiet")
"""Outcomes of a case that passed."""
OUTCOMES = (*GOOD, "silenced", "withheld", "misled", "false_recall")
SILENT = ("kept_quiet", "false_recall")
"""Outcomes of a case that must stay silent."""
STEPS = 80
"""About how many settings a dial has."""


@dataclass(frozen=True)
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
        won: dict[str, list[str]] = defaultdict(list)
        columns = (self.rows[name] for name in ("ids", "expected", "query"))
        for ids, expected, query in zip(*columns, strict=True):
            if len(ids) and ids[0] not in expected:
                won[ids[0]].append(query)
        return {id_: tuple(queries) for id_, queries in won.items()}

    def row(self, case_id: str) -> pd.DataFrame:
        """The row of one case, as a frame of one line."""
        at = self.places[case_id]
        return self.rows.iloc[at : at + 1]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each case stands in `rows`."""
        return {id_: at for at, id_ in enumerate(self.rows["case_id"])}

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        """Every case of the fixture, by id."""
        return {case.id: case for case in self.fixture.cases} if self.fixture else {}


@dataclass(frozen=True)
class Step:
    """What a gate gives, beside what another one gave.

    `outcomes`: (n,) one word a case. `counts` and `before`: cases by outcome, in the order of `OUTCOMES`.
    `flips`: the cases whose outcome differs, worse first: `case_id`, `query`, `before`, `after`, `better`,
    `top1`, `margin`.
    """

    gate: Gate
    outcomes: NDArray[np.object_]
    counts: pd.Series[int]
    before: pd.Series[int]
    flips: pd.DataFrame


def step(rows: pd.DataFrame, before: Gate, gate: Gate) -> Step:
    """Move the gate of scored cases from one setting to another."""
    was, now = (gates.outcomes(rows, setting).to_numpy() for setting in (before, gate))
    changed = was != now
    better = np.isin(now, GOOD) | (np.isin(was, ("misled", "false_recall")))
    flips = rows.loc[changed, ["case_id", "query", "top1", "margin"]].assign(
        before=was[changed], after=now[changed], better=better[changed]
    )
    return Step(gate, now, _counted(now), _counted(was), flips.sort_values("better", kind="stable"))


def _counted(words: NDArray[np.object_]) -> pd.Series[int]:
    return pd.Series({name: int((words == name).sum()) for name in OUTCOMES})


@dataclass(frozen=True)
class Dial:
    """A slider: the settings low, low + step, ... high."""

    low: float
    high: float
    step: float

    @property
    def settings(self) -> NDArray[np.float64]:
        """(n,) every setting, ascending; rounded, so that 0.3 is 0.3."""
        return np.round(np.arange(self.low, self.high + self.step / 2, self.step), 6)


def dials(rows: pd.DataFrame, *held: Gate) -> tuple[Dial, Dial]:
    """Dials for min_score and delta that span what the cases score, and hold these gates."""
    top1 = rows["top1"][np.isfinite(rows["top1"])]
    margin = rows["margin"][np.isfinite(rows["margin"])]
    lead = [0.01, *(1.25 * (gate.delta or 0) for gate in held)]
    lead += [] if margin.empty else [float(margin.quantile(0.98))]
    return _dial([*(gate.min_score for gate in held), *top1]), _dial([0.0, *lead])


def _dial(values: Sequence[float]) -> Dial:
    low, high = float(min(values)), float(max(values))
    rough = max(high - low, 1e-3) / STEPS
    size = 10.0 ** math.floor(math.log10(rough))
    fine = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough * (1 - 1e-9))
    first, last = math.floor(low / fine + 1e-9), math.ceil(high / fine - 1e-9) + 1
    return Dial(round(first * fine, 6), round(last * fine, 6), round(fine, 6))


def settings(rows: pd.DataFrame, dial: Dial, delta: Dial) -> pd.DataFrame:
    """What every pair of settings of two dials gives, one row a distinct outcome.

    Columns: `false_recall`, `answered` (counts), `min_score`, `delta` (of the first setting that gives
    this), `on_frontier`. A histogram of where each case's gate shuts, summed up from its far corner: 80
    settings a dial are 6,400 gates, and trying them one by one would take seconds.
    """
    scores, deltas = dial.settings, delta.settings
    failed = rows["failed"].to_numpy(np.bool_)
    at = np.searchsorted(scores, rows["top1"].to_numpy(np.float64), side="right")
    by = np.searchsorted(deltas, rows["margin"].to_numpy(np.float64), side="left")
    at, by = np.where(failed, len(scores), at), np.where(failed, len(deltas), by)
    right = (rows["place"] == "right_first").to_numpy()
    silent = ~rows["answerable"].to_numpy(np.bool_)
    answered, false = (_opened(at[part], by[part], len(scores), len(deltas)) for part in (right, silent))
    every = pd.DataFrame(
        {
            "false_recall": false.ravel(),
            "answered": answered.ravel(),
            "min_score": np.repeat(scores, len(deltas)),
            "delta": np.tile(deltas, len(scores)),
        }
    )
    distinct = every.drop_duplicates(["false_recall", "answered"]).reset_index(drop=True)
    return distinct.assign(on_frontier=gates.frontier(distinct["answered"], distinct["false_recall"]))


def _opened(at: NDArray[np.intp], by: NDArray[np.intp], n: int, m: int) -> NDArray[np.intp]:
    """(n, m): how many cases open at setting (i, j), where a case opens at all i < at and j < by."""
    shut = np.zeros((n + 1, m + 1), dtype=np.intp)
    np.add.at(shut, (at, by), 1)
    return np.asarray(shut[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1][1:, 1:])


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
    if speaks.any():
        return run.gate, ""
    lowest = float(run.rows["top1"].replace(-np.inf, np.inf).min())
    if not np.isfinite(lowest):
        return run.gate, ""
    table = settings(run.rows, *dials(run.rows, Gate(lowest)))
    best = table.loc[(table["answered"] - table["false_recall"]).idxmax()]
    gate = Gate(float(best["min_score"]), float(best["delta"]))
    return gate, f"The gate of this run ({run.gate}) lets nothing through; the sliders start at {gate}."


def draw(table: pd.DataFrame, ax: Axes, counts: pd.Series[int], *, star: bool = True) -> Axes:
    """False recalls against answered: all settings of `settings`, their frontier, and a star at `counts`.

    Without `star` the picture keeps its scale and legend, and somebody else lays the star on top.
    """
    best = table[table["on_frontier"]].sort_values("false_recall")
    every, front = ([part["false_recall"], part["answered"]] for part in (table, best))
    ax.plot(*every, "o", markersize=4, color="#bbbbbb", label="a setting")
    colour = plots.COLOURS["right"]
    ax.plot(*front, "o-", drawstyle="steps-post", color=colour, label="frontier: no setting beats these")
    at = ([counts["false_recall"]], [counts["answered"]]) if star else ([], [])
    (mark,) = ax.plot(*at, "*", color=plots.COLOURS["silent"], label="this gate")
    mark.set(markersize=17, markeredgecolor="white", zorder=5)
    silent, answerable = counts[list(SILENT)].sum(), counts.drop(list(SILENT)).sum()
    ax.set_xlabel(f"false recalls, of {silent} that must stay silent (left is better)")
    ax.set_ylabel(f"answered, of {answerable} (up is better)")
    across, up = (max(float(values.max()), 1.0) for values in every)
    ax.set_xlim(-0.06 * across, 1.06 * across)
    ax.set_ylim(-0.08 * up, 1.12 * up)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, columnspacing=1.2, handletextpad=0.4)
    return ax


def failures(rows: pd.DataFrame, outcomes: NDArray[np.object_], most: int | None = None) -> pd.DataFrame:
    """The cases that do not pass, by outcome, the worst first: `case_id`, `outcome`, `query`."""
    found = [np.flatnonzero(outcomes == name) for name in OUTCOMES[::-1] if name not in GOOD]
    at = np.concatenate(found)[:most]
    listed = rows[["case_id", "query"]].iloc[at].assign(outcome=outcomes[at])
    return listed[["case_id", "outcome", "query"]].reset_index(drop=True)


def recorded(row: pd.Series[float]) -> Ranking:
    """The hits a run kept of a case: its first few."""
    return Ranking.of("vector", zip(row["ids"], row["scores"], strict=True))


def neighbours(run: Run, case_id: str, ranking: Ranking, k: int = 8) -> pd.DataFrame:
    """The first k hits of a case, and where its expected memories stand.

    `rank` (NaN: not found), `id`, `text`, `score` (NaN: the run did not keep it), `expected`, and `wins`:
    of how many questions the memory comes out on top without answering them.
    """
    row = run.row(case_id).iloc[0]
    rank = dict(zip(row["expected"], row["ranks"], strict=True))
    shown = [(float(at), hit.id, hit.score) for at, hit in enumerate(ranking.hits, 1)]
    shown = [hit for hit in shown if hit[0] <= k or hit[1] in rank]
    listed = {id_ for _, id_, _ in shown}
    missing = [id_ for id_ in rank if id_ not in listed]
    shown += [(math.nan if rank[id_] is None else float(rank[id_]), id_, math.nan) for id_ in missing]
    lines = [
        {
            "rank": at,
            "id": id_,
            "text": run.memories[id_].text if id_ in run.memories else "",
            "score": score,
            "expected": id_ in rank,
            "wins": len(run.hubs.get(id_, ())),
        }
        for at, id_, score in sorted(shown, key=lambda hit: (np.isnan(hit[0]), hit[0]))
    ]
    return pd.DataFrame(lines, columns=["rank", "id", "text", "score", "expected", "wins"])

"""Gates: is the top hit spoken? What each setting costs, and which settings no other one beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recall_core.records import InputError, Ranking


@dataclass(frozen=True, slots=True)
class Gate:
    """Opens when top1 >= min_score and, with a delta, top1 - top2 > delta.

    `delta` None is the absolute gate alone. Scores are the path's own, on its scale.
    """

    min_score: float
    delta: float | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.min_score):
            raise InputError(f"min_score is {self.min_score}; give a finite number")
        if self.delta is not None and not 0 <= self.delta < np.inf:
            raise InputError(
                f"delta is {self.delta}; give a finite number of 0 or more: no margin is below 0"
            )

    def __str__(self) -> str:
        return f"min_score {self.min_score:g}" + ("" if self.delta is None else f", delta {self.delta:g}")


def opened(rows: pd.DataFrame, gate: Gate) -> NDArray[np.bool_]:
    """(n,) bool: where the gate opens. `rows` are scored cases (`top1`, `margin`, `failed`).

    A case whose search failed counts as opened on something wrong: its worst value.
    """
    opens: NDArray[np.bool_] = rows["top1"].to_numpy(np.float64) >= gate.min_score
    if gate.delta is not None:
        opens = opens & (rows["margin"].to_numpy(np.float64) > gate.delta)
    return np.asarray(opens | rows["failed"].to_numpy(np.bool_))


def explain(ranking: Ranking, gate: Gate) -> str:
    """One line on what the gate does with a ranking, and why."""
    if not ranking.hits:
        return "kept quiet: nothing was found"
    top1 = ranking.hits[0].score
    margin = top1 - ranking.hits[1].score if len(ranking.hits) > 1 else np.inf
    if top1 < gate.min_score:
        return f"kept quiet: the best score {top1:.4f} is below min_score {gate.min_score:g}"
    if gate.delta is not None and not margin > gate.delta:
        return f"kept quiet: the margin {margin:.4f} is not above delta {gate.delta:g}"
    runner_up = "there is no runner-up" if np.isinf(margin) else f"the margin is {margin:.4f}"
    return f"spoken: the best score is {top1:.4f}, {runner_up}"


def outcomes(rows: pd.DataFrame, gate: Gate) -> pd.Series[str]:
    """What the user lives, one word a case.

    Answerable: `answered` (right first, open), `silenced` (right first, shut), `misled` (not right first,
    open), `withheld` (not right first, shut). A tie on top that is spoken counts as misled: which of the
    two is said is chance. Must stay silent: `false_recall` (open) or `kept_quiet` (shut).
    """
    opens = opened(rows, gate)
    right = (rows["place"] == "right_first").to_numpy()
    answerable = rows["answerable"].to_numpy(np.bool_)
    word = np.select(
        [answerable & right & opens, answerable & right, answerable & opens, answerable, opens],
        ["answered", "silenced", "misled", "withheld", "false_recall"],
        default="kept_quiet",
    )
    return pd.Series(word, index=rows.index, name="outcome")


def sweep(rows: pd.DataFrame, settings: Sequence[Gate], chosen: Gate) -> pd.DataFrame:
    """Counts for each setting, in the order of (min_score, delta); `chosen` joins if it is not among them.

    Columns: `min_score`, `delta` (NaN for an absolute gate), `answered`, `silenced`, `misled`,
    `answerable`, `false_recall`, `silent` (counts), and bool: `on_frontier`, `chosen`, `beaten_by_chosen`,
    `beats_chosen` (dominance within this sweep).
    """
    gates = sorted(
        {*settings, chosen}, key=lambda gate: (gate.min_score, -1 if gate.delta is None else gate.delta)
    )
    counts = counted(rows, np.column_stack([opened(rows, gate) for gate in gates]))
    knobs = {
        "min_score": [gate.min_score for gate in gates],
        "delta": [np.nan if gate.delta is None else gate.delta for gate in gates],
    }
    table = pd.concat([pd.DataFrame(knobs), counts], axis=1)
    row = gates.index(chosen)
    answered, false = table["answered"].to_numpy(), table["false_recall"].to_numpy()
    beaten, beats = compared(answered - answered[row], false - false[row])
    return table.assign(
        on_frontier=frontier(answered, false),
        chosen=[i == row for i in range(len(table))],
        beaten_by_chosen=beaten,
        beats_chosen=beats,
    )


def counted(rows: pd.DataFrame, opens: NDArray[np.bool_]) -> pd.DataFrame:
    """The counts of `sweep`, a row for each setting. `opens`: (cases, settings) bool."""
    right, answerable = (rows["place"] == "right_first").to_numpy(), rows["answerable"].to_numpy(np.bool_)
    return pd.DataFrame(
        {
            "answered": opens[right].sum(axis=0),
            "silenced": (~opens[right]).sum(axis=0),
            "misled": opens[answerable & ~right].sum(axis=0),
            "answerable": answerable.sum(),
            "false_recall": opens[~answerable].sum(axis=0),
            "silent": (~answerable).sum(),
        }
    )


class Grid(NamedTuple):
    """Counts of a grid of gates, each (m, d) intp: a row for each min_score, a column for each delta."""

    answered: NDArray[np.intp]
    false_recall: NDArray[np.intp]


def grid(
    rows: pd.DataFrame,
    min_scores: Sequence[float],
    deltas: Sequence[float],
    times: NDArray[np.int64] | None = None,
) -> Grid:
    """What `sweep` counts for every pair of settings; both ascending.

    `times`: (n,) how often each case counts, as in a resample; without it, once. Time and memory grow with
    cases + settings, not with their product: each case is counted once, at the strictest pair it passes, and
    sums over all stricter pairs give the rest.
    """
    failed = rows["failed"].to_numpy(np.bool_)
    passed_score = np.where(failed, len(min_scores), np.searchsorted(min_scores, rows["top1"], "right"))
    passed_delta = np.where(failed, len(deltas), np.searchsorted(deltas, rows["margin"], "left"))
    shape = len(min_scores) + 1, len(deltas) + 1
    cell = np.ravel_multi_index((passed_score, passed_delta), shape)

    def count(which: NDArray[np.bool_]) -> NDArray[np.intp]:
        weights = None if times is None else times[which]
        held = np.bincount(cell[which], weights, shape[0] * shape[1]).astype(np.intp).reshape(shape)
        return held[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1][1:, 1:]

    return Grid(
        count((rows["place"] == "right_first").to_numpy()), count(~rows["answerable"].to_numpy(np.bool_))
    )


def frontier(answered: ArrayLike, false_recall: ArrayLike) -> NDArray[np.bool_]:
    """In the shape of the counts: settings that no other one dominates. Equal settings are on it together."""
    false = np.asarray(false_recall)
    return best(answered, false, int(false.max(initial=0)))[1]


def best(
    answered: ArrayLike, false_recall: ArrayLike, silent: int
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The most that any setting answers at 0 to `silent` false recalls, (silent + 1,), -1 where none has so
    few; and which settings answer it and need that many: bool, in the shape of the counts."""
    counted, false = np.asarray(answered, dtype=np.intp), np.asarray(false_recall, dtype=np.intp)
    at_exactly = np.full(silent + 2, -1)
    np.maximum.at(at_exactly, false.ravel() + 1, counted.ravel())
    most = np.maximum.accumulate(at_exactly)
    return most[1:], (counted == most[false + 1]) & (counted > most[false])


def compared(
    more: NDArray[np.intp], costlier: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """`(beaten, beats)` by one setting: how it stands to every other, from how many more each answers and how
    many more false recalls each has."""
    differs = (more != 0) | (costlier != 0)
    return differs & (more <= 0) & (costlier >= 0), differs & (more >= 0) & (costlier <= 0)

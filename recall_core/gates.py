"""Gates: is the top hit spoken? What each setting costs, and which settings no other one beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recall_core.records import InputError, Ranking


@dataclass(frozen=True, slots=True)
class Gate:
    """Opens when top1 >= min_score and, with a delta, top1 - top2 > delta.

    `delta` None is the absolute gate alone. Scores are those of the stream that is gated: cosine here.
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
    right = (rows["place"] == "right_first").to_numpy()
    answerable = rows["answerable"].to_numpy(np.bool_)
    gates = sorted(
        {*settings, chosen}, key=lambda gate: (gate.min_score, -1 if gate.delta is None else gate.delta)
    )
    counts = []
    for gate in gates:
        opens = opened(rows, gate)
        counts.append(
            {
                "min_score": gate.min_score,
                "delta": np.nan if gate.delta is None else gate.delta,
                "answered": int((right & opens).sum()),
                "silenced": int((right & ~opens).sum()),
                "misled": int((answerable & ~right & opens).sum()),
                "answerable": int(answerable.sum()),
                "false_recall": int((~answerable & opens).sum()),
                "silent": int((~answerable).sum()),
            }
        )
    table = pd.DataFrame(counts)
    row = gates.index(chosen)
    beaten, beats = dominance(table, row)
    return table.assign(
        on_frontier=frontier(table["answered"], table["false_recall"]),
        chosen=[i == row for i in range(len(table))],
        beaten_by_chosen=beaten,
        beats_chosen=beats,
    )


def frontier(answered: pd.Series[int], false_recall: pd.Series[int]) -> NDArray[np.bool_]:
    """(n,) bool: settings that no other setting dominates. Equal settings are on it together."""
    order = np.lexsort((-answered.to_numpy(), false_recall.to_numpy()))
    best = np.maximum.accumulate(answered.to_numpy()[order])
    false = false_recall.to_numpy()[order]
    first = np.searchsorted(false, false)
    ahead = np.where(first > 0, best[np.maximum(first - 1, 0)], -1)
    on = np.empty(len(order), dtype=np.bool_)
    on[order] = (answered.to_numpy()[order] == best[first]) & (answered.to_numpy()[order] > ahead)
    return on


def dominance(table: pd.DataFrame, chosen: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """`(dominates, dominated_by)`, each (n,) bool: how row `chosen` of a sweep stands to every other row."""
    answered, false = table["answered"].to_numpy(), table["false_recall"].to_numpy()
    more, fewer = answered - answered[chosen], false - false[chosen]
    differs = (more != 0) | (fewer != 0)
    return differs & (more <= 0) & (fewer >= 0), differs & (more >= 0) & (fewer <= 0)

"""The optimism of a choice: would it be made again, and what does it cost on cases it did not see?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recall_core.choosing.choice import descending, grid
from recall_core.choosing.gate_file import opened_above
from recall_core.choosing.learn_then_test import Method, accepted, best_of, p_values


@dataclass(frozen=True)
class Optimism:
    """What resampling says of a choice.

    `chosen`: `threshold` and the `share` of all resamples that choose it, commonest first. `refused`: the
    share that choose nothing. `table`: for `false_recall` and `answered`, the mean share `in_bag`, where it
    was chosen, and `out_of_bag`, where it was not, `optimism` (their mean difference, in the direction that
    flatters) and the range `low` to `high` of that difference in 95% of the resamples. `broken`: the share of
    those that chose whose false recall out of bag is above `max_false`.
    """

    chosen: pd.DataFrame
    refused: float
    table: pd.DataFrame
    broken: float


def optimism(
    rows: pd.DataFrame,
    settings: Sequence[float] | None = None,
    max_false: float = 0.05,
    confidence: float = 0.9,
    *,
    clusters: Sequence[str] | None = None,
    signal: str = "margin",
    min_score: float = 0.0,
    method: Method | Literal["in_sample"] = "fixed_sequence",
    resamples: int = 500,
    seed: int = 0,
) -> Optimism:
    """Make the whole choice again on resamples of the cases, and look at it on the cases each left out.

    Bootstrap of the selection (Efron, JASA 1983): clusters (default: the column `unit`) are drawn with
    replacement, about 37% are left out. Give the tune half, on which the choice was made. `in_sample` is what
    not to do: most answered among those with at most `max_false` seen. A resample holds cases twice, which
    the promise takes for independent: this shows how a choice wavers, it does not test the promise. Means are
    over the resamples that chose and left out silent and answerable cases.
    """
    thresholds = grid(rows[signal][~rows["failed"]]) if settings is None else descending(settings)
    opens = opened_above(rows, signal, thresholds, min_score)
    answerable = rows["answerable"].to_numpy(np.bool_)
    right = (rows["place"] == "right_first").to_numpy()
    labels, units = pd.factorize(
        rows["unit"] if clusters is None else np.asarray(list(clusters), dtype=object)
    )
    drawn = np.random.default_rng(seed).multinomial(
        len(units), np.full(len(units), 1 / len(units)), resamples
    )
    parts = {}
    for name, times in (
        ("in_bag", drawn[:, labels]),
        ("out_of_bag", (drawn == 0)[:, labels].astype(np.int64)),
    ):
        parts[name] = _Weighed(
            answered=times[:, answerable & right] @ opens[answerable & right],
            answerable=times[:, answerable].sum(axis=1),
            false_recall=times[:, ~answerable] @ opens[~answerable],
            silent=times[:, ~answerable].sum(axis=1),
        )
    bag, out = parts["in_bag"], parts["out_of_bag"]
    if method == "in_sample":
        kept = bag.false_recall <= max_false * bag.silent[:, None]
    else:
        kept = accepted(p_values(bag.false_recall, bag.silent[:, None], max_false), confidence, method)
    best = best_of(bag.answered, kept)
    chose = np.flatnonzero((best >= 0) & (out.silent > 0) & (out.answerable > 0) & (bag.silent > 0))
    shares = pd.Series(thresholds[best[best >= 0]]).value_counts() / resamples
    in_bag, out_of_bag = bag.shares(chose, best[chose]), out.shares(chose, best[chose])
    return Optimism(
        chosen=shares.rename_axis("threshold").rename("share").reset_index(),
        refused=float((best < 0).mean()),
        table=pd.DataFrame([_flattery(name, in_bag[name], out_of_bag[name]) for name in in_bag]),
        broken=float((out_of_bag["false_recall"] > max_false).mean()) if len(chose) else np.nan,
    )


@dataclass(frozen=True)
class _Weighed:
    """Counts in resamples: `answered` and `false_recall` (resamples, settings), the others (resamples,)."""

    answered: NDArray[np.int64]
    answerable: NDArray[np.int64]
    false_recall: NDArray[np.int64]
    silent: NDArray[np.int64]

    def shares(self, at: NDArray[np.intp], setting: NDArray[np.intp]) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "false_recall": self.false_recall[at, setting] / self.silent[at],
                "answered": self.answered[at, setting] / self.answerable[at],
            }
        )


def _flattery(metric: str, in_bag: pd.Series[float], out_of_bag: pd.Series[float]) -> dict[str, object]:
    difference = (in_bag - out_of_bag) * (-1 if metric == "false_recall" else 1)
    return {
        "metric": metric,
        "in_bag": in_bag.mean(),
        "out_of_bag": out_of_bag.mean(),
        "optimism": difference.mean(),
        "low": difference.quantile(0.025),
        "high": difference.quantile(0.975),
    }

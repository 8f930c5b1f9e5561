"""The optimism of a choice: would it be made again, and what does it cost on cases it did not see?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recall_core.choosing.gate_file import opened_above
from recall_core.choosing.learn_then_test import accepted, best_of, p_values


@dataclass(frozen=True)
class Optimism:
    """What resampling says of a choice.

    `chosen`: `threshold` and the `share` of all resamples that choose it, commonest first. `refused`: the
    share that choose nothing. `table`: by `metric`, `false_recall` and `answered`, the mean share `in_bag`,
    where it was chosen, and `out_of_bag`, where it was not; NaN when nothing was chosen.
    """

    chosen: pd.DataFrame
    refused: float
    table: pd.DataFrame


def optimism(
    rows: pd.DataFrame,
    thresholds: NDArray[np.float64],
    max_false: float = 0.05,
    confidence: float = 0.9,
    *,
    signal: str = "margin",
    resamples: int = 500,
    seed: int = 0,
) -> Optimism:
    """Make the whole choice again on resamples of the cases, and look at it on the cases each left out.

    Bootstrap of the selection (Efron, JASA 1983): units are drawn with replacement, about 37% are left out.
    Give the tune half, on which the choice was made, and the (settings,) that were tried, strictest first.
    A resample holds cases twice, which the promise takes for independent: this shows how a choice wavers,
    not whether the promise holds. Means are over the resamples that chose and left out silent and answerable
    cases.
    """
    opens = opened_above(rows, signal, thresholds)
    asked, right = rows["answerable"].to_numpy(np.bool_), (rows["place"] == "right_first").to_numpy()
    labels, units = pd.factorize(rows["unit"])
    even = np.full(len(units), 1 / len(units))
    bag = np.random.default_rng(seed).multinomial(len(units), even, resamples)[:, labels]
    answered, false, silent = bag[:, right] @ opens[right], bag[:, ~asked] @ opens[~asked], bag[:, ~asked]
    kept = accepted(p_values(false, silent.sum(axis=1, keepdims=True), max_false), confidence)
    best = best_of(answered, kept)
    out = (bag == 0).astype(np.int64)
    chose = np.flatnonzero((best >= 0) & out[:, ~asked].any(axis=1) & out[:, asked].any(axis=1))
    table = pd.DataFrame({"metric": ["false_recall", "answered"]})
    for name, times in (("in_bag", bag[chose]), ("out_of_bag", out[chose])):
        shares = [
            (times[:, spoken] * opens[spoken][:, best[chose]].T).sum(axis=1) / times[:, of].sum(axis=1)
            for spoken, of in ((~asked, ~asked), (right, asked))
        ]
        table[name] = [pd.Series(share).mean() for share in shares]
    shares = pd.Series(thresholds[best[best >= 0]]).value_counts() / resamples
    chosen = shares.rename_axis("threshold").rename("share").reset_index()
    return Optimism(chosen, float((best < 0).mean()), table)

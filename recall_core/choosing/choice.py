"""The choice of a gate, with a promise on false recall that the data can keep.

It is chosen on the tune half of a fixture by learn then test, and reported on the test half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom, rankdata

from recall_core import gates, stats
from recall_core.choosing.gate_file import Counts, opened_above
from recall_core.choosing.learn_then_test import RefusedError, accepted, best_of, p_values, refuse_too_few
from recall_core.records import InputError

STEPS = 200
"""Settings that are tried, about."""


@dataclass(frozen=True)
class Choice:
    """A chosen gate: opens when `signal` > `threshold` and top1 is not below 0.

    `table`: what each setting does on the tune half, strictest first: `threshold`, `answered`, `misled`,
    `false_recall` (counts), `p` and `accepted`. `kinship`: of the silent cases of one unit, NaN if unknown.
    """

    signal: str
    threshold: float
    max_false: float
    confidence: float
    tune: Counts
    test: Counts
    kinship: float
    table: pd.DataFrame


def choose(
    rows: pd.DataFrame, signal: str = "margin", *, max_false: float = 0.05, confidence: float = 0.9
) -> Choice:
    """Of the settings that keep the promise on the tune half, the one that answers most there.

    Of equals the strictest. `rows` are scored cases that `split.mark` marked; the settings are a grid over
    the range of the signal, which must be named before its numbers are seen.
    Raises RefusedError when no promise can be kept, InputError when the rows or the numbers are of no use.
    """
    tune, test = rows[rows["half"] == "tune"], rows[rows["half"] == "test"]
    silent = tune[~tune["answerable"].astype(bool)]
    refuse_too_few(len(silent), max_false, confidence)
    for name, half in (("tune", tune), ("test", test)):
        if not half["answerable"].any() or half["answerable"].all():
            state = "silent" if len(half) and half["answerable"].all() else "answerable"
            raise InputError(f"the {name} half has no {state} cases; add some to the fixture")
    opened_above(rows, signal, np.zeros(1))
    thresholds = grid(tune[signal][~tune["failed"]])
    counted = gates.counted(tune, opened_above(tune, signal, thresholds))
    table = counted[["answered", "misled", "false_recall"]].assign(threshold=thresholds)
    table["p"] = p_values(table["false_recall"], len(silent), max_false)
    table["accepted"] = accepted(table["p"], confidence)
    (best,) = best_of(table["answered"].to_numpy()[None], table["accepted"].to_numpy()[None])
    if best < 0:
        raise _refusal(table, signal, len(silent), max_false, confidence)
    threshold = float(thresholds[best])
    return Choice(
        signal=signal,
        threshold=threshold,
        max_false=max_false,
        confidence=confidence,
        tune=counts(tune, signal, threshold, confidence),
        test=counts(test, signal, threshold, confidence),
        kinship=kinship(silent[signal], silent["unit"]),
        table=table,
    )


def _refusal(
    table: pd.DataFrame, signal: str, silent: int, max_false: float, confidence: float
) -> RefusedError:
    head = (
        f"no setting of {signal} answers anything and keeps false recall at most {max_false:.1%} with "
        f"{confidence:.0%} confidence"
    )
    answering = table[table["answered"] > 0]
    if not len(answering):
        return RefusedError(f"{head}: none answers anything in the tune half")
    first = answering.iloc[0]
    spoken = int(first["false_recall"])
    needed = stats.silent_needed(max_false, confidence, spoken)
    bound = math.ceil(1e3 * stats.clopper_pearson_upper(spoken, silent, confidence)) / 1e3
    return RefusedError(
        f"{head}: the strictest that answers anything ({signal} > {first['threshold']:g}) speaks to {spoken} "
        f"of the {silent} silent cases in the tune half; {needed} silent cases with no more spoken would be "
        f"needed: {needed - silent} missing. Give more, allow {bound:.3f}, or use another signal"
    )


def grid(values: pd.Series[float]) -> NDArray[np.float64]:
    """About `STEPS` round thresholds over the range of a signal, strictest first.

    The first opens nowhere finite, the last everywhere, or at 0 when no value is below 0: no margin is.
    Raises InputError when all finite values are equal, or there is none.
    """
    finite = values[np.isfinite(values)].to_numpy(np.float64)
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    if not high > low:
        found = f"is {high:g} in every case" if len(finite) else "has no finite value"
        raise InputError(f"the signal {values.name} {found}: it tells nothing apart; use another signal")
    rough = (high - low) / STEPS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * min((s for s in (1, 2, 5, 10) if s * unit >= rough), default=10)
    first, last = math.ceil(high / step), math.ceil(low / step) - 1
    if low >= 0:
        last = max(last, 0)
    digits = max(0, -math.floor(math.log10(step)))
    return np.round(np.arange(first, last - 1, -1) * step, digits)


def counts(
    rows: pd.DataFrame, signal: str, threshold: float, confidence: float, min_score: float = 0.0
) -> Counts:
    """What one gate does on these cases."""
    opens = opened_above(rows, signal, np.array([threshold]), min_score)
    found = {name: int(n) for name, n in gates.counted(rows, opens).iloc[0].items() if name != "silenced"}
    bound = stats.clopper_pearson_upper(found["false_recall"], found["silent"], confidence)
    return Counts(**found, false_recall_at_most=bound)


def kinship(values: pd.Series[float], units: pd.Series[str]) -> float:
    """How alike the cases of one unit are: intraclass correlation of the ranks, 0 none, 1 all one.

    One-way, from mean squares (Shrout and Fleiss, Psychol. Bull. 1979, ICC(1,1)); for units of unequal size
    with Donner's mean size. NaN when no unit has two cases or there is one unit. Clearly above 0, the promise
    is worth less than it says: there are fewer independent cases than were counted.
    """
    ranks = pd.Series(rankdata(values), dtype=np.float64)
    sizes = ranks.groupby(units.to_numpy()).transform("size")
    groups = units.nunique()
    within_df = len(ranks) - groups
    if groups < 2 or not within_df:
        return np.nan
    means = ranks.groupby(units.to_numpy()).transform("mean")
    between = float(((means - ranks.mean()) ** 2).sum()) / (groups - 1)
    within = float(((ranks - means) ** 2).sum()) / within_df
    size = (len(ranks) - float(sizes.sum()) / len(ranks)) / (groups - 1)
    total = between + (size - 1) * within
    return (between - within) / total if total else np.nan


def summary(choice: Choice) -> list[str]:
    """The choice in plain words, a line a thing."""
    kin = "not known" if math.isnan(choice.kinship) else f"{choice.kinship:.2f}"
    return [
        f"gate: speak when {choice.signal} > {choice.threshold:g}",
        f"promise: at most {choice.max_false:.1%} false recall with {choice.confidence:.0%} confidence, over "
        f"questions like the silent ones of this fixture (fixed sequence)",
        *_half("tune", choice.tune, choice.confidence),
        *_half("test", choice.test, choice.confidence),
        *_contradicted(choice),
        f"silent cases are counted as independent; kinship within a unit: {kin} (0 none, 1 all one)",
        "nothing is promised of the misled: answerable questions that are answered with something else",
    ]


def _contradicted(choice: Choice) -> list[str]:
    """A line when the test half speaks more than was promised: luck, or cases that are not independent."""
    found = choice.test
    if found.false_recall <= choice.max_false * found.silent:
        return []
    chance = binom.sf(found.false_recall - 1, found.silent, choice.max_false)
    return [
        f"CAUTION: the test half has more false recall than was promised; where the promise just holds, "
        f"that much or more comes by chance in {chance:.0%} of such halves"
    ]


def _half(name: str, found: Counts, confidence: float) -> list[str]:
    return [
        f"{name} half: answered {stats.share(found.answered, found.answerable)}, "
        f"misled {stats.share(found.misled, found.answerable)}",
        f"{name} half: false recall {stats.share(found.false_recall, found.silent)}, at most "
        f"{found.false_recall_at_most:.1%} at {confidence:.0%} (Clopper-Pearson, one-sided)",
    ]

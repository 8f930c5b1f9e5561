"""Learn then test: which settings keep a promise on false recall, as far as the data can tell.

The method is of Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then test: calibrating predictive
algorithms to achieve risk control", 2021. For each setting the null hypothesis is that it breaks the promise:
its rate of false recall is above `max_false`. With n silent cases and k of them spoken its p-value is exact,
P(Binomial(n, max_false) <= k). The settings whose hypothesis is rejected, at a family-wise error of
1 - confidence, keep the promise; any of them may be chosen, by any rule and from the same data.

Fixed-sequence testing: the settings are tested from the strictest down, each at the full level, up to the
first that is not rejected. That is valid because the order does not come from the data: a lower threshold
opens wherever a higher one does, so the rates only rise along it. A promise is broken only if the first
setting whose rate is above `max_false` is rejected, and that is one test. For the same reason the grid may
be as fine as one likes, or follow the range of the scores. Bonferroni tests every setting at
(1 - confidence) / settings; it needs no order, but settings fixed beforehand, and many more cases.

What the promise rests on: silent cases are taken as independent (`choice.kinship` measures it), and
questions to come as a mixture of the same kinds. Kinds with different rates do no harm: the binomial tail
bounds that of their mixture (Hoeffding, Ann. Math. Stat. 1956).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from recall_core.records import InputError

Method = Literal["fixed_sequence", "bonferroni"]


class RefusedError(InputError):
    """No gate can be promised. `needed` and `present` count silent cases in the tune half."""

    def __init__(self, message: str, needed: int, present: int) -> None:
        self.needed = needed
        self.present = present
        super().__init__(message)


def p_values(false_recall: ArrayLike, silent: ArrayLike, max_false: float) -> NDArray[np.float64]:
    """P(Binomial(silent, max_false) <= false_recall), exact; 1 without silent cases."""
    return np.asarray(binom.cdf(false_recall, silent, max_false), dtype=np.float64)


def accepted(p: ArrayLike, confidence: float, method: Method = "fixed_sequence") -> NDArray[np.bool_]:
    """(..., settings) bool: which settings keep the promise. The last axis runs from the strictest down."""
    values = np.asarray(p, dtype=np.float64)
    if method == "bonferroni":
        return np.asarray(values <= (1 - confidence) / values.shape[-1])
    return np.logical_and.accumulate(values <= 1 - confidence, axis=-1)


def best_of(answered: NDArray[np.int64], accepted: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(n,) place of the accepted setting with most answered, of equals the first; -1 if all answer nothing.

    Both (n, settings), strictest first.
    """
    worth = np.where(accepted, answered, 0)
    best = worth.argmax(axis=1)
    return np.where(worth.max(axis=1) > 0, best, -1)


def least_silent(
    max_false: float, confidence: float, settings: int = 1, method: Method = "fixed_sequence"
) -> int:
    """The fewest silent cases with which a setting without one false recall keeps the promise."""
    for name, value in (("max_false", max_false), ("confidence", confidence)):
        if not 0 < value < 1:
            raise InputError(f"{name} is {value}; give a share between 0 and 1, such as 0.05 or 0.9")
    level = (1 - confidence) / (settings if method == "bonferroni" else 1)
    n = max(0, math.floor(math.log(level) / math.log1p(-max_false)) - 1)
    while p_values(0, n, max_false) > level:
        n += 1
    return n


def refuse_too_few(
    present: int, max_false: float, confidence: float, settings: int = 1, method: Method = "fixed_sequence"
) -> None:
    """Raises RefusedError when so few silent cases in the tune half cannot support the promise."""
    needed = least_silent(max_false, confidence, settings, method)
    if present < needed:
        raise RefusedError(
            f"no gate can be promised at most {max_false:.1%} false recall with {confidence:.0%} confidence: "
            f"{needed} silent cases in the tune half would be needed, there are {present}: "
            f"{needed - present} missing",
            needed,
            present,
        )

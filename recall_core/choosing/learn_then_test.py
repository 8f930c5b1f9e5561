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
be as fine as one likes, or follow the range of the scores.

What the promise rests on: silent cases are taken as independent (`choice.kinship` measures it), and
questions to come as a mixture of the same kinds. Kinds with different rates do no harm: the binomial tail
bounds that of their mixture (Hoeffding, Ann. Math. Stat. 1956).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from recall_core import stats
from recall_core.records import InputError


class RefusedError(InputError):
    """No gate can be promised."""


def p_values(false_recall: ArrayLike, silent: ArrayLike, max_false: float) -> NDArray[np.float64]:
    """P(Binomial(silent, max_false) <= false_recall), exact; 1 without silent cases."""
    return np.asarray(binom.cdf(false_recall, silent, max_false), dtype=np.float64)


def accepted(p: ArrayLike, confidence: float) -> NDArray[np.bool_]:
    """(..., settings) bool: which settings keep the promise. The last axis runs from the strictest down."""
    return np.logical_and.accumulate(np.asarray(p) <= 1 - confidence, axis=-1)


def best_of(answered: NDArray[np.int64], accepted: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(n,) place of the accepted setting with most answered, of equals the first; -1 if all answer nothing.

    Both (n, settings), strictest first.
    """
    worth = np.where(accepted, answered, 0)
    best = worth.argmax(axis=1)
    return np.where(worth.max(axis=1) > 0, best, -1)


def refuse_too_few(present: int, max_false: float, confidence: float) -> None:
    """Raises RefusedError when so few silent cases in the tune half cannot support the promise."""
    needed = stats.silent_needed(max_false, confidence)
    if present < needed:
        raise RefusedError(
            f"no gate can be promised at most {max_false:.1%} false recall with {confidence:.0%} confidence: "
            f"{needed} silent cases in the tune half would be needed, there are {present}: "
            f"{needed - present} missing"
        )

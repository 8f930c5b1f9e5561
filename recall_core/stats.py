"""Honest statistics: how sure a share is."""

from __future__ import annotations

import pandas as pd
from scipy.stats import binomtest


def wilson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The Wilson score interval of a share, `(low, high)` (Wilson, JASA 1927). No cases: `(0.0, 1.0)`."""
    if n == 0:
        return 0.0, 1.0
    interval = binomtest(hits, n).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def with_intervals(counts: pd.DataFrame) -> pd.DataFrame:
    """Add `share`, `low` and `high` (95% Wilson) to a frame of `hits` and `n`. A share of nothing is NaN."""
    intervals = [wilson(int(hits), int(n)) for hits, n in zip(counts["hits"], counts["n"], strict=True)]
    return counts.assign(
        share=counts["hits"] / counts["n"].where(counts["n"] > 0),
        low=[low for low, _ in intervals],
        high=[high for _, high in intervals],
    )


def share(hits: int, n: int) -> str:
    """`72.0% (18/25) [52, 86]`: the share, its count, and its 95% Wilson interval in percent."""
    if not n:
        return "no cases"
    low, high = wilson(hits, n)
    return f"{hits / n:.1%} ({hits}/{n}) [{100 * low:.0f}, {100 * high:.0f}]"

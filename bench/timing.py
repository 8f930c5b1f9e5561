"""Taking turns, and printing what came of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def rounds(contestants: Mapping[str, Callable[[], object]], times: int = 3) -> dict[str, float]:
    """Median seconds of each contestant; they run in turn, `times` rounds, after one warm-up each."""
    for run in contestants.values():
        run()
    spent: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(times):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in spent.items()}


def table(title: str, seconds: Mapping[str, float], units: float = 1.0, unit: str = "s") -> None:
    """Print medians and ratios to the first contestant. `units`: how many things one run handles."""
    print(f"\n{title}")
    first = next(iter(seconds.values()))
    for name, spent in seconds.items():
        rate = f"{units / spent:>10.0f} {unit}/s" if units != 1.0 else f"{spent:>10.3f} s"
        print(f"  {name:<44} {rate}   x{spent / first:.2f} the time of the first")

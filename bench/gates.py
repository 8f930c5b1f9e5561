"""The grid of both knobs over 100,000 cases, and the paired bootstrap, beside the plain way of each."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from bench import timing
from recall_core import gates, stats

CASES = 100_000
SETTINGS = 200


def run() -> None:
    """Print the seconds of a 200 x 200 grid and of 10,000 resamples of 1,000 cases."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "top1": rng.uniform(0.7, 0.95, CASES),
            "margin": rng.exponential(0.02, CASES),
            "place": rng.choice(["right_first", "wrong_on_top", "silent"], CASES, p=[0.5, 0.2, 0.3]),
            "failed": False,
        }
    )
    rows["answerable"] = rows["place"] != "silent"
    scores, deltas = np.linspace(0.7, 0.95, SETTINGS).tolist(), np.linspace(0, 0.1, SETTINGS).tolist()
    one_row = [gates.Gate(scores[0], delta) for delta in deltas]
    timing.table(
        f"gates over {CASES:,} cases",
        timing.rounds(
            {
                f"grid, {SETTINGS} x {SETTINGS}": lambda: gates.grid(rows, scores, deltas),
                f"one setting at a time, 1 x {SETTINGS} of them": lambda: gates.sweep(
                    rows, one_row, one_row[0]
                ),
            }
        ),
    )
    differences = rng.choice([-1.0, 0.0, 1.0], 1_000, p=[0.1, 0.7, 0.2])
    distinct = rng.normal(size=1_000)
    timing.table(
        "10,000 resamples of 1,000 cases",
        timing.rounds(
            {
                "ours, questions won and lost": lambda: stats.paired_bootstrap(differences),
                "ours, no two differences alike": lambda: stats.paired_bootstrap(distinct),
                "scipy.stats.bootstrap, percentile": lambda: bootstrap(
                    (differences,), np.mean, n_resamples=10_000, method="percentile", batch=500
                ),
            }
        ),
    )

"""One step of the explorer's slider on 2,000 cases, beside counting every setting of the sliders again."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from bench import timing
from recall_core.exploring import desk, explore, widgets
from recall_core.gates import Gate

CASES = 2_000


def cases() -> pd.DataFrame:
    """Scored cases of made-up questions, a third of each outcome."""
    rng = np.random.default_rng(0)
    place = rng.choice(["right_first", "wrong_on_top", "silent"], CASES)
    return pd.DataFrame(
        {
            "case_id": [f"case-{at}" for at in range(CASES)],
            "query": [f"question number {at}?" for at in range(CASES)],
            "top1": rng.uniform(0.7, 0.95, CASES),
            "margin": rng.exponential(0.02, CASES),
            "place": place,
            "answerable": place != "silent",
            "failed": False,
        }
    )


def run(root: Path) -> None:
    """Print the seconds of one step, listed flips and all."""
    rows = cases()
    held = explore.Run("made up", "hash", "f", Gate(0.8, 0.01), rows)
    panel = widgets.Knobs(desk.Desk(root, run=held))
    deltas = itertools.cycle(np.linspace(0.0, 0.05, 25).tolist())

    def step() -> None:
        panel.delta.value = next(deltas)

    timing.table(
        f"the slider, {CASES:,} cases",
        timing.rounds(
            {
                "one step": step,
                "every setting again": lambda: explore.settings(rows, *explore.dials(rows, held.gate)),
            },
            times=25,
        ),
    )

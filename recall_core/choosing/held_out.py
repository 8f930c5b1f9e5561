"""Every signal on one footing: its threshold set on the tune half, judged on the test half."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recall_core import gates, signals, stats
from recall_core.choosing import combine

BASE = "margin"
COUNTED = ["answered", "answerable", "misled", "false_recall", "silent"]
TARGETS: tuple[combine.Target, ...] = ("silent", "rest")


def scores(rows: pd.DataFrame) -> tuple[dict[str, NDArray[np.float64]], list[combine.Combination]]:
    """What each gate looks at, (n,) each by name: the signals, and combinations fitted on the tune half.

    `rows` are scored cases that `split.mark` marked. Signals that tell nothing apart are left out, but for
    the margin. Without scikit-learn, or a side to tell from, there are no combinations.
    """
    features = signals.telling(rows)
    found = {name: rows[name].to_numpy(np.float64) for name in dict.fromkeys([*features, BASE])}
    tune = rows[rows["half"] == "tune"]
    right = tune["place"] == "right_first"
    learns = importlib.util.find_spec("sklearn") is not None
    possible = learns and features and right.any() and not tune["answerable"].all()
    fitted = [combine.fit(tune, features, target) for target in TARGETS] if possible else []
    for combination in fitted:
        found[f"combination, against {combination.target}"] = combine.score(rows, combination)
    return found, fitted


def compare(rows: pd.DataFrame, looked_at: Mapping[str, NDArray[np.float64]], rate: float) -> pd.DataFrame:
    """Each signal's threshold is the lowest with false recall at most `rate` on the tune half.

    A row a signal, counts on the test half: `signal`, `threshold`, `answered`, `answerable`, `misled`,
    `false_recall`, `silent`; `difference` of the answered share to the margin, `low`, `high` (95% paired
    bootstrap, whole units) and `verdict`; `auroc` of right first against silent with `auroc_low`,
    `auroc_high`, and `aurc` (of what is spoken first, how much is wrong).
    """
    tune, test = ((rows["half"] == half).to_numpy() for half in ("tune", "test"))
    judged = rows[test]
    right = (judged["place"] == "right_first").to_numpy()
    answerable = judged["answerable"].to_numpy(np.bool_)
    units = judged["unit"].to_numpy(str)
    lines, spoken = [], {}
    for name, values in looked_at.items():
        threshold = combine.threshold_at(rows[tune], values[tune], rate)
        opens = (values[test] > threshold) | judged["failed"].to_numpy(np.bool_)
        spoken[name] = (right & opens)[answerable].astype(float)
        sides = values[test][right], values[test][~answerable]
        low, high = stats.auroc_interval(*sides, units[right], units[~answerable])
        lines.append(
            gates.counted(judged, opens[:, None])[COUNTED].assign(
                threshold=threshold,
                auroc=stats.auroc(*sides),
                auroc_low=low,
                auroc_high=high,
                aurc=stats.aurc(values[test], right),
            )
        )
    table = pd.concat(lines, ignore_index=True)
    table.insert(0, "signal", list(looked_at))
    table.insert(1, "threshold", table.pop("threshold"))
    gained = [found - spoken[BASE] for found in spoken.values()]
    table["difference"] = [pd.Series(gain).mean() for gain in gained]
    intervals = [stats.paired_bootstrap(gain, units[answerable]) for gain in gained]
    table["low"], table["high"] = [low for low, _ in intervals], [high for _, high in intervals]
    table["verdict"] = [_verdict(row.signal, row.low, row.high) for row in table.itertuples()]
    return table


def _verdict(name: str, low: float, high: float) -> str:
    if name == BASE:
        return "what the others are held against"
    if np.isnan(low):
        return "no answerable case to judge by"
    if low > 0:
        return "answers more than the margin: recommended"
    return "answers less than the margin" if high < 0 else "inside its interval: no gain shown"


def curves(rows: pd.DataFrame, looked_at: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
    """Each signal's frontier on the test half, which no combination has seen.

    `signal`, `answered`, `false_recall`, `answerable`, `silent`.
    """
    found = []
    test = (rows["half"] == "test").to_numpy()
    failed = rows[test]["failed"].to_numpy(np.bool_)[:, None]
    for name, given in looked_at.items():
        values = given[test]
        thresholds = np.unique([-np.inf, *values[np.isfinite(values)]])
        table = gates.counted(rows[test], (values[:, None] > thresholds) | failed)
        best = table[gates.frontier(table["answered"], table["false_recall"])]
        found.append(best.drop_duplicates(["answered", "false_recall"]).assign(signal=name))
    columns = ["signal", "answered", "false_recall", "answerable", "silent"]
    return pd.concat(found)[columns].sort_values(["signal", "false_recall"], ignore_index=True)


def at_budgets(curves: pd.DataFrame) -> pd.DataFrame:
    """The curves as a table: `false_recall` at most, and what each signal answers there, one column each.

    NaN where a signal cannot have so few: a search that failed is never silent.
    """
    allowed = budgets(int(curves["silent"].iloc[0]))
    best = {
        name: [part.loc[part["false_recall"] <= most, "answered"].max() for most in allowed]
        for name, part in curves.groupby("signal", sort=False)
    }
    return pd.DataFrame({"false_recall": allowed} | best)


def budgets(silent: int) -> list[int]:
    """Numbers of false recalls worth a row of a table: close together where they are few."""
    few = (0, 1, 2, 3, 5, 8, 12, 18, 25, 35, 50, 70, 100)
    return [*(most for most in few if most < silent), silent]


def described(rows: pd.DataFrame, fitted: Sequence[combine.Combination]) -> pd.DataFrame:
    """Each combination's coefficients, and how much its fit flatters it: a row a combination.

    Its fields, `reversed` (features that count against an answer), and the AUROC of right first against its
    target on the tune half: `fit`, scored by itself, and `crossed`, each life scored by a fit that saw the
    other lives, with `low` and `high`.
    """
    tune = rows[rows["half"] == "tune"]
    units = tune["unit"].astype(str).tolist()
    found = []
    for one in fitted:
        given = {
            "fit": combine.score(tune, one),
            "crossed": combine.cross_validated(tune, one.features, one.target, units),
        }
        parts = combine.separation(tune, given, units, one.target).set_index("signal")
        flattered = {"fit": parts.loc["fit", "auroc"], "crossed": parts.loc["crossed", "auroc"]}
        flattered |= parts.loc["crossed", ["low", "high"]].to_dict()
        found.append(asdict(one) | {"reversed": one.reversed} | flattered)
    return pd.DataFrame(found)


def calibrated(rows: pd.DataFrame, fitted: Sequence[combine.Combination]) -> pd.DataFrame:
    """The last combination's stated chance of being right against what came true on the test half.

    As `stats.reliability`; without a combination, of no cases.
    """
    test = rows[rows["half"] == "test"] if fitted else rows[:0]
    chance = 1 / (1 + np.exp(-combine.score(test, fitted[-1]))) if fitted else np.zeros(0)
    return stats.reliability(chance, test["place"] == "right_first")


def nature(rows: pd.DataFrame) -> str:
    """Whether words can tell the silent questions of these cases from those answered first, in words."""
    right, silent = rows["place"] == "right_first", ~rows["answerable"].astype(bool)
    if not right.any() or not silent.any():
        return "One of the two sides is empty: nothing can be said of how they differ."
    sides = [rows.loc[side, "coverage"].to_numpy(np.float64) for side in (right, silent)]
    low, high = stats.auroc_interval(*sides)
    measured = f"(AUROC of coverage {stats.auroc(*sides):.2f} [{low:.2f}, {high:.2f}])"
    if low > 0.5:
        return f"The top memory holds fewer of a silent question's rare words {measured}: words can tell."
    if high < 0.5:
        return (
            f"The top memory holds more of a silent question's rare words {measured}: signals that go by "
            "words are turned round here, and real questions may not be like that."
        )
    return f"These cases do not show whether words tell a silent question {measured}."


def needed(rows: pd.DataFrame, rates: tuple[float, ...] = (0.01, 0.05, 0.10)) -> pd.DataFrame:
    """How many silent cases a promise needs, even when none of them is spoken: `max_false`, `needed`, `have`.

    At 95% confidence. `bound`: what no false recall in the cases there are would still leave open.
    """
    have = int((~rows["answerable"].astype(bool)).sum())
    return pd.DataFrame(
        {
            "max_false": list(rates),
            "needed": [stats.silent_needed(rate) for rate in rates],
            "have": have,
            "bound": stats.clopper_pearson_upper(0, have),
        }
    )

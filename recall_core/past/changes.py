"""What changed: tonight against the last comparable night and a baseline, case by case; and the trend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from recall_core import comparison, gates, runs
from recall_core.past import history, trend
from recall_core.past.history import Measured
from recall_core.records import InputError

NOTHING_YET = "nothing to compare with yet"
ODD = (*history.UNREADABLE, OSError, InputError)


@dataclass(frozen=True)
class Compared:
    """One path tonight against an earlier night.

    `reason` says why there is no comparison.
    """

    now: Measured
    against: str
    reason: str = ""
    deterministic: bool = False
    notes: tuple[str, ...] = ()
    left_out: int = 0
    """Cases that are new, gone or changed, and so not compared."""
    moved: int = 0
    """Cases with another memory on top that did not flip."""
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    """As `comparison.Comparison`, of the metrics that are watched."""
    flips: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row a case: `case_id`, `query`, `changed`, both tops and both scores."""

    @property
    def regression(self) -> str:
        """The sentence on a flip that must not be; empty when there is none."""
        if not self.deterministic or self.flips.empty:
            return ""
        named = " ".join(self.flips["case_id"])
        return (
            f"{self.now.name}: a regression against {self.against}: {len(self.flips)} cases flipped "
            f"({named}), where nothing that decides a number changed and so nothing may flip"
        )


@dataclass(frozen=True)
class Trend:
    """One share over the last comparable nights. `said`: what it came to, in one sentence."""

    name: str
    """Of the path."""
    metric: str
    nights: int
    changed: bool
    said: str


@dataclass(frozen=True)
class Changes:
    """All that the report says of earlier nights."""

    compared: Sequence[Compared] = ()
    trends: Sequence[Trend] = ()
    nights: int = trend.NIGHTS
    alpha: float = trend.ALPHA

    @property
    def regressions(self) -> list[str]:
        """A sentence for each comparison in which something flipped that must not."""
        return [one.regression for one in self.compared if one.regression]


def since(
    reports: Path,
    lines: Sequence[Mapping[str, Any]],
    line: Mapping[str, Any],
    rows: Mapping[str, pd.DataFrame],
    baseline: tuple[str, Path, Mapping[str, Any]] | None = None,
) -> Changes:
    """Tonight against what was before. `lines`: the history; `line`: tonight's, not in it yet.

    `rows`: tonight's scored cases by the name of the path. What has none is left out.
    `baseline`: its name, its folder and its line.
    """
    tonight = [now for now in history.night(line) if now.name in rows]
    compared = []
    for now in tonight:
        own = rows[now.name]
        compared.append(_last(reports, history.measured(lines, now.name), now, own))
        if baseline:
            name, folder, held = baseline
            found = history.measured([held], now.name)
            where = f"baseline {name}" + (f" of {found[0].date}" if found else "")
            without = Compared(now, where, reason=f"{NOTHING_YET}: it does not hold {now.name}")
            compared.append(_against(found[0], now, own, folder, where) if found else without)
    return Changes(compared, trends(lines, tonight))


def _last(reports: Path, earlier: Sequence[Measured], now: Measured, rows: pd.DataFrame) -> Compared:
    """Against the latest comparable night whose rows are still there."""
    if not earlier:
        return Compared(now, "an earlier run", reason=NOTHING_YET)
    latest = earlier[-1]
    odd = history.differs(latest, now)
    notes = (f"not comparable with the run of {latest.date}: {odd}",) if odd else ()
    comparable = [one for one in earlier if not history.differs(one, now)]
    for before in reversed(comparable):
        folder = reports / before.date
        # A later night of the same day replaces a report, and its rows.
        with suppress(*ODD):
            if runs.read_json(folder / "manifest.json")["started"] == before.started:
                return _against(before, now, rows, folder, f"the run of {before.date}", notes)
    reason = "its rows are gone" if comparable else f"not comparable: {odd}"
    return Compared(now, f"the run of {(comparable or [latest])[-1].date}", reason=reason)


def _against(
    before: Measured, now: Measured, rows: pd.DataFrame, folder: Path, where: str, notes: tuple[str, ...] = ()
) -> Compared:
    odd = history.differs(before, now)
    if odd:
        return Compared(now, where, reason=f"not comparable: {odd}", notes=notes)
    if before.gate != now.gate:
        notes += (f"the gate changed ({gates.Gate(*before.gate)} then, {gates.Gate(*now.gate)} now)",)
    try:
        old = runs.read_rows(folder / "runs" / f"{now.name}.jsonl")
        ids = old.astype({"case_hash": str}).merge(rows, on=["case_id", "case_hash"])["case_id"]
        if ids.empty:
            return Compared(now, where, reason="no case is the same as then", notes=notes)
        then, today = (side[side["case_id"].isin(ids)] for side in (old, rows))
        ks = [int(metric.partition("@")[2]) for metric in now.watched if "@" in metric]
        table, every = comparison.paired(then, today, now.watched, now.watched, ks)
        tops = [side.set_index("case_id")["ids"].map(lambda ids: tuple(ids[:1])) for side in (then, today)]
        moved = (tops[0] != tops[1].loc[tops[0].index]).sum()
    except ODD as error:
        return Compared(now, where, reason=f"its rows cannot be read ({error!r:.80})", notes=notes)
    said = (every["metric"] + " " + every["direction"]).groupby(every["case_id"]).agg(", ".join)
    flips = every.drop_duplicates("case_id").assign(changed=lambda own: own["case_id"].map(said))
    return Compared(
        now,
        where,
        deterministic=history.deterministic(before, now),
        notes=notes,
        left_out=len({*old["case_id"], *rows["case_id"]} - {*ids}),
        moved=int(moved) - int((flips["before_top"] != flips["after_top"]).sum()),
        table=table,
        flips=flips.drop(columns=["metric", "direction"]).sort_values("case_id", ignore_index=True),
    )


def trends(lines: Sequence[Mapping[str, Any]], tonight: Sequence[Measured]) -> list[Trend]:
    """Every watched share of tonight over the last comparable nights.

    `trend.ALPHA` is divided by the number of shares, so that it holds for all of them together.
    """
    watched = [(now, metric) for now in tonight for metric in now.watched]
    found = []
    for now, metric in watched:
        nights = history.series(lines, now, metric, trend.NIGHTS)
        found.append(Trend(now.name, metric, len(nights), *_change(nights, len(watched))))
    return found


def _change(nights: Sequence[tuple[str, int, int]], tests: int) -> tuple[bool, str]:
    hits, n = [found for _, found, _ in nights], [asked for _, _, asked in nights]
    least = trend.fewest_nights(tests)
    if len(nights) < least:
        plural = "" if len(nights) == 1 else "s"
        return False, f"{len(nights)} comparable run{plural}, {least} are needed to show a change"
    if len(set(hits)) == 1:
        return False, f"the same in all {len(nights)} runs"
    at, p = trend.change_point(hits, n)
    if p > trend.ALPHA / tests:
        return False, f"no change shown in {len(nights)} runs (p {p:.3f})"
    before, after = sum(hits[:at]) / sum(n[:at]), sum(hits[at:]) / sum(n[at:])
    return True, (
        f"changed at the run of {nights[at][0]}: {before:.1%} in the {at} runs before, "
        f"{after:.1%} in the {len(nights) - at} since (p {p:.4f})"
    )

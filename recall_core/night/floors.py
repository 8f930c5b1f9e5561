"""Floors: what recall.toml demands, and what of it does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from recall_core import config, scoring
from recall_core.night.verdicts import State, Verdict
from recall_core.records import ConfigError, Fixture
from recall_core.runs import Result
from recall_core.stats import share


def check(settings: config.Config, fixture: Fixture) -> None:
    """Raises ConfigError for a floor that nothing could ever be held against."""
    metrics = scoring.metric_names(sorted({1, settings.top_k}))
    slices = ["all", "hard", *sorted({f"lang={case.lang}" for case in fixture.cases})]
    for floor in settings.floors:
        asked = {floor.path: settings.measure, floor.metric: metrics, floor.slice: slices}
        for value, known in asked.items():
            if value not in known:
                raise ConfigError(
                    f"{config.NAME}: a floor on {value!r}, which this night does not measure; "
                    f"known: {', '.join(known)}"
                )


def judged(floors: Sequence[config.Floor], results: Sequence[Result]) -> list[Verdict]:
    """A verdict a floor. A floor whose path has no results is missing."""
    by_name = {result.path: result for result in results}
    found = []
    for floor in floors:
        what = floor.metric + ("" if floor.slice == "all" else f" of {floor.slice}")
        state, said = _held(floor, by_name.get(floor.path))
        found.append(Verdict("floor", floor.path, what, state, f"{floor.path}, {what}: {said}"))
    return found


def _held(floor: config.Floor, result: Result | None) -> tuple[State, str]:
    least = floor.min is not None
    bound = (floor.min if least else floor.max) or 0.0
    wanted = f"wanted at {'least' if least else 'most'} {bound:.2%}"
    if result is None:
        return "missing", f"{wanted}, and there is no result"
    hits, n = result.counted(floor.metric, floor.slice)
    if not n:
        return "broken", f"{wanted}, and the fixture has no such case"
    if (hits < bound * n - 1e-9) if least else (hits > bound * n + 1e-9):
        by = f"{100 * abs(hits / n - bound):.1f} points {'below' if least else 'above'}"
        return "broken", f"{share(hits, n)}, {wanted}; {by}"
    return "holds", f"{share(hits, n)}, {wanted}"


def judged_pages(settings: config.PagesConfig, tables: Mapping[str, pd.DataFrame] | None) -> list[Verdict]:
    """The same where paths are compared: each one's recall@k, and the others against the first.

    `tables`: `held_to` and `below` as `path_study` makes them; None where nothing was measured. What is lost
    is named.
    """
    metric = f"recall@{settings.top_k}"
    if tables is None:
        return [Verdict("floor", "pages", metric, "missing", f"pages, {metric}: there is no result")]
    found = []

    def demand(what: str, holds: bool, said: str, lost: str) -> None:
        found.append(Verdict("floor", "pages", what, "holds" if holds else "broken", f"pages{said}{lost}"))

    for row in tables["held_to"].itertuples():
        said = f", {row.path} {metric}: {share(row.hits, row.n)}, wanted at least {settings.floor:.1%}"
        holds = row.hits >= settings.floor * row.n - 1e-9
        demand(f"{metric}, {row.path}", holds, said, "" if holds else f"; lost: {row.lost}")
    hits, below = tables["paths"].set_index("path")["hits"], tables["below"]
    first, *others = settings.paths
    for name in others if not settings.below_first else ():
        said, lost = f": {name} finds {hits[name]}, {first} {hits[first]}", ""
        if hits[name] < hits[first]:
            lost = f"; found by {first} and lost by {name}: "
            lost += " ".join(below.loc[below["path"] == name, "case_id"])
        demand(f"{name} not below {first}", not lost, said, lost)
    return found

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
        for value, known in (
            (floor.path, settings.measure),
            (floor.metric, metrics),
            (floor.slice, slices),
        ):
            if value not in known:
                raise ConfigError(
                    f"{config.NAME}: a floor on {value!r}, which this night does not measure; "
                    f"known: {', '.join(known)}"
                )


def judged(floors: Sequence[config.Floor], results: Sequence[Result]) -> list[Verdict]:
    """A verdict a floor. A floor whose path has no results is missing."""
    by_name = {result.path: result for result in results}
    return [_judged(floor, by_name.get(floor.path)) for floor in floors]


def _judged(floor: config.Floor, result: Result | None) -> Verdict:
    what = floor.metric + ("" if floor.slice == "all" else f" of {floor.slice}")
    bound = floor.min if floor.min is not None else floor.max or 0.0
    wanted = f"wanted at {'least' if floor.min is not None else 'most'} {bound:.2%}"

    def verdict(state: State, said: str) -> Verdict:
        return Verdict("floor", floor.path, what, state, f"{floor.path}, {what}: {said}")

    if result is None:
        return verdict("missing", f"{wanted}, and there is no result")
    hits, n = result.counted(floor.metric, floor.slice)
    if not n:
        return verdict("broken", f"{wanted}, and the fixture has no such case")
    low = floor.min is not None and hits < bound * n - 1e-9
    high = floor.max is not None and hits > bound * n + 1e-9
    if not (low or high):
        return verdict("holds", f"{share(hits, n)}, {wanted}")
    by = f"{100 * abs(hits / n - bound):.1f} points {'below' if low else 'above'}"
    return verdict("broken", f"{share(hits, n)}, {wanted}; {by}")


def judged_pages(settings: config.PagesConfig, tables: Mapping[str, pd.DataFrame] | None) -> list[Verdict]:
    """The same where paths are compared: each one's recall@k, and the others against the first.

    `tables`: `held_to` and `below` as `path_study` makes them; None where nothing was measured. What is lost
    is named.
    """
    metric = f"recall@{settings.top_k}"
    if tables is None:
        return [Verdict("floor", "pages", metric, "missing", f"pages, {metric}: there is no result")]
    found = []
    for row in tables["held_to"].itertuples():
        low = row.hits < settings.floor * row.n - 1e-9
        said = f"pages, {row.path} {metric}: {share(row.hits, row.n)}, wanted at least {settings.floor:.1%}"
        state: State = "broken" if low else "holds"
        lost = f"; lost: {row.lost}" if low else ""
        found.append(Verdict("floor", "pages", f"{metric}, {row.path}", state, said + lost))
    if settings.below_first:
        return found
    hits = tables["paths"].set_index("path")["hits"]
    first = settings.paths[0]
    for name in settings.paths[1:]:
        said = f"pages: {name} finds {hits[name]}, {first} {hits[first]}"
        state = "broken" if hits[name] < hits[first] else "holds"
        below = tables["below"]
        if state == "broken":
            said += (
                f"; found by {first} and lost by {name}: {' '.join(below[below['path'] == name]['case_id'])}"
            )
        found.append(Verdict("floor", "pages", f"{name} not below {first}", state, said))
    return found

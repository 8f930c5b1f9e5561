"""Floors: what recall.toml demands, and what of it does not hold."""

from __future__ import annotations

from collections.abc import Sequence

from recall_core import config, scoring
from recall_core.records import ConfigError, Fixture
from recall_core.runs import Result
from recall_core.stats import share


def check(settings: config.Config, fixture: Fixture) -> None:
    """Raises ConfigError for a floor that nothing could ever be held against."""
    metrics = scoring.metric_names(sorted({1, settings.top_k}))
    slices = ["all", "hard", *sorted({f"lang={case.lang}" for case in fixture.cases})]
    for floor in settings.floors:
        for value, known in (
            (floor.embedder, settings.embedders),
            (floor.metric, metrics),
            (floor.slice, slices),
        ):
            if value not in known:
                raise ConfigError(
                    f"{config.NAME}: a floor on {value!r}, which this night does not measure; "
                    f"known: {', '.join(known)}"
                )


def broken(floors: Sequence[config.Floor], results: Sequence[Result]) -> list[str]:
    """One sentence for each floor that does not hold. A floor whose embedder has no results is broken."""
    by_name = {result.embedder: result for result in results}
    return [said for floor in floors if (said := _broken(floor, by_name.get(floor.embedder)))]


def _broken(floor: config.Floor, result: Result | None) -> str | None:
    where = f"{floor.embedder}, {floor.metric}" + ("" if floor.slice == "all" else f" of {floor.slice}")
    wanted = f"at least {floor.min:.1%}" if floor.min is not None else f"at most {floor.max:.1%}"
    if result is None:
        return f"{where}: wanted {wanted}, and there is no result"
    hits, n = result.counted(floor.metric, floor.slice)
    if not n:
        return f"{where}: wanted {wanted}, and the fixture has no such case"
    low = floor.min is not None and hits < floor.min * n - 1e-9
    high = floor.max is not None and hits > floor.max * n + 1e-9
    if not (low or high):
        return None
    bound = floor.min if floor.min is not None else floor.max or 0.0
    return (
        f"{where}: {share(hits, n)}, wanted {wanted}; "
        f"{100 * abs(hits / n - bound):.1f} points {'below' if low else 'above'}"
    )

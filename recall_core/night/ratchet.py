"""The ratchet: floors in recall.toml are raised to what was measured, and never lowered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import AoT

from recall_core import config, fixtures, runs
from recall_core.records import ConfigError, InputError, RecallError
from recall_core.writing import write_whole

STEPS = 10_000
"""A floor has four decimals, rounded so that what was measured holds."""
FREE = ("floors", "night", "sweep")
"""Settings that may have changed since the report without changing what was measured."""


def tighten(root: Path, folder: Path) -> list[str]:
    """Raise every `min` to the share in the report in `folder`, and lower every `max` to it.

    Comments and order of recall.toml stay. Returns a line for each floor that moved. Raises InputError
    when the report is of another fixture or other settings, or is incomplete; RecallError when there is
    none.
    """
    path = root / config.NAME
    settings = config.load(path)
    try:
        manifest, metrics = (runs.read_json(folder / name) for name in ("manifest.json", "metrics.json"))
    except (OSError, ValueError) as error:
        raise RecallError(f"{folder}: holds no report ({error}); run `recall nightly` first") from error
    _refuse_other(root, settings, manifest, folder)
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    said = []
    floors = document.get("floors")
    tables: list[Any] = list(floors) if isinstance(floors, AoT | list) else []
    for floor, table in zip(settings.floors, tables, strict=True):
        said += _move(floor, table, _counts(metrics, floor))
    if settings.pages and "pages" in metrics:
        shares = [_down(row["hits"], row["n"]) for row in metrics["pages"]["held_to"] if row["n"]]
        pages: Any = document["pages"]
        if shares and min(shares) > settings.pages.floor:
            said.append(f"pages, floor: {settings.pages.floor:g} to {min(shares):g}")
            pages["floor"] = min(shares)
    if said:
        text = tomlkit.dumps(document)
        _check(text, settings)
        write_whole(path, text)
    return said


def _refuse_other(root: Path, settings: config.Config, manifest: Mapping[str, Any], folder: Path) -> None:
    now = fixtures.fixture_hash(fixtures.load(root / settings.fixture))
    if manifest["fixture"]["sha256"] != now:
        raise InputError(f"{folder}: was measured on another fixture; run `recall nightly` first")
    held = settings.model_dump(mode="json")
    for name, value in held.items():
        then = manifest["settings"].get(name)
        if name == "pages" and value and then:
            value, then = ({**pages, "floor": None} for pages in (value, then))
        if name not in FREE and then != value:
            raise InputError(
                f"{folder}: was measured with other settings of {name!r}; run `recall nightly` first"
            )
    if manifest["missing"]:
        raise InputError(f"{folder}: is incomplete ({manifest['missing'][0]}); run `recall nightly` again")


def _counts(metrics: Mapping[str, Any], floor: config.Floor) -> tuple[int, int]:
    for run in metrics["runs"]:
        for row in run["summary"]:
            if (run["name"], row["metric"], row["slice"]) == (floor.path, floor.metric, floor.slice):
                return row["hits"], row["n"]
    return 0, 0


def _move(floor: config.Floor, table: Any, counts: tuple[int, int]) -> list[str]:
    hits, n = counts
    if not n:
        return []
    bound, name = (floor.min, "min") if floor.min is not None else (floor.max, "max")
    assert bound is not None
    measured = _down(hits, n) if name == "min" else (STEPS - round(_down(n - hits, n) * STEPS)) / STEPS
    if (measured <= bound) if name == "min" else (measured >= bound):
        return []
    table[name] = measured
    part = "" if floor.slice == "all" else f" of {floor.slice}"
    return [f"{floor.path}, {floor.metric}{part}, {name}: {bound:g} to {measured:g}"]


def _down(hits: int, n: int) -> float:
    return math.floor(hits / n * STEPS + 1e-9) / STEPS


def _check(text: str, before: config.Config) -> None:
    """What is written must be read as the same settings but for the floors."""
    try:
        after = config.Config.model_validate(tomlkit.parse(text).unwrap())
    except ValueError as error:
        raise ConfigError(
            f"{config.NAME}: could not be edited ({error}); raise the floors by hand"
        ) from error
    for name, value in before.model_dump().items():
        if name not in ("floors", "pages") and after.model_dump()[name] != value:
            raise ConfigError(f"{config.NAME}: editing would change {name!r}; raise the floors by hand")

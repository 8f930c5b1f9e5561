"""The ratchet: floors in recall.toml are raised to what was measured, and never lowered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from recall_core import config, fixtures, runs
from recall_core.records import InputError, RecallError
from recall_core.writing import write_whole

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
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    said = []
    counts = {
        (run["name"], row["metric"], row["slice"]): (row["hits"], row["n"])
        for run in metrics["runs"]
        for row in run["summary"]
    }
    for floor, table in zip(settings.floors, document.get("floors", []), strict=True):
        hits, n = counts.get((floor.path, floor.metric, floor.slice), (0, 0))
        if not n:
            continue
        name, bound = ("max", floor.max or 0.0) if floor.min is None else ("min", floor.min)
        measured = _down(hits, n) if name == "min" else round(1 - _down(n - hits, n), 4)
        if (measured > bound) if name == "min" else (measured < bound):
            table[name] = measured
            part = "" if floor.slice == "all" else f" of {floor.slice}"
            said.append(f"{floor.path}, {floor.metric}{part}, {name}: {bound:g} to {measured:g}")
    if settings.pages and "pages" in metrics:
        shares = [_down(row["hits"], row["n"]) for row in metrics["pages"]["held_to"] if row["n"]]
        if shares and min(shares) > settings.pages.floor:
            said.append(f"pages, floor: {settings.pages.floor:g} to {min(shares):g}")
            document["pages"]["floor"] = min(shares)
    if said:
        write_whole(path, tomlkit.dumps(document))
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


def _down(hits: int, n: int) -> float:
    """A share with four decimals, rounded so that what was measured holds."""
    return math.floor(hits / n * 10_000 + 1e-9) / 10_000

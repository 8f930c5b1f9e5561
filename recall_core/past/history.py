"""The history: one line a night, and which nights may be drawn in one line.

`history.jsonl` holds one JSON object a line, oldest first:

- `started`, `finished`: ISO 8601 with zone; `started` names the night. `date`: of its report.
- `commit`, `fixture` (`path`, `name`, `version`, `sha256`) of the notes, `versions`, `platform`, `threads` of
  a notebook.
- `runs`: `name` of the path, after the job where it is not the notes'; `kind`, `fixture`, `fixture_hash`,
  `fingerprint`, `min_score`, `delta`, `top_k`, `counts` ({slice: {metric: [hits, n]}}) and `latency` (median
  milliseconds of `embed_ms`, `search_ms`).
- `broken`, `missing`: sentences; `only`: names of the jobs, if not all were asked for; `seconds` by job.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, StrictStr

from recall_core import runs
from recall_core.records import RecallError
from recall_core.writing import write_whole

NAME = "history.jsonl"
RUNTIME = ("numpy", "onnxruntime", "tokenizers")
"""Versions that can move the last bit of a model's vector."""
EXACT = ("hash", "keyword")
"""Kinds that give the same numbers on every machine: no model runs."""
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError)
"""What reading JSON of another shape raises."""


def _counted(pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] > pair[1]:
        raise ValueError(f"{pair[0]} hits of {pair[1]} cases")
    return pair


Count = Annotated[int, Field(ge=0, le=10**9, strict=True)]
Share = Annotated[tuple[Count, Count], AfterValidator(_counted)]


class Measured(BaseModel, frozen=True):
    """One run of one night, and what decides what it may be compared with."""

    started: Annotated[StrictStr, AfterValidator(lambda moment: datetime.fromisoformat(moment) and moment)]
    date: Annotated[
        StrictStr,
        Field(pattern=r"^\d{4}-\d\d-\d\d$"),
        AfterValidator(lambda day: date.fromisoformat(day) and day),
    ]
    name: StrictStr
    """Of the path, and of its file below `runs/`, without the ending."""
    kind: StrictStr
    fixture: StrictStr
    fixture_hash: StrictStr
    fingerprint: StrictStr
    min_score: Annotated[FiniteFloat, Field(strict=True)]
    delta: Annotated[FiniteFloat, Field(strict=True, ge=0)] | None
    top_k: Annotated[int, Field(ge=1, strict=True)]
    runtime: str
    counts: dict[StrictStr, dict[StrictStr, Share]]

    @property
    def gate(self) -> tuple[float, float | None]:
        """min_score and delta."""
        return self.min_score, self.delta

    @property
    def watched(self) -> tuple[str, ...]:
        """The metrics that are compared and followed."""
        return f"recall@{self.top_k if self.top_k >= 5 else 1}", "passed"

    def counted(self, metric: str, part: str = "all") -> tuple[int, int] | None:
        """`(hits, n)`, None where it was not measured."""
        return self.counts.get(part, {}).get(metric)


class _Line(BaseModel):
    """What a line must hold beside its runs."""

    versions: dict[StrictStr, StrictStr]
    platform: StrictStr
    threads: Count
    broken: list[StrictStr]
    missing: list[StrictStr]
    only: list[StrictStr] = []
    seconds: dict[StrictStr, Annotated[FiniteFloat, Field(ge=0, strict=True)]] = {}


def differs(before: Measured, now: Measured) -> str:
    """Why two nights are not comparable, in words; empty when they are."""
    changed = ["the fixture"] * (before.fixture != now.fixture)
    changed += ["the path"] * (before.fingerprint != now.fingerprint)
    return f"{' and '.join(changed)} changed" if changed else ""


def apart(before: Measured, now: Measured, *, gated: bool = True) -> str:
    """Why no line may be drawn from one night to another; empty where it may.

    `gated`: whether what is drawn depends on the gate.
    """
    if odd := differs(before, now):
        return odd
    if before.fixture_hash != now.fixture_hash:
        return "the fixture changed"
    return "the gate changed" if gated and before.gate != now.gate else ""


def deterministic(before: Measured, now: Measured) -> bool:
    """Whether two comparable nights must agree case by case.

    Only where the whole fixture is the same, for a page that was added may push another down, and the gate.
    Hashing and words give the same numbers everywhere; a model does as long as the runtime that runs it, its
    number of threads and the machine are the same.
    """
    return not apart(before, now) and (now.kind in EXACT or before.runtime == now.runtime)


def line_of(manifest: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a night, from the manifest.json and metrics.json of its report.

    Raises KeyError on those of a version that had no history.
    """
    named = ("started", "finished", "date", "commit", "fixture", "versions", "platform", "threads")
    line: dict[str, Any] = {name: manifest[name] for name in named}
    line["runs"] = [_run(held) for held in metrics["runs"]]
    line["broken"], line["missing"] = manifest["broken_floors"], manifest["missing"]
    return line | {"only": manifest["only"], "seconds": manifest["seconds"]}


def _run(held: Mapping[str, Any]) -> dict[str, Any]:
    counts: dict[str, dict[str, list[int]]] = {}
    for row in held["summary"]:
        counts.setdefault(row["slice"], {})[row["metric"]] = [row["hits"], row["n"]]
    spread = {row["quantity"]: row["median"] for row in held["spread"] if row["group"] == "all"}
    kept = ("name", "kind", "fixture", "fixture_hash", "fingerprint", "min_score", "delta", "top_k")
    latency = {name: spread.get(name) for name in ("embed_ms", "search_ms")}
    return {**{name: held[name] for name in kept}, "counts": counts, "latency": latency}


def published(folder: Path) -> dict[str, Any]:
    """The line of a report that is there, or of a baseline.

    Raises RecallError when the folder holds none that this version can read.
    """
    try:
        line = line_of(*(runs.read_json(folder / name) for name in ("manifest.json", "metrics.json")))
        _check(line)
    except (OSError, *UNREADABLE) as error:
        raise RecallError(
            f"{folder}: holds no report that can be compared ({error!r:.80}); run `recall nightly` again"
        ) from error
    return line


def append(reports: Path, line: Mapping[str, Any]) -> None:
    """Add one line, whole or not at all. Lines that are there, broken ones too, stay as they are.

    Raises RecallError when it cannot be written.
    """
    path = reports / NAME
    try:
        held = path.read_bytes() if path.exists() else b""
        between = b"\n" if held and not held.endswith(b"\n") else b""
        write_whole(path, held + between + json.dumps(line, ensure_ascii=False).encode() + b"\n")
    except OSError as error:
        raise RecallError(
            f"{path}: cannot be written ({error.strerror}); make room for the night's line and run it again"
        ) from error


def read(reports: Path) -> list[dict[str, Any]]:
    """The lines, in their order. A broken one is skipped with a warning, and never rewritten."""
    path = reports / NAME
    try:
        raw = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise RecallError(f"{path}: cannot be read ({error.strerror})") from error
    lines = []
    for number, text in enumerate(raw.split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            _check(line)
            lines.append(line)
        except UNREADABLE as error:
            warnings.warn(
                f"{path}:{number}: not a line of the history, skipped ({error!r:.80})", stacklevel=2
            )
    return lines


def _check(line: Mapping[str, Any]) -> None:
    _Line.model_validate(line)
    night(line)


def measured(lines: Sequence[Mapping[str, Any]], name: str) -> list[Measured]:
    """What the nights measured of one path, in their order."""
    return [found for line in lines for found in night(line, name)]


def night(line: Mapping[str, Any], name: str | None = None) -> list[Measured]:
    """All that a night measured, or what it measured of one path."""
    versions = " ".join(f"{part} {line['versions'][part]}" for part in RUNTIME)
    runtime = f"{versions} {line['platform']} threads {line['threads']}"
    given = {"started": line["started"], "date": line["date"], "runtime": runtime}
    return [Measured(**held | given) for held in line["runs"] if name in (None, held["name"])]


def frame(lines: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a night, path, slice and metric, for a plot over time.

    Columns `started`, `date`, `path`, `kind`, `slice`, `metric`, `hits`, `n`, and `series`: a number that
    changes where a night is not comparable with the one before, so that no line is drawn through it. A
    metric that depends on the gate starts a new series with a new gate too.
    """
    before: dict[str, Measured] = {}
    ungated, gated = Counter[str](), Counter[str]()
    rows = []
    for now in (one for line in lines for one in night(line)):
        last = before.setdefault(now.name, now)
        ungated[now.name] += bool(apart(last, now, gated=False))
        gated[now.name] += bool(apart(last, now))
        before[now.name] = now
        for part, counts in now.counts.items():
            for metric, pair in counts.items():
                series = (ungated if free_of_gate(metric) else gated)[now.name]
                rows.append((now.started, now.date, now.name, now.kind, part, metric, *pair, series))
    columns = ["started", "date", "path", "kind", "slice", "metric", "hits", "n", "series"]
    return pd.DataFrame(rows, columns=columns)


def free_of_gate(metric: str) -> bool:
    """Whether a metric is counted before the gate."""
    return "recall@" in metric or metric in ("right_first", "tie_on_top", "wrong_on_top", "failed")


def series(
    lines: Sequence[Mapping[str, Any]], now: Measured, metric: str, most: int
) -> list[tuple[str, int, int]]:
    """`(date, hits, n)` of the last `most` nights comparable with `now`, oldest first, `now` the last.

    It ends at the first night, going back, that is not comparable: a line is never drawn through it.
    """
    found: list[tuple[str, int, int]] = []
    earlier = [one for one in measured(lines, now.name) if one.started != now.started]
    for one in [now, *reversed(earlier)][:most]:
        counted = one.counted(metric)
        if apart(one, now, gated=not free_of_gate(metric)) or counted is None:
            break
        found.append((one.date, *counted))
    return found[::-1]

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
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from recall_core import runs
from recall_core.past import shape
from recall_core.records import RecallError

NAME = "history.jsonl"
RUNTIME = ("numpy", "onnxruntime", "tokenizers")
"""Versions that can move the last bit of a model's vector."""
EXACT = ("hash", "keyword")
"""Kinds that give the same numbers on every machine: no model runs."""
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError)
"""What reading JSON of another shape raises."""


@dataclass(frozen=True)
class Measured:
    """One run of one night, and what decides what it may be compared with."""

    started: str
    date: str
    name: str
    """Of the path, and of its file below `runs/`, without the ending."""
    kind: str
    same: Mapping[str, str]
    """What must be the same in two nights that are compared, by its name in a sentence."""
    fixture_hash: str
    gate: tuple[float, float | None]
    """min_score and delta."""
    runtime: str
    counts: Mapping[str, Mapping[str, tuple[int, int]]]
    watched: tuple[str, ...]

    def counted(self, metric: str, part: str = "all") -> tuple[int, int] | None:
        """`(hits, n)`, None where it was not measured."""
        found = self.counts.get(part, {}).get(metric)
        return (int(found[0]), int(found[1])) if found else None


def differs(before: Measured, now: Measured) -> str:
    """Why two nights are not comparable, in words; empty when they are."""
    changed = [word for word, value in now.same.items() if before.same.get(word) != value]
    return f"{' and '.join(changed)} changed" if changed else ""


def deterministic(before: Measured, now: Measured) -> bool:
    """Whether two comparable nights must agree case by case.

    Only where the whole fixture is the same, for a page that was added may push another down, and the gate.
    Hashing and words give the same numbers everywhere; a model does as long as the runtime that runs it, its
    number of threads and the machine are the same.
    """
    if before.fixture_hash != now.fixture_hash or before.gate != now.gate:
        return False
    return now.kind in EXACT or before.runtime == now.runtime


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
        shape.check(line)
        night(line)
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
    text = json.dumps(line, ensure_ascii=False).encode() + b"\n"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                text = b"\n" + text
            try:
                written = os.write(file, text)
                os.fsync(file)
            except OSError:
                os.ftruncate(file, size)
                raise
            if written < len(text):
                os.ftruncate(file, size)
                raise RecallError(f"{path}: no space for the night's line; make room and run it again")
        finally:
            os.close(file)
    except OSError as error:
        raise RecallError(f"{path}: cannot be written ({error.strerror})") from error


def read(reports: Path) -> list[dict[str, Any]]:
    """The lines, in their order. A broken one is skipped with a warning, and never rewritten."""
    path = reports / NAME
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecallError(f"{path}: cannot be read ({error.strerror})") from error
    lines = []
    for number, text in enumerate(raw.split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            shape.check(line)
            night(line)
        except UNREADABLE as error:
            warnings.warn(
                f"{path}:{number}: not a line of the history, skipped ({error!r:.80})", stacklevel=2
            )
            continue
        lines.append(line)
    return lines


def measured(lines: Sequence[Mapping[str, Any]], name: str) -> list[Measured]:
    """What the nights measured of one path, in their order."""
    return [found for line in lines for found in night(line) if found.name == name]


def night(line: Mapping[str, Any]) -> list[Measured]:
    """All that a night measured."""
    runtime = " ".join(f"{name} {line['versions'][name]}" for name in RUNTIME)
    return [
        Measured(
            started=str(line["started"]),
            date=str(line["date"]),
            name=str(held["name"]),
            kind=str(held["kind"]),
            same={"the fixture": str(held["fixture"]), "the path": str(held["fingerprint"])},
            fixture_hash=str(held["fixture_hash"]),
            gate=(held["min_score"], held["delta"]),
            runtime=f"{runtime} {line['platform']} threads {line['threads']}",
            counts={
                str(part): {str(metric): (int(pair[0]), int(pair[1])) for metric, pair in named.items()}
                for part, named in held["counts"].items()
            },
            watched=(f"recall@{held['top_k'] if held['top_k'] >= 5 else 1}", "passed"),
        )
        for held in line["runs"]
    ]


def frame(lines: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a night, path, slice and metric, for a plot over time.

    Columns `started`, `date`, `path`, `kind`, `slice`, `metric`, `hits`, `n`, and `series`: a number that
    changes where a night is not comparable with the one before, so that no line is drawn through it. A
    metric that depends on the gate starts a new series with a new gate too.
    """
    names = dict.fromkeys(str(held["name"]) for line in lines for held in line["runs"])
    rows = []
    for name in names:
        before, ungated, gated = None, 0, 0
        for now in measured(lines, name):
            odd = before is not None and bool(differs(before, now) or before.fixture_hash != now.fixture_hash)
            ungated += bool(odd)
            gated += bool(odd or (before and before.gate != now.gate))
            before = now
            for part, counts in now.counts.items():
                for metric, (hits, n) in counts.items():
                    series = ungated if free_of_gate(metric) else gated
                    said = (now.started, now.date, name, now.kind, part, metric, hits, n, series)
                    rows.append(said)
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
    for one in [now, *reversed(earlier)]:
        counted = one.counted(metric)
        other = differs(one, now) or one.fixture_hash != now.fixture_hash
        if other or (not free_of_gate(metric) and one.gate != now.gate) or counted is None:
            break
        found.append((one.date, *counted))
        if len(found) == most:
            break
    return found[::-1]

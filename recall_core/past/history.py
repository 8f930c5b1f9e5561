"""The history: one line a night, and which nights may be drawn in one line.

`history.jsonl` holds one JSON object a line, oldest first:

- `started`, `finished`: ISO 8601 with zone; `started` names the night. `date`: of its report.
- `commit`, `fixture` (`path`, `name`, `version`, `sha256`), `path`: how it was searched, `versions`,
  `platform`, `threads` of a notebook.
- `embedders`: `name`, `kind`, `fingerprint`, `min_score`, `delta`, `counts` ({slice: {metric: [hits, n]}})
  and `latency` (median milliseconds of `embed_ms`, `search_ms`).
- `pages`: {mode: [hits, n]} of recall@5 in the wiki, if it was probed.
- `modes`: of the wiki, too: `name`, `kind`, `wiki` and `probes` (SHA-256), `fingerprint`, `path`, `counts` as
  of an embedder. Lines of earlier versions lack it.
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
WATCHED = ("recall@1", "passed")
"""The metrics of an embedder whose flips are listed and whose trend is watched."""
WATCHED_OF_MODES = ("recall@5", "passed")
"""The same of a mode of the wiki."""
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError)
"""What reading JSON of another shape raises."""


@dataclass(frozen=True)
class Measured:
    """One embedder, or one mode of the wiki, in one night, and what decides what it may be compared with."""

    started: str
    date: str
    name: str
    """Of the embedder or mode, and of its file below `runs/`, without the ending."""
    kind: str
    same: Mapping[str, str]
    """What must be the same in two nights that are compared, by its name in a sentence."""
    gate: tuple[float, float | None] | None
    """min_score and delta; None where no gate stands."""
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

    Hashing and words give the same numbers everywhere. A model does as long as the runtime that runs it, its
    number of threads and the machine are the same.
    """
    return now.kind in EXACT or before.runtime == now.runtime


def line_of(manifest: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a night, from the manifest.json and metrics.json of its report.

    Raises KeyError on those of a version that had no history.
    """
    named = ("started", "finished", "date", "commit", "fixture", "path", "versions", "platform", "threads")
    line: dict[str, Any] = {name: manifest[name] for name in named}
    line["embedders"] = [_embedder(held) for held in metrics["notes"]]
    if "pages" in metrics:
        line["pages"] = {row["mode"]: [row["hits"], row["n"]] for row in metrics["pages"]["modes"]}
        line["modes"] = _modes(metrics["pages"])
    line["broken"], line["missing"] = manifest["broken_floors"], manifest["missing"]
    return line | {"only": manifest["only"], "seconds": manifest["seconds"]}


def _embedder(held: Mapping[str, Any]) -> dict[str, Any]:
    counts: dict[str, dict[str, list[int]]] = {}
    for row in held["summary"]:
        counts.setdefault(row["slice"], {})[row["metric"]] = [row["hits"], row["n"]]
    spread = {row["quantity"]: row["median"] for row in held["spread"] if row["group"] == "all"}
    named = {"name": held["embedder"], "kind": held["kind"], "fingerprint": held["fingerprint"]}
    latency = {name: spread.get(name) for name in ("embed_ms", "search_ms")}
    gate = {"min_score": held["min_score"], "delta": held["delta"]}
    return {**named, **gate, "counts": counts, "latency": latency}


def _modes(held: Mapping[str, Any]) -> list[dict[str, Any]]:
    conditions = {row["mode"]: row for row in held.get("conditions", ())}
    modes = []
    for row in held["modes"]:
        if row["mode"] in conditions:
            named = {key: value for key, value in conditions[row["mode"]].items() if key != "mode"}
            passed = [row["hits"] + row["silent"], row["n"] + row["nothing"]]
            counts = {"all": {"recall@5": [row["hits"], row["n"]], "passed": passed}}
            modes.append({"name": f"pages/{row['mode']}", **named, "counts": counts})
    return modes


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
    """What the nights measured of one embedder or mode, in their order."""
    return [found for line in lines for found in night(line) if found.name == name]


def modes(line: Mapping[str, Any]) -> list[Measured]:
    """What a night measured of the modes of the wiki; nothing where it kept no rows of them."""
    return [_one(line, held, _same_of_mode(held), None, WATCHED_OF_MODES) for held in line.get("modes", ())]


def night(line: Mapping[str, Any]) -> list[Measured]:
    """All that a night measured: the embedders, then the modes."""
    embedders = [
        _one(line, held, _same_of_embedder(line, held), (held["min_score"], held["delta"]), WATCHED)
        for held in line["embedders"]
    ]
    return [*embedders, *modes(line)]


def _same_of_embedder(line: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, str]:
    return {
        "the fixture": str(line["fixture"]["sha256"]),
        "the embedder's fingerprint": str(held["fingerprint"]),
        "the search path": str(line["path"]),
    }


def _same_of_mode(held: Mapping[str, Any]) -> dict[str, str]:
    return {
        "the wiki": str(held["wiki"]),
        "the probes": str(held["probes"]),
        "the embedder's fingerprint": str(held["fingerprint"]),
        "the search path": str(held["path"]),
    }


def _one(
    line: Mapping[str, Any],
    held: Mapping[str, Any],
    same: Mapping[str, str],
    gate: tuple[float, float | None] | None,
    watched: tuple[str, ...],
) -> Measured:
    runtime = " ".join(f"{name} {line['versions'][name]}" for name in RUNTIME)
    counts = {
        str(part): {str(metric): (int(pair[0]), int(pair[1])) for metric, pair in named.items()}
        for part, named in held["counts"].items()
    }
    return Measured(
        started=str(line["started"]),
        date=str(line["date"]),
        name=str(held["name"]),
        kind=str(held["kind"]),
        same=same,
        gate=gate,
        runtime=f"{runtime} {line['platform']} threads {line['threads']}",
        counts=counts,
        watched=watched,
    )


def frame(lines: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a night, embedder, slice and metric, for a plot over time.

    Columns `started`, `date`, `embedder`, `kind`, `slice`, `metric`, `hits`, `n`, and `series`: a number that
    changes where a night is not comparable with the one before, so that no line is drawn through it. A
    metric that depends on the gate starts a new series with a new gate too.
    """
    names = dict.fromkeys(str(held["name"]) for line in lines for held in line["embedders"])
    rows = []
    for name in names:
        before, ungated, gated = None, 0, 0
        for now in measured(lines, name):
            ungated += bool(before and differs(before, now))
            gated += bool(before and (differs(before, now) or before.gate != now.gate))
            before = now
            for part, counts in now.counts.items():
                for metric, (hits, n) in counts.items():
                    series = ungated if free_of_gate(metric) else gated
                    said = (now.started, now.date, name, now.kind, part, metric, hits, n, series)
                    rows.append(said)
    columns = ["started", "date", "embedder", "kind", "slice", "metric", "hits", "n", "series"]
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
        if differs(one, now) or (not free_of_gate(metric) and one.gate != now.gate) or counted is None:
            break
        found.append((one.date, *counted))
        if len(found) == most:
            break
    return found[::-1]

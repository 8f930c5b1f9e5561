"""A run on disk: the folder one notebook fills, which the report is made from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from recall_core import scoring, signals
from recall_core.records import InputError, RecallError

COLUMNS = (
    *(
        "case_id",
        "case_hash",
        "query",
        "lang",
        "hard",
        "tags",
        "answerable",
        "expected",
        "ids",
        "scores",
        "ranks",
    ),
    *("place", "outcome", "embed_ms", "search_ms", "error"),
    *signals.MEASURED,
)
NOT_SAVED = "nothing saved: the parameter `out` is empty"
FRAMES = ("summary", "spread", "absolute", "margin")


Signal = float | Literal["inf", "-inf"] | None


class _Kept(BaseModel):
    """What a row that was kept must hold to be read again, but for its signals. Older files lack some of
    what has a default."""

    model_config = ConfigDict(strict=True)

    case_id: str
    case_hash: str = ""
    query: str
    answerable: bool
    expected: list[str]
    ids: list[str]
    scores: list[float]
    ranks: list[int | None]
    place: scoring.Place
    outcome: str | None = None
    error: str | None = None


ROWS = TypeAdapter(
    list[create_model("_Row", __base__=_Kept, **dict.fromkeys(signals.MEASURED, (Signal, None)))]  # type: ignore
)


@dataclass(frozen=True)
class Result:
    """What one (fixture, path) gave, and what the gate made of it.

    Frames as `scoring` and `gates` describe them: `absolute` sweeps min_score without a margin, `margin`
    sweeps delta with min_score held.
    """

    path: str
    kind: str
    fixture: str
    fixture_hash: str
    fingerprint: str
    min_score: float
    delta: float | None
    top_k: int
    rows: pd.DataFrame
    summary: pd.DataFrame
    spread: pd.DataFrame
    absolute: pd.DataFrame
    margin: pd.DataFrame

    def counted(self, metric: str, part: str = "all") -> tuple[int, int]:
        """`(hits, n)` of a metric on a slice; `(0, 0)` where the slice has no cases."""
        found = self.summary[(self.summary["metric"] == metric) & (self.summary["slice"] == part)]
        return (int(found["hits"].iloc[0]), int(found["n"].iloc[0])) if len(found) else (0, 0)

    def spread_of(self, quantity: str, group: str = "all") -> pd.Series[float]:
        """`n`, `min`, `median`, `p95` and `max` of a score, a margin or a latency."""
        wanted = (self.spread["quantity"] == quantity) & (self.spread["group"] == group)
        return self.spread[wanted][["n", "min", "median", "p95", "max"]].astype(float).iloc[0]


def save(result: Result, figures: dict[str, Figure], out: str) -> str:
    """Write a run, its metrics and its figures to the folder `out`; last, the record that it is complete.

    With an empty `out`, as in a notebook opened by hand, nothing is written. Returns what was done.
    """
    if not out:
        return NOT_SAVED
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(result.rows, folder / "run.jsonl")
    write_json(metrics(result), folder / "metrics.json")
    return _complete(folder, figures)


def save_tables(
    tables: Mapping[str, pd.DataFrame],
    figures: dict[str, Figure],
    out: str,
    results: Sequence[Result] = (),
) -> str:
    """As `save`, for a notebook that makes tables of several runs, which are kept beside them."""
    if not out:
        return NOT_SAVED
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(records(tables), folder / "tables.json")
    write_json([metrics(result) for result in results], folder / "runs.json")
    for result in results:
        write_rows(result.rows, folder / f"{result.path}.jsonl")
    return _complete(folder, figures)


def _complete(folder: Path, figures: dict[str, Figure]) -> str:
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", metadata={"Software": None})
    write_json({"finished": datetime.now(UTC).isoformat(), "figures": sorted(figures)}, folder / "done.json")
    return f"saved to {folder}"


def read(folder: Path) -> Result:
    """Read what `save` wrote. Raises RecallError if the run did not reach its last cell."""
    _refuse_incomplete(folder)
    return _result(read_json(folder / "metrics.json"), folder / "run.jsonl")


def read_tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Read what `save_tables` wrote. Raises RecallError as `read` does."""
    _refuse_incomplete(folder)
    held = read_json(folder / "tables.json")
    return {name: pd.DataFrame(records) for name, records in held.items()}


def read_runs(folder: Path) -> list[Result]:
    """Read the runs that `save_tables` kept. Raises RecallError as `read` does."""
    _refuse_incomplete(folder)
    return [_result(held, folder / f"{held['path']}.jsonl") for held in read_json(folder / "runs.json")]


def _result(held: dict[str, Any], rows: Path) -> Result:
    frames = {name: pd.DataFrame(held.pop(name)) for name in FRAMES}
    return Result(rows=read_rows(rows), **frames, **held)


def _refuse_incomplete(folder: Path) -> None:
    if not (folder / "done.json").is_file():
        raise RecallError(f"{folder.name}: no completion record; the notebook stopped before its last cell")


def write_rows(rows: pd.DataFrame, path: Path) -> None:
    """One JSON object a line and case. What `scoring.derive` adds is left out: it follows from the hits."""
    records = rows[list(COLUMNS)].to_dict("records")
    lines = [json.dumps({k: _plain(v) for k, v in row.items()}, ensure_ascii=False) for row in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_rows(path: Path) -> pd.DataFrame:
    """What `write_rows` wrote, with `top1`, `margin`, `rank` and `failed` derived again.

    Raises InputError when it is no such file; OSError when it cannot be opened.
    """
    try:
        with path.open(encoding="utf-8") as lines:  # str.splitlines would also break at U+0085 and U+2028
            records = [json.loads(line) for line in lines]
        ROWS.validate_python(records)
    except (ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise InputError(f"{path}: does not hold the rows of a run ({why:.120})") from error
    return scoring.derive(pd.DataFrame(records, columns=list(COLUMNS)))


def metrics(result: Result) -> dict[str, object]:
    """Everything of a run but its rows, as JSON holds it."""
    held = {field.name: getattr(result, field.name) for field in fields(result) if field.name != "rows"}
    return held | records({name: held[name] for name in FRAMES})


def records(tables: Mapping[str, pd.DataFrame]) -> dict[str, list[dict[str, object]]]:
    """Tables as JSON holds them: a list of rows each."""
    return {name: _records(table) for name, table in tables.items()}


def write_json(content: object, path: Path) -> None:
    """Indented UTF-8, so that a person can read it and a diff is short."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """What `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))


def _records(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(k): _plain(v) for k, v in row.items()} for row in frame.to_dict("records")]


def _plain(value: object) -> object:
    """JSON has no NaN and no infinity: a number that does not exist is null, an infinite one a word."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(float(value))

"""A run on disk is the run that was measured, bit for bit."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import (
    case_of,
    few_examples,
    gated,
    result_of,
    right,
    row_lists,
    row_of,
    silent,
    some_gates,
    wrong,
)
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from recall_core import runs, scoring
from recall_core.gates import Gate
from recall_core.records import Case, RecallError
from recall_core.runs import Result
from recall_core.scoring import Row

GATE = Gate(0.5, 0.1)
LINE_BREAKS = "one\ntwo\r\nthree\u2028four\u2029five\x85six\x0bseven\x1eeight"


def some_rows() -> list[Row]:
    return [
        right(0.9, 0.2),
        right(0.7),
        wrong(0.9, 0.0),
        silent(0.6, 0.3),
        row_of(case_of("a")),
        scoring.failed_case(case_of("a", id_="broken"), "OSError: no disk"),
    ]


def strictly(text: str) -> object:
    def refuse(token: str) -> None:
        raise ValueError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


def through_disk(rows: pd.DataFrame, folder: Path) -> pd.DataFrame:
    runs.write_rows(rows, folder / "run.jsonl")
    return runs.read_rows(folder / "run.jsonl")


def assert_same(read: pd.DataFrame, written: pd.DataFrame) -> None:
    for column in ("case_id", "case_hash"):
        assert list(read[column]) == list(written[column]), column
    for column in ("tags", "expected", "ids", "ranks"):
        assert [list(cell) for cell in read[column]] == [list(cell) for cell in written[column]], column
    for column in ("query", "lang", "hard", "answerable", "place", "outcome", "failed"):
        assert list(read[column]) == list(written[column]), column
    for column in ("embed_ms", "search_ms", "top1", "margin", "rank"):
        assert np.array_equal(read[column].astype(float), written[column], equal_nan=True), column
    assert [bits(cell) for cell in read["scores"]] == [bits(cell) for cell in written["scores"]]
    assert list(read["error"].fillna("")) == list(written["error"].fillna(""))


def bits(scores: tuple[float, ...]) -> bytes:
    return struct.pack(f"{len(scores)}d", *scores)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    written = gated(some_rows(), GATE)
    read = through_disk(written, tmp_path)
    assert_same(read, written)
    assert read["margin"].tolist()[1] == np.inf
    assert read["failed"].tolist() == [False] * 5 + [True]


@few_examples
@given(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=6),
    st.text(min_size=1).filter(lambda t: "\0" not in t),
)
def test_scores_and_texts_come_back_bit_for_bit(tmp_path_factory, scores: list[float], text: str) -> None:
    case = Case(id="q", query=text, lang="en", expected=("m0",), tags=(text, "second"))
    written = gated([row_of(case, **{f"m{i}": score for i, score in enumerate(scores)})], GATE)
    assert_same(through_disk(written, tmp_path_factory.mktemp("run")), written)


@few_examples
@given(row_lists, some_gates)
def test_what_is_derived_after_reading_is_what_was_measured(
    tmp_path_factory, rows: list[Row], gate: Gate
) -> None:
    written = gated(rows, gate)
    read = through_disk(written, tmp_path_factory.mktemp("run"))
    assert_same(read, written)
    assert scoring.summarise(read).to_dict("list") == scoring.summarise(written).to_dict("list")


def test_every_kind_of_line_break_in_a_query_keeps_one_line_a_case(tmp_path: Path) -> None:
    written = gated([right(0.9, query=LINE_BREAKS), right(0.8, query="plain")], GATE)
    assert list(through_disk(written, tmp_path)["query"]) == [LINE_BREAKS, "plain"]
    assert (tmp_path / "run.jsonl").read_bytes().count(b"\n") == 2


def test_a_latency_that_does_not_exist_is_null(tmp_path: Path) -> None:
    through_disk(gated([scoring.failed_case(case_of("a"), "no disk")], GATE), tmp_path)
    (line,) = map(strictly, (tmp_path / "run.jsonl").read_text().splitlines())
    assert (line["embed_ms"], line["search_ms"], line["error"]) == (None, None, "no disk")
    assert "margin" not in line


def test_letters_are_written_as_they_are(tmp_path: Path) -> None:
    through_disk(gated([right(0.9, query="где ключ? 🔑")], GATE), tmp_path)
    assert "где ключ? 🔑" in (tmp_path / "run.jsonl").read_text(encoding="utf-8")


def saved(result: Result, folder: Path) -> Path:
    figure = Figure()
    figure.subplots().plot([0, 1])
    runs.save(result, {"scores": figure}, str(folder))
    return folder


@pytest.mark.parametrize("gate", [GATE, Gate(0.5)])
def test_a_saved_result_reads_the_same(tmp_path: Path, gate: Gate) -> None:
    written = result_of(some_rows(), gate)
    read = runs.read(saved(written, tmp_path / "deep" / "run"))
    assert_same(read.rows, written.rows)
    for name in ("path", "kind", "fixture", "fixture_hash", "fingerprint", "min_score", "delta", "top_k"):
        assert getattr(read, name) == getattr(written, name), name
    for name in runs.FRAMES:
        pd.testing.assert_frame_equal(
            getattr(read, name), getattr(written, name), check_dtype=False, check_exact=True
        )


def test_runs_that_are_kept_beside_tables_read_the_same(tmp_path: Path) -> None:
    written = [
        result_of(some_rows(), GATE, path="keyword", kind="keyword"),
        result_of(some_rows()[1:], Gate(0.5), path="hybrid", kind="onnx", top_k=5),
    ]
    table = pd.DataFrame({"path": ["keyword"], "mrr": [np.nan]})
    runs.save_tables({"paths": table}, {"kinds": Figure()}, str(tmp_path), written)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("tables.json", "runs.json", "keyword.jsonl", "hybrid.jsonl", "kinds.png", "done.json")
    }
    strictly((tmp_path / "runs.json").read_text())
    assert runs.read_tables(tmp_path)["paths"].to_dict("list") == {"path": ["keyword"], "mrr": [None]}
    read = runs.read_runs(tmp_path)
    assert [(one.path, one.kind, one.delta, one.top_k) for one in read] == [
        *(("keyword", "keyword", 0.1, 3), ("hybrid", "onnx", None, 5))
    ]
    for again, before in zip(read, written, strict=True):
        assert_same(again.rows, before.rows)
        pd.testing.assert_frame_equal(again.summary, before.summary, check_dtype=False)
    (tmp_path / "done.json").unlink()
    with pytest.raises(RecallError, match="no completion record"):
        runs.read_runs(tmp_path)


def test_tables_without_runs_keep_none(tmp_path: Path) -> None:
    runs.save_tables({}, {}, str(tmp_path))
    assert runs.read_runs(tmp_path) == []


def test_a_saved_run_is_whole(tmp_path: Path) -> None:
    folder = saved(result_of(some_rows(), GATE), tmp_path)
    assert {path.name for path in folder.iterdir()} == {
        "run.jsonl",
        "metrics.json",
        "scores.png",
        "done.json",
    }
    assert (folder / "scores.png").read_bytes().startswith(b"\x89PNG")
    assert strictly((folder / "done.json").read_text())["figures"] == ["scores"]


@pytest.mark.parametrize(
    "rows",
    [some_rows(), [right(0.9)], [silent(0.1, 0.05)], [scoring.failed_case(case_of("a"), "no disk")]],
    ids=["many", "one right", "one silent", "one failed"],
)
def test_every_file_is_json_without_nan_or_infinity(tmp_path: Path, rows: list[Row]) -> None:
    folder = saved(result_of(rows, Gate(0.5)), tmp_path)
    for line in (folder / "run.jsonl").read_text().splitlines():
        strictly(line)
    metrics = strictly((folder / "metrics.json").read_text())
    assert {row["delta"] for row in metrics["absolute"]} == {None}
    strictly((folder / "done.json").read_text())


def test_the_absolute_sweep_is_still_usable_after_reading(tmp_path: Path) -> None:
    read = runs.read(saved(result_of(some_rows(), GATE), tmp_path))
    assert read.absolute["delta"].isna().all()
    assert read.spread_of("top1", "right")["n"] == 2
    assert read.spread_of("margin", "right")["max"] == 0.9 - (0.9 - 0.2)


def test_a_folder_without_its_completion_record_is_refused(tmp_path: Path) -> None:
    folder = saved(result_of(some_rows(), GATE), tmp_path / "half")
    (folder / "done.json").unlink()
    with pytest.raises(RecallError, match="half"):
        runs.read(folder)


def test_the_completion_record_is_written_last(tmp_path: Path) -> None:
    class Unpaintable(Figure):
        def savefig(self, *_: object, **__: object) -> None:
            raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        runs.save(result_of(some_rows(), GATE), {"scores": Unpaintable()}, str(tmp_path))
    with pytest.raises(RecallError):
        runs.read(tmp_path)


def test_an_empty_out_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs.save(result_of(some_rows(), GATE), {"scores": Figure()}, "")
    assert list(tmp_path.iterdir()) == []


def test_counted_says_zero_of_zero_for_a_slice_that_is_not_there() -> None:
    result = result_of([right(0.9, lang="en"), wrong(0.9, 0.2, lang="en")], GATE)
    assert result.counted("answered") == (1, 2)
    assert result.counted("answered", "lang=en") == (1, 2)
    assert result.counted("answered", "lang=ru") == (0, 0)
    assert replace(result, path="other").counted("misled") == (1, 2)

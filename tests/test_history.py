"""The history: whole lines or none, broken ones left alone, and which nights may be drawn in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from builders import right, silent, wrong

from recall_core import runs
from recall_core.gates import Gate
from recall_core.past import history
from recall_core.records import RecallError


def line(started: str = "2026-07-30T03:00:00+00:00", hits: int = 3, **changed: Any) -> dict[str, Any]:
    """A night with one path that found `hits` of 10."""
    counts = {"all": {"recall@1": [hits, 10], "passed": [hits, 12]}}
    run = {
        **{"name": "mini", "kind": "onnx", "fixture": "f", "fixture_hash": "a" * 64, "fingerprint": "f" * 64},
        **{"min_score": 0.5, "delta": 0.01, "top_k": 3},
        **{"counts": counts, "latency": {"embed_ms": 1.0, "search_ms": 0.1}},
    }
    own = {name: changed.pop(name) for name in list(changed) if name in run}
    night = {
        **{"started": started, "finished": started, "date": started[:10], "commit": "c"},
        "fixture": {"path": "f.json", "name": "f", "version": "1.0.0", "sha256": "a" * 64},
        **{"platform": "Linux", "threads": 1},
        "versions": {"numpy": "2.0", "onnxruntime": "1.2", "tokenizers": "0.2"},
        **{"runs": [run | own], "broken": [], "missing": [], "only": [], "seconds": {}},
    }
    return night | changed


def only(held: dict[str, Any]) -> history.Measured:
    (found,) = history.measured([held], "mini")
    return found


def test_lines_are_added_at_the_end_and_read_in_order(tmp_path: Path) -> None:
    assert history.read(tmp_path) == []
    nights = [line(f"2026-07-{day}T03:00:00+00:00") for day in (29, 30, 31)]
    for night in nights:
        history.append(tmp_path, night)
    assert history.read(tmp_path) == nights
    assert len((tmp_path / "history.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    "broken",
    [
        b'{"started": "2026',
        b"\xff\xfe\n",
        b"[]\n",
        b"7\n",
        b'{"started": "x", "runs": [{}]}\n',
        b"null\n",
        b'{"started": "2026-07-30", "date": "2026-07-30", "embedders": [], "modes": []}\n',
    ],
)
def test_a_broken_line_is_skipped_with_a_warning_and_left_as_it_is(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "history.jsonl"
    first, last = line(), line("2026-07-31T03:00:00+00:00")
    history.append(tmp_path, first)
    with path.open("ab") as file:
        file.write(broken)
    before = path.read_bytes()
    history.append(tmp_path, last)
    with pytest.warns(UserWarning, match=r"history\.jsonl:2: not a line of the history, skipped"):
        assert history.read(tmp_path) == [first, last]
    assert path.read_bytes().startswith(before)


@pytest.mark.parametrize(
    "damage",
    [
        {"min_score": "0.1"},
        {"min_score": None},
        {"min_score": float("nan")},
        {"delta": -3.0},
        {"name": ["a"]},
        {"counts": {"all": {"recall@1": [float("inf"), 16]}}},
        {"counts": {"all": {"recall@1": [11, 10]}}},
        {"counts": {"all": {"recall@1": [-1, 10]}}},
        {"counts": {"all": {"recall@1": [1, 10**30]}}},
        {"date": "yesterday"},
        {"date": "2026-02-30"},
        {"missing": None},
        {"broken": [5]},
        {"started": "x"},
        {"fixture": {}},
        {"fixture_hash": None},
        {"fingerprint": 5},
        {"top_k": 0},
        {"top_k": "3"},
    ],
)
def test_a_line_of_wrong_values_is_skipped_whole(tmp_path: Path, damage: dict[str, Any]) -> None:
    history.append(tmp_path, line(**damage))
    history.append(tmp_path, line("2026-07-31T03:00:00+00:00"))
    with pytest.warns(UserWarning, match=r"history\.jsonl:1: not a line of the history, skipped"):
        assert [held["date"] for held in history.read(tmp_path)] == ["2026-07-31"]


def test_a_line_nested_without_end_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.warns(UserWarning, match="skipped"):
        assert history.read(tmp_path) == []


def test_a_line_that_does_not_fit_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.append(tmp_path, line())
    before = (tmp_path / "history.jsonl").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecallError, match=r"No space left on device.*make room for the night's line"):
        history.append(tmp_path, line("2026-07-31T03:00:00+00:00"))
    assert (tmp_path / "history.jsonl").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["history.jsonl"]


def test_a_history_that_cannot_be_read_or_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").mkdir()
    with pytest.raises(RecallError, match="cannot be read"):
        history.read(tmp_path)
    with pytest.raises(RecallError, match="cannot be written"):
        history.append(tmp_path, line())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"fixture": "g"}, "the fixture changed"),
        ({"fixture_hash": "b" * 64}, ""),
        ({"fingerprint": "0" * 64}, "the path changed"),
        ({"fingerprint": "0" * 64, "fixture": "g"}, "the fixture and the path changed"),
        ({"commit": "d", "delta": 0.2, "versions": line()["versions"] | {"numpy": "3.0"}}, ""),
    ],
)
def test_two_nights_are_comparable_if_the_name_of_the_fixture_and_the_path_agree(
    changed: dict[str, Any], said: str
) -> None:
    assert history.differs(only(line()), only(line(**changed))) == said


def test_a_model_is_held_to_no_flips_while_its_runtime_is_the_same_and_hashing_always() -> None:
    newer = {"versions": line()["versions"] | {"onnxruntime": "1.3"}}
    assert history.deterministic(only(line()), only(line()))
    assert not history.deterministic(only(line()), only(line(**newer)))
    assert not history.deterministic(only(line()), only(line(threads=2)))
    assert not history.deterministic(only(line()), only(line(platform="Darwin")))
    for kind in ("hash", "keyword"):
        assert history.deterministic(only(line(kind=kind)), only(line(kind=kind, **newer)))


@pytest.mark.parametrize("changed", [{"fixture_hash": "b" * 64}, {"min_score": 0.6}, {"delta": None}])
def test_nothing_is_held_to_no_flips_across_a_change_of_the_fixture_or_the_gate(
    changed: dict[str, Any],
) -> None:
    assert not history.deterministic(only(line(kind="hash")), only(line(kind="hash", **changed)))


@pytest.mark.parametrize(("top_k", "metric"), [(1, "recall@1"), (3, "recall@1"), (5, "recall@5")])
def test_what_is_watched_follows_from_the_hits_that_are_looked_at(top_k: int, metric: str) -> None:
    assert only(line(top_k=top_k)).watched == (metric, "passed")


def test_a_series_starts_anew_where_nights_are_not_comparable() -> None:
    nights = [
        line("2026-07-01", 3),
        line("2026-07-02", 4),
        line("2026-07-03", 5, fixture_hash="b" * 64),
        line("2026-07-04", 6, fixture_hash="b" * 64, delta=0.5),
    ]
    table = history.frame(nights)
    found = {
        metric: list(zip(rows["date"], rows["hits"], rows["series"], strict=True))
        for metric, rows in table.groupby("metric")
    }
    assert found["recall@1"] == [
        *[("2026-07-01", 3, 0), ("2026-07-02", 4, 0)],
        *[("2026-07-03", 5, 1), ("2026-07-04", 6, 1)],
    ]
    assert [series for *_, series in found["passed"]] == [0, 0, 1, 2]


def test_an_empty_history_has_an_empty_frame() -> None:
    assert list(history.frame([]).columns)[-1] == "series"


def test_the_last_comparable_nights_end_at_the_first_that_is_not() -> None:
    other = {"fixture_hash": "b" * 64}
    days = [line(f"2026-07-0{day}", day) for day in range(1, 8)]
    days[2] = line("2026-07-03", 3, **other)
    assert history.series(days, only(days[-1]), "recall@1", 30) == [
        (f"2026-07-0{day}", day, 10) for day in (4, 5, 6, 7)
    ]
    assert history.series(days, only(days[-1]), "recall@1", 2) == [
        ("2026-07-06", 6, 10),
        ("2026-07-07", 7, 10),
    ]
    days[4] = line("2026-07-05", 5, delta=0.3)
    assert len(history.series(days, only(days[-1]), "recall@1", 30)) == 4
    assert len(history.series(days, only(days[-1]), "passed", 30)) == 2


def test_a_line_is_made_from_the_manifest_and_metrics_beside_a_report(tmp_path: Path) -> None:
    from builders import result_of

    told = [right(0.9, 0.2), wrong(0.8, 0.1), silent(0.7, 0.1)]
    notes, pages = result_of(told, Gate(0.5, 0.05)), result_of(told[:1], Gate(0.0), path="hybrid", top_k=5)
    named = ("started", "finished", "date", "commit", "fixture", "versions", "platform", "threads")
    manifest = {name: line()[name] for name in named}
    manifest |= {"broken_floors": ["low"], "missing": [], "only": [], "seconds": {"hash": 1.5}}
    held = [runs.metrics(notes) | {"name": "hash"}, runs.metrics(pages) | {"name": "pages/hybrid"}]
    for name, written in (("manifest", manifest), ("metrics", {"runs": held, "pages": {"paths": []}})):
        (tmp_path / f"{name}.json").write_text(json.dumps(written))
    made = history.published(tmp_path)
    assert [run["name"] for run in made["runs"]] == ["hash", "pages/hybrid"]
    assert made["runs"][0]["counts"]["all"]["recall@1"] == [1, 2]
    assert made["runs"][1]["counts"]["all"]["recall@5"] == [1, 1]
    assert made["runs"][0]["latency"] == {"embed_ms": 2.0, "search_ms": 1.0}
    assert made["broken"] == ["low"]
    assert [one.gate for one in history.night(made)] == [(0.5, 0.05), (0.0, None)]
    (tmp_path / "metrics.json").write_text(json.dumps({"notes": held}))
    with pytest.raises(RecallError, match="holds no report that can be compared"):
        history.published(tmp_path)
    (tmp_path / "metrics.json").write_text(json.dumps({"runs": held}))
    del manifest["threads"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RecallError, match="holds no report that can be compared"):
        history.published(tmp_path)

"""Progress: bars on a terminal, events for the night, plain lines in its log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recall_core import progress
from recall_core.embedders import onnx
from recall_core.night.nightlog import Log


def lines_of(log: Log) -> list[str]:
    """What it says, without the times."""
    log.close()
    return [line[9:] for line in log.path.read_text().splitlines()]


def test_a_pass_tells_the_night_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events"
    monkeypatch.setenv(progress.FILE, str(path))
    monkeypatch.setattr(progress, "EVERY", 1000)
    with progress.bar(40, "embed, mini", "text") as bar:
        for _ in range(4):
            bar.update(10)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert events[-1] == {"desc": "embed, mini", "done": 40, "total": 40}
    assert len(events) <= 2


def test_without_a_night_there_is_a_bar_unless_it_is_to_be_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(progress.FILE, raising=False)
    for quiet in (True, False):
        with progress.bar(2, "embed, mini", "text", quiet=quiet) as bar:
            bar.update(2)
        shown = capsys.readouterr().err
        assert ("embed, mini" in shown) is not quiet


def test_events_that_cannot_be_written_stop_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.FILE, str(tmp_path / "nowhere/events"))
    progress.tell(desc="cells", done=1, total=2)


def test_the_log_holds_plain_lines_and_the_end_of_each_pass(tmp_path: Path) -> None:
    log = Log(tmp_path / "logs/night.log", quiet=True)
    log.started("mini")
    for done in (1, 2, 3):
        log.event("mini", {"desc": "cells", "done": done, "total": 3})
        log.event("mini", {"desc": "embed, mini", "done": done, "total": 3})
    log.ended("mini", "", 2.04)
    log.ended("wide", "the kernel was killed", 1.0)
    log.say("")
    assert log.seconds == {"mini": 2.0, "wide": 1.0}
    assert lines_of(log) == [
        "mini: started",
        "embed, mini: 3 of 3",
        "mini: done (2.0 s)",
        "wide: FAILED: the kernel was killed (1.0 s)",
    ]


def test_on_a_terminal_there_is_a_bar_a_notebook_and_one_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log(tmp_path / "night.log", quiet=False)
    log.event("mini", {"desc": "cells", "done": 1, "total": 3})
    log.event("mini", {"desc": "embed, mini", "done": 40, "total": 40})
    log.event("wide", {"desc": "cells", "done": 1, "total": 3})
    log.ended("mini", "", 2.0)
    log.close()
    shown = capsys.readouterr().err
    assert "mini: " in shown
    assert "  embed, mini: " in shown
    assert "wide: " in shown
    assert "mini: done, 2.0 s" in shown


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    log = Log(tmp_path / "logs/night.log", quiet=True)
    log.say("here")
    log.close()


@pytest.mark.parametrize(("given", "threads"), [("3", 3), ("0", None), ("many", None), ("", None)])
def test_a_model_runs_on_as_many_threads_as_the_night_gives_it(
    monkeypatch: pytest.MonkeyPatch, given: str, threads: int | None
) -> None:
    monkeypatch.delenv("RECALL_THREADS", raising=False)
    every = onnx._cores()
    monkeypatch.setenv("RECALL_THREADS", given)
    assert onnx._cores() == (threads or every)

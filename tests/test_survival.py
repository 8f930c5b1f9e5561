"""The night survives: kernels that die or hang, kills, signals, full disks, a lock whose holder is gone."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from nights import DAY, order, stub, stub_notes, tiny_project

from recall_core.night import jobs, nightly, nightwork, notebooks, publishing, workers
from recall_core.past import history
from recall_core.records import RecallError

KILLS = 30
YESTERDAY = date(2026, 7, 30)
RECALL = (sys.executable, "-c", "from recall_core.cli import main; main()")
REMEMBER = "import os, pathlib; pathlib.Path(out).write_text(str(os.getpid())); "
"""A cell that says which process it runs in."""


class Heard:
    """What the workers said, for tests to look at."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.reasons: dict[str, str] = {}
        self.order: list[str] = []

    def started(self, name: str) -> None:
        self.order.append(f"+{name}")

    def event(self, name: str, event: Mapping[str, Any]) -> None:
        self.events.append((name, event))

    def ended(self, name: str, reason: str, seconds: float) -> None:  # noqa: ARG002
        self.order.append(f"-{name}")
        self.reasons[name] = reason


def run_cells(
    folder: Path,
    cells: Mapping[str, str],
    *,
    at_once: int = 2,
    time_limit: float = 60,
    heard: Heard | None = None,
) -> dict[str, str]:
    """Run notebooks of one cell each; each is given a file of its own as `out`."""
    tasks = []
    for name, source in cells.items():
        stub(folder / f"{name}.ipynb", source, ROOT / jobs.NOTES)
        parameters = {"out": str(folder / f"{name}.out")}
        tasks.append(workers.Task(name, folder / f"{name}.ipynb", folder / f"done/{name}.ipynb", parameters))
    return workers.run_all(
        tasks,
        folder,
        folder / "scratch",
        at_once=at_once,
        threads=1,
        time_limit=time_limit,
        watch=heard or Heard(),
    )


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def wait_for(what: Any, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def test_one_that_dies_does_not_take_the_others_and_says_why(tmp_path: Path) -> None:
    heard = Heard()
    failed = run_cells(
        tmp_path,
        {
            "killed": REMEMBER + "os.kill(os.getpid(), 9)",
            "crashed": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "left": "import os; os._exit(7)",
            "raised": "raise ValueError('the well is dry')",
            "fine": "print('here')",
        },
        heard=heard,
    )
    assert failed == {
        "killed": "killed.ipynb: the kernel was killed (signal 9): out of memory, or by hand",
        "crashed": "crashed.ipynb: the kernel died of signal 11 (SIGSEGV)",
        "left": "left.ipynb: the kernel ended itself with exit code 7",
        "raised": "raised.ipynb, cell 3: ValueError: the well is dry",
    }
    assert heard.reasons == {"fine": "", **failed}
    assert (tmp_path / "done/fine.html").is_file()
    assert {"desc": "cells", "done": 2, "total": 2} in [
        event for name, event in heard.events if name == "fine"
    ]


def test_two_run_at_a_time_with_the_cores_shared_out(tmp_path: Path) -> None:
    heard = Heard()
    cell = "import os, pathlib; pathlib.Path(out).write_text(os.environ['OMP_NUM_THREADS'])"
    assert not run_cells(tmp_path, dict.fromkeys("abc", cell), heard=heard)
    running, most = set(), 0
    for said in heard.order:
        (running.add if said[0] == "+" else running.remove)(said[1:])
        most = max(most, len(running))
    assert most == 2
    assert [(tmp_path / f"{name}.out").read_text() for name in "abc"] == ["1", "1", "1"]


@pytest.mark.parametrize("cell", ["import time; time.sleep(600)", "os.kill(os.getpid(), 19)"])
def test_one_that_hangs_is_stopped_at_its_time_limit_with_its_kernel(tmp_path: Path, cell: str) -> None:
    failed = run_cells(tmp_path, {"hung": REMEMBER + cell}, time_limit=8)
    assert failed == {"hung": "hung.ipynb: stopped at its time limit of 8 seconds"}
    kernel = int((tmp_path / "hung.out").read_text())
    wait_for(lambda: gone(kernel))


def test_when_the_process_of_a_notebook_is_killed_its_kernel_goes_too(tmp_path: Path) -> None:
    tell = "pathlib.Path(out + '.parent').write_text(str(os.getppid())); "
    cell = REMEMBER + tell + "os.kill(os.getppid(), 9); import time; time.sleep(600)"
    failed = run_cells(tmp_path, {"orphan": cell})
    assert failed == {"orphan": "orphan.ipynb: its process was killed by signal 9"}
    process = (tmp_path / "orphan.out.parent").read_text()
    assert not list(Path(tempfile.gettempdir()).glob(f"recall-{process}-*"))
    kernel = int((tmp_path / "orphan.out").read_text())
    wait_for(lambda: gone(kernel))


def test_a_kernel_that_cannot_start_ends_its_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    failed = run_cells(tmp_path, {"dead": "1"})
    assert failed["dead"].startswith("dead.ipynb: its process ended with 1")


def test_in_one_process_too_a_dead_kernel_is_an_error_that_says_why(tmp_path: Path) -> None:
    stub(tmp_path / "n.ipynb", "import os; os.kill(os.getpid(), 9)", ROOT / jobs.NOTES)
    with pytest.raises(RecallError, match=r"n\.ipynb: the kernel was killed \(signal 9\)"):
        notebooks.execute(tmp_path / "n.ipynb", tmp_path / "o.ipynb", {}, tmp_path, quiet=True)


@pytest.fixture
def night_of_two(tmp_path: Path) -> Path:
    """A project whose pages notebook is replaced too, so that one job can fail and another not."""
    folder = tiny_project(tmp_path / "p")
    pages = '\n[pages]\nfixture = "p.json"\n'
    (folder / "recall.toml").write_text((folder / "recall.toml").read_text() + pages)
    stub(folder / jobs.PAGES, "import os; os.kill(os.getpid(), 9)", ROOT / jobs.PAGES)
    return folder


def test_the_report_is_written_all_the_same_and_says_first_what_is_missing(night_of_two: Path) -> None:
    night = nightly.run(order(night_of_two))
    assert [result.path for result in night.results] == ["hash"]
    first = night.report.read_text()[:300]
    assert (
        "**Incomplete.** pages has no results: 30_page_recall.ipynb: the kernel was killed"
        in first.replace("\\", "")
    )
    assert night.broken == ["pages, recall@5: there is no result"]
    assert "pages: FAILED: 30_page_recall.ipynb: the kernel was killed" in night.log.read_text()
    (line,) = history.read(night_of_two / "reports")
    assert line["missing"] == night.missing


def reports_of(folder: Path) -> dict[str, dict[str, bytes]]:
    """Every file of every dated report."""
    found = {}
    for report in publishing.dated(folder / "reports"):
        files = [path for path in sorted(report.rglob("*")) if path.is_file()]
        found[report.name] = {str(path.relative_to(report)): path.read_bytes() for path in files}
    return found


def assert_whole(folder: Path, before: dict[str, dict[str, bytes]]) -> None:
    """Every report was there and is untouched, or is new and complete; every line of history is whole."""
    for name, files in reports_of(folder).items():
        if files == before.get(name):
            continue
        assert name == DAY.isoformat()
        manifest = json.loads(files["manifest.json"])
        assert {"metrics.json", "runs/hash.jsonl", "verdicts.xml", "summary.md"} <= files.keys()
        assert files["RECALL-EVAL-31-07-2026.html"].rstrip().endswith(b"</html>")
        assert manifest["missing"] == []
    path = folder / "reports" / history.NAME
    for text in path.read_text().splitlines() if path.exists() else []:
        assert json.loads(text)["started"]


def _hand_out(tasks: Sequence[workers.Task], root: Path, *_: object, **__: object) -> dict[str, str]:
    """In the place of `workers.run_all`: what the notebooks would leave, without running them."""
    for task in tasks:
        shutil.copytree(root / "prepared", task.parameters["out"])
    return {}


def _night_in_a_child(folder: Path, *, notebooks: bool) -> int:
    """Start a night in a copy of this process, which has all its imports; returns its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if not notebooks:
                nightwork.workers.run_all = _hand_out
            nightly.run(order(folder))
            code = 0
        finally:
            os._exit(code)
    return pid


def _seconds(folder: Path, *, notebooks: bool) -> float:
    start = time.monotonic()
    _, status = os.waitpid(_night_in_a_child(folder, notebooks=notebooks), 0)
    assert status == 0
    return time.monotonic() - start


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_night_killed_at_any_moment_leaves_the_reports_consistent(tmp_path: Path) -> None:
    folder = tiny_project(tmp_path / "p")
    nightly.run(order(folder, YESTERDAY))
    # A fifth of the kills while a notebook runs, the others while files are written and moved.
    whole = {notebooks: _seconds(folder, notebooks=notebooks) for notebooks in (True, False)}
    moments = random.Random(0)
    killed = 0
    for at in range(KILLS):
        before = reports_of(folder)
        lines = len(history.read(folder / "reports"))
        notebooks = at % 5 == 0
        pid = _night_in_a_child(folder, notebooks=notebooks)
        time.sleep(moments.uniform(0, whole[notebooks]))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        killed += os.WIFSIGNALED(status)
        assert reports_of(folder)[YESTERDAY.isoformat()] == before[YESTERDAY.isoformat()]
        assert_whole(folder, before)
        with publishing.locked(folder / "reports"):
            publishing.recover(folder / "reports")
        assert reports_of(folder).keys() == before.keys()
        assert_whole(folder, before)
        after = history.read(folder / "reports")
        assert len(after) == lines + (reports_of(folder) != before)
        started = json.loads(reports_of(folder)[DAY.isoformat()]["manifest.json"])["started"]
        assert after[-1]["started"] == started
    assert killed >= KILLS / 2
    nightly.run(order(folder))
    assert_whole(folder, {YESTERDAY.isoformat(): before[YESTERDAY.isoformat()]})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_kernels_lets_go_of_the_lock_and_publishes_nothing(
    tmp_path: Path, number: int
) -> None:
    folder = tiny_project(tmp_path / "p")
    mark = tmp_path / "pid"
    stub_notes(folder, REMEMBER.replace("out", repr(str(mark))) + "import time; time.sleep(600)")
    night = subprocess.Popen(
        [*RECALL, "nightly", "--date", "2026-07-31"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: mark.is_file() and mark.read_text(), 60)
    night.send_signal(number)
    _, said = night.communicate(timeout=30)
    assert night.returncode == 3
    assert "stopped; nothing half-done was published" in said
    wait_for(lambda: gone(int(mark.read_text())))
    assert sorted(path.name for path in (folder / "reports").iterdir()) == [".nightly.lock", "logs"]
    with publishing.locked(folder / "reports") as stale:
        assert not stale


def test_kernels_end_when_the_night_is_killed(tmp_path: Path) -> None:
    folder = tiny_project(tmp_path / "p")
    mark = tmp_path / "pid"
    stub_notes(folder, REMEMBER.replace("out", repr(str(mark))) + "import time; time.sleep(600)")
    night = subprocess.Popen([*RECALL, "nightly"], cwd=folder)
    wait_for(lambda: mark.is_file() and mark.read_text(), 60)
    night.kill()
    night.wait()
    wait_for(lambda: gone(int(mark.read_text())))
    with publishing.locked(folder / "reports") as stale:
        assert stale.startswith(f"the run before (process {night.pid}, since 20")
        publishing.recover(folder / "reports")
    left = sorted(path.name for path in (folder / "reports").iterdir())
    assert left == [".nightly.lock", "logs"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for the reports. Needs root; elsewhere the tests with it are skipped."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("cannot mount a small file system here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, leave: int) -> None:
    """Leave so many bytes of it."""
    (disk / "ballast").unlink(missing_ok=True)
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "ballast").write_bytes(b"\0" * max(0, free - leave))


@pytest.mark.slow
def test_a_full_disk_leaves_the_reports_consistent(tmp_path: Path, small_disk: Path) -> None:
    folder = tiny_project(tmp_path / "p")
    (folder / "reports").symlink_to(small_disk)
    nightly.run(order(folder, YESTERDAY))
    nightly.run(order(folder))
    before = reports_of(folder)
    lines = history.read(folder / "reports")
    outcomes = set()
    for leave in (0, 8_192, 65_536, 131_072, 196_608, 262_144, 327_680):
        fill(small_disk, leave)
        try:
            night = nightly.run(order(folder))
            outcomes.add("incomplete" if night.missing else "whole")
        except (OSError, RecallError):
            outcomes.add("stopped")
            assert reports_of(folder) == before
            assert history.read(folder / "reports") == lines
        assert reports_of(folder)[YESTERDAY.isoformat()] == before[YESTERDAY.isoformat()]
        assert not list((folder / "reports").glob(".*.work"))
        before, lines = reports_of(folder), history.read(folder / "reports")
    assert "stopped" in outcomes
    (small_disk / "ballast").unlink()
    assert not nightly.run(order(folder)).missing

"""Workers: the notebooks of a night, a few at a time, each in a process with a time limit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from recall_core import progress

POLL = 0.05
"""Seconds between two looks at the processes."""
GRACE = 5.0
"""Seconds a process gets to end its kernel before both are killed."""


@dataclass(frozen=True)
class Task:
    """One notebook to run: where it is, where it goes, with which parameters."""

    name: str
    notebook: Path
    executed: Path
    parameters: Mapping[str, Any]


class Watch(Protocol):
    """Who is told of what happens."""

    def started(self, name: str) -> None: ...

    def event(self, name: str, event: Mapping[str, Any]) -> None: ...

    def ended(self, name: str, reason: str, seconds: float) -> None: ...


@dataclass
class _Running:
    task: Task
    process: subprocess.Popen[bytes]
    events: Path
    errors: Path
    since: float = field(default_factory=time.monotonic)
    read: int = 0
    """Bytes of `events` that were passed on."""
    kernel: int | None = None
    failed: str = ""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    tasks: Sequence[Task],
    root: Path,
    scratch: Path,
    *,
    at_once: int,
    threads: int,
    time_limit: float,
    watch: Watch,
) -> dict[str, str]:
    """Run every task, `at_once` side by side; returns why each of those that failed did.

    One that fails, dies or takes longer than `time_limit` seconds does not take the others along. Whatever
    ends this call, also a signal, no process of it is left. `scratch`: a folder for events and errors.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    waiting, failed = list(tasks), dict[str, str]()
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                # A signal before it is in the list leaves it to notice that its standard input was closed.
                running.append(_start(waiting.pop(0), root, scratch, threads))
                watch.started(running[-1].task.name)
            time.sleep(POLL)
            for one in list(running):
                reason = _look(one, time_limit, watch)
                if reason is not None:
                    running.remove(one)
                    seconds = time.monotonic() - one.since
                    if reason:
                        failed[one.task.name] = reason
                    watch.ended(one.task.name, reason, seconds)
    finally:
        _end(running)
    return failed


def _start(task: Task, root: Path, scratch: Path, threads: int) -> _Running:
    events, errors = (scratch / f"{task.name}.{kind}" for kind in ("events", "errors"))
    said = {"notebook": str(task.notebook), "executed": str(task.executed), "root": str(root)}
    counts = dict.fromkeys(
        ("RECALL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
    )
    # A session of its own: an interrupt from the keyboard reaches us alone, and we end it in order.
    with errors.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "recall_core.night.notebooks"],
            stdin=subprocess.PIPE,
            stdout=err,
            stderr=err,
            start_new_session=True,
            env={**os.environ, **counts, progress.FILE: str(events.resolve())},
        )
    assert process.stdin
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(said | {"parameters": dict(task.parameters)}).encode() + b"\n")
        process.stdin.flush()
    return _Running(task, process, events, errors)


def _look(one: _Running, time_limit: float, watch: Watch) -> str | None:
    """Pass on what it said. Why it failed, or an empty string, when it has ended; None while it runs."""
    code = one.process.poll()
    for event in _events(one):
        one.kernel = event.get("kernel", one.kernel)
        one.failed = event.get("failed", one.failed)
        if "desc" in event:
            watch.event(one.task.name, event)
    if code is None:
        if time.monotonic() - one.since <= time_limit:
            return None
        _end([one])
        return f"{one.task.notebook.name}: stopped at its time limit of {time_limit:g} seconds"
    assert one.process.stdin
    with suppress(OSError):
        one.process.stdin.close()
    clear_sockets(one.process.pid)
    if code == 0:
        return ""
    if one.kernel and not one.failed:
        # It did not live to end its kernel.
        end_group(one.kernel)
    if one.failed:
        return one.failed
    lines = one.errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
    return f"{one.task.notebook.name}: its process {how}" + (f": {lines[-1]}" if lines else "")


def _events(one: _Running) -> list[dict[str, Any]]:
    """What was added to the file since; a line that is not whole yet waits for the next look."""
    try:
        with one.events.open("rb") as file:
            file.seek(one.read)
            whole, end, _ = file.read().rpartition(b"\n")
    except OSError:
        return []
    one.read += len(whole) + len(end)
    found = []
    for line in whole.splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return [event for event in found if isinstance(event, dict)]


def _end(running: Sequence[_Running]) -> None:
    """Ask each to end by closing its standard input, then kill what is left, kernels too."""
    for one in running:
        assert one.process.stdin
        with suppress(OSError):
            one.process.stdin.close()
    until = time.monotonic() + GRACE
    for one in running:
        try:
            one.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            _events_of_kernel(one)
            end_group(one.process.pid)
            if one.kernel:
                end_group(one.kernel)
            one.process.wait()
        clear_sockets(one.process.pid)


def _events_of_kernel(one: _Running) -> None:
    for event in _events(one):
        one.kernel = event.get("kernel", one.kernel)


def end_group(pid: int) -> None:
    """Kill a process and what it started, at once. One that is gone already is fine."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return


def socket_prefix(pid: int) -> str:
    """How the folder of a notebook process's kernel sockets is called, in the system's temporary folder."""
    return f"recall-{pid}-"


def clear_sockets(pid: int) -> None:
    """Remove what a notebook process that could not do so itself left there."""
    for folder in Path(tempfile.gettempdir()).glob(f"{socket_prefix(pid)}*"):
        shutil.rmtree(folder, ignore_errors=True)

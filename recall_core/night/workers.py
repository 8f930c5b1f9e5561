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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recall_core import progress
from recall_core.night.nightlog import Log

POLL = 0.05
"""Seconds between two looks at the processes."""
GRACE = 5.0
"""Seconds a process gets to end its kernel before both are killed."""
COUNTS = ("RECALL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """One notebook to run: where it is, where it goes, with which parameters."""

    name: str
    notebook: Path
    executed: Path
    parameters: Mapping[str, Any]


class _Running:
    """The process of a notebook, and what it has told."""

    def __init__(self, task: Task, root: Path, scratch: Path, threads: int) -> None:
        self.task, self.since = task, time.monotonic()
        self.kernel, self.failed = 0, ""
        self.events, self.errors = (scratch / f"{task.name}.{kind}" for kind in ("events", "errors"))
        self.events.touch()
        self._read = 0
        said = {"notebook": str(task.notebook), "executed": str(task.executed), "root": str(root)}
        counts = dict.fromkeys(COUNTS, str(threads))
        # A session of its own: an interrupt from the keyboard reaches us alone, and we end it in order.
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "recall_core.night.notebooks"],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, **counts, progress.FILE: str(self.events.resolve())},
            )
        assert self.process.stdin
        self.stdin = self.process.stdin
        with suppress(BrokenPipeError):
            self.stdin.write(json.dumps(said | {"parameters": dict(task.parameters)}).encode() + b"\n")

    def told(self) -> list[dict[str, Any]]:
        """Passes that moved on since the last call; a line that is not whole yet waits for the next."""
        lines = self.events.read_bytes().split(b"\n")[:-1]
        found = []
        for line in lines[self._read :]:
            with suppress(ValueError):
                event = json.loads(line)
                self.kernel = event.get("kernel", self.kernel)
                self.failed = event.get("failed", self.failed)
                found += [event] * ("desc" in event)
        self._read = len(lines)
        return found

    def why(self) -> str:
        """Why it failed, once it has ended; empty when it is well."""
        code = self.process.returncode
        if code == 0 or self.failed:
            return self.failed
        lines = self.errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        return f"{self.task.notebook.name}: its process {how}" + (f": {lines[-1]}" if lines else "")


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
    watch: Log,
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
                running.append(_Running(waiting.pop(0), root, scratch, threads))
                watch.started(running[-1].task.name)
            time.sleep(POLL)
            for one in list(running):
                ended = one.process.poll() is not None
                for event in one.told():
                    watch.event(one.task.name, event)
                seconds = time.monotonic() - one.since
                if not ended and seconds <= time_limit:
                    continue
                _end([one])
                running.remove(one)
                over = f"{one.task.notebook.name}: stopped at its time limit of {time_limit:g} seconds"
                if reason := one.why() if ended else over:
                    failed[one.task.name] = reason
                watch.ended(one.task.name, reason, seconds)
    finally:
        _end(running)
    return failed


def _end(running: Sequence[_Running]) -> None:
    """Ask each to end by closing its standard input, then kill what is left, kernels too."""
    for one in running:
        one.stdin.close()
    until = time.monotonic() + GRACE
    for one in running:
        try:
            one.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            end_group(one.process.pid)
            one.process.wait()
        one.told()
        code = one.process.returncode
        if one.kernel and (code < 0 or (code and not one.failed)):
            # It did not live to end its kernel.
            end_group(one.kernel)
        clear_sockets(one.process.pid)


def end_group(pid: int) -> None:
    """Kill a process and what it started, at once. One that is gone already is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def socket_prefix(pid: int) -> str:
    """How the folder of a notebook process's kernel sockets is called, in the system's temporary folder."""
    return f"recall-{pid}-"


def clear_sockets(pid: int) -> None:
    """Remove what a notebook process that could not do so itself left there."""
    for folder in Path(tempfile.gettempdir()).glob(f"{socket_prefix(pid)}*"):
        shutil.rmtree(folder, ignore_errors=True)

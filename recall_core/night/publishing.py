"""Publishing: one night at a time, and a reports folder that any kill leaves whole or mendable.

A night works in a folder of its own. To publish it, what is to be done is first written to `.publish.json`;
that file is the moment of decision. What a kill interrupts before it never happened, what one interrupts
after it is finished by the next night (`recover`), history line included.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from recall_core import runs
from recall_core.past import history
from recall_core.records import RecallError
from recall_core.writing import write_whole

INTENT = ".publish.json"
LEFT_BEHIND = (".*.work", ".*.gone", ".*.new", ".*.part")
"""What a night that was killed leaves, and nobody needs."""


@contextmanager
def locked(reports: Path) -> Iterator[str]:
    """One night at a time. The lock is the operating system's: it goes when its holder does.

    Gives a sentence on a holder that died without letting go, or an empty string. Raises RecallError when
    the lock is held, or the folder cannot be written.
    """
    owner = reports / ".nightly.json"
    try:
        reports.mkdir(parents=True, exist_ok=True)
        lock = FileLock(reports / ".nightly.lock")
        lock.acquire(timeout=0)
    except Timeout:
        raise RecallError(
            f"{reports}: another nightly run holds the lock ({_owner(owner)}); wait for it to end, or stop it"
        ) from None
    except OSError as error:
        raise RecallError(
            f"{reports}: cannot be written ({error.strerror}); give another folder with --reports"
        ) from error
    try:
        stale = f"the run before ({_owner(owner)}) died holding the lock" if owner.exists() else ""
        write_whole(owner, json.dumps({"pid": os.getpid(), "since": datetime.now(UTC).isoformat()}))
        yield stale
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def _owner(path: Path) -> str:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return f"process {held['pid']}, since {held['since']}"
    except (OSError, *history.UNREADABLE):
        return "process unknown, since unknown"


def publish(work: Path, final: Path, line: Mapping[str, Any] | None = None) -> None:
    """Move the finished folder into place and add its line to the history.

    A report of the same day is replaced only by a whole one.
    """
    reports = final.parent
    moved = {"work": work.relative_to(reports).as_posix(), "final": final.name, "line": line}
    write_whole(reports / INTENT, json.dumps(moved))
    _finish(reports)


def _finish(reports: Path) -> None:
    """Every step may have been done already."""
    moved = runs.read_json(reports / INTENT)
    replace(reports / moved["work"], reports / moved["final"])
    line = moved["line"]
    if line and line["started"] not in {held["started"] for held in history.read(reports)}:
        history.append(reports, line)
    (reports / INTENT).unlink()


def replace(work: Path, final: Path) -> None:
    """Move a finished folder to where another may be; what a kill leaves is for `recover`."""
    old = final.with_name(f".{final.name}.old")
    if work.exists():
        if final.exists():
            final.rename(old)
        work.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def recover(reports: Path) -> None:
    """Finish what a night that was killed while publishing left, and clear the rest. Needs the lock."""
    if (reports / INTENT).exists():
        _finish(reports)
    for old in reports.glob(".*.old"):
        final = old.with_name(old.name.removeprefix(".").removesuffix(".old"))
        if final.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(final)
    for left in (found for pattern in LEFT_BEHIND for found in reports.glob(pattern)):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink()


def dated(reports: Path) -> list[Path]:
    """The folders of reports, oldest first."""
    return sorted(path for path in reports.glob("*") if re.fullmatch(r"\d{4}-\d\d-\d\d", path.name))


def prune(reports: Path, keep: int, also: str) -> list[str]:
    """Remove all but the `keep` latest reports, and their logs. `also` is kept whatever its date.

    The history and the baselines stay. Returns what was removed. A folder goes in one step: it is renamed,
    then emptied.
    """
    folders = dated(reports)
    kept = {folder.name for folder in folders[-keep:]} | {also}
    removed = [folder.name for folder in folders if folder.name not in kept]
    for name in removed:
        gone = (reports / name).rename(reports / f".{name}.gone")
        shutil.rmtree(gone, ignore_errors=True)
    for log in (reports / "logs").glob("*.log"):
        if log.name[:10] not in kept:
            log.unlink()
    return removed

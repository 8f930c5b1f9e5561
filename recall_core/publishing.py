"""Publishing: one night at a time, and a report folder that is either yesterday's or whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from recall_core.records import RecallError


@contextmanager
def locked(reports: Path) -> Iterator[None]:
    """One night at a time. The lock is the operating system's: it goes when its holder does."""
    owner = reports / ".nightly.json"
    try:
        reports.mkdir(parents=True, exist_ok=True)
        lock = FileLock(reports / ".nightly.lock")
        lock.acquire(timeout=0)
    except Timeout:
        held = json.loads(owner.read_text()) if owner.is_file() else {}
        raise RecallError(
            f"{reports}: another nightly run holds the lock (process {held.get('pid', 'unknown')}, since "
            f"{held.get('since', 'unknown')}); wait for it to end, or stop it"
        ) from None
    except OSError as error:
        raise RecallError(
            f"{reports}: cannot be written ({error.strerror}); give another folder with --reports"
        ) from error
    try:
        owner.write_text(json.dumps({"pid": os.getpid(), "since": datetime.now(UTC).isoformat()}))
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def publish(work: Path, final: Path) -> None:
    """Move the finished folder into place. A report of the same day is replaced only by a whole one."""
    old = final.with_name(f".{final.name}.old")
    if final.exists():
        final.rename(old)
    work.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def recover(reports: Path) -> None:
    """Finish what a night that was killed while publishing left behind."""
    for old in reports.glob(".*.old"):
        final = old.with_name(old.name.removeprefix(".").removesuffix(".old"))
        if final.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(final)

"""The night's log: plain lines in a file, and bars on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

EVERY = 10.0
"""Seconds between two lines on one pass."""
CELLS = "cells"


class Log:
    """One file a night. What cannot be written, as on a full disk, is not worth the night it tells of."""

    def __init__(self, path: Path, *, quiet: bool) -> None:
        self.path = path
        self.quiet = quiet
        self.seconds: dict[str, float] = {}
        """What each notebook took."""
        self._bars: dict[tuple[str, str], tqdm[Any]] = {}
        self._said: dict[tuple[str, str], float] = {}
        self._file: IO[str] | None = None
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")

    def say(self, text: str) -> None:
        """One line, with the time; nothing where there is nothing to say."""
        if text and self._file:
            with suppress(OSError):
                self._file.write(f"{datetime.now():%H:%M:%S} {text}\n")
                self._file.flush()

    def started(self, name: str) -> None:
        """A notebook begins."""
        self.say(f"{name}: started")

    def event(self, name: str, event: Mapping[str, Any]) -> None:
        """A notebook, or a pass in it, moved on: `desc`, `done` and `total`."""
        desc, done, total = event["desc"], event["done"], event["total"]
        key, now, is_pass = (name, desc), time.monotonic(), desc != CELLS
        said = desc if name in desc else f"{name}: {desc}"
        if is_pass and (done >= total or now - self._said.setdefault(key, now) >= EVERY):
            self._said[key] = now
            self.say(f"{said}: {done} of {total}")
        if self.quiet:
            return
        if key not in self._bars:
            shown = f"  {said}" if is_pass else name
            self._bars[key] = tqdm(total=total, desc=shown, leave=False, file=sys.stderr)
        self._bars[key].update(done - self._bars[key].n)
        if done >= total and is_pass:
            self._bars.pop(key).close()

    def ended(self, name: str, reason: str, seconds: float) -> None:
        """A notebook ended; `reason` is empty when it is well."""
        self.seconds[name] = round(seconds, 1)
        self.say(f"{name}: {f'FAILED: {reason}' if reason else 'done'} ({seconds:.1f} s)")
        for key in [key for key in self._bars if key[0] == name]:
            self._bars.pop(key).close()
        if not self.quiet:
            tqdm.write(f"{name}: {'failed' if reason else 'done'}, {seconds:.1f} s", file=sys.stderr)

    def close(self) -> None:
        """End the bars and the file."""
        for bar in self._bars.values():
            bar.close()
        if self._file:
            with suppress(OSError):
                self._file.close()

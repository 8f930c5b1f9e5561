"""Progress: a bar on a terminal, or one line a step in the file that the night reads."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

FILE = "RECALL_PROGRESS"
"""Environment variable: the file of events of the notebook this process works for."""
EVERY = 0.5
"""Seconds between two events of one pass."""


class Bar(Protocol):
    """What a pass moves on."""

    def update(self, n: int) -> object: ...


def tell(**event: object) -> None:
    """Add one event to the night's file, if there is a night.

    An event that cannot be written is not worth the notebook it tells of.
    """
    path = os.environ.get(FILE)
    if path:
        with suppress(OSError), Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


@contextmanager
def bar(total: int, desc: str, unit: str, *, quiet: bool | None = None) -> Iterator[Bar]:
    """A pass over `total` things. `quiet` None: a bar only on a terminal."""
    if os.environ.get(FILE):
        yield _Told(total, desc)
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=desc, unit=unit, disable=quiet) as shown:
        yield shown


class _Told:
    def __init__(self, total: int, desc: str) -> None:
        self.desc, self.total, self.done, self.last = desc, total, 0, 0.0

    def update(self, n: int) -> None:
        self.done += n
        if self.done >= self.total or time.monotonic() - self.last >= EVERY:
            self.last = time.monotonic()
            tell(desc=self.desc, done=self.done, total=self.total)

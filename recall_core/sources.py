"""Sources: memories that lie beside a fixture and not in it."""

from __future__ import annotations

from pathlib import Path

from recall_core import vault
from recall_core.records import InputError, Memory, Source


def read(source: Source, folder: Path) -> tuple[Memory, ...]:
    """The memories of a source whose paths start at `folder`, sorted by id.

    Raises InputError when a page and an observation have one id, and as `vault` does.
    """
    pages = vault.read(folder / source.vault).pages
    raw = vault.read_observations(folder / source.observations) if source.observations else []
    if both := {page.id for page in pages} & {memory.id for memory in raw}:
        raise InputError(f"{min(both)!r} is a page and an observation; rename one of the two")
    return tuple(sorted([*pages, *raw], key=lambda memory: memory.id))

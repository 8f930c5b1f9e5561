"""Sources: memories that lie beside a fixture and not in it."""

from __future__ import annotations

from pathlib import Path

from recall_core import vault
from recall_core.records import InputError, Memory, Source

SHOWN = 5
"""Links that lead nowhere and are named."""


def read(source: Source, folder: Path) -> tuple[tuple[Memory, ...], list[str]]:
    """The memories of a source whose paths start at `folder`, sorted by id; and what is odd about it.

    Raises InputError when a page and an observation have one id, and as `vault` does.
    """
    held = vault.read(folder / source.vault)
    pages = held.pages
    raw = vault.read_observations(folder / source.observations) if source.observations else []
    if both := {page.id for page in pages} & {memory.id for memory in raw}:
        raise InputError(f"{min(both)!r} is a page and an observation; rename one of the two")
    odd = [f"page {page!r}: {why}" for page, why in held.unreadable]
    if held.dangling:
        named = ", ".join(f"{page} to {to}" for page, to in held.dangling[:SHOWN])
        more = ", ..." if len(held.dangling) > SHOWN else ""
        odd.append(f"{len(held.dangling)} links lead nowhere: {named}{more}")
    return tuple(sorted([*pages, *raw], key=lambda memory: memory.id)), odd

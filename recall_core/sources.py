"""Sources: memories that lie beside a fixture and not in it."""

from __future__ import annotations

import json
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
    raw = read_observations(folder / source.observations) if source.observations else []
    if both := {page.id for page in pages} & {memory.id for memory in raw}:
        raise InputError(f"{min(both)!r} is a page and an observation; rename one of the two")
    odd = [f"page {page!r}: {why}" for page, why in held.unreadable]
    if held.dangling:
        named = ", ".join(f"{page} to {to}" for page, to in held.dangling[:SHOWN])
        more = ", ..." if len(held.dangling) > SHOWN else ""
        odd.append(f"{len(held.dangling)} links lead nowhere: {named}{more}")
    return tuple(sorted([*pages, *raw], key=lambda memory: memory.id)), odd


def read_observations(path: Path) -> list[Memory]:
    """Raw observations, one JSON object a line: `id`, `text`, and optionally `ts`, `lang`, `source`.

    Raises InputError that names the line.
    """
    found: list[Memory] = []
    ids: set[str] = set()
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # splitlines would also break at U+2028
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({why}); give a JSONL file in UTF-8") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(Memory.model_validate(json.loads(line) | {"kind": "observation"}))
            except (ValueError, TypeError, RecursionError) as error:
                why = " ".join(str(error).split())
                raise InputError(f"{path}, line {number}: is no observation ({why:.160})") from error
            if found[-1].id in ids:
                raise InputError(f"{path}, line {number}: the id {found[-1].id!r} is taken; give it another")
            ids.add(found[-1].id)
    return found

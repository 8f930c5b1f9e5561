"""Passages: the pieces of a memory that get a vector, and the hash each vector is kept under."""

from __future__ import annotations

import hashlib
import re

from recall_core.records import Memory
from recall_core.threads import said

CHUNK = 600
"""Characters of a page in one passage, about: a paragraph or two."""


def passages(memory: Memory) -> list[str]:
    """What is embedded of a memory: the whole of it, and of a page each chunk too. Its best one counts."""
    whole = said(memory)
    if memory.kind != "page":
        return [whole]
    return list(dict.fromkeys([whole, *chunks(memory)]))


def chunks(memory: Memory) -> list[str]:
    """A text cut at blank lines into pieces of up to `CHUNK` characters, each under the memory's title."""
    pieces: list[str] = []
    for paragraph in re.split(r"\n\s*\n", memory.text.strip()):
        if pieces and len(pieces[-1]) + len(paragraph) < CHUNK:
            pieces[-1] += f"\n\n{paragraph}"
        else:
            pieces.append(paragraph)
    head = f"{memory.title}\n" if memory.title else ""
    return [head + piece for piece in pieces]


def hash_of(passage: str) -> str:
    """SHA-256 of a passage, hexadecimal: the key its vectors are kept under."""
    return hashlib.sha256(passage.encode()).hexdigest()

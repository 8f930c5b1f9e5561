"""Threads: dialogues and session logs, whose memories have neighbours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from recall_core.records import Memory

BEFORE, AFTER = 2, 2
"""Neighbours on either side whose words may speak for a memory. Spans of one to three were tried on four
dialogues of LoCoMo: whichever of them was left out, the other three chose two and two."""
MONTHS = {
    "en": "January February March April May June July August September October November December".split(),
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря".split(),
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
}


def neighbours(memories: Sequence[Memory]) -> Mapping[str, list[Memory]]:
    """The neighbours of each memory that has a thread and a position, by id, in the order of the thread."""
    threads: dict[str, list[Memory]] = defaultdict(list)
    for memory in memories:
        if memory.thread is not None and memory.position is not None:
            threads[memory.thread].append(memory)
    found = {}
    for thread in threads.values():
        thread.sort(key=lambda memory: (memory.position, memory.id))
        for at, memory in enumerate(thread):
            found[memory.id] = [*thread[max(0, at - BEFORE) : at], *thread[at + 1 : at + 1 + AFTER]]
    return found


def said(memory: Memory) -> str:
    """A memory as it is embedded: under its title, or after who said it."""
    if memory.speaker:
        return f"{memory.speaker}: {memory.text}"
    return f"{memory.title}\n{memory.text}" if memory.title else memory.text


def window(memory: Memory, near: Sequence[Memory]) -> str:
    """A memory between the one before and the one after it."""
    assert memory.position is not None
    before = [one for one in near if (one.position, one.id) < (memory.position, memory.id)][-1:]
    after = [one for one in near if (one.position, one.id) > (memory.position, memory.id)][:1]
    return "\n".join(said(one) for one in (*before, memory, *after))


def day(memory: Memory) -> str:
    """The date of a memory of a thread in words, as a person would ask for it: `8 May 2023`."""
    if memory.ts is None or memory.thread is None:
        return ""
    at = datetime.fromisoformat(memory.ts)
    return f"{at.day} {MONTHS.get(memory.lang or 'en', MONTHS['en'])[at.month - 1]} {at.year}"

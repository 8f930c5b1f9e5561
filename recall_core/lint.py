"""The lint: is a valid fixture worth measuring with?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from recall_core.fixtures import all_memories, memories_for
from recall_core.records import Case, Fixture, Memory
from recall_core.words import content_stems, folded, tokens

Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing the lint says of a case or a memory. An error fails the build; a warning asks for a look."""

    level: Level
    kind: str
    """The same for all findings that say the same of different cases."""
    case_id: str
    message: str


def lint(fixture: Fixture) -> list[Finding]:
    """Is the fixture worth measuring with? Assumes that it validates."""
    findings: list[Finding] = []
    asked: dict[tuple[str, ...], str] = {}
    for case in fixture.cases:
        key = tuple(tokens(case.query)) or (case.query,)
        first = asked.setdefault(key, case.id)
        if first != case.id:
            said = f"asks the same as case {first!r}: {case.query!r}; reword one"
            findings.append(Finding("error", "asks the same as another case", case.id, said))
        findings += _lint_case(fixture, case)
    return findings + list(_lint_memories(fixture))


def summary(findings: Sequence[Finding], examples: int = 3) -> list[str]:
    """A line a kind: how many there are, and the first few by name. Errors first, then the most frequent."""
    of_kind: dict[tuple[str, str], list[str]] = {}
    for found in findings:
        of_kind.setdefault((found.level, found.kind), []).append(found.case_id)
    lines = []
    for (level, kind), ids in sorted(of_kind.items(), key=lambda item: (item[0][0], -len(item[1]))):
        more = ", ..." if len(ids) > examples else ""
        lines.append(f"{level}: {len(ids)} x {kind}: {', '.join(ids[:examples])}{more}")
    return lines


def _lint_memories(fixture: Fixture) -> Iterator[Finding]:
    alike: dict[str, str] = {}
    for memory in all_memories(fixture):
        if not tokens(f"{memory.title or ''} {memory.text}"):
            said = f"memory {memory.id!r} holds no word: {memory.text!r:.60}"
            yield Finding("warning", "a memory holds no word", memory.id, said)
        first = alike.setdefault(folded(memory.id), memory.id)
        if first != memory.id:
            said = f"memory {memory.id!r} differs from {first!r} by case or Unicode form only"
            yield Finding("warning", "two ids look alike", memory.id, said)


def shared_words(case: Case, memory: Memory) -> tuple[frozenset[str], int]:
    """The query's content stems that the memory has too, and how many stems the query has."""
    asked = content_stems(case.query, case.lang)
    return asked & content_stems(memory.text, memory.lang or case.lang), len(asked)


def _lint_case(fixture: Fixture, case: Case) -> Iterator[Finding]:
    if not _plausible(case.query, case.lang):
        said = f"is tagged {case.lang!r}, but {case.query!r} is in another script"
        yield Finding("error", "is in another script than its language", case.id, said)
    for memory in memories_for(fixture, case):
        shared, asked = shared_words(case, memory)
        words = ", ".join(sorted(shared))
        expected = memory.id in case.expected
        if expected and 2 * len(shared) > asked:
            said = (
                f"shares {len(shared)} of its {asked} content words with {memory.id!r} ({words}); "
                "at most half may be shared: ask it in other words"
            )
            level: Level = "error" if memory.kind in ("note", "fact") else "warning"
            yield Finding(level, "copies the words of the memory it looks for", case.id, said)
        elif expected and case.hard and shared:
            said = f"is marked hard, but shares {words} with {memory.id!r}; reword, or unmark it"
            yield Finding("error", "is marked hard and shares words", case.id, said)
        elif not case.answerable and 2 * len(shared) > asked:
            said = (
                f"must stay silent, but {memory.id!r} has {len(shared)} of its {asked} content words "
                f"({words}); check that it does not state the answer"
            )
            yield Finding("warning", "must stay silent and shares most words with a memory", case.id, said)
        if memory in case.memories and memory.lang and not _plausible(memory.text, memory.lang):
            said = f"memory {memory.id!r} is tagged {memory.lang!r}, but is in another script"
            yield Finding("warning", "a memory is in another script than its language", case.id, said)


def _plausible(text: str, lang: str) -> bool:
    """Whether the letters of a text can be that language's. A text without letters always can."""
    cyrillic = sum("\u0400" <= char <= "\u04ff" for char in text)
    latin = sum(char.isalpha() and char < "\u0250" for char in text)
    if lang in ("ru", "uk", "be", "bg", "sr", "kk"):
        return cyrillic > 0 or latin == 0
    return cyrillic <= latin

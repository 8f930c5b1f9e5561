"""Fixtures: read, validate, hash, and hand out the memories each case is asked against."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recall_core import sources, wording
from recall_core.records import Case, Fixture, FixtureError, InputError, Memory, Source
from recall_core.words import tokens

WANTED = {
    "format": "1",
    "name": 'a name without blanks, such as "my-notes"',
    "version": 'the version of its content, such as "1.0.0"',
    "description": "what it measures, in a sentence",
    "isolation": '"per_case", "per_group" or "shared"',
    "memories": 'a list of memories, or a source: {"vault": "../wiki"}',
    "vault": 'a folder of Markdown pages, such as "../wiki"',
    "observations": 'a JSONL file, such as "../wiki/observations.jsonl"',
    "filler": "a list of memories",
    "groups": 'a list of groups: {"id": "anna", "memories": [...]}',
    "cases": "at least one case",
    "id": 'an id of its own, without blanks, such as "rent-day"',
    "query": "the question, as a person would ask it",
    "lang": 'an ISO 639 code, such as "en" or "ru"',
    "expected": "the ids of the memories that answer, or [] where it must stay silent",
    "hard": "true or false",
    "tags": 'a list of words, such as ["paraphrase"]',
    "group": "the id of a group",
    "silent_because": "why no memory answers this, in a few words",
    "text": "what is remembered",
    "kind": '"note", "fact", "page" or "observation"',
    "ts": 'a time with its zone, such as "2026-07-31T09:00:00+00:00"',
    "title": "a title",
    "aliases": "a list of other names",
    "path": "where it lies",
    "entities": "a list of names",
    "links": "a list of ids",
    "speaker": "who said it",
    "source": "where it comes from",
    "thread": "the conversation it belongs to",
    "position": "its place in the thread, a whole number",
}
"""What to write behind each key of the format."""


def load(path: Path) -> Fixture:
    """Read and validate a fixture file.

    A source is read: `memories` then holds them all. Raises FixtureError with every problem found, each
    naming the case and the remedy. Nothing is returned unless the whole file is good.
    """
    raw = _read_json(path)
    try:
        fixture = Fixture.model_validate(raw)
    except ValidationError as error:
        raise FixtureError(str(path), wording.problems(error, raw, WANTED)) from None
    if isinstance(fixture.memories, Source):
        try:
            held, odd = sources.read(fixture.memories, path.parent)
        except InputError as error:
            raise FixtureError(str(path), [f"memories: {error}"]) from None
        fixture = fixture.model_copy(update={"memories": held})
        fixture._odd = tuple(odd)
    if problems := _contradictions(fixture):
        raise FixtureError(str(path), problems)
    return fixture


def fixture_hash(fixture: Fixture) -> str:
    """SHA-256 of the fixture's content. White space and key order in the file do not change it."""
    canonical = json.dumps(fixture.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def case_hash(fixture: Fixture, case: Case) -> str:
    """SHA-256 of all that decides a case's outcome: what is asked and expected, and what the store holds.

    Two nights are compared on the cases that have the same. Where one corpus answers all cases, any page
    that is added would change it for all, so there only the expected memories count.
    """
    shared = fixture.isolation == "shared"
    there = memories_for(fixture, case)
    held = [m.model_dump(mode="json") for m in there if not shared or m.id in case.expected]
    asked = [case.query, case.lang, sorted(set(case.expected)), held]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def store_key(fixture: Fixture, case: Case) -> str:
    """Cases with the same key are asked of the same store."""
    return {"per_case": case.id, "per_group": case.group or case.id, "shared": ""}[fixture.isolation]


def json_schema() -> str:
    """The JSON Schema of the format, as published in `data/fixture.schema.json`."""
    return json.dumps(Fixture.model_json_schema(by_alias=True), indent=2, ensure_ascii=False) + "\n"


def all_memories(fixture: Fixture) -> Iterator[Memory]:
    """Every memory of a fixture once: the corpus, filler, groups, then what the cases bring."""
    yield from fixture.corpus
    yield from fixture.filler
    for group in fixture.groups:
        yield from group.memories
    for case in fixture.cases:
        yield from case.memories


def memories_for(fixture: Fixture, case: Case) -> list[Memory]:
    """What the store holds when this case is asked, sorted by id."""
    if fixture.isolation == "shared":
        found: Iterable[Memory] = all_memories(fixture)
    else:
        groups = [group.memories for group in fixture.groups if group.id == case.group]
        found = [*case.memories, *(memory for group in groups for memory in group), *fixture.filler]
    return sorted(found, key=lambda memory: memory.id)


def remarks(fixture: Fixture) -> list[str]:
    """What is odd and does no harm, of its source too."""
    twice = [
        f"case {case.id!r}: expected {id_!r} stands {times} times; it counts once"
        for case in fixture.cases
        for id_, times in Counter(case.expected).items()
        if times > 1
    ]
    return [*fixture._odd, *twice]


# ---- reading


def _read_json(path: Path) -> Any:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        said = f"cannot be read: {str(error.strerror).lower()}; give the path of a fixture in JSON"
        raise FixtureError(str(path), [said]) from None
    except UnicodeDecodeError as error:
        said = f"byte {error.start} is not UTF-8 ({error.reason}); save the file as UTF-8"
        raise FixtureError(str(path), [said]) from None
    if not text.strip():
        raise FixtureError(str(path), ["the file is empty; a fixture needs a name and at least one case"])
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        said = f"line {error.lineno}, column {error.colno}: not JSON ({error.msg}); mend it there"
        raise FixtureError(str(path), [said]) from None
    except ValueError as error:
        raise FixtureError(str(path), [f"not JSON that can be read ({error}); mend it"]) from None
    except RecursionError:
        raise FixtureError(str(path), ["nested too deeply to read; a fixture is four levels deep"]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (key, times), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {key!r} stands {times} times in the object with id {found.get('id')!r:.60}")
    return found


def _contradictions(fixture: Fixture) -> list[str]:
    known = {memory.id for memory in all_memories(fixture)}
    problems = []
    ids = {
        "memory": Counter(memory.id for memory in all_memories(fixture)),
        "case": Counter(case.id for case in fixture.cases),
        "group": Counter(group.id for group in fixture.groups),
    }
    for kind, used in ids.items():
        problems += [f"{kind} id {id_!r} is used {n} times; rename one" for id_, n in used.items() if n > 1]
    if fixture.corpus and fixture.isolation != "shared":
        problems.append(
            f"memories: one corpus for all cases needs isolation shared, found {fixture.isolation}"
        )
    groups = {group.id for group in fixture.groups}
    for case in fixture.cases:
        problems += [
            f"case {case.id!r}: {said}" for said in _case_contradictions(fixture, case, known, groups)
        ]
    return problems


def _case_contradictions(fixture: Fixture, case: Case, known: set[str], groups: set[str]) -> Iterator[str]:
    if case.group is not None and case.group not in groups:
        yield f"group {case.group!r} does not exist; known groups: {', '.join(sorted(groups)) or 'none'}"
    if fixture.isolation == "per_group" and case.group is None:
        yield "isolation is per_group and it names no group; add one"
    if fixture.isolation == "per_case" and case.group is not None:
        yield "isolation is per_case and it names a group; remove it or change the isolation"
    if not tokens(case.query):
        yield f"the query {case.query!r} holds no word; write the question"
    shared = fixture.isolation == "shared"
    in_store = known if shared else {memory.id for memory in memories_for(fixture, case)}
    for id_ in case.expected:
        if id_ not in known:
            yield f"expected memory {id_!r} does not exist; correct the id or add the memory"
        elif id_ not in in_store:
            yield f"expected memory {id_!r} is not in this case's store; move it there"
    for id_ in sorted(set(case.expected) & {memory.id for memory in fixture.filler}):
        yield f"expected memory {id_!r} is filler; filler answers nothing, so make it the case's own"
    if not case.answerable and not (case.silent_because or "").strip():
        yield "expects nothing and does not say why; add silent_because, in a few words"
    if case.answerable and case.silent_because:
        yield "expects a memory and has silent_because; remove one of the two"

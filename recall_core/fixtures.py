"""Fixtures: read, validate, hash, and hand out the memories each case is asked against."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recall_core.records import Case, Fixture, FixtureError, Memory


def load(path: Path) -> Fixture:
    """Read and validate a fixture file.

    Raises FixtureError with every problem found, each naming the case and the remedy. Nothing is
    returned unless the whole file is good.
    """
    raw = _read_json(path)
    try:
        fixture = Fixture.model_validate(raw)
    except ValidationError as error:
        # Of a list in which every case is broken pydantic also says that it is empty.
        told = [dict(found) for found in error.errors() if found["type"] != "too_short" or not found["input"]]
        problems = [_describe(raw, problem) for problem in told]
        mended = _mended(raw, told)
        raise FixtureError(str(path), problems + (_contradictions(mended) if mended else [])) from None
    problems = _contradictions(fixture)
    if problems:
        raise FixtureError(str(path), problems)
    return fixture


def fixture_hash(fixture: Fixture) -> str:
    """SHA-256 of the fixture's content. White space and key order in the file do not change it."""
    canonical = json.dumps(fixture.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def json_schema() -> str:
    """The JSON Schema of the format, as published in `data/fixture.schema.json`."""
    return json.dumps(Fixture.model_json_schema(by_alias=True), indent=2, ensure_ascii=False) + "\n"


def all_memories(fixture: Fixture) -> Iterator[Memory]:
    """Every memory of a fixture once: filler, groups, then what the cases bring."""
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


# ---- reading


def _read_json(path: Path) -> Any:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise FixtureError(str(path), ["no such file; give the path of a fixture in JSON"]) from None
    except OSError as error:
        raise FixtureError(str(path), [f"cannot be read ({error.strerror})"]) from None
    except UnicodeDecodeError as error:
        raise FixtureError(
            str(path), [f"byte {error.start} is not UTF-8 ({error.reason}); save the file as UTF-8"]
        ) from None
    if not text.strip():
        raise FixtureError(str(path), ["the file is empty; a fixture needs a name and at least one case"])
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise FixtureError(
            str(path), [f"line {error.lineno}, column {error.colno}: not JSON ({error.msg}); mend it there"]
        ) from None
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


REMEDIES = {
    "missing": "add it",
    "extra_forbidden": "remove it, or check its spelling against data/fixture.schema.json",
    "string_unicode": "it holds half of a surrogate pair; write the whole character",
    "too_short": "give at least one",
}


KINDS: dict[int | str, str] = {"cases": "case", "groups": "group", "memories": "memory", "filler": "memory"}


def _describe(raw: Any, problem: dict[str, Any]) -> str:
    loc: tuple[int | str, ...] = problem["loc"]
    node, named, kind = raw, "", ""
    for step in loc[:-1]:
        node = node[step]
        kind = KINDS.get(step, kind)
        if isinstance(node, dict) and isinstance(node.get("id"), str):
            named += f"{kind} {node['id']!r}, "
    where = ".".join(str(step) for step in loc) or "the file"
    said = problem["msg"].removeprefix("Value error, ")
    given = problem.get("input")
    shown = f", found {given!r:.60}" if isinstance(given, (str, int, float, bool)) else ""
    remedy = REMEDIES.get(problem["type"])
    text = f"{named}{where}: {said}{shown}" + (f"; {remedy}" if remedy else "")
    return text.encode("utf-8", "backslashreplace").decode()


STAND_INS = {
    "format": 1,
    "name": "x",
    "version": "0.0.0",
    "isolation": "shared",
    "query": "x",
    "lang": "en",
    "silent_because": "x",
    "text": "x",
}
"""Values that contradict nothing, for broken ones that cannot be left out."""


def _mended(raw: Any, problems: list[dict[str, Any]]) -> Fixture | None:
    """The fixture with stand-ins where it is broken, so that its contradictions are told in the same go.

    Changes `raw`. None where so little is left that what is told could be false.
    """
    broken = sorted(((found["loc"], found["type"]) for found in problems if found["loc"]), reverse=True)
    for (*parents, last), kind in broken:
        if "expected" in parents:
            parents, last = parents[: parents.index("expected")], "expected"
        node = raw
        for step in parents:
            node = node[step]
        if kind == "extra_forbidden":
            del node[last]
        elif last == "id":
            node["id"] = ".".join(map(str, parents))
        elif last == "expected":
            node.update(expected=(), silent_because="x")
        elif last in STAND_INS:
            node[last] = STAND_INS[last]
        elif isinstance(node, list):
            del node[last]
        elif last not in ("group", "groups", "memories"):
            node.pop(last, None)
    try:
        return Fixture.model_validate(raw)
    except ValidationError:
        return None


def _contradictions(fixture: Fixture) -> list[str]:
    known = {memory.id for memory in all_memories(fixture)}
    problems = [
        f"memory id {id_!r} is used {n} times; give each memory its own id"
        for id_, n in Counter(memory.id for memory in all_memories(fixture)).items()
        if n > 1
    ]
    for kind, ids in (
        ("case", Counter(case.id for case in fixture.cases)),
        ("group", Counter(group.id for group in fixture.groups)),
    ):
        problems += [f"{kind} id {id_!r} is used {n} times; rename one" for id_, n in ids.items() if n > 1]
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
    in_store = {memory.id for memory in memories_for(fixture, case)}
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

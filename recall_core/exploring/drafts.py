"""Drafts: a miss that somebody saw becomes a case, to be completed by hand.

The drafts file is a fixture. A draft that names neither an expected memory nor a reason to stay silent is
not valid yet, and `recall fixture lint` says what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from filelock import FileLock
from pydantic import ValidationError

from recall_core.records import Case, FixtureError, Memory
from recall_core.writing import write_whole

HEAD = {
    "format": 1,
    "name": "drafts",
    "version": "0.0.0",
    "description": "Misses marked while exploring. Complete them, then move them to a fixture.",
    "isolation": "per_case",
    "cases": [],
}
MOST = len(ascii_lowercase)


@dataclass(frozen=True)
class Draft:
    """A question, and the memories it brings along: up to 26 of those seen.

    `expected`: the id of the one that answers. They get ids of their own, and `source` says where each came
    from.
    """

    query: str
    seen: Sequence[Memory]
    expected: str | None = None
    silent_because: str | None = None
    lang: str | None = None


def mark(path: Path, draft: Draft, *, lock: Path) -> str:
    """Append a case to a drafts file and return its id. The drafts that are there stay as they are.

    The file is replaced in one step, and `lock` keeps two from doing so at once. Raises FixtureError when the
    file is no drafts file, or the draft could never be a case; nothing is written then.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        held = _read(path)
        taken = {case.get("id") for case in held["cases"] if isinstance(case, dict)}
        number = next(n for n in range(1, len(taken) + 2) if f"draft-{n:03}" not in taken)
        id_ = f"draft-{number:03}"
        held["cases"].append(_case(id_, draft))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(held, indent=2, ensure_ascii=False) + "\n")
    return id_


def count(path: Path) -> int:
    """How many drafts a file holds; 0 where there is none. Raises FixtureError as `mark` does."""
    return len(_read(path)["cases"])


def _case(id_: str, draft: Draft) -> dict[str, Any]:
    """A case as a fixture file holds it. Each memory is a copy: ids are used once in a fixture."""
    query, expected = draft.query.strip(), draft.expected
    if not query:
        raise FixtureError(id_, ["the question is empty; type one"])
    chosen = list(draft.seen)[:MOST]
    wanted = next((memory for memory in draft.seen if memory.id == expected), None)
    if wanted and wanted not in chosen:
        chosen[-1] = wanted
    named = {memory.id: f"{id_}-{letter}" for memory, letter in zip(chosen, ascii_lowercase, strict=False)}
    if expected is not None and expected not in named:
        raise FixtureError(id_, [f"{expected!r} is not among the memories it brings; pick one that is"])
    case: dict[str, Any] = {
        "id": id_,
        "query": query,
        "lang": draft.lang or _guessed(query),
        "expected": [named[expected]] if expected is not None else [],
        "hard": False,
        "tags": ["draft"],
    }
    if expected is None:
        case["silent_because"] = (draft.silent_because or "").strip()
    case |= {"memories": [_copy(memory, named[memory.id]) for memory in chosen]}
    try:
        Case.model_validate(case)
    except ValidationError as error:
        raise FixtureError(id_, [found["msg"] for found in error.errors()]) from None
    return case


def _copy(memory: Memory, id_: str) -> dict[str, Any]:
    # Links and the place in a thread point at memories that do not come along.
    plain = memory.model_dump(mode="json", exclude_defaults=True, exclude={"links", "thread", "position"})
    return plain | {"id": id_, "kind": memory.kind, "source": memory.source or memory.id}


def _guessed(query: str) -> str:
    return "ru" if any("а" <= char <= "я" or char == "ё" for char in query.casefold()) else "en"


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return json.loads(json.dumps(HEAD))  # type: ignore[no-any-return]
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FixtureError(str(path), [f"cannot be read ({error}); mend it, or name another file"]) from error
    if not isinstance(held, dict) or not isinstance(held.get("cases"), list):
        raise FixtureError(str(path), ["is no fixture: it has no list of cases; name another drafts file"])
    if held.get("isolation") != "per_case":
        raise FixtureError(
            str(path), ["its cases do not bring their own memories, as drafts do; name another drafts file"]
        )
    return held

"""Drafts: a miss that somebody saw becomes a case, to be completed by hand.

The drafts file is a fixture. A draft that names neither an expected memory nor a reason to stay silent is
not valid yet, and `recall fixture lint` says what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
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
}


def mark(
    path: Path,
    query: str,
    seen: Sequence[Memory],
    *,
    lock: Path,
    expected: str | None = None,
    silent_because: str = "",
    lang: str | None = None,
) -> str:
    """Append a case to a drafts file and return its id. The drafts that are there stay as they are.

    `seen`: the memories it brings along; they get ids of their own, and `source` says where each came from.
    `expected`: the id of the one that answers. The file is replaced in one step, and `lock` keeps two from
    doing so at once. Raises FixtureError when the file is no drafts file, or the draft could never be a case;
    nothing is written then.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        held = _read(path)
        taken = {case.get("id") for case in held["cases"] if isinstance(case, dict)}
        number = next(n for n in range(1, len(taken) + 2) if f"draft-{n:03}" not in taken)
        id_ = f"draft-{number:03}"
        named = {memory.id: f"{id_}-{n}" for n, memory in enumerate(seen, 1)}
        if expected is not None and expected not in named:
            raise FixtureError(id_, [f"{expected!r} is not among the memories it brings; pick one that is"])
        plain = (
            # Links and the place in a thread point at memories that do not come along.
            memory.model_dump(exclude={"links", "thread", "position"})
            | {"id": named[memory.id], "source": memory.source or memory.id}
            for memory in seen
        )
        try:
            case = Case(
                id=id_,
                query=query,
                lang=lang or ("ru" if any("а" <= char <= "ё" for char in query.casefold()) else "en"),
                expected=(named[expected],) if expected is not None else (),
                tags=("draft",),
                silent_because=silent_because.strip() if expected is None else None,
                memories=tuple(Memory.model_validate(memory) for memory in plain),
            )
        except ValidationError as error:
            raise FixtureError(id_, [found["msg"] for found in error.errors()]) from None
        held["cases"].append(case.model_dump(mode="json", exclude_defaults=True))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(held, indent=2, ensure_ascii=False) + "\n")
    return id_


def count(path: Path) -> int:
    """How many drafts a file holds; 0 where there is none. Raises FixtureError as `mark` does."""
    return len(_read(path)["cases"])


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return HEAD | {"cases": []}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FixtureError(str(path), [f"cannot be read ({error}); mend it, or name another file"]) from error
    wrong = ""
    if not isinstance(held, dict) or not isinstance(held.get("cases"), list):
        wrong = "is no fixture: it has no list of cases"
    elif held.get("isolation") != "per_case":
        wrong = "its cases do not bring their own memories, as drafts do"
    if wrong:
        raise FixtureError(str(path), [f"{wrong}; name another drafts file"])
    return dict(held)

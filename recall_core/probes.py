"""Probes: questions put to a wiki, and the pages or observations that answer them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from recall_core.records import Case, FixtureError, Id, Lang, Memory, MemoryId, Record, Text

StreamName = Literal["keyword", "entity", "graph", "vector", "observation"]


class Probe(Record):
    """One question to a wiki."""

    id: Id
    query: Annotated[Text, Field(min_length=1)]
    lang: Lang = "en"
    kind: Text = "any"
    """What makes it easy or hard: direct, paraphrase, entity, link, observation, superseded, nothing."""
    expected: tuple[MemoryId, ...]
    """Paths of pages below the vault, or ids of observations. Empty: nothing must be found."""
    streams: tuple[StreamName, ...] = ()
    """The streams that should be able to find it. A test holds the claim."""
    silent_because: Text | None = None
    """Why nothing answers it, where nothing must be found."""

    def as_case(self) -> Case:
        """The same as a case, so that it is scored like any other."""
        return Case(
            id=self.id,
            query=self.query,
            lang=self.lang,
            expected=self.expected,
            tags=(self.kind,),
            silent_because=None if self.expected else self.silent_because or "nothing must be found",
        )


class Probes(Record):
    """A probes file."""

    format: Literal[1]
    name: Id
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    probes: Annotated[tuple[Probe, ...], Field(min_length=1)]


def load(path: Path, memories: Iterable[Memory]) -> Probes:
    """Read a probes file and hold it against the memories it asks for.

    Raises FixtureError with every problem found, each naming the probe and the remedy.
    """
    try:
        raw = json.loads(path.read_bytes().decode("utf-8-sig"))
        probes = Probes.model_validate(raw)
    except OSError as error:
        raise FixtureError(str(path), [f"cannot be read ({error.strerror}); give a probes file"]) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise FixtureError(str(path), [f"{where}: not JSON ({error.msg}); mend it there"]) from None
    except UnicodeDecodeError as error:
        raise FixtureError(str(path), [f"byte {error.start} is not UTF-8; save it as UTF-8"]) from None
    except ValidationError as error:
        # Of a list in which every probe is broken pydantic also says that it is empty.
        found = [said for said in error.errors() if said["type"] != "too_short" or not said["input"]]
        told = [_told(raw, said["loc"], said["msg"]) for said in found]
        raise FixtureError(str(path), told) from None
    known = {memory.id for memory in memories}
    problems = [
        f"probe id {id_!r} is used {n} times; rename one"
        for id_, n in Counter(probe.id for probe in probes.probes).items()
        if n > 1
    ]
    problems += [
        f"probe {probe.id!r}: expected {id_!r} is no page and no observation; correct the path or the id"
        for probe in probes.probes
        for id_ in probe.expected
        if id_ not in known
    ]
    if problems:
        raise FixtureError(str(path), problems)
    return probes


def probes_hash(probes: Sequence[Probe]) -> str:
    """SHA-256 of the probes' content. White space and key order in the file do not change it."""
    told = [probe.model_dump(mode="json") for probe in probes]
    return hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _told(raw: object, loc: tuple[int | str, ...], message: str) -> str:
    named = ""
    if isinstance(raw, dict) and len(loc) > 1 and loc[0] == "probes" and isinstance(loc[1], int):
        probe = raw["probes"][loc[1]]
        named = f"probe {probe.get('id')!r}, " if isinstance(probe, dict) else f"probe number {loc[1] + 1}, "
    return f"{named}{'.'.join(map(str, loc))}: {message}; correct it"

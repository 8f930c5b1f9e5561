"""The records that cross module boundaries, and the errors. DESIGN words, one class each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class RecallError(Exception):
    """Anything we can explain to a person in one line. `exit_code` is what the command ends with."""

    exit_code = 3


class InputError(RecallError):
    """The input or the configuration is wrong: exit code 2."""

    exit_code = 2


class FixtureError(InputError):
    """A fixture that cannot be used; `problems` holds one line for each thing that is wrong."""

    def __init__(self, path: str, problems: list[str]) -> None:
        self.path = path
        self.problems = problems
        head = f"{path}: {len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__("\n  ".join([head, *problems]))


class ConfigError(InputError):
    """recall.toml, or a parameter, asks for something that does not exist."""


class UnknownEmbedderError(InputError):
    """No embedder of that name."""


class FingerprintError(InputError):
    """Vectors of one embedder were asked to meet vectors of another."""


class ModelError(RecallError):
    """A model file is missing, damaged or not what its registry entry says."""


class StoreError(RecallError):
    """The store cannot be opened or written."""


class FloorError(RecallError):
    """A floor in recall.toml was broken: exit code 1."""

    exit_code = 1


def _clean(text: str) -> str:
    if "\0" in text:
        raise ValueError(f"holds a NUL character at offset {text.index(chr(0))}; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"at offset {error.start}"
        raise ValueError(f"holds half of a surrogate pair {where}; write the whole character") from None
    return text


def _zoned(ts: str) -> str:
    try:
        zone = datetime.fromisoformat(ts).tzinfo
    except ValueError:
        raise ValueError("is not a time; write it as 2026-07-31T09:00:00+00:00") from None
    if zone is None:
        raise ValueError("has no time zone; write it as 2026-07-31T09:00:00+00:00")
    return ts


Text = Annotated[str, AfterValidator(_clean)]
Id = Annotated[str, Field(min_length=1, pattern=r"^\S+$"), AfterValidator(_clean)]
MemoryId = Annotated[str, Field(min_length=1, pattern=r"^\S([^\t\n\r]*\S)?$"), AfterValidator(_clean)]
"""May hold blanks inside, as the path of a page does."""
Lang = Annotated[str, Field(pattern=r"^[a-z]{2,3}$", description="ISO 639 code: ru, en, de")]


class Record(BaseModel):
    """Frozen, and refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Memory(Record):
    """One stored text."""

    id: MemoryId
    text: Text
    kind: Literal["note", "fact", "page", "observation"] = "note"
    ts: Annotated[str, AfterValidator(_zoned)] | None = None
    """When it was said: ISO 8601 with a zone."""
    lang: Lang | None = None
    title: Text | None = None
    aliases: tuple[Text, ...] = ()
    path: Text | None = None
    entities: tuple[Text, ...] = ()
    links: tuple[Text, ...] = ()
    speaker: Text | None = None
    source: Text | None = None
    thread: Text | None = None
    """The ordered conversation or session it belongs to."""
    position: int | None = None
    """Its place in the thread."""


class Case(Record):
    """One question, and the memories that answer it."""

    id: Id
    query: Annotated[Text, Field(min_length=1)]
    lang: Lang
    expected: tuple[MemoryId, ...]
    """Ids of the memories that answer it. Empty: the memory must stay silent."""
    hard: bool = False
    """The asker uses none of the memory's own content words."""
    tags: tuple[Text, ...] = ()
    memories: tuple[Memory, ...] = ()
    """What this case brings along."""
    group: Id | None = None
    """The group whose memories it shares, instead of bringing its own."""
    silent_because: Text | None = None
    """Required when `expected` is empty: why no memory answers this."""

    @property
    def answerable(self) -> bool:
        return bool(self.expected)


class Group(Record):
    """Memories that several cases share: one person's life, one project."""

    id: Id
    memories: tuple[Memory, ...]


class Fixture(Record):
    """A set of cases to measure a memory with."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, title="Recall fixture, format 1"
    )

    schema_ref: str | None = Field(default=None, alias="$schema", exclude=True)
    format: Literal[1]
    """The version of this format."""
    name: Id
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    """The version of this fixture's content: raise it when a case changes."""
    description: Text = ""
    isolation: Literal["per_case", "per_group", "shared"]
    """Which memories share a store: a case's own, its group's, or all. Filler is always added."""
    filler: tuple[Memory, ...] = ()
    """Memories in every store that answer nothing."""
    groups: tuple[Group, ...] = ()
    cases: Annotated[tuple[Case, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory in a ranking. `score` is larger for better; its scale is the stream's own."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits sorted by (-score, id), each memory once. Make one with `Ranking.of`."""

    stream: str
    hits: tuple[Hit, ...]

    @classmethod
    def of(cls, stream: str, scored: Iterable[tuple[str, float]]) -> Ranking:
        """Sort (id, score) pairs; several hits of one memory collapse to its best score.

        Raises ValueError on a score that is not a number: it would have no place in the order.
        """
        best: dict[str, float] = {}
        for id_, score in scored:
            if score != score:
                raise ValueError(f"{stream}: the score of {id_!r} is NaN; a ranking needs numbers")
            if id_ not in best or score > best[id_]:
                best[id_] = score
        by_id = sorted(best.items())
        ordered = sorted(by_id, key=itemgetter(1), reverse=True)  # which keeps equal scores in their order
        return cls(stream, tuple(Hit(id_, score) for id_, score in ordered))

    def top(self, k: int) -> Ranking:
        """The first k hits."""
        return Ranking(self.stream, self.hits[:k])

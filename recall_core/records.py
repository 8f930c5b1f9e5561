"""The records that cross module boundaries, and the errors. DESIGN words, one class each."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    model_validator,
)

SHOWN = 20
"""Problems of a fixture that its error spells out."""
LONGEST_ID = 500
"""Characters."""


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
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        super().__init__("\n  ".join([head, *problems[:SHOWN], *more]))


class ConfigError(InputError):
    """recall.toml, or a parameter, asks for something that does not exist."""


class UnknownEmbedderError(InputError):
    """No embedder of that name."""


class UnknownPathError(InputError):
    """No read path of that name."""


class FingerprintError(InputError):
    """Vectors of one embedder were asked to meet vectors of another, or a gate another path."""


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


def _legible(id_: str) -> str:
    """An id that a person can see, compare and type."""
    if len(id_) > LONGEST_ID:
        raise ValueError(f"is {len(id_)} characters long; give an id of {LONGEST_ID} or fewer")
    for offset, sign in enumerate(id_):
        if unicodedata.category(sign) in UNSEEN:
            raise ValueError(f"holds the invisible character U+{ord(sign):04X} at offset {offset}; remove it")
    return id_


def _visible(text: str) -> str:
    if all(unicodedata.category(sign) in UNSEEN | {"Zs"} or sign.isspace() for sign in text):
        raise ValueError("holds nothing that can be seen; write the question")
    return text


def _zoned(ts: str) -> str:
    try:
        zone = datetime.fromisoformat(ts).tzinfo
    except ValueError:
        raise ValueError("is not a time; write it as 2026-07-31T09:00:00+00:00") from None
    if zone is None:
        raise ValueError("has no time zone; write it as 2026-07-31T09:00:00+00:00")
    return ts


Stream = Literal["keyword", "entity", "graph", "vector"]
Fusion = Literal["rrf", "minmax", "dbsf"]
UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode categories of characters that take no room: controls, formats, line and paragraph separators."""
Text = Annotated[str, AfterValidator(_clean)]
Id = Annotated[str, Field(min_length=1, pattern=r"^\S+$"), AfterValidator(_clean), AfterValidator(_legible)]
MemoryId = Annotated[
    str,
    Field(min_length=1, pattern=r"^\S([^\t\n\r]*\S)?$"),
    AfterValidator(_clean),
    AfterValidator(_legible),
]
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

    @model_validator(mode="after")
    def _says_something(self) -> Memory:
        if not any(sign.isprintable() and not sign.isspace() for sign in f"{self.title or ''}{self.text}"):
            raise ValueError("has neither a title nor a text that can be seen; write one, or remove it")
        return self


class Case(Record):
    """One question, and the memories that answer it."""

    id: Id
    query: Annotated[Text, Field(min_length=1), AfterValidator(_visible)]
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


class Source(Record):
    """Where a fixture's memories lie, when not in the fixture itself. Paths start at the fixture's folder."""

    vault: str
    """A folder of Markdown pages."""
    observations: str | None = None
    """JSONL of raw observations: `id`, `text`, `ts`, `source`."""


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
    memories: Annotated[
        Annotated[tuple[Memory, ...], Tag("<list>")] | Annotated[Source, Tag("<source>")],
        Discriminator(lambda given: "<source>" if isinstance(given, (dict, Source)) else "<list>"),
    ] = ()
    """One corpus for all cases, with isolation `shared`: a list, or where it lies."""
    filler: tuple[Memory, ...] = ()
    """Memories in every store that answer nothing."""
    groups: tuple[Group, ...] = ()
    cases: Annotated[tuple[Case, ...], Field(min_length=1)]

    _odd: tuple[str, ...] = PrivateAttr(())

    @property
    def corpus(self) -> tuple[Memory, ...]:
        """`memories`, of a fixture that `fixtures.load` gave."""
        if isinstance(self.memories, Source):
            raise ValueError(f"the memories of {self.name} are not read yet; load it with fixtures.load")
        return self.memories


@dataclass(frozen=True, slots=True)
class Part:
    """What one stream gave a hit: its rank from 1, its own score, and what that added to the hit's score."""

    stream: str
    rank: int
    score: float
    contribution: float


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory in a ranking. `score` is larger for better; its scale is the path's or the stream's own.

    `parts`: what each stream gave it, by name. `evidence` decides between equal scores, larger for better:
    hits with equal scores and equal evidence tie.
    """

    id: str
    score: float
    parts: tuple[Part, ...] = ()
    evidence: float = 0.0

    @property
    def worth(self) -> tuple[float, float]:
        """What hits are compared by."""
        return self.score, self.evidence

    def own(self, stream: str) -> float:
        """The score that a stream gave it; -inf where the stream did not find it."""
        return next((part.score for part in self.parts if part.stream == stream), -math.inf)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits, best first, each memory once. `stream`: the stream or the path they come from.

    Make one with `Ranking.of` or `Ranking.ordered`. Ties stand in the order of their ids.
    """

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
        return cls.ordered(stream, (Hit(id_, score) for id_, score in best.items()))

    @classmethod
    def ordered(cls, stream: str, hits: Iterable[Hit]) -> Ranking:
        """Sort hits, each of another memory."""
        by_id = sorted(hits, key=attrgetter("id"))
        return cls(stream, tuple(sorted(by_id, key=attrgetter("score", "evidence"), reverse=True)))

    def top(self, k: int | None) -> Ranking:
        """The first k hits; all, with None."""
        return Ranking(self.stream, self.hits[:k])

    def ranks(self) -> list[int]:
        """The rank of each hit, from 1; hits that tie have the last rank of them all (pessimistic)."""
        found: list[int] = []
        for place in range(len(self.hits), 0, -1):
            ties = found and self.hits[place - 1].worth == self.hits[place].worth
            found.append(found[-1] if ties else place)
        return found[::-1]

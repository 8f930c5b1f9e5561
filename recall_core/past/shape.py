"""What a line of the history must hold to be read: a damaged one is skipped whole, before it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

Count = Annotated[int, Field(ge=0, le=10**9, strict=True)]
Word = Annotated[str, Field(strict=True)]


def _no_more_hits_than_cases(pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] > pair[1]:
        raise ValueError(f"{pair[0]} hits of {pair[1]} cases")
    return pair


def _is_day(day: str) -> str:
    date.fromisoformat(day)
    return day


def _is_moment(moment: str) -> str:
    datetime.fromisoformat(moment)
    return moment


Share = Annotated[tuple[Count, Count], AfterValidator(_no_more_hits_than_cases)]
Counts = dict[Word, dict[Word, Share]]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="allow")


class _Run(_Shape):
    name: Word
    kind: Word
    fixture: Word
    fixture_hash: Word
    fingerprint: Word
    min_score: Annotated[FiniteFloat, Field(strict=True)]
    delta: Annotated[FiniteFloat, Field(strict=True, ge=0)] | None
    top_k: Annotated[int, Field(ge=1, strict=True)]
    counts: Counts


class _Line(_Shape):
    started: Annotated[Word, AfterValidator(_is_moment)]
    date: Annotated[Word, Field(pattern=r"^\d{4}-\d\d-\d\d$"), AfterValidator(_is_day)]
    versions: dict[Word, Word]
    platform: Word
    threads: Count
    runs: list[_Run]
    broken: list[Word]
    missing: list[Word]
    only: list[Word] = []
    seconds: dict[Word, Annotated[FiniteFloat, Field(ge=0)]] = {}


def check(line: Mapping[str, Any]) -> None:
    """Raises ValueError on a line that lacks something, or holds what it cannot be."""
    _Line.model_validate(line)

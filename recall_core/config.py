"""recall.toml: what runs at night, with which gate, and what must hold."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from recall_core import wording
from recall_core.records import ConfigError, Fusion, Record, Stream

NAME = "recall.toml"


class GateConfig(Record):
    """The gate a memory ships with. `delta` None: the absolute gate alone."""

    min_score: float = 0.55
    delta: Annotated[float, Field(ge=0)] | None = 0.008


class SweepConfig(Record):
    """Which settings the sweeps try."""

    min_scores: tuple[float, ...] = tuple(round(0.05 * step, 2) for step in range(20))
    deltas: tuple[Annotated[float, Field(ge=0)], ...] = (
        *(0.0, 0.002, 0.005, 0.008, 0.01, 0.012, 0.015),
        *(0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1),
    )


class Floor(Record):
    """A share that must hold: at least `min`, or at most `max`."""

    path: str
    metric: str
    slice: str = "all"
    min: Annotated[float, Field(ge=0, le=1)] | None = None
    max: Annotated[float, Field(ge=0, le=1)] | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Floor:
        if (self.min is None) == (self.max is None):
            raise ValueError("give either min or max")
        return self


def _some(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names) or not names:
        raise ValueError("name at least one path, and each once")
    return names


class PathConfig(Record):
    """How a built-in path searches: `[paths.NAME]`."""

    streams: Annotated[tuple[Stream, ...], Field(min_length=1)] = ("keyword", "entity", "graph", "vector")
    embedder: str = "hash"
    """Of the stream `vector`."""
    fusion: Fusion = "rrf"
    k: Annotated[float, Field(ge=0)] = 1
    """Of reciprocal rank fusion."""
    weights: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Of a stream that is fused, 1 where it is not named."""
    decay: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """What a link of the stream `graph` passes on of its page's worth."""
    observations: Literal["searched", "stream", "fallback"] = "searched"
    """Raw observations are searched like any memory; or by words alone, as a stream of their own; or only
    when nothing else was found."""
    centre: bool = True
    """Whether the mean of the store's vectors is taken from each before they are compared."""

    near: Annotated[float, Field(ge=0)] = 0.5
    """Of a memory in a thread: what a word of its neighbours counts, where one of its own counts 1."""
    date: Annotated[float, Field(ge=0)] = 0.5
    """The same of its date, in words."""
    speaker: Annotated[float, Field(ge=0)] = 0.5
    """What is added to the score of a memory whose speaker the question names, as a share of it."""
    window: bool = True
    """Whether a memory in a thread is compared between its neighbours too, and the mean of both counts."""

    rerank: str = ""
    """A model that reads the question with each of the first hits and orders them anew; empty: none."""
    rerank_top: Annotated[int, Field(ge=1)] = 10
    """How many hits it reads."""

    @model_validator(mode="after")
    def _weighs_what_is_fused(self) -> PathConfig:
        known = {"keyword", "entity", "vector", "observation"}
        if odd := sorted({*self.weights} - known):
            raise ValueError(f"weighs {odd[0]!r}; known: {', '.join(sorted(known))} (graph has a decay)")
        return self


class PagesConfig(Record):
    """The fixture on which paths are compared at night, stream by stream."""

    fixture: str
    paths: Annotated[tuple[str, ...], AfterValidator(_some)] = ("keyword", "hybrid")
    """The first is what the others must not fall below, the last is taken apart."""
    top_k: Annotated[int, Field(ge=1)] = 5
    floor: Annotated[float, Field(ge=0, le=1)] = 0.70
    """Least recall@k of each path, over the cases that name one of its streams or no stream at all."""
    below_first: bool = False
    """Whether a path may find less than the first."""


class ChoiceConfig(Record):
    """The study of gates: on which cases, by which path, and what is to be promised."""

    fixture: str
    path: str = "hash"
    other: str = ""
    """Another path, to show what a borrowed gate does."""
    signal: str = "margin"
    """What the gate looks at, named before its numbers are seen."""
    max_false: Annotated[float, Field(gt=0, lt=1)] = 0.05
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.9
    sizes: tuple[Annotated[int, Field(ge=1)], ...] = (15, 60, 250, 1000)


class NightConfig(Record):
    """How a night is run."""

    at_once: Annotated[int, Field(ge=1)] = 2
    """Notebooks that run side by side. The cores are shared out among them."""
    time_limit: Annotated[float, Field(gt=0)] = 900
    """Seconds after which a notebook is stopped."""
    keep: Annotated[int, Field(ge=1)] | None = None
    """How many reports are kept; the history and the baselines always are. Left out: all."""
    baseline: Annotated[str, Field(pattern=r"^\w[\w.-]*$")] = "default"
    """The baseline a night is compared with, if there is one of that name."""


class Config(Record):
    """recall.toml, read."""

    fixture: str = "data/notes/recall_v1.json"
    measure: Annotated[tuple[str, ...], AfterValidator(_some)] = ("hash",)
    """The paths that are asked the fixture: embedders, `keyword`, `hybrid`, or names below `paths`."""
    paths: dict[str, PathConfig] = Field(default_factory=dict)
    top_k: Annotated[int, Field(ge=1)] = 3
    gate: GateConfig = GateConfig()
    gates: dict[str, GateConfig] = Field(default_factory=dict)
    """A gate for one path instead: scores of two paths are on two scales."""
    sweep: SweepConfig | None = None
    """Left out: settings over the range of what was measured."""
    floors: tuple[Floor, ...] = ()
    pages: PagesConfig | None = None
    choice: tuple[ChoiceConfig, ...] = ()
    night: NightConfig = NightConfig()


def find_root(start: Path | None = None) -> Path:
    """The project folder: the nearest one at or above `start` (default: where we are) with a recall.toml.

    Raises ConfigError when there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / NAME).is_file():
            return folder
    raise ConfigError(f"no {NAME} in {here} or above it; run this from inside the project folder")


def load(path: Path) -> Config:
    """Read recall.toml. Raises ConfigError that names the file and every problem in it."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not TOML ({error}); mend it there") from error
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        said = wording.problems(error, raw, {})
        raise ConfigError("\n  ".join([f"{path}: {len(said)} problem(s)", *said])) from None

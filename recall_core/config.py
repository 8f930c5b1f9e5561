"""recall.toml: what runs at night, with which gate, and what must hold."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from recall_core import wording
from recall_core.records import ConfigError, Record

NAME = "recall.toml"


class GateConfig(Record):
    """The gate a memory ships with. `delta` left out: the absolute gate alone."""

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

    embedder: str
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
        raise ValueError("name at least one embedder, and each once")
    return names


class PagesConfig(Record):
    """The wiki that is probed at night, and how it is searched."""

    vault: str
    """Folder of Markdown pages, from the project folder."""
    probes: str
    observations: str | None = None
    """JSONL of raw observations."""
    embedder: str = "hash"
    method: Literal["rrf", "minmax"] = "rrf"
    k: Annotated[float, Field(ge=0)] = 60
    weights: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    floor: Annotated[float, Field(ge=0, le=1)] = 0.70
    """Least recall@5 of each mode, over the probes that name one of its streams."""
    hybrid_below_keyword: bool = False
    """Whether hybrid search may find less than keyword search alone."""


class ChoiceConfig(Record):
    """The study of gates: on which cases, with which embedder, and what is to be promised."""

    fixture: str
    embedder: str = "hash"
    other: str = ""
    """Another embedder, to show what a borrowed gate does."""
    max_false: Annotated[float, Field(gt=0, lt=1)] = 0.05
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.9
    sizes: tuple[Annotated[int, Field(ge=1)], ...] = (15, 60, 250, 1000, 4000)


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
    embedders: Annotated[tuple[str, ...], AfterValidator(_some)] = ("hash",)
    store: Literal["memory", "sqlite"] = "sqlite"
    top_k: Annotated[int, Field(ge=1)] = 3
    gate: GateConfig = GateConfig()
    gates: dict[str, GateConfig] = Field(default_factory=dict)
    """A gate for one embedder instead: scores of two embedders are on two scales."""
    sweep: SweepConfig = SweepConfig()
    floors: tuple[Floor, ...] = ()
    pages: PagesConfig | None = None
    choice: ChoiceConfig | None = None
    night: NightConfig = NightConfig()

    def gate_for(self, embedder: str) -> GateConfig:
        """The gate this embedder ships with."""
        return self.gates.get(embedder, self.gate)


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

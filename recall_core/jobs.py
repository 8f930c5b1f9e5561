"""Jobs: which notebooks a night runs, with which parameters, and what each leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from recall_core import config

NOTES = Path("notebooks") / "10_note_recall.ipynb"
EMBEDDERS = Path("notebooks") / "20_compare_embedders.ipynb"
FIGURES: Mapping[Path, Mapping[str, str]] = {
    NOTES: {
        "scores": "Histogram of the best score of each case, by outcome",
        "margins": "Histogram of the margin of each case, by outcome",
        "frontier": "False recalls against answered questions, a point for each delta",
    },
    EMBEDDERS: {
        "scores": "The best score of every case, a strip for each embedder and outcome, on one axis",
        "margins": "The margin of every case, a strip for each embedder and outcome, on one axis",
    },
}
"""What each notebook draws, and the alternative text of it."""


@dataclass(frozen=True)
class Job:
    """One notebook to run. `section` `notes` leaves a run, any other leaves tables of that name."""

    name: str
    notebook: Path
    section: Literal["notes", "embedders"]
    parameters: Mapping[str, Any]

    @property
    def figures(self) -> list[tuple[str, str]]:
        """(file below the report folder, alternative text)."""
        return [
            (f"figures/{self.name}-{figure}.png", f"{alt} ({self.name})")
            for figure, alt in FIGURES[self.notebook].items()
        ]


def planned(settings: config.Config) -> list[Job]:
    """The jobs of a night, in the order of the report."""
    jobs = [_notes(settings, name) for name in settings.embedders]
    compared = [name for name in settings.embedders if name != "hash"]
    if compared:
        jobs.append(_embedders(settings, compared))
    return jobs


def _notes(settings: config.Config, name: str) -> Job:
    gate = settings.gate_for(name)
    parameters = {"embedder": name, "min_score": gate.min_score, "delta": gate.delta}
    return Job(name, NOTES, "notes", _common(settings) | parameters)


def _embedders(settings: config.Config, compared: Sequence[str]) -> Job:
    return Job("embedders", EMBEDDERS, "embedders", _common(settings) | {"embedders": list(compared)})


def _common(settings: config.Config) -> dict[str, Any]:
    return {"fixture": settings.fixture, "store": settings.store, "top_k": settings.top_k}

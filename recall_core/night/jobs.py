"""Jobs: which notebooks a night runs, with which parameters, and what each leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from recall_core import catalogue, config, fixtures, models
from recall_core.records import Fixture, InputError, RecallError

NOTES = Path("notebooks") / "10_note_recall.ipynb"
EMBEDDERS = Path("notebooks") / "20_compare_embedders.ipynb"
PAGES = Path("notebooks") / "30_page_recall.ipynb"
GATES = Path("notebooks") / "40_gate_frontier.ipynb"
FIGURES: Mapping[Path, Mapping[str, str]] = {
    NOTES: {
        "scores": "Histogram of the best score of each case, by outcome",
        "margins": "Histogram of the margin of each case, by outcome",
        "frontier": "False recalls against answered questions, a point for each delta",
        "funnel": "Where cases are lost: found, right first, answered; kept quiet, spoken",
    },
    EMBEDDERS: {
        "scores": "The best score of every case, a strip for each embedder and outcome, on one axis",
        "margins": "The margin of every case, a strip for each embedder and outcome, on one axis",
    },
    PAGES: {
        "kinds": "Cases found within k by each path, for each kind of case",
        "parts": "Recall at k of the path with one thing changed at a time, with its interval",
    },
    GATES: {
        "grid": "Answered and false recalls of every min_score and delta, and their frontier with its band",
        "signals": "The frontier of every signal: answered questions against false recalls",
        "calibration": "The combination's stated chance of being right against what came true",
        "drift": "Recall at one, answered and false recall in stores of growing size",
    },
}
"""What each notebook draws, and the alternative text of it."""


@dataclass(frozen=True)
class Job:
    """One notebook to run. `section` `notes` leaves a run, any other leaves tables of that name."""

    name: str
    notebook: Path
    section: Literal["notes", "embedders", "pages", "gates"]
    parameters: Mapping[str, Any]

    def needs(self, root: Path, settings: config.Config) -> tuple[str, ...]:
        """The models of the paths that it asks."""
        given = self.parameters
        named = (*given.get("embedders", ()), *given.get("paths", ()), given.get("path"), given.get("other"))
        used = [one for name in named if name for one in catalogue.models_of(name, root, settings)]
        return tuple(dict.fromkeys(used))

    @property
    def figures(self) -> list[tuple[str, str]]:
        """(file below the report folder, alternative text)."""
        return [
            (f"figures/{self.name}-{figure}.png", f"{alt} ({self.name})")
            for figure, alt in FIGURES[self.notebook].items()
        ]


def chosen(settings: config.Config, root: Path, only: Sequence[str]) -> list[Job]:
    """Those of the planned jobs that were asked for by name; all, if none was.

    Raises InputError for a name that no job has.
    """
    every = planned(settings, root)
    unknown = sorted(set(only) - {job.name for job in every})
    if unknown:
        known = ", ".join(job.name for job in every)
        raise InputError(f"no job is called {', '.join(unknown)}; there are {known}")
    return [job for job in every if not only or job.name in only]


def planned(settings: config.Config, root: Path) -> list[Job]:
    """The jobs of a night, in the order of the report."""
    common = {"fixture": settings.fixture, "top_k": settings.top_k}
    jobs = []
    for name in settings.measure:
        gate = catalogue.gate_of(name, root, settings)
        given = {"path": name, "min_score": gate.min_score, "delta": gate.delta}
        jobs.append(Job(name, NOTES, "notes", common | given))
    known = catalogue.names(root)
    if compared := [name for name in settings.measure if name in known and name != "hash"]:
        jobs.append(Job("embedders", EMBEDDERS, "embedders", common | {"embedders": compared}))
    if pages := settings.pages:
        parameters = {"fixture": pages.fixture, "paths": list(pages.paths), "top_k": pages.top_k}
        jobs.append(Job("pages", PAGES, "pages", parameters))
    for at, choice in enumerate(settings.choice, 1):
        gate = catalogue.gate_of(choice.path, root, settings)
        given = {"min_score": gate.min_score, "delta": gate.delta or 0.0, "sizes": list(choice.sizes)}
        jobs.append(Job("gates" if at == 1 else f"gates-{at}", GATES, "gates", choice.model_dump() | given))
    return jobs


def lines(root: Path, settings: config.Config, fixture: Fixture, planned: Sequence[Job]) -> list[str]:
    """What would run, on what, with which models: a line each for the fixture, every model and every job."""
    said = [
        f"fixture   {settings.fixture}: {fixture.name} {fixture.version}, {len(fixture.cases)} cases, "
        f"SHA-256 {fixtures.fixture_hash(fixture)}"
    ]
    registry = models.load_registry(root / catalogue.REGISTRY)
    for name in needed(root, settings, planned):
        checks = models.verify(registry[name], root / "models") if name != "hash" else []
        states = {check.state for check in checks}
        try:
            found = f"here, fingerprint {catalogue.open_embedder(name, root).fingerprint}"
        except RecallError as error:
            found = str(error)
        if states - {"ok"}:
            found = "damaged" if "wrong" in states else "would be fetched"
        said.append(f"model     {name}: {found}")
    for job in planned:
        given = ", ".join(f"{name}={value!r}" for name, value in job.parameters.items())
        said.append(f"job       {job.name}: {job.notebook.as_posix()} ({given})")
    night = settings.night
    said.append(f"at once   {night.at_once}, each at most {night.time_limit:g} seconds")
    return said


def needed(root: Path, settings: config.Config, planned: Iterable[Job]) -> list[str]:
    """The embedders of all these jobs, each once, in their order."""
    return list(dict.fromkeys(name for job in planned for name in job.needs(root, settings)))

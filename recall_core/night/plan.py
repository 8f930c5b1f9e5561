"""The plan of a night: what would run, on what, with which models, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from recall_core import catalogue, config, fixtures, models
from recall_core.night import jobs
from recall_core.records import Fixture, RecallError


def lines(root: Path, settings: config.Config, fixture: Fixture, planned: Sequence[jobs.Job]) -> list[str]:
    """One line each for the fixture, every model and every job."""
    said = [
        f"fixture   {settings.fixture}: {fixture.name} {fixture.version}, {len(fixture.cases)} cases, "
        f"SHA-256 {fixtures.fixture_hash(fixture)}"
    ]
    said += [f"model     {line}" for line in _models(root, needed(root, settings, planned))]
    for job in planned:
        given = ", ".join(f"{name}={value!r}" for name, value in job.parameters.items())
        said.append(f"job       {job.name}: {job.notebook.as_posix()} ({given})")
    night = settings.night
    said.append(f"at once   {night.at_once}, each at most {night.time_limit:g} seconds")
    return said


def needed(root: Path, settings: config.Config, planned: Iterable[jobs.Job]) -> list[str]:
    """The embedders of all these jobs, each once, in their order."""
    return list(dict.fromkeys(name for job in planned for name in job.needs(root, settings)))


def _models(root: Path, names: Sequence[str]) -> list[str]:
    registry = models.load_registry(root / catalogue.REGISTRY)
    said = []
    for name in names:
        checks = models.verify(registry[name], root / "models") if name != "hash" else []
        states = {check.state for check in checks}
        if states - {"ok"}:
            said.append(f"{name}: {'damaged' if 'wrong' in states else 'would be fetched'}")
            continue
        try:
            said.append(f"{name}: here, fingerprint {catalogue.open_embedder(name, root).fingerprint}")
        except RecallError as error:
            said.append(f"{name}: {error}")
    return said

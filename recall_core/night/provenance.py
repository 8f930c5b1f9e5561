"""Provenance: what a report was made from, so that it can be made again."""

from __future__ import annotations

import importlib.metadata
import platform
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recall_core import config, fixtures, health
from recall_core.records import Fixture
from recall_core.runs import Result

STORES = {
    "per_case": "a fresh one for each case, with the notes it brings",
    "per_group": "one for each group of cases, with the notes of the group and of the case",
    "shared": "one for all cases",
}
PACKAGES = ("numpy", "onnxruntime", "pandas", "papermill", "recall-workbench", "scipy", "tokenizers")


def manifest(
    root: Path, settings: config.Config, fixture: Fixture, results: Mapping[str, Result], started: datetime
) -> dict[str, Any]:
    """Everything that went into a night, as JSON holds it."""
    return {
        "started": started.isoformat(),
        "finished": datetime.now(UTC).isoformat(),
        "commit": commit_of(root),
        "fixture": {
            "path": settings.fixture,
            "name": fixture.name,
            "version": fixture.version,
            "sha256": fixtures.fixture_hash(fixture),
        },
        "paths": [
            {"name": name, "kind": result.kind, "fingerprint": result.fingerprint}
            for name, result in results.items()
        ],
        "settings": settings.model_dump(mode="json"),
        "versions": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "platform": health.machine(),
    }


def commit_of(root: Path) -> str:
    """The commit of the code, and whether it was changed since. `unknown` outside a git checkout."""
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        status = [*git, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!reports"]
        changed = subprocess.run(status, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + (" with uncommitted changes" if changed.stdout.strip() else "")


def facts(settings: config.Config, fixture: Fixture, commit: str) -> list[tuple[str, str]]:
    """What was measured, as the first table of the report says it."""
    langs = Counter(case.lang for case in fixture.cases)
    answerable = sum(case.answerable for case in fixture.cases)
    hard = sum(case.hard for case in fixture.cases)
    said = [
        ("fixture", f"{fixture.name} {fixture.version}, SHA-256 {fixtures.fixture_hash(fixture)[:16]}"),
        (
            "cases",
            f"{len(fixture.cases)}: {answerable} answerable, {len(fixture.cases) - answerable} that must "
            f"stay silent; {hard} hard (none of the note's own words); "
            + ", ".join(f"{n} {lang}" for lang, n in langs.most_common()),
        ),
        ("stores", STORES[fixture.isolation]),
    ]
    if fixture.filler:
        said.append(("filler", f"{len(fixture.filler)} notes that answer nothing, in every store"))
    said.append(("looked at", f"the first {settings.top_k} hits"))
    for name, path in settings.paths.items():
        given = path.model_dump(exclude_defaults=True, mode="json") | {"streams": ", ".join(path.streams)}
        said.append((f"path {name}", "; ".join(f"{option} {value}" for option, value in given.items())))
    gates = {"gate of an embedder": settings.gate}
    for name, gate in (gates | {f"gate, {name}": gate for name, gate in settings.gates.items()}).items():
        beats = "" if gate.delta is None else f" and beats the runner-up by more than {gate.delta:g}"
        said.append((name, f"opens when the best score is at least {gate.min_score:g}{beats}"))
    return [*said, ("commit", commit)]


def rows(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The last table of the report."""
    return [
        ("fixture", f"{manifest['fixture']['path']}, SHA-256 {manifest['fixture']['sha256']}"),
        *[(f"fingerprint, {path['name']}", path["fingerprint"]) for path in manifest["paths"]],
        ("versions", ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())),
        ("platform", manifest["platform"]),
        ("started, finished", f"{manifest['started']}, {manifest['finished']}"),
    ]

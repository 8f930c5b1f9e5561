"""Baselines: a night set aside under a name, to compare later nights with. Pruning leaves them alone."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recall_core.night import publishing
from recall_core.past import history
from recall_core.records import InputError

FOLDER = "baselines"


def set_(reports: Path, name: str, source: Path) -> None:
    """Copy what later nights are compared with: rows, metrics and manifest of one report.

    A baseline of that name is replaced, at once. Needs the lock. Raises InputError for a name that is no
    file name, RecallError for a report that cannot be compared.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise InputError(f"{name!r} cannot name a baseline; use letters, digits, '.', '-' and '_'")
    history.published(source)
    target = reports / FOLDER / name
    target.parent.mkdir(parents=True, exist_ok=True)
    publishing.recover(target.parent)
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".new", dir=target.parent))
    try:
        for part in ("manifest.json", "metrics.json"):
            shutil.copy2(source / part, work)
        shutil.copytree(source / "runs", work / "runs")
        work.chmod(source.stat().st_mode)
        publishing.replace(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def names(reports: Path) -> list[str]:
    """The baselines there are."""
    return sorted(path.name for path in (reports / FOLDER).glob("[!.]*/"))


def read(reports: Path, name: str) -> tuple[str, Path, Mapping[str, Any]] | None:
    """Name, folder and line of a baseline; None when there is none of that name. Needs the lock.

    Raises RecallError when what is there cannot be read.
    """
    publishing.recover(reports / FOLDER)
    folder = reports / FOLDER / name
    return (name, folder, history.published(folder)) if name in names(reports) else None

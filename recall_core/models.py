"""The model registry: what a model is made of, and its files: pulled, verified, located."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import tomlkit
from filelock import FileLock
from pydantic import Field, PositiveInt, ValidationError, model_validator

from recall_core import wording
from recall_core.modelfiles import building
from recall_core.modelfiles.building import Build
from recall_core.modelfiles.downloads import ModelFile, Pin, PlainName, Sha256
from recall_core.modelfiles.downloads import sha256_of as sha256_of  # part of this module's own interface
from recall_core.records import ConfigError, ModelError, Record, UnknownEmbedderError
from recall_core.writing import write_whole

LOCK = "models.lock"
"""Beside the registry: hash and size of each file that only the hub has, from its first download on."""
LOCK_HEAD = """\
# What files of the model hub were when `recall models pull` first had them; they are held to it since.
# To accept another file, remove its table and pull again. Commit this file.
"""
WANTED = {
    "model": "a [[model]] table",
    "name": "letters, digits, dots, dashes",
    "licence": "an SPDX identifier",
    "sha256": "64 lower-case hex digits",
    "wheel": "name==version",
    "hub": "owner/repository",
    "revision": "the 40 hex digits of a commit",
}
"""What to write behind a key of the registry."""


State = Literal["ok", "missing", "wrong", "unrecorded"]


class ModelEntry(Record):
    """One model: everything that decides the vectors it makes."""

    name: PlainName
    title: str
    licence: Annotated[str, Field(min_length=1)]
    """SPDX identifier."""
    dim: PositiveInt
    task: Literal["embed", "rerank"] = "embed"
    """A text to a row, or a question and a text to one number."""
    pooling: Literal["mean", "cls", "none"]
    """How the token vectors become one; none: the model does it itself."""
    query_prefix: str
    passage_prefix: str
    max_tokens: PositiveInt
    """Longer texts are cut here, special tokens included."""
    batch_invariant: bool
    """Whether a text's vector stays the same, whatever else is in its batch."""
    output: str | None = None
    """The ONNX output to read; None: the first."""
    files: Annotated[tuple[ModelFile, ...], Field(min_length=1)]
    build: Build | None = None
    """How the files are made here. None: they are fetched."""

    @model_validator(mode="after")
    def _files_come_from_somewhere(self) -> ModelEntry:
        names = [file.name for file in self.files]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"{self.name}: two files are named {twice[0]!r}; rename one")
        for file in self.files:
            if self.build and (file.sources or not file.pin):
                raise ValueError(
                    f"{self.name}: {file.name!r} is built: it needs sha256 and bytes, and no source"
                )
            if not self.build and not file.sources:
                raise ValueError(f"{self.name}: {file.name!r} has neither a source nor a build")
        return self


class _Registry(Record):
    model: Annotated[tuple[ModelEntry, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_each_once(self) -> _Registry:
        names = [entry.name for entry in self.model]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two models are named {twice[0]!r}; rename one")
        return self


class _Recorded(Record):
    """What a hub file was at its first download, and the address it came from."""

    source: str
    sha256: Sha256
    bytes: PositiveInt


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What `verify` saw of one file. `expected` None: no download recorded what it must be; `found` None: it
    is missing."""

    name: str
    state: State
    expected: Pin | None
    found: Pin | None
    remedy: str

    def __str__(self) -> str:
        found = f", found {self.found}" if self.found else ""
        return f"{self.name} is {self.state}{found}, expected {self.expected or LOCK}; {self.remedy}"


def load_registry(path: Path) -> dict[str, ModelEntry]:
    """Name -> entry, in the file's order. Raises ConfigError with every problem at once."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        return {entry.name: entry for entry in _Registry.model_validate(raw).model}
    except ValidationError as error:
        said = wording.problems(error, raw, WANTED)
        head = f"{path}: {len(said)} problem(s); correct them as models/README.md shows"
        raise ConfigError("\n  ".join([head, *said])) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a model registry: {error}; correct it") from error


def entry_named(registry: Mapping[str, ModelEntry], name: str) -> ModelEntry:
    """The entry, or UnknownEmbedderError with the names there are."""
    if name not in registry:
        raise UnknownEmbedderError(f"no model {name!r} in the registry; it knows: {', '.join(registry)}")
    return registry[name]


def hashes(entry: ModelEntry, models_dir: Path) -> dict[str, str]:
    """File name -> SHA-256, pinned in the registry or recorded, of a model that is here."""
    return {name: pin.sha256 for name, pin in _pins(entry, models_dir).items() if pin}


def _pins(entry: ModelEntry, models_dir: Path) -> dict[str, Pin | None]:
    """What each file must be; None while nobody knows. A record counts only for the source it is of."""
    recorded = {} if all(file.pin for file in entry.files) else _recorded(models_dir)
    pins = {file.name: file.pin for file in entry.files}
    for file in entry.files:
        found = recorded.get(f"{entry.name}/{file.name}")
        if found and not file.pin and found.source in [source.address for source in file.sources]:
            pins[file.name] = Pin(found.sha256, found.bytes)
    return pins


def _recorded(models_dir: Path) -> dict[str, _Recorded]:
    path = models_dir / LOCK
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {key: _Recorded.model_validate(row) for key, row in rows.items()}
    except (OSError, ValueError) as error:  # not text, no TOML, or other keys
        why = f"cannot be read ({str(error).splitlines()[0]})"
        raise ModelError(f"{path}: {why}; restore it, or remove it and pull again") from error


def verify(entry: ModelEntry, models_dir: Path) -> list[FileCheck]:
    """Hold every file of a model against its hash. An unchanged file is hashed once a process.

    Raises ModelError when a file cannot be read.
    """
    checks, pins = [], _pins(entry, models_dir)
    for file in entry.files:
        path, pin = models_dir / entry.name / file.name, pins[file.name]
        try:
            stat = path.stat() if path.exists() else None
            found = stat and Pin(_sha256_as_of(path.absolute(), stat.st_size, stat.st_mtime_ns), stat.st_size)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}; check its permissions") from error
        remedy = f"run `recall models pull {entry.name}`"
        if found and pin and not file.pin:
            remedy += f"; if it was replaced on purpose, {_accept(entry, file)} first"
        state: State = "missing" if not found else "unrecorded" if not pin else "wrong"
        checks.append(FileCheck(file.name, "ok" if found and found == pin else state, pin, found, remedy))
    return checks


@lru_cache(maxsize=256)
def _sha256_as_of(path: Path, size: int, mtime_ns: int) -> str:  # noqa: ARG001 - part of the key
    return sha256_of(path)


def locate(entry: ModelEntry, models_dir: Path) -> Path:
    """The model's folder, all files right; else ModelError."""
    for check in verify(entry, models_dir):
        if check.state != "ok":
            raise ModelError(f"{models_dir / entry.name}/{check}")
    return models_dir / entry.name


def _accept(entry: ModelEntry, file: ModelFile) -> str:
    return f'remove ["{entry.name}/{file.name}"] from {LOCK}'


def pull(entry: ModelEntry, models_dir: Path, *, quiet: bool | None = None) -> Path:
    """Fetch or build what is missing or wrong of a model, and return its folder. Offline when nothing is.

    Progress shows on stderr if that is a terminal, unless `quiet`. Raises ModelError with the answer
    of every source of the first file that none could give.
    """
    folder, downloads = models_dir / entry.name, models_dir / ".downloads"
    aside, progress = downloads / entry.name, not quiet and sys.stderr.isatty()
    if all(check.state == "ok" for check in verify(entry, models_dir)):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # One pull at a time in a models folder: two would write into one part file.
        with FileLock(downloads / "lock"):
            aside.mkdir(exist_ok=True)
            lacking = [check.name for check in verify(entry, models_dir) if check.state != "ok"]
            if entry.build and lacking:
                building.build(entry.build, entry.files, folder, aside, progress)
            else:
                for file in entry.files:
                    if file.name in lacking:
                        _fetch(entry, file, models_dir, aside, progress)
            shutil.rmtree(aside)
    except OSError as error:
        raise ModelError(f"{folder}: {error}; check the free space and who may write there") from error
    except ModelError as error:
        raise ModelError(f"{entry.name}: {error}") from error
    return folder


def _fetch(entry: ModelEntry, file: ModelFile, models_dir: Path, aside: Path, progress: bool) -> None:
    """Fetch one file; what a file was that nobody knew before is written down."""
    target, pin = models_dir / entry.name / file.name, _pins(entry, models_dir)[file.name]
    remedy = "mend one source, or set HF_ENDPOINT to a mirror"
    if pin:
        remedy = f"mend one source, or put the file at {target} ({pin})"
    if pin and not file.pin:
        remedy += f"; if the hub's file was replaced on purpose, {_accept(entry, file)}"
    remedy += f"; then run `recall models pull {entry.name}`"
    path, address, found = file.fetch(pin, aside, progress, remedy)
    if not pin:
        new = _Recorded(source=address, sha256=found.sha256, bytes=found.bytes)
        records = _recorded(models_dir) | {f"{entry.name}/{file.name}": new}
        tables = {key: record.model_dump() for key, record in sorted(records.items())}
        write_whole(models_dir / LOCK, f"{LOCK_HEAD}\n{tomlkit.dumps(tables)}")
    path.replace(target)


def identify(entries: Sequence[ModelEntry], path: Path, models_dir: Path) -> str:
    """Which measured file a deployed one is. Raises ModelError, with both hashes, when it is none of them."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file; give the path of the deployed model file")
    found = sha256_of(path)
    known: dict[str, str] = {}
    for entry in entries:
        known |= {sha256: f"{entry.name}/{name}" for name, sha256 in hashes(entry, models_dir).items()}
    if found not in known:
        listed = "; ".join(f"{name} {sha256}" for sha256, name in known.items())
        raise ModelError(
            f"{path}: SHA-256 {found} is no measured file ({listed}); "
            "what is deployed is not what the report describes, so deploy a measured file or measure this one"
        )
    return f"{path} is {known[found]}, SHA-256 {found}"

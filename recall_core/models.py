"""The model registry: what a model is made of, and its files: pulled, verified, located."""

from __future__ import annotations

import os
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from filelock import FileLock
from pydantic import Field, PositiveInt, ValidationError, model_validator
from pydantic_core import ErrorDetails

from recall_core.modelfiles import building
from recall_core.modelfiles.building import LOCK, Build, ModelFile, PlainName, Sha256
from recall_core.modelfiles.downloads import Pin
from recall_core.modelfiles.downloads import sha256_of as sha256_of  # part of this module's own interface
from recall_core.records import ConfigError, ModelError, Record, UnknownEmbedderError

LOCK_HEAD = """\
# What files of the model hub were when `recall models pull` first had them; they are held to it since.
# To accept another file, remove its table and pull again. Commit this file.
"""
State = Literal["ok", "missing", "wrong", "unrecorded"]


class ModelEntry(Record):
    """One model: everything that decides the vectors it makes."""

    name: PlainName
    title: str
    licence: Annotated[str, Field(min_length=1)]
    """SPDX identifier."""
    dim: PositiveInt
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
        for file in self.files:
            if self.build and (file.sources or not file.pin):
                raise ValueError(f"{file.name!r} is built: it needs sha256 and bytes, and no source")
            if not self.build and not file.sources:
                raise ValueError(f"{file.name!r} has neither a source nor a build")
        return self


class Recorded(Record):
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
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a model registry: {error}; correct it") from error
    problems = [f"unknown key {key!r}; expected [[model]] tables only" for key in data if key != "model"]
    rows = data.get("model")
    if not isinstance(rows, list) or not rows:
        rows, problems = [], [*problems, "holds no [[model]] table; add one"]
    entries: list[ModelEntry] = []
    for number, row in enumerate(rows, 1):
        try:
            entries.append(ModelEntry.model_validate(row))
        except ValidationError as error:
            name = row.get("name", f"number {number}") if isinstance(row, dict) else f"number {number}"
            # Of a list that holds nothing but mistakes pydantic also says that it is empty.
            told = [d for d in error.errors() if d["type"] != "too_short" or not d["input"]]
            problems += [f"model {name!r}: {_problem(details)}" for details in told]
    problems += [f"model {name!r}: stands twice; rename one" for name in _repeated(e.name for e in entries)]
    for entry in entries:
        twice = _repeated(file.name for file in entry.files)
        problems += [f"model {entry.name!r}: two files named {name!r}; rename one" for name in twice]
    if problems:
        head = f"{path}: {len(problems)} problem(s); correct them as models/README.md shows"
        raise ConfigError("\n  ".join([head, *problems]))
    return {entry.name: entry for entry in entries}


def _problem(details: ErrorDetails) -> str:
    """One line: where in the entry, what is wrong, and what stands there."""
    place = ".".join(map(str, details["loc"])) or "entry"
    found = "" if details["type"] == "missing" else f", found {details['input']!r:.80}"
    return f"{place}: {details['msg']}{found}"


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def entry_named(registry: Mapping[str, ModelEntry], name: str) -> ModelEntry:
    """The entry, or UnknownEmbedderError with the names there are."""
    if name not in registry:
        raise UnknownEmbedderError(f"no model {name!r} in the registry; it knows: {', '.join(registry)}")
    return registry[name]


def hashes(entry: ModelEntry, models_dir: Path) -> dict[str, str]:
    """File name -> SHA-256, pinned in the registry or recorded. Raises ModelError when there is neither."""
    pins = _pins(entry, models_dir)
    unknown = [name for name, pin in pins.items() if not pin]
    if unknown:
        raise ModelError(f"{models_dir / LOCK}: no hash of {entry.name}/{unknown[0]}; {_pull_it(entry)}")
    return {name: pin.sha256 for name, pin in pins.items() if pin}


def _pins(entry: ModelEntry, models_dir: Path) -> dict[str, Pin | None]:
    """What each file must be; None while nobody knows. A record counts only for the source it is of."""
    recorded = {} if all(file.pin for file in entry.files) else _recorded(models_dir)
    pins: dict[str, Pin | None] = {}
    for file in entry.files:
        found = recorded.get(f"{entry.name}/{file.name}")
        known = Pin(found.sha256, found.bytes) if found and found.source in file.hub_addresses else None
        pins[file.name] = file.pin or known
    return pins


def verify(entry: ModelEntry, models_dir: Path) -> list[FileCheck]:
    """Hash every file of a model as it is on disk now. Raises ModelError when one cannot be read."""
    return list(_checks(entry, models_dir, sha256_of))


def locate(entry: ModelEntry, models_dir: Path) -> Path:
    """The model's folder, all files right; else ModelError. An unchanged file is hashed once a process."""
    folder = models_dir / entry.name
    for check in _checks(entry, models_dir, _remembered_sha256):
        if check.state != "ok":
            raise ModelError(f"{folder}/{check}")
    return folder


def _pull_it(entry: ModelEntry) -> str:
    return f"run `recall models pull {entry.name}`"


def _checks(entry: ModelEntry, models_dir: Path, hash_of: Callable[[Path], str]) -> Iterator[FileCheck]:
    pins = _pins(entry, models_dir)
    for file in entry.files:
        path, pin = models_dir / entry.name / file.name, pins[file.name]
        found = None
        try:
            if path.exists():
                found = Pin(hash_of(path), path.stat().st_size)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}; check its permissions") from error
        state: State = "missing" if not found else "unrecorded" if not pin else "wrong"
        remedy = _pull_it(entry)
        if found and pin and not file.pin:
            remedy += f"; if it was replaced on purpose, {building.accept(entry.name, file.name)} first"
        yield FileCheck(file.name, "ok" if found and found == pin else state, pin, found, remedy)


def _remembered_sha256(path: Path) -> str:
    stat = path.stat()
    return _sha256_as_of(path.absolute(), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256_as_of(path: Path, size: int, mtime_ns: int) -> str:  # noqa: ARG001 - part of the key
    return sha256_of(path)


def pull(entry: ModelEntry, models_dir: Path, *, quiet: bool | None = None) -> Path:
    """Fetch or build what is missing or wrong of a model, and return its folder. Offline when nothing is.

    Progress shows on stderr if that is a terminal, unless `quiet`. Raises ModelError with the answer
    of every source of the first file that none could give.
    """
    folder, aside = models_dir / entry.name, models_dir / ".downloads"
    if all(check.state == "ok" for check in verify(entry, models_dir)):
        return folder
    progress = not quiet and sys.stderr.isatty()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # One pull at a time in a models folder: two would write into one part file.
        with FileLock(aside / "lock"):
            lacking = {check.name for check in verify(entry, models_dir) if check.state != "ok"}
            known = _pins(entry, models_dir)
            pins = {
                file.name: known[file.name] or _record(entry, file, models_dir, progress)
                for file in entry.files
                if file.name in lacking
            }
            if entry.build and pins:
                building.build(entry.name, entry.build, pins, folder, aside, progress)
            else:
                building.fetch(entry.name, entry.files, pins, folder, aside, progress)
    except OSError as error:
        raise ModelError(f"{folder}: {error}; check the free space and who may write there") from error
    return folder


def _record(entry: ModelEntry, file: ModelFile, models_dir: Path, progress: bool) -> Pin:
    """Download a hub file whose hash nobody knows, and write down what came. The caller holds the lock."""
    address, pin = building.learn(entry.name, file, models_dir / ".downloads", progress)
    new = Recorded(source=address, sha256=pin.sha256, bytes=pin.bytes)
    text = LOCK_HEAD
    for key, record in sorted((_recorded(models_dir) | {f"{entry.name}/{file.name}": new}).items()):
        text += f'\n["{key}"]\nsource = "{record.source}"\n'
        text += f'sha256 = "{record.sha256}"\nbytes = {record.bytes}\n'
    temporary = models_dir / f".{LOCK}.tmp"
    with temporary.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(models_dir / LOCK)
    return pin


def _recorded(models_dir: Path) -> dict[str, Recorded]:
    path = models_dir / LOCK
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {key: Recorded.model_validate(row) for key, row in rows.items()}
    except (OSError, ValueError) as error:  # not text, no TOML, or other keys
        why = str(error).splitlines()[0]
        raise ModelError(
            f"{path}: cannot be read ({why}); restore it, or remove it and pull again"
        ) from error


def identify(entries: Sequence[ModelEntry], path: Path, models_dir: Path) -> str:
    """Which measured file a deployed one is. Raises ModelError, with both hashes, when it is none of them."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file; give the path of the deployed model file")
    found = sha256_of(path)
    known = {
        pin.sha256: f"{entry.name}/{name}"
        for entry in entries
        for name, pin in _pins(entry, models_dir).items()
        if pin
    }
    if found not in known:
        listed = "; ".join(f"{name} {sha256}" for sha256, name in known.items())
        raise ModelError(
            f"{path}: SHA-256 {found} is no measured file ({listed}); "
            "what is deployed is not what the report describes, so deploy a measured file or measure this one"
        )
    return f"{path} is {known[found]}, SHA-256 {found}"

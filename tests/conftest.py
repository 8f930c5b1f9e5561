"""Shared builders: fixtures small enough to read, and embedders whose rows are given by hand."""

import copy
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recall_core import fixtures, sources, vault
from recall_core.embedders import fingerprint_of
from recall_core.records import Fixture, FixtureError, Memory
from recall_core.vault import Vault

ROOT = Path(__file__).parents[1]
NOTES = ROOT / "data" / "notes" / "recall_v1.json"


class ByHand:
    """Rows given by hand, one a text; they are used as they stand, so give unit rows."""

    kind = "hash"

    def __init__(self, rows: Mapping[str, Sequence[float]], name: str = "by-hand") -> None:
        self.name = name
        self.rows = rows
        self.dim = len(next(iter(rows.values())))
        self.fingerprint = fingerprint_of(name=name)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_passages(texts)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([self.rows[text] for text in texts], dtype=np.float32).reshape(len(texts), self.dim)


def note(id_: str, text: str = "", **more: Any) -> Memory:
    """A memory; its text is its id unless given."""
    return Memory(id=id_, text=text or id_, **more)


def raw_case(id_: str, **more: Any) -> dict[str, Any]:
    """A sound case as it stands in a file: it expects the one memory it brings, `ID-m`."""
    brought = [{"id": f"{id_}-m", "text": f"text of {id_}"}]
    sound = {"id": id_, "query": f"query {id_}", "lang": "en", "expected": [f"{id_}-m"], "memories": brought}
    return sound | more


def raw_fixture(*cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A sound fixture as it stands in a file; one case, `a`, unless others are given."""
    head = {"format": 1, "name": "tiny", "version": "1.0.0", "isolation": "per_case"}
    return head | {"cases": list(cases) or [raw_case("a")]} | more


def built(*cases: dict[str, Any], **more: Any) -> Fixture:
    """The fixture that `raw_fixture` describes, without a file."""
    return Fixture.model_validate(copy.deepcopy(raw_fixture(*cases, **more)))


@pytest.fixture
def load(tmp_path: Path) -> Callable[[Any], Fixture]:
    """Write bytes, or anything JSON can hold, to `tiny.json` and load it."""

    def write_and_load(content: Any) -> Fixture:
        path = tmp_path / "tiny.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return fixtures.load(path)

    return write_and_load


@pytest.fixture
def problems(load: Callable[[Any], Fixture]) -> Callable[[Any], list[str]]:
    """What is wrong with a fixture, one line each. Fails when nothing is, or the file is not named."""

    def complaints(content: Any) -> list[str]:
        with pytest.raises(FixtureError) as caught:
            load(content)
        assert Path(caught.value.path).name == "tiny.json"
        head, *lines = str(caught.value).splitlines()
        plural = "s" if len(lines) > 1 else ""
        assert head == f"{caught.value.path}: {len(lines)} problem{plural}"
        assert [line.removeprefix("  ") for line in lines] == caught.value.problems
        return caught.value.problems

    return complaints


@pytest.fixture(scope="session")
def notes() -> Fixture:
    """The fixture we ship."""
    return fixtures.load(NOTES)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A protocol buffer of (field number, value) pairs."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


def _value(name: str, element: int, shape: Sequence[int | str]) -> bytes:
    dims = [(1, _message((1, size) if isinstance(size, int) else (2, size))) for size in shape]
    tensor = _message((1, element), (2, _message(*dims)))
    return _message((1, name), (2, _message((1, tensor))))


def table_model(
    path: Path, table: Sequence[Sequence[float]], *, leaky: bool = False, secretive: bool = False
) -> Path:
    """Write an ONNX model that looks token ids up in a table: output `rows`, (n, tokens, dim) float32.

    `leaky` adds the largest number of the batch, a second output, to all others, as a scale shared by a
    batch would. `secretive` keeps onnxruntime from knowing dim before the model is run.
    """
    float32, int64, boolean = 1, 7, 9
    dim = len(table[0])
    weights = struct.pack(f"<{len(table) * dim}f", *(x for row in table for x in row))
    constants = [_message((1, len(table)), (1, dim), (2, float32), (8, "table"), (9, weights))]
    found = "rows" if not (leaky or secretive) else "found"
    nodes = [_message((1, "table"), (1, "input_ids"), (2, found), (4, "Gather"))]
    outputs = [_value("rows", float32, ["n", "t", "d" if secretive else dim])]
    if leaky:
        no_axes_kept = _message((1, "keepdims"), (3, 0), (20, 2))
        nodes.append(_message((1, found), (2, "largest"), (4, "ReduceMax"), (5, no_axes_kept)))
        nodes.append(_message((1, found), (1, "largest"), (2, "rows"), (4, "Add")))
        outputs.append(_value("largest", float32, []))
    if secretive:
        constants.append(_message((1, dim), (2, boolean), (8, "all"), (9, bytes([1] * dim))))
        axis = _message((1, "axis"), (3, 2), (20, 2))
        nodes.append(_message((1, found), (1, "all"), (2, "rows"), (4, "Compress"), (5, axis)))
    graph = _message(
        *((1, node) for node in nodes),
        (2, "table"),
        *((5, constant) for constant in constants),
        (11, _value("input_ids", int64, ["n", "t"])),
        (11, _value("attention_mask", int64, ["n", "t"])),
        *((12, output) for output in outputs),
    )
    path.write_bytes(_message((1, 8), (8, _message((1, ""), (2, 13))), (7, graph)))
    return path


WIKI = ROOT / "data" / "wiki"
PROBES = ROOT / "data" / "probes.json"


@pytest.fixture(scope="session")
def wiki_vault() -> Vault:
    """The wiki we ship."""
    return vault.read(WIKI)


@pytest.fixture(scope="session")
def wiki_memories(wiki_vault: Vault) -> list[Memory]:
    """Its pages and its raw observations."""
    return [*wiki_vault.pages, *sources.read_observations(WIKI / "observations.jsonl")]

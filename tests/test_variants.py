"""Variants of an embedder: the mean taken away, and two models mixed on purpose."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from conftest import ByHand
from numpy.typing import NDArray

from recall_core.embedders.hashing import HashEmbedder
from recall_core.embedders.variants import Centred, Stale
from recall_core.records import InputError

PLAIN = ByHand({"right": (1, 0), "up": (0, 1), "slant": (0.6, 0.8)}, name="plain")
TEXTS = ["red kite", "a kettle", "", "чайник", "the red kite again"]


def mean(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, dtype=np.float32)


def test_a_centred_row_is_the_difference_scaled_to_one() -> None:
    rows = Centred(PLAIN, mean(0.5, 0.5)).embed_passages(["right", "up", "slant"])
    # (1, 0) - (1/2, 1/2) is (1/2, -1/2), of length sqrt(1/2); the third is (0.1, 0.3), of sqrt(0.1).
    half = sqrt(1 / 2)
    by_hand = [(half, -half), (-half, half), (0.1 / sqrt(0.1), 0.3 / sqrt(0.1))]
    assert rows == pytest.approx(np.array(by_hand), abs=1e-6)
    assert rows.dtype == np.float32


def test_queries_lose_the_same_mean() -> None:
    centred = Centred(PLAIN, mean(0.5, 0.5))
    assert np.array_equal(centred.embed_queries(["slant"]), centred.embed_passages(["slant"]))
    assert not np.array_equal(centred.embed_queries(["slant"]), PLAIN.embed_queries(["slant"]))


def test_a_row_that_is_the_mean_keeps_its_direction() -> None:
    rows = Centred(PLAIN, mean(1, 0)).embed_passages(["right", "up"])
    assert rows == pytest.approx(np.array([(1, 0), (-sqrt(1 / 2), sqrt(1 / 2))]), abs=1e-7)


def test_centred_rows_are_unit_rows() -> None:
    plain = HashEmbedder(128)
    rows = plain.embed_passages(TEXTS)
    centred = Centred(plain, rows.mean(axis=0)).embed_passages(TEXTS)
    assert np.abs(np.linalg.norm(centred.astype(np.float64), axis=1) - 1).max() < 1e-6
    assert np.abs(rows - centred).max() > 0.01


def test_no_texts_give_no_rows() -> None:
    assert Centred(PLAIN, mean(0.5, 0.5)).embed_passages([]).shape == (0, 2)


def test_centring_keeps_kind_and_dimension_and_says_so_in_the_name() -> None:
    centred = Centred(HashEmbedder(64), np.zeros(64, dtype=np.float32))
    assert (centred.name, centred.kind, centred.dim) == ("hash, centred", "hash", 64)


def test_the_mean_and_the_model_are_in_the_fingerprint() -> None:
    other = ByHand(PLAIN.rows, name="other")
    made = [
        Centred(PLAIN, mean(0.5, 0.5)),
        Centred(PLAIN, mean(0.5, np.nextafter(np.float32(0.5), np.float32(1)))),
        Centred(other, mean(0.5, 0.5)),
    ]
    assert len({PLAIN.fingerprint, *(variant.fingerprint for variant in made)}) == 4
    assert Centred(PLAIN, mean(0.5, 0.5)).fingerprint == made[0].fingerprint


@pytest.mark.parametrize(("shape", "said"), [((3,), r"\(3,\)"), ((1, 2), r"\(1, 2\)"), ((), r"\(\)")])
def test_a_mean_of_another_shape_is_refused(shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(InputError, match=rf"mean has shape {said}, the embedder's vectors have \(2,\)"):
        Centred(PLAIN, np.zeros(shape, dtype=np.float32))


# Stale

OLD = ByHand({"a": (1, 0), "?": (0.6, 0.8)}, name="old")
NEW = ByHand({"a": (0, 1), "?": (0.8, 0.6)}, name="new")


def test_the_old_model_wrote_and_the_new_one_asks() -> None:
    stale = Stale(written_by=OLD, asked_by=NEW)
    assert np.array_equal(stale.embed_passages(["a"]), OLD.embed_passages(["a"]))
    assert np.array_equal(stale.embed_queries(["?"]), NEW.embed_queries(["?"]))
    assert (stale.name, stale.kind, stale.dim) == ("written by old, asked by new", "hash", 2)


def test_a_mixture_has_a_fingerprint_of_its_own() -> None:
    made = [Stale(OLD, NEW), Stale(NEW, OLD), Stale(OLD, OLD)]
    prints = {OLD.fingerprint, NEW.fingerprint, *(stale.fingerprint for stale in made)}
    assert len(prints) == 5
    assert Stale(OLD, NEW).fingerprint == made[0].fingerprint


def test_two_dimensions_cannot_be_mixed() -> None:
    wide = ByHand({"a": (1, 0, 0)}, name="wide")
    with pytest.raises(InputError, match=r"^old has dimension 2 and wide has 3; "):
        Stale(OLD, wide)

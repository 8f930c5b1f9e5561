"""The checks of an embedder, held to fakes that break one property each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import cos, sqrt

import numpy as np
import pytest
from conftest import ByHand
from numpy.typing import NDArray
from scipy.stats import skew

from recall_core import checks
from recall_core.checks import Check
from recall_core.embedders.hashing import HashEmbedder


def at(cosine: float) -> tuple[float, float]:
    """A unit row whose cosine with (1, 0) is known."""
    return cosine, sqrt(1 - cosine**2)


QUERY = {"?": (1.0, 0.0)}
SOUND = ByHand(QUERY | {"near": at(0.9), "far": at(0.8)})


class Moving(ByHand):
    """Another row for some texts, whenever `moves` says so of the batch they come in."""

    def __init__(
        self,
        rows: Mapping[str, Sequence[float]],
        moved: Mapping[str, Sequence[float]],
        moves: Callable[[Sequence[str]], bool],
    ) -> None:
        super().__init__(rows)
        self.moved = moved
        self.moves = moves

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = self.rows | self.moved if self.moves(texts) else self.rows
        return np.array([rows[text] for text in texts], dtype=np.float32)


class Fickle(ByHand):
    """The first text of the second call on has another row."""

    calls = 0

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = super().embed_passages(texts)
        self.calls += 1
        if self.calls > 1:
            rows[0] = np.nextafter(rows[0], np.float32(2))
        return rows


def held(found: Sequence[Check]) -> dict[str, bool | None]:
    return {check.name: check.ok for check in found}


def measured(found: Sequence[Check], name: str) -> str:
    return next(check.measured for check in found if check.name == name)


def in_a_batch(embedder: ByHand, delta: float | None) -> list[Check]:
    return checks.batches(embedder, ["near", "far"], ["?"], delta)


# Vectors


def test_sound_vectors_pass() -> None:
    found = checks.vectors(HashEmbedder(64), ["red kite", "", "чай"])
    assert held(found) == {"finite": True, "unit norm": True, "deterministic": True}
    assert measured(found, "finite") == "3 vectors of dimension 64"
    assert measured(found, "deterministic") == "3 of 3 vectors equal to the bit on a second run"


def test_a_row_that_is_not_unit_is_caught() -> None:
    found = checks.vectors(ByHand({"a": (1, 0), "b": (0, 3), "c": (0.5, 0)}), ["a", "b", "c"])
    assert held(found) == {"finite": True, "unit norm": False, "deterministic": True}
    assert measured(found, "unit norm") == "furthest from 1 by 2.0e+00"


@pytest.mark.parametrize(("length", "unit"), [(1 - 2e-5, False), (1 - 2e-6, True), (1 + 2e-5, False)])
def test_unit_means_to_five_places(length: float, unit: bool) -> None:
    assert held(checks.vectors(ByHand({"a": (length, 0)}), ["a"]))["unit norm"] is unit


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_caught(bad: float) -> None:
    found = held(checks.vectors(ByHand({"a": (1, 0), "b": (bad, 0)}), ["a", "b"]))
    assert found["finite"] is False
    assert found["unit norm"] is False


def test_a_last_bit_that_changes_is_caught() -> None:
    found = checks.vectors(Fickle({"a": (0.6, 0.8), "b": (1, 0)}), ["a", "b"])
    assert held(found) == {"finite": True, "unit norm": True, "deterministic": False}
    assert measured(found, "deterministic") == "1 of 2 vectors equal to the bit on a second run"


# Batches


def test_an_embedder_that_ignores_its_batch_passes() -> None:
    found = in_a_batch(SOUND, 0.008)
    assert held(found) == {"batch invariant": True, "margins hold in a batch": True}
    assert measured(found, "batch invariant").endswith(": 1.000000")
    assert measured(found, "margins hold in a batch") == "margins move by up to 0.0000, delta is 0.008"


@pytest.mark.parametrize(("delta", "holds"), [(0.0, False), (0.03, False), (0.08, True), (None, True)])
def test_what_a_batch_does_to_the_margin_is_held_against_delta(delta: float | None, holds: bool) -> None:
    leaky = Moving(SOUND.rows, {"far": at(0.85)}, lambda texts: len(texts) > 1)
    found = in_a_batch(leaky, delta)
    assert held(found) == {"batch invariant": False, "margins hold in a batch": holds}
    # Alone 0.9 - 0.8; in a batch 0.9 - 0.85.
    said = "margins move by up to 0.0500" + ("" if delta is None else f", delta is {delta:g}")
    assert measured(found, "margins hold in a batch") == said
    cosine = 0.8 * 0.85 + at(0.8)[1] * at(0.85)[1]
    assert measured(found, "batch invariant") == f"least cosine, alone against in a batch: {cosine:.6f}"


def test_a_delta_of_nothing_still_holds_where_nothing_moves() -> None:
    assert held(in_a_batch(SOUND, 0.0))["margins hold in a batch"] is True


def test_the_worst_question_counts() -> None:
    rows = SOUND.rows | {"still": (0.0, 1.0)}
    leaky = Moving(rows, {"far": at(0.7)}, lambda texts: len(texts) > 1)
    found = checks.batches(leaky, ["near", "far"], ["?", "still", "?"], 0.05)
    # "still" sees the second coordinate: from 0.6 - 0.436 to 0.714 - 0.436.
    shifts = [at(0.7)[1] - at(0.8)[1], 0.8 - 0.7]
    assert shifts[0] > shifts[1]
    assert measured(found, "margins hold in a batch").startswith(f"margins move by up to {shifts[0]:.4f},")


def test_an_embedder_that_heeds_the_order_is_caught() -> None:
    heeds = Moving(SOUND.rows, {"far": at(0.85)}, lambda texts: list(texts) == ["far", "near"])
    assert held(in_a_batch(heeds, 0.008)) == {"batch invariant": False, "margins hold in a batch": True}


@pytest.mark.parametrize(("angle", "same"), [(0.001, True), (0.01, False)])
def test_a_hair_of_an_angle_is_still_the_same_vector(angle: float, same: bool) -> None:
    leaky = Moving(SOUND.rows, {"far": at(cos(np.arccos(0.8) + angle))}, lambda texts: len(texts) > 1)
    assert held(in_a_batch(leaky, None))["batch invariant"] is same


def test_threads_that_change_a_vector_are_caught() -> None:
    other = ByHand(SOUND.rows | {"far": at(0.85)})
    assert checks.threads(SOUND, SOUND, ["near", "far"]).ok
    found = checks.threads(SOUND, other, ["near", "far"])
    assert not found.ok
    cosine = 0.8 * 0.85 + at(0.8)[1] * at(0.85)[1]
    assert found.measured == f"least cosine, one thread against all: {cosine:.6f}"


# Truncation


def test_what_is_cut_is_counted() -> None:
    found = checks.truncation(np.array([10, 256, 257, 300]), 256)
    assert not found.ok
    lost, total = (257 - 256) + (300 - 256), 10 + 256 + 257 + 300
    assert found.measured == (
        f"2 of 4 texts are longer than 256 tokens (longest: 300); {lost} tokens of {total} are lost"
    )


def test_texts_as_long_as_the_limit_fit() -> None:
    found = checks.truncation(np.array([10, 256]), 256)
    assert (found.ok, found.measured) == (True, "0 of 2 texts are longer than 256 tokens (longest: 256)")


# The band


def test_the_band_of_one_cosine_is_that_cosine() -> None:
    band = checks.band(np.array([at(1.0), at(0.6)], dtype=np.float32))
    assert list(band.index) == ["p1", "p25", "p50", "p75", "p99"]
    assert band.tolist() == pytest.approx([0.6] * 5)


def test_the_band_of_three_known_cosines() -> None:
    # Right, up and left: a third of the pairs are opposite, two thirds stand upright on each other.
    band = checks.band(np.array([(1, 0), (0, 1), (-1, 0)], dtype=np.float32))
    assert band.tolist() == [-1, -1, 0, 0, 0]


def test_the_band_is_that_of_all_pairs() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 5))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    every = (rows @ rows.T)[np.triu_indices(40, 1)]
    band = checks.band(rows)
    for share, found in zip([0.01, 0.25, 0.5, 0.75, 0.99], band, strict=True):
        # The share of 20,000 random pairs below a point deviates by this much; 1/780 is one pair of all.
        deviation = sqrt(share * (1 - share) / 20_000)
        assert (every <= found).mean() == pytest.approx(share, abs=4 * deviation + 1 / 780)


# Hubs


def hubness(
    queries: Sequence[Sequence[float]], passages: NDArray[np.float64], k: int
) -> tuple[float, list[tuple[str, int]]]:
    ids = [f"m{i}" for i in range(len(passages))]
    skewness, counted = checks.hubness(
        np.array(queries, dtype=np.float32), passages.astype(np.float32), ids, k=k
    )
    return skewness, list(zip(counted["id"], counted["times"].tolist(), strict=True))


def test_each_passage_as_often_as_the_others_is_no_hubness() -> None:
    skewness, counted = hubness(np.eye(5).tolist(), np.eye(5), k=1)
    assert skewness == 0.0
    assert counted == [(f"m{i}", 1) for i in range(5)]


def test_one_hub_is_large_hubness() -> None:
    towards_m7 = (np.eye(50)[7] + 0.001 * np.eye(50)).tolist()
    skewness, counted = hubness(towards_m7, np.eye(50), k=1)
    # One of n is 50 and the others 0: (n - 2) / sqrt(n - 1).
    assert skewness == pytest.approx((50 - 2) / sqrt(50 - 1))
    assert counted[:2] == [("m7", 50), ("m0", 0)]


def test_hubness_is_the_skewness_of_the_counts() -> None:
    # The two nearest, by hand: m0 m1, m0 m1, m2 m0, m3 m0.
    queries = [(0.8, 0.5, 0.1, 0.0), (0.5, 0.8, 0.1, 0.0), (0.4, 0.0, 0.9, 0.1), (0.4, 0.1, 0.0, 0.9)]
    skewness, counted = hubness(queries, np.eye(4), k=2)
    assert counted == [("m0", 4), ("m1", 2), ("m2", 1), ("m3", 1)]
    # Around the mean of 2: 2, 0, -1, -1. Third moment 6/4, second 6/4.
    assert skewness == pytest.approx((6 / 4) / (6 / 4) ** 1.5)
    assert skewness == pytest.approx(float(skew([4, 2, 1, 1])))


@pytest.mark.parametrize("k", [3, 4, 10])
def test_more_neighbours_than_passages_are_all_of_them(k: int) -> None:
    skewness, counted = hubness([(1, 0, 0), (0, 1, 0)], np.eye(3), k=k)
    assert (skewness, counted) == (0.0, [("m0", 2), ("m1", 2), ("m2", 2)])


# White space


def test_white_space_that_changes_a_vector_is_caught() -> None:
    found = checks.same_answers(ByHand({"a": at(1), " a\n": at(0.6)}).embed_passages, "a", " a\n")
    assert (found.ok, found.measured) == (False, "cosine with and without: 0.600000")


def test_white_space_that_is_ignored_passes() -> None:
    assert checks.same_answers(HashEmbedder().embed_passages, "red kite", "  red kite\n").ok

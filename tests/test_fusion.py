"""Fusion: the arithmetic of both methods, and that no order of anything changes a result."""

import math
from collections.abc import Callable

import pytest
from builders import examples, grid
from hypothesis import given
from hypothesis import strategies as st

from recall_core.fusion import FusedHit, Part, minmax, ranking_of, rrf
from recall_core.records import Hit, InputError, Ranking

KEYWORD = Ranking.of("keyword", [("a", 9.0), ("b", 5.0), ("c", 3.0)])
VECTOR = Ranking.of("vector", [("c", 0.9), ("d", 0.5), ("a", 0.1)])

methods = pytest.mark.parametrize("fuse", [rrf, minmax])
Fuse = Callable[..., list[FusedHit]]


def scores(hits: list[FusedHit]) -> dict[str, float]:
    """In the order of the hits."""
    return {hit.id: hit.score for hit in hits}


# Reciprocal ranks


def test_a_score_is_the_sum_of_reciprocal_ranks():
    by_hand = {
        "a": 1 / (60 + 1) + 1 / (60 + 3),
        "c": 1 / (60 + 3) + 1 / (60 + 1),
        "b": 1 / (60 + 2),
        "d": 1 / (60 + 2),
    }
    fused = scores(rrf([KEYWORD, VECTOR]))
    assert fused == pytest.approx(by_hand, rel=1e-15)
    # Equal scores stand in the order of their ids, and are equal to the last bit.
    assert list(fused) == ["a", "c", "b", "d"]
    assert fused["a"] == fused["c"]


@pytest.mark.parametrize("k", [0, 1, 60, 1000, 0.5])
def test_k_is_added_to_every_rank(k: float):
    assert scores(rrf([KEYWORD], k=k)) == {"a": 1 / (k + 1), "b": 1 / (k + 2), "c": 1 / (k + 3)}


def test_a_weight_multiplies_what_its_stream_adds():
    fused = scores(rrf([KEYWORD, VECTOR], {"vector": 3.0, "unused": 9.0}))
    by_hand = {
        "c": 1 / (60 + 3) + 3 / (60 + 1),
        "a": 1 / (60 + 1) + 3 / (60 + 3),
        "d": 3 / (60 + 2),
        "b": 1 / (60 + 2),
    }
    assert fused == pytest.approx(by_hand, rel=1e-15)
    assert list(fused) == ["c", "a", "d", "b"]


def test_where_a_small_k_trusts_the_first_a_large_k_trusts_agreement():
    # a is 1st in one stream; b is 3rd in both.
    one = Ranking.of("one", [("a", 3.0), ("x", 2.0), ("b", 1.0)])
    two = Ranking.of("two", [("y", 3.0), ("z", 2.0), ("b", 1.0)])
    assert rrf([one, two], k=0)[0].id == "a"
    assert rrf([one, two], k=60)[0].id == "b"


# Scaled scores


def test_the_best_of_a_stream_is_one_and_the_worst_nothing():
    # keyword: a 1, b (5-3)/(9-3), c 0. vector: c 1, d (0.5-0.1)/(0.9-0.1), a 0. Each weighs a half.
    fused = scores(minmax([KEYWORD, VECTOR]))
    by_hand = {
        "a": (1 + 0) / 2,
        "c": (0 + 1) / 2,
        "d": (0.5 - 0.1) / (0.9 - 0.1) / 2,
        "b": (5 - 3) / (9 - 3) / 2,
    }
    assert fused == pytest.approx(by_hand, rel=1e-12)
    assert list(fused) == ["a", "c", "d", "b"]


def test_weights_are_scaled_to_add_up_to_one():
    fused = scores(minmax([KEYWORD, VECTOR], {"keyword": 6.0, "vector": 2.0}))
    assert fused == pytest.approx({"a": 0.75, "c": 0.25, "b": 0.75 / 3, "d": 0.25 / 2})
    again = minmax([KEYWORD, VECTOR], {"keyword": 3.0})
    assert scores(again) == fused


@pytest.mark.parametrize("hits", [[("a", 2.0)], [("a", 2.0), ("b", 2.0)], [("a", -1.0), ("b", -1.0)]])
def test_a_stream_of_equal_scores_gives_one(hits: list[tuple[str, float]]):
    assert set(scores(minmax([Ranking.of("keyword", hits)])).values()) == {1.0}


def test_an_empty_stream_still_takes_its_share_of_the_weight():
    fused = minmax([KEYWORD, Ranking("vector", ())])
    assert scores(fused) == pytest.approx({"a": 1 / 2, "b": 1 / 6, "c": 0})


# Both


@methods
@pytest.mark.parametrize("rankings", [[], [Ranking("keyword", ())], [Ranking("a", ()), Ranking("b", ())]])
def test_nothing_fuses_to_nothing(fuse: Fuse, rankings: list[Ranking]):
    assert fuse(rankings) == []


@methods
def test_a_stream_that_weighs_nothing_finds_nothing(fuse: Fuse):
    assert fuse([KEYWORD, VECTOR], {"vector": 0.0}) == fuse([KEYWORD])
    assert fuse([KEYWORD, VECTOR], {"vector": 0.0, "keyword": 0.0}) == []


def test_every_hit_says_what_each_stream_gave_it():
    (a, *_) = rrf([VECTOR, KEYWORD], {"vector": 2.0})
    assert a.id == "c"
    assert a.parts == (Part("keyword", 3, 3.0, 1 / 63), Part("vector", 1, 0.9, 2 * (1 / 61)))
    (_, c, *_) = minmax([VECTOR, KEYWORD])
    assert c.parts == (Part("keyword", 3, 3.0, 0.0), Part("vector", 1, 0.9, 0.5))


def test_fused_hits_are_a_ranking_again():
    fused = rrf([KEYWORD])
    assert ranking_of(fused) == Ranking("hybrid", (Hit("a", 1 / 61), Hit("b", 1 / 62), Hit("c", 1 / 63)))
    assert ranking_of(fused, "words").stream == "words"


@methods
@pytest.mark.parametrize("weight", [-1.0, -1e-9, math.nan, math.inf])
def test_a_negative_weight_is_refused(fuse: Fuse, weight: float):
    with pytest.raises(InputError, match="give a finite number of 0 or more"):
        fuse([KEYWORD, VECTOR], {"vector": weight})


def test_the_refusal_names_the_weight_as_it_was_given():
    for fuse in (rrf, minmax):
        with pytest.raises(InputError) as caught:
            fuse([KEYWORD, VECTOR], {"vector": -1.0, "keyword": 3.0})
        assert str(caught.value) == "the weight of vector is -1.0; give a finite number of 0 or more"


@pytest.mark.parametrize("k", [-1, -0.5, math.nan])
def test_a_negative_k_is_refused(k: float):
    with pytest.raises(InputError) as caught:
        rrf([KEYWORD], k=k)
    assert str(caught.value) == f"k is {k}; give 0 or more (60 is usual)"


@methods
def test_a_stream_given_twice_is_refused(fuse: Fuse):
    with pytest.raises(InputError) as caught:
        fuse([KEYWORD, VECTOR, KEYWORD])
    assert str(caught.value).startswith("two rankings of one stream among keyword, vector, keyword")


streams = st.dictionaries(
    st.sampled_from(["keyword", "entity", "graph", "vector"]),
    st.lists(st.tuples(st.sampled_from("abcdefgh"), grid), max_size=10),
    max_size=4,
)
weights = st.dictionaries(st.sampled_from(["keyword", "entity", "graph"]), st.floats(0, 9))


def rankings_of(given_: dict[str, list[tuple[str, float]]]) -> list[Ranking]:
    return [Ranking.of(stream, pairs) for stream, pairs in given_.items()]


@methods
@given(streams, weights, st.randoms(use_true_random=False))
@examples
def test_no_order_of_streams_or_pairs_changes_anything(fuse: Fuse, given_, weights_, rng):
    names = rng.sample(sorted(given_), len(given_))
    shuffled = {name: rng.sample(given_[name], len(given_[name])) for name in names}
    assert fuse(rankings_of(shuffled), weights_) == fuse(rankings_of(given_), weights_)


@methods
@given(streams, weights)
@examples
def test_hits_are_sorted_found_by_some_stream_and_the_sum_of_their_parts(fuse: Fuse, given_, weights_):
    fused = fuse(rankings_of(given_), weights_)
    assert fused == sorted(fused, key=lambda hit: (-hit.score, hit.id))
    found = {ranking.stream: ranking for ranking in rankings_of(given_)}
    weighing = {hit.id for name, r in found.items() if weights_.get(name, 1.0) for hit in r.hits}
    assert {hit.id for hit in fused} <= weighing
    for hit in fused:
        assert hit.score == math.fsum(part.contribution for part in hit.parts)
        assert [part.stream for part in hit.parts] == sorted({part.stream for part in hit.parts})
        for part in hit.parts:
            assert found[part.stream].hits[part.rank - 1] == Hit(hit.id, part.score)


@given(streams, weights, st.floats(0, 100))
@examples
def test_each_part_is_its_reciprocal_rank(given_, weights_, k):
    for hit in rrf(rankings_of(given_), weights_, k):
        for part in hit.parts:
            expected = weights_.get(part.stream, 1.0) / (k + part.rank)
            assert part.contribution == pytest.approx(expected, rel=1e-12)


@given(streams, weights)
@examples
def test_scaled_scores_lie_between_nothing_and_one(given_, weights_):
    assert all(0 <= hit.score <= 1 + 1e-12 for hit in minmax(rankings_of(given_), weights_))

"""Fusion: the arithmetic of each method, what links and names add, and that no order changes a result."""

import math
from collections.abc import Sequence
from math import sqrt
from typing import get_args

import pytest
from builders import examples, grid
from hypothesis import given
from hypothesis import strategies as st

from recall_core.fusion import fuse, passed_on, raised
from recall_core.records import Fusion, Hit, InputError, Part, Ranking

KEYWORD = Ranking.of("keyword", [("a", 9.0), ("b", 5.0), ("c", 3.0)])
VECTOR = Ranking.of("vector", [("c", 0.9), ("d", 0.5), ("a", 0.1)])

methods = pytest.mark.parametrize("method", get_args(Fusion))


def scores(ranking: Ranking) -> dict[str, float]:
    """In the order of the hits."""
    return {hit.id: hit.score for hit in ranking.hits}


# Reciprocal ranks


def test_a_score_is_the_sum_of_reciprocal_ranks():
    by_hand = {
        "a": 1 / (60 + 1) + 1 / (60 + 3),
        "c": 1 / (60 + 3) + 1 / (60 + 1),
        "d": 1 / (60 + 2),
        "b": 1 / (60 + 2),
    }
    fused = scores(fuse([KEYWORD, VECTOR]))
    assert fused == pytest.approx(by_hand, rel=1e-15)
    # Equal scores are equal to the last bit. Of d and b, d is further from the worst of its stream.
    assert list(fused) == ["a", "c", "d", "b"]
    assert fused["a"] == fused["c"]


@pytest.mark.parametrize("k", [0, 1, 60, 1000, 0.5])
def test_k_is_added_to_every_rank(k: float):
    assert scores(fuse([KEYWORD], k=k)) == {"a": 1 / (k + 1), "b": 1 / (k + 2), "c": 1 / (k + 3)}


def test_a_weight_multiplies_what_its_stream_adds():
    fused = scores(fuse([KEYWORD, VECTOR], weights={"vector": 3.0, "unused": 9.0}))
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
    assert fuse([one, two], k=0).hits[0].id == "a"
    assert fuse([one, two], k=60).hits[0].id == "b"


def test_hits_that_tie_in_a_stream_get_the_same_from_it():
    # b and c share the places 2 and 3: both are 3rd.
    tied = Ranking.of("keyword", [("a", 2.0), ("b", 1.0), ("c", 1.0), ("d", 0.5)])
    assert scores(fuse([tied], k=1)) == {"a": 1 / 2, "b": 1 / 4, "c": 1 / 4, "d": 1 / 5}
    assert fuse([tied], k=1).ranks() == [1, 3, 3, 4]


# Scaled scores


def test_the_best_of_a_stream_is_one_and_the_worst_nothing():
    # keyword: a 1, b (5-3)/(9-3), c 0. vector: c 1, d (0.5-0.1)/(0.9-0.1), a 0. Each weighs a half.
    fused = scores(fuse([KEYWORD, VECTOR], "minmax"))
    by_hand = {
        "a": (1 + 0) / 2,
        "c": (0 + 1) / 2,
        "d": (0.5 - 0.1) / (0.9 - 0.1) / 2,
        "b": (5 - 3) / (9 - 3) / 2,
    }
    assert fused == pytest.approx(by_hand, rel=1e-12)
    assert list(fused) == ["a", "c", "d", "b"]


def test_three_deviations_to_either_side_of_the_mean_are_nothing_and_one():
    # Mean 3, deviation sqrt((4 + 1 + 1 + 4) / 4) = sqrt(2.5): a is 2 of 6 sqrt(2.5) above a half.
    stream = Ranking.of("keyword", [("a", 5.0), ("b", 4.0), ("c", 2.0), ("d", 1.0)])
    width = 6 * sqrt(2.5)
    by_hand = {"a": 0.5 + 2 / width, "b": 0.5 + 1 / width, "c": 0.5 - 1 / width, "d": 0.5 - 2 / width}
    assert scores(fuse([stream], "dbsf")) == pytest.approx(by_hand, rel=1e-12)
    # With a stream of two, each one deviation from the mean: 1/2 and 1/6 up or down. Both weigh a half.
    other = Ranking.of("vector", [("d", 0.9), ("z", 0.1)])
    both = by_hand | {"d": by_hand["d"] + 1 / 2 + 1 / 6, "z": 1 / 2 - 1 / 6}
    halves = {id_: score / 2 for id_, score in both.items()}
    assert scores(fuse([stream, other], "dbsf")) == pytest.approx(halves, rel=1e-12)


def test_what_is_beyond_three_deviations_is_cut_off():
    # 19 zeros and a 20: mean 1, deviation sqrt((19 * 1 + 19 * 19) / 20) = sqrt(19): 19 is 4.4 of them.
    stream = Ranking.of("keyword", [("a", 20.0), *((f"z{i:02}", 0.0) for i in range(19))])
    fused = scores(fuse([stream], "dbsf"))
    assert fused["a"] == 1.0
    assert fused["z00"] == pytest.approx(0.5 - 1 / (6 * sqrt(19)), rel=1e-12)
    below = Ranking.of("keyword", [("a", -20.0), *((f"z{i:02}", 0.0) for i in range(19))])
    assert scores(fuse([below], "dbsf"))["a"] == 0.0


@pytest.mark.parametrize("method", ["minmax", "dbsf"])
def test_weights_are_scaled_to_add_up_to_one(method: Fusion):
    fused = scores(fuse([KEYWORD, VECTOR], method, {"keyword": 6.0, "vector": 2.0}))
    if method == "minmax":
        assert fused == pytest.approx({"a": 0.75, "c": 0.25, "b": 0.75 / 3, "d": 0.25 / 2})
    assert fused == scores(fuse([KEYWORD, VECTOR], method, {"keyword": 3.0}))


@pytest.mark.parametrize("method", ["minmax", "dbsf"])
def test_weights_add_up_to_the_same_in_any_order(method: Fusion):
    # Added from left to right, 0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last bit.
    given_ = {"keyword": 0.1, "entity": 0.2, "vector": 0.3}
    assert sum(given_.values()) != sum(reversed(given_.values()))
    rankings = [Ranking.of(stream, [("a", 2.0), ("b", 1.0)]) for stream in given_]
    assert fuse(rankings, method, given_) == fuse(rankings[::-1], method, given_)


@pytest.mark.parametrize(("method", "each"), [("minmax", 1.0), ("dbsf", 0.5)])
@pytest.mark.parametrize("hits", [[("a", 2.0)], [("a", 2.0), ("b", 2.0)], [("a", -1.0), ("b", -1.0)]])
def test_a_stream_of_equal_scores_gives_as_much_to_all(
    method: Fusion, each: float, hits: list[tuple[str, float]]
):
    assert set(scores(fuse([Ranking.of("keyword", hits)], method)).values()) == {each}


def test_an_empty_stream_still_takes_its_share_of_the_weight():
    fused = fuse([KEYWORD, Ranking("vector", ())], "minmax")
    assert scores(fused) == pytest.approx({"a": 1 / 2, "b": 1 / 6, "c": 0})


# All of them


@methods
@pytest.mark.parametrize("rankings", [[], [Ranking("keyword", ())], [Ranking("a", ()), Ranking("b", ())]])
def test_nothing_fuses_to_nothing(method: Fusion, rankings: list[Ranking]):
    assert fuse(rankings, method, name="p") == Ranking("p", ())


@methods
def test_a_stream_that_weighs_nothing_finds_nothing(method: Fusion):
    assert fuse([KEYWORD, VECTOR], method, {"vector": 0.0}) == fuse([KEYWORD], method)
    assert fuse([KEYWORD, VECTOR], method, {"vector": 0.0, "keyword": 0.0}) == Ranking("hybrid", ())


def test_every_hit_says_what_each_stream_gave_it():
    (a, *_) = fuse([VECTOR, KEYWORD], weights={"vector": 2.0}).hits
    assert a.id == "c"
    assert a.parts == (Part("keyword", 3, 3.0, 1 / 63), Part("vector", 1, 0.9, 2 * (1 / 61)))
    (_, c, *_) = fuse([VECTOR, KEYWORD], "minmax").hits
    assert c.parts == (Part("keyword", 3, 3.0, 0.0), Part("vector", 1, 0.9, 0.5))
    assert (a.own("vector"), a.own("graph")) == (0.9, -math.inf)


def test_the_ranking_has_the_name_of_the_path():
    assert (fuse([KEYWORD]).stream, fuse([KEYWORD], name="words").stream) == ("hybrid", "words")


@methods
def test_equal_sums_are_settled_by_the_streams_own_scores(method: Fusion):
    # a and b change places; a is a close second where b is first, b a distant one where a is.
    one = Ranking.of("one", [("a", 9.0), ("b", 1.0), ("z", 0.0)])
    two = Ranking.of("two", [("b", 9.0), ("a", 8.0), ("z", 0.0)])
    found = {hit.id: hit for hit in fuse([one, two], method).hits}
    assert (found["a"].evidence, found["b"].evidence) == pytest.approx((1 + 8 / 9, 1 / 9 + 1), rel=1e-12)
    assert fuse([one, two], method).ranks() == [1, 2, 3]
    assert (found["a"].score == found["b"].score) == (method == "rrf")
    mirrored = Ranking.of("two", [("b", 9.0), ("a", 1.0), ("z", 0.0)])
    assert fuse([one, mirrored], method).ranks() == [2, 2, 3]


@methods
@pytest.mark.parametrize("weight", [-1.0, -1e-9, math.nan, math.inf])
def test_a_negative_weight_is_refused(method: Fusion, weight: float):
    with pytest.raises(InputError, match="give a finite number of 0 or more"):
        fuse([KEYWORD, VECTOR], method, {"vector": weight})


@methods
def test_the_refusal_names_the_weight_as_it_was_given(method: Fusion):
    with pytest.raises(InputError) as caught:
        fuse([KEYWORD, VECTOR], method, {"vector": -1.0, "keyword": 3.0})
    assert str(caught.value) == "the weight of vector is -1.0; give a finite number of 0 or more"


@pytest.mark.parametrize("k", [-1, -0.5, math.nan])
def test_a_negative_k_is_refused(k: float):
    with pytest.raises(InputError) as caught:
        fuse([KEYWORD], k=k)
    assert str(caught.value) == f"k is {k}; give 0 or more (60 is usual)"


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError) as caught:
        fuse([KEYWORD], "sum")  # type: ignore[arg-type]
    assert str(caught.value) == "fusion is 'sum'; known: rrf, minmax, dbsf"


@methods
def test_a_stream_given_twice_is_refused(method: Fusion):
    with pytest.raises(InputError) as caught:
        fuse([KEYWORD, VECTOR, KEYWORD], method)
    assert str(caught.value).startswith("two rankings of one stream among keyword, vector, keyword")


streams = st.dictionaries(
    st.sampled_from(["keyword", "entity", "observation", "vector"]),
    st.lists(st.tuples(st.sampled_from("abcdefgh"), grid), max_size=10),
    max_size=4,
)
weights = st.dictionaries(st.sampled_from(["keyword", "entity", "observation"]), st.floats(0, 9))


def rankings_of(given_: dict[str, list[tuple[str, float]]]) -> list[Ranking]:
    return [Ranking.of(stream, pairs) for stream, pairs in given_.items()]


@methods
@given(streams, weights, st.randoms(use_true_random=False))
@examples
def test_no_order_of_streams_or_pairs_changes_anything(method: Fusion, given_, weights_, rng):
    names = rng.sample(sorted(given_), len(given_))
    shuffled = {name: rng.sample(given_[name], len(given_[name])) for name in names}
    assert fuse(rankings_of(shuffled), method, weights_) == fuse(rankings_of(given_), method, weights_)


@methods
@given(streams, weights)
@examples
def test_hits_are_sorted_found_by_some_stream_and_the_sum_of_their_parts(method: Fusion, given_, weights_):
    fused = fuse(rankings_of(given_), method, weights_).hits
    assert fused == tuple(sorted(fused, key=lambda hit: (-hit.score, -hit.evidence, hit.id)))
    found = {
        ranking.stream: {
            hit.id: (rank, hit.score) for hit, rank in zip(ranking.hits, ranking.ranks(), strict=True)
        }
        for ranking in rankings_of(given_)
    }
    weighing = {id_ for name, held in found.items() if weights_.get(name, 1.0) for id_ in held}
    assert {hit.id for hit in fused} <= weighing
    for hit in fused:
        assert hit.score == math.fsum(part.contribution for part in hit.parts)
        assert [part.stream for part in hit.parts] == sorted({part.stream for part in hit.parts})
        for part in hit.parts:
            assert found[part.stream][hit.id] == (part.rank, part.score)


@given(streams, weights, st.floats(0, 100))
@examples
def test_each_part_is_its_reciprocal_rank(given_, weights_, k):
    for hit in fuse(rankings_of(given_), "rrf", weights_, k).hits:
        for part in hit.parts:
            expected = weights_.get(part.stream, 1.0) / (k + part.rank)
            assert part.contribution == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("method", ["minmax", "dbsf"])
@given(streams, weights)
@examples
def test_scaled_scores_lie_between_nothing_and_one(method: Fusion, given_, weights_):
    assert all(0 <= hit.score <= 1 + 1e-12 for hit in fuse(rankings_of(given_), method, weights_).hits)


# Passed on along links


def fused(*given_: Sequence[object]) -> Ranking:
    """Of (id, score) or (id, score, evidence)."""
    return Ranking.ordered("p", (Hit(id_, score, (), *more) for id_, score, *more in given_))


def linked(*pairs: str) -> dict[str, frozenset[str]]:
    """`ab` links a with b, and b with a."""
    found: dict[str, set[str]] = {}
    for one, other in pairs:
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {id_: frozenset(ids) for id_, ids in found.items()}


def order(ranking: Ranking) -> str:
    return "".join(hit.id for hit in ranking.hits)


def test_a_neighbour_is_worth_a_share_of_its_best_seed():
    # x is linked with a and b, y with b: x gets half of a, y half of b; a and b keep what they have.
    ranking = passed_on(fused(("a", 1.0), ("b", 0.8)), linked("ax", "bx", "by"), 0.5)
    assert scores(ranking) == {"a": 1.0, "b": 0.8, "x": 0.5, "y": 0.4}
    assert ranking.stream == "p"
    # Its own score in the stream is all that reached it; what it adds is what the hit is worth more by it.
    x, y = ranking.hits[2:]
    assert x.parts == (Part("graph", 1, 0.5 + 0.4, 0.5),)
    assert y.parts == (Part("graph", 2, 0.4, 0.4),)


def test_a_page_that_had_more_keeps_it_and_one_that_had_less_is_lifted():
    ranking = passed_on(fused(("a", 1.0), ("b", 0.7), ("c", 0.1)), linked("ab", "ac"), 0.5)
    # b passes 0.35 back to a, and c 0.05. b had 0.7, more than 0.5; c had 0.1, less.
    assert scores(ranking) == {"a": 1.0, "b": 0.7, "c": 0.5}
    a, b, c = (hit.parts[0] for hit in ranking.hits)
    assert (a.score, a.contribution) == (pytest.approx(0.35 + 0.05), 0.0)
    assert (b.score, b.contribution) == (0.5, 0.0)
    assert (c.score, c.contribution) == (0.5, 0.5 - 0.1)


@pytest.mark.parametrize("decay", [0.0, 0.25, 0.9, 0.999])
@pytest.mark.parametrize("seed", [1.0, 1e-9, 0.0])
def test_a_neighbour_never_ties_with_its_seed_nor_beats_it(decay: float, seed: float):
    ranking = passed_on(fused(("z", seed)), linked("za", "zb"), decay)
    assert ranking.ranks()[0] == 1
    assert order(ranking) == ("zab" if seed else "z")  # a seed worth nothing has nothing to pass on
    assert [hit.score for hit in ranking.hits[1:]] == [decay * seed] * 2 * bool(seed)


def test_of_equal_neighbours_the_one_with_more_seeds_is_ahead():
    seeds = fused(("a", 1.0), ("b", 0.8), ("c", 0.6))
    # All three get 0.5 of a; z is linked with b too, y with c.
    ranking = passed_on(seeds, linked("ax", "ay", "az", "bz", "cy"), 0.5)
    assert order(ranking) == "abczyx"
    assert {hit.score for hit in ranking.hits[3:]} == {0.5}
    assert [hit.evidence for hit in ranking.hits[3:]] == [0.5 + 0.4, 0.5 + 0.3, 0.5]
    assert ranking.ranks() == [1, 2, 3, 4, 5, 6]
    # With the same seeds they tie.
    assert passed_on(seeds, linked("ax", "ay"), 0.5).ranks() == [1, 2, 3, 5, 5]


def test_neighbours_of_neighbours_are_not_reached():
    assert order(passed_on(fused(("a", 1.0), ("b", 0.9)), linked("ab", "bc", "cd"), 0.5)) == "abc"


def test_only_the_first_seeds_pass_on():
    found = fused(*((id_, 1 - at / 10) for at, id_ in enumerate("abcdefg")))
    links = linked("aA", "bB", "cC", "dD", "eE", "fF", "gG")
    assert order(passed_on(found, links, 0.01)) == "abcdefgABCDE"
    assert order(passed_on(found, links, 0.01, seeds=2)) == "abcdefgAB"
    # A page that was found, but is no seed, is reached like any other.
    (_, b) = passed_on(fused(("a", 1.0), ("b", 0.1)), linked("ab"), 0.5, seeds=1).hits
    assert (b.id, b.score) == ("b", 0.5)


@pytest.mark.parametrize("found", [fused(), fused(("unlinked", 1.0))])
def test_without_links_nothing_changes(found: Ranking):
    assert passed_on(found, linked("ab"), 0.5) == found


letters = st.lists(st.tuples(st.sampled_from("abcdefgh"), grid), max_size=8)
pairs = st.lists(st.sampled_from([f"{a}{b}" for a in "abcdwxyz" for b in "abcdwxyz" if a != b]), max_size=12)


@given(letters, pairs, st.sampled_from([0.0, 0.25, 0.5, 0.75]))
@examples
def test_what_is_passed_on_explains_every_score_and_lowers_none(given_, pairs_, decay: float):
    before = fuse([Ranking.of("keyword", given_)])
    ranking = passed_on(before, linked(*pairs_), decay)
    assert ranking == passed_on(before, linked(*pairs_[::-1]), decay)
    had = scores(before)
    assert had.keys() <= scores(ranking).keys()
    seeds = {hit.id for hit in before.hits[:5]}
    for hit in ranking.hits:
        assert hit.score >= had.get(hit.id, 0.0)
        assert hit.score == pytest.approx(math.fsum(part.contribution for part in hit.parts), rel=1e-12)
        best = max((had[id_] for id_ in linked(*pairs_).get(hit.id, ()) if id_ in seeds), default=0.0)
        assert hit.score == max(had.get(hit.id, 0.0), decay * best)


# Raised


def test_what_is_named_is_raised_by_a_share_of_itself():
    part = Part("vector", 1, 0.5, 0.5)
    ranking = Ranking.ordered("p", [Hit("a", 0.6), Hit("b", 0.5, (part,), 0.25), Hit("c", 0.1)])
    found = raised(ranking, "speaker", frozenset("bcz"), 0.5)
    assert found.stream == "p"
    b, a, c = found.hits
    assert (b.id, b.score, b.evidence) == ("b", 0.5 + 0.25, 0.25)
    assert b.parts == (Part("speaker", 1, 0.5, 0.25), part)
    assert a == Hit("a", 0.6)
    assert (c.score, c.parts) == (0.1 + 0.05, (Part("speaker", 1, 0.5, 0.05),))


def test_scores_of_nothing_or_less_are_not_raised():
    ranking = fused(("a", 0.0), ("b", -0.5))
    assert raised(ranking, "speaker", frozenset("ab"), 0.5) == ranking


@pytest.mark.parametrize(("ids", "share"), [("", 0.5), ("ab", 0.0)])
def test_no_name_and_no_share_change_nothing(ids: str, share: float):
    ranking = fused(("a", 1.0), ("b", 0.5))
    assert raised(ranking, "speaker", frozenset(ids), share) == ranking


def test_a_tie_at_the_last_seed_is_not_settled_by_the_id():
    fused = Ranking.of("hybrid", [("a", 1.0), ("b", 0.5), ("c", 0.5), ("d", 0.25)])
    linked = {id_: frozenset({f"near {id_}"}) for id_ in "abcd"}
    reached = passed_on(fused, linked, 0.5, seeds=2)
    near = {hit.id: hit.score for hit in reached.hits if hit.id.startswith("near")}
    assert near == {"near a": 0.5, "near b": 0.25, "near c": 0.25}

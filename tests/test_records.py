"""Records refuse what they cannot hold, and a ranking has one order."""

import pytest
from conftest import note
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from recall_core.records import (
    Case,
    ConfigError,
    FingerprintError,
    FixtureError,
    FloorError,
    Hit,
    InputError,
    ModelError,
    Ranking,
    RecallError,
    StoreError,
    UnknownEmbedderError,
)

SCORED = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from([-1.0, 0.0, 0.5, 0.75])))


def test_a_ranking_is_sorted_by_score_then_id():
    ranking = Ranking.of("vector", [("b", 0.5), ("c", 0.75), ("a", 0.5)])
    assert ranking == Ranking("vector", (Hit("c", 0.75), Hit("a", 0.5), Hit("b", 0.5)))


def test_hits_of_one_memory_collapse_to_the_best():
    ranking = Ranking.of("vector", [("a", 0.25), ("b", 0.5), ("a", 0.75), ("a", 0.5)])
    assert ranking.hits == (Hit("a", 0.75), Hit("b", 0.5))


@given(SCORED.flatmap(lambda scored: st.tuples(st.just(scored), st.permutations(scored))))
def test_the_order_scores_arrive_in_changes_nothing(orders: tuple[list, list]):
    first, second = orders
    assert Ranking.of("s", first) == Ranking.of("s", second)


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="keyword: the score of 'b' is NaN"):
        Ranking.of("keyword", [("a", 1.0), ("b", float("nan"))])


def test_infinite_scores_have_a_place():
    ranking = Ranking.of("s", [("low", -float("inf")), ("mid", 0.0), ("high", float("inf"))])
    assert [hit.id for hit in ranking.hits] == ["high", "mid", "low"]


@pytest.mark.parametrize(("k", "kept"), [(0, []), (1, ["a"]), (2, ["a", "b"]), (9, ["a", "b"])])
def test_top_keeps_the_first_k(k: int, kept: list[str]):
    assert [hit.id for hit in Ranking.of("s", [("b", 1.0), ("a", 2.0)]).top(k).hits] == kept


@pytest.mark.parametrize(
    "ts", ["2026-07-31T09:00:00+00:00", "2026-07-31T09:00:00Z", "2026-07-31T09:00+03:00", None]
)
def test_a_time_with_a_zone_is_kept_as_written(ts: str | None):
    assert note("a", ts=ts).ts == ts


@pytest.mark.parametrize(
    ("ts", "said"),
    [
        ("2026-07-31T09:00:00", "has no time zone"),
        ("2026-07-31", "has no time zone"),
        ("yesterday", "is not a time"),
        ("", "is not a time"),
    ],
)
def test_a_time_without_a_zone_is_refused(ts: str, said: str):
    with pytest.raises(ValidationError, match=f"{said}; write it as 2026-07-31T09:00:00"):
        note("a", ts=ts)


@pytest.mark.parametrize("id_", ["", " ", " a", "a ", "a\tb", "a\nb", "a\n", "a\0"])
def test_an_id_is_on_one_line_and_has_no_blanks_around_it(id_: str):
    with pytest.raises(ValidationError):
        note(id_, "text")


def test_the_id_of_a_memory_may_hold_blanks_and_that_of_a_case_may_not():
    assert note("Categories/Board games.md").id == "Categories/Board games.md"
    with pytest.raises(ValidationError):
        Case(id="a b", query="q", lang="en", expected=("x",))


@pytest.mark.parametrize("id_", ["a", "ru-lab-001", "заметка/1", "🙂"])
def test_an_id_may_be_in_any_script(id_: str):
    assert note(id_).id == id_


def test_a_record_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        note("a").text = "other"


@pytest.mark.parametrize(("expected", "answerable"), [((), False), (("a",), True)])
def test_a_case_that_expects_nothing_is_not_answerable(expected: tuple[str, ...], answerable: bool):
    assert Case(id="c", query="q", lang="en", expected=expected).answerable is answerable


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (FloorError("x"), 1),
        (InputError("x"), 2),
        (FixtureError("x.json", ["bad"]), 2),
        (ConfigError("x"), 2),
        (UnknownEmbedderError("x"), 2),
        (FingerprintError("x"), 2),
        (ModelError("x"), 3),
        (StoreError("x"), 3),
    ],
)
def test_every_error_has_its_exit_code(error: RecallError, exit_code: int):
    assert error.exit_code == exit_code

"""Two halves that are alike, and no life in both."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from builders import examples
from conftest import built, raw_case
from hypothesis import given
from hypothesis import strategies as st

from recall_core import fixtures, split
from recall_core.records import Fixture

V2 = Path(__file__).parents[1] / "data" / "notes" / "recall_v2.json"
SILENT_KINDS = ("far", "near_miss", "missing_fact")


@pytest.fixture(scope="module")
def lives() -> Fixture:
    return fixtures.load(V2)


def counted(fixture: Fixture, *keys: str) -> dict[str, Counter[tuple[object, ...]]]:
    """How many cases of each (language, silent, ...) combination are in each half."""
    half_of = split.halves(fixture)
    found: dict[str, Counter[tuple[object, ...]]] = {"tune": Counter(), "test": Counter()}
    for case in fixture.cases:
        about = {"lang": case.lang, "silent": not case.answerable}
        found[half_of[case.id]][tuple(about[key] for key in keys)] += 1
    return found


def group(id_: str) -> dict[str, object]:
    return {"id": id_, "memories": [{"id": f"{id_}-m", "text": "x"}]}


def test_no_life_is_in_both_halves(lives: Fixture) -> None:
    half_of = split.halves(lives)
    of_life = {(case.group, half_of[case.id]) for case in lives.cases}
    assert len(of_life) == len(lives.groups)


def test_each_half_has_half_of_the_lives_and_of_the_silent_cases(lives: Fixture) -> None:
    half_of = split.halves(lives)
    assert Counter(half_of.values()) == {"tune": 168, "test": 168}
    silent = Counter(half_of[case.id] for case in lives.cases if not case.answerable)
    assert silent == {"tune": 63, "test": 63}


def test_each_half_has_as_many_of_each_silent_kind_as_the_other(lives: Fixture) -> None:
    half_of = split.halves(lives)
    for kind in SILENT_KINDS:
        halves = Counter(half_of[case.id] for case in lives.cases if kind in case.tags)
        assert halves == {"tune": 21, "test": 21}, kind


def test_languages_differ_by_no_more_than_the_odd_life(lives: Fixture) -> None:
    """19 Russian and 3 German lives cannot be halved: one life, of 8 cases and 3 silent ones, is over."""
    halves = counted(lives, "lang", "silent")
    for key in halves["tune"] | halves["test"]:
        one_life = 3 if key[1] else 5
        assert abs(halves["tune"][key] - halves["test"][key]) <= one_life, key
    assert halves["tune"]["en", True] == halves["test"]["en", True]


def test_topics_and_hard_cases_are_shared_out(lives: Fixture) -> None:
    half_of = split.halves(lives)
    tags = {tag for case in lives.cases for tag in case.tags}
    for tag in tags | {"hard"}:
        has = [case for case in lives.cases if tag in case.tags or (tag == "hard" and case.hard)]
        tune = sum(half_of[case.id] == "tune" for case in has)
        assert 0.4 <= tune / len(has) <= 0.6, tag


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_order_in_the_file_changes_nothing(lives: Fixture, seed: int) -> None:
    cases, groups = list(lives.cases), list(lives.groups)
    random.Random(seed).shuffle(cases)
    random.Random(seed).shuffle(groups)
    shuffled = lives.model_copy(update={"cases": tuple(cases), "groups": tuple(groups)})
    assert split.halves(shuffled) == split.halves(lives)


def test_eight_cases_of_two_kinds_and_languages_are_halved_exactly() -> None:
    fixture = built(
        *(
            raw_case(f"{lang}-{n}", lang=lang)
            if n % 2
            else raw_case(f"{lang}-{n}", lang=lang, expected=[], silent_because="nothing")
            for lang in ("ru", "en")
            for n in range(4)
        )
    )
    halves = counted(fixture, "lang", "silent")
    assert halves["tune"] == halves["test"]
    assert set(halves["tune"].values()) == {1}


def test_an_exchange_mends_what_one_after_another_leaves() -> None:
    """Units of 3, 3, 2, 2, 2 cases one after another: 3 + 2 + 2 against 3 + 2. A 3 for a 2 makes it even."""
    sizes = {"a": 3, "b": 3, "c": 2, "d": 2, "e": 2}
    fixture = built(
        *(
            raw_case(f"{id_}{n}", group=id_, memories=[], expected=[f"{id_}-m"])
            for id_, size in sizes.items()
            for n in range(size)
        ),
        isolation="per_group",
        groups=[group(id_) for id_ in sizes],
    )
    assert Counter(split.halves(fixture).values()) == {"tune": 6, "test": 6}


@examples
@given(st.lists(st.tuples(st.sampled_from(["ru", "en"]), st.booleans()), min_size=2, max_size=20))
def test_halves_of_lone_cases_differ_by_one_in_size(kinds: list[tuple[str, bool]]) -> None:
    fixture = built(
        *(
            raw_case(f"c{n}", lang=lang, **({} if answerable else {"expected": [], "silent_because": "-"}))
            for n, (lang, answerable) in enumerate(kinds)
        )
    )
    halves = Counter(split.halves(fixture).values())
    assert abs(halves["tune"] - halves["test"]) <= 2
    assert halves.total() == len(kinds)


def test_one_case_is_tuned_on() -> None:
    assert split.halves(built()) == {"a": "tune"}


def test_rows_are_marked_with_their_half_and_their_unit() -> None:
    fixture = built(
        *(raw_case(f"{id_}{n}", group=id_, memories=[], expected=[f"{id_}-m"]) for id_ in "ab" for n in "12"),
        isolation="per_group",
        groups=[group("a"), group("b")],
    )
    rows = split.mark(pd.DataFrame({"case_id": ["b2", "a1"]}), fixture)
    assert list(rows["half"]) == ["test", "tune"]
    assert list(rows["unit"]) == ["b", "a"]


def test_cases_of_one_corpus_stay_together_when_they_share_an_expected_memory():
    # a, b and c hang together by m1 and m2; d and e stand alone, and s must stay silent.
    asked = {"a": ["m1"], "b": ["m1", "m2"], "c": ["m2"], "d": ["m3"], "e": ["m4"]}
    cases = [raw_case(id_, memories=[], expected=ids) for id_, ids in asked.items()]
    silent = raw_case("s", memories=[], expected=[], silent_because="nobody said")
    corpus = [{"id": f"m{n}", "text": f"text {n}"} for n in range(1, 5)]
    fixture = built(*cases, silent, isolation="shared", memories=corpus)
    assert split.units(fixture) == {"a": "a", "b": "a", "c": "a", "d": "d", "e": "e", "s": "s"}


def test_one_corpus_is_split_into_halves_that_are_alike():
    # 40 answerable cases, every other one Russian and every fourth hard, and 20 silent ones.
    def asked(n: int) -> dict[str, Any]:
        lang = "ru" if n % 2 else "en"
        if n < 40:
            return raw_case(f"c{n}", lang=lang, hard=n % 4 == 0, memories=[], expected=[f"m{n}"])
        return raw_case(f"c{n}", lang=lang, memories=[], expected=[], silent_because="nobody said")

    corpus = [{"id": f"m{n}", "text": f"text {n}"} for n in range(40)]
    fixture = built(*(asked(n) for n in range(60)), isolation="shared", memories=corpus)
    half_of = split.halves(fixture)
    for picked, total in (
        (lambda case: case.answerable, 40),
        (lambda case: not case.answerable, 20),
        (lambda case: case.lang == "ru", 30),
        (lambda case: case.hard, 10),
    ):
        assert sum(half_of[case.id] == "tune" for case in fixture.cases if picked(case)) == total / 2

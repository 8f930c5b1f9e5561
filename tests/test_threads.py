"""Threads: who is whose neighbour, what a memory says between them, and its date in words."""

import random

import pytest
from conftest import note

from recall_core.records import Memory
from recall_core.threads import AFTER, BEFORE, day, neighbours, said, window


def talk(*ids: str, thread: str = "t") -> list[Memory]:
    return [note(id_, thread=thread, position=at) for at, id_ in enumerate(ids)]


def near(memories: list[Memory]) -> dict[str, str]:
    return {id_: "".join(one.id for one in found) for id_, found in neighbours(memories).items()}


# Neighbours


def test_two_on_either_side_are_neighbours_in_the_order_of_the_thread():
    assert (BEFORE, AFTER) == (2, 2)
    assert near(talk(*"abcdef")) == {
        "a": "bc",
        "b": "acd",
        "c": "abde",
        "d": "bcef",
        "e": "cdf",
        "f": "de",
    }


def test_threads_are_kept_apart():
    assert near([*talk("a", "b"), *talk("x", "y", "z", thread="s")]) == {
        "a": "b",
        "b": "a",
        "x": "yz",
        "y": "xz",
        "z": "xy",
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_order_memories_arrive_in_changes_nothing(seed: int):
    memories = [*talk(*"abcdef"), *talk(*"uvwxyz", thread="s")]
    shuffled = random.Random(seed).sample(memories, len(memories))
    assert near(shuffled) == near(memories)


def test_positions_need_not_be_close_nor_start_anywhere():
    memories = [note(id_, thread="t", position=at) for id_, at in [("a", -5), ("b", 0), ("c", 1000)]]
    assert near(memories) == {"a": "bc", "b": "ac", "c": "ab"}


def test_one_position_twice_stands_in_the_order_of_ids():
    memories = [note(id_, thread="t", position=1) for id_ in "dbca"]
    assert near(memories) == {"a": "bc", "b": "acd", "c": "abd", "d": "bc"}


def test_without_a_thread_or_a_position_there_are_no_neighbours():
    memories = [*talk("a", "b"), note("c"), note("d", thread="t"), note("e", position=1)]
    assert near(memories) == {"a": "b", "b": "a"}
    assert near(talk("a")) == {"a": ""}
    assert near([]) == {}


# What is said


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "text"),
        ({"title": "Title"}, "Title\ntext"),
        ({"speaker": "Ann"}, "Ann: text"),
        ({"speaker": "Ann", "title": "Title"}, "Ann: text"),
        ({"speaker": "", "title": ""}, "text"),
    ],
)
def test_a_memory_is_embedded_after_who_said_it_or_under_its_title(more: dict[str, str], expected: str):
    assert said(note("a", "text", **more)) == expected


def between(memories: list[Memory], id_: str) -> str:
    (memory,) = (memory for memory in memories if memory.id == id_)
    return window(memory, neighbours(memories)[id_])


def test_a_window_holds_one_neighbour_on_either_side():
    memories = talk(*"abcde")
    assert [between(memories, id_) for id_ in "abcde"] == ["a\nb", "a\nb\nc", "b\nc\nd", "c\nd\ne", "d\ne"]
    assert between(talk("a"), "a") == "a"


def test_a_window_says_who_spoke():
    memories = [
        note("a", "Tea?", speaker="Ann", thread="t", position=0),
        note("b", "Please.", speaker="Bo", thread="t", position=1),
        note("c", "Kettle on", title="Log", thread="t", position=2),
    ]
    assert between(memories, "b") == "Ann: Tea?\nBo: Please.\nLog\nKettle on"


def test_a_window_keeps_the_order_of_ids_at_one_position():
    memories = [note(id_, thread="t", position=1) for id_ in "cab"]
    assert [between(memories, id_) for id_ in "abc"] == ["a\nb", "a\nb\nc", "b\nc"]


# Dates


@pytest.mark.parametrize(
    ("lang", "expected"),
    [
        (None, "8 March 2023"),
        ("en", "8 March 2023"),
        ("ru", "8 марта 2023"),
        ("de", "8 März 2023"),
        ("fr", "8 March 2023"),
    ],
)
def test_a_date_is_in_the_language_of_the_memory(lang: str | None, expected: str):
    assert day(note("a", thread="t", ts="2023-03-08T09:00:00+00:00", lang=lang)) == expected


@pytest.mark.parametrize(
    ("ts", "expected"),
    [
        ("2023-01-31T00:00:00+00:00", "31 January 2023"),
        ("2023-12-01T23:59:59Z", "1 December 2023"),
        # The day it was where it was said, not in Greenwich, where it was the 9th.
        ("2023-05-08T23:30:00-05:00", "8 May 2023"),
    ],
)
def test_a_date_is_that_of_its_own_place(ts: str, expected: str):
    assert day(note("a", thread="t", ts=ts)) == expected


def test_only_what_belongs_to_a_thread_and_has_a_time_has_a_date():
    ts = "2023-05-08T10:00:00+00:00"
    assert day(note("a", ts=ts)) == day(note("a", thread="t", position=1)) == ""

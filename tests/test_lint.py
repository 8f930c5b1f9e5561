"""The lint: when a valid fixture is not worth measuring with."""

from typing import Any

import pytest
from conftest import built, raw_case

from recall_core.lint import Finding, lint, shared_words, summary


def asked(query: str, text: str, *, lang: str = "en", memory_lang: str | None = None, **more: Any) -> Any:
    """A fixture of one case that asks `query` of one note."""
    memory = {"id": "a-m", "text": text, "lang": memory_lang or lang}
    return built(raw_case("a", query=query, lang=lang, memories=[memory], **more))


def test_a_paraphrase_passes():
    assert lint(asked("Which door code lets guests in?", "Visitors type 4471 at the gate")) == []


@pytest.mark.parametrize(
    ("query", "text", "shared", "of"),
    [
        ("red kettle", "our kettle broke", 1, 2),  # 1 of 2 is half
        ("red kettle", "the red kettle broke", 2, 2),  # 2 of 2 is more
        ("red steel kettle", "our kettle broke", 1, 3),
        ("red steel kettle", "our red kettle broke", 2, 3),
        ("red steel kettle broke", "our red kettle leaks", 2, 4),  # 2 of 4 is half
        ("red steel kettle broke", "red steel kettle leaks", 3, 4),
        ("where is it?", "where it is", 0, 0),  # function words alone: nothing to share
    ],
)
def test_more_than_half_shared_is_an_error(query: str, text: str, shared: int, of: int):
    fixture = asked(query, text)
    (case,) = fixture.cases
    words, count = shared_words(case, case.memories[0])
    assert (len(words), count) == (shared, of)
    errors = [finding.message for finding in lint(fixture) if finding.level == "error"]
    if shared / max(of, 1) > 1 / 2:
        (message,) = errors
        assert message.startswith(f"shares {shared} of its {of} content words with 'a-m' (")
    else:
        assert errors == []


def test_the_error_names_the_shared_words():
    (finding,) = lint(asked("red kettle", "the red kettle broke"))
    assert finding == Finding(
        "error",
        "copies the words of the memory it looks for",
        "a",
        "shares 2 of its 2 content words with 'a-m' (kettl, red); "
        "at most half may be shared: ask it in other words",
    )


@pytest.mark.parametrize(
    ("query", "text"), [("где серверы", "сервера стоят в шкафу"), ("где ЁЛКИ", "елка на балконе")]
)
def test_russian_endings_do_not_hide_a_copy(query: str, text: str):
    (finding,) = lint(asked(query, text, lang="ru"))
    assert finding.level == "error"
    assert finding.message.startswith("shares 1 of its 1 content words with 'a-m' (")


def test_english_words_are_seen_in_a_russian_question():
    (finding,) = lint(asked("где containers?", "container стоит", lang="ru"))
    assert finding.message.startswith("shares 1 of its 1 content words with 'a-m' (contain)")


def test_words_shared_with_a_memory_that_is_not_expected_are_fine():
    bait = {"id": "bait", "text": "red kettle"}
    answer = {"id": "a-m", "text": "scarlet pot"}
    assert lint(built(raw_case("a", query="red kettle", memories=[bait, answer]))) == []


def test_hard_means_no_shared_word():
    query, text = "red steel kettle", "our kettle broke"  # 1 of 3
    assert lint(asked(query, text)) == []
    assert lint(asked(query, text, hard=True)) == [
        Finding(
            "error",
            "is marked hard and shares words",
            "a",
            "is marked hard, but shares kettl with 'a-m'; reword, or unmark it",
        )
    ]
    assert lint(asked(query, "the scarlet pot broke", hard=True)) == []


def test_a_hard_case_may_share_words_with_what_it_does_not_expect():
    memories = [{"id": "bait", "text": "red kettle"}, {"id": "a-m", "text": "scarlet pot"}]
    assert lint(built(raw_case("a", query="red kettle", memories=memories, hard=True))) == []


@pytest.mark.parametrize(("text", "warned"), [("red kettle", True), ("blue kettle", False)])
def test_a_near_answer_to_a_silent_case_is_a_warning(text: str, warned: bool):
    found = lint(asked("red kettle", text, expected=[], silent_because="nobody said"))
    expected = Finding(
        "warning",
        "must stay silent and shares most words with a memory",
        "a",
        "must stay silent, but 'a-m' has 2 of its 2 content words (kettl, red); "
        "check that it does not state the answer",
    )
    assert found == [expected] * warned


def test_filler_too_can_be_a_near_answer():
    fixture = built(
        raw_case("a", query="red kettle", expected=[], silent_because="nobody said"),
        filler=[{"id": "f", "text": "a red kettle"}],
    )
    (finding,) = lint(fixture)
    assert (finding.level, finding.case_id) == ("warning", "a")
    assert "'f' has 2 of its 2" in finding.message


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Where is it?", "where, is IT", True),
        ("Где ёлка?", "где елка", True),
        ("🙂", "🙂", True),
        ("🙂", "🙃", False),
        ("Where is it?", "is it where?", False),
        ("Where is it?", "where is its", False),
    ],
)
def test_the_same_question_asked_twice_is_an_error(first: str, second: str, same: bool):
    found = lint(built(raw_case("a", query=first), raw_case("b", query=second), raw_case("c", query=first)))
    twice = [finding for finding in found if "asks the same as" in finding.message]
    assert [finding.case_id for finding in twice] == (["b", "c"] if same else ["c"])
    assert all("case 'a'" in finding.message for finding in twice)


@pytest.mark.parametrize(
    ("query", "lang", "plausible"),
    [
        ("где ключи", "ru", True),
        ("где docker compose и kubernetes", "ru", True),
        ("where are the keys", "ru", False),
        ("where are the keys", "en", True),
        ("где ключи", "en", False),
        ("where is Соня", "en", True),
        ("wo ist Zoë", "de", True),
        ("де ключі", "uk", True),
        ("12:40?", "ru", True),
        ("12:40?", "en", True),
        ("🙂", "en", True),
    ],
)
def test_an_implausible_language_is_an_error(query: str, lang: str, plausible: bool):
    found = lint(asked(query, "0000", lang=lang))
    assert found == [
        Finding(
            "error",
            "is in another script than its language",
            "a",
            f"is tagged {lang!r}, but {query!r} is in another script",
        )
        for _ in range(not plausible)
    ]


def test_an_implausible_language_of_a_memory_is_a_warning():
    assert lint(asked("where?", "у соседа", memory_lang="en")) == [
        Finding(
            "warning",
            "a memory is in another script than its language",
            "a",
            "memory 'a-m' is tagged 'en', but is in another script",
        )
    ]
    assert lint(asked("where?", "у соседа", memory_lang="ru")) == []


def test_memories_without_a_word_and_ids_that_look_alike_are_warned_of():
    brought = [note_of("a-m", "at noon"), note_of("A-m", "at one"), note_of("x", "?!")]
    found = lint(built(raw_case("a", memories=brought)))
    assert [(item.kind, item.case_id) for item in found] == [
        ("two ids look alike", "A-m"),
        ("a memory holds no word", "x"),
    ]


def note_of(id_: str, text: str) -> dict[str, str]:
    return {"id": id_, "text": text}


def test_a_summary_has_a_line_a_kind_with_its_count_and_three_examples():
    odd = [Finding("warning", "is odd", f"c{n}", "said") for n in range(700)]
    assert summary([*odd, Finding("error", "is bad", "d", "said")]) == [
        "error: 1 x is bad: d",
        "warning: 700 x is odd: c0, c1, c2, ...",
    ]

"""Content words: what the paraphrase lint and the word index see of a text."""

import pytest
from builders import examples
from hypothesis import given
from hypothesis import strategies as st

from recall_core.words import (
    STEMMERS,
    STOP_WORDS,
    content_stems,
    excerpt,
    folded,
    indexed,
    marked,
    search_terms,
    stem,
    tokens,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ночью, в 3:40 — «Ёлка»!", ["ночью", "в", "3", "40", "елка"]),
        ("don't STOP", ["don", "t", "stop"]),
        ("Straße", ["strasse"]),
        ("ﬁne x²", ["fine", "x2"]),
        ("квартира №5", ["квартира", "5"]),
        ("е\u0308ж", ["еж"]),
        ("🙂 … —", []),
        ("", []),
        ("\0\ud800", []),
    ],
)
def test_a_text_falls_into_words(text: str, words: list[str]):
    assert tokens(text) == words


def test_folding_keeps_what_is_not_a_word():
    assert folded("Ёж — ЁЖ!") == "еж — еж!"


@pytest.mark.parametrize(
    ("one", "other", "lang"),
    [
        ("серверы", "сервера", "ru"),
        ("сервером", "серверов", "ru"),
        ("ключи", "ключа", "ru"),
        ("ёлка", "елки", "ru"),
        ("keys", "key", "en"),
        ("printing", "printed", "en"),
        ("rooms", "room", "en"),
    ],
)
def test_forms_of_a_word_share_a_stem(one: str, other: str, lang: str):
    assert len(content_stems(one, lang)) == 1
    assert content_stems(one, lang) == content_stems(other, lang)


@pytest.mark.parametrize(
    ("one", "other", "lang"), [("сервер", "сервис", "ru"), ("кот", "код", "ru"), ("note", "knot", "en")]
)
def test_other_words_have_other_stems(one: str, other: str, lang: str):
    assert content_stems(one, lang).isdisjoint(content_stems(other, lang))


@pytest.mark.parametrize(
    ("text", "lang"),
    [("what is it that you have", "en"), ("что у меня есть и где оно", "ru"), ("wo ist das denn", "de")],
)
def test_function_words_leave_nothing(text: str, lang: str):
    assert content_stems(text, lang) == frozenset()


@pytest.mark.parametrize("word", ["keys", "room", "system", "computer", "interest"])
def test_words_that_other_stop_lists_drop_are_seen(word: str):
    assert content_stems(word, "en")


def test_a_word_in_the_other_script_has_that_language():
    stems = content_stems("перезапустил the containers", "ru")
    assert stems == {stem("перезапустил", "ru"), stem("containers", "en")}
    assert "the" not in stems
    assert content_stems("серверы", "en") == content_stems("сервера", "ru")


def test_a_language_without_a_stemmer_keeps_its_words():
    assert content_stems("Talot talossa", "fi") == {"talot", "talossa"}


@pytest.mark.parametrize("lang", sorted(STEMMERS))
def test_every_stemmer_stems(lang: str):
    plural = {"ru": "ключами", "en": "keys", "de": "katzen", "es": "gatos", "fr": "chatons", "it": "gatti"}
    assert len(stem(plural[lang], lang)) < len(plural[lang])


@pytest.mark.parametrize("lang", sorted(STOP_WORDS))
def test_stop_words_are_spelt_as_tokens_are(lang: str):
    # A stop word that folding changes would never be met.
    unreachable = {word for word in STOP_WORDS[lang] if tokens(word) != [word]}
    assert {word for word in unreachable if not set(tokens(word)) <= STOP_WORDS[lang]} == set()


# What the word index holds, and what it is asked for


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("серверы", "сервером"),
        ("ключами", "ключа"),
        ("ёлки", "елка"),
        ("printing", "printed"),
        ("connections", "connected"),
        ("keys", "KEY"),
        ("Décisions", "décision"),
    ],
)
def test_forms_of_a_word_meet_in_the_index(one: str, other: str):
    assert indexed(one) == indexed(other)
    assert search_terms(one) == search_terms(other) == [indexed(one)]


@pytest.mark.parametrize(("one", "other"), [("серверы", "сервисы"), ("коты", "коды"), ("notes", "knots")])
def test_other_words_do_not(one: str, other: str):
    assert indexed(one) != indexed(other)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("Printed ключами, twice: printed!", "print ключ twice print"),
        ("the and", "the and"),
        ("S, Porter's s", "s porter s s"),
        ("docker-контейнеры x86", "docker контейнер x86"),
        ("", ""),
        ("🙂 — \0", ""),
    ],
)
def test_a_text_is_held_word_for_word_and_stemmed(text: str, held: str):
    assert indexed(text) == held


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("what is printed on the labels", ["print", "label"]),
        ("где лежат ключи от сервера?", ["лежат", "ключ", "сервер"]),
        ("who are you", ["who", "ar", "you"]),
        ("где это", ["где", "эт"]),
        ("key keys KEY the keys", ["kei"]),
        ("the ключи und das Schloss", ["ключ", "schloss"]),
        ("", []),
        ("?! 🙂", []),
    ],
)
def test_terms_are_distinct_stems_without_stop_words_unless_there_is_nothing_else(
    query: str, terms: list[str]
):
    assert search_terms(query) == terms


@given(st.text(max_size=200))
@examples
def test_a_text_is_found_by_each_of_its_own_terms(text: str):
    assert set(search_terms(text)) <= set(indexed(text).split())
    assert bool(search_terms(text)) == bool(tokens(text))


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        (
            "Реле Omron, купил третье: ключи от сервера.",
            "ключом и серверы",
            "Реле Omron, купил третье: **ключи** от **сервера**.",
        ),
        (
            "The printer printed; we are printing.",
            "what is print",
            "The printer **printed**; we are **printing**.",
        ),
        ("Docker-контейнеры падают", "контейнер docker", "**Docker**-**контейнеры** падают"),
        ("ЁЛКА в углу", "елка", "**ЁЛКА** в углу"),
        ("the pot and the pan", "the pan", "the pot and the **pan**"),
        ("the pot", "the", "**the** pot"),
        ("start the artery", "art", "start the artery"),
        ("Straße 5", "STRASSE", "**Straße** 5"),
        ("foo_bar", "bar", "foo_**bar**"),
        ("nothing here", "else", "nothing here"),
        ("a\nkey\n\n", "keys", "a\n**key**\n\n"),
        ("", "keys", ""),
        ("keys", "", "keys"),
    ],
)
def test_words_that_match_are_marked_and_nothing_else_changes(text: str, query: str, shown: str):
    assert marked(text, query) == shown


@given(st.text(max_size=80), st.text(max_size=30))
@examples
def test_marking_only_adds_asterisks(text: str, query: str):
    assert marked(text, query).replace("*", "") == text.replace("*", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A page.\n\n  The kayak leaks.\nIt is red.", "The **kayak** leaks."),
        ("kayak\na kayak and a paddle", "a **kayak** and a **paddle**"),
        ("Nothing of it.\nNor here.", "Nothing of it."),
        ("\n \n", ""),
        (f"{'x' * 30} kayak {'y' * 30}", f"…{'x' * 15} **kayak** {'y' * 6}…"),
        (f"kayak {'y' * 30}", f"**kayak** {'y' * 22}…"),
    ],
)
def test_an_excerpt_is_the_line_that_matches_most(text: str, shown: str):
    assert excerpt(text, "kayak, paddle", most=32) == shown

"""Content words: what the paraphrase lint and the word index see of a text."""

import pytest

from recall_core.words import STEMMERS, STOP_WORDS, content_stems, folded, stem, tokens


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

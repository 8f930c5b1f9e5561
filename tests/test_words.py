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
    words_of,
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


@pytest.mark.parametrize(
    ("text", "held", "terms"),
    [
        ("我的猫", "我 的 猫 我的 的猫", ["我的", "的猫"]),
        ("猫", "猫", ["猫"]),
        # Kanji, hiragana and katakana are runs of their own: a noun is met whatever particle follows.
        ("東京はどこ", "東 京 東京 は ど こ はど どこ", ["東京", "はど", "どこ"]),
        ("猫の名", "猫 の 名", ["猫", "名"]),
        ("ﾊﾟﾝ", "パ ン パン", ["パン"]),
        ("Docker容器3月", "docker 容 器 容器 3 月", ["docker", "容器", "3", "月"]),
        ("แมว", "แ ม ว แม มว", ["แม", "มว"]),
        ("ມາ", "ມ າ ມາ", ["ມາ"]),
        ("고양이 집", "고양이 집", ["고양이", "집"]),
        # A vowel or tone is moved to the private letter U+F0000 further on, and stays with its consonant.
        (
            "ที่นี่",
            "ท\U000f0e35\U000f0e48 น\U000f0e35\U000f0e48 ท\U000f0e35\U000f0e48น\U000f0e35\U000f0e48",
            ["ท\U000f0e35\U000f0e48น\U000f0e35\U000f0e48"],
        ),
        ("မာ", "မ\U000f102c", ["မ\U000f102c"]),
        ("កា", "ក\U000f17b6", ["ក\U000f17b6"]),
        ("हिन्दी", "ह\U000f093fन\U000f094dद\U000f0940", ["ह\U000f093fन\U000f094dद\U000f0940"]),
        ("\u0e31 \u093f", "", []),
        (
            "\U00020bb7野\U0002ffff",
            "\U00020bb7 野\U000fffff \U00020bb7野\U000fffff",
            ["\U00020bb7野\U000fffff"],
        ),
    ],
)
def test_scripts_without_blanks_are_looked_up_by_pairs(text: str, held: str, terms: list[str]):
    assert (indexed(text), search_terms(text)) == (held, terms)


@pytest.mark.parametrize(
    ("word", "parts", "whole"),
    [
        ("C++", ["c"], "c\U000f002b\U000f002b"),
        ("C#", ["c"], "c\U000f0023"),
        ("F#", ["f"], "f\U000f0023"),
        (".NET", ["net"], "\U000f002enet"),
        ("Node.js", ["node", "j"], "node\U000f002ejs"),
        ("v2.0.1", ["v2", "0", "1"], "v2\U000f002e0\U000f002e1"),
        ("foo_bar", ["foo", "bar"], "foo\U000f005fbar"),
        ("café_bar", ["cafe", "bar"], "cafe\U000f005fbar"),
        ("me@example.com", ["exampl", "com"], "me\U000f0040example\U000f002ecom"),
    ],
)
def test_a_compound_is_a_word_and_so_are_its_parts(word: str, parts: list[str], whole: str):
    # The dot after it keeps the index from stemming it.
    assert search_terms(f"where is {word}?") == [*parts, f"{whole}\U000f002e"]
    assert set(search_terms(word)) <= set(indexed(f"({word})").split())


@pytest.mark.parametrize(
    "text",
    ["end. Next", "so...and", "5 + 3", "# Heading", "a#tag", "_slanted_", "__init__", "1,5", "a-b", "c/d"],
)
def test_what_is_no_compound_stays_plain_words(text: str):
    assert search_terms(text) == search_terms(" ".join(tokens(text)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("καφέ", "ΚΑΦΕ"),
        ("καφε\u0301", "καφε"),
        ("ὁδός", "ΟΔΟΣ"),
        ("İstanbul", "istanbul"),
        ("n\u0308ame", "name"),
        ("за\u0301мок", "замок"),
        ("ѝ", "и"),
        ("со\u00adба\u00adка", "собака"),
        ("שָׁלוֹם", "שלום"),
        ("كِتَاب", "كتاب"),
    ],
)
def test_accents_fold_alike(one: str, other: str):
    assert indexed(one) == indexed(other)
    assert content_stems(one, "el") == content_stems(other, "el")


@pytest.mark.parametrize(("one", "other"), [("йод", "иод"), ("їх", "іх"), ("ў", "у"), ("ґ", "г")])
def test_letters_that_only_look_marked_stay(one: str, other: str):
    assert indexed(one) != indexed(other)


def test_words_of_a_text_keep_their_order():
    assert words_of("Das schöne 東京都, node.js") == ["das", "schöne", "東京", "京都", "node", "js"]
    assert content_stems("東京 C++", "ja") == {"東京", "c"}


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
        ("Use C++, not C", "c++", "Use **C++**, not **C**"),
        ("node.js and nodes", "js", "node.**js** and nodes"),
        ("黒い猫の名前はタマ", "猫の名前", "黒い**猫**の**名前**はタマ"),
        ("東京都に", "京都", "東**京都**に"),
        ("น้ำอยู่ที่ไหน", "น้ำ", "**น้ำ**อยู่ที่ไหน"),
        ("за\u0301мки тут", "замок", "за\u0301мки тут"),
        ("за\u0301мок тут", "замок", "**за\u0301мок** тут"),
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

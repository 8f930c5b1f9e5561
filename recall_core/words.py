"""Content words: what is left of a text when function words and endings are taken away.

The paraphrase lint rests on this. The stop lists hold function words only. The lists in the usual
packages also drop words such as "keys", "room" and "system", and a lint that cannot see those words
cannot see them being copied.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter

import snowballstemmer

STEMMERS = {
    "ru": "russian",
    "en": "english",
    "de": "german",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
}

STOP_WORDS = {
    "en": frozenset(
        """a about after again all also am an and any are as at be because been before being but by can
        could did do does doing don for from get got had has have having he her here hers him his how i if
        in into is it its just let ll me more most much my no nor not now of off on once one only or other
        our ours out over own re s same shall she should so some such t than that the their theirs them
        then there these they this those through to too until up us ve very was we were what when where
        which while who whom whose why will with would you your yours""".split()
    ),
    "ru": frozenset(
        """а без бы был была были было быть в вам вами вас ваш ваша ваше ваши во вот все всего всей всем
        всеми всех всю вся всё где да для до его ее ей ему если есть еще же за и из или им ими их к как
        какая какие какого какое какой каком какому какую каких какими ко когда которая которого которое
        которой которую которые который которых кто кого кому кем куда ли меня мне мной мои моего моей
        моем моему моих моя мое мой моим моими мою мы на над надо нам нами нас наш наша наше наши не него
        нее ней нет ни ним ними них но ну о об он она они оно от откуда очень по под при про с сам сама
        сами само свое своего своей своем своему свой своих свою своя свои себе себя собой со та так такая
        такие такое такой там те тебе тебя тем теми тех то того тоже той только том тому тот тут ты у уже
        хоть чего чем чему что чтобы чья чье чей чьи эта эти этим этими этих это этого этой этом этому
        этот эту я зачем почему сколько ведь лишь либо разве""".split()
    ),
    "de": frozenset(
        """aber alle allem allen aller alles als also am an auch auf aus bei bin bis bist da damit dann das
        dass daß dein deine deinem deinen deiner dem den denn der des dich die dies diese diesem diesen
        dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer eure
        für habe haben hat hatte hatten hier hin ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist
        ja jede jedem jeden jeder jedes jetzt kann kein keine keinem keinen keiner können könnte man mein
        meine meinem meinen meiner mich mir mit muss nach nicht noch nun nur ob oder ohne sehr sein seine
        seinem seinen seiner sich sie sind so soll über um und uns unser unsere unter vom von vor war waren
        warum was weil welche welchem welchen welcher welches wenn wer werde werden wie wieder will wir
        wird wo wollen woher wohin wurde würde zu zum zur zwar""".split()
    ),
    "ja": frozenset("は が の を に へ と で も や か ね よ い る た な し です ます".split()),
}

STRESS = "\u0301"
"""The mark over a stressed vowel: dictionaries write it, people who ask do not."""
_WORD = re.compile(r"[^\W_]+")

_HAN = "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_THAI = "\u0e01-\u0e3a\u0e40-\u0e4e"
_LAO = "\u0e81-\u0ece\u0edc-\u0edf"
_MYANMAR = "\u1000-\u103f\u1050-\u108f\u109a-\u109f\uaa60-\uaa7f"
_KHMER = "\u1780-\u17d3\u17d7\u17dc\u17dd"
_SPACELESS = (_HAN, _HIRAGANA, _KATAKANA, _THAI, _LAO, _MYANMAR, _KHMER)
"""The scripts that put no blanks between words. A run of one of them is looked up by pairs of characters."""
_POINTS = "\u00ad\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u064b-\u065f\u0670"
"""Marks people leave out: a soft hyphen, accents that did not compose, Hebrew points, Arabic vowels."""
_INDIC = "\u0900-\u0963\u0970-\u0dff"
"""Scripts whose vowels are marks that belong to the word."""
_LETTER = rf"(?:[0-9A-Za-zА-яё]+|[^\W_{''.join(_SPACELESS)}]+)"  # the common ones first: twice as fast
_LETTERS = rf"{_LETTER}(?:{_LETTER}|[{_POINTS}{_INDIC}]+)*"
_RUN = "|".join(f"[{script}]+" for script in _SPACELESS)
_COMPOUND = rf"(?:(?<![\w.])\.)?{_LETTERS}(?:(?:[.@]|_+){_LETTERS})*(?:\+\+|\#(?!\w))?"
"""`C++`, `C#`, `.NET`, `node.js`, `v2.0.1`, `foo_bar`, `user@example.com`: a word, and so are its parts."""
_PIECE = re.compile(rf"(?=[\w.])(?:{_COMPOUND}|{_RUN})")
_PART = re.compile(rf"(?=\w)(?:{_LETTERS}|{_RUN})")
_UNSPACED = re.compile(_RUN)
_SIGN = re.compile(r"\w\W*")
"""A character with the vowels and tones over and under it."""
_POINT = re.compile(f"[{_POINTS}]")
_JOINT = re.compile("[._@+#]")
_PRIVATE = 0xF0000


def folded(text: str) -> str:
    """A text in lower case and one spelling; `ё` is read as `е`, as people type it, and `№` as nothing."""
    composed = unicodedata.normalize("NFKC", text.replace("№", " ")).casefold()
    return composed.replace("ё", "е").replace(STRESS, "")


def tokens(text: str) -> list[str]:
    """Words of the folded text, in order. The hash embedder's fingerprint stands for what this gives."""
    return _WORD.findall(folded(text))


def words_of(text: str) -> list[str]:
    """Words of the folded text, in order and without points; pairs of characters where no blanks are."""
    return [word for part in _PART.findall(_pointless(text)) for word in _words(part)]


def indexed(text: str) -> str:
    """A text as the word index holds it: its words in order, stemmed, with blanks between.

    A compound stands there after its parts. Where no blanks are, each character stands there beside the
    pairs: a question of one character finds it anywhere. When this changes, `database.MIGRATIONS` must
    index old stores anew.
    """
    return " ".join(map(_held, _PIECE.findall(_pointless(text))))


def search_terms(query: str) -> list[str]:
    """The distinct terms to look a query up by: stop words are dropped, unless there is nothing else."""
    words = [word for piece in _PIECE.findall(_pointless(query)) for word in _words(piece)]
    content = [word for word in words if not any(word in stops for stops in STOP_WORDS.values())]
    return list(dict.fromkeys(_search_stem(word) for word in content or words))


def marked(text: str, query: str) -> str:
    """The text with the words that match the query between `**`."""
    wanted = set(search_terms(query))

    def hit(text: str) -> bool:
        return not wanted.isdisjoint(_looked_up(text))

    def mark(found: re.Match[str]) -> str:
        piece = found[0]
        if _UNSPACED.match(piece):
            signs = _SIGN.findall(piece)
            pairs = [hit(one + other) for one, other in pairwise(signs)]
            hits = [
                hit(sign) or before or after
                for sign, before, after in zip(signs, [False, *pairs], [*pairs, False], strict=True)
            ]
            runs = groupby(zip(hits, signs, strict=True), key=itemgetter(0))
            return "".join(_starred("".join(sign for _, sign in run), on) for on, run in runs)
        if piece.isalnum() or not hit(piece) or _looked_up(piece)[-1] in wanted:
            return _starred(piece, hit(piece))
        return _PART.sub(lambda part: _starred(part[0], hit(part[0])), piece)

    return _PIECE.sub(mark, text)


def _starred(text: str, on: bool) -> str:
    return f"**{text}**" if on else text


def excerpt(text: str, query: str, most: int = 160) -> str:
    """The line of a text in which most words match the query, marked, and cut around the first of them."""
    lines = [marked(line.strip(), query) for line in text.splitlines() if line.strip()]
    best = max(lines, key=lambda line: line.count("**"), default="")
    start = max(0, best.find("**") - most // 2) if len(best) > most else 0
    cut = best[start : start + most]
    return ("…" if start else "") + cut + ("…" if start + most < len(best) else "")


def _pointless(text: str) -> str:
    """The folded text without the marks people leave out. `й` and `ї` are letters, `ѝ` a marked `и`."""
    return _POINT.sub("", folded(text)).replace("ѐ", "е").replace("ѝ", "и")


def _words(piece: str, *, alone: bool = False) -> list[str]:
    """What a piece is looked up by; with `alone` also each character of a run without blanks."""
    if _UNSPACED.match(piece):
        signs = _SIGN.findall(piece)
        pairs = [one + other for one, other in pairwise(signs)]
        return signs + pairs if alone else pairs or signs
    parts = _PART.findall(piece)
    return parts if parts == [piece] else [*parts, piece]


@lru_cache(maxsize=200_000)
def _held(piece: str) -> str:
    return " ".join(map(_search_stem, _words(piece, alone=True)))


@lru_cache(maxsize=200_000)
def _looked_up(text: str) -> tuple[str, ...]:
    """The stems of a text as typed; of a compound the whole is the last."""
    pieces = _PIECE.findall(_pointless(text))
    return tuple(_search_stem(word) for piece in pieces for word in _words(piece))


@lru_cache(maxsize=200_000)
def _search_stem(word: str) -> str:
    """Porter's stem of a Latin word, Snowball's of a Russian one: a query's language is not known.

    Letters lose their marks, and Porter is asked until nothing changes: the index does both once more, and
    must find nothing to do, or its words are not the ones we count. A compound is not stemmed.
    """
    bare = _unmarked(word)
    if _JOINT.search(word):
        return _as_letters(f"{bare}.")  # the dot keeps the index from stemming
    if "а" <= word[0] <= "я":
        return str(_stemmer("russian").stemWord(word))
    while (stemmed := str(_stemmer("porter").stemWord(bare))) not in (bare, ""):  # "s" leaves nothing
        bare = stemmed
    return _as_letters(bare)


def _as_letters(word: str) -> str:
    """Every sign the index would split at, moved to a plane of private letters (U+F0000), which it keeps.

    No text can hold one as part of a word, so that no two words meet.
    """
    return "".join(sign if sign.isalnum() else chr(_PRIVATE + ord(sign) % 0x10000) for sign in word)


def _unmarked(word: str) -> str:
    """Latin and Greek letters without their marks."""
    bases = ((letter, unicodedata.normalize("NFD", letter)[0]) for letter in word)
    return "".join(base if "a" <= base <= "z" or "α" <= base <= "ω" else letter for letter, base in bases)


@lru_cache(maxsize=20_000)
def content_stems(text: str, lang: str) -> frozenset[str]:
    """The distinct stems of a text's content words. Empty for a text of function words alone."""
    return frozenset(
        stem(word, spoken)
        for word in words_of(text)
        if word not in STOP_WORDS.get(spoken := _lang_of(word, lang), frozenset())
    )


@lru_cache(maxsize=100_000)
def stem(word: str, lang: str) -> str:
    """The Snowball stem of a lower-cased word, without marks; where a language has no stemmer, the word."""
    name = STEMMERS.get(lang)
    return _unmarked(str(_stemmer(name).stemWord(word)) if name else word)


def _lang_of(word: str, lang: str) -> str:
    """A word in the other script is that script's language: 'docker' in a Russian sentence."""
    if lang == "ru" and word.isascii():
        return "en"
    if lang != "ru" and "а" <= word[0] <= "я":
        return "ru"
    return lang


@lru_cache(maxsize=16)
def _stemmer(name: str) -> snowballstemmer.stemmer:
    return snowballstemmer.stemmer(name)

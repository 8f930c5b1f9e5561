"""Content words: what is left of a text when function words and endings are taken away.

The paraphrase lint rests on this. The stop lists hold function words only. The lists in the usual
packages also drop words such as "keys", "room" and "system", and a lint that cannot see those words
cannot see them being copied.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

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
}

STRESS = "\u0301"
"""The mark over a stressed vowel: dictionaries write it, people who ask do not."""
_WORD = re.compile(r"[^\W_]+")


def folded(text: str) -> str:
    """A text in lower case and one spelling; `ё` is read as `е`, as people type it, and `№` as nothing."""
    composed = unicodedata.normalize("NFKC", text.replace("№", " ")).casefold()
    return composed.replace("ё", "е").replace(STRESS, "")


def tokens(text: str) -> list[str]:
    """Words of the folded text, in order."""
    return _WORD.findall(folded(text))


def indexed(text: str) -> str:
    """A text as the word index holds it: its words in order, stemmed, with blanks between."""
    return " ".join(_search_stem(word) for word in tokens(text))


def search_terms(query: str) -> list[str]:
    """The distinct terms to look a query up by: stop words are dropped, unless there is nothing else."""
    words = list(dict.fromkeys(tokens(query)))
    content = [word for word in words if not any(word in stops for stops in STOP_WORDS.values())]
    return list(dict.fromkeys(_search_stem(word) for word in content or words))


def marked(text: str, query: str) -> str:
    """The text with the words that match the query between `**`."""
    wanted = set(search_terms(query))

    def mark(found: re.Match[str]) -> str:
        hit = any(_search_stem(word) in wanted for word in tokens(found[0]))
        return f"**{found[0]}**" if hit else found[0]

    return _WORD.sub(mark, text)


def excerpt(text: str, query: str, most: int = 160) -> str:
    """The line of a text in which most words match the query, marked, and cut around the first of them."""
    lines = [marked(line.strip(), query) for line in text.splitlines() if line.strip()]
    best = max(lines, key=lambda line: line.count("**"), default="")
    start = max(0, best.find("**") - most // 2) if len(best) > most else 0
    cut = best[start : start + most]
    return ("…" if start else "") + cut + ("…" if start + most < len(best) else "")


@lru_cache(maxsize=200_000)
def _search_stem(word: str) -> str:
    """Porter's stem of a Latin word, Snowball's of a Russian one: a query's language is not known.

    Latin letters lose their marks, and Porter is asked until nothing changes: the index does both once more,
    and must find nothing to do, or its words are not the ones we count.
    """
    if "а" <= word[0] <= "я":
        return str(_stemmer("russian").stemWord(word))
    bare = "".join(_without_mark(letter) for letter in word)
    while (stemmed := str(_stemmer("porter").stemWord(bare))) not in (bare, ""):  # "s" leaves nothing
        bare = stemmed
    return bare


def _without_mark(letter: str) -> str:
    base = unicodedata.normalize("NFD", letter)[0]
    return base if "a" <= base <= "z" else letter


@lru_cache(maxsize=20_000)
def content_stems(text: str, lang: str) -> frozenset[str]:
    """The distinct stems of a text's content words. Empty for a text of function words alone."""
    return frozenset(
        stem(word, spoken)
        for word in tokens(text)
        if word not in STOP_WORDS.get(spoken := _lang_of(word, lang), frozenset())
    )


@lru_cache(maxsize=100_000)
def stem(word: str, lang: str) -> str:
    """The Snowball stem of a lower-cased word; the word itself where the language has no stemmer."""
    name = STEMMERS.get(lang)
    return str(_stemmer(name).stemWord(word)) if name else word


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

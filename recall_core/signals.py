"""Signals: what else there is to know about a top hit. All of them are larger for more confident.

None needs a label. A gate on any of them opens above a threshold, as the margin gate does.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recall_core.records import Memory, Ranking
from recall_core.words import STOP_WORDS, content_stems, indexed, search_terms

SIGNALS: Mapping[str, str] = {
    "top1": "what answers a question is near to it",
    "margin": "what answers a question is nearer to it than anything else is",
    "distinct_margin": "a note that says the same once more is no rival: the right answer may have a twin",
    "keyword_score": "what answers a question shares rare words with it",
    "vector_score": "the cosine of the winner, whatever else was fused with it",
    "vector_margin": "the winner's cosine is ahead of every other's",
    "agreement": "two searches that go by different evidence seldom err on the same memory",
    "coverage": "what answers a question speaks of what the question speaks of, of its rare words above all",
    "subject": "a note about somebody else does not answer, however near it is",
}
"""Name -> the reason to think that it tells a right answer from a question that has none."""
NAMELESS = 0.5
"""The subject match of a question that names nobody: neither a match nor a mismatch."""
K1, B = 1.2, 0.75
"""How soon a repeated word stops counting, and how much a long memory is held back: bm25's usual values."""
SAME = 0.8
"""Share of content words, of all that two memories have, from which on they say the same."""

_WORD = re.compile(r"[^\W_]+")
_OPENING = " \t\"'«„“‘(—–-"
_STOPS = frozenset[str]().union(*STOP_WORDS.values())


@dataclass(frozen=True, slots=True)
class Signals:
    """One case's signals, but for `top1` and `margin`, which follow from the scores.

    `distinct_margin`: the top score less the best one that says something else. On the scale of the scores;
    +inf when nothing says anything else.
    `keyword_score`: bm25 of the winner, 0 where no word is shared.
    `vector_score`, `vector_margin`: the winner's own score in the stream `vector`, and how far it is ahead of
    the best other's there. -inf where the path has no such part; the margin is +inf without a runner-up.
    `agreement`: mean of 1/rank of the winner in the keyword list and 1/rank of the keyword winner in this
    one. 0 to 1; 0 when no word is shared with anything.
    `coverage`: share of the question's idf that stands in the winner. 0 to 1; 0 for a question without
    content words.
    `subject`: share of the question's names in the winner. 0 to 1; `NAMELESS` for a question without any.
    """

    distinct_margin: float
    keyword_score: float
    vector_score: float
    vector_margin: float
    agreement: float
    coverage: float
    subject: float


MEASURED = tuple(field.name for field in fields(Signals))
"""The signals a run keeps a column of."""
NOTHING = Signals(*[-np.inf] * len(MEASURED))
"""Nothing was found, or the search failed."""
UNMEASURED = Signals(*[np.nan] * len(MEASURED))
"""The ranking was scored without its memories."""


@dataclass(frozen=True)
class Known:
    """What a store holds, as far as words go. Make one with `known`."""

    memories: Mapping[str, Memory]
    place: Mapping[str, int]
    """Of each id, in the arrays."""
    postings: Mapping[str, tuple[NDArray[np.intp], NDArray[np.float64]]]
    """Stem -> the places it stands in, and what it adds to their bm25."""
    names: frozenset[str]

    def keyword(self, query: str) -> NDArray[np.float64]:
        """(n,) bm25 of every memory (Robertson and Zaragoza, 2009); 0 where no word is shared."""
        scores = np.zeros(len(self.memories))
        for term in search_terms(query):
            if term in self.postings:
                places, worth = self.postings[term]
                scores[places] += worth
        return scores

    def rarity(self, term: str) -> float:
        """The idf of a term, that of bm25; above 0."""
        held = len(self.postings[term][0]) if term in self.postings else 0
        return _idf(len(self.memories), held)


def known(memories: Sequence[Memory]) -> Known:
    """Index a store's memories by their words. Every store gives the same: nothing here is its own."""
    by_id = {memory.id: memory for memory in sorted(memories, key=lambda memory: memory.id)}
    return Known(
        by_id,
        {id_: place for place, id_ in enumerate(by_id)},
        _postings([indexed(_body(memory)).split() for memory in by_id.values()]),
        frozenset().union(*(_known_names(memory) for memory in by_id.values())),
    )


def signals_of(query: str, lang: str, ranking: Ranking, known: Known) -> Signals:
    """All signals of a ranking of a store's memories. A hit that is none of them raises KeyError."""
    if not ranking.hits:
        return NOTHING
    winner = known.memories[ranking.hits[0].id]
    words = known.keyword(query)
    cosine = [hit.own("vector") for hit in ranking.hits]
    runner_up = max(cosine[1:], default=-np.inf)
    named, there = _names(query, lang) | (_stems(query) & known.names), _stems(_body(winner))
    return Signals(
        distinct_margin=_distinct_margin(ranking, known),
        keyword_score=float(words[known.place[winner.id]]),
        vector_score=cosine[0],
        vector_margin=cosine[0] - runner_up if np.isfinite(cosine[0]) else -np.inf,
        agreement=_agreement(ranking, words, known),
        coverage=_coverage(query, winner, known),
        subject=len(named & there) / len(named) if named else NAMELESS,
    )


def by_name(query: str, lang: str, ranking: Ranking, known: Known) -> dict[str, float]:
    """Every signal of `SIGNALS` of a ranking with hits, as `signals_of` measures them."""
    top1, *others = (hit.score for hit in ranking.hits)
    margin = top1 - others[0] if others else np.inf
    return {"top1": top1, "margin": margin, **asdict(signals_of(query, lang, ranking, known))}


def telling(rows: pd.DataFrame) -> list[str]:
    """The signals that tell cases apart: not those that never vary, nor those that repeat an earlier one."""
    found: list[str] = []
    for name in SIGNALS:
        values = rows[name].to_numpy(np.float64)
        repeats = any(np.array_equal(values, rows[other].to_numpy(np.float64)) for other in found)
        if len(np.unique(values[~np.isnan(values)])) > 1 and not repeats:
            found.append(name)
    return found


def _distinct_margin(ranking: Ranking, known: Known) -> float:
    """Skips hits that say what the top one says, for as long as they do."""
    top, *others = ranking.hits
    said = _said(known.memories[top.id])
    for hit in others:
        also = _said(known.memories[hit.id])
        if len(said & also) < SAME * len(said | also) or not said:
            return top.score - hit.score
    return math.inf


def _coverage(query: str, winner: Memory, known: Known) -> float:
    asked = {term: known.rarity(term) for term in search_terms(query) if term not in _STOPS}
    there = _stems(_body(winner))
    total = math.fsum(asked.values())
    return math.fsum(worth for term, worth in asked.items() if term in there) / total if total else 0.0


@lru_cache(maxsize=20_000)
def _said(memory: Memory) -> frozenset[str]:
    return content_stems(_body(memory), memory.lang or "")


def _agreement(ranking: Ranking, scores: NDArray[np.float64], known: Known) -> float:
    """Ranks are pessimistic: all that score as much are ahead."""
    best = scores.max()
    if best == 0:
        return 0.0
    ids = list(known.memories)
    of = {hit.id: hit.score for hit in ranking.hits}
    first = scores[known.place[ranking.hits[0].id]]
    there = 1 / np.count_nonzero(scores >= first) if first > 0 else 0.0
    lowest = min(of.get(ids[place], -np.inf) for place in np.flatnonzero(scores == best))
    back = 1 / sum(score >= lowest for score in of.values()) if np.isfinite(lowest) else 0.0
    return float((there + back) / 2)


def _idf(memories: int, held: int) -> float:
    return math.log1p((memories - held + 0.5) / (held + 0.5))


def _postings(
    texts: Sequence[Sequence[str]],
) -> dict[str, tuple[NDArray[np.intp], NDArray[np.float64]]]:
    places: dict[str, list[int]] = defaultdict(list)
    counts: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        for term, count in Counter(text).items():
            places[term].append(place)
            counts[term].append(count)
    length = np.array([len(text) for text in texts], dtype=np.float64)
    held_back = K1 * (1 - B + B * length / max(length.mean(), 1)) if len(texts) else length
    found = {}
    for term, at in places.items():
        where, times = np.array(at, dtype=np.intp), np.array(counts[term], dtype=np.float64)
        found[term] = where, _idf(len(texts), len(at)) * times * (K1 + 1) / (times + held_back[where])
    return found


def _body(memory: Memory) -> str:
    return " ".join([memory.title or "", *memory.aliases, memory.text, *memory.entities])


def _stems(text: str) -> frozenset[str]:
    return frozenset(indexed(text).split())


def _known_names(memory: Memory) -> frozenset[str]:
    return _names(memory.text, memory.lang or "").union(*(_stems(name) for name in memory.entities)) - _STOPS


def _names(text: str, lang: str) -> frozenset[str]:
    """Stems of the words that name something: what a person would not put in other words.

    Capitalised inside a sentence (not in German, where every noun is), a capital or a digit inside the
    word, a number, a Latin word in a Russian text.
    """
    text = unicodedata.normalize("NFC", text)
    found = []
    for match in _WORD.finditer(text):
        word = match[0]
        before = text[: match.start()].rstrip(_OPENING)
        inside = bool(before) and before[-1] not in ".!?…:;\n"
        capital = lang != "de" and inside and word[0].isupper()
        odd = any(sign.isupper() for sign in word[1:]) or any(sign.isdigit() for sign in word)
        if capital or odd or (lang == "ru" and word.isascii()):
            found.append(word)
    return frozenset(stem for word in found if word.casefold() not in _STOPS for stem in _stems(word))

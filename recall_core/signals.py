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

import numpy as np
from numpy.typing import NDArray

from recall_core.records import Memory, Ranking
from recall_core.store import Vectors
from recall_core.words import STOP_WORDS, content_stems, indexed, search_terms

SIGNALS: Mapping[str, str] = {
    "top1": "what answers a question is near to it",
    "margin": "what answers a question is nearer to it than anything else is",
    "z": "a small margin is large where all other scores lie close together, and small where they do not",
    "distinct_margin": "a note that says the same once more is no rival: the right answer may have a twin",
    "agreement": "two searches that go by different evidence seldom err on the same memory",
    "coverage": "what answers a question tends to speak of what the question speaks of",
    "subject": "a note about somebody else does not answer, however near it is",
}
"""Name -> the reason to think that it tells a right answer from a question that has none."""
NAMELESS = 0.5
"""The subject match of a question that names nobody: neither a match nor a mismatch."""
K1, B = 1.2, 0.75
"""How soon a repeated word stops counting, and how much a long memory is held back: bm25's usual values."""
COPY = 1 - 1e-6
"""The cosine of two texts that are the same to the embedder."""
STANDS_OUT = 2.0
"""Standard deviations. In recall_v2, at 1.5 more is skipped wrongly, and at 3 half the twins are missed."""

_WORD = re.compile(r"[^\W_]+")
_OPENING = " \t\"'«„“‘(—–-"
_STOPS = frozenset[str]().union(*STOP_WORDS.values())


@dataclass(frozen=True, slots=True)
class Signals:
    """One case's signals, but for `top1` and `margin`, which follow from the scores.

    `z`: standard deviations of the top score above the mean of all others. +inf when there are no others,
    or all are equal and below it; 0 when all are equal to it.
    `distinct_margin`: the top score less the best one that says something else. On the scale of the
    scores; +inf when nothing says anything else.
    `agreement`: mean of 1/rank of the winner in the keyword list and 1/rank of the keyword winner in this
    one. 0 to 1; 0 when no word is shared with anything.
    `coverage`: share of the question's content stems in the winner. 0 to 1; 0 for a question without any.
    `subject`: share of the question's names in the winner. 0 to 1; `NAMELESS` for a question without any.
    """

    z: float
    distinct_margin: float
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
    """What a store holds, ready to be asked. Make one with `known`."""

    memories: Mapping[str, Memory]
    place: Mapping[str, int]
    """Of each id, in the arrays."""
    postings: Mapping[str, tuple[NDArray[np.intp], NDArray[np.float64]]]
    """Stem -> the places it stands in, and what it adds to their bm25."""
    names: frozenset[str]
    vectors: Vectors
    rows: NDArray[np.intp]
    """(n,) rows of `vectors.matrix`: the whole text of each memory."""

    def keyword(self, query: str) -> NDArray[np.float64]:
        """(n,) bm25 of every memory (Robertson and Zaragoza, 2009); 0 where no word is shared."""
        scores = np.zeros(len(self.rows))
        for term in search_terms(query):
            if term in self.postings:
                places, worth = self.postings[term]
                scores[places] += worth
        return scores

    def alike(self, id_: str) -> NDArray[np.float32]:
        """(n,) cosine of every memory's vector with this one's; -inf with itself."""
        matrix = self.vectors.matrix
        place = self.place[id_]
        cosine: NDArray[np.float32] = (matrix @ matrix[self.rows[place]]).astype(np.float32)[self.rows]
        cosine[place] = -np.inf
        return cosine


def known(memories: Sequence[Memory], vectors: Vectors) -> Known:
    """Index a store's memories and their vectors. Every store gives the same: nothing here is its own."""
    by_id = {memory.id: memory for memory in sorted(memories, key=lambda memory: memory.id)}
    whole = dict(zip(reversed(vectors.ids), reversed(vectors.row_of.tolist()), strict=True))
    return Known(
        by_id,
        {id_: place for place, id_ in enumerate(by_id)},
        _postings([indexed(_body(memory)).split() for memory in by_id.values()]),
        frozenset().union(*(_known_names(memory) for memory in by_id.values())),
        vectors,
        np.array([whole[id_] for id_ in by_id], dtype=np.intp),
    )


def signals_of(query: str, lang: str, ranking: Ranking, known: Known) -> Signals:
    """All signals of a ranking of cosines that holds every memory of the store, as `vector` gives it."""
    if not ranking.hits:
        return NOTHING
    winner = known.memories[ranking.hits[0].id]
    return Signals(
        z=_z(ranking),
        distinct_margin=_distinct_margin(ranking, known),
        agreement=_agreement(query, ranking, known),
        coverage=_share(content_stems(query, lang), content_stems(_body(winner), lang), 0.0),
        subject=_share(_names(query, lang) | (_stems(query) & known.names), _stems(_body(winner)), NAMELESS),
    )


def by_name(query: str, lang: str, ranking: Ranking, known: Known) -> dict[str, float]:
    """Every signal of `SIGNALS` of a ranking with hits, as `signals_of` measures them."""
    top1, *others = (hit.score for hit in ranking.hits)
    margin = top1 - others[0] if others else np.inf
    return {"top1": top1, "margin": margin, **asdict(signals_of(query, lang, ranking, known))}


def _z(ranking: Ranking) -> float:
    top, *others = (hit.score for hit in ranking.hits)
    if not others or others[0] == others[-1]:
        return 0.0 if others and others[0] == top else np.inf
    return float((top - np.mean(others)) / np.std(others))


def _distinct_margin(ranking: Ranking, known: Known) -> float:
    """Skips hits that repeat the top one, for as long as they do."""
    top, *others = ranking.hits
    left = np.ones(len(known.rows), dtype=np.bool_)
    left[known.place[top.id]] = False
    to_top = known.alike(top.id)
    for hit in others:
        left[known.place[hit.id]] = False
        near = to_top[known.place[hit.id]]
        if not _repeats(float(near), top.score, to_top[left], known.alike(hit.id)[left]):
            return top.score - hit.score
    return np.inf


def _repeats(
    near: float, to_question: float, of_top: NDArray[np.float32], of_hit: NDArray[np.float32]
) -> bool:
    """Whether two memories say the same, going by their cosine: `near`.

    They do when it is 1; or when they are at least as near to each other as the question is to the top, and
    of all other memories each is the other's nearest, by `STANDS_OUT` deviations of what the two have in
    common with the others. So no threshold is on an embedder's scale, and where there is next to nothing to
    compare with, only a copy is a repeat.
    """
    if near >= COPY:
        return True
    rest = np.concatenate([of_top, of_hit])
    if near < np.float32(to_question) or len(of_top) < 2 or near < rest.max():
        return False
    return bool(near >= rest.mean() + STANDS_OUT * rest.std())


def _agreement(query: str, ranking: Ranking, known: Known) -> float:
    """Ranks are pessimistic: all that score as much are ahead."""
    scores = known.keyword(query)
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


def _share(asked: frozenset[str], there: frozenset[str], of_nothing: float) -> float:
    return len(asked & there) / len(asked) if asked else of_nothing


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
        rarity = math.log1p((len(texts) - len(at) + 0.5) / (len(at) + 0.5))
        found[term] = where, rarity * times * (K1 + 1) / (times + held_back[where])
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

"""Two halves of a fixture: `tune`, on which a gate is chosen, and `test`, on which it is reported.

Cases of one group share a store and a person, so a whole group goes to one half. Where one corpus answers
all cases, those that share an expected memory stay together. The halves are as alike
as they can be made in languages and kinds of case: one group after another goes where it lessens the
difference, then pairs are exchanged as long as that lessens it further (Papadimitriou and Steiglitz 1982,
local search). Nothing is drawn, so the halves depend on the cases alone and not on their order in the file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from recall_core.records import Case, Fixture

Half = Literal["tune", "test"]


def units(fixture: Fixture) -> dict[str, str]:
    """What each case is not to be parted from, by case id: its group, or itself alone.

    Where one corpus answers all cases: the cases that share an expected memory, directly or through others.
    """
    if fixture.isolation != "shared":
        return {case.id: case.group or case.id for case in fixture.cases}
    asking: dict[str, list[str]] = defaultdict(list)
    for case in fixture.cases:
        for id_ in case.expected:
            asking[id_].append(case.id)
    place = {case.id: at for at, case in enumerate(fixture.cases)}
    links = [(place[ids[0]], place[id_]) for ids in asking.values() for id_ in ids]
    one, two = np.array(links, dtype=np.intp).reshape(-1, 2).T
    shape = (len(place), len(place))
    _, label = connected_components(coo_matrix((np.ones(len(links)), (one, two)), shape), directed=False)
    first: dict[int, str] = {}
    for id_ in sorted(place):
        first.setdefault(int(label[place[id_]]), id_)
    return {id_: first[int(label[at])] for id_, at in place.items()}


def halves(fixture: Fixture) -> dict[str, Half]:
    """The half of each case, by case id."""
    members: dict[str, list[Case]] = defaultdict(list)
    unit_of = units(fixture)
    for case in fixture.cases:
        members[unit_of[case.id]].append(case)
    ordered = sorted(members, key=lambda unit: (-len(members[unit]), _language(members[unit]), unit))
    side = _balanced(_features([members[unit] for unit in ordered]))
    half_of: dict[str, Half] = {
        unit: "tune" if s > 0 else "test" for unit, s in zip(ordered, side, strict=True)
    }
    return {case.id: half_of[unit_of[case.id]] for case in fixture.cases}


def mark(rows: pd.DataFrame, fixture: Fixture) -> pd.DataFrame:
    """Scored cases of the fixture with `half` (`tune` or `test`) and `unit` (what resamples draw whole)."""
    half_of, unit_of = halves(fixture), units(fixture)
    return rows.assign(half=rows["case_id"].map(half_of), unit=rows["case_id"].map(unit_of))


def _language(cases: Sequence[Case]) -> str:
    counted = Counter(case.lang for case in cases)
    return min(counted, key=lambda lang: (-counted[lang], lang))


def _features(units: Sequence[Sequence[Case]]) -> NDArray[np.float64]:
    """(units, features): how many cases of each kind, and of each kind in each language, a unit brings.

    A kind is a tag of an answerable or of a silent case. The language of the unit itself counts too.
    """
    counted = []
    for cases in units:
        found: Counter[tuple[str, ...]] = Counter({("unit", _language(cases)): 1})
        for case in cases:
            state = "answerable" if case.answerable else "silent"
            kinds = {(state,), (state, "hard") if case.hard else (state,), *((state, t) for t in case.tags)}
            found.update(kinds)
            found.update((*kind, f"lang={case.lang}") for kind in kinds)
        counted.append(found)
    names = sorted({name for found in counted for name in found})
    return np.array([[found[name] for name in names] for found in counted], dtype=np.float64)


def _balanced(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """(units,) +1 or -1 that makes the squared length of `side @ features` small."""
    side = np.empty(len(features))
    difference = np.zeros(features.shape[1])
    for at, row in enumerate(features):
        side[at] = 1.0 if difference @ row <= 0 else -1.0
        difference += side[at] * row
    gram = features @ features.T
    norms = np.diag(gram)
    while True:
        plus, minus = np.flatnonzero(side > 0), np.flatnonzero(side < 0)
        if not len(plus) or not len(minus):
            return side
        apart = norms[plus, None] + norms[minus] - 2 * gram[np.ix_(plus, minus)]
        gained = (features @ difference)[plus, None] - (features @ difference)[minus] - apart
        one, two = np.unravel_index(np.argmax(gained), gained.shape)
        if gained[one, two] <= 0:
            return side
        side[plus[one]], side[minus[two]] = -1.0, 1.0
        difference = side @ features

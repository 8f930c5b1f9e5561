"""Cases, rankings and runs small enough to check by eye, and strategies that make random ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from hypothesis import settings
from hypothesis import strategies as st

from recall_core import gates, scoring, stats
from recall_core.gates import Gate
from recall_core.records import Case, Ranking
from recall_core.runs import Result
from recall_core.scoring import Row

examples = settings(max_examples=60, deadline=None, derandomize=True, database=None)
"""The same random examples each time, and no clock that a busy machine could trip."""
few_examples = settings(examples, max_examples=20)

RIGHT_MARGINS = (
    *(0.001, 0.009, 0.009, 0.011, 0.013, 0.014, 0.018, 0.022, 0.023, 0.029, 0.032, 0.034, 0.036, 0.038),
    *(0.042, 0.045, 0.052, 0.053),
)
SILENT_MARGINS = (0.0005, 0.001, 0.004, 0.007, 0.019)


def case_of(
    expected: Sequence[str] = ("a",),
    *,
    id_: str = "q",
    query: str = "?",
    lang: str = "en",
    hard: bool = False,
) -> Case:
    return Case(id=id_, query=query, lang=lang, expected=tuple(expected), hard=hard)


def ranking_of(**scores: float) -> Ranking:
    return Ranking.of("vector", scores.items())


def row_of(case: Case, depth: int = 3, **scores: float) -> Row:
    return scoring.score_case(case, ranking_of(**scores), depth=depth, embed_ms=2.0, search_ms=1.0)


def right(top1: float, margin: float = np.inf, **about: object) -> Row:
    """Memory `a` is expected and ahead of `b` by `margin`; infinite: it is alone."""
    others = {"b": top1 - margin} if np.isfinite(margin) else {}
    return row_of(case_of("a", **about), a=top1, **others)  # type: ignore[arg-type]


def wrong(top1: float, margin: float, on_top: str = "b", **about: object) -> Row:
    """Memory `a` is expected and behind `on_top` by `margin`; 0 is a tie."""
    return row_of(case_of("a", **about), **{on_top: top1, "a": top1 - margin})  # type: ignore[arg-type]


def silent(top1: float, margin: float, on_top: str = "b", **about: object) -> Row:
    """Nothing is expected; `on_top` is ahead of `c` by `margin`."""
    return row_of(case_of((), **about), **{on_top: top1, "c": top1 - margin})  # type: ignore[arg-type]


def gated(rows: Sequence[Row], gate: Gate) -> pd.DataFrame:
    table = scoring.frame(rows)
    hashes = [f"{id_:0>64}" for id_ in table["case_id"]]
    return table.assign(outcome=gates.outcomes(table, gate), case_hash=hashes)


def result_of(
    rows: Sequence[Row],
    gate: Gate,
    *,
    path: str = "hash",
    kind: str = "hash",
    deltas: Sequence[float] = (0.0, 0.01, 0.1),
    min_scores: Sequence[float] = (0.0, 0.5, 0.9),
    top_k: int = 3,
) -> Result:
    """What `pipeline.evaluate` makes of rows, without the search before it."""
    table = gated(rows, gate)
    held = gate if gate.delta is not None else Gate(gate.min_score, 0.0)
    return Result(
        path=path,
        kind=kind,
        fixture="tiny",
        fixture_hash="a" * 64,
        fingerprint="f" * 64,
        min_score=gate.min_score,
        delta=gate.delta,
        top_k=top_k,
        rows=table,
        summary=stats.with_intervals(scoring.summarise(table, ks=sorted({1, top_k}))),
        spread=scoring.distributions(table),
        absolute=gates.sweep(table, [Gate(score) for score in min_scores], Gate(gate.min_score)),
        margin=gates.sweep(table, [Gate(gate.min_score, delta) for delta in deltas], held),
    )


def published_rows() -> list[Row]:
    """18 right first, 7 wrong on top and 5 silent, with the margins of the note recall evaluation."""
    return [
        *(right(0.85, margin) for margin in RIGHT_MARGINS),
        *(wrong(0.85, 0.03) for _ in range(7)),
        *(silent(0.82, margin) for margin in SILENT_MARGINS),
    ]


def _searched(
    expected: set[str], scores: dict[str, float], lang: str, hard: bool, fails: bool, depth: int
) -> Row:
    case = case_of(sorted(expected), lang=lang, hard=hard)
    if fails:
        return scoring.failed_case(case, "OSError: no disk")
    return scoring.score_case(case, Ranking.of("vector", scores.items()), depth=depth)


grid = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
"""Scores that tie often, and whose differences are exact."""
scores_by_id = st.dictionaries(st.sampled_from("abcdefg"), grid)
expected_ids = st.sets(st.sampled_from("abcdefgh"), max_size=3)
"""`h` is never found."""
rows_searched = st.builds(
    _searched,
    expected_ids,
    scores_by_id,
    st.sampled_from(["en", "ru", "de"]),
    st.booleans(),
    st.sampled_from([False, False, False, True]),
    st.integers(2, 4),
)
row_lists = st.lists(rows_searched, min_size=1, max_size=12)
some_gates = st.builds(Gate, grid, st.sampled_from([None, 0.0, 0.25, 0.5]))

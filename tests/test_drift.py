"""A gate in a store that grows, and a gate with another path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import right, silent
from conftest import ByHand, built, raw_case

from recall_core import fixtures, gates, pipeline, scoring
from recall_core.choosing import choice, drift
from recall_core.choosing.gate_file import GateFile
from recall_core.choosing.loglines import log_lines
from recall_core.config import PathConfig
from recall_core.embedders import Embedder
from recall_core.embedders.hashing import HashEmbedder
from recall_core.paths.local import LocalPath
from recall_core.records import Case, Fixture, InputError
from recall_core.scoring import Row
from recall_core.stats import share

V2 = Path(__file__).parents[1] / "data" / "notes" / "recall_v2.json"
GATE = gates.Gate(0.1, 0.01)


@pytest.fixture(scope="module")
def lives() -> Fixture:
    return fixtures.load(V2)


def by(embedder: Embedder) -> LocalPath:
    """Its vectors alone, as they are."""
    return LocalPath("by vectors", PathConfig(streams=("vector",), centre=False), embedder, quiet=True)


HASH = by(HashEmbedder())


def some(fixture: Fixture, cases: Sequence[Case]) -> Fixture:
    return fixture.model_copy(update={"cases": tuple(cases)})


def own_of(fixture: Fixture, case: Case) -> list[str]:
    return [memory.id for group in fixture.groups if group.id == case.group for memory in group.memories]


# ---- log lines


def test_log_lines_differ_and_fewer_are_the_first_of_more() -> None:
    lines = log_lines(3_000)
    assert len(set(lines)) == 3_000
    assert log_lines(100) == lines[:100]


def test_about_one_line_in_six_is_russian() -> None:
    russian = sum(bool(re.search("[а-яё]", line)) for line in log_lines(3_000))
    assert russian / 3_000 == pytest.approx(1 / 6, abs=4 * np.sqrt(5 / 36 / 3_000))


def test_log_lines_are_not_one_template_with_other_numbers() -> None:
    shapes = {re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", line) for line in log_lines(2_000)}
    assert len(shapes) > 1_000


def test_no_slot_is_left_unfilled() -> None:
    assert not any(re.search(r"[{}]|  \w+}", line) for line in log_lines(3_000))


# ---- the pool


def test_a_larger_store_holds_the_smaller_and_notes_and_lines_take_turns(lives: Fixture) -> None:
    small, large = drift.pool(lives, 20), drift.pool(lives, 2_000)
    assert large[:20] == small
    assert sum(memory.id.startswith("log line") for memory in small) == 10
    every = list(fixtures.all_memories(lives))
    assert {memory.id for memory in every} <= {memory.id for memory in large}, "then the lines go on alone"
    assert len({memory.id for memory in large}) == 2_000


# ---- sizes


@pytest.mark.parametrize("size", [15, 120])
@pytest.mark.parametrize("at", [0, 1, 170, 335])
def test_a_grown_store_scores_as_the_pipeline_scores_it(lives: Fixture, at: int, size: int) -> None:
    """The store is built again as a fixture of one case, and asked the usual way."""
    case = lives.cases[at]
    own = [m for group in lives.groups if group.id == case.group for m in group.memories]
    known = {memory.id for memory in own}
    filler = [m for m in drift.pool(lives, size + 20) if m.id not in known][: size - len(own)]
    alone = case.model_copy(update={"group": None, "memories": (*own, *filler)})
    one = lives.model_copy(update={"cases": (alone,), "groups": (), "filler": (), "isolation": "per_case"})
    (row,) = pipeline.run_cases(one, HASH, quiet=True).itertuples()
    (grown,) = drift.sizes(some(lives, [case]), HASH, GATE, [size], quiet=True).itertuples()
    assert len(alone.memories) == size
    right_first = row.place == "right_first"
    assert grown.right_first == right_first
    if right_first or not case.answerable:
        name = "right" if case.answerable else "silent"
        assert getattr(grown, f"top1_{name}") == row.top1
        assert getattr(grown, f"margin_{name}") == row.margin
    opens = bool(row.top1 >= 0.1 and row.margin > 0.01)
    assert grown.answered + grown.misled + grown.false_recall == opens


def test_in_a_larger_store_the_best_wrong_score_only_rises_and_recall_only_falls(lives: Fixture) -> None:
    cases = lives.cases[:48]
    table = drift.sizes(some(lives, cases), HASH, GATE, [15, 60, 250, 1_000], quiet=True)
    assert table["size"].tolist() == [15, 60, 250, 1_000]
    assert table["right_first"].is_monotonic_decreasing
    assert table["top1_silent"].is_monotonic_increasing
    assert table["right_first"].iloc[-1] < table["right_first"].iloc[0]
    assert set(table["answerable"]) == {sum(case.answerable for case in cases)}
    assert (table["answerable"] + table["silent"] == len(cases)).all()


def test_the_order_of_sizes_and_of_cases_changes_nothing(lives: Fixture) -> None:
    cases = lives.cases[::30]
    one = drift.sizes(some(lives, cases), HASH, GATE, [15, 60], quiet=True)
    other = drift.sizes(some(lives, cases[::-1]), HASH, GATE, [60, 15], quiet=True)
    pd.testing.assert_frame_equal(one, other[::-1].reset_index(drop=True))


def test_a_text_of_the_own_group_is_no_filler_though_another_life_has_it_too() -> None:
    """Life b holds the very text that answers in life a; as filler it would tie with the answer."""
    fixture = built(
        raw_case("qa", query="keys", group="a", memories=[], expected=["a1"]),
        isolation="per_group",
        groups=[
            {"id": "a", "memories": [{"id": "a1", "text": "keys"}]},
            {"id": "b", "memories": [{"id": "b1", "text": "keys"}, {"id": "b2", "text": "bread"}]},
        ],
    )
    table = drift.sizes(fixture, HASH, gates.Gate(0.5), [1, 6], quiet=True)
    assert table["right_first"].tolist() == [1, 1]
    assert table["answered"].tolist() == [1, 1]


def test_each_text_is_embedded_once(lives: Fixture) -> None:
    class Counting(HashEmbedder):
        texts: list[str] = []  # noqa: RUF012

        def embed_passages(self, texts):
            self.texts.extend(texts)
            return super().embed_passages(texts)

        def embed_queries(self, texts):
            return super().embed_passages(texts)

    embedder = Counting()
    cases = lives.cases[::60]
    drift.sizes(some(lives, cases), by(embedder), GATE, [15, 60, 120], quiet=True)
    assert len(embedder.texts) == len(set(embedder.texts))
    assert len(embedder.texts) < 120 + 13 + 13 * len(cases)


def test_the_path_searches_each_store_in_its_own_way() -> None:
    """By words alone the word is found where vectors that are all the same tell nothing apart."""
    fixture = built(raw_case("a", query="zanzibar", memories=[{"id": "a-m", "text": "zanzibar"}]))
    texts = [memory.text for memory in drift.pool(fixture, 61)]
    blind = by(ByHand({text: [1.0, 0.0] for text in texts}))
    words = LocalPath("words", PathConfig(streams=("keyword",)), quiet=True)
    for path, right_first in ((words, [1, 1]), (blind, [0, 0])):
        table = drift.sizes(fixture, path, gates.Gate(0.0), [2, 60], quiet=True)
        assert table["right_first"].tolist() == right_first


def test_a_size_below_what_a_case_brings_is_refused_with_the_least_that_will_do(lives: Fixture) -> None:
    with pytest.raises(InputError, match=r"size 5 is smaller than the 1\d memories that case 'life-"):
        drift.sizes(lives, HASH, GATE, [5, 60], quiet=True)
    assert drift.sizes(lives, HASH, GATE, [], quiet=True).empty


# ---- transfer


def gate_of(signal: str, threshold: float) -> GateFile:
    none = {"answerable": 0, "answered": 0, "misled": 0, "silent": 0, "false_recall": 0}
    return GateFile(
        signal=signal,
        min_score=0.0,
        threshold=threshold,
        path="A",
        fingerprints=("a" * 64,),
        fixture="tiny",
        fixture_hash="0" * 64,
        memories=15,
        method="fixed_sequence",
        max_false=0.05,
        confidence=0.9,
        tune={**none, "false_recall_at_most": 1.0},
        test={**none, "false_recall_at_most": 1.0},
        chosen_on=date(2026, 7, 31),
    )


def scaled(scale: float, silent_margin: float = 0.1) -> pd.DataFrame:
    """50 silent and 4 right-first cases a half, with every margin `scale` times as large."""

    def half(name: str) -> pd.DataFrame:
        cases: list[Row] = [silent(0.9, silent_margin * scale) for _ in range(50)]
        cases += [right(0.9, margin * scale) for margin in (0.2, 0.3, 0.4, 0.5)]
        ids = [f"{name}-{n}" for n in range(len(cases))]
        return scoring.frame(cases).assign(half=name, case_id=ids, unit=ids)

    return pd.concat([half("tune"), half("test")], ignore_index=True)


def test_a_gate_of_a_small_scale_speaks_to_everything_on_a_large_one() -> None:
    rows_a, rows_b = scaled(0.1), scaled(1.0)
    chosen = choice.choose(rows_a)
    home = f"false recall {share(0, 50)}, answered {share(4, 4)}"
    assert drift.transfer(rows_a, rows_b, gate_of("margin", chosen.threshold), "B") == (
        f"WRONG PATH: the gate of A on B: false recall {share(50, 50)}, answered {share(4, 4)}; "
        f"at home: {home}; its own choice: {home}"
    )


def test_a_gate_of_a_large_scale_says_nothing_on_a_small_one() -> None:
    rows_a, rows_b = scaled(1.0), scaled(0.1)
    said = drift.transfer(rows_a, rows_b, gate_of("margin", choice.choose(rows_a).threshold), "B")
    assert f"on B: false recall {share(0, 50)}, answered {share(0, 4)}; at home" in said


def test_where_the_other_can_promise_nothing_that_is_said() -> None:
    rows_a, rows_b = scaled(1.0), scaled(1.0, silent_margin=0.6)
    said = drift.transfer(rows_a, rows_b, gate_of("margin", choice.choose(rows_a).threshold), "B")
    assert "its own choice is refused: no setting of margin answers anything" in said


def test_equal_scores_all_over_leave_a_margin_gate_shut_at_every_size() -> None:
    """Every text has the same vector: all tie, no margin is above 0."""
    fixture = built(raw_case("a"), raw_case("s", expected=[], silent_because="-"))
    texts = [m.text for m in drift.pool(fixture, 22)] + [c.query for c in fixture.cases]
    embedder = ByHand({text: [1.0, 0.0] for text in texts})
    table = drift.sizes(fixture, by(embedder), gates.Gate(0.0, 0.0), [2, 20], quiet=True)
    assert table[["right_first", "answered", "misled", "false_recall"]].to_numpy().sum() == 0
    assert table["margin_silent"].tolist() == [0.0, 0.0]

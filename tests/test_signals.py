"""What there is to know about a top hit, by arithmetic that can be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from math import log, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import case_of, few_examples, gated, right
from conftest import NOTES, ByHand, built, note, raw_case
from hypothesis import given
from hypothesis import strategies as st

from recall_core import fixtures, pipeline, runs, scoring, signals
from recall_core.embedders.hashing import HashEmbedder
from recall_core.gates import Gate
from recall_core.passages import passages
from recall_core.records import Memory, Ranking
from recall_core.signals import MEASURED, NAMELESS, NOTHING, SIGNALS, UNMEASURED, Known, Signals
from recall_core.store import MemoryStore, SqliteStore

OLD, NEW = "the dog sleeps in the hall", "a cat sits on the roof"


def stored(memories: Sequence[Memory], rows: Mapping[str, Sequence[float]] | None = None) -> Known:
    """What a store of these memories knows. `rows`: a vector an id; without them, all are alike to none."""
    own = rows or {memory.id: np.eye(len(memories))[i] for i, memory in enumerate(memories)}
    by_text = {text: own[memory.id] for memory in memories for text in passages(memory)}
    embedder, store = ByHand(by_text or {"": [1.0]}), MemoryStore()
    store.add(memories)
    pipeline.reembed(store, embedder, quiet=True)
    return signals.known(memories, store.vectors(embedder.fingerprint))


def of(known: Known, query: str = "?", lang: str = "en", **scores: float) -> Signals:
    return signals.signals_of(query, lang, Ranking.of("vector", scores.items()), known)


def abcd(**rows: Sequence[float]) -> Known:
    return stored([note(id_, f"text {id_}") for id_ in rows], rows)


def test_every_signal_has_a_reason_and_every_measured_one_is_a_signal() -> None:
    assert set(SIGNALS) - set(MEASURED) == {"top1", "margin"}
    assert set(MEASURED) < set(SIGNALS)
    assert all(reason and "\n" not in reason for reason in SIGNALS.values())


# z


def z(**scores: float) -> float:
    return of(stored([note(id_) for id_ in scores]), **scores).z


def test_z_is_in_deviations_of_the_rest() -> None:
    # The rest: mean 0.3, deviations +0.2, 0 and -0.2 of it.
    assert z(a=0.9, b=0.5, c=0.3, d=0.1) == pytest.approx(0.6 / sqrt((0.04 + 0 + 0.04) / 3))


def test_z_with_no_spread_to_measure_by() -> None:
    assert z(a=0.9) == np.inf
    assert z(a=0.9, b=0.5) == np.inf
    assert z(a=0.9, b=0.5, c=0.5) == np.inf
    assert z(a=0.5, b=0.5, c=0.5) == 0


def test_nothing_found_is_the_worst_of_everything() -> None:
    assert of(stored([])) == NOTHING
    assert astuple(NOTHING) == (-np.inf,) * 5


# Distinct margin

E = np.eye(6)
TWIN = (0.95, sqrt(1 - 0.95**2), 0, 0, 0, 0)
"""0.95 near to E[0]."""


def test_a_twin_is_no_runner_up() -> None:
    known = abcd(a=E[0], b=TWIN, c=E[2], d=E[3], e=E[4])
    found = of(known, a=0.9, b=0.85, c=0.5, d=0.4, e=0.1)
    assert found.distinct_margin == 0.9 - 0.5


def test_a_rival_is_a_runner_up_and_so_is_a_twin_behind_it() -> None:
    known = abcd(a=E[0], b=TWIN, c=E[2], d=E[3], e=E[4])
    assert of(known, a=0.9, c=0.85, b=0.5, d=0.4, e=0.1).distinct_margin == 0.9 - 0.85


def test_a_memory_that_is_nearer_to_another_is_no_repeat() -> None:
    # b is nearest to a, but c is nearer to b than a is.
    b = (0.7, sqrt(1 - 0.49), 0, 0, 0, 0)
    c = (0.0, 1.0, 0, 0, 0, 0)
    known = abcd(a=E[0], b=b, c=c, d=E[3], e=E[4])
    assert float(np.dot(b, c)) > 0.7
    assert of(known, a=0.6, b=0.55, c=0.1, d=0.1, e=0.1).distinct_margin == 0.6 - 0.55


def test_a_memory_further_from_the_top_than_the_question_is_no_repeat() -> None:
    near = (0.8, 0.6, 0, 0, 0, 0)
    known = abcd(a=E[0], b=near, c=E[2], d=E[3], e=E[4])
    assert of(known, a=0.81, b=0.7, c=0.1, d=0.1, e=0.1).distinct_margin == 0.81 - 0.7
    assert of(known, a=0.79, b=0.7, c=0.1, d=0.1, e=0.1).distinct_margin == 0.79 - 0.1


def test_what_does_not_stand_out_from_the_crowd_is_no_repeat() -> None:
    def at(degrees: float) -> tuple[float, float]:
        return float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))

    known = abcd(a=at(0), b=at(25), c=at(-28), d=at(53))
    # a and b are each other's nearest, with cos 25. Of the rest both have cos 28 and cos 53.
    rest = np.cos(np.radians([28, 28, 53, 53]))
    assert np.cos(np.radians(25)) < rest.mean() + 2 * rest.std()
    assert of(known, a=0.9, b=0.85, c=0.5, d=0.4).distinct_margin == 0.9 - 0.85


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_copies_are_repeats_in_the_smallest_store(copies: int) -> None:
    names = "bcd"[:copies]
    memories = [note("a", OLD), *(note(id_, OLD) for id_ in names), note("z", NEW)]
    known = stored(memories, {"a": E[0], "z": E[1]} | dict.fromkeys(names, E[0]))
    scores = {"a": 0.9, "z": 0.3} | dict.fromkeys(names, 0.9)
    assert of(known, **scores).distinct_margin == 0.9 - 0.3


def test_nothing_that_says_anything_else_is_no_runner_up() -> None:
    assert of(abcd(a=E[0]), a=0.9).distinct_margin == np.inf
    assert of(
        stored([note("a", OLD), note("b", OLD)], {"a": E[0], "b": E[0]}), a=0.9, b=0.9
    ).distinct_margin == (np.inf)


def test_two_memories_alone_do_not_tell_whether_they_repeat() -> None:
    assert of(abcd(a=E[0], b=TWIN), a=0.9, b=0.8).distinct_margin == 0.9 - 0.8
    assert of(abcd(a=E[0], b=TWIN, c=E[2]), a=0.9, b=0.8, c=0.1).distinct_margin == 0.9 - 0.8


def test_a_page_is_compared_whole() -> None:
    long = "\n\n".join(["first " * 60, "second " * 60])
    page = note("p", long, kind="page", title="Page")
    whole, *parts = passages(page)
    assert parts
    others = {f"text {id_}": E[i] for i, id_ in enumerate("bcd", 2)}
    embedder, store = ByHand({whole: E[0], "twin": TWIN} | dict.fromkeys(parts, E[5]) | others), MemoryStore()
    memories = [page, note("t", "twin"), *(note(id_, f"text {id_}") for id_ in "bcd")]
    store.add(memories)
    pipeline.reembed(store, embedder, quiet=True)
    known = signals.known(memories, store.vectors(embedder.fingerprint))
    assert of(known, p=0.9, t=0.8, b=0.3, c=0.2, d=0.1).distinct_margin == 0.9 - 0.3


@few_examples
@given(st.integers(0, 10_000), st.integers(1, 8))
def test_the_distinct_margin_is_never_below_the_margin(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    known = stored([note(f"m{i}") for i in range(n)], {f"m{i}": row for i, row in enumerate(rows)})
    scores = {f"m{i}": float(score) for i, score in enumerate(rows @ rows[0])}
    first, second = (*sorted(scores.values(), reverse=True), -np.inf)[:2]
    assert of(known, **scores).distinct_margin >= first - second


# Agreement


def library() -> list[Memory]:
    return [
        note("fish", "the aquarium pump hums"),
        note("pump", "bicycle pump in the shed"),
        note("cake", "rye flour for the cake"),
        note("tyre", "the bicycle tyre takes four bars"),
    ]


def agreement(query: str, **scores: float) -> float:
    return of(stored(library()), query, **scores).agreement


def test_agreement_is_one_when_both_searches_find_the_same() -> None:
    assert agreement("cake", cake=0.9, fish=0.5, pump=0.4, tyre=0.1) == 1.0


def test_agreement_is_the_mean_of_both_reciprocal_ranks() -> None:
    # "bicycle pump": pump has both words; fish and tyre one each, and the shorter fish is ahead.
    order = sorted(
        library(),
        key=lambda memory: -stored(library()).keyword("bicycle pump")[stored(library()).place[memory.id]],
    )
    assert [memory.id for memory in order] == ["pump", "fish", "tyre", "cake"]
    assert agreement("bicycle pump", tyre=0.9, cake=0.8, pump=0.7, fish=0.1) == (1 / 3 + 1 / 3) / 2
    assert agreement("bicycle pump", cake=0.9, pump=0.8, fish=0.2, tyre=0.1) == (0 + 1 / 2) / 2


def test_words_shared_with_nothing_are_no_agreement() -> None:
    assert agreement("violin", cake=0.9, fish=0.5, pump=0.4, tyre=0.1) == 0.0
    assert agreement("?", cake=0.9, fish=0.5, pump=0.4, tyre=0.1) == 0.0


def test_ties_count_as_ahead_whatever_the_ids() -> None:
    twins = stored([note("a", OLD), note("b", OLD), note("c", NEW)])
    # Two share the first place in the keyword list: rank 2 there. Of the two, b is last here: rank 3.
    assert of(twins, "dog", a=0.9, c=0.5, b=0.1).agreement == (1 / 2 + 1 / 3) / 2
    assert of(twins, "dog", b=0.9, c=0.5, a=0.1).agreement == (1 / 2 + 1 / 3) / 2


def test_the_keyword_list_is_that_of_sqlite() -> None:
    """FTS5 has the same bm25, but takes log((n - df + 0.5) / (df + 0.5)) for the rarity."""
    memories = library()
    known, store = stored(memories), SqliteStore()
    store.add(memories)
    for term, df in (("cake", 1), ("tyre", 1), ("rye", 1)):
        theirs = dict(store.matching([term], 9, ["note"]))
        rarity = log(1 + (4 - df + 0.5) / (df + 0.5)) / log((4 - df + 0.5) / (df + 0.5))
        ours = {id_: known.keyword(term)[place] for id_, place in known.place.items()}
        assert {id_ for id_, score in ours.items() if score} == set(theirs)
        for id_, score in theirs.items():
            assert ours[id_] == pytest.approx(-score * rarity, rel=1e-6)


# Coverage and subject


@pytest.mark.parametrize(
    ("query", "lang", "text", "share"),
    [
        ("where does the dog sleep", "en", OLD, 2 / 2),
        ("where do dogs and cats sleep", "en", OLD, 2 / 3),
        ("where is the roof", "en", OLD, 0 / 1),
        ("what is it?", "en", OLD, 0.0),
        ("где спит собака", "ru", "Собака спит в коридоре", 2 / 2),
        ("wo schläft der Hund", "de", "Der Hund schläft im Flur", 2 / 2),
        ("порт docker", "ru", "docker слушает на 8080", 1 / 2),
    ],
)
def test_coverage_is_a_share_of_content_stems(query: str, lang: str, text: str, share: float) -> None:
    assert of(stored([note("a", text)]), query, lang, a=0.9).coverage == share


@pytest.mark.parametrize(
    ("query", "lang", "text", "share"),
    [
        ("how does Karen take her tea", "en", "Karen takes milk", 1.0),
        ("how does Karen take her tea", "en", "Sandra takes milk", 0.0),
        ("do Karen and Sandra get on?", "en", "Karen likes nobody", 1 / 2),
        ("What do I take?", "en", "Karen takes milk", NAMELESS),
        ("where is the key? Which drawer", "en", "the key is here", NAMELESS),
        ("what port has the NAS", "en", "the NAS listens on 5001", 1.0),
        ("is it port 8080", "en", "it listens on 8080", 1.0),
        ("is it port 8080", "en", "it listens on 8081", 0.0),
        ("а Тимуру сколько сиропа?", "ru", "Тимур пьёт сироп дважды", 1.0),
        ("а Тимуру сколько сиропа?", "ru", "Булат пьёт сироп дважды", 0.0),
        ("когда обновлять docker", "ru", "docker обновлять весной", 1.0),
        ("сколько стоит сироп?", "ru", "Сироп сто рублей", NAMELESS),
        ("«Метеор» когда отходит", "ru", "«Метеор» отходит в девять", NAMELESS),
        ("когда отходит «Метеор»", "ru", "«Метеор» отходит в девять", 1.0),
        ("wo ist der Schlüssel für die Garage", "de", "im Flur", NAMELESS),
        ("welche IP hat der Drucker", "de", "Drucker: IP endet auf 17", 1.0),
    ],
)
def test_the_subject_is_what_a_question_names(query: str, lang: str, text: str, share: float) -> None:
    assert of(stored([note("a", text, lang=lang)]), query, lang, a=0.9).subject == share


def test_a_name_the_store_knows_is_one_however_it_is_written() -> None:
    knows = stored([note("a", "tea with Karen", lang="en"), note("b", "tea for one", lang="en")])
    assert of(knows, "karen and her tea", a=0.9, b=0.5).subject == 1.0
    assert of(knows, "Karen and her tea", b=0.9, a=0.5).subject == 0.0
    entity = stored([note("a", "tea with milk", entities=("Aunt May",)), note("b", "tea for one")])
    assert of(entity, "tea for may", a=0.9, b=0.5).subject == 1.0
    assert of(entity, "tea for may", b=0.9, a=0.5).subject == 0.0


# All of them


def test_names_of_memories_do_not_matter() -> None:
    rows = {"a": E[0], "b": TWIN, "c": E[2], "d": E[3], "e": E[4]}
    scores = {"a": 0.9, "b": 0.85, "c": 0.5, "d": 0.4, "e": 0.1}
    text = {"a": OLD, "b": f"{OLD} too", "c": NEW, "d": "tea", "e": "rye"}
    renamed = dict(zip("abcde", "ebdac", strict=True))
    plain = stored([note(id_, text[id_]) for id_ in "abcde"], rows)
    other = stored(
        [note(renamed[id_], text[id_]) for id_ in "dbeca"], {renamed[id_]: rows[id_] for id_ in rows}
    )
    moved = {renamed[id_]: score for id_, score in scores.items()}
    assert of(plain, "my dog", **scores) == of(other, "my dog", **moved)


@pytest.fixture(scope="module")
def asked() -> dict[str, pd.DataFrame]:
    fixture = fixtures.load(NOTES)
    return {
        store: pipeline.run_cases(fixture, HashEmbedder(), store=store, quiet=True)
        for store in ("memory", "sqlite")
    }


def test_both_stores_give_the_same_signals(asked) -> None:
    for name in SIGNALS:
        assert asked["memory"][name].tolist() == asked["sqlite"][name].tolist(), name


def test_no_case_that_was_asked_lacks_a_signal(asked) -> None:
    rows = asked["memory"]
    assert rows[list(SIGNALS)].notna().all(axis=None)
    assert (rows["distinct_margin"] >= rows["margin"]).all()
    for name in ("agreement", "coverage", "subject"):
        assert rows[name].between(0, 1).all(), name
        assert rows[name].nunique() > 2, name


def test_signals_come_back_from_disk(asked, tmp_path: Path) -> None:
    written = asked["memory"].assign(outcome="answered")
    runs.write_rows(written, tmp_path / "run.jsonl")
    read = runs.read_rows(tmp_path / "run.jsonl")
    for name in SIGNALS:
        assert read[name].tolist() == written[name].tolist(), name


def test_infinite_signals_come_back_too_and_a_file_without_signals_has_none(tmp_path: Path) -> None:
    alone = pipeline.run_cases(built(raw_case("a")), HashEmbedder(), quiet=True)
    broken = scoring.frame([scoring.failed_case(case_of("a"), "no disk")])
    for rows, value in ((alone, np.inf), (broken, -np.inf)):
        runs.write_rows(rows.assign(outcome="misled"), tmp_path / "run.jsonl")
        (line,) = (tmp_path / "run.jsonl").read_text().splitlines()
        assert "Infinity" not in line
        assert runs.read_rows(tmp_path / "run.jsonl")["z"].tolist() == [value]
        assert runs.read_rows(tmp_path / "run.jsonl")["distinct_margin"].tolist() == [value]
    held = pd.read_json(tmp_path / "run.jsonl", lines=True).drop(columns=list(MEASURED))
    held.to_json(tmp_path / "old.jsonl", orient="records", lines=True)
    assert runs.read_rows(tmp_path / "old.jsonl")[list(MEASURED)].isna().all(axis=None)


def test_a_ranking_scored_without_its_memories_has_no_signals() -> None:
    rows = gated([right(0.9, 0.3)], Gate(0.5))
    assert rows[list(MEASURED)].isna().all(axis=None)
    assert all(np.isnan(value) for value in astuple(UNMEASURED))

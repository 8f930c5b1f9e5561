"""What there is to know about a top hit, by arithmetic that can be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from math import inf, log
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import case_of, few_examples, gated, right
from conftest import NOTES, built, note, raw_case
from hypothesis import given
from hypothesis import strategies as st

from recall_core import fixtures, pipeline, runs, scoring, signals
from recall_core.config import PathConfig
from recall_core.embedders.hashing import HashEmbedder
from recall_core.gates import Gate
from recall_core.paths.local import LocalPath
from recall_core.records import Hit, Memory, Part, Ranking
from recall_core.signals import MEASURED, NAMELESS, NOTHING, SIGNALS, UNMEASURED, Known, Signals
from recall_core.store import SqliteStore

OLD, NEW = "the dog sleeps in the hall", "a cat sits on the roof"


def stored(memories: Sequence[Memory]) -> Known:
    """What a store of these memories knows."""
    return signals.known(memories)


def of(known: Known, query: str = "?", lang: str = "en", **scores: float) -> Signals:
    return signals.signals_of(query, lang, Ranking.of("vector", scores.items()), known)


def texts(**by_id: str) -> Known:
    return stored([note(id_, text) for id_, text in by_id.items()])


def test_every_signal_has_a_reason_and_every_measured_one_is_a_signal() -> None:
    assert set(SIGNALS) - set(MEASURED) == {"top1", "margin"}
    assert set(MEASURED) < set(SIGNALS)
    assert all(reason and "\n" not in reason for reason in SIGNALS.values())


def test_nothing_found_is_the_worst_of_everything() -> None:
    assert of(stored([])) == NOTHING
    assert astuple(NOTHING) == (-inf,) * 7


# Distinct margin

TWIN = "in the hall the dog sleeps"
"""The content words of OLD in another order."""


def test_a_twin_is_no_runner_up() -> None:
    known = texts(a=OLD, b=TWIN, c=NEW, d="tea")
    assert of(known, a=0.9, b=0.85, c=0.5, d=0.4).distinct_margin == 0.9 - 0.5


def test_a_rival_is_a_runner_up_and_so_is_a_twin_behind_it() -> None:
    known = texts(a=OLD, b=TWIN, c=NEW, d="tea")
    assert of(known, a=0.9, c=0.85, b=0.5, d=0.4).distinct_margin == 0.9 - 0.85


@pytest.mark.parametrize(
    ("top", "other", "same"),
    [
        ("two three four five six", "two three four five", True),  # 4 of 5 is 0.8
        ("two three four five", "two three four", False),  # 3 of 4
        ("two three four five", "two three four six", False),  # 3 of 5
        ("red kite", "red kites", True),  # one stem
        ("the kite of the day", "a kite a day", True),  # function words say nothing
        ("what is it", "what is it", False),  # nothing is said, so nothing is said again
        ("kite", "what is it", False),
    ],
)
def test_four_in_five_content_stems_say_the_same(top: str, other: str, same: bool) -> None:
    known = stored([note("a", top, lang="en"), note("b", other, lang="en"), note("c", NEW, lang="en")])
    assert of(known, a=0.9, b=0.8, c=0.1).distinct_margin == (0.9 - 0.1 if same else 0.9 - 0.8)


def test_a_title_an_alias_and_an_entity_are_said_too() -> None:
    for more in ({"title": "Garden"}, {"aliases": ("Garden",)}, {"entities": ("Garden",)}):
        known = stored([note("a", "kettle", **more), note("b", "kettle"), note("c", "garden kettle")])
        assert of(known, a=0.9, b=0.8, c=0.1).distinct_margin == 0.9 - 0.8
        assert of(known, a=0.9, c=0.8, b=0.1).distinct_margin == 0.9 - 0.1


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_copies_are_repeats_in_the_smallest_store(copies: int) -> None:
    names = "bcd"[:copies]
    known = texts(a=OLD, z=NEW, **dict.fromkeys(names, OLD))
    scores = {"a": 0.9, "z": 0.3} | dict.fromkeys(names, 0.9)
    assert of(known, **scores).distinct_margin == 0.9 - 0.3


def test_nothing_that_says_anything_else_is_no_runner_up() -> None:
    assert of(texts(a=OLD), a=0.9).distinct_margin == inf
    assert of(texts(a=OLD, b=OLD), a=0.9, b=0.9).distinct_margin == inf


@few_examples
@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(["kite", "tea", "red", "the"]), min_size=1), st.floats(-1, 1)),
        min_size=1,
        max_size=8,
    )
)
def test_the_distinct_margin_is_never_below_the_margin(held: list[tuple[list[str], float]]) -> None:
    known = texts(**{f"m{i}": " ".join(words) for i, (words, _) in enumerate(held)})
    scores = {f"m{i}": score for i, (_, score) in enumerate(held)}
    first, second = (*sorted(scores.values(), reverse=True), -inf)[:2]
    assert of(known, **scores).distinct_margin >= first - second


# Scores of the streams


def parted(**given_: tuple[float, float | None]) -> Ranking:
    """Of (score of the path, own score in the stream `vector`), None where it was found by words alone."""
    hits = []
    for id_, (score, cosine) in given_.items():
        parts = [Part("keyword", 1, 3.0, 0.1)]
        if cosine is not None:
            parts.append(Part("vector", 1, cosine, 0.1))
        hits.append(Hit(id_, score, tuple(parts)))
    return Ranking.ordered("hybrid", hits)


@pytest.mark.parametrize(
    ("given_", "score", "margin"),
    [
        ({"a": (0.9, 0.7), "b": (0.5, 0.4), "c": (0.4, 0.6)}, 0.7, 0.7 - 0.6),  # c, not the runner-up b
        ({"a": (0.9, 0.5), "b": (0.5, 0.8)}, 0.5, 0.5 - 0.8),  # behind by cosine, ahead by all
        ({"a": (0.9, 0.7), "b": (0.5, None)}, 0.7, inf),
        ({"a": (0.9, 0.7)}, 0.7, inf),
        ({"a": (0.9, None), "b": (0.5, 0.4)}, -inf, -inf),
        ({"a": (0.9, None), "b": (0.5, None)}, -inf, -inf),
    ],
)
def test_the_vectors_own_view_of_the_winner(
    given_: dict[str, tuple[float, float | None]], score: float, margin: float
) -> None:
    found = signals.signals_of("?", "en", parted(**given_), texts(a="tea", b="milk", c="rye"))
    assert (found.vector_score, found.vector_margin) == (score, margin)


def test_the_keyword_score_is_bm25_of_the_winner_alone() -> None:
    known = texts(a="kettle steel", b="pot", c="pan lid", d="cup of tea")
    # Of 4 memories 1 holds it; 2 words of a mean of (2 + 1 + 2 + 3) / 4 = 2.
    idf = log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    one = idf * 1 * 2.2 / (1 + 1.2 * (1 - 0.75 + 0.75 * 2 / 2))
    assert of(known, "kettle", a=0.9, b=0.5).keyword_score == pytest.approx(one, rel=1e-12)
    assert of(known, "steel kettle", a=0.9, b=0.5).keyword_score == pytest.approx(2 * one, rel=1e-12)
    assert of(known, "kettle", b=0.9, a=0.5).keyword_score == 0
    assert of(known, "violin", a=0.9, b=0.5).keyword_score == 0


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

HELD, MISSING = log(1 + 0.5 / 1.5), log(1 + 1.5 / 0.5)
"""What a word counts that stands in the one memory there is, and one that does not."""


@pytest.mark.parametrize(
    ("query", "lang", "text", "held", "missing"),
    [
        ("where does the dog sleep", "en", OLD, 2, 0),
        ("where do dogs and cats sleep", "en", OLD, 2, 1),
        ("where is the roof", "en", OLD, 0, 1),
        ("где спит собака", "ru", "Собака спит в коридоре", 2, 0),
        ("wo schläft der Hund", "de", "Der Hund schläft im Flur", 2, 0),
        ("порт docker", "ru", "docker слушает на 8080", 1, 1),
    ],
)
def test_coverage_is_a_share_of_content_stems_by_their_rarity(
    query: str, lang: str, text: str, held: int, missing: int
) -> None:
    share = held * HELD / (held * HELD + missing * MISSING)
    assert of(stored([note("a", text)]), query, lang, a=0.9).coverage == pytest.approx(share, rel=1e-12)


def test_a_question_without_content_words_is_not_covered() -> None:
    assert of(texts(a="what is it?"), "what is it?", a=0.9).coverage == 0.0
    assert of(texts(a=OLD), "🙂", a=0.9).coverage == 0.0


def test_a_rare_word_covers_more_than_a_common_one() -> None:
    known = texts(a="red kite", b="red tea", c="red rye", d="milk")
    # Of 4 memories 3 hold `red`, 1 holds `kite` and 1 `tea`.
    common, rare = log(1 + (4 - 3 + 0.5) / (3 + 0.5)), log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    assert of(known, "a red kite", a=0.9).coverage == 1.0
    assert of(known, "a red kite", b=0.9).coverage == pytest.approx(common / (common + rare))
    assert of(known, "kite or tea?", b=0.9).coverage == pytest.approx(1 / 2)


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
    scores = {"a": (0.9, 0.5), "b": (0.85, 0.7), "c": (0.5, 0.1), "d": (0.4, 0.3), "e": (0.1, None)}
    text = {"a": OLD, "b": f"{OLD} too", "c": NEW, "d": "tea", "e": "rye"}
    renamed = dict(zip("abcde", "ebdac", strict=True))
    plain, other = (
        stored([note(names[id_], text[id_]) for id_ in order])
        for names, order in ((dict(zip("abcde", "abcde", strict=True)), "abcde"), (renamed, "dbeca"))
    )
    moved = {renamed[id_]: given_ for id_, given_ in scores.items()}
    assert signals.signals_of("my dog", "en", parted(**scores), plain) == signals.signals_of(
        "my dog", "en", parted(**moved), other
    )


def by(*streams: str) -> LocalPath:
    embedder = HashEmbedder() if "vector" in streams else None
    return LocalPath("p", PathConfig(streams=streams), embedder, quiet=True)


@pytest.fixture(scope="module")
def asked() -> dict[str, pd.DataFrame]:
    fixture = fixtures.load(NOTES)
    return {
        streams: pipeline.run_cases(fixture, by(*streams.split()), quiet=True)
        for streams in ("vector", "keyword", "keyword entity graph vector")
    }


def test_no_case_that_was_asked_lacks_a_signal(asked) -> None:
    for streams, rows in asked.items():
        assert rows[list(SIGNALS)].notna().all(axis=None)
        assert (rows["distinct_margin"] >= rows["margin"]).all()
        for name in ("agreement", "coverage", "subject"):
            found = rows[name][rows["ids"].map(len) > 0]
            assert found.between(0, 1).all(), name
            # Words mostly agree with words.
            assert found.nunique() > (1 if (streams, name) == ("keyword", "agreement") else 2), name


def test_of_vectors_alone_the_vectors_signals_are_the_paths_own(asked) -> None:
    rows = asked["vector"]
    assert rows["vector_score"].tolist() == rows["top1"].tolist()
    assert rows["vector_margin"].tolist() == rows["margin"].tolist()


def test_a_path_without_vectors_has_none_of_their_signals(asked) -> None:
    assert set(asked["keyword"]["vector_score"]) == set(asked["keyword"]["vector_margin"]) == {-inf}


def test_a_signal_tells_if_it_varies_and_is_no_other_once_more(asked) -> None:
    for streams in ("vector", "keyword"):
        assert not {"vector_score", "vector_margin"} & {*signals.telling(asked[streams])}
    assert {"top1", "vector_score", "vector_margin"} <= {
        *signals.telling(asked["keyword entity graph vector"])
    }
    rows = pd.DataFrame({name: [0.5, 0.5, np.nan] for name in SIGNALS})
    assert signals.telling(rows) == []
    rows = rows.assign(margin=[1.0, 2.0, np.nan], coverage=[1.0, 2.0, np.nan], subject=[2.0, 1.0, np.nan])
    assert signals.telling(rows)[0] == "margin"
    assert signals.telling(rows)[-1] == "subject"


def test_by_name_gives_all_of_them_as_a_run_keeps_them(asked) -> None:
    fixture = fixtures.load(NOTES)
    path, case = by("keyword", "entity", "graph", "vector"), fixture.cases[0]
    held = fixtures.memories_for(fixture, case)
    ranking = path.open(held).search(case.query, pipeline.DEPTH)
    found = signals.by_name(case.query, case.lang, ranking, signals.known(held))
    assert list(found) == list(SIGNALS)
    assert found == asked["keyword entity graph vector"].loc[0, list(SIGNALS)].to_dict()


def test_signals_come_back_from_disk(asked, tmp_path: Path) -> None:
    for rows in asked.values():
        written = rows.assign(outcome="answered")
        runs.write_rows(written, tmp_path / "run.jsonl")
        read = runs.read_rows(tmp_path / "run.jsonl")
        for name in SIGNALS:
            assert read[name].tolist() == written[name].tolist(), name


def test_infinite_signals_come_back_too_and_a_file_without_signals_has_none(tmp_path: Path) -> None:
    alone = pipeline.run_cases(built(raw_case("a")), by("vector"), quiet=True)
    broken = scoring.frame([scoring.failed_case(case_of("a"), "no disk")])
    for rows, value in ((alone, inf), (broken.assign(case_hash="a" * 64), -inf)):
        runs.write_rows(rows.assign(outcome="misled"), tmp_path / "run.jsonl")
        (line,) = (tmp_path / "run.jsonl").read_text().splitlines()
        assert "Infinity" not in line
        assert runs.read_rows(tmp_path / "run.jsonl")["vector_margin"].tolist() == [value]
        assert runs.read_rows(tmp_path / "run.jsonl")["distinct_margin"].tolist() == [value]
    held = pd.read_json(tmp_path / "run.jsonl", lines=True).drop(columns=list(MEASURED))
    held.to_json(tmp_path / "old.jsonl", orient="records", lines=True)
    assert runs.read_rows(tmp_path / "old.jsonl")[list(MEASURED)].isna().all(axis=None)


def test_a_ranking_scored_without_its_memories_has_no_signals() -> None:
    rows = gated([right(0.9, 0.3)], Gate(0.5))
    assert rows[list(MEASURED)].isna().all(axis=None)
    assert all(np.isnan(value) for value in astuple(UNMEASURED))

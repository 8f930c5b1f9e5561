"""Studies of embedders whose rows are given by hand, on one fixture of three questions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders import case_of, result_of, right, silent, wrong
from conftest import ByHand, built, note

from recall_core import catalogue, fixtures, models, scoring, studies
from recall_core.config import Config, GateConfig
from recall_core.embedders import Embedder
from recall_core.embedders.cache import CachedEmbedder
from recall_core.gates import Gate
from recall_core.records import Fixture
from recall_core.studies import Study

GATE = GateConfig(min_score=0.5, delta=0.25)

OLD = ByHand({"a": (1, 0), "b": (0, 1), "q1": (1, 0), "q2": (0.8, 0.6), "q3": (0.6, 0.8)}, name="old")
"""q1 answered, q2 wrong on top by 0.2, q3 kept quiet by 0.2."""
NEW = ByHand({"a": (0, 1), "b": (1, 0), "q1": (0, 1), "q2": (1, 0), "q3": (0, 1)}, name="new")
"""q1 and q2 answered, q3 spoken."""
WIDE = ByHand(
    {"a": (1, 0, 0), "b": (0, 1, 0), "q1": (0, 1, 0), "q2": (1, 0, 0), "q3": (0, 0, 1)}, name="wide"
)
"""q1 and q2 misled, q3 kept quiet."""
TOYS = {toy.name: toy for toy in (OLD, NEW, WIDE)}


def asked(query: str, *expected: str) -> dict[str, Any]:
    why = {} if expected else {"silent_because": "nothing answers it"}
    return {"id": query, "query": query, "lang": "en", "expected": list(expected)} | why


def fixture_of(memories: Mapping[str, str], *cases: dict[str, Any]) -> Fixture:
    filler = [note(id_, text).model_dump() for id_, text in memories.items()]
    return built(*cases, isolation="shared", filler=filler)


THREE = fixture_of({"a": "a", "b": "b"}, asked("q1", "a"), asked("q2", "b"), asked("q3"))


def bare(query_prefix: str = "", passage_prefix: str = "") -> SimpleNamespace:
    """What the registry says of a model."""
    return SimpleNamespace(task="embed", query_prefix=query_prefix, passage_prefix=passage_prefix)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The three questions; `old`, `new` and `wide` can be opened, and no model has prefixes."""
    monkeypatch.setattr(catalogue, "open_embedder", lambda name, _root, **_more: TOYS[name])
    monkeypatch.setattr(models, "load_registry", lambda _path: dict.fromkeys(TOYS, bare()))
    return Study(THREE, tmp_path, Config(gate=GATE))


def outcomes(result: Any) -> list[str]:
    return list(result.rows["outcome"])


# Runs


def test_every_case_is_asked_behind_the_gate_of_that_name(study: Study) -> None:
    assert outcomes(study.run(study.path(OLD), "old")) == ["answered", "withheld", "kept_quiet"]
    assert outcomes(study.run(study.path(NEW), "new")) == ["answered", "answered", "false_recall"]
    assert outcomes(study.run(study.path(WIDE), "wide")) == ["misled", "misled", "kept_quiet"]
    open_wide = Config(gate=GATE, gates={"other": GateConfig(min_score=0.0, delta=0.1)})
    found = Study(THREE, study.root, open_wide).run(study.path(OLD), "other")
    assert outcomes(found) == ["answered", "misled", "false_recall"]
    assert (found.path, found.min_score, found.delta) == ("old", 0.0, 0.1)


def test_the_shares_stand_side_by_side(study: Study) -> None:
    table = studies.side_by_side([study.run(study.path(toy), toy.name) for toy in (OLD, NEW)])
    assert list(table.columns) == ["old", "new"]
    assert table.loc["recall@1"].tolist() == [1 / 2, 1.0]
    assert table.loc["false_recall"].tolist() == [0.0, 1.0]
    assert table.loc["passed"].tolist() == [0.667, 0.667]
    assert set(table.index) == set(scoring.metric_names([1, 3]))


# Before and after


def test_three_embedders_make_three_pairs_in_order(study: Study) -> None:
    differences, flips = studies.pairs([study.run(study.path(toy), toy.name) for toy in (OLD, NEW, WIDE)])
    named = ["before_name", "after_name"]
    in_order = [("old", "new"), ("old", "wide"), ("new", "wide")]
    assert list(differences[named].drop_duplicates().itertuples(index=False, name=None)) == in_order
    recall = differences[differences["metric"] == "recall@1"]
    assert recall[["before", "after"]].to_numpy().tolist() == [[1, 2], [1, 0], [2, 0]]
    told = flips[flips["metric"] == "passed"][[*named, "direction", "case_id"]]
    assert list(told.itertuples(index=False, name=None)) == [
        ("old", "new", "gained", "q2"),
        ("old", "new", "lost", "q3"),
        ("old", "wide", "lost", "q1"),
        ("new", "wide", "gained", "q3"),
        ("new", "wide", "lost", "q1"),
        ("new", "wide", "lost", "q2"),
    ]


def test_one_embedder_makes_no_pair(study: Study) -> None:
    differences, flips = studies.pairs([study.run(study.path(OLD), "old")])
    assert differences.empty
    assert flips.empty


# Controls


def test_a_model_without_prefixes_is_only_centred(study: Study) -> None:
    (centred,) = study.variants(OLD)
    assert centred.name == "old, centred"
    # The mean of the two memories is (1/2, 1/2); what is left of a points right and down.
    held = centred.open(list(fixtures.all_memories(THREE))).vectors[0]
    assert held.ids == ("a", "b")
    assert held.matrix[held.row_of[0]] == pytest.approx(np.array([0.5**0.5, -(0.5**0.5)]))
    assert held.mean == pytest.approx(np.array([0.5, 0.5]))
    # The question q2, (0.8, 0.6), is moved alike, to (0.3, 0.1).
    plain, moved = (path.open(list(fixtures.all_memories(THREE))) for path in (study.path(OLD), centred))
    assert plain.search("q2", 2).hits[0].score == pytest.approx(0.8)
    assert moved.search("q2", 2).hits[0].score == pytest.approx((0.3 - 0.1) * 0.5**0.5 / np.hypot(0.3, 0.1))


@pytest.mark.parametrize(("query_prefix", "passage_prefix"), [("q: ", ""), ("", "p: ")])
def test_a_model_with_prefixes_is_also_run_without(
    study: Study, monkeypatch: pytest.MonkeyPatch, query_prefix: str, passage_prefix: str
) -> None:
    def opened(name: str, _root: Path, *, prefixes: bool = True) -> Embedder:
        return TOYS[name] if prefixes else ByHand(WIDE.rows, name=f"{name}, no prefixes")

    entry = bare(query_prefix, passage_prefix)
    monkeypatch.setattr(models, "load_registry", lambda _path: {"old": entry})
    monkeypatch.setattr(catalogue, "open_embedder", opened)
    without, centred = study.variants(OLD)
    assert (without.name, centred.name) == ("old, no prefixes", "old, centred")
    assert (without.options.centre, centred.options.centre) == (False, True)
    assert isinstance(without.embedder, CachedEmbedder)
    assert without.embedder.dim == 3
    assert (study.root / catalogue.CACHE).is_file()


def test_controls_are_named_without_the_embedder(study: Study) -> None:
    plain = study.run(study.path(OLD), "old")
    others = [ByHand(toy.rows, name=f"old, {name}") for toy, name in ((NEW, "x"), (OLD, "y, z"))]
    changed = [study.run(study.path(other), "old") for other in others]
    table = studies.controls(plain, changed)
    assert set(table["embedder"]) == {"old"}
    assert list(dict.fromkeys(table["control"])) == ["x", "y, z"]
    answered = table[table["metric"] == "answered"]
    assert answered[["before", "after"]].to_numpy().tolist() == [[1, 2], [1, 1]]


# Separation


def test_separation_is_the_share_of_pairs_in_order() -> None:
    rows = [
        *(right(1.0, 0.125, id_="r1"), right(0.5, 0.5, id_="r2")),
        *(silent(0.625, 0.25, id_="s1"), silent(0.5, 0.375, id_="s2"), silent(0.75, 0.125, id_="s3")),
        wrong(0.875, 0.75, id_="w"),
    ]
    # The score 1 is above all three, 1/2 ties with one. The margin 1/2 is above all, 1/8 ties with one.
    assert studies.separation(result_of(rows, Gate(0.5, 0.1), path="toy")) == {
        "embedder": "toy",
        "right": 2,
        "silent": 3,
        "top1": pytest.approx((3 + 1 / 2) / 6),
        "margin": pytest.approx((3 + 1 / 2) / 6),
        # Of so few, one draw in four holds only the better right one, and one only the worse.
        **{f"{name}_{end}": at for name in ("top1", "margin") for end, at in (("low", 0.0), ("high", 1.0))},
    }


def test_a_silent_case_that_failed_does_not_separate_better() -> None:
    rows = [right(0.9, 0.3, id_="r"), silent(0.7, 0.1, id_="s")]
    whole = studies.separation(result_of(rows, Gate(0.5)))
    failed = scoring.failed_case(case_of((), id_="f"), "no disk")
    broken = studies.separation(result_of([*rows, failed], Gate(0.5)))
    assert (whole["top1"], whole["margin"]) == (1.0, 1.0)
    assert (broken["silent"], broken["top1"], broken["margin"]) == (2, 1 / 2, 1 / 2)


def test_nothing_to_separate_is_no_number() -> None:
    found = studies.separation(result_of([right(0.9, 0.3)], Gate(0.5)))
    assert found["silent"] == 0
    assert np.isnan([found["top1"], found["margin"]]).all()


# Geometry


def test_geometry_counts_who_is_near(study: Study) -> None:
    # Twelve memories share half of their direction, so that all cosines are 1/2. Each of three questions
    # points away from m11, and one from m10, the others from m09: ten neighbours are all but two.
    texts = {f"m{i:02}": f"text {i}" for i in range(12)}
    half = 0.5**0.5
    rows = {text: half * np.eye(13)[i] + half * np.eye(13)[12] for i, text in enumerate(texts.values())}
    for question, other in (("q1", 10), ("q2", 9), ("q3", 9)):
        rows[question] = -half * np.eye(13)[11] - half * np.eye(13)[other]
    fixture = fixture_of(dict(reversed(texts.items())), asked("q1", "m00"), asked("q2", "m00"), asked("q3"))
    shape, worst = Study(fixture, study.root, Config()).geometry(study.path(ByHand(rows, name="toy")))
    assert shape["embedder"] == "toy"
    assert shape[["p1", "p25", "p50", "p75", "p99"]].tolist() == pytest.approx([1 / 2] * 5)
    # Nine memories three times, m10 twice, m09 once, m11 never: the mean is 30/12.
    off = np.array([3] * 9 + [2, 1, 0]) - 30 / 12
    assert shape["hubness"] == pytest.approx((off**3).mean() / (off**2).mean() ** 1.5)
    assert worst["id"].tolist() == [f"m{i:02}" for i in [*range(9), 10]]
    assert worst["times"].tolist() == [3] * 9 + [2]
    assert worst["text"].tolist() == [f"text {i}" for i in [*range(9), 10]]
    assert set(worst["queries"]) == {3}
    assert set(worst["embedder"]) == {"toy"}


def test_geometry_of_a_centred_path_is_that_of_what_it_compares(study: Study) -> None:
    # As above, what all share is half of each; without their mean, e_i - sum(e) / 12 is left of each, and
    # two of these have the cosine (0 - 2 / 12 + 12 / 144) / (1 - 2 / 12 + 12 / 144) = -1 / 11.
    texts = [f"text {i}" for i in range(12)]
    rows = dict(zip(texts, 0.5**0.5 * np.eye(13)[:12] + 0.5**0.5 * np.eye(13)[12], strict=True))
    rows |= {"q1": rows["text 3"]}
    fixture = fixture_of({f"m{i:02}": text for i, text in enumerate(texts)}, asked("q1", "m03"))
    shape, _ = Study(fixture, study.root, Config()).geometry(
        study.path(ByHand(rows, name="toy"), centre=True)
    )
    assert shape["embedder"] == "toy, centred"
    assert shape[["p1", "p50", "p99"]].tolist() == pytest.approx([-1 / 11] * 3, abs=1e-6)


# Stale vectors


def test_every_ordered_pair_of_one_dimension_is_mixed(study: Study) -> None:
    table = study.stale([OLD, WIDE, NEW]).set_index("embedder")
    assert list(table.index) == ["written by old, asked by new", "written by new, asked by old"]
    # Written by old, a is (1, 0): asked by new, q1 is (0, 1) and finds b, q2 finds a, q3 speaks.
    # Written by new, b is (1, 0): asked by old, q1 finds b; q2 finds b, which is right, by 0.2: too little.
    assert table.to_dict("index") == {
        "written by old, asked by new": {
            "recall": 0,
            "answered": 0,
            "asked": 2,
            "false_recall": 1,
            "silent": 1,
        },
        "written by new, asked by old": {
            "recall": 1,
            "answered": 0,
            "asked": 2,
            "false_recall": 0,
            "silent": 1,
        },
    }


def test_the_gate_of_who_asks_counts(study: Study) -> None:
    settings = Config(gate=GATE, gates={"old": GateConfig(min_score=0.5, delta=0.1)})
    table = Study(THREE, study.root, settings).stale([OLD, NEW]).set_index("embedder")
    assert table.loc["written by new, asked by old", ["answered", "false_recall"]].tolist() == [1, 1]
    assert table.loc["written by old, asked by new", ["answered", "false_recall"]].tolist() == [0, 1]


def test_two_dimensions_leave_nothing_to_mix(study: Study) -> None:
    assert study.stale([OLD, WIDE]).empty

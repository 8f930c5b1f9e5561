"""Verdicts for CI, and the ratchet: floors in recall.toml go up, never down, and its comments stay."""

from __future__ import annotations

import json
import shutil
import tomllib
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import tomlkit
from builders import result_of, right, silent, wrong
from conftest import PROBES, ROOT
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from recall_core import catalogue, config, fixtures, path_study, pipeline, runs
from recall_core.config import Floor, PagesConfig
from recall_core.gates import Gate
from recall_core.night import ratchet, verdicts
from recall_core.night.verdicts import State, Verdict
from recall_core.records import InputError, RecallError

DAY = date(2026, 7, 31)
HELD = Verdict("floor", "mini", "recall@1", "holds", "mini, recall@1: 50.0% (1/2)", 0.0)
BROKEN = Verdict("floor", "mini", "passed", "broken", "mini, passed: <b>&\x1b[31m|`red`", 0.0)
MISSING = Verdict("notebook", "pages", "30.ipynb", "missing", "the kernel was killed", 1.5)


def test_junit_counts_failures_and_errors_apart() -> None:
    suite = ElementTree.fromstring(verdicts.junit([HELD, BROKEN, MISSING], DAY)).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "time")} == {
        **{"tests": "3", "failures": "1", "errors": "1", "time": "1.500"}
    }
    cases = suite.findall("testcase")
    assert [(case.get("classname"), case.get("name")) for case in cases] == [
        *(("floor.mini", "recall@1"), ("floor.mini", "passed"), ("notebook.pages", "30.ipynb"))
    ]
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], ["error"]]
    assert cases[1][0].text == "mini, passed: <b>&[31m|`red`"


@given(st.text())
def test_any_text_makes_xml_that_can_be_read(text: str) -> None:
    verdict = Verdict("floor", text, text, "broken", text)
    ElementTree.fromstring(verdicts.junit([verdict], DAY).encode())


def test_the_summary_says_first_what_failed_and_lists_all() -> None:
    text = verdicts.summary([HELD, BROKEN, MISSING], DAY)
    head, _, *lines = text.splitlines()
    assert head == "# Recall, 31-07-2026: 1 notebook(s) without results; 1 of 2 broken"
    assert [line.split()[1] for line in lines[:2]] == ["**broken**", "**missing**"]
    shown = MarkdownIt("commonmark").enable("table").render(text)
    assert shown.count("<tr>") == 4
    assert "<b>" not in shown
    assert "<code>" not in shown


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ([], "no floors are set"),
        ([HELD], "all 1 hold"),
        ([HELD, BROKEN], "1 of 2 broken"),
        ([MISSING], "1 notebook(s) without results; no floors are set"),
    ],
)
def test_the_night_in_one_line(given_: list[Verdict], said: str) -> None:
    assert verdicts.headline(given_) == said


RESULT = result_of(
    [right(0.9, 0.2), right(0.9, 0.2, lang="ru"), wrong(0.8, 0.2), silent(0.7, 0.2)], Gate(0.5, 0.05)
)
"""recall@1 2 of 3, in Russian 1 of 1; 1 of 1 must stay silent and speaks."""


@pytest.mark.parametrize(
    ("floor", "state", "said"),
    [
        (Floor(path="hash", metric="recall@1", min=0.6666), "holds", "(2/3)"),
        (Floor(path="hash", metric="recall@1", min=0.7), "broken", "3.3 points below"),
        (Floor(path="hash", metric="recall@1", slice="lang=ru", min=1.0), "holds", "of lang=ru"),
        (Floor(path="hash", metric="false_recall", max=0.5), "broken", "50.0 points above"),
        (Floor(path="hash", metric="false_recall", max=1.0), "holds", "at most 100.00%"),
        (Floor(path="hash", metric="recall@1", slice="lang=de", min=0.0), "broken", "no such case"),
        (Floor(path="mini", metric="recall@1", min=0.0), "missing", "there is no result"),
    ],
)
def test_a_floor_is_held_against_its_metric_path_and_slice(floor: Floor, state: str, said: str) -> None:
    (verdict,) = verdicts.judged([floor], [RESULT])
    assert verdict.state == state
    assert said in verdict.said


# Where paths are compared

Count = tuple[int, int, str]


def pages_config(**more: Any) -> PagesConfig:
    return PagesConfig(fixture="p.json", **more)


def tables(
    keyword: Count, hybrid: Count, found: tuple[int, int] | None = None, lost: str = "w1 w2"
) -> dict[str, pd.DataFrame]:
    """`held_to` of both; `found`: what they find of all cases, what is held to unless given.

    `lost`: what the words find and the other does not.
    """
    both = ["keyword", "hybrid"]
    held = pd.DataFrame([keyword, hybrid], columns=["hits", "n", "lost"])
    below = [{"path": "hybrid", "case_id": id_, "query": "?"} for id_ in lost.split()]
    return {
        "held_to": held.assign(path=both),
        "paths": pd.DataFrame({"path": both, "hits": found or (keyword[0], hybrid[0])}),
        "below": pd.DataFrame(below, columns=["path", "case_id", "query"]),
    }


def judged(settings: PagesConfig, made: dict[str, pd.DataFrame] | None) -> dict[str, tuple[State, str]]:
    """(state, what is said) by what was demanded."""
    found = verdicts.judged_pages(settings, made)
    assert {(verdict.group, verdict.subject) for verdict in found} == {("floor", "pages")}
    return {verdict.what: (verdict.state, verdict.said) for verdict in found}


def states(settings: PagesConfig, made: dict[str, pd.DataFrame] | None) -> dict[str, State]:
    return {what: state for what, (state, _) in judged(settings, made).items()}


HOLDING = {"recall@5, keyword": "holds", "recall@5, hybrid": "holds", "hybrid not below keyword": "holds"}


def test_floors_that_hold_say_so_and_name_nothing_lost() -> None:
    found = judged(pages_config(), tables((7, 10, "a b c"), (14, 20, "x")))
    assert {what: state for what, (state, _) in found.items()} == HOLDING
    assert not [said for _, said in found.values() if "lost" in said]
    assert states(pages_config(), tables((10, 10, ""), (10, 10, ""))) == HOLDING


def test_a_broken_floor_names_the_cases_that_were_lost() -> None:
    found = judged(pages_config(), tables((6, 10, "a b c d"), (14, 20, "x")))
    assert found["recall@5, keyword"] == (
        "broken",
        "pages, keyword recall@5: 60.0% (6/10) [31, 83], wanted at least 70.0%; lost: a b c d",
    )
    assert found["recall@5, hybrid"][0] == "holds"
    both = judged(pages_config(floor=0.9), tables((8, 10, "a b"), (16, 20, "c d e f")))
    assert both["recall@5, keyword"][0] == both["recall@5, hybrid"][0] == "broken"
    assert both["recall@5, hybrid"][1].endswith("lost: c d e f")


@pytest.mark.parametrize(("hits", "state"), [(6, "broken"), (7, "holds"), (8, "holds")])
def test_a_floor_holds_where_it_is_met_exactly(hits: int, state: str) -> None:
    # 0.07 * 100 is a little more than 7 in floating point.
    found = states(pages_config(floor=0.07), tables((hits, 100, ""), (100, 100, "")))
    assert found["recall@5, keyword"] == state


def test_no_path_must_find_less_than_the_first() -> None:
    both = tables((10, 10, ""), (20, 20, ""), found=(18, 17))
    assert judged(pages_config(), both)["hybrid not below keyword"] == (
        "broken",
        "pages: hybrid finds 17, keyword 18; found by keyword and lost by hybrid: w1 w2",
    )
    assert "hybrid not below keyword" not in states(pages_config(below_first=True), both)
    assert states(pages_config(), tables((10, 10, ""), (20, 20, ""), found=(17, 17))) == HOLDING


def test_each_path_but_the_first_is_held_against_it_and_its_own_losses_are_named() -> None:
    names = ["keyword", "one", "two"]
    made = {
        "held_to": pd.DataFrame({"path": names, "hits": 9, "n": 10, "lost": ""}),
        "paths": pd.DataFrame({"path": names, "hits": [8, 7, 6]}),
        "below": pd.DataFrame({"path": ["one", "two", "two"], "case_id": ["a", "b", "c"], "query": "?"}),
    }
    found = judged(pages_config(paths=names, top_k=3), made)
    assert list(found)[:3] == [f"recall@3, {name}" for name in names]
    assert found["one not below keyword"][1].endswith("lost by one: a")
    assert found["two not below keyword"][1].endswith("lost by two: b c")


@pytest.mark.parametrize("below", [["path", "case_id", "query"], []])
def test_where_no_path_loses_anything_the_table_of_what_is_lost_is_empty(below: list[str]) -> None:
    made = tables((10, 10, ""), (20, 20, ""), lost="") | {"below": pd.DataFrame([], columns=below)}
    assert states(pages_config(), made) == HOLDING


def test_paths_that_were_not_compared_are_missing() -> None:
    assert states(pages_config(top_k=3), None) == {"recall@3": "missing"}


def test_the_floors_hold_on_the_pages_we_ship() -> None:
    probes = fixtures.load(PROBES)
    opened = [catalogue.open_path(name, ROOT, quiet=True) for name in ("keyword", "hybrid")]
    results = [pipeline.evaluate(probes, path, gate=Gate(0.0), top_k=5, quiet=True) for path in opened]
    made = {
        "held_to": path_study.held_to(results, {path.name: path.options.streams for path in opened}),
        "paths": path_study.side_by_side(results, probes),
        "below": path_study.below(results[0], results[1:]),
    }
    assert states(pages_config(), made) == HOLDING
    assert sorted(states(pages_config(floor=1.0), made).values()) == ["broken", "broken", "holds"]


TOML = """\
# The first line is a comment.
fixture = "data/notes/recall_v1.json"
measure = ["hash"]  # no model

[gate]
min_score = 0.55   # as shipped
delta = 0.008

# Two floors and a ceiling.
[[floors]]
path = "hash"
metric = "recall@1"
min = 0.25  # set by hand

[[floors]]
path = "hash"
metric = "recall@1"
slice = "lang=ru"
min = 1.0

[[floors]]
path = "hash"
metric = "false_recall"
max = {ceiling}

[night]
keep = 30
"""


def project(folder: Path, text: str = TOML.format(ceiling=1.0), result: Any = RESULT) -> Path:
    """A project and a report of it; returns the report."""
    shutil.copytree(ROOT / "data/notes", folder / "data/notes")
    (folder / "recall.toml").write_text(text)
    settings = config.load(folder / "recall.toml")
    sha = fixtures.fixture_hash(fixtures.load(folder / settings.fixture))
    manifest = {"fixture": {"sha256": sha}, "settings": settings.model_dump(mode="json"), "missing": []}
    report = folder / "reports/2026-07-31"
    report.mkdir(parents=True)
    (report / "manifest.json").write_text(json.dumps(manifest))
    (report / "metrics.json").write_text(json.dumps({"runs": [runs.metrics(result) | {"name": result.path}]}))
    return report


def test_floors_are_raised_to_what_was_measured_and_all_else_stays(tmp_path: Path) -> None:
    report = project(tmp_path)
    assert ratchet.tighten(tmp_path, report) == ["hash, recall@1, min: 0.25 to 0.6666"]
    text = (tmp_path / "recall.toml").read_text()
    assert text == TOML.format(ceiling=1.0).replace("min = 0.25 ", "min = 0.6666 ")
    settings = config.load(tmp_path / "recall.toml")
    assert {verdict.state for verdict in verdicts.judged(settings.floors, [RESULT])} == {"holds"}
    assert ratchet.tighten(tmp_path, report) == []


def test_a_floor_above_what_was_measured_is_never_lowered(tmp_path: Path) -> None:
    text = TOML.format(ceiling=0.2).replace("min = 0.25", "min = 0.9")
    report = project(tmp_path, text)
    assert ratchet.tighten(tmp_path, report) == []
    assert (tmp_path / "recall.toml").read_text() == text


def test_a_ceiling_comes_down(tmp_path: Path) -> None:
    quiet = result_of(
        [right(0.9, 0.2), silent(0.3, 0.2), silent(0.9, 0.2), silent(0.2, 0.1)], Gate(0.5, 0.05)
    )
    report = project(tmp_path, result=quiet)
    assert "hash, false_recall, max: 1 to 0.3334" in ratchet.tighten(tmp_path, report)
    settings = config.load(tmp_path / "recall.toml")
    assert verdicts.judged(settings.floors[2:], [quiet])[0].state == "holds"


def test_the_floor_of_the_pages_is_raised_to_their_lowest_path(tmp_path: Path) -> None:
    text = TOML.format(ceiling=1.0) + '\n[pages]\nfixture = "p.json"\nfloor = 0.7  # of each\n'
    report = project(tmp_path, text)
    metrics = json.loads((report / "metrics.json").read_text())
    held = [{"path": "keyword", "hits": 9, "n": 11}, {"path": "hybrid", "hits": 10, "n": 11}]
    (report / "metrics.json").write_text(json.dumps(metrics | {"pages": {"held_to": held}}))
    assert ratchet.tighten(tmp_path, report)[-1] == "pages, floor: 0.7 to 0.8181"
    assert "floor = 0.8181  # of each" in (tmp_path / "recall.toml").read_text()


def test_floors_written_in_one_line_are_raised_too(tmp_path: Path) -> None:
    text = 'floors = [{ path = "hash", metric = "recall@1", min = 0.1 }] # here\n'
    report = project(tmp_path, text)
    ratchet.tighten(tmp_path, report)
    held = (tmp_path / "recall.toml").read_text()
    assert tomllib.loads(held)["floors"][0]["min"] == 0.6666
    assert held.endswith("# here\n")


def test_only_a_run_of_the_notes_raises_a_floor_of_its_path(tmp_path: Path) -> None:
    report = project(tmp_path)
    metrics = json.loads((report / "metrics.json").read_text())
    (report / "metrics.json").write_text(json.dumps({"runs": [metrics["runs"][0] | {"name": "pages/hash"}]}))
    assert ratchet.tighten(tmp_path, report) == []


def change(report: Path, **changed: Any) -> None:
    path = report / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def test_a_report_of_something_else_raises_nothing(tmp_path: Path) -> None:
    report = project(tmp_path)
    before = (tmp_path / "recall.toml").read_text()
    manifest = json.loads((report / "manifest.json").read_text())
    change(report, fixture={"sha256": "0" * 64})
    with pytest.raises(InputError, match="measured on another fixture"):
        ratchet.tighten(tmp_path, report)
    change(report, **manifest | {"missing": ["pages has no results"]})
    with pytest.raises(InputError, match="is incomplete"):
        ratchet.tighten(tmp_path, report)
    change(report, **manifest)
    (tmp_path / "recall.toml").write_text(before.replace("delta = 0.008", "delta = 0.01"))
    with pytest.raises(InputError, match="with other settings of 'gate'"):
        ratchet.tighten(tmp_path, report)
    (tmp_path / "recall.toml").write_text(before + "\n[paths.hybrid]\nk = 2\n")
    with pytest.raises(InputError, match="with other settings of 'paths'"):
        ratchet.tighten(tmp_path, report)
    with pytest.raises(RecallError, match="holds no report"):
        ratchet.tighten(tmp_path, tmp_path)


def test_the_recall_toml_we_ship_survives_being_read_and_written() -> None:
    text = (ROOT / "recall.toml").read_text()
    assert tomlkit.dumps(tomlkit.parse(text)) == text

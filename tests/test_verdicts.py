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
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from recall_core import config, fixtures, runs
from recall_core.config import Floor
from recall_core.gates import Gate
from recall_core.night import floors, ratchet, verdicts
from recall_core.night.verdicts import Verdict
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
        (Floor(embedder="hash", metric="recall@1", min=0.6666), "holds", "(2/3)"),
        (Floor(embedder="hash", metric="recall@1", min=0.7), "broken", "3.3 points below"),
        (Floor(embedder="hash", metric="recall@1", slice="lang=ru", min=1.0), "holds", "of lang=ru"),
        (Floor(embedder="hash", metric="false_recall", max=0.5), "broken", "50.0 points above"),
        (Floor(embedder="hash", metric="false_recall", max=1.0), "holds", "at most 100.00%"),
        (Floor(embedder="hash", metric="recall@1", slice="lang=de", min=0.0), "broken", "no such case"),
        (Floor(embedder="mini", metric="recall@1", min=0.0), "missing", "there is no result"),
    ],
)
def test_a_floor_is_held_against_its_metric_embedder_and_slice(floor: Floor, state: str, said: str) -> None:
    (verdict,) = floors.judged([floor], [RESULT])
    assert verdict.state == state
    assert said in verdict.said


def test_the_wiki_has_its_floors_too() -> None:
    pages = config.PagesConfig(vault="v", probes="p", floor=0.7)
    tables = {
        "verdicts": pd.DataFrame(
            {"mode": ["keyword", "hybrid"], "hits": [7, 6], "n": [10, 10], "lost": ["", "p1 p2"]}
        ),
        "modes": pd.DataFrame({"mode": ["keyword", "hybrid"], "hits": [7, 6], "n": [10, 10]}),
        "below": pd.DataFrame({"case_id": ["p1"]}),
    }
    found = floors.judged_pages(pages, tables)
    assert [verdict.state for verdict in found] == ["holds", "broken", "broken"]
    assert found[1].said.endswith("wanted at least 70.0%; lost: p1 p2")
    assert found[2].said.endswith("found by words alone and lost by hybrid: p1")
    assert [one.state for one in floors.judged_pages(pages, None)] == ["missing"]
    free = pages.model_copy(update={"hybrid_below_keyword": True})
    assert len(floors.judged_pages(free, tables)) == 2


TOML = """\
# The first line is a comment.
fixture = "data/notes/recall_v1.json"
embedders = ["hash"]  # no model

[gate]
min_score = 0.55   # as shipped
delta = 0.008

# Two floors and a ceiling.
[[floors]]
embedder = "hash"
metric = "recall@1"
min = 0.25  # set by hand

[[floors]]
embedder = "hash"
metric = "recall@1"
slice = "lang=ru"
min = 1.0

[[floors]]
embedder = "hash"
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
    (report / "metrics.json").write_text(json.dumps({"notes": [runs.metrics(result)]}))
    return report


def test_floors_are_raised_to_what_was_measured_and_all_else_stays(tmp_path: Path) -> None:
    report = project(tmp_path)
    assert ratchet.tighten(tmp_path, report) == ["hash, recall@1, min: 0.25 to 0.6666"]
    text = (tmp_path / "recall.toml").read_text()
    assert text == TOML.format(ceiling=1.0).replace("min = 0.25 ", "min = 0.6666 ")
    settings = config.load(tmp_path / "recall.toml")
    assert {verdict.state for verdict in floors.judged(settings.floors, [RESULT])} == {"holds"}
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
    assert floors.judged(settings.floors[2:], [quiet])[0].state == "holds"


def test_the_floor_of_the_wiki_is_raised_to_its_lowest_mode(tmp_path: Path) -> None:
    text = TOML.format(ceiling=1.0) + '\n[pages]\nvault = "v"\nprobes = "p"\nfloor = 0.7  # of each\n'
    report = project(tmp_path, text)
    metrics = json.loads((report / "metrics.json").read_text())
    modes = [{"mode": "keyword", "hits": 9, "n": 11}, {"mode": "hybrid", "hits": 10, "n": 11}]
    (report / "metrics.json").write_text(json.dumps(metrics | {"pages": {"verdicts": modes}}))
    assert ratchet.tighten(tmp_path, report)[-1] == "pages, floor: 0.7 to 0.8181"
    assert "floor = 0.8181  # of each" in (tmp_path / "recall.toml").read_text()


def test_floors_written_in_one_line_are_raised_too(tmp_path: Path) -> None:
    text = 'floors = [{ embedder = "hash", metric = "recall@1", min = 0.1 }] # here\n'
    report = project(tmp_path, text)
    ratchet.tighten(tmp_path, report)
    held = (tmp_path / "recall.toml").read_text()
    assert tomllib.loads(held)["floors"][0]["min"] == 0.6666
    assert held.endswith("# here\n")


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
    with pytest.raises(RecallError, match="holds no report"):
        ratchet.tighten(tmp_path, tmp_path)


def test_the_recall_toml_we_ship_survives_being_read_and_written() -> None:
    text = (ROOT / "recall.toml").read_text()
    assert tomlkit.dumps(tomlkit.parse(text)) == text

"""What changed in the wiki: each mode's probes, night against night, from the notebook to the index."""

from __future__ import annotations

import json
import math
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from builders import case_of, ranking_of
from conftest import ROOT
from nights import TINY, order, tiny_project
from scipy.stats import binomtest
from test_history import line
from test_report import Seen

from recall_core import page_study, runs, scoring
from recall_core.night import baselines, jobs, nightly, site
from recall_core.night.nightwork import Night
from recall_core.past import changes, history

STARTED, TONIGHT = "2026-07-30T03:00:00+00:00", "2026-07-31T03:00:00+00:00"
CONDITIONS = {"kind": "onnx", "wiki": "w" * 64, "probes": "p" * 64, "path": "{}", "fingerprint": "f" * 64}


def rows(*lost: str, loud: bool = False) -> pd.DataFrame:
    """Six probes found first, the named ones sixth behind `x`, and one that must find nothing."""
    ahead = {f"x{at}": 0.9 for at in range(5)}
    scored = [
        scoring.score_case(
            case_of(id_=name), ranking_of(a=0.8, **(ahead if name in lost else {})), depth=page_study.KEPT
        )
        for name in "abcdef"
    ]
    silent = ranking_of(**({"y": 0.7} if loud else {}))
    table = scoring.frame([*scored, scoring.score_case(case_of((), id_="s"), silent, depth=page_study.KEPT)])
    return table.assign(outcome=page_study.outcomes(table))


def night(table: pd.DataFrame, started: str = STARTED, mode: str = "hybrid", **changed: Any) -> Any:
    found = (table["outcome"] == "found").sum()
    passed = found + (table["outcome"] == "kept_quiet").sum()
    counts = {"all": {"recall@5": [int(found), 6], "passed": [int(passed), 7]}}
    about = {name: changed.pop(name) for name in list(changed) if name in CONDITIONS}
    modes = [{"name": f"pages/{mode}", **CONDITIONS, **about, "counts": counts}]
    return line(started, embedders=[], modes=modes, **changed)


def publish(reports: Path, table: pd.DataFrame, held: Any) -> Path:
    folder = reports / held["date"]
    (folder / "runs/pages").mkdir(parents=True)
    runs.write_rows(table, folder / "runs/pages/hybrid.jsonl")
    (folder / "manifest.json").write_text(json.dumps({"started": held["started"]}))
    return folder


def since(reports: Path, before: pd.DataFrame, after: pd.DataFrame, **changed: Any) -> changes.Changes:
    held = night(before)
    publish(reports, before, held)
    return changes.since(reports, [held], night(after, TONIGHT, **changed), {"pages/hybrid": after})


def test_probes_that_flipped_are_named_with_both_tops_and_scores(tmp_path: Path) -> None:
    found = since(tmp_path, rows("a"), rows("b", "c", loud=True), threads=2)
    (one,) = found.compared
    assert (one.against, one.reason, one.deterministic) == ("the run of 2026-07-30", "", False)
    columns = ["case_id", "changed", "before_top", "before_score", "after_top", "after_score"]
    assert one.flips[columns].to_numpy().tolist() == [
        ["a", "recall@5 gained, passed gained", "x0", 0.9, "a", 0.8],
        ["b", "recall@5 lost, passed lost", "a", 0.8, "x0", 0.9],
        ["c", "recall@5 lost, passed lost", "a", 0.8, "x0", 0.9],
        ["s", "passed lost", "", -math.inf, "y", 0.7],
    ]
    table = one.table.set_index("metric")
    # One of six is lost, then two others; and the silent one passed, then spoke.
    assert table.loc["recall@5", ["before", "after", "n"]].tolist() == [6 - 1, 6 - 2, 6]
    assert table.loc["passed", ["before", "after", "n"]].tolist() == [6 - 1 + 1, 6 - 2, 7]
    assert table.loc["recall@5", "p"] == pytest.approx(binomtest(1, 1 + 2, 0.5).pvalue)
    assert table.loc["passed", "p"] == pytest.approx(2 * (1 + 4) / 2**4)  # 1 gained of 4, or fewer; two-sided
    assert found.regressions == []
    assert [(trend.name, trend.metric) for trend in found.trends] == [
        *(("pages/hybrid", "recall@5"), ("pages/hybrid", "passed")),
    ]


@pytest.mark.parametrize(
    ("changed", "held_to_it"),
    [
        ({}, True),
        ({"platform": "Darwin"}, False),
        ({"platform": "Darwin", "kind": "hash"}, True),
        ({"platform": "Darwin", "kind": "keyword"}, True),
    ],
)
def test_words_and_hashing_may_never_flip_and_a_model_on_the_same_runtime(
    tmp_path: Path, changed: dict[str, Any], held_to_it: bool
) -> None:
    said = since(tmp_path, rows("a"), rows(), **changed).regressions
    assert bool(said) == held_to_it
    if said:
        assert said[0].startswith(
            "pages/hybrid: a regression against the run of 2026-07-30: 1 cases flipped (a)"
        )
    assert since(tmp_path / "same", rows("a"), rows("a"), **changed).regressions == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"wiki": "v" * 64}, "the wiki changed"),
        ({"probes": "q" * 64}, "the probes changed"),
        ({"path": '{"k": 1}'}, "the search path changed"),
        ({"fingerprint": "0" * 64}, "the embedder's fingerprint changed"),
        ({"wiki": "v" * 64, "probes": "q" * 64}, "the wiki and the probes changed"),
    ],
)
def test_what_is_not_comparable_is_not_compared(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    found = since(tmp_path, rows("a"), rows(), **changed)
    assert found.compared[0].reason == f"not comparable: {said}"
    assert found.regressions == []


def test_another_fixture_of_notes_does_not_part_two_nights_of_the_wiki(tmp_path: Path) -> None:
    found = since(tmp_path, rows("a"), rows(), fixture={"sha256": "b" * 64}, path="{}")
    assert list(found.compared[0].flips["case_id"]) == ["a"]


def test_lines_and_baselines_that_lack_the_probes_are_nothing_to_compare_with_yet(tmp_path: Path) -> None:
    old = line(STARTED, pages={"keyword": [3, 6], "hybrid": [5, 6]})
    history.append(tmp_path, old)
    assert history.read(tmp_path) == [old]
    tonight = night(rows(), TONIGHT)
    found = changes.since(
        tmp_path, [old], tonight, {"pages/hybrid": rows()}, baseline=("spring", tmp_path, old)
    )
    assert [(one.against, one.reason) for one in found.compared] == [
        ("an earlier run", "nothing to compare with yet"),
        ("baseline spring", "nothing to compare with yet: it does not hold pages/hybrid"),
    ]


def test_metrics_of_an_earlier_version_make_a_line_without_modes() -> None:
    modes = [{"mode": "hybrid", "hits": 4, "n": 5, "silent": 1, "nothing": 2}]
    manifest = {**line(), "broken_floors": []}
    old = history.line_of(manifest, {"notes": [], "pages": {"modes": modes}})
    assert (old["pages"], old["modes"], history.night(old)) == ({"hybrid": [4, 5]}, [], [])
    held = {"modes": modes, "conditions": [{"mode": "hybrid", **CONDITIONS}]}
    (now,) = history.night(history.line_of(manifest, {"notes": [], "pages": held}))
    assert (now.counted("recall@5"), now.counted("passed")) == ((4, 5), (4 + 1, 5 + 2))


# Nights

DAY = date(2026, 7, 28)
QUERY = "kettle <i>|x|</i> [y](http://evil.example)"
PAGES = '\n[pages]\nvault = "wiki"\nprobes = "probes.json"\nfloor = 0.0\n'
READ = "[*read.pages, *raw]"
MISREAD = "[*(page.model_copy(update={'text': page.text.replace('kettle', 'pot')}) for page in read.pages)]"


def ask(folder: Path, night: int) -> Night:
    return nightly.run(order(folder, DAY + timedelta(night), only=("pages",)))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Night]]:
    """Three nights over three pages: a first, one whose reader drops a word, one after a page was edited."""
    folder = tiny_project(tmp_path_factory.mktemp("wiki") / "p", TINY + PAGES)
    (folder / "wiki").mkdir()
    for name, text in {"brew": "A kettle.", "ladder": "Nine rungs.", "rope": "Hemp, twisted."}.items():
        (folder / f"wiki/{name}.md").write_text(text)
    probes = [
        {"id": "p1", "query": QUERY, "expected": ["brew.md"]},
        {"id": "p2", "query": "rungs", "expected": ["ladder.md"]},
        {"id": "p3", "query": "goose", "expected": [], "silent_because": "no page says"},
    ]
    told = {"format": 1, "name": "tiny", "version": "1.0.0", "probes": probes}
    (folder / "probes.json").write_text(json.dumps(told))
    notebook = folder / jobs.PAGES
    notebook.write_bytes((ROOT / jobs.PAGES).read_bytes())
    found = [ask(folder, 0)]
    baselines.set_(folder / "reports", "default", folder / "reports/2026-07-28")
    replace(notebook, READ, MISREAD)
    found.append(ask(folder, 1))
    site.write(folder / "reports")
    (folder / "reports/index.html").rename(folder / "second.html")
    replace(notebook, MISREAD, READ)
    replace(folder / "wiki/rope.md", "Hemp", "Nylon")
    found.append(ask(folder, 2))
    return folder, found


def test_a_night_keeps_every_probe_of_each_mode_and_a_baseline_carries_them(
    nights: tuple[Path, list[Night]],
) -> None:
    folder, _ = nights
    for where in ("2026-07-28", "baselines/default"):
        for mode in ("keyword", "hybrid"):
            kept = runs.read_rows(folder / "reports" / where / f"runs/pages/{mode}.jsonl")
            assert list(kept["case_id"]) == ["p1", "p2", "p3"]
            assert list(kept["outcome"]) == ["found", "found", "kept_quiet"]
            assert [ids[:1] for ids in kept["ids"]] == [["brew.md"], ["ladder.md"], []]
    assert kept["top1"][0] >= 1 / (60 + 1)


def test_a_probe_that_flips_is_a_regression_named_in_the_report(nights: tuple[Path, list[Night]]) -> None:
    _, (first, second, _) = nights
    assert {one.reason for one in first.changes.compared} == {"nothing to compare with yet"}
    assert first.broken == []
    assert [said.split(" cases")[0] for said in second.broken] == [
        f"pages/{mode}: a regression against {against}: 1"
        for mode in ("keyword", "hybrid")
        for against in ("the run of 2026-07-28", "baseline default of 2026-07-28")
    ]
    text = second.report.read_text(encoding="utf-8")
    for against in ("the run of 2026-07-28", "baseline default of 2026-07-28"):
        # One probe flipped of one: exact McNemar gives 2 * 1/2.
        assert (
            f"| pages/keyword | {against} | 2/2 to 1/2 | 1.000 | 3/3 to 2/3 | 1.000 | 1, none allowed |"
            in text
        )
    shown = Seen(second.report.with_suffix(".html").read_text(encoding="utf-8"))
    (flips, *others) = [table for table in shown.tables if table[0][:2] == ["changed", "case"]]
    assert flips[1:] == [
        ["recall@5 lost, passed lost", "p1", QUERY, f"brew.md ({1 / (60 + 1):.4f})", "(nothing found)"]
    ]
    assert len(others) == 3
    assert "<i>" not in text
    assert text.count(r"\[y\](http://evil.example)") == text.count("http://evil.example") >= 4


def test_the_index_shows_the_probes_among_the_latest_flips(nights: tuple[Path, list[Night]]) -> None:
    folder, _ = nights
    text = (folder / "second.html").read_text(encoding="utf-8")
    shown = Seen(text)
    tables = [table for table in shown.tables if table[0][0] == "case"]
    assert [table[1:] for table in tables] == [[["p1", QUERY, "found", "lost"]]] * 2
    assert text.index(">pages/keyword<") < text.index(">pages/hybrid<")
    assert "<i>" not in text


def test_after_an_edit_of_the_wiki_nothing_is_compared(nights: tuple[Path, list[Night]]) -> None:
    folder, (*_, third) = nights
    assert {one.reason for one in third.changes.compared} == {"not comparable: the wiki changed"}
    assert third.broken == []
    text = third.report.read_text(encoding="utf-8")
    assert "| pages/hybrid | the run of 2026-07-29 | *not comparable: the wiki changed* |" in text
    assert "There is no comparable night before" in Seen(site.page(folder / "reports")).text

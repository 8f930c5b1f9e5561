"""Exploring: what a gate setting changes, asking, what beat a failed case, drafts, and the two notebooks."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import nights
import numpy as np
import pandas as pd
import pytest
from builders import few_examples, gated, published_rows, right, row_lists, silent, some_gates, wrong
from conftest import NOTES, ROOT, note
from hypothesis import given

from recall_core import catalogue, config, fixtures, gates, pipeline, runs, scoring, stats
from recall_core.embedders.hashing import HashEmbedder
from recall_core.exploring import ask as explore_ask
from recall_core.exploring import desk as explore_desk
from recall_core.exploring import drafts, explore
from recall_core.exploring import first as explore_first
from recall_core.exploring import html as explore_html
from recall_core.exploring import widgets as explore_widgets
from recall_core.gates import Gate
from recall_core.night import notebooks
from recall_core.records import Fixture, FixtureError, InputError
from recall_core.scoring import Row

OPEN = Gate(0.0)
HASH = catalogue.open_path("hash", ROOT, quiet=True)


def run_of(rows: list[Row], gate: Gate = OPEN, fixture: Fixture | None = None) -> explore.Run:
    return explore.Run("a run", "hash", HASH.fingerprint, gate, scoring.frame(rows), fixture)


def desk_of(run: explore.Run, root: Path) -> explore_desk.Desk:
    (root / config.NAME).write_text(nights.PLAIN)
    return explore_desk.Desk(root, run=run)


def many(n: int = 2_000) -> pd.DataFrame:
    """Scored cases as a large fixture gives: a quarter must stay silent, scores and margins overlap."""
    rng = np.random.default_rng(5)
    made: list[Callable[..., Row]] = [right, right, wrong, silent]
    top1, margin = rng.normal(0.8, 0.04, n), rng.exponential(0.03, n) + 1e-4
    text = "сколько минут проживёт сервер, если вырубят электричество?"
    return scoring.frame(
        [
            made[at % 4](float(top1[at]), float(margin[at]), id_=f"case-{at}", query=f"{at}: {text}")
            for at in range(n)
        ]
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A bare checkout: no reports, no models, no cache."""
    return nights.bare_project(tmp_path, nights.PLAIN)


# What a step changes


def test_a_stricter_margin_silences_and_saves() -> None:
    rows = scoring.frame(
        [right(0.9, 0.05, id_="sure"), right(0.9, 0.01, id_="close"), silent(0.8, 0.01, id_="nothing")]
    )
    step = explore.step(rows, Gate(0.5, 0.0), Gate(0.5, 0.02))
    assert dict(step.was[step.was > 0]) == {"answered": 2, "false_recall": 1}
    assert dict(step.counts[step.counts > 0]) == {"answered": 1, "kept_quiet": 1, "silenced": 1}
    told = step.flips[["case_id", "before", "after", "better"]].to_records(index=False).tolist()
    assert told == [("close", "answered", "silenced", False), ("nothing", "false_recall", "kept_quiet", True)]


def test_holding_a_wrong_note_back_is_better_and_saying_it_is_worse() -> None:
    rows = scoring.frame([wrong(0.9, 0.01)])
    (closed,) = explore.step(rows, Gate(0.5), Gate(0.95)).flips.itertuples()
    (opened,) = explore.step(rows, Gate(0.95), Gate(0.5)).flips.itertuples()
    assert (closed.before, closed.after, closed.better) == ("misled", "withheld", True)
    assert (opened.before, opened.after, opened.better) == ("withheld", "misled", False)


@few_examples
@given(row_lists, some_gates, some_gates)
def test_flips_are_the_cases_whose_outcome_differs(rows: list[Row], one: Gate, two: Gate) -> None:
    table = scoring.frame(rows)
    step = explore.step(table, one, two)
    assert len(step.flips) == int((gates.outcomes(table, one) != gates.outcomes(table, two)).sum())
    assert step.counts.sum() == step.was.sum() == len(rows)


# Which settings there are


@few_examples
@given(row_lists)
def test_settings_count_what_trying_each_gate_counts(rows: list[Row]) -> None:
    table = scoring.frame(rows)
    score, delta = np.linspace(0.0, 1.0, 5), np.linspace(0.0, 0.5, 3)
    tried = gates.sweep(table, [Gate(s, d) for s in score for d in delta], Gate(0.0, 0.0))
    found = explore.settings(table, score, delta)
    assert set(zip(found["false_recall"], found["answered"], strict=True)) == set(
        zip(tried["false_recall"], tried["answered"], strict=True)
    )
    for row in found.itertuples():
        words = gates.outcomes(table, Gate(row.min_score, row.delta))
        assert (words == "answered").sum() == row.answered
        assert (words == "false_recall").sum() == row.false_recall
        beaten = explore.beaten_by(
            found, pd.Series({"answered": row.answered, "false_recall": row.false_recall})
        )
        assert (beaten is None) == row.on_frontier


def test_dials_span_the_scores_and_hold_the_gate() -> None:
    rows = scoring.frame([right(0.81, 0.03), silent(0.9, 0.2), right(0.85)])
    score, delta = explore.dials(rows, Gate(0.55, 0.008))
    assert score[0] <= 0.55
    assert score[-1] > 0.9
    assert 0.55 in score
    assert delta[0] == 0
    assert delta[-1] >= 0.008
    assert 40 <= len(score) <= 100


def test_a_gate_that_lets_nothing_through_is_no_place_to_start() -> None:
    run = run_of([right(0.2, 0.1), silent(0.1, 0.01)], Gate(0.55, 0.008))
    gate, why = explore.starting_gate(run)
    assert list(gates.outcomes(run.rows, gate)) == ["answered", "kept_quiet"]
    assert why.startswith("The gate of this run (min_score 0.55, delta 0.008) lets nothing through")
    assert explore.starting_gate(run_of([right(0.9)], Gate(0.55))) == (Gate(0.55), "")


def test_a_run_without_any_hit_can_be_explored() -> None:
    failed = scoring.failed_case(right(0.5).case, "OSError: no disk")
    run = run_of([failed], Gate(0.5, 0.1))
    assert explore.starting_gate(run) == (Gate(0.5, 0.1), "")
    table = explore.settings(run.rows, *explore.dials(run.rows, run.gate))
    assert list(table["answered"]) == [0]


def test_the_star_lies_where_the_counts_are() -> None:
    table = scoring.frame(published_rows())
    points = explore.settings(table, *explore.dials(table, Gate(0.5, 0.0)))
    few, all_ = (explore.step(table, OPEN, gate).counts for gate in (Gate(0.5, 0.02), Gate(0.5, 0.0)))
    picture = explore_html.Picture(points, few)
    pixels = [plt.imread(BytesIO(picture.png(counts)), format="png") for counts in (few, all_, few)]
    assert pixels[0].shape[:2] == (660, 1080)
    differs = np.argwhere((pixels[0] != pixels[1]).any(axis=-1))
    (top, left), (bottom, right_) = differs.min(axis=0), differs.max(axis=0)
    few_at, all_at = (
        picture.ax.transData.transform((counts["false_recall"], counts["answered"])) for counts in (few, all_)
    )
    assert few_at[0] < all_at[0], "more false recalls lie further right"
    assert few_at[1] < all_at[1], "more answers lie higher"
    assert left < few_at[0] < all_at[0] < right_
    assert top < 660 - all_at[1] < 660 - few_at[1] < bottom
    assert (pixels[0] == pixels[2]).all(), "a star leaves nothing behind"


def test_the_slider_moves_2000_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = desk_of(explore.Run("many", "hash", "f", Gate(0.8, 0.01), many()), tmp_path)
    widget = explore_widgets.Knobs(desk)
    monkeypatch.setattr(explore_widgets, "is_live", lambda: True)
    monkeypatch.setattr(explore_widgets, "display", lambda _: None)
    explore_widgets.failures(desk)
    assert "failures" in desk.panels
    widget.delta.value = 0.05
    assert "cases flip against min_score 0.8, delta 0.01" in widget.flips.value


# Widgets


def test_sliders_follow_a_run_with_another_range(tmp_path: Path) -> None:
    low = run_of([right(0.2, 0.1, id_="l"), silent(0.1, 0.01)], Gate(0.15, 0.02))
    high = run_of([right(0.95, 0.5, id_="h"), silent(0.9, 0.4)], Gate(0.92, 0.45))
    desk = desk_of(low, tmp_path)
    widget = explore_widgets.Knobs(desk)
    assert (widget.min_score.value, widget.delta.value) == (0.15, 0.02)
    for run in (high, low, high):
        desk.open(run)
        assert (widget.min_score.value, widget.delta.value) == (run.gate.min_score, run.gate.delta)
        assert "No case flips" in widget.flips.value


def test_the_margin_can_be_switched_off_and_the_reference_moved(tmp_path: Path) -> None:
    desk = desk_of(run_of([right(0.9, 0.01), silent(0.8, 0.5)], Gate(0.5, 0.02)), tmp_path)
    widget = explore_widgets.Knobs(desk)
    widget.margin.value = False
    assert desk.gate == Gate(0.5)
    assert widget.delta.disabled
    assert "1 case flips against min_score 0.5, delta 0.02" in widget.flips.value
    widget.keep.click()
    assert "No case flips against min_score 0.5" in widget.flips.value
    widget.margin.value = True
    widget.back.click()
    assert desk.gate == Gate(0.5)


def test_without_a_front_end_a_panel_is_still(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(explore_widgets, "display", shown.append)
    explore_widgets.shown(lambda: "live", 1, 2)
    assert shown == [1, 2]
    monkeypatch.setattr(explore_widgets, "is_live", lambda: True)
    explore_widgets.shown(lambda: "live", 3)
    assert shown[2:] == ["live", 3], "the still output stays for whoever opens it without a kernel"


# Failed cases and hubs


def hub_run() -> explore.Run:
    return run_of(
        [
            wrong(0.9, 0.1, on_top="hub", id_="one", query="first?"),
            silent(0.8, 0.1, on_top="hub", id_="two", query="second?"),
            right(0.9, 0.1, id_="three"),
            wrong(0.9, 0.0, on_top="z", id_="tied", query="tied?"),
        ]
    )


def test_failed_cases_come_worst_first() -> None:
    rows = hub_run().rows
    failed = explore.failures(rows, explore.step(rows, OPEN, Gate(0.85)).outcomes)
    told = failed[["case_id", "outcome"]].to_records(index=False).tolist()
    assert told == [("one", "misled"), ("tied", "misled")]
    worst = explore.failures(rows, explore.step(rows, OPEN, OPEN).outcomes, 2)
    assert list(worst["outcome"]) == ["false_recall", "misled"]


def test_a_hub_is_named_with_the_questions_it_wins() -> None:
    run = hub_run()
    assert run.hubs["hub"] == ("first?", "second?")
    row = run.rows.iloc[0]
    table = explore.neighbours(run, "one", explore.recorded(row))
    told = table[["rank", "id", "expected", "wins"]].to_records(index=False).tolist()
    assert told == [(1.0, "hub", False, 2), (2.0, "a", True, 0)]
    html = explore_html.neighbours(run, "one", table, OPEN)
    assert "comes out on top of 2 questions that it does not answer" in html
    assert "second?" in html


def test_an_expected_memory_the_run_did_not_keep_stands_at_its_rank() -> None:
    run = run_of([wrong(0.9, 0.4)])
    run.rows.at[0, "ranks"] = (9,)
    run.rows.at[0, "ids"], run.rows.at[0, "scores"] = ("b",), (0.9,)
    table = explore.neighbours(run, "q", explore.recorded(run.rows.iloc[0]))
    assert list(table["rank"]) == [1.0, 9.0]
    assert np.isnan(table["score"].iloc[1])
    assert "not kept" in explore_html.neighbours(run, "q", table, OPEN)


# Runs and asking


def test_a_bare_checkout_computes_a_run_and_answers(project: Path) -> None:
    library = explore_ask.Library(project)
    assert library.choices() == [("computed now, hash", "hash")]
    run = library.run("")
    assert (run.name, len(run.rows), run.gate) == ("computed now, hash", 32, Gate(0.1, 0.02))
    found = library.ask(run, "notes", "Какой размер обуви у Глеба?")
    streams = ["keyword", "entity", "vector", "graph"]
    assert [ranking.stream for ranking in found.rankings] == streams
    assert len(found.ranking.hits) == pipeline.DEPTH < 32 * 3 + 12
    assert (
        found.ranking.hits == HASH.open(list(run.memories.values())).search(found.query, pipeline.DEPTH).hits
    )
    html = explore_html.asked(found, Gate(0.99))
    assert "kept quiet: the best score" in html
    assert "is below min_score 0.99" in html
    wiki = library.ask(run, "wiki", "What is backed up where?")
    assert [ranking.stream for ranking in wiki.rankings] == streams
    assert all(ranking.hits for ranking in wiki.rankings if ranking.stream != "entity")
    assert wiki.fused.hits[0].parts
    with pytest.raises(InputError, match="no shelf is called 'attic'; there are notes, wiki"):
        library.ask(run, "attic", "?")


def test_asking_works_from_any_thread(project: Path) -> None:
    library = explore_ask.Library(project)
    run = library.run("hash")
    with ThreadPoolExecutor(4) as threads:
        asked = list(threads.map(lambda q: library.ask(run, "notes", q), ["сервер", "банк", "wifi", "кофе"]))
    assert [found.query for found in asked] == ["сервер", "банк", "wifi", "кофе"]
    ranking, why = library.ranking(run, "ru-lab-001")
    assert (len(ranking.hits), why) == (15, "")


def test_a_shelf_is_asked_by_the_path_of_each_run(project: Path) -> None:
    """The wiki is the same to all runs, and each run asks it by its own path."""
    settings = nights.PLAIN + '\n[paths.words]\nstreams = ["keyword"]\n[paths.plain]\ncentre = false\n'
    (project / config.NAME).write_text(settings)
    library = explore_ask.Library(project)
    question = "What is backed up where?"
    found = {}
    for name in ("words", "hash", "plain"):
        run = explore.Run(name, name, "f" * 64, OPEN, scoring.frame([right(0.9)]))
        found[name] = library.ask(run, "wiki", question)
        path = catalogue.open_path(name, project, library.settings, quiet=True)
        own = path.open(list(fixtures.all_memories(fixtures.load(project / "data/probes.json"))))
        assert found[name].path == name
        assert found[name].ranking == own.search(question, pipeline.DEPTH)
    assert {hit.parts[0].stream for hit in found["words"].ranking.hits} == {"keyword"}
    assert found["hash"].fused == found["plain"].fused, "all streams by one embedder"


def test_all_streams_are_by_the_embedder_of_the_path(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two runs whose paths go by two embedders, each has its own vectors on a shelf that both ask."""
    small = replace(HASH, name="small", embedder=HashEmbedder(dim=64), known={})
    library = explore_ask.Library(project)
    open_path = catalogue.open_path
    monkeypatch.setattr(
        catalogue,
        "open_path",
        lambda name, *_, **how: small if name == "small" else open_path(name, *_, **how),
    )
    one, other = (
        library.ask(explore.Run("a", name, "f", OPEN, scoring.frame([right(0.9)])), "wiki", "the backup")
        for name in ("hash", "small")
    )
    vectors = [next(r for r in found.rankings if r.stream == "vector") for found in (one, other)]
    assert vectors[0] != vectors[1]
    assert one.fused != other.fused


def report_of(project: Path, day: str = "2026-07-31", *, fingerprint: str | None = None) -> Path:
    """A report folder as the night leaves it, with the runs of two paths."""
    folder = project / "reports" / day
    (folder / "runs").mkdir(parents=True)
    rows = explore_ask.Library(project).run("hash").rows
    rows = rows.assign(outcome=gates.outcomes(rows, Gate(0.1, 0.02)))
    entries = []
    for name, passed in (("hash", 5), ("e5", 9)):
        runs.write_rows(rows, folder / "runs" / f"{name}.jsonl")
        entries.append(
            {
                "name": name,
                "fingerprint": fingerprint or HASH.fingerprint,
                "min_score": 0.1,
                "delta": 0.02,
                "summary": [{"metric": "passed", "slice": "all", "hits": passed, "n": 32}],
            }
        )
    (folder / "metrics.json").write_text(json.dumps({"runs": entries}))
    sha = fixtures.fixture_hash(fixtures.load(NOTES))
    about = {"path": "data/notes/recall_v1.json", "sha256": sha}
    (folder / "manifest.json").write_text(json.dumps({"fixture": about}))
    return folder


def test_runs_of_reports_come_newest_and_best_first(project: Path) -> None:
    folder = report_of(project)
    shutil.copytree(folder, project / "reports" / "2026-07-30")
    shutil.copytree(folder, project / "reports" / ".2026-08-01.work")
    shutil.copytree(folder, project / "reports" / "2026-08-01")
    (project / "reports" / "2026-08-01" / "metrics.json").unlink()
    library = explore_ask.Library(project)
    names = [shown for shown, _ in library.choices()]
    assert names == [
        *("2026-07-31, e5", "2026-07-31, hash", "2026-07-30, e5", "2026-07-30, hash"),
        "computed now, hash",
    ]
    run = library.run("")
    assert (run.name, run.note, len(run.memories)) == ("2026-07-31, e5", "", 32 * 3 + 12)


def test_a_run_whose_model_is_not_here_is_asked_with_hash_and_says_so(project: Path) -> None:
    report_of(project, fingerprint="f" * 64)
    library = explore_ask.Library(project)
    run = library.run("reports/2026-07-31/runs/e5.jsonl")
    found = library.ask(run, "notes", "сервер")
    assert found.path == "hash"
    assert "Asked with the hash embedder" in explore_html.asked(found, run.gate)
    ranking, why = library.ranking(run, "ru-lab-001")
    assert len(ranking.hits) >= 3
    assert why.startswith("Only the hits that the run kept: no path is called 'e5'")
    _, why = library.ranking(library.run("reports/2026-07-31/runs/hash.jsonl"), "ru-lab-001")
    assert "gives other scores now" in why


def test_a_changed_or_missing_fixture_is_told(project: Path) -> None:
    report_of(project)
    fixture = project / "data" / "notes" / "recall_v1.json"
    fixture.write_text(fixture.read_text().replace("14 минут", "15 минут"))
    library = explore_ask.Library(project)
    assert "has changed since this run" in library.run("").note
    fixture.unlink()
    run = library.run("")
    assert "cannot be read" in run.note
    assert run.memories == {}
    assert explore.neighbours(run, "ru-lab-001", library.ranking(run, "ru-lab-001")[0])["text"].eq("").all()
    with pytest.raises(InputError, match="cannot be read"):
        library.ask(run, "notes", "сервер")


@pytest.mark.parametrize("broken", ["", "[]", '{"runs": 3}', '{"runs": [{}]}', '{"notes": []}'])
def test_a_damaged_report_stops_nothing(project: Path, broken: str) -> None:
    folder = report_of(project)
    (folder / "metrics.json").write_text(broken)
    library = explore_ask.Library(project)
    assert library.choices()[-1] == ("computed now, hash", "hash")
    with pytest.raises(InputError, match="no run with its metrics beside it; give reports/DAY/runs/NAME"):
        library.run("reports/2026-07-31/runs/hash.jsonl")


def test_texts_are_escaped_wherever_they_are_shown(project: Path) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    path = project / "data" / "notes" / "recall_v1.json"
    raw = json.loads(path.read_text())
    for memory in (*raw["filler"], *(m for case in raw["cases"] for m in case["memories"])):
        memory["text"] += evil
    for case in raw["cases"]:
        case["query"] += evil
        if "silent_because" in case:
            case["silent_because"] += evil
    path.write_text(json.dumps(raw))
    desk = explore_desk.Desk(project, run="hash", gate=[0.1, 0.03])
    failed = desk.failed(desk.failures()[0][1])
    rows = desk.run.rows.assign(outcome=gates.outcomes(desk.run.rows, desk.gate))
    assert desk.run.fixture is not None
    shown = [
        *(explore_html.flips(desk.step), failed.html, desk.asked(evil).html, desk.asked("Naomi").html),
        explore_first.story(desk.run.fixture, rows, "en-silent-032", desk.gate),
        explore_first.try_out(evil, [evil, "a note"], HASH, OPEN),
    ]
    assert failed.seen
    for html in shown:
        assert "&lt;script&gt;" in html
        assert "<script" not in html
        assert "<img" not in html


# Drafts

SEEN = [
    note("n-1", "Матвею на сменку искать 38-й", lang="ru", ts="2026-03-21T13:02:00+03:00"),
    note("p.md", "A page", title="Page", kind="page", links=("x.md",), thread="t", position=3),
]


def marked(path: Path, query: str = "Какой размер?", **more: Any) -> str:
    return drafts.mark(path, query, SEEN, lock=path.parent / "lock", **more)


def test_a_draft_is_valid_once_it_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "drafts.json"
    assert marked(path) == "draft-001"
    with pytest.raises(FixtureError, match=r"draft-001.*does not say why; add silent_because"):
        fixtures.load(path)
    held = json.loads(path.read_text())
    held["cases"][0]["silent_because"] = "only Matvey's size is noted"
    path.write_text(json.dumps(held))
    assert not fixtures.load(path).cases[0].answerable
    held["cases"][0] |= {"expected": ["draft-001-2"]}
    del held["cases"][0]["silent_because"]
    path.write_text(json.dumps(held))
    (case,) = fixtures.load(path).cases
    assert (case.query, case.lang, case.tags) == ("Какой размер?", "ru", ("draft",))
    first, page = case.memories
    assert (first.id, first.source, first.ts) == ("draft-001-1", "n-1", SEEN[0].ts)
    assert (page.title, page.links, page.thread, page.position) == ("Page", (), None, None)


def test_drafts_with_an_answer_or_a_reason_load_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "drafts.json"
    marked(path, expected="p.md")
    marked(path, "which size?", silent_because="not noted", lang="en")
    one, two = fixtures.load(path).cases
    assert one.expected == ("draft-001-2",)
    assert (two.id, two.silent_because, two.lang) == ("draft-002", "not noted", "en")


def test_marking_changes_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "drafts.json"
    marked(path, expected="n-1")
    before = json.loads(path.read_text())
    before["cases"][0] |= {"query": "edited by hand", "hard": True}
    before["description"] = "mine"
    path.write_text(json.dumps(before, indent=2, ensure_ascii=False) + "\n")
    old = path.read_text()
    marked(path)
    after = json.loads(path.read_text())
    assert after["cases"].pop()["id"] == "draft-002"
    assert after == before
    assert path.read_text().startswith(old[: old.rindex("    }\n")]), "what was there is there to the letter"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["drafts.json", "lock"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "is no fixture"),
        ('{"cases": {}}', "is no fixture"),
        ('{"isolation": "per_group", "cases": []}', "do not bring their own memories"),
    ],
)
def test_a_file_that_is_no_drafts_file_is_left_alone(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "drafts.json"
    path.write_text(content)
    with pytest.raises(FixtureError, match=said):
        marked(path)
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("query", "more", "said"),
    [
        (" ", {}, "write the question"),
        ("x", {"expected": "else"}, "'else' is not among the memories it brings"),
        ("a\0b", {}, "NUL character"),
    ],
)
def test_a_draft_that_could_never_be_valid_is_refused(
    tmp_path: Path, query: str, more: dict[str, str], said: str
) -> None:
    with pytest.raises(FixtureError, match=said):
        marked(tmp_path / "drafts.json", query, **more)
    assert not (tmp_path / "drafts.json").exists()


def test_a_write_that_dies_leaves_the_old_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "drafts.json"
    marked(path)
    old = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        marked(path)
    assert path.read_bytes() == old
    assert sorted(p.name for p in tmp_path.iterdir()) == ["drafts.json", "lock"]


def test_two_who_mark_at_once_both_keep_theirs(tmp_path: Path) -> None:
    path = tmp_path / "drafts.json"
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda n: marked(path, f"question {n}"), range(16)))
    assert sorted(ids) == [f"draft-{n:03}" for n in range(1, 17)]
    assert drafts.count(path) == 16


def test_the_button_marks_once_and_says_where(project: Path) -> None:
    desk = explore_desk.Desk(project, run="hash")
    row = explore_widgets.Question(desk)
    row.show(explore_desk.View("", "Какой размер?", SEEN))
    row.answer.value = explore_desk.SILENT
    row.why.value = "not noted"
    row.button.click()
    assert "draft-001 is in data/drafts.json." in row.said.value
    assert row.button.disabled
    assert desk.drafted() == "1 draft in data/drafts.json"
    assert fixtures.load(project / "data" / "drafts.json").cases[0].silent_because == "not noted"


# The notebooks


def executed(project: Path, name: str, **parameters: Any) -> list[Any]:
    out = project / "out.ipynb"
    notebooks.execute(project / "notebooks" / name, out, parameters, project, quiet=True)
    cells = nbformat.read(out, as_version=4).cells
    return [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.slow
def test_the_exploring_notebook_is_readable_without_widgets(project: Path) -> None:
    outputs = executed(project, "00_explore.ipynb", gate=[0.1, 0.036])
    kinds = [kind for output in outputs for kind in output.get("data", {})]
    assert not any("widget" in kind for kind in kinds)
    assert "image/png" in kinds
    html = "".join(output.data.get("text/html", "") for output in outputs if "data" in output)
    assert "cases flip against min_score 0.1, delta 0.02" in html
    assert "fused: all streams together" in html
    assert "ru-silent-" in html
    assert not (project / "data" / "drafts.json").exists(), "looking writes nothing"


@pytest.mark.slow
def test_the_first_run_tells_what_its_prose_says(project: Path) -> None:
    outputs = executed(project, "01_first_run.ipynb")
    html = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    one, two, three, numbers, try_it = html
    assert "This is called <b>answered</b>" in one
    assert "This is called <b>silenced</b>" in two
    assert "This is called <b>false recall</b>" in three
    assert "5 of 27" in numbers
    assert "spoken" in try_it


def test_numbers_in_words_give_count_share_and_interval() -> None:
    counted = stats.with_intervals(scoring.summarise(gated(published_rows(), OPEN)))
    html = explore_first.shares(counted, {"false_recall": "said something"})
    low, high = stats.wilson(5, 5)
    for part in ("false recall", "said something", "5 of 5", "100%", f"{low:.0%} to {high:.0%}"):
        assert part in html

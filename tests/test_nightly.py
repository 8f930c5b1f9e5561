"""A night from fixture to report, on the hash embedder; and what happens when something is wrong."""

import json
import shutil
import sys
from datetime import date
from pathlib import Path
from typing import Any

import nbformat
import pytest
from filelock import FileLock
from nights import NOTES_ALONE, TINY, bare_project, prepare, stub_notes, tiny_project
from nights import order as order_of
from test_history import line as line_of_history
from test_report import Seen

from recall_core import cli, runs
from recall_core.night import baselines, jobs, nightly, nightwork, notebooks, provenance, publishing, site
from recall_core.past import history
from recall_core.records import ConfigError, RecallError

ROOT = Path(__file__).parents[1]
DAY = date(2026, 7, 31)
LINE = line_of_history()


def recall(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["recall", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = bare_project(tmp_path_factory.mktemp("night"), NOTES_ALONE)
    nightly.run(order_of(folder, DAY))
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A project whose notebook hands out results made before: a night of seconds."""
    return tiny_project(tmp_path / "p")


@pytest.fixture(scope="module")
def rows(project: Path) -> list[dict[str, Any]]:
    lines = (project / "reports/2026-07-31/runs/hash.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_the_report_folder_is_whole(project: Path) -> None:
    folder = project / "reports" / "2026-07-31"
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {
        "RECALL-EVAL-31-07-2026.md",
        "RECALL-EVAL-31-07-2026.html",
        "metrics.json",
        "manifest.json",
        "verdicts.xml",
        "summary.md",
        "runs/hash.jsonl",
        "figures/hash-scores.png",
        "figures/hash-margins.png",
        "figures/hash-frontier.png",
        "figures/hash-funnel.png",
        "notebooks/10_note_recall-hash.ipynb",
        "notebooks/10_note_recall-hash.html",
    }
    assert sorted(path.name for path in (project / "reports").iterdir()) == [
        *(".nightly.lock", "2026-07-31", "history.jsonl", "index.html", "logs")
    ]


def test_the_printed_numbers_follow_from_the_rows(project: Path, rows: list[dict[str, Any]]) -> None:
    asked = [row for row in rows if row["expected"]]
    silent = [row for row in rows if not row["expected"]]

    def opens(row: dict[str, Any]) -> bool:
        first, second = row["scores"][:2]
        return first >= 0.1 and first - second > 0.02

    def right(row: dict[str, Any]) -> bool:
        best = {
            id_ for id_, score in zip(row["ids"], row["scores"], strict=True) if score == row["scores"][0]
        }
        return best <= set(row["expected"])

    answered = sum(right(row) and opens(row) for row in asked)
    false = sum(opens(row) for row in silent)
    text = (project / "reports/2026-07-31/RECALL-EVAL-31-07-2026.md").read_text()
    assert f"| recall@1 | {sum(map(right, asked)) / 27:.1%} ({sum(map(right, asked))}/27)" in text
    assert f"| answered, after the gate | {answered / 27:.1%} ({answered}/27)" in text
    assert f"stay silent | {false / 5:.1%} ({false}/5)" in text
    assert f"delta 0.020:           answered {answered}/27" in text
    assert 0 < answered < sum(map(right, asked))


def test_the_manifest_says_what_it_was_made_from(project: Path) -> None:
    manifest = json.loads((project / "reports/2026-07-31/manifest.json").read_text())
    assert manifest["commit"] == "unknown"
    assert manifest["settings"]["gate"] == {"min_score": 0.1, "delta": 0.02}
    assert len(manifest["paths"][0]["fingerprint"]) == 64
    assert {"python", "sqlite", "numpy", "onnxruntime"} <= manifest["versions"].keys()


def test_figures_are_drawn_and_named_in_the_markdown(project: Path) -> None:
    folder = project / "reports" / "2026-07-31"
    text = (folder / "RECALL-EVAL-31-07-2026.md").read_text()
    for figure in (folder / "figures").iterdir():
        assert figure.read_bytes().startswith(b"\x89PNG")
        assert f"(figures/{figure.name})" in text


def test_a_commit_is_named_in_a_checkout() -> None:
    assert provenance.commit_of(ROOT) == "unknown" or len(provenance.commit_of(ROOT).split()[0]) == 40


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


FLOOR = '\n[[floors]]\npath = "hash"\nmetric = "recall@1"\nmax = {}\n'


def add_settings(folder: Path, text: str) -> None:
    path = folder / "recall.toml"
    path.write_text(path.read_text() + text)


def test_a_floor_that_holds_ends_with_0_and_a_broken_one_with_1(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = (tiny / "recall.toml").read_text()
    add_settings(tiny, FLOOR.format(0.5))
    assert recall(tiny, monkeypatch, "nightly", "--date", "2026-07-31") == 1
    said = capsys.readouterr().err
    assert (
        "floor broken: hash, recall@1: 100.0% (3/3) [44, 100], wanted at most 50.00%; 50.0 points above"
        in said
    )
    (tiny / "recall.toml").write_text(settings + FLOOR.format(1.0))
    assert recall(tiny, monkeypatch, "nightly", "--date", "2026-07-31") == 0
    shown = capsys.readouterr().out
    assert "all 1 floors hold" in shown
    text = (tiny / "reports/2026-07-31/RECALL-EVAL-31-07-2026.md").read_text()
    assert "**All 1 floors hold.**" in text
    assert "| hash | the run of 2026-07-31 | 3/3 to 3/3 | 1.000 |" in text
    first, second = history.read(tiny / "reports")
    assert (len(first["broken"]), second["broken"]) == (1, [])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (NOTES_ALONE.replace('"hash"', '"hush"'), "no path is called hush; known: hash, all-MiniLM"),
        (NOTES_ALONE.replace("recall_v1", "recall_v9"), "no such file"),
        (NOTES_ALONE.replace("delta = 0.02", "delta = -1"), "gate.delta"),
        (NOTES_ALONE + "[gat]\n", "gat: there is no such key"),
        ("fixture = ", "is not TOML"),
        (NOTES_ALONE + '[[floors]]\npath = "hash"\nmetric = "recall@7"\nmin = 0.1', "recall@1, recall@3"),
        (NOTES_ALONE + '[[floors]]\npath = "hash"\nmetric = "passed"', "give either min or max"),
        (
            NOTES_ALONE + '[[floors]]\npath = "other"\nmetric = "passed"\nmin = 0',
            "no path is called other",
        ),
        (NOTES_ALONE + "[gates.other]\n", "no path is called other"),
        (NOTES_ALONE + '[pages]\nfixture = "p"\npaths = ["keyword", "other"]', "no path is called other"),
        (NOTES_ALONE + '[[choice]]\nfixture = "p"\nother = "other"', "no path is called other"),
        (
            NOTES_ALONE + '[paths.mine]\nembedder = "other"',
            "no embedder is called other; known: hash, all-Mini",
        ),
        (NOTES_ALONE + "[paths.hash]\n", "[paths.hash] has the name of an embedder"),
        (NOTES_ALONE + "[paths.mine]\nstreams = []", "paths.mine.streams"),
    ],
)
def test_a_wrong_configuration_ends_with_2_and_runs_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: str,
    said: str,
) -> None:
    folder = bare_project(tmp_path / "p", settings)
    assert recall(folder, monkeypatch, "nightly") == 2
    assert said in capsys.readouterr().err
    assert not (folder / "reports").exists()


def test_a_fixture_that_copies_its_notes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bare_project(tmp_path / "p", NOTES_ALONE)
    path = folder / "data/notes/recall_v1.json"
    fixture = json.loads(path.read_text())
    case = next(case for case in fixture["cases"] if case["expected"])
    case["query"] = next(m["text"] for m in case["memories"] if m["id"] == case["expected"][0])
    path.write_text(json.dumps(fixture))
    assert recall(folder, monkeypatch, "nightly") == 2
    assert "at most half may be shared" in capsys.readouterr().err


def test_outside_a_project_the_command_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recall(tmp_path, monkeypatch, "nightly") == 2
    assert "no recall.toml in" in capsys.readouterr().err


def test_a_mistyped_command_ends_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert recall(tmp_path, monkeypatch, "nightlie") == 2


def test_a_reports_folder_that_cannot_be_written_ends_with_3(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "a-file").write_text("not a folder")
    assert recall(project, monkeypatch, "nightly", "--reports", "a-file/reports") == 3
    assert "--reports" in capsys.readouterr().err


def test_the_second_of_two_nights_says_who_holds_the_lock(tmp_path: Path) -> None:
    with (
        publishing.locked(tmp_path),
        pytest.raises(RecallError, match=r"another nightly run holds the lock \(process \d+, since 20"),
        publishing.locked(tmp_path),
    ):
        pass


def test_a_lock_whose_holder_died_does_not_stop_the_next_night(tmp_path: Path) -> None:
    (tmp_path / ".nightly.lock").touch()
    (tmp_path / ".nightly.json").write_text('{"pid": 1, "since": "then"}')
    with publishing.locked(tmp_path) as stale:
        assert stale == "the run before (process 1, since then) died holding the lock"
        with pytest.raises(TimeoutError):
            FileLock(tmp_path / ".nightly.lock").acquire(timeout=0)
    with publishing.locked(tmp_path) as stale:
        assert stale == ""


@pytest.mark.parametrize("held", ["", "{", "[]", "null"])
def test_a_lock_whose_owner_cannot_be_read_is_held_all_the_same(tmp_path: Path, held: str) -> None:
    with publishing.locked(tmp_path):
        (tmp_path / ".nightly.json").write_text(held)
        with (
            pytest.raises(RecallError, match="process unknown, since unknown"),
            publishing.locked(tmp_path),
        ):
            pass


def test_an_undeclared_parameter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="declares no parameter paht; it has delta, fixture"):
        notebooks.execute(ROOT / jobs.NOTES, tmp_path / "o.ipynb", {"paht": "x"}, ROOT, quiet=True)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import sys; sys.exit(0)", "no completion record"),
        ("raise ValueError('the well is dry')", "ValueError: the well is dry"),
    ],
)
def test_a_night_whose_notebook_fails_reports_it_and_ends_with_3(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    said: str,
) -> None:
    folder = tiny_project(tmp_path / "p")
    add_settings(folder, FLOOR.format(1.0))
    stub_notes(folder, source)
    assert recall(folder, monkeypatch, "nightly", "--date", "2026-07-31") == 3
    assert said in capsys.readouterr().err
    first_lines = (folder / "reports/2026-07-31/RECALL-EVAL-31-07-2026.md").read_text()[:300]
    assert "**Incomplete.**" in first_lines
    assert said.split(":")[-1].strip() in first_lines


def test_a_night_that_dies_leaves_the_report_of_the_day_whole(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly.run(order_of(tiny))
    report = tiny / "reports/2026-07-31/RECALL-EVAL-31-07-2026.md"
    before = report.read_bytes()

    def die(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(nightly.report, "markdown", die)
    assert recall(tiny, monkeypatch, "nightly", "--date", "2026-07-31") == 3
    assert report.read_bytes() == before
    assert len(history.read(tiny / "reports")) == 1
    (*_, log) = sorted((tiny / "reports/logs").iterdir())
    assert "ended early, nothing was published: OSError" in log.read_text()


@pytest.mark.parametrize("dies_at", [1, 2, 3, 4, 5])
def test_a_night_killed_at_any_step_of_publishing_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    work, final = tmp_path / ".2026-07-31.x.work", tmp_path / "2026-07-31"
    for folder, text in ((work, "new"), (final, "old")):
        folder.mkdir()
        (folder / "report.md").write_text(text)
    steps = 0

    class Killed(BaseException):
        pass

    def dying(real: Any) -> Any:
        def step(*given: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == dies_at:
                raise Killed
            return real(*given, **named)

        return step

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dying(Path.rename))
        patched.setattr(publishing.shutil, "rmtree", dying(shutil.rmtree))
        patched.setattr(publishing.history, "append", dying(history.append))
        patched.setattr(Path, "unlink", dying(Path.unlink))
        with pytest.raises(Killed):
            publishing.publish(work, final, LINE)
    publishing.recover(tmp_path)
    assert (final / "report.md").read_text() == "new"
    assert [held["started"] for held in history.read(tmp_path)] == [LINE["started"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2026-07-31", "history.jsonl"]


def test_a_night_killed_before_the_decision_never_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / ".2026-07-31.x.work"
    work.mkdir()
    monkeypatch.setattr(Path, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        publishing.publish(work, tmp_path / "2026-07-31", LINE)
    publishing.recover(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_night_killed_between_the_two_renames_is_undone_by_the_next(tmp_path: Path) -> None:
    old = tmp_path / ".2026-07-31.old"
    old.mkdir()
    (old / "report.md").write_text("yesterday")
    publishing.recover(tmp_path)
    assert (tmp_path / "2026-07-31" / "report.md").read_text() == "yesterday"


def test_publishing_replaces_the_report_of_the_same_day(tmp_path: Path) -> None:
    work, final = tmp_path / ".2026-07-31.x.work", tmp_path / "2026-07-31"
    for folder, text in ((work, "new"), (final, "old")):
        folder.mkdir()
        (folder / "report.md").write_text(text)
    publishing.publish(work, final)
    assert [path.name for path in tmp_path.iterdir()] == ["2026-07-31"]
    assert (final / "report.md").read_text() == "new"


def test_a_broken_floor_and_a_failed_notebook_end_with_3_and_both_are_said(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_settings(tiny, FLOOR.format(0.5) + '[pages]\nfixture = "p"\n')
    assert recall(tiny, monkeypatch, "nightly") == 3
    said = capsys.readouterr().err
    assert "pages has no results" in said
    assert "floor broken: hash, recall@1" in said


def test_a_model_that_cannot_be_had_costs_its_own_jobs_only(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (tiny / "recall.toml").read_text()
    (tiny / "recall.toml").write_text(settings.replace('["hash"]', '["hash", "all-MiniLM-L6-v2-int8"]'))

    def offline(names: list[str], *_: object, **__: object) -> None:
        if "hash" not in names:
            raise RecallError("no network")

    monkeypatch.setattr(nightwork.catalogue, "pull_missing", offline)
    night = nightly.run(order_of(tiny))
    assert [result.path for result in night.results] == ["hash"]
    assert night.missing == [
        *("all-MiniLM-L6-v2-int8 has no results: no network", "embedders has no results: no network"),
    ]


def test_only_runs_the_jobs_named_and_never_replaces_a_whole_report(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_settings(tiny, FLOOR.format(1.0) + '[pages]\nfixture = "p"\n')
    assert recall(tiny, monkeypatch, "nightly", "--only", "hash", "--date", "2026-07-30") == 0
    assert "all 1 floors hold" in capsys.readouterr().out
    text = (tiny / "reports/2026-07-30/RECALL-EVAL-30-07-2026.md").read_text()
    assert "| asked for | only hash (--only); floors on anything else were not checked |" in text
    assert [held["only"] for held in history.read(tiny / "reports")] == [["hash"]]
    assert recall(tiny, monkeypatch, "nightly", "--only", "hash", "--date", "2026-07-30") == 0
    recall(tiny, monkeypatch, "nightly", "--date", "2026-07-30")
    capsys.readouterr()
    assert recall(tiny, monkeypatch, "nightly", "--only", "hash", "--date", "2026-07-30") == 2
    assert "holds a whole report" in capsys.readouterr().err
    assert recall(tiny, monkeypatch, "nightly", "--only", "hush") == 2
    assert "no job is called hush; there are hash, pages" in capsys.readouterr().err


def test_a_dry_run_says_what_would_run_and_touches_nothing(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = (tiny / "recall.toml").read_text()
    (tiny / "recall.toml").write_text(settings.replace('["hash"]', '["hash", "all-MiniLM-L6-v2-int8"]'))
    assert recall(tiny, monkeypatch, "nightly", "--dry-run") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("fixture   data/tiny.json: tiny 1.0.0, 4 cases, SHA-256 ")
    assert shown[1].startswith("model     hash: here, fingerprint ")
    assert shown[2] == "model     all-MiniLM-L6-v2-int8: would be fetched"
    assert shown[3].startswith("job       hash: notebooks/10_note_recall.ipynb (fixture='data/tiny.json'")
    assert shown[-1] == "at once   2, each at most 900 seconds"
    assert not (tiny / "reports").exists()


def test_old_reports_are_pruned_and_history_and_baselines_kept(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (28, 29):
        nightly.run(order_of(tiny, date(2026, 7, day)))
    assert recall(tiny, monkeypatch, "baseline", "set", "spring", "--date", "2026-07-28") == 0
    assert recall(tiny, monkeypatch, "baseline", "set") == 0
    nightly.run(order_of(tiny, date(2026, 7, 30), keep=1))
    reports = tiny / "reports"
    assert sorted(path.name for path in reports.iterdir()) == [
        *(".nightly.lock", "2026-07-30", "baselines", "history.jsonl", "index.html", "logs"),
    ]
    assert [log.name[:10] for log in (reports / "logs").iterdir()] == ["2026-07-30"]
    assert [held["date"] for held in history.read(reports)] == ["2026-07-28", "2026-07-29", "2026-07-30"]
    text = (reports / "2026-07-30/RECALL-EVAL-30-07-2026.md").read_text()
    assert "| hash | baseline default of 2026-07-29 | 3/3 to 3/3 |" in text
    capsys.readouterr()
    assert recall(tiny, monkeypatch, "baseline", "list") == 0
    assert [text.split()[:2] for text in capsys.readouterr().out.splitlines()] == [
        *(["default", "2026-07-29"], ["spring", "2026-07-28"]),
    ]


def test_the_report_just_written_is_kept_whatever_its_date(tmp_path: Path) -> None:
    for name in ("2026-01-01", "2026-01-02", "2026-01-03", "not-a-report"):
        (tmp_path / name).mkdir()
    assert publishing.prune(tmp_path, 1, "2026-01-01") == ["2026-01-02"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2026-01-01", "2026-01-03", "not-a-report"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("baseline", "set", "../up"), 2, "cannot name a baseline"),
        (("baseline", "set", "--date", "2020-01-01"), 2, "no report of 2020-01-01"),
        (("ratchet", "--date", "yesterday"), 2, "is not a date"),
    ],
)
def test_what_a_baseline_cannot_be_set_from_is_told(
    tiny: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    (tiny / "reports/2026-07-01").mkdir(parents=True)
    assert recall(tiny, monkeypatch, *arguments) == code
    assert said in capsys.readouterr().err


def test_a_baseline_that_is_set_again_is_replaced_at_once(tiny: Path) -> None:
    nightly.run(order_of(tiny))
    reports = tiny / "reports"
    source = reports / "2026-07-31"
    for _ in range(2):
        baselines.set_(reports, "default", source)
        assert sorted(path.name for path in (reports / "baselines").iterdir()) == ["default"]
    (source / "runs/hash.jsonl").unlink()
    found = baselines.read(reports, "default")
    assert found
    assert (found[1] / "runs/hash.jsonl").is_file()
    assert baselines.read(reports, "other") is None


def test_a_flip_where_none_is_allowed_breaks_the_night(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recall(tiny, monkeypatch, "nightly", "--date", "2026-07-30") == 0
    path = tiny / "reports/2026-07-30/runs/hash.jsonl"
    path.write_text(
        path.read_text()
        .replace('"right_first"', '"wrong_on_top"', 1)
        .replace('"ranks": [1]', '"ranks": [2]', 1)
    )
    assert recall(tiny, monkeypatch, "nightly", "--date", "2026-07-31") == 1
    assert (
        "hash: a regression against the run of 2026-07-30: 1 cases flipped (amber)" in capsys.readouterr().err
    )
    text = (tiny / "reports/2026-07-31/RECALL-EVAL-31-07-2026.md").read_text()
    assert "**1 of 1 floors broken.**" in text
    assert "### hash, against the run of 2026-07-30: 1 flipped" in text


def test_after_an_edit_of_the_fixture_the_cases_that_stayed_are_compared(tiny: Path) -> None:
    nightly.run(order_of(tiny, date(2026, 7, 29)))
    edit(tiny / "data/tiny.json", "a white trunk?", "a pale trunk?")
    prepare(tiny)
    night = nightly.run(order_of(tiny, date(2026, 7, 30)))
    text = night.report.read_text()
    # Of three that expect a memory and one that expects none, one was edited.
    assert "| hash | the run of 2026-07-29 | 2/2 to 2/2 | 1.000 | " in text
    assert " 0; 1 cases left out: new, gone or changed |" in text
    assert "none allowed" not in text
    edit(tiny / "data/tiny.json", '"name": "tiny"', '"name": "another"')
    prepare(tiny)
    text = nightly.run(order_of(tiny)).report.read_text()
    assert "| hash | the run of 2026-07-30 | *not comparable: the fixture changed* |" in text


def test_a_new_gate_is_said_and_yesterday_keeps_its_own_outcomes(tiny: Path) -> None:
    edit(tiny / "recall.toml", "min_score = 0.1", "min_score = -1")
    prepare(tiny)
    nightly.run(order_of(tiny, date(2026, 7, 30)))
    edit(tiny / "recall.toml", "min_score = -1", "min_score = 2")
    prepare(tiny)
    night = nightly.run(order_of(tiny))
    text = night.report.read_text()
    # Each case has one note. Every cosine is above -1 and below 2: all four spoke, three of them rightly; now
    # none does, and one of them must not.
    assert "| hash | the run of 2026-07-30 | 3/3 to 3/3 | 1.000 | 3/4 to 1/4 |" in text
    said = "the gate changed (min_score -1, delta 0.02 then, min_score 2, delta 0.02 now)"
    assert said in text.replace("\\", "")
    assert (text.count("| passed lost |"), text.count("| passed gained |")) == (3, 1)
    assert night.broken == []


def test_what_fails_after_publishing_leaves_the_report_and_the_log_says_so(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(nightly.site, "write", full)
    assert recall(tiny, monkeypatch, "nightly", "--date", "2026-07-31") == 3
    assert (tiny / "reports/2026-07-31/manifest.json").is_file()
    assert len(history.read(tiny / "reports")) == 1
    (log,) = (tiny / "reports/logs").iterdir()
    assert "the report was published, and then something failed: OSError" in log.read_text()


# Where paths are compared

QUERY = "kettle <i>|x|</i> [y](http://evil.example)"
PAGES = '\n[pages]\nfixture = "data/pages.json"\ntop_k = 1\nfloor = 0.0\n'
MISREAD = """
from recall_core.paths.local import LocalPath

read = LocalPath.open
swapped = {"brew.md": "Hemp, twisted.", "rope.md": "A kettle."}
LocalPath.open = lambda path, memories: read(
    path, [one.model_copy(update={"text": swapped.get(one.id, one.text)}) for one in memories]
)
"""
"""Code in the notebook that makes every path mistake two pages, though the fixture is the same."""


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[nightwork.Night]]:
    """Three nights over three pages: a first, one whose paths mistake two, one after the third was edited."""
    folder = tiny_project(tmp_path_factory.mktemp("pages") / "p", TINY + PAGES)
    pages = [
        {"id": "brew.md", "text": "A kettle.", "kind": "page"},
        {"id": "ladder.md", "text": "Nine rungs.", "kind": "page"},
        {"id": "rope.md", "text": "Hemp, twisted.", "kind": "page"},
    ]
    asked = [
        {"id": "p1", "query": QUERY, "lang": "en", "expected": ["brew.md"], "tags": ["direct"]},
        {"id": "p2", "query": "rungs", "lang": "en", "expected": ["ladder.md"], "tags": ["direct"]},
    ]
    told = {"format": 1, "name": "pages", "version": "1.0.0", "isolation": "shared", "memories": pages}
    (folder / "data/pages.json").write_text(json.dumps(told | {"cases": asked}))
    notebook = folder / jobs.PAGES
    shutil.copy(ROOT / jobs.PAGES, notebook)
    found = [ask(folder, 28)]
    baselines.set_(folder / "reports", "default", folder / "reports/2026-07-28")
    book = nbformat.read(notebook, as_version=4)
    book.cells.insert(3, nbformat.v4.new_code_cell(MISREAD))
    nbformat.write(book, notebook)
    found.append(ask(folder, 29))
    site.write(folder / "reports")
    (folder / "reports/index.html").rename(folder / "second.html")
    shutil.copy(ROOT / jobs.PAGES, notebook)
    edit(folder / "data/pages.json", "Nine rungs.", "Ten rungs.")
    found.append(ask(folder, 30))
    return folder, found


def ask(folder: Path, day: int) -> nightwork.Night:
    return nightly.run(order_of(folder, date(2026, 7, day), only=("pages",)))


def test_a_night_keeps_every_case_of_each_path_and_a_baseline_carries_them(
    nights: tuple[Path, list[nightwork.Night]],
) -> None:
    folder, (first, *_) = nights
    assert list(first.runs) == ["pages/keyword", "pages/hybrid"]
    for where in ("2026-07-28", "baselines/default"):
        for path in ("keyword", "hybrid"):
            kept = runs.read_rows(folder / "reports" / where / f"runs/pages/{path}.jsonl")
            assert list(kept["case_id"]) == ["p1", "p2"]
            assert list(kept["outcome"]) == ["answered", "answered"]
            assert [ids[0] for ids in kept["ids"]] == ["brew.md", "ladder.md"]
    held = history.published(folder / "reports/2026-07-28")
    assert [(run["name"], run["kind"]) for run in held["runs"]] == [
        *(("pages/keyword", "keyword"), ("pages/hybrid", "hash")),
    ]
    found = {path.name for path in (folder / "reports/2026-07-28/figures").iterdir()}
    assert found == {"pages-kinds.png", "pages-parts.png"}


def test_a_case_that_flips_is_a_regression_named_in_the_report(
    nights: tuple[Path, list[nightwork.Night]],
) -> None:
    _, (first, second, _) = nights
    assert {one.reason for one in first.changes.compared} == {"nothing to compare with yet"}
    assert first.broken == []
    assert [said.split(" cases")[0] for said in second.broken] == [
        f"pages/{path}: a regression against {against}: 1"
        for path in ("keyword", "hybrid")
        for against in ("the run of 2026-07-28", "baseline default of 2026-07-28")
    ]
    text = second.report.read_text()
    for against in ("the run of 2026-07-28", "baseline default of 2026-07-28"):
        # One of two is lost: exact McNemar of one case gives 2 * 1/2.
        counts = "2/2 to 1/2 | 1.000 | 2/2 to 1/2 | 1.000 | 1, none allowed |"
        assert f"| pages/keyword | {against} | {counts}" in text
    shown = Seen(second.report.with_suffix(".html").read_text(encoding="utf-8"))
    (flips, *others) = [table for table in shown.tables if table[0][:2] == ["changed", "case"]]
    # What was said of one page is said of the other, with the same score.
    assert [row[:3] for row in flips[1:]] == [["recall@1 lost, passed lost", "p1", QUERY]]
    assert flips[1][3].startswith("brew.md (")
    assert flips[1][4] == flips[1][3].replace("brew", "rope")
    assert len(others) == 3
    assert "<i>" not in text
    assert text.count(r"\[y\](http://evil.example)") == text.count("http://evil.example") >= 4


def test_the_index_shows_the_cases_of_the_pages_among_the_latest_flips(
    nights: tuple[Path, list[nightwork.Night]],
) -> None:
    folder, _ = nights
    text = (folder / "second.html").read_text(encoding="utf-8")
    tables = [table for table in Seen(text).tables if table[0][0] == "case"]
    assert [table[1:] for table in tables] == [[["p1", QUERY, "answered", "misled"]]] * 2
    assert text.index(">pages/keyword<") < text.index(">pages/hybrid<")
    assert "<i>" not in text


def test_after_an_edit_of_a_page_the_cases_that_expect_it_are_left_out(
    nights: tuple[Path, list[nightwork.Night]],
) -> None:
    _, (*_, third) = nights
    assert {(one.left_out, one.reason) for one in third.changes.compared} == {(1, "")}
    # The pages are as they were, but for the third: what flips may be its doing, so it breaks nothing.
    flipped = {one.against: [*one.flips.get("case_id", [])] for one in third.changes.compared}
    assert flipped == {"the run of 2026-07-29": ["p1"], "baseline default of 2026-07-28": []}
    assert third.broken == []
    assert "1 cases left out: new, gone or changed" in third.report.read_text()

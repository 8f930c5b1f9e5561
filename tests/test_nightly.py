"""A night from fixture to report, on the hash embedder; and what happens when something is wrong."""

import json
import shutil
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from nights import stub_notes, tiny_project
from nights import order as order_of

from recall_core import baselines, cli, history, jobs, nightly, nightwork, notebooks, provenance, publishing
from recall_core.records import ConfigError, RecallError

ROOT = Path(__file__).parents[1]
DAY = date(2026, 7, 31)
SETTINGS = """
fixture = "data/notes/recall_v1.json"
embedders = ["hash"]

[gate]
min_score = 0.1
delta = 0.02
"""


def make_project(folder: Path, settings: str = SETTINGS) -> Path:
    for part in ("notebooks", "data"):
        shutil.copytree(ROOT / part, folder / part)
    (folder / "models").mkdir()
    shutil.copy(ROOT / "models" / "registry.toml", folder / "models")
    (folder / "recall.toml").write_text(settings)
    return folder


def recall(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["recall", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("night"))
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
        "notebooks/10_note_recall-hash.ipynb",
        "notebooks/10_note_recall-hash.html",
    }
    assert sorted(path.name for path in (project / "reports").iterdir()) == [
        *(".nightly.lock", "2026-07-31", "history.jsonl", "logs")
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
    assert len(manifest["embedders"][0]["fingerprint"]) == 64
    assert {"python", "sqlite", "numpy", "onnxruntime"} <= manifest["versions"].keys()


def test_figures_are_drawn_and_named_in_the_markdown(project: Path) -> None:
    folder = project / "reports" / "2026-07-31"
    text = (folder / "RECALL-EVAL-31-07-2026.md").read_text()
    for figure in (folder / "figures").iterdir():
        assert figure.read_bytes().startswith(b"\x89PNG")
        assert f"(figures/{figure.name})" in text


def test_a_commit_is_named_in_a_checkout() -> None:
    assert provenance.commit_of(ROOT) == "unknown" or len(provenance.commit_of(ROOT).split()[0]) == 40


def test_a_floor_that_holds_ends_with_0_and_a_broken_one_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    floors = '[[floors]]\nembedder = "hash"\nmetric = "recall@1"\nmin = 0.9\n'
    folder = make_project(tmp_path / "p", SETTINGS + floors)
    assert recall(folder, monkeypatch, "nightly", "--date", "2026-07-31") == 1
    said = capsys.readouterr().err
    assert "hash, recall@1" in said
    assert "wanted at least 90.0%" in said
    (folder / "recall.toml").write_text(SETTINGS + floors.replace("0.9", "0.1"))
    assert recall(folder, monkeypatch, "nightly", "--date", "2026-07-31") == 0
    text = (folder / "reports/2026-07-31/RECALL-EVAL-31-07-2026.md").read_text()
    assert "**All 1 floors hold.**" in text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (SETTINGS.replace('"hash"', '"hush"'), "no embedder is called hush; known: hash, all-MiniLM"),
        (SETTINGS.replace("recall_v1", "recall_v9"), "no such file"),
        (SETTINGS.replace("delta = 0.02", "delta = -1"), "gate.delta"),
        (SETTINGS + "[gat]\n", "gat: Extra inputs"),
        ("fixture = ", "is not TOML"),
        (SETTINGS + '[[floors]]\nembedder = "hash"\nmetric = "recall@7"\nmin = 0.1', "recall@1, recall@3"),
        (SETTINGS + '[[floors]]\nembedder = "hash"\nmetric = "passed"', "give either min or max"),
        (
            SETTINGS + '[[floors]]\nembedder = "other"\nmetric = "passed"\nmin = 0',
            "no embedder is called other",
        ),
    ],
)
def test_a_wrong_configuration_ends_with_2_and_runs_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: str,
    said: str,
) -> None:
    folder = make_project(tmp_path / "p", settings)
    assert recall(folder, monkeypatch, "nightly") == 2
    assert said in capsys.readouterr().err
    assert not (folder / "reports").exists()


def test_a_fixture_that_copies_its_notes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_project(tmp_path / "p")
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
    (tmp_path / ".nightly.json").write_text('{"pid": 1}')
    with publishing.locked(tmp_path), pytest.raises(TimeoutError):
        FileLock(tmp_path / ".nightly.lock").acquire(timeout=0)


def test_an_undeclared_parameter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="declares no parameter embeder; it has delta, embedder"):
        notebooks.execute(ROOT / jobs.NOTES, tmp_path / "o.ipynb", {"embeder": "x"}, ROOT, quiet=True)


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
    folder = make_project(tmp_path / "p")
    stub_notes(folder, source)
    assert recall(folder, monkeypatch, "nightly", "--date", "2026-07-31") == 3
    assert said in capsys.readouterr().err
    first_lines = (folder / "reports/2026-07-31/RECALL-EVAL-31-07-2026.md").read_text()[:300]
    assert "**Incomplete.**" in first_lines
    assert said.split(":")[-1].strip() in first_lines


def test_a_night_that_dies_leaves_the_report_of_the_day_whole(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = project / "reports/2026-07-31/RECALL-EVAL-31-07-2026.md"
    before = report.read_bytes()

    def die(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(nightly.report, "markdown", die)
    assert recall(project, monkeypatch, "nightly", "--date", "2026-07-31") == 3
    assert report.read_bytes() == before


def test_a_night_killed_between_the_two_renames_is_undone_by_the_next(tmp_path: Path) -> None:
    old = tmp_path / ".2026-07-31.old"
    old.mkdir()
    (old / "report.md").write_text("yesterday")
    publishing.recover(tmp_path)
    assert (tmp_path / "2026-07-31" / "report.md").read_text() == "yesterday"


def test_publishing_replaces_the_report_of_the_same_day(tmp_path: Path) -> None:
    work, final = tmp_path / ".2026-07-31.work", tmp_path / "2026-07-31"
    for folder, text in ((work, "new"), (final, "old")):
        folder.mkdir()
        (folder / "report.md").write_text(text)
    publishing.publish(work, final)
    assert [path.name for path in tmp_path.iterdir()] == ["2026-07-31"]
    assert (final / "report.md").read_text() == "new"

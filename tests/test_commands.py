"""Asking from the shell: a memory that explains its hits, and a gate file it is held behind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, raw_case, raw_fixture
from nights import tiny_project
from test_gate_file import gate_of
from typer.testing import CliRunner, Result

from recall_core import catalogue, cli, gates, signals
from recall_core.choosing import gate_file
from recall_core.commands import gate as gate_command
from recall_core.records import FingerprintError, InputError, Ranking, StoreError, UnknownPathError

Recall = Callable[..., Result]
HASH = catalogue.open_path("hash", ROOT).fingerprint
NEAR = Ranking.of("vector", [("a", 0.75), ("b", 0.5)])


@pytest.fixture
def recall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recall:
    """The command, in a project of its own that holds a wiki of three pages and a store of four notes."""
    project = tiny_project(tmp_path / "project")
    pages = {
        "amber.md": "Amber is fossil resin.\n\nThe amber lamp burns beeswax.",
        "birch.md": "The birch stands by the [[amber]] shed.",
        "cedar.md": "Cedar chests keep moths away.",
    }
    (project / "wiki").mkdir()
    for name, text in pages.items():
        (project / "wiki" / name).write_text(text)
    (project / "seen.jsonl").write_text('{"id": "obs-1", "text": "the kayak lies under the porch"}\n')
    monkeypatch.chdir(project)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli.app, list(arguments))

    assert run("store", "build", "notes.db", "--fixture", "data/tiny.json").exit_code == 0
    return run


def lines_of(shown: Result) -> list[str]:
    assert shown.exit_code == 0, shown.exception
    return shown.stdout.splitlines()


def test_a_wiki_says_why_each_hit_is_there_and_marks_what_matched(recall: Recall) -> None:
    shown = lines_of(recall("ask", "wiki", "lamps of beeswax"))
    # First by its words and by its vector, each of which gives 1 / (1 + 1).
    assert shown[0].startswith("1.0000  amber.md  (")
    for stream in ("keyword", "vector"):
        assert re.search(rf"\b{stream} rank 1, score [\d.]+, gives 0.5000[;)]", shown[0])
    assert shown[1] == "    The amber **lamp** burns **beeswax**."
    hits = [line for line in shown[:-1] if not line.startswith(" ")]
    assert len(hits) == 3
    for hit in hits:
        gives = [float(found) for found in re.findall(r"gives ([\d.]+)", hit)]
        assert sum(gives) == pytest.approx(float(hit.split()[0]), abs=1e-4 * len(gives)), "they add up"
    # Next is birch.md, which has half of it by its link.
    assert shown[-1] == "spoken: the best score is 1.0000, the margin is 0.5000"


def test_a_wiki_is_asked_by_a_path_of_recall_toml(recall: Recall) -> None:
    with Path("recall.toml").open("a") as settings:
        settings.write(
            '[paths.linked]\nstreams = ["keyword", "graph"]\ndecay = 0.25\n[gates.linked]\nmin_score = 0.6\n'
        )
    shown = lines_of(recall("ask", "wiki", "shed", "--path", "linked"))
    # The word stands on one page, which is worth 1 / (1 + 1), and passes a quarter of that on by its link.
    assert shown[0].startswith("0.5000  birch.md  (keyword rank 1, score ")
    assert shown[2] == "0.1250  amber.md  (graph rank 1, score 0.1250, gives 0.1250)"
    assert shown[4:] == ["kept quiet: the best score 0.5000 is below min_score 0.6"]
    assert isinstance(recall("ask", "wiki", "shed", "--path", "nowhere").exception, UnknownPathError)


def test_of_a_wiki_as_many_are_shown_as_asked_for(recall: Recall) -> None:
    for top_k, shown in (("1", 1), ("2", 2), ("9", 3)):
        assert len(lines_of(recall("ask", "wiki", "amber", "--top-k", top_k))) == 2 * shown + 1


def test_observations_are_asked_with_the_pages(recall: Recall) -> None:
    ask = ("ask", "wiki", "kayak?", "--path", "keyword")
    shown = lines_of(recall(*ask, "--observations", "seen.jsonl"))
    assert "  obs-1  (keyword rank 1" in shown[0]
    assert shown[1] == "    the **kayak** lies under the porch"
    assert lines_of(recall(*ask)) == ["kept quiet: nothing was found"]


def test_a_memory_is_a_folder_a_fixture_or_a_store(recall: Recall) -> None:
    for memory in ("data/tiny.json", "notes.db"):
        shown = lines_of(recall("ask", memory, "birch", "--path", "hash"))
        assert "  birch-m  (vector rank 1" in shown[0]
        assert isinstance(
            recall("ask", memory, "birch", "--observations", "seen.jsonl").exception, InputError
        )
    assert isinstance(recall("ask", "no.db", "birch").exception, StoreError)
    assert lines_of(recall("store", "search", "notes.db", "birch")) == lines_of(
        recall("ask", "notes.db", "birch")
    )


def test_a_broken_page_is_told_and_asked_whole(recall: Recall) -> None:
    Path("wiki/dune.md").write_text("---\ntitle: [open\n---\nDunes wander.")
    shown = recall("ask", "wiki", "dunes")
    assert "dune.md: its front matter is broken" in shown.stderr
    assert "**Dunes** wander." in shown.stdout


def test_a_page_in_another_encoding_is_told_and_asked(recall: Recall) -> None:
    Path("wiki/dune.md").write_bytes(b"Dunes wander. \xe9")
    shown = recall("ask", "wiki", "dunes")
    assert "dune.md: byte 15 is not UTF-8; read with replacement characters" in shown.stderr
    assert "**Dunes** wander." in shown.stdout


def test_a_question_without_a_word_is_refused(recall: Recall) -> None:
    for command in (("ask", "wiki", " "), ("ask", "wiki", "???"), ("store", "search", "notes.db", "")):
        assert isinstance(recall(*command).exception, InputError)


def test_what_a_page_holds_does_not_reach_the_terminal_as_a_command(recall: Recall) -> None:
    Path("wiki/elm.md").write_text("The elm \x1b]0;owned\x07\x1b[2J fell.")
    shown = recall("ask", "wiki", "elm").output
    assert "The **elm** ]0;owned [2J fell." in shown
    assert not {"\x1b", "\x07"} & set(shown)


def test_a_store_answers_behind_a_gate_file(recall: Recall, tmp_path: Path) -> None:
    gate = tmp_path / "gate.json"
    query = raw_case("amber")["memories"][0]["text"]
    ask = ("store", "search", "notes.db", query, "--gate", str(gate))
    gate_file.save(gate_of(path="hash", fingerprints=(HASH,), threshold=0.0), gate)
    assert "spoken: margin is" in recall(*ask).output
    gate_file.save(gate_of(path="hash", fingerprints=(HASH,), threshold=5.0), gate)
    assert "kept quiet: margin is" in recall(*ask).output
    gate_file.save(gate_of(path="hash", fingerprints=(HASH,), signal="coverage", threshold=0.5), gate)
    # The question is the memory word for word, so all that it asks for stands there.
    assert "spoken: coverage is 1.0000, above 0.5" in recall(*ask).output


def test_a_much_larger_store_than_the_gate_was_chosen_in_is_told(recall: Recall, tmp_path: Path) -> None:
    ask = ("store", "search", "notes.db", "amber", "--gate", str(tmp_path / "gate.json"))
    for memories, told in ((2, False), (1, True)):
        gate_file.save(gate_of(path="hash", fingerprints=(HASH,), memories=memories), tmp_path / "gate.json")
        assert ("what it promises does not hold here" in recall(*ask).output) is told


def test_a_gate_file_names_the_path_to_ask_with(recall: Recall, tmp_path: Path) -> None:
    gate_file.save(gate_of(path="nobody", fingerprints=(HASH,)), tmp_path / "gate.json")
    ask = ("store", "search", "notes.db", "amber", "--gate", str(tmp_path / "gate.json"))
    assert "no path is called 'nobody'" in str(recall(*ask).exception)
    assert "spoken: margin is" in recall(*ask, "--path", "hash").output


def test_the_help_of_the_choice_lists_every_signal() -> None:
    assert ", ".join(signals.SIGNALS) == gate_command.SIGNALS


def test_a_run_names_every_case_that_did_not_pass(recall: Recall) -> None:
    shown = recall("run", "data/tiny.json", "--min-score", "2", "--delta", "0").output.splitlines()
    assert shown[0] == "hash on the 4 cases of tiny; the gate: min_score 2, delta 0"
    named = [line for line in shown if ": on top " in line]
    # A gate that nothing passes: the three that have an answer do not get it, and dune is kept quiet.
    assert [line.split(": ")[1] for line in named] == ["amber", "birch", "cedar"]
    assert all("-m (" in line for line in named)


def test_a_path_without_a_gate_of_its_own_speaks_all_that_it_finds(recall: Recall) -> None:
    shown = lines_of(recall("run", "data/tiny.json", "--path", "keyword"))
    assert shown[0] == "keyword on the 4 cases of tiny; the gate: min_score 0"
    # Three questions share no word with a memory, so nothing is right and nothing is said; "query dune" does.
    named = [line.split(": ", 2) for line in shown if ": on top " in line]
    assert [(outcome, case, said.split(": on top ")[1][:7]) for outcome, case, said in named] == [
        *(("withheld", name, "nothing") for name in ("amber", "birch", "cedar")),
        ("false recall", "dune", "dune-m "),
    ]


def test_a_folder_is_no_fixture_and_the_way_to_one_is_told(recall: Recall) -> None:
    said = str(recall("run", "wiki").exception)
    assert said.startswith("wiki is a folder; write a fixture beside it")
    assert '{"vault": "wiki"}' in said
    Path("questions.json").write_text(
        json.dumps(
            raw_fixture(
                raw_case("moths", query="what keeps moths away?", expected=["cedar.md"], memories=[]),
                isolation="shared",
                memories={"vault": "wiki"},
            )
        )
    )
    assert "keyword on the 1 cases" in recall("run", "questions.json", "--path", "keyword").output


def test_a_path_that_is_not_there_is_refused_with_those_that_are(recall: Recall) -> None:
    said = str(recall("run", "data/tiny.json", "--path", "nowhere").exception)
    assert said.startswith("no path is called 'nowhere'; known: hash, ")
    assert "keyword, hybrid" in said
    assert "[paths.nowhere]" in said


def test_a_gate_of_another_path_is_refused(recall: Recall, tmp_path: Path) -> None:
    gate_file.save(gate_of(), tmp_path / "gate.json")
    gate = str(tmp_path / "gate.json")
    shown = recall("store", "search", "notes.db", "amber", "--gate", gate, "--path", "hash")
    assert isinstance(shown.exception, FingerprintError)
    assert "ask with --path mini" in str(shown.exception)


def test_thresholds_and_a_gate_file_are_one_too_many(recall: Recall, tmp_path: Path) -> None:
    gate_file.save(gate_of(path="hash", fingerprints=(HASH,)), tmp_path / "gate.json")
    ask = ("store", "search", "notes.db", "amber", "--gate", str(tmp_path / "gate.json"))
    for more in (("--min-score", "0.5"), ("--delta", "0")):
        assert isinstance(recall(*ask, *more).exception, InputError)


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (gate_of(threshold=0.2), "spoken: margin is 0.2500, above 0.2"),
        (gate_of(threshold=0.25), "kept quiet: margin is 0.2500, not above 0.25"),
        (gate_of(min_score=0.8, threshold=0.2), "kept quiet: the best score 0.7500 is below min_score 0.8"),
    ],
)
def test_a_gate_file_explains_itself_as_the_gate_of_its_numbers_does(
    gate: gate_file.GateFile, said: str
) -> None:
    assert gate_file.explain(gate, NEAR, {"margin": 0.25}) == said
    plain = gates.explain(NEAR, gates.Gate(gate.min_score, gate.threshold))
    assert plain.split(":")[0] == said.split(":")[0]


def test_a_gate_on_what_was_not_measured_is_refused() -> None:
    with pytest.raises(InputError, match="'luck'"):
        gate_file.explain(gate_of(signal="luck"), NEAR, {"margin": 0.25})


def test_nothing_found_is_kept_quiet() -> None:
    assert gate_file.explain(gate_of(), Ranking("vector", ()), {}) == "kept quiet: nothing was found"

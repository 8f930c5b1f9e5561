"""Asking from the shell: a wiki that explains its hits, and a store behind a gate file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import raw_case
from nights import tiny_project
from test_gate_file import gate_of
from typer.testing import CliRunner, Result

from recall_core import cli, gates, signals
from recall_core.choosing import gate_file
from recall_core.commands import gate as gate_command
from recall_core.embedders.hashing import HashEmbedder
from recall_core.records import FingerprintError, InputError, Ranking

Recall = Callable[..., Result]
HASH = HashEmbedder().fingerprint
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


def test_a_wiki_says_why_each_hit_is_there_and_marks_what_matched(recall: Recall) -> None:
    shown = recall("ask", "wiki", "lamps of beeswax").stdout.splitlines()
    assert shown[0].startswith("amber.md: 0.0")
    assert "keyword rank 1" in shown[0]
    assert shown[1] == "    The amber **lamp** burns **beeswax**."


def test_a_wiki_too_small_for_vector_search_is_told(recall: Recall) -> None:
    said = "pages none can stand out by 2.5 deviations: vector search finds nothing"
    assert f"of 3 {said}" in recall("ask", "wiki", "amber").stderr
    # 7 / sqrt(8) is 2.47, 8 / sqrt(9) is 2.67.
    for at in range(5):
        Path(f"wiki/{at}.md").write_text(f"page {at}")
    assert f"of 8 {said}" in recall("ask", "wiki", "amber").stderr
    Path("wiki/9.md").write_text("page 9")
    assert recall("ask", "wiki", "amber").stderr == ""


def test_of_a_wiki_as_many_are_shown_as_asked_for(recall: Recall) -> None:
    shown = recall("ask", "wiki", "amber", "--top-k", "1").stdout.splitlines()
    assert len(shown) == 2
    assert "amber.md: 0.0164 = graph rank 1" in recall("ask", "wiki", "shed").output


def test_where_no_page_is_found_the_observations_are_asked(recall: Recall) -> None:
    # Three pages are too few for one to stand out by its vector, so no page stream finds a kayak.
    shown = recall("ask", "wiki", "kayak?", "--observations", "seen.jsonl").stdout.splitlines()
    assert shown[0] == "no page was found by any stream; these are raw observations"
    assert shown[2] == "    the **kayak** lies under the porch"
    assert recall("ask", "wiki", "kayak?").stdout == "nothing was found\n"


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
    gate_file.save(gate_of(embedder="hash", fingerprints=(HASH,), threshold=0.0), gate)
    assert "spoken: margin is" in recall(*ask).output
    gate_file.save(gate_of(embedder="hash", fingerprints=(HASH,), threshold=5.0), gate)
    assert "kept quiet: margin is" in recall(*ask).output
    gate_file.save(gate_of(embedder="hash", fingerprints=(HASH,), signal="z", threshold=-9.0), gate)
    assert "spoken: z is" in recall(*ask).output


def test_a_much_larger_store_than_the_gate_was_chosen_in_is_told(recall: Recall, tmp_path: Path) -> None:
    ask = ("store", "search", "notes.db", "amber", "--gate", str(tmp_path / "gate.json"))
    for memories, told in ((2, False), (1, True)):
        gate_file.save(
            gate_of(embedder="hash", fingerprints=(HASH,), memories=memories), tmp_path / "gate.json"
        )
        assert ("what it promises does not hold here" in recall(*ask).output) is told


def test_a_gate_file_names_the_embedder_to_ask_with(recall: Recall, tmp_path: Path) -> None:
    gate_file.save(gate_of(embedder="nobody", fingerprints=(HASH,)), tmp_path / "gate.json")
    ask = ("store", "search", "notes.db", "amber", "--gate", str(tmp_path / "gate.json"))
    assert "nobody" in str(recall(*ask).exception)
    assert "spoken" in recall(*ask, "--embedder", "hash").output


def test_the_help_of_the_choice_lists_every_signal() -> None:
    assert ", ".join(signals.SIGNALS) == gate_command.SIGNALS


def test_a_run_names_every_case_that_did_not_pass(recall: Recall) -> None:
    shown = recall("run", "data/tiny.json", "--min-score", "2", "--delta", "0").output.splitlines()
    assert shown[0] == "hash on the 4 cases of tiny; the gate: min_score 2, delta 0"
    named = [line for line in shown if ": on top " in line]
    # A gate that nothing passes: the three that have an answer do not get it, and dune is kept quiet.
    assert [line.split(": ")[1] for line in named] == ["amber", "birch", "cedar"]
    assert all("-m (" in line for line in named)


def test_a_fixture_brings_its_own_questions(recall: Recall) -> None:
    assert isinstance(recall("run", "data/tiny.json", "--probes", "probes.json").exception, InputError)


def test_a_gate_of_another_embedder_is_refused(recall: Recall, tmp_path: Path) -> None:
    gate_file.save(gate_of(), tmp_path / "gate.json")
    gate = str(tmp_path / "gate.json")
    shown = recall("store", "search", "notes.db", "amber", "--gate", gate, "--embedder", "hash")
    assert isinstance(shown.exception, FingerprintError)
    assert "ask with --embedder mini" in str(shown.exception)


def test_thresholds_and_a_gate_file_are_one_too_many(recall: Recall, tmp_path: Path) -> None:
    gate_file.save(gate_of(embedder="hash", fingerprints=(HASH,)), tmp_path / "gate.json")
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

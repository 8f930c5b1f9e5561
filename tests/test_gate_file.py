"""The gate as a file: written whole, read with care, and valid for one path."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from builders import examples, right, row_lists, silent, wrong
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from recall_core import gates, scoring
from recall_core.choosing import gate_file
from recall_core.choosing.gate_file import Counts, GateFile
from recall_core.records import FingerprintError, InputError
from recall_core.scoring import Row

OWN, OTHER = "a" * 64, "b" * 64
HALF = Counts(answerable=3, answered=2, misled=0, silent=45, false_recall=0, false_recall_at_most=0.05)


def gate_of(**about: object) -> GateFile:
    sound = {
        "signal": "margin",
        "min_score": 0.5,
        "threshold": 0.25,
        "path": "mini",
        "fingerprints": (OWN,),
        "fixture": "tiny",
        "fixture_hash": "0" * 64,
        "memories": 72,
        "method": "fixed_sequence",
        "max_false": 0.05,
        "confidence": 0.9,
        "tune": HALF,
        "test": HALF,
        "chosen_on": date(2026, 7, 31),
    }
    return GateFile.model_validate(sound | about)


def test_what_is_saved_is_what_is_read_and_a_daemon_can_read_it(tmp_path: Path) -> None:
    gate = gate_of()
    gate_file.save(gate, tmp_path / "gate.json")
    assert gate_file.load(tmp_path / "gate.json") == gate
    plain = json.loads((tmp_path / "gate.json").read_text())
    assert plain["format"] == 1
    assert (plain["signal"], plain["min_score"], plain["threshold"]) == ("margin", 0.5, 0.25)
    assert plain["fingerprints"] == [OWN]
    assert plain["chosen_on"] == "2026-07-31"
    assert plain["test"]["false_recall_at_most"] == 0.05


def test_a_write_that_fails_leaves_the_old_gate_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gate.json"
    gate_file.save(gate_of(threshold=0.5), path)

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="No space left"):
        gate_file.save(gate_of(threshold=0.75), path)
    assert gate_file.load(path).threshold == 0.5
    assert list(tmp_path.iterdir()) == [path]


def test_it_is_valid_for_its_path_alone_and_says_how_to_choose_anew() -> None:
    gate_of().check(OWN)
    gate_of(fingerprints=(OTHER, OWN)).check(OWN)
    with pytest.raises(FingerprintError) as caught:
        gate_of(max_false=0.1).check(OTHER)
    said = str(caught.value)
    assert "mini (aaaaaaaaaaaa)" in said
    assert "(bbbbbbbbbbbb)" in said
    assert "ask with --path mini, " in said
    assert "recall gate choose --path NAME --signal margin --max-false 0.1 --confidence 0.9" in said
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"threshold": None}, "threshold: "),
        ({"threshold": "wide"}, "threshold: "),
        ({"fingerprints": []}, "fingerprints: "),
        ({"fingerprints": ["abc"]}, "fingerprints.0: "),
        ({"format": 2}, "format: "),
        ({"max_false": 5}, "max_false: "),
        ({"margin": 1}, "margin: "),
        ({"embedder": "mini"}, "embedder: "),
        ({"threshold": -0.1}, "never below 0"),
    ],
)
def test_a_file_that_was_tampered_with_is_refused_by_name(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    path = tmp_path / "gate.json"
    path.write_text(json.dumps(json.loads(gate_of().model_dump_json()) | change))
    with pytest.raises(InputError) as caught:
        gate_file.load(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)
    assert "recall gate choose" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]"])
def test_a_file_that_is_no_gate_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "gate.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="recall gate choose"):
        gate_file.load(path)
    with pytest.raises(InputError, match="No such file"):
        gate_file.load(tmp_path / "none.json")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_threshold_is_a_finite_number(number: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        gate_of(threshold=number)


@examples
@given(row_lists, st.sampled_from([0.0, 0.25, 0.5]), st.sampled_from([0.0, 0.25, 0.5]))
def test_a_margin_gate_opens_where_the_margin_gate_of_the_sweeps_does(
    rows: list[Row], min_score: float, delta: float
) -> None:
    table = scoring.frame(rows)
    ours = gate_of(min_score=min_score, threshold=delta).opens(table)
    assert ours.tolist() == gates.opened(table, gates.Gate(min_score, delta)).tolist()


def test_any_signal_opens_above_its_threshold() -> None:
    rows = scoring.frame([right(0.9, 0.1), wrong(0.75, 0.5), silent(0.7, 0.1)])
    assert gate_of(signal="top1", threshold=0.75).opens(rows).tolist() == [True, False, False]


def test_a_signal_that_is_missing_or_knows_the_answer_is_refused() -> None:
    rows = scoring.frame([right(0.9, 0.1)])
    for signal in ("nonsense", "rank", "embed_ms", "answerable", "query"):
        with pytest.raises(InputError, match=f"no signal '{signal}'; they have: .*top1, margin"):
            gate_of(signal=signal).opens(rows)


def test_a_failed_search_needs_no_signal_and_is_open() -> None:
    rows = scoring.frame([right(0.9, 0.1), right(0.9, 0.1)]).assign(keyword_score=[1.0, np.nan])
    lost = rows.assign(failed=[False, True])
    assert gate_of(signal="keyword_score", threshold=2).opens(lost).tolist() == [False, True]

"""The choice: by hand on small halves, refused in plain words, and not believed more than it is worth."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import right, silent, wrong
from conftest import ByHand, built, raw_case, raw_fixture
from scipy.stats import binom

from recall_core import catalogue, cli, scoring
from recall_core.choosing import choice, gate_file, gate_study, optimism
from recall_core.choosing.gate_file import GateFile
from recall_core.choosing.learn_then_test import RefusedError
from recall_core.config import PathConfig
from recall_core.embedders.hashing import HashEmbedder
from recall_core.paths.local import LocalPath
from recall_core.records import FingerprintError, InputError
from recall_core.scoring import Row

ROOT = Path(__file__).parents[1]
RIGHT = (0.2, 0.4, 0.5)


def half(
    name: str, n_silent: int, rights: tuple[float, ...] = RIGHT, loud: tuple[float, ...] = ()
) -> pd.DataFrame:
    """Right-first cases of these margins, and silent ones: of the margins `loud`, the others of 0.1."""
    margins = [*loud, *[0.1] * (n_silent - len(loud))]
    cases = [right(0.9, margin) for margin in rights] + [silent(0.9, margin) for margin in margins]
    return marked(name, cases)


def marked(name: str, cases: list[Row]) -> pd.DataFrame:
    """Each case is a unit of its own."""
    units = [f"{name}-{n}" for n in range(len(cases))]
    return scoring.frame(cases).assign(half=name, unit=units, case_id=units)


def both(tune: pd.DataFrame, test: pd.DataFrame | None = None) -> pd.DataFrame:
    return pd.concat([tune, half("test", 9) if test is None else test], ignore_index=True)


def test_without_a_false_recall_forty_five_silent_cases_are_enough() -> None:
    """0.95^45 = 0.0994. The silent case of margin 0.3 must stay shut, so 0.4 and 0.5 are answered.

    The range of 0.4 makes a step of 0.002; the strictest that answers both is the last below 0.4.
    """
    found = choice.choose(both(half("tune", 45, loud=(0.3,))))
    assert found.threshold == pytest.approx(0.398)
    assert (found.tune.answered, found.tune.answerable) == (2, 3)
    assert (found.tune.false_recall, found.tune.silent) == (0, 45)
    assert found.tune.false_recall_at_most == pytest.approx(1 - 0.1 ** (1 / 45))


def test_one_false_recall_may_be_seen_among_seventy_seven() -> None:
    """P(Binomial(77, 0.05) <= 1) = 0.097, and of 76 it is 0.101."""
    assert binom.cdf(1, 77, 0.05) < 0.1 < binom.cdf(1, 76, 0.05)
    assert choice.choose(both(half("tune", 77, loud=(0.3,)))).tune.answered == 3
    assert choice.choose(both(half("tune", 76, loud=(0.3,)))).tune.answered == 2


def test_the_test_half_has_no_say_in_the_choice_and_is_reported() -> None:
    tune = half("tune", 45)
    quiet, loud = half("test", 9, rights=(0.1, 0.3)), half("test", 9, rights=(0.1, 0.3), loud=(0.6, 0.7))
    one, other = choice.choose(both(tune, quiet)), choice.choose(both(tune, loud))
    assert one.threshold == other.threshold == pytest.approx(0.2, abs=0.002)
    assert (other.test.answered, other.test.answerable) == (1, 2)
    assert (one.test.false_recall, other.test.false_recall, other.test.silent) == (0, 2, 9)
    assert other.test.misled == 0, "a silent case is no answerable one"
    assert not any(line.startswith("CAUTION") for line in choice.summary(one))
    chance = binom.sf(1, 9, 0.05)
    assert any(f"by chance in {chance:.0%}" in line for line in choice.summary(other))


def test_another_answer_to_an_answerable_question_is_counted_and_not_promised() -> None:
    tune = marked("tune", [right(0.9, 0.4), wrong(0.9, 0.6), *[silent(0.9, 0.1)] * 45])
    found = choice.choose(both(tune))
    assert (found.tune.answered, found.tune.misled) == (1, 1)
    assert "nothing is promised of the misled" in choice.summary(found)[-1]


def test_another_signal_is_gated_alike() -> None:
    cases = [right(0.9, 0.3), right(0.7, 0.3), *[silent(0.6, 0.5)] * 45]
    found = choice.choose(both(marked("tune", cases)), "top1")
    assert (found.signal, found.tune.answered) == ("top1", 2)
    assert 0.6 <= found.threshold < 0.7


def test_a_failed_search_is_a_false_recall_at_every_setting() -> None:
    tune = half("tune", 45)
    tune.loc[tune.index[-1], "failed"] = True
    with pytest.raises(RefusedError, match="speaks to 1 of the 45"):
        choice.choose(both(tune))


def test_the_table_shows_what_every_setting_would_have_done() -> None:
    table = choice.choose(both(half("tune", 45, loud=(0.3,)))).table
    assert table["threshold"].is_monotonic_decreasing
    for name in ("answered", "misled", "false_recall", "p"):
        assert table[name].is_monotonic_increasing, f"{name} only grows as the gate loosens"
    assert table["accepted"].tolist() == (table["false_recall"] == 0).tolist()


# ---- refusals and bad input


@pytest.mark.parametrize("present", [0, 5, 44])
def test_a_fixture_that_is_too_small_is_refused_with_the_cases_missing(present: int) -> None:
    said = f"would be needed, there are {present}: {45 - present} missing"
    with pytest.raises(RefusedError, match=said):
        choice.choose(both(half("tune", present)))


def test_a_signal_that_tells_nothing_apart_is_refused_with_what_it_would_take() -> None:
    """The best silent case is ahead of every right one: two of 45 spoken before anything is answered."""
    with pytest.raises(RefusedError) as caught:
        choice.choose(both(half("tune", 45, loud=(0.6, 0.7))))
    said = str(caught.value)
    assert "speaks to 2 of the 45 silent cases" in said
    needed = next(n for n in range(45, 999) if binom.cdf(2, n, 0.05) <= 0.1)
    assert f"{needed} silent cases with no more spoken would be needed: {needed - 45} missing" in said
    allowed = float(said.split("allow ")[1].split(",")[0])
    assert choice.choose(both(half("tune", 45, loud=(0.6, 0.7))), max_false=allowed).tune.answered >= 1
    with pytest.raises(RefusedError):
        choice.choose(both(half("tune", 45, loud=(0.6, 0.7))), max_false=allowed - 0.002)


def test_nothing_right_first_is_refused() -> None:
    tune = marked("tune", [wrong(0.9, 0.4), *[silent(0.9, 0.1)] * 45])
    with pytest.raises(RefusedError, match="none answers anything"):
        choice.choose(both(tune))


def test_bad_input_is_refused_in_one_line() -> None:
    sound = both(half("tune", 45))
    equal = both(half("tune", 45, rights=(0.1,)))
    bad = [
        (lambda: choice.choose(equal), "the signal margin is 0.1.* in every case"),
        (lambda: choice.choose(both(half("tune", 45, rights=()))), "the tune half has no answerable cases"),
        (lambda: choice.choose(half("tune", 45)), "the test half has no answerable cases"),
        (lambda: choice.choose(both(half("tune", 45), half("test", 0))), "the test half has no silent cases"),
        (lambda: choice.choose(sound, "luck"), "no signal 'luck'"),
        (lambda: choice.choose(sound, "rank"), "no signal 'rank'"),
        (lambda: choice.choose(sound, max_false=0), "max_false is 0"),
        (lambda: choice.choose(sound, confidence=90), "confidence is 90"),
        (lambda: choice.choose(marked("tune", [right(0.9, 0.1)])), "there are 0: 45 missing"),
    ]
    for wrongly, said in bad:
        with pytest.raises(InputError, match=said) as caught:
            wrongly()
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 2


def test_cases_without_a_runner_up_are_open_at_every_threshold() -> None:
    tune = marked("tune", [right(0.9), right(0.9, 0.2), *[silent(0.9, 0.1)] * 45])
    found = choice.choose(both(tune))
    assert np.isfinite(found.table["threshold"]).all()
    assert found.tune.answered == 2


@pytest.mark.parametrize(
    ("values", "first", "last"),
    [
        ([0.0, 0.4], 0.4, 0.0),
        ([0.001, 0.0799], 0.08, 0.0005),
        ([-0.5, 0.5], 0.5, -0.505),
        ([3.0, 1200.0], 1200.0, 0.0),
    ],
)
def test_the_grid_is_of_round_numbers_from_shut_to_open(
    values: list[float], first: float, last: float
) -> None:
    grid = choice.grid(pd.Series(values, name="margin"))
    assert grid[0] == pytest.approx(first)
    assert grid[-1] == pytest.approx(last)
    assert 80 <= len(grid) <= 203
    assert (np.diff(grid) < 0).all()
    assert not (np.array(values) > grid[0]).any()


def test_kinship_is_one_for_copies_none_for_strangers_and_between_for_half_and_half() -> None:
    """Ranks of normal values that correlate by 0.5 correlate by 6/pi asin(0.5/2) (Pearson 1907)."""
    lives = 3_000
    units = pd.Series(np.repeat(np.arange(lives), 3).astype(str))
    rng = np.random.default_rng(0)
    shared, own = np.repeat(rng.normal(size=lives), 3), rng.normal(size=3 * lives)
    assert choice.kinship(pd.Series(shared), units) == pytest.approx(1)
    assert choice.kinship(pd.Series(own), units) == pytest.approx(0, abs=0.03)
    half_and_half = choice.kinship(pd.Series(shared + own), units)
    assert half_and_half == pytest.approx(6 / np.pi * np.arcsin(0.25), abs=0.03)


def test_kinship_is_the_analysis_of_variance_by_hand() -> None:
    """Ranks 1, 2 | 3, 4: between 4, within 0.5, so (4 - 0.5) / (4 + 0.5). One case a unit: not known."""
    found = choice.kinship(pd.Series([0.1, 0.2, 0.7, 0.9]), pd.Series(list("aabb")))
    assert found == pytest.approx((4 - 0.5) / (4 + 0.5))
    assert np.isnan(choice.kinship(pd.Series([0.1, 0.2]), pd.Series(list("ab"))))
    assert np.isnan(choice.kinship(pd.Series([0.1, 0.2]), pd.Series(list("aa"))))


# ---- optimism


def drawn_half(seed: int, lives: int = 40, gap: float = 1.0) -> pd.DataFrame:
    """Lives of three silent and three right-first cases; margins exponential, `gap` times larger if right."""
    rng = np.random.default_rng(seed)
    cases = [
        *(silent(0.5, margin) for margin in rng.exponential(0.1, size=3 * lives)),
        *(right(0.5, margin) for margin in rng.exponential(0.1 * gap, size=3 * lives)),
    ]
    return marked("tune", cases).assign(unit=[f"life-{n % lives}" for n in range(6 * lives)])


def again(rows: pd.DataFrame, **how: int) -> optimism.Optimism:
    return optimism.optimism(rows, choice.grid(rows["margin"]), **how)


def test_a_choice_that_cannot_waver_is_made_again_each_time() -> None:
    found = optimism.optimism(half("tune", 90), np.array([0.15]), resamples=200)
    assert found.chosen["threshold"].tolist() == [0.15]
    assert found.chosen["share"].sum() + found.refused == pytest.approx(1)
    table = found.table.set_index("metric")
    assert table.loc["false_recall", ["in_bag", "out_of_bag"]].tolist() == [0, 0]


def test_shares_of_choices_and_refusals_add_up() -> None:
    found = again(drawn_half(0, gap=2.0), resamples=300)
    assert len(found.chosen) > 3
    assert found.chosen["share"].is_monotonic_decreasing
    assert found.chosen["share"].sum() + found.refused == pytest.approx(1)


def test_what_is_chosen_costs_on_cases_not_seen_what_its_true_rate_shows() -> None:
    """The cost out of bag is that of the thresholds on all cases, as often as each was chosen."""
    rows = drawn_half(1, lives=60, gap=3.0)
    found = again(rows, resamples=400)
    cost = found.table.set_index("metric").loc["false_recall"]
    assert cost["in_bag"] <= 0.05
    assert cost["in_bag"] < cost["out_of_bag"]
    weights = found.chosen["share"] / found.chosen["share"].sum()
    seen = [float((rows[~rows["answerable"]]["margin"] > t).mean()) for t in found.chosen["threshold"]]
    assert cost["out_of_bag"] == pytest.approx(float(weights @ seen), abs=0.02)


def test_whole_lives_are_drawn() -> None:
    """Two lives, one all loud and one all quiet: a resample of one of them leaves the other out whole."""
    loud = [silent(0.9, 0.6)] * 50 + [right(0.9, 0.7)]
    quiet = [silent(0.9, 0.1)] * 50 + [right(0.9, 0.3)]
    rows = marked("tune", [*loud, *quiet]).assign(unit=["loud"] * 51 + ["quiet"] * 51)
    found = optimism.optimism(rows, np.array([0.2]), resamples=400)
    table = found.table.set_index("metric")
    assert table.loc["false_recall", "out_of_bag"] == 1.0, "chosen on the quiet life alone, left out the loud"
    assert found.refused == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / 400))


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    rows = drawn_half(2, gap=2.0)
    one, same, other = (again(rows, resamples=100, seed=seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(one.table, same.table)
    assert not one.table.equals(other.table)


def test_a_choice_that_is_always_refused_says_so_and_measures_nothing() -> None:
    found = again(half("tune", 9), resamples=50)
    assert found.refused == 1.0
    assert found.chosen.empty
    assert found.table[["in_bag", "out_of_bag"]].isna().all().all()


# ---- from a fixture to a file


def fixture_of(silent_cases: int, answerable: int = 40) -> dict[str, object]:
    """Answerable questions are their memory word for word; the others share nothing with theirs."""
    return raw_fixture(
        *(raw_case(f"a{n}", query=f"text of a{n}") for n in range(answerable)),
        *(
            raw_case(f"s{n}", query=f"#{n}", expected=[], silent_because="-", tags=["far"])
            for n in range(silent_cases)
        ),
        filler=[{"id": "other", "text": "something else"}],
    )


def told(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["recall", "gate", "choose", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.fixture
def written(tmp_path: Path) -> Callable[[dict[str, object]], str]:
    def write(raw: dict[str, object]) -> str:
        (tmp_path / "tiny.json").write_text(json.dumps(raw))
        return str(tmp_path / "tiny.json")

    return write


def test_the_command_writes_a_gate_that_a_daemon_can_hold_to(
    written: Callable[[dict[str, object]], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "gate.json"
    code = told(
        monkeypatch, "--fixture", written(fixture_of(101)), "--path", "hash", "--signal", "top1",
        "--out", str(out),
    )  # fmt: skip
    assert code == 0
    gate = gate_file.load(out)
    assert (gate.signal, gate.fixture, gate.path, gate.memories) == ("top1", "tiny", "hash", 2)
    assert {gate.tune.silent, gate.test.silent} == {50, 51}
    assert (gate.tune.answered, gate.tune.answerable) == (20, 20)
    assert gate.test.false_recall == 0
    assert gate.chosen_on == date.today()
    said = capsys.readouterr().out
    assert f"test half: false recall 0.0% (0/{gate.test.silent})" in said
    assert f"by kind: far 0/{gate.test.silent}\n" in said
    assert f"saved to {out}" in said


@pytest.mark.parametrize(
    ("tags", "told"), [((), ["all 0/50"]), (("near", "odd"), ["near 0/50", "odd 0/50"])], ids=["none", "two"]
)
def test_silent_cases_are_counted_under_each_of_their_tags(tags: tuple[str, ...], told: list[str]) -> None:
    cases = fixture_of(100)["cases"]
    assert isinstance(cases, list)
    fixture = built(*(case | {"tags": [] if case["expected"] else list(tags)} for case in cases))
    study = gate_study.choose(fixture, catalogue.open_path("hash", ROOT), signal="top1", quiet=True)
    assert study.kinds() == told


def test_the_command_refuses_a_fixture_that_is_too_small_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "gate.json"
    code = told(monkeypatch, "--fixture", "data/notes/recall_v1.json", "--path", "hash", "--out", str(out))
    assert code == 2
    assert (
        "45 silent cases in the tune half would be needed, there are 3: 42 missing" in capsys.readouterr().err
    )
    assert not out.exists()


def test_the_command_refuses_a_folder_that_does_not_exist_before_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(monkeypatch, "--path", "hash", "--out", str(tmp_path / "no" / "gate.json")) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_small_fixture_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(RefusedError, match="there are 1: 44 missing"):
        gate_study.choose(
            built(raw_case("a"), raw_case("s1", expected=[], silent_because="-"),
                  raw_case("s2", expected=[], silent_because="-")),
            LocalPath("p", PathConfig(streams=("vector",)), ByHand({"nothing": [1.0, 0.0]})),
        )  # fmt: skip


def test_the_gate_of_one_path_refuses_another(
    written: Callable[[dict[str, object]], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "gate.json"
    told(
        monkeypatch, "--fixture", written(fixture_of(100)), "--path", "hash", "--signal", "top1",
        "--out", str(out),
    )  # fmt: skip
    own = catalogue.open_path("hash", ROOT)
    gate: GateFile = gate_file.load(out)
    gate.check(own.fingerprint)
    centred = replace(own, options=own.options.model_copy(update={"centre": True}))
    for other in (replace(own, embedder=HashEmbedder(dim=512)), centred, catalogue.open_path("hybrid", ROOT)):
        with pytest.raises(FingerprintError, match="recall gate choose"):
            gate.check(other.fingerprint)

"""Every signal set on one half and judged on the other, counted by eye."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from builders import case_of, right, silent, wrong

from recall_core import scoring, signals, stats
from recall_core.choosing import combine, held_out
from recall_core.scoring import Row


def halves(tune: list, test: list) -> pd.DataFrame:
    """Scored rows marked with their half, each in a unit of its own."""
    table = scoring.frame([*tune, *test])
    return table.assign(
        half=["tune"] * len(tune) + ["test"] * len(test), unit=[str(at) for at in table.index]
    )


TUNE = [right(0.9, 0.4), right(0.8, 0.05), *(silent(0.5 + at / 100, at / 100) for at in range(10))]
"""At 10% one of ten silent cases may be spoken: the margin's threshold is the second largest, 0.08."""
TEST = [
    *(right(0.9, 0.3), right(0.9, 0.09), right(0.9, 0.07), wrong(0.9, 0.2)),
    *(silent(0.5, 0.085), silent(0.5, 0.01)),
]
"""Of the margins 0.3, 0.09 and 0.085 are above 0.08, and that of the wrong one."""


def looked_at(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    return {name: rows[name].to_numpy(float) for name in ("margin", "top1")}


def test_a_threshold_is_set_on_one_half_and_counted_on_the_other() -> None:
    rows = halves(TUNE, TEST)
    margin, top1 = held_out.compare(rows, looked_at(rows), 0.10).to_dict("records")
    assert margin["threshold"] == pytest.approx(0.08)
    counted = ("answered", "answerable", "misled", "false_recall", "silent")
    assert [margin[name] for name in counted] == [2, 4, 1, 1, 2]
    # The scores of the tune half's silent cases end at 0.59; 0.58 is the threshold, which all the asked pass.
    assert top1["threshold"] == pytest.approx(0.58)
    assert [top1[name] for name in counted] == [3, 4, 1, 0, 2]
    assert top1["difference"] == pytest.approx(1 / 4)
    assert top1["auroc"] == 1.0


def test_only_more_than_its_interval_is_recommended() -> None:
    few = halves(TUNE, TEST)
    table = held_out.compare(few, looked_at(few), 0.10)
    assert table["verdict"].tolist() == [
        "what the others are held against",
        "inside its interval: no gain shown",
    ]
    many = halves(TUNE, TEST * 20)
    table = held_out.compare(many, looked_at(many), 0.10)
    assert table["verdict"].iloc[1] == "answers more than the margin: recommended"


def test_the_curves_are_of_the_test_half_and_thinned_to_a_table() -> None:
    rows = halves(TUNE, TEST)
    curves = held_out.curves(rows, looked_at(rows))
    assert (curves["answerable"].unique().tolist(), curves["silent"].unique().tolist()) == ([4], [2])
    # The margin answers 0.3 and 0.09 before the first silent one at 0.085, 0.07 before the second.
    assert held_out.at_budgets(curves).to_dict("list") == {
        "false_recall": [0, 1, 2],
        "margin": [2, 3, 3],
        "top1": [3, 3, 3],
    }


def test_where_a_search_failed_no_signal_has_no_false_recall() -> None:
    failed = scoring.failed_case(case_of(()), "OSError: no disk")
    rows = halves(TUNE, [*TEST, failed])
    table = held_out.at_budgets(held_out.curves(rows, looked_at(rows)))
    assert table["false_recall"].tolist() == [0, 1, 2, 3]
    assert np.isnan(table.loc[0, ["margin", "top1"]].to_numpy(float)).all()
    assert table["margin"].tolist()[1:] == [2, 3, 3]


def test_without_an_answerable_case_to_judge_by_there_is_no_verdict() -> None:
    rows = halves(TUNE, [silent(0.5, 0.01)])
    verdicts = held_out.compare(rows, looked_at(rows), 0.10)["verdict"]
    assert verdicts.tolist() == ["what the others are held against", "no answerable case to judge by"]


def test_a_promise_needs_so_many_silent_cases() -> None:
    table = held_out.needed(halves(TUNE, TEST))
    assert table["have"].tolist() == [12, 12, 12]
    # The least n with (1 - rate) ** n <= 5%.
    assert table["needed"].tolist() == [299, 59, 29]
    assert 0.95**59 <= 0.05 < 0.95**58
    assert table["bound"][0] == pytest.approx(1 - 0.05 ** (1 / 12))


def described(reversed_: bool) -> pd.Series:
    flip = -1 if reversed_ else 1
    rng = np.random.default_rng(0)
    tune = [right(0.7 + flip * 0.1 + rng.normal(0, 0.05), 0.2 + rng.random() / 5) for _ in range(40)]
    tune += [silent(0.7 - flip * 0.1 + rng.normal(0, 0.05), 0.1 + rng.random() / 5) for _ in range(40)]
    rows = halves(tune, TEST)
    _, fitted = held_out.scores(rows)
    return held_out.described(rows, fitted).set_index("target").loc["silent"]


@pytest.mark.parametrize(("reversed_", "names"), [(False, ()), (True, ("top1",))])
def test_a_signal_that_counts_against_an_answer_is_named(reversed_: bool, names: tuple[str, ...]) -> None:
    assert described(reversed_)["reversed"] == names


def test_signals_that_tell_nothing_apart_are_left_out_but_for_the_margin() -> None:
    # `agreement` says what the score says, `subject` says the same of all, and the rest was not measured.
    rows = halves(TUNE, TEST)
    rows = rows.assign(agreement=rows["top1"], subject=signals.NAMELESS, coverage=np.arange(len(rows)) / 20)
    looked_at, fitted = held_out.scores(rows)
    combined = [f"combination, against {target}" for target in held_out.TARGETS]
    assert list(looked_at) == ["top1", "margin", "coverage", *combined]
    assert [one.features for one in fitted] == [("top1", "margin", "coverage")] * 2
    looked_at, fitted = held_out.scores(rows.assign(margin=0.1))
    assert list(looked_at) == ["top1", "coverage", "margin", *combined]
    assert [one.features for one in fitted] == [("top1", "coverage")] * 2


@pytest.mark.parametrize("tune", [TUNE[:2], TUNE[2:]], ids=["nothing silent", "nothing right"])
def test_without_a_side_to_tell_from_there_are_signals_and_no_combination(tune: list[Row]) -> None:
    looked_at, fitted = held_out.scores(halves(tune, TEST))
    assert list(looked_at) == ["top1", "margin"]
    assert fitted == []


def test_a_fit_flatters_itself_and_cross_validation_does_not() -> None:
    rng = np.random.default_rng(1)
    rows = halves([right(0.8, 0.1) for _ in range(15)] + [silent(0.8, 0.1) for _ in range(15)], TEST)
    noise = {name: rng.normal(size=len(rows)) for name in signals.SIGNALS}
    rows = rows.assign(**noise)
    _, fitted = held_out.scores(rows)
    found = held_out.described(rows, fitted).iloc[0]
    # Noise tells nothing apart: whatever the fit seems to do on its own cases is flattery.
    assert found["fit"] > 0.6
    assert found["low"] < 0.5 < found["high"] or found["crossed"] < 0.5
    assert found["crossed"] < found["fit"]


def test_the_stated_chance_is_held_against_what_came_true() -> None:
    rows = halves(TUNE, TEST)
    one = combine.Combination(
        target="rest",
        features=("margin",),
        means=(0.0,),
        scales=(1.0,),
        coefficients=(0.0,),
        intercept=float(np.log(3)),
    )
    # It says 3 in 4 of all six; three of six are right.
    table = held_out.calibrated(rows, [one])
    assert stats.calibration_error(table) == pytest.approx(0.75 - 3 / 6)
    assert np.isnan(stats.calibration_error(held_out.calibrated(rows, [])))


@pytest.mark.parametrize(
    ("of_right", "of_silent", "said"),
    [
        (
            [0.9, 0.8, 0.7] * 4,
            [0.1, 0.2, 0.3] * 4,
            "holds fewer .*coverage 1.00 .*words can tell",
        ),
        ([0.1, 0.2, 0.3] * 4, [0.9, 0.8, 0.7] * 4, "holds more .*AUROC of coverage 0.00 .* turned round"),
        ([0.1, 0.9] * 6, [0.9, 0.1] * 6, "do not show .*AUROC of coverage 0.50"),
        ([0.5], [], "One of the two sides is empty"),
    ],
)
def test_the_kind_of_fixture_is_said(of_right: list[float], of_silent: list[float], said: str) -> None:
    right = pd.DataFrame({"coverage": of_right, "place": "right_first", "answerable": True})
    silent = pd.DataFrame({"coverage": of_silent, "place": "silent", "answerable": False})
    assert re.search(said, held_out.nature(pd.concat([right, silent])))

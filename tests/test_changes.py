"""What changed: flips by name, what may be compared, and change points that are not alarms."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders import case_of, result_of, right, row_of, silent, wrong
from scipy.stats import binomtest
from test_history import line

from recall_core import runs
from recall_core.gates import Gate
from recall_core.past import changes, history, trend
from recall_core.runs import Result
from recall_core.scoring import Row

GATE = Gate(0.5, 0.05)
STARTED = "2026-07-30T03:00:00+00:00"
TONIGHT = "2026-07-31T03:00:00+00:00"


def rows(*lost: str) -> list[Row]:
    """Six right cases, of which the named ones come out wrong, and one that must stay silent."""
    about = {"lang": "en"}
    asked = [(wrong if name in lost else right)(0.9, 0.2, id_=name, **about) for name in "abcdef"]
    return [*asked, silent(0.7, 0.01, id_="s")]


def measured(*lost: str, kind: str = "onnx", gate: Gate = GATE) -> Result:
    return result_of(rows(*lost), gate, path="mini", kind=kind)


def told(result: Result) -> dict[str, pd.DataFrame]:
    return {result.path: result.rows}


def night(result: Result, started: str = STARTED, **changed: Any) -> dict[str, Any]:
    held = line(started, **changed)
    counts: dict[str, dict[str, list[int]]] = {}
    for row in result.summary.itertuples():
        counts.setdefault(row.slice, {})[row.metric] = [row.hits, row.n]
    own = {"kind": result.kind, "min_score": result.min_score, "delta": result.delta, "counts": counts}
    held["runs"][0] |= own
    return held


def publish(reports: Path, result: Result, held: dict[str, Any]) -> Path:
    folder = reports / held["date"]
    (folder / "runs").mkdir(parents=True)
    runs.write_rows(result.rows, folder / "runs/mini.jsonl")
    (folder / "manifest.json").write_text(json.dumps({"started": held["started"]}))
    return folder


def since(reports: Path, before: Result, after: Result, **changed: Any) -> changes.Changes:
    held = night(before)
    publish(reports, before, held)
    return changes.since(reports, [held], night(after, TONIGHT, **changed), told(after))


def test_the_cases_that_flipped_are_named_with_both_tops_and_scores(tmp_path: Path) -> None:
    found = since(tmp_path, measured("a"), measured("b", "c"), threads=2)
    (one,) = found.compared
    assert (one.against, one.reason, one.deterministic) == ("the run of 2026-07-30", "", False)
    columns = ["case_id", "changed", "before_top", "before_score", "after_top", "after_score"]
    assert one.flips[columns].to_numpy().tolist() == [
        ["a", "recall@1 gained, passed gained", "b", 0.9, "a", 0.9],
        ["b", "recall@1 lost, passed lost", "a", 0.9, "b", 0.9],
        ["c", "recall@1 lost, passed lost", "a", 0.9, "b", 0.9],
    ]
    table = one.table.set_index("metric")
    assert table.loc["recall@1", ["before", "after", "n"]].tolist() == [5, 4, 6]
    assert table.loc["recall@1", "p"] == binomtest(1, 3, 0.5).pvalue == 1.0
    assert found.regressions == []


def test_where_nothing_may_flip_a_flip_is_a_regression_and_a_gain_too(tmp_path: Path) -> None:
    found = since(tmp_path, measured("a", kind="hash"), measured(kind="hash"), threads=2)
    (said,) = found.regressions
    assert said.startswith("mini: a regression against the run of 2026-07-30: 1 cases flipped (a)")
    same = since(tmp_path / "same", measured("a"), measured("a"))
    assert same.compared[0].deterministic
    assert same.regressions == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"fixture": "g"}, "not comparable: the fixture changed"),
        ({"fingerprint": "0" * 64}, "not comparable: the path changed"),
        ({"fixture": "g", "fingerprint": "0" * 64}, "not comparable: the fixture and the path changed"),
    ],
)
def test_what_is_not_comparable_is_not_compared(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    found = since(tmp_path, measured("a"), measured(), **changed)
    assert found.compared[0].reason == said
    assert found.compared[0].flips.empty
    assert found.regressions == []


def test_the_first_night_has_nothing_to_compare_with(tmp_path: Path) -> None:
    found = changes.since(tmp_path, [], night(measured(), TONIGHT), told(measured()))
    assert found.compared[0].reason == "nothing to compare with yet"


def test_a_night_that_is_not_comparable_is_passed_over_and_told_of(tmp_path: Path) -> None:
    old, odd = night(measured("a"), "2026-07-28"), night(measured(), "2026-07-29", fingerprint="0" * 64)
    publish(tmp_path, measured("a"), old)
    found = changes.since(tmp_path, [old, odd], night(measured(), TONIGHT), told(measured()))
    assert found.compared[0].against == "the run of 2026-07-28"
    assert found.compared[0].notes == ("not comparable with the run of 2026-07-29: the path changed",)


def test_rows_that_were_removed_replaced_or_broken_are_told_of(tmp_path: Path) -> None:
    held = night(measured("a"))
    tonight = night(measured(), TONIGHT)
    gone = changes.since(tmp_path, [held], tonight, told(measured()))
    assert gone.compared[0].reason == "its rows are gone"
    folder = publish(tmp_path, measured("a"), held)
    (folder / "manifest.json").write_text('{"started": "a later run of the same day"}')
    replaced = changes.since(tmp_path, [held], tonight, told(measured()))
    assert replaced.compared[0].reason == "its rows are gone"
    (folder / "manifest.json").write_text(json.dumps({"started": STARTED}))
    (folder / "runs/mini.jsonl").write_text('{"case_id": 1}\n')
    broken = changes.since(tmp_path, [held], tonight, told(measured()))
    assert broken.compared[0].reason.startswith("its rows cannot be read")


@pytest.mark.parametrize(
    "damage", [{"ids": None}, {"ids": 5}, {"scores": None}, {"outcome": 5}, {"query": None}, {"case_hash": 5}]
)
def test_one_damaged_row_costs_its_own_comparison_alone(tmp_path: Path, damage: dict[str, Any]) -> None:
    held = night(measured("a"))
    path = publish(tmp_path, measured("a"), held) / "runs/mini.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | damage), *rest, ""]))
    found = changes.since(tmp_path, [held], night(measured(), TONIGHT), told(measured()))
    assert found.compared[0].reason.startswith("its rows cannot be read")


def test_rows_nested_without_end_cannot_be_read(tmp_path: Path) -> None:
    held = night(measured("a"))
    (publish(tmp_path, measured("a"), held) / "runs/mini.jsonl").write_text("[" * 100_000)
    found = changes.since(tmp_path, [held], night(measured(), TONIGHT), told(measured()))
    assert found.compared[0].reason.startswith("its rows cannot be read")


@pytest.mark.parametrize("kind", ["onnx", "hash"])
def test_after_a_change_of_the_gate_it_is_said_and_each_night_keeps_its_own_outcomes(
    tmp_path: Path, kind: str
) -> None:
    # Every right case has a margin of 0.2: a delta of 0.3 silences all six, one of 0.05 none.
    strict = measured(kind=kind, gate=Gate(0.5, 0.3))
    assert strict.counted("passed") == (1, 7)
    found = since(tmp_path, strict, measured(kind=kind))
    (one,) = found.compared
    table = one.table.set_index("metric")
    assert table.loc["passed", ["before", "after", "n"]].tolist() == [1, 7, 7]
    assert table.loc["recall@1", ["before", "after", "n"]].tolist() == [6, 6, 6]
    assert list(one.flips["case_id"]) == list("abcdef")
    assert set(one.flips["changed"]) == {"passed gained"}
    assert one.notes == ("the gate changed (min_score 0.5, delta 0.3 then, min_score 0.5, delta 0.05 now)",)
    assert found.regressions == [], "a gate decides what passes: a flip behind another is none"


def rehashed(result: Result, *cases: str) -> Result:
    """The same run of a fixture in which these cases are others."""
    changed = result.rows["case_id"].isin(cases)
    hashes = result.rows["case_hash"].where(~changed, "0" * 64)
    return replace(result, rows=result.rows.assign(case_hash=hashes))


def test_only_cases_that_are_the_same_are_compared_and_the_others_counted(tmp_path: Path) -> None:
    before = measured("a", "b", kind="hash")
    after = rehashed(measured(kind="hash"), "b", "c")
    after = replace(after, rows=after.rows.replace({"case_id": {"f": "g"}}))
    found = since(tmp_path, before, after, fixture_hash="b" * 64)
    (one,) = found.compared
    # b and c were edited, f is gone and g is new: a, d, e and the silent s are left.
    assert one.left_out == 4
    assert one.table.set_index("metric")[["before", "after", "n"]].to_numpy().tolist() == [
        [2, 3, 3],
        [3, 4, 4],
    ]
    assert list(one.flips["case_id"]) == ["a"]
    assert not one.deterministic, "another page may have pushed it down"
    assert found.regressions == []


def test_where_every_case_is_another_there_is_nothing_to_compare(tmp_path: Path) -> None:
    found = since(tmp_path, measured("a"), rehashed(measured(), *"abcdefs"))
    assert found.compared[0].reason == "no case is the same as then"
    assert found.compared[0].flips.empty


def test_rows_of_a_version_without_hashes_are_the_same_as_none(tmp_path: Path) -> None:
    held = night(measured("a"))
    path = publish(tmp_path, measured("a"), held) / "runs/mini.jsonl"
    kept = [json.loads(text) for text in path.read_text().splitlines()]
    path.write_text(
        "".join(json.dumps({k: v for k, v in row.items() if k != "case_hash"}) + "\n" for row in kept)
    )
    found = changes.since(tmp_path, [held], night(measured(), TONIGHT), told(measured()))
    assert found.compared[0].reason == "no case is the same as then"


def test_a_run_that_looks_at_five_is_watched_at_five(tmp_path: Path) -> None:
    def looked(*behind: str) -> Result:
        """Six cases, of which the named ones are found third."""
        ahead = {"x": 0.95, "y": 0.94}
        told = [
            row_of(case_of("a", id_=name), a=0.9, **(ahead if name in behind else {})) for name in "abcdef"
        ]
        return result_of(told, Gate(0.0), path="mini", kind="onnx", top_k=5)

    (one,) = since(tmp_path, looked(), looked("a", "b"), top_k=5).compared
    table = one.table.set_index("metric")
    # The third of five is still found; nothing right is on top, so it does not pass.
    assert table.loc["recall@5", ["before", "after"]].tolist() == [6, 6]
    assert table.loc["passed", ["before", "after"]].tolist() == [6, 4]


def test_a_baseline_is_compared_with_too(tmp_path: Path) -> None:
    held = night(measured("a", "b"), "2026-06-01")
    folder = publish(tmp_path / "baselines", measured("a", "b"), held)
    found = changes.since(
        tmp_path, [], night(measured(), TONIGHT), told(measured()), baseline=("spring", folder, held)
    )
    _, one = found.compared
    assert one.against == "baseline spring of 2026-06-01"
    assert list(one.flips["case_id"]) == ["a", "b"]
    other = night(measured(), TONIGHT)
    other["runs"][0]["name"] = "wide"
    without = changes.since(tmp_path, [], other, {"wide": measured().rows}, ("spring", folder, held))
    assert without.compared[1].reason == "nothing to compare with yet: it does not hold wide"


def test_another_memory_on_top_that_flips_nothing_is_counted_apart(tmp_path: Path) -> None:
    def with_top(top: str) -> Result:
        return result_of([wrong(0.9, 0.2, top, id_="x"), right(0.9, 0.2, id_="y")], GATE, path="mini")

    found = since(tmp_path, with_top("b"), with_top("c"))
    assert (found.compared[0].moved, len(found.compared[0].flips)) == (1, 0)


def test_p_of_a_change_point_is_that_of_every_order_of_the_nights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trend, "PERMUTATIONS", 40_000)
    hits, n = [9, 8, 9, 5, 4, 6], [10] * 6

    def statistic(order: tuple[int, ...]) -> float:
        def fit(part: tuple[int, ...]) -> float:
            share = sum(part) / (10 * len(part))
            return sum(x * np.log(share) + (10 - x) * np.log(1 - share) for x in part)

        return max(fit(order[:cut]) + fit(order[cut:]) for cut in range(1, 6)) - fit(order)

    own = statistic(tuple(hits))
    every = [statistic(order) for order in itertools.permutations(hits)]
    exact = sum(one >= own - 1e-9 for one in every) / len(every)
    found = trend.change_point(hits, n)
    assert found.at == 3
    assert found.p == pytest.approx(exact, abs=0.01)


def test_false_alarms_are_as_rare_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trend, "PERMUTATIONS", 199)
    rng = np.random.default_rng(7)
    alarms = 0
    for at in range(400):
        # Half the series vary less than binomially, as the same cases asked every night do.
        hits = rng.binomial(27, 0.4, 20) if at % 2 else 11 + rng.binomial(2, 0.5, 20)
        alarms += trend.change_point(hits, [27] * 20, seed=at).p <= 0.05
    # 5% of 400 are 20; were the rate above 5%, 32 or more would be seen 1 time in 100 at most.
    assert alarms < 32


def test_a_real_drop_is_seen_after_a_few_nights_and_dated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trend, "PERMUTATIONS", 1_999)
    rng = np.random.default_rng(3)
    seen, near = 0, 0
    for at in range(40):
        hits = [*rng.binomial(100, 0.8, 22), *rng.binomial(100, 0.55, 5)]
        found = trend.change_point(hits, [100] * 27, seed=at)
        seen += found.p <= trend.ALPHA
        near += abs(found.at - 22) <= 1
    assert seen >= 38
    assert near >= 38


def test_one_odd_night_is_no_change_however_bad() -> None:
    assert trend.change_point([20] * 29 + [0], [27] * 30).p > 0.05
    assert trend.change_point([20] * 26 + [0] * 4, [27] * 30).p <= trend.ALPHA / 6


@pytest.mark.parametrize(("hits", "n"), [([], []), ([3], [9]), ([3, 3, 3], [9, 9, 9]), ([0, 0], [0, 0])])
def test_nothing_to_compare_is_no_change(hits: list[int], n: list[int]) -> None:
    assert trend.change_point(hits, n).p == 1.0


def test_the_shortest_series_is_the_first_whose_best_case_can_pass() -> None:
    assert trend.fewest_nights(1) == 10  # 2 of the 252 ways to choose 5 of 10; of 9 it is 2 of 126
    assert trend.fewest_nights(6) == 13


def nights(hits: list[int], **changed: Any) -> list[dict[str, Any]]:
    return [line(f"2026-07-{day + 1:02}", found, **changed) for day, found in enumerate(hits)]


def said_of(hits: list[int]) -> str:
    held = nights(hits)
    (now,) = history.measured([held[-1]], "mini")
    return changes.trends(held[:-1], [now])[0].said


def test_the_trend_is_one_sentence() -> None:
    assert said_of([5, 4, 5]) == "3 comparable runs, 11 are needed to show a change"
    assert said_of([5] * 12) == "the same in all 12 runs"
    assert said_of([5] * 11 + [2]).startswith("no change shown in 12 runs (p ")
    assert said_of([8] * 8 + [3] * 6) == (
        "changed at the run of 2026-07-09: 80.0% in the 8 runs before, 30.0% in the 6 since "
        f"(p {trend.change_point([8] * 8 + [3] * 6, [10] * 14).p:.4f})"
    )


def test_no_trend_is_drawn_through_another_fixture() -> None:
    held = nights([8] * 10, fixture_hash="b" * 64) + [line(f"2026-08-{day:02}", 3) for day in range(1, 6)]
    (now,) = history.measured([held[-1]], "mini")
    found = changes.trends(held[:-1], [now])
    assert [one.nights for one in found] == [5, 5]
    assert not any(one.changed for one in found)

"""How many silent cases a sweep would need: for a promise, and to tell two settings apart."""

import math

import pandas as pd

from recall_core.reporting import findings


def sweep(false: list[int], chosen: int, silent: int = 5) -> pd.DataFrame:
    return pd.DataFrame(
        {"false_recall": false, "silent": silent, "chosen": [at == chosen for at in range(len(false))]}
    )


def test_a_promise_of_five_percent_takes_59_cases_and_the_report_says_how_many_there_are() -> None:
    # The fewest n with 0.95 ** n <= 0.05.
    assert math.ceil(math.log(0.05) / math.log(0.95)) == 59
    assert "takes 59 silent cases without one false recall; here are 5." in findings.needed(sweep([0], 0))


def test_the_chosen_setting_is_told_from_the_next_lower_one() -> None:
    assert "To tell 4/5 from the next lower 1/5 takes" in findings.needed(sweep([5, 4, 1, 0], 1))


def test_nothing_is_told_apart_where_no_setting_has_fewer() -> None:
    assert "To tell" not in findings.needed(sweep([4, 1], 1))

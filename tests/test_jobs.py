"""A night's jobs: one note recall an embedder, and one comparison of the models."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import ROOT

from recall_core.config import Config, GateConfig, PagesConfig
from recall_core.night import jobs


def settings(*embedders: str, **more: Any) -> Config:
    return Config(embedders=embedders, **more)


def test_each_embedder_has_a_job_with_the_gate_it_ships_with() -> None:
    planned = jobs.planned(
        settings(
            *("hash", "mini", "wide"),
            gate=GateConfig(min_score=0.4, delta=0.02),
            gates={"wide": GateConfig(min_score=0.8, delta=None)},
        )
    )
    notes = [job for job in planned if job.section == "notes"]
    assert [job.name for job in notes] == ["hash", "mini", "wide"]
    assert {job.notebook for job in notes} == {jobs.NOTES}
    gates = [[job.parameters[key] for key in ("embedder", "min_score", "delta")] for job in notes]
    assert gates == [["hash", 0.4, 0.02], ["mini", 0.4, 0.02], ["wide", 0.8, None]]


def test_models_are_compared_after_the_notes_and_hash_is_left_out() -> None:
    *_, last = jobs.planned(settings("mini", "hash", "wide"))
    assert (last.name, last.section, last.notebook) == ("embedders", "embedders", jobs.EMBEDDERS)
    assert last.parameters["embedders"] == ["mini", "wide"]


@pytest.mark.parametrize(
    ("embedders", "names"), [(["hash"], ["hash"]), (["hash", "mini"], ["hash", "mini", "embedders"])]
)
def test_there_is_a_comparison_only_with_a_model(embedders: list[str], names: list[str]) -> None:
    assert [job.name for job in jobs.planned(settings(*embedders))] == names


def test_pages_come_last_where_there_are_any() -> None:
    pages = PagesConfig(vault="wiki", probes="probes.json", weights={"graph": 0.5})
    *_, last = jobs.planned(settings("hash", "mini", pages=pages))
    assert (last.name, last.section, last.notebook) == ("pages", "pages", jobs.PAGES)
    assert [last.parameters[key] for key in ("vault", "probes")] == ["wiki", "probes.json"]
    assert last.parameters["weights"] == {"graph": 0.5}


def test_notes_and_the_comparison_get_the_fixture_the_store_and_k() -> None:
    for job in jobs.planned(settings("hash", "mini", fixture="data/other.json", store="memory", top_k=5)):
        common = {key: job.parameters[key] for key in ("fixture", "store", "top_k")}
        assert common == {"fixture": "data/other.json", "store": "memory", "top_k": 5}


def test_figures_are_named_after_the_job_and_told_of_in_words() -> None:
    mini, embedders = jobs.planned(settings("mini"))
    assert [path for path, _ in mini.figures] == [
        "figures/mini-scores.png",
        "figures/mini-margins.png",
        "figures/mini-frontier.png",
        "figures/mini-funnel.png",
    ]
    assert [path for path, _ in embedders.figures] == [
        "figures/embedders-scores.png",
        "figures/embedders-margins.png",
    ]
    for job in (mini, embedders):
        assert all(alt.endswith(f" ({job.name})") and len(alt) > 30 for _, alt in job.figures)


def test_every_planned_notebook_is_there() -> None:
    assert all((ROOT / job.notebook).is_file() for job in jobs.planned(settings("mini")))

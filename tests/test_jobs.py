"""A night's jobs: one note recall a path, a comparison of models, paths apart, a study for each gate."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import ROOT

from recall_core.config import ChoiceConfig, Config, GateConfig, PagesConfig, PathConfig
from recall_core.night import jobs
from recall_core.night.jobs import Job
from recall_core.records import InputError

MINI, WIDE = "all-MiniLM-L6-v2-int8", "multilingual-e5-small-q4"


def settings(*measured: str, **more: Any) -> Config:
    return Config(measure=measured, **more)


def planned(held: Config) -> list[Job]:
    return jobs.planned(held, ROOT)


def needs(held: Config) -> dict[str, tuple[str, ...]]:
    return {job.name: job.needs(ROOT, held) for job in planned(held)}


def test_each_path_has_a_job_with_the_gate_it_ships_with() -> None:
    held = settings(
        *("hash", MINI, WIDE, "hybrid"),
        gate=GateConfig(min_score=0.4, delta=0.02),
        gates={WIDE: GateConfig(min_score=0.8, delta=None)},
    )
    notes = [job for job in planned(held) if job.section == "notes"]
    assert [job.name for job in notes] == ["hash", MINI, WIDE, "hybrid"]
    assert {job.notebook for job in notes} == {jobs.NOTES}
    gates = [[job.parameters[key] for key in ("path", "min_score", "delta")] for job in notes]
    # The gate of recall.toml is an embedder's: scores of other paths are on another scale.
    assert gates == [["hash", 0.4, 0.02], [MINI, 0.4, 0.02], [WIDE, 0.8, None], ["hybrid", 0.0, None]]


def test_a_path_that_is_given_a_gate_has_it() -> None:
    (job,) = planned(settings("hybrid", gates={"hybrid": GateConfig(min_score=0.1, delta=0.3)}))
    assert (job.parameters["min_score"], job.parameters["delta"]) == (0.1, 0.3)


def test_models_are_compared_after_the_notes_and_what_is_no_model_is_left_out() -> None:
    *_, last = planned(settings(MINI, "hash", "keyword", WIDE, "hybrid"))
    assert (last.name, last.section, last.notebook) == ("embedders", "embedders", jobs.EMBEDDERS)
    assert last.parameters["embedders"] == [MINI, WIDE]


@pytest.mark.parametrize(
    ("measured", "names"),
    [
        (["hash"], ["hash"]),
        (["hash", "keyword"], ["hash", "keyword"]),
        (["hash", MINI], ["hash", MINI, "embedders"]),
    ],
)
def test_there_is_a_comparison_only_with_a_model(measured: list[str], names: list[str]) -> None:
    assert [job.name for job in planned(settings(*measured))] == names


def test_pages_come_after_the_notes_where_there_are_any() -> None:
    pages = PagesConfig(fixture="probes.json", paths=("keyword", "mine"), top_k=7)
    *_, last = planned(settings("hash", MINI, pages=pages, paths={"mine": PathConfig()}))
    assert (last.name, last.section, last.notebook) == ("pages", "pages", jobs.PAGES)
    assert last.parameters == {"fixture": "probes.json", "paths": ["keyword", "mine"], "top_k": 7}


def test_each_choice_of_a_gate_is_a_job_of_its_own() -> None:
    choice = (
        ChoiceConfig(fixture="a.json", path=WIDE, other="hash", max_false=0.1),
        ChoiceConfig(fixture="b.json", path="hybrid", sizes=()),
    )
    first, second = [job for job in planned(settings("hash", choice=choice)) if job.section == "gates"]
    assert [first.name, second.name] == ["gates", "gates-2"]
    assert {first.notebook, second.notebook} == {jobs.GATES}
    named = ("fixture", "path", "other", "max_false", "min_score", "delta", "sizes")
    told = [[job.parameters[name] for name in named] for job in (first, second)]
    assert told == [
        ["a.json", WIDE, "hash", 0.1, 0.55, 0.008, [15, 60, 250, 1000]],
        ["b.json", "hybrid", "", 0.05, 0.0, 0.0, []],
    ]


def test_notes_and_the_comparison_get_the_fixture_and_k() -> None:
    for job in planned(settings("hash", MINI, fixture="data/other.json", top_k=5)):
        common = {key: job.parameters[key] for key in ("fixture", "top_k")}
        assert common == {"fixture": "data/other.json", "top_k": 5}


def test_a_job_needs_the_embedders_of_the_paths_that_it_asks() -> None:
    held = settings(
        *("keyword", "mine"),
        paths={
            "mine": PathConfig(embedder=MINI),
            "hybrid": PathConfig(embedder=WIDE),
            "named": PathConfig(streams=("keyword", "entity"), embedder=WIDE),
        },
        pages=PagesConfig(fixture="p.json", paths=("keyword", "named", "mine", MINI)),
        choice=(ChoiceConfig(fixture="a.json", path="hybrid", other="hash"),),
    )
    # A path without the stream of vectors has an embedder in its settings only; one is named once.
    assert needs(held) == {"keyword": (), "mine": (MINI,), "pages": (MINI,), "gates": (WIDE, "hash")}
    assert jobs.needed(ROOT, held, planned(held)) == [MINI, WIDE, "hash"]


def test_hybrid_needs_no_model_unless_it_is_given_one() -> None:
    held = settings("hash", pages=PagesConfig(fixture="p.json"))
    assert needs(held) == {"hash": ("hash",), "pages": ("hash",)}


def test_those_that_were_asked_for_run_in_their_order_and_an_unknown_one_is_refused() -> None:
    held = settings("hash", "keyword", pages=PagesConfig(fixture="p.json"))
    assert [job.name for job in jobs.chosen(held, ROOT, [])] == ["hash", "keyword", "pages"]
    assert [job.name for job in jobs.chosen(held, ROOT, ["pages", "hash"])] == ["hash", "pages"]
    with pytest.raises(InputError, match="no job is called hush; there are hash, keyword, pages"):
        jobs.chosen(held, ROOT, ["hush", "hash"])


def test_figures_are_named_after_the_job_and_told_of_in_words() -> None:
    mini, embedders, pages = planned(settings(MINI, pages=PagesConfig(fixture="p.json")))
    assert [path for path, _ in mini.figures] == [
        f"figures/{MINI}-scores.png",
        f"figures/{MINI}-margins.png",
        f"figures/{MINI}-frontier.png",
        f"figures/{MINI}-funnel.png",
    ]
    assert [path for path, _ in embedders.figures] == [
        "figures/embedders-scores.png",
        "figures/embedders-margins.png",
    ]
    assert [path for path, _ in pages.figures] == ["figures/pages-kinds.png", "figures/pages-parts.png"]
    for job in (mini, embedders, pages):
        assert all(alt.endswith(f" ({job.name})") and len(alt) > 30 for _, alt in job.figures)


def test_every_planned_notebook_is_there() -> None:
    held = settings(MINI, pages=PagesConfig(fixture="p.json"), choice=(ChoiceConfig(fixture="a.json"),))
    found = {job.notebook for job in planned(held)}
    assert found == set(jobs.FIGURES)
    assert all((ROOT / notebook).is_file() for notebook in found)

"""The study of a wiki: its tables add up, agree with plain loops, and with an independent library."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest
from conftest import PROBES, note
from ir_measures import RR, Qrel, R, ScoredDoc, Success

from recall_core import page_study, runs, scoring, stats
from recall_core.config import PagesConfig
from recall_core.embedders.hashing import HashEmbedder
from recall_core.night import floors
from recall_core.page_study import KEYWORD, Asked
from recall_core.probes import Probe
from recall_core.records import Memory
from recall_core.store import SqliteStore
from recall_core.vault import Vault
from recall_core.wiki import PAGE_STREAMS, Answer, Options, Wiki

# A world small enough to check by eye


def probe(id_: str, query: str, *expected: str, kind: str = "any", streams: Sequence[str] = ()) -> Probe:
    return Probe(id=id_, query=query, expected=expected, kind=kind, streams=tuple(streams))  # type: ignore[arg-type]


PAGES = [
    note("outage", "Saturday broke the exam.", kind="page", links=("resolvers",)),
    note("resolvers", "Two answer names.", kind="page"),
    note("sticker", "One comes out empty.", kind="page", entities=("Zebra",)),
    *(note(f"twin{i}", "kettle", kind="page") for i in range(6)),
    note("seen", "The vessel was pumped.", kind="observation"),
]
ASKED = [
    probe("direct", "the exam on Saturday", "outage", kind="direct", streams=["keyword", "vector"]),
    probe("link", "what broke the exam", "resolvers", kind="link", streams=["graph"]),
    probe("entity", "anything on Zebra?", "sticker", kind="entity", streams=["entity"]),
    probe("observation", "pumped vessel", "seen", kind="observation", streams=["observation"]),
    # Six twins tie for bm25. Fused, they stand in the order of their ids, and the expected one is sixth.
    probe("tied", "kettle", "twin5", kind="direct", streams=["keyword"]),
    probe("lost", "nowhere", "sticker", kind="paraphrase", streams=["vector"]),
    probe("quiet", "goose", kind="nothing"),
    probe("loud", "a name for a goose", kind="nothing"),
]


@pytest.fixture(scope="module")
def small() -> Asked:
    store = SqliteStore()
    store.add(PAGES)
    return page_study.ask(Wiki(store), ASKED, Options())


def test_the_modes_by_hand(small: Asked):
    keyword, hybrid = page_study.modes(small).to_dict("records")
    assert (keyword["mode"], hybrid["mode"]) == ("keyword", "hybrid")
    # Words alone find `direct` first and `tied` sixth. All streams also find the link (second, for it ties
    # with the page that leads to it), the entity and the observation; `direct` then ties with its own link.
    assert (keyword["hits"], keyword["n"], hybrid["hits"], hybrid["n"]) == (1, 6, 4, 6)
    assert keyword["mrr"] == pytest.approx((1 / 1 + 1 / 6) / 6)
    assert hybrid["mrr"] == pytest.approx((1 / 2 + 1 / 2 + 1 / 1 + 1 / 1 + 1 / 6 + 0) / 6)
    assert [(line["silent"], line["nothing"]) for line in (keyword, hybrid)] == [(1, 2), (1, 2)]


def test_what_came_of_each_probe_by_hand(small: Asked):
    # As the modes: words find `direct` alone; every stream also the link, the entity and the observation.
    # Nothing must be found for the last two, and "names" is found for one of them.
    kept = page_study.kept(small)
    assert list(kept["keyword"]["outcome"]) == ["found", *["lost"] * 5, "kept_quiet", "false_recall"]
    assert list(kept["hybrid"]["outcome"]) == [
        *["found"] * 4,
        *["lost"] * 2,
        *("kept_quiet", "false_recall"),
    ]
    assert scoring.indicators(kept["hybrid"], (5,))[["recall@5", "passed"]].sum().tolist() == [4, 4 + 1]
    assert list(kept["hybrid"]["search_ms"]) == list(small.hybrid_ms)


def test_rows_that_were_kept_come_back_as_they_were(small: Asked, tmp_path: Path):
    for mode, rows in page_study.kept(small).items():
        runs.write_rows(rows, tmp_path / f"{mode}.jsonl")
        again = runs.read_rows(tmp_path / f"{mode}.jsonl")
        assert again[["case_id", "outcome", "top1"]].equals(rows[["case_id", "outcome", "top1"]])
        assert again["ids"].map(list).tolist() == rows["ids"].map(list).tolist()


def test_the_conditions_of_a_mode_change_with_what_it_depends_on(small: Asked):
    words, every = page_study.conditions(small, "w").to_dict("records")
    assert (words["kind"], words["fingerprint"], words["wiki"]) == ("keyword", "", "w")
    other = replace(small, wiki=Wiki(SqliteStore(), HashEmbedder()), options=Options(k=1))
    words_then, every_then = page_study.conditions(other, "w").to_dict("records")
    assert words_then == words
    assert {name for name in every if every[name] != every_then[name]} == {"kind", "path", "fingerprint"}
    assert every_then["fingerprint"] == HashEmbedder().fingerprint
    fewer = page_study.conditions(replace(small, probes=small.probes[:2]), "w").iloc[0]
    assert fewer["probes"] != words["probes"]


def test_the_context_is_the_median_size_of_the_first_five(small: Asked):
    # Words and marks of what the words find: outage 5 (twice), nothing (4 times), five twins of 1 each 5,
    # and for `loud` the page with "names" 4: the median of 0 0 0 0 4 5 5 5.
    keyword, _ = page_study.modes(small).to_dict("records")
    assert keyword["context"] == np.median([0, 0, 0, 0, 4, 5, 5, 5])


def test_the_kinds_by_hand(small: Asked):
    assert page_study.kinds(small).to_dict("records") == [
        {"kind": "direct", "keyword": 1, "hybrid": 1, "n": 2},
        {"kind": "link", "keyword": 0, "hybrid": 1, "n": 1},
        {"kind": "entity", "keyword": 0, "hybrid": 1, "n": 1},
        {"kind": "observation", "keyword": 0, "hybrid": 1, "n": 1},
        {"kind": "paraphrase", "keyword": 0, "hybrid": 0, "n": 1},
    ]


def test_a_mode_answers_for_the_probes_that_name_its_streams(small: Asked):
    keyword, hybrid = page_study.verdicts(small).to_dict("records")
    assert (keyword["hits"], keyword["n"], keyword["lost"]) == (1, 2, "tied")
    assert (hybrid["hits"], hybrid["n"], hybrid["lost"]) == (4, 6, "tied lost")


def test_a_probe_that_names_no_stream_counts_for_both_modes():
    store = SqliteStore()
    store.add(PAGES)
    asked = page_study.ask(Wiki(store), [probe("any", "Zebra", "sticker"), probe("none", "goose")], Options())
    counted = page_study.verdicts(asked)[["hits", "n", "lost"]].to_numpy().tolist()
    assert counted == [[0, 1, "any"], [1, 1, ""]]


def test_what_is_rescued_by_hand(small: Asked):
    effects = page_study.rescues(small)
    found = {(row.stream, row.effect, row.case_id) for row in effects.itertuples()}
    assert found == {
        ("keyword", "rescued", "direct"),
        ("keyword", "rescued", "link"),
        ("graph", "rescued", "link"),
        ("entity", "rescued", "entity"),
    }


def test_what_is_lost_is_told_with_what_came_instead(small: Asked):
    lost = page_study.lost(small).set_index("case_id")
    assert list(lost.index) == ["tied", "lost", "loud"]
    columns = ["kind", "expected", "top"]
    assert lost.loc["tied", columns].tolist() == ["direct", "twin5", "twin0"]
    assert lost.loc["lost", columns].tolist() == ["paraphrase", "sticker", ""]
    # The words find "names"; the page that links to it ties with it, and has the smaller id.
    assert lost.loc["loud", columns].tolist() == ["nothing", "", "outage"]
    assert lost["rank"].tolist() == pytest.approx([6, np.nan, np.nan], nan_ok=True)


def test_the_score_underneath_an_observation_is_its_own(small: Asked):
    table = page_study.signals(small).set_index("signal")
    # Right first: entity (no word of it is on a page: bm25 0) and observation. Silent: quiet (0) and loud.
    assert table.loc["best bm25", ["right", "nothing"]].tolist() == [2, 2]
    by_id = dict(zip((p.id for p in ASKED), small.found, strict=True))
    loud, seen = by_id["loud"].keyword.hits[0].score, by_id["observation"].observation.hits[0].score
    assert seen > loud > 0
    # Pairs: entity-quiet a tie, entity-loud lost, seen-quiet and seen-loud won.
    assert table.loc["best bm25", "auroc"] == pytest.approx((0.5 + 0 + 1 + 1) / 4)


def test_the_words_alone_are_timed_alone(small: Asked):
    assert len(small.keyword_ms) == len(small.hybrid_ms) == len(ASKED)
    assert min(*small.keyword_ms, *small.hybrid_ms) > 0
    searched: list[str] = []
    wiki = Wiki(small.wiki.store)
    find = wiki.find

    def counted(*asked):
        searched.append(asked[0])
        return find(*asked)

    wiki.find = counted  # type: ignore[method-assign]
    page_study.ask(wiki, ASKED[:2], Options())
    # Once to warm up and once a probe: the words are not timed with every stream around them.
    assert searched == [ASKED[0].query, ASKED[0].query, ASKED[1].query]


def test_an_inventory_names_pages_in_another_encoding(small: Asked):
    read = Vault((), (), (("a", "its front matter is broken (x)"), ("b", "byte 4 is not UTF-8; read so")))
    told = dict(page_study.inventory(read, [], small).to_numpy().tolist())
    assert (told["front matter that is broken"], told["not UTF-8"]) == ("a", "b")


def test_an_inventory_names_what_was_read(small: Asked):
    read = Vault((PAGES[0],), (("outage", "gone"),), (("sticker", "why"),))
    options = Options(weights={"graph": 0.5}, stand_out=None)
    told = dict(page_study.inventory(read, [PAGES[-1]], replace(small, options=options)).to_numpy().tolist())
    assert told == {
        "pages": "1, with 1 links",
        "links that lead nowhere": "outage to gone",
        "front matter that is broken": "sticker",
        "observations": "1",
        "probes": "8, 2 find nothing",
        "embedder": "none",
        "fusion": "rrf, k 60; weights: graph 0.5",
        "a vector hit stands out by": "anything",
    }


# The wiki we ship


@pytest.fixture(scope="module")
def asked(wiki_memories: list[Memory]) -> Asked:
    return page_study.asked(wiki_memories, PROBES, HashEmbedder(), Options())


@contextmanager
def few_resamples() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats, "paired_bootstrap", partial(stats.paired_bootstrap, resamples=400))
        yield


@pytest.fixture(scope="module")
def subsets(asked: Asked) -> pd.DataFrame:
    with few_resamples():
        return page_study.subsets(asked).set_index("streams")


@pytest.fixture(scope="module")
def settings(asked: Asked) -> pd.DataFrame:
    with few_resamples():
        return page_study.settings(asked).set_index("setting")


MODES = {"keyword": KEYWORD, "hybrid": Options()}
modes = pytest.mark.parametrize("mode", MODES)


def pessimistic(answer: Answer, expected: Sequence[str]) -> list[str]:
    """Ids in order, what is not expected first among equals."""
    ordered = sorted(answer.hits, key=lambda hit: (-hit.score, hit.id in expected, hit.id))
    return [hit.id for hit in ordered]


@modes
def test_recall_and_reciprocal_rank_agree_with_plain_loops(asked: Asked, mode: str):
    hits = n = 0
    reciprocal = 0.0
    for question, answer in zip(asked.probes, asked.answers(MODES[mode]), strict=True):
        if question.expected:
            n += 1
            ranks = [
                place
                for place, id_ in enumerate(pessimistic(answer, question.expected), 1)
                if id_ in question.expected
            ]
            hits += bool(ranks) and ranks[0] <= 5
            reciprocal += 1 / ranks[0] if ranks else 0.0
    line = page_study.modes(asked).set_index("mode").loc[mode]
    assert (line["hits"], line["n"]) == (hits, n)
    assert line["mrr"] == pytest.approx(reciprocal / n, rel=1e-12)


@modes
def test_ir_measures_agrees(asked: Asked, mode: str):
    qrels, run = [], []
    for question, answer in zip(asked.probes, asked.answers(MODES[mode]), strict=True):
        qrels += [Qrel(question.id, id_, 1) for id_ in question.expected]
        ordered = pessimistic(answer, question.expected)
        run += [ScoredDoc(question.id, id_, 1 / place) for place, id_ in enumerate(ordered, 1)]
    measured = ir_measures.calc_aggregate([Success @ 5, RR, R @ 5], qrels, run)
    line = page_study.modes(asked).set_index("mode").loc[mode]
    assert measured[Success @ 5] == pytest.approx(line["hits"] / line["n"], rel=1e-9)
    assert measured[RR] == pytest.approx(line["mrr"], rel=1e-9)
    # R@5 is the share of the expected that is found, success@5 whether any is: equal for one expected.
    rows = asked.rows(MODES[mode])
    rows = rows[rows["answerable"]]
    shares = [np.mean([rank is not None and rank <= 5 for rank in ranks]) for ranks in rows["ranks"]]
    assert measured[R @ 5] == pytest.approx(np.mean(shares), rel=1e-9)


def test_hits_by_kind_add_up_to_hits(asked: Asked):
    kinds = page_study.kinds(asked)
    both = page_study.modes(asked).set_index("mode")
    for mode in ("keyword", "hybrid"):
        assert kinds[mode].sum() == both.loc[mode, "hits"]
        assert kinds["n"].sum() == both.loc[mode, "n"]
    assert "nothing" not in set(kinds["kind"])
    assert ((kinds[["keyword", "hybrid"]].max(axis=1)) <= kinds["n"]).all()


def test_every_subset_of_the_streams_is_tried_once(asked: Asked, subsets: pd.DataFrame):
    assert len(subsets) == 2 ** len(PAGE_STREAMS) - 1
    assert subsets.index.is_unique
    everything = subsets.loc[", ".join(PAGE_STREAMS)]
    hybrid = page_study.modes(asked).set_index("mode").loc["hybrid"]
    assert everything[["hits", "n", "mrr"]].tolist() == hybrid[["hits", "n", "mrr"]].tolist()
    assert everything[["difference", "low", "high"]].tolist() == [0, 0, 0]


def test_a_difference_is_that_of_the_hits_and_lies_in_its_interval(
    subsets: pd.DataFrame, settings: pd.DataFrame
):
    for table, base in ((subsets, ", ".join(PAGE_STREAMS)), (settings, "as configured")):
        difference = (table["hits"] - table.loc[base, "hits"]) / table["n"]
        assert table["difference"].to_numpy() == pytest.approx(difference.to_numpy(), abs=1e-12)
        assert (table["low"] <= table["difference"] + 1e-12).all()
        assert (table["difference"] <= table["high"] + 1e-12).all()
        assert (table["n"] == table.loc[base, "n"]).all()


def test_rescued_less_hurt_is_the_difference_to_the_others_alone(asked: Asked, subsets: pd.DataFrame):
    effects = page_study.rescues(asked).groupby(["stream", "effect"]).size()
    everything = subsets.loc[", ".join(PAGE_STREAMS), "hits"]
    for stream in PAGE_STREAMS:
        others = ", ".join(name for name in PAGE_STREAMS if name != stream)
        change = effects.get((stream, "rescued"), 0) - effects.get((stream, "hurt"), 0)
        assert change == everything - subsets.loc[others, "hits"]


def test_every_stream_rescues_a_probe(asked: Asked):
    effects = page_study.rescues(asked)
    assert set(effects[effects["effect"] == "rescued"]["stream"]) == set(PAGE_STREAMS)


def test_the_setting_configured_is_among_those_tried(asked: Asked, settings: pd.DataFrame):
    assert settings.index.is_unique
    assert len(settings) == 1 + len(page_study.KS) + len(PAGE_STREAMS) * len(page_study.WEIGHTS) + 1
    hybrid = page_study.modes(asked).set_index("mode").loc["hybrid"]
    for name in ("as configured", "rrf, k 60"):
        assert settings.loc[name, ["hits", "n", "mrr"]].tolist() == hybrid[["hits", "n", "mrr"]].tolist()
    other = asked.rows(replace(asked.options, method="minmax"))
    assert settings.loc["minmax fusion", "hits"] == page_study.found_within(other).sum()


def test_a_lost_probe_is_neither_found_nor_silent(asked: Asked):
    lost = page_study.lost(asked)
    (hybrid,) = page_study.modes(asked).query("mode == 'hybrid'").to_dict("records")
    missed = lost[lost["expected"] != ""]
    assert len(missed) == hybrid["n"] - hybrid["hits"]
    assert len(lost) - len(missed) == hybrid["nothing"] - hybrid["silent"]
    assert not (missed["rank"] <= 5).any()


def test_verdicts_name_what_is_lost(asked: Asked):
    lost = {*page_study.lost(asked)["case_id"]}
    for line in page_study.verdicts(asked).to_dict("records"):
        assert len(line["lost"].split()) == line["n"] - line["hits"]
        if line["mode"] == "hybrid":
            assert {*line["lost"].split()} <= lost


def test_what_words_find_and_hybrid_loses_explains_the_gap(asked: Asked):
    keyword, hybrid = (page_study.found_within(asked.rows(options)) for options in MODES.values())
    below = page_study.below(asked)
    gained = int((hybrid > keyword).sum())
    assert hybrid.sum() - keyword.sum() == gained - len(below)
    assert set(below["case_id"]) <= {*page_study.lost(asked)["case_id"]}


def test_scores_underneath_tell_what_the_margin_of_fused_ranks_cannot(asked: Asked):
    auroc = page_study.signals(asked).set_index("signal")["auroc"]
    assert auroc["margin of fused scores"] < 0.78
    assert auroc["best cosine"] > auroc["margin of fused scores"] + 0.05
    assert auroc["best bm25"] > auroc["margin of fused scores"] + 0.1


def kept_and_let_through(values: np.ndarray, rows: pd.DataFrame) -> list[tuple[float, float]]:
    """(share of the right first spoken, share of the silent spoken) for a gate at each value."""
    right, nothing = rows["place"] == "right_first", ~rows["answerable"]
    return [((values[right] >= at).mean(), (values[nothing] >= at).mean()) for at in set(values)]


def test_a_gate_on_the_cosine_silences_what_no_gate_on_the_margin_can(asked: Asked):
    rows = asked.rows(asked.options)
    cosine = np.array([found.cosines.hits[0].score for found in asked.found])
    # Chosen on these very probes, so an upper bound for both; the bound of the margin is the lower one.
    assert max(kept - let for kept, let in kept_and_let_through(cosine, rows)) > 0.6
    assert max(kept - let for kept, let in kept_and_let_through(rows["margin"].to_numpy(), rows)) < 0.45


# Floors


def pages_config(**more: object) -> PagesConfig:
    return PagesConfig(vault="v", probes="p", **more)  # type: ignore[arg-type]


Count = tuple[int, int, str]


def tables(keyword: Count, hybrid: Count, found: tuple[int, int] | None = None) -> dict[str, pd.DataFrame]:
    """`found`: what both modes find of all probes; what their own probes find unless given."""
    return {
        "verdicts": pd.DataFrame(
            [("keyword", *keyword), ("hybrid", *hybrid)], columns=["mode", "hits", "n", "lost"]
        ),
        "modes": pd.DataFrame({"mode": ["keyword", "hybrid"], "hits": found or (keyword[0], hybrid[0])}),
        "below": pd.DataFrame({"case_id": ["w1", "w2"], "query": ["?", "?"]}),
    }


def judged(settings: PagesConfig, made: dict[str, pd.DataFrame] | None) -> dict[str, tuple[str, str]]:
    """(state, what is said) by what was demanded."""
    verdicts = floors.judged_pages(settings, made)
    assert {(verdict.group, verdict.subject) for verdict in verdicts} == {("floor", "pages")}
    return {verdict.what: (verdict.state, verdict.said) for verdict in verdicts}


def states(settings: PagesConfig, made: dict[str, pd.DataFrame] | None) -> dict[str, str]:
    return {what: state for what, (state, _) in judged(settings, made).items()}


HOLDING = {"recall@5, keyword": "holds", "recall@5, hybrid": "holds", "hybrid not below keyword": "holds"}


def test_floors_that_hold_say_so_and_name_nothing_lost():
    found = judged(pages_config(), tables((7, 10, "a b c"), (14, 20, "x")))
    assert {what: state for what, (state, _) in found.items()} == HOLDING
    assert not [said for _, said in found.values() if "lost" in said]
    assert states(pages_config(), tables((10, 10, ""), (10, 10, ""))) == HOLDING


def test_a_broken_floor_names_the_probes_that_were_lost():
    found = judged(pages_config(), tables((6, 10, "a b c d"), (14, 20, "x")))
    assert found["recall@5, keyword"] == (
        "broken",
        "pages, keyword recall@5: 60.0% (6/10) [31, 83], wanted at least 70.0%; lost: a b c d",
    )
    assert found["recall@5, hybrid"][0] == "holds"
    both = judged(pages_config(floor=0.9), tables((8, 10, "a b"), (16, 20, "c d e f")))
    assert both["recall@5, keyword"][0] == both["recall@5, hybrid"][0] == "broken"
    assert both["recall@5, hybrid"][1].endswith("lost: c d e f")


@pytest.mark.parametrize(("hits", "state"), [(6, "broken"), (7, "holds"), (8, "holds")])
def test_a_floor_holds_where_it_is_met_exactly(hits: int, state: str):
    # 0.07 * 100 is a little more than 7 in floating point.
    found = states(pages_config(floor=0.07), tables((hits, 100, ""), (100, 100, "")))
    assert found["recall@5, keyword"] == state


def test_hybrid_search_must_not_find_less_than_words_alone():
    both = tables((10, 10, ""), (20, 20, ""), found=(18, 17))
    assert judged(pages_config(), both)["hybrid not below keyword"] == (
        "broken",
        "pages: hybrid search finds 17, keyword search alone 18; "
        "found by words alone and lost by hybrid: w1 w2",
    )
    assert "hybrid not below keyword" not in states(pages_config(hybrid_below_keyword=True), both)
    assert states(pages_config(), tables((10, 10, ""), (20, 20, ""), found=(17, 17))) == HOLDING


def test_where_hybrid_search_loses_nothing_its_table_has_no_columns():
    made = {**tables((10, 10, ""), (20, 20, "")), "below": pd.DataFrame([])}
    assert states(pages_config(), made) == HOLDING


def test_a_wiki_that_was_not_probed_is_missing():
    assert set(states(pages_config(), None).values()) == {"missing"}


def test_the_floors_hold_on_the_wiki_we_ship(asked: Asked):
    made = {name: getattr(page_study, name)(asked) for name in ("verdicts", "modes", "below")}
    assert states(pages_config(), made) == HOLDING
    assert sorted(states(pages_config(floor=1.0), made).values()) == ["broken", "broken", "holds"]

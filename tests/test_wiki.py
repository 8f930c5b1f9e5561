"""A wiki asked: what each stream is there for, how they are fused, and when observations are asked."""

from collections.abc import Sequence

import numpy as np
import pytest
from builders import case_of
from conftest import ByHand, note

from recall_core import fusion, streams
from recall_core.embedders.hashing import HashEmbedder
from recall_core.gates import Gate, opened
from recall_core.passages import passages
from recall_core.records import Memory, Ranking
from recall_core.scoring import frame, score_case
from recall_core.store import SqliteStore
from recall_core.wiki import Answer, Options, Wiki, explain
from recall_core.words import marked

OUTAGE = note(
    "sessions/outage.md",
    "On Saturday Zoya's exam broke off in the middle. It was the Pi.",
    kind="page",
    title="Outage of 4 April",
    links=("decisions/two-resolvers.md",),
)
RESOLVERS = note(
    "decisions/two-resolvers.md",
    "Enoki and morel both answer names now; the router hands out both addresses.",
    kind="page",
    title="Two resolvers",
)
STICKER = note(
    "gotchas/gap-sensor.md",
    "One sticker of three comes out empty. Calibrate the sensor, then feed twice.",
    kind="page",
    title="Empty stickers",
    entities=("Zebra ZD421", "Lindhop"),
)
RACK = note(
    "sessions/rack.md",
    "The rack went into the corridor; the radiators were cold that evening.",
    kind="page",
    title="Rack move",
    links=("gotchas/gap-sensor.md",),
    entities=("Lindhop",),
)
VESSEL = note("obs-1", "Pavel: the expansion vessel (Reflex) was pumped to 1.4 bar.", kind="observation")
ODD = note("obs-2", "Zoya: the Saturday exam will be repeated on Monday.", kind="observation")
WORLD = [OUTAGE, RESOLVERS, STICKER, RACK, VESSEL, ODD]


def wiki_of(memories: Sequence[Memory], embedder: HashEmbedder | ByHand | None = None) -> Wiki:
    store = SqliteStore()
    store.add(memories)
    if embedder:
        missing = store.unembedded(embedder.fingerprint)
        store.put_vectors(embedder.fingerprint, missing, embedder.embed_passages(missing))
    return Wiki(store, embedder)


def ids(ranking: Ranking | Answer) -> list[str]:
    return [hit.id for hit in ranking.hits]


def names(answer: Answer) -> list[str]:
    return [ranking.stream for ranking in answer.rankings]


# What each stream is there for


def test_a_page_that_words_miss_is_found_through_a_link():
    wiki = wiki_of(WORLD)
    query = "Zoya's exam broke off on Saturday, what protects us from a repeat"
    found = wiki.find(query, Options())
    assert ids(found.keyword) == [OUTAGE.id]
    assert ids(found.entity) == []
    answer = wiki.ask(query)
    # Each is first in one stream: a tie, in the order of the ids.
    assert [(hit.id, hit.score, *[part.stream for part in hit.parts]) for hit in answer.hits] == [
        (RESOLVERS.id, 1 / 61, "graph"),
        (OUTAGE.id, 1 / 61, "keyword"),
    ]
    without = Options(streams=("keyword", "entity", "vector"))
    assert RESOLVERS.id not in ids(wiki.ask(query, without))


def test_a_page_that_words_and_links_miss_is_found_through_an_entity():
    wiki = wiki_of(WORLD)
    query = "anything odd known about the ZEBRA-ZD421 of Saturday?"
    found = wiki.find(query, Options())
    assert ids(found.keyword) == [OUTAGE.id]
    assert ids(streams.graph(wiki.links, [found.keyword])) == [RESOLVERS.id]
    answer = wiki.ask(query)
    assert STICKER.id in ids(answer)
    hit = next(hit for hit in answer.hits if hit.id == STICKER.id)
    assert [part.stream for part in hit.parts] == ["entity"]
    assert STICKER.id not in ids(wiki.ask(query, Options(streams=("keyword", "graph", "vector"))))


def test_a_detail_no_page_holds_is_found_in_an_observation_and_its_words_are_marked():
    wiki = wiki_of(WORLD)
    query = "what pressure was the Reflex vessel pumped to?"
    answer = wiki.ask(query)
    assert answer.fell_back
    assert ids(answer) == [VESSEL.id]
    assert (
        marked(VESSEL.text, query)
        == "Pavel: the expansion **vessel** (**Reflex**) was **pumped** to 1.4 bar."
    )


def test_what_must_not_be_found_is_silenced_by_the_score_underneath_and_not_by_the_margin_of_ranks():
    # Two pages hold every word of the one question and one of them a single common word of the other. Fused,
    # both are a first and a second place: the same score, the same margin.
    pages = [
        note("kettle", "Descale the kettle with vinegar, then boil it twice.", kind="page"),
        note("vinegar", "Vinegar takes the scale off a kettle.", kind="page"),
        *(note(f"other{i}", "Water the garden.", kind="page") for i in range(8)),
        *(note(f"tap{i}", "Boil water.", kind="page") for i in range(4)),
    ]
    wiki = wiki_of(pages)
    asked = {"answer": "descale the kettle with vinegar", "nothing": "boil goose eggs"}
    found = {name: wiki.find(query, Options()) for name, query in asked.items()}
    fused = {name: wiki.fuse(found[name], Options()).hits for name in asked}
    for hits in fused.values():
        assert [hit.score for hit in hits[:2]] == [1 / (60 + 1), 1 / (60 + 2)]
    best = {name: found[name].keyword.hits[0].score for name in asked}
    assert best["answer"] > 3 * best["nothing"]

    def opens(name: str, ranking: Ranking, gate: Gate) -> bool:
        case = case_of(("kettle",) if name == "answer" else (), id_=name)
        return bool(opened(frame([score_case(case, ranking, depth=3)]), gate)[0])

    from_ranks = {name: fusion.ranking_of(fused[name]) for name in asked}
    margin = 1 / (60 + 1) - 1 / (60 + 2)
    for delta in (0.0, margin / 2, margin, 2 * margin):
        gate = Gate(0.0, delta)
        assert opens("answer", from_ranks["answer"], gate) == opens("nothing", from_ranks["nothing"], gate)
    between = Gate((best["answer"] + best["nothing"]) / 2)
    assert opens("answer", found["answer"].keyword, between)
    assert not opens("nothing", found["nothing"].keyword, between)


# When observations are asked


def test_observations_are_asked_only_when_every_page_stream_is_empty():
    wiki = wiki_of(WORLD)
    # An observation holds more of these words than the page, and is still not asked.
    answer = wiki.ask("exam repeated on Monday, Zoya?")
    assert not answer.fell_back
    assert ODD.id in ids(wiki.find("exam repeated on Monday, Zoya?", Options()).observation)
    assert set(ids(answer)) == {OUTAGE.id, RESOLVERS.id}


@pytest.mark.parametrize(
    ("query", "options", "fell_back"),
    [
        ("Monday", Options(), True),
        ("Monday", Options(fallback=False), False),
        ("Monday at Lindhop", Options(), False),
        ("Monday at Lindhop", Options(streams=("keyword", "graph")), True),
        ("Monday and stickers", Options(), False),
        ("Monday and stickers", Options(streams=("entity",)), True),
        # The graph grows from the streams that are chosen, and from nothing here.
        ("Monday and stickers", Options(streams=("graph",)), True),
        ("neither here nor there", Options(), True),
        ("", Options(), True),
    ],
)
def test_one_page_stream_with_a_hit_is_enough(query: str, options: Options, fell_back: bool):
    answer = wiki_of(WORLD).ask(query, options)
    assert answer.fell_back == fell_back
    assert (names(answer) == ["observation"]) == fell_back
    assert ("obs-2" in ids(answer)) == (fell_back and "Monday" in query)
    if not options.fallback:
        assert ids(answer) == []


EAST, NORTH, WEST = (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)


def embedded() -> Wiki:
    """The page `east` stands out for a question to the east; ten other pages look north."""
    pages = [note("east", kind="page"), *(note(f"north{i}", kind="page") for i in range(10))]
    memories = [*pages, note("seen", "seen in the east", kind="observation")]
    rows = {text: NORTH for memory in memories for text in passages(memory)}
    asked = {"qqq": EAST, "zzz seen": WEST}
    return wiki_of(memories, ByHand(rows | {"east": EAST, "seen in the east": EAST} | asked))


def test_a_vector_hit_is_a_page_hit():
    wiki = embedded()
    # Ten cosines of 0 and one of 1: the mean is 1/11, the deviation sqrt(10)/11, and 1 stands out by 3.16.
    answer = wiki.ask("qqq")
    assert not answer.fell_back
    assert ids(answer) == ["east"]
    assert [(part.stream, part.score) for part in answer.hits[0].parts] == [("vector", 1.0)]
    assert ids(wiki.ask("qqq", Options(stand_out=3.1))) == ["east"]
    assert wiki.ask("qqq", Options(stand_out=3.2)).fell_back
    assert wiki.ask("qqq", Options(streams=("keyword",))).fell_back
    assert len(wiki.ask("qqq", Options(stand_out=None)).hits) == 11


def test_where_no_page_stands_out_observations_are_asked():
    # To the west: ten cosines of 0 and one of -1.
    answer = embedded().ask("zzz seen")
    assert answer.fell_back
    assert ids(answer) == ["seen"]


def test_cosines_rank_every_page_and_no_observation():
    found = embedded().find("qqq", Options())
    assert ids(found.cosines) == ["east", *sorted(f"north{i}" for i in range(10))]
    assert ids(found.vector) == ["east"]


def test_a_vector_that_is_known_is_not_made_again():
    wiki = embedded()
    known = np.array(EAST, dtype=np.float32)
    assert wiki.find("no row for this", Options(), known).cosines == wiki.find("qqq", Options()).cosines


def test_without_an_embedder_there_is_no_vector_stream():
    wiki = wiki_of(WORLD)
    found = wiki.find("rack", Options())
    assert found.vector.hits == found.cosines.hits == ()
    assert names(wiki.ask("rack")) == ["keyword", "entity", "graph"]
    assert names(wiki_of(WORLD, HashEmbedder()).ask("rack")) == ["keyword", "entity", "graph", "vector"]


# How streams are fused


def test_an_answer_is_the_fusion_of_its_streams():
    wiki = wiki_of(WORLD, HashEmbedder())
    query = "empty stickers at Lindhop on Saturday"
    for options in (
        Options(),
        Options(k=0),
        Options(weights={"entity": 3.0, "graph": 0.0}),
        Options(streams=("keyword", "entity")),
    ):
        answer = wiki.ask(query, options)
        assert list(answer.hits) == fusion.rrf(answer.rankings, options.weights, options.k)
        assert set(names(answer)) == set(options.streams)
    answer = wiki.ask(query, Options(method="minmax", weights={"entity": 3.0}))
    assert list(answer.hits) == fusion.minmax(answer.rankings, {"entity": 3.0})
    assert ids(answer.ranking) == ids(answer)


def test_the_graph_grows_from_words_and_entities_alone():
    wiki = wiki_of(WORLD, HashEmbedder())
    query = "empty stickers at Lindhop on Saturday"
    answer = wiki.ask(query, Options(stand_out=None))
    found = wiki.find(query, Options())
    (graph,) = [ranking for ranking in answer.rankings if ranking.stream == "graph"]
    assert graph == streams.graph(wiki.links, [found.keyword, found.entity])
    assert RESOLVERS.id in ids(graph)


def test_no_stream_is_searched_deeper_than_told():
    pages = [note(f"p{i}", "kettle", kind="page", entities=("kettle",)) for i in range(9)]
    pages += [note("hub", kind="page", links=tuple(f"p{i}" for i in range(9)))]
    answer = wiki_of(pages, HashEmbedder()).ask("kettle", Options(depth=3, stand_out=None))
    assert {ranking.stream: len(ranking.hits) for ranking in answer.rankings} == {
        "keyword": 3,
        "entity": 3,
        "graph": 1,
        "vector": 3,
    }


def test_asking_twice_is_the_same():
    wiki = wiki_of(WORLD, HashEmbedder())
    assert wiki.ask("rack at Lindhop") == wiki.ask("rack at Lindhop")
    assert wiki.ask("rack at Lindhop") == wiki_of(WORLD[::-1], HashEmbedder()).ask("rack at Lindhop")


@pytest.mark.parametrize(
    "query", ["", "🙂", "x" * 10_000, 'NOT "(*', "\0\ud800", "'; DROP TABLE memories; --"]
)
def test_any_text_is_a_question(query: str):
    wiki = wiki_of(WORLD, HashEmbedder())
    wiki.ask(query)
    assert wiki.store.memories() == sorted(WORLD, key=lambda memory: memory.id)


# Why a memory is where it is


def test_an_explanation_adds_up():
    wiki = wiki_of(WORLD)
    answer = wiki.ask("empty stickers at Lindhop")
    keyword, entity = answer.hits[0].parts
    assert explain(answer, STICKER) == (
        f"gotchas/gap-sensor.md: {2 / 61:.4f} = entity rank 1, score {np.log(2):.4f}, gives {1 / 61:.4f}; "
        f"keyword rank 1, score {entity.score:.4f}, gives {1 / 61:.4f}"
    )
    assert (keyword.stream, entity.stream) == ("entity", "keyword")


def test_a_memory_no_stream_found_is_said_to_be():
    assert explain(wiki_of(WORLD).ask("stickers"), VESSEL) == "obs-1: no stream found it"

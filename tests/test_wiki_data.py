"""The wiki we ship and its probes: what they hold, and that every claim a probe makes is true."""

import json
import re
from collections import Counter

import pytest
from conftest import PROBES, WIKI

from recall_core import fixtures, fusion, streams
from recall_core.path_study import CLAIM
from recall_core.records import Case, Memory, Ranking
from recall_core.store import SqliteStore
from recall_core.vault import Vault

KINDS = ("direct", "paraphrase", "entity", "link", "observation", "superseded", "nothing")
IDS = [probe["id"] for probe in json.loads(PROBES.read_text(encoding="utf-8"))["cases"]]
REPLACED = [
    ("decisions/ids-uuid-v4.md", "decisions/ids-uuid-v7.md"),
    ("decisions/sync-last-write-wins.md", "decisions/sync-hybrid-clock.md"),
    ("decisions/label-code128.md", "decisions/label-data-matrix.md"),
    ("decisions/login-magic-link.md", "decisions/login-passkeys.md"),
    ("decisions/ci-woodpecker.md", "decisions/ci-forgejo-actions.md"),
    ("procedures/release-friday.md", "procedures/release-second-tuesday.md"),
    ("decisions/backup-borg.md", "decisions/backup-restic.md"),
    ("decisions/pool-raidz1.md", "decisions/pool-mirrors.md"),
    ("decisions/zigbee-channel-11.md", "decisions/zigbee-channel-25.md"),
    ("decisions/proxy-traefik.md", "decisions/proxy-caddy.md"),
    ("procedures/ups-выключение.md", "procedures/ups-выключение-таймер.md"),
]
"""(old, new) of the decisions and procedures of which another took the place."""
CYRILLIC = re.compile("[а-яё]", re.I)


@pytest.fixture(scope="module")
def asked() -> dict[str, Case]:
    return {case.id: case for case in fixtures.load(PROBES).cases}


@pytest.fixture(scope="module")
def links(wiki_memories: list[Memory]) -> streams.Links:
    return streams.links(wiki_memories)


@pytest.fixture(scope="module")
def found(
    wiki_memories: list[Memory], asked: dict[str, Case], links: streams.Links
) -> dict[str, dict[str, Ranking]]:
    """What each stream finds, pages and observations apart."""
    store = SqliteStore()
    store.add(wiki_memories)
    entities = streams.entity_index(memory for memory in wiki_memories if memory.kind == "page")
    rankings = {}
    for id_, case in asked.items():
        keyword = streams.keyword(store, case.query, kinds=("page",))
        entity = streams.entity(entities, case.query)
        direct = fusion.fuse([keyword, entity])
        reached = fusion.passed_on(direct, links, 0.5, seeds=10)
        graph = Ranking("graph", tuple(hit for hit in reached.hits if hit.own("graph") > 0))
        observation = streams.observation(store, case.query)
        rankings[id_] = {"keyword": keyword, "entity": entity, "graph": graph, "observation": observation}
    return rankings


def kind(case: Case) -> str:
    return case.tags[0]


def claims(case: Case) -> set[str]:
    return {tag.removeprefix(CLAIM) for tag in case.tags[1:]}


# The wiki


def test_the_wiki_is_as_large_as_it_should_be(wiki_memories: list[Memory]):
    kinds = Counter(memory.kind for memory in wiki_memories)
    assert kinds["page"] >= 80
    assert kinds["observation"] == 200


def test_the_wiki_speaks_two_languages(wiki_memories: list[Memory]):
    for kind in ("page", "observation"):
        texts = [memory.text for memory in wiki_memories if memory.kind == kind]
        russian = sum(bool(CYRILLIC.search(text)) for text in texts)
        assert 0.2 * len(texts) < russian < 0.8 * len(texts)
    langs = {memory.lang for memory in wiki_memories if memory.kind == "observation"}
    assert langs == {"en", "ru"}


def test_no_two_memories_are_the_same(wiki_memories: list[Memory]):
    assert len({memory.id for memory in wiki_memories}) == len(wiki_memories)
    assert len({memory.text for memory in wiki_memories}) == len(wiki_memories)


def test_the_dangling_links_are_those_left_on_purpose(wiki_vault: Vault):
    assert set(wiki_vault.dangling) == {
        ("decisions/license-eupl.md", "Moorgarten contract"),
        ("procedures/гостевой-wifi.md", "Гостевой портал"),
        ("sessions/2026-09-29-retro.md", "sessions/2026-10-27-retro"),
        ("procedures/decommission-host.md", "decommission-russula.md"),
    }
    assert len(wiki_vault.dangling) == 4


def test_one_page_has_broken_front_matter_and_is_read_all_the_same(wiki_vault: Vault):
    ((id_, why),) = wiki_vault.unreadable
    assert id_ == "gotchas/jellyfin-hevc.md"
    assert "line 2" in why
    (page,) = [page for page in wiki_vault.pages if page.id == id_]
    assert page.text == (WIKI / id_).read_text(encoding="utf-8")


def by_id(found: Vault, id_: str) -> Memory:
    (page,) = [page for page in found.pages if page.id == id_]
    return page


@pytest.mark.parametrize(
    ("id_", "of", "value"),
    [
        ("gotchas/wal-grows.md", "aliases", 1),
        ("gotchas/wireguard-mtu.md", "aliases", 2),
        ("concepts/glossary.md", "entities", 0),
    ],
)
def test_odd_front_matter_is_read(wiki_vault: Vault, id_: str, of: str, value: int):
    found = getattr(by_id(wiki_vault, id_), of)
    assert len(found) >= value if value else found == ()


def test_pages_written_on_other_systems_read_alike(wiki_vault: Vault):
    assert b"\r\n" in (WIKI / "gotchas/nfs-root-squash.md").read_bytes()
    assert (WIKI / "gotchas/csv-excel-bom.md").read_bytes().startswith(b"\xef\xbb\xbf")
    for id_ in ("gotchas/nfs-root-squash.md", "gotchas/csv-excel-bom.md"):
        page = by_id(wiki_vault, id_)
        assert page.title != id_.split("/")[1].removesuffix(".md")
        assert "\r" not in page.text
        assert not page.text.startswith("---")
    retro = by_id(wiki_vault, "sessions/2026-09-29-retro.md")
    assert (retro.title, retro.ts) == ("2026-09-29-retro", None)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("decisions/интерфейс-svelte.md", "concepts/offline-hut.md"),
        ("sessions/2026-09-21-restore-drill.md", "decisions/backup-restic.md"),
        ("decisions/ids-uuid-v4.md", "decisions/ids-uuid-v7.md"),
    ],
)
def test_links_that_probes_and_readers_need_are_there(wiki_vault: Vault, source: str, target: str):
    assert target in by_id(wiki_vault, source).links


@pytest.mark.parametrize(("old", "new"), REPLACED)
def test_what_was_replaced_and_what_replaced_it_are_linked(links: streams.Links, old: str, new: str):
    assert new in links[old]


# The probes


def test_there_are_probes_of_every_kind_in_both_languages(asked: dict[str, Case]):
    assert len(asked) >= 120
    kinds = Counter(map(kind, asked.values()))
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 10
    assert kinds["nothing"] >= 30
    for name in KINDS:
        assert {probe.lang for probe in asked.values() if kind(probe) == name} == {"en", "ru"}


def test_a_probe_is_in_the_language_it_says(asked: dict[str, Case]):
    assert {id_ for id_, p in asked.items() if (p.lang == "ru") != bool(CYRILLIC.search(p.query))} == set()


def test_what_must_find_nothing_says_why_and_claims_no_stream(asked: dict[str, Case]):
    for probe in asked.values():
        assert (kind(probe) == "nothing") == (probe.expected == ())
        assert bool(claims(probe)) == bool(probe.expected)
        assert bool(probe.silent_because) == (probe.expected == ())


def test_no_question_is_asked_twice(asked: dict[str, Case]):
    assert len({probe.query.casefold() for probe in asked.values()}) == len(asked)


@pytest.mark.parametrize("id_", IDS)
def test_the_streams_a_probe_names_find_it_and_no_other_does(
    id_: str, asked: dict[str, Case], found: dict[str, dict[str, Ranking]]
):
    probe = asked[id_]
    finding = {name for name, r in found[id_].items() if {hit.id for hit in r.hits} & {*probe.expected}}
    claimed = claims(probe) - {"vector"}
    assert claimed <= finding
    # A page that happens to be linked with what was found is no claim broken.
    assert finding - {"graph"} <= claimed


@pytest.mark.parametrize("id_", [id_ for id_ in IDS if id_.startswith("observation")])
def test_what_only_an_observation_knows_no_page_holds(id_: str, found: dict[str, dict[str, Ranking]]):
    assert not found[id_]["keyword"].hits
    assert not found[id_]["entity"].hits
    assert found[id_]["observation"].hits[0].id.startswith("obs-")


@pytest.mark.parametrize("id_", [id_ for id_ in IDS if id_.startswith("superseded")])
def test_what_was_replaced_is_found_too_or_it_would_be_no_trap(
    id_: str, asked: dict[str, Case], found: dict[str, dict[str, Ranking]]
):
    (new,) = asked[id_].expected
    (old,) = [old for old, newer in REPLACED if newer == new]
    assert old in [hit.id for hit in found[id_]["keyword"].hits[:10]]


def test_every_replacement_is_probed(asked: dict[str, Case]):
    probed = {page for probe in asked.values() if kind(probe) == "superseded" for page in probe.expected}
    assert probed == {new for _, new in REPLACED}

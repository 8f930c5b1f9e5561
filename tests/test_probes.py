"""The probes file: what it may say, and that every problem is named with its probe."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import note

from recall_core import probes
from recall_core.probes import Probe, Probes
from recall_core.records import FixtureError

PAGES = [note("a/page one.md", kind="page"), note("obs-1", kind="observation")]
SOUND: dict[str, Any] = {"id": "p", "query": "kettle?", "expected": ["a/page one.md"]}


def file_of(*probes_: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"format": 1, "name": "tiny", "version": "1.0.0", "probes": list(probes_)} | more


@pytest.fixture
def load(tmp_path: Path) -> Callable[[Any], Probes]:
    """Write bytes, or anything JSON can hold, to `probes.json` and load it against two memories."""

    def write_and_load(content: Any) -> Probes:
        path = tmp_path / "probes.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return probes.load(path, PAGES)

    return write_and_load


@pytest.fixture
def problems(load: Callable[[Any], Probes]) -> Callable[[Any], list[str]]:
    def complaints(content: Any) -> list[str]:
        with pytest.raises(FixtureError) as caught:
            load(content)
        assert Path(caught.value.path).name == "probes.json"
        return caught.value.problems

    return complaints


def test_a_probe_needs_little(load: Callable[[Any], Probes]):
    (probe,) = load(file_of(SOUND)).probes
    assert probe == Probe(id="p", query="kettle?", expected=("a/page one.md",))
    assert (probe.lang, probe.kind, probe.streams, probe.silent_because) == ("en", "any", (), None)


def test_a_probe_may_say_more(load: Callable[[Any], Probes]):
    said = {
        "lang": "ru",
        "kind": "link",
        "streams": ["graph", "observation"],
        "expected": ["obs-1", PAGES[0].id],
    }
    (probe,) = load(file_of(SOUND | said)).probes
    assert (probe.lang, probe.kind, probe.streams) == ("ru", "link", ("graph", "observation"))
    assert probe.expected == ("obs-1", "a/page one.md")


def test_a_byte_order_mark_is_no_problem(load: Callable[[Any], Probes]):
    content = b"\xef\xbb\xbf" + json.dumps(file_of(SOUND)).encode()
    assert len(load(content).probes) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"expected": ["gone.md"]}, "probe 'p': expected 'gone.md' is no page and no observation"),
        ({"query": ""}, "probe 'p', probes.0.query: Value should have at least 1 item"),
        ({"streams": ["magic"]}, "probe 'p', probes.0.streams.0: Input should be 'keyword', 'entity'"),
        ({"lang": "English"}, "probe 'p', probes.0.lang"),
        ({"more": 1}, "probe 'p', probes.0.more: Extra inputs are not permitted"),
        ({"id": "two words"}, "probe 'two words', probes.0.id"),
        ({"expected": [" a"]}, "probe 'p', probes.0.expected.0"),
    ],
)
def test_a_problem_names_its_probe(problems: Callable[[Any], list[str]], change: dict[str, Any], said: str):
    (problem,) = problems(file_of(SOUND | change))
    assert problem.startswith(said)
    assert "correct" in problem


def test_every_problem_is_told_at_once(problems: Callable[[Any], list[str]]):
    found = problems(file_of(SOUND, SOUND, SOUND | {"id": "q", "expected": ["x.md", "y.md"]}))
    assert found == [
        "probe id 'p' is used 2 times; rename one",
        "probe 'q': expected 'x.md' is no page and no observation; correct the path or the id",
        "probe 'q': expected 'y.md' is no page and no observation; correct the path or the id",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "line 1, column 2: not JSON"),
        (b"", "line 1, column 1: not JSON"),
        (b'{"name": "caf\xe9"}', "byte 13 is not UTF-8; save it as UTF-8"),
        ([], ": Input should be a valid dictionary"),
        (file_of(), "probes: Tuple should have at least 1 item"),
        (file_of("x"), "probe number 1, probes.0"),
        (file_of(SOUND, format=2), "format: Input should be 1"),
        (file_of(SOUND, version="1"), "version: String should match pattern"),
    ],
)
def test_a_file_that_is_no_probes_file_is_refused(
    problems: Callable[[Any], list[str]], content: Any, said: str
):
    (problem,) = problems(content)
    assert problem.startswith(said)


def test_a_missing_file_is_told(tmp_path: Path):
    with pytest.raises(FixtureError, match=r"cannot be read \(No such file or directory\)"):
        probes.load(tmp_path / "gone.json", PAGES)


def test_a_probe_is_scored_as_a_case():
    case = Probe(id="p", query="?", lang="ru", kind="link", expected=("a b.md",)).as_case()
    assert (case.id, case.lang, case.expected, case.tags) == ("p", "ru", ("a b.md",), ("link",))
    assert case.answerable
    assert case.silent_because is None


@pytest.mark.parametrize(
    ("why", "said"), [("No such page.", "No such page."), (None, "nothing must be found")]
)
def test_a_probe_that_must_find_nothing_says_why(why: str | None, said: str):
    case = Probe(id="p", query="?", expected=(), silent_because=why).as_case()
    assert not case.answerable
    assert case.silent_because == said


def test_the_hash_of_probes_is_that_of_their_content(load: Callable[[Any], Probes]):
    def hashed(*told: dict[str, Any]) -> str:
        return probes.probes_hash(load(json.dumps(file_of(*told), indent=3).encode()).probes)

    other = {**SOUND, "id": "q"}
    same = [hashed(SOUND), hashed(dict(reversed(SOUND.items()))), hashed({**SOUND, "lang": "en"})]
    assert len(set(same)) == 1
    changed = [{**SOUND, "query": "pot?"}, {**SOUND, "expected": ["obs-1"]}, {**SOUND, "kind": "link"}, other]
    assert len({same[0], *map(hashed, changed), hashed(SOUND, other)}) == 1 + 4 + 1

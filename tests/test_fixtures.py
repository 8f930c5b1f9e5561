"""The fixture format: what is refused, in which words, and what a case is asked against."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import NOTES, ROOT, built, raw_case, raw_fixture

from recall_core import fixtures
from recall_core.records import Fixture, FixtureError

Load = Callable[[Any], Fixture]
Problems = Callable[[Any], list[str]]

FILLER = {"id": "filler-1", "text": "filler"}
SILENT = {"expected": [], "silent_because": "nobody said"}


def bring(id_: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "text": f"text {id_}"} | more


def test_a_sound_fixture_loads(load: Load):
    fixture = load(raw_fixture(raw_case("a"), raw_case("b", **SILENT), filler=[FILLER]))
    assert [case.id for case in fixture.cases] == ["a", "b"]
    assert [memory.id for memory in fixtures.all_memories(fixture)] == ["filler-1", "a-m", "b-m"]
    assert [case.answerable for case in fixture.cases] == [True, False]


# Files that are not JSON


@pytest.mark.parametrize("content", [b"", b" \n\t ", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(problems: Problems, content: bytes):
    assert problems(content) == ["the file is empty; a fixture needs a name and at least one case"]


def test_broken_json_is_told_by_line_and_column(problems: Problems):
    (said,) = problems(b'{"format": 1,\n "name": }')
    # `}` is the tenth character of ` "name": }`
    assert said.startswith("line 2, column 10: not JSON (")


def test_a_raw_nul_is_told_by_line_and_column(problems: Problems):
    (said,) = problems(b'{"name":\n"a\0b"}')
    assert said.startswith("line 2, column 3: not JSON (Invalid control character")


def test_a_file_cut_short_is_refused(problems: Problems):
    whole = json.dumps(raw_fixture()).encode()
    (said,) = problems(whole[: len(whole) // 2])
    assert said.startswith("line 1, column ")


def test_a_byte_order_mark_is_accepted(load: Load):
    assert load(b"\xef\xbb\xbf" + json.dumps(raw_fixture()).encode()) == load(raw_fixture())


@pytest.mark.parametrize(
    ("content", "byte"),
    [(b'{"name": "caf\xe9"}', 13), (json.dumps(raw_fixture()).encode("utf-16"), 0)],
)
def test_what_is_not_utf_8_is_refused(problems: Problems, content: bytes, byte: int):
    (said,) = problems(content)
    assert said.startswith(f"byte {byte} is not UTF-8 (")
    assert said.endswith("save the file as UTF-8")


@pytest.mark.parametrize("nest", [b"[" * 100_000, b"[" * 50_000 + b"]" * 50_000, b'{"a":' * 50_000])
def test_deep_nesting_is_refused(problems: Problems, nest: bytes):
    assert problems(nest) == ["nested too deeply to read; a fixture is four levels deep"]


@pytest.mark.parametrize("depth", [10, 400, 900])
def test_nesting_that_json_can_read_is_a_wrong_type(problems: Problems, depth: int):
    nested = json.dumps(raw_fixture(raw_case("a", query="NEST"), raw_case("b")))
    (said,) = problems(nested.replace('"NEST"', "[" * depth + "]" * depth).encode())
    assert said.startswith(
        "case 'a', cases.0.query: wanted a text in quotes, found a list; write the question"
    )


def test_a_number_too_long_to_read_is_refused(problems: Problems):
    (said,) = problems(b'{"format": ' + b"9" * 5000 + b"}")
    assert said.startswith("not JSON that can be read (")


def test_a_key_that_stands_twice_is_refused(problems: Problems):
    # Python's json keeps the second and says nothing: half a fixture.
    twice = json.dumps(raw_fixture()).replace('"lang": "en"', '"lang": "en", "lang": "ru"')
    (said,) = problems(twice.encode())
    assert "key 'lang' stands 2 times in the object with id 'a'" in said


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(FixtureError, match=r"absent\.json: 1 problem\n  cannot be read: no such file"):
        fixtures.load(tmp_path / "absent.json")


def test_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(FixtureError, match="cannot be read"):
        fixtures.load(tmp_path)


# JSON that is not a fixture


@pytest.mark.parametrize("content", [[], "text", 5, None, True])
def test_json_that_is_no_object_is_refused(problems: Problems, content: Any):
    (said,) = problems(content)
    assert said.startswith("the file: wanted an object in braces")


def test_no_cases_is_refused(problems: Problems):
    (said,) = problems(raw_fixture() | {"cases": []})
    assert said.startswith("cases: ")
    assert said == "cases: wanted at least one, found a list; write at least one case"


@pytest.mark.parametrize("key", ["format", "name", "version", "isolation", "cases"])
def test_a_missing_key_is_told(problems: Problems, key: str):
    raw = raw_fixture()
    del raw[key]
    assert problems(raw) == [f"{key}: is missing; write {fixtures.WANTED[key]}"]


@pytest.mark.parametrize("key", ["id", "query", "lang", "expected"])
def test_a_key_missing_from_a_case_is_told(problems: Problems, key: str):
    case = raw_case("a")
    del case[key]
    named = "" if key == "id" else "case 'a', "
    assert problems(raw_fixture(case)) == [f"{named}cases.0.{key}: is missing; write {fixtures.WANTED[key]}"]


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (raw_fixture(colour="red"), "colour"),
        (raw_fixture(raw_case("a", colour="red")), "case 'a', cases.0.colour"),
        (
            raw_fixture(raw_case("a", memories=[bring("a-m", colour="red")])),
            "case 'a', memory 'a-m', cases.0.memories.0.colour",
        ),
        (raw_fixture(filler=[bring("f", colour="red")]), "memory 'f', filler.0.colour"),
    ],
)
def test_an_unknown_key_is_refused(problems: Problems, raw: dict[str, Any], where: str):
    (said,) = problems(raw)
    assert said.startswith(f"{where}: ")
    assert said.endswith("there is no such key; remove it")


def test_a_misspelt_key_is_named(problems: Problems):
    (said,) = problems(raw_fixture(raw_case("a", querry="x")))
    assert said == "case 'a', cases.0.querry: there is no such key; did you mean query?"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"query": "q\0"}, "case 'a', cases.0.query: holds a NUL character at offset 1; remove it"),
        ({"query": ""}, "case 'a', cases.0.query: "),
        ({"query": 5}, "case 'a', cases.0.query: wanted a text in quotes, found 5; write the question"),
        ({"lang": "English"}, "case 'a', cases.0.lang: "),
        ({"expected": "a-m"}, "case 'a', cases.0.expected: "),
        ({"tags": ["ok", 5]}, "case 'a', cases.0.tags.1: wanted a text in quotes, found 5"),
        ({"hard": "perhaps"}, "case 'a', cases.0.hard: "),
        ({"id": "a b"}, "case 'a b', cases.0.id: "),
    ],
)
def test_a_bad_value_in_a_case_is_told_alone(problems: Problems, more: dict[str, Any], said: str):
    (found,) = problems(raw_fixture(raw_case("a", **more)))
    assert found.startswith(said)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"text": "a\0b"}, "text: holds a NUL character at offset 1; remove it"),
        ({"ts": "2026-07-31T09:00:00"}, "ts: has no time zone; write it as 2026-07-31T09:00:00+00:00"),
        ({"ts": "Friday"}, "ts: is not a time; write it as 2026-07-31T09:00:00+00:00"),
        ({"kind": "memo"}, "kind: wanted 'note', 'fact', 'page' or 'observation', found 'memo'"),
    ],
)
def test_a_bad_value_in_a_memory_is_told_alone(problems: Problems, more: dict[str, Any], said: str):
    (found,) = problems(raw_fixture(raw_case("a", memories=[bring("a-m", **more)])))
    assert found.startswith(f"case 'a', memory 'a-m', cases.0.memories.0.{said}")


@pytest.mark.parametrize("half", ["\\ud800", "\\udfff", "\\ude00\\ud83d"])
def test_half_a_surrogate_pair_is_refused(problems: Problems, half: str):
    raw = json.dumps(raw_fixture(raw_case("a", query="what HALF"))).replace("HALF", half)
    (said,) = problems(raw.encode())
    assert said.startswith(
        "case 'a', cases.0.query: holds half of a surrogate pair at offset 5; write the whole character"
    )
    said.encode()


def test_half_a_surrogate_pair_is_refused_in_an_id_and_a_key(problems: Problems):
    found = problems(raw_fixture(raw_case("a", id="\ud800"), raw_case("b", **{"\udfff": 5})))
    assert len(found) == 2
    assert "half of a surrogate pair" in found[0]
    assert all(line.encode() for line in found)


def test_a_whole_surrogate_pair_is_a_character(load: Load):
    raw = json.dumps(raw_fixture(raw_case("a", query="what PAIR"))).replace("PAIR", "\\ud83d\\ude00")
    assert load(raw.encode()).cases[0].query == "what 😀"


def test_a_long_bad_value_is_cut_short(problems: Problems):
    (said,) = problems(raw_fixture(raw_case("a", lang="x" * 1_000_000)))
    assert len(said) < 300


# Contradictions


def test_case_ids_must_differ(problems: Problems):
    found = problems(raw_fixture(raw_case("a"), raw_case("a", expected=["n"], memories=[bring("n")])))
    assert found == ["case id 'a' is used 2 times; rename one"]


@pytest.mark.parametrize(
    "raw",
    [
        raw_fixture(raw_case("a", memories=[bring("a-m"), bring("a-m")])),
        raw_fixture(raw_case("a"), raw_case("b", expected=["a-m"], memories=[bring("a-m")])),
        raw_fixture(raw_case("a"), filler=[bring("f"), bring("f")]),
        raw_fixture(raw_case("a"), groups=[{"id": "g", "memories": [bring("f"), bring("f")]}]),
    ],
)
def test_memory_ids_must_differ(problems: Problems, raw: dict[str, Any]):
    (said,) = problems(raw)
    assert said in {f"memory id {id_!r} is used 2 times; rename one" for id_ in ("a-m", "f")}


def test_group_ids_must_differ(problems: Problems):
    group = {"id": "g", "memories": []}
    assert problems(raw_fixture(groups=[group, group])) == ["group id 'g' is used 2 times; rename one"]


def test_an_expected_memory_must_exist(problems: Problems):
    assert problems(raw_fixture(raw_case("a", expected=["a-m", "gone"]))) == [
        "case 'a': expected memory 'gone' does not exist; correct the id or add the memory"
    ]


def test_an_expected_memory_must_be_in_the_store(problems: Problems):
    assert problems(raw_fixture(raw_case("a"), raw_case("b", expected=["a-m"]))) == [
        "case 'b': expected memory 'a-m' is not in this case's store; move it there"
    ]


def test_a_shared_store_holds_what_other_cases_bring(load: Load):
    load(raw_fixture(raw_case("a"), raw_case("b", expected=["a-m"]), isolation="shared"))


def test_filler_is_never_expected(problems: Problems):
    assert problems(raw_fixture(raw_case("a", expected=["filler-1"]), filler=[FILLER])) == [
        "case 'a': expected memory 'filler-1' is filler; filler answers nothing, so make it the case's own"
    ]


@pytest.mark.parametrize("why", [None, "", "  "])
def test_silence_needs_a_reason(problems: Problems, why: str | None):
    assert problems(raw_fixture(raw_case("a", expected=[], silent_because=why))) == [
        "case 'a': expects nothing and does not say why; add silent_because, in a few words"
    ]


def test_an_answer_has_no_reason_for_silence(problems: Problems):
    assert problems(raw_fixture(raw_case("a", silent_because="but it is there"))) == [
        "case 'a': expects a memory and has silent_because; remove one of the two"
    ]


GROUPED = {"isolation": "per_group", "groups": [{"id": "g", "memories": [bring("g-m")]}]}


def test_per_group_needs_a_group(problems: Problems):
    assert problems(raw_fixture(raw_case("a"), **GROUPED)) == [
        "case 'a': isolation is per_group and it names no group; add one"
    ]


def test_per_case_needs_no_group(problems: Problems):
    raw = raw_fixture(raw_case("a", group="g"), **GROUPED | {"isolation": "per_case"})
    assert problems(raw) == [
        "case 'a': isolation is per_case and it names a group; remove it or change the isolation"
    ]


def test_a_group_must_exist(problems: Problems):
    assert problems(raw_fixture(raw_case("a", group="h"), **GROUPED)) == [
        "case 'a': group 'h' does not exist; known groups: g"
    ]


# All at once


def test_everything_wrong_in_the_form_is_told_at_once(problems: Problems):
    found = problems(
        raw_fixture(
            raw_case("typed", lang=5),
            raw_case("odd", colour="red", memories=[bring("odd-m", ts="Friday")]),
            version="one",
        )
    )
    assert [line.split(";")[0] for line in found] == [
        "version: wanted another form, found 'one'",
        "case 'typed', cases.0.lang: wanted a text in quotes, found 5",
        "case 'odd', memory 'odd-m', cases.1.memories.0.ts: is not a time",
        "case 'odd', cases.1.colour: there is no such key",
    ]


def test_everything_contradictory_is_told_at_once(problems: Problems):
    found = problems(
        raw_fixture(
            raw_case("twice"),
            raw_case("twice", expected=["n"], memories=[bring("n")]),
            raw_case("gone", expected=["nowhere"]),
            raw_case("mute", expected=[]),
            raw_case("wordless", query="?!"),
            filler=[bring("f"), bring("f")],
        )
    )
    assert [line.split(";")[0] for line in found] == [
        "memory id 'f' is used 2 times",
        "case id 'twice' is used 2 times",
        "case 'gone': expected memory 'nowhere' does not exist",
        "case 'mute': expects nothing and does not say why",
        "case 'wordless': the query '?!' holds no word",
    ]


def test_of_a_thousand_broken_cases_twenty_are_told_and_the_rest_counted(load: Load):
    with pytest.raises(FixtureError) as caught:
        load(raw_fixture(*(raw_case(f"c{n}", lang=5) for n in range(1000))))
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (1 + 20 + 1, "  and 980 more")
    assert len(caught.value.problems) == 1000


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"query": "  \t "}, "holds nothing that can be seen; write the question"),
        ({"query": "\u200b\u2060"}, "holds nothing that can be seen; write the question"),
        ({"id": "\u200b"}, "holds the invisible character U+200B at offset 0; remove it"),
        ({"id": "a\u2028b"}, ""),
        ({"id": "a\x01b"}, "holds the invisible character U+0001 at offset 1; remove it"),
        ({"id": "x" * 1_000_000}, "is 1000000 characters long; give an id of 500 or fewer"),
        ({"memories": [bring("a-m", text=" \u200b ")]}, "has neither a title nor a text that can be seen"),
    ],
)
def test_what_nobody_can_see_is_refused(problems: Problems, more: dict[str, Any], said: str):
    (found,) = problems(raw_fixture(raw_case("a", **more)))
    assert said in found
    assert len(found) < 400


def test_an_expected_memory_that_stands_twice_is_remarked(load: Load):
    fixture = load(raw_fixture(raw_case("a", expected=["a-m", "a-m"])))
    assert fixtures.remarks(fixture) == ["case 'a': expected 'a-m' stands 2 times; it counts once"]


# One corpus for all cases

CORPUS = [bring("one"), bring("two")]
ASKED = (raw_case("a", memories=[], expected=["one"]), raw_case("b", memories=[], expected=["one", "two"]))


def test_a_corpus_answers_any_number_of_cases(load: Load):
    fixture = load(raw_fixture(*ASKED, isolation="shared", memories=CORPUS))
    for case in fixture.cases:
        assert [memory.id for memory in fixtures.memories_for(fixture, case)] == ["one", "two"]


def test_a_corpus_needs_a_shared_store(problems: Problems):
    assert problems(raw_fixture(memories=CORPUS)) == [
        "memories: one corpus for all cases needs isolation shared, found per_case"
    ]


def test_a_broken_memory_of_a_corpus_is_told(problems: Problems):
    (said,) = problems(raw_fixture(*ASKED, isolation="shared", memories=[*CORPUS, bring("bad", kind="memo")]))
    assert said.startswith("memory 'bad', memories.2.kind: wanted 'note', 'fact', 'page' or 'observation'")


def test_a_corpus_can_lie_in_a_vault_beside_the_file(tmp_path: Path):
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "rent.md").write_text("# Rent\n\nDue on the 5th.")
    (tmp_path / "seen.jsonl").write_text('{"id": "seen-1", "text": "paid the rent"}\n')
    case = raw_case("a", memories=[], expected=["rent.md", "seen-1"])
    source = {"vault": "wiki", "observations": "seen.jsonl"}
    path = tmp_path / "fixture.json"
    path.write_text(json.dumps(raw_fixture(case, isolation="shared", memories=source)))
    found = fixtures.load(path)
    assert [(memory.id, memory.kind) for memory in found.corpus] == [
        ("rent.md", "page"),
        ("seen-1", "observation"),
    ]
    before = fixtures.fixture_hash(found)
    (tmp_path / "wiki" / "rent.md").write_text("# Rent\n\nDue on the 6th.")
    assert fixtures.fixture_hash(fixtures.load(path)) != before


def test_a_source_that_is_not_there_is_told(problems: Problems):
    (said,) = problems(raw_fixture(*ASKED, isolation="shared", memories={"vault": "nowhere"}))
    assert said.startswith("memories: ")
    assert "nowhere" in said


def test_a_misspelt_source_is_told(problems: Problems):
    found = problems(raw_fixture(*ASKED, isolation="shared", memories={"vualt": "wiki"}))
    assert found == [
        f"memories.vault: is missing; write {fixtures.WANTED['vault']}",
        "memories.vualt: there is no such key; did you mean vault?",
    ]


def test_a_case_keeps_its_hash_while_its_own_world_does():
    def hashes(*cases: dict[str, Any]) -> dict[str, str]:
        fixture = built(*cases)
        return {case.id: fixtures.case_hash(fixture, case) for case in fixture.cases}

    before = hashes(raw_case("a"), raw_case("b"), raw_case("c"))
    after = hashes(
        raw_case("a", tags=["x"]), raw_case("b", query="other"), raw_case("c", memories=[bring("c-m")])
    )
    assert [id_ for id_ in before if before[id_] == after[id_]] == ["a"]


@pytest.mark.parametrize(
    ("part", "value"),
    [("cases", {}), ("groups", 5), ("cases", [5]), ("filler", 5), ("cases", [raw_case("a", memories=5)])],
)
def test_a_part_of_the_wrong_kind_is_told_alone(problems: Problems, part: str, value: Any):
    (said,) = problems(raw_fixture() | {part: value})
    assert part in said


def test_anything_put_anywhere_is_told_and_never_crashes(tmp_path: Path):
    # Swap each value of a sound fixture in turn for each of these: it loads, or FixtureError says why.
    sound = raw_fixture(
        raw_case("a", group="g", tags=["t"]),
        raw_case("b", **SILENT, group="g"),
        filler=[FILLER],
        **GROUPED,
    )
    path = tmp_path / "tiny.json"
    refused: list[FixtureError] = []
    for place in places(sound):
        for wrong in (None, 5, -1.5, "", "x y", "\0", "\ud800", [], {}, [5], [None], {"id": 5}, True):
            raw = json.loads(json.dumps(sound))
            node = raw
            for step in place[:-1]:
                node = node[step]
            node[place[-1]] = wrong
            path.write_text(json.dumps(raw))
            try:
                assert isinstance(fixtures.load(path), Fixture)
            except FixtureError as error:
                refused.append(error)
    assert len(refused) > 200
    assert all(error.problems and str(error).encode() for error in refused)


def places(node: Any, here: tuple[int | str, ...] = ()) -> list[tuple[int | str, ...]]:
    steps = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    below = [place for step, child in steps for place in places(child, (*here, step))]
    return [here, *below] if here else below


# What must be accepted


@pytest.mark.parametrize(
    "text",
    [
        "слово " * 100_000,
        "🙂🎄👩‍👩‍👧",
        "שלום עולם، مرحبا",
        "\u202eabc\u202c",
    ],
    ids=["1 MB", "emoji", "right to left", "override"],
)
def test_an_unusual_note_is_accepted(load: Load, text: str):
    fixture = load(raw_fixture(raw_case("a", memories=[{"id": "a-m", "text": text}])))
    assert fixture.cases[0].memories[0].text == text


def test_no_filler_is_accepted(load: Load):
    fixture = load(raw_fixture())
    assert fixture.filler == ()
    assert [memory.id for memory in fixtures.memories_for(fixture, fixture.cases[0])] == ["a-m"]


# The published schema


def schema() -> dict[str, Any]:
    return json.loads((ROOT / "data" / "fixture.schema.json").read_text(encoding="utf-8"))


def test_the_published_schema_is_the_one_in_the_code():
    published = (ROOT / "data" / "fixture.schema.json").read_text(encoding="utf-8")
    assert published == fixtures.json_schema(), "run `recall fixture schema > data/fixture.schema.json`"


def test_the_shipped_fixture_meets_the_schema():
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.Draft202012Validator(schema()).validate(json.loads(NOTES.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "raw",
    [
        raw_fixture(colour="red"),
        raw_fixture() | {"cases": []},
        raw_fixture(version="one"),
        raw_fixture(raw_case("a", lang="English")),
        raw_fixture(raw_case("a", query="")),
        raw_fixture(raw_case("a", memories=[bring("a-m", kind="memo")])),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(problems: Problems, raw: dict[str, Any]):
    assert problems(raw)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema()).validate(raw)


# The hash


def shuffled(node: Any, rng: random.Random) -> Any:
    if isinstance(node, dict):
        items = [(key, shuffled(value, rng)) for key, value in node.items()]
        rng.shuffle(items)
        return dict(items)
    return [shuffled(item, rng) for item in node] if isinstance(node, list) else node


def test_white_space_and_key_order_do_not_change_the_hash(load: Load, notes: Fixture):
    raw = json.loads(NOTES.read_text(encoding="utf-8"))
    other = json.dumps(shuffled(raw, random.Random(1)), indent=7, ensure_ascii=True).encode()
    assert other != NOTES.read_bytes()
    assert fixtures.fixture_hash(load(other)) == fixtures.fixture_hash(notes)


def test_where_the_schema_lies_does_not_change_the_hash():
    pointed = built(**{"$schema": "../fixture.schema.json"})
    assert fixtures.fixture_hash(pointed) == fixtures.fixture_hash(built())


@pytest.mark.parametrize(
    "other",
    [
        built(raw_case("a", query="query A")),
        built(raw_case("a", query="query a ")),
        built(raw_case("a", memories=[bring("a-m", text="text of a.")])),
        built(raw_case("a", hard=True)),
        built(filler=[FILLER]),
        built(version="1.0.1"),
        built(isolation="shared"),
    ],
)
def test_a_change_of_content_changes_the_hash(other: Fixture):
    assert fixtures.fixture_hash(other) != fixtures.fixture_hash(built())


# What a case is asked against


@pytest.mark.parametrize(
    ("isolation", "held"),
    [
        ("per_case", ["a-m", "f"]),
        ("per_group", ["a-m", "f", "g-m"]),
        ("shared", ["a-m", "b-m", "f", "g-m", "h-m"]),
    ],
)
def test_isolation_decides_what_the_store_holds(isolation: str, held: list[str]):
    group = "g" if isolation == "per_group" else None
    groups = [{"id": id_, "memories": [bring(f"{id_}-m")]} for id_ in ("h", "g")]
    fixture = built(
        raw_case("a", group=group),
        raw_case("b", group=group),
        isolation=isolation,
        groups=groups,
        filler=[bring("f")],
    )
    assert [memory.id for memory in fixtures.memories_for(fixture, fixture.cases[0])] == held


def test_what_is_odd_in_a_vault_is_remarked(tmp_path: Path) -> None:
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "tea.md").write_bytes("Tea, see [[nowhere]]. \xe9".encode("latin-1"))
    case = {"id": "q", "query": "tea?", "lang": "en", "expected": ["tea.md"]}
    path = tmp_path / "fixture.json"
    raw = {"format": 1, "name": "f", "version": "1.0.0", "isolation": "shared"}
    path.write_text(json.dumps(raw | {"memories": {"vault": "wiki"}, "cases": [case]}))
    assert fixtures.remarks(fixtures.load(path)) == [
        "page 'tea.md': byte 23 is not UTF-8; read with replacement characters",
        "1 links lead nowhere: tea.md to nowhere",
    ]

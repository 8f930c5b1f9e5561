"""The vault reader: every way to link and to write front matter, and none that stops it."""

import re
import tracemalloc
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import examples
from hypothesis import given
from hypothesis import strategies as st

from recall_core import sources, vault
from recall_core.records import InputError, Memory
from recall_core.vault import Vault, targets

REAL = Path(__file__).parents[2] / "shared" / "data" / "vaults"
Read = Callable[..., Vault]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write pages, by path below a vault, as text or bytes, and read the vault."""

    def write_and_read(pages: dict[str, str | bytes]) -> Vault:
        for name, content in pages.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return vault.read(tmp_path)

    return write_and_read


def page(found: Vault, id_: str) -> Memory:
    (only,) = [memory for memory in found.pages if memory.id == id_]
    return only


# What counts as a link, as written


@pytest.mark.parametrize(
    ("markdown", "found"),
    [
        ("[[Page]]", ["Page"]),
        ("[[Page|alias]]", ["Page"]),
        ("[[Page|alias|more]]", ["Page"]),
        ("[[Page#Heading]]", ["Page"]),
        ("[[Page#Heading|alias]]", ["Page"]),
        ("[[Page#^id]]", ["Page"]),
        ("[[#Heading]]", []),
        ("[[#^id]]", []),
        ("[[|alias]]", []),
        ("[[ ]]", []),
        ("[[]]", []),
        ("[[Page ]]", ["Page"]),
        ("[[ Page | alias ]]", ["Page"]),
        ("[[folder/Page.md]]", ["folder/Page.md"]),
        ("[[Страница]] и [[日本語]]", ["Страница", "日本語"]),
        ("![[Page]]", ["Page"]),
        ("![[Page#Heading]]", ["Page"]),
        ("![[Page.md]]", ["Page.md"]),
        ("![[image.png]]", []),
        ("![[image.png|300]]", []),
        ("![[Books.base]]", []),
        (r"[[Page\|alias]]", ["Page"]),
        (r"\[[Page]]", []),
        ("[[Page", []),
        ("[[Page]", []),
        ("[[Page\n]]", []),
        ("[Page]", []),
        ("[[a]] and [[b]] and [[a]]", ["a", "b", "a"]),
        ("**[[bold]]** _[[slanted]]_ ~~[[struck]]~~", ["bold", "slanted", "struck"]),
        (
            "# [[heading]]\n\n- [[item]]\n\n  - [[nested]]\n\n> [[quoted]]",
            ["heading", "item", "nested", "quoted"],
        ),
        ("[[a [[b]]", ["b"]),
        ("[[[a]]]", ["a"]),
    ],
)
def test_wikilinks(markdown: str, found: list[str]):
    assert targets(markdown) == found


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (r"| [[Page\|alias]] | x |", ["Page"]),
        (r"| ![[Page\|300]] | [[Other]] |", ["Page", "Other"]),
        # Unescaped, the bar ends the cell, as Obsidian too has it.
        ("| [[Page|alias]] | x |", []),
    ],
)
def test_wikilinks_in_a_table(row: str, found: list[str]):
    assert targets(f"| a | b |\n|---|---|\n{row}\n") == found


@pytest.mark.parametrize(
    ("markdown", "found"),
    [
        ("[text](page.md)", ["page.md"]),
        ("[text](page.md#heading)", ["page.md"]),
        ("[text](page.md?plain=1)", ["page.md"]),
        ("[text](../folder/page.md 'title')", ["../folder/page.md"]),
        ("[text](my%20page.md)", ["my page.md"]),
        ("[text](<my page.md>)", ["my page.md"]),
        ("[text](%D0%BA%D0%BE%D0%BF%D0%B8%D1%8F.md)", ["копия.md"]),
        ("[text](копия.md)", ["копия.md"]),
        ("[text](Page.MD) [text](page.markdown)", ["Page.MD", "page.markdown"]),
        ("[text][ref]\n\n[ref]: page.md", ["page.md"]),
        # Links do not nest, and the inner one wins.
        ("[**[[inner]]**](page.md)", ["inner"]),
        ("[text](#heading)", []),
        ("[text]()", []),
        ("[text](page)", []),
        ("[text](image.png)", []),
        ("![text](page.md)", []),
        ("[text](http://example.com/page.md)", []),
        ("[text](https://example.com/page.md)", []),
        ("[text](//example.com/page.md)", []),
        ("[text](mailto:a@example.com.md)", []),
        ("[text](obsidian://open?vault=x&file=page.md)", []),
        ("<https://example.com/page.md> https://example.com/page.md", []),
        ("[text](http://[::1/page.md) [text](<//[::1/page.md>)", []),
        (r"\[text](page.md)", []),
    ],
)
def test_markdown_links(markdown: str, found: list[str]):
    assert targets(markdown) == found


@pytest.mark.parametrize(
    "code",
    [
        "```\n[[Page]]\n```",
        "```md\n[[Page]] [text](page.md)\n```",
        "~~~\n[[Page]]\n~~~",
        "````\n```\n[[Page]]\n```\n````",
        "```\n[[Page]]",
        "    [[Page]]",
        "text\n\n    [[Page]]\n\n\t[[Page]]",
        "- item\n\n      [[Page]]",
        "> ```\n> [[Page]]\n> ```",
        "`[[Page]]`",
        "``[[Page]] ` ``",
        "text `a [[Page]] b` text",
        "| a |\n|---|\n| `[[Page]]` |",
        "`[text](page.md)`",
        "# `[[Page]]`",
    ],
)
def test_links_in_code_do_not_count(code: str):
    assert targets(code) == []
    assert targets(f"[[before]]\n\n{code}") == ["before"]


def test_links_after_code_count_again():
    assert targets("```\n[[no]]\n```\n[[yes]] `[[no]]` [[too]]\n\n    [[no]]\n\n[[last]]") == [
        "yes",
        "too",
        "last",
    ]


@pytest.mark.parametrize(
    "markdown", ["<!-- [[Page]] -->", "text <!-- [[Page]] --> text", "<!--\n[[Page]]\n\n[text](page.md)\n-->"]
)
def test_links_in_html_comments_do_not_count_as_no_reader_sees_them(markdown: str):
    assert targets(markdown) == []


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("a %%[[x]]%% b", "a  b"),
        ("a\n%%\n[[x]]\n\nmore\n%%\nb", "a\n\nb"),
        ("a %%x%% b %%y%% c", "a  b  c"),
        ("a <!-- [[x]] --> b", "a  b"),
        ("a\n<!--\n[[x]]\n\nmore\n-->\nb", "a\n\nb"),
        ("a %% <!-- %% b --> c", "a  b --> c"),
        ("a <!-- %% --> b %% c", "a  b "),
        ("5 % of 10 %, 5% [[b]]", "5 % of 10 %, 5% [[b]]"),
        # What nothing closes runs to the end, but for a `<!--` inside a line.
        ("a %% b\n\n[[x]]", "a "),
        ("a\n<!-- b\n\n[[x]]", "a\n"),
        ("a <!-- b\n\n[[b]]", "a <!-- b\n\n[[b]]"),
        # Code and math show their signs.
        ("`%%` [[b]] `%%`", "`%%` [[b]] `%%`"),
        ("`` ` %% `` [[b]]", "`` ` %% `` [[b]]"),
        ("```\n%%time\n```\n[[b]]", "```\n%%time\n```\n[[b]]"),
        ("~~~ a`b\n<!--\n~~~\n[[b]]", "~~~ a`b\n<!--\n~~~\n[[b]]"),
        ("> ```\n> %%\n> ```\n\n[[b]]", "> ```\n> %%\n> ```\n\n[[b]]"),
        ("```\n%% a", "```\n%% a"),
        ("a\n\n    %%time\n    <!--\n\n[[b]]", "a\n\n    %%time\n    <!--\n\n[[b]]"),
        ("$$ x %% y $$ [[b]]", "$$ x %% y $$ [[b]]"),
        # A tick that its paragraph does not close begins no code.
        ("a ` b\n\n%%[[x]]%% ` c", "a ` b\n\n ` c"),
        ("%%\n```\n%%\n[[b]]\n```", "\n[[b]]\n```"),
    ],
)
def test_a_comment_holds_no_links_and_no_text(read: Read, markdown: str, shown: str):
    found = read({"p.md": f"# P\n\n{markdown}", "b.md": "", "x.md": ""})
    assert page(found, "p.md").text == f"# P\n\n{shown}"
    assert page(found, "p.md").links == (("b.md",) if "[[b]]" in shown else ())


@given(st.text(alphabet="[]|#!`\\()<>-*_ \n\tab./%:", max_size=60))
@examples
def test_any_markdown_is_read(markdown: str):
    for target in targets(markdown):
        assert target
        assert target == target.strip() or ".md" in target.lower()


# Which page is meant


@pytest.mark.parametrize(
    "target",
    [
        "My Page",
        "my page",
        "MY PAGE.md",
        "my page.MD",
        "My Page ",
        "concepts/My Page",
        "concepts/My Page.md",
        "/concepts/My Page",
        "Concepts/my page",
        "wiki/concepts/My Page",
        "The Title",
        "the title",
        "An Alias",
        "another ALIAS",
    ],
)
def test_a_page_is_meant_by_path_name_title_or_alias(read: Read, target: str):
    found = read(
        {
            "wiki/concepts/My Page.md": "---\ntitle: The Title\naliases: [An Alias, Another alias]\n---\n",
            "wiki/other/source.md": f"[[{target}]]",
            "wiki/other/page.md": "",
        }
    )
    assert page(found, "wiki/other/source.md").links == ("wiki/concepts/My Page.md",)
    assert found.dangling == ()


@pytest.mark.parametrize(
    ("source", "link", "target"),
    [
        ("a/source.md", "[x](page.md)", "a/page.md"),
        ("a/source.md", "[x](./page.md)", "a/page.md"),
        ("a/source.md", "[x](../b/page.md)", "b/page.md"),
        ("a/source.md", "[x](../page.md)", "page.md"),
        ("a/source.md", "[[../b/page]]", "b/page.md"),
        ("a/source.md", "[[b/page]]", "b/page.md"),
        ("a/source.md", "[[page]]", "a/page.md"),
        ("b/source.md", "[[page]]", "b/page.md"),
        ("source.md", "[[page]]", "page.md"),
        ("source.md", "[[a/page]]", "a/page.md"),
        ("c/source.md", "[[b/page#Heading|text]]", "b/page.md"),
    ],
)
def test_a_relative_path_starts_at_the_page(read: Read, source: str, link: str, target: str):
    found = read({"page.md": "", "a/page.md": "", "b/page.md": "", "c/else.md": "", source: link})
    assert page(found, source).links == (target,)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("a/deep/source.md", "a/page.md"),
        ("z/deep/source.md", "z/page.md"),
        ("z/source.md", "z/page.md"),
        ("z/below/deep/source.md", "z/below/deep/page.md"),
        # As near as a/page.md and z/page.md: the shortest path, then the first in the alphabet.
        ("source.md", "a/page.md"),
    ],
)
def test_of_two_pages_of_one_name_the_nearest_is_meant(read: Read, source: str, target: str):
    pages = dict.fromkeys(["a/page.md", "z/page.md", "z/below/deep/page.md"], "")
    assert page(read({**pages, source: "[[page]]"}), source).links == (target,)


def test_a_file_name_beats_a_title_and_a_path_beats_a_name(read: Read):
    found = read(
        {
            "one.md": "---\ntitle: two\n---\n",
            "two.md": "",
            "source.md": "[[two]]",
            "deep/two.md": "",
            "deep/source.md": "[[/two]]",
        }
    )
    assert page(found, "source.md").links == ("two.md",)
    assert page(found, "deep/source.md").links == ("two.md",)


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("name", ["Ёлка й", "Öl café", "日本 が"])
def test_a_name_is_met_however_its_letters_are_composed(read: Read, name: str, stored: str, written: str):
    file = unicodedata.normalize(stored, name) + ".md"  # type: ignore[arg-type]
    target = unicodedata.normalize(written, name)  # type: ignore[arg-type]
    found = read({file: "", "b.md": f"[[{target}]] [x](<{target}.md>)"})
    assert page(found, "b.md").links == (file,)
    assert found.dangling == ()


def test_a_link_is_listed_once_in_the_order_of_the_text_and_never_to_the_page_itself(read: Read):
    found = read({"a.md": "[[c]] [[a]] [[b]] [[C]] [x](b.md) [[A|me]] [x](a.md)", "b.md": "", "c.md": ""})
    assert page(found, "a.md").links == ("c.md", "b.md")
    assert found.dangling == ()


def test_links_that_lead_nowhere_are_listed_as_written(read: Read):
    found = read({"a.md": "[[No Page|x]] [x](../gone.md) [[no page]] [[No Page]] [[b]]", "b.md": "[[x/a]]"})
    assert found.dangling == (
        ("a.md", "No Page"),
        ("a.md", "../gone.md"),
        ("a.md", "no page"),
        ("b.md", "x/a"),
    )
    assert page(found, "a.md").links == ("b.md",)


def test_a_link_to_a_file_that_is_no_page_leads_somewhere(read: Read):
    found = read({"a.md": "[[plan.pdf]] [[files/Plan.PDF]] [[gone.pdf]]", "files/plan.pdf": b"%PDF"})
    assert found.dangling == (("a.md", "gone.pdf"),)
    assert [memory.id for memory in found.pages] == ["a.md"]


# Front matter


def with_meta(read: Read, meta: str, body: str = "body") -> Memory:
    found = read({"p.md": f"---\n{meta}\n---\n{body}", "A.md": "", "B.md": ""})
    assert found.unreadable == ()
    return page(found, "p.md")


@pytest.mark.parametrize(
    ("meta", "title"),
    [
        ("title: Plain", "Plain"),
        ("title: 'a: b'", "a: b"),
        ("title: 2026-04-04", "2026-04-04"),
        ("title: 7", "7"),
        ("title: false", "False"),
        ("title: >\n  two\n  lines", "two lines"),
        ("title: a\tb", "a b"),
        ('title: "nul \\0 here"', "nul \ufffd here"),
        ("title:", "p"),
        ("title: [a]", "p"),
        ("title: {a: b}", "p"),
        ("title: ''", "p"),
        ("other: x", "p"),
    ],
)
def test_a_title_is_one_line_and_falls_back_to_the_file_name(read: Read, meta: str, title: str):
    assert with_meta(read, meta).title == title


@pytest.mark.parametrize(
    ("meta", "aliases"),
    [
        ("aliases: [one, two]", ("one", "two")),
        ("aliases:\n  - one\n  - two", ("one", "two")),
        ("aliases:\n- one", ("one",)),
        ("aliases: one", ("one",)),
        ("alias: one", ("one",)),
        ("aliases: one, two", ("one, two",)),
        ("aliases: [1420, 2.5, true]", ("1420", "2.5", "True")),
        ("aliases: 1420", ("1420",)),
        ("aliases: [2026-04-04]", ("2026-04-04",)),
        ("aliases: []", ()),
        ("aliases:", ()),
        ("aliases: [a, null, '', {b: c}, [d]]", ("a",)),
    ],
)
def test_aliases_are_texts_however_they_are_written(read: Read, meta: str, aliases: tuple[str, ...]):
    assert with_meta(read, meta).aliases == aliases


@pytest.mark.parametrize(
    ("meta", "entities"),
    [("entities: [Соня, 7]", ("Соня", "7")), ("entities: Zebra", ("Zebra",)), ("x: y", ())],
)
def test_entities_are_read_alike(read: Read, meta: str, entities: tuple[str, ...]):
    assert with_meta(read, meta).entities == entities


@pytest.mark.parametrize(
    ("meta", "ts"),
    [
        ("date: 2026-03-05", "2026-03-05T00:00:00+00:00"),
        ("date: '2026-03-05'", "2026-03-05T00:00:00+00:00"),
        ("date: 2026-03-05T10:20:30", "2026-03-05T10:20:30+00:00"),
        ("date: 2026-03-05 10:20:30", "2026-03-05T10:20:30+00:00"),
        ("date: 2026-03-05T10:20:30+02:00", "2026-03-05T10:20:30+02:00"),
        ("date: 2026-03-05T10:20:30Z", "2026-03-05T10:20:30+00:00"),
        ("date: 2026-03-05 10:20", "2026-03-05T10:20:00+00:00"),
        ("date: '2026-03-05T10:20:30+02:00'", "2026-03-05T10:20:30+02:00"),
        ("created: 2026-01-01\nupdated: 2026-02-02\ndate: 2026-03-03", "2026-02-02T00:00:00+00:00"),
        ("created: 2026-01-01\ndate: 2026-03-03", "2026-01-01T00:00:00+00:00"),
        ("date: yesterday", None),
        ("date: 7", None),
        ("date: [2026-03-05]", None),
        ("date:", None),
    ],
)
def test_a_date_is_a_moment_and_without_a_zone_in_utc(read: Read, meta: str, ts: str | None):
    assert with_meta(read, meta).ts == ts


@pytest.mark.parametrize(
    ("meta", "links"),
    [
        ('up: "[[A]]"', ("A.md",)),
        ("up: [[A]]", ("A.md",)),
        ("up: [[A|alias]]", ("A.md",)),
        ("up: '[[A#Heading|alias]]'", ("A.md",)),
        ('related: ["[[A]]", "[[B]]"]', ("A.md", "B.md")),
        ('related:\n  - "[[B]]"\n  - "[[A]]"', ("B.md", "A.md")),
        ("related:\n  - [[A]]\n  - [[B]]", ("A.md", "B.md")),
        ('nested:\n  deep:\n    - "see [[A]] and [[B]]"', ("A.md", "B.md")),
        ('cover: "![[picture.png]]"', ()),
        ("tags: [A, B]", ()),
        ("up: A", ()),
    ],
)
def test_links_in_front_matter_count(read: Read, meta: str, links: tuple[str, ...]):
    assert with_meta(read, meta).links == links


def test_links_of_the_text_come_before_those_of_front_matter(read: Read):
    assert with_meta(read, 'up: "[[A]]"', "[[B]]").links == ("B.md", "A.md")


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("---\ntitle: T\n---\nbody", "T", "body"),
        ("\ufeff---\ntitle: T\n---\nbody", "T", "body"),
        ("---\r\ntitle: T\r\n---\r\nbody\r\nmore\r\n", "T", "body\nmore"),
        ("---\ntitle: T\nmeta:\n\tkey:\tvalue\n---\nbody", "T", "body"),
        ("---\ntitle: T  \n---  \nbody", "T", "body"),
        ("---\ntitle: T\n---", "T", ""),
        ("---\n---\nbody", "p", "body"),
        ("---\n# only a comment\n---\nbody", "p", "body"),
        ("---\ntitle: T\n---\nbody\n\n---\n\nmore", "T", "body\n\n---\n\nmore"),
        ("---\ntitle: T\n---\n\n    code", "T", "    code"),
        ("no front matter", "p", "no front matter"),
        ("text\n\n---\n\ntitle: T\n\n---\n", "p", "text\n\n---\n\ntitle: T\n\n---"),
        ("---\n\na rule, and nothing that closes it", "p", "---\n\na rule, and nothing that closes it"),
        ("    indented code", "p", "    indented code"),
        ('{\n"json": 1\n}\n', "p", '{\n"json": 1\n}'),
        ("", "p", ""),
        ("\ufeff", "p", ""),
        ("nul\0byte", "p", "nul\ufffdbyte"),
    ],
)
def test_a_page_falls_into_front_matter_and_text(read: Read, content: str | bytes, title: str, text: str):
    found = read({"p.md": content})
    assert found.unreadable == ()
    assert (page(found, "p.md").title, page(found, "p.md").text) == (title, text)


LATIN = "byte {} is not UTF-8; read with replacement characters"


@pytest.mark.parametrize(
    ("content", "title", "text", "why"),
    [
        (b"caf\xe9 [[A\xff]]", "p", "caf\ufffd [[A\ufffd]]", LATIN.format(4)),
        (b"---\ntitle: caf\xe9\n---\n", "caf\ufffd", "", LATIN.format(15)),
        ("кот".encode() + b"\xd0", "p", "кот\ufffd", LATIN.format(7)),
        ("кот".encode("utf-16"), "p", "кот", "is UTF-16, not UTF-8; read as such"),
        (b"\xfe\xff\x04\x1a\x04", "p", "К\ufffd", "is UTF-16, not UTF-8; read as such"),
    ],
)
def test_a_page_that_is_not_utf_8_is_read_and_listed(
    read: Read, content: bytes, title: str, text: str, why: str
):
    found = read({"p.md": content})
    assert found.unreadable == (("p.md", why),)
    assert (page(found, "p.md").title, page(found, "p.md").text) == (title, text)


def test_a_page_with_two_faults_is_listed_with_both(read: Read):
    (one, broken), (other, misread) = read({"p.md": b"---\na: [\n---\n\xff"}).unreadable
    assert (one, other) == ("p.md", "p.md")
    assert broken.startswith("its front matter is broken (")
    assert misread == LATIN.format(14)


BROKEN = {
    "a colon": "title: a: b",
    "an open list": "aliases: [a, b",
    "an open quote": 'title: "a',
    "no such day": "date: 2026-13-45",
    "a template": "created: {{date}}",
    "half a surrogate": 'title: "\\ud800"',
    "a control character": "title: \x01",
    "a tag": "title: !unknown x",
    "an unknown anchor": "title: *x",
    "no mapping": "just a line of text",
    "a list": "- a\n- b",
    "a deep list": f"a: {'[' * 3000}",
    "a huge number": f"title: {'9' * 5000}",
}


@pytest.mark.parametrize("meta", BROKEN.values(), ids=BROKEN)
def test_a_page_whose_front_matter_is_broken_is_read_as_text_and_listed(read: Read, meta: str):
    content = f"---\n{meta}\n---\nbody [[b]]"
    found = read({"a.md": content, "b.md": "---\ntitle: B\n---\n[[a]]"})
    ((id_, why),) = found.unreadable
    assert id_ == "a.md"
    assert why
    assert "\n" not in why
    broken = page(found, "a.md")
    assert (broken.text, broken.title, broken.links) == (content, "a", ("b.md",))
    assert (page(found, "b.md").title, page(found, "b.md").links) == ("B", ("a.md",))


@pytest.mark.parametrize(
    "meta",
    [
        "x: !!python/object/apply:pathlib.Path.touch [{made}]",
        "x: !!python/object/apply:os.system ['touch {made}']",
        "x: !!python/object/new:pathlib.Path ['{made}']",
        "x: !!python/name:os.system",
        "!!python/object/apply:os.system ['touch {made}']",
    ],
)
def test_nothing_in_front_matter_is_executed(read: Read, tmp_path: Path, meta: str):
    made = tmp_path / "made"
    found = read({"a.md": f"---\n{meta.format(made=made)}\n---\nbody", "b.md": ""})
    assert [id_ for id_, _ in found.unreadable] == ["a.md"]
    assert not made.exists()


@pytest.mark.parametrize(
    "meta",
    [
        "a: &a [*a]",
        "a: &a {b: *a}",
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "\n".join(
            f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
            for before, name in zip("abcdefghijkl", "bcdefghijklm", strict=True)
        ),
    ],
    ids=["holds itself", "maps to itself", "9 ** 13 texts"],
)
def test_front_matter_that_repeats_itself_endlessly_is_read(read: Read, meta: str):
    assert with_meta(read, f'{meta}\nup: "[[A]]"').links == ("A.md",)


# The folder


def test_every_markdown_file_is_a_page_by_its_path(read: Read):
    found = read({"b.md": "", "a/x y.markdown": "", "a/Ё.MD": "", "a/c.txt": "", "d.md/e.md": "", "md": ""})
    assert [memory.id for memory in found.pages] == ["a/x y.markdown", "a/Ё.MD", "b.md", "d.md/e.md"]
    assert [memory.path for memory in found.pages] == [memory.id for memory in found.pages]
    assert {memory.kind for memory in found.pages} == {"page"}


def test_hidden_folders_and_files_are_left_out(read: Read):
    hidden = [".obsidian/x.md", ".trash/y.md", "a/.git/z.md", ".hidden.md", "a/.b/c/d.md"]
    found = read({**dict.fromkeys(hidden, "[[gone]]"), "a/b.md": "[[x]]"})
    assert [memory.id for memory in found.pages] == ["a/b.md"]
    assert found.dangling == (("a/b.md", "x"),)


def test_a_vault_in_a_hidden_folder_is_read(tmp_path: Path):
    folder = tmp_path / ".notes" / "wiki"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("")
    assert len(vault.read(folder).pages) == 1


def test_reading_twice_is_the_same(read: Read):
    pages = {"b.md": "[[a]] [[x]]", "a.md": "---\na: [\n---\n", "c/a.md": "[[b]]"}
    assert read(pages) == read({})


def test_a_missing_or_an_empty_folder_is_told(tmp_path: Path):
    with pytest.raises(InputError, match="no such folder; give the folder that holds the Markdown pages"):
        vault.read(tmp_path / "gone")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InputError, match=r"holds no page \(\.md or \.markdown\); give a folder"):
        vault.read(tmp_path)


@pytest.mark.parametrize("name", [" a.md", "a\nb.md", b"caf\xe9.md".decode(errors="surrogateescape")])
def test_a_file_name_that_can_be_no_id_is_named(tmp_path: Path, name: str):
    try:
        (tmp_path / name).write_text("")
    except (OSError, UnicodeError):
        pytest.skip("this file system refuses the name")
    with pytest.raises(InputError, match="rename the file") as caught:
        vault.read(tmp_path)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


# Size


@pytest.mark.parametrize(
    "content",
    [
        "word [[b]] text. " * 60_000,
        "a line with [[b]] in it\n\n" * 42_000,
        "[[" * 10_000,
        "[[a " * 10_000,
        "> " * 10_000,
        "`" * 10_000,
        "[x](" * 5_000,
        "a <!-- " * 10_000,
        "$$ `" * 10_000,
        f"[[{'x' * 10_000}]] [[b]]",
        f"[x]({'y' * 10_000}.md)",
    ],
    ids=[
        "1 MB, a line",
        "1 MB, lines",
        "opened",
        "opened with text",
        "quoted",
        "ticked",
        "links",
        "comments",
        "math",
        "long",
        "path",
    ],
)
def test_a_large_or_strange_page_is_read_whole(read: Read, content: str):
    found = read({"a.md": content, "b.md": ""})
    assert page(found, "a.md").text == content.strip("\n")
    assert set(page(found, "a.md").links) == ({"b.md"} if "[[b]]" in content else set())


def test_the_links_of_a_large_page_are_read_a_block_at_a_time():
    text = "a *b* `c` [[d]]\n\n" * 3_000
    targets("warm")
    tracemalloc.start()
    assert targets(text) == ["d"] * 3_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / len(text) < 130  # about 80; about 200 with every token held


def test_a_link_target_of_ten_thousand_characters_is_listed_whole(read: Read):
    assert read({"a.md": f"[[{'x' * 10_000}]]"}).dangling == (("a.md", "x" * 10_000),)


# Observations


def observations(tmp_path: Path, *lines: str) -> list[Memory]:
    path = tmp_path / "observations.jsonl"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    return sources.read_observations(path)


def test_observations_are_read_line_by_line(tmp_path: Path):
    found = observations(
        tmp_path,
        '{"id": "o1", "text": "Омрон", "ts": "2026-01-08T20:14:00+02:00", "lang": "ru", "source": "chat"}',
        "",
        '{"id": "o2", "text": "x", "kind": "note"}',
    )
    assert [(memory.id, memory.kind, memory.text) for memory in found] == [
        ("o1", "observation", "Омрон"),
        ("o2", "observation", "x"),
    ]
    assert found[0].ts == "2026-01-08T20:14:00+02:00"


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "7",
        "[]",
        "null",
        '{"id": "o"}',
        '{"text": "x"}',
        '{"id": "o", "text": "x", "more": 1}',
        '{"id": "o", "text": "x", "ts": "2026-01-08"}',
        '{"id": "o", "text": "nul \\u0000"}',
    ],
)
def test_a_line_that_is_no_observation_is_named(tmp_path: Path, line: str):
    with pytest.raises(InputError, match=r"observations\.jsonl, line 2: is no observation"):
        observations(tmp_path, '{"id": "a", "text": "a"}', line)


def test_observations_that_cannot_be_read_are_told(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read"):
        sources.read_observations(tmp_path / "gone.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "a", "text": "caf\xe9"}')
    with pytest.raises(InputError, match="give a JSONL file in UTF-8"):
        sources.read_observations(tmp_path / "latin.jsonl")


def test_a_line_separator_inside_a_text_and_a_mark_before_the_first_line_are_no_fault(tmp_path: Path):
    path = tmp_path / "observations.jsonl"
    path.write_text('\ufeff{"id": "a", "text": "one\u2028two"}\n', encoding="utf-8")
    assert [memory.text for memory in sources.read_observations(path)] == ["one\u2028two"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": "a", "text": "again"}', "line 2: the id 'a' is taken"),
        ("[" * 100_000, "line 2: is no observation"),
        ("[1]", "line 2: is no observation"),
    ],
    ids=["taken", "nested", "list"],
)
def test_an_observation_that_is_one_too_many_or_none_is_named(tmp_path: Path, line: str, said: str):
    with pytest.raises(InputError, match=said):
        observations(tmp_path, '{"id": "a", "text": "a"}', line)


# Two real vaults


def real(name: str) -> Vault:
    folder = REAL / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")
    return vault.read(folder)


def test_the_kepano_vault_links_in_front_matter():
    found = real("kepano")
    assert len(found.pages) == len(list((REAL / "kepano").rglob("*.md"))) == 103
    # Read off the files by hand.
    assert page(found, "References/Blade Runner.md").links == ("Categories/Movies.md", "References/Sci-fi.md")
    assert page(found, "References/Well Made 145 Kevin Kelly.md").links == (
        "Categories/Podcast episodes.md",
        "References/Well Made.md",
        "References/Kevin Kelly.md",
    )
    nowhere = {target for id_, target in found.dangling if id_ == "References/Blade Runner.md"}
    assert nowhere == {"Ridley Scott", "Harrison Ford"}
    # The text embeds two queries, which are no pages, and does not link.
    assert page(found, "References/Kyoto.md").links == ("Categories/Places.md",)
    assert not [target for _, target in found.dangling if target.endswith(".base")]


def test_the_kepano_vault_has_templates_no_yaml_can_read():
    found = real("kepano")
    hole = re.compile(r"^(.*: +|.*- +)\{\{", re.M)
    texts = {path: path.read_text() for path in (REAL / "kepano" / "Templates").glob("*.md")}
    unquoted = {
        f"Templates/{path.name}" for path, text in texts.items() if hole.search(text.split("\n---")[0])
    }
    assert {id_ for id_, _ in found.unreadable} == unquoted
    assert len(unquoted) == 28


def test_the_foam_vault_shows_links_in_code_that_are_none():
    found = real("foam")
    assert len(found.pages) == len(list((REAL / "foam").rglob("*.md"))) == 86
    assert found.unreadable == ()
    # Read off the files by hand: embeds.md shows many ways to embed, in code, and links twice.
    features = "docs/user/features"
    assert page(found, f"{features}/embeds.md").links == (
        f"{features}/foam-queries.md",
        f"{features}/block-anchors.md",
    )
    assert page(found, f"{features}/wikilinks.md").links == tuple(
        f"{features}/{name}.md"
        for name in ("graph-view", "block-anchors", "link-reference-definitions", "footnotes", "templates")
    )
    assert found.dangling == (
        ("docs/dev/contribution-guide.md", "../../CONTRIBUTING.md"),
        ("docs/dev/design/static-site-publishing-research.md", "../../user/publishing/publishing.md"),
        ("docs/user/index.md", "publishing"),
        ("docs/user/tools/cli/search.md", "cli-grep"),
    )


def test_a_third_of_the_wikilinks_of_the_foam_vault_are_in_code():
    texts = [memory.text for memory in real("foam").pages]
    written = sum(len(re.findall(r"\[\[[^\[\]\n]+\]\]", text)) for text in texts)
    counted = sum(not target.endswith(".md") for text in texts for target in targets(text))
    assert written == 299
    assert 0.28 < 1 - counted / written < 0.40

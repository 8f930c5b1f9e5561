"""A report says what the runs say, and nothing a fixture holds can break it or reach out of it."""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest
from builders import case_of, examples, published_rows, result_of, right, row_of, silent, wrong
from conftest import ROOT
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from recall_core import catalogue, gates, path_study, pipeline, plots, scoring
from recall_core.gates import Gate
from recall_core.records import Fixture, Memory
from recall_core.reporting import behind, report, web
from recall_core.reporting.report import Page
from recall_core.runs import Result
from recall_core.scoring import Row

GATE = Gate(0.5, 0.1)
DAY = date(2026, 7, 31)
PNG = b"\x89PNG\r\n\x1a\n not much of a picture"
TAGS = set(
    "html head meta title style body main h1 h2 h3 p ul ol li a code pre div table thead tbody tr th td img "
    "strong em br hr blockquote span nav header footer section details summary figure figcaption".split()
)
POLICY = "Content-Security-Policy"
HOSTILE = [
    ("a | b || c |", "a | b || c |"),
    ("\\| a \\\\| b \\", "\\| a \\\\| b \\"),
    ("one\ntwo\r\n\n| three |\n|---|\u2028four", "one two | three | |---| four"),
    ("`code` ``and`` ```more", "`code` ``and`` ```more"),
    ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ("</td></table><img src=x onerror=alert(1)>", "</td></table><img src=x onerror=alert(1)>"),
    ("&lt;b&gt; &#60; &amp;", "&lt;b&gt; &#60; &amp;"),
    ("[x](javascript:alert(1)) [y]: z", "[x](javascript:alert(1)) [y]: z"),
    ("![x](http://evil.example/a.png)", "![x](http://evil.example/a.png)"),
    ("<http://evil.example> <a@evil.example>", "<http://evil.example> <a@evil.example>"),
    ("\u202egnp.exe\u202c \u2066\u200b", "gnp.exe"),
    ("\x07bell \x1b[31mred\x9b", "bell [31mred"),
    ("👩‍🚀 🏳️ ключ", "👩‍🚀 🏳️ ключ"),
    ("**bold** _it_ ~~gone~~ # $x$", "**bold** _it_ ~~gone~~ # $x$"),
    ("{{ 7 * 7 }} {% raw %}", "{{ 7 * 7 }} {% raw %}"),
]
"""(what a fixture holds, what is shown)"""


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.style = ""
        self.tables: list[list[list[str]]] = []
        self._styling = self._in_cell = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._styling = tag == "style"
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._styling = False
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._styling:
            self.style += data
            return
        self.text += data
        if self._in_cell:
            self.tables[-1][-1][-1] += data

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.tags if tag in names]

    def table_with(self, heading: str) -> list[list[str]]:
        (table,) = [table for table in self.tables if heading in table[0]]
        return table


def page_of(results: Sequence[Result], fixture: Fixture | None = None, **about: object) -> Page:
    texts = {id_: f"text of {id_}" for id_ in "abc"}
    lists = {result.path: pd.DataFrame({"case_id": []}) for result in results}
    if fixture:
        texts = {memory.id: memory.text for memory in fixture.filler}
        lists = {result.path: pipeline.failures(fixture, result.rows) for result in results}
    told = Page(
        day=DAY,
        facts=[("fixture", "tiny 1.0.0")],
        provenance=[("python", "3.12")],
        broken=[],
        floors=0,
        missing=[],
        texts=texts,
        failures=lists,
        figures={result.path: [] for result in results},
    )
    return replace(told, **about)  # type: ignore[arg-type]


def fixture_of(rows: Sequence[Row], **texts: str) -> Fixture:
    memories = [
        Memory(id=id_, text=texts.get(id_, f"text of {id_}")) for id_ in {**dict.fromkeys("abc"), **texts}
    ]
    cases = [row.case for row in rows]
    return Fixture(format=1, name="t", version="1.0.0", isolation="shared", filler=memories, cases=cases)


def rendered(text: str, folder: Path = Path("nowhere")) -> Seen:
    return Seen(report.html(text, "a title", folder))


def raw_tables(text: str) -> list[list[str]]:
    """The lines of each table, as they stand in the Markdown."""
    lines = re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n")
    tables: list[list[str]] = [[]]
    for line in lines:
        if line.startswith("|"):
            tables[-1].append(line)
        elif tables[-1]:
            tables.append([])
    return [table for table in tables if table]


def assert_columns_hold(text: str) -> None:
    """As many cells in each line as in the first; Markdown would drop or add the others without a word."""
    for table in raw_tables(text):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
        assert len(counts) == 1, table


def assert_reaches_nothing(page: Seen) -> None:
    assert {tag for tag, _ in page.tags} <= TAGS
    for _, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on")]
        assert not {"srcset", "style", "action", "background", "ping"} & attrs.keys()
        assert attrs.get("http-equiv", POLICY) == POLICY
        assert (attrs.get("src") or "data:").startswith("data:")
        assert re.match(r"#|notebooks/[\w.-]+\.html$", attrs.get("href") or "#")
    assert "url(" not in page.style
    assert "@import" not in page.style


def assert_markdown_is_tame(text: str, figures: Sequence[str] = ()) -> None:
    """Under a renderer that would let HTML through: none is there, nor a link, nor another image."""
    blocks = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    tokens = [token for block in blocks for token in [block, *(block.children or [])]]
    assert not {"html_block", "html_inline", "link_open", "s_open"} & {token.type for token in tokens}
    assert [token.attrGet("src") for token in tokens if token.type == "image"] == list(figures)


def tiny_rows() -> list[Row]:
    return [
        right(0.9, 0.3, id_="one", lang="ru"),
        right(0.9, 0.05, id_="two"),
        wrong(0.9, 0.2, id_="three", hard=True),
        wrong(0.9, 0.0, id_="four"),
        silent(0.8, 0.2, id_="five"),
        silent(0.4, 0.2, id_="six", lang="ru"),
    ]


def both_kinds() -> list[Result]:
    return [
        result_of(tiny_rows(), GATE),
        result_of(tiny_rows(), GATE, path="e5_small", kind="onnx"),
        result_of([right(0.9, 0.3, id_="one")] * 6, GATE, path="mini", kind="onnx"),
    ]


def test_hash_and_model_results_never_share_a_table() -> None:
    results = both_kinds()
    page = rendered(report.markdown(page_of(results), results))
    for table in page.tables:
        cells = {cell for row in table for cell in row}
        assert not ("hash" in cells and cells & {"e5_small", "mini"})
    assert page.table_with("e5_small")[0] == ["", "e5_small", "mini"]
    assert page.table_with("hash")[0] == ["", "hash"]


def test_words_alone_have_a_table_between_the_models_and_the_hash() -> None:
    results = [*both_kinds(), result_of(tiny_rows(), GATE, path="words", kind="keyword")]
    page = rendered(report.markdown(page_of(results), results))
    heads = [table[0] for table in page.tables if table[0][0] == "" and len(table[0]) > 1]
    assert heads == [["", "e5_small", "mini"], ["", "words"], ["", "hash"]]
    assert "No model: the same numbers on every machine" in page.text


def pages_tables(held: str) -> dict[str, pd.DataFrame]:
    """Two paths on four cases; the last finds one more. A case is called `held`, and asks it."""

    def ran(name: str, *behind: str) -> Result:
        ahead = {"x": 0.95}
        told = [
            row_of(
                case_of("a", id_=id_, query=held).model_copy(update={"tags": ("direct", "stream:keyword")}),
                a=0.9,
                **(ahead if id_ in behind else {}),
            )
            for id_ in ("one", "two", held)
        ]
        return result_of([*told, silent(0.9, 0.3, id_="quiet")], GATE, path=name, top_k=1)

    words, every, without = (
        ran("keyword", "one", held),
        ran("hybrid", held),
        ran("without graph", "one", held),
    )
    results = [words, every]
    measured = {"path": "hybrid", "streams": ["keyword", "graph"], "k": 1, "fixture": held, "cases": 4}
    memories = [Memory(id=id_, text=f"{id_}.") for id_ in "abcx"]
    fixture = Fixture(
        format=1, name="t", version="1.0.0", isolation="shared", filler=memories, cases=[case_of("a")]
    )
    return {
        "measured": pd.DataFrame([measured | {"silent": 1, "memories": 4}]),
        "paths": path_study.side_by_side(results, fixture),
        "kinds": path_study.kinds(results),
        "parts": path_study.differences(every, [without]),
        "rescues": path_study.rescues(every, [without]),
        "lost": path_study.lost(every),
        "held_to": path_study.held_to(results, {"keyword": ("keyword",), "hybrid": ("keyword", "graph")}),
        "below": path_study.below(words, [every]),
    }


@pytest.mark.parametrize("held", ["three", "a|b", "<b>x</b>", "[x](http://evil.example)"])
def test_the_section_of_the_pages_sets_the_paths_side_by_side(held: str, figures: Path) -> None:
    results = [result_of([right(0.9, 0.3)], GATE)]
    shown = {
        "hash": [],
        "pages": [("figures/pages-kinds.png", "The kinds"), ("figures/pages-parts.png", "The parts")],
    }
    for file, _ in shown["pages"]:
        (figures / file).write_bytes(PNG)
    text = report.markdown(page_of(results, tables={"pages": pages_tables(held)}, figures=shown), results)
    assert_columns_hold(text)
    assert_markdown_is_tame(text, ["figures/pages-kinds.png", "figures/pages-parts.png"])
    page = rendered(text, figures)
    (paths,) = [table for table in page.tables if table[0] == ["", "keyword", "hybrid"]]
    side = {row[0]: row[1:] for row in paths[1:]}
    # Of the three that expect a memory keyword loses two and hybrid one; both speak where they must not.
    assert [cell.split(" [")[0] for cell in side["recall@1"]] == ["33.3% (1/3)", "66.7% (2/3)"]
    assert [cell.split(" [")[0] for cell in side["recall@1, direct"]] == ["33.3% (1/3)", "66.7% (2/3)"]
    assert side["mean reciprocal rank"] == [f"{(1 + 1 / 2 + 1 / 2) / 3:.3f}", f"{(1 + 1 + 1 / 2) / 3:.3f}"]
    assert [cell.split(" [")[0] for cell in side["kept quiet, of those that must"]] == ["0.0% (0/1)"] * 2
    assert page.table_with("rescued")[1:] == [["keyword", "0", "0"], ["graph", "1: one", "0"]]
    (parts,) = [table for table in page.tables if table[0][-1] == "difference in points"]
    assert [row[0] for row in parts[1:]] == ["hybrid", "without graph"]
    assert [row[0] for row in page.table_with("should have found")[1:]] == [held]


def test_model_results_come_before_the_hash_whatever_the_order() -> None:
    results = both_kinds()
    text = report.markdown(page_of(results), results)
    assert text == report.markdown(page_of(results), [results[1], results[2], results[0]])
    assert text.index("e5") < text.index("hash")


def test_the_results_table_counts_what_the_rows_hold() -> None:
    table = {name: cells for name, *cells in report.results_table([result_of(tiny_rows(), GATE)])}

    def counts(start: str) -> str:
        (cell,) = [cells[0] for name, cells in table.items() if name.startswith(start)]
        return cell

    assert counts("recall@1").startswith("50.0% (2/4) [")
    assert counts("recall@3").startswith("100.0% (4/4) [")
    assert "(2/4)" in table["right first"][0]
    assert "(1/4)" in counts("wrong on top")
    assert "(1/4)" in counts("tie on top")
    assert "(1/4)" in counts("answered")
    assert "(1/4)" in counts("right first, then silenced")
    assert "(1/4)" in counts("misled")
    assert "(1/2)" in counts("false recall")
    assert "(2/6)" in counts("cases passed")
    assert "(2/2)" in counts("passed, ru")
    assert "(0/4)" in counts("passed, en")
    assert "(0/1)" in counts("passed, hard")
    assert counts("top-1 score, must stay silent") == "0.400 / 0.600 / 0.800"
    assert counts("latency of embedding") == "2.00 / 2.00 / 2.00 ms"
    assert not [name for name in table if "failed" in name]


def test_failed_searches_have_a_row_of_their_own() -> None:
    rows = [right(0.9, 0.3), scoring.failed_case(case_of("a"), "no disk")]
    table = report.results_table([result_of(rows, GATE)])
    assert [row[1].startswith("50.0% (1/2)") for row in table if "failed" in row[0]] == [True]


def test_results_of_different_languages_share_a_table_without_a_hole() -> None:
    one, other = result_of([right(0.9, lang="ru")], GATE), result_of([right(0.9, lang="de")], GATE)
    table = report.results_table([one, other])
    assert {len(row) for row in table} == {3}
    assert [row[1] for row in table if row[0] == "passed, de"] == ["no cases"]


def test_the_hash_embedder_is_reported_from_its_own_evaluation() -> None:
    rows = [case_of("a", id_="one", query="blue kettle"), case_of("", id_="two", query="zebra")]
    notes = [Memory(id="a", text="the kettle is blue"), Memory(id="b", text="the guitar is green")]
    fixture = Fixture(format=1, name="t", version="1.0.0", isolation="shared", filler=notes, cases=rows)
    result = pipeline.evaluate(fixture, catalogue.open_path("hash", ROOT), gate=Gate(0.3, 0.1), quiet=True)
    text = report.markdown(page_of([result], fixture), [result])
    assert "100.0% (1/1)" in text
    assert "0.0% (0/1)" in text
    assert "All passed" in text
    assert_columns_hold(text)


def test_a_sweep_line_reads_as_published() -> None:
    deltas = [0.005, 0.008, 0.01, 0.02]
    rows = scoring.frame(published_rows())
    table = gates.sweep(rows, [Gate(0.55, delta) for delta in deltas], Gate(0.55, 0.008))
    lines = report.sweep_lines(table, "delta")
    assert len(lines) == 4
    assert re.search(r"^delta 0\.005: +answered 17/25 \(68%\).* false recall 2/5 \(40%\)", lines[0])
    assert re.search(
        r"^delta 0\.008: +answered 17/25 \(68%\).* false recall 1/5 \(20%\).*<- chosen", lines[1]
    )
    assert re.search(r"^delta 0\.010: +answered 15/25 \(60%\).* false recall 1/5 \(20%\)", lines[2])
    assert re.search(r"^delta 0\.020: +answered 11/25 \(44%\).* false recall 0/5 \(0%\)", lines[3])
    assert [line.count("<- chosen") for line in lines] == [0, 1, 0, 0]
    assert ["frontier" in line for line in lines] == [False, True, False, True]


def test_equal_neighbours_share_a_sweep_line_and_the_chosen_stands_alone() -> None:
    rows = scoring.frame([right(0.75, 0.25)])
    table = gates.sweep(rows, [Gate(score) for score in (0.1, 0.2, 0.3, 0.4, 0.5, 0.8)], Gate(0.3))
    starts = [re.split(r": +", line)[0] for line in report.sweep_lines(table, "min_score")]
    assert starts == [
        "min_score 0.100 to 0.200",
        "min_score 0.300",
        "min_score 0.400 to 0.500",
        "min_score 0.800",
    ]


def test_a_sweep_without_silent_cases_says_so() -> None:
    table = gates.sweep(scoring.frame([right(0.75, 0.25)]), [], Gate(0.3))
    assert "no cases" in report.sweep_lines(table, "min_score")[0]


def test_cases_that_did_not_pass_are_listed_with_what_came_instead() -> None:
    rows = tiny_rows()
    results = [result_of(rows, GATE)]
    table = rendered(report.markdown(page_of(results, fixture_of(rows)), results)).table_with("case")
    assert [row[0] for row in table[1:]] == ["two", "three", "four", "five"]
    listed = {row[0]: row for row in table[1:]}
    assert "text of b" in listed["three"]
    assert "text of a" in listed["three"]
    assert "text of b" in listed["five"]
    assert "false recall" in listed["five"]
    assert "0.800" in listed["five"]


def test_a_failed_search_beside_a_wrong_answer_is_listed_with_its_error() -> None:
    rows = [scoring.failed_case(case_of("a", id_="one"), "OSError: no disk"), wrong(0.9, 0.3, id_="two")]
    results = [result_of(rows, GATE)]
    table = rendered(report.markdown(page_of(results, fixture_of(rows)), results)).table_with("case")
    errors = ["OSError: no disk" in " ".join(row) for row in table[1:]]
    assert errors == [True, False]


def test_a_night_without_results_still_says_what_failed() -> None:
    text = report.markdown(page_of([], missing=["mini has no results: no disk"], floors=2), [])
    assert "mini has no results: no disk" in rendered(text).text


def test_floors_are_said_to_hold_or_named() -> None:
    results = [result_of([right(0.9, 0.3)], GATE)]
    assert "All 3 floors hold" in report.markdown(page_of(results, floors=3), results)
    broken = report.markdown(page_of(results, floors=3, broken=["hash, recall@1: too low"]), results)
    assert "1 of 3 floors broken" in broken
    assert "hash, recall@1: too low" in rendered(broken).text
    assert "floors hold" not in broken


def test_a_verdict_takes_its_colour_from_its_words() -> None:
    results = [result_of([right(0.9, 0.3)], GATE)]
    looks = []
    for about in ({"floors": 3}, {"floors": 3, "broken": ["x"]}, {}, {"missing": ["mini"]}):
        page = rendered(report.markdown(page_of(results, **about), results))
        looks.append([attrs["class"] for attrs in page.all("p") if "verdict" in (attrs.get("class") or "")])
    assert looks == [["verdict good"], ["verdict bad"], ["verdict none"], ["verdict bad", "verdict none"]]


def test_broken_floors_and_what_each_path_does_are_two_lists() -> None:
    results = [result_of([right(0.9, 0.3)], GATE)]
    page = rendered(report.markdown(page_of(results, floors=1, broken=["hash: too low"]), results))
    lists = [tag for tag, _ in page.tags if tag in ("ul", "h2")]
    assert lists[lists.index("h2") - 2 : lists.index("h2")] == ["ul", "ul"]


def test_a_long_list_of_cases_is_folded_and_a_short_one_is_open() -> None:
    for many, opened in ((3, True), (30, False)):
        rows = [wrong(0.9, 0.3, id_=f"case-{n}") for n in range(many)]
        results = [result_of(rows, GATE)]
        page = rendered(report.markdown(page_of(results, fixture_of(rows)), results))
        (folded,) = page.all("details")
        assert ("open" in folded) == opened
        assert f"{many} cases" in page.text
        assert len(page.table_with("case")) == many + 1


def test_a_share_is_shown_in_three_parts_that_read_as_before() -> None:
    text = "| | hash |\n|---|---|\n| recall@1 | 50.0% (2/4) [15, 85] |\n"
    page = rendered(text)
    assert page.tables[0][1] == ["recall@1", "50.0% (2/4) [15, 85]"]
    assert len(page.all("span")) == 3


def test_rows_are_named_by_their_first_cell_and_an_empty_head_is_left_out() -> None:
    page = rendered("| | |\n|---|---|\n| fixture | tiny |\n")
    assert page.tables == [[["fixture", "tiny"]]]
    assert [attrs["scope"] for attrs in page.all("th")] == ["row"]
    page = rendered("| | hash |\n|---|---|\n| margin | 0.5 |\n| | 1 |\n")
    assert [attrs["scope"] for attrs in page.all("th")] == ["col", "row"]
    assert [attrs.get("class") for attrs in page.all("td")] == [None, "number", None, "number"]


def test_equal_headings_have_different_anchors_and_each_is_a_link_to_itself() -> None:
    page = rendered("# T\n\n## Ключ: a\n\n## Ключ: a\n\n### b\n")
    ids = [attrs["id"] for attrs in page.all("h2", "h3")]
    assert ids == ["ключ-a", "ключ-a-1", "b"]
    links = [unquote(str(attrs["href"])) for attrs in page.all("a")]
    assert links == [f"#{id_}" for id_ in ids] * 2, "in the contents, then in the headings"


def test_a_notebook_is_linked_where_it_was_rendered(tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "10_a-hash.html").write_text("")
    results = [result_of([right(0.9, 0.3)], GATE)]
    names = ["notebooks/10_a-hash.ipynb", "notebooks/20_b.ipynb"]
    page = rendered(report.markdown(page_of(results, notebooks=names), results), tmp_path)
    links = [attrs["href"] for attrs in page.all("a") if not str(attrs["href"]).startswith("#")]
    assert links == ["notebooks/10_a-hash.html"]
    assert "notebooks/20_b.ipynb" in page.text


@pytest.fixture
def figures(tmp_path: Path) -> Path:
    (tmp_path / "figures").mkdir()
    for name in ("hash.png", "e5_small.png", "two words ключ.png"):
        (tmp_path / "figures" / name).write_bytes(PNG + name.encode())
    return tmp_path


def test_figures_are_inside_the_page_with_a_text_each(figures: Path) -> None:
    results = both_kinds()
    shown = {
        "hash": [("figures/hash.png", "Scores | of <hash> & ](all")],
        "e5_small": [("figures/e5_small.png", "Scores of e5_small")],
        "mini": [],
    }
    text = report.markdown(page_of(results, figures=shown), results)
    page = rendered(text, figures)
    images = page.all("img")
    assert [image["alt"] for image in images] == ["Scores of e5_small", "Scores | of <hash> & ](all"]
    held = [base64.b64decode(str(image["src"]).removeprefix("data:image/png;base64,")) for image in images]
    assert held == [PNG + b"e5_small.png", PNG + b"hash.png"]
    assert_reaches_nothing(page)
    assert_markdown_is_tame(text, ["figures/e5_small.png", "figures/hash.png"])


def test_the_numbers_of_each_figure_of_a_run_are_behind_it(tmp_path: Path) -> None:
    rows = tiny_rows()
    results = [result_of(rows, GATE)]
    (tmp_path / "figures").mkdir()
    names = ["scores", "margins", "frontier", "funnel", "unheard-of"]
    shown = {"hash": [(f"figures/hash-{name}.png", name) for name in names]}
    for file, _ in shown["hash"]:
        (tmp_path / file).write_bytes(PNG)
    text = report.markdown(page_of(results, fixture_of(rows), figures=shown), results)
    assert_columns_hold(text)
    page = rendered(text, tmp_path)
    assert len(page.all("figure")) == 5
    assert page.text.count("The numbers") == 4
    (counted,) = [table for table in page.tables if table[0][0] == "score"]
    assert counted[0] == ["score", *plots.LABELS.values(), "the gate"]
    assert [sum(int(row[at]) for row in counted[1:]) for at in (1, 2, 3)] == [2, 2, 2]
    sides = {row[-1]: float(row[0].split(" to ")[0]) for row in counted[1:]}
    assert sides["stays shut"] < GATE.min_score <= sides["opens"]
    steps = {row[0]: row[1:] for row in page.table_with("step")[1:]}
    assert steps["right first"] == ["2", "4"]
    assert steps["answered"] == ["1", "4"]
    assert steps["spoke: false recall"] == ["1", "2"]
    assert any("chosen" in row[-1] for row in page.table_with("false recalls")[1:])


def test_a_section_shows_the_table_that_is_named_as_its_figure(figures: Path) -> None:
    table = pd.DataFrame({"kind": ["a|b"], "share_of": [0.25]})
    shown = behind.table("pages", "figures/pages-kinds.png", [], {"pages": {"kinds": table}})
    assert shown is not None
    assert shown.to_dict("list") == {"kind": ["a|b"], "share of": ["0.25"]}
    assert behind.table("pages", "figures/pages-parts.png", [], {"pages": {"kinds": table}}) is None
    page = rendered("![x](figures/hash.png)\n\n| a |\n|---|\n| 1 |\n\n| b |\n|---|\n| 2 |\n", figures)
    ((_, details),) = [(at, tag) for at, (tag, _) in enumerate(page.tags) if tag == "details"]
    assert details
    order = [tag for tag, _ in page.tags if tag in ("figure", "details", "table")]
    assert order == ["figure", "details", "table", "table"]


def test_the_strips_are_behind_their_figure_by_path_and_outcome() -> None:
    table = behind.table("embedders", "figures/embedders-scores.png", both_kinds(), {})
    assert table is not None
    assert list(table["path"].unique()) == ["e5_small", "mini"]
    first = table[(table["path"] == "e5_small") & (table["outcome"] == plots.LABELS["silent"])].iloc[0]
    assert (first["least"], first["median"], first["most"]) == ("0.4", "0.6", "0.8")


def test_a_figure_may_have_any_file_name(figures: Path) -> None:
    page = rendered("![a figure](<figures/two words ключ.png>)\n", figures)
    (image,) = page.all("img")
    held = base64.b64decode(str(image["src"]).partition(",")[2])
    assert held == PNG + "two words ключ.png".encode()


def test_headings_have_ids_and_no_two_are_the_same() -> None:
    results = both_kinds()
    page = rendered(report.markdown(page_of(results), results))
    ids = [attrs.get("id") for attrs in page.all("h1", "h2", "h3")]
    assert len(ids) > 6
    assert all(ids)
    assert len(set(ids)) == len(ids)


def test_a_slug_is_what_code_hosts_make() -> None:
    assert web.slug("Cases that did not pass") == "cases-that-did-not-pass"
    assert web.slug("hash: 3 of 30") == "hash-3-of-30"
    assert web.slug("e5-small: Ключ!") == "e5-small-ключ"


def test_the_title_is_escaped() -> None:
    page = Seen(report.html("# x\n", "<script>alert(1)</script>", Path("nowhere")))
    assert "<script>alert(1)</script>" in page.text
    assert_reaches_nothing(page)


def hostile_report(held: str) -> tuple[str, Page]:
    """A report whose fixture and whose errors hold that text wherever they can."""
    rows = [
        wrong(0.9, 0.3, id_="misled", query=held),
        wrong(0.9, 0.3, id_="hub-2", query=held),
        silent(0.9, 0.3, id_="false", query=held),
        right(0.9, 0.01, id_="silenced", query=held),
        scoring.failed_case(case_of("a", id_="failed", query=held), f"OSError: {held}"),
    ]
    results = [result_of(rows, GATE), result_of(rows, GATE, path="mini", kind="onnx")]
    page = page_of(
        results,
        fixture_of(rows, a=held, b=held),
        facts=[("fixture", held)],
        provenance=[("command", held)],
        broken=[f"hash: {held}"],
        floors=1,
        missing=[f"mini: {held}"],
    )
    return report.markdown(page, results), page


@pytest.mark.parametrize(("held", "shown"), HOSTILE)
def test_no_text_breaks_out_of_a_report(held: str, shown: str) -> None:
    text, _ = hostile_report(held)
    assert_columns_hold(text)
    assert_markdown_is_tame(text)
    page = rendered(text)
    assert_reaches_nothing(page)
    listed = [row for table in page.tables if "case" in table[0] for row in table[1:]]
    assert [row[0] for row in listed] == ["misled", "hub-2", "false", "silenced", "failed"] * 2
    for row in listed:
        assert shown in row[1]
        assert row[-1] == ("silence" if row[0] == "false" else shown)
    assert [row[-1] for table in page.tables for row in table if row[0] in ("fixture", "command")] == [
        shown
    ] * 2
    assert page.text.count(shown) > 30
    odd = {char for char in page.text if unicodedata.category(char) in ("Cc", "Cf", "Cs")}
    assert odd <= {"\n", "\u200d"}


@pytest.mark.parametrize(
    "id_",
    [
        "a|b",
        "`x`",
        "m`![x](http://evil.example/a.png)`",
        "<script>alert(1)</script>",
        "[x](javascript:x)",
        "_a_",
    ],
)
def test_no_id_breaks_out_of_a_report(id_: str) -> None:
    rows = [
        *(wrong(0.9, 0.3, id_, id_=f"{id_}{i}") for i in range(3)),
        silent(0.9, 0.3, id_, id_=id_),
        scoring.failed_case(case_of("a", id_=f"{id_}!"), "no disk"),
    ]
    results = [result_of(rows, GATE)]
    text = report.markdown(page_of(results, fixture_of(rows, **{id_: "on top"})), results)
    assert_columns_hold(text)
    assert_markdown_is_tame(text)
    page = rendered(text)
    assert_reaches_nothing(page)
    assert [row[0] for row in page.table_with("case")[1:]] == [f"{id_}{i}" for i in range(3)] + [
        id_,
        f"{id_}!",
    ]
    assert f"{id_} draws" in page.text


def test_a_text_of_a_million_characters_stays_in_its_cell() -> None:
    held = ("word " * 198 + "|<b>`*\n[x]") * 1_000
    assert len(held) == 1_000_000
    rows = [wrong(0.9, 0.3, id_="one", query="short"), silent(0.1, 0.05, id_="two")]
    results = [result_of(rows, GATE)]
    text = report.markdown(page_of(results, fixture_of(rows, b=held)), results)
    assert_columns_hold(text)
    page = rendered(text)
    assert_reaches_nothing(page)
    ((case, asked, *_, instead),) = page.table_with("case")[1:]
    assert (case, asked, instead) == ("one", "short", "text of a")


@examples
@given(st.text())
@example("\\|")
@example("1. - + > # =\n---")
def test_an_escaped_text_is_shown_as_it_is(text: str) -> None:
    shown = " ".join(
        "".join(
            " " if unicodedata.category(char)[0] == "C" and char != "\u200d" else char for char in text
        ).split()
    )
    table = f"| {report.escape(text)} | end |\n|---|---|\n| {report.escape(text)} | end |\n"
    lines = f"Said: {report.escape(text)}\n"
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    assert Seen(parser.render(table)).tables == [[[shown, "end"]] * 2]
    assert Seen(parser.render(lines)).text == f"Said: {shown}".strip() + "\n"


def test_a_result_with_a_single_candidate_everywhere_can_be_reported() -> None:
    rows = [right(0.9, id_="one"), row_of(case_of("", id_="two"), b=0.9)]
    results = [result_of(rows, GATE)]
    text = report.markdown(page_of(results, fixture_of(rows)), results)
    assert_columns_hold(text)
    assert not re.search(r"\b(inf|nan)\b", text)

"""The index says what the history says, and links what is there."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pages
import pytest
from builders import result_of, right, wrong
from test_report import Seen, assert_reaches_nothing

from recall_core import runs
from recall_core.night import site
from recall_core.past import history

LINK = re.compile(r"^\d{4}-\d\d-\d\d/RECALL-EVAL-\d\d-\d\d-\d{4}\.(html|md)$")


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    return tmp_path / "reports"


def seen(reports: Path) -> Seen:
    return Seen(site.page(reports))


def headings(page: Seen) -> list[str]:
    return [str(attrs["id"]) for attrs in page.all("h2")]


def test_an_index_of_nothing_says_so(reports: Path) -> None:
    page = seen(reports)
    assert "No night has run yet" in page.text
    assert "make nightly" in page.text
    assert headings(page) == ["reports"]


def test_the_verdict_is_that_of_the_last_night(reports: Path) -> None:
    result = result_of(pages.rows(), pages.GATE)
    verdicts = []
    for at, about in enumerate(
        [
            {},
            {"broken_floors": ["hash, recall@1: <b>too</b> low"]},
            {"broken_floors": ["one", "two"]},
            {"missing": ["mini has no results: no disk"]},
            {"only": ["hash"]},
        ]
    ):
        pages.write_night(reports, pages.DAY + timedelta(at), [result], **about)
        page = seen(reports)
        (look,) = [attrs["class"] for attrs in page.all("p") if "verdict" in (attrs.get("class") or "")]
        verdicts.append((look, page.text.split("Recall, night by night")[-1].strip().split(".")[0]))
        for said in [*about.get("broken_floors", []), *about.get("missing", [])]:
            assert said in page.text
    assert verdicts == [
        ("verdict good", "No floor broken"),
        ("verdict bad", "1 floor broken"),
        ("verdict bad", "2 floors broken"),
        ("verdict bad", "Incomplete: not everything ran"),
        ("verdict none", "No floor broken, but only hash ran"),
    ]


def test_every_dated_report_is_linked_newest_first_and_each_link_leads_somewhere(reports: Path) -> None:
    pages.write_index(reports)
    (reports / f"{pages.DAY}" / "RECALL-EVAL-30-11-2026.html").write_text("")
    (reports / "not-a-date").mkdir()
    (reports / ".2026-12-01.work").mkdir()
    page = seen(reports)
    links = [str(attrs["href"]) for attrs in page.all("a") if not str(attrs["href"]).startswith("#")]
    assert all(LINK.match(link) and (reports / link).is_file() for link in links)
    assert links[0] == "2026-11-30/RECALL-EVAL-30-11-2026.html"
    assert [link for link in links if link.endswith(".md")] == [
        f"2026-11-{day}/RECALL-EVAL-{day}-11-2026.md" for day in (30, 29, 28, 27)
    ]


def test_each_path_has_three_trends_and_the_numbers_behind_them(reports: Path) -> None:
    pages.write_index(reports)
    page = seen(reports)
    drawings = page.all("svg")
    assert [attrs["aria-label"] for attrs in drawings[:3]] == [
        "recall@1 of e5_small over 4 nights",
        "answered of e5_small over 4 nights",
        "false recall of e5_small over 4 nights",
    ]
    assert len(drawings) == 6
    table, other = [table for table in page.tables if table[0][0] == "night"]
    assert table == other
    assert [row[0] for row in table[1:]] == ["30-11-2026", "29-11-2026", "28-11-2026", "27-11-2026"]
    assert [row[1].split()[1] for row in table[1:]] == ["(9/11)"] * 4
    assert [row[2].split()[1] for row in table[1:]] == ["(9/11)", *["(8/11)"] * 3]
    assert [row[-1] for row in table[1:]] == ["", "the fixture changed", "", ""]


def test_ids_of_the_drawings_are_used_once(reports: Path) -> None:
    pages.write_index(reports)
    ids = re.findall(r'\bid="([^"]+)"', site.page(reports))
    assert len(ids) == len(set(ids)) > 20
    used = re.findall(r'(?:url\(#|xlink:href="#)([^")]+)', site.page(reports))
    assert set(used) <= set(ids)


def test_the_drawings_follow_the_scheme_of_the_page(reports: Path) -> None:
    pages.write_index(reports)
    drawn = "".join(re.findall(r"<svg.*?</svg>", site.page(reports), re.DOTALL))
    assert set(re.findall(r"var\(--(\w+)\)", drawn)) >= {"ink", "quiet", "rule", "right", "silent"}
    assert not re.findall(r"#[0-9a-f]{6}", drawn), "a colour that stays as it is on a dark page"


def test_flips_are_those_since_the_last_comparable_night(reports: Path) -> None:
    pages.write_index(reports)
    page = seen(reports)
    for table in [table for table in page.tables if table[0][0] == "case"]:
        assert table[1:] == [["flip", "напомни адрес", "silenced", "answered"]]
    assert page.text.count("1 since 29-11-2026") == 2


def test_there_are_no_flips_across_a_change_of_the_fixture(reports: Path) -> None:
    pages.write_index(reports, nights=4)
    result = result_of(pages.rows(), pages.GATE)
    pages.write_night(reports, pages.DAY + timedelta(1), [replace(result, fixture="another")])
    page = seen(reports)
    assert "There is no comparable night before" in page.text
    assert not [table for table in page.tables if table[0][0] == "case"]


def test_after_an_edit_of_the_fixture_the_cases_that_stayed_are_among_the_flips(reports: Path) -> None:
    before = result_of([right(0.9, 0.3, id_=name) for name in ("kept", "edited")], pages.GATE)
    after = result_of([wrong(0.9, 0.3, id_=name) for name in ("kept", "edited")], pages.GATE)
    edited = after.rows["case_hash"].where(after.rows["case_id"] == "kept", "0" * 64)
    pages.write_night(reports, pages.DAY, [before])
    after = replace(after, rows=after.rows.assign(case_hash=edited), fixture_hash="b" * 64)
    pages.write_night(reports, pages.DAY + timedelta(1), [after])
    (table,) = [table for table in seen(reports).tables if table[0][0] == "case"]
    assert table[1:] == [["kept", "?", "answered", "misled"]]


def test_each_number_says_what_changed_since_the_night_before(reports: Path) -> None:
    result = result_of(pages.rows(), pages.GATE)
    for at, changed in enumerate(
        [
            {},
            {"fixture_hash": "b" * 64},
            {"fixture_hash": "b" * 64, "delta": 0.5},
            {"fingerprint": "0" * 64},
            {},
        ]
    ):
        pages.write_night(reports, pages.DAY + timedelta(at), [replace(result, **changed)])
    (table,) = [table for table in seen(reports).tables if table[0][0] == "night"]
    # The last is what the first was: the path changed back, and the second-to-last changed the fixture too.
    assert [row[-1] for row in table[1:]] == [
        "the path changed",
        "the path changed",
        "the gate changed",
        "the fixture changed",
        "",
    ]


def nights_gone(reports: Path) -> list[Path]:
    """The rows of every night before the last."""
    return [file for day in (27, 28, 29) for file in (reports / f"2026-11-{day}" / "runs").iterdir()]


def test_a_night_whose_report_is_gone_is_passed_over(reports: Path) -> None:
    pages.write_index(reports, nights=4)
    for file in (reports / "2026-11-29" / "runs").iterdir():
        file.unlink()
    assert seen(reports).text.count("1 since 28-11-2026") == 2
    for file in nights_gone(reports):
        file.unlink()
    assert "There is no comparable night before" in seen(reports).text


@pytest.mark.parametrize("damage", ["", '{"case_id": "flip', "[]", "5", "[" * 100_000])
def test_damaged_rows_of_an_earlier_night_cost_its_flips_alone(reports: Path, damage: str) -> None:
    pages.write_index(reports, nights=4)
    for file in nights_gone(reports):
        file.write_text(damage + "\n" if damage else "\n")
    assert "There is no comparable night before" in seen(reports).text


def test_no_text_of_a_fixture_breaks_out_of_the_index(reports: Path) -> None:
    told = pages.rows()
    result = result_of(told, pages.GATE)
    pages.write_night(reports, pages.DAY, [result])
    pages.write_night(reports, pages.DAY + timedelta(1), [result], missing=[pages.HOSTILE])
    flipped = result.rows["outcome"].where(result.rows["case_id"] != "wrong", "withheld")
    path = reports / f"{pages.DAY + timedelta(1)}" / "runs" / "hash.jsonl"
    runs.write_rows(result.rows.assign(outcome=flipped), path)
    text = site.page(reports)
    page = Seen(text)
    (table,) = [table for table in page.tables if table[0][0] == "case"]
    assert table[1][1] == pages.HOSTILE
    assert "<script" not in text
    assert page.text.count(pages.HOSTILE) == 2


def test_the_index_reaches_nothing_outside(reports: Path) -> None:
    pages.write_index(reports)
    text = re.sub(r"<svg.*?</svg>", "", site.page(reports), flags=re.DOTALL)
    text = re.sub(r'href="\d{4}[^"]*"', 'href="#"', text)
    assert_reaches_nothing(Seen(text))
    drawn = "".join(re.findall(r"<svg.*?</svg>", site.page(reports), re.DOTALL))
    assert not re.findall(r'(?:href|src)="(?!#)', drawn)
    assert not re.findall(r"url\((?!#)", drawn)


def test_an_index_that_was_not_written_after_the_last_night_is_behind(reports: Path) -> None:
    assert not site.behind(reports)
    pages.write_index(reports)
    assert not site.behind(reports)
    later = (reports / site.NAME).stat().st_mtime + 1
    os.utime(reports / history.NAME, (later, later))
    assert site.behind(reports)
    (reports / site.NAME).unlink()
    assert site.behind(reports)


def test_writing_leaves_nothing_but_the_index(reports: Path) -> None:
    assert pages.write_index(reports) == reports / "index.html"
    before = {path.name for path in reports.iterdir()}
    site.write(reports)
    assert {path.name for path in reports.iterdir()} == before
    assert before == {"index.html", history.NAME, *(f"2026-11-{day}" for day in (27, 28, 29, 30))}

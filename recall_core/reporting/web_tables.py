"""Tables of a report as HTML: numbers aligned, each row named by its first cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markdown_it.token import Token

SHARE = re.compile(r"(\d+\.\d%) (\(\d+/\d+\)) (\[\d+, \d+\])")
"""As `stats.share` writes it."""
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?%?( ms)?|[-+]\d+\.\d \[[-+]\d+\.\d, [-+]\d+\.\d\]")
NO_NUMBER = {"", "-", "no cases", "no runner-up", "nothing found"}
"""What stands in a column of numbers where there is none."""
SENTENCE = 24
"""Cells longer than that many characters get room for a line of words."""
LOOKS = {"better": "good", "worse": "bad"}
"""Cells that say how a comparison came out, and their class."""


@dataclass
class _Cell:
    opening: Token
    inline: Token

    @property
    def text(self) -> str:
        return self.inline.content.strip()


@dataclass
class _Rows:
    head: list[_Cell] = field(default_factory=list)
    body: list[list[_Cell]] = field(default_factory=list)


def shape(table: Sequence[Token]) -> tuple[list[str], int]:
    """The names in the head of a table, and how many rows follow."""
    rows = _read(table)
    return [cell.text for cell in rows.head], len(rows.body)


def dressed(table: Sequence[Token]) -> Iterator[Token]:
    """The tokens of a table with the classes and row headings its style needs; an empty head is left out."""
    rows = _read(table)
    for at, name in enumerate(rows.head):
        column = [cells[at] for cells in rows.body]
        if at and any(NUMBER.fullmatch(cell.text) for cell in column):
            numbers = [NUMBER.fullmatch(cell.text) or cell.text in NO_NUMBER for cell in column]
            for cell in [name, *column] if all(numbers) else ():
                cell.opening.attrSet("class", "number")
        elif at and any(SHARE.fullmatch(cell.text) for cell in column):
            name.opening.attrSet("class", "shares")
    for cells in rows.body:
        for cell in cells[1:]:
            _dress(cell)
    return _tags(table, headless=not any(cell.text for cell in rows.head))


def _dress(cell: _Cell) -> None:
    if found := SHARE.fullmatch(cell.text):
        share, count, interval = found.groups()
        spans = f"<span>{share}</span> <span>{count}</span> <span>{interval}</span>"
        cell.opening.attrSet("class", "share")
        cell.inline.children = [Token("html_inline", "", 0, content=spans)]
    elif cell.text in LOOKS:
        cell.opening.attrSet("class", LOOKS[cell.text])
    elif len(cell.text) > SENTENCE and not cell.opening.attrGet("class"):
        cell.opening.attrSet("class", "text")


def _read(table: Sequence[Token]) -> _Rows:
    rows = _Rows()
    for at, token in enumerate(table):
        if token.type == "tr_open" and rows.head:
            rows.body.append([])
        elif token.type == "th_open":
            rows.head.append(_Cell(token, table[at + 1]))
        elif token.type == "td_open":
            rows.body[-1].append(_Cell(token, table[at + 1]))
    return rows


def _tags(table: Sequence[Token], *, headless: bool) -> Iterator[Token]:
    """The first cell of a row names it. A heading without a name is no heading for a screen reader."""
    in_head, first, closes = False, False, ""
    for at, token in enumerate(table):
        if token.type in ("thead_open", "thead_close"):
            in_head = token.nesting == 1
            if headless:
                continue
        if headless and in_head:
            continue
        if token.type == "tr_open":
            first = True
        elif token.nesting == 1 and token.type in ("td_open", "th_open"):
            named = bool(table[at + 1].content.strip())
            token.tag = closes = "th" if named and (in_head or first) else "td"
            if token.tag == "th":
                token.attrSet("scope", "col" if in_head else "row")
            first = False
        elif token.type in ("td_close", "th_close"):
            token.tag = closes
        yield token

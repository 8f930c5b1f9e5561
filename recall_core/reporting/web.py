"""Markdown -> one HTML page that asks nothing of any server.

The Markdown holds all that is said; what only HTML can do is added here, by what a block is and where it
stands:

- a paragraph under the title that starts as one of `VERDICTS` is a verdict, and takes its colour;
- a paragraph that is one image is a figure; a table right after it holds the figure's numbers and folds;
- a table with a column `case` or `probe` lists cases and folds, open while it is short;
- columns of numbers are aligned, and each row is named by its first cell;
- a heading is a link to itself, and is listed in the contents;
- `notebooks/NAME.ipynb` in code is a link to the rendered notebook, where that exists.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote
from xml.etree.ElementTree import XML, Element, SubElement, tostring

import jinja2
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml

VERDICTS = {
    r"\d+ of \d+ floors broken": "bad",
    r"Incomplete": "bad",
    r"All \d+ floors hold": "good",
    r"No floors": "none",
}
"""How a verdict starts, and the class it is shown in. The words say it without the colour."""
SHORT = 10
"""Lists of cases up to this long are open from the start."""
NARROW = 6.6
"""Figures up to this many inches stand side by side; wider ones take a row, and scroll on a small screen."""
DOTS_PER_INCH = 144
"""As `recall.mplstyle` saves figures. A browser counts 96."""
SHARE = re.compile(r"(\d+\.\d%) (\(\d+/\d+\)) (\[\d+, \d+\])")
"""As `stats.share` writes it."""
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?%?( ms)?|[-+]\d+\.\d \[[-+]\d+\.\d, [-+]\d+\.\d\]")
NO_NUMBER = {"", "-", "no cases", "no runner-up", "nothing found"}
"""What stands in a column of numbers where there is none."""
SENTENCE = 24
"""Cells longer than that many characters get room for a line of words."""
LOOKS = {"better": "good", "worse": "bad"}
"""Cells that say how a comparison came out, and their class."""


def page(text: str, title: str, folder: Path) -> str:
    """The Markdown as one HTML file. Figures and notebooks are looked up below `folder`."""
    parser = MarkdownIt("commonmark", {"html": False, "highlight": _chosen_in_bold}).enable("table")
    body = XML(f"<main>{parser.render(text)}</main>")
    contents = list(_link_headings(body))
    _link_notebooks(body, folder)
    main = Element("main")
    figures = figure = None
    under = ""
    for block in body:
        if block.tag == "p" and len(block) == 1 and block[0].tag == "img":
            figures = SubElement(main, "div", {"class": "figures"}) if figures is None else figures
            figure = _figure(figures, block[0], folder)
        elif block.tag == "table" and figure is not None:
            _scrolling(_folded(figure, "The numbers"), block, under)
            figure = None
        else:
            figures = figure = None
            if block.tag == "table":
                _table(main, block, under)
                continue
            main.append(block)
            if re.fullmatch(r"h\d", block.tag):
                under = _said(block)
            elif block.tag == "pre":
                block.set("tabindex", "0")
            elif block.tag == "p" and under == _said(main[0]):
                for start, look in VERDICTS.items():
                    if re.match(start, _said(block)):
                        block.set("class", f"verdict {look}")
    template = environment().get_template("report.html.j2")
    return template.render(title=title, body=tostring(main, "unicode", "html"), contents=contents)


def notebook(body: str, title: str, parameters: Sequence[tuple[str, str]]) -> str:
    """A page around a notebook that nbconvert has rendered. `parameters`: what it was run with."""
    template = environment().get_template("notebook.html.j2")
    return template.render(title=title, body=body, parameters=parameters)


def environment(*, autoescape: bool = True) -> jinja2.Environment:
    """The templates of this package: what they are given is escaped unless marked safe or Markdown."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("recall_core"),
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.strip().replace(" ", "-")


def _said(element: Element) -> str:
    return "".join(element.itertext()).strip()


def _chosen_in_bold(content: str, *_: str) -> str:
    return re.sub(r".*&lt;- chosen.*", r"<strong>\g<0></strong>", escapeHtml(content.rstrip("\n")))


def _link_headings(body: Element) -> Iterator[tuple[int, str, str]]:
    """(level, anchor, text) of each heading below the title; each becomes a link to itself."""
    seen: Counter[str] = Counter()
    for heading in body:
        if not re.fullmatch(r"h\d", heading.tag):
            continue
        said = _said(heading)
        anchor = slug(said)
        seen[anchor] += 1
        if seen[anchor] > 1:
            anchor += f"-{seen[anchor] - 1}"
        heading.set("id", anchor)
        if heading.tag != "h1":
            link = Element("a", href=f"#{quote(anchor)}")
            link.text, link[:], heading.text, heading[:] = heading.text, heading[:], None, [link]
            yield int(heading.tag[1]), anchor, said


def _link_notebooks(body: Element, folder: Path) -> None:
    for code in body.iter("code"):
        shown = Path(code.text or "").with_suffix(".html")
        if re.fullmatch(r"notebooks/[\w.-]+\.ipynb", code.text or "") and (folder / shown).is_file():
            code.tag, code.text = "a", shown.name
            code.set("href", quote(shown.as_posix()))


def _folded(parent: Element, summary: str, **attrs: str) -> Element:
    folded = SubElement(parent, "details", attrs)
    SubElement(folded, "summary").text = summary
    return folded


def _figure(parent: Element, image: Element, folder: Path) -> Element:
    data = (folder / unquote(image.get("src", ""))).read_bytes()
    width, height = (int.from_bytes(data[at : at + 4], "big") / DOTS_PER_INCH for at in (16, 20))
    image.set("src", f"data:image/png;base64,{base64.b64encode(data).decode()}")
    image.attrib |= {"width": f"{96 * width:.0f}", "height": f"{96 * height:.0f}"}
    figure = SubElement(parent, "figure", {"class": "big"} if width > NARROW else {})
    SubElement(figure, "div", {"class": "plate", "tabindex": "0"}).append(image)
    return figure


def _table(parent: Element, table: Element, under: str) -> None:
    """A table, folded if it lists cases."""
    names, *rows = ([_said(cell) for cell in row] for row in table.iter("tr"))
    listed = next((name for name in ("case", "probe") if name in names), None)
    if listed:
        opened = {"open": ""} if len(rows) <= SHORT else {}
        counted = f"{len(rows)} {listed}{'' if len(rows) == 1 else 's'}"
        parent = _folded(parent, counted, **{"class": "cases"}, **opened)
    _scrolling(parent, table, under)


def _scrolling(parent: Element, table: Element, under: str) -> None:
    """A table in a box that scrolls, for the keyboard too, with what its style and a screen reader need."""
    attrs = {"class": "wide", "role": "group", "tabindex": "0", "aria-label": f"Table: {under}"}
    SubElement(parent, "div", attrs).append(table)
    for at, (head, *cells) in enumerate(zip(*table.iter("tr"), strict=True)):
        _name(head, "col")
        said = [_said(cell) for cell in cells]
        for cell, text in zip(cells, said, strict=True):
            if not at:
                _name(cell, "row")
            elif share := SHARE.fullmatch(text):
                cell.set("class", "share")
                cell.text = None
                for part in share.groups():
                    SubElement(cell, "span").text = part
                cell[0].tail = cell[1].tail = " "
            elif text in LOOKS or len(text) > SENTENCE:
                cell.set("class", LOOKS.get(text, "text"))
        if at and any(map(SHARE.fullmatch, said)):
            head.set("class", "shares")
        numbers = [text for text in said if NUMBER.fullmatch(text)]
        if at and numbers and NO_NUMBER.issuperset(set(said) - set(numbers)):
            for cell in (head, *cells):
                cell.set("class", "number")
    if not _said(table[0]):
        table.remove(table[0])


def _name(cell: Element, scope: str) -> None:
    """A heading without a name is no heading for a screen reader."""
    cell.tag = "th" if _said(cell) else "td"
    if cell.tag == "th":
        cell.set("scope", scope)

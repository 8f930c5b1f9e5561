"""Markdown -> one HTML page that asks nothing of any server.

The Markdown holds all that is said; what only HTML can do is added here, by what a block is and where it
stands:

- a paragraph under the title that starts as one of `VERDICTS` is a verdict, and takes its colour;
- a paragraph that is one image is a figure; a table right after it holds the figure's numbers and folds;
- a table with a column `case` or `probe` lists cases and folds, open while it is short;
- a heading is a link to itself, and is listed in the contents;
- `notebooks/NAME.ipynb` in code is a link to the rendered notebook, where that exists.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

import jinja2
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.token import Token

from recall_core.reporting import web_tables

Block = list[Token]
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


def page(text: str, title: str, folder: Path) -> str:
    """The Markdown as one HTML file. Figures and notebooks are looked up below `folder`."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    dresser = _Dresser(folder)
    body = parser.renderer.render(list(dresser.dress(parser.parse(text))), parser.options, {})
    template = environment().get_template("report.html.j2")
    return template.render(title=title, body=body, contents=dresser.contents)


def notebook(body: str, title: str, parameters: Sequence[tuple[str, str]]) -> str:
    """A page around a notebook that nbconvert has rendered. `parameters`: what it was run with."""
    template = environment().get_template("notebook.html.j2")
    return template.render(title=title, body=body, parameters=parameters)


def environment() -> jinja2.Environment:
    """The templates of this package, for HTML: what they are given is escaped unless marked safe."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("recall_core"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.strip().replace(" ", "-")


def inches(data: bytes) -> tuple[float, float]:
    """Width and height of a PNG as it was drawn; zeros where the bytes are no PNG."""
    if data[12:16] != b"IHDR":
        return 0.0, 0.0
    width, height = (int.from_bytes(data[at : at + 4], "big") / DOTS_PER_INCH for at in (16, 20))
    return width, height


@dataclass
class _Dresser:
    """Turns the tokens of a report into those of its page."""

    folder: Path
    contents: list[tuple[int, str, str]] = field(default_factory=list)
    """(level, anchor, text) of each heading below the title."""
    _seen: Counter[str] = field(default_factory=Counter)
    _under: str = ""
    """The heading that was passed last."""

    def dress(self, tokens: Sequence[Token]) -> Iterator[Token]:
        blocks = list(_blocks(tokens))
        while blocks:
            if _image(blocks[0]):
                yield _raw('<div class="figures">')
                while blocks and (image := _image(blocks[0])):
                    del blocks[0]
                    numbers = blocks.pop(0) if blocks and blocks[0][0].type == "table_open" else []
                    yield from self._figure(image, numbers)
                yield _raw("</div>")
            else:
                yield from self._block(blocks.pop(0))

    def _block(self, block: Block) -> Iterator[Token]:
        kind = block[0].type
        if kind == "table_open":
            yield from self._table(block)
        elif kind == "fence":
            yield _raw(_fence(block[0].content))
        else:
            if kind == "heading_open":
                self._heading(*block[:2])
            elif kind == "paragraph_open" and not self.contents:
                _mark_verdict(*block[:2])
            for token in block:
                self._link_notebooks(token)
            yield from block

    def _heading(self, opening: Token, inline: Token) -> None:
        anchor = slug(inline.content)
        self._seen[anchor] += 1
        if self._seen[anchor] > 1:
            anchor += f"-{self._seen[anchor] - 1}"
        opening.attrSet("id", anchor)
        self._under = plain(inline)
        if opening.tag != "h1":
            self.contents.append((int(opening.tag[1]), anchor, self._under))
            link = Token("link_open", "a", 1, attrs={"href": f"#{quote(anchor)}"})
            inline.children = [link, *(inline.children or []), Token("link_close", "a", -1)]

    def _figure(self, image: Token, numbers: Block) -> Iterator[Token]:
        data = (self.folder / unquote(str(image.attrGet("src")))).read_bytes()
        width, height = inches(data)
        attrs: dict[str, str | int | float] = {
            "src": f"data:image/png;base64,{base64.b64encode(data).decode()}",
            "alt": plain(image),
        }
        if width:
            attrs |= {"width": round(96 * width), "height": round(96 * height)}
        yield _raw(f'<figure{" class=big" if width > NARROW else ""}><div class="plate" tabindex="0">')
        yield Token("picture", "img", 0, attrs=attrs)
        yield _raw("</div>")
        if numbers:
            yield _raw("<details><summary>The numbers</summary>")
            yield from self._wide(numbers)
            yield _raw("</details>")
        yield _raw("</figure>")

    def _table(self, block: Block) -> Iterator[Token]:
        names, rows = web_tables.shape(block)
        listed = next((name for name in ("case", "probe") if name in names), None)
        if not listed:
            yield from self._wide(block)
            return
        opened = " open" if rows <= SHORT else ""
        counted = f"{rows} {listed}{'' if rows == 1 else 's'}"
        yield _raw(f'<details class="cases"{opened}><summary>{counted}</summary>')
        yield from self._wide(block)
        yield _raw("</details>")

    def _wide(self, table: Block) -> Iterator[Token]:
        """A table in a box that scrolls, for the keyboard too."""
        label = escapeHtml(f"Table: {self._under}")
        yield _raw(f'<div class="wide" role="group" tabindex="0" aria-label="{label}">')
        yield from web_tables.dressed(table)
        yield _raw("</div>")

    def _link_notebooks(self, token: Token) -> None:
        for child in token.children or []:
            if child.type == "code_inline" and re.fullmatch(r"notebooks/[\w.-]+\.ipynb", child.content):
                shown = Path(child.content).with_suffix(".html")
                if (self.folder / shown).is_file():
                    child.type = "html_inline"
                    child.content = f'<a href="{quote(shown.as_posix())}">{escapeHtml(shown.name)}</a>'


def plain(token: Token) -> str:
    """The text inside a token, without its mark-up."""
    shown = {"text", "text_special", "code_inline"}
    children = token.children or []
    return "".join(
        child.content if child.type in shown else " " if child.type == "softbreak" else ""
        for child in children
    )


def _blocks(tokens: Sequence[Token]) -> Iterator[Block]:
    """The top-level blocks, each with all that is inside it."""
    block: Block = []
    depth = 0
    for token in tokens:
        block.append(token)
        depth += token.nesting
        if not depth:
            yield block
            block = []


def _image(block: Block) -> Token | None:
    children = (block[1].children or []) if block[0].type == "paragraph_open" else []
    return children[0] if len(children) == 1 and children[0].type == "image" else None


def _mark_verdict(opening: Token, inline: Token) -> None:
    said = plain(inline)
    for start, look in VERDICTS.items():
        if re.match(start, said):
            opening.attrSet("class", f"verdict {look}")


def _fence(content: str) -> str:
    """Preformatted lines, the chosen setting of a sweep in bold."""
    lines = [escapeHtml(line) for line in content.rstrip("\n").split("\n")]
    shown = "\n".join(f"<strong>{line}</strong>" if "&lt;- chosen" in line else line for line in lines)
    return f'<pre tabindex="0"><code>{shown}</code></pre>'


def _raw(html: str) -> Token:
    """HTML of ours, as a token. Whatever it holds of others is already escaped."""
    return Token("html_block", "", 0, content=html + "\n")

"""A vault: a folder of Markdown pages, read as memories with their links."""

from __future__ import annotations

import codecs
import posixpath
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml
from frontmatter.default_handlers import YAMLHandler
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from recall_core.records import InputError, Memory

ENDINGS = (".md", ".markdown")
NAMEABLE = r"(?!\s)[^\n\r\ud800-\udfff]+"
"""A path that can be a page's id."""
WIKILINK = re.compile(r"!?\[\[([^\[\]\n]+)\]\]")
NOT_UTF8 = "not UTF-8"
"""What is said of a page in another encoding, among other words."""
_INSIDE = r"(?:(?!\n[ \t]*\n).)+?"
_COMMENT = re.compile(
    rf"""(?P<shown>
        ^[ \t>]*(?P<fence>`{{3,}}(?=[^`\n]*$)|~{{3,}}).*?(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z)
      | (?:\A|(?<=\n\n))(?:(?:\ {{4}}|\t)[^\n]*\n?)+
      | (?<!`)(?P<ticks>`{{1,9}})(?!`){_INSIDE}(?<!`)(?P=ticks)(?!`)
      | \$\${_INSIDE}\$\$
    )
    | %%.*?(?:%%|\Z)
    | ^\ {{0,3}}<!--.*?(?:-->|\Z)
    | <!--.*?(?:-->|(?P<unclosed>\Z))""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
"""A comment, or code or math, in which its signs mean themselves."""


@dataclass(frozen=True)
class Vault:
    """The pages of a folder, and what was wrong with it.

    A page's id and path are its path below the folder. `dangling`: (page id, target as written) of links
    that lead nowhere; a link to a file that is no page is not one. `unreadable`: (page id, why) of pages
    whose front matter is broken, whose whole text is kept, and of pages that are not UTF-8.
    """

    pages: tuple[Memory, ...]
    dangling: tuple[tuple[str, str], ...]
    unreadable: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Page:
    id: str
    meta: Mapping[str, Any]
    body: str
    targets: tuple[str, ...]
    broken: tuple[str, ...]


def read(folder: Path) -> Vault:
    """Read every Markdown file below a folder; hidden folders are left out.

    Raises InputError when the folder does not exist or holds no page.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder that holds the Markdown pages")
    files = _files(folder)
    paths = [path for path in files if path.suffix.lower() in ENDINGS]
    if not paths:
        raise InputError(f"{folder}: holds no page ({' or '.join(ENDINGS)}); give a folder of Markdown files")
    for path in paths:
        if not re.fullmatch(NAMEABLE, path.relative_to(folder).as_posix()):
            raise InputError(
                f"{str(path)!r}: the path begins with a blank, or holds a line break or bytes that are not "
                "UTF-8; rename the file"
            )
    pages = [_read_page(path, path.relative_to(folder).as_posix()) for path in paths]
    find = _Resolver(pages)
    attached = {_key(path.name) for path in files} - {_key(path.name) for path in paths}
    memories, dangling = [], []
    for page in pages:
        links = []
        for target in dict.fromkeys(page.targets):
            found = find(page.id, target)
            if found is None and _key(posixpath.basename(target)) not in attached:
                dangling.append((page.id, target))
            elif found not in (None, page.id):
                links.append(found)
        memories.append(_memory(page, tuple(dict.fromkeys(links))))
    broken = tuple((page.id, why) for page in pages for why in page.broken)
    return Vault(tuple(memories), tuple(dangling), broken)


def _files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def targets(markdown: str) -> list[str]:
    """What a page links to, as written: `[[wikilinks]]`, embeds of pages, relative Markdown links.

    Links in code, in comments and to other sites do not count, nor do embedded pictures. Headings, block
    references and aliases are cut off; a link to a heading of the page itself is an empty target and left
    out.
    """
    found: list[str] = []
    parser, references = _parser(), dict[str, Any]()
    for block in parser.parse(without_comments(markdown), references):
        inside: list[Token] = []  # of one block at a time: a large page has millions
        if block.type == "inline":
            parser.inline.parse(block.content, parser, references, inside)
        for inner in inside:
            if inner.type == "wikilink":
                found.append(inner.content)
            elif inner.type == "link_open" and (target := _relative(str(inner.attrGet("href")))):
                found.append(target)
    return [target for target in found if target]


def without_comments(markdown: str) -> str:
    """A page without its `%%` and HTML comments, as a reader sees it.

    A `%%` that nothing closes runs to the end, as in Obsidian; so does a `<!--` that begins a line, as in
    CommonMark. In code and in math both are shown.
    """
    return _COMMENT.sub(
        lambda found: found[0] if found["shown"] or found["unclosed"] is not None else "", markdown
    )


def _read_page(path: Path, id_: str) -> _Page:
    text, misread = _decoded(path.read_bytes())
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\0", "\ufffd")
    try:
        # YAML forbids tabs where it indents; people type them, and two blanks are what they mean.
        meta, body = _split(_untabbed(text))
        broken = None if isinstance(meta, dict) else "front matter is no mapping"
        linked = list(_meta_links(meta, set()))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        broken = " ".join(str(error).split())
    if broken:
        meta, body, linked = {}, text, []
        broken = f"its front matter is broken ({broken}); its whole text is read"
    shown = without_comments(body)
    return _Page(id_, meta, shown, (*targets(body), *linked), tuple(filter(None, (broken, misread))))


def _decoded(raw: bytes) -> tuple[str, str | None]:
    """A page's text, and what is wrong with its encoding."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace"), f"is UTF-16, {NOT_UTF8}; read as such"
    try:
        return raw.decode(), None
    except UnicodeDecodeError as error:
        why = f"byte {error.start + 1} is {NOT_UTF8}; read with replacement characters"
        return raw.decode(errors="replace"), why


def _split(text: str) -> tuple[Any, str]:
    """Front matter as YAML reads it, and the rest. The first line must be dashes, as in every wiki."""
    handler = YAMLHandler()
    try:
        head, body = handler.split(text) if handler.detect(text) else ("", text)
    except ValueError:
        return {}, text.strip("\n")  # dashes that nothing closes are a rule
    meta = handler.load(head)
    return {} if meta is None else meta, body.strip("\n")


def _untabbed(text: str) -> str:
    if not text.startswith("---\n"):
        return text
    head, mark, body = text[4:].partition("\n---")
    return f"---\n{head.expandtabs(2)}{mark}{body}" if mark else text


def _memory(page: _Page, links: tuple[str, ...]) -> Memory:
    meta = page.meta
    title = _one_line(meta.get("title")) or Path(page.id).stem
    return Memory(
        id=page.id,
        text=page.body,
        kind="page",
        ts=_moment(meta.get("updated") or meta.get("created") or meta.get("date")),
        title=title,
        aliases=tuple(_texts(meta.get("aliases") or meta.get("alias"))),
        path=page.id,
        entities=tuple(_texts(meta.get("entities"))),
        links=links,
    )


class _Resolver:
    """Finds the page a link means, as wikis do: by path, by name, by title or alias; case does not matter."""

    def __init__(self, pages: Iterable[_Page]) -> None:
        self._paths: dict[str, str] = {}
        self._names: dict[str, list[str]] = defaultdict(list)
        self._titles: dict[str, list[str]] = defaultdict(list)
        for page in pages:
            bare = _bare(page.id)
            self._paths[bare] = page.id
            self._names[posixpath.basename(bare)].append(page.id)
            named = [page.meta.get("title"), *_texts(page.meta.get("aliases") or page.meta.get("alias"))]
            for name in filter(None, map(_one_line, named)):
                self._titles[_key(name)].append(page.id)

    def __call__(self, source: str, target: str) -> str | None:
        """The page id; with several of one name the nearest folder wins, then the shortest path."""
        bare = _bare(target)
        near = posixpath.normpath(posixpath.join(_key(posixpath.dirname(source)), bare))
        for path in (near, bare.removeprefix("/")):
            if path in self._paths:
                return self._paths[path]
        named = self._names.get(posixpath.basename(bare), [])
        found = [id_ for id_ in named if f"/{_bare(id_)}".endswith(f"/{bare.strip('/')}")]
        folder = posixpath.dirname(source)
        return min(
            found or self._titles.get(bare, []),
            key=lambda id_: (_steps(folder, posixpath.dirname(id_)), len(id_), id_),
            default=None,
        )


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.disable("inline")
    parser.inline.ruler.before("link", "wikilink", _wikilink)
    return parser


def _wikilink(state: StateInline, silent: bool) -> bool:
    """Markdown rule for `[[target|alias]]` and `![[embed]]`; it never sees code."""
    found = WIKILINK.match(state.src, state.pos)
    if not found:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.content = _target_of(found[1], embed=found[0].startswith("!"))
    state.pos = found.end()
    return True


def _target_of(inside: str, *, embed: bool) -> str:
    target = re.split(r"\\?\|", inside, maxsplit=1)[0].split("#", 1)[0].strip()
    picture = posixpath.splitext(target)[1].lower() not in ("", *ENDINGS) and embed
    return "" if picture else target


def _relative(href: str) -> str | None:
    parts = urlsplit(href)
    path = unquote(parts.path)
    if parts.scheme or parts.netloc or not path.lower().endswith(ENDINGS):
        return None
    return path


def _meta_links(value: Any, seen: set[int]) -> Iterator[str]:
    """Links in front matter, also where YAML reads an unquoted `[[Page]]` as a list in a list.

    `seen`: lists and mappings already looked into. A YAML alias can repeat one endlessly, or put it into
    itself.
    """
    if isinstance(value, str):
        for found in WIKILINK.finditer(value):
            if target := _target_of(found[1], embed=found[0].startswith("!")):
                yield target
    elif isinstance(value, (list, dict)) and id(value) not in seen:
        seen.add(id(value))
        for item in value.values() if isinstance(value, dict) else value:
            match item:
                case [str(name)] if isinstance(value, list) and "[[" not in name:
                    yield _target_of(name, embed=False)
                case _:
                    yield from _meta_links(item, seen)


def _texts(value: Any) -> list[str]:
    """A scalar, a list of scalars or nothing, as texts on one line each."""
    items = value if isinstance(value, list) else [value]
    return [text for text in map(_one_line, items) if text]


def _one_line(value: Any) -> str:
    if value is None or isinstance(value, (list, dict)):
        return ""
    return " ".join(str(value).replace("\0", "\ufffd").split())


def _moment(value: Any) -> str | None:
    """A YAML date, time or text as ISO 8601; one without a zone is taken as UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()


def _bare(path: str) -> str:
    """What a path is compared by: no ending, one spelling, one case."""
    bare, ending = posixpath.splitext(path.strip())
    return _key(bare if ending.lower() in ENDINGS else path)


def _steps(start: str, end: str) -> int:
    """Folders to go up and down from one folder to another."""
    way = posixpath.relpath(f"/{end}", f"/{start}")
    return 0 if way == "." else way.count("/") + 1


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip()).casefold()

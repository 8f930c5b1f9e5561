"""The pages in a real browser: nothing is fetched, nothing fails, all can be read by eye and ear."""

from __future__ import annotations

import http.server
import itertools
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pages
import pytest
from nbformat import v4

pytestmark = pytest.mark.slow
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -e '.[browser]'")
axe = pytest.importorskip("axe_playwright_python.base", reason="no axe: pip install -e '.[browser]'")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATHS = ("/usr/bin/chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PAGES = ("report", "broken report", "index", "notebook")
LOOKS = tuple(itertools.product(PAGES, (1200, 400), ("light", "dark")))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    given = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), *PATHS]
    path = next((path for path in given if path and Path(path).is_file()), None)
    if not path:
        pytest.skip("no Chromium found: install it, or set CHROMIUM to its path")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    index = pages.write_index(folder / "index")
    report = pages.write_report(folder / "report")
    return {
        "report": report,
        "broken report": pages.write_report(folder / "broken", broken=[f"hash, recall@1: {pages.HOSTILE}"]),
        "index": index,
        "notebook": report.parent / "notebooks" / "10_note_recall-hash.html",
    }


class Opened:
    """A page, and what the browser had to say about it."""

    def __init__(self, browser: Any, path: Path, width: int = 1200, scheme: str = "light") -> None:
        self.page = browser.new_page()
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()

    def fold(self, shut: bool) -> None:
        self.page.evaluate("shut => document.querySelectorAll('details').forEach(d => d.open = !shut)", shut)

    @property
    def fetched(self) -> list[str]:
        return [url for url in self.asked[1:] if not url.startswith("data:")]


@pytest.fixture(params=LOOKS, ids=lambda look: "-".join(map(str, look)))
def unfolded(request: pytest.FixtureRequest, browser: Any, written: dict[str, Path]) -> Iterator[Opened]:
    """Each page at each width, light and dark, with all that can be folded open."""
    name, width, scheme = request.param
    with Opened(browser, written[name], width, scheme) as opened:
        opened.fold(False)
        yield opened


def test_a_page_fetches_nothing_and_complains_of_nothing(unfolded: Opened) -> None:
    page = unfolded.page
    page.wait_for_timeout(50)
    assert unfolded.fetched == []
    assert unfolded.said == []
    undecoded = "[...document.images].filter(image => !image.complete || !image.naturalWidth).length"
    assert page.evaluate(undecoded) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_axe_finds_nothing(unfolded: Opened) -> None:
    unfolded.page.evaluate(axe.AXE_SCRIPT)
    found = unfolded.page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
    told = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]]
    assert told == []
    ran = {one["id"] for one in found["passes"]}
    assert "color-contrast" in ran
    assert {"image-alt", "svg-img-alt"} & ran


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """The address of a server on this machine, and what it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}", asked
        listening.shutdown()


def test_what_a_notebook_would_fetch_or_run_is_not(
    browser: Any, tmp_path: Path, server: tuple[str, list[str]]
) -> None:
    address, asked = server
    remote = f'<img src="{address}/a.png" alt="a"><script>document.title = "run"</script>'
    remote += f'<script src="{address}/a.js"></script><style>@import url({address}/a.css);</style>'
    script = "document.title = 'run'"
    path = pages.write_notebook(
        tmp_path,
        v4.new_output("display_data", {"text/html": remote}),
        v4.new_output("display_data", {"application/javascript": script, "text/plain": "a script"}),
    )
    with Opened(browser, path) as opened:
        opened.page.wait_for_timeout(200)
        assert opened.page.title() == "What came of it?"
    assert asked == []


def test_every_link_of_the_contents_leads_to_a_heading(browser: Any, written: dict[str, Path]) -> None:
    with Opened(browser, written["report"]) as opened:
        dead = """[...document.querySelectorAll('a[href^="#"]')].filter(
            a => !document.getElementById(decodeURIComponent(a.hash.slice(1)))).length"""
        assert opened.page.evaluate(dead) == 0
        assert opened.page.locator("nav a").count() > 6


def test_the_notebook_is_one_click_from_the_report(browser: Any, written: dict[str, Path]) -> None:
    with Opened(browser, written["report"]) as opened:
        opened.page.get_by_role("link", name="10_note_recall-hash.html").click()
        assert "What came of it?" in opened.page.inner_text("h1")


def test_the_contents_stay_in_view_on_a_wide_screen_only(browser: Any, written: dict[str, Path]) -> None:
    for width, stays in ((1200, True), (400, False)):
        with Opened(browser, written["report"], width) as opened:
            opened.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
            box = opened.page.locator("nav").bounding_box()
            assert (box["y"] + box["height"] > 0) == stays


def test_the_first_column_stays_when_a_table_scrolls(browser: Any, written: dict[str, Path]) -> None:
    with Opened(browser, written["report"], 400) as opened:
        table = opened.page.locator(".wide").nth(1)
        before = table.locator("tbody th").first.bounding_box()
        table.evaluate("box => box.scrollLeft = 120")
        assert table.evaluate("box => box.scrollLeft") == 120
        assert table.locator("tbody th").first.bounding_box() == before


def test_lists_of_cases_are_printed_open_and_the_contents_are_not(
    browser: Any, written: dict[str, Path]
) -> None:
    with Opened(browser, written["report"]) as opened:
        opened.fold(True)
        opened.page.emulate_media(media="print", color_scheme="dark")
        assert opened.page.locator(".cases table").first.is_visible()
        assert not opened.page.locator("nav").is_visible()
        paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"

"""The exploring notebook in a real JupyterLab, in a headless Chromium: it runs, and its slider moves things.

RECALL_SCREENSHOTS=FOLDER keeps what it looked like.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nights
import pytest

from recall_core.exploring.html import note, ruling, tabulated
from recall_core.exploring.html import page as show_page

pytestmark = pytest.mark.slow
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is missing: pip install -e '.[dev]'"
)

ROOT = Path(__file__).parents[1]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATHS = ("/usr/bin/chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
PATIENCE = 40_000
"""Milliseconds that a busy machine may take."""


def browser_path() -> str | None:
    given = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), *PATHS]
    return next((path for path in given if path and Path(path).is_file()), None)


@dataclass
class Lab:
    url: str
    folder: Path
    log: Path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < until:
        assert process.poll() is None, f"jupyter lab ended: {log.read_text()[-2000:]}"
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"jupyter lab does not answer: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab of our own on a bare project: nobody's settings, a token, this machine only."""
    if browser_path() is None:
        pytest.skip("no Chromium: install one, or give its path in the variable CHROMIUM")
    if shutil.which("jupyter-lab", path=Path(sys.executable).parent) is None:
        pytest.skip("no JupyterLab beside this Python: pip install -e .")
    folder = tmp_path_factory.mktemp("lab")
    project = folder / "project"
    nights.bare_project(project, nights.PLAIN)
    quiet = folder / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    port, token, log = free_port(), secrets.token_hex(16), folder / "lab.log"
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{kind}_DIR": str(folder / kind.lower()) for kind in ("SETTINGS", "WORKSPACES")}
    own |= {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_TOKEN": token}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--notebook-dir={project}"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=os.environ | own, cwd=project, stdout=out, stderr=out, start_new_session=True
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/api?token={token}", process, log)
        yield Lab(
            f"http://127.0.0.1:{port}/lab/workspaces/NAME/tree/notebooks/NAME.ipynb?token={token}",
            project,
            log,
        )
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server; it ends its kernels. Whatever of its group is left is killed."""
    process.send_signal(signal.SIGTERM)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


@pytest.fixture
def page(lab: Lab) -> Iterator["playwright.Page"]:  # noqa: ARG001 - skipped where it is skipped
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 2600})
            page.set_default_timeout(PATIENCE)
            playwright.expect.set_options(timeout=PATIENCE)
            yield page
        finally:
            browser.close()


def keep(page: "playwright.Page", name: str) -> None:
    if folder := os.environ.get("RECALL_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def run_all(page: "playwright.Page", lab: Lab, name: str) -> None:
    """Open a notebook, Run > Run All Cells, and wait until no cell is waiting."""
    page.goto(lab.url.replace("NAME", name))
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.get_by_text(re.compile(r"Python 3 .*\| Idle")).first.wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    last = page.locator(".jp-CodeCell .jp-InputPrompt").last
    playwright.expect(last).to_have_text(re.compile(r"^\[\d+\]:$"))
    playwright.expect(page.locator(".jp-CodeCell .jp-InputPrompt", has_text="[*]")).to_have_count(0)


def test_the_slider_moves_the_numbers(page: "playwright.Page", lab: Lab) -> None:
    run_all(page, lab, "00_explore")
    counts, flips = page.locator(".recall-counts"), page.locator(".recall-flips")
    playwright.expect(counts).to_contain_text("answered")
    playwright.expect(flips).to_contain_text("No case flips")
    keep(page, "explore")
    before = counts.inner_text()
    handle = page.locator(".widget-slider", has_text="delta").locator(".noUi-handle")
    handle.focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    playwright.expect(flips).to_contain_text("cases flip against min_score 0.1, delta 0.02")
    playwright.expect(flips).to_contain_text("answered → silenced")
    assert counts.inner_text() != before
    flips.scroll_into_view_if_needed()
    keep(page, "explore-moved")

    question = page.get_by_role("textbox", name="question")
    question.fill("what did we say about backups")
    question.press("Enter")
    panel = page.locator(".recall-live", has=question)
    playwright.expect(panel).to_contain_text("fused: all streams together")
    panel.get_by_role("button", name="wiki").click()
    playwright.expect(panel.get_by_role("heading", name=re.compile("^graph"))).to_be_visible()
    panel.get_by_role("button", name="Mark as a case draft").click()
    playwright.expect(panel).to_contain_text("draft-001 is in data/drafts.json")
    assert (lab.folder / "data" / "drafts.json").is_file()
    keep(page, "explore-asked")

    playwright.expect(page.locator(".jp-OutputArea-output[data-mime-type*='error']")).to_have_count(0)
    playwright.expect(page.locator(".jp-RenderedText[data-mime-type*='stderr']")).to_have_count(0)
    assert not page.locator(".recall-still").first.is_visible(), "the still output shows beside the widget"
    for width in (1440, 900):
        page.set_viewport_size({"width": width, "height": 2600})
        laid_out = "document.querySelector('.jp-Notebook').getBoundingClientRect().right <= innerWidth"
        page.wait_for_function(laid_out)
        wider = (
            "[...document.querySelectorAll('.recall-live')].filter(e => e.scrollWidth > e.clientWidth + 2)"
        )
        page.wait_for_function(f"!{wider}.length")
        cut = wider.replace(".recall-live", ".recall-live .widget-hbox")
        page.wait_for_function(f"!{cut}.length")
    keep(page, "explore-narrow")


def test_the_first_run_reads_well(page: "playwright.Page", lab: Lab) -> None:
    run_all(page, lab, "01_first_run")
    playwright.expect(page.locator(".jp-OutputArea-output[data-mime-type*='error']")).to_have_count(0)
    playwright.expect(page.get_by_text("This is called false recall")).to_be_visible()
    keep(page, "first-run")


@pytest.mark.parametrize("width", [320, 468, 768, 1080])
def test_long_ids_and_texts_stay_inside(page: "playwright.Page", width: int) -> None:
    id_, text = "conversation_2023/session_12/turn_0034_of_a_long_talk", "word" * 40
    said = f"keyword 0.0152 (rank 6) {text}"
    table = tabulated([{"rank": 1, "memory": id_, "text": text, "score": "0.1234", "from": said}])
    page.set_viewport_size({"width": width, "height": 900})
    page.set_content(show_page(f"<h4>{text}</h4>", note(text), ruling(text, text), table))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    narrowest = "Math.min(...[...document.querySelectorAll('td.t')].map(e => e.clientWidth))"
    assert page.evaluate(narrowest) >= 90, "a text is squeezed to a few letters a line"
    keep(page, f"long-{width}")

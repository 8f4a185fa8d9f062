"""A real JupyterLab, a real Chromium, and somebody who reads a lesson in them.

Needs nothing of pytest, so a script can use it, too::

    with jupyterlab(folder) as address, chromium(folder) as browser:
        reader = Reader(browser, address, "03_stale_commit", "Dark")
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import nbformat
from playwright.sync_api import expect, sync_playwright

from leaselab.chart import LEFT, RIGHT

expect.set_options(timeout=30_000)  # the machine may be busy

ROOT = Path(__file__).parent.parent
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SCREENSHOTS = ROOT / "screenshots"
TOKEN = "a-token-for-the-tests"
VIEWPORT = {"width": 1366, "height": 1400}
THEMES = "@jupyterlab/apputils-extension:themes"
WIDGET = "[data-mime-type='application/vnd.jupyter.widget-view+json']"
ANY_PANEL = ".leaselab, .leaselab-guards, .leaselab-self-test"
ERROR = "[data-mime-type='application/vnd.jupyter.stderr']"
# Each cell has its number, or one has failed (that is how JupyterLab marks it).
RAN = f"""() => document.querySelector("{ERROR}") ||
    [...document.querySelectorAll('.jp-InputPrompt')].every(prompt => !/[ *]]/.test(prompt.innerText))
"""
# The pictures may still be on their way to the screen.
DECODE = "() => Promise.all([...document.images].map(image => image.decode()))"
# What stands on a panel, as soon as it is what is told, or after half a minute; then how far the
# handle is along the chart, and by how much the chart is stretched; then all that keeps its size
# and its place.
READ = """async (panel, told) => {
    const find = name => [...panel.querySelectorAll(name)].filter(part => part.checkVisibility());
    const texts = name => find(name).map(part => part.textContent.trim());
    const [handle] = find('.noUi-handle'), [card] = find('.leaselab-card');
    let seen, late = Date.now() + 30000;
    do {
        await new Promise(go => setTimeout(go, 20));
        const [table, sentence] = texts('.leaselab-scroll').slice(-3);
        seen = {
            title: texts('.leaselab-title').join(),
            alt: panel.querySelector('.leaselab-above img[alt^=t]').alt,
            headings: texts('th'),
            cells: texts('td'),
            ledger: Number(table.match(/ledger: (\\d+)/)[1]),
            sentence,
            now: handle.getAttribute('aria-valuetext'),
            start: !find('button[title=start]')[0].disabled,
        };
    } while (JSON.stringify(seen) !== JSON.stringify(told) && Date.now() < late);
    const [picture] = find('.leaselab-card img');
    await picture.decode();
    const [all, chart, knob] = [panel, card, handle].map(part => part.getBoundingClientRect());
    return [
        seen,
        knob.x + knob.width / 2 - chart.x,
        picture.naturalHeight / picture.naturalWidth * chart.width - chart.height,
        [all.width, all.height, chart.x - all.x, chart.y - all.y, chart.height],
    ];
}"""


@contextmanager
def jupyterlab(folder, notebooks=ROOT / "notebooks"):
    """The address of a JupyterLab on a copy of the notebooks, with all its files in ``folder``."""
    folder = Path(folder)
    shutil.copytree(notebooks, folder / "notebooks", ignore=shutil.ignore_patterns(".ipynb*"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {
        f"JUPYTER{name}": str(folder / name.lower())
        for name in (
            "_CONFIG_DIR",
            "_DATA_DIR",
            "_RUNTIME_DIR",
            "LAB_SETTINGS_DIR",
            "LAB_WORKSPACES_DIR",
        )
    }
    command = [
        *(sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"),
        *(f"--port={port}", f"--IdentityProvider.token={TOKEN}", "--ServerApp.port_retries=0"),
        "--LanguageServerManager.autodetect=False",
        "--ServerApp.kernel_websocket_connection_class=leaselab.jupyter.PromptConnection",
        f"--ServerApp.root_dir={folder / 'notebooks'}",
    ]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, env={**os.environ, **places}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(server, address, folder / "log")
        # All cells are on the page, whether in sight or not; no question about news covers them.
        set_up(address, "@jupyterlab/notebook-extension:tracker", {"windowingMode": "none"})
        set_up(address, "@jupyterlab/apputils-extension:notification", {"fetchNews": "false"})
        yield address
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(server, address, log):
    for _ in range(300):
        try:
            return ask(f"{address}/api/status")
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text()}")


def ask(address, method="GET", data=None):
    """What the JupyterLab at this address answers."""
    headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(address, method=method, headers=headers, data=data)
    return urllib.request.urlopen(request, timeout=30).read()


def set_up(address, plugin, settings):
    """Give a plugin of JupyterLab these settings."""
    raw = json.dumps({"raw": json.dumps(settings)}).encode()
    ask(f"{address}/lab/api/settings/{plugin}", "PUT", raw)


def put_notebook(address, name, *cells):
    """Give the JupyterLab at this address one more notebook, of cells made by nbformat."""
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    raw = json.dumps({"type": "notebook", "format": "json", "content": notebook}).encode()
    ask(f"{address}/api/contents/{name}.ipynb", "PUT", raw)


@contextmanager
def chromium(home):
    """A Chromium without a window; it writes into the home directory, so it gets one of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            env={**os.environ, "HOME": str(home)},
            args=["--no-sandbox", "--disable-quic", "--disable-background-networking"],
        )
        yield browser
        browser.close()


class Reader:
    """Somebody who has opened a lesson and chosen Run All Cells.

    ``panel`` is the panel that is looked at: the first one, until ``turn_to`` names another.
    ``errors`` is what the page has complained of in its console so far.
    """

    def __init__(self, browser, address, lesson, theme="Light"):
        set_up(address, THEMES, {"theme": f"JupyterLab {theme}"})
        self.lesson, self.theme = lesson, theme
        self.errors = []
        self.page = browser.new_page(viewport=VIEWPORT)
        self.page.on("console", self._listen)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"{address}/lab/tree/{lesson}.ipynb?token={TOKEN}&reset")
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
        self.page.locator(".jp-NotebookPanel-toolbar >> text=Python 3").wait_for(timeout=60_000)
        # What is run before the kernel is there is not run at all.
        idle = self.page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")
        idle.wait_for(timeout=60_000)
        self._choose("Edit", "Clear Outputs of All Cells")  # those that were stored
        self._choose("Run", "Run All Cells")
        self.page.wait_for_function(RAN, timeout=180_000)
        idle.wait_for(timeout=60_000)
        assert (failed := self.page.locator(ERROR).all_inner_texts()) == [], failed[0]
        self.panels = self.page.locator(".leaselab")
        self.panel = self.panels.first
        if self.page.locator(WIDGET).count():
            self.page.locator(ANY_PANEL).first.wait_for(timeout=60_000)
        if self.panels.count():
            self.turn_to(0)

    def _listen(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def _choose(self, menu, *items):
        self.page.locator(f".lm-MenuBar-itemLabel >> text={menu}").click()
        for item in items:
            self.page.locator(f".lm-Menu-itemLabel >> text=/^{item}$/").first.click()

    def turn_to(self, number):
        """Look at another panel of the notebook; they count from 0."""
        self.panel = self.panels.nth(number)
        self.panel.wait_for(timeout=60_000)
        self.panel.scroll_into_view_if_needed()
        self._measures, self._horizon = None, 0

    def run_again(self):
        """Run the cell of the panel once more; it shows a new panel, on a new lab."""
        cell = self.panel.locator("xpath=ancestor::*[contains(@class, 'jp-CodeCell')]")
        prompt, count = cell.locator(".jp-InputPrompt").first, self.panels.count()
        before = prompt.inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        expect(prompt).not_to_have_text(before)
        expect(prompt).not_to_have_text("[*]:")
        expect(self.panels).to_have_count(count)  # until then another panel stands in its place

    def change_theme(self, theme):
        if theme != self.theme:
            self._choose("Settings", "Theme", f"JupyterLab {theme}")
            body = self.page.locator("body")
            expect(body).to_have_attribute("data-jp-theme-name", f"JupyterLab {theme}")
        self.theme = theme

    @property
    def slider(self):
        return self.panel.get_by_role("slider", name="now: the virtual clock")

    def button(self, words, worker=None):
        if worker:
            return self.panel.get_by_title(f"{worker} {words}", exact=True)
        return self.panel.get_by_role("button", name=words, exact=True)

    def press(self, words, worker=None):
        button = self.button(words, worker)
        expect(button).to_be_enabled()
        button.click()

    def by_keyboard(self, words):
        button = self.button(words)
        expect(button).to_be_enabled()
        button.focus()
        self.page.keyboard.press("Enter")

    def move_by_keyboard(self, key):
        self.slider.focus()
        self.page.keyboard.press(key)

    def reads(self, words):
        """These words stand somewhere on the panel."""
        expect(self.panel.get_by_text(words).first).to_be_visible()

    def sees(self, lab, now=None, title=None):
        """The page shows what the trace says, and nothing on it has moved but the handle.

        Args:
            lab: a plain lab, in which the same was done.
            now: where the reader looks back to from where the lab's clock stands.
            title: what the panel says instead of the trace's title.
        """
        now = lab.t if now is None else now
        trace = lab.trace.at(now)
        back = f"looking back at t={now}; the file is at t={lab.t}. " if now < lab.t else ""
        table = trace.table()
        cells = [("\u25b8 " if mark else "") + text for row in table.rows for text, mark in row]
        told = {
            "title": title or back + trace.title,
            "alt": trace.sentence,
            "headings": list(table.headings),
            "cells": cells or ["the task table is empty"],
            "ledger": trace.external_calls,
            "sentence": trace.sentence,
            "now": str(now),
            "start": bool(lab.events),  # the buttons come last, so all else has come before
        }
        seen, handle, stretched, measures = self.panel.evaluate(READ, told)
        for what, words in told.items():
            assert seen[what] == words, f"{what}: {seen[what]!r} instead of {words!r}"
        self._horizon = max(self._horizon, lab.horizon)
        assert abs(handle - (LEFT + (RIGHT - LEFT) * now / self._horizon)) < 1, "the handle is off"
        assert abs(stretched) < 1, f"the chart's height is off by {stretched} pixels"
        self._measures = self._measures or measures
        assert measures == self._measures, f"from {self._measures} to {measures}"

    @contextmanager
    def all_in_sight(self):
        """A window that is so high that the notebook is in sight from top to bottom."""
        notebook = self.page.locator(".jp-WindowedPanel-outer")
        hidden = notebook.evaluate("notebook => notebook.scrollHeight - notebook.clientHeight")
        self.page.set_viewport_size({**VIEWPORT, "height": VIEWPORT["height"] + hidden})
        notebook.evaluate("notebook => notebook.scrollTo(0, 0)")
        yield
        self.page.set_viewport_size(VIEWPORT)

    def photograph(self, name, part=None):
        """A picture for ``screenshots/``: of the panel, or of what else is given."""
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.evaluate(DECODE)
        (part or self.panel).screenshot(path=SCREENSHOTS / f"{name}.png")

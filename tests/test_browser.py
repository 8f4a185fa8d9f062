"""A real JupyterLab in a real Chromium: what a reader does, and what the page then shows.

Screenshots are kept in ``screenshots/`` for review. Where no Chromium is found these tests are
skipped with a line that says so.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from leaselab import Lab, scenarios

ROOT = Path(__file__).parent.parent
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SCREENSHOTS = ROOT / "screenshots"
TOKEN = "a-token-for-the-tests"

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium found: install Debian's package chromium to run these"
)


@pytest.fixture(scope="module")
def jupyterlab(tmp_path_factory):
    """The address of a JupyterLab on a copy of the notebooks, with all its files elsewhere."""
    folder = tmp_path_factory.mktemp("jupyterlab")
    shutil.copytree(
        ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".ipynb*")
    )
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
        f"--ServerApp.root_dir={folder / 'notebooks'}",
    ]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, env={**os.environ, **places}, stdout=log, stderr=subprocess.STDOUT
        )
    address = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            ask(f"{address}/api/status")
            break
        except OSError:
            assert server.poll() is None, (folder / "log").read_text()
            time.sleep(0.2)
    # All cells are on the page, whether in sight or not; no question about news covers them.
    set_up(address, "@jupyterlab/notebook-extension:tracker", {"windowingMode": "none"})
    set_up(address, "@jupyterlab/apputils-extension:notification", {"fetchNews": "false"})
    yield address
    server.terminate()
    server.wait(30)


def ask(address, method="GET", data=None):
    headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(address, method=method, headers=headers, data=data)
    return urllib.request.urlopen(request, timeout=30).read()


def set_up(address, plugin, settings):
    raw = json.dumps({"raw": json.dumps(settings)}).encode()
    ask(f"{address}/lab/api/settings/{plugin}", "PUT", raw)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with sync_playwright() as playwright:
        home = str(tmp_path_factory.mktemp("home"))  # Chromium writes into the home directory
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            env={**os.environ, "HOME": home},
            args=["--no-sandbox", "--disable-quic", "--disable-background-networking"],
        )
        yield browser
        browser.close()


class Reader:
    """Somebody who has opened a lesson and chosen Run All Cells."""

    def __init__(self, chromium, jupyterlab, lesson, theme="Light"):
        set_up(
            jupyterlab, "@jupyterlab/apputils-extension:themes", {"theme": f"JupyterLab {theme}"}
        )
        self.errors = []
        self.page = chromium.new_page(viewport={"width": 1366, "height": 1400})
        self.page.on("console", self._listen)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"{jupyterlab}/lab/tree/{lesson}.ipynb?token={TOKEN}&reset")
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
        self.page.locator(".jp-NotebookPanel-toolbar >> text=Python 3").wait_for(timeout=60_000)
        self.page.locator(".lm-MenuBar-itemLabel >> text=Run").click()
        self.page.locator(".lm-Menu-itemLabel >> text=Run All Cells").first.click()
        self.panel = self.page.locator(".leaselab").first
        self.panel.wait_for(timeout=60_000)
        idle = self.page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")
        idle.wait_for(timeout=60_000)
        expect(self.page.locator(".jp-InputPrompt >> text=[*]")).to_have_count(0, timeout=60_000)
        self.panel.scroll_into_view_if_needed()

    def _listen(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def press(self, words, worker=None):
        row = self.panel
        if worker:
            label = self.page.get_by_text(f"worker {worker}", exact=True)
            row = self.panel.locator(".widget-hbox").filter(has=label)
        button = row.get_by_role("button", name=words, exact=True).first
        expect(button).to_be_enabled()
        button.click()

    def by_keyboard(self, words):
        button = self.panel.get_by_role("button", name=words, exact=True)
        expect(button).to_be_enabled()
        button.focus()
        self.page.keyboard.press("Enter")

    def sees(self, lab):
        """The page shows what the trace says: the sentence, the picture's alt text, the row."""
        trace = lab.trace
        expect(self.panel.locator(".leaselab-title")).to_have_text(trace.title)
        above = self.panel.locator(".leaselab-above img[alt^=t]")
        expect(above).to_have_attribute("alt", trace.sentence)
        if trace.tasks:
            expect(self.panel.locator("th")).to_have_text(list(trace.table().headings))
            cells = [
                ("\u25b8 " if mark else "") + text
                for row in trace.table().rows
                for text, mark in row
            ]
            expect(self.panel.locator("td")).to_have_text(cells)
        expect(self.slider).to_have_attribute("aria-valuetext", str(lab.t))

    @property
    def slider(self):
        return self.panel.get_by_role("slider", name="now: the virtual clock")

    def photograph(self, name):
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.wait_for_timeout(300)
        self.panel.screenshot(path=SCREENSHOTS / f"{name}.png")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_lesson_03_by_keyboard_shows_what_the_trace_says(chromium, jupyterlab, theme):
    reader = Reader(chromium, jupyterlab, "03_stale_commit", theme)
    plain = Lab(scenarios["stale_commit"])
    reader.sees(plain)
    title = reader.panel.locator(".leaselab-title")

    reader.slider.focus()
    for _ in range(29):
        reader.page.keyboard.press("ArrowRight")
    reader.sees(plain.play_to(29))
    # Three steps are locked, one after the other: the clock does not pass them without an answer.
    for number, answer in enumerate(("refused", "accepted", "refused"), start=1):
        reader.slider.focus()
        reader.page.keyboard.press("ArrowRight")
        expect(title).to_have_text(f"The clock waits at t={plain.t} for your answer.")
        expect(reader.slider).to_have_attribute("aria-valuetext", str(plain.t))
        reader.by_keyboard(answer)
        reader.by_keyboard("lock in")
        expect(reader.panel.get_by_text("It is locked in.")).to_be_visible()
        reader.slider.focus()
        reader.page.keyboard.press("ArrowRight")
        reader.sees(plain.play_to(plain.t + 1))
        expect(reader.panel.get_by_text(f"{number} of {number} predictions right.")).to_be_visible()
        reader.photograph(f"03 at {plain.t} {theme}")

    for _ in range(8):
        reader.page.keyboard.press("ArrowRight")
    reader.sees(plain.play_to(40))
    reader.photograph(f"03 at 40 {theme}")

    reader.page.keyboard.press("ArrowLeft")  # looks back; the file stays
    expect(title).to_contain_text("looking back at t=39; the file is at t=40.")
    reader.press("start")
    reader.sees(Lab(scenarios["stale_commit"]))
    assert reader.errors == []
    reader.page.close()


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_panel_can_be_read_without_seeing_and_used_without_a_mouse(chromium, jupyterlab, theme):
    """By axe-core: names of controls, alt texts, contrast in both themes."""
    reader = Reader(chromium, jupyterlab, "02_crash_and_takeover", theme)
    reader.panel.get_by_label("ask me before the steps that matter").uncheck()
    reader.press("end")
    expect(reader.panel.get_by_role("button", name="end", exact=True)).to_be_disabled()

    def violations():
        found = Axe().run(reader.page, context=".leaselab").response["violations"]
        return {rule["id"]: [node["html"][:200] for node in rule["nodes"]] for rule in found}

    assert violations() == {}
    handle = reader.panel.locator(".noUi-handle")  # and axe would have said so:
    handle.evaluate("handle => handle.removeAttribute('aria-label')")
    assert list(violations()) == ["aria-input-field-name"]
    reader.page.close()


def test_lesson_03_by_buttons_shows_what_the_trace_says(chromium, jupyterlab):
    reader = Reader(chromium, jupyterlab, "03_stale_commit")
    plain = Lab(scenarios["stale_commit"])
    reader.panel.get_by_label("ask me before the steps that matter").uncheck()
    reader.sees(plain)
    for _ in range(2):
        reader.press("next")
        reader.sees(plain.next())
    reader.press("crash", worker="A")
    plain.crash("A")
    reader.sees(plain)
    expect(reader.panel.get_by_text("A has crashed; reopen it first")).to_be_visible()
    reader.press("reopen", worker="A")
    plain.reopen("A")
    reader.press("just before the lease ends (t=30)")
    reader.sees(plain.play_to(30))
    expect(reader.panel.get_by_text("30 < 31, A's lease is live").first).to_be_visible()
    reader.press("when it ends (t=31)")
    reader.sees(plain.play_to(31))
    reader.press("submit with an earlier generation")
    plain.finish("A", generation=1)
    reader.sees(plain)
    reader.press("finish done", worker="B")
    plain.finish("B")
    reader.sees(plain)
    reader.photograph("03 by buttons")
    reader.press("back")
    reader.sees(plain.back())
    assert reader.errors == []
    reader.page.close()


@pytest.mark.parametrize("lesson", [lesson for lesson in LESSONS if lesson[:2] != "03"])
def test_a_lesson_opens_runs_and_moves_its_clock(chromium, jupyterlab, lesson):
    reader = Reader(chromium, jupyterlab, lesson)
    t = int(reader.slider.get_attribute("aria-valuetext"))
    reader.panel.get_by_label("ask me before the steps that matter").uncheck()
    reader.slider.focus()
    for _ in range(3):
        reader.page.keyboard.press("ArrowRight")
    expect(reader.slider).to_have_attribute("aria-valuetext", str(t + 3))
    expect(reader.panel.locator(".leaselab-title")).to_contain_text(f"t={t + 3}: ")
    end = reader.panel.get_by_role("button", name="end", exact=True)
    if end.is_enabled():
        end.click()
    expect(end).to_be_disabled()
    reader.photograph(lesson)
    images = reader.page.locator(".jp-OutputArea-output img")
    for index in range(images.count()):
        assert images.nth(index).get_attribute("alt") is not None
    assert reader.errors == []
    reader.page.close()


def test_the_panel_keeps_its_size_and_its_place_while_the_clock_moves(chromium, jupyterlab):
    reader = Reader(chromium, jupyterlab, "02_crash_and_takeover")
    reader.panel.get_by_label("ask me before the steps that matter").uncheck()
    boxes = set()
    reader.slider.focus()
    for _ in range(45):
        reader.page.keyboard.press("ArrowRight")
        box = reader.panel.bounding_box()
        chart = reader.panel.locator(".leaselab-card").bounding_box()
        boxes.add((box["width"], box["height"], chart["x"], chart["y"], chart["height"]))
    assert len(boxes) == 1
    assert boxes.pop()[0] <= 750
    reader.page.close()


def test_the_handle_stands_on_the_instant_that_it_says(chromium, jupyterlab):
    """The slider lies on the chart's axis: its handle is as far along as the chart says."""
    from leaselab.chart import LEFT, RIGHT

    reader = Reader(chromium, jupyterlab, "03_stale_commit")
    horizon = Lab(scenarios["stale_commit"]).horizon
    reader.panel.get_by_label("ask me before the steps that matter").uncheck()
    reader.press("end")
    expect(reader.slider).to_have_attribute("aria-valuetext", "40")
    card = reader.panel.locator(".leaselab-card").bounding_box()
    handle = reader.panel.locator(".noUi-handle").bounding_box()
    middle = handle["x"] + handle["width"] / 2 - card["x"]
    assert abs(middle - (LEFT + (RIGHT - LEFT) * 40 / horizon)) < 1
    reader.page.close()

"""Start: what an import costs, how soon the first panel is there, what a reader's kernel takes."""

import json
import statistics
import subprocess
import sys
import tempfile
import time

import nbformat
import psutil
from bench_panel import NO_CHROMIUM, notebook, opened
from browser import CHROMIUM, ROOT, TOKEN, ask
from nbclient import NotebookClient

LESSON = "03_stale_commit"
HEAVY = ("matplotlib", "pandas", "ipywidgets", "IPython")
IMPORT = """\
import sys, time
start = time.perf_counter()
import NAME
print(1000 * (time.perf_counter() - start), *{*sys.argv[1:]} & {*sys.modules})"""
OPENINGS = """\
From the navigation over Run All Cells until the slider is seen, with a fresh kernel, in a browser
that has been there before. 3 times, in turns."""
INTERACT = "from ipywidgets import interact\ninteract(lambda t: t, t=(0, 63));"
LIBRARIES = "import matplotlib.pyplot, pandas"


def tables():
    yield *imports(), f"Each in a fresh interpreter, 10 times, in turns. Heavy: {', '.join(HEAVY)}."
    if CHROMIUM:
        yield *openings(), OPENINGS
    else:
        print(f"{NO_CHROMIUM}\n")
    yield *kernels(), "Memory of its own (USS), when all cells have run. 3 times, in turns."


def imports():
    """Milliseconds of each import, and what leaselab pulls in."""
    took = {"leaselab": [], "sqlite3": [], "pandas": []}
    for _ in range(10):
        for name, milliseconds in took.items():
            command = [sys.executable, "-c", IMPORT.replace("NAME", name), *HEAVY]
            said = subprocess.check_output(command, text=True).split()
            milliseconds.append(float(said[0]))
            if name == "leaselab":
                pulled_in = said[1:]
    rows = compared(took, "import {}", "ms")
    heavy = ", ".join(pulled_in) or "none"
    rows.append(["heavy packages in leaselab", heavy, "", "none", not pulled_in])
    return ["import", "median", "leaselab to it", "target"], rows


def openings():
    """Seconds until the first panel of the lesson, and until the slider of a bare interact."""
    sights = {LESSON: ".leaselab-clock .noUi-handle", "interact": ".widget-interact .noUi-handle"}
    with opened(interact=notebook(INTERACT)) as (browser, address):
        context = browser.new_context(viewport={"width": 1366, "height": 1400})
        took = {name: [] for name in sights}
        for turn in range(4):
            for name, sight in sights.items():
                passed = opening(context, address, name, sight)
                if turn:  # the first time fills the browser's cache
                    took[name].append(passed)
    return ["to the first panel", "median", "lesson to it", "target"], compared(took, "{}", "s")


def opening(context, address, name, sight):
    """Seconds until this notebook shows what is to be seen."""
    page = context.new_page()
    start = time.perf_counter()
    page.goto(f"{address}/lab/tree/{name}.ipynb?token={TOKEN}&reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
    page.locator(".jp-NotebookPanel-toolbar >> text=Python 3").wait_for(timeout=60_000)
    idle = page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")
    idle.wait_for(timeout=60_000)  # what is run before there is a kernel is not run at all
    page.locator(".lm-MenuBar-itemLabel >> text=Run").click()
    page.locator(".lm-Menu-itemLabel >> text=Run All Cells").first.click()
    page.locator(sight).first.wait_for(timeout=60_000)
    passed = time.perf_counter() - start
    page.close()
    for session in json.loads(ask(f"{address}/api/sessions")):
        ask(f"{address}/api/sessions/{session['id']}", "DELETE")
    return passed


def kernels():
    """MB of a kernel that has run the lesson, and of two that have run less."""
    lesson = nbformat.read(ROOT / "notebooks" / f"{LESSON}.ipynb", as_version=4)
    cells = {LESSON: lesson, LIBRARIES: notebook(LIBRARIES), "nothing": notebook("pass")}
    took = {name: [] for name in cells}
    for _ in range(3):
        for name, content in cells.items():
            took[name].append(memory(content))
    return ["a reader's kernel after", "median", "lesson to it", "target"], compared(
        took, "{}", "MB"
    )


def memory(content):
    """MB that belong to the kernel alone (USS)."""
    client = NotebookClient(content, timeout=120)
    with (
        tempfile.TemporaryDirectory() as folder,
        client.setup_kernel(cwd=folder, stderr=subprocess.DEVNULL),
    ):
        for index, cell in enumerate(content.cells):
            client.execute_cell(cell, index)
        time.sleep(5)  # the panel draws its pictures while the kernel is idle
        return psutil.Process(client.km.provisioner.pid).memory_full_info().uss / 1e6


def compared(took, words, unit):
    """Rows of medians, and what the first is in relation to the others."""
    typical = {name: statistics.median(values) for name, values in took.items()}
    first = next(iter(typical.values()))
    return [
        [words.format(name), f"{value:.1f} {unit}", f"{first / value:.2f}" if index else "1"]
        for index, (name, value) in enumerate(typical.items())
    ]

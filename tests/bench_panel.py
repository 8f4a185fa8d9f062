"""Panel: from a move of the clock to what is seen, beside naive interact and a bare round trip."""

import json
import random
import shutil
import statistics
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import nbformat
from browser import CHROMIUM, ROOT, Reader, chromium, jupyterlab
from nbclient import NotebookClient

NOTE = """\
naive interact: a slider and the same chart by plt.show(). Round trip: a slider and a text that the
kernel sets to its value. Handle and veil: what the page moves by itself. Answer: title, alt text
and table of the new position, all three. After a drag: from the last move until that is seen."""
LATEST = "after a fast drag, answer"
NO_CHROMIUM = "No Chromium was found, so nothing was measured in a page."

NAIVE = """\
%matplotlib inline
import matplotlib.pyplot as plt
from ipywidgets import HTML, IntSlider, VBox, interact
from leaselab import Lab, scenarios
from leaselab.chart import Chart

lab = Lab(scenarios["stale_commit"])
trace = Lab(scenarios["stale_commit"]).play().trace
naive = IntSlider(2, 0, lab.horizon)
naive.add_class("bench-naive")

def draw(t):
    figure = Chart(trace.at(t), lab.horizon).figure()
    figure.set_dpi(plt.rcParams["figure.dpi"])
    plt.figure(figure)
    plt.show()

interact(draw, t=naive);"""
BARE = """\
bare, echo = IntSlider(2, 0, lab.horizon), HTML("2")
bare.add_class("bench-bare"), echo.add_class("bench-echo")
bare.observe(lambda change: setattr(echo, "value", str(change.new)), "value")
VBox([bare, echo])"""
PANEL = """\
panel = lab.panel()
panel.asking.value = False
panel.clock.value = 2
panel"""
# Forward on the real file, then looking back, twice as long.
MOVES = [*range(3, 43), *range(41, 2, -1), *range(3, 43)]
KERNEL_SIDE = f"""\
import asyncio, json, time
await asyncio.sleep(5)  # the panel draws its pictures while the kernel is idle
times = {{"naive": [], "bare": [], "panel": []}}
for t in {MOVES[:79]}:
    for name, slider in zip(times, (naive, bare, panel.clock)):
        start = time.perf_counter()
        slider.value = t
        times[name].append(1000 * (time.perf_counter() - start))
print("times", json.dumps(times))"""

HANDLES = {  # what is seen after a key press on them, and at which moves they are pressed
    ".bench-naive .noUi-handle": (["naive"], 3),
    ".bench-bare .noUi-handle": (["bare"], 1),
    ".leaselab-clock .noUi-handle": (["handle", "title", "answer"], 1),
}


def tables():
    headings = ["panel", "median", "p95", "ratio", "target"]
    words, kernel = "kernel side of a move, ", kernel_side()
    rows = [
        [words + "naive interact", *milliseconds(kernel["naive"])],
        [words + "slider and text", *milliseconds(kernel["bare"])],
        against_naive(words + "panel", kernel["panel"], kernel["naive"]),
    ]
    if not CHROMIUM:
        yield headings, rows, NO_CHROMIUM
        return
    words, page = "key press to pixels, ", on_the_page()
    latest = statistics.quantiles(page["drag"], n=20)[-1]
    rows += [
        [words + "naive interact", *milliseconds(page["naive"])],
        [words + "round trip", *milliseconds(page["bare"])],
        against_naive(words + "handle and veil", page["handle"], page["naive"]),
        against_round_trip(page["handle"], page["bare"]),
        against_naive(words + "title", page["title"], page["naive"]),
        against_round_trip(page["title"], page["bare"]),
        against_naive(words + "answer", page["answer"], page["naive"]),
        against_round_trip(page["answer"], page["bare"]),
        [LATEST, *milliseconds(page["drag"]), "", "p95 <= 150 ms", latest <= 150],
    ]
    yield headings, rows, NOTE


def milliseconds(times):
    """Median and p95, in words."""
    return f"{statistics.median(times):.1f} ms", f"{statistics.quantiles(times, n=20)[-1]:.1f} ms"


def against_naive(words, own, naive):
    ratio = statistics.median(naive) / statistics.median(own)
    return [words, *milliseconds(own), f"{ratio:.1f} times as fast", "at least 3", ratio >= 3]


def against_round_trip(own, bare):
    ratio = statistics.median(own) / statistics.median(bare)
    return ["", "", "", f"{ratio:.2f} round trips", "at most 1.3", ratio <= 1.3]


def notebook(*sources):
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    hidden = {"jupyter": {"source_hidden": True}}
    cells = [nbformat.v4.new_code_cell(source, metadata=hidden) for source in sources]
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def kernel_side():
    """Milliseconds of each move in the kernel alone, by what moves."""
    done = notebook(NAIVE, BARE, PANEL, KERNEL_SIDE)
    NotebookClient(done, timeout=120).execute(stderr=subprocess.DEVNULL)
    printed = "".join(output.get("text", "") for output in done.cells[-1].outputs)
    return json.loads(printed.split("times ")[1])


@contextmanager
def opened(**notebooks):
    """A Chromium, and the address of a JupyterLab with these notebooks and the lessons."""
    with tempfile.TemporaryDirectory(prefix="leaselab-bench-") as folder:
        lessons, home = Path(folder) / "lessons", Path(folder) / "home"
        home.mkdir()
        shutil.copytree(ROOT / "notebooks", lessons)
        for name, content in notebooks.items():
            nbformat.write(content, lessons / f"{name}.ipynb")
        with jupyterlab(folder, lessons) as address, chromium(home) as browser:
            yield browser, address


def on_the_page():
    """Milliseconds until something is seen, by what it is."""
    with opened(bench=notebook(NAIVE, BARE, PANEL)) as (browser, address):
        reader = Reader(browser, address, "bench")
        page = reader.page
        page.set_viewport_size({"width": 1366, "height": 1900})  # all three are in sight
        page.add_script_tag(path=Path(__file__).with_suffix(".js"))
        page.wait_for_timeout(5000)
        times = {name: [] for names, _ in HANDLES.values() for name in names}
        for number, (last, t) in enumerate(zip([2, *MOVES], MOVES)):
            for handle, (names, every) in HANDLES.items():
                if number % every:
                    continue
                page.locator(handle).focus()
                page.evaluate("([handle, names]) => expect(handle, names)", [handle, names])
                page.keyboard.press("ArrowRight" if t > last else "ArrowLeft")
                for name, passed in zip(names, page.evaluate("seen")):
                    times[name].append(passed)
                page.wait_for_timeout(random.uniform(40, 140))  # no fixed step to the frames
        page.evaluate("follow()")
        times["drag"] = []
        for _ in range(8):
            reader.press("start")  # so that the file itself is moved
            page.wait_for_function("answered('0')")
            times["drag"].append(fast_drag(reader, 0.9))
            times["drag"].append(fast_drag(reader, 0.1))
        return times


def fast_drag(reader, share):
    """Milliseconds from the last move until the panel answers to it."""
    page = reader.page
    track = reader.panel.locator(".leaselab-clock .noUi-target").bounding_box()
    handle = reader.slider.bounding_box()
    y = handle["y"] + handle["height"] / 2
    page.mouse.move(handle["x"] + handle["width"] / 2, y)
    page.mouse.down()
    page.mouse.move(track["x"] + share * track["width"], y, steps=20)
    page.mouse.up()
    page.wait_for_function("drag.seen")
    passed = page.evaluate("drag.seen - drag.moved")
    page.wait_for_timeout(300)
    return passed

"""The notebooks as files. That they say what they say is checked by nbval, cell by cell."""

import hashlib
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LESSONS = [path.stem for path in PATHS]
IGNORED = "nbval-ignore-output"
# What leaves the virtual clock has no panel of a lab.
WITHOUT_A_CLOCK = (
    *("10_real_workers", "11_break_a_guard", "12_write_your_own", "14_postgresql"),
    "15_self_test",
)


def cells(path, kind=None):
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if kind in (None, cell.cell_type)]


def prose(path):
    return "\n".join(cell.source for cell in cells(path, "markdown"))


def test_every_notebook_is_collected_by_pytest():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0"]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    for path in PATHS:
        collected = run.stdout.count(f"notebooks/{path.name}::")
        assert collected == len(cells(path, "code")), path.name


def test_lessons_are_numbered_without_a_gap():
    assert [name[:2] for name in LESSONS] == [f"{number:02}" for number in range(len(LESSONS))]


@pytest.mark.parametrize("path", PATHS, ids=LESSONS)
def test_no_cell_shows_more_than_ten_lines(path):
    for cell in cells(path, "code"):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        assert len(lines) <= 10, cell.source


@pytest.mark.parametrize("path", PATHS, ids=LESSONS)
def test_a_lesson_has_its_anatomy(path):
    text = prose(path)
    wanted = ["Run All Cells", "The promise of this lesson:", "Afterwards you can say", "minutes"]
    for words in (*wanted, "## Exercise", "Three lines to remember"):
        assert words in text, words
    if path.stem != "00_start_here":
        assert "What the model leaves out." in text or "What this does not protect." in text
        assert "Where real systems do the same." in text and "TODO" not in text
    code = "\n".join(cell.source for cell in cells(path, "code"))
    if path.stem not in WITHOUT_A_CLOCK:
        assert ".panel()" in code and "panel.clock.value = " in code
    assert f'exercises["{path.stem}"]' in code and "exercise.check(answer)" in code
    assert f"solutions/{path.stem}.py" in text


@pytest.mark.parametrize("path", PATHS, ids=LESSONS)
def test_after_a_cell_that_may_differ_comes_one_that_must_not(path):
    may_differ = [IGNORED in cell.metadata.get("tags", []) for cell in cells(path, "code")]
    assert not may_differ[-1] and (True, True) not in zip(may_differ, may_differ[1:])


@pytest.mark.parametrize("path", PATHS, ids=LESSONS)
def test_links_within_the_set_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", prose(path)):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PATHS, ids=LESSONS)
def test_outputs_are_stored_and_name_no_place_and_no_widget_model(path):
    notebook = nbformat.read(path, as_version=4)
    assert "widgets" not in notebook.metadata
    for cell in cells(path, "code"):
        assert cell.execution_count is not None
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", output
            data = output.get("data", {})
            assert "application/vnd.jupyter.widget-view+json" not in data
            text = output.get("text", "") + data.get("text/plain", "")
            assert not re.search(r"/tmp|/home|/Users|leaselab-|0x[0-9a-f]{6}", text), text


@pytest.mark.parametrize("path", PATHS, ids=LESSONS)
def test_every_picture_has_an_alt_text_and_every_panel_a_picture(path):
    for cell in cells(path, "code"):
        for output in cell.outputs:
            data = output.get("data", {})
            if "<img" in data.get("text/html", ""):
                assert re.search(r'alt="[^"]{40,}"', data["text/html"])
        if cell.source.strip().endswith("\npanel"):
            assert "image/png" in cell.outputs[0]["data"]
            said = cell.outputs[0]["data"]["text/plain"]
            assert said.startswith(("t=0: ", "Every guard is on. Broken: side_effect."))


def said(notebook):
    """What each cell has printed and shown, without pixels and without what may differ."""
    return [
        "".join(
            output.get("text", "")
            + data.get("text/plain", "")
            + re.sub('base64,[^"]*', "", data.get("text/html", ""))
            + output.get("evalue", "")
            for output in cell.outputs
            for data in [output.get("data", {})]
        )
        for cell in notebook.cells
        if cell.cell_type == "code" and IGNORED not in cell.metadata.get("tags", [])
    ]


def contents(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What each notebook says in each of two runs in one kernel, and the files before and after.

    The kernels of all notebooks live at the same time, in the same folder. They are started in the
    order of the lessons and run in the reverse order.
    """
    folder = tmp_path_factory.mktemp("ran")
    copies = shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    (folder / "temporary").mkdir()
    before = contents(folder)
    clients = {
        path.stem: NotebookClient(
            nbformat.read(path, as_version=4),
            timeout=60,
            allow_errors=True,  # what one of them says then is not what is stored
            store_widget_state=False,
            resources={"metadata": {"path": copies}},
        )
        for path in PATHS
    }
    with pytest.MonkeyPatch.context() as environment, ExitStack() as kernels:
        environment.setenv("TMPDIR", str(folder / "temporary"))
        for client in clients.values():
            kernels.enter_context(client.setup_kernel())
        runs = {
            lesson: [said(client.execute(cleanup_kc=False)) for _ in ("once", "again")]
            for lesson, client in reversed(clients.items())
        }
    return runs, before, contents(folder)


@pytest.mark.parametrize("path", PATHS, ids=LESSONS)
def test_a_notebook_run_twice_and_in_reverse_order_says_what_is_stored(path, ran):
    once, again = ran[0][path.stem]
    stored = said(nbformat.read(path, as_version=4))
    assert once == stored
    assert again == stored


def test_notebooks_that_were_run_leave_no_file_behind(ran):
    _, before, after = ran
    assert after == before


def test_the_readmes_links_and_its_picture_are_there_and_its_map_names_every_lesson():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
    for path in PATHS:
        assert f"(notebooks/{path.name})" in text
        minutes = re.search(r"About (\d+) minutes", prose(path))[1]
        assert re.search(rf"{path.stem}\.ipynb\) \|[^|]*\| {minutes} \|", text), path.name
        if path.stem != "00_start_here":
            assert re.search(rf"{path.stem}\.ipynb\) \|[^|]*\| {minutes} \|", prose(PATHS[0]))

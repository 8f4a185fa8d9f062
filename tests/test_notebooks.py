"""The notebooks as files. That they say what they say is checked by nbval, cell by cell."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LESSONS = [path.stem for path in PATHS]


def cells(path, kind=None):
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if kind in (None, cell.cell_type)]


def prose(path):
    return "\n".join(cell.source for cell in cells(path, "markdown"))


def test_every_notebook_is_collected_by_pytest():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
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
    assert ".panel()" in code and "panel.clock.value = " in code
    assert f'exercises["{path.stem}"]' in code and "exercise.check(answer)" in code
    assert f"solutions/{path.stem}.py" in text


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
            assert cell.outputs[0]["data"]["text/plain"].startswith("t=0: ")


def said(cell):
    """What a cell has printed and shown, as text."""
    outputs = [
        output.get("text", "") or output.get("data", {}).get("text/plain", "")
        for output in cell.get("outputs", [])
    ]
    return "".join(outputs)


@pytest.mark.parametrize("path", PATHS, ids=LESSONS)
def test_a_notebook_run_twice_in_one_kernel_says_the_same_and_leaves_no_file(
    path, tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = {file: hashlib.sha256(file.read_bytes()).digest() for file in PATHS}
    notebook = nbformat.read(path, as_version=4)
    once = [cell for cell in notebook.cells if cell.cell_type == "code"]
    twice = [nbformat.v4.new_code_cell(cell.source) for cell in once]
    notebook.cells = [*once, *twice]
    client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": path.parent}})
    client.execute()
    assert [said(cell) for cell in twice] == [said(cell) for cell in once]
    assert [file.name for file in tmp_path.iterdir() if "leaselab" in file.name] == []
    assert {file: hashlib.sha256(file.read_bytes()).digest() for file in PATHS} == before
    assert {file.suffix for file in path.parent.iterdir() if file.is_file()} == {".ipynb"}


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

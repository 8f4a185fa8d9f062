"""The set-up: the same packages everywhere, nothing pulled in early, each failure a sentence."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_conda_environment_and_the_project_name_the_same_packages_and_versions():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    listed = environment["dependencies"]
    by_pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    listed = {entry for entry in listed if isinstance(entry, str)} - {"pip"} | set(by_pip)
    wanted = {"python" + project()["requires-python"], "-e ."}
    extras = project()["optional-dependencies"]
    wanted |= {*project()["dependencies"], *extras["test"], *extras["postgres"]}
    wanted -= {"leaselab[postgres]"}  # which is the line before
    assert listed == wanted
    assert environment["channels"] == ["conda-forge"]


def test_importing_leaselab_pulls_in_no_pandas_matplotlib_or_ipywidgets():
    code = (
        "import sys, leaselab; leaselab.Lab(leaselab.scenarios['stale_commit']).play().table();"
        "print({'pandas', 'matplotlib', 'ipywidgets', 'PIL', 'IPython'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "set()", run.stderr


def test_nothing_below_imports_anything_above():
    """script -> Lab -> Trace -> table, chart, sentence, panel: one way."""
    order = [
        *("errors", "protocol", "store", "doctor", "__main__", "trace", "scenarios", "question"),
        *("lab", "replay", "incidents"),
        *("chart", "cost_chart", "lease_curve", "panel", "exercises", "jupyter"),
    ]
    check_order("", order)
    workers = ["clock", "heartbeat", "log", "poller", "processes", "work", "__main__"]
    check_order("workers/", workers)
    check_order("postgres/", ["watcher", "store", "server"])
    explore = ["scope", "graph", "machine", "properties", "schedule", "verdict", "search", "matrix"]
    check_order("explore/", [*explore, "sandbox", "compare", "own", "panel"])
    check_order("self_test/", ["evidence", "choice", "questions", "panel"])
    for path in (ROOT / "leaselab" / "workers").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^(from|import) leaselab\.(lab|panel|chart|question)\b", text, re.M)


def check_order(folder, order):
    """Each module imports only those that stand before it, and none is missing from the list."""
    place = "leaselab." + folder.replace("/", ".")
    for name in order:
        text = (ROOT / "leaselab" / folder / f"{name}.py").read_text(encoding="utf-8")
        top = [line for line in text.splitlines() if line.startswith(("from leaselab", "import"))]
        for line in top:
            for other in order[order.index(name) + 1 :]:
                assert f"{place}{other} " not in line, (name, line)
    there = (ROOT / "leaselab" / folder).glob("*.py")
    assert sorted(order) == sorted(path.stem for path in there if path.stem != "__init__")


def set_up(tmp_path, path, **environment):
    """What the set-up says on another machine: with only these programs, in another folder."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "set_up", tmp_path / ".ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    run = subprocess.run(
        ["/bin/sh", ".ci/set_up"],
        cwd=tmp_path,
        env={"PATH": str(path), "HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode != 0
    assert not (tmp_path / ".venv" / "ready").exists()
    return run.stderr.strip()


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


needs_sh = pytest.mark.skipif(os.name == "nt", reason="Windows takes the conda route")


@needs_sh
def test_without_a_python_the_set_up_says_so(tmp_path):
    program(tmp_path / "bin", "python3", 'exit 1  # an old Python answers "no" to the question')
    assert set_up(tmp_path, tmp_path / "bin").startswith(
        "leaselab: Python 3.11 or newer is needed and was not found. Install it from python.org"
    )


@needs_sh
def test_without_the_venv_module_the_set_up_says_so(tmp_path):
    text = f'case "$2" in *venv*) exit 1 ;; esac; exec {sys.executable} "$@"'
    program(tmp_path / "bin", "python3", text)
    assert "this Python has no venv module. On Debian and Ubuntu: sudo apt install" in set_up(
        tmp_path, tmp_path / "bin"
    )


@needs_sh
def test_without_a_network_the_set_up_says_so(tmp_path):
    text = f'exec {sys.executable} "$@"'
    program(tmp_path / "bin", "python3", text)
    said = set_up(
        tmp_path,
        f"{tmp_path / 'bin'}:/usr/bin:/bin",
        PIP_INDEX_URL="http://127.0.0.1:9/nothing",
        PIP_RETRIES="0",
        PIP_CONFIG_FILE=os.devnull,
    )
    assert "the packages could not be installed. Is there a network? What pip said" in said
    assert (tmp_path / ".venv" / "install.log").read_text()

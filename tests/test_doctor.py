"""The doctor: it finds what keeps a lesson from working, and says what to do."""

import importlib.metadata
import os
import platform
import sqlite3
import subprocess
import sys

import pytest

from leaselab import doctor
from leaselab.__main__ import main


def check(examination, name):
    return next(check for check in examination if check.name == name)


def test_where_the_tests_run_every_lesson_can_work(tmp_path):
    command = [sys.executable, "-m", "leaselab", "doctor"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and run.stderr == ""
    assert "Every lesson can work here." in run.stdout
    assert f"SQLite {sqlite3.sqlite_version}" in run.stdout.splitlines()[-1]
    assert run.stdout.splitlines()[-1].startswith(f"For a bug report: {platform.system()} ")
    assert str(tmp_path) not in run.stdout and list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_a_folder_that_cannot_be_written_fails_and_says_where_to_go(tmp_path):
    if os.geteuid() == 0:
        folder = "/proc"  # root may write everywhere else
    else:
        tmp_path.chmod(0o500)
        folder = tmp_path
    found = check(doctor.examine(folder), "files in this folder")
    assert found.well is False and found.found.startswith("cannot be used: ")
    assert found.advice == "Copy leaselab to a folder on a local disk."


def test_a_folder_that_is_not_there_fails(tmp_path):
    found = check(doctor.examine(tmp_path / "nowhere"), "files in this folder")
    assert found.well is False and found.found == "cannot be used: No such file or directory"


def test_a_folder_whose_files_are_not_locked_fails(monkeypatch, tmp_path):
    # On some network drives everybody who asks for a lock is told yes. Here is what comes of it.
    says = 'import sys; sys.exit("two processes have written at the same time")'
    monkeypatch.setattr(doctor, "OTHER_PROCESS", says)
    found = check(doctor.examine(tmp_path), "files in this folder")
    assert found.well is False
    assert found.found == "cannot be used: two processes have written at the same time"


def test_an_old_sqlite_fails_and_says_what_to_do(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.36.0")
    examination = doctor.examine()
    assert check(examination, "SQLite").advice == (
        "leaselab needs 3.37 or newer; a newer Python brings it along."
    )
    assert not examination.well
    assert "Not every lesson can work here." in repr(examination)


def test_an_old_python_fails(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert check(doctor.examine(), "Python").advice.startswith("leaselab needs 3.11 or newer")


def test_a_missing_or_an_old_package_fails_and_says_what_to_type(monkeypatch):
    wanted = ["ipywidgets~=8.1", "no-such-package>=2", "pytest~=9.2; extra == 'test'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: wanted)
    version = importlib.metadata.version
    old = {"ipywidgets": "7.8"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: old.get(name) or version(name))
    examination = doctor.examine()
    assert check(examination, "ipywidgets").advice == (
        "Install it: python -m pip install 'ipywidgets~=8.1'"
    )
    assert check(examination, "no-such-package").found == "is not installed"
    assert "pytest" not in [found.name for found in examination]


def test_without_the_widgets_front_end_it_fails(monkeypatch):
    monkeypatch.setattr(doctor, "FRONT_END", "nothing/package.json")
    found = check(doctor.examine(), "widgets in JupyterLab")
    assert found.well is False and "jupyterlab_widgets, then reload the page" in found.advice


def test_without_a_browser_the_lessons_work_all_the_same(monkeypatch):
    monkeypatch.setattr(doctor, "BROWSERS", ("no-such-browser",))
    examination = doctor.examine()
    assert check(examination, "browser for the tests").well is None
    assert examination.well and "absent browser for the tests" in repr(examination)


def test_without_postgresql_the_other_lessons_work_all_the_same(monkeypatch):
    monkeypatch.delenv("LEASELAB_POSTGRES_URL", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    found = check(doctor.examine(), "PostgreSQL")
    assert found.well is None and found.advice.startswith("Only lesson 14 needs it: ")


def test_a_postgresql_that_is_named_is_found(monkeypatch):
    monkeypatch.setenv("LEASELAB_POSTGRES_URL", "postgresql://localhost/lessons")
    assert check(doctor.examine(), "PostgreSQL").found == "named by LEASELAB_POSTGRES_URL"


def test_the_exit_status_says_whether_a_lesson_cannot_work(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "FRONT_END", "nothing/package.json")
    assert main(["doctor"]) == 1
    assert main([]) == 2 and main(["nurse"]) == 2
    assert "leaselab: there is one command, doctor, not nurse." in capsys.readouterr().err


def test_in_a_notebook_it_is_a_table():
    html = doctor.examine()._repr_html_()
    assert html.startswith("<table>") and "<td>well</td><td>Python</td>" in html

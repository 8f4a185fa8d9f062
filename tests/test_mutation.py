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
from leaselab.explore import Matrix
from leaselab.explore.matrix import BACKED
from leaselab.protocol import GUARD

ROOT = Path(__file__).parent.parent
HARMLESS = {
    "claim.takeover": "OR FALSE",
    "renew.never_shorter": "0,",
    "renew.from_now": "NULL,",
}
SCENE = "test_a_guard_refuses_its_scene"
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
    "claim.one_per_run": "06_atomic_claim",
    "renew.expiry": "07_heartbeat",
    "commit_run.revision": "08_fenced_write",
    "exhaust.attempt_limit": "09_attempt_limit",
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


def copy(tmp_path):
    """A copy of the project; returns its folder."""
    for folder in ("leaselab", "tests", "notebooks"):
        ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    return tmp_path


def copy_without(guard, tmp_path):
    """A copy of the project whose statements lack this guard."""
    copy(tmp_path)
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
    test = f"{TESTS[guard]}[sqlite]" if guard in TESTS else f"{SCENE}[sqlite-{guard}]"
    folder = copy_without(guard, tmp_path)
    said, failed = pytest_in(folder, f"tests/test_protocol.py::{test}")
    assert failed and re.search(r"^E +(assert|AssertionError)", said, re.M), said


@pytest.mark.parametrize("guard", LESSONS)
def test_a_lesson_goes_red_when_its_guard_lets_everything_pass(guard, tmp_path):
    folder = copy_without(guard, tmp_path)
    notebook = f"notebooks/{LESSONS[guard]}.ipynb"
    how = ["--nbval-cell-timeout=30", "--nbval-sanitize-with=tests/nbval_sanitize.cfg"]
    said, failed = pytest_in(folder, "--nbval", "--nbval-current-env", *how, notebook)
    # A cell that merely prints the statement is no proof: others must have come out otherwise, too.
    red = re.findall(r"Input:\n(.*?)Traceback:", said, re.DOTALL)
    assert failed and any('["' not in cell for cell in red), said


def fails_without(tmp_path, file, rule, instead, test):
    """In a copy in which a rule is taken out of a file of the package, this test fails."""
    folder = copy(tmp_path)
    path = folder / "leaselab" / file
    text = path.read_text(encoding="utf-8")
    assert text.count(rule) == 1, rule
    path.write_text(text.replace(rule, instead), encoding="utf-8")
    said, failed = pytest_in(folder, f"tests/{test}")
    assert failed and re.search(r"^E +(assert|AssertionError|Failed)", said, re.M), said


# A rule of the workers that is no line of SQL: where it stands, what stands there without it, and the
# test that then fails.
WORKERS = [
    (
        "heartbeat.py",
        "self._vouched_until = sent_at + self.lease",
        "self._vouched_until = self.clock.steady() + self.lease",
        "test_a_renewal_counts_from_before_its_request_was_sent_not_from_its_answer",
    ),
    (
        "heartbeat.py",
        "self.clock.steady() >= self._vouched_until",
        "self.clock.steady() > self._vouched_until",
        "test_a_lease_is_believed_in_until_its_end_and_not_at_it",
    ),
    (
        "heartbeat.py",
        'self._lost = self._lost or "the file refused a renewal"',
        "pass",
        "test_a_refused_renewal_proves_that_the_lease_is_lost",
    ),
    (
        "heartbeat.py",
        "return UNKNOWN",
        "return REFUSED",
        "test_an_unknown_renewal_neither_ends_the_lease_nor_prolongs_it",
    ),
    (
        "heartbeat.py",
        "with self._single_flight:",
        "if True:",
        "test_a_beat_is_never_sent_while_another_is_under_way",
    ),
    (
        "heartbeat.py",
        "max(due + self.interval, self.clock.steady())",
        "due + self.interval",
        "test_late_beats_do_not_pile_up",
    ),
    (
        "poller.py",
        "if heartbeat.beat() == REFUSED:",
        "if False:",
        "test_the_lease_is_renewed_before_the_work_begins",
    ),
    (
        "poller.py",
        "            raise LeaseLost(reason)\n        return result",
        "        return result",
        "test_a_request_under_way_may_end_and_its_result_is_dropped_and_said_so",
    ),
    (
        "poller.py",
        "class LeaseLost(BaseException)",
        "class LeaseLost(Exception)",
        "test_work_that_catches_every_exception_does_not_catch_a_lost_lease",
    ),
    (
        "poller.py",
        "with heartbeat:",
        "if True:",
        "test_close_claims_no_more_but_keeps_the_heartbeat_until_the_work_has_ended",
    ),
    (
        "poller.py",
        'while outcome == "revision_conflict" and run["state"] == "active":',
        "for _ in range(1):",
        "test_a_run_that_has_changed_is_read_again_and_worked_on_again",
    ),
    (
        "poller.py",
        "            stop_if_lost(heartbeat)\n            try:",
        "            try:",
        "test_work_does_not_begin_when_the_first_beat_is_unknown_and_the_lease_is_over",
    ),
    (
        "poller.py",
        "claim.generation > self.max_attempts",
        "False",
        "test_the_fourth_claim_fails_the_run_and_the_third_does_not",
    ),
    (
        "log.py",
        "        with self.transaction():\n            line.t = self.clock.now()\n",
        "        line.t = self.clock.now()\n        with self.transaction():\n",
        "test_now_is_read_while_the_file_is_locked",
    ),
    (
        "log.py",
        "if not same:",
        "if False:",
        "test_a_file_that_vanishes_ends_the_worker_with_a_sentence",
    ),
]


@pytest.mark.parametrize("file, rule, instead, test", WORKERS, ids=[case[-1] for case in WORKERS])
def test_a_workers_rule_that_is_taken_away_makes_its_test_fail(file, rule, instead, test, tmp_path):
    fails_without(tmp_path, f"workers/{file}", rule, instead, f"test_workers.py::{test}")


# A rule of the search that is no line of SQL, and a test that then fails.
SEARCH = [
    (
        "machine.py",
        "*(end - 1 for end in ends), ",
        "",
        "test_explore_model.py::test_a_second_model_reaches_just_as_many_states[default]",
    ),
    (
        "machine.py",
        '"commit_run": written < 2',
        '"commit_run": written < 1',
        "test_explore_model.py::test_without_a_rule_both_go_astray_in_the_same_way"
        "[commit_run.revision]",
    ),
    (
        "search.py",
        "there.ways += here.ways",
        "pass",
        "test_explore.py::test_no_schedule_is_shorter_and_so_many_are_equally_short"
        "[side_effect-guards4]",
    ),
    (
        "search.py",
        "turns, aside",
        "aside",
        "test_explore.py::test_of_equally_short_schedules_the_one_that_tells_best_is_shown",
    ),
    (
        "verdict.py",
        "return (not self.property.possible) if self.complete else None",
        "return not self.property.possible",
        "test_explore.py::test_at_the_cap_a_verdict_says_that_it_is_no_proof",
    ),
]


@pytest.mark.parametrize("file, rule, instead, test", SEARCH, ids=[case[1] for case in SEARCH])
def test_a_rule_of_the_search_that_is_taken_away_makes_its_test_fail(
    file, rule, instead, test, tmp_path
):
    fails_without(tmp_path, f"explore/{file}", rule, instead, test)


def test_a_guard_that_no_schedule_misses_is_listed_with_its_reason():
    """So every guard protects something: a property in the matrix, or what its reason says."""
    assert set(Matrix().harmless) == set(BACKED)
    assert all(reason for reason in BACKED.values())


def test_an_unchanged_copy_passes(tmp_path):
    """So what fails above fails because of the guard."""
    copy(tmp_path)
    said, failed = pytest_in(tmp_path, "tests/test_protocol.py", "tests/test_workers.py")
    assert not failed and " passed" in said, said

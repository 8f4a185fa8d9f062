"""The workers: each rule of heartbeat and poller under a clock of the test's own, then for real.

Where a clock is injected nothing waits: time is what the test says it is.
"""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import warnings

import psutil
import pytest

from leaselab import Store
from leaselab.chart import Chart
from leaselab.errors import InputError, StoreError
from leaselab.workers import Clock, Heartbeat, LeaseLost, LoggedStore, Poller, Workers, trace_of
from leaselab.workers.__main__ import main, parser, poller_of
from leaselab.workers.log import FileGone
from leaselab.workers.work import with_result

LEASE = 60


class TestClock(Clock):
    """A clock that stands still until the test moves it; whoever waits is woken by that."""

    __test__ = False

    def __init__(self):
        self.time, self.day = 1_000, 1_000_000_000
        self.moved = threading.Condition()
        self.waiting = []

    def now(self):
        return self.day + self.time

    def steady(self):
        return self.time

    def wait(self, event, milliseconds):
        until = self.time + milliseconds
        with self.moved:
            self.waiting.append(until)
            self.moved.notify_all()
            while self.time < until and not event.is_set():
                self.moved.wait(0.01)
            self.waiting.remove(until)
        return event.is_set()

    def move(self, milliseconds):
        with self.moved:
            self.time += milliseconds
            self.moved.notify_all()

    def somebody_waits(self, until):
        """Until a thread waits for this time: what it had to do before is done."""
        with self.moved:
            assert self.moved.wait_for(lambda: until in self.waiting, 8), self.waiting


@pytest.fixture
def clock():
    return TestClock()


@pytest.fixture
def log(path, clock):
    """The client, on a file with one task."""
    with LoggedStore(path, "client", clock=clock) as log:
        log.enqueue("run-1")
        yield log


def poller(path, clock, work=with_result, name="A", **settings):
    settings = {"lease": LEASE, "interval": 10, "busy_timeout": 20, "clock": clock, **settings}
    return Poller(path, name, work, **settings)


def actions(log, *ignored):
    lines = [json.loads(line) for line in log.lines()]
    return [
        (line["actor"], line["action"])
        for line in lines
        if line["action"] not in ("enqueue", "start", "close", *ignored)
    ]


def heartbeat(clock, *answers, **settings):
    """A heartbeat whose renewals are answered one after the other; an error is raised."""
    answers = list(answers)

    def renew():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Heartbeat(renew, claimed_at=clock.steady(), lease=LEASE, clock=clock, **settings)


# The heartbeat: what may be believed


def test_a_lease_is_believed_in_until_its_end_and_not_at_it(clock):
    heart = heartbeat(clock)
    clock.move(LEASE - 1)
    assert heart.held and heart.reason == ""
    clock.move(1)
    assert not heart.held
    assert heart.reason == "no renewal was confirmed for 60 ms"


def test_a_renewal_counts_from_before_its_request_was_sent_not_from_its_answer(clock):
    def slow():
        clock.move(30)
        return 1

    heart = Heartbeat(slow, claimed_at=clock.steady(), lease=LEASE, clock=clock)
    clock.move(10)
    assert heart.beat() == "renewed"
    clock.move(29)  # 59 after the request was sent, 29 after the answer
    assert heart.held
    clock.move(1)
    assert not heart.held


def test_a_refused_renewal_proves_that_the_lease_is_lost(clock):
    heart = heartbeat(clock, None)
    assert heart.beat() == "refused"
    assert not heart.held
    assert heart.reason == "the file refused a renewal"


def test_an_unknown_renewal_neither_ends_the_lease_nor_prolongs_it(clock):
    told = []
    locked = StoreError("the file is locked")
    heart = heartbeat(clock, locked, 1, tell_unknown=told.append)
    clock.move(20)
    assert heart.beat() == "unknown"
    assert heart.held and told == [locked]
    clock.move(39)
    assert heart.held
    assert heart.beat() == "renewed"
    clock.move(59)
    assert heart.held
    clock.move(1)
    assert not heart.held


def test_a_beat_comes_every_third_of_the_lease_and_never_earlier(clock):
    sent = []
    heart = Heartbeat(
        lambda: sent.append(clock.steady()) or 1, claimed_at=1_000, lease=LEASE, clock=clock
    )
    with heart:
        for beat in (1_020, 1_040, 1_060):
            clock.somebody_waits(beat)
            clock.move(19)
            clock.somebody_waits(beat)
            clock.move(1)
        clock.somebody_waits(1_080)
    assert sent == [1_020, 1_040, 1_060]


def test_a_beat_is_never_sent_while_another_is_under_way(clock):
    under_way, most, go_on = [], [], threading.Event()

    def renew():
        under_way.append(1)
        most.append(len(under_way))
        go_on.wait(20)
        under_way.pop()
        return 1

    heart = Heartbeat(renew, claimed_at=1_000, lease=LEASE, clock=clock)
    threads = [threading.Thread(target=heart.beat) for _ in range(3)]
    for thread in threads:
        thread.start()
    while not most:
        time.sleep(0.001)
    time.sleep(0.05)
    go_on.set()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]


def test_late_beats_do_not_pile_up(clock):
    sent = []

    def renew():
        sent.append(clock.steady())
        if len(sent) == 1:
            clock.move(50)  # two more beats would have been due meanwhile
        return 1

    with Heartbeat(renew, claimed_at=1_000, lease=LEASE, clock=clock):
        clock.somebody_waits(1_020)
        clock.move(20)
        clock.somebody_waits(1_090)
    assert sent == [1_020, 1_070]  # the one that was due at once, and none for the other


def test_the_heartbeat_stops_by_itself_when_the_lease_is_lost(clock):
    with heartbeat(clock, None) as heart:
        clock.somebody_waits(1_020)
        clock.move(20)
        heart._thread.join(20)
        assert not heart._thread.is_alive()
    assert [thread for thread in threading.enumerate() if thread.name == "heartbeat"] == []


@pytest.mark.parametrize("interval", [60, 61])
def test_a_heartbeat_not_below_the_lease_is_refused(clock, interval):
    with pytest.raises(InputError, match=f"a heartbeat every {interval} ms cannot keep a lease"):
        heartbeat(clock, interval=interval)
    assert heartbeat(clock, interval=59).interval == 59


@pytest.mark.parametrize("lease", [0, 2, -1, 1.5, True, "60", None, float("nan")])
def test_a_lease_that_is_none_is_refused(path, lease):
    with pytest.raises(InputError, match="lease must be a whole number of at least 3"):
        Poller(path, "A", with_result, lease=lease)


# The poller


def test_a_round_claims_at_most_one_task_and_does_it_to_the_end(path, clock, log):
    for number in range(2, 4):
        log.enqueue(f"run-{number}")
    worker = poller(path, clock)
    assert worker.round()
    assert [task["state"] for task in log.store.tasks()] == ["done", "pending", "pending"]
    assert actions(log) == [("A", action) for action in ("claim", "renew", "commit_run", "ack")]
    assert log.store.run("run-1")["value"] == '{"1": "A, generation 1"}'
    assert worker.round() and worker.round() and not worker.round()
    worker.close()


def test_the_lease_is_renewed_before_the_work_begins(path, clock, log):
    seen = []
    worker = poller(path, clock, lambda task: seen.extend(actions(log)))
    worker.round()
    assert seen == [("A", "claim"), ("A", "renew")]
    worker.close()


def test_work_does_not_begin_when_the_lease_was_lost_between_claim_and_start(path, clock, log):
    began = []
    worker = poller(path, clock, began.append)
    deliver = worker._deliver

    def deliver_late(claim, claimed_at):
        clock.move(LEASE)
        with Store(path) as other:
            other.claim("B", now=clock.now(), lease=LEASE)
        deliver(claim, claimed_at)

    worker._deliver = deliver_late
    worker.round()
    assert began == []
    assert actions(log) == [("A", "claim"), ("A", "renew")]
    worker.close()


def test_a_start_recovers_only_what_is_there_at_that_moment_and_polling_finds_the_rest(
    path, clock, log
):
    worker = poller(path, clock)
    worker.recover()
    log.enqueue("run-2")
    assert [task["state"] for task in log.store.tasks()] == ["done", "pending"]
    with worker:
        clock.somebody_waits(clock.time + 10)
        clock.move(10)
        clock.somebody_waits(clock.time + 10)
        assert [task["state"] for task in log.store.tasks()] == ["done", "done"]


def test_no_round_comes_before_its_interval(path, clock, log):
    with poller(path, clock):
        clock.somebody_waits(1_010)
        log.enqueue("run-2")
        clock.move(9)
        clock.somebody_waits(1_010)
        assert log.store.task(2)["state"] == "pending"


def test_losing_the_lease_ends_the_work_at_its_next_step_and_the_worker_polls_on(path, clock, log):
    calls = []

    def work(task):
        task.step(calls.append, "first")
        if task.claim.generation == 1:
            clock.move(LEASE)  # the heartbeat's thread is late, and the claim runs out
            task.step(calls.append, "never")
        return with_result(task)

    worker = poller(path, clock, work)
    assert worker.round()
    assert calls == ["first"]
    assert actions(log)[-1] == ("A", "lease_lost")
    assert log.store.run("run-1")["value"] is None
    assert worker.round()
    assert log.store.run("run-1")["value"] == '{"1": "A, generation 2"}'
    worker.close()


def test_a_request_under_way_may_end_and_its_result_is_dropped_and_said_so(path, clock, log):
    ended = []

    def request():
        clock.move(LEASE)
        ended.append(True)

    worker = poller(path, clock, lambda task: task.step(request) or "never")
    worker.round()
    assert ended == [True]
    assert actions(log, "renew") == [("A", "claim"), ("A", "drop"), ("A", "lease_lost")]
    assert log.store.run("run-1")["value"] is None
    worker.close()


def test_work_that_catches_every_exception_does_not_catch_a_lost_lease(path, clock, log):
    def stubborn(task):
        clock.move(LEASE)
        try:
            task.step(print)
        except Exception:
            pass
        return "never"

    worker = poller(path, clock, stubborn)
    worker.round()
    assert actions(log)[-1] == ("A", "lease_lost")
    assert not issubclass(LeaseLost, Exception)
    worker.close()


def test_the_file_refuses_a_result_whatever_the_worker_believes(path, clock, log):
    def blind(task):
        with Store(path) as other:
            other.claim("B", now=clock.now() + LEASE, lease=LEASE)
        return "a result that must not stand"

    worker = poller(path, clock, blind)
    worker.round()
    assert actions(log, "renew") == [("A", "claim"), ("A", "commit_run")]
    assert json.loads(log.lines()[-1])["returned"] == "lease_lost"
    assert log.store.run("run-1")["value"] is None
    assert log.store.task(1)["lease_owner"] == "B"
    worker.close()


def test_a_run_that_has_changed_is_read_again_and_worked_on_again(path, clock, log):
    seen = []

    def work(task):
        seen.append((task.run["revision"], task.run["value"]))
        if len(seen) == 1:
            with sqlite3.connect(path) as somebody:
                somebody.execute("UPDATE runs SET value = 'theirs', revision = revision + 1")
            somebody.close()
        return f"{task.run['value']} and mine"

    worker = poller(path, clock, work)
    worker.round()
    assert seen == [(0, None), (1, "theirs")]
    assert log.store.run("run-1")["value"] == "theirs and mine"
    worker.close()


def test_a_result_that_stands_already_is_not_written_twice(path, clock, log):
    """A worker that died between its write and its ack: the next one only tidies up."""
    worker = poller(path, clock)
    claim = worker._store.claim(LEASE)
    worker._store.commit_run(claim, '{"1": "A, generation 1"}', revision=0)
    clock.move(LEASE)
    assert worker.round()
    assert log.store.task(1) | {"created_at": 0, "available_at": 0} == {
        **{"id": 1, "run_id": "run-1", "state": "done", "generation": 2, "lease_owner": None},
        **{"lease_until": None, "available_at": 0, "created_at": 0},
    }
    assert log.store.run("run-1")["revision"] == 1
    worker.close()


def test_the_fourth_claim_fails_the_run_and_the_third_does_not(path, clock, log):
    began = []

    def dies(task):
        began.append(task.claim.generation)
        clock.move(LEASE)
        task.step(print)

    worker = poller(path, clock, dies)
    for _ in range(3):
        assert worker.round()
    assert log.store.run("run-1")["state"] == "active"
    assert worker.round()
    assert began == [1, 2, 3]
    assert log.store.run("run-1")["failure"] == "task_attempts_exhausted"
    assert log.store.task(1)["state"] == "failed"
    assert not worker.round()
    worker.close()


def test_a_claim_too_many_on_a_run_that_has_failed_already_does_not_go_round_for_ever(
    path, clock, log
):
    """Another task has failed the run: there is nothing left to fail, and the task is tidied."""
    worker = poller(path, clock, lambda task: clock.move(LEASE) or task.step(print))
    for _ in range(3):
        worker.round()
    with sqlite3.connect(path) as somebody:
        somebody.execute("UPDATE runs SET state = 'failed', failure = 'by another task'")
    somebody.close()
    assert worker.round()
    assert (log.store.task(1)["state"], log.store.task(1)["generation"]) == ("done", 4)
    clock.move(LEASE)
    assert not worker.round()
    worker.close()


def test_work_that_fails_gives_its_task_back_for_later(path, clock, log):
    def fails(task):
        raise ValueError("no such thing")

    worker = poller(path, clock, fails)
    assert worker.round()
    assert actions(log, "renew") == [("A", "claim"), ("A", "fail"), ("A", "release")]
    assert not worker.round()  # not before the interval has passed
    clock.move(10)
    assert worker.round()
    worker.close()


def test_a_task_of_a_run_that_has_failed_is_tidied_away(path, clock, log):
    with sqlite3.connect(path) as somebody:
        somebody.execute("UPDATE runs SET state = 'failed', failure = 'by hand'")
    somebody.close()
    worker = poller(path, clock, lambda task: pytest.fail("there is nothing to do"))
    assert worker.round()
    assert log.store.task(1)["state"] == "done"
    worker.close()


def test_work_does_not_begin_when_the_first_beat_is_unknown_and_the_lease_is_over(path, clock, log):
    began, said = [], []
    worker = poller(path, clock, began.append, complain=said.append)

    def no_answer(claim, lease):
        clock.move(LEASE)
        raise StoreError("no answer")

    worker._beats.renew = no_answer
    worker.round()
    assert began == [] and said == ["A's renewal is unknown: no answer"]
    assert actions(log) == [("A", "claim"), ("A", "lease_lost")]
    worker.close()


def test_a_dropped_result_is_never_committed_after_all(path, clock, log):
    """A beat that comes late cannot bring a belief back that has ended."""
    heart = heartbeat(clock, 1)
    clock.move(LEASE)
    assert not heart.held
    assert heart.beat() == "renewed"
    assert not heart.held


@pytest.mark.parametrize(
    "result", [7, {"a": 1}, "\ud800", b"bytes"], ids=["number", "dict", "no text", "bytes"]
)
def test_a_result_that_cannot_be_written_is_failed_work_and_the_worker_goes_on(
    path, clock, log, result
):
    said = []
    worker = poller(path, clock, lambda task: result, complain=said.append)
    assert worker.round()
    assert actions(log, "renew") == [("A", "claim"), ("A", "fail"), ("A", "release")]
    assert len(said) == 1 and "A's work on task 1 failed" in said[0]
    worker.close()


def test_work_that_ends_the_interpreter_gives_its_task_back_first(path, clock, log):
    def leaves(task):
        sys.exit(3)

    worker = poller(path, clock, leaves, complain=lambda sentence: None)
    with pytest.raises(SystemExit):
        worker.run()
    assert actions(log)[-1] == ("A", "release")
    assert isinstance(worker.error, SystemExit)
    worker.close()


def test_nobody_who_hears_the_complaints_or_reads_the_lines_is_no_reason_to_stop(path, clock, log):
    def broken(text):
        raise BrokenPipeError

    def fails(task):
        if task.claim.generation == 1:
            raise ValueError
        return with_result(task)

    worker = poller(path, clock, fails, complain=broken, tell=broken)
    worker.round()
    clock.move(10)
    assert worker.round()
    assert log.store.task(1)["state"] == "done"
    worker.close()


# Closing


class WorkThatWaits:
    """Says when it has begun, and goes on when it may."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, task):
        self.begun.set()
        self.go_on.wait(20)
        return with_result(task)


def test_close_claims_no_more_but_keeps_the_heartbeat_until_the_work_has_ended(path, clock, log):
    work = WorkThatWaits()
    log.enqueue("run-2")
    worker = poller(path, clock, work)
    with worker:
        work.begun.wait(20)
        worker.stop()
        for _ in range(4):  # longer than the lease
            clock.somebody_waits(clock.time + 20)
            clock.move(20)
        clock.somebody_waits(clock.time + 20)
        work.go_on.set()
    assert actions(log, "renew") == [("A", "claim"), ("A", "commit_run"), ("A", "ack")]
    assert actions(log).count(("A", "renew")) == 5
    assert log.store.task(2)["state"] == "pending"


def test_close_leaves_no_thread_no_handle_and_no_name_behind(path, clock):
    threads, files = threading.active_count(), len(psutil.Process().open_files())
    with poller(path, clock):
        clock.somebody_waits(1_010)
        assert threading.active_count() == threads + 1
    assert threading.active_count() == threads
    assert len(psutil.Process().open_files()) == files
    worker = poller(path, clock)  # the name is free again
    worker.close()
    worker.close()


def test_close_waits_for_a_run_in_another_thread(path, clock, log):
    work = WorkThatWaits()
    worker = poller(path, clock, work)
    running = threading.Thread(target=worker.run)
    running.start()
    work.begun.wait(20)
    closing = threading.Thread(target=worker.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    work.go_on.set()
    closing.join(20)
    running.join(20)
    assert log.store.task(1)["state"] == "done" and worker.error is None


def test_close_called_by_the_work_only_stops(path, clock, log):
    log.enqueue("run-2")
    worker = poller(path, clock, lambda task: worker.close() or with_result(task))
    worker.recover()
    assert [task["state"] for task in log.store.tasks()] == ["done", "pending"]
    worker.close()


# The log


def test_a_line_and_its_change_come_together_or_not_at_all(path, clock, log):
    def disk_full(text):
        raise sqlite3.OperationalError("database or disk is full")

    with LoggedStore(path, "A", clock=clock) as worker:
        worker._write = disk_full
        with pytest.raises(sqlite3.OperationalError):
            worker.claim(LEASE)
    assert log.store.task(1)["state"] == "pending"
    assert actions(log) == []


def test_now_is_read_while_the_file_is_locked(path, clock, log):
    """So a claim that had to wait for the file does not carry an old time."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    ended = []

    def claim():
        with LoggedStore(path, "A", clock=clock) as worker:
            ended.append(worker.claim(LEASE))

    thread = threading.Thread(target=claim)
    thread.start()
    time.sleep(0.2)
    clock.move(500)
    other.execute("COMMIT")
    other.close()
    thread.join()
    assert ended[0].lease_until == clock.now() + LEASE


def test_the_log_is_a_trace_with_its_chart_its_table_and_its_sentences(path, clock, log):
    clock.move(10)
    poller(path, clock).close()
    with LoggedStore(path, "A", clock=clock) as a, LoggedStore(path, "B", clock=clock) as b:
        claim = a.claim(LEASE)
        clock.move(20)
        a.renew(claim, LEASE)
        clock.move(LEASE)
        b.claim(LEASE)
        a.commit_run(claim, "late", revision=0)
        b.note("crash", 1)
    trace = trace_of(log.lines())
    assert trace.workers == ("A", "B")
    assert trace.lines == [
        "t=0: the client enqueues task 1: accepted, not yet done.",
        "t=10: A closes: it claims no more.",
        "t=10: A claims task 1: generation 1, lease [10, 70).",
        "t=30: A renews generation 1: the lease now ends at 90.",
        "t=90: B takes over: generation 2, lease [90, 150).",
        "t=90: A's write to run-1 is refused (lease_lost): the row's owner is B, sent gen 1, "
        "row has gen 2.",
        "t=90: B crashes: the row still says running, generation 2, lease to 150.",
    ]
    assert trace.tasks == (
        {**log.store.task(1), "created_at": 0, "available_at": 0, "lease_until": 150},
    )
    assert Chart(trace).png().startswith(b"\x89PNG")
    assert trace_of([]).lines == []


def test_a_clock_that_is_set_back_is_told_and_loses_nothing(path, clock, log):
    with LoggedStore(path, "A", clock=clock) as a, LoggedStore(path, "B", clock=clock) as b:
        claim = a.claim(LEASE)
        clock.day -= 3_600_000
        assert a.renew(claim, LEASE) == claim.lease_until  # never shorter
        assert b.claim(LEASE) is None
        assert a.commit_run(claim, "x", revision=0) == "committed"
    assert ("A", "clock_back") in actions(log)
    trace = trace_of(log.lines())
    assert [event.t for event in trace.events] == sorted(event.t for event in trace.events)
    assert "A's clock was set back by 3600000 ms" in "\n".join(trace.lines)


def test_when_a_clock_was_set_back_the_picture_goes_on_and_leases_end_later(path, clock, log):
    with LoggedStore(path, "A", clock=clock) as a, LoggedStore(path, "B", clock=clock) as b:
        claim = a.claim(LEASE)
        clock.day -= 1_000
        a.renew(claim, LEASE)
        clock.move(10)
        log.enqueue("run-2")
        b.claim(LEASE)
    trace = trace_of(log.lines())
    assert [line for line in trace.lines if "clock" not in line][1:] == [
        "t=0: A claims task 1: generation 1, lease [0, 60).",
        "t=0: A renews generation 1: the lease now ends at 1060.",
        "t=10: the client enqueues task 2: accepted, not yet done.",
        "t=10: B claims task 2: generation 1, lease [10, 70).",
    ]
    assert [(lease.start, lease.end) for lease in trace.leases] == [(0, 1060), (10, 70)]


# What goes wrong


def test_a_lease_shorter_than_three_busy_timeouts_warns_and_another_does_not(path):
    with pytest.warns(UserWarning, match="shorter than three busy timeouts of 21 ms"):
        Poller(path, "A", with_result, lease=60, busy_timeout=21).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Poller(path, "A", with_result, lease=60, busy_timeout=20).close()
        Poller(path, "A", with_result).close()  # the code's own defaults


def test_two_workers_alive_never_have_one_name(path, clock):
    first = poller(path, clock)
    with pytest.raises(InputError, match=f"'A' works on .* already .process {os.getpid()}"):
        poller(path, clock)
    poller(path, clock, name="B").close()
    first.close()
    poller(path, clock).close()


@pytest.mark.parametrize("name", ["", None, "client", "service", 7])
def test_a_worker_needs_a_name_of_its_own(path, name):
    with pytest.raises(InputError, match="a worker's name must be a text"):
        Poller(path, name, with_result)


@pytest.mark.parametrize("name", ["<script>", "Robert'); DROP TABLE tasks;--", "工人甲"])
def test_odd_names_are_names(path, clock, log, name):
    with LoggedStore(path, name, clock=clock) as worker:
        worker.claim(LEASE)
    assert log.store.task(1)["lease_owner"] == name
    assert Chart(trace_of(log.lines())).png()


def test_a_file_that_vanishes_ends_the_worker_with_a_sentence(path, clock, log):
    said = []
    worker = poller(path, clock, complain=said.append)
    for file in path.parent.glob("lab.sqlite*"):
        file.unlink()
    with worker:
        worker._thread.join(20)
    assert isinstance(worker.error, FileGone)
    assert said == [
        f"{path} is gone, or another file lies in its place; start again on the right file."
    ]
    assert not path.exists()


def test_a_locked_file_costs_a_round_and_no_more(path, clock, log):
    said = []
    worker = poller(path, clock, complain=said.append)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert not worker.recover()
    assert said == [said[0]] * 2  # the line that says it starts, and one round
    assert "is locked by another program for 0.02 seconds now" in said[0]
    other.execute("COMMIT")
    other.close()
    assert worker.recover()
    assert log.store.task(1)["state"] == "done"
    worker.close()


def room(worker, pages=2**30):
    """How large the file may become."""
    for store in worker._stores:
        store.store.fetch(f"PRAGMA max_page_count = {pages}")


def test_a_disk_that_fills_up_during_the_work_loses_nothing_when_there_is_room_again(
    path, clock, log
):
    said = []

    def fills_the_disk(task):
        room(worker, worker._store.store.fetch("PRAGMA page_count")[0][0])
        return "x" * 100_000

    worker = poller(path, clock, fills_the_disk, complain=said.append)
    with worker:
        clock.somebody_waits(1_020)  # the heartbeat, and the commit that failed
        while not said:
            time.sleep(0.001)
        assert log.store.task(1)["state"] == "running"
        room(worker)
        clock.move(20)
        clock.somebody_waits(1_030)  # the next round
    assert "A's write is unknown: the disk of" in said[0] and "nothing was changed" in said[0]
    assert log.store.run("run-1")["value"] == "x" * 100_000
    assert log.store.task(1)["state"] == "done"


def test_a_commit_that_came_through_although_its_answer_was_lost_is_not_made_twice(
    path, clock, log
):
    worker = poller(path, clock, complain=lambda sentence: clock.move(1))
    commit_run = worker._store.commit_run

    def answer_lost(*sent, **more):
        worker._store.commit_run = commit_run
        commit_run(*sent, **more)
        clock.wait = lambda event, milliseconds: False
        raise StoreError("the answer is lost")

    worker._store.commit_run = answer_lost
    worker.round()
    returned = [json.loads(line)["returned"] for line in log.lines()]
    assert returned.count("committed") == returned.count("revision_conflict") == 1
    assert log.store.run("run-1")["revision"] == 1
    assert log.store.task(1)["state"] == "done"
    worker.close()


# Real processes


@pytest.fixture
def workers():
    with Workers(lease=900) as workers:
        yield workers


def test_a_killed_worker_is_followed_by_another_and_its_work_is_done_once(workers):
    workers.start("A", "--seconds", "30")
    workers.enqueue()
    workers.wait("A", "renew")
    workers.kill("A")
    workers.start("B", "--seconds", "0.1")
    workers.wait("B", "ack")
    assert workers.tasks()[0]["generation"] == 2
    assert workers.runs()[0]["value"] == '{"1": "B, generation 2"}'


def test_a_suspended_worker_that_comes_back_writes_nothing(workers):
    workers.start("A", "--work", "leaselab.workers.work:in_one_piece", "--seconds", "2")
    workers.enqueue()
    workers.wait("A", "renew", times=2)  # it is at work
    workers.suspend("A")
    workers.start("B", "--seconds", "0.1")
    workers.wait("B", "ack")
    workers.resume("A")
    workers.wait("A", "commit_run", returned="lease_lost")
    assert workers.runs()[0]["value"] == '{"1": "B, generation 2"}'
    workers.close("A")  # it is alive, and has gone on polling


def test_a_suspended_worker_whose_work_has_steps_does_not_even_ask(workers):
    workers.start("A", "--seconds", "2")
    workers.enqueue()
    workers.wait("A", "renew")
    workers.suspend("A")
    time.sleep(1)
    workers.resume("A")
    workers.wait("A", "lease_lost")
    assert ("A", "commit_run") not in [
        (event.actor, event.action)
        for event in workers.trace.events
        if event.sent.get("generation") == 1
    ]


def test_a_worker_that_is_closed_ends_its_work_first(workers):
    workers.start("A", "--seconds", "1.5")
    workers.enqueue("run-1")
    workers.enqueue("run-2")
    workers.wait("A", "renew")
    workers.close("A")
    states = [task["state"] for task in workers.tasks()]
    assert states == ["done", "pending"]
    assert workers.trace.events[-1].action == "close"


def test_closing_the_workers_leaves_no_process_and_no_folder(workers):
    workers.start("A")
    workers.start("B")
    workers.suspend("B")
    processes = list(workers.processes.values())
    workers.end()
    assert not any(process.is_running() for process in processes)
    assert not workers.folder.exists()


@pytest.mark.parametrize("asleep", [False, True], ids=["awake", "suspended"])
def test_a_worker_ends_when_whoever_started_it_is_gone(asleep, tmp_path):
    code = (
        "import time; from leaselab.workers import Workers; workers = Workers(); "
        f"workers.start('A'); {asleep} and workers.suspend('A'); "
        "print(workers.processes['A'].pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,  # as a notebook's kernel is started
    )
    worker = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    worker.wait(20)


def test_the_second_worker_of_a_name_is_refused_by_its_process_too(workers):
    workers.start("A")
    with pytest.raises(InputError, match="A works already"):
        workers.start("A")
    with Workers(lease=900) as others:
        others.path = workers.path
        with pytest.raises(InputError, match="has not started: leaselab: a worker called 'A'"):
            others.start("A")


def test_what_is_done_to_a_worker_that_does_not_live_is_refused(workers):
    for call in (workers.kill, workers.suspend, workers.resume, workers.close):
        with pytest.raises(InputError, match="A does not work; start it first"):
            call("A")


def test_a_real_worker_never_holds_two_tasks_and_never_beats_too_often(workers):
    for number in (1, 2):
        workers.enqueue(f"run-{number}")
    workers.start("A", "--work", "leaselab.workers.work:in_one_piece", "--seconds", "1")
    workers.wait("A", "ack", times=2)
    lines = [event for event in workers.trace.events if event.actor == "A"]
    said = [event.action for event in lines if event.action in ("claim", "ack")]
    assert said == ["claim", "ack", "claim", "ack"]
    for task_id in (1, 2):
        begun, *_, ended = [event.t for event in lines if event.task_id == task_id]
        beats = [event for event in lines if (event.task_id, event.action) == (task_id, "renew")]
        # One at the start, and one for each third of the lease that has passed.
        assert 2 <= len(beats) <= 1 + (ended - begun) // 300


def test_a_real_worker_whose_beat_meets_a_locked_file_goes_on_and_keeps_its_task():
    with Workers(lease=3000) as workers:
        workers.start("A", "--work", "leaselab.workers.work:in_one_piece", "--seconds", "2.5")
        workers.enqueue()
        workers.wait("A", "renew")
        complaints = next(workers.folder.glob("*.txt"))
        somebody = sqlite3.connect(workers.path, isolation_level=None, timeout=15)
        somebody.execute("BEGIN IMMEDIATE")
        workers._wait(lambda: "renewal is unknown" in complaints.read_text(), "a beat to fail")
        somebody.execute("ROLLBACK")
        somebody.close()
        workers.wait("A", "commit_run", returned="committed")
        assert workers.runs()[0]["value"] == '{"1": "A, generation 1"}'


def test_a_suspended_worker_is_not_asked_to_close(workers):
    workers.start("A")
    workers.suspend("A")
    with pytest.raises(InputError, match="A is suspended and cannot close; resume it first"):
        workers.close("A")
    workers.resume("A")
    workers.close("A")


# The command line


def test_every_option_reaches_the_worker(path):
    options = ["--db", str(path), "--name", "A", "--lease", "900", "--heartbeat", "200"]
    options += ["--interval", "70", "--max-attempts", "5", "--synchronous", "NORMAL"]
    options += ["--busy-timeout", "250", "--seconds", "2", "--work", "time:sleep"]
    worker = poller_of(parser().parse_args(options))
    assert (worker.lease, worker.heartbeat, worker.interval) == (900, 200, 70)
    assert (worker.max_attempts, worker.work.keywords) == (5, {"seconds": 2})
    for store in worker._stores:
        assert (store.store.synchronous, store.store.busy_timeout) == ("NORMAL", 250)
    worker.close()


def test_the_defaults_are_those_of_the_article(path):
    worker = poller_of(parser().parse_args(["--db", str(path), "--name", "A"]))
    assert (worker.lease, worker.heartbeat, worker.interval) == (60_000, 20_000, 1_000)
    assert worker.max_attempts == 3
    worker.close()


@pytest.mark.parametrize(
    "options, sentence",
    [
        (["--name", ""], "a worker's name must be a text that is not empty"),
        (["--name", "A", "--lease", "0"], "lease must be a whole number of at least 3, not 0"),
        (["--name", "A", "--heartbeat", "60000"], "cannot keep a lease of 60000 ms"),
        (["--name", "A", "--work", "nothing"], "the work 'nothing' cannot be found"),
        (["--name", "A", "--work", "json:nothing"], "the work 'json:nothing' cannot be found"),
        (["--name", "A", "--work", "json:__doc__"], "the work 'json:__doc__' is no function"),
        (["--name", "A", "--max-attempts", "0"], "max_attempts must be a whole number"),
    ],
)
def test_a_wrong_option_ends_in_one_sentence(path, capsys, options, sentence):
    assert main(["--db", str(path), *options]) == 1
    said = capsys.readouterr().err
    assert said.startswith("leaselab: ") and sentence in said and said.count("\n") == 1


def test_a_folder_for_a_file_ends_in_one_sentence(tmp_path, capsys):
    assert main(["--db", str(tmp_path), "--name", "A"]) == 1
    assert "is a folder; give the path of a file in it." in capsys.readouterr().err


def test_once_does_what_is_there_prints_its_lines_and_ends(path):
    with Store(path) as store:
        now = Clock().now()
        store.enqueue("run-1", now=now)
        store.enqueue("run-2", now=now, available_at=now + 3_600_000)
    command = [sys.executable, "-m", "leaselab.workers", "--db", str(path), "--name", "A"]
    run = subprocess.run(
        [*command, "--once", "--seconds", "0.1"], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")
    said = [event.action for event in trace_of(run.stdout.splitlines()).events]
    assert said[:3] == ["start", "claim", "renew"] and said[-3:] == ["commit_run", "ack", "close"]
    with Store(path) as store:
        assert [task["state"] for task in store.tasks()] == ["done", "pending"]


def test_once_ends_with_1_when_a_result_could_not_be_written(path, tmp_path):
    with Store(path) as store:
        store.enqueue("run-1", now=Clock().now())
    locks = (
        "import sqlite3",
        f"somebody = sqlite3.connect({str(path)!r}, check_same_thread=False)",
        "def work(task): return somebody.execute('BEGIN IMMEDIATE') and 'never written'",
    )
    (tmp_path / "rude.py").write_text("\n".join(locks), encoding="utf-8")
    command = [sys.executable, "-m", "leaselab.workers", "--db", str(path), "--name", "A"]
    command += ["--once", "--work", "rude:work", "--lease", "300", "--busy-timeout", "50"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert f"\nleaselab: {path} is locked by another program" in run.stderr
    assert all(line.startswith("leaselab: ") for line in run.stderr.splitlines()), run.stderr
    assert run.returncode == 1
    with Store(path) as store:
        assert store.run("run-1")["value"] is None


def test_a_worker_that_is_told_to_terminate_closes(path):
    command = [sys.executable, "-m", "leaselab.workers", "--db", str(path), "--name", "A"]
    worker = psutil.Popen([*command, "--seconds", "0.1"], stdout=subprocess.PIPE, text=True)
    assert json.loads(worker.stdout.readline())["action"] == "start"
    worker.terminate()
    assert worker.wait(20) == 0
    assert json.loads(worker.stdout.read())["action"] == "close"
    worker.stdout.close()

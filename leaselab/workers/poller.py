"""The poller: looks for tasks, does their work under a heartbeat, and writes what came of it."""

import os
import sys
import threading
import warnings

import psutil

from leaselab.errors import InputError, StoreError, whole_number
from leaselab.store import BUSY_TIMEOUT
from leaselab.workers.clock import Clock
from leaselab.workers.heartbeat import REFUSED, Heartbeat, lease_and_interval
from leaselab.workers.log import FileGone, LoggedStore

LEASE = 60_000
INTERVAL = 1_000
MAX_ATTEMPTS = 3
NAMES = (
    "CREATE TABLE IF NOT EXISTS workers "
    "(name TEXT PRIMARY KEY, process INTEGER NOT NULL, started REAL NOT NULL) STRICT"
)


def on_stderr(sentence):
    """Say on the standard error what went wrong."""
    print(f"leaselab: {sentence}", file=sys.stderr, flush=True)


class LeaseLost(BaseException):
    """The lease is no longer believed in: the work ends at this step.

    It is an ordinary outcome, which the poller catches. It is no ``Exception``, so that work which
    catches everything does not catch this.
    """


class Task:
    """What the work is given.

    Attributes:
        claim: the ``Claim``.
        run: the run as the file has it, a dict with ``revision`` and ``value``.
    """

    def __init__(self, claim, run, heartbeat, tell_dropped):
        self.claim = claim
        self.run = run
        self._heartbeat = heartbeat
        self._tell_dropped = tell_dropped

    def step(self, call, *arguments):
        """One step of the work: a call, such as a request to a service. Returns what it returns.

        Raises:
            LeaseLost: the lease was lost before the call, which is then not made, or during it:
                then the call was allowed to end, and its result is dropped.
        """
        stop_if_lost(self._heartbeat)
        result = call(*arguments)
        if reason := self._heartbeat.reason:
            self._tell_dropped(reason)
            raise LeaseLost(reason)
        return result


def stop_if_lost(heartbeat):
    """Raise ``LeaseLost`` if the lease may not be believed in any more."""
    if reason := heartbeat.reason:
        raise LeaseLost(reason)


class Poller:
    """Looks for tasks and does them, one at a time.

    What a process finds when it starts is only what is there at that moment. Tasks that are written
    down or given back later, and leases that end later, need somebody who keeps looking.

    Args:
        path: the SQLite file.
        name: the worker's name; no two that are alive may share one on one file.
        work: a function that is given a ``Task`` and returns the run's new value, or None if the
            run has this task's result already. It may be called again, if the run has changed.
        lease, heartbeat, interval: milliseconds; the heartbeat is a third of the lease by default.
            In each round, ``interval`` apart, at most one task is claimed.
        max_attempts: a claim beyond it marks the run as failed.
        clock: a ``Clock``. ``tell``: is called with each line of the log. ``complain``: with each
            sentence about what went wrong.
        protocol, synchronous, busy_timeout: as for ``Store``.

    A context manager: polls in a thread of its own until the block has ended.
    """

    def __init__(
        self,
        path,
        name,
        work,
        *,
        lease=LEASE,
        heartbeat=None,
        interval=INTERVAL,
        max_attempts=MAX_ATTEMPTS,
        clock=None,
        tell=None,
        complain=on_stderr,
        protocol=None,
        synchronous="FULL",
        busy_timeout=BUSY_TIMEOUT,
    ):
        if not isinstance(name, str) or not name or name in ("client", "service"):
            raise InputError(
                f"a worker's name must be a text that is not empty, and neither client nor "
                f"service, not {name!r}."
            )
        self.name, self.work = name, work
        self.lease, self.heartbeat = lease_and_interval(lease, heartbeat)
        self.interval = whole_number("interval", interval, at_least=1)
        self.max_attempts = whole_number("max_attempts", max_attempts, at_least=1)
        self.clock = clock or Clock()
        self._say = complain
        self.error = None
        if self.lease < 3 * whole_number("busy_timeout", busy_timeout):
            warnings.warn(
                f"a lease of {lease} ms is shorter than three busy timeouts of {busy_timeout} ms: "
                "a beat that waits for a locked file may come too late; take a longer lease, or a "
                f"busy timeout of {lease // 3} ms.",
                stacklevel=2,
            )
        settings = {
            "clock": self.clock,
            "tell": tell and (lambda line: _unless_it_fails(tell, line)),
            "protocol": protocol,
            "synchronous": synchronous,
            "busy_timeout": busy_timeout,
        }
        self._closing = threading.Event()
        self._thread = self._at_work = None
        self._busy = threading.Lock()
        self._stores = []
        try:
            # The heartbeat has a connection of its own: it never waits for the work's.
            for _ in range(2):
                self._stores.append(LoggedStore(path, name, **settings))
            self._store, self._beats = self._stores
            self._take_name()
        except BaseException:
            self._close_stores()
            raise

    def round(self):
        """One round: claim at most one task, and do its work to the end. Returns whether it did."""
        with self._busy:
            self._at_work = threading.get_ident()
            try:
                return self._round()
            finally:
                self._at_work = None

    def recover(self):
        """What a start does: round after round, until there is nothing to claim at this moment.

        Returns False if the file made a round fail, which ends it, too; else True.
        """
        self._attempt(lambda: self._store.note("start"))
        did = True
        while did and not self._closing.is_set():
            did = self._attempt(self.round)
        return did is not None

    def run(self):
        """Recover, then poll, until ``close`` is called or the file is gone.

        ``error`` is then what ended it, or None.
        """
        try:
            self.recover()
            while self.error is None and not self.clock.wait(self._closing, self.interval):
                self._attempt(self.round)
        except BaseException as error:
            self.error = error
            raise

    def stop(self):
        """Claim no more; work that is under way goes on. Returns at once."""
        self._closing.set()

    def close(self):
        """Claim no more, wait for the work under way with its heartbeat, leave nothing behind.

        Called by the work itself it is ``stop``: nobody can wait for himself.
        """
        self.stop()
        if self._at_work == threading.get_ident():
            return
        if self._thread:
            self._thread.join()
        with self._busy:
            if self._stores and not isinstance(self.error, FileGone):
                self._attempt(lambda: self._store.note("close"))
                self._attempt(self._give_name_back)
            self._close_stores()

    def complain(self, sentence):
        """Say what went wrong; if nobody can hear it, the work goes on all the same."""
        _unless_it_fails(self._say, sentence)

    def __enter__(self):
        self._thread = threading.Thread(target=self.run, name=f"poller {self.name}")
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.close()

    def _attempt(self, call):
        """Try to do something with the file. Returns what the call returns, None if it failed."""
        try:
            return call()
        except FileGone as error:
            self.error = error
            self._closing.set()
            self.complain(str(error))
        except StoreError as error:  # the next round tries again
            self.complain(str(error))
        return None

    def _round(self):
        claimed_at = self.clock.steady()
        with self._store.transaction():  # a claim too many is never seen without its failure
            claim = self._store.claim(self.lease)
            if claim and claim.generation > self.max_attempts:
                # Nobody can come between, so a refusal says that the run has ended already.
                if not self._store.exhaust(claim, self.max_attempts):
                    self._store.ack(claim)
                return True
        if claim:
            self._deliver(claim, claimed_at)
        return claim is not None

    def _deliver(self, claim, claimed_at):
        """Do the work of a claim, under a heartbeat; every way in which it may end is ordinary."""
        heartbeat = Heartbeat(
            lambda: self._beats.renew(claim, self.lease),
            claimed_at=claimed_at,
            lease=self.lease,
            interval=self.heartbeat,
            clock=self.clock,
            tell_unknown=lambda error: self.complain(f"{self.name}'s renewal is unknown: {error}"),
        )
        run = self._store.store.run(claim.run_id)
        # The task may have waited since it was claimed: a beat before the work begins.
        if heartbeat.beat() == REFUSED:
            return
        try:
            with heartbeat:
                self._do(claim, run, heartbeat)
        except LeaseLost as lost:
            self._store.note(
                "lease_lost", claim.task_id, generation=claim.generation, why=str(lost)
            )

    def _do(self, claim, run, heartbeat):
        """The work, its result, the tidying up."""
        outcome = "revision_conflict"
        while outcome == "revision_conflict" and run["state"] == "active":
            stop_if_lost(heartbeat)
            try:
                value = self._work(claim, run, heartbeat)
            except LeaseLost:
                raise
            except BaseException as error:
                self._give_back(claim, error)
                if not isinstance(error, Exception):
                    raise
                return
            if value is None:
                break
            outcome = self._insist(
                lambda: self._store.commit_run(claim, value, revision=run["revision"]), heartbeat
            )
            if outcome == "revision_conflict":  # the run has changed: read it again, work again
                run = self._store.store.run(claim.run_id)
        if outcome != "lease_lost":
            self._insist(lambda: self._store.ack(claim), heartbeat)

    def _work(self, claim, run, heartbeat):
        def tell_dropped(why):
            sent = {"generation": claim.generation, "why": why}
            self._attempt(lambda: self._store.note("drop", claim.task_id, **sent))

        value = self.work(Task(claim, run, heartbeat, tell_dropped))
        if value is not None and not isinstance(value, str):
            raise InputError(f"work returns a text or None, not {value!r}.")
        (value or "").encode()  # what cannot be written down is found out here
        return value

    def _give_back(self, claim, error):
        """Work has failed: the task is for somebody else, later."""
        said = f"{type(error).__name__}: {error}"
        self.complain(f"{self.name}'s work on task {claim.task_id} failed: {said}")
        sent = {"generation": claim.generation, "why": said}
        self._attempt(lambda: self._store.note("fail", claim.task_id, **sent))
        self._attempt(lambda: self._store.release(claim, delay=self.interval))

    def _insist(self, write, heartbeat):
        """Write; if that fails, try again as long as the lease may be believed in.

        What failed may have come through. Then the second try is refused, and nothing is lost: a
        commit is a revision conflict, and the work finds its result in the run.
        """
        while True:
            try:
                return write()
            except FileGone:
                raise
            except StoreError as error:
                if not heartbeat.held:
                    raise
                self.complain(f"{self.name}'s write is unknown: {error}")
            self.clock.wait(threading.Event(), self.heartbeat)

    def _take_name(self):
        """Write down which process has this name; refuse it if another one lives under it."""
        store = self._store.store
        store.fetch(NAMES)
        with store.transaction():
            for row in store.fetch("SELECT * FROM workers WHERE name = ?", (self.name,)):
                if _lives(row["process"], row["started"]):
                    raise InputError(
                        f"a worker called {self.name!r} works on {store.path} already (process "
                        f"{row['process']}); close it, or take another name."
                    )
            mine = (self.name, os.getpid(), psutil.Process().create_time())
            store.fetch("INSERT OR REPLACE INTO workers VALUES (?, ?, ?)", mine)

    def _give_name_back(self):
        self._store.store.fetch("DELETE FROM workers WHERE name = ?", (self.name,))

    def _close_stores(self):
        while self._stores:
            self._stores.pop().close()


def _lives(process, started):
    try:
        found = psutil.Process(process)
        # The same number may be another process; its start is reckoned from that of the machine.
        same = abs(found.create_time() - started) < 2
        return same and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:  # it is there, and somebody else's
        return True


def _unless_it_fails(say, text):
    """Say something; that it cannot be said is no reason to stop working."""
    try:
        say(text)
    except Exception:
        pass

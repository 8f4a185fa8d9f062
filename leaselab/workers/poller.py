"""The poller: looks for tasks, does their work under a heartbeat, and writes what came of it."""

import os
import sys
import threading
import warnings

import psutil

from leaselab.errors import InputError, StoreError, whole_number
from leaselab.store import BUSY_TIMEOUT
from leaselab.workers.clock import Clock
from leaselab.workers.heartbeat import REFUSED, Heartbeat, checked
from leaselab.workers.log import FileGone, LoggedStore

LEASE = 60_000
INTERVAL = 1_000
MAX_ATTEMPTS = 3
NAMES = (
    "CREATE TABLE IF NOT EXISTS workers "
    "(name TEXT PRIMARY KEY, process INTEGER NOT NULL, started REAL NOT NULL) STRICT"
)


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
        self._stop_if_lost()
        result = call(*arguments)
        if not self._heartbeat.held:
            self._tell_dropped(self._heartbeat.reason)
        self._stop_if_lost()
        return result

    def _stop_if_lost(self):
        if not self._heartbeat.held:
            raise LeaseLost(self._heartbeat.reason)


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
        complain=lambda sentence: print(f"leaselab: {sentence}", file=sys.stderr, flush=True),
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
        self.lease, self.heartbeat = checked(lease, heartbeat)
        self.interval = whole_number("interval", interval, at_least=1)
        self.max_attempts = whole_number("max_attempts", max_attempts, at_least=1)
        self.clock = clock or Clock()
        self.complain = complain
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
            "tell": tell,
            "protocol": protocol,
            "synchronous": synchronous,
            "busy_timeout": busy_timeout,
        }
        self._closing = threading.Event()
        self._thread = None
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
        claimed_at = self.clock.steady()
        claim = self._store.claim(self.lease)
        if claim:
            self._deliver(claim, claimed_at)
        return claim is not None

    def recover(self):
        """What a start does: round after round, until there is nothing to claim at this moment."""
        self._attempt(lambda: self._store.note("start"))
        while not self._closing.is_set() and self._attempt(self.round):
            pass

    def run(self):
        """Recover, then poll, until ``close`` is called or the file is gone."""
        self.recover()
        while self.error is None and not self.clock.wait(self._closing, self.interval):
            self._attempt(self.round)

    def stop(self):
        """Claim no more; work that is under way goes on. Returns at once."""
        self._closing.set()

    def close(self):
        """Claim no more, wait for the work under way with its heartbeat, leave nothing behind."""
        self.stop()
        if self._thread:
            self._thread.join()
        if self._stores:
            try:
                if self.error is None:
                    self._store.note("close")
                self._store.store.fetch("DELETE FROM workers WHERE name = ?", (self.name,))
            except StoreError as error:
                self.complain(str(error))
            self._close_stores()

    def __enter__(self):
        self._thread = threading.Thread(target=self.run, name=f"poller {self.name}")
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.close()

    def _attempt(self, call):
        """Try to do something with the file. Returns what the call returns, False if it failed."""
        try:
            return call()
        except FileGone as error:
            self.error = error
            self._closing.set()
            self.complain(str(error))
        except StoreError as error:  # the next round tries again
            self.complain(str(error))
        return False

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
        # The task may have waited since it was claimed: a beat before the work begins.
        if heartbeat.beat() == REFUSED:
            return
        try:
            with heartbeat:
                self._do(claim, heartbeat)
        except LeaseLost as lost:
            self._store.note(
                "lease_lost", claim.task_id, generation=claim.generation, why=str(lost)
            )

    def _do(self, claim, heartbeat):
        """The attempt limit, the work, its result, the tidying up."""
        if claim.generation > self.max_attempts and self._store.exhaust(claim, self.max_attempts):
            return

        def tell_dropped(why):
            self._store.note("drop", claim.task_id, generation=claim.generation, why=why)

        outcome = "revision_conflict"
        while outcome == "revision_conflict":  # the run has changed: read it again, work again
            run = self._store.store.run(claim.run_id)
            if run["state"] != "active":
                break
            try:
                value = self.work(Task(claim, run, heartbeat, tell_dropped))
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                self._store.note("fail", claim.task_id, generation=claim.generation, why=said)
                self._store.release(claim, delay=self.interval)
                return
            if value is None:
                break
            outcome = self._commit(claim, value, run["revision"], heartbeat)
        if outcome != "lease_lost":
            self._store.ack(claim)

    def _commit(self, claim, value, revision, heartbeat):
        """Write the result; if that fails, try again as long as the lease may be believed in.

        What failed may have come through. Then the second try is a revision conflict, and the work
        finds its result in the run.
        """
        while True:
            try:
                return self._store.commit_run(claim, value, revision=revision)
            except FileGone:
                raise
            except StoreError as error:
                if not heartbeat.held:
                    raise
                self.complain(f"{self.name}'s commit is unknown: {error}")
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

    def _close_stores(self):
        while self._stores:
            self._stores.pop().close()


def _lives(process, started):
    try:
        found = psutil.Process(process)
        same = (
            abs(found.create_time() - started) < 2
        )  # it is reckoned from when the machine started
        return same and found.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False

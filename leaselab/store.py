"""The store: an SQLite file, and one method for each verb of the protocol.

The store knows no clock: ``now`` is always an argument, an integer in the caller's unit. A refusal
is a return value; an exception means a wrong argument (``InputError``) or a file that cannot be
used (``StoreError``).
"""

import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from leaselab.errors import InputError, StoreError, whole_number
from leaselab.protocol import Protocol

APPLICATION_ID = 0x1EA5E1AB  # marks a file as ours in SQLite's own header
OUTCOMES = ("done", "uncertain")
OLDEST_SQLITE = (3, 37, 0)  # STRICT tables; RETURNING is older
SYNCHRONOUS = ("OFF", "NORMAL", "FULL")
BUSY_TIMEOUT = 5_000


class Claim(NamedTuple):
    """What a worker holds after a claim, and sends along with everything it writes."""

    task_id: int
    run_id: str
    owner: str
    generation: int
    lease_until: int


class Statement(NamedTuple):
    """A statement that ran: its text, what was sent along, and how many rows it changed."""

    sql: str
    sent: dict
    rows_changed: int


class Store:
    """One connection to one file; a worker that crashes loses its own and nobody else's.

    Args:
        path: an SQLite file, made if it is not there, or ``":memory:"``.
        protocol: the statements to run; the full protocol if none is given.
        synchronous: what a power cut may lose. ``"FULL"``: nothing, every commit reaches the disk
            before the verb returns. ``"NORMAL"``: the last commits, so that a claim, and with it a
            generation, may be given out twice. ``"OFF"``: the file itself may be damaged. A killed
            process loses nothing in any of them (https://sqlite.org/pragma.html#pragma_synchronous).
        busy_timeout: how long a locked file is waited for, in milliseconds.

    The file has a write-ahead log. Threads may share a store, one at a time.
    """

    BEGIN = "BEGIN IMMEDIATE"  # a writer from its first statement on

    def __init__(
        self, path=":memory:", protocol=None, *, synchronous="FULL", busy_timeout=BUSY_TIMEOUT
    ):
        self.path = path
        if synchronous not in SYNCHRONOUS:
            known = ", ".join(SYNCHRONOUS)
            raise InputError(f"synchronous is one of {known}, not {synchronous!r}.")
        self.synchronous = synchronous
        self.busy_timeout = whole_number("busy_timeout", busy_timeout)
        self.protocol = protocol or Protocol()
        self.ran = []  # the statements of the last verb
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} is too old: leaselab needs 3.37 or newer; "
                "a newer Python brings it along."
            )
        if not isinstance(path, (str, Path)) or "\0" in str(path):
            raise InputError(f"a path must be a text or a Path, not {path!r}.")
        if path != ":memory:" and Path(path).is_dir():
            raise StoreError(f"{path} is a folder; give the path of a file in it.")
        with self._sentences():
            self._connection = sqlite3.connect(
                path,
                timeout=self.busy_timeout / 1000,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            self._prepare_patiently()
        except BaseException:
            self.close()
            raise

    def enqueue(self, run_id, *, now, available_at=None):
        """Write a new task of a run down, to be claimed from ``available_at`` (``now``) on.

        Returns the task's id.
        """
        if not isinstance(run_id, str) or not run_id:
            raise InputError(f"a run's id must be a text that is not empty, not {run_id!r}.")
        whole_number("now", now)
        available_at = whole_number("available_at", now if available_at is None else available_at)
        with self.transaction():
            self._run("enqueue.run", run_id=run_id)
            sent = {"run_id": run_id, "available_at": available_at, "now": now}
            return self._run("enqueue", **sent)[0]["id"]

    def claim(self, owner, *, now, lease):
        """Claim the first task that may run, for ``[now, now + lease)``.

        Returns a ``Claim``, or None if no task may be claimed now.
        """
        _check_owner(owner)
        whole_number("now", now)
        whole_number("lease", lease, at_least=1)
        rows = self._run("claim", owner=owner, now=now, lease=lease)
        return Claim(*rows[0]) if rows else None

    def look(self, *, now):
        """The choice of a claim on its own: the id of the task that may be claimed, or None.

        Together with ``take`` this is a claim in two steps, as it must not be done.
        """
        whole_number("now", now)
        rows = self._run("look", now=now)
        return rows[0]["id"] if rows else None

    def take(self, owner, task_id, *, now, lease):
        """Claim a task that ``look`` has found, whatever has become of it; returns a ``Claim``."""
        _check_owner(owner)
        whole_number("task_id", task_id)
        whole_number("now", now)
        whole_number("lease", lease, at_least=1)
        rows = self._run("take", owner=owner, task_id=task_id, now=now, lease=lease)
        return Claim(*rows[0]) if rows else None

    def renew(self, claim, *, now, lease):
        """Prolong a live lease to ``now + lease``. Returns the new end, or None if it is lost."""
        whole_number("now", now)
        whole_number("lease", lease, at_least=1)
        rows = self._run("renew", **_identity(claim), now=now, lease=lease)
        return rows[0]["lease_until"] if rows else None

    def finish(self, claim, outcome="done", *, now):
        """Write down that the task ended, ``"done"`` or ``"uncertain"``. Returns True if accepted.

        The claim's owner is not looked at: its generation decides.
        """
        if outcome not in OUTCOMES:
            raise InputError(f"outcome must be 'done' or 'uncertain', not {outcome!r}.")
        whole_number("now", now)
        sent = {"outcome": outcome, **_identity(claim, "task_id", "generation"), "now": now}
        self._run("finish", **sent)
        return self._changed()

    def ack(self, claim):
        """Tidy a delivery whose run was already written. Returns True if it was this claim's."""
        self._run("ack", **_identity(claim, "task_id", "owner", "generation"))
        return self._changed()

    def release(self, claim, *, available_at):
        """Give a claimed task back, to be claimed from ``available_at`` on. True if accepted."""
        whole_number("available_at", available_at)
        sent = _identity(claim, "task_id", "owner", "generation")
        self._run("release", **sent, available_at=available_at)
        return self._changed()

    def commit_run(self, claim, value, *, revision, now):
        """Write the run's value if its revision and this claim's lease both still hold.

        Returns ``"committed"``, ``"lease_lost"`` (stop working) or ``"revision_conflict"`` (read
        the run again).
        """
        whole_number("revision", revision)
        whole_number("now", now)
        with self.transaction():
            lease = {**_identity(claim), "now": now}
            self._run("commit_run", value=value, revision=revision, **lease)
            if self._changed():
                return "committed"
            return "revision_conflict" if self._run("commit_run.lease", **lease) else "lease_lost"

    def exhaust(self, claim, *, now, max_attempts=3):
        """Fail the task and its run if the claim is one too many. Returns True if they failed.

        Every claim is an attempt, so the fourth is one too many by default.
        """
        whole_number("now", now)
        whole_number("max_attempts", max_attempts)
        with self.transaction():
            self._run("exhaust", **_identity(claim), now=now, max_attempts=max_attempts)
            if not self._changed():
                return False
            self._run("exhaust.run", run_id=claim.run_id)
            return True

    def tasks(self):
        """Every task as it stands in the file: a list of dicts, by id."""
        return [dict(row) for row in self.fetch("SELECT * FROM tasks ORDER BY id")]

    def runs(self):
        """Every run as it stands in the file: a list of dicts, in order of creation."""
        return [dict(row) for row in self.fetch("SELECT * FROM runs ORDER BY rowid")]

    def task(self, task_id):
        """One task as it stands in the file, as a dict; None if there is none."""
        rows = self.fetch("SELECT * FROM tasks WHERE id = :id", {"id": task_id})
        return dict(rows[0]) if rows else None

    def run(self, run_id):
        """One run as it stands in the file, as a dict; None if there is none."""
        rows = self.fetch("SELECT * FROM runs WHERE id = ?", (run_id,))
        return dict(rows[0]) if rows else None

    def refusals(self, name, task_id, **sent):
        """The guards that refuse this statement for one task, as SQLite judges them now.

        Args:
            name: the statement, such as ``"claim"``.
            task_id: the task that the guards are asked about.
            sent: the statement's parameters.

        Returns the names of the guards that say no, in the order of the statement.
        """
        conditions = self.protocol.conditions(name)
        if not conditions:
            return ()
        alias = "candidate" if name in ("claim", "look") else "tasks"
        answers = self.fetch(
            f"SELECT {', '.join(f'({condition}) IS TRUE' for condition in conditions.values())} "
            "FROM (SELECT tasks.*, revision FROM tasks JOIN runs ON runs.id = run_id) "
            f"AS {alias} WHERE {alias}.id = :task_id",
            {**sent, "task_id": task_id},
        )
        return tuple(guard for row in answers for guard, holds in zip(conditions, row) if not holds)

    @contextmanager
    def transaction(self):
        """Several verbs, one change: BEGIN IMMEDIATE, so that no other writer comes between.

        A transaction within a transaction is a part of it.
        """
        with self._sentences():
            within = self._in_transaction()
        if within:
            yield
            return
        self.fetch(self.BEGIN)
        self.ran = []
        try:
            yield
            self._commit()
        except BaseException:
            with self._sentences():
                self._rollback()
            raise

    def fetch(self, sql, sent=()):
        """Run one statement to its end: a RETURNING that is not read to the end is not done."""
        self._alarms = 0
        try:  # written out, for this is the way of every statement
            return self._connection.execute(sql, sent).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise self._in_a_sentence(error) from error

    def limit(self, *, steps, size):
        """From now on give up a statement that takes more steps of SQLite's machine, or makes a
        value of more bytes.
        """
        self._connection.set_progress_handler(self._goes_on_for_too_long, steps)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, size)

    def _goes_on_for_too_long(self):
        """Whether this is the second alarm of one statement.

        SQLite counts the steps of a prepared statement over all the times that it is run, so one
        alarm may come to a short statement, too.
        """
        self._alarms += 1
        return self._alarms > 1

    def close(self):
        """Close the connection for real, so that the file can be deleted; twice is once."""
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _prepare_patiently(self):
        """Wait for others who open the file, too: SQLite does not wait while a journal is switched.

        It answers "locked" at once, whatever the busy timeout, where waiting might be a deadlock.
        """
        deadline = time.monotonic() + self.busy_timeout / 1000
        while True:
            try:
                return self._prepare()
            except StoreError as error:
                if "is locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _prepare(self):
        """Make the tables in an empty file; refuse a file that is somebody else's."""
        self._connection.row_factory = sqlite3.Row
        if not self._is_ours():
            with self.transaction():
                if not self._is_ours():  # another process may have been faster
                    self._create_tables()
        self.fetch("PRAGMA journal_mode = WAL")
        self.fetch(f"PRAGMA synchronous = {self.synchronous}")
        if self.synchronous == "FULL":  # macOS needs to be told to empty the disk's own cache, too
            self.fetch("PRAGMA fullfsync = ON")
            self.fetch("PRAGMA checkpoint_fullfsync = ON")
        self.fetch("PRAGMA foreign_keys = ON")

    def _is_ours(self):
        return self.fetch("PRAGMA application_id")[0][0] == APPLICATION_ID

    def _create_tables(self):
        if self.fetch("SELECT count(*) FROM sqlite_schema")[0][0]:
            raise StoreError(
                f"{self.path} holds the tables of another program; nothing was changed. "
                "Give the path of a new file."
            )
        for statement in self.protocol["schema"].split(";"):
            self.fetch(statement)
        self.fetch(f"PRAGMA application_id = {APPLICATION_ID}")

    def _run(self, name, **sent):
        """Run one statement of the protocol and remember it in ``ran``; returns its rows."""
        if not self._in_transaction():
            self.ran = []
        before = self._connection.total_changes
        rows = self.fetch(self.protocol[name], sent)
        changed = self._connection.total_changes - before
        self.ran.append(Statement(self.protocol[name], sent, changed))
        return rows

    def _changed(self):
        return self.ran[-1].rows_changed == 1

    def _in_transaction(self):
        return self._connection.in_transaction

    def _commit(self):
        self.fetch("COMMIT")

    def _rollback(self):
        self._connection.rollback()

    @contextmanager
    def _sentences(self):
        """Turn what SQLite says into a sentence that names the file and the way out."""
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:
            raise self._in_a_sentence(error) from error

    def _in_a_sentence(self, error):
        if isinstance(error, UnicodeError):
            return InputError(f"a text cannot be written down: {error}.")
        return StoreError(_sentence(self.path, self.busy_timeout, error))


def _identity(claim, *fields):
    if not isinstance(claim, Claim):
        raise InputError(f"a claim must be what claim() returned, not {claim!r}.")
    whole_number("generation", claim.generation)
    fields = fields or ("task_id", "run_id", "owner", "generation")
    return {field: getattr(claim, field) for field in fields}


def _check_owner(owner):
    if not isinstance(owner, str) or not owner:
        raise InputError(f"an owner must be a text that is not empty, not {owner!r}.")


def _sentence(path, busy_timeout, error):
    said = str(error)
    if "not a database" in said:
        return f"{path} is no SQLite file; nothing was changed. Give the path of a new file."
    if "unable to open" in said:
        return f"{path} cannot be opened; does its folder exist, and may you write in it?"
    if "locked" in said:
        waited = f"{busy_timeout / 1000:g} seconds"
        return f"{path} is locked by another program for {waited} now; close it there, try again."
    if "readonly" in said:
        return f"{path} is read-only; nothing was changed. Allow writing, or give another path."
    if "full" in said:
        return f"the disk of {path} is full; nothing was changed. Free some space and try again."
    if said == "interrupted":
        return f"{path}: the statement did not come to an end; it was given up, and nothing was changed."
    if "closed database" in said:
        return f"this store of {path} is closed; open a new one."
    return f"{path}: SQLite says {said!r}."

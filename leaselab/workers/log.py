"""The log: what each worker did and what the file answered, as lines that become a trace.

A line is written in the transaction of the change it tells of, into a table of the same file. So
there is no change without its line and no line without its change, wherever a process is killed,
and the lines of all processes have one order: that in which the file accepted them.
"""

import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from leaselab.errors import InputError, StoreError
from leaselab.store import BUSY_TIMEOUT, Statement, Store
from leaselab.trace import Event, Trace
from leaselab.workers.clock import Clock

TABLE = "CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT"
WRITE = "INSERT INTO log (line) VALUES (?)"
READ = "SELECT line FROM log ORDER BY number"
TIMES = ("now", "lease_until", "available_at", "created_at")
NO = (None, False, "lease_lost", "revision_conflict")
RUN = ("id", "state", "revision", "failure")  # without its value, which may be large


class FileGone(StoreError):
    """The file that was opened no longer lies at its path."""


@dataclass
class Line:
    """One line of the log, as it is written down.

    Attributes:
        t: milliseconds, read while the file was locked.
        actor, action, sent, returned, task_id, refusals: as in ``Event``.
        before, row: the task right before and right after, read in the same transaction.
        run: the task's run right after.
        rows_changed: by all statements of the verb.
    """

    actor: str
    action: str
    t: int = 0
    sent: dict = field(default_factory=dict)
    returned: object = None
    task_id: int | None = None
    before: dict | None = None
    row: dict | None = None
    run: dict | None = None
    rows_changed: int = 0
    refusals: tuple | None = None


class LoggedStore:
    """The verbs of a store for one actor, each in one transaction with its line.

    ``now`` is read while the file is locked, so that nobody can take a task over between reading
    the clock and writing.

    Args:
        path: the SQLite file.
        actor: whose lines these are: a worker's name, or ``"client"``.
        clock: a ``Clock``.
        tell: is called with each line's text once it is committed.
        protocol, synchronous, busy_timeout: as for ``Store``.

    Raises:
        FileGone: the file was deleted, or another one lies in its place. StoreError, InputError:
            as ``Store`` does.
    """

    def __init__(
        self,
        path,
        actor,
        *,
        clock=None,
        tell=None,
        protocol=None,
        synchronous="FULL",
        busy_timeout=BUSY_TIMEOUT,
    ):
        self.actor = actor
        self.clock = clock or Clock()
        self.tell = tell
        self._last_t = 0
        self._untold, self._depth = [], 0
        if path == ":memory:":
            raise InputError("workers share a file; give the path of one instead of ':memory:'.")
        if isinstance(path, (str, Path)):
            path = Path(path).absolute()  # whatever folder the work goes to
        self.store = Store(path, protocol, synchronous=synchronous, busy_timeout=busy_timeout)
        try:
            self._inode = path.stat().st_ino
            self.store.fetch(TABLE)
        except BaseException:
            self.store.close()
            raise

    @contextmanager
    def transaction(self):
        """Several verbs, one change; their lines are told once it is committed."""
        self._check_file()
        self._depth += 1
        try:
            with self.store.transaction():
                yield
        except BaseException:
            self._untold.clear()
            raise
        finally:
            self._depth -= 1
        if not self._depth:
            told, self._untold = self._untold, []
            for text in told if self.tell else ():
                self.tell(text)

    def enqueue(self, run_id, *, delay=0):
        """Write a task down, available after a delay. Returns its id."""
        with self._line("enqueue") as line:
            line.task_id = self.store.enqueue(run_id, now=line.t, available_at=line.t + delay)
        return line.task_id

    def claim(self, lease):
        """Claim the first task that may run. Returns a ``Claim``, or None, which has no line."""
        claim = None
        with self._line("claim") as line:
            line.task_id = self.store.look(now=line.t)
            if line.task_id is not None:
                line.before = self.store.task(line.task_id)
                claim = self.store.claim(self.actor, now=line.t, lease=lease)
                line.returned = claim.generation
        return claim

    def renew(self, claim, lease):
        """Prolong a lease. Returns its new end, or None if refused."""
        return self._submit("renew", claim, lambda now: {"now": now, "lease": lease})

    def ack(self, claim):
        """Tidy a delivery whose run is written. Returns True if accepted."""
        return self._submit("ack", claim, lambda now: {})

    def release(self, claim, *, delay):
        """Give a task back, available after a delay. Returns True if accepted."""
        return self._submit("release", claim, lambda now: {"available_at": now + delay})

    def commit_run(self, claim, value, *, revision):
        """Write the run. Returns ``committed``, ``revision_conflict`` or ``lease_lost``."""
        return self._submit(
            "commit_run", claim, lambda now: {"now": now, "value": value, "revision": revision}
        )

    def exhaust(self, claim, max_attempts):
        """Fail task and run if the claim is one too many. Returns True if they failed."""
        return self._submit(
            "exhaust", claim, lambda now: {"now": now, "max_attempts": max_attempts}
        )

    def note(self, action, task_id=None, **sent):
        """A line about what is no statement, such as a start or a dropped result."""
        with self._line(action) as line:
            line.task_id, line.sent = task_id, sent

    def lines(self):
        """The lines of all actors in the file's order."""
        return [row["line"] for row in self.store.fetch(READ)]

    def close(self):
        """Close the connection."""
        self.store.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _submit(self, verb, claim, arguments):
        """A verb that is sent with a claim; ``arguments`` gives the rest for the time it is."""
        with self._line(verb) as line:
            sent = arguments(line.t)
            line.task_id, line.before = claim.task_id, self.store.task(claim.task_id)
            line.returned = getattr(self.store, verb)(claim, **sent)
            line.sent = {**sent, "generation": claim.generation}
            line.sent.pop("value", None)
            if line.returned in NO:
                asked = {**self.store.ran[0].sent}
                del asked["task_id"]
                line.refusals = self.store.refusals(verb, claim.task_id, **asked)
        return line.returned

    @contextmanager
    def _line(self, action):
        """A verb and its line, in one transaction. A claim that finds nothing has no line."""
        line = Line(self.actor, action)
        with self.transaction():
            line.t = self.clock.now()
            self.store.ran = []
            if line.t < self._last_t:
                behind = {"milliseconds": self._last_t - line.t}
                self._write(Line(self.actor, "clock_back", line.t, behind))
            yield line
            if (action, line.task_id) != ("claim", None):
                self._write(line)
        self._last_t = line.t

    def _write(self, line):
        line.rows_changed = sum(statement.rows_changed for statement in self.store.ran)
        if line.task_id is not None:
            line.row = self.store.task(line.task_id)
        if line.row:
            run = self.store.run(line.row["run_id"])
            line.run = {name: run[name] for name in RUN}
        text = json.dumps(asdict(line))
        self.store.fetch(WRITE, (text,))
        self._untold.append(text)

    def _check_file(self):
        """A deleted file can still be written to, and nobody would ever read it."""
        try:
            same = os.stat(self.store.path).st_ino == self._inode
        except OSError:
            same = False
        if not same:
            raise FileGone(
                f"{self.store.path} is gone, or another file lies in its place; "
                "start again on the right file."
            )


def trace_of(lines, workers=None):
    """The trace of a real run; its times are milliseconds since the first line.

    Where the clock was set back they go on from the line before, and leases end by so much later.

    Args:
        lines: the texts of ``LoggedStore.lines``, or what one worker has printed.
        workers: the names of the lanes; by default those who have lines, in alphabetical order.
    """
    parsed = [Line(**json.loads(text)) for text in lines]
    start = parsed[0].t if parsed else 0
    events, tasks, runs, last = [], {}, {}, 0
    for line in parsed:
        back = last - (line.t - start)
        if back > 0:  # the clock was set back, and comes to what lies ahead by so much later
            start -= back
            tasks = {number: _since(-back, row) for number, row in tasks.items()}
        last = line.t - start
        if line.row:
            tasks[line.task_id] = _since(start, line.row)
            runs[line.row["run_id"]] = line.run
        is_a_time = line.action == "renew" and line.returned is not None
        events.append(
            Event(
                t=last,
                actor=line.actor,
                action=line.action,
                sent=_since(start, line.sent),
                returned=line.returned - start if is_a_time else line.returned,
                task_id=line.task_id,
                before=_since(start, line.before),
                tasks=tuple(tasks[number] for number in sorted(tasks)),
                runs=tuple(runs.values()),
                statements=(Statement("", {}, line.rows_changed),) if line.rows_changed else (),
                refusals=None if line.refusals is None else tuple(line.refusals),
            )
        )
    names = {line.actor for line in parsed} - {"client"}
    return Trace(events, workers=workers or sorted(names))


def _since(start, row):
    """A row or what was sent, with its times counted from the start."""
    return row and {
        name: value - start if name in TIMES and isinstance(value, int) else value
        for name, value in row.items()
    }

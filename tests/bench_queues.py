"""Queues: claim one task and finish it, in leaselab and in others, at the same durability."""

import itertools
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

import litequeue
import persistqueue
from huey.storage import SqliteStorage

from leaselab import Store

NOTE = """\
Times as fast: by how much the peer's median time is longer than leaselab's.
What the peers do not do: none has a lease that ends by itself, or a generation that refuses a late
finish. litequeue and persist-queue keep a task that was taken until somebody gives it back, and
whoever knows its id may finish it. huey's storage deletes a task as it is taken: one commit, there
is nothing to finish, and a crash after it loses the task. With put_data it stores a result after
that, as huey's consumer does for a task that returns something: two commits, as for the others.
Page caches are each library's own: leaselab and persist-queue 2 MB, huey 8 MB, litequeue 256 MB."""


class Leaselab:
    """Each task has a run of its own."""

    name = "leaselab claim + finish, 2 commits"

    def __init__(self, folder):
        self.store = Store(folder / "leaselab.sqlite")
        self.connection = self.store._connection

    def fill(self, tasks):
        """As ``enqueue`` would, through the tables."""
        tasks = [(run_id, "done" if finished else "pending") for run_id, finished in tasks]
        insert = "INSERT INTO tasks (run_id, state, available_at, created_at) VALUES (?, ?, 0, 0)"
        self.connection.executemany(
            "INSERT INTO runs (id) VALUES (?)", (task[:1] for task in tasks)
        )
        self.connection.executemany(insert, tasks)

    def claim_and_finish(self):
        return self.store.finish(self.store.claim("A", now=1, lease=30), now=2)


class LeaselabLoop(Leaselab):
    """A worker's loop: it finishes a task and claims its next one in one transaction."""

    name = "leaselab finish + next claim, 1 commit"
    held = None

    def claim_and_finish(self):
        self.held = self.held or self.store.claim("A", now=1, lease=30)
        with self.store.transaction():
            finished = self.store.finish(self.held, now=2)
            self.held = self.store.claim("A", now=1, lease=30)
        return finished


class Litequeue:
    name = "litequeue pop + done, 2 commits"

    def __init__(self, folder):
        self.queue = litequeue.LiteQueue(folder / "litequeue.sqlite")
        self.connection = self.queue.conn

    def fill(self, tasks):
        """As ``put`` would, through the table."""
        status = litequeue.MessageStatus
        rows = (
            (data, litequeue.uuid7(), int(status.DONE if finished else status.READY))
            for data, finished in tasks
        )
        columns = "(data, message_id, status, in_time) VALUES (?, ?, ?, 0)"
        self.connection.executemany(f"INSERT INTO {self.queue.table} {columns}", rows)

    def claim_and_finish(self):
        message = self.queue.pop()
        self.queue.done(message.message_id)
        return message


class PersistQueue:
    name = "persist-queue get + ack, 2 commits"

    def __init__(self, folder):
        self.queue = persistqueue.SQLiteAckQueue(str(folder), db_file_name="persistqueue.sqlite")
        self.connection = self.queue._putter

    def fill(self, tasks):
        """As ``put`` would, through the table."""
        status = persistqueue.sqlackqueue.AckStatus
        rows = (
            (self.queue._serializer.dumps(data), status.acked if finished else status.inited)
            for data, finished in tasks
        )
        columns = "(data, status, timestamp) VALUES (?, ?, 0)"
        self.connection.executemany(f"INSERT INTO {self.queue._table_name} {columns}", rows)

    def claim_and_finish(self):
        return self.queue.ack(self.queue.get(block=False, raw=True))


class HueyAlone:
    name = "huey dequeue, 1 commit"

    def __init__(self, folder):
        self.storage = SqliteStorage("bench", str(folder / "huey.sqlite"), fsync=True)
        self.connection = self.storage.conn

    def fill(self, tasks):
        """As ``enqueue`` would, through the table."""
        rows = ((data.encode(),) for data, _ in tasks)
        columns = "(queue, data, priority) VALUES ('bench', ?, 0)"
        self.connection.executemany(f"INSERT INTO task {columns}", rows)

    def claim_and_finish(self):
        return self.storage.dequeue()


class Huey(HueyAlone):
    name = "huey dequeue + put_data, 2 commits"

    def claim_and_finish(self):
        data = self.storage.dequeue()
        self.storage.put_data(str(uuid.uuid4()), data)
        return data


QUEUES = (Leaselab, LeaselabLoop, Litequeue, PersistQueue, Huey, HueyAlone)
CASES = {  # how many tasks wait, and how many are finished and still in the file
    "10^3": (10**3, 0),
    "10^5": (10**5, 0),
    "10^6": (10**6, 0),
    "10^3 + 10^6 finished": (10**3, 10**6),
}
TURNS = 1000
REFILL = 100  # after so many turns as many tasks are added
PATIENCE = 3  # seconds for all turns of one queue in one case
FULL_LOG = 1000 * 4120  # bytes of a write-ahead log that SQLite writes over again from the start
NUMBERS = itertools.count(1)


def tables():
    # Beside the packages and not in the system's temporary folder, which may be no disk at all.
    with tempfile.TemporaryDirectory(dir=sys.prefix, prefix="bench-") as folder:
        queues = {
            (kind, case): filled(kind, Path(folder) / f"{kind.__name__} {case}", *sizes)
            for case, sizes in CASES.items()
            for kind in QUEUES
            if not (issubclass(kind, HueyAlone) and sizes[1])  # it keeps no finished tasks
        }
        os.sync()
        for setting in ("FULL", "NORMAL"):
            for queue in queues.values():
                queue.connection.execute(f"PRAGMA synchronous = {setting}")
            found = " / ".join({settings(queue) for queue in queues.values()})
            seconds = in_turns(queues)
            yield rates(setting, found, seconds)
            yield *ratios(setting, seconds), NOTE if setting == "NORMAL" else ""
        for queue in queues.values():
            queue.connection.close()


def filled(kind, folder, waiting, finished):
    """A queue of that many tasks whose log has reached its size, so that no commit extends it."""
    folder.mkdir()
    queue = kind(folder)
    queue.connection.execute("PRAGMA synchronous = OFF")
    add(queue, finished, True)
    add(queue, waiting)
    log = next(folder.glob("*-wal"))
    while log.stat().st_size < FULL_LOG:
        add(queue, REFILL)
        for _ in range(REFILL):
            queue.claim_and_finish()
    return queue


def add(queue, count, finished=False):
    queue.connection.execute("BEGIN")
    queue.fill((f"run-{next(NUMBERS)}", finished) for _ in range(count))
    queue.connection.commit()


def settings(queue):
    """What holds on the very connection that is measured, as SQLite says it."""
    asked = ("journal_mode", "synchronous")
    said = [queue.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]
    return ", ".join(f"{name} = {value}" for name, value in zip(asked, said))


def in_turns(queues):
    """Seconds of each claim and finish, by queue and case; whoever is slow gets fewer turns."""
    seconds = {key: [] for key in queues}
    for turn in range(TURNS):
        for key in random.sample(list(queues), len(queues)):
            if turn % REFILL == 0:
                add(queues[key], REFILL)
            if sum(seconds[key]) < PATIENCE:
                start = time.perf_counter()
                taken = queues[key].claim_and_finish()
                seconds[key].append(time.perf_counter() - start)
                assert taken, key
    return seconds


def rates(setting, found, seconds):
    """The table of tasks per second."""
    rows = []
    for kind in QUEUES:
        few, many = seconds[kind, "10^3"], seconds[kind, "10^6"]
        growth = statistics.median(many) / statistics.median(few)
        cells = [rate(seconds.get((kind, case))) for case in CASES]
        rows.append([kind.name, *cells, f"{1 / statistics.mean(few):,.0f}", f"{growth:.2f}"])
    headings = [f"per second, {setting}", *CASES, "10^3, mean", "10^6 costs, to 10^3"]
    note = (
        f"Read back on every connection: {found}. Medians of {TURNS} turns, if not said otherwise."
    )
    return headings, rows, note


def rate(seconds):
    if seconds is None:
        return "keeps none"
    typical = f"{1 / statistics.median(seconds):,.0f}"
    return typical if len(seconds) == TURNS else f"{typical} ({len(seconds)} turns)"


def ratios(setting, seconds):
    """The table of what leaselab is to reach."""
    typical = {key: statistics.median(values) for key, values in seconds.items()}
    rows = []
    for words, own, peers in (
        ("claim + finish against", Leaselab, (Litequeue, PersistQueue, Huey)),
        ("claim + finish against", Leaselab, (HueyAlone,)),
        ("finish + next claim against", LeaselabLoop, (HueyAlone,)),
    ):
        for case in ("10^3", "10^5", "10^6"):
            best = min(peers, key=lambda peer: typical[peer, case])
            ratio = typical[best, case] / typical[own, case]
            against = f"{words} {best.name}, {case}"
            rows.append([against, f"{ratio:.2f} times as fast", "ahead", ratio > 1])
    for case in ("10^6", "10^3 + 10^6 finished"):
        ratio = typical[Leaselab, case] / typical[Leaselab, "10^3"]
        rows.append([f"{case} against 10^3", f"{ratio:.2f} times", "at most 1.3", ratio <= 1.3])
    return [f"leaselab, {setting}", "measured", "target"], rows

"""Chaos on PostgreSQL: workers are killed and suspended, connections are cut, and nothing is lost.

``python tests/chaos.py --engine postgres --kills 1000`` prints what happened and exits with 1 if
anything of it is not so. The workers are plainer than those of ``leaselab.workers``: one connection,
and renewals between two steps of the work. Every verb has its line in a table, written in the same
transaction.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from pathlib import Path

import chaos as chaos_on_a_file
import psutil
from chaos import LEASE, MAX_ATTEMPTS, NAMES, RUN_OF

from leaselab.errors import StoreError
from leaselab.postgres import PostgresServer, PostgresStore

FINAL = ("done", "uncertain", "failed")
STARTS = 0.8  # seconds that a worker takes to begin
PLACE = "LEASELAB_CHAOS_PLACE"
TABLE = (
    "CREATE TABLE log (number BIGINT GENERATED ALWAYS AS IDENTITY, action TEXT, worker TEXT, "
    "task_id BIGINT, run_id TEXT, generation BIGINT, now BIGINT, lease_until BIGINT)"
)
WRITE = (
    "INSERT INTO log (action, worker, task_id, run_id, generation, now, lease_until) "
    "VALUES (:action, :owner, :task_id, :run_id, :generation, :now, :lease_until)"
)


# A worker, in a process of its own


def work(place, name):
    """Claim and work until the standard input ends; whatever breaks, begin again."""
    store = None
    while True:
        try:
            store = store or PostgresStore(place, busy_timeout=LEASE)
            if not one_task(store, name):
                time.sleep(0.01)
        except StoreError as error:
            print(f"leaselab: {error}", file=sys.stderr, flush=True)
            if store:
                store.close()
            store = None
            time.sleep(0.05)


def one_task(store, name):
    """Claim a task, and do what there is to do. Returns whether there was one."""
    with store.transaction():
        now = store.clock()
        claim = store.claim(name, now=now, lease=LEASE)
        if claim is None:
            return False
        note(store, "claim", claim, now)
        if claim.generation > MAX_ATTEMPTS:
            failed = store.exhaust(claim, now=now, max_attempts=MAX_ATTEMPTS)
            assert failed or store.ack(claim)  # or the run has ended already
            note(store, "end", claim, now)
            return True
    if claim.run_id.startswith("poison"):
        psutil.Process().kill()
    chance = random.Random(f"{claim.task_id} {claim.generation}")
    for _ in range(3):
        time.sleep(chance.uniform(0, 0.04))
        with store.transaction():
            now = store.clock()
            end = store.renew(claim, now=now, lease=LEASE)
            if end is not None:
                note(store, "renew", claim._replace(lease_until=end), now)
    while write(store, claim) == "revision_conflict":
        pass
    return True


def write(store, claim):
    """Write the result into the run and tidy the task up, in one transaction."""
    run = store.run(claim.run_id)
    results = json.loads(run["value"] or "{}")
    results[str(claim.task_id)] = f"{claim.owner}, generation {claim.generation}"
    with store.transaction():
        now = store.clock()
        outcome = store.commit_run(claim, json.dumps(results), revision=run["revision"], now=now)
        if outcome == "committed":
            note(store, "commit", claim, now)
            assert store.ack(claim)
    return outcome


def note(store, action, claim, now):
    """One line, in the transaction of what it tells of."""
    store.fetch(WRITE, {**claim._asdict(), "action": action, "now": now})


# The chaos


class Chaos(chaos_on_a_file.Chaos):
    """Keeps four workers alive on one server, gives them tasks, and disturbs them."""

    def __init__(self, server, said, kills, seed):
        self.chance = random.Random(seed)
        self.server, self.wanted = server, kills
        self.place = server.fresh()
        self.store = server.store(self.place)
        self.store.fetch(TABLE)
        self.kills = self.poisoned = self.suspensions = self.cuts = self.enqueued = 0
        self.processes, self.killed = {}, None
        self.said = Path(said)

    def run(self):
        """As on a file; in the end no process is left."""
        started = time.monotonic()
        try:
            self._until_every_task_is_final()
        finally:
            for process in self.processes.values():
                with suppress(psutil.NoSuchProcess):  # poison may have been faster
                    process.kill()
                process.wait()
            self.seconds = round(time.monotonic() - started)

    def _start_workers(self):
        for name in NAMES:
            process = self.processes.get(name)
            if process is not None and process.poll() is None:
                continue
            if process is not None and process is not self.killed:
                assert process.returncode in (-9, 15), (name, process.returncode)
                self.poisoned += 1
            with self.said.open("ab") as said:
                self.processes[name] = psutil.Popen(
                    [sys.executable, __file__, name],
                    env={**os.environ, PLACE: self.place, "PYTHONPATH": os.pathsep.join(sys.path)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                )

    def _enqueue(self):
        """One more run; one in eight is poison."""
        self.enqueued += 1
        now = self.store.clock()
        if self.enqueued % 8 == 1:
            self.store.enqueue(f"poison-{self.enqueued}", now=now)
            return
        for _ in range(RUN_OF):
            delay = self.chance.randrange(100)
            self.store.enqueue(f"run-{self.enqueued}", now=now, available_at=now + delay)

    def _disturb(self):
        """Kill a worker, suspend one for up to four leases, or cut its connection."""
        time.sleep(self.chance.uniform(0, 0.12))
        awake = [process for process in self.processes.values() if has_started(process)]
        if not awake:
            return
        process, kind = self.chance.choice(awake), self.chance.random()
        try:
            if kind < 0.6:
                process.kill()
                process.wait()
                self.killed = process
                self.kills += 1
            elif kind < 0.8:
                process.suspend()
                self.suspensions += 1
                time.sleep(self.chance.choice((0.05, 0.5, 4)) * LEASE / 1000)
                process.resume()
            else:
                self.cuts += self._cut_a_connection()
        except psutil.NoSuchProcess:
            pass

    def _cut_a_connection(self):
        """The server ends one of the workers' connections, wherever it is just then."""
        others = (
            "application_name = current_setting('application_name') AND pid <> pg_backend_pid()"
        )
        found = self.store.fetch(f"SELECT pid FROM pg_stat_activity WHERE {others} ORDER BY pid")
        if not found:
            return 0
        self.store.fetch(f"SELECT pg_terminate_backend({self.chance.choice(found)['pid']})")
        return 1

    def _unfinished(self):
        return sum(task["state"] not in FINAL for task in self.store.tasks())

    def check(self):
        """What must hold at the end. Returns what happened, as counts."""
        lines = [dict(row) for row in self.store.fetch("SELECT * FROM log ORDER BY number")]
        tasks = {task["id"]: task for task in self.store.tasks()}
        runs = {run["id"]: run for run in self.store.runs()}
        self._check_lines(lines, tasks)
        committed = [line for line in lines if line["action"] == "commit"]
        accepted = Counter(line["task_id"] for line in committed)
        for task in tasks.values():
            run = runs[task["run_id"]]
            assert task["state"] in FINAL, task
            assert accepted[task["id"]] <= 1, (task, "was accepted twice")
            assert accepted[task["id"]] == 1 or run["state"] == "failed", (task, "is lost")
            if task["run_id"].startswith("poison"):
                assert (task["state"], task["generation"]) == ("failed", MAX_ATTEMPTS + 1), task
        written = {
            int(task_id): result
            for run in runs.values()
            for task_id, result in json.loads(run["value"] or "{}").items()
        }
        assert written == {
            line["task_id"]: f"{line['worker']}, generation {line['generation']}"
            for line in committed
        }
        said = self.said.read_text(errors="replace").splitlines()
        assert all(line.startswith("leaselab: ") for line in said), said
        return {
            "kills": self.kills,
            "killed by poison tasks": self.poisoned,
            "suspensions": self.suspensions,
            "connections cut": self.cuts,
            "tasks": len(tasks),
            "claims": sum(line["action"] == "claim" for line in lines),
            "takeovers": sum(task["generation"] - 1 for task in tasks.values()),
            "runs failed by the limit": sum(run["state"] == "failed" for run in runs.values()),
            "lines in the log": len(lines),
            "complaints": len(said),
            "seconds": self.seconds,
        }

    @staticmethod
    def _check_lines(lines, tasks):
        """Every generation is one claim; none came before the last lease of its run had ended."""
        generation, ends = Counter(), defaultdict(dict)
        for line in lines:
            task_id, held = line["task_id"], ends[line["run_id"]]
            if line["action"] == "claim":
                generation[task_id] += 1
                assert all(end <= line["now"] for end in held.values()), (line, held)
            assert line["generation"] == generation[task_id], (line, "is stale")
            if line["action"] in ("claim", "renew"):
                held[task_id] = line["lease_until"]
            else:
                assert held.pop(task_id, None) is not None, (line, "ended what nobody held")
        assert generation == {number: task["generation"] for number, task in tasks.items()}


def has_started(process):
    """Whether a worker has had the time to connect: to kill one that begins disturbs nobody."""
    return process.poll() is None and time.time() - process.create_time() > STARTS


@contextmanager
def chaos(kills, seed, said, server=None):
    """Chaos in a place of its own, which is there until the block has ended."""
    own = server or PostgresServer()
    try:
        disorder = Chaos(own, said, kills, seed)
        disorder.run()
        yield disorder
    finally:
        if server is None:
            own.close()


if __name__ == "__main__":
    work(os.environ[PLACE], sys.argv[1])

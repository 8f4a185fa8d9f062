"""Chaos: four worker processes, killed and suspended at random moments, and what must hold at the end.

``python tests/chaos.py --kills 1000`` (or ``make chaos``) prints what happened and exits with 1 if
anything of it is not so; ``--engine postgres`` does the like on a server (chaos_postgres.py). The moments are drawn from a seed; what the operating system makes of them
is not repeatable, and need not be: the claims below hold for every schedule.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from leaselab.workers import LoggedStore
from leaselab.workers.processes import command_of
from leaselab.workers.work import with_result

LEASE = 300
NAMES = ("A", "B", "C", "D")
FINAL = ("done", "uncertain", "failed")
MAX_ATTEMPTS = 3
RUN_OF = 4  # tasks to a run; a poison run has one
KILLED = (-9,) if os.name == "posix" else (1, 15)
PATIENCE = 120  # seconds without a task that became final


def work(task):
    """Three short waits, and the result; a poison task kills its worker instead.

    Every other task waits without a step, so that only the file can refuse its result.
    """
    if task.run["id"].startswith("poison"):
        psutil.Process().kill()
    chance = random.Random(f"{task.claim.task_id} {task.claim.generation}")
    for _ in range(3):
        wait = chance.uniform(0, 0.04)
        task.step(time.sleep, wait) if task.claim.task_id % 2 else time.sleep(wait)
    return with_result(task)


class Chaos:
    """Keeps four workers alive on one file, gives them tasks, and kills and suspends them."""

    def __init__(self, folder, kills, seed):
        self.chance = random.Random(seed)
        self.path = Path(folder) / "chaos.sqlite"
        self.log = LoggedStore(self.path, "client", busy_timeout=60_000)
        self.wanted = kills
        self.kills = self.poisoned = self.suspensions = self.enqueued = self.seconds = 0
        self.killed = None  # the process that was killed last, and not by a poison task
        self.processes, self.began = {}, {}
        self.said = Path(folder, "said.txt").open("wb")

    def run(self):
        """Chaos until there were enough kills, then peace; in the end no process is left."""
        started = time.monotonic()
        try:
            self._until_every_task_is_final()
            for process in self.processes.values():
                process.stdin.close()
            statuses = [process.wait(30) for process in self.processes.values()]
            # One may have been killed by a poison task in the last round; no other ended badly.
            assert all(status in (0, *KILLED) for status in statuses), statuses
        finally:
            for process in self.processes.values():
                if process.poll() is None:
                    process.kill()
                    process.wait()
                process.stdin.close()
            self.said.close()
            self.seconds = round(time.monotonic() - started)

    def _until_every_task_is_final(self):
        """Chaos until there were enough kills, then peace until every task is final."""
        progress, unfinished = time.monotonic(), None
        while unfinished != 0 or self.kills < self.wanted:
            self._start_workers()
            before, unfinished = unfinished, self._unfinished()
            if self.kills < self.wanted:
                if unfinished < 24:
                    self._enqueue()
                self._disturb()
            if unfinished != before:
                progress = time.monotonic()
            assert time.monotonic() - progress < PATIENCE, "nothing moves any more"
            time.sleep(0.01)

    def _start_workers(self):
        for name in NAMES:
            process = self.processes.get(name)
            if process is not None and process.poll() is None:
                continue
            if process is not None:
                process.stdin.close()
                # 1: the file was locked while it started.
                assert process.returncode in (*KILLED, 1), (name, process.returncode)
                if process is not self.killed and process.returncode in KILLED:
                    self.poisoned += 1
            settings = {
                "work": "chaos:work",
                "lease": LEASE,
                "interval": 10,
                "busy_timeout": LEASE // 3,
                "max_attempts": MAX_ATTEMPTS,
            }
            self.began[name] = self._lines_so_far()
            here = str(Path(__file__).parent)
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
            self.processes[name] = psutil.Popen(
                command_of(self.path, name, **settings),
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self.said,
            )

    def _enqueue(self):
        """One more run; one in eight is poison."""
        self.enqueued += 1
        if self.enqueued % 8 == 1:
            self.log.enqueue(f"poison-{self.enqueued}")
            return
        for _ in range(RUN_OF):
            self.log.enqueue(f"run-{self.enqueued}", delay=self.chance.randrange(100))

    def _disturb(self):
        """Kill a worker, or suspend one for up to four leases, wherever it is just then."""
        time.sleep(self.chance.uniform(0, 0.12))
        awake = [name for name in NAMES if self._has_started(name)]
        if not awake:
            return
        process = self.processes[self.chance.choice(awake)]
        try:
            if self.chance.random() < 0.7:
                process.kill()
                process.wait()
                self.killed = process
                self.kills += 1
            else:
                process.suspend()
                self.suspensions += 1
                time.sleep(self.chance.choice((0.05, 0.5, 4)) * LEASE / 1000)
                process.resume()
        except psutil.NoSuchProcess:
            pass

    def _has_started(self, name):
        """Whether the process that has this name now has written its first line."""
        started = "line ->> 'actor' = ? AND line ->> 'action' = 'start'"
        sql = f"SELECT 1 FROM log WHERE number > ? AND {started} LIMIT 1"
        alive = self.processes[name].poll() is None
        return alive and bool(self.log.store.fetch(sql, (self.began[name], name)))

    def _lines_so_far(self):
        return self.log.store.fetch("SELECT coalesce(max(number), 0) FROM log")[0][0]

    def _unfinished(self):
        return sum(task["state"] not in FINAL for task in self.log.store.tasks())

    def check(self):
        """What must hold at the end. Returns what happened, as counts."""
        lines = [json.loads(line) for line in self.log.lines()]
        tasks = {task["id"]: task for task in self.log.store.tasks()}
        runs = {run["id"]: run for run in self.log.store.runs()}
        claims = self._check_claims(lines, tasks)
        committed = [line for line in lines if line["returned"] == "committed"]
        accepted = Counter(line["task_id"] for line in committed)
        for task in tasks.values():
            run = runs[task["run_id"]]
            assert task["state"] in FINAL, task
            poison = task["run_id"].startswith("poison")
            failed = run["state"] == "failed"
            assert accepted[task["id"]] <= 1, (task, "was accepted twice")
            assert accepted[task["id"]] == 1 or failed, (task, "is lost")
            if poison:
                assert (task["state"], task["generation"]) == ("failed", MAX_ATTEMPTS + 1), task
                assert run["failure"] == "task_attempts_exhausted" and not run["value"], run
        for line in committed:
            held = line["before"]
            assert line["sent"]["generation"] == held["generation"], (line, "is stale")
            assert line["t"] < held["lease_until"], (line, "came after the lease had ended")
        # What stands in the data is what was accepted, letter by letter, and nothing else.
        written = {
            int(task_id): result
            for run in runs.values()
            for task_id, result in json.loads(run["value"] or "{}").items()
        }
        assert written == {
            line["task_id"]: f"{line['actor']}, generation {line['sent']['generation']}"
            for line in committed
        }
        assert self.log.store.fetch("PRAGMA integrity_check")[0][0] == "ok"
        # Workers complain of locked files and the like, each time in a sentence.
        said = Path(self.said.name).read_text(errors="replace").splitlines()
        assert all(line.startswith("leaselab: ") for line in said), said
        refusals = Counter(line["action"] for line in lines if line["refusals"] is not None)
        return {
            "kills": self.kills,
            "killed by poison tasks": self.poisoned,
            "suspensions": self.suspensions,
            "tasks": len(tasks),
            "claims": claims,
            "takeovers": sum(task["generation"] - 1 for task in tasks.values()),
            "refused": dict(refusals),
            "runs failed by the limit": sum(run["state"] == "failed" for run in runs.values()),
            "lines in the log": len(lines),
            "complaints": len(said),
            "seconds": self.seconds,
        }

    @staticmethod
    def _check_claims(lines, tasks):
        """Every generation is one claim in the log, in order, and none before the last had ended."""
        generation, lease_until = Counter(), {}
        for line in lines:
            task_id = line["task_id"]
            if line["action"] == "claim":
                generation[task_id] += 1
                assert line["returned"] == generation[task_id], line
                ended = lease_until.get(task_id)
                assert ended is None or ended <= line["t"], (line, ended)
            if line["row"]:
                lease_until[task_id] = line["row"]["lease_until"]
        assert generation == {number: task["generation"] for number, task in tasks.items()}
        return generation.total()


@contextmanager
def chaos(kills, seed):
    """Chaos in a folder of its own, which is there until the block has ended."""
    with tempfile.TemporaryDirectory(prefix="leaselab-chaos-") as folder:
        disorder = Chaos(folder, kills, seed)
        try:
            disorder.run()
            yield disorder
        finally:
            disorder.log.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        if options.engine == "postgres":
            import chaos_postgres

            said = Path(stack.enter_context(tempfile.TemporaryDirectory()), "said.txt")
            disorder = chaos_postgres.chaos(options.kills, options.seed, said)
        else:
            disorder = chaos(options.kills, options.seed)
        for name, count in stack.enter_context(disorder).check().items():
            print(f"{name}: {count}")

"""The store against a model: plain Python, written from the two articles and not from the SQL.

Hypothesis invents schedules of all verbs on a real file, with crashes, reopened connections, late
requests and a clock that goes on; after each step the file must say what the model says.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leaselab import Store

OWNERS = ("A", "B", "C")
LEASE = 30


@dataclass
class Task:
    """A door with a sign: who is in, until when, and how many have been in before."""

    id: int
    run: str
    available_at: int
    created_at: int
    state: str = "pending"
    generation: int = 0
    owner: str | None = None
    until: int | None = None

    def held_at(self, now):
        return self.state == "running" and now < self.until

    def close(self, state):
        self.state, self.owner, self.until = state, None, None


class Model(RuleBasedStateMachine):
    @initialize()
    def open(self):
        self.folder = tempfile.mkdtemp()
        self.path = Path(self.folder) / "lab.sqlite"
        self.stores = {owner: Store(self.path) for owner in OWNERS}
        self.now = 0
        self.tasks = []
        self.runs = {}  # id -> [state, revision, value]
        self.claims = []  # every claim that was ever given, live or not

    def teardown(self):
        for store in self.stores.values():
            store.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def task(self, claim):
        return self.tasks[claim.task_id - 1]

    @rule(step=some.sampled_from([1, 2, 10, 29, 30, 31]))
    def time_passes(self, step):
        self.now += step

    @precondition(lambda self: any(task.state == "running" for task in self.tasks))
    @rule(offset=some.sampled_from([-1, 0, 1]), data=some.data())
    def time_passes_to_the_end_of_a_lease(self, offset, data):
        ends = [task.until + offset for task in self.tasks if task.state == "running"]
        ends = [end for end in ends if end >= self.now]
        if ends:
            self.now = data.draw(some.sampled_from(ends))

    @precondition(lambda self: len(self.tasks) < 3)  # few, so that claims of one task meet
    @rule(run=some.sampled_from(["r1", "r2"]), later=some.sampled_from([0, 0, 5]))
    def enqueue(self, run, later):
        task = Task(len(self.tasks) + 1, run, self.now + later, self.now)
        given = self.stores["A"].enqueue(run, now=self.now, available_at=self.now + later)
        assert given == task.id
        self.tasks.append(task)
        self.runs.setdefault(run, ["active", 0, None])

    @rule(owner=some.sampled_from(OWNERS))
    def claim(self, owner):
        may = [
            task
            for task in self.tasks
            if task.available_at <= self.now
            and (task.state == "pending" or task.state == "running" and self.now >= task.until)
            and not any(
                other is not task and other.run == task.run and other.held_at(self.now)
                for other in self.tasks
            )
        ]
        claim = self.stores[owner].claim(owner, now=self.now, lease=LEASE)
        if not may:
            assert claim is None
            return
        task = min(may, key=lambda task: (task.available_at, task.created_at, task.id))
        task.state, task.owner, task.until = "running", owner, self.now + LEASE
        task.generation += 1
        assert claim == (task.id, task.run, owner, task.generation, task.until)
        self.claims.append(claim)

    @rule(owner=some.sampled_from(OWNERS))
    def crash_and_reopen(self, owner):
        self.stores[owner].close()
        self.stores[owner] = Store(self.path)

    # A worker may send any claim that was ever given, its own or not, in time or late.

    def owns(self, claim):
        task = self.task(claim)
        same = task.state == "running" and task.generation == claim.generation
        return same and task.owner == claim.owner

    @precondition(lambda self: self.claims)
    @rule(data=some.data(), lease=some.sampled_from([1, 30, 60]))
    def renew(self, data, lease):
        claim = data.draw(some.sampled_from(self.claims))
        given = self.stores["B"].renew(claim, now=self.now, lease=lease)
        task = self.task(claim)
        if self.owns(claim) and task.held_at(self.now):
            task.until = max(task.until, self.now + lease)
            assert given == task.until
        else:
            assert given is None

    @precondition(lambda self: self.claims)
    @rule(data=some.data(), outcome=some.sampled_from(["done", "uncertain"]))
    def finish(self, data, outcome):
        claim = data.draw(some.sampled_from(self.claims))
        task = self.task(claim)
        accepted = task.generation == claim.generation and task.held_at(self.now)
        assert self.stores["C"].finish(claim, outcome, now=self.now) is accepted
        if accepted:
            task.close(outcome)

    @precondition(lambda self: self.claims)
    @rule(data=some.data())
    def ack(self, data):
        claim = data.draw(some.sampled_from(self.claims))
        accepted = self.owns(claim)
        assert self.stores["A"].ack(claim) is accepted
        if accepted:
            self.task(claim).close("done")

    @precondition(lambda self: self.claims)
    @rule(data=some.data(), later=some.sampled_from([0, 7]))
    def release(self, data, later):
        claim = data.draw(some.sampled_from(self.claims))
        accepted = self.owns(claim)
        assert self.stores["B"].release(claim, available_at=self.now + later) is accepted
        if accepted:
            self.task(claim).close("pending")
            self.task(claim).available_at = self.now + later

    @precondition(lambda self: self.claims)
    @rule(data=some.data(), behind=some.sampled_from([0, 0, 1]))
    def commit_run(self, data, behind):
        claim = data.draw(some.sampled_from(self.claims))
        run = self.runs[claim.run_id]
        revision = max(0, run[1] - behind)
        said = self.stores["A"].commit_run(claim, f"at {self.now}", revision=revision, now=self.now)
        if not (self.owns(claim) and self.task(claim).held_at(self.now)):
            assert said == "lease_lost"
        elif revision != run[1]:
            assert said == "revision_conflict"
        else:
            assert said == "committed"
            run[1:] = run[1] + 1, f"at {self.now}"

    @precondition(lambda self: self.claims)
    @rule(data=some.data(), most=some.sampled_from([1, 3]))
    def exhaust(self, data, most):
        claim = data.draw(some.sampled_from(self.claims))
        task, run = self.task(claim), self.runs[claim.run_id]
        accepted = (
            self.owns(claim)
            and task.held_at(self.now)
            and claim.generation > most
            and run[0] == "active"
        )
        said = self.stores["C"].exhaust(claim, now=self.now, max_attempts=most)
        assert said is accepted
        if accepted:
            task.close("failed")
            run[0] = "failed"

    @invariant()
    def the_file_says_what_the_model_says(self):
        if not hasattr(self, "stores"):
            return
        rows = [
            (
                row["id"],
                row["run_id"],
                row["state"],
                row["generation"],
                row["lease_owner"],
                row["lease_until"],
                row["available_at"],
            )
            for row in self.stores["B"].tasks()
        ]
        assert rows == [
            (
                task.id,
                task.run,
                task.state,
                task.generation,
                task.owner,
                task.until,
                task.available_at,
            )
            for task in self.tasks
        ]
        runs = {
            run["id"]: [run["state"], run["revision"], run["value"]]
            for run in self.stores["C"].runs()
        }
        assert runs == self.runs


Model.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestModel = Model.TestCase

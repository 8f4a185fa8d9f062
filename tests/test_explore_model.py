"""The search against a second model: plain Python, written from the two articles and not the SQL.

The search asks SQLite for every step. Here the same small scopes are walked through once more, by
rules that know of no statement. Both must reach the same states, not only as many.
"""

from typing import NamedTuple

import pytest

from leaselab.explore import Scope, explore
from leaselab.explore.machine import Machine
from leaselab.protocol import Protocol


class Task(NamedTuple):
    """A door with a sign: who is in, until when, and how many have been in so far."""

    number: int
    run: str
    state: str
    generation: int
    owner: str | None
    until: int | None
    available_at: int
    created_at: int


class Run(NamedTuple):
    name: str
    state: str = "active"
    revision: int = 0
    value: str | None = None
    failure: str | None = None


class Claim(NamedTuple):
    """What a worker was told when it got in."""

    task: int
    run: str
    owner: str
    generation: int
    until: int


class Held(NamedTuple):
    """What a worker with a claim knows."""

    claim: Claim
    revision: int
    called: bool = False
    written: int = 0


class World(NamedTuple):
    """One state. A worker is None, the number of a task that it has seen, or a Held."""

    now: int
    tasks: tuple
    runs: tuple
    workers: tuple
    in_flight: tuple  # sorted, for it has no order
    claims_left: int
    crashes_left: int
    releases_left: int
    ledger: tuple

    def task(self, number):
        return self.tasks[number - 1]

    def run(self, name):
        return next(run for run in self.runs if run.name == name)

    def with_task(self, number, **changes):
        task = self.task(number)._replace(**changes)
        return self._replace(tasks=exchanged(self.tasks, number - 1, task))

    def with_run(self, name, **changes):
        run = self.run(name)
        return self._replace(
            runs=exchanged(self.runs, self.runs.index(run), run._replace(**changes))
        )

    def with_worker(self, place, has):
        return self._replace(workers=exchanged(self.workers, place, has))

    def closed(self, claim, state, **changes):
        """The sign is off the door."""
        return self.with_task(claim.task, state=state, owner=None, until=None, **changes)


def exchanged(values, place, value):
    return (*values[:place], value, *values[place + 1 :])


class Model:
    """The rules of the protocol, one of them perhaps struck out, and what workers may do."""

    def __init__(self, scope, without=None):
        self.scope = scope
        self.without = without

    def start(self):
        scope = self.scope
        names = [f"run-{place % scope.runs + 1}" for place in range(scope.tasks)]
        return World(
            now=1,
            tasks=tuple(
                Task(number, name, "pending", 0, None, None, available_at=0, created_at=0)
                for number, name in enumerate(names, start=1)
            ),
            runs=tuple(Run(name) for name in sorted(set(names))),
            workers=(None,) * scope.workers,
            in_flight=(),
            claims_left=scope.claims,
            crashes_left=scope.crashes,
            releases_left=scope.releases,
            ledger=(0,) * scope.tasks,
        )

    # The protocol.

    def asks(self, rule, kept):
        """Whether a rule lets this pass: it is kept, or it is struck out."""
        return kept or rule == self.without

    def live(self, task, now):
        """A lease holds from the claim up to its end, and no longer at its end."""
        return task.state == "running" and now < task.until

    def in_time(self, verb, world, claim):
        task = world.task(claim.task)
        return task.state == "running" and self.asks(f"{verb}.expiry", self.live(task, world.now))

    def owns(self, verb, world, claim):
        """Owner and generation match; a closed task has no owner."""
        task = world.task(claim.task)
        return self.asks(f"{verb}.owner", task.owner == claim.owner) and self.asks(
            f"{verb}.generation", task.generation == claim.generation
        )

    def holds(self, verb, world, claim):
        return self.owns(verb, world, claim) and self.in_time(verb, world, claim)

    def free(self, world, task):
        if task.state == "running":
            return self.asks("claim.expiry", not self.live(task, world.now))
        return task.state == "pending"

    def run_is_free(self, world, task):
        """A run is served by one task at a time."""
        return not any(
            other.run == task.run and self.live(other, world.now)
            for other in world.tasks
            if other.number != task.number
        )

    def next_task(self, world):
        """The task that a claim finds, or None."""
        found = [
            task
            for task in world.tasks
            if self.asks("claim.available", task.available_at <= world.now)
            and self.free(world, task)
            and self.asks("claim.one_per_run", self.run_is_free(world, task))
        ]
        return min(
            found, key=lambda task: (task.available_at, task.created_at, task.number), default=None
        )

    def finish(self, world, held):
        """The first article's: it asks for the generation and the lease, and for no owner."""
        claim = held.claim
        same = self.asks("finish.generation", world.task(claim.task).generation == claim.generation)
        if same and self.in_time("finish", world, claim):
            return True, world.closed(claim, "done")
        return False, world

    def exhaust(self, world, held):
        """The attempts are counted at the door, not by the worker who comes to it."""
        claim = held.claim
        attempts = world.task(claim.task).generation
        if (
            self.holds("exhaust", world, claim)
            and self.asks("exhaust.attempt_limit", attempts > self.scope.max_attempts)
            and self.asks("exhaust.active_run", world.run(claim.run).state == "active")
        ):
            world = world.with_run(claim.run, state="failed", failure="task_attempts_exhausted")
            return True, world.closed(claim, "failed")
        return False, world

    def renew(self, world, held):
        claim = held.claim
        if not self.holds("renew", world, claim):
            return None, world
        until = max(world.task(claim.task).until, world.now + self.scope.lease)
        return until, world.with_task(claim.task, until=until)

    def commit_run(self, world, held):
        """The lease is asked for first. The revision goes up from the one in the file."""
        claim = held.claim
        if not self.holds("commit_run", world, claim):
            return "lease_lost", world
        revision = world.run(claim.run).revision
        if not self.asks("commit_run.revision", revision == held.revision):
            return "revision_conflict", world
        value = f"{claim.owner}'s result"
        return "committed", world.with_run(claim.run, revision=revision + 1, value=value)

    def ack(self, world, held):
        """No clock is asked: while the generation is the same, nobody else has been in."""
        if self.owns("ack", world, held.claim):
            return True, world.closed(held.claim, "done")
        return False, world

    def release(self, world, held):
        """No clock is asked here, either. A release that is refused counts as one, too."""
        accepted = self.owns("release", world, held.claim)
        world = world._replace(releases_left=world.releases_left - 1)
        if accepted:
            later = world.now + self.scope.retry_delay
            world = world.closed(held.claim, "pending", available_at=later)
        return accepted, world

    # The scope.

    def next(self, world):
        yield from self.time_goes_on(world)
        for place, has in enumerate(world.workers):
            if isinstance(has, Held):
                yield from self.at_work(world, place, has)
            elif world.claims_left:
                yield from self.idle(world, place, has)
        for place, held in enumerate(world.in_flight):
            rest = world.in_flight[:place] + world.in_flight[place + 1 :]
            for request in self.requests(world, held):
                _, after = request(world, held)
                yield after._replace(in_flight=rest)

    def time_goes_on(self, world):
        instants = {world.now + 1}
        if not self.scope.every_tick:
            ends = {task.until for task in world.tasks if task.until is not None}
            instants = ends | {end - 1 for end in ends}
            instants |= {task.available_at for task in world.tasks}
        for instant in instants:
            if world.now < instant <= self.scope.horizon:
                yield world._replace(now=instant)

    def idle(self, world, place, seen):
        if seen is not None:
            yield self.let_in(world, place, seen)
            return
        task = self.next_task(world)
        if task and self.scope.two_steps:
            yield world.with_worker(place, task.number)
        elif task:
            yield self.let_in(world, place, task.number)

    def let_in(self, world, place, number):
        task = world.task(number)
        owner = self.scope.names[place]
        generation, until = task.generation + 1, world.now + self.scope.lease
        held = Held(
            Claim(number, task.run, owner, generation, until),
            world.run(task.run).revision,
        )
        changes = {"state": "running", "owner": owner, "generation": generation, "until": until}
        world = world.with_task(number, **changes).with_worker(place, held)
        return world._replace(claims_left=world.claims_left - 1)

    def requests(self, world, held):
        yield self.finish
        yield self.exhaust
        if held.claim.until < world.now + self.scope.lease:
            yield self.renew
        if held.written < 2:
            yield self.commit_run
        if held.written:
            yield self.ack
        if world.releases_left:
            yield self.release

    def at_work(self, world, place, held):
        for request in self.requests(world, held):
            answer, after = request(world, held)
            yield after.with_worker(place, self.kept(held, request, answer))
        if not held.called:
            yield self.service_is_called(world, place, held)
        if world.crashes_left:
            yield self.crash(world, place, held)

    def kept(self, held, request, answer):
        """What the worker holds once it has heard the answer."""
        if request == self.renew and answer is not None:
            return held._replace(claim=held.claim._replace(until=answer))
        if answer == "committed":
            return held._replace(written=held.written + 1)
        if answer == "revision_conflict" or (request == self.exhaust and not answer):
            return held
        return None

    def service_is_called(self, world, place, held):
        most = 1 if self.scope.idempotency_key else 2
        number = held.claim.task - 1
        ledger = exchanged(world.ledger, number, min(world.ledger[number] + 1, most))
        world = world.with_worker(place, held._replace(called=True))
        return world._replace(ledger=ledger)

    def crash(self, world, place, held):
        in_flight = world.in_flight
        if len(in_flight) < self.scope.in_flight:
            in_flight = tuple(sorted((*in_flight, held._replace(called=False))))
        world = world.with_worker(place, None)
        return world._replace(crashes_left=world.crashes_left - 1, in_flight=in_flight)


def walked(start, steps):
    """Every state that can be reached, with the other states that one step leads to."""
    graph = {}
    ahead = [start]
    while ahead:
        state = ahead.pop()
        if state not in graph:
            graph[state] = set(steps(state)) - {state}
            ahead.extend(graph[state])
    return graph


def walked_by_the_model(model):
    return walked(model.start(), model.next)


def walked_by_the_search(scope, protocol):
    machine = Machine(protocol, scope)
    try:
        return walked(
            machine.start(), lambda state: {step.after for step in machine.transitions(state)}
        )
    finally:
        machine.close()


def plain(state):
    """A state without the order of what is in flight; a named tuple equals a plain one."""
    return tuple(state._replace(in_flight=tuple(sorted(state.in_flight))))


def in_plain(graph):
    plainly = {state: plain(state) for state in graph}
    return {plainly[state]: {plainly[after] for after in graph[state]} for state in graph}


def rows(graph):
    """When each content of the task table may be found."""
    return {(state.now, state.tasks) for state in graph}


ONE_AT_A_TIME = {"tasks": 2, "crashes": 0, "in_flight": 0, "releases": 0}
ONE_WORKER = {"workers": 1, "crashes": 0, "in_flight": 0}
SCOPES = {
    "default": Scope(),
    "idempotency key": Scope(idempotency_key=True),
    "two tasks of one run": Scope(**ONE_AT_A_TIME),
    "two tasks of two runs": Scope(**ONE_AT_A_TIME, runs=2),
    "three workers": Scope(workers=3, crashes=0),
    "three tasks of two runs": Scope(tasks=3, runs=2, claims=3, crashes=0, releases=0, horizon=2),
    "two crashes": Scope(crashes=2, in_flight=2),
    "three claims": Scope(claims=3, horizon=31),
    "every tick": Scope(every_tick=True, lease=3, horizon=4, retry_delay=1),
    "two attempts": Scope(workers=1, claims=4, max_attempts=2),
    "at once": Scope(retry_delay=0, releases=2, claims=3, crashes=0),
}
TWO_STEPS = {
    "two steps": Scope(two_steps=True, horizon=11),
    "two steps of three workers": Scope(two_steps=True, workers=3, crashes=0, horizon=2),
}
ALL = SCOPES | TWO_STEPS
# Rules, and where it shows that one is gone. An owner's never shows: a generation has one owner, and
# no worker here sends a claim again after its task was closed with it.
RULES = {
    **dict.fromkeys(["ack.generation", "claim.available", "claim.expiry"], Scope()),
    **dict.fromkeys(["commit_run.generation", "commit_run.expiry"], Scope()),
    **dict.fromkeys(["exhaust.generation", "exhaust.expiry", "exhaust.attempt_limit"], Scope()),
    **dict.fromkeys(["finish.generation", "finish.expiry", "release.generation"], Scope()),
    "renew.expiry": Scope(),
    "renew.generation": Scope(workers=1, every_tick=True, lease=2, horizon=4, retry_delay=1),
    "claim.one_per_run": SCOPES["two tasks of one run"],
    "commit_run.revision": SCOPES["two tasks of two runs"],
    "exhaust.active_run": Scope(
        **ONE_WORKER, tasks=2, claims=4, releases=2, retry_delay=0, horizon=1
    ),
}


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_a_second_model_reaches_just_as_many_states(scope):
    finding = explore(properties="final", scope=scope)["final"]
    assert finding.holds
    assert finding.states == len(walked_by_the_model(Model(scope)))


@pytest.mark.parametrize("scope", ALL.values(), ids=ALL)
def test_a_second_model_takes_the_same_steps_between_the_same_rows(scope):
    model = walked_by_the_model(Model(scope))
    search = walked_by_the_search(scope, Protocol())
    assert len(model) == len(search)
    assert rows(model) == rows(search)
    assert in_plain(model) == in_plain(search)


@pytest.mark.parametrize(("rule", "scope"), RULES.items(), ids=RULES)
def test_without_a_rule_both_go_astray_in_the_same_way(rule, scope):
    """So they do not agree because nothing happens in a scope that this rule could forbid."""
    astray = in_plain(walked_by_the_model(Model(scope, without=rule)))
    assert astray != in_plain(walked_by_the_model(Model(scope)))
    assert astray == in_plain(walked_by_the_search(scope, Protocol.without(rule)))


class ClosedAtItsEnd(Model):
    """One rule is wrong: a lease is held at its last instant, too."""

    def live(self, task, now):
        return task.state == "running" and now <= task.until


def test_a_model_with_a_wrong_rule_reaches_other_states():
    wrong = walked_by_the_model(ClosedAtItsEnd(Scope()))
    search = walked_by_the_search(Scope(), Protocol())
    assert len(wrong) != len(search)
    assert rows(wrong) != rows(search)

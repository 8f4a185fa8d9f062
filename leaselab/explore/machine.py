"""The machine: every step that can be taken from a state, as SQLite answers it.

No rule of the protocol is written here. A step loads the rows into an SQLite database in memory,
runs the protocol's own statement, and reads the rows back; each (rows, statement, arguments) is
asked once and remembered. What is written here is how a worker behaves: it holds one claim at a
time, calls the service once for each, and drops a claim that the file refuses.
"""

from functools import cache
from typing import NamedTuple

from leaselab.errors import InputError, StoreError
from leaselab.explore.graph import NO_VERB, Answers
from leaselab.explore.scope import Scope
from leaselab.lab import GO_ON
from leaselab.protocol import Protocol
from leaselab.store import Claim, Store


class Task(NamedTuple):
    """A row of the task table."""

    id: int
    run_id: str
    state: str
    generation: int
    lease_owner: str | None
    lease_until: int | None
    available_at: int
    created_at: int


class Run(NamedTuple):
    """A row of the run table."""

    id: str
    state: str
    revision: int
    value: str | None
    failure: str | None


class Held(NamedTuple):
    """What a worker believes: its claim, the run's revision as it has read it, what it has done."""

    claim: Claim
    revision: int
    called: bool = False
    written: int = 0


class State(NamedTuple):
    """Everything that the next step may depend on.

    ``workers``: for each worker what it holds (``Held``), the id of the task it has seen, or None.
    ``in_flight``: what crashed workers have held, whose last request may still arrive.
    ``ledger``: how often the service has acted, for each task; two stands for all above.
    """

    now: int
    tasks: tuple
    runs: tuple
    workers: tuple
    in_flight: tuple
    claims: int
    crashes: int
    releases: int
    ledger: tuple


class Move(NamedTuple):
    """A step: who does what; ``generation`` and ``task`` only if it was sent before a crash.

    The clock is an actor, too: its action is the instant.
    """

    actor: str
    action: str | int
    generation: int | None = None
    task: int | None = None


move_of = cache(Move)  # there are few, and each is needed often


class Transition(NamedTuple):
    """A move, the state before and after it, what was held and sent along, and what came back."""

    before: State
    move: Move
    after: State
    held: Held | None
    returned: object

    @property
    def claim(self):
        """The claim that was sent, or None."""
        return self.held and self.held.claim


def memory_of(protocol, verb):
    """What is remembered of a verb as this protocol has it."""
    texts = (protocol[name] for name in ("schema", *STATEMENTS.get(verb, (verb,))))
    return MEMORY.setdefault((verb, *texts), Answers())


class Failed(str):
    """Why a statement does not count: SQLite cannot run it to its end, or it changes many rows."""

    def __bool__(self):
        return False


MOST_STEPS = 100_000  # of SQLite's machine for one statement; a claim among few rows takes 200
LONGEST = 10_000  # bytes of a value, or of a statement
MEMORY = {}  # (verb, the schema, its SQL) -> its Answers
STATEMENTS = {
    NO_VERB: (),
    "commit_run": ("commit_run", "commit_run.lease"),
    "exhaust": ("exhaust", "exhaust.run"),
}


def searchable(protocol, scope):
    """The protocol, the full one if None; ``InputError`` if it or the scope cannot be searched."""
    protocol = protocol if protocol is not None else Protocol()
    if not isinstance(protocol, Protocol):
        raise InputError(f"a protocol is Protocol() or Protocol.without(…), not {protocol!r}.")
    if protocol.engine != "sqlite":
        raise InputError("a search runs on SQLite; give it Protocol(), without an engine's name.")
    if not isinstance(scope, (Scope, type(None))):
        raise InputError(f"a scope is Scope(…), not {scope!r}.")
    return protocol


class Machine:
    """The steps of one protocol in one scope.

    ``memory`` has the ``Answers`` of each verb that is sent in the scope, and of ``NO_VERB``.
    """

    def __init__(self, protocol, scope):
        self.scope = scope
        self.store = Store(":memory:", protocol)
        self.store.limit(steps=MOST_STEPS, size=LONGEST)
        self._loaded = None
        not_sent = ("claim",) if scope.two_steps else ("look", "take")
        self.memory = {
            verb: memory_of(protocol, verb) for verb in (*CALLS, NO_VERB) if verb not in not_sent
        }

    def close(self):
        self.store.close()

    def start(self):
        """The state at t=1, the tasks having been enqueued at t=0."""
        scope = self.scope
        runs = [f"run-{number + 1}" for number in range(scope.runs)]
        tasks = tuple(
            Task(number + 1, runs[number % scope.runs], "pending", 0, None, None, 0, 0)
            for number in range(scope.tasks)
        )
        runs = tuple(Run(run, "active", 0, None, None) for run in runs)
        budget = scope.claims, scope.crashes, scope.releases
        return State(1, tasks, runs, (None,) * scope.workers, (), *budget, (0,) * scope.tasks)

    def transitions(self, state, verbs=None):
        """Every step that can be taken from a state; of some verbs, if they are given."""
        verbs = self.memory if verbs is None else verbs
        for number, name in enumerate(self.scope.names):
            holds = state.workers[number]
            if isinstance(holds, Held):
                yield from self._with_a_claim(state, number, name, holds, verbs)
            elif state.claims:
                action, sent = self._claiming(state, name, holds)
                if action in verbs:
                    yield self._without_a_claim(state, number, name, action, sent)
        for number, held in enumerate(state.in_flight):
            rest = state.in_flight[:number] + state.in_flight[number + 1 :]
            for action in self._requests(state, held):
                if action in verbs:
                    yield self._arrive(state, rest, held, action)
        if NO_VERB in verbs:
            for t in self._instants(state):
                yield Transition(state, move_of("t", t), state._replace(now=t), None, None)

    def _instants(self, state):
        """The instants that the clock may jump to."""
        if self.scope.every_tick:
            return (state.now + 1,) if state.now < self.scope.horizon else ()
        ends = [task.lease_until for task in state.tasks if task.lease_until is not None]
        instants = {*ends, *(end - 1 for end in ends), *(task.available_at for task in state.tasks)}
        return sorted(t for t in instants if state.now < t <= self.scope.horizon)

    def _claiming(self, state, name, seen):
        """What a worker without a claim sends: an action and its arguments."""
        now, lease = state.now, self.scope.lease
        if not self.scope.two_steps:
            return "claim", (name, now, lease)
        return ("look", (now,)) if seen is None else ("take", (name, seen, now, lease))

    def _without_a_claim(self, state, number, name, action, sent):
        returned, tasks, runs = self.answer(action, state.tasks, state.runs, sent)
        if isinstance(returned, Claim):
            revisions = {run.id: run.revision for run in runs}
            holds = Held(returned, revisions[returned.run_id])
        else:
            holds = returned or None  # what it has seen
        after = state._replace(
            tasks=tasks,
            runs=runs,
            workers=_put(state.workers, number, holds),
            claims=state.claims - isinstance(holds, Held),
        )
        return Transition(state, move_of(name, action), after, None, returned)

    def _requests(self, state, held):
        """What a worker may send with its claim.

        It renews if that can prolong its lease, it writes the run a second time if it may have
        missed the answer, and it acknowledges what it has written.
        """
        may_renew = held.claim.lease_until < state.now + self.scope.lease
        return _chosen(may_renew, held.written, state.releases > 0)

    def _with_a_claim(self, state, number, name, held, verbs):
        for action in self._requests(state, held):
            if action not in verbs:
                continue
            returned, tasks, runs = self._send(state, held, action)
            if action == "renew" and returned:
                holds = held._replace(claim=held.claim._replace(lease_until=returned))
            elif returned == "committed":
                holds = held._replace(written=held.written + 1)
            elif (action, returned) in GO_ON:
                holds = held
            else:
                holds = None
            workers = _put(state.workers, number, holds)
            after = _sent(state, action, tasks, runs, workers, state.in_flight)
            yield Transition(state, move_of(name, action), after, held, returned)
        if NO_VERB not in verbs:
            return
        if not held.called:
            yield self._call(state, number, name, held)
        if state.crashes:
            in_flight = state.in_flight
            if len(in_flight) < self.scope.in_flight:
                in_flight = tuple(sorted((*in_flight, held._replace(called=False))))
            after = state._replace(
                workers=_put(state.workers, number, None),
                in_flight=in_flight,
                crashes=state.crashes - 1,
            )
            yield Transition(state, move_of(name, "crash"), after, held, None)

    def _call(self, state, number, name, held):
        task = held.claim.task_id - 1
        acted = state.ledger[task]
        more = not (acted and self.scope.idempotency_key)
        after = state._replace(
            workers=_put(state.workers, number, held._replace(called=True)),
            ledger=_put(state.ledger, task, min(2, acted + more)),
        )
        return Transition(state, move_of(name, "call_external"), after, held, None)

    def _arrive(self, state, rest, held, action):
        """A request that was sent before a crash reaches the file; nobody hears the answer."""
        returned, tasks, runs = self._send(state, held, action)
        claim = held.claim
        task = claim.task_id if self.scope.tasks > 1 else None
        move = move_of(claim.owner, action, claim.generation, task)
        after = _sent(state, action, tasks, runs, state.workers, rest)
        return Transition(state, move, after, held, returned)

    def _send(self, state, held, action):
        sent = self._arguments(action, held, state.now)
        return self.answer(action, state.tasks, state.runs, sent)

    def _arguments(self, action, held, now):
        """What a worker sends along with its claim."""
        claim = held.claim
        if action == "renew":
            return claim, now, self.scope.lease
        if action == "finish":
            return claim, now
        if action == "ack":
            return (claim,)
        if action == "release":
            return claim, now + self.scope.retry_delay
        if action == "commit_run":
            return claim, f"{claim.owner}'s result", held.revision, now
        return claim, now, self.scope.max_attempts

    def can_ever_be_claimed(self, state):
        """Whether a claim finds a task long after every lease has ended."""
        long_after = state.now + 1_000 * self.scope.lease
        verb, sent = "claim", ("A", long_after, self.scope.lease)
        if self.scope.two_steps:
            verb, sent = "look", (long_after,)
        return bool(self.answer(verb, state.tasks, state.runs, sent)[0])

    def answer(self, verb, tasks, runs, sent):
        """What comes back, and the rows then; asked of SQLite once and remembered."""
        memory = self.memory[verb]
        key = (tasks, runs, sent)
        answer = memory.get(key)
        if answer is None:
            answer = memory[key] = self._run(verb, tasks, runs, sent)
        return answer

    def refusals(self, verb, tasks, runs, task_id, sent):
        """The guards that say no to a statement about one task, as ``Store.refusals``."""
        self._load(tasks, runs)
        return self.store.refusals(verb, task_id, **sent)

    def _load(self, tasks, runs):
        store = self.store
        if self._loaded is None or [*map(len, self._loaded)] != [len(tasks), len(runs)]:
            store.fetch("DELETE FROM tasks")
            store.fetch("DELETE FROM runs")
            self._loaded = (), ()
        for run in runs:
            if run not in self._loaded[1]:
                store.fetch("REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", run)
        for task in tasks:
            if task not in self._loaded[0]:
                store.fetch("REPLACE INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", task)
        self._loaded = tasks, runs

    def _run(self, verb, tasks, runs, sent):
        self._load(tasks, runs)
        store = self.store
        try:
            returned = CALLS[verb](store, *sent)
        except StoreError as error:
            self._loaded = None
            return Failed(str(error).removeprefix(":memory:: ").rstrip(".")), tasks, runs
        most = max(statement.rows_changed for statement in store.ran)
        if most > 1:
            self._loaded = None
            return Failed(f"it changes {most} rows at once"), tasks, runs
        if most:
            tasks = tuple(map(Task._make, store.fetch("SELECT * FROM tasks ORDER BY id")))
            runs = tuple(map(Run._make, store.fetch("SELECT * FROM runs ORDER BY id")))
            self._loaded = tasks, runs
        return returned, tasks, runs


CALLS = {
    "claim": lambda store, owner, now, lease: store.claim(owner, now=now, lease=lease),
    "look": lambda store, now: store.look(now=now),
    "take": lambda store, owner, task, now, lease: store.take(owner, task, now=now, lease=lease),
    "renew": lambda store, claim, now, lease: store.renew(claim, now=now, lease=lease),
    "finish": lambda store, claim, now: store.finish(claim, now=now),
    "ack": lambda store, claim: store.ack(claim),
    "release": lambda store, claim, at: store.release(claim, available_at=at),
    "commit_run": lambda store, claim, value, revision, now: store.commit_run(
        claim, value, revision=revision, now=now
    ),
    "exhaust": lambda store, claim, now, most: store.exhaust(claim, now=now, max_attempts=most),
}


@cache
def _chosen(may_renew, written, may_release):
    may = {"renew": may_renew, "commit_run": written < 2, "ack": written, "release": may_release}
    return ("finish", "exhaust", *(action for action, allowed in may.items() if allowed))


def _sent(state, action, tasks, runs, workers, in_flight):
    """The state after a request; written out, for most of the time of a search goes by here."""
    releases = state.releases - (action == "release")
    return State(
        state.now,
        tasks,
        runs,
        workers,
        in_flight,
        state.claims,
        state.crashes,
        releases,
        state.ledger,
    )


def _put(values, number, value):
    return values[:number] + (value,) + values[number + 1 :]

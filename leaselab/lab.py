"""The lab: a clock that the reader moves, workers on a real SQLite file, an outside service.

Whatever is done leaves an ``Event`` in the trace, with the rows and the ledger read back from
their files. Nothing sleeps and nothing is random: the same calls leave the same trace.
"""

import json
import shutil
import tempfile
import threading
import weakref
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path

from leaselab.errors import InputError, StoreError, whole_number
from leaselab.protocol import Protocol
from leaselab.question import Question
from leaselab.scenarios import Scenario, Step
from leaselab.store import Claim, Store
from leaselab.trace import Event, Trace

ACTIONS = (
    *("claim", "look", "take", "renew", "finish", "ack", "release", "commit_run", "exhaust"),
    *("call_external", "crash", "reopen"),
)
OPTIONAL = ("generation", "task", "arrives_at", "available_at", "now", "lost", "acts_at", "key")
NEEDS_A_CLAIM = ("renew", "finish", "ack", "release", "commit_run", "exhaust")
# What a worker may be told about the claim it holds, and still hold it.
GO_ON = (("commit_run", "committed"), ("commit_run", "revision_conflict"), ("exhaust", False))


def one_at_a_time(method):
    """Hold the lab's lock: JupyterLab runs a widget's callbacks in a thread of their own."""

    @wraps(method)
    def held(self, *args, **kwargs):
        with self.lock:
            return method(self, *args, **kwargs)

    return held


def changes_the_lab(method):
    """One at a time, and whoever listens is told when the outermost call has ended."""

    @wraps(method)
    def told(self, *args, **kwargs):
        with self.lock:
            self._depth += 1
            try:
                return method(self, *args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    for listener in list(self.listeners):
                        listener.lab_changed()

    return told


@dataclass
class Worker:
    """A worker's process: its connection (None once it has crashed) and the claims it knows.

    ``seen`` is the task that it has looked at and not yet taken, None if there is none. ``held`` is
    the claim it believes in. ``earlier`` are claims that a suspended process, or a
    request sent before a crash, may still come back with.
    """

    name: str
    store: Store | None = None
    seen: int | None = None
    held: Claim | None = None
    earlier: list = field(default_factory=list)

    def drop(self):
        """The held claim is over, for this worker."""
        if self.held:
            self.earlier.append(self.held)
        self.held = None

    @property
    def known(self):
        """The claims it knows, the last one first; the held one last of all."""
        return [*reversed(self.earlier), *([self.held] if self.held else [])]

    def claim_of(self, generation, task_id=None):
        """The claim with this generation, an earlier one if there are two; or None."""
        for claim in self.known:
            if claim.generation == generation and task_id in (None, claim.task_id):
                return claim


class Service:
    """The outside service; its ledger is a text file, one line for each time it acted."""

    def __init__(self, path):
        self.path = path
        path.write_text("", encoding="utf-8")

    def act(self, t, worker, key):
        """Act, unless a call with the same idempotency key was acted on before.

        Returns whether it has acted.
        """
        if key is not None and key in [entry["key"] for entry in self.entries()]:
            return False
        with self.path.open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps({"t": t, "worker": worker, "key": key}) + "\n")
        return True

    def entries(self):
        """The ledger as it stands in the file: a list of dicts."""
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]


class Lab:
    """A scenario on a fresh SQLite file, played step by step or changed by the reader.

    Args:
        scenario: what will happen if the reader only moves the clock; nothing if none is given.
        protocol: the statements to run; the full protocol if none is given.
        idempotency_key: whether a call of the service carries the task as its key.
        server: a ``leaselab.postgres.PostgresServer``, on which the rows then lie instead of in a
            file.

    Attributes:
        t: the clock, in virtual seconds. It only goes forward; ``back`` plays everything anew.
        history: the steps that were done. ``future``: the steps to come.
        branches: what was left by going back and doing something else.

    ``close()`` deletes the files; a lab that is forgotten does so by itself.
    """

    def __init__(self, scenario=None, *, protocol=None, idempotency_key=False, server=None):
        self.scenario = scenario if scenario is not None else Scenario()
        self.server = server
        full = Protocol() if server is None else Protocol("postgres")
        self.protocol = protocol if protocol is not None else full
        if not isinstance(self.scenario, Scenario):
            raise InputError(f"a scenario is one of leaselab.scenarios, not {scenario!r}.")
        if not isinstance(self.protocol, Protocol):
            raise InputError(f"a protocol is Protocol() or Protocol.without(…), not {protocol!r}.")
        if (self.protocol.engine == "sqlite") != (server is None):
            raise InputError(
                f"a protocol for {self.protocol.engine} needs "
                f"{'no server' if server is not None else 'a server'}: Lab(server=…)."
            )
        self._script = _checked(self.scenario)
        self.idempotency_key = idempotency_key
        self.lock = threading.RLock()
        self.listeners = weakref.WeakSet()
        self.questions = {}
        self.branches = []
        self.future = list(self._script)
        self._truth = None
        self._undone = self._depth = 0
        self._rehearsed = None
        self.folder = Path(tempfile.mkdtemp(prefix="leaselab-"))
        self.path = self.folder / "lab.sqlite"
        self._open_stores = []
        self.close = weakref.finalize(self, _remove, self.folder, self._open_stores)
        self._start_afresh([], 0)

    @classmethod
    def replay(cls, incident, *, broken=False):
        """Play a field incident; returns a ``Replay``: step by step, whether what came back was expected.

        Args:
            incident: an ``Incident``, or the text of its table; see ``leaselab.incidents``.
            broken: play it under the broken protocol that the incident names.
        """
        from leaselab.incidents import Incident, read_incident
        from leaselab.replay import Replay

        return Replay(
            incident if isinstance(incident, Incident) else read_incident(incident), broken
        )

    # What a worker, the client and the clock can do

    def enqueue(self, run_id="run-1", *, available_at=None):
        """The client writes a task down. Returns None: accepting is not doing."""
        return self._do("client", "enqueue", run_id=run_id, available_at=available_at)

    def claim(self, worker, *, now=None):
        """Claim the first task that may run. Returns the generation, or None if refused.

        Args:
            worker: who claims.
            now: what the worker's clock says, if it is not right; the lab's clock if None.
        """
        return self._do(worker, "claim", now=now)

    def look(self, worker):
        """The first half of a claim in two steps. Returns the task's id, or None if refused."""
        return self._do(worker, "look")

    def take(self, worker):
        """The second half: claim what ``look`` has found, unasked. Returns the generation."""
        return self._do(worker, "take")

    def renew(self, worker, *, generation=None, now=None):
        """Renew the lease. Returns its new end, or None if refused.

        Args:
            worker: who renews.
            generation: an earlier generation to send; that of the held claim if None.
            now: what the worker read off its clock before it sent the request, which arrives now;
                the lab's clock if None.
        """
        return self._do(worker, "renew", generation=generation, now=now)

    def finish(self, worker, outcome="done", *, generation=None, task=None, arrives_at=None):
        """Finish the task. Returns True if accepted.

        Args:
            worker: who submits.
            outcome: ``"done"`` or ``"uncertain"``.
            generation: an earlier generation to submit with; that of the held claim if None.
            task: the id of the task that the generation belongs to, if there are several.
            arrives_at: when the request reaches the file; at once if None. It then arrives even
                if the worker has crashed meanwhile, and this call returns None.
        """
        return self._do(
            worker,
            "finish",
            outcome=outcome,
            generation=generation,
            task=task,
            arrives_at=arrives_at,
        )

    def ack(self, worker, *, generation=None):
        """Tidy a delivery whose run was already written. Returns True if accepted."""
        return self._do(worker, "ack", generation=generation)

    def release(self, worker, *, generation=None, available_at=None):
        """Give the task back, available now or later. Returns True if accepted."""
        return self._do(worker, "release", generation=generation, available_at=available_at)

    def commit_run(self, worker, value, *, revision, generation=None):
        """Write the run. Returns committed, revision_conflict or lease_lost."""
        return self._do(worker, "commit_run", value=value, revision=revision, generation=generation)

    def exhaust(self, worker, *, max_attempts=3, generation=None):
        """Fail task and run if the claim is one too many. Returns True if they failed."""
        return self._do(worker, "exhaust", max_attempts=max_attempts, generation=generation)

    def call_external(self, worker, *, lost=None, acts_at=None, key=None):
        """Call the outside service. Returns its ledger's count, or ``"timeout"``.

        Args:
            worker: who calls.
            lost: ``"request"`` (the service never hears of it) or ``"reply"`` (it acts, the
                worker does not hear of it); None if nothing is lost.
            acts_at: the service is slow and acts at this time; the worker sees a timeout now.
            key: the idempotency key; by default the task if the lab has such keys, else none.
        """
        return self._do(worker, "call_external", lost=lost, acts_at=acts_at, key=key)

    def crash(self, worker):
        """Drop the worker and close its connection without a commit."""
        return self._do(worker, "crash")

    def reopen(self, worker):
        """Start the worker anew on the same file. It remembers nothing."""
        return self._do(worker, "reopen")

    @changes_the_lab
    def play_to(self, t):
        """Move the clock forward to ``t`` and do what the script has up to then; returns the lab.

        What a worker cannot do is left out: the script may have expected it to run (the reader
        has crashed it), or to have been given a generation (the file has refused its claim).
        """
        whole_number("t", t)
        if t < self.t:
            raise InputError(
                f"the clock stands at t={self.t} and only goes forward; back() undoes a step."
            )
        while self.future and self.future[0].t <= t:
            self.next()
        self._pass_time(t)
        return self

    @changes_the_lab
    def next(self):
        """Move the clock to the next thing that happens, and let it happen; returns the lab."""
        arrival = self._in_flight[0][0] if self._in_flight else None
        if self.future and (arrival is None or self.future[0].t < arrival):
            step = self._in_truth(self.future[0])
            self._pass_time(step.t)
            step = step._replace(done=self.can_do(step))
            if step.done:
                self._perform(step)
            self.future.pop(0)
            self._undone = max(0, self._undone - 1)
            self.history.append(step)
        elif arrival is not None:
            self._pass_time(arrival)
        return self

    @changes_the_lab
    def play(self):
        """Play the script to its end, and whatever is still under way; returns the lab."""
        while self.future or self._in_flight:
            self.next()
        return self

    @changes_the_lab
    def back(self):
        """Undo what happened last: all before it is played anew on a fresh file; returns the lab."""
        times = [0, *(event.t for event in self.events)]
        if times[-1] < self.t:  # nothing but the clock has moved since
            return self._return_to(len(self.history), times[-1])
        length = len(self.history)
        while length and not self.history[length - 1].done:  # left out: nothing to undo
            length -= 1
        if length and self.history[length - 1].t == self.t:
            return self._return_to(length - 1, times[-2])
        earlier = [t for t in times if t < self.t]  # it was an arrival
        return self._return_to(length, max(earlier, default=0))

    @changes_the_lab
    def rewind(self, t):
        """Undo everything after ``t``, which is where the clock then stands; returns the lab."""
        whole_number("t", t)
        return self._return_to(sum(step.t <= t for step in self.history), min(t, self.t))

    @changes_the_lab
    def restart(self):
        """Undo everything, on fresh files, and forget the predictions; returns the lab."""
        return self._return_to(0, 0)

    @changes_the_lab
    def other_branch(self):
        """Go to the branch that was left first, and leave this one for later; returns the lab."""
        if not self.branches:
            raise InputError("there is no other branch; go back and do something else first.")
        history, future, t = self.branches.pop(0)
        self.branches.append((list(self.history), list(self.future), self.t))
        self.future, self._undone = list(future), 0
        self._start_afresh(history, t)
        self._forget_questions_ahead()
        return self

    # What can be asked and seen

    @one_at_a_time
    def ask(self, answer=None):
        """A question about the next step of the script; with an answer, the answer is locked in.

        The step can be done without an answer. Returns the ``Question``, which holds the verdict
        once the step is done.
        """
        if not self.future:
            raise InputError("there is no step left to ask about; begin again with restart().")
        step = self.future[0]
        fresh = Question(step, len(self.ledger))
        question = self.questions.setdefault(_key(step), fresh)
        if question.answer is None and question.choices != fresh.choices:  # the ledger has moved
            question = self.questions[_key(step)] = fresh
        if answer is not None:
            question.lock_in(answer)
        return question

    @property
    def score(self):
        """How many predictions came true, in words."""
        verdicts = [question.right for question in self.questions.values()]
        settled = [right for right in verdicts if right is not None]
        return f"{sum(settled)} of {len(settled)} predictions right"

    @one_at_a_time
    def why_not(self, worker, action, generation=None):
        """Why a worker cannot do this now, in the numbers of the moment; None if it can.

        Only a claim is asked of the file beforehand. Whatever else a worker sends, it sends in
        good faith, and the file answers when it arrives.
        """
        if action not in ACTIONS:
            raise InputError(f"there is no action {action!r}; there are {', '.join(ACTIONS)}.")
        obstacle = self._obstacle(worker, action, generation)
        if obstacle or action != "claim":
            return obstacle
        sent = {"owner": worker, "now": self.t, "lease": self.scenario.lease}
        tasks = self._reader.tasks()
        if any(not self._reader.refusals("claim", task["id"], **sent) for task in tasks):
            return None
        return self._event(worker, "claim", None, _first_unfinished(tasks), asked=sent).reason

    @property
    def truth(self):
        """What becomes of the calls of the script: ``{"lost": "request"}``, ``{"lost": "reply"}``,
        ``{"acts_after": 20}``, or ``{}`` (it answers). None leaves it to the script.
        """
        return self._truth

    @truth.setter
    def truth(self, truth):
        lost = [{"lost": "request"}, {"lost": "reply"}]
        late = isinstance(truth, dict) and list(truth) == ["acts_after"]
        if truth not in (None, {}, *lost) and not late:
            raise InputError(
                f"a truth is None, {{}}, {lost[0]}, {lost[1]} or {{'acts_after': 20}}."
            )
        if late:
            whole_number("acts_after", truth["acts_after"], at_least=1)
        self._truth = truth

    def truth_at(self, t):
        """``truth`` as arguments of ``call_external`` for a call at ``t``."""
        truth = dict(self.truth or {})
        if "acts_after" in truth:
            truth["acts_at"] = t + truth.pop("acts_after")
        return truth

    @property
    @one_at_a_time
    def trace(self):
        """What has happened so far."""
        return Trace(self.events, self.t, self.scenario.workers, self.protocol.struck_out)

    @property
    @one_at_a_time
    def horizon(self):
        """Just after the last instant of interest: the script's end, every lease's end."""
        arrivals = (arrives_at for arrives_at, _ in self._in_flight)
        steps = (step.t for step in self.future)
        ends = (self.rehearsal.horizon, self.trace.horizon, *steps, *arrivals)
        return max(ends) + 2

    @property
    def rehearsal(self):
        """The trace that the script leaves if the reader changes nothing; played once, elsewhere."""
        if self._rehearsed is None:
            lab = Lab(
                self.scenario,
                protocol=self.protocol,
                idempotency_key=self.idempotency_key,
                server=self.server,
            )
            try:
                self._rehearsed = lab.play().trace
            finally:
                lab.close()
        return self._rehearsed

    @property
    def ledger(self):
        """What the service has done, as its ledger's file says: a list of dicts."""
        return self.service.entries()

    @property
    def under_way(self):
        """How many requests are still on their way to the file or to the service."""
        return len(self._in_flight)

    def to_frame(self):
        """The trace as a DataFrame."""
        return self.trace.to_frame()

    def table(self):
        """The task table, as text and as HTML."""
        return self.trace.table()

    def chart(self, beside=None):
        """The timeline, as a picture with its sentence.

        Args:
            beside: another lab, whose chart is to have the same axis of time.
        """
        from leaselab.chart import Chart

        return Chart(self.trace, max(lab.horizon for lab in (self, beside or self)))

    def lease_curve(self, beside=None):
        """The end of the lease over time, as a picture with its sentence; as ``chart``."""
        from leaselab.lease_curve import LeaseCurve

        return LeaseCurve(self.trace, max(lab.horizon for lab in (self, beside or self)))

    def boundary(self):
        """The comparison at the end of the last lease, as a picture with its sentence."""
        from leaselab.chart import Boundary

        return Boundary(self.trace)

    def panel(self):
        """The controls, as a widget."""
        from leaselab.panel import Panel

        return Panel(self)

    def __repr__(self):
        return self.trace.title

    # How it is done

    @changes_the_lab
    def _do(self, actor, action, **arguments):
        """An action of the reader, now; returns what came back."""
        arguments = {
            name: value
            for name, value in arguments.items()
            if value is not None or name not in OPTIONAL
        }
        obstacle = self._obstacle(actor, action, arguments.get("generation"))
        if obstacle:
            hint = "; generation=… submits an earlier one" if "no claim" in obstacle else ""
            raise InputError(f"{obstacle}{hint}.")
        step = Step(self.t, actor, action, arguments)
        returned = self._perform(step)
        if self._undone:
            undone, ahead = self.future[: self._undone], self.future[self._undone :]
            left = [*self.history, *undone]
            self.branches.append((left, ahead, left[-1].t))
            self.future = [step for step in undone if step.number is not None] + ahead
            self._undone = 0
        self.history.append(step)
        return returned

    def _obstacle(self, actor, action, generation=None):
        """Why the actor itself, whatever the file says, cannot do this now; or None."""
        if actor == "client":
            return None
        if actor not in self.workers:
            return f"there is no worker {actor!r}; there are {', '.join(self.workers)}"
        worker = self.workers[actor]
        if action == "reopen":
            return f"{actor} has not crashed" if worker.store else None
        if not worker.store:
            return f"{actor} has crashed; reopen it first"
        if action == "take" and worker.seen is None:
            return f"{actor} has seen no task; let it look first"
        if action not in NEEDS_A_CLAIM or worker.held:
            return None
        if generation is None:
            return f"{actor} holds no claim"
        return None if self._reader.tasks() else "there is no task yet; enqueue one first"

    def _in_truth(self, step):
        """A scripted call of the service, with what becomes of it now."""
        if step.action != "call_external" or step.number is None or self.truth is None:
            return step
        kept = {name: value for name, value in step.arguments.items() if name == "key"}
        return step._replace(arguments={**kept, **self.truth_at(step.t)})

    @one_at_a_time
    def can_do(self, step):
        """Whether the actor of a step can act, and knows the generation that it is to send."""
        generation = step.arguments.get("generation")
        if self._obstacle(step.actor, step.action, generation):
            return False
        known = generation is None or self.workers[step.actor].claim_of(generation)
        return step.number is None or bool(known)

    def _perform(self, step):
        """Do one step; its event joins the trace. Returns what came back."""
        if not self.close.alive:
            raise StoreError("this lab is closed and its files are deleted; make a new one.")
        for path in (self.path, self.service.path):
            if not path.exists() and (path != self.path or self.server is None):
                raise StoreError(f"{path} is gone; restart() begins again on a fresh file.")
        event = getattr(self, f"_{step.action}", self._submit)(step)
        self.events.append(event)
        if _key(step) in self.questions:
            question = self.questions.pop(_key(step))
            question.settle(event)
            self.questions[_key(step)] = question  # the last to be settled comes last
        return event.returned

    def _enqueue(self, step):
        sent = {"run_id": "run-1", **step.arguments}
        task_id = self._reader.enqueue(**sent, now=self.t)
        return self._event("client", "enqueue", None, task_id, self._reader.ran)

    def _claim(self, step):
        worker = self.workers[step.actor]
        tasks = self._reader.tasks()
        now = step.arguments.get("now", self.t)
        claim = worker.store.claim(worker.name, now=now, lease=self.scenario.lease)
        sent = {} if now == self.t else {"now": now}
        if claim:
            return self._hold(worker, "claim", claim, sent)
        return self._nothing_found(worker, "claim", tasks, sent)

    def _look(self, step):
        worker = self.workers[step.actor]
        worker.seen = worker.store.look(now=self.t)
        if worker.seen is None:
            return self._nothing_found(worker, "look", self._reader.tasks())
        return self._event(worker.name, "look", worker.seen, worker.seen, worker.store.ran)

    def _take(self, step):
        worker = self.workers[step.actor]
        task_id, worker.seen = worker.seen, None
        lease = self.scenario.lease
        claim = worker.store.take(worker.name, task_id, now=self.t, lease=lease)
        return self._hold(worker, "take", claim)

    def _hold(self, worker, action, claim, sent=None):
        """A worker was given a claim: that is the one it believes in."""
        worker.drop()
        worker.held = claim
        ran = worker.store.ran
        return self._event(worker.name, action, claim.generation, claim.task_id, ran, sent=sent)

    def _nothing_found(self, worker, action, tasks, sent=None):
        """No task may be claimed; the file says why of the first that is not final."""
        ran, task_id = worker.store.ran, _first_unfinished(tasks)
        asked = ran[0].sent
        return self._event(worker.name, action, None, task_id, ran, sent=sent, asked=asked)

    def _submit(self, step):
        """Send a statement together with a claim; it arrives now, or at ``arrives_at``."""
        worker = self.workers[step.actor]
        sent = dict(step.arguments)
        claim = self._claim_to_send(worker, sent.pop("generation", None), sent.pop("task", None))
        if "arrives_at" not in sent:
            return self._arrive(worker, step.action, claim, sent, worker.store)
        arrives_at = sent.pop("arrives_at")
        sent = {"outcome": "done", **sent}
        self._send(arrives_at, lambda: self._arrive(worker, step.action, claim, sent, self._reader))
        told = {**sent, "generation": claim.generation, "arrives_at": arrives_at}
        return self._event(worker.name, "send_finish", None, claim.task_id, sent=told)

    def _arrive(self, worker, action, claim, sent, store):
        """A statement with a claim reaches the file through ``store``."""
        defaults = {
            "renew": {"now": self.t, "lease": self.scenario.lease},
            "finish": {"outcome": "done", "now": self.t},
            "release": {"available_at": self.t},
            "commit_run": {"now": self.t},
            "exhaust": {"now": self.t, "max_attempts": 3},
        }
        sent = {**defaults.get(action, {}), **sent}
        returned = getattr(store, action)(claim, **sent)
        held = worker.held
        if held and (held.task_id, held.generation) == (claim.task_id, claim.generation):
            if action == "renew" and returned is not None:
                worker.held = held._replace(lease_until=returned)
            elif (action, returned) not in GO_ON:
                worker.drop()
        sent["generation"] = claim.generation
        asked = None if store.ran[0].rows_changed else store.ran[0].sent
        return self._event(
            worker.name, action, returned, claim.task_id, store.ran, sent=sent, asked=asked
        )

    def _claim_to_send(self, worker, generation, task_id):
        """The claim a worker sends: the one it holds, an earlier one, or one made up."""
        if generation is None:
            return worker.held
        whole_number("generation", generation)
        known = worker.claim_of(generation, task_id)
        if known:
            return known
        task_id = self._meant(worker.name) if task_id is None else task_id
        for row in self._reader.tasks():
            if row["id"] == task_id:
                return Claim(task_id, row["run_id"], worker.name, generation, 0)
        raise InputError(f"there is no task {task_id!r}.")

    def _call_external(self, step):
        lost, acts_at = step.arguments.get("lost"), step.arguments.get("acts_at")
        if lost not in (None, "request", "reply"):
            raise InputError(f"lost must be 'request', 'reply' or None, not {lost!r}.")
        if lost is not None and acts_at is not None:
            raise InputError("a call is lost or acts later (acts_at), not both.")
        task_id = self._meant(step.actor)
        key = f"task-{task_id}" if self.idempotency_key and task_id else None
        key = step.arguments.get("key", key)
        if not isinstance(key, (str, type(None))):
            raise InputError(f"an idempotency key must be a text, not {key!r}.")
        acted = None
        if acts_at is not None:
            self._send(acts_at, lambda: self._act(step.actor, key, task_id))
        elif lost != "request":
            acted = self.service.act(self.t, step.actor, key)
        timeout = lost is not None or acts_at is not None
        returned = "timeout" if timeout else len(self.ledger)
        sent = {"key": key, "lost": lost, "acts_at": acts_at, "acted": acted}
        return self._event(step.actor, "call_external", returned, task_id, sent=sent)

    def _act(self, caller, key, task_id):
        acted = self.service.act(self.t, caller, key)
        sent = {"caller": caller, "key": key, "acted": acted}
        return self._event("service", "act", None, task_id, sent=sent)

    def _crash(self, step):
        worker = self.workers[step.actor]
        task_id = self._meant(worker.name)
        worker.store.close()
        worker.store = worker.seen = None
        worker.drop()
        return self._event(worker.name, "crash", None, task_id)

    def _reopen(self, step):
        self.workers[step.actor].store = self._open()
        return self._event(step.actor, "reopen", None, self._meant(step.actor))

    def _meant(self, name):
        """The task that a worker means when it names none, or None."""
        worker = self.workers[name]
        last = worker.held or (worker.earlier[-1] if worker.earlier else None)
        return last.task_id if last else _first_unfinished(self._reader.tasks())

    def _send(self, arrives_at, arrival):
        """Something is under way: it happens at ``arrives_at``, whatever its sender does."""
        whole_number("the time of arrival", arrives_at, at_least=self.t + 1)
        self._in_flight.append((arrives_at, arrival))
        self._in_flight.sort(key=lambda flight: flight[0])

    def _pass_time(self, t):
        """Move the clock, and let arrive what is due."""
        while self._in_flight and self._in_flight[0][0] <= t:
            self.t, arrival = self._in_flight.pop(0)
            self.events.append(arrival())
        self.t = t

    def _event(self, actor, action, returned, task_id, ran=(), *, sent=None, asked=None):
        """What has just happened, with the rows and the ledger read back from their files.

        ``asked`` is what a refused statement was given; the file is asked which guard said no.
        """
        refusals = None
        if asked is not None:
            asked = {name: value for name, value in asked.items() if name != "task_id"}
            refusals = self._reader.refusals(action, task_id, **asked) if task_id else ()
        earlier = self.events[-1].tasks if self.events else ()
        return Event(
            t=self.t,
            actor=actor,
            action=action,
            sent=sent or {},
            returned=returned,
            task_id=task_id,
            before=next((row for row in earlier if row["id"] == task_id), None),
            tasks=tuple(self._reader.tasks()),
            runs=tuple(self._reader.runs()),
            external_calls=len(self.ledger),
            statements=tuple(ran),
            refusals=refusals,
        )

    def _return_to(self, length, t):
        """Undo all but the first steps of the history; the undone ones come next again."""
        undone = [
            step if step.number is None else self._script[step.number]
            for step in self.history[length:]
        ]
        self.future[:0] = undone
        self._undone += len(undone)
        self._start_afresh(self.history[:length], t)
        self._forget_questions_ahead()
        return self

    def _forget_questions_ahead(self):
        """A step that lies ahead again may come out otherwise: it is asked about anew."""
        behind = {_key(step) for step in self.history}
        self.questions = {key: asked for key, asked in self.questions.items() if key in behind}

    def _start_afresh(self, history, t):
        """Fresh files, and the history played on them up to ``t``."""
        if not self.close.alive:
            raise StoreError("this lab is closed and its files are deleted; make a new one.")
        _close_and_delete(self._open_stores, self.path)
        self.place = self.path if self.server is None else self.server.fresh()
        self.t = 0
        self.events = []
        self._in_flight = []
        self._reader = self._open()
        self.service = Service(self.folder / "service.jsonl")
        self.workers = {name: Worker(name, self._open()) for name in self.scenario.workers}
        self.history = []
        for step in history:
            self._pass_time(step.t)
            if step.done:
                self._perform(step)
            self.history.append(step)
        self._pass_time(t)

    def _open(self):
        open_store = Store if self.server is None else self.server.store
        store = open_store(self.place, self.protocol)
        self._open_stores.append(store)
        return store


def _first_unfinished(tasks):
    """The id of the task a claim is about: the first that is not final, else the last; or None."""
    unfinished = [task for task in tasks if task["state"] in ("pending", "running")]
    unfinished.sort(key=lambda task: (task["available_at"], task["created_at"], task["id"]))
    task = unfinished[0] if unfinished else tasks[-1] if tasks else None
    return task and task["id"]


def _key(step):
    """What a question hangs on: a scripted step's number, else the step's first three fields."""
    return step[:3] if step.number is None else step.number


def _checked(scenario):
    """The script with its steps numbered; ``InputError`` names what cannot be played."""
    whole_number("lease", scenario.lease, at_least=1)
    names = scenario.workers
    named = isinstance(names, (tuple, list)) and all(isinstance(n, str) and n for n in names)
    if not named or not names or len(set(names)) < len(names):
        raise InputError(f"workers must be different names that are not empty, not {names!r}.")
    for taken in ("client", "service"):
        if taken in names:
            raise InputError(f"a worker cannot be called {taken!r}; there is one already.")
    script, now = [], 0
    for number, step in enumerate(scenario.steps):
        where = f"step {number + 1} of the scenario"
        whole_number(f"the time of {where}", step.t, at_least=now)
        if step.action not in ("enqueue", *ACTIONS):
            raise InputError(
                f"{where} has no action {step.action!r}; there are {', '.join(ACTIONS)}."
            )
        if (step.actor == "client") != (step.action == "enqueue"):
            raise InputError(
                f"{where}: the client enqueues, and nothing else; workers do the rest."
            )
        if step.actor not in ("client", *names):
            raise InputError(f"{where} has no worker {step.actor!r}; there are {', '.join(names)}.")
        if step.ask:
            Question(step, 0)
        script.append(step._replace(number=number))
        now = step.t
    return script


def _close_and_delete(stores, path):
    """Close every connection for real, then delete the file and what SQLite put beside it."""
    while stores:
        stores.pop().close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def _remove(folder, stores):
    _close_and_delete(stores, folder / "lab.sqlite")
    shutil.rmtree(folder, ignore_errors=True)

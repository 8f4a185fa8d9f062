"""What must hold in every schedule: each property with a name, a sentence, and its reason if broken.

A property judges one transition: the rows before, who did what, what came back, the rows after. It
repeats no statement: it says what a reader relies on, and SQLite says what happens.
"""

from dataclasses import dataclass
from typing import Callable

from leaselab.errors import UnknownName
from leaselab.explore.machine import Failed, Held
from leaselab.explore.scope import ONE_TASK, TWO_TASKS, Scope

FINAL = ("done", "uncertain", "failed")
CLAIMS = ("claim", "look", "take")
RESULTS = ("finish", "commit_run", "exhaust")  # what writes a result, and so needs a live lease
REQUESTS = ("renew", "ack", "release", *RESULTS)  # what is sent together with a claim


@dataclass(frozen=True, eq=False)  # one is itself; its hash is asked for often
class Property:
    """A sentence that must be true of every schedule.

    Attributes:
        name: one word or two, as ``"stale_commit"``.
        sentence: what must hold.
        actions: the actions that are looked at.
        judge: takes a ``Transition`` and the ``Machine``; gives the reason if it is broken.
        scope: where it is judged if no scope is given.
        possible: it is no promise but a possibility: ``judge`` tells where it has come true.
    """

    name: str
    sentence: str
    actions: tuple
    judge: Callable
    scope: Scope = ONE_TASK
    possible: bool = False

    def __repr__(self):
        return f"{self.name}: {self.sentence}"


class Properties(dict):
    """Properties by name; an unknown name is answered with the known ones."""

    def __missing__(self, name):
        raise UnknownName(f"there is no property {name!r}; there are {', '.join(self)}.")


def _accepted(transition):
    """Whether a request has changed something."""
    return transition.returned and transition.returned not in ("lease_lost", "revision_conflict")


def _row(state, claim):
    return state.tasks[claim.task_id - 1]


def _live(task, now):
    return task.lease_until is not None and now < task.lease_until


def _one_live_holder(transition, machine):
    after = transition.after
    holders = {}
    for name, held in zip(machine.scope.names, after.workers):
        if isinstance(held, Held) and after.now < held.claim.lease_until:
            holders.setdefault(held.claim.task_id, []).append(name)
    for task_id, names in holders.items():
        if len(names) > 1:
            return (
                f"at t={after.now} both {' and '.join(names)} hold a live lease of task {task_id}"
            )


def _stale_commit(transition, machine):
    sent, row = transition.claim.generation, _row(transition.before, transition.claim)
    if sent < row.generation and _accepted(transition):
        action = transition.move.action
        return f"{action} of generation {sent} is accepted, the row has generation {row.generation}"


def _late_write(transition, machine):
    row, now = _row(transition.before, transition.claim), transition.before.now
    if row.lease_until is not None and now >= row.lease_until and _accepted(transition):
        return f"{transition.move.action} is accepted at t={now}, the lease has ended at t={row.lease_until}"


def _revived(transition, machine):
    row, now = _row(transition.before, transition.claim), transition.before.now
    if row.lease_until is not None and now >= row.lease_until and _accepted(transition):
        end = _row(transition.after, transition.claim).lease_until
        return (
            f"at t={now} a lease that has ended at t={row.lease_until} is live again, until t={end}"
        )


def _lease_length(transition, machine):
    now, lease = transition.before.now, machine.scope.lease
    for before, task in zip(transition.before.tasks, transition.after.tasks):
        end = task.lease_until
        if before == task or end is None:
            continue
        if end > now + lease:
            return f"at t={now} the lease is made to end at t={end}, more than one lease later"
        if before.lease_until and before.generation == task.generation and end < before.lease_until:
            return f"at t={now} the lease is made shorter: it ended at t={before.lease_until}, now at t={end}"
        if end < now + lease:
            return f"at t={now} the lease is made to end at t={end}, less than one lease later"


def _final(transition, machine):
    for before, after in zip(transition.before.tasks, transition.after.tasks):
        if before.state in FINAL and before != after:
            return f"task {before.id} was {before.state} and is {after.state}, generation {after.generation}"
    for before, after in zip(transition.before.runs, transition.after.runs):
        if before.state != "active" and before != after:
            return f"{before.id} was {before.state}, and is written again"


def _generation(transition, machine):
    claimed = (
        transition.returned.task_id
        if transition.move.action in ("claim", "take") and transition.returned
        else None
    )
    for before, after in zip(transition.before.tasks, transition.after.tasks):
        more = after.generation - before.generation
        if more != (before.id == claimed):
            was = f"task {before.id} had generation {before.generation} and has {after.generation}"
            return f"{transition.move.action}: {was}"


def _one_per_run(transition, machine):
    after = transition.after
    running = [task for task in after.tasks if _live(task, after.now)]
    for task in running:
        for other in running:
            if task.id < other.id and task.run_id == other.run_id:
                return (
                    f"tasks {task.id} and {other.id} of {task.run_id} are running at t={after.now}"
                )


def _free(task, state):
    """Whether nothing stands against a claim of this task."""
    waits = task.available_at > state.now or task.state in FINAL or _live(task, state.now)
    others = (other for other in state.tasks if other.id != task.id)
    return not waits and not any(
        other.run_id == task.run_id and _live(other, state.now) for other in others
    )


def _passed_over(transition, machine):
    if not transition.returned:
        for task in transition.before.tasks:
            if _free(task, transition.before):
                return (
                    f"a claim is refused at t={transition.before.now}, and task {task.id} is free"
                )


def _stuck(transition, machine):
    before = transition.before
    if transition.returned:
        return None
    waiting = [task for task in before.tasks if task.state not in FINAL]
    ends = [task.lease_until or task.available_at for task in waiting]
    if waiting and before.now >= max(ends) and not machine.can_ever_be_claimed(before):
        return f"task {waiting[0].id} is {waiting[0].state}, nobody holds it, and no claim will find it"


def _too_soon(transition, machine):
    if transition.returned and transition.move.action != "look":
        task = _row(transition.before, transition.returned)
        if task.available_at > transition.before.now:
            return f"task {task.id} is claimed at t={transition.before.now}, and available at t={task.available_at}"


def _poison_task(transition, machine):
    claim, before = transition.claim, transition.before
    row, most = _row(before, claim), machine.scope.max_attempts
    if transition.returned and claim.generation <= most:
        return f"claim {claim.generation} has failed the task, and {most} is within the limit"
    holds = row.generation == claim.generation and row.lease_owner == claim.owner
    active = before.runs[int(row.run_id[4:]) - 1].state == "active"
    if not transition.returned and claim.generation > most and holds and active:
        if _live(row, before.now):
            return f"claim {claim.generation} is one too many, and cannot end the task"


def _holder_refused(transition, machine):
    claim, before = transition.claim, transition.before
    row = _row(before, claim)
    same = (row.generation, row.lease_owner) == (claim.generation, claim.owner)
    refused = not transition.returned or transition.returned == "lease_lost"
    if transition.returned == "revision_conflict":
        run = next(run for run in before.runs if run.id == claim.run_id)
        refused = run.revision == transition.held.revision
    if same and row.state == "running" and _live(row, before.now) and refused:
        return f"{claim.owner}'s {transition.move.action} is refused at t={before.now}, its lease lasts until t={row.lease_until}"


def _lost_update(transition, machine):
    claim = transition.claim
    if transition.returned != "committed":
        return None
    run = next(run for run in transition.before.runs if run.id == claim.run_id)
    if transition.held.revision < run.revision:
        return f"{claim.owner} has read revision {transition.held.revision} and writes over revision {run.revision}"


def _side_effect(transition, machine):
    for task, times in enumerate(transition.after.ledger, start=1):
        if times > 1:
            return f"the service has acted twice for task {task}"


def _sound(transition, machine):
    if isinstance(transition.returned, Failed):
        return str(transition.returned)


def _can_finish(transition, machine):
    return transition.returned and "a finish is accepted"


def _can_take_over(transition, machine):
    claim = transition.returned
    if claim and transition.move.action != "look":
        row = _row(transition.before, claim)
        return row.state == "running" and row.generation and "a task is taken over"


def _can_refuse(transition, machine):
    failed = isinstance(transition.returned, Failed)
    return not failed and not _accepted(transition) and "a request is refused"


PROPERTIES = Properties(
    (kind.name, kind)
    for kind in (
        Property(
            "one_live_holder",
            "At every instant at most one worker holds a live lease of a task.",
            ("claim", "take", "renew"),
            _one_live_holder,
        ),
        Property(
            "stale_commit",
            "Nothing is accepted that was sent with an earlier generation than the row's.",
            REQUESTS,
            _stale_commit,
        ),
        Property(
            "late_write",
            "No result is written at the end of the lease or after it.",
            RESULTS,
            _late_write,
        ),
        Property(
            "revived_lease",
            "A lease that has ended is never live again.",
            ("renew",),
            _revived,
        ),
        Property(
            "lease_length",
            "A claim or a renewal makes the lease end one lease from now, and never sooner than before.",
            ("claim", "take", "renew"),
            _lease_length,
        ),
        Property(
            "final",
            "A task that is done, uncertain or failed stays so; a run that has failed, too.",
            (*CLAIMS, *REQUESTS),
            _final,
        ),
        Property(
            "generation",
            "The generation goes up by one at each claim, and never otherwise.",
            (*CLAIMS, *REQUESTS),
            _generation,
        ),
        Property(
            "one_per_run",
            "Of the tasks of one run at most one is held at a time.",
            ("claim", "take", "renew"),
            _one_per_run,
            TWO_TASKS,
        ),
        Property(
            "too_soon",
            "No task is claimed before it is available.",
            ("claim", "take"),
            _too_soon,
        ),
        Property(
            "stuck",
            "No task is stuck for ever: one that has not ended can be claimed again some time.",
            ("claim", "look"),
            _stuck,
        ),
        Property(
            "passed_over",
            "A claim is refused only as long as no task is free.",
            ("claim", "look"),
            _passed_over,
        ),
        Property(
            "holder_refused",
            "What the holder of a live lease sends is accepted, unless it has not read the run.",
            ("renew", "finish", "ack", "release", "commit_run"),
            _holder_refused,
        ),
        Property(
            "lost_update",
            "No write to a run passes over one that its writer has not read.",
            ("commit_run",),
            _lost_update,
        ),
        Property(
            "poison_task",
            "A claim past the attempt limit can end the task, and no claim within it can.",
            ("exhaust",),
            _poison_task,
        ),
        Property(
            "side_effect",
            "The service acts at most once for a task.",
            ("call_external",),
            _side_effect,
        ),
        Property(
            "sound",
            "Every statement runs to its end, within the CHECKs of the tables, and changes one row.",
            (*CLAIMS, *REQUESTS),
            _sound,
        ),
        Property("can_finish", "A finish can succeed.", ("finish",), _can_finish, possible=True),
        Property(
            "can_take_over",
            "A takeover can happen.",
            ("claim", "take"),
            _can_take_over,
            possible=True,
        ),
        Property("can_refuse", "A refusal can happen.", REQUESTS, _can_refuse, possible=True),
    )
)

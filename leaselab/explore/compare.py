"""A statement beside the reference: on what the schedules have come to, and on made-up rows."""

from collections import defaultdict
from itertools import product

from leaselab.explore.machine import Failed, Machine, Run, Task, memory_of
from leaselab.explore.scope import ONE_TASK
from leaselab.protocol import Protocol
from leaselab.store import Claim

REFUSALS = (None, False, "lease_lost", "revision_conflict")
NOW, LEASE = 100, 30  # of the made-up rows


def compare(name, sql):
    """Where a statement answers otherwise than the reference.

    They are compared on all that the schedules searched have come to, and on many rows that are
    made up. A difference is no fault as long as no property suffers.

    Args:
        name: ``"claim"``, ``"renew"``, ``"finish"`` or ``"commit_run"``.
        sql: the other text.

    Returns lines for the reader.
    """
    protocol = Protocol().with_statement(name, sql)
    reference, other = Machine(Protocol(), ONE_TASK), Machine(protocol, ONE_TASK)
    met = [scene for scene in memory_of(protocol, name) if NOW not in scene[2]]
    made_up = list(_claim_scenes() if name == "claim" else _scenes(name))
    different, schedules_differ = defaultdict(list), False
    try:
        for place, scene in enumerate([*made_up, *met]):
            wanted, given = reference.answer(name, *scene), other.answer(name, *scene)
            if given != wanted:
                different[_difference(reference, name, scene, wanted, given)].append(scene)
                schedules_differ |= place >= len(made_up)
    finally:
        reference.close()
        other.close()
    rows = f"{len(made_up):,} made-up rows"
    if not different:
        return [f"In all of them, and on {rows}, it answers just as the reference does."]
    if schedules_differ:
        lines = [f"In them and on {rows} it differs from the reference; no property suffers:"]
    else:
        lines = [f"In all of them it answers just as the reference does. On {rows} it differs:"]
    for kind, scenes in sorted(different.items(), key=lambda item: -len(item[1])):
        times = f"{len(scenes):,} time{'s' if len(scenes) > 1 else ''}"
        if kind.startswith("accepts") and not schedules_differ:
            times += "; in no schedule"
        lines.append(f"  it {kind} ({times}), as with {_told(name, scenes[0])}")
    return lines


def _claim_scenes():
    """Two tasks each time, of one run or of two, and a claim."""
    pending = (("pending", 0, None, None, at) for at in (0, NOW, NOW + 1))
    running = (("running", 1, "A", end, 0) for end in (NOW - 1, NOW, NOW + 1))
    ended = ((state, 1, None, None, 0) for state in ("done", "uncertain", "failed"))
    others = (
        ("pending", 9, None, None, 0),
        ("running", 1, "A", NOW - 1, NOW + 1),
        ("running", 1, "B", NOW + 1, 0),
    )
    rows = (*pending, *running, *ended, *others)
    for first, second, two_runs in product(rows, rows, (False, True)):
        tasks = Task(1, "run-1", *first, 0), Task(2, f"run-{1 + two_runs}", *second, 0)
        yield tasks, RUNS, ("B", NOW, LEASE)


def _scenes(name):
    """A task in every state, another one beside it, and a claim of generation 2 that A sends."""
    owned = product(["running"], (1, 2, 3), "AB", (NOW - 1, NOW, NOW + 1, NOW + 2 * LEASE))
    free = product(("pending", "done", "uncertain", "failed"), (1, 2, 3), [None], [None])
    beside = Task(2, "run-2", "running", 2, "A", NOW + 1, 0, 0)
    for row, run_id in product((*owned, *free), ("run-1", "run-2")):
        tasks = Task(1, "run-1", *row, 0, 0), beside
        claim = Claim(1, run_id, "A", 2, 0)
        if name == "commit_run":
            for revision in (0, 1, 2):
                yield tasks, RUNS, (claim, "A's result", revision, NOW)
        else:
            yield tasks, RUNS, (claim, NOW, LEASE) if name == "renew" else (claim, NOW)


RUNS = tuple(Run(f"run-{number}", "active", 1, None, None) for number in (1, 2))


def _difference(reference, name, scene, wanted, given):
    """In what an answer differs from the reference's, in words."""
    if isinstance(given[0], Failed):
        return f"fails: {given[0]}"
    if given[0] in REFUSALS:
        if wanted[0] in REFUSALS:
            return f"gives back {given[0]!r} where the reference gives {wanted[0]!r}"
        return "refuses what the reference accepts"
    if wanted[0] not in REFUSALS:
        return "writes something else than the reference"
    tasks, _, sent = scene
    changed = [task for task, now in zip(tasks, given[1]) if task != now] or tasks
    names = dict(zip(("owner", "now", "lease"), sent))
    if name != "claim":
        claim, now = sent[0], sent[3 if name == "commit_run" else 1]
        names = {"run_id": claim.run_id, "owner": claim.owner, "generation": claim.generation}
        names |= {"now": now, "revision": sent[2] if name == "commit_run" else None}
    guards = reference.refusals(name, *scene[:2], changed[0].id, names)
    told = " and ".join(guards) or "asking for task and run"
    return f"accepts what the reference refuses by {told}"


def _told(name, scene):
    """The rows and what was sent, in words."""
    tasks, runs, sent = scene
    rows = []
    for task in tasks if name == "claim" else tasks[:1]:
        held = f" of {task.lease_owner}, lease_until {task.lease_until}"
        told = f"task {task.id} of {task.run_id}: {task.state}, generation {task.generation}"
        later = f", available at {task.available_at}" if task.available_at else ""
        rows.append(told + (held if task.lease_owner else "") + later)
    if name == "claim":
        return f"{'; '.join(rows)}; at t={sent[1]} {sent[0]} claims"
    claim, now = sent[0], sent[3 if name == "commit_run" else 1]
    asked = f"at t={now} {claim.owner} sends generation {claim.generation} for {claim.run_id}"
    if name == "commit_run":
        run = next(run for run in runs if run.id == claim.run_id)
        asked += f", having read revision {sent[2]} (it is {run.revision})"
    return f"{'; '.join(rows)}; {asked}"

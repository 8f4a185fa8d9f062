"""What the lab and the search say about the questions of the self-test.

Each function plays its schedules on fresh files, or searches, and returns an ``Evidence``. Its fact
picks the right choice of a question; which choice that is, is not written down here.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from leaselab.explore import Scope, explore
from leaselab.lab import Lab
from leaselab.protocol import Protocol
from leaselab.scenarios import Scenario, scenarios
from leaselab.store import Store
from leaselab.workers.heartbeat import Heartbeat


@dataclass(frozen=True)
class Evidence:
    """What was run, and what came of it.

    Attributes:
        fact: what it comes to; the choices of a question are known by their facts.
        lines: the same in words.
        traces: what is drawn, by caption.
        curve: whether the end of the lease over time is drawn, and not the timeline.
    """

    fact: object
    lines: tuple
    traces: dict
    curve: bool = False

    def charts(self):
        """The pictures by caption, on one axis of time."""
        from leaselab.chart import Chart
        from leaselab.lease_curve import LeaseCurve

        horizon = max((trace.horizon for trace in self.traces.values()), default=0) + 2
        kind = LeaseCurve if self.curve else Chart
        return {caption: kind(trace, horizon) for caption, trace in self.traces.items()}


def evidence(fact, lines, labs=None, curve=False):
    """An ``Evidence`` of labs by caption. Only their traces are kept, so their files go."""
    traces = {caption: lab.trace for caption, lab in (labs or {}).items()}
    return Evidence(fact, tuple(lines), traces, curve)


def the_one(answers):
    """The only name whose answer is true; all such names if there is not exactly one."""
    found = [name for name, answer in answers.items() if answer]
    return found[0] if len(found) == 1 else tuple(found)


def claimed(tasks=1, lease=30, protocol=None):
    """A lab in which A has claimed the first of some tasks of one run, at t=1."""
    lab = Lab(Scenario(lease=lease), protocol=protocol)
    for _ in range(tasks):
        lab.enqueue()
    lab.play_to(1).claim("A")
    return lab


def last(lab):
    """The last event of a lab."""
    return lab.trace.events[-1]


def told(row):
    """A row in words."""
    return ", ".join(f"{name} {value}" for name, value in row.items())


def searched(verdict):
    """What a search says, a line for each property."""
    return [f"a search, {name}: {finding.sentence}" for name, finding in verdict.items()]


# The claim


def claim_after_done():
    lab = claimed()
    lab.play_to(8).finish("A")
    lab.play_to(40).claim("B")
    return evidence(last(lab).refusals or (), lab.trace.lines, {"What was played": lab})


def repairs_of_two_steps():
    steps = {
        "look again": ("look", "look", "take"),
        "short lease": ("look", "take"),
        "generation": ("look", "take", "finish"),
        "one statement": ("claim",),
    }
    labs = {}
    holders = dict.fromkeys(steps, 0)
    for repair, actions in steps.items():
        lab = labs[repair] = Lab(Scenario(lease=5 if repair == "short lease" else 30))
        lab.enqueue()
        for action in actions:
            for worker in ("A", "B"):
                lab.play_to(lab.t + 1)
                getattr(lab, action)(worker)
                held = [each.held for each in lab.workers.values()]
                live = sum(claim is not None and lab.t < claim.lease_until for claim in held)
                holders[repair] = max(holders[repair], live)
    lines = [
        f"{repair}: {', '.join(steps[repair])}, each by A and then by B; at the most {most} "
        f"{'worker was' if most == 1 else 'workers were'} told that the task is theirs"
        for repair, most in holders.items()
    ]
    for words, scope in (("two steps", Scope(two_steps=True)), ("one statement", Scope())):
        found = explore(Protocol(), "one_live_holder", scope)["one_live_holder"]
        lines.append(f"a search with a claim in {words}, one_live_holder: {found.sentence}")
    shown = {"With a second look": "look again", "In one statement": "one statement"}
    shown = {caption: labs[repair] for caption, repair in shown.items()}
    return evidence(the_one({repair: holders[repair] == 1 for repair in steps}), lines, shown)


def next_task_of_the_run():
    lab = claimed(tasks=2)
    given, why_not = None, ""
    for t in (2, 7, 8, 31):
        lab.play_to(t)
        if t == 8:
            lab.finish("A")
        if lab.claim("B"):
            given = t
            break
        if t == 7:
            sent = {"owner": "B", "now": t, "lease": 30}
            guards = lab.workers["B"].store.refusals("claim", 2, **sent)
            why_not = f"What keeps B from task 2 at t=7: {', '.join(guards)}"
    lines = [*lab.trace.lines, why_not]
    return evidence(given, filter(None, lines), {"What was played": lab})


# The end of a lease


def row_after_a_crash():
    alive, crashed = claimed(), claimed()
    crashed.play_to(4).crash("A")
    crashed.reopen("A")
    rows = [lab.play_to(20).trace.tasks[0] for lab in (alive, crashed)]
    differ = tuple(name for name in rows[0] if rows[0][name] != rows[1][name])
    lines = [
        f"A works on: {told(rows[0])}",
        f"A was killed: {told(rows[1])}",
        f"columns that differ: {', '.join(differ) or 'none'}",
    ]
    return evidence(differ, lines, {"A works on": alive, "A was killed": crashed})


def lease_of_a_late_takeover():
    lab = claimed()
    lab.play_to(4).crash("A")
    lab.play_to(30).claim("B")
    lab.play_to(40).claim("B")
    lease = lab.trace.leases[-1]
    return evidence((lease.start, lease.end), lab.trace.lines, {"What was played": lab})


# The generation


def finish_sent_before_a_crash():
    lab = claimed()
    lab.play_to(3).finish("A", arrives_at=33)
    lab.play_to(4).crash("A")
    lab.play_to(31).claim("B")
    lab.play_to(33)
    lines = [*lab.trace.lines, f"The row when it arrives: {told(lab.trace.tasks[0])}"]
    return evidence(last(lab).refusals or (), lines, {"What was played": lab})


def owner_without_generation():
    protocol = Protocol().without("ack.generation")
    found = {
        workers: explore(protocol, "stale_commit", Scope(workers=workers))["stale_commit"]
        for workers in (1, 2)
    }
    enough = next((workers for workers in found if not found[workers].holds), 0)
    lines = [
        f"a search with {finding.scope.workers} worker{'s' if workers > 1 else ''}, stale_commit: "
        f"{finding.sentence}"
        for workers, finding in found.items()
    ]
    shown = found[enough or 1]
    labs = {"Without ack.generation": shown.lab, "With it": shown.repaired} if enough else {}
    return evidence(enough, lines, labs)


# Outside the file


TRUTHS = {
    "the request was lost": {"lost": "request"},
    "the reply was lost": {"lost": "reply"},
    "the service acts at t=40": {"acts_at": 40},
}


def another_try_after_a_timeout():
    labs = {}
    for name, truth in TRUTHS.items():
        lab = labs[name] = claimed()
        lab.play_to(3).call_external("A", **truth)
        lab.play_to(4).release("A")
        lab.play_to(5).claim("B")
        lab.play_to(6).call_external("B")
        lab.play_to(7).finish("B")
        lab.play_to(45)
    lines = [f"{name}: the ledger says {len(lab.ledger)}" for name, lab in labs.items()]
    twice = tuple(name for name, lab in labs.items() if len(lab.ledger) == 2)
    return evidence(twice, lines, labs)


def keys_for_two_mails():
    mails, calls = ("first", "second"), iter(range(1, 100))
    keys = {
        "task": lambda mail, generation: "task-1",
        "attempt": lambda mail, generation: f"task-1-generation-{generation}",
        "mail": lambda mail, generation: f"task-1-{mail}",
        "call": lambda mail, generation: f"call-{next(calls)}",
    }
    labs, sent = {}, {}
    for name, key in keys.items():
        lab = labs[name] = claimed()
        sent[name] = dict.fromkeys(mails, 0)
        for t, worker, generation in ((2, "A", 1), (32, "B", 2)):
            for mail in mails:
                lab.play_to(t).call_external(worker, key=key(mail, generation))
                sent[name][mail] += last(lab).sent["acted"]
                t += 1
            if worker == "A":
                lab.play_to(4).crash("A")
                lab.play_to(31).claim("B")
    lines = [
        f"a key for each {name}: {', '.join(f'{mail} mail sent {n} times' for mail, n in counts.items())}"
        for name, counts in sent.items()
    ]
    once = {name: set(counts.values()) == {1} for name, counts in sent.items()}
    return evidence(the_one(once), lines, {"A key for each mail": labs["mail"]})


def promises_of_a_lease():
    found = explore(Protocol(), ["one_live_holder", "side_effect"], Scope())
    lab = claimed()
    lab.play_to(31).claim("B")
    row = lab.trace.tasks[0]
    wrong = [name for name, each in lab.workers.items() if each.held and name != row["lease_owner"]]
    lab.finish("B")
    done = lab.trace.tasks[0]
    kept = {
        "belief": not wrong,
        "one_live_holder": found["one_live_holder"].holds,
        "side_effect": found["side_effect"].holds,
        "one claim": done["generation"] == 1,
    }
    lines = [
        *searched(found),
        f"after a takeover at t=31 the row names B; who else believes in a claim: {', '.join(wrong)}",
        f"B finishes: {done['state']}, after {done['generation']} claims",
    ]
    shown = {"The service acts twice": found["side_effect"].lab, "A still believes": lab}
    return evidence(the_one(kept), lines, shown)


# The heartbeat


def beats_that_may_fail():
    answers = {}
    for failed in range(5):
        lab = claimed(lease=60)
        t = 1 + 15 * (failed + 1)
        answers[failed] = lab.play_to(t).renew("A") is not None
    lines = [
        f"{failed} fail, the next comes at t={1 + 15 * (failed + 1)}: "
        f"{'accepted' if accepted else 'refused, the lease has ended at t=61'}"
        for failed, accepted in answers.items()
    ]
    return evidence(max(failed for failed in answers if answers[failed]), lines)


def ended_lease_renewed():
    protocol = Protocol().without("renew.expiry")
    names = ["one_live_holder", "stale_commit", "revived_lease", "final"]
    found = explore(protocol, names)
    lines = searched(found)
    broken = the_one({name: name in found.broken for name in names})
    shown = found["revived_lease"]
    labs = {"Without renew.expiry": shown.lab, "With it": shown.repaired} if shown.schedule else {}
    return evidence(broken, lines, labs)


def renewals_from_the_old_end():
    labs, waits = {}, {}
    for base, protocol in (
        ("the old end", Protocol().without("renew.from_now")),
        ("now", Protocol()),
    ):
        lab = labs[f"Counted from {base}"] = claimed(protocol=protocol)
        for t in range(11, 92, 10):
            lab.play_to(t).renew("A")
        lab.play_to(95).crash("A")
        waits[base] = lab.trace.tasks[0]["lease_until"] - 95
    lines = [
        f"counted from {base}: B may claim {wait} after the crash" for base, wait in waits.items()
    ]
    return evidence(waits["the old end"], lines, labs, curve=True)


def refused_beat():
    lab = claimed(lease=60)
    lab.play_to(100)
    answers = lab.renew("A"), lab.claim("A")
    zombie = claimed(lease=60, protocol=Protocol().without("renew.expiry"))
    for t in (100, 200, 300):
        zombie.play_to(t).renew("A")
        zombie.play_to(t + 1).claim("B")
    lines = [
        *lab.trace.lines,
        "and if the guard renew.expiry were struck out:",
        *zombie.trace.lines[2:],
    ]
    return evidence(answers, lines, {"What was played": lab, "Without renew.expiry": zombie})


def long_lease():
    def work(until, lease, every):
        lab = claimed(lease=lease)
        beats = range(1 + every, until, every) if every else ()
        for t in beats:
            lab.play_to(t).renew("A")
        return lab.play_to(until), len(beats)

    waits, finished, written, others = {}, {}, {}, {}
    for lease, every in ((60, 20), (600, None)):
        crashed, _ = work(100, lease, every)
        crashed.crash("A")
        waits[lease] = crashed.trace.tasks[0]["lease_until"] - 100
        lab, written[lease] = work(501, lease, every)
        others[lease] = lab.claim("B")
        finished[lease] = lab.finish("A")
    lines = [
        f"lease {lease}: a task waits {waits[lease]} after a crash at t=100; a finish at t=501 is "
        f"{'accepted' if finished[lease] else 'refused'}, after {written[lease]} beats; a claim of B "
        f"just before it is {'accepted' if others[lease] else 'refused'}"
        for lease in waits
    ]
    worse = {
        "loses": finished[600] < finished[60],
        "waits": waits[600] > waits[60],
        "writes": written[600] > written[60],
        "two": bool(others[600]),
    }
    return evidence(the_one(worse), lines)


class _Clock:
    """A heartbeat's clock, which stands still until it is told."""

    now = 1

    def steady(self):
        return self.now


def beat_without_an_answer():
    lab, clock = claimed(lease=60), _Clock()
    claim = lab.workers["A"].held

    def renew():
        with closing(Store(lab.path, busy_timeout=0)) as store:
            return store.renew(claim, now=clock.now, lease=60)

    heartbeat = Heartbeat(renew, claimed_at=1, lease=60, clock=clock)
    clock.now = 21
    lines = [f"t=21: {heartbeat.beat()}"]
    clock.now = 41
    with closing(sqlite3.connect(lab.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # somebody else is writing
        lines.append(f"t=41: {heartbeat.beat()}")
    while heartbeat.held:
        clock.now += 1
    lines.append(f"t={clock.now}: A stops; {heartbeat.reason}")
    return evidence(clock.now, lines)


# The fenced write


def write_after_a_refusal():
    moved = Lab()
    for _ in range(2):
        moved.enqueue()
    moved.play_to(1).claim("B")
    moved.play_to(2).commit_run("B", "outline", revision=0)
    moved.play_to(3).ack("B")
    moved.play_to(4).claim("A")
    lost = claimed()
    lost.play_to(31).claim("B")
    again = {}
    for lab in (moved, lost):
        first = lab.play_to(lab.t + 2).commit_run("A", "draft", revision=0)
        run = last(lab).runs[0]
        value = ", ".join(filter(None, (run["value"], "draft")))
        lab.play_to(lab.t + 1)
        again[first] = lab.commit_run(
            "A", value, revision=run["revision"], generation=last(lab).sent["generation"]
        )
    lines = [f"{first}; read anew and written once more: {then}" for first, then in again.items()]
    helps = tuple(first for first, then in again.items() if then == "committed")
    lines += [*moved.trace.lines[2:], *lost.trace.lines[1:]]
    return evidence(helps, lines, {"The run has moved": moved, "The lease is lost": lost})


def crash_before_the_ack():
    lab = claimed()
    lab.play_to(10).commit_run("A", "outline", revision=0)
    lab.crash("A")
    lab.play_to(31).claim("B")
    run = last(lab).runs[0]
    value = f"{run['value']}, outline"
    returned = lab.play_to(32).commit_run("B", value, revision=run["revision"])
    lines = [*lab.trace.lines, f"the run says: {last(lab).runs[0]['value']}"]
    return evidence(returned, lines, {"What was played": lab})


def checks_before_a_write():
    guards = ("owner", "generation", "running", "expiry")
    unfenced = Protocol().without(*(f"commit_run.{guard}" for guard in guards))
    labs, said, wrote = {}, {}, {}
    for way in ("clock", "file", "renew", "condition"):
        lab = labs[way] = claimed(protocol=unfenced if way != "condition" else None)
        worker = lab.play_to(30).workers["A"]
        if way == "clock":
            said[way] = lab.t < worker.held.lease_until
        elif way == "file":
            said[way] = worker.store.task(1)["generation"] == worker.held.generation
        elif way == "renew":
            said[way] = lab.renew("A") is not None
        lab.play_to(lab.trace.tasks[0]["lease_until"]).claim("B")
        wrote[way] = lab.play_to(lab.t + 2).commit_run("A", "A's result", revision=0)
    lines = [
        f"{way}: "
        + (
            f"asked at t=30, the answer is {said[way]}"
            if way in said
            else "nothing is asked before"
        )
        + f"; B takes over; A's write: {wrote[way]}"
        for way in labs
    ]
    shown = {
        "The file was asked before": labs["file"],
        "The condition is inside": labs["condition"],
    }
    return evidence(the_one({way: wrote[way] == "lease_lost" for way in labs}), lines, shown)


# The attempt limit


def what_uses_up_no_attempt():
    lab = Lab()
    lab.enqueue()
    used = {}

    def count(way, *steps):
        before = lab.trace.tasks[0]["generation"]
        for t, worker, action in steps:
            getattr(lab.play_to(t), action)(worker)
        used[way] = lab.trace.tasks[0]["generation"] - before

    count("given back", (1, "A", "claim"), (2, "A", "release"))
    count("killed", (10, "B", "claim"), (13, "B", "crash"), (13, "B", "reopen"))
    count("too slow", (40, "A", "claim"))
    count("refused", (50, "B", "claim"))
    lab.play_to(70).finish("A")
    lab.claim("B")
    lab.exhaust("B", max_attempts=3)
    lines = [f"{way}: attempts used up: {number}" for way, number in used.items()]
    none = the_one({way: number == 0 for way, number in used.items()})
    return evidence(none, [*lines, *lab.trace.lines], {"What was played": lab})


def way_back_from_failed():
    lab = Lab(scenarios["attempt_limit"]).play()
    run = last(lab).runs[0]
    lines = [f"the task is {lab.trace.tasks[0]['state']}; {told(run)}"]
    answers = {verb: getattr(lab, verb)("B", generation=4) for verb in ("release", "renew", "ack")}
    answers["claim"] = lab.play_to(500).claim("B")
    lines += [f"{verb}: {answer}" for verb, answer in answers.items()]
    accepted = tuple(verb for verb, answer in answers.items() if answer)
    limit = Lab(scenarios["attempt_limit"]).play()
    return evidence(accepted, lines, {"How it came to this": limit})


# Every schedule


def spare_of_an_owner_guard():
    found = {
        guard: explore(Protocol().without("renew.owner", guard), "one_live_holder")[
            "one_live_holder"
        ]
        for guard in ("renew.generation", "renew.running", "renew.expiry")
    }
    alone = explore(Protocol().without("renew.owner"), "one_live_holder")["one_live_holder"]
    lines = [f"without renew.owner: one_live_holder {alone.sentence}"]
    lines += [f"without {guard}, too: {finding.sentence}" for guard, finding in found.items()]
    broken = the_one({guard: not finding.holds for guard, finding in found.items()}) or None
    both = found.get(broken)
    shown = {"Without both": both.lab, "With both": both.repaired} if both else {}
    return evidence(broken, lines, shown)


RENEWAL_WITHOUT_MAX = """\
UPDATE tasks
SET lease_until = :now + :lease
WHERE id = :task_id AND run_id = :run_id AND lease_owner = :owner
  AND generation = :generation AND state = 'running' AND lease_until > :now
RETURNING lease_until"""


def renewal_without_max():
    own = Protocol().with_statement("renew", RENEWAL_WITHOUT_MAX)
    names = ["one_live_holder", "revived_lease", "lease_length", "holder_refused"]
    found = explore(own, names)
    lines = searched(found)
    labs = {"Without MAX": claimed(protocol=own), "With MAX": claimed()}
    for caption, lab in labs.items():
        lab.play_to(20).renew("A")
        lab.play_to(25).renew("A", now=5)  # it has read its clock at t=5
        lab.play_to(40).claim("B")
        lines += [f"{caption.lower()}, {line}" for line in lab.trace.lines[2:]]
    taken, kept = ([not event.refused for event in lab.trace.events][-1] for lab in labs.values())
    return evidence((found.holds, taken and not kept), lines, labs, curve=True)

"""What the lab and the search say about the questions of the self-test.

Each function plays its schedules on fresh files, or searches, and returns an ``Evidence``. Its fact
picks the right choice of a question; which choice that is, is not written down here.
"""

from dataclasses import dataclass

from leaselab.explore import Scope, explore
from leaselab.lab import Lab
from leaselab.protocol import Protocol
from leaselab.scenarios import Scenario, scenarios
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


def searched(found):
    """What searches say, a line each, by caption; then what the words mean, and the scopes."""
    lines = [f"{caption}: {finding.sentence}." for caption, finding in found.items()]
    told = " ".join(lines)
    if any(finding.property.name == "one_live_holder" for finding in found.values()):
        lines.append(
            "To a search, a worker holds a live lease until the end of the lease that it was told of."
        )
    if "equally short" in told:
        lines.append(
            "In a schedule A.claim is a step of A, and t=31 moves the clock; the brackets say how many "
            "schedules are as short, and how many states were seen (lesson 11)."
        )
    if "(generation=" in told:
        lines.append("A step with (generation=1) was sent before the crash and arrives only now.")
    return lines + [
        f"Scope: {scope}." for scope in dict.fromkeys(each.scope for each in found.values())
    ]


def promise(finding):
    """A search for what breaks a property, in words."""
    return f"A search, “{finding.property.sentence.removesuffix('.')}”"


# The claim


def claim_after_done():
    lab = claimed()
    lab.play_to(8).finish("A")
    lab.play_to(40).claim("B")
    return evidence(last(lab).refusals or (), lab.trace.lines, {"What was played": lab})


def repairs_of_two_steps():
    repairs = {
        "look again": ("A second look", ("look", "look", "take")),
        "one statement": ("One UPDATE", ("claim",)),
        "short lease": ("A lease of 5", ("look", "take")),
        "generation": ("A finish that compares the generation", ("look", "take", "finish")),
    }
    labs, lines = {}, []
    holders = dict.fromkeys(repairs, 0)
    for repair, (words, actions) in repairs.items():
        lab = labs[repair] = Lab(Scenario(lease=5 if repair == "short lease" else 30))
        lab.enqueue()
        for action in actions:
            for worker in ("A", "B"):
                lab.play_to(lab.t + 1)
                getattr(lab, action)(worker)
                held = [each.held for each in lab.workers.values()]
                live = sum(claim is not None and lab.t < claim.lease_until for claim in held)
                holders[repair] = max(holders[repair], live)
        most = "1 worker is" if holders[repair] == 1 else f"{holders[repair]} workers are"
        steps = f"{', '.join(actions)}, each by A and then by B"
        lines.append(f"{words} ({steps}): {most} told that the task is theirs.")
        if "finish" in actions:
            lines += [line for line in lab.trace.lines if " finish" in line or "commit" in line]
    found = {}
    for words, scope in (("two statements", Scope(two_steps=True)), ("one statement", Scope())):
        finding = explore(Protocol(), "one_live_holder", scope)["one_live_holder"]
        found[f"{promise(finding)}, with a claim in {words}"] = finding
    shown = {"With a second look": "look again", "In one statement": "one statement"}
    shown = {caption: labs[repair] for caption, repair in shown.items()}
    fact = the_one({repair: holders[repair] == 1 for repair in repairs})
    return evidence(fact, [*lines, *searched(found)], shown)


def next_task_of_the_run():
    lab = claimed(tasks=2)
    lines, given = lab.trace.lines, None
    for t in (2, 7, 8, 31):
        lab.play_to(t)
        if t == 8:
            lab.finish("A")
            lines += lab.trace.lines[-1:]
        if lab.claim("B"):
            given = t
            lines += lab.trace.lines[-1:]
            break
        sent = {"owner": "B", "now": t, "lease": 30}
        guards = [
            ", ".join(lab.workers["B"].store.refusals("claim", task, **sent)) for task in (1, 2)
        ]
        lines.append(f"t={t}: B's claim is refused: task 1 by {guards[0]}, task 2 by {guards[1]}.")
    return evidence(given, lines, {"What was played": lab})


# The end of a lease


def row_after_a_crash():
    alive, crashed = claimed(), claimed()
    crashed.play_to(4).crash("A")
    crashed.reopen("A")
    rows = [lab.play_to(20).trace.tasks[0] for lab in (alive, crashed)]
    differ = tuple(name for name in rows[0] if rows[0][name] != rows[1][name])
    lines = [
        f"A works on: {told(rows[0])}.",
        f"A was killed: {told(rows[1])}.",
        f"Columns that differ: {', '.join(differ) or 'none'}.",
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
    lines = [*lab.trace.lines, f"The row when it arrives: {told(lab.trace.tasks[0])}."]
    return evidence(last(lab).refusals or (), lines, {"What was played": lab})


def owner_without_generation():
    protocol = Protocol().without("ack.generation")
    found, enough = {}, 0
    for workers in (1, 2):
        finding = explore(protocol, "stale_commit", Scope(workers=workers))["stale_commit"]
        count = f"{workers} worker{'s' if workers > 1 else ''}"
        found[f"{promise(finding)}, with {count} and without ack.generation"] = finding
        if not finding.holds:
            enough = workers
            break
    labs = {"Without ack.generation": finding.lab, "With it": finding.repaired} if enough else {}
    return evidence(enough, searched(found), labs)


# Outside the file


TIMES = ("never", "once", "twice")
TRUTHS = {
    "the request was lost": {"lost": "request"},
    "the reply was lost": {"lost": "reply"},
    "the service is slow and acts at t=40": {"acts_at": 40},
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
    lines = [
        f"{name[0].upper()}{name[1:]}: in the end the service has acted {TIMES[len(lab.ledger)]}."
        for name, lab in labs.items()
    ]
    twice = tuple(name for name, lab in labs.items() if len(lab.ledger) == 2)
    return evidence(twice, lines, labs)


def keys_for_two_mails():
    mails, calls = ("first", "second"), iter(range(1, 100))
    keys = {
        "task": ("task-1", lambda mail, generation: "task-1"),
        "call": ("call-1 to call-4", lambda mail, generation: f"call-{next(calls)}"),
        "mail": ("task-1-first, task-1-second", lambda mail, generation: f"task-1-{mail}"),
        "attempt": (
            "task-1-generation-1, task-1-generation-2",
            lambda mail, generation: f"task-1-generation-{generation}",
        ),
    }
    labs, sent = {}, {}
    for name, (_, key) in keys.items():
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
        f"{keys[name][0]}: "
        f"the first mail goes out {TIMES[counts['first']]}, the second {TIMES[counts['second']]}."
        for name, counts in sent.items()
    ]
    once = {name: set(counts.values()) == {1} for name, counts in sent.items()}
    return evidence(the_one(once), lines, {"task-1-first, task-1-second": labs["mail"]})


def promises_of_a_lease():
    found = explore(Protocol(), ["side_effect", "one_live_holder"], Scope())
    lab = claimed()
    lab.play_to(31).claim("B")
    row = lab.trace.tasks[0]
    wrong = [name for name, each in lab.workers.items() if each.held and name != row["lease_owner"]]
    lab.finish("B")
    done = lab.trace.tasks[0]
    kept = {
        "side_effect": found["side_effect"].holds,
        "belief": not wrong,
        "one claim": done["generation"] == 1,
        "one_live_holder": found["one_live_holder"].holds,
    }
    first, *others = searched({promise(each): each for each in found.values()})
    lines = [
        first,
        f"B takes over at t=31: the row names {row['lease_owner']}, and of the others "
        f"{', '.join(wrong) or 'nobody'} still believes in a claim.",
        f"B finishes: the task is {done['state']}, after {done['generation']} claims.",
        *others,
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
        f"{failed} {'fails' if failed == 1 else 'fail'}, the next comes at t={1 + 15 * (failed + 1)}: "
        f"{'accepted' if accepted else 'refused, the lease has ended at t=61'}."
        for failed, accepted in answers.items()
    ]
    return evidence(max(failed for failed in answers if answers[failed]), lines)


def ended_lease_renewed():
    protocol = Protocol().without("renew.expiry")
    names = ["revived_lease", "stale_commit", "one_live_holder", "final"]
    found = explore(protocol, names)
    lines = searched({promise(finding): finding for finding in found.values()})
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
        f"Counted from {base}: the lease ends at t={95 + wait}, {wait} seconds after the crash."
        for base, wait in waits.items()
    ]
    return evidence(waits["the old end"], lines, labs, curve=True)


def refused_beat():
    lab = claimed(lease=60)
    lab.play_to(100)
    answers = lab.renew("A"), lab.claim("A")
    lab.play_to(120).renew("A", generation=1)
    lab.play_to(150).finish("A", generation=1)
    return evidence(answers, lab.trace.lines, {"What was played": lab})


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
        f"A lease of {lease}: after a crash at t=100 the task waits {waits[lease]} seconds; a finish at "
        f"t=501 is {'accepted' if finished[lease] else 'refused'}, after {written[lease] or 'no'} "
        f"beats; a claim of B just before it is {'accepted' if others[lease] else 'refused'}."
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
    labs, stops, lines = {}, [], []
    for truth in ("is accepted, and its answer is lost", "is lost on its way"):
        lab, clock = claimed(lease=60), _Clock()

        def renew():
            """A beat: that of t=21 is answered, that of t=41 is not, and no later one arrives."""
            lab.play_to(clock.now)
            if clock.now == 21:
                return lab.renew("A")
            if clock.now == 41 and "accepted" in truth:
                lab.renew("A")
            raise TimeoutError

        heartbeat = Heartbeat(renew, claimed_at=1, lease=60, clock=clock)
        beats = []
        for clock.now in (21, 41, 61):
            beats.append(f"t={clock.now} {heartbeat.beat()}")
        while heartbeat.held:
            clock.now += 1
        stops.append(clock.now)
        labs[f"The beat of t=41 {truth}"] = lab.play_to(clock.now)
        lines.append(
            f"The beat of t=41 {truth}: {', '.join(beats)}; at t={clock.now} A stops, and the row says "
            f"lease_until {lab.trace.tasks[0]['lease_until']}."
        )
    fact = stops[0] if len(set(stops)) == 1 else tuple(stops)
    return evidence(fact, lines, labs, curve=True)


# The fenced write


def write_after_a_refusal():
    moved = Lab()
    for _ in range(2):
        moved.enqueue()
    copy = last(moved).runs[0]  # A reads the run, and is slow
    moved.play_to(1).claim("B")
    moved.play_to(2).commit_run("B", "outline", revision=0)
    moved.play_to(3).ack("B")
    moved.play_to(4).claim("A")
    lost = claimed()
    lost.play_to(31).claim("B")
    again = {}
    for lab in (moved, lost):
        first = lab.play_to(lab.t + 2).commit_run("A", "draft", revision=copy["revision"])
        run = last(lab).runs[0]
        value = ", ".join(filter(None, (run["value"], "draft")))
        lab.play_to(lab.t + 1)
        again[first] = lab.commit_run(
            "A", value, revision=run["revision"], generation=last(lab).sent["generation"]
        )
    helps = tuple(first for first, then in again.items() if then == "committed")
    lines = [
        f"After {first}, read anew and written once more: {then}." for first, then in again.items()
    ]
    lines += [
        f"The run has moved (A has read it at t=0, at revision {copy['revision']}, before B's commit):",
        *moved.trace.lines[2:],
        "The lease is lost (B takes over before A writes):",
        *lost.trace.lines[1:],
    ]
    return evidence(helps, lines, {"The run has moved": moved, "The lease is lost": lost})


def crash_before_the_ack():
    lab = claimed()
    lab.play_to(10).commit_run("A", "outline", revision=0)
    lab.crash("A")
    lab.play_to(31).claim("B")
    run = last(lab).runs[0]
    value = f"{run['value']}, outline"
    returned = lab.play_to(32).commit_run("B", value, revision=run["revision"])
    lines = [*lab.trace.lines, f"The run says: {last(lab).runs[0]['value']}."]
    return evidence(returned, lines, {"What was played": lab})


def checks_before_a_write():
    guards = ("owner", "generation", "running", "expiry")
    unfenced = Protocol().without(*(f"commit_run.{guard}" for guard in guards))
    ways = {
        "file": "A SELECT just before the write",
        "clock": "A comparison just before the write",
        "condition": "A condition in the UPDATE that writes",
        "renew": "A renewal just before the write",
    }
    labs, lines, wrote = {}, [], {}
    for way, words in ways.items():
        lab = labs[way] = claimed(protocol=unfenced if way != "condition" else None)
        worker = lab.play_to(30).workers["A"]
        asked = "nothing is asked before"
        if way == "file":
            asked = worker.store.task(1)["generation"] == worker.held.generation
        elif way == "clock":
            asked = lab.t < worker.held.lease_until
        elif way == "renew":
            asked = lab.renew("A") is not None
        if isinstance(asked, bool):
            asked = f"asked at t=30, the answer is {'yes' if asked else 'no'}"
        lab.play_to(lab.trace.tasks[0]["lease_until"]).claim("B")
        taken_over = lab.t
        wrote[way] = lab.play_to(lab.t + 2).commit_run("A", "A's result", revision=0)
        lines.append(
            f"{words}: {asked}; B takes over at t={taken_over}; A's write at t={lab.t}: {wrote[way]}."
        )
    shown = {
        "A SELECT was asked before": labs["file"],
        "The condition is in the UPDATE": labs["condition"],
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
    claims = {
        "refused": "B's claim of t=50, while A holds the task",
        "given back": "A's claim of t=1, given back at t=2",
        "killed": "B's claim of t=10, whose worker is killed at t=13",
        "too slow": "A's claim of t=40, whose finish comes at t=70",
    }
    lines = [
        f"{words}: it uses up {('no attempt', 'one attempt')[used[way]]}."
        for way, words in claims.items()
    ]
    none = the_one({way: number == 0 for way, number in used.items()})
    return evidence(none, [*lines, *lab.trace.lines], {"What was played": lab})


def way_back_from_failed():
    limit = Lab(scenarios["attempt_limit"]).play()
    run, task = last(limit).runs[0], limit.trace.tasks[0]
    lines = [f"The task is {task['state']}; {run['id']} is {run['state']}: {run['failure']}."]
    accepted = []
    for verb in ("claim", "release", "renew"):
        lab = Lab(scenarios["attempt_limit"]).play()
        if verb == "claim":
            answer = lab.play_to(500).claim("B")
        else:
            answer = getattr(lab, verb)("B", generation=4)
        if answer:
            accepted.append(verb)
        told = "accepted" if answer else f"refused by {', '.join(last(lab).refusals)}"
        lines.append(f"{verb} at t={lab.t}: {told}.")
    return evidence(tuple(accepted), lines, {"How it came to this": limit})


# Every schedule


def spare_of_an_owner_guard():
    name = "one_live_holder"
    alone = explore(Protocol().without("renew.owner"), name)[name]
    both = {
        guard: explore(Protocol().without("renew.owner", guard), name)[name]
        for guard in ("renew.expiry", "renew.running", "renew.generation")
    }
    other = explore(Protocol().without("renew.generation"), "stale_commit")["stale_commit"]
    found = {
        f"{promise(alone)}, without renew.owner": alone,
        **{f"Without {guard}, too": finding for guard, finding in both.items()},
        f"{promise(other)}, without renew.generation alone": other,
    }
    broken = the_one({guard: not finding.holds for guard, finding in both.items()}) or None
    shown = both.get(broken)
    labs = {"Without both": shown.lab, "With both": shown.repaired} if shown else {}
    return evidence(broken, searched(found), labs)


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
    lines = searched({promise(finding): finding for finding in found.values()})
    labs = {"Without MAX": claimed(protocol=own), "With MAX": claimed()}
    too_early = {}
    for caption, lab in labs.items():
        told = lab.play_to(20).renew("A")
        lab.play_to(25).renew("A", now=5)  # A has given up on this beat: it hears no answer
        until = lab.trace.tasks[0]["lease_until"]
        taken = lab.play_to(40).claim("B") is not None
        too_early[caption] = taken and lab.t < told
        lines += [
            f"{caption}, t=20: A sends a beat and is told that its lease ends at t={told}.",
            f"{caption}, t=25: a beat arrives that A has sent at t=5 and given up on, so that A does "
            f"not hear the answer; the row says {until}.",
            f"{caption}, t=40: A was told {told}, and the task is now {'B' if taken else 'A'}'s.",
        ]
    harm = too_early["Without MAX"] and not too_early["With MAX"]
    return evidence((found.holds, harm), lines, labs, curve=True)

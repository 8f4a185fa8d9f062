"""The lessons' exercises: a task, two hints, and a check that plays the reader's answer.

An answer is a function that is given a fresh lab and drives it by plain calls. The solutions lie in
``notebooks/solutions``, under the lesson's name.
"""

import re

from leaselab.errors import InputError, StoreError
from leaselab.incidents import read_incident
from leaselab.lab import Lab
from leaselab.protocol import Protocol
from leaselab.scenarios import Scenario, Step
from leaselab.workers import Workers


class Solved(str):
    """What a judge says of an answer that does what the task asks for, if it has more to say."""


class Exercise:
    """A task for the reader.

    Attributes:
        task: what to bring about, in words.
        hints: two of them; the second says more than the first.
    """

    def __init__(self, task, hints, judge):
        self.task = task
        self.hints = hints
        self._judge = judge
        self._told = 0

    def __repr__(self):
        return self.task

    def hint(self):
        """Print a hint; the second call says more."""
        print(self.hints[min(self._told, len(self.hints) - 1)])
        self._told += 1

    def check(self, answer):
        """Play the answer on fresh files and print whether it does what the task asks for.

        Args:
            answer: a function that takes a ``Lab``. Whatever it raises is shown as a sentence.
        """
        try:
            said = self._judge(answer)
        except (InputError, StoreError) as error:
            said = str(error)
        except Exception as error:
            said = f"your answer stopped with {type(error).__name__}: {error}"
        if isinstance(said, Solved):
            print(f"Solved: {said}")
        else:
            print(f"Not yet: {said}" if said else "Solved.")


def _play(answer, **options):
    """The trace that an answer leaves in a fresh lab."""
    lab = Lab(**options)
    try:
        answer(lab)
        return lab.trace
    finally:
        lab.close()


def _accepted(trace, action, actor=None):
    """The events in which the file accepted an action, of one actor or of anybody."""
    return [
        event
        for event in trace.events
        if event.action == action and not event.refused and actor in (None, event.actor)
    ]


def _first_lease(answer):
    trace = _play(answer)
    if not trace.tasks:
        return "there is no task yet; the client has to enqueue one."
    row = trace.tasks[0]
    if row["lease_owner"] != "A":
        return f"the row says {row['state']}, lease_owner {row['lease_owner']}; A should hold it."
    if row["lease_until"] != 37:
        return f"A's lease ends at t={row['lease_until']}, not at t=37."


def _pending_with_generation_two(answer):
    trace = _play(answer)
    if not trace.tasks:
        return "there is no task yet; the client has to enqueue one."
    row = trace.tasks[0]
    if (row["state"], row["generation"]) != ("pending", 2):
        return f"the row says {row['state']}, generation {row['generation']}."


def _earliest_takeover(answer):
    trace = _play(answer)
    if not any(event.t == 20 for event in _accepted(trace, "renew", "A")):
        return "A has to renew its lease at t=20."
    if not any(event.actor == "A" and event.action == "crash" for event in trace.events):
        return "A has to crash after its renewal."
    claims = [event for event in trace.events if (event.actor, event.action) == ("B", "claim")]
    granted = [event.t for event in claims if not event.refused]
    if not granted:
        return "B has not taken over."
    if not any(event.refused and event.t == granted[0] - 1 for event in claims):
        return (
            f"B takes over at t={granted[0]}, but nothing shows that t={granted[0] - 1} was too "
            "early."
        )


def _same_name_twice(answer):
    trace = _play(answer)
    if any(event.actor == "B" for event in trace.events):
        return "only A may act."
    stale = [
        event
        for event in trace.events
        if event.action == "finish"
        and event.refused
        and event.row["lease_owner"] == "A"
        and event.sent["generation"] < event.row["generation"]
    ]
    if not stale:
        return "the file has refused no finish of A by its generation, with A's name on the row."
    struck_out = _play(answer, protocol=Protocol().without("finish.generation"))
    if not any(event.stale and event.t == stale[0].t for event in _accepted(struck_out, "finish")):
        return "with the guard struck out the same finish should have been accepted."


def _same_view(answer):
    views, ledgers = [], []
    for truth in ({"lost": "request"}, {"lost": "reply"}, {"acts_at": 50}):
        trace = _play(lambda lab, truth=truth: (answer(lab, truth), lab.play_to(max(lab.t, 60))))
        calls = [event for event in trace.events if event.action == "call_external"]
        if [(event.t, event.returned) for event in calls] != [(25, "timeout")]:
            return "A has to call the service just once, at t=25, with **truth."
        written = [event.t for event in _accepted(trace, "finish", "A")]
        if trace.tasks[0]["state"] != "uncertain" or not written:
            return f"with {truth} the row does not end as uncertain."
        if written[0] < 40:
            return f"A waits until t=40; it must not write at t={written[0]}."
        views.append([event.returned for event in trace.events if event.actor == "A"])
        ledgers.append(trace.external_calls)
    if views != [views[0]] * 3:
        return f"the worker acted differently: {views}; it cannot know which truth it lives in."
    if ledgers != [0, 1, 1]:
        return f"the ledger ends at {ledgers}, not at [0, 1, 1]."


def _twice_without_a_crash(answer):
    trace = _play(answer)
    if any(event.action == "crash" for event in trace.events):
        return "nobody may crash."
    if not trace.tasks or trace.tasks[0]["state"] != "done":
        return "the task does not end as done."
    if trace.external_calls != 2:
        return f"the ledger says {trace.external_calls}, not 2."
    callers = sorted(event.actor for event in trace.events if event.action == "call_external")
    if callers != ["A", "B"]:
        return "A and B have to call the service once each."
    if _accepted(trace, "release"):
        return "nobody may give the task back."
    if len(_accepted(trace, "finish")) != 1:
        return "just one finish should be accepted."
    if _play(answer, idempotency_key=True).external_calls != 1:
        return "with an idempotency key at the service the ledger should say 1."


def _done_runs_again(answer):
    takes = _accepted(_play(answer), "take")
    if not takes:
        return (
            "nobody has taken a task that it saw; lab.look(worker) comes before lab.take(worker)."
        )
    states = [event.before["state"] for event in takes]
    if "done" not in states:
        return f"just before it was taken the task was {states[-1]}, not done."


def _longest_lease(answer):
    trace = _play(answer, scenario=Scenario(lease=60))
    if [event.t for event in _accepted(trace, "claim", "A")] != [1]:
        return "A has to claim once, at t=1."
    renewals = [event for event in trace.events if event.action == "renew"]
    accepted = _accepted(trace, "renew")
    if any(event.sent["now"] != event.t for event in accepted):
        return "A's clock is right: no now=… is needed."
    if len(accepted) != 3:
        late = [f" (t={event.t}: {event.reason})" for event in renewals if event.refused]
        return f"the file has accepted {len(accepted)} renewals, not 3{''.join(late[:1])}."
    end = trace.leases[0].end
    if end != 238 or trace.leases[0].closed is not None:
        return f"A's lease lasts until t={end}; it can last longer, with three renewals."
    claims = {event.t: not event.refused for event in trace.events if event.action == "claim"}
    if claims.get(end - 1) is not False:
        return f"nothing shows that t={end - 1} is too early for B."
    if not claims.get(end):
        return "B has not taken over at the first instant at which the file permits it."


# What may have happened since A has read the run: the steps, and the value that A should leave.
TITLE = Step(2, "B", "commit_run", {"value": "title", "revision": 0})
OUTLINE = Step(2, "A", "commit_run", {"value": "outline", "revision": 0})
TAKEN_OVER = (Step(1, "A", "claim"), Step(31, "B", "claim"))
MEANWHILE = {
    "nothing has happened": ((Step(1, "A", "claim"),), "outline"),
    "B has written": (
        (Step(1, "B", "claim"), TITLE, Step(3, "B", "ack"), Step(4, "A", "claim")),
        "title, outline",
    ),
    "B has taken over": (TAKEN_OVER, None),
    "B has taken over and written": ((*TAKEN_OVER, TITLE._replace(t=32)), "title"),
    "A has written, and the answer was lost": ((Step(1, "A", "claim"), OUTLINE), "outline"),
}


class _Patience:
    """Listens to a lab, and has heard enough after thirty events."""

    def __init__(self, lab):
        self.lab = lab
        lab.listeners.add(self)

    def lab_changed(self):
        if len(self.lab.events) > 30:
            raise InputError("A goes on and on, and nothing changes any more.")


def _whatever_has_happened(answer):
    for happened, (steps, value) in MEANWHILE.items():
        try:
            missing = _one_write(answer, steps, value)
        except (InputError, StoreError) as error:
            missing = str(error)
        if missing:
            return f"if {happened}: {missing}"


def _one_write(answer, steps, value):
    """What is missing when the answer is played after these steps."""
    steps = (Step(0, "client", "enqueue"), Step(0, "client", "enqueue"), *steps)

    def play(lab):
        patience = _Patience(lab.play())
        answer(lab, {"revision": 0, "value": None})
        return patience  # the lab holds its listeners loosely

    trace = _play(play, scenario=Scenario(steps=steps))
    sent = trace.events[len(steps) :]
    if any(event.actor != "A" for event in sent):
        return "only A may act."
    first = sent[0].sent if sent else {}
    if (first.get("value"), first.get("revision")) != ("outline", 0):
        return "A begins with a write of 'outline' on revision 0: it knows no better."
    if sent[0].returned == "lease_lost" and len(sent) > 1:
        return f"after lease_lost A has to stop; it sends {sent[1].action}."
    said = trace.events[-1].runs[0]["value"]
    if said != value:
        return f"the run says {said!r}, not {value!r}."
    if sent[0].returned != "lease_lost" and (sent[-1].action, sent[-1].returned) != ("ack", True):
        return "A's task is not acknowledged."


def _fails_without_a_crash(answer):
    trace = _play(answer)
    if any(event.action == "crash" for event in trace.events):
        return "nobody may crash."
    failures = _accepted(trace, "exhaust")
    if not failures:
        return "no exhaust was accepted, so nothing has failed."
    if failures[0].sent["max_attempts"] != 3:
        return f"the limit is 3, not {failures[0].sent['max_attempts']}."
    about_it = [event for event in trace.events if event.task_id == failures[0].task_id]
    if not any(event.action == "release" and not event.refused for event in about_it):
        return "no worker has given the task back."
    ended = {  # the leases that came to their end, neither given back nor finished
        (lease.owner, lease.generation): lease.end
        for lease in trace.leases
        if lease.task_id == failures[0].task_id and lease.closed is None
    }
    finishes = [event for event in about_it if event.action == "finish" and event.refused]
    held = [(event.t, ended.get((event.actor, event.sent["generation"]))) for event in finishes]
    if not any(end is not None and end <= t for t, end in held):
        return "no finish was refused because its worker was slower than its lease."


def _asleep_and_accepted(answer):
    with Workers(lease=900) as workers:
        answer(workers)
        events = workers.trace.events
    slept = [event for event in events if event.action in ("suspend", "resume")]
    if [event.action for event in slept] != ["suspend", "resume"]:
        return "one worker has to be suspended, and resumed, just once."
    accepted = [event for event in events if event.returned == "committed"]
    if [event.actor for event in accepted] != [slept[0].actor]:
        return "the worker that was suspended has to be the one whose result was accepted."
    if accepted[0].t < slept[1].t:
        return "its result was accepted before it was resumed, or even suspended."
    if not any(event.action == "renew" and event.t < slept[0].t for event in events):
        return "it was suspended before it held the task; wait for its first renewal."
    if accepted[0].sent["generation"] != 1:
        return "it claimed the task anew; its first claim should have sufficed."


def _two_spares(answer):
    from leaselab.explore import Scope, explore  # here: it needs matplotlib

    quiet = Scope(in_flight=0)
    given = answer()
    guards = (given,) if isinstance(given, str) else tuple(given or ())
    known = Protocol().guards
    for guard in guards:
        if guard not in known:
            return f"{guard!r} is no guard; there are {', '.join(known)}."
    if len(set(guards)) != 2 or len(guards) != 2:
        return f"two guards are to be struck out, not {len(set(guards))}."
    usual = explore(scope=quiet).broken
    for guard in guards:
        verdict = explore(Protocol().without(guard), scope=quiet)
        for name in verdict.broken:
            if name not in usual:
                return f"without {guard} alone {name} is {verdict[name].sentence}."
    both = explore(Protocol().without(*guards), "final", quiet)["final"]
    if both.holds is not False:
        return f"without both of them final {both.sentence}."


FORBIDDEN = ("EXISTS", "OR", "MAX")


def _all_four_in_other_words(answer):
    from leaselab.explore import check  # here: it needs matplotlib

    texts = answer()
    names = ("claim", "renew", "finish", "commit_run")
    if not isinstance(texts, dict) or sorted(texts) != sorted(names):
        return f"answer() has to return a dict of four texts: {', '.join(names)}."
    for name in names:
        words = re.findall(r"\w+", re.sub("--.*", "", str(texts[name])).upper())
        for word in FORBIDDEN:
            if word in words:
                return f"{name} has the word {word}."
    for name in names:
        grade = getattr(check, name)(texts[name])
        if not grade.right:
            return f"{name}: {repr(grade).removeprefix('Not yet').lstrip(':. ')}"


# What the lesson has replayed already: a part of each source.
IN_THE_LESSON = (
    *("apscheduler #959", "delayed_job #554", "solid_queue PR #761", "aegra #502"),
    *("orca #8452", "good_job #989"),
)


def _an_incident_of_your_own(answer):
    incident = read_incident(answer())
    if any(source in incident.source for source in IN_THE_LESSON):
        return f"{incident.source} is in the lesson; write up one from your own work."
    if "where you saw it" in incident.source:
        return "say in its source where you saw it."
    full = Lab.replay(incident)
    if not full.as_promised:
        return f"under the full protocol: {full.sentence}"
    broken = Lab.replay(incident, broken=True)
    if not broken.as_promised:
        return f"under the broken protocol: {broken.sentence}"


LOCK_CLAUSE = re.compile(r"\bFOR\s+(NO\s+KEY\s+)?(UPDATE|SHARE|KEY)|\bLOCK|advisory", re.IGNORECASE)


def _repaired_without_a_lock(answer):
    sql = answer(Protocol()["claim"])
    if not isinstance(sql, str):
        return f"your answer is to return the statement as a text, not {sql!r}."
    if LOCK_CLAUSE.search(re.sub("--.*", "", sql)):
        return "the statement asks for a lock of its own; do without FOR UPDATE and the like."
    from leaselab.postgres import PostgresServer

    protocol = Protocol("postgres").with_statement("claim", sql)
    with PostgresServer() as server:
        for committed in (True, False):
            first, second, store = _two_claims(server, protocol, committed)
            if first is None:
                return "a task that waits is not given to the first who asks."
            if committed and second is not None:
                return (
                    f"B was given task {second.task_id}, too, as generation {second.generation}; "
                    "A's claim was live."
                )
            if not committed and second is None:
                return "A's claim was rolled back, and B was given nothing."
        if store.claim("A", now=30, lease=30) is not None:
            return "at t=30 A is given a task that B holds until t=31."
        third = store.claim("A", now=31, lease=30)
        if third is None or third.generation != 2:
            return "nobody takes the task over when its lease has ended, at t=31."
        if not store.finish(third, now=32) or store.claim("B", now=99, lease=30) is not None:
            return "a task that is done is claimed again."


def _two_claims(server, protocol, committed):
    """A claims in a transaction, B claims while it is open; then it is committed, or not.

    Returns what each of them was given, and a store.
    """
    a, b = (server.store(place, protocol) for place in [server.fresh()] * 2)
    a.enqueue("run-1", now=0)
    a.fetch("BEGIN")
    first = a.claim("A", now=1, lease=30)
    second = server.meanwhile(b.claim, "B", now=1, lease=30)
    a.fetch("COMMIT" if committed else "ROLLBACK")
    return first, second.result(), b


def _asked(answer, protocol):
    """A question and its fact, and the events of its schedule, under a protocol."""
    lab = Lab(protocol=protocol)
    try:
        return answer(lab), lab.trace.events
    finally:
        lab.close()


THREE_THINGS = "three things: the question, the choices, the fact"


def _are_three(asked):
    return isinstance(asked, tuple) and len(asked) == 3


def _a_question_about_a_guard(answer):
    asked, events = _asked(answer, Protocol())
    if not _are_three(asked):
        return f"answer(lab) has to return {THREE_THINGS}."
    text, choices, fact = asked
    if not isinstance(text, str) or not text.strip().endswith("?"):
        return "a question is a text that ends in a question mark."
    acted = sorted({event.actor for event in events} - {"client", "service"})
    unnamed = [name for name in acted if not re.search(rf"\b{name}\b", text)]
    if unnamed or len(text.split()) < 4:
        return (
            "whoever is asked sees nothing of your schedule; the question has to tell who does what "
            f"in it, in four words at least, and to name {' and '.join(acted) or 'a worker'}."
        )
    words = list(choices.values()) if isinstance(choices, dict) else []
    if len(words) < 3 or not all(isinstance(each, str) and each.strip() for each in words):
        return "the choices are a dict of three at least: a fact, and what it means in words."
    if len(set(words)) < len(words):
        return "two of the choices have the same words."
    if fact not in tuple(choices):
        return f"the fact is {fact!r}, and no choice says so."
    if _asked(answer, Protocol()) != (asked, events):
        return "played again, the schedule comes out otherwise."
    for guard in Protocol().guards:
        if guard == "claim.final":
            continue
        other, its_events = _asked(answer, Protocol().without(guard))
        if not _are_three(other):
            return f"without {guard} answer(lab) does not return {THREE_THINGS}."
        other = other[2]
        if other != fact and other in tuple(choices) and its_events != events:
            return Solved(
                f"without {guard} the fact is {other!r}, your choice \u201c{choices[other]}\u201d"
            )
    return (
        f"whichever guard is struck out, claim.final apart, the fact is {fact!r} or something that "
        "no choice says."
    )


exercises = {
    "00_start_here": Exercise(
        "Let worker A hold the task with a lease that ends at t=37.",
        (
            "A lease lasts 30 virtual seconds, counted from the claim.",
            "Enqueue, move the clock to t=7 with lab.play_to(7), then let A claim.",
        ),
        _first_lease,
    ),
    "01_claim_and_finish": Exercise(
        "Bring the task into the state pending with generation 2.",
        (
            "A new task is pending with generation 0, and only a claim raises the generation. "
            "What brings a claimed task back to pending?",
            "lab.release(worker) gives a task back. Claim and release, twice.",
        ),
        _pending_with_generation_two,
    ),
    "02_crash_and_takeover": Exercise(
        "A claims at t=1, renews at t=20 and crashes right after. Let B claim one second too early "
        "and be refused, and claim again at the first instant at which the file permits it.",
        (
            "A renewal counts from now: which lease_until does the file hold after t=20?",
            "The lease ends at t=50. Let B claim at t=49 and again at t=50.",
        ),
        _earliest_takeover,
    ),
    "03_stale_commit": Exercise(
        "Let only worker A act, and get a finish of A refused although the row names A as the "
        "owner. It must be the generation that refuses it.",
        (
            "An owner's name is not a generation: the same worker can claim a task twice.",
            "Let A claim at t=1 and again at t=31, then lab.finish('A', generation=1).",
        ),
        _same_name_twice,
    ),
    "04_unknown_outcome": Exercise(
        "Write answer(lab, truth): A claims at t=1, calls the service once, at t=25, with "
        "lab.call_external('A', **truth), and gives up waiting at t=40. Let the row end as "
        "uncertain, whichever of the three truths it is given.",
        (
            "At t=40 the lease of t=1 has ended. What can A do before, so that it may still write?",
            "lab.renew('A') while the lease is live, for instance at t=25; then, at t=40, "
            "lab.finish('A', 'uncertain').",
        ),
        _same_view,
    ),
    "05_duplicate_side_effect": Exercise(
        "Nobody crashes, no reply is lost, nobody gives the task back. A and B call the service "
        "once each. Let the ledger say 2 while the task is done by one accepted finish.",
        (
            "A worker need not crash to lose its lease; it is enough to be slow.",
            "A claims, calls, and does nothing until t=31. B takes over, calls and finishes.",
        ),
        _twice_without_a_crash,
    ),
    "06_atomic_claim": Exercise(
        "Let a task that is done run again, in a lab with all its guards.",
        (
            "take writes without asking. What may have become of the task since the look?",
            "Let A look and then wait. B claims the task and finishes it. Now let A take.",
        ),
        _done_runs_again,
    ),
    "07_heartbeat": Exercise(
        "With one claim of A at t=1 and three accepted renewals, make A's lease last as long as the "
        "file permits. Let B claim one second before its end and be refused, and claim again at its "
        "end.",
        (
            "A renewal counts from now. So the later it comes, the later the new end. How late may "
            "it come?",
            "The claim's lease ends at t=61, and t=60 is the last instant at which it is live. Renew "
            "then, and twice more in the same way.",
        ),
        _longest_lease,
    ),
    "08_fenced_write": Exercise(
        "Write answer(lab, run). A holds a claim, and `run` is its copy of the run: revision 0, value "
        "None. A's step adds 'outline' to the value, once, after ', ' if there is a value already. "
        "Begin with a write on `run`, and do what is right whatever has happened since A read it: "
        "nothing; B has written 'title'; B has taken over; or A itself has written 'outline', and "
        "the answer was lost. Acknowledge once the step is done.",
        (
            "A conflict says that the run has changed, not who has changed it. What do you look "
            "for in the run before you write again?",
            "A loop: while 'outline' is not in (run['value'] or ''), write, return on lease_lost, "
            "and read the run anew with lab.workers['A'].store.runs()[0]. After the loop, "
            "lab.ack('A').",
        ),
        _whatever_has_happened,
    ),
    "09_attempt_limit": Exercise(
        "Nobody crashes, and the limit stays at 3. Let the task and its run fail by the attempt "
        "limit all the same. One attempt is used up by a worker that gives the task back, another "
        "one by a worker that does the work, but more slowly than its lease lasts, so that its "
        "finish is refused.",
        (
            "Every claim counts. How can a claim come to nothing without a crash? A lease has an end, "
            "and there is a statement that gives a task back.",
            "A claims and calls lab.release('A'). B claims, and finishes when its lease has ended. "
            "The next claims may do nothing at all; after the fourth one, lab.exhaust(worker).",
        ),
        _fails_without_a_crash,
    ),
    "10_real_workers": Exercise(
        "Suspend a worker in the middle of its work, resume it, and let its result still be accepted, "
        "with generation 1.",
        (
            "Nobody takes a task from a worker that sleeps; only the end of the lease does. How long "
            "may it sleep?",
            "Start A, enqueue, workers.wait('A', 'renew'), suspend, time.sleep(0.2), resume, "
            "workers.wait('A', 'ack').",
        ),
        _asleep_and_accepted,
    ),
    "11_break_a_guard": Exercise(
        "Nothing is in flight: Scope(in_flight=0). Write answer(), which returns the names of two "
        "guards. Struck out alone, neither is missed there: what holds with every guard still holds. "
        "Struck out together, they let a task that has ended change once more, which breaks the "
        "property final.",
        (
            "A task that has ended is not running, and has no lease. Which statements about a task "
            "that somebody has claimed look at neither?",
            "ack and release look at the owner and the generation only. While one of these two "
            "guards is on, it does the other one's work.",
        ),
        _two_spares,
    ),
    "12_write_your_own": Exercise(
        "Write all four statements anew, and none of them with the words EXISTS, OR or MAX. Write "
        "answer(), which returns them as a dict: claim, renew, finish, commit_run, a text for each. All "
        "four have to be right.",
        (
            "Whether a row exists can be counted, or looked for with IN. OR between two conditions on "
            "lease_until is about NULL: COALESCE(lease_until, :now) is never NULL.",
            "claim: run_id NOT IN (SELECT run_id FROM tasks WHERE lease_until > :now). renew: "
            "IIF(lease_until > :now + :lease, …). commit_run: :task_id IN (SELECT id FROM tasks WHERE …). "
            "finish has none of the three words anyway.",
        ),
        _all_four_in_other_words,
    ),
    "13_field_incidents": Exercise(
        "Write up one incident from your own work, or from a report that you know, as a table of its "
        "own. Under the full protocol every step must come back as you say and no damage may show; under "
        "the protocol that you break the damage must show. answer() returns the text.",
        (
            "Who believed that it still held the task, and what did it send? That step is the heart of "
            "the table: under the full protocol it is refused. Strike out the guard that refuses it.",
            "Four rows are enough: one worker claims, another one claims when the lease has ended, the "
            "first one sends 'finish 1 done' and must be refused, the second one 'finish 2 done' and is "
            "accepted. The skeleton's broken and damage lines fit these rows.",
        ),
        _an_incident_of_your_own,
    ),
    "14_postgresql": Exercise(
        "Write answer(claim). You are given the text of leaselab/sql/claim.sql. Return a claim that "
        "PostgreSQL does not give out twice, without FOR UPDATE or any other lock of your own. A "
        "claim that comes too late may be given nothing.",
        (
            "When the waiting UPDATE goes on, it asks about the row again: not the inner SELECT, but "
            "the WHERE of the UPDATE itself. What does that WHERE ask now, and what could it ask?",
            "Add to the outer WHERE, just before RETURNING, what makes a task free: AND state IN "
            "('pending', 'running') AND (lease_until IS NULL OR lease_until <= :now).",
        ),
        _repaired_without_a_lock,
    ),
    "15_self_test": Exercise(
        "Write a question about a guard other than claim.final. answer(lab) plays your schedule and "
        "returns three things: the question, a dict of three choices or more (a fact, and what it means "
        "in words), and the fact that came out. The question names the workers that act. A wrong choice "
        "has to be what comes out if one guard, which you need not name, is struck out.",
        (
            "Take a schedule of a lesson in which the file refuses something, such as the late finish "
            "of lesson 03. What would the row say if the guard were not there? That is a choice.",
            "A claims at t=1, B takes over at t=31, A sends lab.finish('A') at t=32. As the fact take "
            "lab.trace.tasks[0]['state'], and as choices what else the state could be.",
        ),
        _a_question_about_a_guard,
    ),
}

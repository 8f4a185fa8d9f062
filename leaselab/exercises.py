"""The lessons' exercises: a task, two hints, and a check that plays the reader's answer.

An answer is a function that is given a fresh lab and drives it by plain calls. The solutions lie in
``notebooks/solutions``, under the lesson's name.
"""

from leaselab.errors import InputError, StoreError
from leaselab.lab import Lab
from leaselab.protocol import Protocol


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
            missing = self._judge(answer)
        except (InputError, StoreError) as error:
            missing = str(error)
        except Exception as error:
            missing = f"your answer stopped with {type(error).__name__}: {error}"
        print(f"Not yet: {missing}" if missing else "Solved.")


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
}

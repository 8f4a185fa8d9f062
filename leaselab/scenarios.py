"""The scenarios, as data: who does what, and when. The Lab plays them on a real file."""

from dataclasses import dataclass
from typing import NamedTuple

from leaselab.errors import UnknownName


class Step(NamedTuple):
    """One action of a script.

    Attributes:
        t: when, in virtual seconds.
        actor: a worker's name, or ``"client"``.
        action: the Lab's method of that name.
        arguments: what the method is given besides the actor.
        ask: whether the reader is asked for a prediction first.
        number: its place in the script; None for an action that the reader added.
        done: False if it was left out, because its actor could not do it.
    """

    t: int
    actor: str
    action: str
    arguments: dict = {}
    ask: bool = False
    number: int | None = None
    done: bool = True


@dataclass(frozen=True)
class Scenario:
    """A script with its lease (virtual seconds), its workers, and what it does not show."""

    key: str = "free"
    title: str = "Your own steps"
    limits: str = ""
    steps: tuple[Step, ...] = ()
    lease: int = 30
    workers: tuple[str, ...] = ("A", "B")


class Scenarios(dict):
    """Scenarios by key; an unknown key is answered with the known ones."""

    def __missing__(self, key):
        raise UnknownName(f"there is no scenario {key!r}; there are {', '.join(self)}.")


ENQUEUED_AND_CLAIMED = (Step(0, "client", "enqueue"), Step(1, "A", "claim"))
TAKEN_OVER = (
    Step(4, "A", "crash"),
    Step(4, "A", "reopen"),
    Step(30, "B", "claim", ask=True),
    Step(31, "B", "claim", ask=True),
)
REPLY_LOST = Step(3, "A", "call_external", {"lost": "reply"})


def claimed_by_a_worker_that_dies(t, name):
    """A claim, and three seconds later a crash; a new process takes the name at once."""
    return Step(t, name, "claim"), Step(t + 3, name, "crash"), Step(t + 3, name, "reopen")


scenarios = Scenarios(
    (scenario.key, scenario)
    for scenario in (
        Scenario(
            "claim_and_finish",
            "Accepting, claiming and finishing are three different things",
            "A finished task is never claimed again.",
            (
                *ENQUEUED_AND_CLAIMED,
                Step(8, "A", "finish", {"generation": 1}),
                Step(10, "B", "claim", ask=True),
            ),
        ),
        Scenario(
            "crash_and_takeover",
            "The worker is gone, the lease is still in the file",
            "A lease that has ended permits a takeover; it does not prove that the worker stopped.",
            (
                *ENQUEUED_AND_CLAIMED,
                *TAKEN_OVER,
                Step(35, "B", "finish", {"generation": 2}),
                Step(40, "A", "claim"),
            ),
        ),
        Scenario(
            "stale_commit",
            "The old worker comes back and commits after the takeover",
            "The generation protects the commit in this file, and nothing outside it.",
            (
                *ENQUEUED_AND_CLAIMED,
                *TAKEN_OVER,
                Step(32, "A", "finish", {"generation": 1}, ask=True),
                Step(35, "B", "finish", {"generation": 2}),
                Step(40, "A", "claim"),
            ),
        ),
        Scenario(
            "unknown_outcome",
            "The service acted, the worker saw only a timeout",
            "uncertain needs a verdict from outside, and this model has no place to enter one.",
            (
                *ENQUEUED_AND_CLAIMED,
                REPLY_LOST,
                Step(4, "A", "finish", {"generation": 1, "outcome": "uncertain"}),
                Step(5, "A", "crash"),
                Step(5, "A", "reopen"),
                Step(31, "B", "claim", ask=True),
                Step(60, "B", "claim"),
            ),
        ),
        Scenario(
            "duplicate_side_effect",
            "The service acted, and the worker crashed before it could write that down",
            "Without an idempotency key the service may act twice; done does not prove otherwise.",
            (
                *ENQUEUED_AND_CLAIMED,
                REPLY_LOST,
                *TAKEN_OVER,
                Step(32, "B", "call_external", ask=True),
                Step(35, "B", "finish", {"generation": 2}),
            ),
        ),
        Scenario(
            "look_then_take",
            "Two workers look, then both take what they saw",
            "A claim in two steps, as it must not be done; the full protocol has one statement.",
            (
                Step(0, "client", "enqueue"),
                Step(1, "A", "look"),
                Step(2, "B", "look"),
                Step(3, "A", "take"),
                Step(4, "B", "take", ask=True),
                Step(10, "A", "finish", {"generation": 1}, ask=True),
                Step(12, "B", "finish", {"generation": 2}),
            ),
        ),
        Scenario(
            "heartbeat",
            "A heartbeat keeps the lease; when it stops, so does the lease",
            "The beats are steps of a script; a real heartbeat is a thread that may starve.",
            (
                *ENQUEUED_AND_CLAIMED,
                *(Step(t, "A", "renew") for t in (11, 31, 51)),
                Step(60, "A", "crash"),
                Step(110, "B", "claim", ask=True),
                Step(111, "B", "claim", ask=True),
                Step(120, "B", "finish"),
            ),
            lease=60,
        ),
        Scenario(
            "fenced_write",
            "Whoever writes the run shows its lease in the same statement",
            "What A did outside this file before it wrote is not undone by the refusal.",
            (
                *ENQUEUED_AND_CLAIMED,
                Step(31, "B", "claim"),
                Step(
                    33,
                    "A",
                    "commit_run",
                    {"value": "A's result", "revision": 0, "generation": 1},
                    ask=True,
                ),
                Step(35, "B", "commit_run", {"value": "B's result", "revision": 0}, ask=True),
                Step(36, "B", "ack"),
            ),
        ),
        Scenario(
            "attempt_limit",
            "A task that kills its worker, again and again",
            "Why the worker dies is not in the file; the limit counts claims, not causes.",
            (
                Step(0, "client", "enqueue"),
                *claimed_by_a_worker_that_dies(1, "A"),
                *claimed_by_a_worker_that_dies(31, "B"),
                *claimed_by_a_worker_that_dies(61, "A"),
                Step(91, "B", "claim", ask=True),
                Step(92, "B", "exhaust", ask=True),
                Step(122, "A", "claim", ask=True),
            ),
        ),
    )
)

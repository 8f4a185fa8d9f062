"""The five scenarios, as data: who does what, and when. The Lab plays them on a real file."""

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
    )
)

"""The scope of a search: how much may happen in it. A verdict is about nothing outside it."""

from dataclasses import dataclass

from leaselab.errors import InputError, whole_number

WORKERS = ("A", "B", "C")


@dataclass(frozen=True)
class Scope:
    """What a search looks at; times are virtual seconds.

    Attributes:
        workers: how many workers there are, at most 3.
        tasks: how many tasks are enqueued, at t=0.
        runs: how many runs they serve, in turn.
        claims: how many claims may succeed, altogether.
        crashes: how often a worker may crash; it is started again at once.
        in_flight: how many requests, sent just before a crash, may be under way at one time.
        lease: how long a lease lasts.
        horizon: the last instant; the clock starts at t=1.
        max_attempts: how many claims a task is given; the next one is one too many.
        retry_delay: how much later a task that was given back may be claimed.
        idempotency_key: whether the service knows a task that it has acted for.
        two_steps: whether a claim is two statements, ``look`` and ``take``.
        every_tick: whether the clock goes on by 1, and not to the next instant at which some
            comparison changes its answer.
        cap: after how many states a search gives up.
    """

    workers: int = 2
    tasks: int = 1
    runs: int = 1
    claims: int = 2
    crashes: int = 1
    in_flight: int = 1
    releases: int = 1
    lease: int = 30
    horizon: int = 41
    max_attempts: int = 1
    retry_delay: int = 10
    idempotency_key: bool = False
    two_steps: bool = False
    every_tick: bool = False
    cap: int = 100_000

    def __post_init__(self):
        for name, least in LEAST.items():
            whole_number(name, getattr(self, name), at_least=least)
        if self.workers > len(WORKERS):
            raise InputError(f"workers must be at most {len(WORKERS)}, not {self.workers!r}.")
        if self.runs > self.tasks:
            raise InputError(f"{self.runs} runs need as many tasks; there are {self.tasks}.")

    @property
    def names(self):
        """The workers' names."""
        return WORKERS[: self.workers]

    def __str__(self):
        return (
            f"{_count(self.workers, 'worker')}, {_count(self.tasks, 'task')} of "
            f"{_count(self.runs, 'run')}, {_count(self.claims, 'claim')}, "
            f"{_count(self.crashes, 'crash')}, {_count(self.releases, 'release')}, "
            f"{_count(self.in_flight, 'request')} in flight, {_count(self.max_attempts, 'attempt')}"
            f"{', a claim in two steps' if self.two_steps else ''}; lease {self.lease}, "
            f"t=1 to {self.horizon}{', every tick' if self.every_tick else ''}; "
            f"{'an' if self.idempotency_key else 'no'} idempotency key"
        )


LEAST = {
    **{
        "workers": 1,
        "tasks": 1,
        "runs": 1,
        "claims": 1,
        "crashes": 0,
        "in_flight": 0,
        "releases": 0,
        "lease": 1,
    },
    **{"horizon": 1, "max_attempts": 1, "retry_delay": 0, "cap": 1},
}


ONE_TASK = Scope()
TWO_TASKS = Scope(tasks=2, crashes=0, in_flight=0, releases=0, horizon=31)
TWO_RUNS = Scope(tasks=2, runs=2, crashes=0, in_flight=0, releases=0, horizon=31)


def _count(number, thing):
    plural = "es" if thing.endswith("sh") else "s"
    return f"{number} {thing}{'' if number == 1 else plural}"

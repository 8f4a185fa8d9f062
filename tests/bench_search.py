"""Search: states per second, a verdict at a click, the whole matrix, and what makes them quick."""

import gc
import statistics
import subprocess
import sys
import time
from collections import defaultdict

from leaselab import Protocol
from leaselab.explore import Scope, explore
from leaselab.explore.graph import graph_of
from leaselab.explore.machine import MEMORY

TURNS = 7
GUARD = "finish.generation"
MATRIX = """\
import time
from leaselab.explore import Matrix
start = time.perf_counter()
Matrix()
print(time.perf_counter() - start)"""
SMALL = {"lease": 10, "horizon": 14, "retry_delay": 3}


def tables():
    note = f"Medians of {TURNS}, in turns; the matrix 3 times, each in a fresh interpreter."
    yield ["a search", "median", "states/s", "target"], verdicts(), note
    yield ["what makes it quick", "with", "without", "ratio"], reasons(), "In one run each."


def verdicts():
    """Seconds of a verdict and of the matrix; states per second.

    A guard is clicked in a panel that has searched under the full protocol before.
    """
    took = defaultdict(list)
    for _ in range(TURNS):
        for name, properties in {"all properties": None, "one property": "final"}.items():
            forget()
            took[f"{name}, first of all"].append(searched(properties))
            forget()
            explore(None, properties)
            took[f"{name}, a guard is clicked"].append(searched(properties))
            took[f"{name}, the same again"].append(searched(properties))
    rows = []
    for name, values in took.items():
        seconds, states = (statistics.median(column) for column in zip(*values))
        target = [""] if "first" in name else ["under 0.3 s", seconds < 0.3]
        rows.append([name, f"{seconds:.2f} s", f"{states / seconds:,.0f}", *target])
    matrix = statistics.median(
        float(subprocess.check_output([sys.executable, "-c", MATRIX])) for _ in range(3)
    )
    rows.append(["the whole matrix", f"{matrix:.1f} s", "", "under 5 s", matrix < 5])
    return rows


def searched(properties):
    """Seconds of one search, and how many states it reached."""
    passed, verdict = timed(lambda: explore(Protocol.without(GUARD), properties))
    return passed, verdict["final"].states


def reasons():
    """A clock that jumps beside one that ticks; what is known beside what is asked anew."""
    jumps = explore(None, "final", Scope(**SMALL))["final"].states
    ticks = explore(None, "final", Scope(**SMALL, every_tick=True))["final"].states
    forget()
    anew, _ = timed(lambda: explore(None, "final"))
    remembered, _ = timed(lambda: explore(None, "final"))
    return [
        ["states, with a clock that jumps", f"{jumps:,}", f"{ticks:,}", f"{ticks / jumps:.0f}"],
        [
            "seconds, with what the search before has learnt",
            f"{remembered:.2f}",
            f"{anew:.2f}",
            f"{anew / remembered:.1f}",
        ],
    ]


def forget():
    """As in a fresh kernel: no statement was asked before."""
    MEMORY.clear()
    graph_of.cache_clear()
    gc.collect()


def timed(call):
    start = time.perf_counter()
    returned = call()
    return time.perf_counter() - start, returned

"""Search: states per second, a verdict at a click, the whole matrix, and what makes them quick."""

import statistics
import subprocess
import sys
import time

from leaselab import Protocol
from leaselab.explore import Scope, explore
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
    yield ["a search", "median", "target"], verdicts(), note
    yield ["what makes it quick", "with", "without", "ratio"], reasons(), "In one run each."


def verdicts():
    """Seconds of a verdict and of the matrix; states per second."""
    kinds = {"all properties": None, "one property": "final"}
    took = {(name, memory): [] for name in kinds for memory in ("first time", "at a click")}
    for _ in range(TURNS):
        for name, properties in kinds.items():
            for memory in ("first time", "at a click"):
                if memory == "first time":
                    forget()
                passed, verdict = timed(lambda: explore(Protocol.without(GUARD), properties))
                took[name, memory].append(passed)
    rows = []
    for (name, memory), values in took.items():
        typical = statistics.median(values)
        target = ["under 0.3 s", typical < 0.3] if memory == "at a click" else [""]
        rows.append([f"{name}, {memory}", f"{typical:.2f} s", *target])
    states = verdict["final"].states
    once = statistics.median(took["one property", "at a click"])
    rows.append(["states per second", f"{states / once:,.0f}", ""])
    matrix = statistics.median(
        float(subprocess.check_output([sys.executable, "-c", MATRIX])) for _ in range(3)
    )
    rows.append(["the whole matrix", f"{matrix:.1f} s", "under 5 s", matrix < 5])
    return rows


def reasons():
    """A clock that jumps beside one that ticks; answers remembered beside answers asked anew."""
    jumps = explore(None, "final", Scope(**SMALL))["final"].states
    ticks = explore(None, "final", Scope(**SMALL, every_tick=True))["final"].states
    forget()
    anew, _ = timed(lambda: explore(None, "final"))
    remembered, _ = timed(lambda: explore(None, "final"))
    return [
        ["states, with a clock that jumps", f"{jumps:,}", f"{ticks:,}", f"{ticks / jumps:.0f}"],
        [
            "seconds, with answers of the search before",
            f"{remembered:.2f}",
            f"{anew:.2f}",
            f"{anew / remembered:.1f}",
        ],
    ]


def forget():
    """As in a fresh kernel: no statement was asked before."""
    for answers in MEMORY.values():
        answers.clear()


def timed(call):
    start = time.perf_counter()
    returned = call()
    return time.perf_counter() - start, returned

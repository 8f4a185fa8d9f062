"""Workers as real operating-system processes, on one SQLite file and in real time.

The file decides, the process only believes. What a process may believe: that its lease holds until
the last renewal that was confirmed, counted from before that request was sent, plus the lease. When
this time has passed, or the file has refused a renewal, the work ends at its next step. Whether a
result counts is not for the process to say: the statement that writes it looks at the lease.

- ``LoggedStore``: the verbs of the store, each in one transaction with the line that tells of it.
- ``Heartbeat``: renews a lease from a thread of its own.
- ``Poller``: looks for tasks, does their work, writes their results.
- ``Workers``: starts, kills, suspends and resumes processes, for lessons and tests.

All times are milliseconds. ``python -m leaselab.workers --help`` tells how to run one worker.
"""

from leaselab.workers.clock import Clock
from leaselab.workers.heartbeat import Heartbeat
from leaselab.workers.log import LoggedStore, trace_of
from leaselab.workers.poller import LeaseLost, Poller, Task
from leaselab.workers.processes import Workers

__all__ = [
    "Clock",
    "Heartbeat",
    "LeaseLost",
    "LoggedStore",
    "Poller",
    "Task",
    "Workers",
    "trace_of",
]

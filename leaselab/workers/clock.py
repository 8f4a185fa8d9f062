"""The two clocks of a machine, and waiting; tests bring their own."""

import threading
import time


class Clock:
    """Milliseconds, as whole numbers."""

    def now(self):
        """The time of day, which all processes of a machine share. It may be set back."""
        return time.time_ns() // 1_000_000

    def steady(self):
        """A clock that only goes forward, for spans of time within one process."""
        return time.monotonic_ns() // 1_000_000

    def wait(self, event, milliseconds):
        """Wait until an event is set, at most so long. Returns whether it is set."""
        return event.wait(min(max(0, milliseconds) / 1000, threading.TIMEOUT_MAX))

"""The heartbeat: renews a lease while its work goes on, and knows how long it may be believed in."""

import threading

from leaselab.errors import InputError, whole_number
from leaselab.workers.clock import Clock

RENEWED, REFUSED, UNKNOWN = "renewed", "refused", "unknown"


class Heartbeat:
    """Renews a lease every ``interval`` from a thread of its own, so that no work can starve it.

    A beat is never sent while another is under way. One that takes long delays the next, and those
    that were due meanwhile are not made up for.

    Args:
        renew: sends one renewal; returns the lease's new end, or None if it was refused. Whatever
            it raises leaves the outcome unknown.
        claimed_at: what the steady clock said *before* the claim was sent.
        lease: in milliseconds.
        interval: between two beats, in milliseconds; a third of the lease by default, so that one
            of them may be lost: the third would meet the end, which is not held.
        clock: a ``Clock``.
        tell_unknown: is called with the error of a beat whose outcome is unknown.

    Raises:
        InputError: the interval is not below the lease.

    As a context manager it beats until the block has ended.
    """

    def __init__(
        self, renew, *, claimed_at, lease, interval=None, clock=None, tell_unknown=lambda _: None
    ):
        self.lease, self.interval = lease_and_interval(lease, interval)
        self.clock = clock or Clock()
        self._renew = renew
        self._tell_unknown = tell_unknown
        self._vouched_until = claimed_at + self.lease
        self._lost = ""
        self._single_flight = threading.Lock()
        self._stop = threading.Event()
        self._thread = None

    @property
    def held(self):
        """Whether the lease may be believed in. Once it may not, it may not again.

        False once the file has refused a renewal. False, too, when the last renewal that was
        confirmed, counted from before its request was sent, is a whole lease ago: the lease may
        have been longer, for the file counts from when the request arrived, but nobody vouches
        for that.
        """
        if not self._lost and self.clock.steady() >= self._vouched_until:
            self._lost = f"no renewal was confirmed for {self.lease} ms"
        return not self._lost

    @property
    def reason(self):
        """Why the lease is not believed in, in words; empty if it is."""
        return "" if self.held else self._lost

    def beat(self):
        """Send one renewal and wait for its answer.

        Returns ``"renewed"``; ``"refused"``, which proves that the lease is lost; or ``"unknown"``:
        the work may go on as long as the lease that was vouched for last.
        """
        with self._single_flight:
            sent_at = self.clock.steady()
            try:
                end = self._renew()
            except Exception as error:
                self._tell_unknown(error)
                return UNKNOWN
            if end is None:
                self._lost = self._lost or "the file refused a renewal"
                return REFUSED
            self._vouched_until = sent_at + self.lease
            return RENEWED

    def __enter__(self):
        self._thread = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        """Stop beating; a beat that is under way is waited for."""
        self._stop.set()
        self._thread.join()

    def _beat_on(self):
        due = self.clock.steady() + self.interval
        while not self.clock.wait(self._stop, due - self.clock.steady()):
            if not self.held or self.beat() == REFUSED:
                return
            due = max(due + self.interval, self.clock.steady())


def lease_and_interval(lease, interval):
    """Both in milliseconds; ``InputError`` names what cannot be used."""
    whole_number("lease", lease, at_least=3)
    interval = lease // 3 if interval is None else whole_number("heartbeat", interval, at_least=1)
    if interval >= lease:
        raise InputError(
            f"a heartbeat every {interval} ms cannot keep a lease of {lease} ms, which ends before "
            f"the next beat; take less, {lease // 3} ms for instance."
        )
    return lease, interval

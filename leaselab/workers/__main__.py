"""One worker: ``python -m leaselab.workers --db FILE --name A``."""

import argparse
import importlib
import os
import signal
import sys
import threading
import warnings
from functools import partial

from leaselab.errors import InputError, StoreError
from leaselab.store import BUSY_TIMEOUT, SYNCHRONOUS
from leaselab.workers.poller import INTERVAL, LEASE, MAX_ATTEMPTS, Poller, on_stderr


def main(arguments=None):
    """Run one worker until it is told to close. Returns the exit status."""
    options = parser().parse_args(arguments)
    warnings.showwarning = lambda message, *_: on_stderr(message)
    try:
        poller = poller_of(options)
    except (InputError, StoreError) as error:
        on_stderr(error)
        return 1
    for name in (signal.SIGTERM, signal.SIGINT):
        # In a thread: this one may be waiting on the very event that is to be set.
        signal.signal(name, lambda *_: threading.Thread(target=poller.stop).start())
    if options.until_input_ends:
        threading.Thread(target=stop_with_input, args=(poller,), daemon=True).start()
    failed = False
    try:
        if options.once:
            failed = not poller.recover()
        else:
            poller.run()
    finally:
        poller.close()
    return 1 if failed or poller.error else 0


def poller_of(options):
    """The poller that the command line asks for."""
    return Poller(
        options.db,
        options.name,
        find_work(options.work, options.seconds),
        lease=options.lease,
        heartbeat=options.heartbeat,
        interval=options.interval,
        max_attempts=options.max_attempts,
        synchronous=options.synchronous,
        busy_timeout=options.busy_timeout,
        tell=tell,
    )


def parser():
    """The command line, with the defaults of the code."""
    parser = argparse.ArgumentParser(prog="python -m leaselab.workers", description=main.__doc__)
    add = parser.add_argument
    add("--db", required=True, help="the SQLite file; made if it is not there")
    add("--name", required=True, help="the worker's name, its own among those alive")
    add("--work", default="leaselab.workers.work:in_steps", help="MODULE:FUNCTION (%(default)s)")
    add("--seconds", type=float, help="handed to the work as its argument seconds")
    add("--lease", type=int, default=LEASE, help="milliseconds (%(default)s)")
    add("--heartbeat", type=int, help="milliseconds between two renewals (a third of the lease)")
    add("--interval", type=int, default=INTERVAL, help="milliseconds between rounds (%(default)s)")
    add("--max-attempts", type=int, default=MAX_ATTEMPTS, help="(%(default)s)")
    add("--synchronous", choices=SYNCHRONOUS, default="FULL", help="(%(default)s)")
    add("--busy-timeout", type=int, default=BUSY_TIMEOUT, help="milliseconds (%(default)s)")
    add("--once", action="store_true", help="do what can be claimed now, then end")
    add("--until-input-ends", action="store_true", help="close when the standard input ends")
    return parser


def find_work(name, seconds):
    """The function that ``MODULE:FUNCTION`` names."""
    module, _, function = name.partition(":")
    try:
        work = getattr(importlib.import_module(module), function)
    except Exception as error:
        raise InputError(f"the work {name!r} cannot be found ({error}); give MODULE:FUNCTION.")
    if not callable(work):
        raise InputError(f"the work {name!r} is no function; give MODULE:FUNCTION.")
    return work if seconds is None else partial(work, seconds=seconds)


def stop_with_input(poller):
    """Wait for the end of the standard input: whoever holds its other end is gone, or has closed."""
    while sys.stdin and os.read(sys.stdin.fileno(), 1024):
        pass
    poller.stop()


def tell(line):
    """Print a line of the log; work and heartbeat do so in turn."""
    with ONE_AT_A_TIME:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


ONE_AT_A_TIME = threading.Lock()

if __name__ == "__main__":
    sys.exit(main())

"""Worker processes on one fresh file: started, killed, suspended and resumed for real."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path

import psutil

from leaselab.errors import InputError
from leaselab.workers.log import LoggedStore, trace_of

PATIENCE = 15  # seconds; a loaded machine starts a process in a few
# An interrupt of the notebook's kernel is none of the workers', so each has a process group of its
# own. It stays in the kernel's session, so that POSIX calls the group orphaned when the kernel is
# gone: if its worker is suspended, the system sends it SIGHUP, which ends it, and SIGCONT.
OF_ITS_OWN = (
    {"process_group": 0}
    if os.name == "posix"
    else {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
)
LESSON_SYNCHRONOUS = "NORMAL"  # a kill loses nothing, and nobody cuts the power of a lesson


class Workers:
    """Worker processes on a fresh SQLite file in a folder of its own.

    Args:
        lease, interval: milliseconds; the heartbeat is a third of the lease.

    ``end()`` ends every process and deletes the files; workers that are forgotten do so by
    themselves. A worker closes when the process that started it is gone. One that is suspended ends
    then, too, if that process led a session, as a notebook's kernel does; but not on Windows.
    """

    def __init__(self, *, lease=900, interval=100):
        self.lease, self.interval = lease, interval
        self.busy_timeout = lease // 3
        self.folder = Path(tempfile.mkdtemp(prefix="leaselab-"))
        self.path = self.folder / "workers.sqlite"
        self.processes = {}
        self._log = self._open("client")
        self.end = weakref.finalize(self, _end, os.getpid(), self.processes, self._log, self.folder)

    def enqueue(self, run_id="run-1", *, delay=0):
        """The client writes a task down, available after a delay. Returns its id."""
        return self._log.enqueue(run_id, delay=delay)

    def start(self, name, *options):
        """Start a worker, and wait until it has begun.

        Args:
            name: the worker's name.
            options: more of its command line, such as ``"--seconds", "2"``.
        """
        if name in self.processes and self.processes[name].poll() is None:
            raise InputError(f"{name} works already; kill or close it first.")
        before = len(self._events(name))
        settings = {
            "lease": self.lease,
            "interval": self.interval,
            "busy_timeout": self.busy_timeout,
            "synchronous": LESSON_SYNCHRONOUS,
        }
        said = (self.folder / f"{len(self.processes)}.txt").open("ab")
        with said:
            self.processes[name] = psutil.Popen(
                command_of(self.path, name, *options, **settings),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                **OF_ITS_OWN,
            )
        self._wait(
            lambda: len(self._events(name)) > before or not self._lives(name), f"{name} to start"
        )
        if len(self._events(name)) == before:
            raise InputError(f"{name} has not started: {Path(said.name).read_text().strip()}")

    def kill(self, name):
        """Kill a worker (SIGKILL): it is given no chance to do anything."""
        process = self._process(name)
        process.kill()
        process.wait()
        process.stdin.close()
        self._note(name, "crash")

    def suspend(self, name):
        """Suspend a worker (SIGSTOP): nothing of it runs, and it does not know.

        It is done between two transactions: a process that sleeps within one keeps all others out
        of the file.
        """
        process = self._process(name)
        with self._log.store.transaction():
            process.suspend()
            self._wait(lambda: process.status() == psutil.STATUS_STOPPED, f"{name} to sleep")
        self._note(name, "suspend")

    def resume(self, name):
        """Let a suspended worker go on (SIGCONT)."""
        self._note(name, "resume")
        self._process(name).resume()

    def close(self, name):
        """Close a worker gracefully: it claims no more, ends its work, and leaves."""
        process = self._process(name)
        if process.status() == psutil.STATUS_STOPPED:
            raise InputError(f"{name} is suspended and cannot close; resume it first.")
        process.stdin.close()
        process.wait(PATIENCE)

    def wait(self, name, action, times=1, **wanted):
        """Wait until a worker has done something. Returns the last such event.

        Args:
            name: the worker.
            action: as in the log: ``"claim"``, ``"commit_run"``, ``"start"`` …
            times: how often it must have done so.
            wanted: what else must hold of the event, such as ``returned="committed"``.
        """
        what = ", ".join([f"{name}'s {action}", *(f"{k} {v!r}" for k, v in wanted.items())])
        wanted["action"] = action
        self._wait(lambda: len(self._events(name, **wanted)) >= times, what)
        return self._events(name, **wanted)[-1]

    @property
    def trace(self):
        """What has happened so far, in milliseconds since the first line."""
        return trace_of(self._log.lines(), tuple(self.processes) or ("A",))

    def chart(self):
        """The timeline, as a picture with its sentence."""
        from leaselab.chart import Chart

        return Chart(self.trace)

    def tasks(self):
        """Every task as it stands in the file."""
        return self._log.store.tasks()

    def runs(self):
        """Every run as it stands in the file."""
        return self._log.store.runs()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _events(self, name, **wanted):
        wanted["actor"] = name
        return [
            event
            for event in self.trace.events
            if all(getattr(event, field) == value for field, value in wanted.items())
        ]

    def _note(self, name, action):
        """A line about a worker that cannot write it itself."""
        tasks = [event.task_id for event in self.trace.events if event.actor == name]
        meant = next((task_id for task_id in reversed(tasks) if task_id), None)
        with self._open(name) as log:
            log.note(action, meant)

    def _open(self, name):
        busy_timeout = PATIENCE * 1000
        return LoggedStore(
            self.path, name, synchronous=LESSON_SYNCHRONOUS, busy_timeout=busy_timeout
        )

    def _process(self, name):
        if not self._lives(name):
            raise InputError(f"{name} does not work; start it first.")
        return self.processes[name]

    def _lives(self, name):
        return name in self.processes and self.processes[name].poll() is None

    def _wait(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE} seconds for {what}; it did not come.")
            time.sleep(0.02)


def command_of(path, name, *options, **settings):
    """The command line of a worker that closes when its standard input ends.

    Args:
        path: the SQLite file.
        name: the worker's name.
        options: what comes last, as it stands, such as ``"--seconds", "2"``.
        settings: options by name, such as ``busy_timeout=300``.
    """
    command = [sys.executable, "-m", "leaselab.workers", "--until-input-ends"]
    for option, value in {"db": path, "name": name, **settings}.items():
        command += [f"--{option.replace('_', '-')}", str(value)]
    return [*command, *options]


def _end(owner, processes, log, folder):
    if os.getpid() != owner:  # a fork of the owner: they are not its own
        return
    for process in processes.values():
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdin.close()
    log.close()
    shutil.rmtree(folder, ignore_errors=True)

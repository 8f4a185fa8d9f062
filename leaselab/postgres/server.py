"""A server to try things on: one that is started for the purpose, or one that a URL names."""

import json
import os
import secrets
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from psycopg import Error, conninfo
from psycopg.sql import SQL, Identifier

from leaselab.errors import StoreError
from leaselab.postgres.store import PostgresStore, connect, in_a_sentence

URL = "LEASELAB_POSTGRES_URL"
PATIENCE = 60  # seconds for a server to stop, and for a call to wait or to return
# What interrupts a notebook's cell, or closes its terminal, must not stop the server.
OF_ITS_OWN = (
    {"start_new_session": True}
    if os.name == "posix"
    else {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
)
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"


class PostgresServer:
    """A PostgreSQL server, and places on it that nobody else uses; a context manager.

    Without a URL a server is started in a temporary folder, and both are gone when it is closed,
    after an exception, and after the death of this process. On a server of your own each place is a
    new schema, which ``close`` drops; a process that is killed leaves its schemas there.

    Args:
        url: ``postgresql://user:password@host:port/database``; by default what the environment
            variable ``LEASELAB_POSTGRES_URL`` says.

    Attributes:
        url: where the server is, with the password.
        version: its major version, such as 18.
    """

    def __init__(self, url=None):
        self.url = url or os.environ.get(URL)
        self._watcher = self._connection = None
        self._schemas = []
        if not self.url:
            self._start()
        try:
            self._connection = connect(self.url)
        except BaseException:
            self.close()
            raise
        self.version = self._connection.info.server_version // 10_000

    def fresh(self):
        """Make a place of its own, an empty schema. Returns the URL that leads there."""
        schema = f"leaselab_{secrets.token_hex(6)}"
        self._execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        self._schemas.append(schema)
        options = conninfo.conninfo_to_dict(self.url).get("options", "")
        return conninfo.make_conninfo(
            self.url, options=f"{options} -csearch_path={schema}".strip(), application_name=schema
        )

    def store(self, url=None, protocol=None, **settings):
        """A store in a fresh place, or at the URL of one."""
        return PostgresStore(url or self.fresh(), protocol, **settings)

    def connect(self, url=None):
        """A plain psycopg connection, without a store around it; as ``store``."""
        return connect(url or self.url)

    def meanwhile(self, call, *args, **kwargs):
        """Begin a verb of a store in a thread. Returns a ``Call`` once it has ended or waits."""
        return Call(self, call, args, kwargs)

    def cut_off(self, store, *, at_commit=False):
        """End the connection of a store, as an administrator or a broken line would.

        Args:
            store: whose connection.
            at_commit: not now, but when its next COMMIT has been sent: the server carries it out,
                and the answer is lost.
        """
        if at_commit:
            store.at_commit = lambda: self._wait_for_the_end_of(store.pid)
        else:
            self._execute("SELECT pg_terminate_backend(%s::int, 5000)", (store.pid,))

    def close(self):
        """Drop what was made, and stop the server if it was started for the purpose."""
        if self._connection is not None:
            try:
                if self._watcher is None:
                    self._drop()
            finally:
                self._connection.close()
                self._connection = None
        if self._watcher is not None:
            self._watcher.stdin.close()
            self._watcher.wait(PATIENCE)
            self._watcher.stdout.close()
            self._watcher = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def waits(self, store):
        """Whether the connection of a store waits for a lock that another one holds."""
        return bool(self._execute(WAITING, (store.pid,)))

    def _wait_for_the_end_of(self, pid):
        deadline = time.monotonic() + PATIENCE
        there = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        while self._execute(there, (pid,)) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _drop(self):
        """Drop the schemas, and end the connections that might still use them."""
        ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        if self._connection.closed and self._schemas:  # an administrator, or a broken line
            self._connection = connect(self.url)
        while self._schemas:
            schema = self._schemas.pop()
            self._execute(ends, (schema,))
            self._execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(schema)))

    def _execute(self, statement, sent=()):
        """Run a statement on the server's own connection; returns its rows."""
        if self._connection is None:
            raise StoreError("this server is closed; start a new one.")
        try:
            cursor = self._connection.execute(statement, sent)
            return cursor.fetchall() if cursor.description else []
        except Error as error:
            raise in_a_sentence(self.url, error) from error

    def _start(self):
        self._watcher = subprocess.Popen(
            [sys.executable, "-m", "leaselab.postgres.watcher"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **OF_ITS_OWN,
        )
        told = self._watcher.stdout.readline()
        said = json.loads(told) if told else {"error": "the server's process ended at once."}
        if "error" in said:
            self.close()
            raise StoreError(f"no PostgreSQL server could be started: {said['error']}")
        self.url = said["url"]


class Call:
    """A verb of a store that was begun in a thread of its own.

    Attributes:
        waited: whether it had to wait for a lock when ``meanwhile`` returned.
    """

    def __init__(self, server, call, args, kwargs):
        pool = ThreadPoolExecutor(1)
        self._future = pool.submit(call, *args, **kwargs)
        pool.shutdown(wait=False)
        self.waited = False
        deadline = time.monotonic() + PATIENCE
        while not self._future.done() and not self.waited and time.monotonic() < deadline:
            self.waited = server.waits(call.__self__)
            time.sleep(0.01)

    def result(self):
        """What the verb gives back, once it has ended."""
        return self._future.result(PATIENCE)

"""The store on a PostgreSQL server: the verbs of ``Store``, and what they give back.

The statements are the protocol's; where PostgreSQL needs other words, they lie in
``leaselab/sql/postgres``.
"""

import re
from functools import lru_cache

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from leaselab.errors import InputError, StoreError, whole_number
from leaselab.protocol import Protocol
from leaselab.store import BUSY_TIMEOUT, SYNCHRONOUS, Statement, Store

MARK = "a table of leaselab"  # the comment that marks a table as ours
OLDEST_POSTGRES = 15  # the oldest that the tests were run on
CONNECT_TIMEOUT = 10  # seconds
GONE = (
    "the connection to {} is gone; whether the last statement took effect is not known. "
    "Open a new store and read the row."
)
TRIES = 10  # of a claim that met another one of the same run
COMMENTS = (  # on all that lies in the schema; asked of the table, for what a name means is cached
    "SELECT obj_description(oid, 'pg_class') FROM pg_class "
    "WHERE relnamespace = current_schema()::regnamespace"
)
READS_RUNS = "SELECT id, state, revision, value, failure FROM runs"
# What is no parameter: a comment, a text, a cast. What is one: a name after a colon.
PARTS = re.compile(r"(--[^\n]*|'[^']*'|::)|:(\w+)|(%)|(\?)")


class PostgresStore(Store):
    """One connection to one schema of a PostgreSQL server; the verbs are those of ``Store``.

    Args:
        url: ``postgresql://user:password@host:port/database``; the tables are made in the first
            schema of the connection's search path.
        protocol: the statements to run; ``Protocol("postgres")`` if none is given.
        synchronous: ``"FULL"``: every commit reaches the server's disk before the verb returns.
            ``"NORMAL"`` and ``"OFF"``: a crash of the server may lose the last commits.
        busy_timeout: how long a locked row is waited for, in milliseconds.

    Attributes:
        pid: the number of the server's process for this connection.
        at_commit: called once the next COMMIT has been sent and the line was cut; None lets it live.
    """

    BEGIN = "BEGIN"  # it sees, statement by statement, what others have committed by then

    def __init__(self, url, protocol=None, *, synchronous="FULL", busy_timeout=BUSY_TIMEOUT):
        if synchronous not in SYNCHRONOUS:
            known = ", ".join(SYNCHRONOUS)
            raise InputError(f"synchronous is one of {known}, not {synchronous!r}.")
        self.synchronous = synchronous
        self.busy_timeout = whole_number("busy_timeout", busy_timeout)
        self.protocol = protocol or Protocol("postgres")
        self.ran = []
        self.path = place(url)
        self.at_commit = None
        self._connection = connect(url)
        self.pid = self._connection.info.backend_pid
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def claim(self, owner, *, now, lease):
        """Claim the first task that may run, for ``[now, now + lease)``.

        Returns a ``Claim``, or None if no task may be claimed now. The index ``one_running`` ends
        a claim whose run another claim has begun in the same instant; then the next one is tried,
        which sees it.
        """
        for _ in range(TRIES):
            try:
                with self._savepoint():
                    return super().claim(owner, now=now, lease=lease)
            except RunIsRunning:
                continue
        return None

    def runs(self):
        """Every run as it stands in the database: a list of dicts, in order of creation."""
        return [dict(row) for row in self.fetch(f"{READS_RUNS} ORDER BY number")]

    def run(self, run_id):
        """One run as it stands in the database, as a dict; None if there is none."""
        rows = self.fetch(f"{READS_RUNS} WHERE id = :id", {"id": run_id})
        return dict(rows[0]) if rows else None

    def clock(self):
        """The server's clock, in milliseconds: the one clock that all its clients share."""
        return self.fetch("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")[0][0]

    def fetch(self, sql, sent=()):
        """Run one statement to its end."""
        return self._execute(sql, sent)[0]

    def limit(self, *, steps, size):
        """Not here: it counts the steps of SQLite's machine."""
        raise InputError("limit() counts the steps of SQLite's machine; PostgreSQL has none.")

    def _execute(self, sql, sent=()):
        """Run one statement to its end; returns its rows and how many rows it has changed."""
        try:
            if sent:
                cursor = self._connection.execute(in_psycopgs_style(sql), sent)
            else:  # as it stands: there is nothing to put in
                cursor = self._connection.execute(sql)
            rows = cursor.fetchall() if cursor.description else []
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise self._in_a_sentence(error) from error
        if sql == "COMMIT" and cursor.statusmessage != "COMMIT":
            raise StoreError(f"{self.path}: a statement had failed; nothing was changed.")
        changes = (cursor.statusmessage or "").startswith(("INSERT", "UPDATE", "DELETE"))
        return rows, cursor.rowcount if changes else 0

    def _run(self, name, **sent):
        if not self._in_transaction():
            self.ran = []
        rows, changed = self._execute(self.protocol[name], sent)
        self.ran.append(Statement(self.protocol[name], sent, changed))
        return rows

    def _savepoint(self):
        """Within a transaction a statement that fails must not take the others with it."""
        return _Savepoint(self) if self._in_transaction() else _Nothing()

    def _in_transaction(self):
        status = self._connection.info.transaction_status
        return status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def _commit(self):
        if self.at_commit is not None:
            self._connection.pgconn.send_query(b"COMMIT")
            self._connection.pgconn.flush()
            self.close()
            self.at_commit()
            raise StoreError(GONE.format(self.path))
        super()._commit()

    def _rollback(self):
        if not self._connection.closed:  # a connection that is gone has nothing to roll back
            self._connection.rollback()

    def _prepare(self):
        version = self._connection.info.server_version
        if version < OLDEST_POSTGRES * 10_000:
            raise StoreError(
                f"{self.path} is PostgreSQL {version // 10_000}, which is too old: leaselab needs "
                f"{OLDEST_POSTGRES} or newer."
            )
        commits = "on" if self.synchronous == "FULL" else "off"
        self.fetch(f"SET synchronous_commit = {commits}")
        self.fetch(f"SET lock_timeout = {self.busy_timeout}")
        self.fetch("SET client_min_messages = warning")
        if not self._is_ours():
            with self.transaction():
                self.fetch("SELECT pg_advisory_xact_lock(:mark)", {"mark": 0x1EA5E1AB})
                if not self._is_ours():  # another process may have been faster
                    self._create_tables()

    def _is_ours(self):
        return (MARK,) in self.fetch(COMMENTS)

    def _create_tables(self):
        schema = self.fetch("SELECT current_schema()")[0][0]
        if schema is None:
            raise StoreError(f"{self.path} has no schema that tables can be made in; create one.")
        if self.fetch(COMMENTS):
            raise StoreError(
                f"the schema {schema} of {self.path} holds the tables of another program; nothing "
                "was changed. Give the name of a new schema."
            )
        for statement in self.protocol["schema"].split(";"):
            self.fetch(statement)
        self.fetch(f"COMMENT ON TABLE tasks IS '{MARK}'")

    def _in_a_sentence(self, error):
        if isinstance(error, (UnicodeError, ValueError)) or isinstance(error, psycopg.DataError):
            return InputError(f"a text or a number cannot be written down: {error}.")
        if isinstance(error, errors.UniqueViolation) and "one_running" in str(error):
            return RunIsRunning(f"{self.path}: another task of this run is running.")
        return StoreError(_sentence(self.path, self.busy_timeout, error))


class RunIsRunning(StoreError):
    """The index has refused a second running task of one run."""


class Row(tuple):
    """A row whose values are found by place and by name, as SQLite's are."""

    __slots__ = ()
    names = ()

    def keys(self):
        """The names of the columns."""
        return self.names

    def __getitem__(self, key):
        return tuple.__getitem__(self, self.names.index(key) if isinstance(key, str) else key)


def _rows(cursor):
    return _row_of(tuple(column.name for column in cursor.description or ()))


@lru_cache(maxsize=256)
def _row_of(names):
    return type("Row", (Row,), {"names": names, "__slots__": ()})


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class _Savepoint(_Nothing):
    def __init__(self, store):
        self.store = store

    def __enter__(self):
        self.store.fetch("SAVEPOINT claim")

    def __exit__(self, kind, *_):
        if kind is RunIsRunning:
            self.store.fetch("ROLLBACK TO SAVEPOINT claim")
        elif kind is None:
            self.store.fetch("RELEASE SAVEPOINT claim")


@lru_cache(maxsize=256)
def in_psycopgs_style(sql):
    """A statement with its parameters as psycopg wants them: ``:now`` becomes ``%(now)s``.

    Comments and texts stay as they are; what was struck out is a comment.
    """

    def part(match):
        kept, name, percent, mark = match.groups()
        if name:
            return f"%({name})s"
        return "%s" if mark else "%%" if percent else kept.replace("%", "%%")

    return PARTS.sub(part, sql)


def connect(url):
    """A connection in which every statement is a transaction of its own until BEGIN.

    Raises:
        StoreError: no server answers there, or it lets nobody in; InputError: no URL.
    """
    place(url)  # what is no URL is named first
    try:
        connection = psycopg.connect(
            url, autocommit=True, row_factory=_rows, connect_timeout=CONNECT_TIMEOUT
        )
    except (psycopg.Error, UnicodeError) as error:
        raise in_a_sentence(url, error) from error
    connection.adapters.register_dumper(int, Int8Dumper)  # two small numbers may have a large sum
    return connection


def in_a_sentence(url, error):
    """What psycopg says of a server, as a ``StoreError`` that names the server."""
    return StoreError(_sentence(place(url), 0, error))


def place(url):
    """Where a URL leads, in words and without its password."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except (psycopg.Error, AttributeError, TypeError, UnicodeError) as error:
        raise InputError(
            "a server's URL looks like postgresql://user:password@host:port/database, "
            f"not {_without_password(url)!r}."
        ) from error
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    return f"the server at {host}:{port}"


def _without_password(url):
    return re.sub(r":[^:@/]*@", ":...@", url) if isinstance(url, str) else url


def _sentence(where, busy_timeout, error):
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "password authentication failed" in said or "no password supplied" in said:
        return f"{where} refuses this user or password; correct it in the URL."
    if re.search('database ".*" does not exist', said):
        return f"{where} has no such database; correct its name in the URL, or create it."
    if isinstance(error, errors.LockNotAvailable):
        waited = f"{busy_timeout / 1000:g} seconds"
        return f"{where}: a row is locked by another connection for {waited} now; try again."
    if isinstance(error, errors.DiskFull):
        return f"the disk of {where} is full; nothing was changed. Free some space and try again."
    if isinstance(error, (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege)):
        return f"{where} does not allow this user to write here; nothing was changed."
    if isinstance(error, errors.CheckViolation):
        return f"{where}: CHECK constraint failed: {error.diag.constraint_name}."
    if "the connection is closed" in said:
        return f"this store of {where} is closed; open a new one."
    if isinstance(error, psycopg.OperationalError) and _is_gone(error, said):
        return GONE.format(where)
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return (
            f"{where} does not answer; is it running, and are host and port right? "
            "LEASELAB_POSTGRES_URL names it."
        )
    return f"{where}: PostgreSQL says {said!r}."


def _is_gone(error, said):
    ended = isinstance(
        error, (errors.AdminShutdown, errors.CrashShutdown, errors.IdleSessionTimeout)
    )
    return ended or "closed the connection" in said or "connection lost" in said or "SSL " in said

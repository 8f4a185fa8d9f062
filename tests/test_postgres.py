"""PostgreSQL: the server, its bad days, and what only two connections at once can show."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from leaselab import Lab, Protocol, scenarios
from leaselab.errors import InputError, StoreError

LEASE = 30
pytestmark = pytest.mark.usefixtures("server")  # or all of this is skipped, with the reason


@pytest.fixture
def place(server):
    """The URL of a place that nobody else uses."""
    return server.fresh()


@pytest.fixture
def stores(server, place):
    """Makes stores in one place, each with a connection of its own."""
    with ExitStack() as opened:
        yield lambda protocol=None: opened.enter_context(server.store(place, protocol))


# The words


def test_parameters_are_translated_and_comments_texts_and_casts_are_not():
    from leaselab.postgres.store import in_psycopgs_style

    for sql, translated in {
        "SELECT :now + :lease": "SELECT %(now)s + %(lease)s",
        "SELECT ':now', x::text -- :now": "SELECT ':now', x::text -- :now",
        "SELECT 5 % :n": "SELECT 5 %% %(n)s",
        "SELECT '5%' -- 5%": "SELECT '5%%' -- 5%%",
        "SELECT ?": "SELECT %s",
    }.items():
        assert in_psycopgs_style(sql) == translated


def test_an_unknown_engine_is_refused_with_the_known_ones():
    with pytest.raises(KeyError, match="there is no engine 'oracle'; there are sqlite, postgres"):
        Protocol("oracle")


def test_a_protocol_says_by_what_expression_it_is_made():
    assert repr(Protocol("postgres")) == 'Protocol("postgres")'
    struck_out = Protocol("postgres").without("claim.row_lock")
    assert repr(struck_out) == 'Protocol("postgres").without("claim.row_lock")'
    assert struck_out.engine == "postgres"


# The same verbs, the same traces


@pytest.mark.parametrize("key", list(scenarios))
def test_a_scenario_is_the_same_event_by_event_on_both_engines(key, server):
    file, database = Lab(scenarios[key]).play(), Lab(scenarios[key], server=server).play()
    assert database.trace.lines == file.trace.lines
    for mine, reference in zip(database.events, file.events, strict=True):
        for name in ("t", "actor", "action", "sent", "returned", "before", "tasks", "runs"):
            assert getattr(mine, name) == getattr(reference, name)
        assert (mine.refusals, mine.rows_changed) == (reference.refusals, reference.rows_changed)


def test_a_reopened_store_sees_what_was_committed_and_no_more(stores):
    first, second = stores(), stores()
    first.enqueue("run-1", now=0)
    with pytest.raises(InputError), first.transaction():
        first.claim("A", now=1, lease=LEASE)
        assert second.task(1)["state"] == "pending"
        first.claim("A", now=-1, lease=LEASE)
    assert second.task(1)["generation"] == 0
    with first.transaction():
        claim = first.claim("A", now=1, lease=LEASE)
        assert first.commit_run(claim, "x", revision=0, now=2) == "committed"
        assert second.run("run-1")["value"] is None
    assert (second.task(1)["generation"], second.run("run-1")["value"]) == (1, "x")


def test_runs_come_in_the_order_of_their_creation(stores):
    store = stores()
    for name in ("run-b", "run-a", "run-c", "run-a"):
        store.enqueue(name, now=0)
    assert [run["id"] for run in store.runs()] == ["run-b", "run-a", "run-c"]
    assert [task["id"] for task in store.tasks()] == [1, 2, 3, 4]


def test_two_small_numbers_may_have_a_large_sum(stores):
    store = stores()
    store.enqueue("run-1", now=30_000)
    assert store.claim("A", now=30_000, lease=30_000).lease_until == 60_000
    assert (
        store.renew(store.claim("A", now=2**40, lease=2**40), now=2**40, lease=2**41) == 3 * 2**40
    )


def test_a_number_or_a_text_that_cannot_be_written_ends_in_a_sentence(stores):
    store = stores()
    store.enqueue("run-1", now=0)
    with pytest.raises(InputError, match="cannot be written down"):
        store.claim("A", now=2**62, lease=2**62)
    with pytest.raises(InputError, match="cannot be written down"):
        store.claim("A\0", now=1, lease=LEASE)
    assert store.claim("Robert'); DROP TABLE tasks;-- %s :now", now=1, lease=LEASE).generation == 1


def test_a_transaction_in_which_a_statement_failed_is_not_committed_in_silence(stores):
    store = stores()
    with pytest.raises(StoreError, match="a statement had failed; nothing was changed"):
        with store.transaction():
            store.enqueue("run-1", now=0)
            with pytest.raises(StoreError):
                store.fetch("SELECT nothing")
    assert store.tasks() == []


def test_several_stores_may_make_the_tables_at_the_same_time(server):
    for _ in range(5):
        place = server.fresh()
        with ThreadPoolExecutor(4) as pool:
            for store in pool.map(lambda _: server.store(place), range(4)):
                store.close()


def test_the_servers_clock_counts_milliseconds_and_goes_on_within_a_transaction(stores):
    store = stores()
    with store.transaction():
        before, began = store.clock(), store.fetch("SELECT now()")[0][0]
        time.sleep(0.02)
        assert store.clock() >= before + 20
        assert store.fetch("SELECT now()")[0][0] == began
    assert abs(before - time.time() * 1000) < 60_000


# What only two connections at once can show


def while_the_first_is_not_committed(server, stores, protocol):
    """A claims in a transaction that stays open; B claims; A commits. Returns what each was given."""
    a, b = stores(protocol), stores(protocol)
    with a.transaction():
        first = a.claim("A", now=1, lease=LEASE)
        second = server.meanwhile(b.claim, "B", now=1, lease=LEASE)
    return first, second.result()


def test_the_files_claim_word_for_word_gives_one_task_to_two_workers(server, stores):
    """The waiting UPDATE asks again only about the row it waited for, and that has its id still."""
    stores().enqueue("run-1", now=0)
    words = Protocol("postgres").with_statement("claim", Protocol()["claim"])
    first, second = while_the_first_is_not_committed(server, stores, words)
    assert (first.task_id, first.generation) == (1, 1)
    assert (second.task_id, second.generation) == (1, 2)


@pytest.mark.parametrize("words", ["FOR UPDATE SKIP LOCKED", "FOR UPDATE"])
def test_with_either_lock_the_second_is_given_nothing_or_the_next(words, server, stores):
    store = stores()
    store.enqueue("run-1", now=0)
    claim = Protocol("postgres")["claim"].replace("FOR UPDATE SKIP LOCKED", words)
    protocol = Protocol("postgres").with_statement("claim", claim)
    first, second = while_the_first_is_not_committed(server, stores, protocol)
    assert (first.generation, second) == (1, None)
    store.enqueue("run-2", now=0)
    store.enqueue("run-3", now=0)
    first, second = while_the_first_is_not_committed(server, stores, protocol)
    assert (first.task_id, second.task_id) == (2, 3)


def test_without_the_row_lock_a_claim_is_given_out_twice(server, stores):
    stores().enqueue("run-1", now=0)
    protocol = Protocol("postgres").without("claim.row_lock")
    first, second = while_the_first_is_not_committed(server, stores, protocol)
    assert (first.generation, second.generation) == (1, 2)


def test_two_claims_at_once_run_two_tasks_of_a_run_unless_the_index_refuses(server, stores):
    store = stores()
    for run_id in ("run-1", "run-1", "run-2"):
        store.enqueue(run_id, now=0)
    first, second = while_the_first_is_not_committed(server, stores, None)
    assert (first.task_id, second.task_id) == (1, 3)


def test_without_the_index_not_exists_does_not_see_the_other_claim(server, stores):
    protocol = Protocol("postgres").without("schema.one_per_run")
    store = stores(protocol)
    for _ in range(2):
        store.enqueue("run-1", now=0)
    first, second = while_the_first_is_not_committed(server, stores, protocol)
    assert (first.task_id, second.task_id) == (1, 2)
    assert [task["state"] for task in store.tasks()] == ["running", "running"]


def test_a_claim_that_the_index_refuses_leaves_its_transaction_alive(stores):
    store = stores(Protocol("postgres").without("claim.one_per_run"))
    for _ in range(2):
        store.enqueue("run-1", now=0)
    with store.transaction():
        assert store.claim("A", now=1, lease=LEASE).task_id == 1
        assert store.claim("B", now=1, lease=LEASE) is None
        store.enqueue("run-2", now=0)
    assert [task["state"] for task in store.tasks()] == ["running", "pending", "pending"]


def test_a_claim_does_not_pass_over_an_ended_lease_of_its_run(stores):
    """The index knows no time, so what has ended is taken over before its run goes on."""
    store = stores()
    store.enqueue("run-1", now=0, available_at=5)
    store.claim("A", now=5, lease=LEASE)
    store.enqueue("run-1", now=6, available_at=0)  # comes first in the order of claims
    assert store.claim("B", now=34, lease=LEASE) is None
    assert store.claim("B", now=35, lease=LEASE) == (1, "run-1", "B", 2, 65)


def late_write(server, stores, protocol):
    """A writes under a live lease and has to wait for the run's row; meanwhile B's time has come.

    Returns what B was given, and what came back to A.
    """
    a, b, other = (stores(protocol) for _ in range(3))
    other.enqueue("run-1", now=0)
    claim = a.claim("A", now=1, lease=LEASE)
    with other.transaction():
        other.fetch("SELECT 1 FROM runs FOR UPDATE")
        written = server.meanwhile(a.commit_run, claim, "A's", revision=0, now=30)
        assert written.waited
        taken = b.claim("B", now=31, lease=LEASE)
    return taken, written.result()


def test_between_the_look_at_the_lease_and_the_write_there_is_no_takeover(server, stores):
    assert late_write(server, stores, None) == (None, "committed")


def test_without_its_row_lock_a_write_lands_after_the_takeover(server, stores):
    taken, written = late_write(server, stores, Protocol("postgres").without("commit_run.row_lock"))
    assert (taken.generation, written) == (2, "committed")


@pytest.mark.parametrize("tasks_of_a_run", [1, 3])
def test_four_connections_claim_each_task_once_and_one_of_each_run(tasks_of_a_run, stores):
    store = stores()
    for number in range(60):
        for _ in range(tasks_of_a_run):
            store.enqueue(f"run-{number}", now=0)
    claims, barrier = [], threading.Barrier(4)

    def worker(name):
        mine = stores()
        barrier.wait()
        while claim := mine.claim(name, now=1, lease=LEASE):
            claims.append(claim)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(worker, "ABCD"))
    assert len({claim.task_id for claim in claims}) == len(claims) == 60
    assert {claim.generation for claim in claims} == {1}
    assert len({claim.run_id for claim in claims}) == 60


# Bad days: one sentence each


def code_in_a_process(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_without_the_extra_there_is_a_sentence_and_the_rest_works():
    run = code_in_a_process(
        "import sys; sys.modules['psycopg'] = None\n"
        "import leaselab; leaselab.Lab(leaselab.scenarios['stale_commit']).play()\n"
        "try:\n    import leaselab.postgres\n"
        "except leaselab.errors.StoreError as error:\n    print(error)"
    )
    assert run.stdout == (
        "PostgreSQL needs two more packages: pip install 'leaselab[postgres]', then restart the "
        "kernel. All other lessons work without them.\n"
    ), run.stderr


def test_without_a_servers_programs_there_is_a_sentence():
    run = code_in_a_process(
        "from leaselab.postgres import watcher\n"
        "watcher.importlib.util.find_spec = lambda name: None\n"
        "watcher.main()",
        PATH="/nowhere",
    )
    assert "its programs were not found; pip install 'leaselab[postgres]', or name" in run.stdout


@pytest.mark.parametrize("url", ["http://example.org", "nonsense", "postgresql://[", 7])
def test_what_is_no_url_is_named(url):
    from leaselab.postgres import PostgresServer

    with pytest.raises(InputError, match="a server's URL looks like postgresql://user:password@"):
        PostgresServer(url)


def test_a_sentence_does_not_tell_the_password():
    from leaselab.postgres import PostgresServer

    with pytest.raises(InputError) as caught:
        PostgresServer("postgres:/me:secret@host")
    assert "secret" not in str(caught.value)


def test_a_server_that_does_not_answer_is_named():
    from leaselab.postgres import PostgresServer

    with pytest.raises(StoreError, match="the server at 127.0.0.1:1 does not answer; is it runn"):
        PostgresServer("postgresql://me:secret@127.0.0.1:1/postgres")


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"password": "wrong"}, "refuses this user or password; correct it in the URL"),
        ({"user": "nobody-here"}, "refuses this user or password"),
        ({"dbname": "nowhere"}, "has no such database; correct its name in the URL, or create it"),
    ],
)
def test_a_wrong_password_user_or_database_is_named(change, sentence, server):
    from psycopg import conninfo

    from leaselab.postgres import PostgresServer

    with pytest.raises(StoreError, match=sentence) as caught:
        PostgresServer(conninfo.make_conninfo(server.url, **change))
    assert "wrong" not in str(caught.value)


def test_a_server_that_is_too_old_is_named(server, place, monkeypatch):
    monkeypatch.setattr("leaselab.postgres.store.OLDEST_POSTGRES", 99)
    with pytest.raises(StoreError, match=r"is PostgreSQL \d+, which is too old: leaselab needs 99"):
        server.store(place)


def test_a_schema_with_somebody_elses_tables_is_refused_and_kept(server, place):
    with server.connect(place) as other:
        other.execute("CREATE TABLE tasks (title TEXT)")
        with pytest.raises(StoreError, match="holds the tables of another program; nothing was ch"):
            server.store(place)
        tables = other.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        )
        assert tables.fetchall() == [("tasks",)]


def test_a_closed_store_says_so(server):
    store = server.store()
    store.close()
    store.close()
    for verb in (store.tasks, lambda: store.claim("A", now=1, lease=LEASE)):
        with pytest.raises(StoreError, match="is closed; open a new one"):
            verb()


def test_a_row_that_another_connection_has_locked_is_named(server, place):
    with server.store(place, busy_timeout=100) as store, server.store(place) as other:
        store.enqueue("run-1", now=0)
        claim = store.claim("A", now=1, lease=LEASE)
        with other.transaction():
            other.fetch("SELECT 1 FROM tasks FOR UPDATE")
            with pytest.raises(StoreError, match="is locked by another connection for 0.1 seconds"):
                store.finish(claim, now=2)
        assert store.finish(claim, now=2) is True


def test_a_connection_that_is_ended_says_that_the_outcome_is_not_known(server, stores):
    store, other = stores(), stores()
    store.enqueue("run-1", now=0)
    with pytest.raises(
        StoreError, match="gone; whether the last statement took effect is not known"
    ):
        with store.transaction():
            store.claim("A", now=1, lease=LEASE)
            server.cut_off(store)
            store.tasks()
    with pytest.raises(StoreError, match="is closed; open a new one"):
        store.tasks()
    assert other.task(1)["state"] == "pending"


def test_an_answer_that_is_lost_leaves_the_change_and_no_word_of_it(server, stores):
    store, other = stores(), stores()
    store.enqueue("run-1", now=0)
    claim = store.claim("A", now=1, lease=LEASE)
    server.cut_off(store, at_commit=True)
    with pytest.raises(StoreError, match="whether the last statement took effect is not known"):
        with store.transaction():
            store.finish(claim, now=2)
    assert other.task(1)["state"] == "done"
    assert other.finish(claim, now=3) is False  # asked again, it is refused


def test_a_server_that_is_stopped_in_mid_lesson_says_so():
    from leaselab.postgres import PostgresServer

    with PostgresServer() as server:
        lab = Lab(server=server)
        lab.enqueue()
        server.close()
        with pytest.raises(StoreError, match="is gone; whether the last statement took effect"):
            lab.claim("A")
        with pytest.raises(StoreError, match="this server is closed; start a new one"):
            lab.restart()


def test_a_servers_own_connection_that_is_ended_is_named_and_nothing_is_left(server):
    from leaselab.postgres import PostgresServer

    own = PostgresServer(server.url)
    store = own.store()
    schemas = list(own._schemas)
    server.cut_off(SimpleNamespace(pid=own._connection.info.backend_pid))
    for call in (own.fresh, lambda: own.cut_off(store), lambda: own.waits(store)):
        with pytest.raises(StoreError, match="the server at .* is (gone|closed)"):
            call()
    own.close()
    with server.connect() as connection:
        left = connection.execute("SELECT nspname FROM pg_namespace").fetchall()
    assert schemas and not {schema for (schema,) in left} & {*schemas}


# Nothing is left behind


def traces_of(url):
    """The server's process and its folder."""
    port = url.rsplit(":", 1)[1].split("/")[0]
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if f"port={port}" in words:
            return process, Path(words[words.index("-D") + 1]).parent
    raise AssertionError("there is no such server")


def is_gone(process, folder, patience=30):
    deadline = time.monotonic() + patience
    while process.is_running() or folder.exists():
        assert time.monotonic() < deadline, (process, folder)
        time.sleep(0.05)
    return True


started_here = pytest.mark.skipif(
    "LEASELAB_POSTGRES_URL" in os.environ, reason="the server is one of the reader's own"
)


@started_here
def test_a_server_that_is_closed_leaves_no_process_and_no_folder():
    from leaselab.postgres import PostgresServer

    with pytest.raises(KeyError), PostgresServer() as server:
        process, folder = traces_of(server.url)
        assert process.is_running() and folder.exists()
        raise KeyError
    server.close()
    assert is_gone(process, folder, patience=0)


@started_here
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_server_whose_notebook_is_killed_leaves_no_process_and_no_folder():
    code = (
        "from leaselab.postgres import PostgresServer\n"
        "server = PostgresServer(); print(server.url, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as notebook:
        process, folder = traces_of(notebook.stdout.readline().strip())
        notebook.kill()
    assert is_gone(process, folder)


@started_here
@pytest.mark.skipif(os.name == "nt", reason="an interrupt goes to one process there")
def test_what_interrupts_a_cell_does_not_stop_the_server():
    code = (
        "from leaselab.postgres import PostgresServer\n"
        "with PostgresServer() as server:\n"
        "    try:\n        print('ready', flush=True); input()\n"
        "    except KeyboardInterrupt:\n"
        "        print(server.store().enqueue('run-1', now=0), flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as notebook:
        assert notebook.stdout.readline() == "ready\n"
        os.killpg(notebook.pid, signal.SIGINT)
        assert notebook.stdout.read() == "1\n"


def test_on_a_server_of_ones_own_no_schema_is_left_even_if_a_store_is_still_open(server):
    from leaselab.postgres import PostgresServer

    with PostgresServer(server.url) as own:
        schemas = list(own._schemas)
        store = own.store()
        store.enqueue("run-1", now=0)
        schemas += own._schemas
        store.fetch("BEGIN")
        store.claim("A", now=1, lease=LEASE)
    with server.connect() as connection:
        left = connection.execute("SELECT nspname FROM pg_namespace").fetchall()
    assert schemas and not {schema for (schema,) in left} & {*schemas}


def test_the_environment_variable_names_the_server(server, monkeypatch):
    from leaselab.postgres import PostgresServer

    monkeypatch.setenv("LEASELAB_POSTGRES_URL", server.url)
    with PostgresServer() as own:
        assert own.url == server.url and own._watcher is None


@started_here
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root becomes somebody else")
def test_as_root_programs_that_nobody_else_may_reach_are_copied(tmp_path, monkeypatch):
    from leaselab.postgres import watcher

    monkeypatch.setattr(watcher, "open_to_others", lambda path: path == Path("/tmp"))
    running = watcher.Running()
    try:
        assert running.start().startswith("postgresql://")
        assert running.folder in running.programs.parents
    finally:
        running.stop()
    assert not running.folder.exists()

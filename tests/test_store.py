"""The store on real files: what a crash leaves, what a reopened store sees, what is refused."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import tempfile
import threading
from pathlib import Path

import pytest

from leaselab import Protocol, Store
from leaselab.errors import InputError, StoreError

LEASE = 30


def test_a_reopened_store_sees_what_was_committed(path):
    with Store(path) as store:
        store.enqueue("run-1", now=0)
        store.claim("A", now=1, lease=LEASE)
        before = store.tasks()
    with Store(path) as store:
        assert store.tasks() == before


def crash_within_a_transaction(path, ready):
    store = Store(path)
    with store.transaction():
        store._run("enqueue.run", run_id="run-2")
        store._run("enqueue", run_id="run-2", available_at=0, now=0)
        ready.set()
        signal.pause()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_reopened_store_does_not_see_what_a_killed_process_had_not_committed(store, path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=crash_within_a_transaction, args=(path, ready))
    process.start()
    assert ready.wait(30)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with Store(path) as reopened:
        assert [task["run_id"] for task in reopened.tasks()] == ["run-1"]
        assert reopened.enqueue("run-3", now=1) == 2  # and the lock is gone with the process


def test_a_verb_that_fails_halfway_leaves_nothing_behind(store):
    store.protocol._statements["enqueue"] = "INSERT INTO nothing VALUES (1)"
    with pytest.raises(StoreError):
        store.enqueue("run-2", now=0)
    assert [run["id"] for run in store.runs()] == ["run-1"]


def test_close_gives_the_file_back(path):
    store = Store(path)
    store.enqueue("run-1", now=0)
    store.close()
    store.close()
    assert sorted(file.name for file in path.parent.iterdir()) == ["lab.sqlite"]
    path.unlink()
    with pytest.raises(StoreError, match="closed"):
        store.tasks()


def test_the_file_can_be_read_with_plain_sqlite(store, path):
    store.claim("A", now=1, lease=LEASE)
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT state, generation, lease_until FROM tasks").fetchall()
    connection.close()
    assert rows == [("running", 1, 31)]


def test_in_memory_the_store_gives_the_same(store):
    with Store(":memory:") as memory:
        memory.enqueue("run-1", now=0)
        for each in (store, memory):
            each.claim("A", now=1, lease=LEASE)
        assert memory.tasks() == store.tasks()


def test_two_connections_never_claim_the_same_task(path):
    """Four threads with a connection each claim 200 tasks; each task is claimed once."""
    with Store(path) as store:
        for number in range(200):
            store.enqueue(f"run-{number}", now=0)
    claims = []

    def worker(name):
        with Store(path) as mine:
            while claim := mine.claim(name, now=1, lease=LEASE):
                claims.append(claim.task_id)

    threads = [threading.Thread(target=worker, args=(name,)) for name in "ABCD"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claims) == list(range(1, 201))


def test_six_stores_may_create_the_file_at_the_same_time(tmp_path):
    """Again and again: SQLite answers "locked" at once while another one switches the journal."""
    errors = []

    def opens(path, barrier):
        barrier.wait()
        try:
            Store(path).close()
        except Exception as error:
            errors.append(error)

    for number in range(60):
        shared = tmp_path / f"{number}.sqlite", threading.Barrier(6)
        threads = [threading.Thread(target=opens, args=shared) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_durability_that_does_not_exist_is_refused_and_those_that_do_are_set(path):
    for name, number in {"OFF": 0, "NORMAL": 1, "FULL": 2}.items():
        with Store(path, synchronous=name) as store:
            assert store.fetch("PRAGMA synchronous")[0][0] == number
    with pytest.raises(InputError, match="synchronous is one of OFF, NORMAL, FULL, not 'full'"):
        Store(path, synchronous="full")


def test_a_transaction_of_several_verbs_is_one_change(path):
    with Store(path) as store, Store(path) as other:
        with store.transaction():
            store.enqueue("run-1", now=0)
            claim = store.claim("A", now=1, lease=30)
            assert store.commit_run(claim, "x", revision=0, now=2) == "committed"
            assert other.tasks() == []
        assert other.task(1)["generation"] == 1 and other.run("run-1")["value"] == "x"
        with pytest.raises(InputError), store.transaction():
            store.finish(claim, now=3)
            store.finish(claim, "perhaps", now=3)
        assert other.task(1)["state"] == "running"
        assert (other.task(2), other.run("run-2")) == (None, None)


# What a claim costs, counted in steps of SQLite's virtual machine: no clock, no noise.


def fill(store, finished=0, later=0):
    """Many tasks that are finished, or that wait for their time; then one that may run."""
    connection = store._connection
    connection.execute("INSERT INTO runs (id) VALUES ('other')")
    connection.executemany(
        "INSERT INTO tasks (run_id, state, generation, available_at, created_at)"
        " VALUES ('other', ?, 1, ?, 0)",
        [("done", 0)] * finished + [("pending", 1_000_000)] * later,
    )
    store.enqueue("run-1", now=0)


def steps_of_a_claim(store):
    count = 0

    def step():
        nonlocal count
        count += 1

    store._connection.set_progress_handler(step, 1)
    claim = store.claim("A", now=1, lease=LEASE)
    store._connection.set_progress_handler(None, 0)
    assert claim.run_id == "run-1"
    return count


@pytest.mark.parametrize("kinds", [("finished",), ("later",), ("finished", "later")])
def test_a_claim_costs_the_same_among_ten_tasks_and_among_ten_thousand(kinds):
    costs = []
    for count in (10, 10_000):
        with Store(":memory:") as store:
            fill(store, **{kind: count for kind in kinds})
            costs.append(steps_of_a_claim(store))
    assert costs[0] == costs[1]


def test_without_its_index_a_claim_would_cost_more(store):
    """The count above can go red: it grows as soon as the index is gone."""
    with Store(":memory:") as store:
        fill(store, finished=1000)
        store._connection.execute("DROP INDEX claimable")
        assert steps_of_a_claim(store) > 1000


def test_a_claim_and_a_lookup_of_active_tasks_use_their_partial_indexes(store):
    sent = {"owner": "A", "now": 1, "lease": LEASE}
    plan = store.fetch("EXPLAIN QUERY PLAN " + Protocol()["claim"], sent)
    plan = "\n".join(row["detail"] for row in plan)
    assert "USING INDEX claimable" in plan or "USING COVERING INDEX claimable" in plan
    assert "INDEX active" in plan
    assert "TEMP B-TREE" not in plan


# Bad input: one plain sentence, and nothing is lost


@pytest.mark.parametrize("lease", [0, -1, float("nan"), True, "30", None, 1.5])
def test_a_lease_that_is_no_positive_whole_number_is_refused(store, lease):
    before = store.tasks()
    with pytest.raises(InputError, match="lease must be a whole number of at least 1, not"):
        store.claim("A", now=1, lease=lease)
    assert store.tasks() == before


@pytest.mark.parametrize("now", [-1, True, "1", None, float("inf")])
def test_a_time_that_is_no_whole_number_is_refused(store, now):
    with pytest.raises(InputError, match="now must be a whole number of at least 0, not"):
        store.claim("A", now=now, lease=LEASE)


@pytest.mark.parametrize("owner", ["", None, 7])
def test_an_owner_without_a_name_is_refused(store, owner):
    with pytest.raises(InputError, match="an owner must be a text that is not empty, not"):
        store.claim(owner, now=1, lease=LEASE)


@pytest.mark.parametrize("owner", ["<script>", "Robert'); DROP TABLE tasks;--", "工人甲"])
def test_any_other_name_is_a_name(store, owner):
    assert store.claim(owner, now=1, lease=LEASE).owner == owner
    assert store.tasks()[0]["lease_owner"] == owner


def test_an_unknown_outcome_is_refused_with_the_known_ones(store):
    claim = store.claim("A", now=1, lease=LEASE)
    with pytest.raises(InputError, match="outcome must be 'done' or 'uncertain', not 'failed'"):
        store.finish(claim, "failed", now=2)


def test_something_that_is_no_claim_is_refused(store):
    with pytest.raises(InputError, match="a claim must be what claim\\(\\) returned, not 1"):
        store.finish(1, now=2)


@pytest.mark.parametrize("generation", ["1", 1.0, True, None, -1])
def test_a_generation_that_is_no_whole_number_is_refused(store, generation):
    claim = store.claim("A", now=1, lease=LEASE)._replace(generation=generation)
    with pytest.raises(InputError, match="generation must be a whole number"):
        store.finish(claim, now=2)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="is a folder; give the path of a file"):
        Store(tmp_path)


def test_a_path_in_no_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="cannot be opened; does its folder exist"):
        Store(tmp_path / "nowhere" / "lab.sqlite")


def test_a_file_that_is_no_database_is_refused_and_kept(path):
    path.write_text("a shopping list\n" * 100)
    with pytest.raises(StoreError, match="is no SQLite file; nothing was changed"):
        Store(path)
    assert path.read_text() == "a shopping list\n" * 100


def test_somebody_elses_database_is_refused_and_kept(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE tasks (title TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="holds the tables of another program"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_file_that_may_not_be_written_is_refused_and_kept():
    """In a child without root's rights, which would not mind."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    path = folder / "lab.sqlite"
    Store(path).close()
    path.chmod(0o444)
    folder.chmod(0o555)
    before = path.read_bytes()
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            if os.geteuid() == 0:
                os.seteuid(65534)
            with Store(path) as store:
                store.enqueue("run-1", now=0)
            said = "nothing"
        except StoreError as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.wait()
    said = os.read(read, 1000).decode()
    assert f"{path} is read-only; nothing was changed. Allow writing, or give another" in said
    assert path.read_bytes() == before
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_full_disk_is_named_and_nothing_is_changed(store):
    pages = store.fetch("PRAGMA page_count")[0][0]
    store.fetch(f"PRAGMA max_page_count = {pages}")  # SQLite's own error for a full disk
    with pytest.raises(StoreError, match="the disk of .* is full; nothing was changed. Free some"):
        for number in range(1000):
            store.enqueue(f"run-{number}", now=0)
            before = store.tasks(), store.runs()
    assert (store.tasks(), store.runs()) == before


def test_a_file_that_another_program_has_locked_is_named_after_five_seconds(store, path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="is locked by another program for 5 seconds now"):
        store.claim("A", now=1, lease=LEASE)
    other.close()
    assert store.claim("A", now=1, lease=LEASE).generation == 1


def test_a_sqlite_that_is_too_old_is_named_with_the_way_out(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(
        StoreError, match="is too old: leaselab needs 3.37 or newer; a newer Python"
    ):
        Store(path)
    assert not path.exists()


def test_a_sentence_is_all_that_a_notebook_shows(tmp_path):
    with pytest.raises(StoreError) as caught:
        Store(tmp_path)
    shown = caught.value._render_traceback_()
    assert shown == [f"StoreError: {tmp_path} is a folder; give the path of a file in it."]

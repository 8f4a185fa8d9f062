"""Each statement, each guard, each boundary: what is accepted, and what must not be.

GUARDS holds a scene for each guard. With the full protocol the scene is refused; with just that
guard struck out it is accepted. So a guard that nothing misses makes a test fail, and so does a
guard that has no scene. All of it is tried on both engines.
"""

import pytest

from leaselab import Protocol, Store
from leaselab.errors import StoreError
from leaselab.store import Claim

LEASE = 30


class PostgresProtocol(Protocol):
    """The protocol in PostgreSQL's words, without saying so each time."""

    def __init__(self):
        super().__init__("postgres")


@pytest.fixture(autouse=True)
def engine(either_server, monkeypatch):
    """``Store`` and ``Protocol`` mean the one engine, and then the other."""
    if either_server is not None:
        places = {}

        def store(path, protocol=None):
            place = places.setdefault(path, either_server.fresh()) if path != ":memory:" else None
            return either_server.store(place, protocol)

        monkeypatch.setitem(globals(), "Store", store)
        monkeypatch.setitem(globals(), "Protocol", PostgresProtocol)


@pytest.fixture
def store(engine, path):
    """A store with one task that may be claimed from t=0 on."""
    with Store(path) as store:
        store.enqueue("run-1", now=0)
        yield store


def running(store, owner="A", now=1):
    """A task claimed at t=1: the lease is [1, 31)."""
    if not store.tasks():
        store.enqueue("run-1", now=0)
    return store.claim(owner, now=now, lease=LEASE)


def taken_over(store, by="B"):
    """Generation 1 of A, taken over at t=31; returns the stale claim."""
    stale = running(store)
    assert store.claim(by, now=31, lease=LEASE).generation == 2
    return stale


def exhausted(store, claims=4):
    """A task claimed once too often; returns the last claim, made at t=91."""
    return [running(store, now=1 + 30 * number) for number in range(claims)][-1]


def fake(**fields):
    """What a worker might send without ever having been given it."""
    return Claim(1, "run-1", "A", 1, 31)._replace(**fields)


SCENES = {}


def scene(guard, *covered_by):
    """A schedule that this guard refuses; it returns what came back.

    The guards of ``covered_by`` refuse it, too, and are struck out first.
    """
    return lambda schedule: SCENES.setdefault(guard, (schedule, covered_by))


@scene("claim.final")
def claim_final(store):
    store.finish(running(store), now=2)
    return store.claim("B", now=3, lease=LEASE)


@scene("claim.available")
def claim_available(store):
    store.enqueue("run-1", now=0, available_at=5)
    return store.claim("A", now=4, lease=LEASE)


@scene("claim.expiry")
def claim_expiry(store):
    running(store)
    return store.claim("B", now=30, lease=LEASE)


def second_of_the_run(store):
    store.enqueue("run-1", now=0)
    store.enqueue("run-1", now=0)
    running(store)
    return store.claim("B", now=2, lease=LEASE)


scene("claim.one_per_run", "schema.one_per_run")(second_of_the_run)
scene("schema.one_per_run", "claim.one_per_run")(second_of_the_run)


@scene("renew.owner")
def renew_owner(store):
    running(store)
    return store.renew(fake(owner="B"), now=2, lease=LEASE)


@scene("renew.generation")
def renew_generation(store):
    return store.renew(taken_over(store, by="A"), now=32, lease=LEASE)


@scene("renew.running", "renew.owner", "renew.expiry")
def renew_running(store):
    claim = running(store)
    store.finish(claim, now=2)
    store.renew(claim, now=3, lease=LEASE)
    return store.ran[0].rows_changed > 0  # there is no end to move, but the row would be touched


@scene("renew.expiry")
def renew_expiry(store):
    return store.renew(running(store), now=31, lease=LEASE)


@scene("finish.generation")
def finish_generation(store):
    return store.finish(taken_over(store), now=32)


@scene("finish.running", "finish.expiry")
def finish_running(store):
    claim = running(store)
    store.finish(claim, "uncertain", now=2)
    return store.finish(claim, "done", now=3)


@scene("finish.expiry")
def finish_expiry(store):
    return store.finish(running(store), now=31)


@scene("ack.owner")
def ack_owner(store):
    running(store)
    return store.ack(fake(owner="B"))


@scene("ack.generation")
def ack_generation(store):
    return store.ack(taken_over(store, by="A"))


@scene("release.owner")
def release_owner(store):
    running(store)
    return store.release(fake(owner="B"), available_at=2)


@scene("release.generation")
def release_generation(store):
    return store.release(taken_over(store, by="A"), available_at=32)


@scene("commit_run.revision")
def commit_run_revision(store):
    claim = running(store)
    store.commit_run(claim, "first", revision=0, now=2)
    return store.commit_run(claim, "second", revision=0, now=3) == "committed"


@scene("commit_run.owner")
def commit_run_owner(store):
    running(store)
    return store.commit_run(fake(owner="B"), "x", revision=0, now=2) == "committed"


@scene("commit_run.generation")
def commit_run_generation(store):
    stale = taken_over(store, by="A")
    return store.commit_run(stale, "x", revision=0, now=32) == "committed"


@scene("commit_run.running", "commit_run.owner", "commit_run.expiry")
def commit_run_running(store):
    claim = running(store)
    store.finish(claim, now=2)
    return store.commit_run(claim, "x", revision=0, now=3) == "committed"


@scene("commit_run.expiry")
def commit_run_expiry(store):
    return store.commit_run(running(store), "x", revision=0, now=31) == "committed"


@scene("exhaust.owner")
def exhaust_owner(store):
    return store.exhaust(exhausted(store)._replace(owner="B"), now=92)


@scene("exhaust.generation")
def exhaust_generation(store):
    return store.exhaust(exhausted(store)._replace(generation=3), now=92)


@scene("exhaust.running", "exhaust.owner", "exhaust.expiry")
def exhaust_running(store):
    claim = exhausted(store)
    store.finish(claim, now=92)
    return store.exhaust(claim, now=93)


@scene("exhaust.expiry")
def exhaust_expiry(store):
    return store.exhaust(exhausted(store), now=121)


@scene("exhaust.attempt_limit")
def exhaust_attempt_limit(store):
    return store.exhaust(exhausted(store, claims=3), now=62)


@scene("exhaust.active_run")
def exhaust_active_run(store):
    store.enqueue("run-1", now=0)
    first = exhausted(store)
    assert store.exhaust(first, now=92)
    store.enqueue("run-1", now=92)
    second = [store.claim("A", now=now, lease=LEASE) for now in (100, 130, 160, 190)][-1]
    return store.exhaust(second, now=191)


# These do not refuse: one permits a takeover, two say where a renewed lease ends, two make others
# wait or pass by, which takes two connections (test_postgres.py).
OTHERS = (
    *("claim.takeover", "renew.from_now", "renew.never_shorter"),
    *("claim.row_lock", "commit_run.row_lock"),
)
ON_POSTGRES = ("schema.one_per_run", "claim.row_lock", "commit_run.row_lock")


HALVES = ("look", "take")


def play(schedule, protocol):
    """What came back, or the table's own CHECK if that is what stopped it."""
    with Store(":memory:", protocol) as store:
        try:
            return schedule(store)
        except StoreError as error:
            assert "CHECK constraint" in str(error)
            return "CHECK"


def scene_of(guard):
    """The schedule, and what covers it on this engine; skipped if the engine has no such guard."""
    guards = Protocol().guards
    if guard not in guards:
        pytest.skip("a guard of the other engine")
    schedule, covered_by = SCENES[guard]
    return schedule, [name for name in covered_by if name in guards]


def test_every_guard_has_a_scene():
    guards = {*Protocol().guards, *ON_POSTGRES}
    assert sorted((*SCENES, *OTHERS)) == sorted(guards)


def test_the_engines_differ_in_four_statements_and_three_guards():
    files, server = PostgresProtocol.__base__(), PostgresProtocol()
    differ = [name for name in files if files[name] != server[name]]
    assert differ == ["claim", "commit_run", "renew", "schema"]
    assert sorted({*server.guards} ^ {*files.guards}) == sorted(ON_POSTGRES)


@pytest.mark.parametrize("guard", SCENES)
def test_a_guard_refuses_its_scene(guard):
    schedule, covered_by = scene_of(guard)
    protocol = Protocol().without(*covered_by) if covered_by else Protocol()
    assert play(schedule, protocol) in (None, False)


@pytest.mark.parametrize("guard", SCENES)
def test_without_its_guard_a_scene_is_not_refused(guard):
    schedule, covered_by = scene_of(guard)
    assert play(schedule, Protocol().without(guard, *covered_by)) not in (None, False)


@pytest.mark.parametrize("guard", SCENES)
def test_the_file_names_the_guard_that_refused(guard, path):
    schedule, covered_by = scene_of(guard)
    if guard.startswith("schema."):
        pytest.skip("an index is no condition that could be asked")
    with Store(path, Protocol().without(*covered_by) if covered_by else None) as store:
        schedule(store)
        sent = {name: value for name, value in store.ran[0].sent.items() if name != "task_id"}
        verb, name = guard.split(".")
        task_id = store.ran[0].sent.get("task_id", 1)
        if guard == "claim.one_per_run":
            task_id = 2
        assert name in store.refusals(verb, task_id, **sent)


def test_without_takeover_a_crashed_workers_task_is_stuck_for_ever():
    for protocol, generation in ((Protocol(), 2), (Protocol().without("claim.takeover"), None)):
        with Store(":memory:", protocol) as store:
            running(store)
            claim = store.claim("B", now=1_000_000, lease=LEASE)
            assert (claim and claim.generation) == generation


def test_a_renewal_never_shortens_a_lease():
    for protocol, end in ((Protocol(), 31), (Protocol().without("renew.never_shorter"), 7)):
        with Store(":memory:", protocol) as store:
            assert store.renew(running(store), now=2, lease=5) == end


def test_a_renewal_counts_from_now_and_not_from_the_old_end():
    for protocol, end in ((Protocol(), 32), (Protocol().without("renew.from_now"), 61)):
        with Store(":memory:", protocol) as store:
            assert store.renew(running(store), now=2, lease=LEASE) == end


# A claim in two steps, as it must not be done


def test_look_and_take_are_letter_by_letter_the_two_halves_of_the_claim():
    for protocol in (Protocol(), Protocol().without("claim.expiry", "claim.one_per_run")):
        choice, write = ([*map(str.strip, protocol[name].splitlines()[1:])] for name in HALVES)
        claim = [*map(str.strip, protocol["claim"].splitlines()[1:])]
        before = write.index("WHERE id = :task_id")
        assert claim == [*write[:before], "WHERE id = (", *choice, ")", *write[before + 1 :]]


def test_look_writes_nothing_and_take_asks_nothing(store):
    before = store.tasks()
    assert store.look(now=0) == 1
    assert store.tasks() == before
    assert store.take("A", 1, now=1, lease=LEASE) == Claim(1, "run-1", "A", 1, 31)
    assert store.take("B", 1, now=2, lease=LEASE) == Claim(1, "run-1", "B", 2, 32)
    assert store.look(now=31) is None
    assert store.look(now=32) == 1
    assert store.take("A", 7, now=3, lease=LEASE) is None


# The boundary of the half-open lease [1, 31)


@pytest.mark.parametrize("now, live", [(30, True), (31, False), (32, False)])
def test_a_lease_is_held_up_to_its_end_and_not_at_it(now, live):
    for verb, accepted in {
        "claim": lambda store, claim: store.claim("B", now=now, lease=LEASE) is None,
        "renew": lambda store, claim: store.renew(claim, now=now, lease=LEASE) == now + LEASE,
        "finish": lambda store, claim: store.finish(claim, now=now),
        "commit_run": lambda store, claim: (
            store.commit_run(claim, "x", revision=0, now=now) == "committed"
        ),
    }.items():
        with Store(":memory:") as store:
            assert accepted(store, running(store)) == live, verb


@pytest.mark.parametrize("now, live", [(120, True), (121, False), (122, False)])
def test_an_exhausted_claim_counts_only_while_its_lease_is_live(now, live):
    with Store(":memory:") as store:
        assert store.exhaust(exhausted(store), now=now) == live


@pytest.mark.parametrize("now, accepted", [(4, False), (5, True), (6, True)])
def test_a_task_is_claimed_from_available_at_on(now, accepted):
    with Store(":memory:") as store:
        store.enqueue("run-1", now=0, available_at=5)
        assert (store.claim("A", now=now, lease=LEASE) is not None) == accepted


# What each statement changes, and what it gives back


def test_enqueue_writes_a_pending_task_of_generation_0_and_gives_back_its_id(path):
    with Store(path) as store:
        assert store.enqueue("run-1", now=3) == 1
        assert store.enqueue("run-1", now=4, available_at=9) == 2
        first, second = store.tasks()
        assert (first["state"], first["generation"], first["available_at"]) == ("pending", 0, 3)
        assert (second["available_at"], second["created_at"]) == (9, 4)
        assert store.runs() == [
            {"id": "run-1", "state": "active", "revision": 0, "value": None, "failure": None}
        ]


def test_claim_changes_state_owner_generation_and_lease_together(store):
    assert store.claim("A", now=1, lease=LEASE) == Claim(1, "run-1", "A", 1, 31)
    row = store.tasks()[0]
    assert (row["state"], row["lease_owner"]) == ("running", "A")
    assert (row["generation"], row["lease_until"]) == (1, 31)
    assert store.ran[0].rows_changed == 1


def test_claim_takes_tasks_by_available_at_then_created_at_then_id(path):
    with Store(path) as store:
        for number, (available_at, now) in enumerate([(5, 1), (4, 2), (4, 1), (4, 1)]):
            store.enqueue(f"run-{number}", now=now, available_at=available_at)
        order = [store.claim("A", now=9, lease=LEASE).task_id for _ in range(4)]
    assert order == [3, 4, 2, 1]


def test_a_task_of_another_run_may_be_claimed_while_one_is_running(store):
    running(store)
    store.enqueue("run-2", now=0)
    assert store.claim("B", now=2, lease=LEASE).run_id == "run-2"


def test_another_task_of_the_run_may_be_claimed_once_the_lease_has_ended(store):
    running(store)
    store.enqueue("run-1", now=0, available_at=31)
    assert store.claim("B", now=31, lease=LEASE).task_id == 1
    assert store.claim("C", now=31, lease=LEASE) is None


def test_a_claim_of_nothing_changes_nothing(path):
    with Store(path) as store:
        assert store.claim("A", now=1, lease=LEASE) is None
        assert store.ran[0].rows_changed == 0


@pytest.mark.parametrize("outcome", ["done", "uncertain"])
def test_finish_clears_the_lease_and_keeps_the_generation(store, outcome):
    assert store.finish(running(store), outcome, now=8) is True
    row = store.tasks()[0]
    assert (row["state"], row["generation"]) == (outcome, 1)
    assert (row["lease_owner"], row["lease_until"]) == (None, None)


def test_a_refused_finish_leaves_the_row_as_it_was(store):
    stale = taken_over(store)
    before = store.tasks()
    assert store.finish(stale, now=32) is False
    assert store.ran[0].rows_changed == 0
    assert store.tasks() == before


@pytest.mark.parametrize("final", ["done", "uncertain", "failed"])
def test_a_final_task_is_never_claimed_again(path, final):
    with Store(path) as store:
        if final == "failed":
            store.exhaust(exhausted(store), now=92)
        else:
            store.finish(running(store), final, now=2)
        assert store.tasks()[0]["state"] == final
        assert store.claim("B", now=1_000_000, lease=LEASE) is None


def test_ack_may_come_after_the_lease_has_ended(store):
    assert store.ack(running(store)) is True
    with Store(":memory:") as other:
        claim = running(other)
        assert other.ack(claim) is True
        assert other.ack(claim) is False


def test_release_makes_the_task_pending_at_a_given_time_and_keeps_the_generation(store):
    assert store.release(running(store), available_at=9) is True
    row = store.tasks()[0]
    assert (row["state"], row["available_at"], row["generation"]) == ("pending", 9, 1)
    assert store.claim("B", now=8, lease=LEASE) is None
    assert store.claim("B", now=9, lease=LEASE).generation == 2


def test_commit_run_writes_the_value_and_counts_the_revision(store):
    claim = running(store)
    assert store.commit_run(claim, "first", revision=0, now=2) == "committed"
    assert store.commit_run(claim, "second", revision=1, now=3) == "committed"
    assert store.runs()[0]["value"] == "second"
    assert store.runs()[0]["revision"] == 2


def test_commit_run_tells_the_two_refusals_apart_and_names_the_lease_first(store):
    claim = running(store)
    assert store.commit_run(claim, "x", revision=7, now=2) == "revision_conflict"
    assert store.commit_run(claim, "x", revision=0, now=31) == "lease_lost"
    assert store.commit_run(claim, "x", revision=7, now=31) == "lease_lost"
    assert store.runs()[0]["value"] is None


def test_the_fourth_claim_fails_the_task_and_says_why_in_the_run(store):
    third = exhausted(store, claims=3)
    assert store.exhaust(third, now=62) is False
    fourth = running(store, now=91)
    assert store.exhaust(fourth, now=92) is True
    assert store.tasks()[0]["state"] == "failed"
    assert store.runs()[0]["state"] == "failed"
    assert store.runs()[0]["failure"] == "task_attempts_exhausted"


def test_an_exhaust_that_is_refused_touches_neither_task_nor_run(store):
    claim = exhausted(store)
    before = store.tasks(), store.runs()
    assert store.exhaust(claim._replace(generation=3), now=92) is False
    assert (store.tasks(), store.runs()) == before


# The texts


def test_what_is_struck_out_is_what_sqlite_runs():
    with store_with_task(Protocol().without("finish.generation")) as store:
        store.finish(running(store), now=2)
        assert store.ran[0].sql == store.protocol["finish"]
    assert "-- struck out: AND generation = :generation" in store.protocol["finish"]


def store_with_task(protocol):
    store = Store(":memory:", protocol)
    store.enqueue("run-1", now=0)
    return store


def test_a_guards_name_alone_is_struck_out_of_every_statement():
    left = Protocol().without("generation").guards
    assert not [guard for guard in left if guard.endswith(".generation")]
    assert "finish.expiry" in left


def test_striking_out_leaves_the_full_protocol_as_it_was():
    protocol = Protocol()
    protocol.without("finish.generation")
    assert "finish.generation" in protocol.guards


@pytest.mark.parametrize("name", ["generations", "finish.owner", "", "finish."])
def test_an_unknown_guard_is_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match="finish.generation.*renew.expiry"):
        Protocol().without(name)


def test_every_statement_begins_with_its_purpose():
    protocol = Protocol()
    for name in protocol:
        verb = name.split(".")[0]
        assert protocol[name].startswith(f"-- {verb}"), name


def test_without_on_the_class_starts_from_the_full_protocol():
    assert Protocol.without("generation").guards == Protocol().without("generation").guards


def test_an_unknown_statement_is_refused_with_the_known_ones():
    with pytest.raises(KeyError, match="commit_run.lease"):
        Protocol()["frobnicate"]

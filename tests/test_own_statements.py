"""A reader's own statement: what is wrong is found, what is right is let through, nothing else runs.

The wrong ones are typical answers, each with the property that it must break. The right ones are
written otherwise than the reference.
"""

import gc
import re
import time

import psutil
import pytest

from leaselab import Protocol
from leaselab.explore import Scope, check, explore, own
from leaselab.explore.matrix import BACKED
from leaselab.explore.properties import PROPERTIES

NAMES = ("claim", "renew", "finish", "commit_run")


def grade(name, sql):
    return getattr(check, name)(sql)


# Claims, put together of what is written and what is chosen.

WRITTEN = {
    "state": "'running'",
    "lease_owner": ":owner",
    "lease_until": ":now + :lease",
    "generation": "generation + 1",
}
PENDING_OR_ENDED = "(c.state = 'pending' OR c.state = 'running' AND c.lease_until <= :now)"
AVAILABLE = "c.available_at <= :now"
ALONE = """NOT EXISTS (
    SELECT 1 FROM tasks AS other
    WHERE other.run_id = c.run_id AND other.id <> c.id AND other.lease_until > :now
)"""
FIRST = "ORDER BY c.available_at, c.created_at, c.id LIMIT 1"
GIVEN = "id, run_id, lease_owner, generation, lease_until"


def chosen(free=PENDING_OR_ENDED, available=AVAILABLE, alone=ALONE, first=FIRST):
    return f"SELECT c.id FROM tasks AS c WHERE {free} AND {available} AND {alone} {first}"


def claim(choice=None, given=GIVEN, among="=", **written):
    written = {**WRITTEN, **written}
    columns = ", ".join(f"{name} = {value}" for name, value in written.items() if value)
    choice = choice or chosen()
    return f"UPDATE tasks SET {columns} WHERE id {among} ({choice}) RETURNING {given}"


def renew(*conditions, until="MAX(lease_until, :now + :lease)", more="", given="lease_until"):
    where = " AND ".join(conditions)
    return f"UPDATE tasks SET lease_until = {until}{more} WHERE {where} RETURNING {given}"


def finish(*conditions, state=":outcome", more=""):
    cleared = "lease_owner = NULL, lease_until = NULL"
    return f"UPDATE tasks SET state = {state}, {cleared}{more} WHERE {' AND '.join(conditions)}"


def commit_run(*lease, run="id = :run_id AND revision = :revision", written=None):
    written = written or "value = :value, revision = revision + 1"
    held = f" AND EXISTS (SELECT 1 FROM tasks WHERE {' AND '.join(lease)})" if lease else ""
    return f"UPDATE runs SET {written} WHERE {run}{held}"


ID, GENERATION, LIVE = "id = :task_id", "generation = :generation", "lease_until > :now"
OWNER, RUN = "lease_owner = :owner", "run_id = :run_id"
TASK = "tasks.id = :task_id"
HELD = (ID, GENERATION, LIVE)
HELD_TASK = (TASK, RUN, GENERATION, LIVE)

WRONG = {
    "claim": {
        "no takeover": (claim(chosen("c.state = 'pending'")), "stuck"),
        "the end itself is held": (
            claim(chosen("(c.state = 'pending' OR c.lease_until < :now)")),
            "passed_over",
        ),
        "one instant too early": (
            claim(chosen("(c.state = 'pending' OR c.lease_until - 1 <= :now)")),
            "one_live_holder",
        ),
        "a live lease is no matter": (
            claim(chosen("c.state IN ('pending', 'running')")),
            "one_live_holder",
        ),
        "what is done is claimed again": (
            claim(chosen("COALESCE(c.lease_until, 0) <= :now")),
            "final",
        ),
        "what has failed is claimed again": (
            claim(chosen("c.state <> 'done' AND COALESCE(c.lease_until, 0) <= :now")),
            "final",
        ),
        "available from any time on": (claim(chosen(available="TRUE")), "too_soon"),
        "available one instant late": (
            claim(chosen(available="c.available_at < :now")),
            "passed_over",
        ),
        "two tasks of one run": (claim(chosen(alone="TRUE")), "one_per_run"),
        "one task for all runs": (
            claim(chosen(alone="NOT EXISTS (SELECT 1 FROM tasks WHERE lease_until > :now)")),
            "passed_over",
        ),
        "a task waits for its own end": (
            claim(
                chosen(alone="c.run_id NOT IN (SELECT run_id FROM tasks WHERE state = 'running')")
            ),
            "stuck",
        ),
        "chosen first and looked at then": (
            claim(
                "SELECT id FROM (SELECT * FROM tasks WHERE state IN ('pending', 'running') "
                f"ORDER BY id LIMIT 1) AS c WHERE {PENDING_OR_ENDED} AND {AVAILABLE}"
            ),
            "passed_over",
        ),
        "one's own lease is taken again": (
            claim(chosen(f"(c.lease_owner = :owner OR {PENDING_OR_ENDED})")),
            "effect",
        ),
        "the same worker never again": (
            claim(chosen(f"c.lease_owner IS NOT :owner AND {PENDING_OR_ENDED}")),
            "stuck",
        ),
        "the generation stays": (claim(generation=None), "generation"),
        "the generation of the whole table": (
            claim(generation="(SELECT MAX(generation) FROM tasks) + 1"),
            "generation",
        ),
        "a lease without now": (claim(lease_until=":lease"), "lease_length"),
        "a lease of thirty": (claim(lease_until=":now + 30"), "lease_length"),
        "a lease counted from the old end": (
            claim(lease_until="COALESCE(lease_until, :now) + :lease"),
            "lease_length",
        ),
        "the old owner stays": (claim(lease_owner="COALESCE(lease_owner, :owner)"), "effect"),
        "the task is put off": (claim(available_at=":now + :lease + 5"), "effect"),
    },
    "renew": {
        "counted from the old end": (renew(*HELD, until="lease_until + :lease"), "lease_length"),
        "a lease of thirty": (renew(*HELD, until=":now + 30"), "lease_length"),
        "not from now": (renew(*HELD, until=":lease"), "lease_length"),
        "never longer": (renew(*HELD, until="MIN(lease_until, :now + :lease)"), "effect"),
        "an owner and no generation": (renew(ID, OWNER, LIVE), "stale_commit"),
        "neither owner nor generation": (renew(ID, LIVE), "one_live_holder"),
        "a later generation, too": (
            renew(ID, "generation >= :generation", LIVE),
            "one_live_holder",
        ),
        "what has ended is renewed": (renew(ID, GENERATION, "state = 'running'"), "revived_lease"),
        "the end itself is live": (renew(ID, GENERATION, "lease_until >= :now"), "revived_lease"),
        "one instant too early": (
            renew(ID, GENERATION, "lease_until > :now + 1"),
            "holder_refused",
        ),
        "any task of the run": (renew(RUN, OWNER, GENERATION, LIVE), "stale_commit"),
        "any task of the owner": (renew(OWNER, GENERATION, LIVE), "stale_commit"),
        "a renewal counts as a claim": (
            renew(*HELD, more=", generation = generation + 1"),
            "generation",
        ),
        "another answer than the row": (renew(*HELD, given=":now AS lease_until"), "answer"),
    },
    "finish": {
        "no generation": (finish(ID, LIVE), "stale_commit"),
        "a later generation, too": (finish(ID, "generation >= :generation", LIVE), "stale_commit"),
        "the end itself is live": (finish(ID, GENERATION, "lease_until >= :now"), "late_write"),
        "no end at all": (finish(ID, GENERATION, "state = 'running'"), "late_write"),
        "one instant too early": (
            finish(ID, GENERATION, "lease_until > :now + 1"),
            "holder_refused",
        ),
        "the wrong way round": (finish(ID, GENERATION, "lease_until < :now"), "holder_refused"),
        "only the id": (finish(ID), "late_write"),
        "any task of this generation": (finish(GENERATION, LIVE), "stale_commit"),
        "given back": (finish(*HELD, state="'pending'"), "effect"),
        "always failed": (finish(*HELD, state="'failed'"), "effect"),
        "the generation is cleared": (finish(*HELD, more=", generation = 0"), "generation"),
        "available again": (finish(*HELD, more=", available_at = 0"), "effect"),
    },
    "commit_run": {
        "no revision": (commit_run(*HELD_TASK, run="id = :run_id"), "lost_update"),
        "a later revision, too": (
            commit_run(*HELD_TASK, run="id = :run_id AND revision >= :revision"),
            "lost_update",
        ),
        "no lease": (commit_run(), "late_write"),
        "the revision or the lease": (
            commit_run(*HELD_TASK).replace("= :revision AND EXISTS", "= :revision OR EXISTS"),
            "late_write",
        ),
        "the revision stays": (commit_run(*HELD_TASK, written="value = :value"), "effect"),
        "the revision is written back": (
            commit_run(*HELD_TASK, written="value = :value, revision = :revision"),
            "effect",
        ),
        "no value": (commit_run(*HELD_TASK, written="revision = revision + 1"), "effect"),
        "the values are put together": (
            commit_run(
                *HELD_TASK,
                written="value = COALESCE(value, '') || :value, revision = revision + 1",
            ),
            "effect",
        ),
        "the run is ended": (
            commit_run(
                *HELD_TASK, written="value = :value, revision = revision + 1, state = 'done'"
            ),
            "effect",
        ),
        "an owner and no generation": (commit_run(TASK, RUN, OWNER, LIVE), "stale_commit"),
        "neither owner nor generation": (commit_run(TASK, RUN, LIVE), "stale_commit"),
        "no end": (commit_run(TASK, RUN, GENERATION), "late_write"),
        "the end itself is live": (
            commit_run(TASK, RUN, GENERATION, "lease_until >= :now"),
            "late_write",
        ),
        "any task of the run": (commit_run(RUN, OWNER, GENERATION, LIVE), "stale_commit"),
    },
}
WRONG_ONES = [
    pytest.param(name, *answer, id=f"{name}: {label}")
    for name, answers in WRONG.items()
    for label, answer in answers.items()
]


@pytest.mark.parametrize("name, sql, broken", WRONG_ONES)
def test_a_wrong_statement_breaks_its_property(name, sql, broken):
    said = grade(name, sql)
    assert not said.right
    assert broken in [finding.property.name for finding in said.broken], said
    first = said.broken[0]
    assert repr(said).startswith(f"Not yet. “{first.property.sentence}” is broken after ")
    assert f": {first.schedule}: " in repr(said)


@pytest.mark.parametrize("name", NAMES)
def test_without_any_guard_of_the_reference_a_statement_is_wrong_unless_the_guard_is_a_spare(name):
    """The matrix says which guards alone are missed; the judge of own statements says the same."""
    for guard in Protocol().guards:
        if guard.startswith(f"{name}."):
            assert grade(name, Protocol().without(guard)[name]).right == (guard in BACKED), guard


@pytest.mark.parametrize(
    "name, sql, said",
    [
        (
            "claim",
            claim(chosen(first=""), among="IN"),
            "at the end of A.claim it changes 2 rows at",
        ),
        ("claim", claim(lease_owner=None), "at the end of A.claim SQLite says .CHECK constraint"),
        (
            "claim",
            claim(lease_until="'soon'"),
            "A.claim SQLite says 'cannot store TEXT value in INT",
        ),
        (
            "claim",
            claim(state="NULL"),
            "A.claim SQLite says 'NOT NULL constraint failed: tasks.state",
        ),
        (
            "claim",
            claim(given=GIVEN.replace("generation", "generation - 1 AS generation")),
            r"it gives back \(1, 'run-1', 'A', 0, 31\), and the row says \(1, 'run-1', 'A', 1, 31\)",
        ),
        ("claim", claim(given="99 AS " + GIVEN), "it gives back .99, .*and the row says None"),
        ("claim", claim(given="'x' AS " + GIVEN), "it gives back .'x', .*and the row says None"),
        (
            "claim",
            claim(given=GIVEN.replace("run_id", "'x' AS run_id")),
            "no worker can go on with",
        ),
        (
            "claim",
            claim(given=GIVEN.replace(", lease_until", ", NULL AS lease_until")),
            "'A', 1, None.*, which is no lease",
        ),
        (
            "claim",
            claim(state="'failed'", lease_owner="NULL", lease_until="NULL"),
            "gives back .*None, 1, None.*, which is no lease",
        ),
        ("renew", renew(*HELD, given="'x' AS lease_until"), "gives back 'x', and the row says 60"),
        (
            "finish",
            finish(*HELD).replace("lease_owner = NULL, ", ""),
            "A.finish SQLite says .CHECK",
        ),
        ("finish", finish(*HELD, state="NULL"), "SQLite says 'NOT NULL constraint failed"),
        (
            "commit_run",
            commit_run(*HELD_TASK, run="revision = :revision"),
            "A.commit_run it changes 2 rows at once",
        ),
    ],
)
def test_a_statement_that_cannot_always_be_used_is_told_where(name, sql, said):
    told = repr(grade(name, sql))
    assert told.startswith("Not yet: your statement cannot always be used: "), told
    assert re.search(said, told), told


@pytest.mark.parametrize(
    "name, sql, state",
    [
        (
            "claim",
            claim(
                chosen("c.state NOT IN ('done', 'failed') AND COALESCE(c.lease_until, 0) <= :now")
            ),
            "running",
        ),
        ("finish", finish(*HELD, state="'done'"), "done"),
    ],
)
def test_what_was_left_uncertain_stays_so(name, sql, state):
    said = grade(name, sql)
    assert not said.right
    assert repr(said) == (
        "Not yet: A leaves its task uncertain at t=2, and B claims at t=3; then the row says "
        f"{state}."
    )
    assert said._repr_mimebundle_()["text/html"].count("<img") == 1


def test_a_claim_that_fails_only_on_a_task_left_uncertain_is_told_so():
    said = repr(grade("finish", finish(*HELD, state="NULLIF(:outcome, 'uncertain')")))
    assert said.startswith("Not yet: if A leaves its task uncertain, ") and "NOT NULL" in said


@pytest.mark.parametrize("name", NAMES)
def test_a_counterexample_is_drawn_above_the_same_schedule_under_the_reference(name):
    label = next(label for label in WRONG[name] if label != "a lease of thirty")
    said = grade(name, WRONG[name][label][0])
    html = said._repr_mimebundle_()["text/html"]
    assert html.count("<img") == 2 and "The same schedule under the full protocol" in html
    assert html.startswith("<p>Not yet. ") and str(said.broken[0].schedule) in html


def test_a_guard_with_a_name_of_the_readers_own_is_a_comment():
    sql = finish(
        ID, GENERATION, "lease_until > :now + 1 -- guard: mine\n AND (1 -- guard: expiry\n)"
    )
    said = grade("finish", sql)
    assert [finding.property.name for finding in said.broken] == ["holder_refused"]
    assert said._repr_mimebundle_()["text/html"].count("<img") == 2


# Right ones, otherwise written.

SAME = "In all of them, and on {} made-up rows, it answers just as the reference does."
AGREES = "In all of them it answers just as the reference does."
OWNER_TOO = "accepts what the reference refuses by owner (4 times; in no schedule)"
RUN_TOO = "accepts what the reference refuses by asking for task and run (2 times; in no schedule)"
OTHER_TASK = "it writes something else than the reference ({} times), as with task 1 of run-1: "

RIGHT = {
    "claim": {
        "with OR": (claim(), [SAME.format(288)]),
        "with CTEs": (
            "WITH held AS (SELECT run_id FROM tasks WHERE lease_until > :now), free(id) AS ("
            "SELECT id FROM tasks WHERE state IN ('pending', 'running') AND available_at <= :now "
            "AND run_id NOT IN held ORDER BY available_at, created_at, id LIMIT 1) "
            "UPDATE tasks SET generation = 1 + generation, lease_until = :lease + :now, "
            f"lease_owner = :owner, state = 'running' WHERE id IN free RETURNING {GIVEN}",
            [SAME.format(288)],
        ),
        "with COUNT and COALESCE": (
            claim(
                chosen(
                    "c.state IN ('pending', 'running') AND COALESCE(c.lease_until, 0) <= :now",
                    alone="(SELECT COUNT(*) FROM tasks AS a WHERE a.run_id = c.run_id "
                    "AND a.lease_until > :now) = 0",
                )
            ),
            [SAME.format(288)],
        ),
        "with CASE": (
            claim(
                chosen(
                    "CASE c.state WHEN 'running' THEN c.lease_until <= :now ELSE c.state = 'pending' END"
                )
            ),
            [SAME.format(288)],
        ),
        "with a join": (
            claim(
                "SELECT c.id FROM tasks AS c LEFT JOIN tasks AS other ON other.run_id = c.run_id "
                "AND other.id <> c.id AND other.lease_until > :now "
                f"WHERE other.id IS NULL AND {PENDING_OR_ENDED} AND {AVAILABLE} {FIRST}"
            ),
            [SAME.format(288)],
        ),
        "with FROM": (
            "UPDATE tasks SET state = 'running', lease_owner = :owner, lease_until = :now + :lease, "
            f"generation = tasks.generation + 1 FROM ({chosen()}) AS chosen "
            "WHERE tasks.id = chosen.id RETURNING tasks.id, tasks.run_id, tasks.lease_owner, "
            "tasks.generation, tasks.lease_until",
            [SAME.format(288)],
        ),
        "in lower case, with comments": (
            "-- mine\nupdate TASKS set STATE = 'running' /* held */, lease_owner = $owner, "
            f"lease_until = @now + :lease, generation = generation + 1\nwhere id = ({chosen().lower()})"
            '\nreturning ID, [run_id], "lease_owner", `generation`, Lease_Until; -- the end',
            [SAME.format(288)],
        ),
        "with more than is needed": (
            claim(chosen(f"c.id > 0 AND c.generation >= 0 AND {PENDING_OR_ENDED}")),
            [SAME.format(288)],
        ),
        "the smallest id": (
            claim(chosen(first="").replace("c.id FROM", "MIN(c.id) FROM")),
            [AGREES, OTHER_TASK.format(8)],
        ),
        "the greatest id": (
            claim(chosen(first="ORDER BY c.id DESC LIMIT 1")),
            ["In them and on 288 made-up rows it differs", "no property suffers"],
        ),
        "what waits before what was lost": (
            claim(chosen(first="ORDER BY c.state, c.available_at, c.created_at, c.id LIMIT 1")),
            [OTHER_TASK.format(16)[:45]],
        ),
        "the run is not free while another task is running": (
            claim(
                chosen(
                    alone="NOT EXISTS (SELECT 1 FROM tasks AS a WHERE a.run_id = c.run_id "
                    "AND a.id <> c.id AND a.state = 'running')"
                )
            ),
            ["refuses what the reference accepts (14 times)"],
        ),
        "by window": (
            claim(
                "SELECT id FROM (SELECT c.id, ROW_NUMBER() OVER (ORDER BY available_at, created_at, id) "
                f"AS place FROM tasks AS c WHERE {PENDING_OR_ENDED} AND {AVAILABLE} AND {ALONE}) "
                "WHERE place = 1"
            ),
            [SAME.format(288)],
        ),
    },
    "renew": {
        "as the reference asks": (renew(*HELD, OWNER, RUN), [SAME.format(72)]),
        "without the owner": (renew(*HELD), [AGREES, OWNER_TOO, RUN_TOO]),
        "without MAX": (
            renew(*HELD, OWNER, RUN, until=":now + :lease"),
            [
                AGREES,
                "it writes something else than the reference (1 time), as with",
                "lease_until 160",
            ],
        ),
        "with CASE, lower case": (
            renew(
                *HELD,
                OWNER,
                RUN,
                until="CASE WHEN lease_until > :now + :lease THEN lease_until ELSE :now + :lease END",
            ).lower(),
            [SAME.format(72)],
        ),
        "with IIF and a row value": (
            renew(
                "(id, generation, run_id) = (:task_id, :generation, :run_id)",
                "NOT lease_until <= :now",
                ":owner IS lease_owner",
                until="IIF(lease_until - :now > :lease, lease_until, :now + :lease)",
            ),
            [SAME.format(72)],
        ),
        "with a CTE": (
            "WITH mine AS (SELECT id, MAX(lease_until, :now + :lease) AS until FROM tasks WHERE "
            f"{' AND '.join((*HELD, OWNER, RUN))}) UPDATE tasks SET lease_until = (SELECT until FROM "
            "mine) WHERE id IN (SELECT id FROM mine) RETURNING lease_until;",
            [SAME.format(72)],
        ),
        "no later generation": (
            renew(ID, "generation <= :generation", LIVE),
            [AGREES, "refuses by generation (4 times; in no schedule)"],
        ),
    },
    "finish": {
        "without the state": (finish(*HELD), [SAME.format(72)]),
        "with IIF, lower case": (
            "update tasks set lease_until = null, lease_owner = null, state = :outcome\n"
            "where iif(generation = :generation, lease_until > :now, 0) and id = :task_id",
            [SAME.format(72)],
        ),
        "with EXISTS": (
            finish(
                "EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = tasks.id AND t.id = :task_id "
                "AND t.generation = :generation AND t.lease_until > :now)"
            ),
            [SAME.format(72)],
        ),
        "with a CTE and a row value": (
            "WITH held(id) AS (SELECT id FROM tasks WHERE lease_until > :now AND generation = "
            ":generation) UPDATE tasks SET (state, lease_owner, lease_until) = (:outcome, NULL, NULL) "
            "WHERE id = :task_id AND id IN held",
            [SAME.format(72)],
        ),
        "with RETURNING": (finish(*HELD) + " RETURNING *", [SAME.format(72)]),
        "with CASE": (
            finish(*HELD, state="CASE :outcome WHEN 'done' THEN 'done' ELSE 'uncertain' END"),
            [SAME.format(72)],
        ),
        "no later generation": (
            finish(ID, "generation <= :generation", LIVE),
            [AGREES, "refuses by generation (8 times; in no schedule)"],
        ),
    },
    "commit_run": {
        "as the reference asks": (commit_run(*HELD_TASK, OWNER), [SAME.format(216)]),
        "without the owner": (
            commit_run(*HELD_TASK),
            [AGREES, OWNER_TOO.replace("4", "2")],
        ),
        "with IN": (
            "UPDATE runs SET value = :value, revision = :revision + 1 WHERE revision = :revision AND "
            f"id IN (SELECT run_id FROM tasks WHERE {' AND '.join((*HELD, OWNER, RUN))})",
            [SAME.format(216)],
        ),
        "with COUNT, lower case": (
            "update runs set revision = revision + 1, value = :value where id = :run_id and revision "
            "= :revision and 1 = (select count(*) from tasks where tasks.id = :task_id and generation "
            "= :generation and lease_until > :now)",
            [AGREES, OWNER_TOO, RUN_TOO],
        ),
        "with COALESCE": (
            commit_run(
                run="id = :run_id AND revision = :revision AND COALESCE((SELECT lease_until FROM tasks "
                "WHERE id = :task_id AND generation = :generation), 0) > :now"
            ),
            [AGREES, OWNER_TOO, RUN_TOO],
        ),
        "with FROM": (
            "UPDATE runs SET value = :value, revision = runs.revision + 1 FROM tasks AS t "
            "WHERE runs.id = :run_id AND t.run_id = runs.id AND t.id = :task_id AND t.lease_owner = "
            ":owner AND t.generation = :generation AND t.lease_until > :now AND revision = :revision",
            [SAME.format(216)],
        ),
        "only an active run": (
            commit_run(
                *HELD_TASK, OWNER, run="id = :run_id AND revision = :revision AND state = 'active'"
            ),
            [SAME.format(216)],
        ),
    },
}
RIGHT_ONES = [
    pytest.param(name, *answer, id=f"{name}: {label}")
    for name, answers in RIGHT.items()
    for label, answer in answers.items()
]


@pytest.mark.parametrize("name, sql, remarks", RIGHT_ONES)
def test_a_right_statement_is_right_whatever_it_looks_like(name, sql, remarks):
    said = grade(name, sql)
    assert said.right, said
    assert repr(said).startswith(
        "Right: it breaks no property in any schedule of these scopes.\n  2,207 states, 9,042 "
    )
    for remark in remarks:
        assert remark in repr(said), said
    assert "text/html" not in said._repr_mimebundle_()


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_itself_is_right_and_every_scope_is_named(name):
    said = repr(grade(name, Protocol()[name])).splitlines()
    assert said[0] == "Right: it breaks no property in any schedule of these scopes."
    assert len(said[1:-1]) == len(own.SCOPES)
    for line in said[1:-1]:
        assert re.match(r"  [\d,]+ states, [\d,]+ steps from them: \d workers?, ", line), line
    assert said[-1] == SAME.format(288 if name == "claim" else 216 if name == "commit_run" else 72)


def test_a_verdict_is_the_same_when_it_is_asked_for_again():
    """What SQLite has answered is remembered, made-up rows, too."""
    said = [repr(grade("renew", renew(*HELD))) for _ in range(2)]
    assert said[0] == said[1] and AGREES in said[0]


def test_a_search_that_is_not_finished_is_no_proof(monkeypatch):
    monkeypatch.setattr(own, "CAP", 100)
    said = grade("finish", finish(*HELD))
    assert not said.right
    assert repr(said) == "Not yet: there are more than 100 states, too many to search them all."


def test_every_property_but_the_side_effect_is_judged():
    judged = {kind.name for scope in own.SCOPES for kind in own._judged_in(scope)}
    assert judged == set(PROPERTIES) - {"side_effect"}


# What each statement has for its reader.


@pytest.mark.parametrize("name", NAMES)
def test_a_stub_is_shown_with_task_and_parameters_and_is_not_right_yet(name):
    one = getattr(check, name)
    shown = repr(one)
    assert one.task in shown and one.stub in shown
    for parameter in one.parameters:
        assert f":{parameter}" in shown
    assert repr(one(one.stub)).startswith("Not yet: SQLite says 'near ")


@pytest.mark.parametrize("name", NAMES)
def test_there_are_two_hints_and_the_second_says_more(name, capsys, monkeypatch):
    one = getattr(check, name)
    monkeypatch.setattr(one, "_told", 0)
    for _ in range(3):
        one.hint()
    first, second, third = capsys.readouterr().out.splitlines()
    assert first != second == third and len(second) > 60


@pytest.mark.parametrize("name", NAMES)
def test_the_parameters_are_those_that_the_reference_has(name):
    assert set(getattr(check, name).parameters) == set(re.findall(r":(\w+)", Protocol()[name]))


# The sandbox.

FINISH = finish(*HELD)
ONLY = "only SELECT and UPDATE on tasks and runs are allowed here."
MANY = "there is more than one statement; one has to do."
CLOCK = "the file has no clock of its own here: now is a parameter, :now."


def extra(condition):
    """A right finish with one condition more."""
    return f"{FINISH} AND {condition}"


REFUSED = {
    "ATTACH": ("ATTACH 'other.sqlite' AS other", ONLY),
    "DETACH": ("DETACH main", ONLY),
    "PRAGMA": ("PRAGMA foreign_keys = OFF", ONLY),
    "DROP": ("DROP TABLE tasks", ONLY),
    "DELETE": ("DELETE FROM tasks", ONLY),
    "INSERT": ("INSERT INTO runs (id) VALUES ('x')", ONLY),
    "REPLACE": ("REPLACE INTO runs (id) VALUES ('x')", ONLY),
    "CREATE": ("CREATE TABLE more (id)", ONLY),
    "CREATE TEMP": ("CREATE TEMP TABLE tasks (id)", ONLY),
    "CREATE TRIGGER": ("CREATE TRIGGER t AFTER UPDATE ON tasks BEGIN SELECT 1; END", ONLY),
    "ALTER": ("ALTER TABLE tasks ADD COLUMN more", ONLY),
    "VACUUM INTO": ("VACUUM INTO 'other.sqlite'", ONLY),
    "BEGIN": ("BEGIN", ONLY),
    "COMMIT": ("COMMIT", ONLY),
    "SAVEPOINT": ("SAVEPOINT s", ONLY),
    "ANALYZE": ("ANALYZE", ONLY),
    "REINDEX": ("REINDEX", ONLY),
    "the schema": (
        extra("(SELECT COUNT(sql) FROM sqlite_schema) > 0"),
        "tasks and runs only, not ",
    ),
    "the schema, counted": (
        extra("(SELECT COUNT(*) FROM SQLITE_SCHEMA) > 0"),
        "tasks and runs only",
    ),
    "the schema, written": (
        "UPDATE sqlite_schema SET sql = ''",
        "sqlite_master may not be modified",
    ),
    "a pragma as a table": (
        extra("1 IN (SELECT cid FROM pragma_table_info('tasks'))"),
        "runs only",
    ),
    "a pragma, counted": (extra("(SELECT COUNT(*) FROM PRAGMA_foreign_keys)"), "runs only, not "),
    "json as a table": (extra("1 IN (SELECT value FROM json_each('[1]'))"), "runs only, not "),
    "load_extension": (extra("load_extension('x')"), "the function load_extension is not allowed"),
    "randomblob": (extra("randomblob(1000000000)"), "the function randomblob is not allowed here"),
    "random": (extra("random() > 0"), "the function random is not allowed here; there are abs, "),
    "CURRENT_TIMESTAMP": (extra("lease_until > CURRENT_TIMESTAMP"), CLOCK),
    "datetime": (extra("lease_until > DATETIME('now')"), CLOCK),
    "strftime": (extra("lease_until > strftime('%s', 'now')"), CLOCK),
    "the id": (finish(*HELD, more=", id = 7"), "tasks.id is what a row is known by"),
    "the rowid": (finish(*HELD, more=", rowid = rowid + 7"), "is what a row is known by"),
    "the rowid by another name": (finish(*HELD, more=", _rowid_ = 7"), "is what a row is known by"),
    "the run's id": (finish(*HELD, more=", run_id = 'run-2'"), "tasks.run_id is what a row is"),
    "two statements": (f"{FINISH}; {FINISH}", MANY),
    "a second one that only looks": (f"{FINISH}; SELECT 1", MANY),
    "a parameter that is not there": (
        FINISH.replace(":now", ":t"),
        "there is no parameter :t; there are :outcome, :task_id, :generation, :now.",
    ),
    "a question mark": (
        FINISH.replace(":now", "?"),
        "there is no parameter without a name; there are :outcome, :task_id, :generation, :now.",
    ),
    "another table": (
        "UPDATE runs SET value = 'x'",
        "the statement has to UPDATE tasks; yours changes nothing there.",
    ),
    "a table that is not there": (FINISH.replace("tasks", "jobs"), "no such table: jobs"),
    "SELECT": ("SELECT id FROM tasks", "yours changes nothing there"),
    "VALUES": ("VALUES (1)", "yours changes nothing there"),
    "a comment": ("-- UPDATE tasks", "yours changes nothing there"),
    "an open comment": ("/* UPDATE tasks", "yours changes nothing there"),
    "only the beginning": (
        "UPDATE tasks SET",
        "the statement breaks off: something is missing at its",
    ),
    "an open text": (FINISH.replace(":outcome", "'done"), "unrecognized token"),
    "nothing": ("", "a statement is a text, such as UPDATE …, not ''."),
    "blanks": (" \n\t", r"a statement is a text, such as UPDATE …, not ' \n\t'."),
    "None": (None, "a statement is a text, such as UPDATE …, not None."),
    "bytes": (FINISH.encode(), "a statement is a text, such as UPDATE …, not a bytes."),
    "a list": ([FINISH], "a statement is a text, such as UPDATE …, not a list."),
    "a number": (7, "a statement is a text, such as UPDATE …, not 7."),
    "very long": (FINISH + " " * 10_000, "letters; 10,000 are enough."),
    "very long and blank": (" " * 100_000, "the statement has 100,000 letters; 10,000 are enough."),
    "a NUL": (FINISH + "\0", "null character"),
    "half a letter": (FINISH + " -- \ud800", "a letter of the statement cannot be written down"),
    "other letters": ("UPDATE tasks SET größe = 1", "no such column: größe"),
    "a smiley": ("😀", 'near "😀": syntax error'),
}


@pytest.mark.parametrize("sql, said", REFUSED.values(), ids=REFUSED)
def test_the_sandbox_refuses_with_a_sentence(sql, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = grade("finish", sql)
    assert not told.right
    assert repr(told).startswith("Not yet: ") and said in repr(told), told
    assert len(repr(told)) < 700
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "given, said",
    [
        (None, "the statement has to end in RETURNING " + GIVEN + "; yours has no RETURNING."),
        ("id", "; yours gives id."),
        (
            "run_id, id, lease_owner, generation, lease_until",
            "; yours gives run_id, id, lease_owner, ",
        ),
        (GIVEN + ", state", "; yours gives " + GIVEN + ", state."),
        (
            "*",
            "; yours gives id, run_id, state, generation, lease_owner, lease_until, available_at, ",
        ),
    ],
)
def test_a_claim_has_to_give_back_just_its_columns(given, said):
    sql = claim(given=given) if given else claim().partition(" RETURNING")[0]
    assert said in repr(grade("claim", sql))


def test_a_renewal_has_to_give_back_its_end():
    told = repr(grade("renew", renew(*HELD).partition(" RETURNING")[0]))
    assert (
        told
        == "Not yet: the statement has to end in RETURNING lease_until; yours has no RETURNING."
    )


@pytest.mark.parametrize("end", [";", " ;  ", "; -- done", "\n;\n/* done */"])
def test_a_semicolon_at_the_end_is_fine(end):
    assert not own.Sandbox(check.finish).fault(FINISH + end)


def test_words_and_letters_within_quotes_and_comments_are_fine():
    for more in ("'a ? :b; -- é 😀' <> ''", "TRUE -- ? :b; DROP TABLE tasks\n", "1 /* ; */"):
        assert not own.Sandbox(check.finish).fault(extra(more))


# Where a text goes wrong.


def pointed_at(told):
    """The number of the line that is shown, and what stands above the mark."""
    *_, said, line, mark = repr(told).splitlines()
    return int(re.search(r" in line (\d+):$", said)[1]), line[mark.index("^") :]


@pytest.mark.parametrize(
    "sql, number, there",
    [
        ("UPDATE tasks SETT state = 1", 1, "SETT state"),
        ("UPDATE tasks\nSET state = :outcome\nWERE id = :task_id", 3, "WERE id"),
        ("UPDATE tasks\n\tSET state = :outcome,\n\t\tWHERE id = 1", 3, "WHERE id = 1"),
        ("UPDATE tasks SET state = 1 WHERE id = 1 WHERE id = 2", 1, "WHERE id = 2"),
        ("UPDATE tasks SET state = (1)\nWHERE id = (1))", 2, ")"),
        ("UPDATE tasks SET state = :outcome\nWHERE id = 'x", 2, "'x"),
        ("UPDATE tasks SET lease_untill = 1", 1, "lease_untill"),
        ("UPDATE tasks SET lease_until = 1\nWHERE lease_untill > :now", 2, "lease_untill > "),
        (
            "UPDATE tasks SET state = 1\nWHERE id = (SELECT c.lease FROM tasks AS c)",
            2,
            "c.lease FROM",
        ),
        # the word stands in a right place before
        (
            "UPDATE tasks SET state = 1\nWHERE id = (SELECT c.id FROM tasks AS c\nWHERE c.id > 1)\n"
            "AND c.id > 2",
            4,
            "c.id > 2",
        ),
        (
            "UPDATE tasks SET state = :lease_owner WHERE id IN\n"
            "(SELECT t.lease_owner FROM tasks AS t)\nAND (lease_owner > (SELECT lease_own FROM tasks))",
            3,
            "lease_own FROM",
        ),
        (
            "UPDATE tasks SET state = (SELECT a.id FROM tasks AS a)\n"
            "WHERE (id = (SELECT id FROM tasks AS a, tasks AS b))",
            2,
            "id FROM tasks AS a, tasks AS b",
        ),
        (
            "UPDATE tasks SET state = 1 WHERE id IN (\nSELECT id FROM tasks\nUNION\nSELECT id FROM task)",
            4,
            "task)",
        ),
        ("UPDATE tasks SET state = 1\nWHERE id = highest(1)", 2, "highest(1)"),
        (
            "UPDATE runs SET value = 1\n" + "WHERE id = 1 " + "AND id = 1 " * 20 + "ORR id = 1",
            2,
            "ORR id = 1",
        ),
    ],
)
def test_a_mistake_is_pointed_at(sql, number, there):
    line, above = pointed_at(grade("commit_run" if "runs" in sql else "finish", sql))
    assert line == number and above.startswith(there), (line, above)


def test_of_a_long_line_the_part_around_the_mistake_is_shown():
    told = grade("finish", "UPDATE tasks SET state = 1 WHERE " + "id = 1 AND " * 500 + "WHERE")
    assert all(len(line) < 130 for line in repr(told).splitlines())
    assert pointed_at(told) == (1, "WHERE")


# What would take for ever, or all the memory.

COUNTS = "WITH RECURSIVE n(i) AS (SELECT {} UNION ALL SELECT {} FROM n) SELECT MAX(i) FROM n"
WITHOUT_END = {
    "endless": (f"({COUNTS.format('1', 'i + 1')}) > 0", "did not come to an end"),
    "endless for each row": (
        f"({COUNTS.format('tasks.id', 'i + 1')}) > 0",
        "did not come to an end",
    ),
    "doubles a text": (f"({COUNTS.format(chr(39) + 'x' + chr(39), 'i || i')}) > ''", "too big"),
    "doubles a name": (f"({COUNTS.format('tasks.run_id', 'i || i')}) > ''", "too big"),
    "every row with every row": (
        f"(SELECT COUNT(*) FROM {', '.join(f'tasks AS t{number}' for number in range(60))}) >= 0",
        "",  # it is endless where there are two tasks
    ),
}


@pytest.mark.parametrize("condition, said", WITHOUT_END.values(), ids=WITHOUT_END)
def test_what_would_not_end_ends_soon_with_a_sentence(condition, said):
    before = time.monotonic()
    told = grade("finish", extra(condition))
    assert time.monotonic() - before < 20
    assert not told.right and said in repr(told)
    assert repr(told).startswith(
        "Not yet: your statement cannot always be used: at the end of A.claim"
    )


def test_an_endless_table_before_the_statement_is_stopped():
    sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) " + extra("id IN n")
    assert "come to an end" in repr(grade("finish", sql))


@pytest.mark.parametrize(
    "step",
    [
        "SELECT p.x FROM {0} AS p, {0} AS q",
        "SELECT x FROM {0} UNION ALL SELECT x FROM {0}",
        "SELECT (SELECT x FROM {0}) + (SELECT x FROM {0})",
    ],
)
def test_tables_that_use_each_other_do_not_fill_the_memory(step):
    tables = ["t0(x) AS (SELECT 1)"]
    tables += [f"t{n} (x) AS /* ( */ ({step.format(f't{n - 1}')})" for n in range(1, 41)]
    sql = f"WITH {', '.join(tables)} {extra('id IN (SELECT x FROM t40)')}"
    before = time.monotonic()
    assert (
        repr(grade("finish", sql))
        == "Not yet: what the statement names by WITH, it uses too often."
    )
    assert time.monotonic() - before < 5


def test_a_few_tables_by_with_are_fine():
    tables = "a AS (SELECT id FROM tasks), b AS (SELECT id FROM a), c AS (SELECT id FROM b, a USING (id))"
    assert not own.Sandbox(check.finish).fault(f"WITH {tables} {extra('id IN c AND id IN b')}")


@pytest.mark.parametrize(
    "text", ["a" * 9_999, "a " * 4_999, "(" * 9_999, "a AS (" * 1_600, "'" * 9_999]
)
def test_a_strange_text_is_refused_at_once(text):
    before = time.monotonic()
    told = grade("finish", text)
    assert time.monotonic() - before < 5
    assert repr(told).startswith("Not yet: ") and len(repr(told)) < 700


def test_a_grade_does_not_depend_on_what_was_searched_before():
    sql = Protocol()["renew"].replace(
        "generation = :generation ", "generation = :generation AND generation < 4 "
    )
    first = repr(check.renew(sql))
    wide = Scope(
        workers=1,
        claims=4,
        crashes=0,
        releases=3,
        in_flight=0,
        retry_delay=0,
        horizon=31,
        max_attempts=9,
    )
    assert "holder_refused" in explore(Protocol().with_statement("renew", sql), scope=wide).broken
    assert repr(check.renew(sql)) == first


def test_a_grade_that_was_shown_keeps_no_file_open():
    grade = check.finish(
        "UPDATE tasks SET state = :outcome, lease_owner = NULL, lease_until = NULL WHERE id = :task_id"
    )
    before = psutil.Process().num_fds() if hasattr(psutil.Process, "num_fds") else 0
    grade._repr_mimebundle_()
    gc.collect()
    after = psutil.Process().num_fds() if hasattr(psutil.Process, "num_fds") else 0
    assert after <= before

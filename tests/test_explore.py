"""The search: its verdicts, its schedules, and that a Lab on a real file comes to the same.

That it misses no state is shown by a second model in ``test_explore_model.py``.
"""

import os
import subprocess
import sys
from itertools import combinations

import pytest

from leaselab import Lab, Protocol
from leaselab.errors import InputError
from leaselab.explore import PROPERTIES, Matrix, Schedule, Scope, explore, graph
from leaselab.explore.graph import graph_of
from leaselab.explore.machine import MEMORY, Machine, Task
from leaselab.explore.scope import TWO_RUNS, TWO_TASKS

# What is broken when one guard is struck out, beside what is broken without that.
BROKEN = {
    "ack.generation": {"stale_commit"},
    "claim.final": {"final"},
    "claim.available": {"too_soon"},
    "claim.expiry": {"one_live_holder"},
    "claim.takeover": {"stuck", "passed_over", "can_take_over"},
    "claim.one_per_run": {"one_per_run"},
    "commit_run.generation": {"stale_commit"},
    "commit_run.expiry": {"late_write"},
    "commit_run.revision": {"lost_update"},
    "exhaust.generation": {"stale_commit", "poison_task"},
    "exhaust.expiry": {"late_write"},
    "exhaust.attempt_limit": {"poison_task"},
    "finish.generation": {"stale_commit"},
    "finish.expiry": {"late_write"},
    "release.generation": {"stale_commit"},
    "renew.from_now": {"lease_length"},
    "renew.generation": {"stale_commit"},
    "renew.expiry": {"revived_lease"},
}
GENERATIONS = [guard for guard in Protocol().guards if guard.endswith(".generation")]


@pytest.fixture(scope="module")
def matrix():
    return Matrix()


def broken(*guards, **scope):
    """What is broken without these guards; the service acts twice in any case."""
    found = explore(Protocol().without(*guards), scope=Scope(**scope) if scope else None).broken
    return set(found) - {"side_effect"}


def test_under_the_full_protocol_every_property_holds_but_the_side_effect():
    assert explore().broken == ["side_effect"]
    assert explore(scope=TWO_RUNS).broken == ["side_effect"]


def test_only_the_idempotency_key_makes_the_side_effect_happen_once():
    verdict = explore(scope=Scope(idempotency_key=True))
    assert verdict.holds is True and verdict["side_effect"].complete
    for crashes in (0, 1):
        assert explore(None, "side_effect", Scope(crashes=crashes, in_flight=0)).holds is False


@pytest.mark.parametrize("guard", Protocol().guards)
def test_each_guard_protects_its_own_property_and_no_other(matrix, guard):
    assert set(matrix.verdicts[guard].broken) - {"side_effect"} == BROKEN.get(guard, set())


@pytest.mark.parametrize("guard", GENERATIONS)
def test_beside_an_owner_check_a_generation_is_missed_only_by_what_is_in_flight(guard):
    verb = guard.split(".")[0]
    alone = broken(guard, in_flight=0)
    if f"{verb}.owner" not in Protocol().guards:
        assert alone == {"stale_commit"}  # finish looks at no owner
        return
    assert alone == set()
    assert "stale_commit" in broken(guard, f"{verb}.owner", in_flight=0)
    finding = explore(Protocol.without(guard))["stale_commit"]
    assert {move.actor for move in finding.schedule} == {"A", "t"}  # the same worker twice


@pytest.mark.parametrize("verb", ["finish", "commit_run", "exhaust"])
def test_what_keeps_a_task_that_has_ended_is_said_several_times(verb):
    # It is not running, it has no lease_until and no owner, and its generation is a later one.
    names = [f"{verb}.{name}" for name in ("running", "expiry", "owner", "generation")]
    guards = [name for name in names if name in Protocol().guards]
    assert "final" in broken(*guards)
    for left in guards:
        assert "final" not in broken(*(guard for guard in guards if guard != left))


def test_a_claim_in_two_steps_breaks_what_the_full_protocol_promises():
    verdict = explore(scope=Scope(two_steps=True, releases=0, horizon=31))
    assert {"one_live_holder", "final"} <= set(verdict.broken)
    assert len(verdict["one_live_holder"].schedule) == 4
    assert verdict["one_live_holder"].repaired is None  # there is no guard to be put back


# Each property can be broken, and what is possible can fail to happen.


@pytest.mark.parametrize(
    "name, text, instead, property_name",
    [
        ("claim", "generation = generation + 1", "generation = generation", "generation"),
        ("finish", "lease_until > :now ", "lease_until > :now + 1 ", "holder_refused"),
        ("finish", "state = 'running' ", "state = 'pending' ", "can_finish"),
        ("claim", "candidate.lease_until <= :now ", "candidate.lease_until < :now ", "passed_over"),
        ("claim", ":now + :lease", ":now + :lease - 1", "lease_length"),
        ("finish", "lease_owner = NULL, ", "", "sound"),
        ("renew", ":lease + COALESCE", ":lease - 9 + COALESCE", "lease_length"),
    ],
)
def test_a_property_that_no_struck_out_guard_breaks_can_be_broken(
    name, text, instead, property_name
):
    sql = Protocol()[name]
    assert text in sql
    verdict = explore(Protocol().with_statement(name, sql.replace(text, instead)))
    assert property_name in verdict.broken


def test_every_property_is_broken_by_something():
    seen = {"side_effect", "generation", "holder_refused", "can_finish", "sound"}.union(
        *BROKEN.values()
    )
    without_refusal = [guard for guard in Protocol().guards if guard.split(".")[0] != "claim"]
    assert explore(Protocol().without(*without_refusal), "can_refuse").broken == ["can_refuse"]
    assert seen | {"can_refuse"} == set(PROPERTIES)


def test_where_a_scope_is_too_short_for_a_takeover_the_verdict_says_so():
    verdict = explore(scope=Scope(horizon=30, releases=0))
    assert verdict.broken == ["can_take_over"]
    assert "never happens in all" in verdict["can_take_over"].sentence


# The search itself


def schedules(protocol, scope, length):
    """Every transition at the end of a schedule of this length, found without remembering a state."""
    machine = Machine(protocol, scope)
    try:
        level = [machine.start()]
        for number in range(length):
            steps = [step for state in level for step in machine.transitions(state)]
            level = [step.after for step in steps if step.after != step.before]
            yield [(step, machine) for step in steps]
    finally:
        machine.close()


@pytest.mark.parametrize(
    "name, guards",
    [
        ("stale_commit", ["finish.generation"]),
        ("one_live_holder", ["claim.expiry"]),
        ("lease_length", ["renew.from_now"]),
        ("poison_task", ["exhaust.attempt_limit"]),
        ("side_effect", []),  # here several ways lead to one state
    ],
)
def test_no_schedule_is_shorter_and_so_many_are_equally_short(name, guards):
    protocol = Protocol().without(*guards)
    finding, judge = explore(protocol, name)[name], PROPERTIES[name].judge
    for number, steps in enumerate(schedules(protocol, Scope(), len(finding.schedule)), start=1):
        bad = [s for s, m in steps if s.move.action in PROPERTIES[name].actions and judge(s, m)]
        assert len(bad) == (finding.equally_short if number == len(finding.schedule) else 0)


@pytest.mark.parametrize("struck_out", ["", *BROKEN])
def test_a_clock_that_jumps_comes_to_the_verdicts_of_one_that_ticks(struck_out):
    protocol = Protocol().without(*filter(None, [struck_out]))
    small = {"lease": 3, "horizon": 5, "retry_delay": 1}
    jumps = explore(protocol, scope=Scope(**small))
    ticks = explore(protocol, scope=Scope(**small, every_tick=True))
    assert jumps.broken == ticks.broken
    assert {finding.holds for finding in ticks.values()} <= {True, False}
    full = [name for name in jumps if jumps[name].complete]
    assert all(jumps[name].states < ticks[name].states for name in full)


def test_at_the_cap_a_verdict_says_that_it_is_no_proof():
    verdict = explore(scope=Scope(cap=500))
    assert verdict["final"].holds is None and verdict.holds is False
    assert explore(None, "final", Scope(cap=500)).holds is None
    assert "stopped at the cap of 500 states: this is not a proof" in verdict["final"].sentence
    assert verdict["side_effect"].holds is False  # what was found before is found


def test_the_same_search_says_the_same_whatever_the_hash_seed():
    code = (
        "from leaselab import Protocol; from leaselab.explore import explore;"
        "print(explore(Protocol.without('claim.expiry')), explore(Protocol.without('ack.generation')))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(said) == 1 and "broken after 2 steps: A.claim B.claim" in said.pop()


def test_of_equally_short_schedules_the_one_that_tells_best_is_shown():
    finding = explore(Protocol.without("finish.generation"))["stale_commit"]
    assert str(finding.schedule) == "A.claim t=31 B.claim A.finish"
    assert finding.equally_short == 2
    twice = explore()["side_effect"]
    assert str(twice.schedule) == "A.claim A.call_external t=31 B.claim B.call_external"


def test_what_is_remembered_of_one_protocol_is_not_told_of_another():
    explore(None, "sound")
    schema = Protocol()["schema"].replace("generation >= 0", "generation BETWEEN 0 AND 1")
    stricter = Protocol().with_statement("schema", schema)
    assert explore(stricter, "sound").broken == ["sound"]
    swapped = Protocol().with_statement("release", Protocol()["finish"])
    assert explore(swapped, "sound", Scope(retry_delay=0)).broken == ["sound"]


def test_what_other_searches_have_learnt_changes_no_verdict(monkeypatch):
    protocols = [Protocol().without(*guards) for guards in ((), GENERATIONS[:2], GENERATIONS[1:3])]

    def found(*protocols):
        searched = {protocol: explore(protocol) for protocol in protocols}
        return {
            str(protocol): [(str(finding), finding.transitions) for finding in verdict.values()]
            for protocol, verdict in searched.items()
        }

    alone = {}
    for protocol in protocols:
        MEMORY.clear()
        graph_of.cache_clear()
        alone |= found(protocol)
    graph_of.cache_clear()
    assert found(*protocols) == found(*reversed(protocols)) == alone
    monkeypatch.setattr(graph, "MOST", 1_000)  # too little to keep what one search comes to
    assert found(*protocols) == found(*protocols) == alone


def test_a_search_that_failed_is_not_taken_for_one_that_came_to_its_end():
    claim = Protocol()["claim"].replace("RETURNING id, run_id", "RETURNING id, 'another' AS run_id")
    for _ in range(2):
        with pytest.raises(InputError, match="gives back what no worker can go on with"):
            explore(Protocol().with_statement("claim", claim), "final")


def test_what_a_matrix_calls_harmless_is_harmless_in_its_own_scope():
    scope = Scope(claims=1, crashes=0, releases=0, horizon=31)
    assert Matrix(["", "ack.owner"], scope).harmless == ["ack.owner"]


# A schedule on a real file


def findings(matrix):
    return [
        finding
        for verdict in matrix.verdicts.values()
        for finding in verdict.values()
        if finding.schedule
    ]


def test_every_schedule_of_the_matrix_comes_out_on_a_real_file_as_the_search_said(matrix):
    seen = {}
    for finding in findings(matrix):
        seen.setdefault((finding.protocol.struck_out, finding.schedule, finding.scope), finding)
    assert len(seen) > 60
    for finding in seen.values():
        steps = finding.schedule.follow(finding.protocol, finding.scope)
        events = [event for event in finding.trace.events if event.action != "reopen"]
        events = events[finding.scope.tasks :]  # the client has enqueued
        moves = [step for step in steps if step.move.actor != "t"]
        assert [event.action for event in events] == [step.move.action for step in moves]
        for event, step in zip(events, moves):
            assert event.t == step.before.now and event.actor == step.move.actor
            if step.move.action in ("claim", "take"):
                assert event.returned == (step.returned and step.returned.generation)
            elif step.move.action not in ("crash", "call_external"):
                assert event.returned == step.returned
            rows = [Task(**{name: row[name] for name in Task._fields}) for row in event.tasks]
            assert tuple(rows) == step.after.tasks
            assert [tuple(run.values()) for run in event.runs] == list(map(tuple, step.after.runs))
            assert event.external_calls == sum(step.after.ledger)
        finding.lab.close()


def test_with_the_guard_back_on_the_same_schedule_comes_out_otherwise(matrix):
    for guard, names in BROKEN.items():
        for name in names - {"can_take_over"}:
            finding = matrix.verdicts[guard][name]
            assert finding.differs is not None, (guard, name)
            first, second = finding.charts()
            assert first.horizon == second.horizon
            assert "The pictures differ at t=" in first.sentence and first.sentence.count("t=")
            assert second.trace.struck_out == () and first.trace.struck_out == (guard,)


@pytest.mark.parametrize("guard", ["finish.generation", "claim.one_per_run", "ack.generation"])
def test_the_plain_calls_leave_the_trace_of_the_schedule(guard):
    finding = next(f for f in explore(Protocol.without(guard)).values() if f.holds is False)
    names = {"Lab": Lab, "Protocol": Protocol}
    exec(finding.calls, names)
    assert names["lab"].trace.lines == finding.trace.lines


@pytest.mark.parametrize("guard", BROKEN)
def test_the_pytest_function_fails_and_passes_with_the_guard_back_on(guard, matrix):
    for name in BROKEN[guard] - {"can_take_over"}:
        text = matrix.verdicts[guard][name].test
        names = {"Lab": Lab, "Protocol": Protocol}
        exec(text, names)
        with pytest.raises(AssertionError):
            names[f"test_{name}"]()
        exec(text.replace(f'Protocol.without("{guard}")', "Protocol()"), names)
        names[f"test_{name}"]()


def test_the_pytest_function_for_the_side_effect_passes_with_a_key():
    text = explore()["side_effect"].test
    names = {"Lab": Lab}
    exec(text, names)
    with pytest.raises(AssertionError):
        names["test_side_effect"]()
    exec(text.replace("Lab()", "Lab(idempotency_key=True)"), names)
    names["test_side_effect"]()


def test_where_nothing_could_come_out_otherwise_there_is_no_pytest_function():
    finding = explore(scope=Scope(two_steps=True, releases=0, horizon=31))["one_live_holder"]
    with pytest.raises(InputError, match="broken under the full protocol, too"):
        finding.test
    with pytest.raises(InputError, match="final holds in all .* there is no schedule to play"):
        explore()["final"].lab


def test_a_statement_that_cannot_be_run_is_the_last_step_of_its_schedule():
    guards = [guard for guard in Protocol().guards if guard.startswith("renew.")]
    finding = explore(Protocol().without(*guards))["sound"]
    assert 'SQLite says "CHECK constraint failed' in finding.reason
    first, second = finding.charts()
    assert finding.schedule[-1].action == "renew" and finding.trace.events[-1].action != "renew"
    assert second.trace.events[-1].action == "renew" and second.trace.events[-1].refused
    assert finding.test.splitlines()[-1] == '    assert lab.renew("A") is None'


# Schedules as text


def test_a_schedule_is_read_back_from_its_line(matrix):
    for finding in findings(matrix):
        assert Schedule.read(str(finding.schedule)) == finding.schedule


def test_a_line_that_was_pasted_in_plays_on_a_real_file():
    schedule = Schedule.read(" A.claim  t=31\nB.claim A.finish ")
    lab = schedule.play(Protocol.without("finish.generation"))
    assert lab.trace.tasks[0]["state"] == "done"
    assert schedule.play().trace.tasks[0]["state"] == "running"
    late = Schedule.read("A.claim A.crash t=31 A.claim A.finish(generation=1)").play()
    assert late.trace.events[-1].reason == "sent gen 1, row has gen 2"


def test_what_was_sent_before_a_crash_names_its_task_where_there_are_two():
    scope = Scope(tasks=2, runs=2, horizon=2)
    machine = Machine(Protocol(), scope)
    state = machine.start()
    for action in ("claim", "crash"):
        state = next(s.after for s in machine.transitions(state) if s.move[:2] == ("A", action))
    late = {str(Schedule([s.move])) for s in machine.transitions(state) if s.move.generation}
    assert "A.renew(generation=1, task=1)" not in late and "A.finish(generation=1, task=1)" in late
    text = "A.claim A.crash A.claim A.release(generation=1, task=1)"
    assert Schedule.read(text).play(scope=scope).trace.tasks[0]["state"] == "pending"
    machine.close()


@pytest.mark.parametrize(
    "text, said",
    [
        (
            "A.claim A.finsh",
            "'A.finsh' is no step; the workers are A, B, C, and they may do: claim",
        ),
        ("D.claim", "'D.claim' is no step; the workers are A, B, C"),
        ("A.claim t=x", "'t=x' is no step; write t=31, A.claim or A.finish"),
        ("A.claim A.finish(gen=1)", "'A.finish(gen=1)' is no step; write t=31"),
        ("claim", "'claim' is no step"),
    ],
)
def test_a_line_that_cannot_be_read_names_the_word(text, said):
    with pytest.raises(InputError) as error:
        Schedule.read(text)
    assert str(error.value).startswith(said)


def test_a_step_that_cannot_be_taken_is_named():
    with pytest.raises(InputError, match=r"A.finish cannot happen at t=1, after B.claim\.$"):
        Schedule.read("B.claim A.finish").play()
    with pytest.raises(InputError, match=r"t=30 cannot happen at t=31, after A.claim t=31\.$"):
        Schedule.read("A.claim t=31 t=30").play()
    assert Schedule.read("A.claim t=31").play().t == 31  # the clock's last move counts, too


# Wrong arguments


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"workers": 4}, "workers must be at most 3, not 4."),
        ({"workers": 0}, "workers must be a whole number of at least 1, not 0."),
        ({"lease": 0}, "lease must be a whole number of at least 1, not 0."),
        ({"runs": 2}, "2 runs need as many tasks; there are 1."),
        ({"cap": True}, "cap must be a whole number of at least 1, not True."),
        ({"crashes": -1}, "crashes must be a whole number of at least 0, not -1."),
        ({"horizon": "41"}, "horizon must be a whole number of at least 1, not '41'."),
    ],
)
def test_a_scope_that_cannot_be_searched_says_why(arguments, said):
    with pytest.raises(InputError) as error:
        Scope(**arguments)
    assert str(error.value) == said


def test_a_wrong_argument_of_a_search_ends_in_a_sentence():
    with pytest.raises(InputError, match="there is no property 'stale'; there are one_live_holder"):
        explore(None, "stale")
    with pytest.raises(InputError, match=r"a protocol is Protocol\(\) or Protocol.without"):
        explore("finish.generation")
    with pytest.raises(InputError, match=r"a scope is Scope\(…\), not 3"):
        explore(scope=3)
    with pytest.raises(InputError, match="properties are names in a list, not <generator"):
        explore(properties=(name for name in ["side_effect"]))
    with pytest.raises(InputError, match="a search runs on SQLite"):
        explore(Protocol("postgres"))
    with pytest.raises(InputError, match="gives back what no worker can go on with"):
        explore(Protocol().with_statement("claim", "SELECT 1"))
    with pytest.raises(InputError, match="a statement is a text, not 5"):
        Protocol().with_statement("claim", 5)
    with pytest.raises(InputError, match="a schedule is a text, as 'A.claim t=31 B.claim', not 5"):
        Schedule.read(5)
    with pytest.raises(InputError, match="'final' was not asked for; there are stale_commit"):
        explore(None, ["stale_commit"])["final"]
    with pytest.raises(InputError, match="there is no guard 'nothing'"):
        Matrix(["nothing"])
    with pytest.raises(InputError, match="guards are a list with what each row strikes out"):
        Matrix("generation")


# The matrix


def test_the_matrix_says_the_number_of_states_in_each_cell(matrix):
    frame = matrix.to_frame()
    assert list(frame.columns) == list(PROPERTIES) and len(frame) == 1 + len(Protocol().guards)
    assert frame.loc["finish.generation", "stale_commit"] == "4 / 151"
    assert frame.loc["claim.takeover", "can_take_over"].startswith("never / ")
    assert frame.loc["(every guard)", "final"] == f"{explore()['final'].states:,}"


def test_no_text_of_the_matrix_covers_another_or_is_cut_off(matrix):
    figure = matrix.figure()
    figure.canvas.draw()
    boxes = [
        text.get_window_extent().shrunk(0.98, 0.9)
        for text in figure.axes[0].texts
        if not text.get_rotation()
    ]
    for box in boxes:
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1
    for first, second in combinations(boxes, 2):
        assert not first.overlaps(second)


def test_the_matrix_in_words_says_what_is_broken(matrix):
    assert "without claim.final: final (3), side_effect (5)" in matrix.sentence
    assert "with every guard: side_effect (5)" in matrix.sentence


def test_two_guards_can_be_struck_out_at_once():
    pairs = Matrix([("ack.owner", "ack.generation")], Scope(in_flight=0))
    assert set(pairs.verdicts["ack.owner + ack.generation"].broken) >= {"stale_commit", "final"}


def test_a_scope_is_printed_with_every_verdict():
    assert str(TWO_TASKS) in repr(explore()) and str(Scope()) in repr(explore(None, "final"))
    assert "2 workers, 1 task of 1 run, 2 claims, 1 crash, 1 release" in repr(explore()["final"])

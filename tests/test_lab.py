"""The lab: the five reference traces, the clock, undo, crashes, and the outside service."""

import sqlite3

import pytest

from leaselab import Lab, Protocol, Scenario, Step, scenarios
from leaselab.errors import InputError, StoreError

KEYS = list(scenarios)


@pytest.fixture
def lab():
    """A lab of the reader's own, with one task that A has claimed at t=1."""
    lab = Lab()
    lab.enqueue()
    lab.play_to(1).claim("A")
    yield lab
    lab.close()


# The reference traces


def test_the_first_scenarios_are_those_of_the_reference(oracle):
    assert KEYS[: len(oracle)] == list(oracle)


@pytest.mark.parametrize("key", KEYS[:5])
def test_a_scenario_leaves_the_reference_trace(key, oracle, either_server):
    lab = Lab(scenarios[key], server=either_server).play()
    steps = lab.to_frame().to_dict("records")
    assert len(steps) == len(oracle[key]["steps"])
    for mine, reference in zip(steps, oracle[key]["steps"]):
        for column, value in reference.items():
            if column != "teaches":
                assert (mine[column], type(mine[column])) == (value, type(value)), (column, mine)


@pytest.mark.parametrize("key", KEYS)
def test_the_trace_agrees_with_the_files(key):
    lab = Lab(scenarios[key]).play()
    connection = sqlite3.connect(lab.path)
    row = connection.execute("SELECT state, generation, lease_until FROM tasks").fetchone()
    connection.close()
    last = lab.to_frame().iloc[-1]
    assert row == (last.state, last.generation, last.lease_until)
    assert last.external_calls == len(lab.service.path.read_text().splitlines())


@pytest.mark.parametrize("key", KEYS)
def test_played_step_by_step_or_at_once_a_scenario_leaves_the_same_trace(key):
    at_once = Lab(scenarios[key]).play()
    step_by_step = Lab(scenarios[key])
    for t in range(at_once.t + 1):
        step_by_step.play_to(t)
    assert step_by_step.trace.events == at_once.trace.events


@pytest.mark.parametrize("key", KEYS)
def test_the_same_calls_by_hand_leave_the_same_trace(key):
    by_hand = Lab(Scenario(lease=scenarios[key].lease))
    for step in scenarios[key].steps:
        by_hand.play_to(step.t)
        actor = () if step.actor == "client" else (step.actor,)
        getattr(by_hand, step.action)(*actor, **step.arguments)
    assert by_hand.trace.events == Lab(scenarios[key]).play().trace.events


def test_a_worker_whose_clock_is_ahead_takes_a_live_lease_and_the_trace_says_so(lab):
    assert lab.play_to(15).claim("B", now=30) is None
    assert "15: B's claim is refused: 30 < 31, A's lease is live." in lab.trace.lines[-1]
    assert lab.claim("B", now=35) == 2
    assert lab.trace.title == (
        "t=15: B, whose clock says 35, claims task 1, which A holds until 31: generation 2, "
        "lease to 65"
    )
    assert "claim t=15 (clock at 35)" in lab.trace.sentence
    assert [(lease.start, lease.end) for lease in lab.trace.leases] == [(1, 31), (15, 65)]
    assert lab.play_to(31).finish("A", generation=1) is False
    assert lab.chart().png().startswith(b"\x89PNG")


def test_a_clock_that_is_ahead_after_the_end_is_an_ordinary_takeover(lab):
    lab.play_to(31).claim("B", now=40)
    assert "B takes over: generation 2" in lab.trace.title


# A claim in two steps, a clock that is behind, a question about a write


def test_two_workers_that_look_before_either_takes_both_hold_the_task():
    lab = Lab(scenarios["look_then_take"]).play_to(4)
    first, second = lab.trace.leases
    assert (first.owner, second.owner, second.start < first.end) == ("A", "B", True)
    assert lab.trace.title == "t=4: B takes task 1, which A holds: generation 2, lease [4, 34)"
    assert lab.play_to(10).trace.events[-1].refusals == ("generation",)


def test_a_worker_takes_only_what_it_has_seen_and_only_once(lab):
    assert lab.why_not("B", "take") == "B has seen no task; let it look first"
    with pytest.raises(InputError, match="B has seen no task; let it look first"):
        lab.take("B")
    assert lab.look("B") is None
    assert lab.trace.title == "t=1: B looks and finds nothing: 1 < 31, A's lease is live"
    assert lab.play_to(31).look("B") == 1
    assert lab.take("B") == 2
    assert lab.why_not("B", "take") is not None
    lab.look("A")
    lab.crash("A")
    lab.reopen("A")
    assert lab.why_not("A", "take") is not None


def test_a_late_beat_carries_the_time_at_which_it_was_sent(lab):
    assert lab.play_to(20).renew("A") == 50
    assert lab.play_to(25).renew("A", now=10) == 50
    assert lab.trace.title == (
        "t=25: A renews generation 1, its clock at 10: the lease now ends at 50"
    )
    assert lab.play_to(60).renew("A", now=49) == 79  # nobody has claimed meanwhile
    assert lab.play_to(90).renew("A", now=79) is None
    assert lab.trace.title.endswith("79 < 79 is false, the lease has ended")


def test_a_question_about_a_write_has_the_three_outcomes_to_choose_from():
    lab = Lab(scenarios["fenced_write"]).play_to(31)
    question = lab.ask("lease_lost")
    assert question.choices == ("committed", "revision_conflict", "lease_lost")
    lab.next()
    assert question.right
    assert lab.trace.title == (
        "t=33: A's write to run-1 is refused (lease_lost): the row's owner is B, sent gen 1, "
        "row has gen 2"
    )


# Plain calls give back what the protocol gives back


def test_plain_calls_give_back_what_came_back(lab):
    assert lab.play_to(30).claim("B") is None
    assert lab.play_to(31).claim("B") == 2
    assert lab.finish("A", generation=1) is False
    assert lab.renew("B") == 61
    assert lab.commit_run("B", "x", revision=0) == "committed"
    assert lab.commit_run("B", "y", revision=0) == "revision_conflict"
    assert lab.commit_run("A", "y", revision=1, generation=1) == "lease_lost"
    assert lab.release("B", available_at=40) is True
    assert lab.play_to(40).claim("A") == 3
    assert lab.exhaust("A") is False
    assert lab.ack("A") is True
    assert lab.call_external("A") == 1


def test_the_fourth_claim_can_be_ended_in_the_lab():
    lab = Lab()
    lab.enqueue()
    for t in (0, 30, 60, 90):
        lab.play_to(t).claim("A")
    assert lab.exhaust("A") is True
    assert lab.trace.tasks[0]["state"] == "failed"


# Crashes


def test_a_crash_closes_the_connection_and_forgets_the_claim(lab):
    lab.play_to(4).crash("A")
    assert lab.workers["A"].store is None
    assert lab.workers["A"].held is None
    assert lab.trace.tasks[0]["lease_owner"] == "A"


def test_a_reopened_worker_works_on_the_same_file_and_remembers_nothing(lab):
    lab.crash("A")
    lab.reopen("A")
    assert lab.workers["A"].store.path == lab.path
    with pytest.raises(InputError, match="A holds no claim; generation=… submits an earlier one"):
        lab.finish("A")
    assert lab.finish("A", generation=1) is True


@pytest.mark.parametrize("action", ["claim", "renew", "finish", "crash", "call_external"])
def test_a_crashed_worker_does_nothing(lab, action):
    lab.crash("A")
    events = len(lab.events)
    with pytest.raises(InputError, match="A has crashed; reopen it first."):
        getattr(lab, action)("A")
    assert len(lab.events) == events


def test_a_worker_that_runs_cannot_be_reopened(lab):
    with pytest.raises(InputError, match="A has not crashed"):
        lab.reopen("A")


def test_a_scripted_step_of_a_crashed_worker_is_left_out():
    lab = Lab(scenarios["crash_and_takeover"]).play_to(20)
    lab.crash("B")
    lab.play()
    assert [event.action for event in lab.events if event.actor == "B"] == ["crash"]


def test_a_scripted_finish_of_a_generation_that_was_never_given_is_left_out():
    protocol = Protocol().without("claim.takeover")
    lab = Lab(scenarios["crash_and_takeover"], protocol=protocol).play()
    assert [event.action for event in lab.events if event.actor == "B"] == ["claim", "claim"]
    assert lab.trace.tasks[0]["generation"] == 1


def test_a_finish_sent_before_a_crash_arrives_all_the_same(lab):
    assert lab.finish("A", arrives_at=33) is None
    lab.crash("A")
    lab.play_to(31).claim("B")
    lab.play_to(40)
    late = lab.events[-1]
    assert (late.t, late.actor, late.action, late.returned) == (33, "A", "finish", False)
    assert late.refusals == ("generation",)


# The clock, and undo


def test_the_clock_never_goes_back(lab):
    lab.play_to(31)
    with pytest.raises(InputError, match="the clock stands at t=31 and only goes forward"):
        lab.play_to(30)


@pytest.mark.parametrize("t", [-1, 1.5, True, "31", None])
def test_the_clock_takes_whole_numbers_only(lab, t):
    with pytest.raises(InputError, match="t must be a whole number"):
        lab.play_to(t)
    with pytest.raises(InputError, match="t must be a whole number"):
        lab.rewind(t)


def test_moving_the_clock_changes_nothing_in_the_file(lab):
    before = lab.path.read_bytes(), lab._reader.tasks()
    lab.play_to(1000)
    assert (lab.path.read_bytes(), lab._reader.tasks()) == before


@pytest.mark.parametrize("key", KEYS)
def test_back_undoes_one_step_after_the_other_in_the_file_too(key):
    lab = Lab(scenarios[key]).play()
    complete = lab.trace.events
    for length in range(len(complete) - 1, -1, -1):
        lab.back()
        assert lab.trace.events == complete[:length]
        rows = complete[length - 1].tasks if length else ()
        assert tuple(lab._reader.tasks()) == rows
    assert lab.play().trace.events == complete


def test_back_first_returns_to_the_last_event_if_only_the_clock_has_moved(lab):
    lab.play_to(20).back()
    assert (lab.t, len(lab.events)) == (1, 2)


def test_rewind_undoes_everything_after_an_instant():
    lab = Lab(scenarios["stale_commit"]).play()
    lab.rewind(31)
    assert lab.t == 31
    assert lab._reader.tasks()[0]["generation"] == 2
    assert lab.play().trace.events == Lab(scenarios["stale_commit"]).play().trace.events


def test_acting_after_going_back_keeps_the_other_branch():
    lab = Lab(scenarios["stale_commit"]).play()
    complete = lab.trace.events
    lab.rewind(29)
    lab.claim("B")
    assert len(lab.branches) == 1
    lab.other_branch()
    assert lab.trace.events == complete
    lab.other_branch()
    assert [event.action for event in lab.events][-1] == "claim"
    assert lab.t == 29


def test_the_script_goes_on_after_an_action_of_the_readers_own():
    lab = Lab(scenarios["crash_and_takeover"]).play_to(3)
    lab.renew("A")
    lab.play()
    taken_over = [event for event in lab.events if event.action == "claim" and not event.refused]
    assert [event.t for event in taken_over] == [1, 40]  # A's lease now ends at t=33


def test_there_is_no_other_branch_at_first(lab):
    with pytest.raises(InputError, match="no other branch; go back and do something else"):
        lab.other_branch()


# Undo in odd places; each of these once went wrong


def test_a_request_cannot_arrive_at_the_instant_at_which_it_is_sent(lab):
    with pytest.raises(
        InputError, match="the time of arrival must be a whole number of at least 2"
    ):
        lab.finish("A", arrives_at=1)


def test_steps_that_look_alike_are_kept_apart_by_undo():
    steps = (
        Step(0, "client", "enqueue", {"run_id": "run-1"}),
        Step(0, "client", "enqueue", {"run_id": "run-2"}),
        Step(1, "A", "claim"),
    )
    lab = Lab(Scenario(steps=steps)).play()
    lab.restart().play()
    assert [task["run_id"] for task in lab.trace.tasks] == ["run-1", "run-2"]


def test_the_readers_own_call_is_not_taken_for_the_scripts_by_undo():
    lab = Lab(scenarios["unknown_outcome"]).play_to(3)
    lab.call_external("A")
    before = lab.trace.events
    lab.back().next()
    assert lab.trace.events == before


def test_what_was_left_out_comes_back_with_undo():
    lab = Lab(scenarios["crash_and_takeover"]).play_to(20)
    lab.crash("B")
    lab.play()
    lab.rewind(5)
    lab.future = [step for step in lab.future if step.number is not None]
    assert lab.play().trace.events == Lab(scenarios["crash_and_takeover"]).play().trace.events


def test_a_step_that_failed_is_still_to_come():
    lab = Lab(scenarios["stale_commit"]).play_to(4)
    lab.path.unlink()
    with pytest.raises(StoreError):
        lab.next()
    assert lab.restart().play().trace.events == Lab(scenarios["stale_commit"]).play().trace.events


def test_back_undoes_two_arrivals_at_one_instant(lab):
    lab.call_external("A", acts_at=20)
    lab.finish("A", arrives_at=20)
    lab.play_to(20).back()
    assert lab.t == 1 and lab.under_way == 2


def test_going_between_branches_loses_nothing():
    lab = Lab(scenarios["stale_commit"]).play_to(29)
    lab.renew("A", generation=1)
    lab.call_external("B")
    lab.back().back()
    lab.crash("B")
    mine = lab.trace.events
    lab.other_branch()
    assert [event.action for event in lab.events][-2:] == ["renew", "call_external"]
    lab.other_branch()
    assert lab.trace.events == mine


def test_a_deleted_ledger_is_named_before_anything_is_done(lab):
    lab.service.path.unlink()
    with pytest.raises(StoreError, match="service.jsonl is gone; restart"):
        lab.crash("A")
    assert lab.workers["A"].store is not None


def test_a_closed_lab_says_so(lab):
    lab.close()
    for call in (lambda: lab.claim("B"), lab.restart):
        with pytest.raises(StoreError, match="this lab is closed|is closed; open a new one"):
            call()


def test_an_earlier_generation_of_another_task_is_submitted_to_that_task(lab):
    lab.finish("A")
    lab.enqueue()
    lab.claim("A")
    assert lab.finish("A", generation=1, task=1) is False
    assert lab.trace.tasks[1]["state"] == "running"


def test_a_late_finish_ends_the_claim_although_it_was_renewed(lab):
    lab.finish("A", arrives_at=20)
    lab.play_to(10).renew("A")
    lab.play_to(20)
    assert lab.trace.tasks[0]["state"] == "done" and lab.why_not("A", "renew") == "A holds no claim"


def test_going_back_asks_again_about_what_lies_ahead():
    lab = Lab(scenarios["stale_commit"]).play_to(31)
    lab.ask("refused")
    lab.next()
    lab.back()
    assert lab.ask().answer is None


def test_an_answer_after_the_step_does_not_count():
    lab = Lab(scenarios["stale_commit"]).play_to(31)
    question = lab.ask()
    lab.next()
    with pytest.raises(InputError, match="the step is done; an answer comes before it"):
        question.lock_in("refused")
    assert lab.score == "0 of 0 predictions right"


def test_the_choices_follow_the_ledger():
    lab = Lab(scenarios["duplicate_side_effect"]).play_to(31)
    lab.ask()
    lab.call_external("A")
    assert lab.ask().choices == ("2", "3")


# The outside service


@pytest.mark.parametrize(
    "truth, ledger",
    [({}, 1), ({"lost": "request"}, 0), ({"lost": "reply"}, 1), ({"acts_at": 20}, 1)],
)
def test_one_timeout_three_truths(lab, truth, ledger):
    returned = lab.call_external("A", **truth)
    assert returned == ("timeout" if truth else 1)
    lab.play_to(30)
    assert lab.trace.external_calls == len(lab.ledger) == ledger


def test_a_slow_service_acts_when_its_time_has_come_and_not_before(lab):
    lab.call_external("A", acts_at=20)
    assert lab.play_to(19).trace.external_calls == 0
    assert lab.play_to(20).trace.external_calls == 1
    assert lab.events[-1].action == "act"


def test_the_service_remembers_an_idempotency_key(lab):
    for _ in range(2):
        lab.call_external("A", key="task-1")
    assert lab.trace.external_calls == 1
    lab.call_external("A", key="another")
    assert lab.trace.external_calls == 2


def test_a_key_that_is_known_is_told_as_such():
    lab = Lab(scenarios["duplicate_side_effect"], idempotency_key=True).play_to(32)
    assert "which knows the key task-1 and does not act again: the ledger says 1" in repr(lab)
    slow = Lab(idempotency_key=True)
    slow.enqueue()
    slow.claim("A")
    slow.call_external("A", acts_at=5)
    slow.call_external("B")
    slow.play_to(5)
    assert "the service knows the key task-1 and does not act" in repr(slow)


def test_with_idempotency_keys_the_duplicate_side_effect_does_not_happen():
    lab = Lab(scenarios["duplicate_side_effect"], idempotency_key=True).play()
    assert lab.trace.external_calls == 1
    assert lab.trace.tasks[0]["state"] == "done"


def test_going_back_takes_the_ledger_back_too(lab):
    lab.call_external("A")
    lab.back()
    assert lab.ledger == []


# Questions


def test_a_prediction_is_judged_by_what_the_file_answers():
    for answer, right in (("refused", True), ("accepted", False)):
        lab = Lab(scenarios["stale_commit"]).play_to(31)
        question = lab.ask(answer)
        assert question.right is None
        lab.next()
        assert question.right is right
        assert lab.score == f"{int(right)} of 1 predictions right"


def test_the_verdict_follows_the_protocol_and_not_the_script():
    lab = Lab(scenarios["stale_commit"], protocol=Protocol().without("finish.generation"))
    lab.play_to(31)
    lab.ask("refused")
    lab.next()
    assert lab.score == "0 of 1 predictions right"


def test_a_question_about_the_service_is_about_its_ledger():
    lab = Lab(scenarios["duplicate_side_effect"]).play_to(31)
    question = lab.ask("2")
    assert question.choices == ("1", "2")
    lab.next()
    assert question.right is True


def test_a_step_can_be_done_without_an_answer():
    lab = Lab(scenarios["stale_commit"]).play_to(31)
    lab.ask()
    lab.play()
    assert lab.score == "0 of 0 predictions right"


def test_an_answer_that_is_locked_in_cannot_be_changed():
    lab = Lab(scenarios["stale_commit"]).play_to(31)
    lab.ask("refused")
    with pytest.raises(InputError, match="locked in already"):
        lab.ask("accepted")


def test_an_answer_that_is_no_choice_is_refused():
    lab = Lab(scenarios["stale_commit"]).play_to(31)
    with pytest.raises(InputError, match="the answer is one of accepted, refused, not 'perhaps'"):
        lab.ask("perhaps")


def test_nothing_is_asked_when_nothing_is_left():
    with pytest.raises(InputError, match="there is no step left to ask about"):
        Lab().ask()


# Why not


def test_the_reason_is_given_in_the_numbers_of_the_moment(lab):
    assert lab.play_to(30).why_not("B", "claim") == "30 < 31, A's lease is live"
    assert lab.play_to(31).why_not("B", "claim") is None
    assert lab.why_not("B", "finish") == "B holds no claim"
    lab.crash("A")
    assert lab.why_not("A", "claim") == "A has crashed; reopen it first"


def test_asking_why_not_leaves_no_trace(lab):
    events, rows = len(lab.events), lab._reader.tasks()
    lab.play_to(31).why_not("B", "claim")
    assert (len(lab.events), lab._reader.tasks()) == (events, rows)


# Bad input


def test_an_unknown_worker_is_refused_with_the_known_ones(lab):
    with pytest.raises(InputError, match="there is no worker 'C'; there are A, B"):
        lab.claim("C")


def test_an_unknown_scenario_is_refused_with_the_known_ones():
    with pytest.raises(KeyError, match="there is no scenario 'stale'; there are claim_and_finish"):
        scenarios["stale"]
    with pytest.raises(InputError, match="a scenario is one of leaselab.scenarios, not 'stale'"):
        Lab("stale")


@pytest.mark.parametrize("lease", [0, -30, 1.5, True, "30", float("nan")])
def test_a_scenario_with_a_lease_that_is_none_is_refused(lease):
    with pytest.raises(InputError, match="lease must be a whole number of at least 1"):
        Lab(Scenario(lease=lease))


def test_an_unknown_outcome_is_refused_and_leaves_no_trace(lab):
    events = len(lab.events)
    with pytest.raises(InputError, match="outcome must be 'done' or 'uncertain'"):
        lab.finish("A", "perhaps")
    assert len(lab.events) == events
    assert lab.finish("A") is True


def test_a_generation_that_is_no_whole_number_is_refused(lab):
    with pytest.raises(InputError, match="generation must be a whole number"):
        lab.finish("A", generation="one")


def test_what_is_lost_is_the_request_or_the_reply(lab):
    with pytest.raises(InputError, match="lost must be 'request', 'reply' or None"):
        lab.call_external("A", lost="everything")
    assert lab.ledger == []


def test_nothing_arrives_before_it_was_sent(lab):
    lab.play_to(10)
    for call in (lambda: lab.finish("A", arrives_at=9), lambda: lab.call_external("A", acts_at=9)):
        with pytest.raises(InputError, match="the time of arrival must be a whole number"):
            call()
    assert lab.finish("A") is True


def test_a_file_that_was_deleted_is_named_with_the_way_out(lab):
    lab.path.unlink()
    with pytest.raises(StoreError, match="is gone; restart\\(\\) begins again on a fresh file"):
        lab.finish("A")
    lab.restart()
    lab.enqueue()
    assert lab.claim("A") == 1


@pytest.mark.parametrize("name", ["<script>", "Robert'); DROP TABLE tasks;--", "工人甲", "A B"])
def test_a_worker_may_have_any_name(name):
    lab = Lab(Scenario(workers=(name, "B")))
    lab.enqueue()
    assert lab.claim(name) == 1
    lab.chart().png()
    html = lab.table()._repr_html_()
    assert "<script>" not in html
    assert lab.trace.tasks[0]["lease_owner"] == name


@pytest.mark.parametrize(
    "steps, reason",
    [
        ((Step(0, "A", "jump"),), "step 1 of the scenario has no action 'jump'"),
        ((Step(0, "C", "claim"),), "has no worker 'C'; there are A, B"),
        ((Step(0, "client", "claim"),), "the client enqueues, and nothing else"),
        ((Step(5, "A", "claim"), Step(3, "A", "claim")), "the time of step 2 .* at least 5"),
        ((Step(0, "A", "crash", ask=True),), "there is nothing to predict about A's crash"),
    ],
)
def test_a_scenario_that_cannot_be_played_is_refused_with_the_step(steps, reason):
    with pytest.raises(InputError, match=reason):
        Lab(Scenario(steps=steps))


@pytest.mark.parametrize(
    "call",
    [
        lambda lab: Lab(protocol="x"),
        lambda lab: Lab(Scenario(workers=("client",))),
        lambda lab: lab.why_not("A", "jump"),
        lambda lab: lab.call_external("A", lost="request", acts_at=5),
        lambda lab: lab.call_external("A", key=object()),
        lambda lab: lab.finish("A", outcome=None),
        lambda lab: lab.enqueue(None),
        lambda lab: lab.enqueue("\ud800"),
        lambda lab: lab.play_to(2**63),
        lambda lab: setattr(lab, "truth", "request"),
    ],
)
def test_other_input_that_cannot_be_used_ends_in_a_sentence(lab, call):
    events = len(lab.events)
    with pytest.raises(InputError) as caught:
        call(lab)
    assert str(caught.value).endswith(".") and len(lab.events) == events


def test_a_crash_before_there_is_a_task_is_told_without_none():
    lab = Lab(idempotency_key=True)
    lab.crash("A")
    lab.call_external("B")
    assert "there is no task yet" in lab.trace.lines[0]
    assert not [line for line in [*lab.trace.lines, lab.trace.sentence] if "None" in line]
    assert lab.ledger[0]["key"] is None


def test_worker_names_must_be_texts_and_differ():
    for workers in (("",), ("A", "A"), (1, 2), ()):
        with pytest.raises(InputError, match="workers must be different names"):
            Lab(Scenario(workers=workers))


# Nothing is left behind


def test_a_closed_lab_leaves_no_folder_behind():
    lab = Lab(scenarios["stale_commit"]).play()
    folder = lab.folder
    lab.close()
    assert not folder.exists()


def test_a_forgotten_lab_leaves_no_folder_behind():
    lab = Lab(scenarios["stale_commit"]).play()
    folder = lab.folder
    del lab
    assert not folder.exists()


def test_a_scenario_may_have_other_workers_and_another_lease():
    scenario = Scenario(
        steps=(Step(0, "client", "enqueue"), Step(0, "W1", "claim")),
        lease=600,
        workers=("W1", "W2"),
    )
    assert Lab(scenario).play().trace.tasks[0]["lease_until"] == 600

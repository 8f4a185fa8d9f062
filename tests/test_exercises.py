"""Each lesson's exercise: its solution is accepted, what only looks like one is not."""

import runpy
from functools import partial
from pathlib import Path

import pytest

from leaselab import Lab, Protocol
from leaselab.exercises import exercises

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
LESSONS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def solution(lesson):
    return runpy.run_path(str(NOTEBOOKS / "solutions" / f"{lesson}.py"))["answer"]


@pytest.fixture(autouse=True)
def one_server(request, monkeypatch):
    """The exercise of lesson 14 starts a server each time; here all of them share one."""
    if "14_postgresql" in request.node.name:
        server = request.getfixturevalue("server")
        monkeypatch.setenv("LEASELAB_POSTGRES_URL", server.url)


def said(capsys, lesson, answer):
    exercises[lesson].check(answer)
    return capsys.readouterr().out.strip()


def test_every_lesson_has_an_exercise_and_a_solution_under_its_own_name():
    assert sorted(exercises) == LESSONS
    assert sorted(path.stem for path in (NOTEBOOKS / "solutions").glob("*.py")) == LESSONS


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_solution_is_accepted(lesson, capsys):
    more = {"15_self_test": ": without finish.generation the fact is 'done', your choice "}
    told = said(capsys, lesson, solution(lesson))
    assert told.startswith(f"Solved{more[lesson]}" if lesson in more else "Solved.")


@pytest.mark.parametrize("lesson", LESSONS)
def test_another_lessons_solution_is_not(lesson, capsys):
    for other in LESSONS:
        if other not in (lesson, "04_unknown_outcome"):
            assert said(capsys, lesson, solution(other)).startswith("Not yet: ")


def early(lab):
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(20).renew("A")
    lab.crash("A")
    lab.play_to(60).claim("B")


def without_the_refusal(lab):
    lab.enqueue()
    for t in (1, 31):
        lab.play_to(t).claim("A")
    lab.finish("A")


def two_workers(lab):
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(31).claim("B")
    lab.finish("A", generation=1)


def waits_at_the_service(lab, truth):
    """A claims, calls at t=25 and keeps its lease."""
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(25).call_external("A", **truth)
    lab.renew("A")


def looks_at_the_truth(lab, truth):
    waits_at_the_service(lab, truth)
    lab.play_to(40).finish("A", "done" if truth.get("lost") == "reply" else "uncertain")


def calls_again(lab, truth):
    waits_at_the_service(lab, truth)
    lab.call_external("A")
    lab.play_to(40).finish("A", "uncertain")


def writes_too_early(lab, truth):
    waits_at_the_service(lab, truth)
    lab.finish("A", "uncertain")


def does_not_renew(lab, truth):
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(25).call_external("A", **truth)
    lab.play_to(40).finish("A", "uncertain")


def with_a_crash(lab):
    lab.enqueue()
    lab.claim("A")
    lab.call_external("A")
    lab.crash("A")
    lab.play_to(30).claim("B")
    lab.call_external("B")
    lab.finish("B")


def calls_twice_itself(lab):
    lab.enqueue()
    lab.claim("A")
    lab.call_external("A", key="one")
    lab.call_external("A", key="two")
    lab.finish("A")


def gives_back(lab):
    lab.enqueue()
    lab.claim("A")
    lab.call_external("A")
    lab.release("A")
    lab.claim("B")
    lab.call_external("B")
    lab.finish("B")


def takes_what_is_held(lab):
    lab.enqueue()
    lab.look("A")
    lab.claim("B")
    lab.take("A")


def takes_what_is_uncertain(lab):
    lab.enqueue()
    lab.look("A")
    lab.claim("B")
    lab.finish("B", "uncertain")
    lab.take("A")


def looks_after_the_finish(lab):
    lab.enqueue()
    lab.claim("B")
    lab.finish("B")
    lab.look("A")
    lab.take("A")


def claims_what_is_done(lab):
    lab.enqueue()
    lab.look("A")
    lab.claim("B")
    lab.finish("B")
    lab.claim("A")


def waits_till_the_end(lab):
    """A renews at the end itself, which is not held."""
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(61).renew("A")


def renews_each_20(lab):
    lab.enqueue()
    lab.play_to(1).claim("A")
    for t in (21, 41, 61):
        lab.play_to(t).renew("A")
    for t in (120, 121):
        lab.play_to(t).claim("B")


def renews_with_a_clock_ahead(lab):
    lab.enqueue()
    lab.play_to(1).claim("A")
    for now in (60, 119, 178):
        lab.renew("A", now=now)
    for t in (237, 238):
        lab.play_to(t).claim("B")


def renews_as_late_as_possible(lab, claims=(), renewals=(60, 119, 178)):
    lab.enqueue()
    lab.play_to(1).claim("A")
    for t in renewals:
        lab.play_to(t).renew("A")
    for t in claims:
        lab.play_to(t).claim("B")


def gives_back_for_later(lab):
    renews_as_late_as_possible(lab, renewals=(2, 3, 4))
    lab.release("A", available_at=238)
    for t in (237, 238):
        lab.play_to(t).claim("B")


def asks_only_at_the_end(lab):
    renews_as_late_as_possible(lab, claims=(238,))


def asks_a_second_late(lab):
    renews_as_late_as_possible(lab, claims=(237, 239))


def with_outline(run):
    return f"{run['value']}, outline" if run["value"] else "outline"


def writes(lab, run, value=with_outline):
    """Until it is committed; stops when the lease is lost."""
    said = None
    while said != "committed":
        said = lab.commit_run("A", value(run), revision=run["revision"])
        if said == "lease_lost":
            return
        run = lab.workers["A"].store.runs()[0]
    lab.ack("A")


def gives_up_on_a_conflict(lab, run):
    if lab.commit_run("A", "outline", revision=run["revision"]) == "committed":
        lab.ack("A")


def sends_the_same_again(lab, run):
    while lab.commit_run("A", "outline", revision=run["revision"]) != "committed":
        pass
    lab.ack("A")


def writes_over_what_is_there(lab, run):
    writes(lab, run, value=lambda run: "outline")


def reads_first(lab, run):
    writes(lab, lab.workers["A"].store.runs()[0])


def acknowledges_in_any_case(lab, run):
    solution("08_fenced_write")(lab, run)
    if lab.trace.events[-1].action != "ack":
        lab.ack("A", generation=1)


def claims_what_it_has_lost(lab, run):
    solution("08_fenced_write")(lab, run)
    if lab.trace.events[-1].action != "ack":
        lab.play_to(70).claim("A")


def does_not_acknowledge(lab, run):
    lab.commit_run("A", "outline", revision=run["revision"])


def lets_b_do_it(lab, run):
    lab.play_to(31).claim("B")


def fails_by_crashes(lab):
    lab.enqueue()
    for t in (0, 30, 60):
        lab.play_to(t).claim("A")
        lab.crash("A")
        lab.reopen("A")
    lab.play_to(90).claim("A")
    lab.exhaust("A")


def gives_back_three_times(lab):
    lab.enqueue()
    for _ in range(3):
        lab.claim("A")
        lab.release("A")
    lab.claim("A")
    lab.exhaust("A")


def is_late_after_giving_back(lab):
    """The finish is refused because the task was given back, not because it was slow."""
    lab.enqueue()
    lab.claim("A")
    lab.release("A")
    lab.play_to(40).finish("A", generation=1)
    for _ in range(2):
        lab.claim("A")
        lab.release("A")
    lab.claim("A")
    lab.exhaust("A")


def is_slow_three_times(lab):
    lab.enqueue()
    for t in (30, 60, 90):
        lab.claim("A")
        lab.play_to(t).finish("A")
    lab.claim("A")
    lab.exhaust("A")


def stops_before_the_fourth_claim(lab, **limit):
    lab.enqueue()
    lab.claim("A")
    lab.release("A")
    lab.claim("A")
    lab.play_to(30).finish("A")
    lab.claim("A")
    lab.exhaust("A", **limit)


def brings_a_limit_of_its_own(lab):
    stops_before_the_fourth_claim(lab, max_attempts=2)


def strikes_out(*guards):
    return lambda: guards


def hands_in(**changed):
    """The solution of lesson 12 with other texts for some of the four."""
    return lambda: {**solution("12_write_your_own")(), **changed}


STATES = {"running": "B holds it.", "done": "A's work is done.", "pending": "It waits."}


def state(lab):
    return lab.trace.tasks[0]["state"]


def asks(
    text="A finishes, B claims. What does the row say?", choices=STATES, fact=state, late=True
):
    """A finish that comes too late, or in time and then another claim, as a question."""

    def answer(lab):
        lab.enqueue()
        lab.play_to(1).claim("A")
        if late:
            lab.play_to(31).claim("B")
        lab.finish("A")
        lab.play_to(31).claim("B")
        return text, choices, fact(lab)

    return answer


def writes_up(
    *steps, source="our queue", broken="without finish.generation", damage="stale finish"
):
    """A late finish of A as a table, or other steps."""
    late = (
        *("0 | A | claim | generation 1", "30 | B | claim | generation 2"),
        *("31 | A | finish 1 done | refused", "32 | B | finish 2 done | accepted"),
    )
    fields = ("incident: late", f"source: {source}", "what: late", "lease: 30", "workers: A, B")
    broken = ("tasks: r1", f"broken: {broken}", f"damage: {damage} accepted")
    return lambda: "\n".join([*fields, *broken, *(steps or late)])


def asks_for_a_lock(claim):
    return Protocol("postgres")["claim"]


def asks_nothing_again(claim):
    return claim


def asks_only_for_pending(claim):
    return claim.replace("RETURNING", "AND state = 'pending' RETURNING")


def asks_the_inner_select_twice(claim):
    return claim.replace("WHERE TRUE", "WHERE candidate.state IN ('pending', 'running')")


def forgets_the_done(claim):
    claim = "\n".join(line for line in claim.splitlines() if "guard: final" not in line)
    free = "AND (lease_until IS NULL OR lease_until <= :now)"
    return claim.replace("RETURNING", free + " RETURNING")


def is_no_sql(claim):
    return "PLEASE " + claim


WRONG = [
    ("02_crash_and_takeover", early, "B takes over at t=60, but nothing shows that t=59"),
    (
        "03_stale_commit",
        without_the_refusal,
        "the file has refused no finish of A by its generation",
    ),
    ("03_stale_commit", two_workers, "only A may act"),
    ("04_unknown_outcome", looks_at_the_truth, "does not end as uncertain"),
    ("04_unknown_outcome", calls_again, "call the service just once"),
    ("04_unknown_outcome", writes_too_early, "it must not write at t=25"),
    ("04_unknown_outcome", does_not_renew, "does not end as uncertain"),
    ("05_duplicate_side_effect", with_a_crash, "nobody may crash"),
    ("05_duplicate_side_effect", calls_twice_itself, "A and B have to call the service once"),
    ("05_duplicate_side_effect", gives_back, "nobody may give the task back"),
    ("06_atomic_claim", takes_what_is_held, "the task was running, not done"),
    ("06_atomic_claim", takes_what_is_uncertain, "the task was uncertain, not done"),
    ("06_atomic_claim", looks_after_the_finish, "A has seen no task; let it look first"),
    ("06_atomic_claim", claims_what_is_done, "nobody has taken a task that it saw"),
    ("07_heartbeat", waits_till_the_end, "accepted 0 renewals, not 3 (t=61: 61 < 61 is false"),
    ("07_heartbeat", renews_each_20, "A's lease lasts until t=121; it can last longer"),
    ("07_heartbeat", renews_with_a_clock_ahead, "A's clock is right"),
    ("07_heartbeat", gives_back_for_later, "A's lease lasts until t=64"),
    ("07_heartbeat", asks_only_at_the_end, "nothing shows that t=237 is too early"),
    ("07_heartbeat", asks_a_second_late, "B has not taken over at the first instant"),
    ("08_fenced_write", gives_up_on_a_conflict, "if B has written: the run says 'title', not"),
    ("08_fenced_write", sends_the_same_again, "if B has written: A goes on and on"),
    ("08_fenced_write", writes_over_what_is_there, "the run says 'outline', not 'title, outline'"),
    ("08_fenced_write", writes, "the answer was lost: the run says 'outline, outline'"),
    ("08_fenced_write", reads_first, "A begins with a write of 'outline' on revision 0"),
    ("08_fenced_write", acknowledges_in_any_case, "after lease_lost A has to stop; it sends ack"),
    ("08_fenced_write", claims_what_it_has_lost, "after lease_lost A has to stop; it sends claim"),
    ("08_fenced_write", does_not_acknowledge, "A's task is not acknowledged"),
    ("08_fenced_write", lets_b_do_it, "only A may act"),
    ("09_attempt_limit", fails_by_crashes, "nobody may crash"),
    ("09_attempt_limit", gives_back_three_times, "slower than its lease"),
    ("09_attempt_limit", is_late_after_giving_back, "slower than its lease"),
    ("09_attempt_limit", is_slow_three_times, "no worker has given the task back"),
    ("09_attempt_limit", stops_before_the_fourth_claim, "no exhaust was accepted"),
    ("09_attempt_limit", brings_a_limit_of_its_own, "the limit is 3, not 2"),
    ("11_break_a_guard", strikes_out("ack.owner"), "two guards are to be struck out, not 1"),
    ("11_break_a_guard", lambda: "ack.owner", "two guards are to be struck out, not 1"),
    ("11_break_a_guard", strikes_out(*["ack.owner"] * 2), "two guards are to be struck out, not 1"),
    ("11_break_a_guard", strikes_out("owner", "generation"), "'owner' is no guard; there are ack."),
    (
        "11_break_a_guard",
        strikes_out("claim.final", "ack.owner"),
        "without claim.final alone final is broken after 3 steps: A.claim A.finish B.claim",
    ),
    (
        "11_break_a_guard",
        strikes_out("finish.generation", "finish.running"),
        "without finish.generation alone stale_commit is broken after 4 steps",
    ),
    (
        "11_break_a_guard",
        strikes_out("renew.owner", "renew.generation"),
        "without both of them final holds in all",
    ),
    (
        "11_break_a_guard",
        strikes_out("ack.owner", "release.generation"),
        "without both of them final holds in all",
    ),
    ("12_write_your_own", lambda: None, "has to return a dict of four texts: claim, renew, finish"),
    ("12_write_your_own", lambda: {"claim": "UPDATE"}, "has to return a dict of four texts"),
    ("12_write_your_own", hands_in(more="SELECT 1"), "has to return a dict of four texts"),
    (
        "12_write_your_own",
        lambda: {name: Protocol()[name] for name in ("claim", "renew", "finish", "commit_run")},
        "claim has the word EXISTS.",
    ),
    ("12_write_your_own", hands_in(renew=Protocol()["renew"]), "renew has the word MAX."),
    ("12_write_your_own", hands_in(commit_run="update or ignore runs"), "has the word OR."),
    ("12_write_your_own", hands_in(finish=None), "finish: a statement is a text, such as UPDATE"),
    ("12_write_your_own", hands_in(claim="UPDATE tasks SET"), "claim: the statement breaks off"),
    (
        "12_write_your_own",
        hands_in(
            finish="UPDATE tasks SET state = :outcome, lease_owner = NULL, lease_until = NULL "
            "WHERE id = :task_id AND lease_until > :now"
        ),
        "finish: \u201cNothing is accepted that was sent with an earlier generation than the row's",
    ),
    ("14_postgresql", asks_for_a_lock, "the statement asks for a lock of its own"),
    ("14_postgresql", asks_nothing_again, "B was given task 1, too, as generation 2"),
    ("14_postgresql", asks_the_inner_select_twice, "B was given task 1, too, as generation 2"),
    ("14_postgresql", asks_only_for_pending, "nobody takes the task over when its lease has ended"),
    ("14_postgresql", forgets_the_done, "a task that is done is claimed again"),
    ("14_postgresql", is_no_sql, "PostgreSQL says 'syntax error"),
    ("14_postgresql", lambda claim: None, "to return the statement as a text, not None"),
    ("15_self_test", lambda lab: None, "answer(lab) has to return three things"),
    ("15_self_test", lambda lab: ("Why?", STATES), "answer(lab) has to return three things"),
    ("15_self_test", asks(text="The row."), "a question is a text that ends in a question mark"),
    ("15_self_test", asks(text="?"), "the question has to tell who does what in it"),
    ("15_self_test", asks(text="A? B?"), "in four words at least, and to name A and B"),
    ("15_self_test", asks(text="A finishes. What now is?"), "at least, and to name A and B"),
    (
        "15_self_test",
        lambda lab: None if lab.protocol.struck_out else asks()(lab),
        "without ack.owner answer(lab) does not return three things: the question, the choices",
    ),
    ("15_self_test", asks(choices=list(STATES)), "the choices are a dict of three at least"),
    ("15_self_test", asks(choices={"running": "It runs.", "done": "Done."}), "of three at least"),
    ("15_self_test", asks(choices={**STATES, "done": ""}), "the choices are a dict of three at"),
    ("15_self_test", asks(choices={**STATES, "done": "It waits."}), "have the same words"),
    (
        "15_self_test",
        asks(fact=lambda lab: "failed"),
        "the fact is 'failed', and no choice says so",
    ),
    ("15_self_test", asks(fact=lambda lab: "running"), "whichever guard is struck out"),
    (
        "15_self_test",
        asks(choices={"running": "B holds it.", "failed": "It failed.", "pending": "It waits."}),
        "whichever guard is struck out",
    ),
    ("15_self_test", asks(late=False), "whichever guard is struck out, claim.final apart"),
    (
        "15_self_test",
        lambda lab: (
            "A is slow. What is done?",
            STATES,
            "done" if lab.protocol.struck_out else "running",
        ),
        "whichever guard is struck out",
    ),
    ("13_field_incidents", lambda: None, "an incident is a text of a few lines, not None"),
    ("13_field_incidents", lambda: "A was late.", "row 1: an incident begins with a line"),
    ("13_field_incidents", writes_up("A | claims"), "row 9 has 2 columns, and not the four"),
    ("13_field_incidents", writes_up(source="good_job #989"), "good_job #989 is in the lesson"),
    ("13_field_incidents", writes_up(source="where you saw it"), "say in its source where you saw"),
    (
        "13_field_incidents",
        writes_up("0 | A | claim | generation 1", "30 | B | claim | refused"),
        "under the full protocol: Row 10: to B's claim at t=30 must come back 'refused', and 'gen",
    ),
    (
        "13_field_incidents",
        writes_up("0 | A | claim | generation 1", "1 | A | finish 1 done | accepted"),
        "under the broken protocol: No damage: 'stale finish accepted' is promised",
    ),
    (
        "13_field_incidents",
        writes_up(broken="without finish.expiry"),
        "under the broken protocol: No damage: 'stale finish accepted' is promised",
    ),
    (
        "13_field_incidents",
        writes_up(broken="in finish: generation = :generation => generation = "),
        "the broken run of 'late' stops at t=31, with A's finish",
    ),
    ("13_field_incidents", writes_up(damage="great harm"), "has no damage 'great harm accepted'"),
]


@pytest.mark.parametrize("lesson, answer, reason", WRONG)
def test_a_typical_wrong_answer_is_told_what_is_missing(lesson, answer, reason, capsys):
    told = said(capsys, lesson, answer)
    assert told.startswith("Not yet: ") and reason in told


@pytest.mark.parametrize("lesson", LESSONS)
def test_an_answer_that_stops_ends_in_a_sentence(lesson, capsys):
    def typo(lab=None, truth=None):
        lab.enqeue()

    assert said(capsys, lesson, typo).startswith("Not yet: your answer stopped with Attribute")
    assert said(capsys, lesson, None).startswith("Not yet: your answer stopped with TypeError")


def test_a_question_whose_fact_is_a_matter_of_chance_is_refused(capsys):
    chance = iter(["running", "done", "pending"])
    answer = asks(fact=lambda lab: next(chance))
    assert "played again, the schedule comes out otherwise" in said(capsys, "15_self_test", answer)


def test_another_question_about_a_guard_is_accepted(capsys):
    assert said(capsys, "15_self_test", asks()) == (
        "Solved: without finish.generation the fact is 'done', your choice \u201cA's work is done.\u201d"
    )
    guards = {("generation",): "By its number.", ("owner",): "By its name.", (): "It is accepted."}

    def answer(lab):
        lab.enqueue()
        for t in (1, 31):
            lab.play_to(t).claim("A")
        lab.ack("A", generation=1)
        return (
            "A has claimed twice. What refuses A's first ack?",
            guards,
            lab.trace.events[-1].refusals or (),
        )

    assert said(capsys, "15_self_test", answer).startswith(
        "Solved: without ack.generation the fact"
    )


def test_there_are_two_pairs_of_guards_and_their_order_does_not_matter(capsys):
    for verb in ("ack", "release"):
        pair = [f"{verb}.owner", f"{verb}.generation"]
        assert said(capsys, "11_break_a_guard", strikes_out(*pair)) == "Solved."
        assert said(capsys, "11_break_a_guard", strikes_out(*reversed(pair))) == "Solved."


def test_any_incident_that_shows_its_damage_is_accepted(capsys):
    assert said(capsys, "13_field_incidents", writes_up()) == "Solved."


def test_an_answer_that_the_lab_refuses_ends_in_the_labs_sentence(capsys):
    told = said(capsys, "00_start_here", lambda lab: lab.claim("C"))
    assert told == "Not yet: there is no worker 'C'; there are A, B."


@pytest.mark.parametrize("lesson", LESSONS)
def test_there_are_two_hints_and_the_second_says_more(lesson, capsys):
    exercise = exercises[lesson]
    exercise._told = 0
    for _ in range(3):
        exercise.hint()
    first, second, third = capsys.readouterr().out.splitlines()
    assert first != second == third


@pytest.mark.parametrize(
    "lesson, guards, reason",
    [
        ("03_stale_commit", ["finish.generation"], "has refused no finish of A by its generation"),
        ("08_fenced_write", ["commit_run.revision"], "if B has written: the run says 'outline'"),
        (
            "08_fenced_write",
            ["commit_run.owner", "commit_run.generation"],
            "if B has taken over: the run says 'outline'",
        ),
    ],
)
def test_an_exercise_stops_being_solved_when_its_rule_is_gone(
    lesson, guards, reason, capsys, monkeypatch
):
    """The check plays the answer on the real statements, so a struck-out guard changes it."""
    protocol = Protocol().without(*guards)
    monkeypatch.setattr("leaselab.exercises.Lab", partial(Lab, protocol=protocol))
    told = said(capsys, lesson, solution(lesson))
    assert told.startswith("Not yet: ") and reason in told

"""Each lesson's exercise: its solution is accepted, what only looks like one is not."""

import runpy
from pathlib import Path

import pytest

from leaselab import Protocol
from leaselab.exercises import exercises

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
LESSONS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def solution(lesson):
    return runpy.run_path(str(NOTEBOOKS / "solutions" / f"{lesson}.py"))["answer"]


def said(capsys, lesson, answer):
    exercises[lesson].check(answer)
    return capsys.readouterr().out.strip()


def test_every_lesson_has_an_exercise_and_a_solution_under_its_own_name():
    assert sorted(exercises) == LESSONS
    assert sorted(path.stem for path in (NOTEBOOKS / "solutions").glob("*.py")) == LESSONS


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_solution_is_accepted(lesson, capsys):
    assert said(capsys, lesson, solution(lesson)) == "Solved."


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
]


@pytest.mark.parametrize("lesson, answer, reason", WRONG)
def test_a_typical_wrong_answer_is_told_what_is_missing(lesson, answer, reason, capsys):
    told = said(capsys, lesson, answer)
    assert told.startswith("Not yet: ") and reason in told


@pytest.mark.parametrize("lesson", LESSONS)
def test_an_answer_that_stops_ends_in_a_sentence(lesson, capsys):
    def typo(lab, truth=None):
        lab.enqeue()

    assert said(capsys, lesson, typo).startswith("Not yet: your answer stopped with Attribute")
    assert said(capsys, lesson, None).startswith("Not yet: your answer stopped with TypeError")


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


def test_an_exercise_stops_being_solved_when_its_rule_is_gone(capsys, monkeypatch):
    """The check plays the answer on the real statements, so a struck-out guard changes it."""
    from leaselab import lab

    monkeypatch.setattr(lab, "Protocol", lambda: Protocol().without("finish.generation"))
    assert said(capsys, "03_stale_commit", solution("03_stale_commit")).startswith("Not yet: ")

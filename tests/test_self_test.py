"""The self-test: each right answer follows from what is run, and an answer stays as it was given."""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path

import nbformat
import pytest

from leaselab import Lab, Protocol
from leaselab.errors import InputError, StoreError
from leaselab.self_test import evidence
from leaselab.self_test.choice import LESSONS, LETTERS, MultipleChoice, SelfTest
from leaselab.self_test.evidence import Evidence
from leaselab.self_test.panel import FIRST
from leaselab.self_test.questions import QUESTIONS

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
NUMBERS = range(1, len(QUESTIONS) + 1)
RIGHT = [LETTERS[list(question.choices).index(question.expected)] for question in QUESTIONS]
# A wrong choice of a question that is right if a guard is struck out.
WITHOUT_A_GUARD = {
    "claim_after_done": ("claim.final", ()),
    "next_task_of_the_run": ("claim.one_per_run", 2),
    "finish_sent_before_a_crash": ("finish.generation", ()),
    "beats_that_may_fail": ("renew.expiry", 4),
    "refused_beat": ("renew.expiry", (160, None)),
    "way_back_from_failed": ("claim.final", ("claim",)),
}
ids = [question.run.__name__ for question in QUESTIONS]


def wrong(number):
    """A letter that is a wrong answer."""
    return next(letter for letter in "ab" if letter != RIGHT[number - 1])


def words(html):
    """What a reader reads of a piece of HTML."""
    return unescape(re.sub("<[^>]*>", " ", html))


# The questions


@pytest.mark.parametrize("question", QUESTIONS, ids=ids)
def test_the_evidence_picks_the_choice_that_is_marked_right_each_time(question):
    found = question.run()
    assert found.fact == question.expected
    assert found.fact in question.choices
    assert found.lines and all(re.fullmatch(r"\S.*[.:]", line) for line in found.lines)
    again = question.run()
    assert (again.fact, again.lines) == (found.fact, found.lines)


@pytest.mark.parametrize("question", QUESTIONS, ids=ids)
def test_a_question_is_one_and_its_choices_differ(question):
    assert "?" in question.text and question.why
    assert 3 <= len(question.choices) == len(set(question.choices.values())) <= 4
    assert question.lesson in LESSONS


@pytest.mark.parametrize("question", QUESTIONS, ids=ids)
def test_the_right_choice_is_not_the_only_long_one_or_the_only_short_one(question):
    right = len(question.choices[question.expected])
    others = [len(words) for fact, words in question.choices.items() if fact != question.expected]
    assert 0.75 * min(others) <= right <= 1.25 * max(others)


@pytest.mark.parametrize("question", QUESTIONS, ids=ids)
def test_evidence_of_a_search_names_its_scope_and_what_it_calls_a_holder(question):
    lines = question.run().lines
    scopes = [line for line in lines if line.startswith("Scope: ")]
    assert bool(scopes) == any(re.search(r"\d states\b", line) for line in lines)
    told = any("until the end of the lease that it was told of" in line for line in lines)
    assert told == any("holds a live lease of a task" in line for line in lines)


def test_the_evidence_of_repairs_names_them_in_the_order_of_the_choices():
    places = {
        "repairs_of_two_steps": ("A second look", "One UPDATE", "A lease of 5", "A finish that"),
        "keys_for_two_mails": ("task-1:", "call-1", "task-1-first", "task-1-generation-1"),
        "checks_before_a_write": ("A SELECT", "A comparison", "A condition", "A renewal"),
        "what_uses_up_no_attempt": ("B's claim of t=50", "A's claim of t=1,", "B's claim of t=10"),
        "way_back_from_failed": ("The task is failed", "claim", "release", "renew"),
    }
    for name, begin in places.items():
        lines = getattr(evidence, name)().lines
        found = [next(n for n, line in enumerate(lines) if line.startswith(word)) for word in begin]
        assert found == sorted(found), name


def test_after_a_claim_anew_nothing_of_the_old_generation_is_accepted():
    *_, claim, beat, finish = evidence.refused_beat().traces["What was played"].events
    assert claim.returned == 2
    for event in (beat, finish):
        assert event.refused and event.sent["generation"] == 1
        assert "generation" in event.refusals


def test_a_beat_without_an_answer_may_have_been_accepted_and_no_unit_is_wrong():
    found = evidence.beat_without_an_answer()
    ends = [trace.tasks[0]["lease_until"] for trace in found.traces.values()]
    assert ends == [101, 81]
    assert not any(" ms" in line for line in found.lines)


def test_what_a_worker_was_told_lasts_longer_than_its_lease_without_max():
    told = [line for line in evidence.renewal_without_max().lines if "t=40" in line]
    assert told == [
        "Without MAX, t=40: A was told 50, and the task is now B's.",
        "With MAX, t=40: A was told 50, and the task is now A's.",
    ]


def test_the_stale_beat_gets_through_as_the_ack_of_question_7_does():
    assert QUESTIONS[6].run is evidence.owner_without_generation
    assert "question 7" in QUESTIONS[ids.index("spare_of_an_owner_guard")].why
    line = next(line for line in evidence.spare_of_an_owner_guard().lines if " alone:" in line)
    assert "renew of generation 1 is accepted, the row has generation 2" in line


@pytest.mark.parametrize("name", WITHOUT_A_GUARD)
def test_without_a_guard_a_wrong_choice_would_be_right(name, monkeypatch):
    guard, fact = WITHOUT_A_GUARD[name]
    question = QUESTIONS[ids.index(name)]
    without = Protocol().without(guard)

    def lab(*args, protocol=None, **kwargs):
        return Lab(*args, protocol=protocol or without, **kwargs)

    monkeypatch.setattr(evidence, "Lab", lab)
    assert question.run().fact == fact != question.expected
    assert fact in question.choices


@pytest.mark.parametrize("question", QUESTIONS, ids=ids)
def test_the_evidences_pictures_have_captions_and_say_what_they_show(question):
    charts = question.run().charts()
    assert all(len(chart.sentence) >= 40 for chart in charts.values())
    assert len({chart.horizon for chart in charts.values()}) <= 1


def test_there_is_a_question_of_each_lesson_six_of_the_article_and_four_of_an_interviewer():
    assert Counter(question.origin for question in QUESTIONS) == {
        "lesson": 13,
        "article": 6,
        "interviewer": 4,
    }
    about = [question.lesson for question in QUESTIONS if question.origin == "lesson"]
    assert sorted(set(about)) == list(LESSONS)


def test_the_readme_gives_as_homework_the_questions_of_the_lessons_that_were_read():
    readme = (NOTEBOOKS.parent / "README.md").read_text(encoding="utf-8")
    row = next(line for line in readme.splitlines() if line.startswith("| 90 minutes"))
    first, *rest = map(int, re.search(r"questions (\d+) and (\d+) to (\d+) of 15", row).groups())
    read = [n for n, question in enumerate(QUESTIONS, 1) if question.lesson[:2] <= "05"]
    assert read == [first, *range(rest[0], rest[1] + 1)]


def test_no_letter_is_right_much_more_often_than_another():
    assert max(Counter(RIGHT).values()) <= 6


def test_the_lessons_are_there_under_these_titles():
    for lesson, title in LESSONS.items():
        notebook = nbformat.read(NOTEBOOKS / f"{lesson}.ipynb", as_version=4)
        assert notebook.cells[0].source.splitlines()[0] == f"# {title}"


# Answers


@pytest.mark.parametrize("number", [1, 6])
def test_a_right_answer_is_told_so_and_where_there_is_more_of_it(number):
    question = SelfTest().ask(number, RIGHT[number - 1])
    assert question.right is True
    said = repr(question)
    assert f"You said {question.answer}: right." in said
    assert f"More in {LESSONS[question.lesson]} ({question.lesson}.ipynb)" in said
    assert all(line.split()[0] in said for line in question.evidence.lines)


@pytest.mark.parametrize("number", [1, 6])
def test_a_wrong_answer_is_told_what_the_evidence_says_and_what_to_reread(number):
    question = SelfTest().ask(number, wrong(number))
    assert question.right is False and question.fact == RIGHT[number - 1]
    told = question.letters[question.fact]
    assert question.verdict == (
        f"You said {question.answer}: wrong. The evidence says {question.fact}: {told}"
    )
    assert f"Reread {LESSONS[question.lesson]}" in repr(question)


def test_the_verdict_is_the_evidences_and_not_the_mark():
    told = QUESTIONS[0]
    other = next(fact for fact in told.choices if fact != told.expected)
    bent = replace(told, run=lambda: Evidence(other, ("bent",), {}))
    question = SelfTest([bent]).ask(1, RIGHT[0])
    assert question.right is False
    assert question.letters[question.fact] == told.choices[other]


def test_before_the_answer_nothing_is_run_and_nothing_is_given_away():
    def run():
        raise AssertionError("it was run")

    test = SelfTest([replace(question, run=run) for question in QUESTIONS])
    for number in NUMBERS:
        question = test.ask(number)
        assert (question.answer, question.fact, question.right) == (None, None, None)
        assert question.verdict == question.verdict_html == question.charts_html == ""
        assert question.why not in words(question._repr_mimebundle_()["text/html"])
        assert LESSONS[question.lesson] not in repr(question)


def test_before_the_answer_a_question_names_its_topic_and_its_lesson():
    test = SelfTest()
    panel = test.panel()
    for number in NUMBERS:
        question = test.ask(number)
        about = f"{question.topic} · lesson {question.lesson[:2]}"
        assert repr(question).startswith(f"Question {number} · {about}\n")
        assert f"<b>Question {number} · {about}</b>" in question._repr_mimebundle_()["text/html"]
        assert panel._title.value == f"Question {number} of 23 · {about} · open"
        panel.press("next")


def test_an_answer_cannot_be_changed():
    test = SelfTest()
    question = test.ask(1, "a")
    evidence = question.evidence
    assert test.ask(1, "a").evidence is evidence
    with pytest.raises(InputError, match="^the answer 'a' is locked in already.$"):
        test.ask(1, "c")
    assert (question.answer, question.evidence) == ("a", evidence)


@pytest.mark.parametrize("answer", ["e", "a b", "", 1, True, ["a"], "final"])
def test_an_answer_that_is_none_ends_in_a_sentence(answer):
    with pytest.raises(InputError, match=r"^the answer is one of a, b, c, d, not .*\.$"):
        SelfTest().ask(1, answer)


@pytest.mark.parametrize(
    "number, sentence",
    [
        (24, "there is no question 24; the last is 23."),
        (0, "a question's number must be a whole number of at least 1, not 0."),
        (-1, "a question's number must be a whole number of at least 1, not -1."),
        ("3", "a question's number must be a whole number of at least 1, not '3'."),
        (2.0, "a question's number must be a whole number of at least 1, not 2.0."),
        (True, "a question's number must be a whole number of at least 1, not True."),
        (None, "a question's number must be a whole number of at least 1, not None."),
    ],
)
def test_a_number_that_is_none_ends_in_a_sentence(number, sentence):
    with pytest.raises(InputError) as error:
        SelfTest().ask(number)
    assert str(error.value) == sentence


def test_evidence_that_no_choice_knows_ends_in_a_sentence_and_locks_nothing_in():
    test = SelfTest([replace(QUESTIONS[0], run=lambda: Evidence("odd", ("odd",), {}))])
    with pytest.raises(InputError, match="the evidence says 'odd', and no choice says so."):
        test.ask(1, "a")
    assert test.ask(1).answer is None


@pytest.mark.parametrize("questions", [[], 3, "abc", ["Why?"], QUESTIONS[0]])
def test_questions_that_are_none_end_in_a_sentence(questions):
    with pytest.raises(InputError, match="^a self-test needs a list of MultipleChoice, not "):
        SelfTest(questions)


def test_a_question_of_ones_own_is_asked_like_the_others():
    def run():
        lab = Lab()
        lab.enqueue()
        return Evidence(lab.claim("B"), tuple(lab.trace.lines), {})

    choices = {None: "None.", 0: "Generation 0.", 1: "Generation 1."}
    asked = MultipleChoice("Mine", "16_mine", "me", "What does B get?", choices, 1, "So.", run)
    test = SelfTest([asked])
    assert test.ask(1, "b").verdict == "You said b: wrong. The evidence says c: Generation 1."
    assert test.score.advice() == ["Reread 16_mine (16_mine.ipynb) for question 1."]


@pytest.mark.parametrize("answer", [" c ", "C", "c\n"])
def test_a_capital_letter_and_blanks_are_no_other_answer(answer):
    question = SelfTest().ask(1, answer)
    assert question.answer == "c" and question.right
    question.lock_in("c")


def test_two_tests_share_no_answer():
    first, second = SelfTest(), SelfTest()
    first.ask(1, "a")
    assert second.ask(1).answer is None and QUESTIONS[0].answer is None
    assert SelfTest(first.questions).ask(1).answer is None


# The score


def test_the_score_counts_by_topic_and_names_what_to_reread():
    test = SelfTest()
    assert repr(test) == "A self-test of 23 questions: 23 open."
    assert repr(test.score).endswith("No answer is locked in yet.")
    test.ask(1, RIGHT[0])
    assert repr(test.score).endswith("Nothing to reread so far.")
    for number in (2, 3, 6):
        test.ask(number, wrong(number))
    lines = repr(test.score).splitlines()
    assert lines[0].split() == ["topic", "right", "wrong", "open"]
    assert "The claim               1      2     0" in lines
    assert "The generation          0      1     1" in lines
    assert "altogether              1      3    19" in lines
    assert lines[-2:] == [
        "Reread 03 · The stale commit (03_stale_commit.ipynb) for question 6.",
        "Reread 06 · The atomic claim (06_atomic_claim.ipynb) for questions 2, 3.",
    ]
    assert test.reread == ["03_stale_commit", "06_atomic_claim"]
    assert test.score.sentence == "1 of 4 right, 19 open"
    html = test.score._repr_html_()
    assert 'href="06_atomic_claim.ipynb"' in html
    assert words(html).split()[:4] == ["topic", "right", "wrong", "open"]


def test_all_right_is_all_right():
    test = SelfTest()
    for number in NUMBERS:
        test.ask(number, RIGHT[number - 1])
    assert test.score.sentence == "23 of 23 right, 0 open"
    assert test.reread == []
    assert repr(test.score).endswith("Nothing to reread.")


# In a notebook, and as a panel


def test_a_notebook_shows_the_verdict_the_evidence_and_its_pictures():
    question = SelfTest().ask(19, "a")
    html = question._repr_mimebundle_()["text/html"]
    said = " ".join(words(html).split())
    for line in (question.text, question.verdict, question.why, *question.evidence.lines):
        assert line in said
    assert html.count("<img") == len(question.evidence.traces) == 2
    assert all(caption in html for caption in question.evidence.traces)


def test_the_self_test_without_its_panel_needs_no_ipywidgets():
    code = (
        "import sys, leaselab; assert 'leaselab.self_test' not in sys.modules;"
        "from leaselab.self_test import SelfTest; print(SelfTest().ask(1, 'a').verdict);"
        "print({'ipywidgets', 'pandas'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-1] == "set()", run.stderr


def panel_of(test):
    panel = test.panel()
    return panel, {name: button for name, button in panel._buttons.items()}


def test_the_panel_locks_an_answer_in_and_shows_what_the_plain_call_says():
    test, plain = SelfTest(), SelfTest()
    panel, buttons = panel_of(test)
    assert panel._title.value == "Question 1 of 23 · The claim · lesson 01 · open"
    assert panel._verdict.value == FIRST and panel._charts.value == ""
    assert buttons["lock in"].disabled
    panel.press("lock in")  # a disabled button does nothing
    assert test.ask(1).answer is None
    panel.choice.value = "b"
    assert not buttons["lock in"].disabled
    panel.press("lock in")
    question = plain.ask(1, "b")
    assert test.ask(1).answer == "b"
    assert panel._title.value.endswith("wrong")
    assert panel._verdict.value == question.verdict_html
    assert panel._evidence.value == question.evidence_html
    assert panel._charts.value == question.charts_html
    assert panel.choice.disabled and buttons["lock in"].disabled
    assert [label for label, _ in panel.choice.options][1:3] == [
        "b) Refused by expiry: the row still holds A's lease. (your answer, wrong)",
        "c) Refused by final: a task that is done is never claimed again. (right)",
    ]
    assert buttons["The claim"].description == "\u25b8 The claim: 0 of 1 right, 2 open"
    assert panel._score.value == test.score.sentence


def test_back_and_next_go_from_question_to_question_and_a_topic_to_what_is_open_of_it():
    panel, buttons = panel_of(SelfTest())
    assert buttons["back"].disabled and not buttons["next"].disabled
    for number in NUMBERS:
        assert panel.number == number and panel.choice.value is None
        assert words(panel._text.value).split()[0] in panel.question.text
        panel.press("next")
    assert panel.number == 23 and buttons["next"].disabled
    panel.press("back")
    assert panel.number == 22
    panel.press("The generation")
    assert panel.number == 6
    panel.test.ask(6, "a")
    panel.press("The generation")
    assert panel.number == 7
    panel.test.ask(7, "a")
    panel.press("The generation")
    assert panel.number == 6 and panel.choice.value == "a"


def test_a_plain_call_shows_in_the_panel_and_leaves_a_choice_alone():
    test = SelfTest()
    panel, _ = panel_of(test)
    panel.choice.value = "d"
    test.ask(2, "b")
    assert panel.choice.value == "d" and panel._verdict.value == FIRST
    assert panel._score.value == "1 of 1 right, 22 open"
    test.ask(1, "c")
    assert panel.choice.value == "c"
    assert "You said c: right." in words(panel._verdict.value)


def test_every_part_of_the_panel_has_its_height_and_whatever_scrolls_can_be_reached():
    panel, _ = panel_of(SelfTest())
    for part in (panel._title, panel._text, panel.choice, panel._verdict, panel._charts):
        assert re.fullmatch(r"\d+px", part.layout.height)
    for part in (panel._text, panel._verdict, panel._evidence, panel._charts):
        assert part.tabbable and "leaselab-scroll" in part._dom_classes


def test_what_cannot_be_run_is_said_in_the_panel_and_nothing_is_locked_in():
    def run():
        raise StoreError("the disk is full.")

    test = SelfTest([replace(QUESTIONS[0], run=run)])
    panel, buttons = panel_of(test)
    panel.choice.value = "a"
    panel.press("lock in")
    assert panel._verdict.value == "the disk is full."
    assert test.ask(1).answer is None and not buttons["lock in"].disabled


def test_a_button_that_is_not_there_is_answered_with_those_that_are():
    panel, _ = panel_of(SelfTest())
    with pytest.raises(InputError, match="there is no button 'end'; there are The claim, The end"):
        panel.press("end")


def test_where_no_widget_is_shown_the_panel_is_a_question_in_words():
    panel, _ = panel_of(SelfTest())
    text = panel._repr_mimebundle_()["text/plain"]
    assert text == f"{panel.question!r}\n\n23 open"

"""The self-test: a question, an answer locked in, a verdict with what the lab or a search says.

``SelfTest().ask(6)`` is a question, ``ask(6, "b")`` locks an answer in. Then the evidence is run, and
what it comes to picks the right choice; no verdict is read from a list.
"""

import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from textwrap import wrap

from leaselab.errors import InputError, whole_number
from leaselab.self_test.evidence import Evidence

LESSONS = {
    "01_claim_and_finish": "01 · Claim and finish",
    "02_crash_and_takeover": "02 · Crash and takeover",
    "03_stale_commit": "03 · The stale commit",
    "04_unknown_outcome": "04 · The unknown outcome",
    "05_duplicate_side_effect": "05 · The duplicate side effect",
    "06_atomic_claim": "06 · The atomic claim",
    "07_heartbeat": "07 · The heartbeat",
    "08_fenced_write": "08 · The fenced write",
    "09_attempt_limit": "09 · The attempt limit",
    "10_real_workers": "10 · Real workers",
    "11_break_a_guard": "11 · Break a guard",
    "12_write_your_own": "12 · Write your own",
}
LETTERS = "abcdefgh"
ONE_AT_A_TIME = threading.RLock()  # JupyterLab runs a widget's callbacks in a thread of their own


@dataclass(eq=False, repr=False)
class MultipleChoice:
    """A question with several choices, of which one is right.

    Attributes:
        topic: what it belongs to in the score.
        lesson: the lesson to reread, as ``"03_stale_commit"``.
        origin: who asks: ``"lesson"``, ``"article"`` or ``"interviewer"``.
        text: the question.
        choices: what the evidence may come to, and what that means, in words.
        expected: what the evidence is known to come to; tests compare, and no verdict uses it.
        why: the reason, in a sentence or two.
        run: a function that gives the ``Evidence``.
        number: its place in the test.
        answer: the letter that was locked in, or None.
        evidence: what was run then, or None.
    """

    topic: str
    lesson: str
    origin: str
    text: str
    choices: dict
    expected: object
    why: str
    run: Callable[[], Evidence]
    number: int = 1
    answer: str | None = None
    evidence: Evidence | None = None
    listeners: weakref.WeakSet | tuple = ()

    @property
    def letters(self):
        """The words of the choices by letter."""
        return dict(zip(LETTERS, self.choices.values()))

    def lock_in(self, answer):
        """Give the answer, a letter; it cannot be changed afterwards. The evidence is run now.

        A capital letter and blanks beside it are no other answer.

        Raises:
            InputError: it is none of the letters, or another answer was locked in before.
        """
        given, answer = answer, answer.strip().lower() if isinstance(answer, str) else answer
        if answer not in tuple(self.letters):
            raise InputError(f"the answer is one of {', '.join(self.letters)}, not {given!r}.")
        with ONE_AT_A_TIME:
            if self.answer not in (None, answer):
                raise InputError(f"the answer {self.answer!r} is locked in already.")
            if self.answer is None:
                found = self.run()
                if found.fact not in tuple(self.choices):
                    raise InputError(f"the evidence says {found.fact!r}, and no choice says so.")
                self.answer, self.evidence = answer, found
        for listener in list(self.listeners):
            listener.self_test_changed()

    @property
    def fact(self):
        """The letter of the choice that the evidence picks, or None before an answer."""
        if self.evidence is not None:
            return LETTERS[list(self.choices).index(self.evidence.fact)]

    @property
    def right(self):
        """True or False once an answer is locked in, else None."""
        return None if self.answer is None else self.answer == self.fact

    @property
    def verdict(self):
        """What is said of the answer, in words; empty before there is one."""
        if self.answer is None:
            return ""
        if self.right:
            return f"You said {self.answer}: right."
        words = self.letters[self.fact]
        return f"You said {self.answer}: wrong. The evidence says {self.fact}: {words}"

    @property
    def title(self):
        return f"Question {self.number} · {self.about}"

    @property
    def about(self):
        """Its topic and its lesson, so that a reader can leave out what was not read."""
        return f"{self.topic} · lesson {self.lesson.split('_')[0]}"

    def __repr__(self):
        lines = [self.title, *wrap(self.text, 96)]
        for letter, words in self.letters.items():
            lines += wrap(words, 92, initial_indent=f"  {letter}) ", subsequent_indent="     ")
        if self.answer:
            lines += ["", *wrap(self.verdict, 96), *wrap(self.why, 96), "The evidence:"]
            for line in self.evidence.lines:
                lines += wrap(line, 94, initial_indent="- ", subsequent_indent="  ")
            lines.append(f"{self._read} {in_full(self.lesson)}")
        return "\n".join(lines)

    @property
    def _read(self):
        return "More in" if self.right else "Reread"

    # The same as HTML, for a notebook and for the panel

    @property
    def text_html(self):
        return f"<p>{marked_up(self.text)}</p>"

    @property
    def verdict_html(self):
        """The verdict, the reason, and the lesson."""
        if not self.answer:
            return ""
        read = f"{self._read} {link(self.lesson)}."
        return f"<p><b>{marked_up(self.verdict)}</b></p><p>{marked_up(self.why)} {read}</p>"

    @property
    def evidence_html(self):
        """What was run, as lines."""
        if not self.evidence:
            return ""
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.evidence.lines)
        return f"<p>The evidence:</p><ul>{lines}</ul>"

    @property
    def charts_html(self):
        """The pictures of the evidence, one below the other."""
        if not self.evidence:
            return ""
        return "".join(
            f"<p>{escape(caption)}:</p>{chart._repr_mimebundle_()[0]['text/html']}"
            for caption, chart in self.evidence.charts().items()
        )

    def _repr_mimebundle_(self, **_):
        choices = "".join(
            f"<p>{letter}) {marked_up(words)}</p>" for letter, words in self.letters.items()
        )
        parts = self.verdict_html, self.evidence_html, self.charts_html
        html = f"<p><b>{escape(self.title)}</b></p>{self.text_html}{choices}{''.join(parts)}"
        return {"text/plain": repr(self), "text/html": html}


def marked_up(text):
    """A text as HTML, with what stands between backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))


def link(lesson):
    """A lesson's title as a link that leaves this page where it is, and is no link by colour alone."""
    style = 'style="text-decoration: underline" target="_blank" rel="noopener"'
    return f'<a href="{lesson}.ipynb" {style}>{LESSONS.get(lesson, lesson)}</a>'


def in_full(lesson):
    """A lesson's title and its file."""
    return f"{LESSONS.get(lesson, lesson)} ({lesson}.ipynb)"


class SelfTest:
    """Questions, answers and a score.

    Args:
        questions: ``MultipleChoice`` objects, which stay as they are; all of the project's if none
            are given.

    ``questions`` is a tuple of this test's own copies; they are numbered from 1.
    """

    def __init__(self, questions=None):
        from leaselab.self_test.questions import QUESTIONS

        questions = QUESTIONS if questions is None else questions
        listed = isinstance(questions, (list, tuple)) and len(questions) > 0
        if not listed or not all(isinstance(each, MultipleChoice) for each in questions):
            raise InputError(f"a self-test needs a list of MultipleChoice, not {questions!r}.")
        self.listeners = weakref.WeakSet()
        self.questions = tuple(
            replace(question, number=number, answer=None, evidence=None, listeners=self.listeners)
            for number, question in enumerate(questions, start=1)
        )

    def ask(self, number, answer=None):
        """A question by its number; with an answer, a letter, the answer is locked in.

        Returns the ``MultipleChoice``, which holds the verdict and the evidence then.
        """
        whole_number("a question's number", number, at_least=1)
        if number > len(self.questions):
            raise InputError(f"there is no question {number}; the last is {len(self.questions)}.")
        question = self.questions[number - 1]
        if answer is not None:
            question.lock_in(answer)
        return question

    @property
    def score(self):
        """How many answers were right, by topic, and which lessons to reread."""
        return Score(self.questions)

    @property
    def reread(self):
        """The lessons of the questions that were answered wrong, in order."""
        return sorted({question.lesson for question in self.questions if question.right is False})

    def panel(self):
        """The questions as a widget."""
        from leaselab.self_test.panel import SelfTestPanel

        return SelfTestPanel(self)

    def __repr__(self):
        return f"A self-test of {len(self.questions)} questions: {self.score.sentence}."


class Score:
    """What was right, what was wrong and what is open, by topic.

    Attributes:
        topics: for each topic a ``Counter`` of True, False and None, as ``right`` says of a question.
    """

    HEADINGS = ("topic", "right", "wrong", "open")

    def __init__(self, questions):
        self.topics = {}
        self._wrong = {}
        for question in questions:
            self.topics.setdefault(question.topic, Counter())[question.right] += 1
            if question.right is False:
                self._wrong.setdefault(question.lesson, []).append(str(question.number))

    @property
    def all(self):
        """The same for all topics together."""
        return sum(self.topics.values(), Counter())

    @property
    def sentence(self):
        """The score in words."""
        return in_words(self.all)

    def advice(self, name=in_full):
        """What to reread, a line for each lesson; ``name`` makes a lesson's name of its key."""
        if not self._wrong:
            if not self.all[True]:
                return ["No answer is locked in yet."]
            return ["Nothing to reread so far." if self.all[None] else "Nothing to reread."]
        return [
            f"Reread {name(lesson)} for question{'s' if len(numbers) > 1 else ''} "
            f"{', '.join(numbers)}."
            for lesson, numbers in sorted(self._wrong.items())
        ]

    @property
    def _rows(self):
        counts = {**self.topics, "altogether": self.all}
        return [(topic, count[True], count[False], count[None]) for topic, count in counts.items()]

    def __repr__(self):
        rows = [self.HEADINGS, *self._rows]
        width = max(len(row[0]) for row in rows)
        lines = ["{:{}}  {:>5}  {:>5}  {:>4}".format(row[0], width, *row[1:]) for row in rows]
        return "\n".join([*lines, *self.advice()])

    def _repr_html_(self):
        head = "".join(f'<th scope="col">{heading}</th>' for heading in self.HEADINGS)
        body = "".join(
            f'<tr><th scope="row">{escape(topic)}</th>'
            + "".join(f"<td>{count}</td>" for count in counts)
            + "</tr>"
            for topic, *counts in self._rows
        )
        advice = "".join(f"<p>{line}</p>" for line in self.advice(link))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{advice}"


def in_words(count):
    """A ``Counter`` of verdicts in words."""
    answered = count[True] + count[False]
    return ", ".join(
        [f"{count[True]} of {answered} right"] * bool(answered) + [f"{count[None]} open"]
    )

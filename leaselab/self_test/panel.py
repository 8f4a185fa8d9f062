"""The panel of the self-test: one question at a time, in a column that never changes its size.

It computes nothing that a plain call cannot: ``lock in`` is ``test.ask(number, answer)``.
"""

from html import escape
from importlib.resources import files

import ipywidgets as widgets

from leaselab.errors import InputError, StoreError
from leaselab.self_test.choice import ONE_AT_A_TIME, in_words

FIRST = "Choose an answer and lock it in. What the lab or a search says to it is then run and shown here."
RUNNING = "Locked in. The evidence is being run."
# Radio buttons that ipywidgets makes are no group to the browser and to a screen reader, and JupyterLab
# would take their arrow keys for a move to another cell. The verdict is to be said when it comes.
PREPARE = """
for (const panel of document.querySelectorAll('.leaselab-self-test')) {
  const choices = panel.querySelector('.widget-radio-box');
  choices.setAttribute('role', 'radiogroup');
  choices.setAttribute('aria-label', 'your answer');
  const group = 'leaselab-' + Math.random();
  const makeAGroup = () => choices.querySelectorAll('input').forEach(input => {
    input.name = group;
    input.setAttribute('data-lm-suppress-shortcuts', 'true');
  });
  new MutationObserver(makeAGroup).observe(choices, {childList: true});
  makeAGroup();
  panel.querySelector('.leaselab-verdict').setAttribute('role', 'status');
}"""


class SelfTestPanel(widgets.VBox):
    """The questions of a self-test.

    Args:
        test: a ``SelfTest``; whatever the panel does, it does by the test's plain calls.

    ``number`` is the question that is shown. ``choice`` are its answers. ``press("lock in")``,
    ``press("next")`` and ``press("The claim")``, a topic, press a button.
    """

    def __init__(self, test):
        self.test = test
        self.number = 1
        self._buttons = {}
        self._shown = None
        self._title = _html(22, "leaselab-title")
        self._text = _html(82, "leaselab-text", "leaselab-scroll")
        self.choice = widgets.RadioButtons(options=[], layout={"height": "118px"})
        self._score = _html(28, "leaselab-score")
        self._verdict = _html(118, "leaselab-verdict", "leaselab-scroll")
        self._evidence = _html(150, "leaselab-scroll")
        self._charts = _html(376, "leaselab-scroll")
        topics = widgets.Box(
            [self._button(topic, self._go_to_topic) for topic in test.score.topics]
        )
        topics.add_class("leaselab-topics")
        row = widgets.HBox(
            [
                self._button("lock in", self._lock_in),
                self._button("back", lambda _: self._go_to(self.number - 1)),
                self._button("next", lambda _: self._go_to(self.number + 1)),
                self._score,
            ]
        )
        css = (files("leaselab.self_test") / "panel.css").read_text(encoding="utf-8")
        style = widgets.HTML(f'<style onload="{escape(PREPARE)}">{css}</style>')
        parts = self._title, topics, self._text, self.choice, row, self._verdict
        super().__init__([*parts, self._evidence, self._charts, style])
        self.add_class("leaselab-self-test")
        self.choice.observe(lambda _: self._enable(), "value")
        test.listeners.add(self)
        self._show()

    @property
    def question(self):
        """The question that is shown."""
        return self.test.ask(self.number)

    def self_test_changed(self):
        """An answer was locked in, here or by a plain call: show what it is like now."""
        self._show()

    def press(self, words):
        """Press a button from a cell, as a hand would: one that is disabled does nothing.

        Args:
            words: ``"lock in"``, ``"back"``, ``"next"``, or a topic.
        """
        if words not in self._buttons:
            raise InputError(f"there is no button {words!r}; there are {', '.join(self._buttons)}.")
        if not self._buttons[words].disabled:
            self._buttons[words].click()

    def _repr_mimebundle_(self, **kwargs):
        """The widget; and for whatever shows no widgets, the question as text."""
        data = super()._repr_mimebundle_(**kwargs)
        data["text/plain"] = f"{self.question!r}\n\n{self.test.score.sentence}"
        return data

    def _button(self, words, press):
        button = widgets.Button(description=words, tooltip=words)
        button.on_click(lambda _: press(words))
        self._buttons[words] = button
        return button

    # What a control does

    def _lock_in(self, _):
        if self.test.ask(self.number).answer is not None:  # a second click, while the evidence ran
            return
        self._verdict.value = RUNNING
        try:
            self.test.ask(self.number, self.choice.value)
        except (InputError, StoreError) as error:
            self._verdict.value = escape(str(error))

    def _go_to(self, number):
        self.number = number
        self._show()

    def _go_to_topic(self, topic):
        """To the first question of a topic that is open; if none is, to its first."""
        questions = [question for question in self.test.questions if question.topic == topic]
        still_open = [question for question in questions if question.answer is None]
        self._go_to((still_open or questions)[0].number)

    # What it shows

    def _show(self):
        """Bring every widget up to date."""
        with ONE_AT_A_TIME:
            self._show_all()

    def _show_all(self):
        question, score = self.question, self.test.score
        state = {None: "open", True: "right", False: "wrong"}[question.right]
        of = f"Question {self.number} of {len(self.test.questions)}"
        self._title.value = escape(f"{of} · {question.about} · {state}")
        for topic, count in score.topics.items():
            mark = "\u25b8 " if topic == question.topic else ""
            self._buttons[topic].description = f"{mark}{topic}: {in_words(count)}"
        self._score.value = escape(score.sentence)
        if self._shown != (self.number, question.answer):  # else the reader's choice would be lost
            self._shown = self.number, question.answer
            self._text.value = question.text_html
            with self.choice.hold_sync():
                self.choice.options = [(label(question, key), key) for key in question.letters]
                self.choice.value = question.answer
                self.choice.disabled = question.answer is not None
            self._verdict.value = question.verdict_html or FIRST
            self._evidence.value = question.evidence_html
            self._charts.value = question.charts_html
        self._enable()

    def _enable(self):
        answered = self.question.answer is not None
        self._buttons["lock in"].disabled = answered or self.choice.value is None
        self._buttons["back"].disabled = self.number == 1
        self._buttons["next"].disabled = self.number == len(self.test.questions)


def label(question, letter):
    """A choice in words; once an answer is locked in, with what is said of it."""
    words = f"{letter}) {question.letters[letter]}".replace("`", "")
    if question.answer is None:
        return words
    said = {question.answer: "your answer, wrong", question.fact: "right"}
    return f"{words} ({said[letter]})" if letter in said else words


def _html(height, *classes):
    """A piece of text of fixed height; one that scrolls can be reached by keyboard."""
    scrolls = "leaselab-scroll" in classes
    layout = {"height": f"{height}px", "overflow": "hidden auto" if scrolls else "hidden"}
    html = widgets.HTML(layout=layout, tabbable=scrolls or None)
    for name in classes:
        html.add_class(name)
    return html

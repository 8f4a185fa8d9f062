"""The panel: the lab's plain calls as controls, in one column that never changes its size.

It computes nothing that a plain call cannot. The slider is the chart's axis of time; to the right
of ``lab.t`` it moves the clock on the real file, to the left it looks back at the trace.
"""

import asyncio
from base64 import b64encode
from functools import cache
from html import escape
from importlib.resources import files
from itertools import count

import ipywidgets as widgets

from leaselab import chart
from leaselab.chart import Chart
from leaselab.errors import InputError, StoreError
from leaselab.trace import Trace

ACTIONS = {
    "claim": lambda lab, name: lab.claim(name),
    "renew": lambda lab, name: lab.renew(name),
    "call the service": lambda lab, name: lab.call_external(name, **lab.truth_at(lab.t)),
    "finish done": lambda lab, name: lab.finish(name),
    "finish uncertain": lambda lab, name: lab.finish(name, "uncertain"),
    "crash": lambda lab, name: lab.crash(name),
    "reopen": lambda lab, name: lab.reopen(name),
}
ASKED_AS = {
    "call the service": "call_external",
    "finish done": "finish",
    "finish uncertain": "finish",
}
EARLIER = "submit with an earlier generation"
TRUTHS = {
    "as the script says": None,
    "it answers": {},
    "the request is lost": {"lost": "request"},
    "it acts, the reply is lost": {"lost": "reply"},
    "it acts 20 later, too late to answer": {"acts_after": 20},
}
NUMBERS = count(1)  # two panels on one page have charts of different height
NO_CLAIM = ("none", "")  # ipywidgets takes the value None for "nothing is chosen"
# A clear picture over the two layers has their alt text, which changes with the clock; they do not.
CLEAR = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw=="
# The handle of an IntSlider has no name of its own; a screen reader needs one. A text that is longer
# than its box is scrolled by keyboard, too. And an arrow key on that or on a dropdown is no shortcut of
# JupyterLab, which else goes to another cell.
MIND_THE_KEYBOARD = (
    "for (const handle of document.querySelectorAll('.leaselab-clock .noUi-handle'))"
    " handle.setAttribute('aria-label', 'now: the virtual clock');"
    " for (const box of document.querySelectorAll('.leaselab .leaselab-scroll')) box.tabIndex = 0;"
    " for (const part of document.querySelectorAll('.leaselab select, .leaselab .leaselab-scroll'))"
    " part.setAttribute('data-lm-suppress-shortcuts', 'true')"
)


class Panel(widgets.VBox):
    """The controls of a lab.

    Args:
        lab: a ``Lab``; whatever the panel does, it does by the lab's plain calls.

    ``clock`` is the slider. ``asking`` is the box that, when ticked, locks the steps that matter
    until an answer is locked in. ``press("next")`` and ``press("A", "claim")`` press a button.
    """

    def __init__(self, lab):
        self.lab = lab
        self._buttons = {}
        self._pictures = {}
        self._message = ""
        self._settling = self._acting = False
        self._asked = None
        self.clock = widgets.IntSlider(min=0, max=lab.horizon, value=lab.t, readout=False)
        self.clock.add_class("leaselab-clock")
        self.asking = widgets.Checkbox(
            value=True, indent=False, description="ask me before the steps that matter"
        )
        self.asking.layout.width = "auto"
        self.answer = widgets.ToggleButtons(options=["accepted", "refused"], value=None)
        self.answer.style.button_width = "auto"
        self.truth = widgets.Dropdown(options=list(TRUTHS), description="When it is called:")
        self.truth.value = next((words for words in TRUTHS if TRUTHS[words] == lab.truth), None)
        self.truth.style.description_width = "auto"
        self.truth.layout.width = "400px"
        self._style = widgets.HTML()
        self._class = f"leaselab-{next(NUMBERS)}"
        self._title = _html(38, "leaselab-title")
        self._below, self._above = widgets.HTML(), widgets.HTML()
        self._alt = widgets.HTML()
        for html in (self._above, self._alt):
            html.add_class("leaselab-above")
        self._question = _html(66, "leaselab-small", "leaselab-scroll")
        self._table = _html(118, "leaselab-small", "leaselab-scroll")
        self._sentence = _html(66, "leaselab-small", "leaselab-scroll")
        self._log = _html(190, "leaselab-small", "leaselab-scroll")
        self._reasons, self._earlier = {}, {}
        super().__init__(self._column())
        self.add_class("leaselab")
        self.add_class(self._class)
        self.clock.observe(self._on_clock, "value")
        self.asking.observe(lambda _: self._show(), "value")
        self.answer.observe(lambda _: self._show(), "value")
        self.truth.observe(lambda change: setattr(lab, "truth", TRUTHS[change.new]), "value")
        lab.listeners.add(self)
        self._show()
        self._draw_ahead(list(range(len(lab.rehearsal.events) + 1)))

    def lab_changed(self):
        """A plain call has changed the lab: show what it is like now."""
        if not self._acting:
            self._set_clock(self.lab.t)
            self._show()

    def press(self, *names):
        """Press a button from a cell, as a hand would: one that is disabled does nothing.

        Args:
            names: the button's words, after its worker's name where it has one.
        """
        if names not in self._buttons:
            known = ", ".join(" ".join(words) for words in self._buttons)
            raise InputError(f"there is no button {' '.join(names)!r}; there are {known}.")
        if not self._buttons[names].disabled:
            self._buttons[names].click()

    def _repr_mimebundle_(self, **kwargs):
        """The widget; and for whatever shows no widgets, one sentence and the picture."""
        data = super()._repr_mimebundle_(**kwargs)
        data["text/plain"] = self.lab.trace.sentence
        data["image/png"] = self.lab.chart().png()
        return data, {"image/png": {"width": chart.WIDTH}}

    # The column, from top to bottom

    def _column(self):
        card = widgets.Box([self._below, self.clock, self._above, self._alt])
        card.add_class("leaselab-card")
        clock = [
            self._button("start", call=self.lab.restart),
            self._button("back", call=self.lab.back),
            self._button("next", call=self.lab.next),
            self._button("end", call=self._end),
            self._button("act from here", call=lambda: self.lab.rewind(self.clock.value)),
            self._button("other branch", call=self.lab.other_branch),
        ]
        lease = [
            self._button(words, press=lambda offset=offset: self._move_to_lease_end(offset))
            for words, offset in LEASE_BUTTONS.items()
        ]
        question = [self.asking, self.answer, self._button("lock in", call=self._lock_in)]
        label = _html(28, "leaselab-name")
        label.value = "service"
        service = [
            label,
            self.truth,
            self._button("enqueue a task", call=self.lab.enqueue),
        ]
        workers = [row for name in self.lab.workers for row in self._worker_rows(name)]
        return [
            *(self._style, self._title, card, widgets.HBox(clock), widgets.HBox(lease)),
            *(self._question, widgets.HBox(question), *workers, widgets.HBox(service)),
            *(self._table, self._sentence, self._log),
        ]

    def _worker_rows(self, name):
        self._reasons[name] = _html(34, "leaselab-small", "leaselab-scroll")
        self._earlier[name] = widgets.Dropdown(
            options=[NO_CLAIM], description="generation", layout={"width": "170px"}
        )
        self._earlier[name].style.description_width = "auto"
        label = _html(28, "leaselab-name")
        label.value = escape(f"worker {name}")
        buttons = [
            self._button(name, words, call=lambda act=act: act(self.lab, name))
            for words, act in ACTIONS.items()
        ]
        submit = self._button(name, EARLIER, call=lambda: self._submit_earlier(name))
        submit = widgets.HBox([submit, self._earlier[name]], layout={"margin": "0 0 0 84px"})
        return widgets.HBox([label, *buttons]), submit, self._reasons[name]

    def _button(self, *names, call=None, press=None):
        """A button that does a plain call of the lab, or something of the panel's own."""
        button = widgets.Button(description=names[-1], tooltip=" ".join(names))
        button.on_click(lambda _: press() if press else self._do(call))
        self._buttons[names] = button
        return button

    # What a control does

    def _do(self, call, stay=False):
        """A plain call; what it complains of is shown in its place, in the same words."""
        with self.lab.lock:
            self._message = ""
            self._acting = True
            try:
                call()
            except (InputError, StoreError) as error:
                self._message = str(error)
            self._acting = False
            if not stay:
                self._set_clock(self.lab.t)
            self._show()

    def _on_clock(self, change):
        with self.lab.lock:
            if self._settling:
                return
            looking_back = change.new <= self.lab.t
            self._do(lambda: looking_back or self._advance(change.new), stay=looking_back)

    def _advance(self, t):
        """Move the clock to ``t``, but not past a step that waits for an answer."""
        while self._locked() is None and self.lab.future and self.lab.future[0].t <= t:
            self.lab.next()
        locked = self._locked()
        if locked is None or locked.t > t:
            self.lab.play_to(t)
        else:
            self.lab.play_to(max(self.lab.t, locked.t - 1))
            raise InputError(f"The clock waits at t={self.lab.t} for your answer.")

    def _end(self):
        """As ``lab.play()``, but not past a step that waits for an answer."""
        while self._locked() is None and (self.lab.future or self.lab.under_way):
            self.lab.next()

    def _move_to_lease_end(self, offset):
        self.clock.value = self._lease_end() + offset

    def _lock_in(self):
        self.lab.ask(self.answer.value)

    def _submit_earlier(self, name):
        claim = self._earlier[name].value
        self.lab.finish(name, generation=claim.generation, task=claim.task_id)

    def _coming(self):
        """The next step, if it is one to be asked about and can be done."""
        step = self.lab.future[0] if self.lab.future else None
        asked = step is not None and step.ask and self.asking.value
        return step if asked and self.lab.can_do(step) else None

    def _locked(self):
        """The next step, if it waits for an answer."""
        step = self._coming()
        return step if step and self.lab.ask().answer is None else None

    def _lease_end(self):
        """The end of the last lease, or None."""
        leases = self.lab.trace.leases
        return leases[-1].end if leases else None

    # What it shows

    def _show(self):
        """Bring every widget up to date; those that stay the same send nothing."""
        with self.lab.lock:
            self._show_all()

    def _show_all(self):
        lab, now = self.lab, self.clock.value
        trace = lab.trace.at(now)
        looking_back = now < lab.t
        prefix = f"looking back at t={now}; the file is at t={lab.t}. " if looking_back else ""
        self._title.value = escape(self._message or prefix + trace.title)
        self._show_picture(trace)
        self._table.value = self._table_html(trace)
        # The picture's alt text has said it already, so it may come last.
        self._sentence.value = escape(trace.sentence)
        script = f"{lab.scenario.title}. {lab.scenario.limits}"
        log = [_log_html(step) for step in reversed(trace.steps)]
        self._log.value = "".join([*log, f"<div><i>Script: {escape(script)}</i></div>"])
        self._show_question()
        self._show_clock_buttons(looking_back)
        for name in lab.workers:
            self._show_worker(name, looking_back)

    def _show_picture(self, trace):
        below, above, height = self._picture(trace)
        self._style.value = _style(self._class, height)
        self._below.value = f'<img src="{below}" alt="" decoding="sync" />'
        self._above.value = f'<img src="{above}" alt="" decoding="sync" />'
        self._alt.value = f'<img src="{CLEAR}" alt="{escape(trace.sentence)}" />'

    def _picture(self, trace):
        """The two layers as addresses, and their height; drawn once for each set of events."""
        horizon = max(self.clock.max, self.lab.horizon)
        key = (horizon, *((event.t, event.actor, event.sentence) for event in trace.events))
        if key not in self._pictures:
            drawing = Chart(trace, horizon, lanes=max(len(self.lab.rehearsal.tasks), 1))
            layers = (
                "data:image/png;base64," + b64encode(png).decode() for png in drawing.layers()
            )
            self._pictures[key] = (*layers, drawing.height - chart.CROP)
        return self._pictures[key]

    def _draw_ahead(self, lengths):
        """Draw the script's pictures before they are needed, one whenever the kernel is idle."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel, nobody to wait for
            return
        events = self.lab.rehearsal.events[: lengths.pop(0)]
        with self.lab.lock:
            self._picture(
                Trace(events, None, self.lab.scenario.workers, self.lab.protocol.struck_out)
            )
        if lengths:
            loop.call_later(0.1, self._draw_ahead, lengths)

    def _table_html(self, trace):
        calls = ", ".join(
            f"t={entry['t']} for {entry['worker']}"
            for entry in self.lab.ledger[: trace.external_calls]
        )
        return (
            f"{trace.table()._repr_html_()}"
            f"<div>ledger: {trace.external_calls} {escape(f'({calls})') if calls else ''}</div>"
            f"<div>file: {escape(str(self.lab.path))}</div>"
        )

    def _show_question(self):
        lab, locked = self.lab, self._locked()
        settled = [question for question in lab.questions.values() if question.right is not None]
        told = [repr(settled[-1]), f"{lab.score}."] if settled else []
        asked = lab.ask() if self._coming() else None
        told = [*told, repr(asked)] if asked else told or ["No question is open."]
        self._question.value = "<br>".join(map(escape, told))
        if asked is not self._asked and asked:
            self.answer.options = asked.choices
            self.answer.value = asked.answer
        self._asked = asked
        self.answer.disabled = locked is None
        self._buttons["lock in",].disabled = locked is None or self.answer.value is None

    def _show_clock_buttons(self, looking_back):
        lab, locked, end = self.lab, self._locked() is not None, self._lease_end()
        for words, disabled in {
            "start": not lab.events,
            "back": not lab.events,
            "next": locked or not (lab.future or lab.under_way),
            "end": locked or not (lab.future or lab.under_way),
            "act from here": not looking_back,
            "other branch": not lab.branches,
        }.items():
            self._buttons[words,].disabled = disabled
        for words, offset in LEASE_BUTTONS.items():
            button = self._buttons[words,]
            button.disabled = end is None
            button.description = words if end is None else f"{words} (t={end + offset})"

    def _show_worker(self, name, looking_back):
        lab = self.lab
        several = len(lab.trace.tasks) > 1
        claims = {
            (f"task {claim.task_id}, " if several else "") + str(claim.generation): claim
            for claim in lab.workers[name].earlier
        }
        if [label for label, _ in self._earlier[name].options] != (list(claims) or ["none"]):
            self._earlier[name].options = list(claims.items()) or [NO_CLAIM]
            self._earlier[name].index = len(self._earlier[name].options) - 1
        reasons = {}
        for words in (*ACTIONS, EARLIER):
            if looking_back:
                reason = "looking back"
            elif words == EARLIER:
                reason = lab.why_not(name, "finish", generation=0)
                reason = reason if claims else f"{name} has no earlier generation"
            else:
                reason = lab.why_not(name, ASKED_AS.get(words, words))
            self._buttons[name, words].disabled = reason is not None
            if reason:
                reasons.setdefault(reason, []).append(words)
        self._reasons[name].value = "; ".join(
            f"<b>{', '.join(words)}</b>: {escape(reason)}" for reason, words in reasons.items()
        )

    def _set_clock(self, t):
        """Move the slider to where the clock of the lab stands."""
        self._settling = True
        self.clock.max = max(self.clock.max, self.lab.horizon)
        self.clock.value = t
        self._settling = False


LEASE_BUTTONS = {"just before the lease ends": -1, "when it ends": 0, "just after": 1}


def _html(height, *classes):
    """A piece of text of fixed height, so that nothing below it moves."""
    overflow = "hidden auto" if "leaselab-scroll" in classes else "hidden"
    html = widgets.HTML(layout={"height": f"{height}px", "overflow": overflow, "margin": "1px 0"})
    for name in classes:
        html.add_class(name)
    return html


@cache
def _style(panel, height):
    """The style sheet, with a panel's class and its chart's measures put in."""
    axis = height - chart.AXIS
    measures = {
        "panel": panel,
        "height": height,
        "track": chart.RIGHT - chart.LEFT + 12,  # an IntSlider keeps 6 pixels free on each side
        "left": chart.LEFT - 6,
        "top": axis - 14,
        "lanes": axis - chart.HEAD + chart.CROP,
    }
    css = (files("leaselab") / "panel.css").read_text(encoding="utf-8")
    for name, value in measures.items():
        css = css.replace(f"{{{name}}}", str(value))
    return f'<style onload="{escape(MIND_THE_KEYBOARD)}">{css}</style>'


def _log_html(step):
    """A step as a sentence; the SQL that ran opens below it."""
    sentence = escape(f"t={step.t}: {step.sentence}.")
    if not step.statements:
        return f"<div>{sentence}</div>"
    rows = f"{step.rows_changed} row{'' if step.rows_changed == 1 else 's'} changed"
    ran = "".join(
        f"<pre>{escape(statement.sql)}{escape(str(statement.sent))}</pre>"
        for statement in step.statements
    )
    return f"<details><summary>{sentence} {rows}.</summary>{ran}</details>"

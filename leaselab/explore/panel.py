"""The panel of guards: strike one out, and see at once what is broken then, in every schedule.

It computes nothing that a plain call cannot: a tick is ``explore(Protocol.without(…))``, and the
pictures are ``Finding.charts()``.
"""

import asyncio
from base64 import b64encode
from html import escape
from importlib.resources import files
from threading import RLock

import ipywidgets as widgets

from leaselab import chart
from leaselab.errors import InputError
from leaselab.explore.properties import PROPERTIES
from leaselab.explore.search import explore
from leaselab.protocol import Protocol

GUARDS = Protocol().guards
BREATH = 0.02  # seconds in which the kernel takes what has been clicked in the meantime
FEW = 5  # so many names have room in the title
DIFFERS = "\u25b8 "
# A screen reader is to say the title whenever it changes.
TELL_THE_TITLE = (
    "for (const title of document.querySelectorAll('.leaselab-guards .leaselab-title'))"
    " title.setAttribute('aria-live', 'polite')"
)


class GuardPanel(widgets.VBox):
    """A box for each guard, the verdicts without those that are off, and one of them drawn.

    Args:
        scope: a ``Scope`` for all properties; each property's own if none is given.

    ``guards`` has a checkbox for each guard, ``choice`` is the dropdown of what is drawn, and
    ``restore_all`` the button.
    """

    def __init__(self, scope=None):
        self.scope = scope
        self._lock = RLock()
        self._by_call = False
        self._pictures, self._shown = {}, None
        self._full = self._verdict = explore(scope=scope)
        self.guards = {
            name: widgets.Checkbox(value=True, indent=False, description=name) for name in GUARDS
        }
        self.restore_all = widgets.Button(description="every guard on again")
        self.choice = widgets.Dropdown(
            options=self._drawable(), description="What is drawn:", layout={"width": "480px"}
        )
        self.choice.style.description_width = "auto"
        self._title = _html(58, "leaselab-title")
        self._lines = {name: widgets.HTML() for name in GUARDS}
        self._table = _html(438, "leaselab-small")
        self._scope = _html(68, "leaselab-small")
        self._schedule = _html(68, "leaselab-small")
        self._charts = _html(836, "leaselab-charts")
        css = (files("leaselab.explore") / "panel.css").read_text(encoding="utf-8")
        style = widgets.HTML(f'<style onload="{escape(TELL_THE_TITLE)}">{css}</style>')
        boxes = widgets.VBox(list(self._rows()), layout={"height": "290px", "overflow": "auto"})
        boxes.add_class("leaselab-boxes")
        super().__init__(
            [
                *(style, self._title, boxes, self.restore_all, self._table, self._scope),
                *(self.choice, self._schedule, self._charts),
            ]
        )
        self.add_class("leaselab-guards")
        for box in self.guards.values():
            box.observe(self._on_change, "value")
        self.choice.observe(self._on_change, "value")
        self.restore_all.on_click(lambda _: self.restore())
        self._show_verdicts()
        self._settle()

    @property
    def struck_out(self):
        """The names of the guards whose boxes are off."""
        return tuple(name for name, box in self.guards.items() if not box.value)

    @property
    def verdict(self):
        """The ``Verdict`` without the guards that are struck out now."""
        with self._lock:
            if self._is_stale():
                self._search()
            return self._verdict

    @property
    def finding(self):
        """The ``Finding`` that is drawn."""
        return self.verdict[self.choice.value]

    @property
    def sentence(self):
        """What is struck out, and what is broken."""
        return f"{self._said_of_guards()} {self._said_of_properties()}"

    def strike_out(self, *guards):
        """Turn boxes off, as a hand would.

        Args:
            guards: ``"finish.generation"``, or ``"generation"`` for that guard of every statement.

        Raises:
            UnknownName (a ValueError): there is no such guard; the message lists those there are.
        """
        self._set(guards, False)

    def restore(self, *guards):
        """Turn boxes on again: those that are named as for ``strike_out``, or all if none is."""
        self._set(guards or GUARDS, True)

    def choose(self, name):
        """Draw what breaks this property, or shows that it is possible.

        Raises:
            UnknownName (a ValueError): there is no such property; the message lists those there are.
            InputError: it holds, so there is no schedule to draw.
        """
        with self._lock:
            finding = self.verdict[PROPERTIES[name].name]
            if not finding.schedule:
                raise InputError(f"{name} {finding.sentence}; there is nothing to draw.")
            self._put(self.choice, name)
            self._settle()

    def _repr_mimebundle_(self, **kwargs):
        """The widget; and for whatever shows no widgets, a short text and the picture."""
        with self._lock:
            self._settle()
            data = super()._repr_mimebundle_(**kwargs)
            broken = [f"  {name}: {_outcome(self._verdict[name])}" for name in self._verdict.broken]
            data["text/plain"] = "\n".join([self.sentence, *broken])
            if self.choice.value:
                data["image/png"] = self._drawn()[0][0]
            return data, {"image/png": {"width": chart.WIDTH}}

    # What a control does

    def _set(self, guards, in_force):
        Protocol().without(*guards)  # complains of a wrong name
        with self._lock:
            for name, box in self.guards.items():
                if name in guards or name.split(".")[1] in guards:
                    self._put(box, in_force)
            self._settle()

    def _put(self, control, value):
        """Set a control from here, so that it does nothing of its own."""
        self._by_call = True
        control.value = value
        self._by_call = False

    def _on_change(self, _):
        """A box was ticked or a choice made: say so at once, and do the work a moment later."""
        with self._lock:
            if not self._by_call:
                self._show_progress()
                self._soon()

    def _soon(self):
        try:
            asyncio.get_running_loop().call_later(BREATH, self._go_on)
        except RuntimeError:  # no kernel, nobody to wait for
            self._settle()

    def _go_on(self):
        """One piece of work, then a breath: what is clicked in the meantime makes the rest stale."""
        if self._work():
            self._soon()

    def _settle(self):
        """All the work at once."""
        self._show_progress()
        while self._work():
            pass

    def _work(self):
        """Search, or draw, if what is shown is not what the controls say; returns whether it did."""
        with self._lock:
            if self._is_stale():
                self._search()
            elif self._shown != (self.struck_out, self.choice.value):
                self._draw()
            else:
                return False
            return True

    def _is_stale(self):
        return self._verdict.protocol.struck_out != self.struck_out

    def _search(self):
        self._show_progress()
        broken, chosen = self._verdict.broken, self.choice.value
        self._verdict = explore(Protocol.without(*self.struck_out), scope=self.scope)
        options = self._drawable()
        names = [name for _, name in options]
        new = [name for name in names if name in self._verdict.broken and name not in broken]
        self._by_call = True
        with self.choice.hold_sync():
            self.choice.options = options
            if names:
                self.choice.value = (new or [name for name in names if name == chosen] or names)[0]
        self._by_call = False
        self._show_verdicts()
        self._show_progress()

    def _drawable(self):
        """What has a schedule, as options: first what the guards protect, last what is possible."""
        found = [finding for finding in self._verdict.values() if finding.schedule]
        found.sort(key=lambda finding: (finding.holds, not self._differs(finding)))
        return [
            (f"{finding.property.name}: {_verdict(finding)}", finding.property.name)
            for finding in found
        ]

    def _differs(self, finding):
        """Whether the full protocol has another verdict, or another number of steps."""
        full = self._full[finding.property.name]
        steps = [len(found.schedule or ()) for found in (finding, full)]
        return finding.holds != full.holds or steps[0] != steps[1]

    # What it shows

    def _rows(self):
        """A heading for each statement, and below it its guards, each a box with its SQL."""
        last = None
        for name, box in self.guards.items():
            statement = name.split(".")[0]
            if statement != last:
                purpose = Protocol()[statement].partition("\n")[0].removeprefix("-- ")
                yield widgets.HTML(f"<b>{statement}</b>{escape(purpose.removeprefix(statement))}")
            last = statement
            row = widgets.Box([box, self._lines[name]])
            row.add_class("leaselab-guard")
            yield row

    def _show_progress(self):
        """Show the boxes as they stand now, and whether what is below is not yet about them."""
        self._show_guards()
        if self._is_stale():
            self._title.value = escape(f"{self._said_of_guards()} Searching …")
        else:
            self._title.value = escape(self.sentence)
            if self._shown != (self.struck_out, self.choice.value):
                self._schedule.value = "drawing …"

    def _show_guards(self):
        protocol = Protocol.without(*self.struck_out)
        for name, box in self.guards.items():
            lines = protocol.lines(name)
            words = {"in force" if in_force else "struck out" for _, in_force in lines}
            words = words.pop() if len(words) == 1 else "struck out in part"
            sql = " ".join(
                line if in_force else f"<s>{line}</s>"
                for line, in_force in ((escape(line), in_force) for line, in_force in lines)
            )
            box.tooltip = f"{words}: {' '.join(line for line, _ in lines)}"
            shown = "" if words == "in force" else words
            self._lines[name].value = f"<div><b>{shown}</b><code>{sql}</code></div>"
        self.restore_all.disabled = not self.struck_out

    def _said_of_guards(self):
        off = self.struck_out
        return f"Struck out: {_few(off, 'guards')}." if off else "Every guard is on."

    def _said_of_properties(self):
        broken, never, unknown = [], [], []
        for name, finding in self._verdict.items():
            if finding.holds is None:
                unknown.append(name)
            elif not finding.holds:
                (never if finding.property.possible else broken).append(name)
        said = f"Broken: {_few(broken, 'properties')}."
        if never:
            said += f" Impossible now: {', '.join(never)}."
        if unknown:
            said += f" The search stopped at its cap, this is not a proof: {_few(unknown, 'properties')}."
        return said

    def _show_verdicts(self):
        rows, scopes = [], {}
        for name, finding in self._verdict.items():
            scopes.setdefault(finding.scope, []).append(name)
            mark, row = (
                (DIFFERS, ' class="leaselab-differs"') if self._differs(finding) else ("", "")
            )
            verdict = escape(f"{mark}{_verdict(finding)}")
            verdict = f"<b>{verdict}</b>" if finding.holds is False else verdict
            rows.append(
                f"<tr{row}><th scope='row'>{name}</th><td>{escape(finding.property.sentence)}</td>"
                f"<td>{verdict}</td></tr>"
            )
        head = ("property", "what it says", f"verdict ({DIFFERS}not as with every guard)")
        head = "".join(f"<th scope='col'>{words}</th>" for words in head)
        self._table.value = f"<table><tr>{head}</tr>{''.join(rows)}</table>"
        first, *others = scopes
        said = [f"Scope: {first}."]
        said += [f"For {', '.join(scopes[scope])}: {scope}." for scope in others]
        self._scope.value = "<br>".join(map(escape, said))

    def _draw(self):
        self._shown = self.struck_out, self.choice.value
        if self.choice.value is None:
            self._schedule.value, self._charts.value = "There is nothing to draw.", ""
            return
        finding, drawn = self.finding, self._drawn()
        head = "The same schedule under the full protocol"
        head += ":" if finding.differs is not None else " comes out the same:"
        images = [
            f'<img src="data:image/png;base64,{b64encode(png).decode()}" alt="{escape(sentence)}"'
            f' width="{chart.WIDTH}" height="{height}" decoding="sync" />'
            for png, sentence, height in drawn
        ]
        self._charts.value = f"<p>{head}</p>".join(images)
        counted = f"1 of {finding.equally_short:,} equally short; {finding.states:,} states"
        self._schedule.value = (
            f"<code>{escape(str(finding.schedule))}</code><br>{escape(finding.reason)} ({counted})"
        )

    def _drawn(self):
        """The pictures of the finding that is chosen: each a PNG, its sentence and its height."""
        if self._shown not in self._pictures:
            self._pictures[self._shown] = [
                (picture.png(), picture.sentence, picture.height)
                for picture in self.finding.charts()
            ]
        return self._pictures[self._shown]


def _html(height, *classes):
    """A piece of text of fixed height, so that nothing below it moves; the keyboard scrolls it."""
    layout = {"height": f"{height}px", "overflow": "auto", "margin": "1px 0"}
    html = widgets.HTML(layout=layout, tabbable=True)
    for name in classes:
        html.add_class(name)
    return html


def _verdict(finding):
    """The verdict without its schedule: ``holds in all 2,207 states``, ``broken after 4 steps``."""
    return finding.sentence.partition(": ")[0]


def _outcome(finding):
    """The verdict with its schedule, if it has one."""
    schedule = f": {finding.schedule}" if finding.schedule else ""
    return f"{_verdict(finding)}{schedule}"


def _few(names, kind):
    """Names, or how many they are."""
    return (", ".join(names) or "nothing") if len(names) <= FEW else f"{len(names)} {kind}"

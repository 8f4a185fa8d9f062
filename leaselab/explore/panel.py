"""The panel of guards: strike one out, and see at once what is broken then, in every schedule.

It computes nothing that a plain call cannot: a tick is ``explore(Protocol.without(…))``, and the
pictures are ``Finding.charts()``.
"""

import asyncio
from base64 import b64encode
from functools import partial
from html import escape
from importlib.resources import files
from itertools import groupby
from threading import RLock

import ipywidgets as widgets

from leaselab import chart
from leaselab.errors import InputError
from leaselab.explore.properties import PROPERTIES
from leaselab.explore.search import explore
from leaselab.protocol import Protocol

GUARDS = Protocol().guards
FEW = 5  # so many names have room in the title
CHANGED = "\u25b8 "
# A screen reader is to say the title whenever it changes. What is typed on a control, as the arrows
# on the dropdown, is no shortcut of JupyterLab, which else goes to another cell, or cuts this one.
MIND_THE_KEYBOARD = (
    "const panel = this.closest('.leaselab-guards');"
    " panel.querySelector('.leaselab-title').setAttribute('aria-live', 'polite');"
    " panel.addEventListener('focusin', event =>"
    " event.target.setAttribute('data-lm-suppress-shortcuts', 'true'))"
)


class GuardPanel(widgets.VBox):
    """A box for each guard, the verdicts without those that are off, and one of them drawn.

    Args:
        scope: a ``Scope`` for all properties; each property's own if none is given.

    ``guards`` has a checkbox for each guard's name; ``choice`` is the dropdown of what is drawn.
    """

    def __init__(self, scope=None):
        self.scope = scope
        self._lock = RLock()
        self._by_call, self._task = False, None
        self._full = self._verdict = explore(scope=scope)
        self._shown, self._drawn = None, {}
        self.guards = {
            name: widgets.Checkbox(value=True, indent=False, description=name) for name in GUARDS
        }
        self.all_on = widgets.Button(description="every guard on again")
        self.choice = widgets.Dropdown(options=self._drawable(), description="What is drawn:")
        self.choice.style.description_width = "auto"
        self.choice.layout.width = "480px"
        self._lines = {name: widgets.HTML() for name in GUARDS}
        self._title = _html(58, "leaselab-title")
        self._table = _html(520, "leaselab-small")
        self._scope = _html(68, "leaselab-small")
        self._schedule = _html(68, "leaselab-small")
        self._charts = _html(836, "leaselab-small", tabbable=True)
        boxes = widgets.VBox(self._rows(), layout={"height": "290px", "overflow": "auto"})
        boxes.add_class("leaselab-boxes")
        css = (files("leaselab.explore") / "panel.css").read_text(encoding="utf-8")
        style = widgets.HTML(f'<style onload="{escape(MIND_THE_KEYBOARD)}">{css}</style>')
        column = [style, self._title, boxes, self.all_on, self._table, self._scope]
        super().__init__([*column, self.choice, self._schedule, self._charts])
        self.add_class("leaselab-guards")
        for control in (*self.guards.values(), self.choice):
            control.observe(self._on_change, "value")
        self.all_on.on_click(lambda _: self._set(GUARDS, True, then=self._begin))
        self._show_verdicts()
        self._settle()

    @property
    def struck_out(self):
        """The names of the guards whose boxes are off."""
        return tuple(name for name, box in self.guards.items() if not box.value)

    @property
    def verdict(self):
        """The ``Verdict`` without the guards that are struck out now."""
        if self._stale:
            self._take_verdict(explore(Protocol.without(*self.struck_out), scope=self.scope))
        return self._verdict

    @property
    def finding(self):
        """The ``Finding`` that is drawn, or None."""
        verdict = self.verdict
        return verdict[self.choice.value] if self.choice.value else None

    def strike_out(self, *guards):
        """Turn boxes off, as a hand would.

        Args:
            guards: ``"finish.generation"``; or ``"generation"``, for that of every statement.

        Raises:
            UnknownName (a ValueError): there is no such guard; the message lists those there are.
        """
        self._set(guards, False, then=self._settle)

    def restore(self, *guards):
        """Turn boxes on again: those that are named as for ``strike_out``, or all if none is."""
        self._set(guards or GUARDS, True, then=self._settle)

    def choose(self, name):
        """Draw the schedule that breaks this property, or shows that it is possible.

        Raises:
            UnknownName (a ValueError): there is no such property; the message lists those there are.
            InputError: there is no such schedule.
        """
        finding = self.verdict[PROPERTIES[name].name]
        if not finding.schedule:
            raise InputError(f"{name} {finding.sentence}; there is nothing to draw.")
        with self._lock:
            self._put(self.choice, "value", name)
        self._settle()

    def _repr_mimebundle_(self, **kwargs):
        """The widget; and for whatever shows no widgets, a few lines and the picture."""
        self._settle()
        data = super()._repr_mimebundle_(**kwargs)
        broken = [f"  {name}: {self._verdict[name].sentence}" for name in self._verdict.broken]
        data["text/plain"] = "\n".join([self._title_text(), *broken])
        png = self._drawn[self._shown][-1]
        return data | ({"image/png": png} if png else {}), {"image/png": {"width": chart.WIDTH}}

    # What a control does

    def _set(self, guards, in_force, then):
        Protocol.without(*guards)  # complains of a wrong name
        with self._lock:
            for name, box in self.guards.items():
                if name in guards or name.split(".")[1] in guards:
                    self._put(box, "value", in_force)
        then()

    def _put(self, control, name, value):
        """Set a control from here, so that it begins nothing."""
        self._by_call = True
        setattr(control, name, value)
        self._by_call = False

    def _on_change(self, _):
        with self._lock:
            if not self._by_call:
                self._begin()

    def _begin(self):
        """Say at once what is asked for; the work is done beside the kernel, which hears each click."""
        self._show_guards()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel, nobody to wait for
            self._settle()
        else:
            if self._task is None or self._task.done():
                self._task = loop.create_task(self._work_on())

    async def _work_on(self):
        while work := self._next_work():
            call, take = work
            take(await asyncio.to_thread(call))

    def _settle(self):
        self._show_guards()
        while work := self._next_work():
            call, take = work
            take(call())

    def _next_work(self):
        """What is to be done, by what the controls say now: a call, and who takes its answer."""
        with self._lock:
            off, chosen = asked = self._asked
            if self._stale:
                search = partial(explore, Protocol.without(*off), scope=self.scope)
                return search, self._take_verdict
            if self._shown != asked:
                finding = self._verdict[chosen] if chosen else None
                return partial(self._draw, asked, finding), self._take_drawing

    @property
    def _stale(self):
        return self._verdict.protocol.struck_out != self.struck_out

    @property
    def _asked(self):
        return self.struck_out, self.choice.value

    def _take_verdict(self, verdict):
        """Show it; what is newly broken is chosen to be drawn."""
        with self._lock:
            broken, chosen = self._verdict.broken, self.choice.value
            self._verdict = verdict
            options = self._drawable()
            names = [name for _, name in options]
            new = [name for name in names if name in verdict.broken and name not in broken]
            kept = [name for name in names if name == chosen]
            with self.choice.hold_sync():
                self._put(self.choice, "options", options)
                self._put(self.choice, "value", next(iter(new + kept + names), None))
            self._show_verdicts()
            self._show_guards()

    def _drawable(self):
        """What has a schedule: first what is broken by striking out, last what is possible."""
        found = [finding for finding in self._verdict.values() if finding.schedule]
        found.sort(key=lambda finding: (finding.holds, not self._has_changed(finding)))
        names = [finding.property.name for finding in found]
        return [(f"{name}: {_verdict(finding)}", name) for name, finding in zip(names, found)]

    def _has_changed(self, finding):
        """Whether the full protocol has another verdict, or another number of steps."""
        both = finding, self._full[finding.property.name]
        mine, full = [(found.holds, len(found.schedule or ())) for found in both]
        return mine != full

    # What it shows

    def _rows(self):
        """A heading for each statement; below it its guards, each a box with its SQL."""
        rows = []
        for statement, names in groupby(GUARDS, key=lambda name: name.split(".")[0]):
            purpose = Protocol()[statement].partition("\n")[0].removeprefix(f"-- {statement}")
            rows.append(widgets.HTML(f"<b>{statement}</b>{escape(purpose)}"))
            for name in names:
                rows.append(widgets.Box([self.guards[name], self._lines[name]]))
                rows[-1].add_class("leaselab-guard")
        return rows

    def _show_guards(self):
        """The boxes as they stand now, and whether what stands below is not yet about them."""
        protocol = Protocol.without(*self.struck_out)
        for name, box in self.guards.items():
            lines = protocol.lines(name)
            states = [in_force for _, in_force in lines]
            words = "" if all(states) else "struck out in part" if any(states) else "struck out"
            box.tooltip = f"{words or 'in force'}: {' '.join(line for line, _ in lines)}"
            marks = [("", "") if in_force else ("<s>", "</s>") for in_force in states]
            sql = " ".join(escape(line).join(mark) for (line, _), mark in zip(lines, marks))
            self._lines[name].value = f"<div><b>{words}</b><code>{sql}</code></div>"
        self.all_on.disabled = not self.struck_out
        self._title.value = escape(self._title_text())
        if self._shown != self._asked:
            self._schedule.value = "drawing \u2026"

    def _title_text(self):
        off, broken = self.struck_out, self._verdict.broken
        said = f"Struck out: {_few(off, 'guards')}." if off else "Every guard is on."
        if self._stale:
            return f"{said} Searching \u2026"
        unknown = [name for name, finding in self._verdict.items() if finding.holds is None]
        proof = f" The search stopped at its cap, no proof: {_few(unknown, 'properties')}."
        said += f" Broken: {_few(broken, 'properties') or 'nothing'}."
        return said + (proof if unknown else "")

    def _show_verdicts(self):
        head = ("property", "what it says", f"verdict, {CHANGED}where it has changed")
        rows = ["".join(f"<th scope='col'>{words}</th>" for words in head)]
        scopes = {}
        for name, finding in self._verdict.items():
            scopes.setdefault(finding.scope, []).append(name)
            changed, verdict = self._has_changed(finding), escape(_verdict(finding))
            verdict = f"<b>{verdict}</b>" if finding.holds is False else verdict
            rows.append(
                f"<th scope='row'{' class=leaselab-changed' if changed else ''}>{name}</th>"
                f"<td>{escape(finding.property.sentence)}</td>"
                f"<td>{CHANGED if changed else ''}{verdict}</td>"
            )
        self._table.value = f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
        first, *others = scopes
        said = [f"Scope: {first}."]
        said += [f"For {', '.join(scopes[scope])}: {scope}." for scope in others]
        self._scope.value = "<br>".join(map(escape, said))

    def _draw(self, asked, finding):
        """What is shown of a finding, drawn once: its schedule, its charts, the PNG of the first."""
        if asked not in self._drawn:
            nothing = "There is nothing to draw.", "", None
            if finding is None:
                self._drawn[asked] = nothing
            else:
                with finding.labs_for_a_while():
                    self._drawn[asked] = _drawing(finding)
        return asked

    def _take_drawing(self, asked):
        self._shown = asked
        schedule, self._charts.value, _ = self._drawn[asked]
        self._schedule.value = schedule  # last, so no other picture stands below it


def _drawing(finding):
    counted = f"1 of {finding.equally_short:,} equally short; {finding.states:,} states"
    reason = escape(f"{finding.reason} ({counted})")
    below = "This is the full protocol; there is nothing to compare it with."
    if finding.repaired:
        same = " comes out the same" if finding.differs is None else ""
        below = f"The same schedule under the full protocol{same}:"
    charts = finding.charts()
    pictures = [picture.png() for picture in charts]
    images = [
        f'<img src="data:image/png;base64,{b64encode(png).decode()}" width="{chart.WIDTH}"'
        f' height="{picture.height}" alt="{escape(picture.sentence)}" decoding="sync" />'
        for png, picture in zip(pictures, charts)
    ]
    schedule = f"<code>{escape(str(finding.schedule))}</code><br>{reason}"
    return schedule, f"{images[0]}<p>{below}</p>{''.join(images[1:])}", pictures[0]


def _html(height, *classes, **traits):
    """A piece of text of fixed height, so that nothing below it moves."""
    layout = {"height": f"{height}px", "overflow": "auto", "margin": "1px 0"}
    html = widgets.HTML(layout=layout, **traits)
    for name in classes:
        html.add_class(name)
    return html


def _verdict(finding):
    """The verdict without its schedule, as ``broken after 4 steps``."""
    return finding.sentence.partition(": ")[0]


def _few(names, what):
    """Names, or how many they are."""
    return ", ".join(names) if len(names) <= FEW else f"{len(names)} {what}"

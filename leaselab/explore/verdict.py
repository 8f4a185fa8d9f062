"""What a search has found: of each property whether it holds, and in how many states.

A schedule that breaks a property ends as a ``Lab`` on a real file, and so as the same trace, chart
and sentences as a lesson.
"""

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape

from leaselab.chart import Chart
from leaselab.errors import InputError, StoreError, UnknownName
from leaselab.explore.properties import Property
from leaselab.explore.schedule import Schedule
from leaselab.explore.scope import Scope
from leaselab.lab import Lab
from leaselab.protocol import Protocol
from leaselab.scenarios import Scenario


@dataclass(frozen=True)
class Finding:
    """What a search says of one property.

    Attributes:
        property: the ``Property``.
        protocol: the statements that were run.
        scope: the ``Scope`` that was searched.
        states: how many states were reached. ``transitions``: how many steps were tried from them.
        complete: whether these are all states of the scope.
        schedule: the shortest schedule that breaks it (or shows that it is possible), or None.
        reason: what happens at its end.
        equally_short: how many schedules are as short as this one.

    In a notebook it shows its sentence and, if there is a schedule, the charts.
    """

    property: Property
    protocol: Protocol
    scope: Scope
    states: int
    transitions: int
    complete: bool = False
    schedule: Schedule | None = None
    reason: str = ""
    equally_short: int = 0

    @property
    def holds(self):
        """True or False; None if the search stopped at its cap before it knew."""
        if self.schedule is not None:
            return self.property.possible
        return (not self.property.possible) if self.complete else None

    @property
    def sentence(self):
        """The verdict in one sentence."""
        states = f"{self.states:,} states"
        if self.holds is None:
            return f"stopped at the cap of {self.scope.cap:,} states: this is not a proof"
        if self.schedule is None:
            return f"holds in all {states}" if self.holds else f"never happens in all {states}"
        steps = "1 step" if len(self.schedule) == 1 else f"{len(self.schedule)} steps"
        length = f"after {steps}: {self.schedule}"
        counted = f"(1 of {self.equally_short:,} equally short; {states})"
        if self.holds:
            return f"possible {length} {counted}"
        return f"broken {length}: {self.reason} {counted}"

    def __repr__(self):
        return f"{self.property.name}: {self.sentence}. Scope: {self.scope}."

    # The schedule, on real files

    @cached_property
    def lab(self):
        """The schedule played on a real file, by a ``Lab``, under the protocol of the search."""
        return self._play(self.protocol)

    @cached_property
    def repaired(self):
        """The same schedule under the full protocol; None if the search has run that one."""
        changed = self.protocol.struck_out or self.protocol.rewritten
        return self._play(Protocol()) if changed else None

    @property
    def trace(self):
        """The trace that the schedule leaves."""
        return self.lab.trace

    @contextmanager
    def labs_for_a_while(self):
        """Labs that are made within are forgotten at its end: a notebook keeps what it has shown."""
        kept = set(vars(self))
        yield
        for name in {"lab", "repaired"} - kept:
            vars(self).pop(name, None)

    @property
    def differs(self):
        """The place in the script of the first step that comes out otherwise; None if none does."""
        if self.repaired is None:
            return None
        pairs = zip(_answers(self.lab), _answers(self.repaired))
        return next((place for place, (here, there) in enumerate(pairs) if here != there), None)

    def charts(self):
        """The schedule's chart; below it, if there is one, that of the full protocol."""
        labs = [lab for lab in (self.lab, self.repaired) if lab]
        horizon = max(lab.trace.horizon for lab in labs) + 2
        step = None if self.differs is None else self.lab.scenario.steps[self.differs]
        return [Chart(lab.trace, horizon, differs=step and step[:2]) for lab in labs]

    @property
    def calls(self):
        """The schedule as plain calls, which play it in a Lab on a real file."""
        return "\n".join(self._calls())

    @property
    def test(self):
        """A pytest file of one function, which fails as long as the property is broken."""
        calls = self._calls()
        if self.differs is not None:
            place = 1 + self.differs
            calls[place:] = [_expected(calls[place], _answers(self.repaired)[self.differs])]
        elif self.property.name == "side_effect":
            calls.append("assert len(lab.ledger) == 1")
        else:
            raise InputError(
                f"{self.property.name} is broken under the full protocol, too: no step could be "
                "expected to come out otherwise."
            )
        names = ["Lab", *(name for name in ("Protocol", "Scenario") if name in calls[0])]
        lines = "\n".join([f'"""{self.property.sentence}"""', *calls]).splitlines()
        body = [f"    {line}".rstrip() for line in lines]
        head = f"from leaselab import {', '.join(names)}"
        return "\n".join([head, "", "", f"def test_{self.property.name}():", *body])

    def _play(self, protocol):
        if self.schedule is None:
            raise InputError(f"{self.property.name} {self.sentence}; there is no schedule to play.")
        scenario = self.schedule.scenario(self.protocol, self.scope)
        lab = Lab(scenario, protocol=protocol, idempotency_key=self.scope.idempotency_key)
        with suppress(StoreError):  # a statement that cannot be run is the last step
            lab.play()
        return lab

    def _calls(self):
        """The lab, then one call for each step of the script."""
        scenario = self.lab.scenario
        made = []
        if (scenario.lease, scenario.workers) != (Scenario().lease, Scenario().workers):
            made.append(f"Scenario(lease={scenario.lease}, workers={scenario.workers})")
        if self.repaired:
            made.append(f"protocol={self.protocol}")
        if self.scope.idempotency_key:
            made.append("idempotency_key=True")
        calls, now = [f"lab = Lab({', '.join(made)})"], 0
        for step in scenario.steps:
            sent = dict(step.arguments)
            given = [f'"{step.actor}"'] if step.actor in scenario.workers else []
            given += [f'"{sent.pop("run_id")}"'] if step.action == "enqueue" else []
            given += [f'"{sent.pop("value")}"'] if step.action == "commit_run" else []
            given += [f"{name}={value}" for name, value in sent.items()]
            clock = f".play_to({step.t})" if step.t > now else ""
            calls.append(f"lab{clock}.{step.action}({', '.join(given)})")
            now = step.t
        return calls

    @property
    def pictures(self):
        """The charts as HTML, one below the other."""
        heads = ("", "<p>The same schedule under the full protocol:</p>")
        with self.labs_for_a_while():
            charts = [chart._repr_mimebundle_()[0]["text/html"] for chart in self.charts()]
        return "".join(head + chart for head, chart in zip(heads, charts))

    def _repr_mimebundle_(self, **_):
        data = {"text/plain": repr(self)}
        if self.schedule is not None:
            data["text/html"] = f"<p>{escape(repr(self))}</p>{self.pictures}"
        return data


class Verdict(dict):
    """A ``Finding`` for each property that was asked for, by its name."""

    def __init__(self, protocol, findings):
        super().__init__(findings)
        self.protocol = protocol

    def __missing__(self, name):
        raise UnknownName(f"{name!r} was not asked for; there are {', '.join(self)}.")

    @property
    def holds(self):
        """Whether every property holds: True, False, or None if a search stopped at its cap."""
        answers = [finding.holds for finding in self.values()]
        return False if False in answers else None if None in answers else True

    @property
    def broken(self):
        """The names of the properties that do not hold."""
        return [name for name, finding in self.items() if finding.holds is False]

    def __repr__(self):
        lines, scopes = [f"{self.protocol}"], {}
        for name, finding in self.items():
            scopes.setdefault(finding.scope, []).append(f"  {name}: {finding.sentence}")
        for scope, said in scopes.items():
            lines += [f"{scope}:", *said]
        return "\n".join(lines)


def _answers(lab):
    """What came back at each step of a script; ``"left out"`` where it could not be done."""
    events = iter(lab.events)
    answers = [next(events).returned if step.done else "left out" for step in lab.history]
    return answers + ["cannot be run"] * (len(lab.scenario.steps) - len(answers))


def _expected(call, answer):
    """A call as an assertion of what it should give back."""
    if answer is None or isinstance(answer, bool):
        return f"assert {call} is {answer}"
    return f"assert {call} == {answer!r}"

"""The replay of a field incident: step by step what came back, and whether its damage shows."""

from functools import cached_property
from html import escape
from typing import NamedTuple

from leaselab.errors import InputError, StoreError
from leaselab.scenarios import Step
from leaselab.trace import Event, Table

LEFT_OUT = "left out"  # the worker could not do it, such as finish what it was never given


class Played(NamedTuple):
    """A step that was played; ``row`` is None if the table has none, ``event`` if it was left out."""

    row: object
    step: Step
    came: object
    event: Event | None

    @property
    def surprising(self):
        """Whether something else came back than the table says."""
        return self.row is not None and self.came != self.row.expected


class Replay(Table):
    """An incident that was played. In a notebook: its table, its verdict and its chart.

    Attributes:
        incident: the ``Incident``. ``broken``: whether it was played under the broken protocol.
        lab: the ``Lab`` that has played it. ``trace``: what it has left.
        steps: every step, with what came back.
        damages: for each damage of the incident where it shows, in words; None if it does not.
    """

    def __init__(self, incident, broken=False):
        self.incident = incident
        self.broken = broken
        self.lab = incident.lab(broken=broken)
        try:
            self.lab.play()
        except (StoreError, TypeError, LookupError) as error:
            # A statement of somebody's own that SQLite cannot run, or that gives back what is no claim.
            step = self.lab.future[0]
            said = "it gives back what no worker can go on with"
            if isinstance(error, StoreError):
                said = str(error).partition("SQLite says ")[2] or str(error)
            raise InputError(
                f"the broken run of {incident.name!r} stops at t={incident.seconds(step.t)}, "
                f"with {step.actor}'s {step.action}: {said}"
            ) from error
        self.trace = self.lab.trace
        events = iter(self.trace.events)
        self.steps = []
        for (row, step), done in zip(incident.script(broken), self.lab.history):
            event = next(events) if done.done else None
            # Who has looked and found nothing has nothing to take: the claim is refused.
            nothing = None if step.action == "take" else LEFT_OUT
            self.steps.append(Played(row, step, event.returned if event else nothing, event))
        self.steps = self.steps[len(incident.tasks) :]
        self.damages = {name: DAMAGES[name](self.trace) for name in incident.damage}
        self.headings = ("t", "who", "what", "must come back", "came back")
        self.rows = [self._cells(played) for played in self.steps]

    def _cells(self, played):
        row, step, came, event = played
        what = row.what if row else {"look": "look"}.get(step.action, "call once more")
        if step.action == "take":
            what = "take"
        elif row and step.arguments.get("outcome") != row.step.arguments.get("outcome"):
            what = what.replace("uncertain", "done")
        elif "key" in step.arguments and step.arguments["key"] is None:
            what = f"{what.partition(' ')[0]} without a key" if row else what
        must = self._said(step.action, row.expected) if row else "-"
        came = self._said(step.action, came)
        came += f": {event.reason}" if event and event.refused else ""
        cells = (self.incident.seconds(step.t), step.actor, what, must)
        return [*((cell, False) for cell in cells), (came, played.surprising)]

    def _said(self, action, returned):
        """What came back, in the words of a table."""
        if isinstance(returned, str):
            return returned
        if returned is None or isinstance(returned, bool):
            return "accepted" if returned else "refused"
        if action == "renew":
            return f"until {self.incident.seconds(returned)}"
        return f"{WORDS.get(action, 'generation')} {returned}"

    @property
    def surprises(self):
        """The steps at which something else came back than the table says."""
        return [played for played in self.steps if played.surprising]

    @property
    def as_promised(self):
        """Under the full protocol: every step came back as it must, and there is no damage.

        Under the broken one: every damage shows.
        """
        shown = [where is not None for where in self.damages.values()]
        return all(shown) if self.broken else not (any(shown) or self.surprises)

    @property
    def sentence(self):
        """The verdict in one sentence."""
        shown = [where for where in self.damages.values() if where is not None]
        if self.broken:
            if self.as_promised:
                return f"The damage: {'; '.join(shown)}."
            missing = next(name for name, where in self.damages.items() if where is None)
            return f"No damage: {missing!r} is promised, and the broken run does not show it."
        if self.surprises:
            row, step, came, _ = self.surprises[0]
            must, came = (self._said(step.action, said) for said in (row.expected, came))
            return (
                f"Row {row.number}: to {step.actor}'s {row.what} at t={self.incident.seconds(step.t)} "
                f"must come back {must!r}, and {came!r} came back."
            )
        if shown:
            return f"The full protocol does not keep the damage away: {shown[0]}."
        refused = sum(played.event.refused for played in self.steps)
        return f"All {len(self.steps)} steps came back as they must, {refused} of them as refused."

    @cached_property
    def other(self):
        """The same incident under the other protocol."""
        other = Replay(self.incident, not self.broken)
        vars(other)["other"] = self  # each is the other's other
        return other

    def chart(self):
        """The timeline, on the same axis as the other one's.

        The first step that comes out otherwise under the broken protocol is marked in both.
        """
        from leaselab.chart import Chart

        surprises = (self if self.broken else self.other).surprises
        horizon = max(self.lab.horizon, self.other.lab.horizon)
        return Chart(self.trace, horizon, differs=surprises[0].step[:2] if surprises else None)

    @property
    def head(self):
        """What was played, in a line."""
        broken = self.incident.protocol
        missing = [f"without {guard}" for guard in broken.struck_out]
        missing += [f"{name} rewritten" for name in broken.rewritten]
        missing += sorted(self.incident.missing)
        unit = "; the file counts milliseconds" if self.incident.per_second > 1 else ""
        return (f"Broken: {', '.join(missing)}" if self.broken else "The full protocol") + unit

    def __repr__(self):
        return f"{self.head}\n{super().__repr__()}\n{self.sentence}"

    def _repr_html_(self):
        head, sentence = (f"<p>{escape(text)}</p>" for text in (self.head, self.sentence))
        return head + super()._repr_html_() + sentence

    def _repr_mimebundle_(self, **_):
        chart = self.chart()._repr_mimebundle_()[0]["text/html"]
        return {"text/plain": repr(self), "text/html": self._repr_html_() + chart}


WORDS = {"call_external": "ledger", "look": "task"}


# Damage: what a trace shows, as a function that says where; it gives None if it does not.


def _holders(trace):
    """For each event, who holds a live lease right after it, as far as they were told.

    By worker's name, the row as the claim left it.
    """
    held = {}
    for event in trace.events:
        row, _ = held.get(event.actor, ({}, 0))
        if event.action in ("claim", "take") and not event.refused:
            held[event.actor] = event.row, event.row["lease_until"]
        elif row and (event.task_id, event.sent.get("generation")) == (
            row.get("id"),
            row.get("generation"),
        ):
            held.pop(event.actor)  # whatever was answered, the claim is over
            if event.action == "renew" and not event.refused:
                held[event.actor] = row, event.returned
        yield event, {name: row for name, (row, end) in held.items() if event.t < end}


def _together(words, forbidden):
    """Two workers hold, at one moment, what must not be held by two."""

    def where(trace):
        for event, holders in _holders(trace):
            for name, row in holders.items():
                for other, its in holders.items():
                    if name < other and forbidden(row, its):
                        return words.format(event.t, name, row, other, its)

    return where


def _live_lease_taken_over(trace):
    for event in trace.events:
        claimed = event.action in ("claim", "take") and not event.refused
        end = event.before["lease_until"] if claimed else None
        if end is not None and event.t < end:
            owner = event.before["lease_owner"]
            return (
                f"at t={event.t} {event.actor} takes {owner}'s lease, which is live until t={end}"
            )


def _stale(action):
    """An earlier generation is accepted over a later one."""

    def where(trace):
        for event in trace.events:
            if event.action == action and event.stale and not event.refused:
                sent, has = event.sent["generation"], event.row["generation"]
                return f"at t={event.t} {action} {sent} is accepted over generation {has}"

    return where


def _acted_twice(trace):
    calls = [event for event in trace.events if event.sent.get("acted")]
    for number, call in enumerate(calls):
        for earlier in calls[:number]:
            if earlier.task_id == call.task_id:
                return (
                    f"the service has acted twice for task {call.task_id}, at t={earlier.t} and "
                    f"t={call.t}: the ledger says {call.external_calls}"
                )


DAMAGES = {
    "two live holders": _together(
        "at t={0} {1} (generation {2[generation]}) and {3} (generation {4[generation]}) both hold "
        "task {2[id]}",
        lambda row, its: row["id"] == its["id"],
    ),
    "two of one run": _together(
        "at t={0} {1} holds task {2[id]} and {3} task {4[id]} of {2[run_id]}",
        lambda row, its: row["run_id"] == its["run_id"] and row["id"] != its["id"],
    ),
    "live lease taken over": _live_lease_taken_over,
    "stale renew accepted": _stale("renew"),
    "stale release accepted": _stale("release"),
    "stale finish accepted": _stale("finish"),
    "acted twice": _acted_twice,
}

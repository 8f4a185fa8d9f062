"""The trace: what happened, what came back, and what the files held right after.

Everything a reader sees comes from a trace: the table, the sentences and the chart. A trace only
reads; it never runs a statement, and it looks the same whether a Lab, a search or a real worker
left it.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape

# What happened, in words. The values come from the event and from the row right after.
SENTENCES = {
    "enqueue": "the client enqueues task {task_id}: accepted, not yet done",
    "claim": "{actor} claims task {task_id}: generation {row_generation}, lease {lease}",
    "takeover": "{actor} takes over{which}: generation {row_generation}, lease {lease}",
    "claim live": "{actor}, whose clock says {t}, claims task {task_id}, which {previous} holds until "
    "{held_until}: generation {row_generation}, lease to {lease_until}",
    "claim refused": "{actor}'s claim is refused: {reason}",
    "look": "{actor} looks: task {task_id} may be claimed; nothing is written yet",
    "look refused": "{actor} looks and finds nothing: {reason}",
    "take": "{actor} takes task {task_id}: generation {row_generation}, lease {lease}",
    "take live": "{actor} takes task {task_id}, which {previous} holds: generation "
    "{row_generation}, lease {lease}",
    "renew": "{actor} renews generation {generation}{clock}: the lease now ends at {returned}",
    "renew refused": "{actor}'s renewal is refused: {reason}",
    "finish": "{actor} finishes{which}{comma} generation {generation}: the task is {state}",
    "stale": "a stale {what} of {actor} (generation {generation}) is accepted over "
    "generation {row_generation}: the task is {state}",
    "stale commit_run": "a stale commit of {actor} to {run_id} (generation {generation}) is accepted "
    "over generation {row_generation}: revision {revision}",
    "stale renew": "{actor}'s stale renewal (generation {generation}) is accepted over generation "
    "{row_generation}: the lease now ends at {returned}",
    "stale exhaust": "a stale exhaust of {actor} (generation {generation}) is accepted over "
    "generation {row_generation}: the task and {run_id} fail",
    "late finish": "{actor}'s commit is accepted after its lease has ended: the task is {state}",
    "finish refused": "{actor}'s commit is refused: {reason}",
    "stale finish refused": "generation {row_generation} rejects {actor}'s stale commit: {reason}",
    "send_finish": "{actor} sends finish {outcome} (generation {generation}); it will arrive "
    "at t={arrives_at}",
    "ack": "{actor} acknowledges generation {generation}: the task is done",
    "ack refused": "{actor}'s ack is refused: {reason}",
    "release": "{actor} releases generation {generation}: pending, available at {available_at}",
    "release refused": "{actor}'s release is refused: {reason}",
    "commit_run": "{actor} commits {run_id} with generation {generation}: revision {revision}",
    "commit_run refused": "{actor}'s write to {run_id} is refused ({returned}): {reason}",
    "exhaust": "claim {generation} is one too many: the task and {run_id} fail",
    "exhaust refused": "{actor}'s exhaust is refused: {reason}",
    "go on": "{actor} may go on: {reason}",
    "start": "{actor} starts",
    "close": "{actor} closes: it claims no more",
    "suspend": "{actor} is suspended: {kept}",
    "resume": "{actor} goes on and does not know that it was suspended: the row says {state}",
    "lease_lost": "{actor} stops working on generation {generation}: {why}",
    "drop": "{actor} drops a result of generation {generation}: {why}",
    "fail": "{actor}'s work fails: {why}",
    "clock_back": "{actor}'s clock was set back by {milliseconds} ms: leases end later than they "
    "should, and nothing is lost",
    "crash": "{actor} crashes: {kept}",
    "reopen": "{actor} opens the file again: {kept}",
    "crash_and_reopen": "{actor} crashes and opens the file again: {kept}",
    "call_external": "{actor} calls the service and hears back: the ledger says {ledger}",
    "call_external timeout": "{actor} calls the service and sees a timeout: {truth}; "
    "the ledger says {ledger}",
    "call_external known": "{actor} calls the service, which knows the key {key} and does not act "
    "again: the ledger says {ledger}",
    "act known": "a call that {caller} gave up on arrives; the service knows the key {key} and "
    "does not act: the ledger says {ledger}",
    "act": "the service carries out a call that {caller} gave up on: the ledger says {ledger}",
}

# Why the file refused, by the guard that said no.
REASONS = {
    "final": "{state} is final",
    "available": "{t} < {available_at}, it is not available yet",
    "one_per_run": "another task of {run_id} is running",
    "generation": "sent gen {generation}, row has gen {row_generation}",
    "owner": "the row's owner is {owner}",
    "running": "the task is {state}, not running",
    "expiry": "{t} < {lease_until} is false, the lease has ended",
    "revision": "sent revision {sent_revision}, run at {revision}",
    "attempt_limit": "claim {row_generation} is within the limit",
    "active_run": "{run_id} is {run_state}",
    "no lease": "the task is {state}, no lease is held",
    "claim.expiry": "{t} < {lease_until}, {owner}'s lease is live",
    "claim.takeover": "the row is {owner}'s, and no rule ends a lease",
}

COMMITS = ("finish", "commit_run")  # what writes a result: a file that refuses it rejects it

TRUTHS = {
    "request": "the request never arrived",
    "reply": "the service acted, the reply was lost",
    "known": "the service knew the key {key}, the reply was lost",
    None: "the service will act at t={acts_at}",
}


@dataclass(frozen=True)
class Event:
    """One action at one instant.

    Attributes:
        t: when, in the trace's unit of time.
        actor: a worker's name, ``"client"`` or ``"service"``.
        action: ``"enqueue"``, ``"claim"``, ``"finish"``, ``"crash"`` …
        sent: what the actor sent along, such as ``{"generation": 1, "outcome": "done"}``.
        returned: what came back to the actor.
        task_id: the task that was meant, or None.
        before: that task's row just before, or None.
        tasks: every row of the task table right after, read back from the file.
        runs: every row of the run table right after, read back from the file.
        external_calls: how often the outside service has acted, read back from its ledger.
        statements: the SQL that ran, with what was sent and the rows it changed.
        refusals: the guards that said no, as SQLite judged them.
    """

    t: int
    actor: str
    action: str
    sent: dict = field(default_factory=dict)
    returned: object = None
    task_id: int | None = None
    before: dict | None = None
    tasks: tuple = ()
    runs: tuple = ()
    external_calls: int = 0
    statements: tuple = ()
    refusals: tuple | None = None

    @property
    def row(self):
        """The row of the task that was meant, right after, or None."""
        return next((row for row in self.tasks if row["id"] == self.task_id), None)

    @property
    def rows_changed(self):
        """How many rows the statements changed together."""
        return sum(statement.rows_changed for statement in self.statements)

    @property
    def refused(self):
        """True if the file was asked and refused, so that nothing changed."""
        return self.refusals is not None

    @property
    def stale(self):
        """True if what was sent carries an earlier generation than the row."""
        sent = self.sent.get("generation")
        return sent is not None and self.row is not None and sent < self.row["generation"]

    @property
    def reason(self):
        """Why the file refused, in the numbers of the moment; empty if it did not."""
        reasons = []
        for guard in self.refusals or ():
            if guard == "revision" and self.returned == "lease_lost":
                continue  # the lease is looked at first
            if guard == "expiry" and self.action in ("claim", "look"):
                live = self.t < self.row["lease_until"]
                guard = "claim.expiry" if live else "claim.takeover"
            elif guard == "expiry" and self.row["lease_until"] is None:
                if len(self.refusals) > 1:
                    continue  # another guard has said why there is no lease
                guard = "no lease"
            reasons.append(
                REASONS.get(guard, "{guard} says no").format_map({**self._words(), "guard": guard})
            )
        nothing = "the statement finds none" if self.tasks else "there is no task"
        return ", ".join(reasons) or nothing

    @property
    def sentence(self):
        """What happened and why, in one plain sentence without the time."""
        return SENTENCES[self._kind()].format_map({**self._words(), "reason": self.reason})

    def _kind(self):
        if self.refused and self.action == "exhaust" and self.refusals == ("attempt_limit",):
            return "go on"
        if self.refused:
            stale = "stale " if self.action == "finish" and self.stale else ""
            return f"{stale}{self.action} refused"
        if self.action == "claim" and self.before["state"] == "running":
            live = "now" in self.sent and self.t < self.before["lease_until"]
            return "claim live" if live else "takeover"
        if self.action == "take" and self.before["state"] == "running":
            return "take live" if self.t < self.before["lease_until"] else "takeover"
        if self.stale and self.statements:
            return f"stale {self.action}" if f"stale {self.action}" in SENTENCES else "stale"
        if self.action == "finish" and self.before["lease_until"] is not None:
            return "late finish" if self.t >= self.before["lease_until"] else "finish"
        if self.action == "call_external" and self.returned == "timeout":
            return "call_external timeout"
        if self.sent.get("acted") is False:
            return f"{self.action} known"
        return self.action

    def _kept(self):
        if self.row is None:
            return "there is no task yet"
        row = self.row
        if row["lease_until"] is None:
            return f"the row still says {row['state']}"
        lease = f"generation {row['generation']}, lease to {row['lease_until']}"
        return f"the row still says {row['state']}, {lease}"

    def _words(self):
        row = self.row or {}
        run = next((run for run in self.runs if run["id"] == row.get("run_id")), {})
        lease_until = row.get("lease_until")
        state = row.get("state")
        now = self.sent.get("now", self.t)
        return {
            **self.sent,
            "t": now,
            "clock": "" if now == self.t else f", its clock at {now}",
            "previous": (self.before or {}).get("lease_owner"),
            "held_until": (self.before or {}).get("lease_until"),
            "actor": self.actor,
            "task_id": self.task_id,
            "returned": self.returned,
            "ledger": self.external_calls,
            "run_id": row.get("run_id"),
            "state": state,
            "row_generation": row.get("generation"),
            "owner": row.get("lease_owner") or "nobody",
            "lease_until": lease_until,
            "lease": f"[{self.t}, {lease_until})",
            "available_at": row.get("available_at"),
            "sent_revision": self.sent.get("revision"),
            "revision": run.get("revision"),
            "run_state": run.get("state"),
            "kept": self._kept(),
            "what": "commit" if self.action == "finish" else self.action,
            "which": f" task {self.task_id}" if len(self.tasks) > 1 else "",
            "comma": "," if len(self.tasks) > 1 else "",
            "truth": TRUTHS[
                "known" if self.sent.get("acted") is False else self.sent.get("lost")
            ].format_map({"acts_at": None, "key": None, **self.sent}),
        }


class Trace:
    """The events of one run in order, and the instant at which it is looked at.

    Attributes:
        events: the events up to ``now``.
        now: the instant that is shown.
        workers: the names of the workers, in the order of their lanes.
        struck_out: the guards that were struck out of the protocol.
    """

    def __init__(self, events=(), now=None, workers=("A", "B"), struck_out=()):
        self._all = tuple(events)
        self.now = now if now is not None else max((event.t for event in events), default=0)
        self.events = tuple(event for event in self._all if event.t <= self.now)
        self.workers = tuple(workers)
        self.struck_out = tuple(struck_out)

    def at(self, now):
        """The same trace as it stood at an instant: looking back changes no file."""
        return Trace(self._all, now, self.workers, self.struck_out)

    @cached_property
    def steps(self):
        """The events, a crash and its reopen at one instant as one step."""
        steps = []
        for event in self.events:
            last = steps[-1] if steps else event
            crashed = (last.t, last.actor, last.action) == (event.t, event.actor, "crash")
            if event.action == "reopen" and crashed:
                steps[-1] = replace(event, action="crash_and_reopen")
            else:
                steps.append(event)
        return tuple(steps)

    @property
    def tasks(self):
        """The rows of the task table as the last event left them."""
        return self.events[-1].tasks if self.events else ()

    @property
    def external_calls(self):
        """The service's ledger as the last event left it."""
        return self.events[-1].external_calls if self.events else 0

    @property
    def horizon(self):
        """The last instant that what is shown reaches: now, the events, the ends of the leases."""
        ends = [end for lease in self.leases for _, end in (*lease.renewed, (0, lease.end))]
        return max([self.now, *(event.t for event in self.events), *ends])

    @property
    def lines(self):
        """The event log: one sentence for each step."""
        return [f"t={step.t}: {step.sentence}." for step in self.steps]

    @property
    def title(self):
        """What just happened and why; if nothing did, what the clock says about the lease."""
        steps = self.steps
        if not steps:
            return f"t={self.now}: nothing has happened yet"
        if steps[-1].t == self.now:
            return f"t={self.now}: {steps[-1].sentence}"
        running = [row for row in self.tasks if row["state"] == "running"]
        if not running:
            states = ", ".join(row["state"] for row in self.tasks)
            return f"t={self.now}: nothing happens; the task is {states}"
        row = running[-1]
        if self.now < row["lease_until"]:
            return f"t={self.now}: {self.now} < {row['lease_until']}, {row['lease_owner']}'s lease is live"
        return (
            f"t={self.now}: {self.now} < {row['lease_until']} is false, "
            f"{row['lease_owner']}'s lease has ended; the row has not changed"
        )

    @property
    def sentence(self):
        """The picture in words, lane by lane; it is the chart's alt text."""
        lanes = []
        for worker in self.workers:
            steps = [step for step in self.steps if step.actor == worker]
            lanes.append(f"worker {worker}: {', '.join(map(_brief, steps)) or 'nothing yet'}")
        for row in self.tasks:
            leases = [
                f"gen {lease.generation} [{lease.start}, {lease.end})"
                + (f" cleared t={lease.closed}" if lease.closed is not None else "")
                for lease in self.leases
                if lease.task_id == row["id"]
            ]
            name = f"task {row['id']}" if len(self.tasks) > 1 else "the task"
            lanes.append(f"{name}: {', '.join([*leases, row['state']])}")
        if not self.tasks:
            lanes.append("the task: not there yet")
        late = [f"acts late t={event.t}, " for event in self.events if event.sent.get("caller")]
        lanes.append(f"the service: {''.join(late)}ledger {self.external_calls}")
        if self.struck_out:
            lanes.append(f"struck out: {', '.join(self.struck_out)}")
        return f"{self.title}. Timeline up to t={self.now}: {'; '.join(lanes)}."

    @cached_property
    def leases(self):
        """Every lease so far, as ``Lease``, in order of its claim."""
        leases = []
        for event in self.events:
            if event.action in ("claim", "take") and not event.refused:
                row = event.row
                leases.append(
                    Lease(
                        event.task_id, event.actor, row["generation"], event.t, row["lease_until"]
                    )
                )
            for index, lease in enumerate(leases):
                row = next(row for row in event.tasks if row["id"] == lease.task_id)
                same = row["generation"] == lease.generation
                if same and row["lease_until"] not in (None, lease.end):
                    ends = (*lease.renewed, (event.t, lease.end))
                    leases[index] = replace(lease, end=row["lease_until"], renewed=ends)
                elif same and row["lease_until"] is None and lease.closed is None:
                    leases[index] = replace(lease, closed=event.t)
        return tuple(leases)

    def table(self):
        """The task table, as text and as HTML, with the answer to ``lease_until <= now``."""
        return Table(self)

    def to_frame(self):
        """One row for each step, as a pandas DataFrame; row and ledger are as read back."""
        import pandas

        rows = [
            {
                "t": step.t,
                "actor": step.actor,
                "action": step.action,
                "generation_sent": step.sent.get("generation"),
                "outcome": step.sent.get("outcome"),
                "returned": step.returned,
                **{name: (step.row or {}).get(name) for name in ROW_COLUMNS},
                "external_calls": step.external_calls,
            }
            for step in self.steps
        ]
        return pandas.DataFrame(rows, columns=FRAME_COLUMNS, dtype=object)


ROW_COLUMNS = ("state", "generation", "lease_until")
FRAME_COLUMNS = (
    *("t", "actor", "action", "generation_sent", "outcome", "returned"),
    *ROW_COLUMNS,
    "external_calls",
)


@dataclass(frozen=True)
class Lease:
    """One lease ``[start, end)``; ``renewed`` holds each renewal's instant and the end before it.

    ``closed`` is the instant at which the task was finished or given back, or None.
    """

    task_id: int
    owner: str
    generation: int
    start: int
    end: int
    renewed: tuple = ()
    closed: int | None = None


def _brief(step):
    what = {"call_external": "call", "crash_and_reopen": "crash and reopen"}.get(
        step.action, step.action.replace("_", " ")
    )
    detail = step.sent.get("outcome")
    if step.action == "call_external":
        known = "key known" if step.sent["acted"] is False else None
        detail = "timeout" if step.returned == "timeout" else known
    if step.action == "claim" and "now" in step.sent:
        detail = f"clock at {step.sent['now']}"
    if step.refused:
        what = ("rejected " if step.action in COMMITS else "refused ") + what
        return f"{what} t={step.t} ({step.reason})"
    if step.stale and step.rows_changed:
        what = f"accepted stale {what}"
    return f"{what} t={step.t}" + (f" ({detail})" if detail not in (None, "done") else "")


class Table:
    """The task table at one instant; changed cells carry a mark and the old value."""

    COLUMNS = ("id", "run_id", "state", "generation", "lease_owner", "lease_until", "available_at")

    def __init__(self, trace):
        self.now = trace.now
        self.headings = (*self.COLUMNS, f"lease_until <= {trace.now}")
        last = trace.events[-1] if trace.events and trace.events[-1].t == trace.now else None
        self.rows = [
            [*(_cell(last, row, name) for name in self.COLUMNS), (_answer(row, trace.now), False)]
            for row in trace.tasks
        ]

    def __repr__(self):
        rows = [[f"{text} *" if changed else text for text, changed in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.headings, *rows)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
            for row in (self.headings, *rows)
        ]
        return "\n".join(lines if rows else ["the task table is empty"])

    def _repr_html_(self):
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.headings)
        body = "".join(
            "<tr>"
            + "".join(
                f"<td><b>\u25b8 {escape(text)}</b></td>" if changed else f"<td>{escape(text)}</td>"
                for text, changed in row
            )
            + "</tr>"
            for row in self.rows
        )
        body = body or f'<tr><td colspan="{len(self.headings)}">the task table is empty</td></tr>'
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(last, row, name):
    """A cell's text, and whether the last event changed it."""
    text = "NULL" if row[name] is None else str(row[name])
    if last is None or last.task_id != row["id"]:
        return text, False
    if last.before is None:
        return (f"{text} (new)", True) if name == "id" else (text, False)
    old = last.before[name]
    if old == row[name]:
        return text, False
    return f"{text} (was {'NULL' if old is None else old})", True


def _answer(row, now):
    if row["lease_until"] is None:
        return "NULL"
    return "true" if row["lease_until"] <= now else "false"

"""Field incidents: bug reports as tables of a few lines that can be written without code.

    incident: the-stale-unlock
    source: collectiveidea/delayed_job #554
    what: Two seconds after a takeover the first worker unlocks the job by its id.
    lease: 14400
    workers: W1, W2, W3
    tasks: r1
    broken: without release.owner, release.generation
    damage: two live holders
    0     | W1 | claim     | generation 1
    14400 | W2 | claim     | generation 2
    14402 | W1 | release 1 | refused
    14407 | W3 | claim     | refused

``tasks`` names for each task the run that it serves; all are enqueued at 0. A step says when, who,
what, and what must come back under the full protocol. ``broken`` says how it is replayed first, and
``damage`` what that run must show; both may stand on several lines. Times are seconds with up to
three decimals. The file of the lab knows whole numbers only: if there is a fraction anywhere, all
times of the lab are milliseconds.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from leaselab.errors import LARGEST, InputError, StoreError, UnknownName
from leaselab.lab import Lab
from leaselab.protocol import Protocol
from leaselab.replay import DAMAGES
from leaselab.scenarios import Scenario, Step

FIELDS = ("incident", "source", "what", "lease", "workers", "tasks", "broken", "damage")
SEVERAL = ("broken", "damage")  # the fields that may stand on more than one line
FIELD = re.compile(r"(\w+)\s*:\s*(.*)")
SECONDS = re.compile(r"\d+(\.\d{1,3})?", re.ASCII)
REWRITE = re.compile(r"in ([\w.]+): (.+) => (.+)")
TWO_STEPS, NO_KEY, NO_UNKNOWN = "claim in two steps", "no idempotency key", "no unknown outcome"

# How each action is written and what may come back, each with an example.
SENDS = r" (?P<generation>\d+){}( task (?P<task>\d+))?"
OUTCOME = r"( (?P<outcome>done|uncertain))?"
ACCEPTED = r"(?P<true>accepted)|(?P<false>refused)"
ACTIONS = {
    "claim": ("", "claim", r"generation (?P<number>\d{1,18})|(?P<none>refused)", "generation 2"),
    "renew": (
        SENDS.format(""),
        "renew 1",
        r"until (?P<seconds>\S+)|(?P<none>refused)",
        "until 360",
    ),
    "finish": (SENDS.format(OUTCOME), "finish 1 done", ACCEPTED, "accepted"),
    "release": (SENDS.format(""), "release 1", ACCEPTED, "accepted"),
    "call": (r"( (?P<key>\S+))?", "call task-1", r"ledger (?P<number>\d{1,18})", "ledger 1"),
}


class Row(NamedTuple):
    """A step of an incident: the line it stands on, and what must come back."""

    number: int
    step: Step
    what: str
    expected: object


@dataclass(frozen=True)
class Incident:
    """One field incident, as read from its table.

    Attributes:
        name, source, what: which one, where it was reported, and what happened.
        lease: how long a lease lasts, in the lab's unit of time.
        per_second: the lab's units in a second: 1, or 1000 if the table has fractions.
        workers: their names, in the order of their lanes. ``tasks``: the run that each task serves.
        rows: the steps. ``text``: the table as it was written.
        protocol: the broken statements. ``missing``: what else the broken run has not.
        damage: what the broken run must show: names out of ``DAMAGES``.
    """

    name: str
    source: str
    what: str
    lease: int
    per_second: int
    workers: tuple
    tasks: tuple
    rows: tuple
    text: str
    protocol: Protocol
    missing: frozenset
    damage: tuple

    def __repr__(self):
        return self.text

    def lab(self, *, broken=False):
        """A fresh ``Lab`` with the incident as its script, which is not played yet."""
        steps = tuple(step for _, step in self.script(broken))
        scenario = Scenario(self.name, self.what, "", steps, self.lease, self.workers)
        return Lab(scenario, protocol=self.protocol if broken else None)

    def script(self, broken=False):
        """The steps to play, each with its row; with None where the table has no row for it."""
        script = [(None, Step(0, "client", "enqueue", {"run_id": run})) for run in self.tasks]
        missing = self.missing if broken else ()
        key = {}  # of the last call
        looked = []  # claims of one instant: first all look, then all take
        for row in self.rows:
            step = row.step
            if looked and (step.action, step.t) != ("claim", looked[0].step.t):
                script += _takes(looked)
            if step.action == "claim" and TWO_STEPS in missing:
                script.append((None, step._replace(action="look", ask=False)))
                looked.append(row)
                continue
            if step.action == "call_external":
                key = {"key": None} if NO_KEY in missing else step.arguments
                step = step._replace(arguments=key)
            elif step.arguments.get("outcome") == "uncertain" and NO_UNKNOWN in missing:
                # Who does not know what has become of the call can only call once more.
                script.append((None, Step(step.t, step.actor, "call_external", key)))
                step = step._replace(arguments={**step.arguments, "outcome": "done"})
            script.append((row, step))
        return script + _takes(looked)

    def seconds(self, t):
        """A time of the lab in seconds, as a table has it."""
        return f"{Decimal(t) / self.per_second:f}"


def _takes(looked):
    takes = [(row, row.step._replace(action="take")) for row in looked]
    looked.clear()
    return takes


class Incidents(dict):
    """Incidents by name; an unknown name is answered with the known ones."""

    def __missing__(self, name):
        raise UnknownName(f"there is no incident {name!r}; there are {', '.join(self)}.")


def load_incidents(path):
    """The incidents of a file, by name; raises as ``read_incidents`` does."""
    try:
        return read_incidents(Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text in UTF-8; save it in that encoding.") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read; is there such a file?") from error


def read_incidents(text):
    """The incidents of a text, by name.

    Raises:
        InputError: a row cannot be read; the sentence names it.
    """
    if not isinstance(text, str):
        raise InputError(f"an incident is a text of a few lines, not {text!r}.")
    tables = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        field = FIELD.fullmatch(line)
        if not line or line.startswith("#"):
            continue
        if field and field[1] == "incident":
            tables.append(_Table(number))
        if not tables:
            raise InputError(f"row {number}: an incident begins with a line 'incident: its name'.")
        tables[-1].add(number, line, field)
    if not tables:
        raise InputError("there is no incident; its first line is 'incident: its name'.")
    incidents = Incidents()
    for table in tables:
        incident = table.incident()
        if incident.name in incidents:
            raise InputError(f"row {table.number}: there are two incidents {incident.name!r}.")
        incidents[incident.name] = incident
    return incidents


def read_incident(text):
    """The one incident of a text; raises as ``read_incidents`` does."""
    incidents = read_incidents(text)
    if len(incidents) > 1:
        raise InputError(f"there are {len(incidents)} incidents in the text; one is asked for.")
    return next(iter(incidents.values()))


class _Table:
    """The lines of one incident, while they are read."""

    def __init__(self, number):
        self.number = number  # of its first line
        self.fields, self.lines, self.steps = {}, [], []

    def add(self, number, line, field):
        self.lines.append(line)
        if line[0].isdigit() or (not field and "|" in line):
            self.steps.append((number, [column.strip() for column in line.split("|")]))
            return
        if not field:
            raise InputError(
                f"row {number} is neither 'name: value' nor 't | who | what | must come back'."
            )
        name, value = field.groups()
        if name not in FIELDS:
            raise InputError(f"row {number} has no field {name!r}; there are {', '.join(FIELDS)}.")
        if name in self.fields and name not in SEVERAL:
            raise InputError(f"row {number} says {name} for the second time.")
        if not value:
            raise InputError(f"row {number}: {name} is empty.")
        self.fields.setdefault(name, []).append((number, value))

    def incident(self):
        for name in FIELDS:
            if name not in self.fields:
                raise InputError(f"row {self.number}: this incident has no line '{name}: …'.")
        if not self.steps:
            raise InputError(f"row {self.number}: this incident has no steps.")
        row, lease = self.fields["lease"][0]
        lease = _seconds(row, "the lease", lease)
        if not lease:
            raise InputError(f"row {row}: a lease lasts longer than 0 seconds.")
        workers, tasks = self._list("workers"), self._list("tasks")
        read = list(self._read_steps(workers))
        times = [lease, *(value for step in read for value in step if isinstance(value, Decimal))]
        per_second = 1000 if any(time % 1 for time in times) else 1
        protocol, missing = _broken(self.fields["broken"])
        for row, name in self.fields["damage"]:
            if name not in DAMAGES:
                raise InputError(
                    f"row {row} has no damage {name!r}; there are {', '.join(DAMAGES)}."
                )
        return Incident(
            *(self.fields[name][0][1] for name in ("incident", "source", "what")),
            lease=int(lease * per_second),
            per_second=per_second,
            workers=workers,
            tasks=tasks,
            rows=tuple(_row(per_second, step is not read[0], *step) for step in read),
            text="\n".join(self.lines),
            protocol=protocol,
            missing=missing,
            damage=tuple(name for _, name in self.fields["damage"]),
        )

    def _list(self, field):
        row, value = self.fields[field][0]
        names = tuple(name.strip() for name in value.split(","))
        taken = ("", "client", "service") if field == "workers" else ("",)
        for name in names:
            if name in taken or (field == "workers" and names.count(name) > 1):
                raise InputError(
                    f"row {row}: {field} cannot be {value!r}; {name!r} is no new name."
                )
        return names

    def _read_steps(self, workers):
        now = Decimal(0)
        for number, columns in self.steps:
            if len(columns) != 4:
                raise InputError(
                    f"row {number} has {len(columns)} columns, and not the four of "
                    "'t | who | what | must come back'."
                )
            t, who, what, answer = columns
            t = _seconds(number, "the time", t)
            if t < now:
                raise InputError(f"row {number}: the time goes back from {now} to {t}.")
            if who not in workers:
                raise InputError(
                    f"row {number} has no worker {who!r}; there are {', '.join(workers)}."
                )
            now = t
            yield number, t, who, what, *_action(number, what, answer)


def _seconds(row, name, text):
    if not SECONDS.fullmatch(text):
        raise InputError(
            f"row {row}: {name} is a number of seconds with at most three decimals, not {text!r}."
        )
    if Decimal(text) * 1000 > LARGEST:
        raise InputError(f"row {row}: {name} is at most {LARGEST // 1000} seconds.")
    return Decimal(text)


def _action(row, what, answer):
    """What a step does, what it sends, and what must come back: a Decimal if it is a time."""
    action = what.split()[0] if what else ""
    if action not in ACTIONS:
        raise InputError(f"row {row} has no action {action!r}; there are {', '.join(ACTIONS)}.")
    sends, example, answers, answer_example = ACTIONS[action]
    match = re.fullmatch(action + sends, " ".join(what.split()), re.ASCII)
    if not match:
        raise InputError(f"row {row}: {what!r} cannot be read; write it as in {example!r}.")
    sent = {name: value for name, value in match.groupdict().items() if value is not None}
    sent |= {name: int(sent[name]) for name in ("generation", "task") if name in sent}
    match = re.fullmatch(answers, answer, re.ASCII)
    if not match:
        refused = "" if action == "call" else " or 'refused'"
        raise InputError(
            f"row {row}: what comes back to a {action} is like {answer_example!r}{refused}, "
            f"not {answer!r}."
        )
    kind, value = match.lastgroup, match[match.lastgroup]
    if kind == "seconds":
        return action, sent, _seconds(row, "the end of the lease", value)
    known = {"none": None, "true": True, "false": False}
    return action, sent, known[kind] if kind in known else int(value)


def _row(per_second, ask, number, t, who, what, action, sent, expected):
    """A row in the lab's unit of time; the reader is asked about whatever can be asked about."""
    if isinstance(expected, Decimal):
        expected = int(expected * per_second)
    ask = ask and action != "release"
    action = "call_external" if action == "call" else action
    return Row(number, Step(int(t * per_second), who, action, sent, ask), what, expected)


def _broken(lines):
    """The broken statements, and what else is missing."""
    protocol, missing = Protocol(), set()
    for row, text in lines:
        rewrite = REWRITE.fullmatch(text)
        try:
            if text in (TWO_STEPS, NO_KEY, NO_UNKNOWN):
                missing.add(text)
            elif text.startswith("without "):
                guards = text.removeprefix("without ").split(",")
                protocol = protocol.without(*(guard.strip() for guard in guards))
            elif rewrite:
                protocol = _rewritten(protocol, *rewrite.groups())
            else:
                raise InputError(
                    f"{text!r} breaks nothing; write 'without' and guards, 'in claim: old => new', "
                    f"{TWO_STEPS!r}, {NO_KEY!r} or {NO_UNKNOWN!r}."
                )
        except InputError as error:
            raise InputError(f"row {row}: {error}") from error
    return protocol, frozenset(missing)


def _rewritten(protocol, name, old, new):
    if name not in tuple(protocol):
        raise InputError(f"there is no statement {name!r}; there are {', '.join(protocol)}.")
    count = protocol[name].count(old)
    if count != 1:
        raise InputError(f"{old!r} stands {count} times in {name}, and not once.")
    return protocol.with_statement(name, protocol[name].replace(old, new))

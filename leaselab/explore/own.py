"""Your own statement: run in a sandbox, judged by the search, compared with the reference.

``check.claim("UPDATE tasks …")`` says in how many states it holds; or draws the shortest schedule
in which it breaks a property; or says in one sentence what SQLite makes of it.
"""

import re
import sqlite3
from collections import defaultdict
from dataclasses import replace
from html import escape
from itertools import islice, product
from math import prod

from leaselab.errors import InputError, StoreError
from leaselab.explore.machine import (
    LONGEST,
    MEMORY,
    MOST_STEPS,
    STATEMENTS,
    Failed,
    Machine,
    Run,
    Task,
)
from leaselab.explore.properties import PROPERTIES, Property
from leaselab.explore.scope import ONE_TASK, TWO_RUNS, TWO_TASKS, Scope
from leaselab.explore.search import Search
from leaselab.lab import Lab
from leaselab.protocol import Protocol
from leaselab.store import Claim

# Beside the scopes of the properties: a worker that comes back to two tasks of one run, or of two;
# a short lease and every tick, so that no number can be the right one by chance.
SCOPES = (
    ONE_TASK,
    TWO_TASKS,
    replace(TWO_TASKS, workers=1, claims=3, crashes=1, in_flight=1, max_attempts=3),
    TWO_RUNS,
    replace(TWO_RUNS, workers=1, crashes=1),
    Scope(claims=3, crashes=0, releases=0, in_flight=0, lease=2, horizon=5, every_tick=True),
)
CAP = 5_000  # states; the reference has some two thousand at most
FUNCTIONS = (
    *("abs", "coalesce", "count", "ifnull", "iif", "max", "min", "nullif", "row_number", "sum"),
    "total",
)
# What a row is known by; no statement has a reason to change it.
NAMES = ("tasks.id", "tasks.run_id", "tasks.created_at", "runs.id", "tasks.ROWID", "runs.ROWID")
CLOCKS = (
    *("current_time", "current_date", "current_timestamp", "date", "time", "datetime", "strftime"),
    *("unixepoch", "julianday", "timediff"),
)
NOW, LEASE = 100, 30  # of the rows on which a statement is compared with the reference
MOST_COPIES = 1_000  # of the tables that a statement names by WITH
TEXT_OR_COMMENT = re.compile(r"""("[^"]*")|'[^']*'|--[^\n]*|/\*.*?(?:\*/|$)""", re.DOTALL)
NAMED_BY_WITH = re.compile(
    r"""\b(\w+)["`\]]?\s*(?:\([^()]*\)\s*)?\bAS\s+(?:NOT\s+)?(?:MATERIALIZED\s*)?\(""",
    re.IGNORECASE,
)


class Check:
    """One statement for the reader to write, and its judge.

    Attributes:
        task: what the statement is to do.
        stub: a text to begin with.
        parameters: the names that it may use.
        hints: two of them; the second says more than the first.
    """

    def __init__(self, name, table, parameters, returning, task, stub, hints):
        self.name = name
        self.table = table
        self.parameters = parameters
        self.returning = returning
        self.task = task
        self.stub = stub
        self.hints = hints
        self._told = 0

    def __repr__(self):
        return f"{self.task} Its parameters are {_listed(self.parameters)}.\n\n{self.stub}"

    def hint(self):
        """Print a hint; the second call says more."""
        print(self.hints[min(self._told, len(self.hints) - 1)])
        self._told += 1

    def __call__(self, sql):
        """Judge a statement, an SQL text; returns a ``Grade``, which shows itself."""
        fault = Sandbox(self).fault(sql)
        if fault:
            return Grade(self, fault)
        sql = sql.replace("-- guard:", "-- guard")  # the lab has words for the protocol's own only
        protocol = Protocol().with_statement(self.name, sql)
        findings = []
        for scope in SCOPES:
            found, stopped = self._search(protocol, scope)
            broken = [finding for finding in found if finding.holds is False]
            if stopped:
                said = "what it gives back, no worker can go on with"
                if broken:
                    said = f"at the end of {broken[0].schedule} {broken[0].reason}"
                return Grade(self, f"your statement cannot always be used: {said}.")
            if broken:
                return Grade(self, broken=sorted(broken, key=_shorter))
            if any(finding.holds is None for finding in found):
                return Grade(
                    self, f"there are more than {CAP:,} states, too many to search them all."
                )
            findings += found
        fault, pictures = _left_uncertain(protocol)
        if fault:
            return Grade(self, fault, pictures=pictures)
        return Grade(self, findings=findings, rows=compare(self.name, sql))

    def _search(self, protocol, scope):
        """What is found in one scope, and whether the search had to stop.

        It stops where the statement fails, for that may take long each time, and where it gives
        back what no worker can go on with. A second one then finds the schedule that leads there.
        """
        effect = Property("effect", EFFECT, (self.name,), _other_effect)
        scope = replace(scope, cap=CAP)
        search = Search(protocol, scope, [effect, ANSWER, *_judged_in(scope)])
        stopped = not _came_to_its_end(search) and all(
            finding.holds for finding in search.findings.values()
        )
        if stopped:
            search = Search(protocol, scope, [ANSWER, PROPERTIES["sound"]])
            _came_to_its_end(search)
        return list(search.findings.values()), stopped


class Grade:
    """What is said of a reader's statement.

    Attributes:
        right: whether it runs and breaks no property.
        broken: the findings in which it breaks one, the shortest schedule first.
    """

    def __init__(self, check, fault="", findings=(), broken=(), rows=(), pictures=""):
        self.check = check
        self.fault = fault
        self.broken = broken
        self._findings = findings
        self._rows = rows
        self._pictures = pictures

    @property
    def right(self):
        return not self.fault and not self.broken

    def __repr__(self):
        return "\n".join(self._lines())

    def _lines(self):
        if self.fault:
            return [f"Not yet: {self.fault}"]
        if not self.broken:
            return [
                "Right: it breaks no property in any schedule.",
                *_searched({finding.scope: finding for finding in self._findings}),
                *self._rows,
            ]
        first, *others = self.broken
        lines = [f"Not yet. \u201c{first.property.sentence}\u201d is {first.sentence}."]
        more = dict.fromkeys(
            other.property.name for other in others if other.property != first.property
        )
        if more:
            lines.append(f"It breaks {', '.join(more)}, too.")
        return [*lines, f"Scope: {first.scope}."]

    def _repr_mimebundle_(self, **_):
        data = {"text/plain": repr(self)}
        drawn = next((found for found in self.broken if found.schedule), None)
        pictures = drawn.pictures if drawn else self._pictures
        if pictures:
            data["text/html"] = (
                "".join(f"<p>{escape(line)}</p>" for line in self._lines()) + pictures
            )
        return data


def _searched(findings):
    """How much was searched in each scope, and what the scope is, without what is not in it."""
    for scope, found in findings.items():
        there = ", ".join(part for part in str(scope).split(", ") if not part.startswith("0 "))
        yield f"  {found.states:,} states, {found.transitions:,} steps from them: {there}"


def _judged_in(scope):
    """The properties that are judged in a scope: a possibility need come true in its own one only."""
    return [
        kind
        for kind in PROPERTIES.values()
        if kind.name != "side_effect"
        and (not kind.possible or replace(kind.scope, cap=CAP) == replace(scope, cap=CAP))
    ]


class _CannotGoOn(Exception):
    """A statement has failed, or gives back what is not in the row."""


def _came_to_its_end(search):
    try:
        search.run()
    except (_CannotGoOn, InputError, TypeError, LookupError, RuntimeError):
        return False
    return True


def _other_answer(transition, machine):
    """In what that which a claim or a renewal gives back is not what the row says."""
    after, returned = transition.after, transition.returned
    if returned is None or isinstance(returned, Failed):
        return None
    if isinstance(returned, Claim):
        if None in returned:
            return f"it gives back {tuple(returned)!r}, which is no lease"
        row = next((task for task in after.tasks if task.id == returned.task_id), None)
        says = row and Claim(row.id, row.run_id, row.lease_owner, row.generation, row.lease_until)
    else:
        says = after.tasks[transition.claim.task_id - 1].lease_until
    if says != returned:
        given, says = (
            tuple(answer) if isinstance(answer, Claim) else answer for answer in (returned, says)
        )
        return f"it gives back {given!r}, and the row says {says!r}"


REFUSALS = (None, False, "lease_lost", "revision_conflict")
EFFECT = "A statement that is accepted does what it is for, and nothing else."
ANSWER = Property(
    "answer", "What is given back is what the row says.", ("claim", "renew"), _other_answer
)


def _other_effect(transition, machine):
    """In what the rows are others than a statement of this name is to leave."""
    before, move, after, held, returned = transition
    if isinstance(returned, Failed):
        raise _CannotGoOn
    if returned in REFUSALS:
        return None
    of_use = move.action not in ANSWER.actions or isinstance(returned, int)
    if not of_use and _other_answer(transition, machine):
        raise _CannotGoOn
    now, tasks, runs = before.now, before.tasks, before.runs
    number = returned.task_id if move.action == "claim" else held.claim.task_id
    row = tasks[number - 1]
    if move.action == "claim":  # the generation and the end are judged by properties of their own
        if row.lease_until is not None and now < row.lease_until:
            return f"a claim takes task {number} at t={now}, its lease is live until t={row.lease_until}"
        new = after.tasks[number - 1]
        changes = {"generation": new.generation, "lease_until": new.lease_until}
        changes |= {"state": "running", "lease_owner": move.actor}
    elif move.action == "renew":
        changes = {"lease_until": max(row.lease_until or 0, now + machine.scope.lease)}
    elif move.action == "finish":
        changes = {"state": "done", "lease_owner": None, "lease_until": None}
    else:
        changes = {}
        value, place = f"{held.claim.owner}'s result", int(held.claim.run_id[4:]) - 1
        run = runs[place]._replace(value=value, revision=runs[place].revision + 1)
        runs = (*runs[:place], run, *runs[place + 1 :])
    tasks = (*tasks[: number - 1], row._replace(**changes), *tasks[number:])
    for wanted, given in zip((*tasks, *runs), (*after.tasks, *after.runs)):
        for column, should, says in zip(wanted._fields, wanted, given):
            if says != should:
                which = f"task {given.id}" if isinstance(given, Task) else given.id
                return f"after {move.action} at t={now} {column} of {which} is {says!r}, not {should!r}"


def _left_uncertain(protocol):
    """What is wrong, and its picture, if a task that was left uncertain does not stay so.

    No search comes to it: there every worker knows how its task ended.
    """
    lab = Lab(protocol=protocol)
    lab.enqueue()
    lab.play_to(1).claim("A")
    try:
        lab.play_to(2).finish("A", "uncertain")
        lab.play_to(3).claim("B")
    except StoreError as error:
        return f"if A leaves its task uncertain, {error}", ""
    row = lab.trace.tasks[0]
    if row["state"] == "uncertain":
        return "", ""
    said = f"A leaves its task uncertain at t=2, and B claims at t=3; then the row says {row['state']}."
    return said, lab.chart()._repr_mimebundle_()[0]["text/html"]


class Sandbox:
    """Where a statement is read for the first time: two empty tables, and nothing else to reach."""

    def __init__(self, check):
        self._check = check
        self._denied = ""
        self._updates = set()

    def fault(self, sql):
        """What is wrong with a text before it meets a row, in a sentence; empty if nothing is."""
        if isinstance(sql, str) and len(sql) > LONGEST:
            return f"the statement has {len(sql):,} letters; {LONGEST:,} are enough."
        if not isinstance(sql, str) or not sql.strip():
            given = repr(sql) if len(repr(sql)) < 50 else f"a {type(sql).__name__}"
            return f"a statement is a text, such as {self._check.stub.split()[0]} …, not {given}."
        if _copies(sql) > MOST_COPIES:
            return "what the statement names by WITH, it uses too often."
        connection = sqlite3.connect(":memory:", isolation_level=None)
        try:
            connection.executescript(Protocol()["schema"])
            connection.set_progress_handler(lambda: True, MOST_STEPS)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            connection.set_authorizer(self._authorize)
            sent = dict.fromkeys(self._check.parameters, 1)
            cursor = connection.execute(sql, sent)
            given = [column[0] for column in cursor.description or ()]
            cursor.fetchall()
        except UnicodeError as error:
            return f"a letter of the statement cannot be written down: {error}."
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            return self._denied or self._sentence(connection, sql, str(error))
        finally:
            connection.close()
        if self._check.table not in self._updates:
            return f"the statement has to UPDATE {self._check.table}; yours changes nothing there."
        if self._check.returning and given != list(self._check.returning):
            wanted = ", ".join(self._check.returning)
            yours = f"yours gives {', '.join(given)}" if given else "yours has no RETURNING"
            return f"the statement has to end in RETURNING {wanted}; {yours}."
        return ""

    def _authorize(self, action, first, second, *_):
        """Allow SELECT and UPDATE on the two tables and a few functions; note what is denied."""
        said = ""
        others = (first or "").lower() not in ("tasks", "runs")
        if (
            action == sqlite3.SQLITE_READ
            and others
            and (second or first.lower().startswith(HIDDEN))
        ):
            said = f"the statement may read tasks and runs only, not {first}."
        elif action == sqlite3.SQLITE_UPDATE and f"{first}.{second}" in NAMES:
            said = f"{first}.{second} is what a row is known by; a statement must not change it."
        elif action == sqlite3.SQLITE_UPDATE and first in ("tasks", "runs"):
            self._updates.add(first)
        elif action == sqlite3.SQLITE_FUNCTION and second in CLOCKS:
            said = "the file has no clock of its own here: now is a parameter, :now."
        elif action == sqlite3.SQLITE_FUNCTION and second not in FUNCTIONS:
            said = f"the function {second} is not allowed here; there are {', '.join(FUNCTIONS)}."
        elif action not in ALLOWED:
            said = "only SELECT and UPDATE on tasks and runs are allowed here."
        self._denied = self._denied or said
        return sqlite3.SQLITE_DENY if said else sqlite3.SQLITE_OK

    def _sentence(self, connection, sql, said):
        """What SQLite says of a text, in a sentence with the place."""
        if "one statement at a time" in said:
            return "there is more than one statement; one has to do."
        if said == "interrupted":
            return "the statement does not come to an end."
        unknown = re.search(r"binding parameter :?(\w+)", said)
        if unknown or "Binding" in said:
            yours = f"no parameter :{unknown[1]}" if unknown else "no parameter without a name"
            return f"there is {yours}; there are {_listed(self._check.parameters)}."
        if said == "incomplete input":
            return "the statement breaks off: something is missing at its end."
        token = re.search(r'"(.+)"', said, re.DOTALL) or re.search(r": (\S+)$", said)
        place = token and _place(connection, sql, token[1], said)
        said = said if len(said) < 200 else said[:200] + "…"
        return f"SQLite says {said!r}{'.' if place is None else _pointed(sql, place)}"


HIDDEN = ("sqlite_", "pragma_", "json_")  # a name that WITH has given is read without a column
ALLOWED = (
    *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_READ),
    *(sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_FUNCTION),
)


def _place(connection, sql, token, said):
    """Where SQLite stumbles: the first place at which the text up to there fails the same way."""

    def stumbles(text):
        try:
            connection.execute(text)
        except (sqlite3.Error, sqlite3.Warning) as error:
            return str(error) == said

    start, end = (r"\b" if letter.isalnum() else "" for letter in (token[0], token[-1]))
    found = re.finditer(start + re.escape(token) + end, sql)
    places = [match.span() for match in islice(found, 100)]
    for begin, end in places:
        if stumbles(sql[:end]):
            return begin
    names = [place for place in places if sql[place[0] - 1] not in ".:@$"]
    for place in names:  # all the others aside, it is still there
        if stumbles(_without(sql, [other for other in names if other != place])):
            return place[0]
    return places[0][0] if places else None


def _without(sql, places):
    for begin, end in reversed(places):
        sql = sql[:begin] + "NULL" + sql[end:]
    return sql


def _pointed(sql, place):
    """The line of a place in a text, or the part around it, with a mark below it."""
    before, line = sql[:place].split("\n"), sql[place:].split("\n")[0]
    indent = before[-1]
    if len(indent) > 60:
        indent = "\u2026" + indent[-60:]
    if len(line) > 60:
        line = line[:60] + "\u2026"
    below = re.sub(r"[^\t]", " ", indent)
    return f" in line {len(before)}:\n{indent}{line}\n{below}^"


def _copies(sql):
    """How many copies of the tables that it names by WITH a statement makes, at most.

    SQLite puts in a copy for every use, so a few tables that use each other can fill the memory.
    """
    sql = TEXT_OR_COMMENT.sub(lambda found: found[1] or " ", sql)
    return prod(
        len(re.findall(rf"\b{name}\b", sql, re.IGNORECASE)) for name in NAMED_BY_WITH.findall(sql)
    )


def _listed(parameters):
    return ", ".join(f":{name}" for name in parameters)


def _shorter(finding):
    """The shortest schedule first; what never happens has none and comes last."""
    return len(finding.schedule or range(1_000)), finding.property.name in ("answer", "effect")


def compare(name, sql):
    """Where a statement answers otherwise than the reference.

    They are compared on all that the schedules searched have come to, and on many rows that are
    made up. A difference is no fault as long as no property suffers.

    Args:
        name: ``"claim"``, ``"renew"``, ``"finish"`` or ``"commit_run"``.
        sql: the other text.

    Returns lines for the reader.
    """
    protocol = Protocol().with_statement(name, sql)
    reference, other = Machine(Protocol(), ONE_TASK), Machine(protocol, ONE_TASK)
    texts = tuple(protocol[part] for part in STATEMENTS.get(name, (name,)))
    met = [scene for scene in MEMORY[texts] if NOW not in scene[2]]
    made_up = list(_claim_scenes() if name == "claim" else _scenes(name))
    different, schedules_differ = defaultdict(list), False
    try:
        for place, scene in enumerate([*made_up, *met]):
            wanted, given = reference.answer(name, *scene), other.answer(name, *scene)
            if given != wanted:
                different[_difference(reference, name, scene, wanted, given)].append(scene)
                schedules_differ |= place >= len(made_up)
    finally:
        reference.close()
        other.close()
    rows = f"{len(made_up):,} made-up rows"
    if not different:
        return [f"In all of them, and on {rows}, it answers just as the reference does."]
    if schedules_differ:
        lines = [f"In them and on {rows} it differs from the reference; no property suffers:"]
    else:
        lines = [f"In all of them it answers just as the reference does. On {rows} it differs:"]
    for kind, scenes in sorted(different.items(), key=lambda item: -len(item[1])):
        times = f"{len(scenes):,} time{'s' if len(scenes) > 1 else ''}"
        if kind.startswith("accepts") and not schedules_differ:
            times += "; redundant above"
        lines.append(f"  it {kind} ({times}), as with {_told(name, scenes[0])}")
    return lines


def _claim_scenes():
    """Two tasks each time, of one run or of two, and a claim."""
    pending = (("pending", 0, None, None, at) for at in (0, NOW, NOW + 1))
    running = (("running", 1, "A", end, 0) for end in (NOW - 1, NOW, NOW + 1))
    ended = ((state, 1, None, None, 0) for state in ("done", "uncertain", "failed"))
    others = (
        ("pending", 9, None, None, 0),
        ("running", 1, "A", NOW - 1, NOW + 1),
        ("running", 1, "B", NOW + 1, 0),
    )
    rows = (*pending, *running, *ended, *others)
    for first, second, two_runs in product(rows, rows, (False, True)):
        tasks = Task(1, "run-1", *first, 0), Task(2, f"run-{1 + two_runs}", *second, 0)
        yield tasks, RUNS, ("B", NOW, LEASE)


def _scenes(name):
    """A task in every state, another one beside it, and a claim of generation 2 that A sends."""
    owned = product(["running"], (1, 2, 3), "AB", (NOW - 1, NOW, NOW + 1, NOW + 2 * LEASE))
    free = product(("pending", "done", "uncertain", "failed"), (1, 2, 3), [None], [None])
    beside = Task(2, "run-2", "running", 2, "A", NOW + 1, 0, 0)
    for row, run_id in product((*owned, *free), ("run-1", "run-2")):
        tasks = Task(1, "run-1", *row, 0, 0), beside
        claim = Claim(1, run_id, "A", 2, 0)
        if name == "commit_run":
            for revision in (0, 1, 2):
                yield tasks, RUNS, (claim, "A's result", revision, NOW)
        else:
            yield tasks, RUNS, (claim, NOW, LEASE) if name == "renew" else (claim, NOW)


RUNS = tuple(Run(f"run-{number}", "active", 1, None, None) for number in (1, 2))


def _difference(reference, name, scene, wanted, given):
    """In what an answer differs from the reference's, in words."""
    if isinstance(given[0], Failed):
        return f"fails: {given[0]}"
    if given[0] in REFUSALS:
        if wanted[0] in REFUSALS:
            return f"gives back {given[0]!r} where the reference gives {wanted[0]!r}"
        return "refuses what the reference accepts"
    if wanted[0] not in REFUSALS:
        return "writes something else than the reference"
    tasks, _, sent = scene
    changed = [task for task, now in zip(tasks, given[1]) if task != now] or tasks
    names = dict(zip(("owner", "now", "lease"), sent))
    if name != "claim":
        claim, now = sent[0], sent[3 if name == "commit_run" else 1]
        names = {"run_id": claim.run_id, "owner": claim.owner, "generation": claim.generation}
        names |= {"now": now, "revision": sent[2] if name == "commit_run" else None}
    guards = reference.refusals(name, *scene[:2], changed[0].id, names)
    told = " and ".join(guards) or "asking for task and run"
    return f"accepts what the reference refuses by {told}"


def _told(name, scene):
    """The rows and what was sent, in words."""
    tasks, runs, sent = scene
    rows = []
    for task in tasks if name == "claim" else tasks[:1]:
        held = f" of {task.lease_owner}, lease_until {task.lease_until}"
        told = f"task {task.id} of {task.run_id}: {task.state}, generation {task.generation}"
        later = f", available at {task.available_at}" if task.available_at else ""
        rows.append(told + (held if task.lease_owner else "") + later)
    if name == "claim":
        return f"{'; '.join(rows)}; at t={sent[1]} {sent[0]} claims"
    claim, now = sent[0], sent[3 if name == "commit_run" else 1]
    asked = f"at t={now} {claim.owner} sends generation {claim.generation} for {claim.run_id}"
    if name == "commit_run":
        run = next(run for run in runs if run.id == claim.run_id)
        asked += f", having read revision {sent[2]} (it is {run.revision})"
    return f"{'; '.join(rows)}; {asked}"


class Checks:
    """The statements that can be written anew: ``check.claim``, ``check.renew`` and so on."""

    claim = Check(
        "claim",
        "tasks",
        ("owner", "now", "lease"),
        ("id", "run_id", "lease_owner", "generation", "lease_until"),
        "Claim one task that may run: pending and available, or with a lease that has ended; and no "
        "other task of its run is held.",
        "UPDATE tasks\nSET ...\nWHERE id = (SELECT ...)\n"
        "RETURNING id, run_id, lease_owner, generation, lease_until",
        (
            "Five columns of the chosen task matter: state, available_at, lease_until, run_id, id. "
            "What is a claim to leave behind, so that an older one can be told from it?",
            "Set state, lease_owner, lease_until = :now + :lease and generation = generation + 1. "
            "Choose with a SELECT that ends in ORDER BY … LIMIT 1, and look for another running "
            "task of the same run with NOT EXISTS.",
        ),
    )
    renew = Check(
        "renew",
        "tasks",
        ("task_id", "run_id", "owner", "generation", "now", "lease"),
        ("lease_until",),
        "Prolong the lease of a worker that still holds it.",
        "UPDATE tasks\nSET lease_until = ...\nWHERE ...\nRETURNING lease_until",
        (
            "Who asks, for which claim, and is its lease still live? From what is the new end counted?",
            "The new end is :now + :lease, never sooner than the old one: MAX. The row has to match "
            "id, generation, and lease_until > :now.",
        ),
    )
    finish = Check(
        "finish",
        "tasks",
        ("outcome", "task_id", "generation", "now"),
        (),
        "Write down how the task ended, if the claim that is sent is the one that holds it.",
        "UPDATE tasks\nSET state = :outcome, ...\nWHERE ...",
        (
            "A task that has ended is held by nobody. And which of two claims of one worker is it?",
            "Set lease_owner and lease_until to NULL. Compare id, generation, and lease_until > :now.",
        ),
    )
    commit_run = Check(
        "commit_run",
        "runs",
        ("value", "revision", "task_id", "run_id", "owner", "generation", "now"),
        (),
        "Write the run's value and raise its revision, if the run is as it was read and the "
        "claim's lease is live, all in the one statement that writes.",
        "UPDATE runs\nSET value = :value, ...\nWHERE id = :run_id\n  AND ...",
        (
            "Two things can have changed since the run was read: the run, and who holds the task. "
            "The second one is in another table.",
            "revision = :revision AND EXISTS (SELECT 1 FROM tasks WHERE …), with the task's id, "
            "run_id, generation and lease_until > :now; and SET revision = revision + 1.",
        ),
    )


check = Checks()

"""Your own statement: run in a sandbox, judged by the search, compared with the reference.

``check.claim("UPDATE tasks …")`` says in how many states it holds; or draws the shortest schedule
in which it breaks a property; or says in one sentence what SQLite makes of it.
"""

import re
import sqlite3
from collections import defaultdict
from html import escape
from itertools import product

from leaselab.explore.machine import LONGEST, MOST_STEPS, Failed, Machine, Run, Task
from leaselab.explore.properties import PROPERTIES
from leaselab.explore.scope import ONE_TASK, TWO_RUNS, TWO_TASKS
from leaselab.explore.search import explore
from leaselab.protocol import Protocol
from leaselab.store import Claim

SCOPES = (ONE_TASK, TWO_TASKS, TWO_RUNS)
FUNCTIONS = ("abs", "coalesce", "count", "ifnull", "iif", "max", "min", "nullif", "sum", "total")
# What a row is known by; no statement has a reason to change it.
NAMES = ("tasks.id", "tasks.run_id", "tasks.created_at", "runs.id")
CLOCKS = ("current_time", "current_date", "current_timestamp", "strftime", "unixepoch", "julianday")
NOW, LEASE = 100, 30  # of the rows on which a statement is compared with the reference


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
        protocol = Protocol().with_statement(self.name, sql)
        names = [name for name in PROPERTIES if name != "side_effect"]
        for scope in SCOPES:  # what cannot be run may take long, so it is looked for alone
            sound = explore(protocol, "sound", scope)["sound"]
            if not sound.holds:
                where = f"At the end of {sound.schedule}: {sound.reason}."
                return Grade(self, f"your statement cannot always be run. {where}")
        verdicts = [explore(protocol, names, scope) for scope in SCOPES]
        findings = [finding for verdict in verdicts for finding in verdict.values()]
        broken = [finding for finding in findings if finding.holds is False]
        return Grade(
            self, findings=findings, broken=_by_length(broken), rows=compare(self.name, sql)
        )


class Grade:
    """What is said of a reader's statement.

    Attributes:
        right: whether it runs and breaks no property.
        broken: the findings in which it breaks one, the shortest schedule first.
    """

    def __init__(self, check, fault="", findings=(), broken=(), rows=None):
        self.check = check
        self.fault = fault
        self.broken = broken
        self._findings = findings
        self._rows = rows

    @property
    def right(self):
        return not self.fault and not self.broken

    def __repr__(self):
        return "\n".join(self._lines())

    def _lines(self):
        if self.fault:
            return [f"Not yet: {self.fault}"]
        if not self.broken:
            searched = {finding.scope: finding for finding in self._findings if finding.complete}
            return [
                "Right: it breaks no property in any schedule.",
                *(
                    f"  {found.states:,} states, {found.transitions:,} steps from them: {scope}"
                    for scope, found in searched.items()
                ),
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
        lines = "".join(f"<p>{escape(line)}</p>" for line in self._lines())
        if drawn:
            data["text/html"] = lines + drawn.pictures
        return data


class Sandbox:
    """Where a statement is read for the first time: two empty tables, and nothing else to reach."""

    def __init__(self, check):
        self._check = check
        self._denied = ""
        self._updates = set()

    def fault(self, sql):
        """What is wrong with a text before it meets a row, in a sentence; empty if nothing is."""
        if not isinstance(sql, str) or not sql.strip():
            return f"a statement is a text, such as {self._check.stub.split()[0]} …, not {sql!r}."
        if len(sql) > LONGEST:
            return f"the statement has {len(sql):,} letters; {LONGEST:,} are enough."
        connection = sqlite3.connect(":memory:", isolation_level=None)
        try:
            connection.executescript(Protocol()["schema"])
            connection.set_progress_handler(lambda: True, MOST_STEPS)
            connection.set_authorizer(self._authorize)
            sent = dict.fromkeys(self._check.parameters, 1)
            cursor = connection.execute(sql, sent)
            given = [column[0] for column in cursor.description or ()]
            cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
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
        if action == sqlite3.SQLITE_READ and first.startswith(("sqlite_", "pragma_")):
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
        token = re.search(r'"(.+)"|: (\S+)$', said, re.DOTALL)
        place = token and _place(connection, sql, token[1] or token[2], said)
        return f"SQLite says {said!r}{'.' if place is None else _pointed(sql, place)}"


ALLOWED = (
    *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_READ),
    *(sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_FUNCTION),
)


def _place(connection, sql, token, said):
    """Where SQLite stumbles: the first place at which the text up to there fails the same way."""
    places = list(re.finditer(re.escape(token), sql))
    for match in places:
        try:
            connection.execute(sql[: match.end()])
        except (sqlite3.Error, sqlite3.Warning) as error:
            if str(error) == said:
                return match.start()
    return places[0].start() if places else None


def _pointed(sql, place):
    """The line of a place in a text, with a mark below it."""
    before, line = sql[:place].split("\n"), sql[place:].split("\n")[0]
    indent = before[-1]
    return f" in line {len(before)}:\n{indent}{line}\n{' ' * len(indent)}^"


def _listed(parameters):
    return ", ".join(f":{name}" for name in parameters)


def _by_length(findings):
    """The shortest schedule first; what never happens has none and comes last."""
    return sorted(findings, key=lambda found: len(found.schedule or range(1_000)))


def compare(name, sql):
    """Where a statement answers otherwise than the reference, on many rows that are made up.

    Args:
        name: ``"claim"``, ``"renew"``, ``"finish"`` or ``"commit_run"``.
        sql: the other text.

    Returns lines for the reader. A difference is no fault as long as no schedule comes to it.
    """
    reference = Machine(Protocol(), ONE_TASK)
    other = Machine(Protocol().with_statement(name, sql), ONE_TASK)
    different, count = defaultdict(list), 0
    try:
        for scene in _claim_scenes() if name == "claim" else _scenes(name):
            count += 1
            wanted, given = reference.answer(name, *scene), other.answer(name, *scene)
            if given != wanted:
                different[_difference(reference, name, scene, wanted, given)].append(scene)
    finally:
        reference.close()
        other.close()
    if not different:
        return [f"On {count:,} made-up rows it answers just as the reference does."]
    lines = [f"On {count:,} made-up rows it differs from the reference; no schedule above suffers:"]
    for kind, scenes in sorted(different.items(), key=lambda item: -len(item[1])):
        lines.append(f"  it {kind} ({len(scenes):,} times), as with {_told(name, scenes[0])}")
    return lines


def _claim_scenes():
    """Two tasks each time, of one run or of two, and a claim."""
    pending = (("pending", 0, None, None, at) for at in (0, NOW, NOW + 1))
    running = (("running", 1, "A", end, 0) for end in (NOW - 1, NOW, NOW + 1))
    ended = ((state, 1, None, None, 0) for state in ("done", "uncertain", "failed"))
    rows = (*pending, *running, ("running", 1, "A", NOW - 1, NOW + 1), *ended)
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
    before = scene[:2]
    if isinstance(given[0], Failed):
        return f"fails: {given[0]}"
    if given[1:] == wanted[1:]:
        return f"gives back {given[0]!r} where the reference gives {wanted[0]!r}"
    if given[1:] == before:
        return "refuses what the reference accepts"
    if wanted[1:] != before:
        return "writes something else than the reference"
    tasks, _, sent = scene
    changed = [task for task, now in zip(tasks, given[1]) if task != now] or tasks
    claim = sent[0]
    names = {"owner": claim, "now": NOW, "lease": LEASE}
    if name != "claim":
        names |= {"run_id": claim.run_id, "owner": claim.owner, "generation": claim.generation}
        names |= {"revision": sent[2]} if name == "commit_run" else {}
    guards = reference.refusals(name, *scene[:2], changed[0].id, names)
    return f"accepts what the reference refuses by {' and '.join(guards) or 'another task or run'}"


def _told(name, scene):
    """The rows and what was sent, in words."""
    tasks, runs, sent = scene
    rows = []
    for task in tasks if name == "claim" else tasks[:1]:
        held = f" of {task.lease_owner}, lease_until {task.lease_until}"
        told = f"task {task.id} of {task.run_id}: {task.state}, generation {task.generation}"
        later = f", available at {task.available_at}" if task.available_at else ""
        rows.append(told + (held if task.lease_owner else "") + later)
    asked = f"{'B claims' if name == 'claim' else f'A sends generation 2 for {sent[0].run_id}'}"
    if name == "commit_run":
        asked += f", having read revision {sent[2]} (it is {runs[0].revision})"
    return f"{'; '.join(rows)}; at t={NOW} {asked}"


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

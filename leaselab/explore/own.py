"""Your own statement: run in a sandbox, judged by the search, compared with the reference.

``check.claim("UPDATE tasks …")`` says in how many states it holds; or draws the shortest schedule
in which it breaks a property; or says in one sentence what SQLite makes of it.
"""

from dataclasses import replace
from html import escape

from leaselab.errors import InputError, StoreError
from leaselab.explore.compare import REFUSALS, compare
from leaselab.explore.machine import Failed, Task, memory_of
from leaselab.explore.properties import PROPERTIES, Property
from leaselab.explore.sandbox import Sandbox, listed
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
        return f"{self.task} Its parameters are {listed(self.parameters)}.\n\n{self.stub}"

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
        memory_of(protocol, self.name).clear()  # what is compared are the schedules of this search
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
                "Right: it breaks no property in any schedule of these scopes.",
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
    except (_CannotGoOn, InputError, TypeError, LookupError):
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


def _shorter(finding):
    """The shortest schedule first; what never happens has none and comes last."""
    return len(finding.schedule or range(1_000)), finding.property.name in ("answer", "effect")


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

"""The sandbox: where a reader's statement is read for the first time, before it meets a row."""

import re
import sqlite3
from itertools import islice
from math import prod

from leaselab.explore.machine import LONGEST, MOST_STEPS
from leaselab.protocol import Protocol

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
MOST_COPIES = 1_000  # of the tables that a statement names by WITH
TEXT_OR_COMMENT = re.compile(r"""("[^"]*")|'[^']*'|--[^\n]*|/\*.*?(?:\*/|$)""", re.DOTALL)
NAMED_BY_WITH = re.compile(
    r"""\b(\w+)["`\]]?\s*(?:\([^()]*\)\s*)?\bAS\s+(?:NOT\s+)?(?:MATERIALIZED\s*)?\(""",
    re.IGNORECASE,
)


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
            return f"there is {yours}; there are {listed(self._check.parameters)}."
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


def listed(parameters):
    return ", ".join(f":{name}" for name in parameters)

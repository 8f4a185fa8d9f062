"""The protocol: every SQL statement, and the guards that can be struck out of it.

A statement is one file in ``leaselab/sql``. A line that ends in ``-- guard: NAME`` is a guard: a
condition that refuses something. ``Protocol.without`` strikes such lines out by turning them into
SQL comments, so the text a reader sees is, letter by letter, the text that SQLite runs.

Another engine has the same statements and guards. Where it needs other words, the file of the same
name in a folder of its own, such as ``leaselab/sql/postgres``, takes the place of the first.
"""

import re
from functools import partial
from importlib.resources import files
from itertools import groupby
from textwrap import dedent

from leaselab.errors import InputError, UnknownName

GUARD = re.compile(r"\s*-- guard: ([\w, ]+)$")
STRUCK_OUT = "-- struck out: "
ENGINES = ("sqlite", "postgres")
IN_TWO_STEPS = {
    "look": "-- look: the choice of a claim on its own. Nothing is written.",
    "take": "-- take: what a claim writes, on its own. Nothing is asked again.",
}


class _on_the_class_too:
    """A method that, called on the class, is called on a new object."""

    def __init__(self, method):
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance, owner):
        return partial(self.method, owner() if instance is None else instance)


class Protocol:
    """The statements of the protocol by name, some guards perhaps struck out.

    ``protocol["finish"]`` is the text of ``finish.sql``. A verb of two statements has a second
    file, such as ``exhaust.run.sql``; its guards belong to the same verb. ``"look"`` and ``"take"``
    are the two halves of ``claim.sql``: a claim in two steps, as it must not be done.

    Args:
        engine: whose words the statements are in, ``"sqlite"`` or ``"postgres"``.
    """

    def __init__(self, engine="sqlite"):
        if engine not in ENGINES:
            raise UnknownName(f"there is no engine {engine!r}; there are {', '.join(ENGINES)}.")
        folder = files("leaselab") / "sql"
        self.engine = engine
        self._statements = _texts(folder)
        if engine != "sqlite":
            self._statements |= _texts(folder / engine)
        self.struck_out = ()
        self.rewritten = ()  # the names of the statements that are somebody's own

    def __repr__(self):
        """The expression that makes this protocol."""
        without = ", ".join(f'"{guard}"' for guard in self.struck_out)
        made = "Protocol()" if self.engine == "sqlite" else f'Protocol("{self.engine}")'
        if without:
            made = f"{made.removesuffix('()')}.without({without})"
        for name in self.rewritten:
            made += f'.with_statement("{name}", """{self[name]}""")'
        return made

    def __getitem__(self, name):
        """The SQL text of one statement; ``UnknownName`` (a ``KeyError``) if there is none."""
        if name in IN_TWO_STEPS:
            return _half(name, self["claim"])
        if name not in self._statements:
            known = ", ".join(self._statements)
            raise UnknownName(f"there is no statement {name!r}; there are {known}.")
        return self._statements[name]

    def __iter__(self):
        """The names of the statements."""
        return iter(self._statements)

    @property
    def guards(self):
        """The names of all guards still in force, as ``"finish.generation"``, in order."""
        return tuple(
            dict.fromkeys(
                f"{_verb(name)}.{guard}"
                for name in self._statements
                for _, guards in self._lines(name)
                for guard in guards
            )
        )

    def conditions(self, name):
        """The conditions of one statement's guards, as SQL expressions by guard name.

        A guard that only permits (its line begins with OR) is no condition and is left out.
        """
        conditions = {}
        for line, guards in self._lines(name):
            for guard in guards:
                conditions[guard] = conditions.get(guard, "") + GUARD.sub("", line).strip() + "\n"
        return {
            guard: condition.removeprefix("AND ").strip()
            for guard, condition in conditions.items()
            if condition.startswith("AND ")
        }

    def lines(self, guard):
        """The SQL of one guard, as ``"finish.generation"``: texts, each with whether it is in force.

        Lines of the same guards are one text. A guard that is struck out still has its lines.
        """
        statement, _, name = guard.partition(".")
        lines = [line for line in self._lines(statement, struck_out=True) if name in line[1]]
        texts = []
        for _, group in groupby(lines, key=lambda line: line[1]):
            sql = [GUARD.sub("", line).strip() for line, _ in group]
            in_force = not sql[0].startswith(STRUCK_OUT)
            texts.append((" ".join(line.removeprefix(STRUCK_OUT) for line in sql), in_force))
        return texts

    @_on_the_class_too
    def without(self, *guards):
        """A protocol in which these guards are struck out; this one stays as it is.

        ``Protocol.without(...)`` starts from the full protocol.

        Args:
            guards: ``"generation"`` strikes that guard out of every statement,
                ``"finish.generation"`` out of one.

        Raises:
            UnknownName (a ValueError): no guard of that name is in force; the message lists those
                that are.
        """
        for guard in guards:
            if not any(guard in (name, name.split(".")[1]) for name in self.guards):
                raise UnknownName(
                    f"there is no guard {guard!r}; there are {', '.join(self.guards)}."
                )
        statements = {
            name: _strike_out(name, text, guards) for name, text in self._statements.items()
        }
        return self._changed(statements, self.struck_out + guards, self.rewritten)

    def with_statement(self, name, sql):
        """A protocol in which one statement is another text; this one stays as it is.

        Raises:
            UnknownName (a ValueError): there is no such statement.
        """
        self[name]
        if not isinstance(sql, str):
            raise InputError(f"a statement is a text, not {sql!r}.")
        rewritten = (*(other for other in self.rewritten if other != name), name)
        return self._changed({**self._statements, name: sql}, self.struck_out, rewritten)

    def _changed(self, statements, struck_out, rewritten):
        changed = Protocol.__new__(Protocol)
        changed.engine = self.engine
        changed._statements = statements
        changed.struck_out = struck_out
        changed.rewritten = rewritten
        return changed

    def _lines(self, name, struck_out=False):
        """The guard lines of one statement that are in force, each with its guards' names.

        With ``struck_out`` the others, too.
        """
        for line in self[name].splitlines():
            match = GUARD.search(line)
            if match and (struck_out or not line.lstrip().startswith(STRUCK_OUT)):
                yield line, match[1].split(", ")


def _texts(folder):
    """The statements in one folder, by name."""
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".sql")
    }


def _verb(name):
    return name.split(".")[0]


def _half(name, claim):
    """The choice (the inner SELECT of a claim), or the write (its UPDATE) for one task."""
    _, _, claim = claim.partition("\n")  # without its comment
    before, _, rest = claim.partition("WHERE id = (\n")
    choice, _, after = rest.partition("\n)\n")
    half = dedent(choice) if name == "look" else f"{before}WHERE id = :task_id\n{after}".rstrip()
    return f"{IN_TWO_STEPS[name]}\n{half}\n"


def _strike_out(name, text, guards):
    lines = []
    for line in text.splitlines():
        match = GUARD.search(line)
        named = match[1].split(", ") if match else []
        struck = any(guard in guards or f"{_verb(name)}.{guard}" in guards for guard in named)
        if struck and not line.lstrip().startswith(STRUCK_OUT):
            condition = line.lstrip()
            line = line[: len(line) - len(condition)] + STRUCK_OUT + condition
        lines.append(line)
    return "\n".join(lines) + "\n"

"""A schedule: who does what and when, as moves, as a short string, and as a script for the Lab."""

import re

from leaselab.errors import InputError
from leaselab.explore.machine import Machine, Move, searchable
from leaselab.explore.scope import WORKERS, Scope
from leaselab.lab import Lab
from leaselab.scenarios import Scenario, Step

ACTIONS = (
    *("claim", "look", "take", "call_external", "finish", "commit_run", "ack", "renew"),
    *("release", "exhaust", "crash"),
)
WORD = re.compile(
    r"t=(?P<t>\d{1,18})|(?P<actor>\w+)\.(?P<action>\w+)"
    r"(\(generation=(?P<generation>\d{1,18})(, task=(?P<task>\d{1,18}))?\))?",
    re.ASCII,
)


class Schedule(tuple):
    """Moves in order; ``str`` makes one short line of them, and ``Schedule.read`` reads it.

    ``A.claim t=31 B.claim A.finish``: the clock stands at t=1 when A claims, and at t=31 then.
    ``A.finish(generation=1)`` was sent before a crash of A and arrives now. ``A.crash`` is a crash
    and a new start at the same instant.
    """

    @classmethod
    def read(cls, text):
        """The schedule that a line tells; ``InputError`` names the word that cannot be read."""
        if not isinstance(text, str):
            raise InputError(f"a schedule is a text, as 'A.claim t=31 B.claim', not {text!r}.")
        moves, end = [], 0
        text = text.strip()
        while end < len(text):
            word = WORD.match(text, end)
            rest = text[end:].split()[0]
            if not word or text[word.end() : word.end() + 1].strip():
                raise InputError(
                    f"{rest!r} is no step; write t=31, A.claim or A.finish(generation=1)."
                )
            moves.append(_move(word))
            end = word.end()
            while text[end : end + 1].isspace():
                end += 1
        return cls(moves)

    def __str__(self):
        return " ".join(map(_word, self))

    def scenario(self, protocol, scope):
        """The schedule as a script for the Lab.

        Args:
            protocol: the statements that the search has run; what a worker sends may depend on
                what came back.
            scope: the scope of the search.

        Raises:
            InputError: a step cannot be taken there; the message names it.
        """
        steps = [
            Step(0, "client", "enqueue", {"run_id": f"run-{number % scope.runs + 1}"})
            for number in range(scope.tasks)
        ]
        for transition in self.follow(protocol, scope):
            steps += _steps(transition, scope)
        return Scenario(
            key="schedule",
            title=str(self),
            limits=f"{scope}.",
            steps=tuple(steps),
            lease=scope.lease,
            workers=scope.names,
        )

    def play(self, protocol=None, scope=None):
        """The schedule played in a ``Lab`` on a real file; raises as ``scenario`` does."""
        scope = scope if scope is not None else Scope()
        protocol = searchable(protocol, scope)
        scenario = self.scenario(protocol, scope)
        lab = Lab(scenario, protocol=protocol, idempotency_key=scope.idempotency_key).play()
        return lab.play_to(max([lab.t, *(move.action for move in self if move.actor == "t")]))

    def follow(self, protocol, scope):
        """The transitions of the schedule, as SQLite answers them; raises as ``scenario`` does."""
        machine = Machine(protocol, scope)
        state, transitions = machine.start(), []
        try:
            for move in self:
                step = next((t for t in machine.transitions(state) if t.move == move), None)
                if step is None:
                    before = Schedule(step.move for step in transitions)
                    after = f", after {before}" if before else ""
                    raise InputError(f"{_word(move)} cannot happen at t={state.now}{after}.")
                transitions.append(step)
                state = step.after
        finally:
            machine.close()
        return transitions


def _move(word):
    if word["t"]:
        return Move("t", int(word["t"]))
    if word["actor"] not in WORKERS or word["action"] not in ACTIONS:
        raise InputError(
            f"{word[0]!r} is no step; the workers are {', '.join(WORKERS)}, and they may do: "
            f"{', '.join(ACTIONS)}."
        )
    numbers = [word[name] and int(word[name]) for name in ("generation", "task")]
    return Move(word["actor"], word["action"], *numbers)


def _word(move):
    if move.actor == "t":
        return f"t={move.action}"
    sent = [
        f"{name}={value}"
        for name, value in (("generation", move.generation), ("task", move.task))
        if value is not None
    ]
    return f"{move.actor}.{move.action}" + (f"({', '.join(sent)})" if sent else "")


def _steps(transition, scope):
    """A transition as steps of a script: none for the clock, two for a crash."""
    move, held, now = transition.move, transition.held, transition.before.now
    if move.actor == "t":
        return []
    if move.action == "crash":
        return [Step(now, move.actor, "crash"), Step(now, move.actor, "reopen")]
    sent = {
        "release": {"available_at": now + scope.retry_delay},
        "exhaust": {"max_attempts": scope.max_attempts},
    }.get(move.action, {})
    if move.action == "commit_run":
        sent = {"value": f"{move.actor}'s result", "revision": held.revision}
    if move.generation is not None:
        sent = {**sent, "generation": move.generation}
    if move.task is not None:
        sent = {**sent, "task": move.task}
    return [Step(now, move.actor, move.action, sent)]

"""The graph of a scope: its states, and the steps from each, as far as a search has come to them.

What a statement lets happen in a state depends on nothing but the scope and its text. So a search
under another protocol goes through what is known, and asks only what its own statements answer.
"""

from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

NO_VERB = ""  # of a step that sends no statement: a crash, a call of the service, the clock
MOST = 200_000  # sets of steps that are kept between searches


class Answers(dict):
    """What is remembered of one statement: (rows, arguments) -> the answer. No two are equal."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Node:
    """A state, and its ``Steps`` by the ``Answers`` that they rest on."""

    __slots__ = ("state", "steps")

    def __init__(self, state):
        self.state = state
        self.steps = {}


class Steps(NamedTuple):
    """What one statement lets happen in a state.

    ``moves``: (node, move) each time. ``after``: the node that each leads to. ``told``: the
    properties that are broken on the way, or come true, as (property, move, reason).
    """

    moves: list
    after: list
    told: list

    def __bool__(self):
        return bool(self.moves)


NONE = Steps((), (), ())  # at most nodes most statements are not sent


@lru_cache(maxsize=16)
def graph_of(scope, kinds):
    """The ``Graph`` of a scope and of the properties that are judged in it, the same each time."""
    return Graph(kinds)


class Graph:
    """The nodes of one scope, and the properties, by the action that they judge."""

    def __init__(self, kinds):
        self._judges = defaultdict(list)
        for kind in kinds:
            for action in kind.actions:
                self._judges[action].append(kind)
        self._nodes = {}
        self._known = 0

    def node(self, state):
        """The node of a state, the same one each time."""
        node = self._nodes.get(state)
        if node is None:
            node = self._nodes[state] = Node(state)
        return node

    def steps(self, node, machine):
        """The ``Steps`` from a node, a set for each statement that can be sent there."""
        known, memory = node.steps, machine.memory
        missing = {verb for verb, answers in memory.items() if answers not in known}
        if missing:
            new = self._learn(node, machine, missing)
            if self._known < MOST:
                self._known += len(missing)
                known.update(new)
            else:  # too much to keep
                known = known | new
        return [steps for answers in memory.values() if (steps := known[answers])]

    def _learn(self, node, machine, verbs):
        memory = machine.memory
        learnt = {memory[verb]: NONE for verb in verbs}
        for step in machine.transitions(node.state, verbs):
            action = step.move.action
            answers = memory[action if action in memory else NO_VERB]
            steps = learnt[answers]
            if steps is NONE:
                steps = learnt[answers] = Steps([], [], [])
            steps.moves.append((node, step.move))
            steps.after.append(self.node(step.after))
            for kind in self._judges.get(action, ()):
                reason = kind.judge(step, machine)
                if reason:
                    steps.told.append((kind, step.move, reason))
        return learnt

    def thin(self):
        """Forget everything if it is too much."""
        if self._known >= MOST:
            self._nodes, self._known = {}, 0

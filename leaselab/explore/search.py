"""The search: every schedule of a scope, the shortest first, on the real statements."""

import gc
from collections import defaultdict
from itertools import pairwise

from leaselab.errors import InputError
from leaselab.explore.graph import Graph, graph_of
from leaselab.explore.machine import Machine, searchable
from leaselab.explore.properties import PROPERTIES
from leaselab.explore.schedule import ACTIONS, Schedule
from leaselab.explore.verdict import Finding, Verdict

ENOUGH = 20_000  # of equally short schedules, so many are looked at for the one that tells best


def explore(protocol=None, properties=None, scope=None):
    """Try every schedule of a scope, and say of each property whether it holds.

    The search is breadth first, so no schedule that breaks a property is shorter than the one shown.

    Args:
        protocol: the statements to run; the full protocol if none is given.
        properties: names out of ``PROPERTIES``; all of them if none are given. A search ends as
            soon as all that were asked for are decided.
        scope: a ``Scope``; each property's own if none is given.

    Returns a ``Verdict``.
    """
    protocol = searchable(protocol, scope)
    names = [properties] if isinstance(properties, str) else properties
    if not isinstance(names, (list, tuple, dict, type(None))):
        raise InputError(f"properties are names in a list, not {properties!r}.")
    names = dict.fromkeys(map(str, names or PROPERTIES))
    by_scope = defaultdict(list)
    for name in names:
        by_scope[scope or PROPERTIES[name].scope].append(PROPERTIES[name])
    findings = {}
    for where, kinds in by_scope.items():
        try:
            findings |= Search(protocol, where, kinds, graph_of(where, tuple(kinds))).run()
        except (TypeError, LookupError) as error:  # only a statement put in by hand can do that
            raise InputError(
                "a statement of this protocol gives back what no worker can go on with."
            ) from error
    return Verdict(protocol, {name: findings[name] for name in names})


class Reached:
    """A node that was reached: at which level, in how many shortest ways, and from where."""

    __slots__ = ("level", "parents", "ways")

    def __init__(self, level, ways, parents):
        self.level = level
        self.ways = ways
        self.parents = parents


class Search:
    """One search: breadth first, one level of equally long schedules after the other.

    Its graph is kept if it is one of ``graph_of``; else it goes with the search.
    """

    def __init__(self, protocol, scope, kinds, graph=None):
        self.protocol = protocol
        self.scope = scope
        self.open = {kind.name: kind for kind in kinds}
        self.findings = {}
        self.graph = Graph(kinds) if graph is None else graph
        self.reached = {}
        self.transitions = 0

    def run(self):
        """Search until everything asked for is known; returns a ``Finding`` by property's name."""
        machine, collects = Machine(self.protocol, self.scope), gc.isenabled()
        gc.disable()  # it would look through all that is kept, again and again: a third of the time
        try:
            level = [self.graph.node(machine.start())]
            self.reached[level[0]] = Reached(0, 1, [])
            while level and self.open and len(self.reached) <= self.scope.cap:
                level = self._next_level(machine, level)
        finally:
            if collects:
                gc.enable()
            machine.close()
            self.graph.thin()
        for name, kind in self.open.items():
            self.findings[name] = self._finding(kind, complete=not level)
        return self.findings

    def _next_level(self, machine, level):
        """The nodes that are first reached from this level; what was found on the way is noted."""
        following, found, reached = [], defaultdict(list), self.reached
        for node in level:
            if len(reached) > self.scope.cap:
                break
            here = reached[node]
            for steps in self.graph.steps(node, machine):
                self.transitions += len(steps.moves)
                for kind, move, reason in steps.told:
                    if kind.name in self.open:
                        found[kind.name].append((node, move, reason))
                for move, after in zip(steps.moves, steps.after):
                    there = reached.get(after)
                    if there is None:
                        reached[after] = Reached(here.level + 1, here.ways, [move])
                        following.append(after)
                    elif there.level > here.level:
                        there.ways += here.ways
                        there.parents.append(move)
        for name, scenes in found.items():
            self._note(self.open.pop(name), scenes)
        return following

    def _finding(self, kind, **found):
        return Finding(
            kind, self.protocol, self.scope, len(self.reached), self.transitions, **found
        )

    def _note(self, kind, scenes):
        """What was found first, in the one of all equally short schedules that tells it best."""
        best = min(
            (
                (_telling(schedule), schedule, reason)
                for node, move, reason in scenes
                for schedule in self._schedules(node, move, ENOUGH // len(scenes) + 1)
            ),
            key=lambda found: found[0],
        )
        _, moves, reason = best
        self.findings[kind.name] = self._finding(
            kind,
            schedule=Schedule(move for _, move in moves),
            reason=reason,
            equally_short=sum(self.reached[node].ways for node, _, _ in scenes),
        )

    def _schedules(self, node, move, most):
        """The shortest schedules that end in a move, as (node, move), at most so many."""
        unfinished = [((node, move),)]
        while unfinished and most:
            schedule = unfinished.pop()
            parents = self.reached[schedule[0][0]].parents
            if not parents:
                most -= 1
                yield schedule
            for parent in parents:
                unfinished.append((parent, *schedule))


def _telling(schedule):
    """What tells best comes first: two workers, no crash, A before B, the clock right at an end."""
    actors = [move.actor for _, move in schedule if move.actor != "t"]
    crashes = sum(move.action == "crash" for _, move in schedule)
    aside = sum(
        move.action not in {task.lease_until for task in node.state.tasks}
        for node, move in schedule
        if move.actor == "t"
    )
    familiar = [ACTIONS.index(move.action) for _, move in schedule if move.actor != "t"]
    order = [str(move) for _, move in schedule]
    turns = sum(actor != last for last, actor in pairwise(actors))
    return len(set(actors)) != 2, crashes, actors[0] != "A", turns, aside, familiar, order

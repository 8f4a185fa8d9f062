"""The search: every schedule of a scope, the shortest first, on the real statements."""

from collections import defaultdict
from itertools import pairwise

from leaselab.errors import InputError
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
    names = [str(name) for name in names or PROPERTIES]
    by_scope = defaultdict(list)
    for name in names:
        by_scope[scope or PROPERTIES[name].scope].append(PROPERTIES[name])
    findings = {}
    for where, kinds in by_scope.items():
        try:
            findings |= Search(protocol, where, kinds).run()
        except (TypeError, LookupError) as error:  # only a statement put in by hand can do that
            raise InputError(
                "a statement of this protocol gives back what no worker can go on with."
            ) from error
    return Verdict(protocol, {name: findings[name] for name in names})


class Reached:
    """A state that was reached: at which level, in how many shortest ways, and from where."""

    __slots__ = ("level", "parents", "ways")

    def __init__(self, level, ways, parents):
        self.level = level
        self.ways = ways
        self.parents = parents


class Search:
    """One search: breadth first, one level of equally long schedules after the other."""

    def __init__(self, protocol, scope, kinds):
        self.protocol = protocol
        self.scope = scope
        self.open = {kind.name: kind for kind in kinds}
        self.findings = {}
        self.reached = {}
        self.transitions = 0

    def run(self):
        """Search until everything asked for is known; returns a ``Finding`` by property's name."""
        machine = Machine(self.protocol, self.scope)
        try:
            level = [machine.start()]
            self.reached[level[0]] = Reached(0, 1, [])
            while level and self.open and len(self.reached) <= self.scope.cap:
                level = self._next_level(machine, level)
        finally:
            machine.close()
        for name, kind in self.open.items():
            self.findings[name] = self._finding(kind, complete=not level)
        return self.findings

    def _next_level(self, machine, level):
        """The states that are first reached from this level; what was found on the way is noted."""
        judges = defaultdict(list)
        for kind in self.open.values():
            for action in kind.actions:
                judges[action].append(kind)
        following, found, reached = [], defaultdict(list), self.reached
        for state in level:
            if len(reached) > self.scope.cap:
                break
            here = reached[state]
            for transition in machine.transitions(state):
                self.transitions += 1
                _, move, after, _, _ = transition
                for kind in judges.get(move.action, ()):
                    reason = kind.judge(transition, machine)
                    if reason:
                        found[kind.name].append((transition, reason))
                there = reached.get(after)  # looked up once: to hash a state takes its time
                if there is None:
                    reached[after] = Reached(here.level + 1, here.ways, [(state, move)])
                    following.append(after)
                elif there.level > here.level:
                    there.ways += here.ways
                    there.parents.append((state, move))
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
                for transition, reason in scenes
                for schedule in self._schedules(transition, ENOUGH // len(scenes) + 1)
            ),
            key=lambda found: found[0],
        )
        _, moves, reason = best
        self.findings[kind.name] = self._finding(
            kind,
            schedule=Schedule(move for _, move in moves),
            reason=reason,
            equally_short=sum(self.reached[transition.before].ways for transition, _ in scenes),
        )

    def _schedules(self, transition, most):
        """The shortest schedules that end in a transition, as (state, move), at most so many."""
        unfinished = [((transition.before, transition.move),)]
        while unfinished and most:
            schedule = unfinished.pop()
            state = schedule[0][0]
            parents = self.reached[state].parents
            if not parents:
                most -= 1
                yield schedule
            for parent, move in parents:
                unfinished.append(((parent, move), *schedule))


def _telling(schedule):
    """What tells best comes first: two workers, no crash, A before B, the clock right at an end."""
    actors = [move.actor for _, move in schedule if move.actor != "t"]
    crashes = sum(move.action == "crash" for _, move in schedule)
    aside = sum(
        move.action not in {task.lease_until for task in state.tasks}
        for state, move in schedule
        if move.actor == "t"
    )
    familiar = [ACTIONS.index(move.action) for _, move in schedule if move.actor != "t"]
    order = [str(move) for _, move in schedule]
    turns = sum(actor != last for last, actor in pairwise(actors))
    return len(set(actors)) != 2, crashes, actors[0] != "A", turns, aside, familiar, order

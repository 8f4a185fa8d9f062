"""What one claim costs, by the number of waiting tasks; both axes go up in powers of ten."""

from math import ceil, floor, log10

from leaselab.chart import BAND, COLOURS, INK, Picture

LEFT, RIGHT, TOP, BOTTOM = 92, 560, 52, 272  # to the right the lines have their names


class CostChart(Picture):
    """The steps of one claim: ``CostChart({"with both indexes": {1000: 190, 10000: 190}})``.

    One line for each name, steps by the number of waiting tasks; four lines at most.
    """

    height = 316
    title = "The steps of one claim, by the number of waiting tasks"

    def __init__(self, costs):
        self._lines = costs
        self._tasks = _powers(tasks for line in costs.values() for tasks in line)
        self._steps = _powers(steps for line in costs.values() for steps in line.values())
        self.sentence = f"{self.title}. {'; '.join(map(_told, costs, costs.values()))}."

    def figure(self):
        """The picture as a matplotlib Figure."""
        self._new_figure()
        self._text(12, 5, self.title, va="top", size=10.5, weight="bold")
        for steps in self._steps:
            _, y = self._place(self._tasks[0], steps)
            self._plot([LEFT, RIGHT], [y, y], color=BAND, lw=2, zorder=1)
            self._text(LEFT - 9, y, f"{steps:,}", ha="right", va="center", size=8.5)
        for tasks in self._tasks:
            x, _ = self._place(tasks, self._steps[0])
            self._plot([x, x], [BOTTOM, BOTTOM + 8], color=INK, lw=0.7, zorder=6)
            self._text(x, BOTTOM + 11, f"{tasks:,}", ha="center", va="top", size=8.5)
        self._plot([LEFT, LEFT, RIGHT], [TOP, BOTTOM, BOTTOM], color=INK, lw=1, zorder=6)
        for (name, line), colour, marker in zip(self._lines.items(), COLOURS, "os^D"):
            points = [self._place(*point) for point in line.items()]
            self._plot(*zip(*points), color=colour, lw=2.4)
            for x, y in points:
                self._mark(x, y, marker, colour, 7)
            self._fixed(x + 12, y, name, color=colour, weight="bold")
        return self._figure

    def _place(self, tasks, steps):
        across = log10(tasks / self._tasks[0]) / log10(self._tasks[-1] / self._tasks[0])
        up = log10(steps / self._steps[0]) / log10(self._steps[-1] / self._steps[0])
        return LEFT + (RIGHT - LEFT) * across, BOTTOM - (BOTTOM - TOP) * up


def _told(name, line):
    return f"{name}: " + ", ".join(f"{steps:,} for {tasks:,}" for tasks, steps in line.items())


def _powers(counts):
    """The powers of ten around some counts of at least 1: two powers or more."""
    powers = [log10(count) for count in counts]
    first = floor(min(powers))
    return [10**power for power in range(first, max(ceil(max(powers)), first + 1) + 1)]

"""The matrix: which guard protects which property, in a table and in a picture."""

from matplotlib.patches import Rectangle

from leaselab.chart import BAND, FAINT, REJECTED, WIDTH, Picture
from leaselab.errors import InputError
from leaselab.explore.properties import PROPERTIES
from leaselab.explore.search import explore
from leaselab.protocol import Protocol

# A guard that alone protects nothing in the scopes of the properties, and why.
BACKED = {
    **dict.fromkeys(
        ("ack.owner", "commit_run.owner", "exhaust.owner", "release.owner", "renew.owner"),
        "a generation has one owner, so the generation tells already",
    ),
    **dict.fromkeys(
        ("commit_run.running", "exhaust.running", "finish.running", "renew.running"),
        "only a running task has a lease_until, so the expiry tells already",
    ),
    "exhaust.active_run": "a run is active or failed here; for a failed one it would write failed again",
    "renew.never_shorter": "no clock is behind in these scopes; lesson 07 has one that is",
}

LEFT, HEAD, ROW = 150, 112, 25  # pixels: the guards' names, the properties' names, a row


class Matrix(Picture):
    """Every property, judged with one guard struck out at a time.

    Args:
        guards: what is struck out in each row, a guard's name or several; by default nothing in
            the first row, and one guard of the protocol in each of the others.
        scope: a ``Scope`` for all; each property's own if none is given.

    ``verdicts`` has a ``Verdict`` for each row. In a notebook the matrix shows itself as a picture.
    """

    def __init__(self, guards=None, scope=None):
        if not isinstance(guards, (list, tuple, type(None))):
            raise InputError(f"guards are a list with what each row strikes out, not {guards!r}.")
        rows = guards if guards else ["", *Protocol().guards]
        self._scope = scope
        self.verdicts = {}
        for row in rows:
            names = [row] if isinstance(row, str) else list(row)
            protocol = Protocol().without(*filter(None, names))
            self.verdicts[" + ".join(names)] = explore(protocol, scope=scope)
        self.height = HEAD + ROW * len(self.verdicts) + 34

    @property
    def harmless(self):
        """The rows in which nothing more is broken than under the full protocol."""
        full = explore(scope=self._scope).broken
        return [row for row, verdict in self.verdicts.items() if row and verdict.broken == full]

    @property
    def sentence(self):
        """The matrix in words: what is broken in each row, and in how many steps."""
        told = []
        for row, verdict in self.verdicts.items():
            broken = ", ".join(f"{name} ({_cell(verdict[name])[0]})" for name in verdict.broken)
            told.append(f"{f'without {row}' if row else 'with every guard'}: {broken or 'nothing'}")
        return f"What is broken, and after how many steps. {'; '.join(told)}."

    def to_frame(self):
        """The matrix as a pandas DataFrame: a row for each guard, a column for each property."""
        import pandas

        cells = {
            row or "(every guard)": [
                " / ".join(filter(None, _cell(found))) for found in verdict.values()
            ]
            for row, verdict in self.verdicts.items()
        }
        return pandas.DataFrame.from_dict(cells, orient="index", columns=list(PROPERTIES))

    def figure(self):
        """The picture as a matplotlib Figure."""
        self._new_figure()
        title = "What is broken without each guard: steps of the shortest schedule, and states"
        self._text(12, 5, title, va="top", size=10.5, weight="bold")
        width = (WIDTH - LEFT - 30) / len(PROPERTIES)
        for number, name in enumerate(PROPERTIES):
            x = LEFT + (number + 0.5) * width
            self._text(
                x - 4,
                HEAD - 6,
                name,
                rotation=45,
                ha="left",
                va="bottom",
                size=8,
                rotation_mode="anchor",
            )
        for line, (row, verdict) in enumerate(self.verdicts.items()):
            y = HEAD + line * ROW
            if line % 2 == 0:
                band = Rectangle((6, y), WIDTH - 36, ROW, color=BAND, lw=0, zorder=1)
                self._axes.add_patch(band)
            self._text(
                LEFT - 6, y + ROW / 2, row or "(every guard)", ha="right", va="center", size=8
            )
            for number, finding in enumerate(verdict.values()):
                self._draw_cell(LEFT + number * width, y, width, finding)
        said = (
            "framed: broken, after so many steps; below them the states until then. "
            "Else: all states, or the states until it was possible (can_...)."
        )
        self._text(12, self.height - 14, said, va="center", size=7.5, color=FAINT)
        return self._figure

    def _draw_cell(self, x, y, width, finding):
        steps, states = _cell(finding)
        middle, style = x + width / 2, {"ha": "center", "va": "center"}
        if not steps:
            self._text(middle, y + ROW / 2, states, size=5.8, color=FAINT, **style)
            return
        box = {"fc": "white", "ec": REJECTED, "lw": 1.4, "zorder": 3}
        self._axes.add_patch(Rectangle((x + 1, y + 1), width - 2, ROW - 2, **box))
        size = 8 if len(steps) < 4 else 5.5
        self._text(middle, y + 9, steps, size=size, weight="bold", color=REJECTED, **style)
        self._text(middle, y + 19, states, size=5.8, **style)


def _cell(finding):
    """After how many steps it is broken ("" if it is not), and the number of states."""
    states = f"{finding.states:,}" if finding.holds is not None else f">{finding.states:,}"
    if finding.holds is not False:
        return "", states
    return str(len(finding.schedule)) if finding.schedule else "never", states

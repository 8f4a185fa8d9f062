"""The end of the lease over time: how far each renewal has moved it, and how long it is still live.

The same cards, colours and marks as the timeline. A lease is live while the curve runs above the
diagonal ``lease_until = t``; where it meets the diagonal, the lease ends.
"""

from matplotlib.patches import Polygon

from leaselab.chart import BAND, FAINT, GROUND, INK, LEFT, REJECTED, RIGHT, Picture, look_of

TOP, BOTTOM = 52, 272


class LeaseCurve(Picture):
    """``lease_until`` over time, for the task that was claimed last.

    Args:
        trace: a ``Trace``.
        horizon: the last instant of both axes; by default as far as the trace reaches.

    In a notebook it shows itself; ``sentence`` is its text, and its alt text.
    """

    height = 316

    def __init__(self, trace, horizon=None):
        self.trace = trace
        self.horizon = max(horizon or 0, trace.horizon, 1)
        task_id = trace.leases[-1].task_id if trace.leases else None
        self._leases = [lease for lease in trace.leases if lease.task_id == task_id]
        self._steps = [step for step in trace.steps if step.task_id == task_id]
        told = [
            f"gen {lease.generation} of {lease.owner}: "
            + ", ".join(f"from t={t} it says {end}" for t, end in points(lease))
            + ("" if lease.closed is None else f", cleared at t={lease.closed}")
            for lease in self._leases
        ]
        said = "; ".join(told) or "there is no lease yet"
        without = f" struck out: {', '.join(trace.struck_out)}." if trace.struck_out else ""
        self.sentence = f"lease_until up to t={trace.now}: {said}. {self._title}.{without}"

    @property
    def _title(self):
        if not self._leases:
            return "no lease yet"
        lease = self._leases[-1]
        if lease.closed is not None:
            return f"gen {lease.generation} was cleared at t={lease.closed}"
        left = lease.end - self.trace.now
        kept = f"is live for another {left}" if left > 0 else f"has ended at t={lease.end}"
        return f"t={self.trace.now}: the lease of gen {lease.generation} {kept}"

    def figure(self):
        """The picture as a matplotlib Figure."""
        self._new_figure()
        corner = [(LEFT, BOTTOM), (RIGHT, BOTTOM), (RIGHT, TOP)]
        self._axes.add_patch(Polygon(corner, color=BAND, lw=0, zorder=1))
        self._plot([LEFT, RIGHT], [BOTTOM, TOP], color=FAINT, lw=1, ls="--", zorder=2)
        self._text(12, 5, self._title, va="top", size=10.5, weight="bold")
        self._fixed(RIGHT - 8, BOTTOM - 14, "below the dashed line a lease has ended", ha="right")
        self._fixed(LEFT, TOP - 10, "lease_until")
        self._say_what_is_struck_out(RIGHT, 14, self.trace.struck_out, "right")
        self._fixed(RIGHT + 8, BOTTOM, "t")
        for number, lease in enumerate(self._leases):
            later = self._leases[number + 1 :]
            self._draw_lease(lease, later[0].start if later else self.trace.now)
        for step in self._steps:
            self._draw_step(step)
        self._draw_axes()
        return self._figure

    def _place(self, t, end):
        share = (RIGHT - LEFT) / self.horizon, (BOTTOM - TOP) / self.horizon
        return LEFT + share[0] * t, BOTTOM - share[1] * end

    def _draw_lease(self, lease, until):
        colour = look_of(lease.generation)[0]
        until = max(lease.start, until if lease.closed is None else lease.closed)
        corners = []
        for t, end in points(lease):
            corners += [(t, corners[-1][1])] if corners else []
            corners.append((t, end))
        corners.append((until, corners[-1][1]))
        xs, ys = zip(*(self._place(*corner) for corner in corners))
        self._plot(xs, ys, color=colour, lw=2.4)
        self._mark(xs[0], ys[0], "o", colour, 7)
        for end in ends_undone(lease):
            self._mark(*self._place(end, end), "o", colour, 7, hollow=True)
        end = lease.end
        self._plot(
            *zip(self._place(until, end), self._place(max(until, end), end)),
            color=colour,
            lw=1,
            ls=":",
        )
        if lease.closed is None:
            self._mark(*self._place(end, end), "o", colour, 7, hollow=True)
        self._label_beside(xs[0], ys[0] + 22, f"gen {lease.generation}", colour)

    def _label_beside(self, x, y, text, colour, side="left"):
        """A text above the point, or below it where another text is in the way.

        ``side`` is the side of the text that lies at the point.
        """
        style = {"size": 8.5, "color": colour, "va": "center", "weight": "bold", "bbox": GROUND}
        label = self._text(x + (8 if side == "left" else -8), y - 10, text, ha=side, **style)
        if any(self._box(label).overlaps(other) for other in self._taken):
            label.set_y(y + 12)
        self._taken.append(self._box(label))

    def _draw_step(self, step):
        live = step.before or {}
        if step.action == "renew" and not step.refused:
            x, y = self._place(step.t, step.row["lease_until"])
            self._plot([x, x], [y - 6, y + 6], color=look_of(step.row["generation"])[0], lw=2)
        if step.action == "renew" and step.refused and live.get("lease_until") is not None:
            x, y = self._place(step.t, live["lease_until"])
            self._mark(x, y, "o", REJECTED, 11, hollow=True)
            self._plot([x], [y], marker="x", color=REJECTED, ms=5, mew=1.6, zorder=7.5)
            self._label_beside(x, y, "refused", REJECTED)
        elif step.action == "claim" and step.refused and live.get("lease_until") is not None:
            x, y = self._place(step.t, live["lease_until"])
            self._mark(x, y, ">", FAINT, 7.5, hollow=True)
            self._label_beside(x, y, f"{step.actor} refused", FAINT, side="right")
        elif step.action in ("crash", "crash_and_reopen") and live.get("lease_until") is not None:
            x, y = self._place(step.t, live["lease_until"])
            self._mark(x, y, "X", INK, 10)
            self._label_beside(x, y, "crash", INK)

    def _draw_axes(self):
        self._plot([LEFT, LEFT], [BOTTOM, TOP], color=INK, lw=1, zorder=6)
        changes = [point for lease in self._leases for point in points(lease)]
        times = {0, self.trace.now, *(t for t, _ in changes)}
        times |= {step.t for step in self._steps} | {lease.end for lease in self._leases}
        times |= {end for lease in self._leases for end in ends_undone(lease)}
        xs = {t: self._place(t, 0)[0] for t in sorted(times)}
        self._draw_time_axis(BOTTOM, xs, rows=2)
        places = []
        for _, end in reversed(changes):  # the last end is the one that counts
            _, y = self._place(0, end)
            if all(abs(y - other) >= 13 for other in places):
                self._text(LEFT - 8, y, str(end), ha="right", va="center", size=8.5)
                self._plot([LEFT - 5, LEFT], [y, y], color=INK, lw=0.7, zorder=6)
                places.append(y)


def ends_undone(lease):
    """The instants at which a lease had ended, and was pulled up again later."""
    changes = zip(points(lease), points(lease)[1:])
    return [end for (_, end), (change, _) in changes if end < change]


def points(lease):
    """What ``lease_until`` said since when: the claim, then each renewal."""
    ends = [*(old_end for _, old_end in lease.renewed), lease.end]
    return list(zip([lease.start, *(t for t, _ in lease.renewed)], ends))

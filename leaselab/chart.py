"""The timeline: a trace as a picture, in one grammar for all lessons.

All positions are pixels of a 720 pixel wide card, time is to scale, and whatever can be read only
in colour is also a shape, a hatch or a word. What has happened is drawn above the veil that covers
the time ahead, so a notebook's panel can move the veil without drawing anything anew.
"""

from base64 import b64encode
from html import escape
from io import BytesIO

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox
from PIL import Image

from leaselab.errors import InputError
from leaselab.trace import COMMITS

WIDTH = 720  # pixels; the axis of time runs from LEFT to RIGHT
LEFT = 84
RIGHT = 672
DPI = 150  # 1.5 picture pixels for each pixel on the page: sharp on a high-resolution screen
HEAD = 62  # the title's two lines, and the box that says now
CROP = 36  # without the title
WORKER = 72
TASK = 70
SMALLEST_TASK = 23
TWO_LINES = 30  # a lane's height for its name in two lines
ROWS = 5  # leases of one task that are shown; with more, the last ones
SERVICE = 64
AXIS = 54
ROW = 15.5  # height of a line of text

INK = "#1a1a1a"
FAINT = "#5f5f5f"
BAND = "#f4f4f4"
REJECTED = "#B84A00"  # vermilion, dark enough to be read as text on white
COLOURS = ("#0072B2", "#8A5A00", "#00704F", "#A8527F")
HATCHES = ("", "////", "....", "xxxx")
PAST_FOUR = "#555555"

VEIL = 5  # the zorder of the veil; above it lies what has happened and what is certain


class Picture:
    """What the two kinds of picture share: a white card, and how a notebook is shown it.

    Attributes:
        sentence: the picture in words; it is the alt text.
        height: in pixels.
    """

    def figure(self):
        """The whole picture as a matplotlib Figure."""
        raise NotImplementedError

    def png(self):
        """The whole picture, as the bytes of a PNG."""
        return _png(self.figure())

    def _repr_mimebundle_(self, **_):
        png = self.png()
        source = "data:image/png;base64," + b64encode(png).decode()
        size = {"width": WIDTH, "height": self.height}
        image = f'<img src="{source}" alt="{escape(self.sentence)}" width="{WIDTH}" />'
        data = {"text/plain": self.sentence, "text/html": image, "image/png": png}
        return data, {"image/png": size}

    def _new_figure(self):
        self._figure = Figure(figsize=(WIDTH / 100, self.height / 100), dpi=DPI)
        self._figure.patch.set_facecolor("white")
        self._renderer = FigureCanvasAgg(self._figure).get_renderer()
        self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.set_xlim(0, WIDTH)
        self._axes.set_ylim(self.height, 0)
        self._axes.axis("off")
        self._taken = []  # boxes of the texts that are placed

    def _plot(self, xs, ys, **style):
        style = {"solid_capstyle": "butt", "zorder": 4, "clip_on": False, **style}
        self._axes.add_artist(Line2D(xs, ys, **style))

    def _mark(self, x, y, marker, colour, size=8.5, hollow=False):
        """A mark with a white rim, so that neighbours can be told apart; or a hollow one."""
        fill, rim, width = ("white", colour, 1.4) if hollow else (colour, "white", 0.7)
        style = {"marker": marker, "mfc": fill, "mec": rim, "mew": width, "ms": size}
        self._plot([x], [y], **style, ls="", zorder=7)

    def _text(self, x, y, text, **style):
        return self._axes.text(
            x, y, text, **{"color": INK, "zorder": 8, "parse_math": False, **style}
        )

    def _box(self, text):
        """The box of a text, or of the frame around it, in pixels of the card."""
        box = text.get_window_extent(self._renderer)
        left, right = 100 * box.x0 / DPI, 100 * box.x1 / DPI
        top, bottom = self.height - 100 * box.y1 / DPI, self.height - 100 * box.y0 / DPI
        return Bbox.from_extents(left - 2, top - 1, right + 2, bottom + 1)

    def _say_what_is_struck_out(self, x, y, guards, side):
        """The names of guards, or how many they are, in a corner of the picture."""
        said = f"struck out: {', '.join(guards)}"
        said = said if len(said) <= 48 else f"{len(guards)} guards struck out"
        style = {"va": "center", "size": 8.5, "color": REJECTED, "weight": "bold"}
        if guards:
            self._text(x, y, said, ha=side, **style)

    def _draw_time_axis(self, y, places, rows):
        """The axis of time, with a number below each place where there is room, in some rows.

        ``places`` are instants and where they lie, from left to right.
        """
        self._plot([LEFT, RIGHT], [y, y], color=INK, lw=1, zorder=6)
        ends = [-1.0] * rows
        for t, x in places.items():
            text = self._text(x, y, str(t), ha="center", va="top", size=8.5, bbox=GROUND)
            box = self._box(text)
            row = next((row for row in range(rows) if ends[row] < box.x0 - 2), None)
            if row is None:
                text.remove()
                continue
            ends[row] = box.x1
            text.set_y(y + 11 + row * 13)
            self._plot([x, x], [y, y + 10 + row * 13], color=INK, lw=0.7, zorder=6)
            self._taken.append(self._box(text))

    def _fixed(self, x, y, text, **style):
        """A text whose place is given, on a white ground."""
        style = {"ha": "left", "va": "center", "size": 8.5, "bbox": GROUND, **style}
        text = self._text(x, y, text, **style)
        self._taken.append(self._box(text))
        return text


class Chart(Picture):
    """The picture of a trace at its instant ``now``.

    Args:
        trace: a ``Trace``.
        horizon: the last instant of the axis; by default as far as the trace reaches.
        lanes: for how many tasks there is room, more of them share it; by default for all.
        differs: a (t, worker) to be marked as the step in which two pictures differ.

    In a notebook it shows itself; ``sentence`` is its text, and its alt text.
    """

    def __init__(self, trace, horizon=None, lanes=None, differs=None):
        self.trace = trace
        self.horizon = max(horizon or 0, trace.horizon, 1)
        self.sentence = trace.sentence
        self._differs = differs
        self._clear = 14 if differs else 9  # how far above its mark a text begins
        if differs:
            self.sentence += " The pictures differ at t={} in what worker {} does.".format(*differs)
        self._tasks = [task["id"] for task in trace.tasks] or [1]
        room = TASK * (lanes or len(self._tasks))
        self._tasks = self._tasks[-max(1, room // SMALLEST_TASK) :]
        self._task = room / len(self._tasks)
        self._top = {}
        y = HEAD
        lanes = [(f"worker {name}", WORKER) for name in trace.workers]
        lanes += [(f"task {task_id}", self._task) for task_id in self._tasks] + [
            ("service", SERVICE)
        ]
        for lane, height in lanes:
            self._top[lane] = y
            y += height
        self._lanes = lanes
        self._bottom = round(y)
        self.height = self._bottom + AXIS

    def figure(self):
        """The whole picture as a matplotlib Figure: title, timeline, veil and now."""
        self._draw(until=self._x(self.trace.now))
        self._draw_title()
        self._draw_now()
        return self._figure

    def layers(self):
        """The picture without title and now, in two PNGs: below the veil, and above it.

        They start at CROP and are ``height - CROP`` pixels high.
        """
        self._draw(until=RIGHT)
        layers = []
        for above in (False, True):
            for artist in self._axes.get_children():
                artist.set_visible((artist.get_zorder() > VEIL) == above)
            self._figure.patch.set_alpha(0 if above else 1)
            layers.append(_png(self._figure, crop=CROP))
        return tuple(layers)

    def _x(self, t):
        return LEFT + (RIGHT - LEFT) * t / self.horizon

    def _draw(self, until):
        """All but title and now; what goes on as long as the clock does is drawn up to ``until``."""
        self._until = until
        self._draw_in_order(self.trace.steps)
        if self._unsaid:  # little room: what differs is said first, then what was rejected
            self._draw_in_order(
                sorted(
                    self.trace.steps,
                    key=lambda step: (
                        (step.t, step.actor) != self._differs,
                        not _rejected(step),
                    ),
                )
            )

    def _draw_in_order(self, steps):
        self._unsaid = False
        self._new_figure()
        self._draw_lanes()
        self._draw_leases()
        for worker in self.trace.workers:
            self._draw_life(worker)
        self._draw_ledger()
        for step in steps:
            self._draw_step(step)
        if self._differs:
            self._draw_difference(*self._differs)
        self._draw_ticks()

    # Lanes

    def _draw_lanes(self):
        tasks = {f"task {task['id']}": task for task in self.trace.tasks}
        for index, (lane, height) in enumerate(self._lanes):
            top = self._top[lane]
            if index % 2 == 0:
                self._axes.add_patch(
                    Rectangle((LEFT, top), RIGHT - LEFT, height, color=BAND, lw=0, zorder=1)
                )
            y = self._line(lane) if lane.startswith("worker") else top + height / 2
            y = top + 14 if lane == "service" else y
            name = _lane_name(self._plain(lane))
            task = tasks.get(lane)
            if task and len(tasks) > 1 and height >= TWO_LINES:
                run = _shortened(self._plain(task["run_id"]))
                name = {"text": f"{lane}\n{run}", "size": 8}
            self._fixed(LEFT - 10, y, **name, ha="right")
            if task and not self._rows(task["id"]):
                self._fixed(LEFT + 8, y, task["state"], color=FAINT)

    def _line(self, lane):
        return self._top[lane] + WORKER - 13

    def _draw_life(self, worker):
        """Solid while the worker lives, dotted while it is gone."""
        y = self._line(f"worker {worker}")
        steps = [step for step in self.trace.steps if step.actor == worker]
        since, alive = LEFT, not any(step.action == "start" for step in steps)
        for step in steps:
            if step.action not in LIVES_AFTER:
                continue
            x = self._x(step.t)
            self._plot([since, x], [y, y], **LIFE[alive])
            alive = LIVES_AFTER[step.action]
            since = x
            if step.action == "crash_and_reopen":
                self._plot([x, x + 13], [y, y], **LIFE[False])
                since = x + 13
        self._plot([since, max(since, self._until)], [y, y], **LIFE[alive])

    def _draw_leases(self):
        for task_id in self._tasks:
            for lease, (top, height) in self._rows(task_id).items():
                self._draw_lease(lease, top, height)

    def _draw_lease(self, lease, top, height):
        colour, hatch = look_of(lease.generation)
        start, end = self._x(lease.start), self._x(lease.end)
        until = end if lease.closed is None else min(end, self._x(lease.closed))
        middle = top + height / 2
        self._bar(start, until, top, height, facecolor=colour, alpha=0.2, lw=0)
        if hatch:
            self._bar(start, until, top, height, fc="none", ec=colour, hatch=hatch, lw=0, alpha=0.6)
        self._plot([start, until], [top, top], color=colour, lw=1)
        self._plot([start, until], [top + height, top + height], color=colour, lw=1)
        for y in (top, top + height):  # what was left of the lease when it was given back
            self._plot([until, end], [y, y], color=colour, lw=0.8, ls=":")
        self._plot([start, start], [top, top + height], color=colour, lw=2, zorder=6)
        self._plot([end, end], [top, top + height], color=colour, lw=1.4, ls="--", zorder=6)
        dot = {"color": colour, "marker": "o", "ms": 5.5, "mew": 1.4}
        self._plot([start], [middle], zorder=7, **dot)
        self._plot([end], [middle], zorder=7, mfc="white", **dot)
        if lease.closed is not None:
            self._plot([until, until], [top, top + height], color=colour, lw=2, zorder=6)
        for t, old_end in lease.renewed:
            x = self._x(t)
            self._plot([x, x], [top + 3, top + height - 3], color=colour, lw=2, zorder=6)
            x = self._x(old_end)
            self._plot([x, x], [top, top + height], color=colour, lw=1, ls=":", zorder=6)
        label = f"gen {lease.generation} [{lease.start}, {lease.end})"
        size = 8.5 if height >= 14 else 6.5
        label = self._fixed(start + 8, middle, label, size=size, weight="bold")
        if self._box(label).x1 > until - 3 and until < end:  # given back: beside what is left
            label.set_x(until + 6)
        if self._box(label).x1 > RIGHT + 40:  # no room at the right end of the axis
            label.set_ha("right")
            label.set_x(start - 8)
        self._taken[-1] = self._box(label)

    def _draw_ledger(self):
        """The service's count as a step line with its numbers; a dotted box while unknown."""
        top = self._top["service"]
        base = top + SERVICE - 12
        counts = [(0, 0)]
        for step in self.trace.steps:
            if step.external_calls != counts[-1][1]:
                counts.append((step.t, step.external_calls))
        ends = [*(self._x(t) for t, _ in counts[1:]), self._until]
        for (t, count), end in zip(counts, ends):
            x, y = self._x(t), base - 6 * min(count, 3)
            self._plot([x, end], [y, y], color=INK, lw=1.6, zorder=3)
            if count:
                self._plot([x, x], [y, y + 6], color=INK, lw=1.6, zorder=3)
        self._fixed(LEFT - 10, base - 3, "ledger", ha="right")
        for t, count in counts:
            frame = {**GROUND, "ec": INK, "pad": 1.5, "lw": 1} if count > 1 else GROUND
            y = base - 6 * min(count, 3) - 9
            self._fixed(self._x(t) + 5, y, str(count), bbox=frame, weight="bold")
        calls = [step for step in self.trace.steps if step.action == "call_external"]
        timeouts = [step for step in calls if step.returned == "timeout"]
        if timeouts:
            x, key = self._x(timeouts[0].t), timeouts[0].sent["key"]
            # A call that is answered under the same key tells what became of the first one.
            told = [
                self._x(step.t)
                for step in calls[calls.index(timeouts[0]) :]
                if key and step.sent["key"] == key and step.returned != "timeout"
            ]
            end = min([*told, self._until])
            box = {"fc": "none", "ec": INK, "ls": ":", "lw": 1.2, "zorder": 3}
            self._axes.add_patch(Rectangle((x, top + 5), end - x, 19, **box))
            self._fixed(x + 5, top + 14.5, "unknown outcome", weight="bold")

    # What happened

    def _draw_step(self, step):
        if step.actor not in self.trace.workers:
            if step.action == "act":
                self._mark(self._x(step.t), self._top["service"] + 14, "^", INK)
                word = "acts late" if step.sent["acted"] else "knows the key"
                self._fixed(self._x(step.t) + 8, self._top["service"] + 14, word)
            return
        x, y = self._x(step.t), self._line(f"worker {step.actor}")
        colour = look_of(step.row["generation"] if step.row else 1)[0]
        if step.action in ("claim", "look", "take"):
            self._draw_claim(step, x, y, colour)
        elif step.action in ("crash", "crash_and_reopen"):
            self._mark(x, y, "X", INK, 11)
            if step.action == "crash_and_reopen":
                self._mark(x + 13, y, "v", INK)
            self._label(x, y, step.action.replace("_and_", ", "), weight="bold")
        elif step.action in NOTES:
            self._mark(x, y, NOTES[step.action], INK)
            self._label(x, y, step.action.replace("_", " "))
        elif step.action == "call_external":
            self._draw_call(step, x, y)
        elif step.action == "send_finish":
            self._mark(x, y, "o", FAINT, 5)
            self._label(x, y, f"send finish {step.sent['outcome']}")
        else:
            self._draw_commit(step, x, y, colour)

    def _draw_difference(self, t, worker):
        x, y = self._x(t), self._line(f"worker {worker}")
        self._plot([x], [y], marker="s", ms=17, mfc="none", mec=INK, mew=1.4, zorder=8)
        others = [self._x(step.t) - x for step in self.trace.steps if step.actor == worker]
        before, after = (any(13 < side * aside < 60 for aside in others) for side in (-1, 1))
        on_the_left = x > RIGHT - 60 or (after and not before and x > LEFT + 60)
        place, side = (x - 15, "right") if on_the_left else (x + 15, "left")
        self._fixed(place, y + 7, "differs", ha=side, weight="bold")

    def _draw_claim(self, step, x, y, colour):
        if step.refused:
            self._mark(x, y, ">", FAINT, 7.5, hollow=True)
            said = self._plain(f"refused: {step.reason.split(',')[0]}")
            self._label(x, y, said, asides=(-1, -0.5, 0, 0.5, 1))
            return
        if step.action == "look":
            self._mark(x, y, "D", FAINT, 5, hollow=True)
        else:
            self._arrow(x, y, self._lease_y(step.task_id, step.row["generation"]), colour, "-")
            self._mark(x, y, ">", colour)
        clock = f", clock at {step.sent['now']}" if "now" in step.sent else ""
        self._label(x, y, step.action + clock)

    def _draw_call(self, step, x, y):
        arrives = step.sent.get("lost") != "request"
        end = self._top["service"] + (5 if arrives else -6)
        self._arrow(x, y, end, INK, ":", head=arrives)
        self._mark(x, y, "^", INK)
        word = "call: key known" if step.sent["acted"] is False else "call"
        word = "call: timeout" if step.returned == "timeout" else word
        self._label(x, y, word)

    def _draw_commit(self, step, x, y, colour):
        word = step.action.replace("_", " ")
        if step.refused and step.action not in COMMITS:
            self._draw_refused(step, x, y, word)
            return
        if step.action == "finish":
            word += f" {step.sent['outcome']}"
        lane = self._top.get(f"task {step.task_id}", self._bottom - SERVICE)
        changed = step.rows_changed
        rows = f"{changed} row{'' if changed == 1 else 's'} changed"
        reason = step.reason if step.refused else ""
        if step.refused:
            self._arrow(x, y, lane - 4, REJECTED, "--", head=False)
            self._plot([x - 8, x + 8], [lane - 3, lane - 3], color=REJECTED, lw=3, zorder=7)
            self._mark(x, y, "o", REJECTED, 11, hollow=True)
            self._plot([x], [y], marker="x", color=REJECTED, ms=5, mew=1.6, zorder=7.5)
            said = self._plain(f"rejected at t={step.t}: {reason}, {rows}")
            self._label(x, y, _two_lines(said), colour=REJECTED, callout=True)
            return
        generation = step.sent.get("generation", step.row["generation"])
        self._arrow(x, y, self._lease_y(step.task_id, step.row["generation"]), colour, "-")
        if step.stale:
            self._mark(x, y, "o", REJECTED, 13, hollow=True)
        if step.action == "renew":
            self._plot([x, x], [y - 7, y + 7], color=colour, lw=2.4, zorder=7)
        else:
            self._mark(x, y, "o", colour, 8)
        if step.stale:
            said = f"accepted at t={step.t}: sent gen {generation}, "
            said += f"row has gen {step.row['generation']}, {rows}"
            self._label(x, y, _two_lines(said), colour=REJECTED, callout=True)
        else:
            self._label(x, y, word)

    def _draw_refused(self, step, x, y, word):
        """A renewal and the like that the file refused; or a claim that is not one too many."""
        if step.action == "exhaust" and step.refusals == ("attempt_limit",):
            self._mark(x, y, "D", FAINT, 5, hollow=True)
            self._label(x, y, "may go on")
            return
        self._mark(x, y, "o", REJECTED, 9, hollow=True)
        self._plot([x], [y], marker="x", color=REJECTED, ms=4, mew=1.4, zorder=7.5)
        self._label(x, y, f"{word} refused", colour=REJECTED)

    def _lease_y(self, task_id, generation):
        """The top of a generation's bar; None if it is not shown."""
        tops = [
            top for lease, (top, _) in self._rows(task_id).items() if lease.generation == generation
        ]
        return tops[-1] if tops else None

    def _rows(self, task_id):
        """Where the bars of a task lie: the top and the height of each lease that is shown."""
        leases = [lease for lease in self.trace.leases if lease.task_id == task_id]
        shown = leases[-max(1, min(ROWS, int(self._task - 8) // 10)) :]
        height = min(20, (self._task - 8) / max(len(shown), 1))
        top = self._top.get(f"task {task_id}", 0) + 4
        return {lease: (top + row * height, height - 2) for row, lease in enumerate(shown)}

    # Title, now, and the ticks of the axis

    def _draw_title(self):
        title = self._plain(self.trace.title)
        text = self._text(12, 5, title, va="top", size=10.5, weight="bold")
        lines = [""]
        for word in title.split():
            text.set_text(f"{lines[-1]} {word}".strip())
            if self._box(text).x1 > WIDTH - 12 and lines[-1]:
                lines.append(word)
            else:
                lines[-1] = text.get_text()
        if len(lines) > 2:
            lines = [lines[0], f"{lines[1][:-3]}..."]
        text.set_text("\n".join(lines))
        right = self._x(self.trace.now) < WIDTH / 2  # on the side where now is not
        x, side = (WIDTH - 12, "right") if right else (12, "left")
        self._say_what_is_struck_out(x, HEAD - 12, self.trace.struck_out, side)

    def _draw_now(self):
        x = self._x(self.trace.now)
        veil = {"color": "white", "alpha": 0.72, "lw": 0, "zorder": VEIL}
        self._axes.add_patch(Rectangle((x, HEAD), RIGHT - x, self._bottom - HEAD, **veil))
        self._plot([x, x], [HEAD - 4, self._bottom], color="black", lw=1.2, zorder=6.5)
        box = {"fc": "white", "ec": "black", "pad": 2, "lw": 1}
        self._text(
            x,
            HEAD - 12,
            f"now t={self.trace.now}",
            ha="center",
            va="center",
            size=8.5,
            weight="bold",
            bbox=box,
            zorder=9,
        )

    def _draw_ticks(self):
        times = {0, *(step.t for step in self.trace.steps)}
        times |= {lease.end for lease in self.trace.leases}
        self._draw_time_axis(self._bottom, {t: self._x(t) for t in sorted(times)}, rows=3)

    def _plain(self, text):
        """A text with each worker's number for a name that the font may lack."""
        for number, name in enumerate(self.trace.workers, start=1):
            text = text if name.isascii() else text.replace(name, f"no. {number}")
        return text.encode("ascii", "replace").decode()

    def _bar(self, start, end, top, height, **style):
        self._axes.add_patch(Rectangle((start, top), end - start, height, zorder=2, **style))

    def _arrow(self, x, y, end, colour, style, head=True):
        if end is None:
            return
        self._plot([x, x], [y, end], color=colour, lw=1.2 if head else 2, ls=style, zorder=5.5)
        if head:
            self._plot([x], [end - 3], color=colour, marker="v", ms=4, zorder=5.6)

    def _label(self, x, y, text, colour=INK, callout=False, asides=(0, 0.5, -0.5, 1, -1), **style):
        """A text above a mark, where it covers no other: near first, then further up or aside.

        ``asides`` are the places to try, in halves of the text's width to the right of the mark.
        Where there is no room at all the mark stands without its word, which the log still has.
        """
        bbox = {**GROUND, "pad": 2.5, "ec": colour, "lw": 1.2} if callout else GROUND
        label = self._text(
            x, y, text, ha="center", va="center", size=8.5, color=colour, bbox=bbox, **style
        )
        box = self._box(label)
        half = box.width / 2
        places = [(level, aside) for level in range(3) for aside in asides]
        places += [(level, aside) for level in range(3) for aside in (1.7, -1.7)]
        for level, aside in places:
            middle = y - self._clear - box.height / 2 - level * ROW
            place = min(max(x + aside * (half + 2), 4 + half), WIDTH - 4 - half)
            label.set_position((place, middle))
            spot = self._box(label)
            if spot.y0 < y - WORKER + 13 or any(spot.overlaps(other) for other in self._taken):
                continue
            self._taken.append(spot)
            if level or abs(aside) > 1:
                foot = min(max(x, spot.x0 + 3), spot.x1 - 3)
                self._plot([x, foot], [y - 5, spot.y1], color=colour, lw=0.7, zorder=6)
            return
        label.remove()
        self._unsaid = self._unsaid or callout


class Boundary(Picture):
    """The comparison ``t < lease_until``, spelled out for the instants around a lease's end.

    Args:
        trace: a ``Trace``; the lease is the last one that was claimed before ``now``.
    """

    height = 148

    def __init__(self, trace):
        leases = trace.leases
        # At the instant of a takeover the lease that has just ended is the one to look at.
        before = [lease for lease in leases if lease.start < trace.now] or list(leases)
        if not before:
            raise InputError("there is no lease yet whose end could be looked at; claim first.")
        self._lease = before[-1]
        if self._lease.closed is not None:
            raise InputError(
                f"the last lease was given back at t={self._lease.closed}, before it came to its end."
            )
        self._next = next((lease for lease in leases if lease.start >= self._lease.end), None)
        self._now = trace.now
        end = self._lease.end
        first = max(end - 3, self._lease.start)
        self.answers = {t: t < end for t in range(first, first + 7)}
        said = (f"{self._comparison(t)}: {self._word(t)}" for t in self.answers)
        self.sentence = f"Around the end of the lease, now t={self._now}: {'; '.join(said)}."

    def _comparison(self, t):
        return f"{t} < {self._lease.end}" + ("" if self.answers[t] else " is false")

    def _word(self, t):
        return "live" if self.answers[t] else "ended"

    def figure(self):
        """The strip as a matplotlib Figure."""
        self._new_figure()
        end, y = self._lease.end, 88
        title = f"lease_until = {end} is the first instant that is not held"
        self._text(12, 5, title, va="top", size=10.5, weight="bold")
        places = {t: 60 + 100 * index for index, t in enumerate(self.answers)}
        last = max(self.answers) + 0.5
        self._draw_held(10, places[end], y, self._lease)
        if self._next:
            from_t = min(self._next.start, last)
            self._draw_held(places[end] + 100 * (from_t - end), 710, y, self._next)
        colour = look_of(self._lease.generation)[0]
        self._mark(places[end], y, "o", colour, 11, hollow=True)
        for t, x in places.items():
            weight = "bold" if t in (end - 1, end) else "normal"
            self._text(x, y - 40, self._word(t), ha="center", va="center", size=9, weight=weight)
            self._text(x, y - 24, self._comparison(t), ha="center", va="center", size=8.5)
            self._plot([x, x], [y - 14, y + 16], color=INK, lw=0.8, zorder=1)
            frame = {"fc": "white", "ec": "black", "pad": 2, "lw": 1} if t == self._now else GROUND
            label = f"now t={t}" if t == self._now else f"t={t}"
            self._fixed(x, y + 24, label, ha="center", bbox=frame)
        held = f"gen {self._lease.generation} holds every t in [{self._lease.start}, {end})"
        self._text(12, self.height - 12, held, va="center", size=8.5, color=colour)
        free = f"from t={end} on a claim is accepted"
        if self._next:
            free = f"gen {self._next.generation} holds every t in [{self._next.start}, {self._next.end})"
        self._text(WIDTH - 12, self.height - 12, free, ha="right", va="center", size=8.5)
        return self._figure

    def _draw_held(self, start, end, y, lease):
        colour, hatch = look_of(lease.generation)
        box = {"fc": "none", "ec": colour, "hatch": hatch, "lw": 1.2, "zorder": 3}
        self._axes.add_patch(Rectangle((start, y - 8), end - start, 16, **box))
        box = {"color": colour, "alpha": 0.2, "lw": 0, "zorder": 2}
        self._axes.add_patch(Rectangle((start, y - 8), end - start, 16, **box))


# What is no statement: its mark; and whether a worker lives after it.
NOTES = {
    **dict.fromkeys(("start", "reopen", "resume"), "v"),
    **dict.fromkeys(("suspend", "close"), "s"),
    **dict.fromkeys(("lease_lost", "drop", "fail", "clock_back"), "D"),
}
LIVES_AFTER = {
    **dict.fromkeys(("start", "reopen", "resume", "crash_and_reopen"), True),
    **dict.fromkeys(("crash", "suspend", "close"), False),
}
LIFE = {
    True: {"color": INK, "lw": 1.8, "zorder": 3},
    False: {"color": FAINT, "lw": 1.2, "ls": ":", "zorder": 3},
}
GROUND = {"fc": "white", "ec": "none", "pad": 0.8, "lw": 0}


def _rejected(step):
    return step.refused and step.action in COMMITS


def look_of(generation):
    """The colour and the hatch of a generation; past four, grey, and the text must do."""
    if not 0 < generation <= len(COLOURS):
        return PAST_FOUR, ""
    return COLOURS[generation - 1], HATCHES[generation - 1]


def _lane_name(name):
    """A lane's name; a long one in two lines, with its beginning and its end."""
    if len(name) <= 10:
        return {"text": name, "size": 9}
    kind, _, name = name.partition(" ")
    return {"text": f"{kind}\n{_shortened(name)}", "size": 8}


def _shortened(name):
    return name if len(name) <= 10 else f"{name[:4]}~{name[-5:]}"


def _two_lines(text):
    """A callout in two lines of about the same length, broken at a comma if it can be."""
    middle = len(text) / 2
    cuts = [i + 2 for i in range(len(text)) if text.startswith(", ", i)]
    cut = min(cuts, key=lambda cut: abs(cut - middle), default=len(text))
    return f"{text[:cut].rstrip()}\n{text[cut:]}".rstrip()


def _png(figure, crop=0):
    """The figure as the bytes of a PNG: cropped and made fast, or whole and made small."""
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    image = Image.frombuffer("RGBA", (width, height), figure.canvas.buffer_rgba())
    image = image.crop((0, crop * DPI // 100, width, height))
    if not crop:
        image = image.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    file = BytesIO()
    image.save(file, "PNG", compress_level=1 if crop else 9)
    return file.getvalue()

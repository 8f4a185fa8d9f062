"""What the reader sees: the sentences, the table, and the picture at the sizes that are used."""

import itertools
import tempfile
from contextlib import ExitStack
from functools import lru_cache
from io import BytesIO

import pytest
from PIL import Image

from leaselab import Lab, Protocol, Scenario, scenarios
from leaselab.chart import (
    COLOURS,
    CROP,
    DPI,
    FAINT,
    HATCHES,
    HEAD,
    INK,
    LEFT,
    PAST_FOUR,
    REJECTED,
    RIGHT,
    WIDTH,
    Chart,
    look_of,
)
from leaselab.errors import InputError
from leaselab.workers import LoggedStore, trace_of

KEYS = list(scenarios)


def prefixes():
    """Each scenario after each of its steps, and one with the guard struck out."""
    cases = [(key, None) for key in KEYS] + [("stale_commit", "finish.generation")]
    for key, guard in cases:
        protocol = Protocol().without(guard) if guard else None
        lab = Lab(scenarios[key], protocol=protocol)
        horizon = lab.horizon
        for step in (*scenarios[key].steps, None):
            name = f"{key}, {guard or 'all guards'}, {lab.t}, {len(lab.events)} events"
            yield pytest.param(Chart(lab.trace, horizon), id=name)
            if step:
                lab.next()


def own_steps():
    """Schedules that no scenario has: renewals, late arrivals, many generations, three workers."""
    renewed = Lab()
    renewed.enqueue()
    renewed.play_to(1).claim("A")
    for t in (11, 21, 31):
        renewed.play_to(t).renew("A")
    yield "renewals", renewed
    late = Lab()
    late.enqueue()
    late.play_to(1).claim("A")
    late.play_to(2).call_external("A", acts_at=50)
    late.play_to(3).finish("A", arrives_at=33)
    late.play_to(4).crash("A")
    late.play_to(31).claim("B")
    late.play_to(60)
    yield "late arrivals", late
    many = Lab(Scenario(workers=("A", "B", "C")))
    many.enqueue()
    for number in range(7):
        many.play_to(30 * number).claim("ABC"[number % 3])
        many.play_to(30 * number + 4).finish("ABC"[(number + 1) % 3], generation=number or 9)
    yield "seven generations", many
    tasks = Lab(Scenario(workers=("a worker with a long name", "工人甲")))
    for run in ("run-1", "run-1", "run-2"):
        tasks.enqueue(run)
    tasks.play_to(2).claim("a worker with a long name")
    tasks.play_to(3).claim("工人甲")
    tasks.play_to(4).claim("工人甲")
    yield "three tasks", tasks


def curves():
    """The end of the lease over time: each scenario, and a heartbeat without each of its rules."""
    labs = {key: Lab(scenarios[key]).play() for key in KEYS}
    for guard in ("from_now", "never_shorter", "expiry", None):
        lab = Lab(Scenario(lease=60), protocol=Protocol().without(*[guard] if guard else []))
        lab.enqueue()
        lab.play_to(1).claim("A")
        for t in (20, 40):
            lab.play_to(t).renew("A")
        lab.play_to(45).renew("A", now=20)
        lab.play_to(320).renew("A")
        lab.play_to(321).claim("B")
        labs[f"without {guard}"] = lab
    for name, lab in labs.items():
        yield pytest.param(lab.lease_curve(), id=f"the curve of {name}")


class Times:
    """A clock for a run of real workers: the times at which their lines are written."""

    def __init__(self, *times):
        self.times = list(times)

    def now(self):
        return 10**12 + self.times.pop(0)


def real_run():
    """A log as two processes leave it: A is suspended past its lease, B finishes, A comes back."""
    with tempfile.TemporaryDirectory() as folder:
        path, lease = f"{folder}/log.sqlite", 900
        clock = Times(
            0, 10, 101, 103, 117, 241, 1047, 1050, 1261, 1263, 1281, 1283, 1290, 2106, 2200
        )
        names = ("client", "A", "B")
        with ExitStack() as stores:
            client, a, b = (
                stores.enter_context(LoggedStore(path, name, clock=clock)) for name in names
            )
            a.note("start")
            client.enqueue("run-1")
            first = a.claim(lease)
            a.renew(first, lease)
            a.note("suspend", 1)
            b.note("start")
            second = b.claim(lease)
            b.renew(second, lease)
            b.commit_run(second, "B", revision=0)
            b.ack(second)
            a.note("resume", 1)
            a.renew(first, lease)
            a.note("drop", 1, generation=1, why="the file refused a renewal")
            a.commit_run(first, "A", revision=0)
            a.note("close")
            return trace_of(client.lines())


OWN = [pytest.param(lab.chart(), id=name) for name, lab in own_steps()]
OWN.append(pytest.param(Chart(real_run()), id="real workers"))
CHARTS = [*prefixes(), *OWN]
CURVES = list(curves())


@lru_cache(maxsize=None)
def texts(chart):
    """The texts of a picture, each with its box."""
    figure = chart.figure()
    figure.canvas.draw()
    return {text: chart._box(text) for text in figure.axes[0].texts if text.get_text()}


@pytest.mark.parametrize("chart", [*CHARTS, *CURVES])
def test_no_text_covers_another(chart):
    for (one, box), (other, other_box) in itertools.combinations(texts(chart).items(), 2):
        if "now t=" in one.get_text() + other.get_text() and "struck out" not in other.get_text():
            continue  # the cursor is above everything, and goes where the clock goes
        inner = box.padded(-1)  # a box has a pixel or two of its own around the letters
        assert not inner.overlaps(other_box.padded(-1)), (one, other)


@pytest.mark.parametrize("chart", [*CHARTS, *CURVES])
def test_no_text_is_cut_off(chart):
    for text, box in texts(chart).items():
        assert box.x0 >= 0 and box.x1 <= WIDTH, text
        assert box.y0 >= 0 and box.y1 <= chart.height, text


@pytest.mark.parametrize("chart", CHARTS)
def test_every_event_of_a_worker_has_its_word_in_the_picture(chart):
    words = " / ".join(text.get_text().replace("\n", " ") for text in texts(chart))
    for step in chart.trace.steps:
        if step.actor in chart.trace.workers and step.action == "claim" and step.refused:
            assert chart._plain(step.reason.split(",")[0]) in words
        elif step.action == "finish" and step.refused:
            assert f"rejected at t={step.t}: " in words


def test_the_rejected_commit_says_what_was_sent_what_the_row_has_and_what_changed():
    chart = Lab(scenarios["stale_commit"]).play_to(32).chart()
    words = [text.get_text().replace("\n", " ") for text in texts(chart)]
    assert "rejected at t=32: sent gen 1, row has gen 2, 0 rows changed" in words
    assert "gen 1 [1, 31)" in words and "gen 2 [31, 61)" in words
    assert "now t=32" in words and "refused: 30 < 31" in words
    assert "t=32: generation 2 rejects A's stale commit: sent gen 1, row has gen 2" in words


def test_ticks_stand_at_the_times_of_the_events_and_where_leases_end():
    chart = Lab(scenarios["stale_commit"]).play().chart()
    words = {text.get_text() for text in texts(chart)}
    assert {"0", "1", "4", "30", "31", "32", "35", "40", "61"} <= words


@pytest.mark.parametrize("chart", [CHARTS[0], CHARTS[30], *OWN])
def test_the_picture_has_the_size_it_says(chart):
    image = Image.open(BytesIO(chart.png()))
    assert image.size == (WIDTH * DPI // 100, chart.height * DPI // 100)
    for layer in chart.layers():
        height = chart.height * DPI // 100 - CROP * DPI // 100
        assert Image.open(BytesIO(layer)).size == (WIDTH * DPI // 100, height)


def test_the_veil_lies_on_the_time_ahead_and_nowhere_else():
    """Below the veil: lives and bars. Above it: what has happened, and where the leases end."""
    chart = Lab(scenarios["stale_commit"]).play_to(32).chart()
    below, above = (Image.open(BytesIO(layer)).convert("RGBA") for layer in chart.layers())
    assert below.getextrema()[3] == (255, 255)
    assert above.getextrema()[3][0] == 0
    x = round(chart._x(61) * DPI / 100)
    y = round((chart._top["task 1"] + 4 + 20 + 9 - CROP) * DPI / 100)
    assert above.getpixel((x, y - 9))[3] > 0  # the end of B's lease shows through


@pytest.mark.parametrize("key", KEYS)
def test_the_same_trace_gives_the_same_picture(key):
    assert Lab(scenarios[key]).play().chart().png() == Lab(scenarios[key]).play().chart().png()


def test_the_alt_text_is_the_sentence_and_tells_every_lane():
    chart = Lab(scenarios["stale_commit"]).play_to(32).chart()
    data, _ = chart._repr_mimebundle_()
    assert data["text/plain"] == chart.sentence
    assert "worker A: claim t=1, crash and reopen t=4, rejected finish t=32" in chart.sentence
    assert "the task: gen 1 [1, 31), gen 2 [31, 61), running" in chart.sentence
    assert 'alt="t=32: generation 2 rejects A&#x27;s stale commit' in data["text/html"]


# What can be read only in colour can be read by nobody


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [INK, FAINT, REJECTED, PAST_FOUR, *COLOURS])
def test_every_colour_that_is_read_has_a_contrast_of_four_and_a_half_to_one(colour):
    assert 1.05 / (luminance(colour) + 0.05) >= 4.5


def test_generations_differ_by_hatch_as_well_and_colours_never_repeat():
    looks = [look_of(generation) for generation in range(1, 5)]
    assert len({colour for colour, _ in looks}) == len({hatch for _, hatch in looks}) == 4
    assert look_of(5) == look_of(6) == (PAST_FOUR, "")
    assert HATCHES[0] == ""


def test_kinds_of_events_differ_by_shape_and_not_only_by_colour():
    lab = Lab(scenarios["duplicate_side_effect"]).play()
    lab.finish("A", generation=1)
    chart = lab.chart()
    figure = chart.figure()
    y = chart._line("worker B"), chart._line("worker A")
    marks = {
        line.get_marker(): line.get_markerfacecolor()
        for line in figure.axes[0].lines
        if line.get_ydata()[0] in y and line.get_marker() not in ("None", "", None)
    }
    assert {">", "X", "v", "^", "o", "x"} <= set(marks)


def test_where_much_happens_at_once_what_differs_is_said_first_and_beside_the_others():
    lab = Lab(protocol=Protocol.without("renew.generation", "finish.generation"))
    lab.enqueue()
    lab.claim("A")
    lab.play_to(30).claim("A")
    for t in (31, 32, 33):
        lab.play_to(t).renew("A", generation=1)
    lab.play_to(34).finish("A", generation=1)
    texts = {
        text.get_text(): text for text in Chart(lab.trace, differs=(31, "A")).figure().axes[0].texts
    }
    assert any("accepted at t=31" in text for text in texts)
    assert texts["differs"].get_ha() == "right"  # on the right there is more to see
    alone = Chart(lab.trace, differs=(0, "A")).figure().axes[0].texts
    assert next(text for text in alone if text.get_text() == "differs").get_ha() == "left"


# The sentences and the table


def test_the_title_says_what_the_clock_changed_when_nothing_happened():
    lab = Lab(scenarios["crash_and_takeover"]).play_to(20)
    assert lab.trace.title == "t=20: 20 < 31, A's lease is live"
    own = Lab()
    assert own.trace.title == "t=0: nothing has happened yet"
    own.enqueue()
    own.play_to(1).claim("A")
    own.play_to(31)
    assert own.trace.title == (
        "t=31: 31 < 31 is false, A's lease has ended; the row has not changed"
    )
    own.claim("A")
    own.finish("A")
    assert own.play_to(50).trace.title == "t=50: nothing happens; the task is done"


def test_a_finish_after_the_leases_end_is_refused_for_that_reason():
    lab = Lab()
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(31).finish("A")
    assert lab.trace.title == "t=31: A's commit is refused: 31 < 31 is false, the lease has ended"


def test_every_action_has_its_sentence():
    lab = Lab()
    lab.enqueue(available_at=2)
    lab.claim("A")
    lab.play_to(2).claim("A")
    lab.renew("A")
    lab.renew("B", generation=1)
    lab.commit_run("A", "x", revision=0)
    lab.commit_run("A", "x", revision=0)
    lab.exhaust("A")
    lab.call_external("A")
    lab.call_external("A", lost="request")
    lab.call_external("A", lost="reply")
    lab.call_external("A", acts_at=5)
    lab.finish("A", arrives_at=6)
    lab.play_to(6).release("A", generation=1)
    lab.ack("A", generation=1)
    lab.enqueue()
    lab.claim("B")
    lab.release("B", available_at=9)
    lab.claim("A")
    lab.crash("A")
    lab.play_to(9).reopen("A")
    lab.claim("A")
    lab.ack("A")
    for line in lab.trace.lines:
        assert line[-1] == "." and "None" not in line and "{" not in line, line
    assert len(lab.trace.lines) == len(lab.events)


def test_the_table_marks_what_changed_by_a_mark_and_the_old_value():
    lab = Lab(scenarios["crash_and_takeover"]).play_to(31)
    assert "2 (was 1) *" in repr(lab.table())
    assert "<b>\u25b8 2 (was 1)</b>" in lab.table()._repr_html_()
    assert "was" not in repr(lab.play_to(32).table())


@pytest.mark.parametrize("t, answer", [(30, "false"), (31, "true")])
def test_the_table_answers_the_comparison_and_the_row_stays(t, answer):
    lab = Lab()
    lab.enqueue()
    lab.play_to(1).claim("A")
    text = repr(lab.play_to(t).table())
    assert f"lease_until <= {t}" in text
    assert text.splitlines()[1].split() == ["1", "run-1", "running", "1", "A", "31", "0", answer]


def test_an_empty_task_table_says_so():
    assert repr(Lab().table()) == "the task table is empty"
    assert "the task table is empty" in Lab().table()._repr_html_()


@pytest.mark.parametrize("now", [2, 28, 30, 31, 32, 34])
def test_the_boundary_spells_the_comparison_out_around_the_leases_end(now):
    lab = Lab(scenarios["crash_and_takeover"]).play_to(now)
    boundary = lab.boundary()
    end = 61 if now > 31 else 31
    assert boundary.answers == {t: t < end for t in range(end - 3, end + 4)}
    assert f"{end - 1} < {end}: live; {end} < {end} is false: ended" in boundary.sentence
    for text, box in texts(boundary).items():
        assert box.x0 >= 0 and box.x1 <= WIDTH and box.y1 <= boundary.height, text
    for one, other in itertools.combinations(texts(boundary).values(), 2):
        assert not one.padded(-1).overlaps(other.padded(-1))


def test_a_lease_that_was_given_back_has_no_boundary():
    with pytest.raises(InputError, match="the last lease was given back at t=8, before it came"):
        Lab(scenarios["claim_and_finish"]).play().boundary()


def test_there_is_no_boundary_before_there_is_a_lease():
    with pytest.raises(InputError, match="there is no lease yet whose end could be looked at"):
        Lab().boundary()


def heartbeat(*guards, beats=()):
    """A lease of 60, and beats as (arrives at, its clock says)."""
    lab = Lab(Scenario(lease=60), protocol=Protocol().without(*guards))
    lab.enqueue()
    lab.play_to(1).claim("A")
    for t, now in beats:
        lab.play_to(t).renew("A", now=now)
    return lab


def test_the_curve_tells_each_end_and_since_when_it_stands_in_the_file():
    curve = heartbeat(beats=[(20, 20), (45, 40)]).lease_curve()
    assert curve.sentence == (
        "lease_until up to t=45: gen 1 of A: from t=1 it says 61, from t=20 it says 80, "
        "from t=45 it says 100. t=45: the lease of gen 1 is live for another 55."
    )
    shortened = heartbeat("renew.never_shorter", beats=[(40, 40), (45, 20)]).lease_curve()
    assert "from t=40 it says 100, from t=45 it says 80." in shortened.sentence
    assert "there is no lease yet" in Lab().lease_curve().sentence


def test_the_curve_draws_each_end_at_its_height_and_a_refused_renewal_as_a_mark():
    lab = heartbeat(beats=[(20, 20), (90, 90)])
    curve = lab.lease_curve()
    figure = curve.figure()
    steps = [line for line in figure.axes[0].lines if line.get_linewidth() == 2.4]
    places = [curve._place(*corner) for corner in ((1, 61), (20, 61), (20, 80), (90, 80))]
    assert [tuple(map(float, place)) for place in zip(*steps[0].get_data())] == places
    assert "refused" in [text.get_text() for text in figure.axes[0].texts]
    assert curve.sentence.endswith("t=90: the lease of gen 1 has ended at t=80.")


def test_the_axis_keeps_its_place_whatever_happens():
    """The panel lays its slider over the axis; both must start and end at the same pixels."""
    chart = Lab(scenarios["stale_commit"]).play().chart()
    assert (chart._x(0), chart._x(chart.horizon)) == (LEFT, RIGHT)
    assert HEAD > CROP

"""The panel without a browser: its controls do what the plain calls do, and nothing else."""

import os
import re
import subprocess
import sys
from html import unescape

import pytest

from leaselab import Lab, Protocol, Scenario, scenarios
from leaselab.errors import InputError
from leaselab.panel import ACTIONS, EARLIER, LEASE_BUTTONS

KEYS = list(scenarios)


def panel_of(key, ask=False, **options):
    panel = Lab(scenarios[key], **options).panel()
    panel.asking.value = ask
    return panel


def words(html):
    """What a reader reads of a piece of HTML."""
    return unescape(re.sub("<[^>]*>", " ", html))


def disabled(panel, *names):
    return panel._buttons[names].disabled


@pytest.mark.parametrize("key", KEYS)
def test_moving_the_clock_plays_the_scenario_on_the_file(key):
    panel, plain = panel_of(key), Lab(scenarios[key])
    for t in range(1, plain.horizon + 1):
        panel.clock.value = t
        plain.play_to(t)
        assert panel.lab.trace.events == plain.trace.events
        assert words(panel._title.value) == plain.trace.title
        assert panel.lab.trace.sentence in unescape(panel._alt.value)


@pytest.mark.parametrize("key", KEYS)
def test_next_plays_one_step_after_the_other(key):
    panel = panel_of(key)
    for _ in scenarios[key].steps:
        panel.press("next")
    assert panel.lab.trace.events == Lab(scenarios[key]).play().trace.events
    assert disabled(panel, "next") and disabled(panel, "end")


def test_the_workers_buttons_play_the_scenario_too():
    """The schedule of lesson 03 by hand, in a lab without a script."""
    lab = Lab()
    panel = lab.panel()
    panel.press("enqueue a task")
    for t, name, action in [
        (1, "A", "claim"),
        (4, "A", "crash"),
        (4, "A", "reopen"),
        (31, "B", "claim"),
        (32, "A", EARLIER),
        (35, "B", "finish done"),
    ]:
        panel.clock.max = 100
        panel.clock.value = t
        panel.press(name, action)
    script = [step for step in Lab(scenarios["stale_commit"]).play().trace.events]
    script = [event for event in script if not (event.action == "claim" and event.refused)]
    assert panel.lab.trace.events == tuple(script)


def test_what_cannot_be_done_is_disabled_with_its_reason_in_the_numbers_of_the_moment():
    panel = panel_of("crash_and_takeover")
    panel.clock.value = 30
    assert disabled(panel, "B", "claim")
    assert "claim : 30 < 31, A's lease is live" in words(panel._reasons["B"].value)
    assert "renew, finish done, finish uncertain : B holds no claim" in words(
        panel._reasons["B"].value
    )
    panel.clock.value = 31
    assert disabled(panel, "B", "claim") and not disabled(panel, "B", "finish done")
    panel.press("B", "crash")
    assert "B has crashed; reopen it first" in words(panel._reasons["B"].value)
    assert not disabled(panel, "B", "reopen")


def test_a_disabled_button_does_nothing():
    panel = panel_of("crash_and_takeover")
    panel.clock.value = 29
    before = panel.lab.trace.events
    panel.press("B", "claim")
    panel.press("A", "reopen")
    assert panel.lab.trace.events == before


def test_an_earlier_generation_can_be_submitted_where_there_is_one():
    panel = panel_of("stale_commit")
    panel.clock.value = 31
    assert disabled(panel, "B", EARLIER)
    assert [label for label, _ in panel._earlier["A"].options] == ["1"]
    panel.press("A", EARLIER)
    last = panel.lab.events[-1]
    assert (last.actor, last.action, last.returned) == ("A", "finish", False)


def test_looking_back_changes_nothing_in_the_file():
    panel = panel_of("stale_commit")
    panel.press("end")
    rows = panel.lab._reader.tasks()
    panel.clock.value = 20
    assert panel.lab.t == 40 and panel.lab._reader.tasks() == rows
    assert words(panel._title.value).startswith("looking back at t=20; the file is at t=40.")
    assert "lease_until &lt;= 20" in panel._table.value
    assert all(disabled(panel, "A", action) for action in (*ACTIONS, EARLIER))


def test_acting_from_an_earlier_instant_takes_the_file_back_and_keeps_the_other_branch():
    panel = panel_of("stale_commit")
    panel.press("end")
    complete = panel.lab.trace.events
    panel.clock.value = 20
    assert not disabled(panel, "act from here")
    panel.press("act from here")
    assert panel.lab.t == 20 and disabled(panel, "other branch")
    panel.press("A", "call the service")
    assert not disabled(panel, "other branch")
    panel.press("other branch")
    assert panel.lab.trace.events == complete


def test_start_and_back_undo():
    panel = panel_of("stale_commit")
    panel.press("end")
    panel.press("back")
    assert panel.clock.value == panel.lab.t == 35
    panel.press("start")
    assert panel.clock.value == panel.lab.t == 0


@pytest.mark.parametrize("button, t", [("just before the lease ends", 30), ("when it ends", 31)])
def test_the_instants_at_the_leases_end_are_a_button_away(button, t):
    panel = panel_of("crash_and_takeover")
    assert disabled(panel, button)
    panel.clock.value = 5
    assert f"(t={31 + LEASE_BUTTONS[button]})" in panel._buttons[button,].description
    panel.press(button)
    assert panel.lab.t == panel.clock.value == t


def test_just_after_the_last_lease_is_still_on_the_axis():
    lab = Lab()
    panel = lab.panel()
    panel.press("enqueue a task")
    panel.press("A", "claim")
    panel.press("just after")
    assert lab.t == 31


def test_the_axis_grows_when_a_lease_reaches_further():
    panel = panel_of("crash_and_takeover")
    panel.clock.value = panel.clock.max
    before = panel.clock.max
    panel.press("enqueue a task")
    panel.press("B", "claim")
    assert panel.clock.max >= panel.lab.trace.horizon > before


@pytest.mark.parametrize(
    "truth, returned, ledger",
    [
        ("it answers", 1, 1),
        ("the request is lost", "timeout", 0),
        ("it acts, the reply is lost", "timeout", 1),
        ("it acts 20 later, too late to answer", "timeout", 0),
    ],
)
def test_the_truth_about_a_call_can_be_switched(truth, returned, ledger):
    panel = panel_of("claim_and_finish")
    panel.clock.value = 5
    panel.truth.value = truth
    panel.press("A", "call the service")
    assert panel.lab.events[-1].returned == returned
    assert panel.lab.trace.external_calls == ledger
    assert f"ledger: {ledger}" in words(panel._table.value)


def test_the_truth_about_a_scripted_call_can_be_switched_too():
    panel = panel_of("unknown_outcome")
    panel.press("end")
    panel.truth.value = "the request is lost"
    panel.press("start")
    panel.press("end")
    assert panel.lab.trace.external_calls == 0
    assert panel.lab.trace.tasks[0]["state"] == "uncertain"
    panel.truth.value = "as the script says"
    panel.press("start")
    panel.press("end")
    assert panel.lab.trace.events == Lab(scenarios["unknown_outcome"]).play().trace.events


# Questions


def test_a_step_that_matters_is_locked_until_an_answer_is_locked_in():
    panel = panel_of("stale_commit", ask=True)
    panel.clock.value = 40
    assert panel.lab.t == panel.clock.value == 29
    assert "The clock waits at t=29 for your answer." in words(panel._title.value)
    assert disabled(panel, "next") and disabled(panel, "end") and disabled(panel, "lock in")
    panel.answer.value = "accepted"
    panel.press("lock in")
    assert not disabled(panel, "next")
    panel.press("next")
    verdict = words(panel._question.value)
    assert panel.lab.t == 30
    assert panel.lab.score == "0 of 1 predictions right"
    assert "0 of 1 predictions right." in verdict


def test_the_verdict_that_is_shown_is_that_of_the_last_step():
    panel = panel_of("stale_commit")
    panel.clock.value = 31
    panel.asking.value = True  # the question about t=32 is put first
    panel.press("start")
    panel.clock.value = 29
    for answer in ("refused", "accepted", "refused"):
        panel.answer.value = answer
        panel.press("lock in")
        panel.press("next")
    shown = words(panel._question.value)
    assert "generation 2 rejects A's stale commit" in shown and "3 of 3 predictions" in shown


def test_start_asks_anew():
    panel = panel_of("stale_commit", ask=True)
    panel.clock.value = 29
    panel.answer.value = "refused"
    panel.press("lock in")
    panel.press("next")
    panel.press("start")
    assert panel.lab.score == "0 of 0 predictions right"
    panel.clock.value = 40
    assert panel.lab.t == 29


def test_the_verdict_is_what_the_file_answered():
    protocol = Protocol().without("finish.generation")
    panel = panel_of("stale_commit", protocol=protocol)
    panel.clock.value = 31
    panel.asking.value = True
    panel.answer.value = "refused"
    panel.press("lock in")
    panel.press("next")
    assert "You said refused: wrong. The files say accepted: " in words(panel._question.value)


def test_without_the_tick_nothing_is_locked():
    panel = panel_of("stale_commit")
    panel.clock.value = 40
    assert panel.lab.t == 40


def test_a_question_does_not_stop_plain_calls():
    panel = panel_of("stale_commit", ask=True)
    assert panel.lab.play().t == 40


# What it shows


def test_the_table_shows_the_row_the_answer_the_ledger_and_the_path():
    panel = panel_of("duplicate_side_effect")
    panel.clock.value = 31
    shown = words(panel._table.value)
    assert "\u25b8 2 (was 1)" in shown and "lease_until <= 31" in shown
    assert "ledger: 1" in shown and "t=3 for A" in shown
    assert str(panel.lab.path) in shown


def test_the_log_shows_the_sql_that_ran_and_the_rows_it_changed():
    panel = panel_of("stale_commit")
    panel.clock.value = 32
    newest = panel._log.value.split("</details>")[0]
    assert "generation 2 rejects A" in words(newest) and "0 rows changed" in words(newest)
    assert "AND generation = :generation" in words(newest)
    assert "'generation': 1" in words(newest)


def test_names_are_escaped_wherever_they_are_shown():
    lab = Lab(Scenario(workers=("<script>alert(1)</script>", "B")))
    lab.enqueue()
    panel = lab.panel()
    panel.press("<script>alert(1)</script>", "claim")
    for html in (panel._title, panel._table, panel._log, panel._sentence, panel._alt):
        assert "<script" not in html.value
    assert "<script" not in panel._reasons["B"].value


def test_nothing_that_is_shown_changes_its_size():
    panel = panel_of("stale_commit")
    heights = {}
    for t in (0, 5, 20, 31, 32, 40):
        panel.clock.value = t
        for name in ("_title", "_question", "_table", "_sentence", "_log"):
            height = getattr(panel, name).layout.height
            assert heights.setdefault(name, height) == height
        assert heights.setdefault("style", panel._style.value) == panel._style.value


def test_a_panels_measures_are_its_own_also_beside_one_of_another_height():
    small, large = Lab().panel(), Lab(Scenario(workers=("A", "B", "C"))).panel()
    for panel, other in ((small, large), (large, small)):
        assert panel._class in panel._dom_classes and panel._class in panel._style.value
        assert other._class not in panel._style.value
        assert f".{panel._class} .leaselab-card img {{" in panel._style.value


def test_moving_the_clock_between_events_sends_no_picture():
    panel = panel_of("stale_commit")
    panel.clock.value = 10
    sent = []
    for layer in (panel._below, panel._above):
        layer.observe(sent.append, "value")
    for t in range(11, 30):
        panel.clock.value = t
    assert sent == []
    panel.clock.value = 30
    assert sent != []


def test_whoever_shows_no_widgets_gets_a_sentence_and_the_picture():
    panel = panel_of("stale_commit")
    panel.clock.value = 32
    data, metadata = panel._repr_mimebundle_()
    assert data["text/plain"] == panel.lab.trace.sentence
    assert data["image/png"].startswith(b"\x89PNG")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_complaint_is_shown_in_the_panel_in_the_words_of_the_plain_call():
    panel = panel_of("claim_and_finish")
    panel.lab.path.unlink()
    panel.press("next")
    assert "is gone; restart() begins again on a fresh file." in words(panel._title.value)


def test_a_plain_call_is_shown_at_once():
    panel = panel_of("stale_commit")
    panel.lab.play_to(31)
    assert panel.clock.value == 31 and words(panel._title.value) == panel.lab.trace.title
    panel.lab.restart()
    assert panel.clock.value == 0 and words(panel._title.value) == panel.lab.trace.title


def test_looking_back_does_not_show_the_ledger_of_later():
    panel = panel_of("duplicate_side_effect")
    panel.press("end")
    panel.clock.value = 2
    assert "ledger: 0 " in words(panel._table.value) and "t=3" not in words(panel._table.value)


def test_the_axis_reaches_what_is_still_under_way_and_the_end_button_goes_there():
    panel = panel_of("claim_and_finish")
    panel.press("end")
    panel.truth.value = "it acts 20 later, too late to answer"
    panel.press("B", "call the service")
    assert panel.clock.max > 30 and not disabled(panel, "end")
    panel.press("end")
    assert panel.lab.t == 30 and panel.lab.trace.external_calls == 1


def test_more_tasks_do_not_make_the_panel_grow():
    panel = panel_of("claim_and_finish")
    before = panel._style.value
    for _ in range(6):
        panel.press("enqueue a task")
    assert panel._style.value == before


def test_a_step_that_will_not_happen_is_not_asked_about():
    panel = panel_of("crash_and_takeover")
    panel.clock.value = 29
    panel.press("B", "crash")
    panel.asking.value = True
    panel.clock.value = 40
    assert panel.lab.t == 40


def test_an_unknown_button_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="there is no button 'B jump'; there are start, back"):
        panel_of("claim_and_finish").press("B", "jump")


def test_a_callback_may_come_from_another_thread():
    """JupyterLab runs callbacks in a thread of their own while a cell runs in the main one."""
    import threading

    panel = panel_of("stale_commit")
    errors = []

    def move():
        try:
            for t in range(0, 41):
                panel.clock.value = t
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=move)
    thread.start()
    for _ in range(20):
        panel.lab.why_not("B", "claim")
        panel.lab.table()
    thread.join()
    assert errors == [] and panel.lab.t == 40


def test_the_dropdown_of_generations_is_never_blank():
    """It was, in one process of five: ipywidgets told its traits in the order of a hash."""
    code = (
        "from leaselab import Lab; panel = Lab().panel();"
        "print([dropdown.label for dropdown in panel._earlier.values()])"
    )
    for seed in ("1", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code]
        assert subprocess.check_output(command, env=environment, text=True) == "['none', 'none']\n"

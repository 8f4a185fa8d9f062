"""The panel of guards without a browser: a tick is a search, and nothing is said but what it found."""

import asyncio
import gc
import os
import re
import sys
from html import unescape

import pytest

from leaselab import Protocol
from leaselab.errors import InputError, UnknownName
from leaselab.explore import PROPERTIES, Scope, explore
from leaselab.explore import panel as module
from leaselab.explore.panel import CHANGED, GuardPanel

FULL = Protocol()
TELLING = (
    "claim.takeover",
    "claim.one_per_run",
    "commit_run.owner",
    "finish.expiry",
    "renew.expiry",
)
QUICK = Scope(claims=1, crashes=0, releases=0, in_flight=0)


@pytest.fixture(scope="module")
def made():
    return GuardPanel()


@pytest.fixture
def panel(made):
    made.restore()
    made.choose("side_effect")
    return made


def words(html):
    """What a reader reads of a piece of HTML."""
    return unescape(re.sub("<[^>]*>", " ", html)).strip()


def verdicts(panel):
    """The table's last column, by property."""
    rows = re.findall(r"<th scope='row'[^>]*>(\w+)</th>.*?</td><td>(.*?)</td>", panel._table.value)
    return {name: words(verdict) for name, verdict in rows}


def said(verdict, full):
    """What the last column should say of a verdict."""
    found = {}
    for name, finding in verdict.items():
        steps = [len(other.schedule or ()) for other in (finding, full[name])]
        differs = finding.holds != full[name].holds or steps[0] != steps[1]
        found[name] = (CHANGED if differs else "") + finding.sentence.split(":")[0]
    return {name: " ".join(text.split()) for name, text in found.items()}


def test_each_guard_of_the_full_protocol_has_a_box_and_its_sql(panel):
    assert tuple(panel.guards) == FULL.guards
    assert all(box.value for box in panel.guards.values())
    for name, html in panel._lines.items():
        sql = words(html.value)
        lines = [line.strip() for line in FULL[name.split(".")[0]].splitlines()]
        lines = [line for line in lines if re.search(rf"-- guard:.*\b{name.split('.')[1]}\b", line)]
        assert sql == " ".join(re.sub(r"\s*-- guard.*", "", line) for line in lines)


@pytest.mark.parametrize("guard", TELLING)
def test_a_tick_says_what_the_search_says(panel, guard):
    panel.guards[guard].value = False
    verdict = explore(Protocol.without(guard))
    assert panel.struck_out == (guard,)
    assert repr(panel.verdict) == repr(verdict)
    assert {name: " ".join(text.split()) for name, text in verdicts(panel).items()} == said(
        verdict, panel._full
    )
    for name in (*verdict.broken, guard):
        assert name in words(panel._title.value)


def test_a_tick_and_a_plain_call_do_the_same(panel):
    panel.guards["finish.generation"].value = False
    by_hand = panel._title.value, panel._table.value, panel._schedule.value, panel._charts.value
    panel.restore()
    panel.strike_out("finish.generation")
    assert not panel.guards["finish.generation"].value
    by_call = panel._title.value, panel._table.value, panel._schedule.value, panel._charts.value
    assert by_hand == by_call


def test_a_short_name_strikes_the_guard_out_of_every_statement(panel):
    panel.strike_out("owner", "claim.final")
    assert set(panel.struck_out) == {
        "claim.final",
        *(name for name in FULL.guards if name.endswith(".owner")),
    }
    panel.restore("owner")
    assert panel.struck_out == ("claim.final",)
    panel.restore()
    assert panel.struck_out == () and repr(panel.verdict) == repr(explore())


def test_the_button_turns_every_guard_on_again(panel):
    assert panel.all_on.disabled
    panel.strike_out("claim.final", "finish.generation")
    assert not panel.all_on.disabled
    panel.all_on.click()
    assert panel.struck_out == () and panel.all_on.disabled
    assert words(panel._title.value) == "Every guard is on. Broken: side_effect."


def test_what_is_struck_out_is_said_in_words_too(panel):
    assert panel.guards["finish.generation"].tooltip == "in force: AND generation = :generation"
    panel.strike_out("finish.generation")
    assert panel.guards["finish.generation"].tooltip == "struck out: AND generation = :generation"
    line = panel._lines["finish.generation"].value
    assert "<s>AND generation = :generation</s>" in line
    assert words(line).split("  ")[0] == "struck out"


def test_a_line_that_two_guards_share_is_struck_out_with_either(panel):
    panel.strike_out("claim.takeover")
    assert words(panel._lines["claim.expiry"].value).startswith("struck out in part")
    assert panel._lines["claim.expiry"].value.count("<s>") == 1
    panel.restore()
    panel.strike_out("claim.expiry")
    assert panel.guards["claim.takeover"].value
    assert words(panel._lines["claim.takeover"].value).startswith("struck out")


def test_searching_is_said_before_the_search_and_the_verdict_after_it(panel):
    told = []
    panel._title.observe(lambda change: told.append(words(change.new)), "value")
    panel.strike_out("finish.generation")
    panel._title.unobserve_all()
    assert told == [
        "Struck out: finish.generation. Searching \u2026",
        "Struck out: finish.generation. Broken: stale_commit, side_effect.",
    ]


def test_many_names_are_counted_in_the_title(panel):
    panel.strike_out("generation", "running")
    assert words(panel._title.value).startswith("Struck out: 10 guards. ")


# What is drawn


def test_what_is_newly_broken_is_drawn_and_else_the_choice_is_kept(panel):
    assert panel.choice.value == "side_effect"
    panel.strike_out("finish.generation")
    assert panel.choice.value == "stale_commit"
    panel.choose("side_effect")
    panel.strike_out("ack.owner")
    assert panel.choice.value == "side_effect"
    panel.strike_out("claim.final")
    assert panel.choice.value == "final"
    panel.restore("claim.final")
    assert panel.choice.value == "stale_commit"  # what was drawn is broken no more


def test_the_schedule_and_both_charts_are_those_of_the_finding(panel):
    panel.strike_out("finish.generation")
    finding = explore(Protocol.without("finish.generation"))["stale_commit"]
    assert repr(panel.finding) == repr(finding)
    assert words(panel._schedule.value).split("  ")[0] == str(finding.schedule)
    assert finding.reason in words(panel._schedule.value)
    alts = [unescape(alt) for alt in re.findall('alt="(.*?)"', panel._charts.value)]
    assert alts == [picture.sentence for picture in finding.charts()] and len(alts) == 2
    assert words(panel._charts.value) == "The same schedule under the full protocol:"


def test_with_every_guard_on_there_is_one_chart(panel):
    assert panel._charts.value.count("<img") == 1
    assert "there is nothing to compare it with" in words(panel._charts.value)


def test_the_dropdown_offers_what_has_a_schedule_and_first_what_is_broken_by_it(panel):
    panel.strike_out("claim.takeover")
    verdict = panel.verdict
    names = [name for _, name in panel.choice.options]
    assert set(names) == {name for name, finding in verdict.items() if finding.schedule}
    holds = [verdict[name].holds for name in names]
    assert holds == sorted(holds) and "can_take_over" not in names
    for label, name in panel.choice.options:
        assert label == f"{name}: {verdict[name].sentence.split(':')[0]}"


def test_choosing_by_hand_and_by_call_draw_the_same(panel):
    panel.choice.value = "can_take_over"
    by_hand = panel._schedule.value, panel._charts.value
    panel.choose("side_effect")
    assert (panel._schedule.value, panel._charts.value) != by_hand
    panel.choose("can_take_over")
    assert (panel._schedule.value, panel._charts.value) == by_hand


def test_a_wrong_name_is_answered_with_the_known_ones(panel):
    with pytest.raises(UnknownName, match="no guard 'finish.owner'; there are ack.owner"):
        panel.strike_out("claim.final", "finish.owner")
    with pytest.raises(UnknownName, match="no guard 'nothing'"):
        panel.restore("nothing")
    with pytest.raises(UnknownName, match="no property 'stale'; there are one_live_holder"):
        panel.choose("stale")
    with pytest.raises(InputError, match="stale_commit holds in all 2,207 states; there is noth"):
        panel.choose("stale_commit")
    assert panel.struck_out == () and panel.choice.value == "side_effect"


# What it shows besides


def test_every_property_stands_in_the_table_with_its_sentence(panel):
    assert list(verdicts(panel)) == list(PROPERTIES)
    for kind in PROPERTIES.values():
        assert kind.sentence in unescape(panel._table.value)


def test_every_scope_is_printed(panel):
    for scope in {finding.scope for finding in panel.verdict.values()}:
        assert str(scope) in words(panel._scope.value)


def test_a_scope_of_ones_own_is_searched():
    panel = GuardPanel(Scope(idempotency_key=True))
    assert words(panel._title.value) == "Every guard is on. Broken: nothing."
    assert words(panel._scope.value) == f"Scope: {Scope(idempotency_key=True)}."
    assert panel.choice.value == "can_finish"


def test_a_search_that_stopped_at_its_cap_is_called_no_proof():
    panel = GuardPanel(Scope(cap=20))
    assert "The search stopped at its cap, no proof: " in words(panel._title.value)
    assert verdicts(panel)["stale_commit"].startswith("stopped at the cap of 20 states")


def test_where_nothing_has_a_schedule_nothing_is_drawn():
    panel = GuardPanel(Scope(workers=1, cap=1))
    assert panel.choice.value is None and panel.finding is None
    assert words(panel._schedule.value) == "There is nothing to draw."
    assert "image/png" not in panel._repr_mimebundle_()[0]


def test_nothing_that_is_shown_changes_its_size(panel):
    parts = [part for part in panel.children if part.layout.height]
    heights = [part.layout.height for part in parts]
    assert len(parts) == 6
    for guards in (["finish.generation"], ["claim.one_per_run"], FULL.guards[:6]):
        panel.strike_out(*guards)
        assert [part.layout.height for part in parts] == heights


def test_whoever_shows_no_widgets_gets_a_few_lines_and_the_picture(panel):
    data, metadata = panel._repr_mimebundle_()
    assert data["text/plain"].startswith("Every guard is on. Broken: side_effect.\n  side_effect: ")
    assert data["image/png"] == panel.finding.charts()[0].png()
    panel.guards["finish.generation"].value = False
    data, metadata = panel._repr_mimebundle_()
    first, *broken = data["text/plain"].splitlines()
    assert first == "Struck out: finish.generation. Broken: stale_commit, side_effect."
    assert broken[0] == f"  stale_commit: {panel.verdict['stale_commit'].sentence}"
    assert data["image/png"] == panel.verdict["stale_commit"].charts()[0].png()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert metadata == {"image/png": {"width": 720}}


# In a kernel


def test_clicks_during_a_search_are_heard_and_only_the_last_state_is_searched_then(monkeypatch):
    searched = []

    def counted(protocol=None, **options):
        searched.append(protocol.struck_out if protocol else ())
        return explore(protocol, **options)

    monkeypatch.setattr(module, "explore", counted)

    async def click():
        panel = GuardPanel(QUICK)
        panel.guards["ack.owner"].value = False
        await asyncio.sleep(0)  # the search has begun
        while len(searched) < 2:
            await asyncio.sleep(0.001)
        for name in FULL.guards[:6]:
            panel.guards[name].value = False
            assert words(panel._title.value).endswith("Searching \u2026")
            await asyncio.sleep(0)
        await panel._task
        return panel

    panel = asyncio.run(click())
    assert searched[:2] == [(), ("ack.owner",)] and searched[-1] == FULL.guards[:6]
    assert len(searched) < 2 + 6  # fewer than one for each click
    assert panel._verdict.protocol.struck_out == panel.struck_out == FULL.guards[:6]
    assert words(panel._schedule.value) != "drawing \u2026"


def test_in_a_cell_the_verdict_is_that_of_the_boxes_although_the_work_has_not_begun():
    async def cell():
        panel = GuardPanel(QUICK)
        panel.guards["claim.expiry"].value = False
        return panel.verdict.protocol.struck_out, panel._repr_mimebundle_()[0]["text/plain"]

    struck_out, text = asyncio.run(cell())
    assert struck_out == ("claim.expiry",) and text.startswith("Struck out: claim.expiry. Broken")


@pytest.mark.skipif(sys.platform != "linux", reason="counts what is open in /proc")
def test_what_is_drawn_no_more_leaves_no_file_open(panel):
    panel._drawn.clear()
    counts = []
    for guard in FULL.guards[:4]:
        panel.strike_out(guard)
        panel.restore()
        gc.collect()
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[-1] <= counts[1]

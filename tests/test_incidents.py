"""Field incidents: every table says what the data says, and every broken run shows its damage."""

import json
import re
from pathlib import Path

import pytest

from leaselab import Lab, Protocol
from leaselab.errors import InputError, StoreError
from leaselab.incidents import ACTIONS, load_incidents, read_incident, read_incidents
from leaselab.replay import DAMAGES

ROOT = Path(__file__).parent.parent
DATA = json.loads((ROOT / "tests" / "data" / "incidents.json").read_text(encoding="utf-8"))[
    "incidents"
]
TABLES = load_incidents(ROOT / "notebooks" / "incidents.txt")
IDS = [incident["id"] for incident in DATA]


def table(*steps, broken="without finish.generation", damage="stale finish accepted", **changes):
    """A table of an incident, as a text; a field that is None is left out."""
    fields = {
        "incident": "late",
        "source": "a test",
        "what": "a commit arrives late",
        "lease": "30",
        "workers": "A, B",
        "tasks": "r1",
        **changes,
    }
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    several = [("broken", broken), ("damage", damage)]
    lines += [f"{name}: {line}" for name, value in several if value for line in value.split("\n")]
    return "\n".join([*lines, *(steps or LATE)])


LATE = (
    "0 | A | claim | generation 1",
    "30 | B | claim | generation 2",
    "31 | A | finish 1 done | refused",
    "32 | B | finish 2 done | accepted",
)


def replays(text):
    """The broken replay and the full one."""
    return Lab.replay(text, broken=True), Lab.replay(text)


# The six of the lesson


def test_the_file_has_the_incidents_of_the_data_in_their_order():
    assert list(TABLES) == IDS


@pytest.mark.parametrize("data", DATA, ids=IDS)
def test_every_number_of_a_table_equals_the_data(data):
    incident = TABLES[data["id"]]
    assert (incident.lease, incident.per_second) == (data["lease"], 1)
    assert incident.tasks == tuple(task["run"] for task in data["tasks"])
    assert data["source"].split()[-1] in incident.source
    steps = [
        {
            "t": row.step.t,
            "who": row.step.actor,
            "action": row.step.action,
            **row.step.arguments,
            "expect": row.expected,
        }
        for row in incident.rows
    ]
    assert json.dumps(steps, sort_keys=True) == json.dumps(data["steps"], sort_keys=True)


@pytest.mark.parametrize("data", DATA, ids=IDS)
def test_under_the_full_protocol_every_step_comes_back_as_the_data_says(data):
    replay = Lab.replay(TABLES[data["id"]])
    events = [event for event in replay.lab.events if event.actor != "client"]
    assert [event.returned for event in events] == [step["expect"] for step in data["steps"]]
    assert replay.as_promised and not replay.surprises
    assert replay.sentence.startswith(f"All {len(data['steps'])} steps came back as they must")
    assert repr(replay.lab.protocol) == "Protocol()"


@pytest.mark.parametrize("name", IDS)
def test_every_broken_run_shows_every_damage_of_its_table(name):
    replay = Lab.replay(TABLES[name], broken=True)
    assert replay.damages and None not in replay.damages.values()
    assert (
        replay.as_promised
        and replay.sentence.startswith("The damage: at t=")
        or ("acted twice" in replay.sentence)
    )


@pytest.mark.parametrize("name", IDS)
def test_no_damage_of_any_kind_shows_under_the_full_protocol(name):
    trace = Lab.replay(TABLES[name]).trace
    assert {kind: where(trace) for kind, where in DAMAGES.items()} == dict.fromkeys(DAMAGES)


@pytest.mark.parametrize("name", IDS)
def test_without_what_breaks_it_the_damage_does_not_show(name):
    """Each line of `broken` is needed: with one of them put back, some damage is gone."""
    text = TABLES[name].text
    lines = [line for line in text.splitlines() if line.startswith("broken: ")]
    for line in lines:
        rest = text.replace(f"{line}\n", "")
        if len(lines) == 1:
            rest = text.replace(line, "broken: without commit_run.revision")
        assert not Lab.replay(rest, broken=True).as_promised, line


def test_the_stale_unlock_lets_two_work_at_the_same_time():
    where = Lab.replay(TABLES["the-stale-unlock"], broken=True).damages["two live holders"]
    assert where == "at t=14407 W2 (generation 2) and W3 (generation 3) both hold task 1"


def test_the_mail_that_went_out_twice_stands_twice_in_the_ledger():
    replay = Lab.replay(TABLES["the-mail-went-out-twice"], broken=True)
    assert [entry["worker"] for entry in replay.lab.ledger] == ["W1", "W2"]
    assert replay.lab.trace.tasks[0]["state"] == "done"


def test_times_are_compared_as_texts_only_in_the_broken_claim():
    broken = TABLES["a-fresh-heartbeat-read-as-stale"].protocol
    assert "strftime" in broken["claim"] and broken.rewritten == ("claim",)
    assert "guard: expiry, takeover" in broken["claim"]


# What a replay says


def test_a_replay_says_step_by_step_what_came_back():
    broken, full = replays(table())
    assert repr(full).splitlines() == [
        "The full protocol",
        "t   who  what           must come back  came back",
        "0   A    claim          generation 1    generation 1",
        "30  B    claim          generation 2    generation 2",
        "31  A    finish 1 done  refused         refused: sent gen 1, row has gen 2",
        "32  B    finish 2 done  accepted        accepted",
        "All 4 steps came back as they must, 1 of them as refused.",
    ]
    assert "31  A    finish 1 done  refused         accepted *" in repr(broken)
    assert "<b>▸ accepted</b>" in broken._repr_html_()


def test_a_replay_is_shown_with_its_chart_and_both_charts_have_one_axis_and_one_mark():
    for replay in replays(table()):
        html = replay._repr_mimebundle_()["text/html"]
        assert html.startswith("<p>") and re.search(r'<img src="data:[^"]+" alt="[^"]{40,}"', html)
    broken, full = (replay.chart() for replay in replays(table()))
    assert broken.horizon == full.horizon
    for chart in (broken, full):
        assert chart.sentence.endswith("The pictures differ at t=31 in what worker A does.")


def test_a_step_that_comes_back_otherwise_is_named_with_its_row():
    replay = Lab.replay(table(*LATE[:2], "31 | A | finish 1 done | accepted", LATE[3]))
    assert not replay.as_promised
    assert replay.sentence == (
        "Row 11: to A's finish 1 done at t=31 must come back 'accepted', and 'refused' came back."
    )


def test_what_a_worker_cannot_do_is_left_out_and_said():
    replay = Lab.replay(table(LATE[0], "3 | B | finish 1 done | refused"))
    assert "to B's finish 1 done at t=3 must come back 'refused', and 'left out'" in replay.sentence


def test_a_broken_run_without_damage_ends_in_a_sentence():
    replay = Lab.replay(table(broken="without renew.generation"), broken=True)
    assert not replay.as_promised
    assert replay.sentence == (
        "No damage: 'stale finish accepted' is promised, and the broken run does not show it."
    )


def test_damage_under_the_full_protocol_ends_in_a_sentence():
    calls = ("1 | A | call | ledger 1", "2 | A | call | ledger 2")
    text = table(LATE[0], *calls, broken="no idempotency key", damage="acted twice")
    assert Lab.replay(text).sentence == (
        "The full protocol does not keep the damage away: the service has acted twice for task 1, "
        "at t=1 and t=2: the ledger says 2."
    )


def test_a_claim_in_two_steps_does_harm_only_if_both_look_before_either_takes():
    broken = {"broken": "claim in two steps", "damage": "two live holders"}
    at_once = table("0 | A | claim | generation 1", "0 | B | claim | refused", **broken)
    apart = table("0 | A | claim | generation 1", "1 | B | claim | refused", **broken)
    assert Lab.replay(at_once, broken=True).as_promised
    replay = Lab.replay(apart, broken=True)
    assert not replay.as_promised and not replay.surprises
    assert Lab.replay(apart).as_promised


def test_each_kind_of_damage_can_be_shown():
    claims = ("0 | A | claim | generation 1", "30 | B | claim | generation 2")
    shown = {
        "stale renew accepted": ("renew 1", "without renew.generation, renew.owner"),
        "stale release accepted": ("release 1", "without release.generation, release.owner"),
        "stale finish accepted": ("finish 1 uncertain", "without finish.generation"),
    }
    for damage, (what, broken) in shown.items():
        text = table(*claims, f"31 | A | {what} | refused", broken=broken, damage=damage)
        assert all(replay.as_promised for replay in replays(text)), damage
    steps = ("0 | A | claim | generation 1", "10 | B | claim | refused")
    text = table(*steps, broken="without claim.expiry", damage="live lease taken over")
    assert all(replay.as_promised for replay in replays(text))
    text = table(
        *steps, tasks="r1, r1", broken="without claim.one_per_run", damage="two of one run"
    )
    assert all(replay.as_promised for replay in replays(text))


def test_a_worker_that_knows_that_its_claim_is_over_does_not_count_as_a_holder():
    steps = (
        "0 | A | claim | generation 1",
        "5 | A | release 1 | accepted",
        "6 | B | claim | generation 2",
    )
    text = table(*steps, broken="without release.generation", damage="two live holders")
    assert not Lab.replay(text, broken=True).as_promised


def test_a_renewal_may_be_stale_and_another_may_not():
    steps = (
        *("0 | A | claim | generation 1", "10 | A | renew 1 | until 40"),
        *("40 | B | claim | generation 2", "41 | A | renew 1 | refused"),
    )
    text = table(
        *steps, broken="without renew.owner, renew.generation", damage="stale renew accepted"
    )
    assert all(replay.as_promised for replay in replays(text))


def test_of_several_tasks_one_can_be_named():
    steps = (
        *("0 | A | claim | generation 1", "1 | A | finish 1 done task 1 | accepted"),
        *("2 | A | claim | generation 1", "3 | A | finish 1 done task 2 | accepted"),
    )
    replay = Lab.replay(table(*steps, tasks="r1, r1"))
    assert replay.as_promised, replay
    assert [row["state"] for row in replay.trace.tasks] == ["done", "done"]


def test_every_action_and_every_damage_is_told_in_the_lesson():
    text = (ROOT / "notebooks" / "13_field_incidents.ipynb").read_text(encoding="utf-8")
    for word in (*(f"`{action}" for action in ACTIONS), *DAMAGES):
        assert word in text


# Times and names


@pytest.mark.parametrize("lease", ["0.25", "2", "2.5", "14400"])
def test_a_lease_may_last_from_a_fraction_of_a_second_to_hours(lease):
    end = float(lease)
    steps = (
        "0 | A | claim | generation 1",
        f"{end:.3f} | B | claim | generation 2",
        f"{end + 0.125:.3f} | A | finish 1 done | refused",
    )
    broken, full = replays(table(*steps, lease=lease))
    assert broken.as_promised and full.as_promised


def test_fractions_make_all_times_of_the_lab_milliseconds_and_this_is_said():
    steps = ("0 | A | claim | generation 1", "0.125 | A | renew 1 | until 2.625")
    incident = read_incident(table(*steps, lease="2.5"))
    assert (incident.lease, incident.per_second) == (2500, 1000)
    replay = Lab.replay(incident)
    assert [event.t for event in replay.trace.events] == [0, 0, 125]
    assert replay.trace.tasks[0]["lease_until"] == 2625
    assert "The full protocol; the file counts milliseconds" in repr(replay)
    assert "0.125  A    renew 1  until 2.625     until 2.625" in repr(replay)


def test_a_fraction_in_what_must_come_back_is_enough():
    incident = read_incident(table("0 | A | claim | generation 1", "1 | A | renew 1 | until 31.5"))
    assert incident.per_second == 1000
    assert "must come back 'until 31.5', and 'until 31' came back" in Lab.replay(incident).sentence


def test_whole_seconds_stay_seconds_however_they_are_written():
    assert read_incident(table("0.000 | A | claim | generation 1")).per_second == 1


NAMES = [
    "工人甲",
    "<script>alert(1)</script>",
    "host-1-worker-0",
    "the second one",
    "W:1",
    "$x^2$",
    "None",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_may_have_any_name(name):
    steps = [step.replace("| A |", f"| {name} |") for step in LATE]
    broken, full = replays(table(*steps, workers=f"{name}, B"))
    assert broken.as_promised and full.as_promised
    assert full.lab.scenario.workers == (name, "B")
    assert "<script>" not in full._repr_mimebundle_()["text/html"]
    assert full.chart().png().startswith(b"\x89PNG")


def test_what_stands_in_a_table_is_escaped_in_a_notebook():
    text = table(what="<b>bold</b>", incident="<i>x</i>", tasks="<u>r</u>")
    html = Lab.replay(text, broken=True)._repr_mimebundle_()["text/html"]
    assert not re.search("<[iu]>|<b>bold", html)


# What cannot be read ends in one sentence that names the row

MALFORMED = [
    ("", "there is no incident; its first line is 'incident: its name'."),
    ("# only a comment\n\n", "there is no incident; its first line"),
    ("lease: 30", "row 1: an incident begins with a line 'incident: its name'."),
    (table(lease=None), "row 1: this incident has no line 'lease: …'."),
    (table(source=None), "row 1: this incident has no line 'source: …'."),
    (table(workers=None), "row 1: this incident has no line 'workers: …'."),
    (table(broken=None), "row 1: this incident has no line 'broken: …'."),
    (table(damage=None), "row 1: this incident has no line 'damage: …'."),
    (table("# no step"), "row 1: this incident has no steps."),
    (table(what=""), "row 3: what is empty."),
    (table(lease="30\nlease: 31"), "row 5 says lease for the second time."),
    (table(lease="30\nlaese: 31"), "row 5 has no field 'laese'; there are incident, source"),
    (table(lease="half a minute"), "row 4: the lease is a number of seconds with at most three"),
    (table(lease="-2"), "row 4: the lease is a number of seconds"),
    (table(lease="0"), "row 4: a lease lasts longer than 0 seconds."),
    (table(lease="9" * 30), "row 4: the lease is at most "),
    (table(lease="1e3"), "row 4: the lease is a number of seconds"),
    (table(lease="٣"), "row 4: the lease is a number of seconds"),
    (table(workers="A, A"), "row 5: workers cannot be 'A, A'; 'A' is no new name."),
    (table(workers="A, client"), "row 5: workers cannot be 'A, client'; 'client' is no new name."),
    (table(workers="A,, B"), "row 5: workers cannot be 'A,, B'; '' is no new name."),
    (table(tasks="r1,"), "row 6: tasks cannot be 'r1,'; '' is no new name."),
    (
        table(broken="without finish.genration"),
        "row 7: there is no guard 'finish.genration'; there",
    ),
    (table(broken="nothing"), "row 7: 'nothing' breaks nothing; write 'without' and guards"),
    (table(broken="in clam: a => b"), "row 7: there is no statement 'clam'; there are ack"),
    (table(broken="in look: a => b"), "row 7: there is no statement 'look'; there are ack"),
    (table(broken="in claim: nowhere => b"), "row 7: 'nowhere' stands 0 times in claim, and not"),
    (table(broken="in claim: candidate => b"), " times in claim, and not once."),
    (table(damage="harm"), "row 8 has no damage 'harm'; there are two live holders, "),
    (table("a sentence in between"), "row 9 is neither 'name: value' nor 't | who | what | must"),
    (
        table("0 | A | claim"),
        "row 9 has 3 columns, and not the four of 't | who | what | must come",
    ),
    (table("0 A claim"), "row 9 has 1 columns, and not the four of"),
    (table("0 | A | claim | generation 1 | why"), "row 9 has 5 columns, and not the four of"),
    (table("soon | A | claim | refused"), "row 9: the time is a number of seconds with at most"),
    (table("0.0005 | A | claim | refused"), "row 9: the time is a number of seconds with at most"),
    (table(*LATE[:2], "29 | A | claim | refused"), "row 11: the time goes back from 30 to 29."),
    (table("0 | C | claim | generation 1"), "row 9 has no worker 'C'; there are A, B."),
    (table("0 | A | steal | accepted"), "row 9 has no action 'steal'; there are claim, renew,"),
    (table("0 | A |  | accepted"), "row 9 has no action ''; there are claim, renew,"),
    (
        table("0 | A | finish | accepted"),
        "row 9: 'finish' cannot be read; write it as in 'finish 1",
    ),
    (
        table("0 | A | finish 1 ok | accepted"),
        "row 9: 'finish 1 ok' cannot be read; write it as in",
    ),
    (
        table("0 | A | renew one | refused"),
        "row 9: 'renew one' cannot be read; write it as in 'ren",
    ),
    (table("0 | A | claim | accepted"), "row 9: what comes back to a claim is like 'generation 2'"),
    (table("0 | A | claim | generation"), "or 'refused', not 'generation'."),
    (table("0 | A | renew 1 | until noon"), "row 9: the end of the lease is a number of seconds"),
    (table("0 | A | call k | refused"), "row 9: what comes back to a call is like 'ledger 1', not"),
    (table("0 | A | finish 1 done | yes"), "what comes back to a finish is like 'accepted' or"),
]


@pytest.mark.parametrize("text, sentence", MALFORMED)
def test_what_cannot_be_read_ends_in_a_sentence_that_names_the_row(text, sentence):
    with pytest.raises(InputError) as caught:
        read_incidents(text)
    said = str(caught.value)
    assert sentence in said and said.endswith(".") and "\n" not in said


def test_two_incidents_of_one_name_are_refused_with_the_row_of_the_second():
    with pytest.raises(InputError, match="row 14: there are two incidents 'late'."):
        read_incidents(f"{table()}\n\n{table()}")


def test_one_incident_is_asked_for_and_two_are_given():
    both = f"{table()}\n{table(incident='other')}"
    assert list(read_incidents(both)) == ["late", "other"]
    with pytest.raises(InputError, match="there are 2 incidents in the text; one is asked for."):
        Lab.replay(both)


@pytest.mark.parametrize("given", [None, 3, Protocol()])
def test_what_is_no_text_is_refused(given):
    with pytest.raises(InputError, match="an incident is a text of a few lines, not "):
        Lab.replay(given)


def test_an_unknown_incident_is_refused_with_the_known_ones():
    with pytest.raises(
        InputError, match="there is no incident 'x'; there are every-worker-runs-the"
    ):
        TABLES["x"]


def test_a_rewritten_statement_that_cannot_be_run_ends_in_a_sentence():
    text = table(broken="in claim: candidate.lease_until <= :now => candidate.lease_til <= :now")
    assert Lab.replay(text).as_promised
    with pytest.raises(InputError) as caught:
        Lab.replay(text, broken=True)
    assert str(caught.value) == (
        "the broken run of 'late' stops at t=0, with A's claim: 'no such column: candidate.lease_til'."
    )


def test_a_file_that_cannot_be_read_ends_in_a_sentence(tmp_path):
    with pytest.raises(StoreError, match="none.txt cannot be read; is there such a file?"):
        load_incidents(tmp_path / "none.txt")
    (tmp_path / "utf16.txt").write_text(table(), encoding="utf-16")
    with pytest.raises(InputError, match="utf16.txt is no text in UTF-8"):
        load_incidents(tmp_path / "utf16.txt")


def test_a_file_may_begin_with_a_byte_order_mark_and_have_the_line_ends_of_windows(tmp_path):
    path = tmp_path / "bom.txt"
    path.write_bytes(table().replace("\n", "\r\n").encode("utf-8-sig"))
    assert list(load_incidents(path)) == ["late"]


def test_a_lab_that_replays_leaves_no_folder_behind():
    replay = Lab.replay(table())
    folder = replay.lab.folder
    replay.lab.close()
    assert not folder.exists()

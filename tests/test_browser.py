"""A real JupyterLab in a real Chromium: what a reader does, and what the page then shows.

A lesson is opened once, and its page serves all tests; each runs the panel's cell again. Screenshots
are kept in ``screenshots/`` for review. Where no Chromium is found these tests are skipped with a
line that says so.
"""

import re

import browser
import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import CHROMIUM, ROOT, Reader, put_notebook
from playwright.sync_api import expect

import leaselab
from leaselab.explore import explore
from leaselab.incidents import load_incidents
from leaselab.panel import EARLIER, LEASE_BUTTONS, TRUTHS

NOTEBOOKS = ROOT / "notebooks"
LESSONS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
# The words of a worker's buttons, by what a script lets the worker do.
BUTTONS = {
    "claim": "claim",
    "renew": "renew",
    "call_external": "call the service",
    "finish": "finish done",
    "crash": "crash",
    "reopen": "reopen",
}
THEMES = ("Light", "Dark")
ASK = "ask me before the steps that matter"
SLOW = "it acts 20 later, too late to answer"
OUTPUT = ".jp-OutputArea-output"
CUT_OFF = """buttons => buttons.filter(button => button.scrollWidth > button.clientWidth)
    .map(button => button.textContent)"""
CORNER_OF_A_DATAFRAME = ".dataframe thead th:empty"  # pandas leaves it empty
# What a key or a button does has nothing to do with the theme.
IN_ONE_THEME = pytest.mark.parametrize("theme", ["Dark"], indirect=True)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium found: install Debian's package chromium to run these"
)


@pytest.fixture(scope="module")
def jupyterlab(tmp_path_factory):
    with browser.jupyterlab(tmp_path_factory.mktemp("jupyterlab")) as address:
        yield address


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser.chromium(tmp_path_factory.mktemp("home")) as opened:
        yield opened


@pytest.fixture(scope="module", params=LESSONS)
def opened(request, chromium, jupyterlab):
    """A lesson that was opened and run; its panels stand where its own code has left them."""
    reader = Reader(chromium, jupyterlab, request.param)
    labs = labs_of_the_panels(reader.lesson)
    expect(reader.panels).to_have_count(len(labs))
    for number, lab in enumerate(labs):
        reader.turn_to(number)
        reader.sees(lab)
    yield reader
    reader.page.close()


@pytest.fixture(scope="module", params=THEMES)
def theme(request, opened):
    opened.change_theme(request.param)


@pytest.fixture
def reader(opened):
    yield opened
    assert opened.errors == [], "the page has complained in its console"


def labs_of_the_panels(lesson):
    """The labs that a notebook makes panels of, made anew by the same expressions."""
    notebook = nbformat.read(NOTEBOOKS / f"{lesson}.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    names = dict(vars(leaselab), load_incidents=lambda name: load_incidents(NOTEBOOKS / name))
    for line in re.findall(r"^\w+ = (?:load_incidents\(|incidents\[).*", code, re.MULTILINE):
        exec(line, names)
    made = re.findall(r"^(\w+) = (Lab\(.*|\w+\.lab\(.*)\n\w+ = \1\.panel\(\)", code, re.MULTILINE)
    return [eval(expression, names) for _, expression in made]


def panels(reader, asking):
    """Look at one new panel after the other; yields for each a plain lab to compare it with."""
    for number, plain in enumerate(labs_of_the_panels(reader.lesson)):
        reader.turn_to(number)
        reader.run_again()
        reader.panel.get_by_label(ASK).set_checked(asking)
        reader.sees(plain)
        yield plain


def test_a_script_is_played_by_keyboard_with_predictions_then_by_next(reader):
    for plain in panels(reader, asking=True):
        move(reader, plain, "ArrowRight", 1)
        while any(step.ask for step in plain.future):
            waits = move(reader, plain, "PageUp", 5)
            while waits:
                if len(plain.questions) == 1:
                    assert reader.panel.locator("button").evaluate_all(CUT_OFF) == []
                    for theme in THEMES:
                        reader.change_theme(theme)
                        assert violations(reader.page, ".leaselab") == {}
                answer = plain.ask().choices[0]
                plain.ask(answer)
                reader.by_keyboard(answer)
                reader.by_keyboard("lock in")
                reader.reads("It is locked in.")
                waits = move(reader, plain, "ArrowRight", 1)
                reader.reads(f"{plain.score}.")
                reader.photograph(f"{reader.lesson} at {plain.t} {reader.theme}")
        reader.panel.get_by_label(ASK).uncheck()
        while plain.future or plain.under_way:
            reader.press("next")
            reader.sees(plain.next())
        expect(reader.button("next")).to_be_disabled()


def move(reader, plain, key, seconds):
    """Press a key on the slider; returns whether the clock now waits for an answer."""
    reader.move_by_keyboard(key)
    end, waits = plain.t + seconds, False
    while plain.future and plain.future[0].t <= end and not waits:
        step = plain.future[0]
        waits = step.ask and plain.can_do(step) and plain.ask().answer is None
        plain.play_to(max(plain.t, step.t - 1)) if waits else plain.next()
    if not waits:
        plain.play_to(end)
    title = f"The clock waits at t={plain.t} for your answer." if waits else None
    reader.sees(plain, title=title)
    return waits


def test_the_page_can_be_read_without_seeing(reader, theme):
    """By axe-core: names of controls, alt texts, contrast; of whatever stands on the page now."""
    log = reader.panel.locator("summary")
    if log.count():
        sql = reader.panel.locator("pre").first
        if not sql.is_visible():
            log.first.click()
        expect(sql).to_be_visible()
    with reader.all_in_sight():
        reader.photograph(f"{reader.lesson} {reader.theme}", reader.page)
        assert violations(reader.page, OUTPUT) == {}
    pictures = reader.page.locator(f"{OUTPUT} img")
    for alt in pictures.evaluate_all("images => images.map(image => image.alt)"):
        assert alt == "" or len(alt) >= 40  # JupyterLab itself adds a word or two where none is


def violations(page, part):
    """What axe-core finds in a part of the page that is in sight."""
    # It takes for hidden what is in a body of no height, as JupyterLab's is, and says nothing.
    page.add_style_tag(content="body { height: 100vh }")
    context = {"include": [[part]], "exclude": [[CORNER_OF_A_DATAFRAME]]}
    found = Axe().run(page, context=context).response["violations"]
    return {rule["id"]: [node["html"][:200] for node in rule["nodes"]] for rule in found}


@pytest.mark.parametrize("opened", LESSONS[:1], indirect=True)
@IN_ONE_THEME
def test_axe_would_have_said_so(reader, theme):
    """It is easily blind in JupyterLab's page, so it is shown what it must find."""
    bad = "<div id='bad'><img src=''><button></button><p style='color: #333'>faint</p></div>"
    with reader.all_in_sight():
        output = reader.page.locator(OUTPUT).last
        output.evaluate("(output, bad) => output.insertAdjacentHTML('beforeend', bad)", bad)
        found = sorted(violations(reader.page, OUTPUT))
        reader.page.locator("#bad").evaluate("bad => bad.remove()")
    assert found == ["button-name", "color-contrast", "image-alt"]


@IN_ONE_THEME
def test_the_buttons_below_the_chart_do_what_the_plain_calls_do(reader, theme):
    for plain in panels(reader, asking=False):
        reader.press("end")
        reader.sees(plain.play())
        expect(reader.button("end")).to_be_disabled()
        reader.press("back")
        reader.sees(plain.back())
        reader.move_by_keyboard("ArrowLeft")  # looks back; the file stays
        reader.sees(plain, now=plain.t - 1)
        reader.press("act from here")
        reader.sees(plain.rewind(plain.t - 1))
        reader.press("enqueue a task")
        plain.enqueue()
        reader.sees(plain)
        reader.press("other branch")
        reader.sees(plain.other_branch())
        reader.press("start")
        reader.sees(plain.restart())
        while not plain.trace.leases:
            reader.press("next")
            reader.sees(plain.next())
        for words, offset in LEASE_BUTTONS.items():
            t = plain.trace.leases[-1].end + offset
            reader.press(f"{words} (t={t})")
            reader.sees(plain.play_to(max(t, plain.t)), now=t)


@IN_ONE_THEME
def test_the_buttons_of_the_workers_do_what_the_plain_calls_do(reader, theme):
    """Each does by hand what the script will let it do next; in the end one does everything."""
    for plain in panels(reader, asking=False):
        dropdown = reader.panel.get_by_label("When it is called:")
        for _ in range(list(TRUTHS).index(SLOW)):
            dropdown.press("ArrowDown")  # by keyboard: the page must not go to another cell
        expect(dropdown).to_have_value(SLOW)
        expect(dropdown).to_be_focused()
        plain.truth = {"acts_after": 20}
        while plain.future or plain.under_way:
            for step in plain.future[:1]:
                if step.action in BUTTONS:
                    outcome = step.arguments.get("outcome", "done")
                    do_by_hand(reader, plain, step.actor, step.action, outcome)
            reader.press("next")
            reader.sees(plain.next())
        reader.press("enqueue a task")
        plain.enqueue()
        for action in BUTTONS:
            do_by_hand(reader, plain, list(plain.workers)[-1], action)
        assert violations(reader.page, ".leaselab") == {}
        can_be_scrolled_by_keyboard(reader.panel.get_by_text(plain.trace.sentence).last)
        reader.photograph(f"{reader.lesson} by hand")


def can_be_scrolled_by_keyboard(text):
    """To its end, if it is longer than its box; and the page stays at this cell."""
    box = text.locator("xpath=ancestor::*[contains(@class, 'leaselab-scroll')]")
    box.press("End")
    expect(box).to_be_focused()
    hidden = "box => box.scrollHeight - box.clientHeight - box.scrollTop"
    box.page.wait_for_function(f"box => ({hidden})(box) <= 1", arg=box.element_handle())


def do_by_hand(reader, plain, worker, action, outcome="done"):
    """Press a worker's button; if it is disabled, the panel says why."""
    words, sent = BUTTONS[action], {}
    if action == "finish":
        words, sent = f"finish {outcome}", {"outcome": outcome}
    if action == "call_external":
        sent = plain.truth_at(plain.t)
    reason, earlier = plain.why_not(worker, action), plain.workers[worker].earlier
    if reason is None:
        reader.press(words, worker)
        getattr(plain, action)(worker, **sent)
    else:
        expect(reader.button(words, worker)).to_be_disabled()
        reader.reads(reason)
        if action == "finish" and earlier:
            reader.press(EARLIER, worker)
            plain.finish(worker, generation=earlier[-1].generation, task=earlier[-1].task_id)
    reader.sees(plain)


# The panel of guards, in a small notebook of its own

GUARD_PANEL = ".leaselab-guards"
STRIKE = {
    "mouse": lambda box: box.click(),
    "mouse on the SQL": lambda box: box.click(position={"x": 300, "y": 8}, force=True),
    "keyboard": lambda box: box.press("Space"),
}
# What stands on the panel, as soon as its title is what is told and all is drawn, or after half a
# minute.
READ_GUARDS = """async (panel, title) => {
    const texts = name => [...panel.querySelectorAll(name)].map(part => part.textContent.trim());
    const busy = () => texts('.leaselab-title')[0] !== title || /drawing/.test(panel.textContent);
    const late = Date.now() + 30000;
    do {
        await new Promise(go => setTimeout(go, 20));
    } while (busy() && Date.now() < late);
    await Promise.all([...panel.querySelectorAll('img')].map(picture => picture.decode()));
    return {
        title: texts('.leaselab-title')[0],
        verdicts: texts('td:last-child'),
        schedule: texts('code').pop(),
        alts: [...panel.querySelectorAll('img')].map(picture => picture.alt),
        struck: [...panel.querySelectorAll('.leaselab-guard')]
            .filter(guard => guard.querySelector('s')).map(guard => guard.textContent),
    };
}"""
# Where everything stands that must not move: the parts of the panel, and what follows in the notebook.
PLACES = """panel => {
    const below = [...document.querySelectorAll('.jp-MarkdownCell')].pop(), rows = '.leaselab-guard';
    const parts = [panel, ...panel.children, ...panel.querySelectorAll(rows), below];
    const {x, y} = panel.querySelector('.leaselab-boxes > *').getBoundingClientRect();
    const top = panel.getBoundingClientRect();
    return parts.map(part => {
        const box = part.getBoundingClientRect(), from = part.matches(rows) ? {x, y} : top;
        return [box.x - from.x, box.y - from.y, box.width, box.height].map(Math.round);
    });
}"""
# All but the charts, which can be scrolled.
TOO_LONG = """panel => [...panel.querySelectorAll('th, td, button, .widget-html')]
    .filter(part => part !== panel.lastElementChild)
    .filter(part => part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight)
    .map(part => part.textContent)"""


@pytest.fixture(scope="module")
def guards(chromium, jupyterlab):
    """A reader of a notebook that has the panel of guards and one line below it."""
    code = "from leaselab.explore.panel import GuardPanel\nGuardPanel()"
    cells = nbformat.v4.new_code_cell(code), nbformat.v4.new_markdown_cell("The page below.")
    put_notebook(jupyterlab, "guards", *cells)
    reader = Reader(chromium, jupyterlab, "guards")
    reader.panel = reader.page.locator(GUARD_PANEL)
    yield reader
    reader.page.close()


def says_what_the_search_says(reader, *guards):
    """The panel shows the verdicts that ``explore`` gives without these guards, and their picture."""
    verdict = explore(leaselab.Protocol.without(*guards))
    told = f"Struck out: {', '.join(guards)}." if guards else "Every guard is on."
    title = f"{told} Broken: {', '.join(verdict.broken)}."
    seen = reader.panel.evaluate(READ_GUARDS, title)
    assert seen["title"] == title
    assert [said.removeprefix("\u25b8 ") for said in seen["verdicts"]] == [
        finding.sentence.split(": ")[0] for finding in verdict.values()
    ]
    finding = verdict[verdict.broken[0]]
    assert seen["schedule"] == str(finding.schedule)
    assert seen["alts"] == [picture.sentence for picture in finding.charts()]
    for guard, text in zip(guards, seen["struck"], strict=True):
        assert guard in text and "struck out" in text


@pytest.mark.parametrize("theme", THEMES)
def test_a_guard_is_struck_out_and_the_page_says_what_is_broken_then(guards, theme):
    guards.change_theme(theme)
    says_what_the_search_says(guards)
    measures = guards.panel.evaluate(PLACES)
    for guard, (by, strike) in zip(
        ("finish.generation", "claim.one_per_run", "renew.from_now"), STRIKE.items()
    ):
        box = guards.panel.get_by_label(guard, exact=True)
        strike(box)
        says_what_the_search_says(guards, guard)
        assert guards.panel.evaluate(PLACES) == measures
        assert guards.panel.evaluate(TOO_LONG) == []
        with guards.all_in_sight():
            guards.photograph(f"guards without {guard} {theme}")
            assert violations(guards.page, GUARD_PANEL) == {}
        guards.press("every guard on again")
        says_what_the_search_says(guards)
        expect(guards.button("every guard on again")).to_be_disabled()
    assert guards.panel.evaluate(PLACES) == measures
    assert guards.errors == []


def test_another_counterexample_is_chosen_by_keyboard(guards):
    guards.panel.get_by_label("finish.generation", exact=True).press("Space")
    says_what_the_search_says(guards, "finish.generation")
    choice = guards.panel.get_by_label("What is drawn:")
    choice.press("ArrowDown")
    finding = explore(leaselab.Protocol.without("finish.generation"))["side_effect"]
    expect(guards.panel.locator("code").last).to_have_text(str(finding.schedule))
    guards.press("every guard on again")
    says_what_the_search_says(guards)


def test_who_clicks_faster_than_the_search_sees_the_verdict_of_the_last_click(guards):
    boxes = ("finish.generation", "finish.running", "claim.final", "commit_run.owner")
    for guard in (*boxes, *boxes[2:]):  # the last two are put on again
        guards.panel.get_by_label(guard, exact=True).click()
    says_what_the_search_says(guards, *boxes[:2])
    guards.press("every guard on again")
    says_what_the_search_says(guards)
    assert guards.errors == []

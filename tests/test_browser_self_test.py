"""The self-test in a real JupyterLab: choose, lock in, see the verdict, by mouse and by keyboard."""

import browser
import pytest
from browser import CHROMIUM, Reader
from playwright.sync_api import expect
from test_browser import CUT_OFF, THEMES, violations

from leaselab.self_test.choice import LETTERS, SelfTest
from leaselab.self_test.panel import FIRST

PANEL = ".leaselab-self-test"
# Where everything stands on the page: the panel and each of its parts.
PLACES = """panel => [panel, ...panel.children].map(part => {
    const {x, y, width, height} = part.getBoundingClientRect();
    return [x, y, width, height].map(Math.round).join(' ');
})"""
# What has more in it than there is room for: the question, its choices, the verdict.
TOO_LONG = """panel => ['.leaselab-text', '.widget-radio', '.leaselab-verdict']
    .filter(name => { const part = panel.querySelector(name);
        return part.scrollHeight > part.clientHeight || part.scrollWidth > part.clientWidth; })"""
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium found: install Debian's package chromium to run these"
)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jupyterlab")
    home = tmp_path_factory.mktemp("home")
    with browser.jupyterlab(folder) as address, browser.chromium(home) as chromium:
        reader = Reader(chromium, address, "15_self_test")
        reader.panel = reader.page.locator(PANEL)
        reader.address = address
        yield reader


@pytest.fixture(params=THEMES)
def theme(request, opened):
    opened.change_theme(request.param)


@pytest.fixture
def reader(opened):
    """A reader with a new panel, on a new test."""
    opened.panel.scroll_into_view_if_needed()
    cell = opened.panel.locator("xpath=ancestor::*[contains(@class, 'jp-CodeCell')]")
    prompt = cell.locator(".jp-InputPrompt").first
    before = prompt.inner_text()
    cell.locator(".cm-content").click()
    opened.page.keyboard.press("Control+Enter")
    expect(prompt).not_to_have_text(before)
    expect(prompt).not_to_have_text("[*]:")
    expect(opened.panel).to_have_count(1)
    sees(opened, SelfTest(), 1)
    yield opened
    assert opened.errors == [], "the page has complained in its console"


def choices(reader):
    return reader.panel.get_by_role("radiogroup", name="your answer").get_by_role("radio")


def sees(reader, plain, number):
    """The page shows what the plain test says of a question."""
    question = plain.ask(number)
    state = {None: "open", True: "right", False: "wrong"}[question.right]
    title = f"Question {number} of 23 · {question.about} · {state}"
    expect(reader.panel.locator(".leaselab-title")).to_have_text(title)
    expect(reader.panel.locator(".leaselab-text")).to_have_text(question.text.replace("`", ""))
    expect(choices(reader)).to_have_count(len(question.choices))
    for letter, words in question.letters.items():
        expect(reader.panel.get_by_text(f"{letter}) {words}".replace("`", ""))).to_be_visible()
    verdict = reader.panel.get_by_role("status")
    expect(verdict).to_contain_text((question.verdict or FIRST).replace("`", ""))
    pictures = reader.panel.locator("img")
    expect(pictures).to_have_count(len(question.evidence.traces) if question.evidence else 0)
    if question.evidence:
        expect(verdict).to_contain_text(question.why.replace("`", ""))
        expect(reader.panel.locator("li")).to_have_text(list(question.evidence.lines))
        for place, chart in enumerate(question.evidence.charts().values()):
            expect(pictures.nth(place)).to_have_attribute("alt", chart.sentence)
    score = plain.score
    expect(reader.panel.get_by_text(score.sentence, exact=True)).to_be_visible()
    expect(reader.panel.get_by_title(question.topic)).to_have_text(
        f"\u25b8 {question.topic}: {_words(score, question.topic)}"
    )


def _words(score, topic):
    count = score.topics[topic]
    answered = count[True] + count[False]
    told = f"{count[True]} of {answered} right, " if answered else ""
    return f"{told}{count[None]} open"


def test_by_mouse_a_wrong_and_a_right_answer_and_nothing_moves(reader, theme):
    plain = SelfTest()
    places = reader.panel.evaluate(PLACES)
    expect(reader.button("lock in")).to_be_disabled()
    assert violations(reader.page, PANEL) == {}
    for number, letter in ((1, "a"), (2, "b")):
        choices(reader).nth(LETTERS.index(letter)).check()
        reader.photograph(f"15_self_test question {number} {reader.theme}")
        reader.press("lock in")
        plain.ask(number, letter)
        sees(reader, plain, number)
        for choice in choices(reader).all():
            expect(choice).to_be_disabled()
        expect(reader.button("lock in")).to_be_disabled()
        assert reader.panel.evaluate(PLACES) == places
        assert violations(reader.page, PANEL) == {}
        assert reader.panel.locator("button").evaluate_all(CUT_OFF) == []
        reader.photograph(f"15_self_test verdict {number} {reader.theme}")
        reader.press("next")
        sees(reader, plain, number + 1)
        assert reader.panel.evaluate(PLACES) == places
    reader.press("back")
    sees(reader, plain, 2)


def test_by_keyboard_alone(reader, theme):
    """Tab to the answers, arrow keys to one of them, Tab to the button: and no other cell is chosen."""
    plain = SelfTest()
    keys = reader.page.keyboard
    reader.panel.get_by_title("The generation").focus()
    keys.press("Enter")
    sees(reader, plain, 6)
    choices(reader).first.focus()
    keys.press("Space")
    expect(choices(reader).nth(0)).to_be_checked()
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    expect(choices(reader).nth(2)).to_be_checked()
    keys.press("ArrowUp")
    expect(choices(reader).nth(1)).to_be_focused()
    keys.press("a")  # in JupyterLab a key that adds a cell
    expect(choices(reader).nth(1)).to_be_checked()
    expect(reader.button("lock in")).to_be_enabled()
    keys.press("Tab")
    expect(reader.button("lock in")).to_be_focused()
    keys.press("Enter")
    plain.ask(6, "b")
    sees(reader, plain, 6)
    keys.press("Tab")
    expect(reader.button("back")).to_be_focused()
    keys.press("Tab")
    keys.press("Enter")
    sees(reader, plain, 7)
    reader.panel.get_by_title("The generation").focus()
    keys.press("Enter")
    sees(reader, plain, 7)


@pytest.mark.parametrize("theme", ["Dark"], indirect=True)
def test_every_question_and_every_verdict_has_room(reader, theme):
    """Wrong answers, for their verdicts are the longest."""
    plain = SelfTest()
    for number, question in enumerate(plain.questions, start=1):
        right = LETTERS[list(question.choices).index(question.expected)]
        letter = next(letter for letter in question.letters if letter != right)
        assert reader.panel.evaluate(TOO_LONG) == [], number
        choices(reader).nth(LETTERS.index(letter)).check()
        reader.press("lock in")
        plain.ask(number, letter)
        sees(reader, plain, number)
        assert reader.panel.evaluate(TOO_LONG) == [], number
        reader.photograph(f"15_self_test {number:02} {reader.theme}")
        if number < len(plain.questions):
            reader.press("next")
            sees(reader, plain, number + 1)
    expect(reader.button("next")).to_be_disabled()


@pytest.mark.parametrize("theme", ["Light"], indirect=True)
def test_the_link_opens_the_lesson_and_leaves_the_test_where_it_is(reader, theme):
    choices(reader).first.check()
    reader.press("lock in")
    with reader.page.context.expect_page() as opening:
        reader.panel.get_by_role("link", name="01 · Claim and finish").click()
    lesson = opening.value
    lesson.get_by_role("heading", name="01 · Claim and finish").wait_for(timeout=60_000)
    assert "/lab" in lesson.url
    lesson.close()
    plain = SelfTest()
    plain.ask(1, "a")
    sees(reader, plain, 1)

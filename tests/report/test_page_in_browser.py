"""The page in a real browser: nothing on the console, tabs, axes and sorting work, it fits and opens at once."""

from __future__ import annotations

import itertools
import json

import pytest
from browser import EXECUTABLE, Browser
from synthetic import METHODS, MORE, TASKS, write_study
from test_build import HOSTILE

from adept.envs.procgen import GAMES
from adept.report.analysis import analyze
from adept.report.figures import draw_all
from adept.report.loading import load_comparison
from adept.report.page import render_page
from adept.report.summary import summarize

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(EXECUTABLE is None, reason="Chromium is not installed (apt-get install chromium)"),
]


def write_page(directory, output):
    analysis = analyze(load_comparison([directory]), resamples=200)
    output.write_text(render_page(analysis, summarize(analysis), draw_all(analysis)), encoding="utf-8")
    return output


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    found = Browser(tmp_path_factory.mktemp("browser") / "profile")
    yield found
    found.close()


@pytest.fixture
def browser(running):
    """A browser; nothing may be on its console at the end."""
    running.problems.clear()
    yield running
    assert running.problems == []


@pytest.fixture(scope="module")
def page(study, tmp_path_factory):
    return write_page(study, tmp_path_factory.mktemp("page") / "report.html")


def ends(browser) -> list[str]:
    """Return where the drawn curves end."""
    return browser.evaluate(f"[...document.querySelectorAll('{LINES}')].map(e => e.getAttribute('d').split('L').pop())")


LINES = "#curves path.line"
CHOSEN = "#tabs [aria-selected=true]"
TABS = "#tabs button"


def test_every_figure_is_there(browser, page):
    browser.open(page)
    for section, least in (("glance", 4), ("epochs", 1), ("more", 2)):
        assert browser.count(f"#{section} .figure > svg") >= least, section
    assert browser.count(LINES) == 5
    # Of the static figures, the text stays text.
    assert "DoorKey-6x6" in browser.text("#glance")


def test_the_axis_switch_moves_the_curves(browser, page):
    browser.open(page)
    steps = ends(browser)
    browser.click("#axis input[value=f]")
    assert ends(browser) != steps
    assert "FLOPs" in browser.text("#curves svg")
    browser.click("#axis input[value=steps]")
    assert ends(browser) == steps


def test_tabs_work_by_mouse_and_by_keyboard(browser, page):
    browser.open(page)
    shown = "[...document.querySelectorAll('.cells')].filter(e => !e.hidden).map(e => e.textContent).join('')"
    assert browser.text(CHOSEN) == "All tasks"
    assert browser.evaluate(shown) == ""
    browser.click(TABS, 1)
    assert browser.text(CHOSEN) == "DoorKey-6x6"
    assert "DoorKey-6x6 in numbers" in browser.evaluate(shown)
    browser.evaluate(f"document.querySelector('{CHOSEN}').focus()")
    browser.press("ArrowRight")
    assert browser.text(CHOSEN) == "LavaGapS7"
    assert browser.evaluate("document.activeElement.textContent") == "LavaGapS7"
    assert "2/3" in browser.evaluate(shown)
    assert "Dotted lines are runs that are not finished" in browser.text("#curves-caption")
    browser.press("End")
    browser.press("ArrowRight")
    assert browser.text(CHOSEN) == "All tasks"


def test_methods_can_be_hidden_shown_alone_and_by_group(browser, page):
    browser.open(page)
    assert browser.count(LINES) == 5
    browser.click('#legend button[data-m="2"]')
    assert browser.count('#legend button[data-m="2"][aria-pressed=false]') == 1
    assert browser.count(LINES) == 4
    assert browser.style("#glance svg .m2", "opacity") == "0.12"
    for drawn in (1, 5):  # again: all
        browser.click('#legend [aria-label="Only PPO (K=1)"]')
        assert browser.count(LINES) == drawn
    browser.evaluate("[...document.querySelectorAll('#legend .group')].find(e => e.textContent === 'ucb').click()")
    assert browser.count(LINES) == 4
    browser.click(TABS, 1)
    browser.click("#seeds")
    assert browser.count("#curves path.thin") == 3 + 3 + 3 + 2


def test_the_address_keeps_the_choice(browser, page):
    browser.open(page)
    browser.click(TABS, 1)
    browser.click('#legend button[data-m="2"]')
    browser.click("#axis input[value=f]")
    address = browser.evaluate("location.hash")
    assert address == "#task=minigrid%2FDoorKey-6x6&axis=f&hide=ucb"
    drawn = ends(browser)
    browser.open(page)
    assert browser.count(LINES) == 5
    browser.evaluate(f"location.hash = '{address}'; new Promise(done => setTimeout(() => done(1), 100))")
    assert ends(browser) == drawn
    assert browser.evaluate("document.querySelector('#axis input:checked').value") == "f"
    browser.open(page)


CURVES = "(r => [r.x, r.y, r.width, r.height])(document.querySelector('#curves > svg').getBoundingClientRect())"


def test_a_drag_zooms_and_a_button_goes_back(browser, page):
    browser.open(page)
    whole = ends(browser)
    browser.evaluate("document.querySelector('#curves').scrollIntoView({behavior: 'instant'})")
    left, top, width, _ = browser.evaluate(CURVES)
    for kind, share in (("mousePressed", 0.2), ("mouseMoved", 0.3), ("mouseReleased", 0.4)):
        browser.call("Input.dispatchMouseEvent", type=kind, x=left + share * width, y=top + 100, button="left",
                     buttons=1, clickCount=1)  # fmt: skip
    assert ends(browser) != whole
    assert "zoom=0." in browser.evaluate("location.hash")
    browser.click("#unzoom")
    assert ends(browser) == whole
    assert browser.count("#unzoom[hidden]") == 1


def test_end_labels_do_not_overlap(browser, tmp_path):
    write_study(tmp_path / "grid", [*METHODS, *MORE], TASKS[:1], [1, 2], iterations=8)
    browser.open(write_page(tmp_path / "grid", tmp_path / "report.html"))
    names = "document.querySelectorAll('#curves text.name')"
    boxes = browser.evaluate(f"[...{names}].map(e => Number(e.getAttribute('y')))")
    assert len(boxes) == 13
    assert all(b - a >= 13.9 for a, b in itertools.pairwise(sorted(boxes)))


def test_tables_sort(browser, page):
    browser.open(page)
    browser.click("#methods thead button", 2)
    assert browser.text("#methods tbody th") == "ADEPT(U) {4,2,1}"
    assert browser.count("#methods thead th:nth-child(3)[aria-sort=descending]") == 1
    browser.click("#methods thead button", 2)
    assert browser.text("#methods tbody th") == "PPO (K=1)"


def test_the_pointer_and_the_arrow_keys_tell_values(browser, page):
    browser.open(page)
    browser.evaluate("document.querySelector('#curves > svg').focus()")
    browser.press("ArrowLeft")
    assert "ADEPT(U)" in browser.text("#curves .tip")
    left, top, width, height = browser.evaluate(CURVES)
    browser.evaluate("document.querySelector('#curves > svg').blur()")
    assert browser.count("#curves .tip[hidden]") == 1
    event = f"new PointerEvent('pointermove', {{clientX: {left + width / 3}, clientY: {top + height / 2}}})"
    browser.evaluate(f"document.querySelector('#curves > svg').dispatchEvent({event})")
    assert browser.count("#curves .tip[hidden]") == 0


@pytest.mark.parametrize("width", [1280, 768, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_screen_in_both_lights(browser, page, width, dark, tmp_path):
    browser.open(page, width=width, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    ground = browser.style("body", "backgroundColor")
    assert contrast(ground, browser.style(".headline", "color")) > 10
    assert contrast(ground, browser.style("figcaption", "color")) > 4.5
    drawings = "document.querySelectorAll('.chart > svg, .figure > svg')"
    assert max(browser.evaluate(f"[...{drawings}].map(e => e.getBoundingClientRect().right)")) <= width + 1
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two computed colours (WCAG 2)."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[4:-1].split(",")]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


def test_it_prints_without_controls(browser, page):
    browser.open(page, dark=True)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.call("Emulation.setEmulatedMedia", media="print", features=dark)
    try:
        assert browser.style(".tabs", "display") == "none"
        assert contrast(browser.style(".headline", "color"), "rgb(255,255,255)") > 10
    finally:
        browser.call("Emulation.setEmulatedMedia", media="screen")


def test_hostile_names_do_nothing(browser, tmp_path):
    methods = [("fixed-4", f"base {HOSTILE}", *METHODS[0][2:]), ("ucb", HOSTILE, *METHODS[2][2:])]
    write_study(tmp_path / "grid", methods, TASKS[:1], [1, 2], iterations=6)
    browser.open(write_page(tmp_path / "grid", tmp_path / "report.html"))
    browser.click(TABS, 1)
    assert browser.evaluate("document.title") == "A made-up study"
    assert browser.count("img, #panel script") == 0
    labels = browser.evaluate("[...document.querySelectorAll('#legend button[data-m]')].map(e => e.textContent)")
    assert labels == [f"base {HOSTILE}", HOSTILE]


def test_imported_logs_alone_have_no_flops(browser, tmp_path):
    from test_importing import write_events

    for method in ("ours", "theirs"):
        for seed in (1, 2, 3):
            points = [(1000 * index, index + seed) for index in range(1, 30)]
            write_events(tmp_path / "logs" / method / "Hopper" / f"PPO_{seed}", points, "rollout/ep_rew_mean")
    browser.open(write_page(tmp_path / "logs", tmp_path / "report.html"))
    assert browser.evaluate("[...document.querySelectorAll('#axis input')].map(e => e.value)") == ["steps"]
    assert browser.count("[id^=score-against]") == 0


def test_sixteen_hundred_runs_make_a_small_page_that_opens(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda file: None)  # invented runs need not survive a power cut
    tasks = [f"procgen/{game}" for game in GAMES]
    write_study(tmp_path / "grid", [*METHODS, *MORE[:5]], tasks, range(1, 11), iterations=100)
    page = write_page(tmp_path / "grid", tmp_path / "report.html")
    data = json.loads(page.read_text().partition('id="data">')[2].partition("</script>")[0])
    lines = [line for curves in data["curves"].values() for line in curves["lines"]]
    assert sum(len(line.get("seeds", ())) for line in lines) == 1600
    browser.open(page)  # 0.4 s on an idle core; no clock decides a test
    assert page.stat().st_size < 4_000_000

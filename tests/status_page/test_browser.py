"""The pages of a real front and a real agent in a real browser: live, readable, and within the window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.chromium import NARROW, WIDE, browser, look_at, need_chromium, requested, running_browser
from tests.status_page.stage import Stage, broker, furnish, staged, topics
from tests.support import wait_until

__all__ = ["browser"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PROCESSES: Final = ("front", "agent")
PATIENCE_S: Final = 30.0

CONTRAST: Final = """
const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = (rgb) => {
  const [r, g, b] = rgb.map((c) => linear(c / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const numbers = (text) => text.match(/[0-9.]+/g).map(Number);
const back = (node) => {
  for (let one = node; one; one = one.parentElement) {
    const [r, g, b, a = 1] = numbers(getComputedStyle(one).backgroundColor);
    if (a > 0) return [r, g, b];
  }
  throw new Error("nothing is behind it");
};
const found = [];
for (const node of document.querySelectorAll("body *")) {
  const says = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
  const isSilent = ["SCRIPT", "STYLE", "NOSCRIPT"].includes(node.tagName);
  if (!says || isSilent || !node.getClientRects().length) continue;
  const [one, other] = [light(numbers(getComputedStyle(node).color).slice(0, 3)), light(back(node))];
  const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  found.push([ratio, node.tagName + " " + node.textContent.trim().slice(0, 40)]);
}
return found.sort((one, other) => one[0] - other[0]);
"""
"""Returns the contrast of each text with what is behind it, the least first (WCAG 2.2: 4.5 is enough)."""


OUTSIDE: Final = """
const heads = (one) => one.closest("thead");  // for ears alone on a phone, and clipped
const isOut = (one) => one.getClientRects().length && one.getBoundingClientRect().right > innerWidth + 1;
const found = [...document.querySelectorAll("main *")].filter((one) => isOut(one) && !heads(one));
return found.map((one) => one.outerHTML);
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("stage")) as found:
        yield found


@pytest.fixture(params=PROCESSES)
def address(request: pytest.FixtureRequest, stage: Stage) -> str:
    return stage.pages[request.param]


def says(browser: webdriver.Chrome, anchor: str) -> str:
    return browser.find_element(By.ID, anchor).text


def until_says(browser: webdriver.Chrome, anchor: str, text: str) -> None:
    def does() -> bool:
        try:
            return text in says(browser, anchor)
        except (NoSuchElementException, StaleElementReferenceException):  # the page is being replaced
            return False

    wait_until(does, timeout_s=PATIENCE_S, description=f"#{anchor} says {text!r}")


def open_page(browser: webdriver.Chrome, address: str) -> None:
    """Open a page, and wait until it is live."""
    browser.get(address)
    until_says(browser, "live", "is live")


def test_it_updates_itself_and_asks_nobody_else(
    browser: webdriver.Chrome, stage: Stage, address: str
) -> None:
    look_at(browser, WIDE)
    browser.get("about:blank")
    browser.get_log("browser")
    requested(browser)
    open_page(browser, address)
    name = f"late-{'front' if address == stage.pages['front'] else 'agent'}"
    held = stage.store.register(broker(name, "10.9.9.9:10911"), topics(name))
    until_says(browser, "brokers", name)
    until_says(browser, "topics", name)
    until_says(browser, "changes", f"{name}:0")
    stage.store.unregister(held, reason="the test is over")
    until_says(browser, "changes", "the test is over")
    until_says(browser, "faults", name)
    stage.store.admin.forget(name)
    assert browser.get_log("browser") == []  # what the policy refuses would stand there
    assert all(url.startswith((address, "data:", "about:")) for url in requested(browser))


def test_it_is_the_same_without_javascript(stage: Stage, tmp_path: Path) -> None:
    need_chromium()
    stage.store.kv.put("ORDER_TOPIC_CONFIG", "mails", "broker-c:8")  # one of the newest changes
    with running_browser(tmp_path, javascript=False) as browser:
        for address in stage.pages.values():
            browser.get(address)
            assert "read anew every 10 seconds" in says(browser, "live")
            for anchor, text in (("topics", "orders"), ("changes", "mails"), ("feed", "kept")):
                until_says(browser, anchor, text)  # by then it was read anew
            field = browser.find_element(By.ID, "q")
            field.send_keys("broker-b", Keys.ENTER)
            wait_until(
                lambda: "q=broker-b" in browser.current_url,
                timeout_s=PATIENCE_S,
                description="it is filtered",
            )
            until_says(browser, "brokers", "10.0.0.12:10911")
            assert "broker-c" not in says(browser, "brokers")


def test_without_javascript_it_is_read_anew_by_itself(stage: Stage, tmp_path: Path) -> None:
    need_chromium()
    with running_browser(tmp_path, javascript=False) as browser:
        browser.get(stage.pages["front"])
        held = stage.store.register(broker("refreshed", "10.9.9.5:10911"), topics("refreshed"))
        until_says(browser, "topics", "refreshed")
        assert "read anew every 10 seconds" in says(browser, "live")
    stage.store.unregister(held)
    stage.store.admin.forget("refreshed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_it_fits_the_window_and_can_be_read(
    browser: webdriver.Chrome, address: str, width: int, scheme: str
) -> None:
    look_at(browser, width, scheme)
    open_page(browser, address)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    ratios: list[tuple[float, str]] = browser.execute_script(CONTRAST)
    assert len(ratios) > 50
    assert ratios[0][0] >= 4.5, ratios[:5]
    assert browser.execute_script(OUTSIDE) == []


def test_what_is_selected_is_left_alone_until_it_is_not(browser: webdriver.Chrome, stage: Stage) -> None:
    look_at(browser, WIDE)
    open_page(browser, stage.pages["front"])
    browser.execute_script("getSelection().selectAllChildren(document.getElementById('topics'))")
    held = stage.store.register(broker("unseen", "10.9.9.8:10911"), topics("unseen"))
    until_says(browser, "brokers", "unseen")
    assert "unseen" not in says(browser, "topics")
    browser.execute_script("getSelection().removeAllRanges()")
    until_says(browser, "topics", "unseen")
    stage.store.unregister(held)
    stage.store.admin.forget("unseen")


def test_the_keyboard_keeps_its_place(browser: webdriver.Chrome, stage: Stage) -> None:
    look_at(browser, WIDE)
    open_page(browser, stage.pages["front"])
    browser.execute_script("document.querySelector('#glance a[href=\"#topics\"]').focus()")
    held = stage.store.register(broker("passing", "10.9.9.7:10911"), topics("passing"))
    until_says(browser, "brokers", "passing")
    assert browser.execute_script("return document.activeElement.getAttribute('href')") == "#topics"
    stage.store.unregister(held)
    stage.store.admin.forget("passing")


def test_hostile_clients_and_reasons_stay_text(browser: webdriver.Chrome, stage: Stage) -> None:
    hostile = "<img/src=x/onerror=document.title='owned'>"
    look_at(browser, NARROW)
    open_page(browser, stage.pages["front"])
    held = stage.store.register(broker("hostile", "10.9.9.6:10911"), topics("hostile"))
    stage.store.unregister(held, reason=hostile)
    until_says(browser, "changes", hostile)
    assert browser.title == "Name server front: sharedroutes"
    assert browser.find_elements(By.CSS_SELECTOR, "main img") == []
    stage.store.admin.forget("hostile")


def test_a_store_that_is_away_is_said_beside_what_it_said_last(
    browser: webdriver.Chrome, stage: Stage
) -> None:
    look_at(browser, WIDE)
    open_page(browser, stage.pages["agent"])
    try:
        stage.server.stop()
        until_says(browser, "faults", "below is what it said")
        assert "broker-b" in says(browser, "brokers")
    finally:
        stage.server.start()
        furnish(stage.store, stage.server.url)  # it comes back empty
    wait_until(
        lambda: "below is what it said" not in says(browser, "faults"),
        timeout_s=PATIENCE_S,
        description="the store is back",
    )
    until_says(browser, "brokers", "broker-a")

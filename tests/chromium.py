"""A headless Chromium, driven by its own driver; for tests and for pictures."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS: Final = (
    "headless",
    "no-sandbox",
    "no-first-run",
    "disable-gpu",
    "disable-sync",
    "disable-dev-shm-usage",
    "disable-background-networking",
    "disable-component-update",
    "hide-scrollbars",
)
WIDE: Final = 1280
NARROW: Final = 400


def missing() -> str:
    """Return which program is not there; empty = none is missing."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"no {' and no '.join(absent)}: apt-get install chromium chromium-driver" if absent else ""


@contextmanager
def running_browser(folder: Path, *, javascript: bool = True) -> Iterator[webdriver.Chrome]:
    """Run a browser with its profile in a folder."""
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    scripts = () if javascript else ("blink-settings=scriptEnabled=false",)
    for flag in (*FLAGS, *scripts, f"user-data-dir={folder}"):
        options.add_argument(f"--{flag}")
    found = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield found
    finally:
        found.quit()


def need_chromium() -> None:
    """Skip a test where there is no Chromium, which fails where CI=true."""
    if problem := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(problem)
        pytest.skip(problem)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Return a headless Chromium."""
    need_chromium()
    with running_browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


def look_at(browser: webdriver.Chrome, width: int, scheme: str = "light", height: int = 900) -> None:
    """Make the window that wide, and let pages be light or dark."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width == NARROW}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def requested(browser: webdriver.Chrome) -> set[str]:
    """Return all URLs that were asked for since the last call."""
    messages: list[dict[str, Any]] = [
        json.loads(entry["message"])["message"] for entry in browser.get_log("performance")
    ]
    sent = [one["params"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    return {str(params["request"]["url"]) for params in sent}

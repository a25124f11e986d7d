"""A report of a small history with known failures: its files, and its page in a real browser."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from sharedroutes.pipeline.report import ANSWERS, History, write_report
from tests.pipeline.answering import (
    changes_of,
    down,
    fault,
    faults_of,
    gap,
    route,
    routes_of,
    sample,
    samples_of,
    topics,
    up,
)

DAY_MS: Final = 1_795_219_200_000
"""2026-11-21 00:00:00 UTC."""

OLDER: Final = "an older page"
FLAGS: Final = (
    "headless",
    "no-sandbox",
    "no-first-run",
    "disable-gpu",
    "disable-sync",
    "disable-dev-shm-usage",
    "disable-background-networking",
    "disable-component-update",
)


class Written(NamedTuple):
    """A report, and the answers in the order in which they were worked out."""

    page: Path
    told: list[str]

    def rows(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = pq.read_table(
            self.page.parent / "tables" / f"{name}.parquet"
        ).to_pylist()
        return found


def history(spark: SparkSession) -> History:
    """A broker that is killed after a minute and back after two, and one that stays; a gap at the end."""
    at = DAY_MS
    changes = [
        up(at, "broker-a"),
        topics(at + 1, "broker-a", added=["orders"]),
        up(at + 2, "broker-b"),
        topics(at + 3, "broker-b", added=["orders", "<b>odd</b>"]),
        down(at + 60_000, "broker-b", "expired", lease_ended_ms=at + 59_900),
        up(at + 120_000, "broker-b", epoch=2),
        gap(at + 180_000, at + 181_000),
        up(at + 182_000, "broker-a", epoch=3),
    ]
    samples = [sample(at + second * 1_000, "c", "broker-a") for second in range(180)]
    samples += [sample(at + second * 1_000 + 500, "c", "broker-b") for second in range(50)]
    return History(
        changes=changes_of(spark, changes),
        samples=samples_of(spark, samples),
        routes=routes_of(spark, [route("broker-a", "orders"), route("broker-b", "orders")]),
        faults=faults_of(spark, [fault(at + 50_000, "broker-b", "frozen")]),
    )


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    told: list[str] = []
    out = tmp_path_factory.mktemp("report")
    (out / "report.html").write_text(OLDER, encoding="utf-8")
    page = write_report(history(spark), out, title="A <drill>", on_answer=told.append)
    return Written(page, told)


def test_every_answer_is_a_parquet_and_a_csv_file_that_say_the_same(written: Written) -> None:
    folder = written.page.parent / "tables"
    names = {path.stem for path in folder.iterdir()}
    assert names == {*written.told} - {"page"}
    for name in names:
        parquet, csv = pq.read_table(folder / f"{name}.parquet"), pa_csv.read_csv(folder / f"{name}.csv")
        assert (csv.column_names, csv.num_rows) == (parquet.column_names, parquet.num_rows)


def test_the_progress_is_told_by_as_many_steps_as_are_promised(written: Written) -> None:
    assert len(written.told) == ANSWERS


def test_the_tables_show_the_failure_at_its_time(written: Written) -> None:
    (found,) = [row for row in written.rows("detection") if row["broker"] == "broker-b"]
    assert found["what"] == "frozen"
    assert (found["fault_ms"] - DAY_MS, found["told_ms"] - DAY_MS) == (50_000, 60_000)
    ended = [(row["end_ms"] - DAY_MS, row["ended"]) for row in written.rows("broker_sessions")]
    assert (59_900, "expired") in ended


def test_it_takes_the_place_of_an_older_report(written: Written) -> None:
    assert OLDER not in written.page.read_text(encoding="utf-8")
    assert sorted(path.name for path in written.page.parent.iterdir()) == ["report.html", "tables"]


def installed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        problem = f"no {program}: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Return a headless Chromium; skips without one, which fails where CI=true."""
    options = Options()
    options.binary_location = installed("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for flag in (*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(f"--{flag}")
    found = webdriver.Chrome(options=options, service=Service(installed("chromedriver")))
    yield found
    found.quit()


def test_the_page_stands_in_a_real_browser_by_itself(written: Written, browser: webdriver.Chrome) -> None:
    browser.get(written.page.as_uri())
    assert browser.title == "A <drill>"
    pictures = browser.find_elements(By.TAG_NAME, "img")
    widths = [browser.execute_script("return arguments[0].naturalWidth", one) for one in pictures]
    assert len(widths) == 4
    assert min(widths) > 100
    text = browser.find_element(By.TAG_NAME, "body").text
    assert "2026-11-21 00:00:50.000" in text  # the fault
    assert "2026-11-21 00:00:59.900" in text  # the end of the lease
    assert "changes were lost after 2026-11-21 00:03:00.000" in text
    assert browser.get_log("browser") == []
    assert requested(browser) <= {"file", "data", "chrome"}  # the last is its own empty first page


def requested(browser: webdriver.Chrome) -> set[str]:
    """Return the schemes of all URLs that were asked for."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [one["params"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    return {params["request"]["url"].partition(":")[0] for params in sent}

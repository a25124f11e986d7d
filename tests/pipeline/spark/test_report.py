"""A history with known failures through the commands: ingested, compacted, reported, read in a browser."""

from __future__ import annotations

import csv
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis
from pyspark.sql import SparkSession
from selenium import webdriver
from selenium.webdriver.common.by import By

from sharedroutes.pipeline.report import ANSWERS, History, Report, write_report
from sharedroutes.pipeline.report.charts import Span, lost_time
from sharedroutes.pipeline.report.words import time_text
from sharedroutes.registry import Broker, Change, ChangeKind, EmbeddedServer, RouteStore, TopicConfig
from sharedroutes.registry.codec import encode_change
from tests.chromium import NARROW, WIDE, browser, look_at, requested
from tests.pipeline.answering import (
    TTL_MS,
    changes_of,
    deleted,
    down,
    fault,
    forgotten,
    sample,
    samples_of,
    topics,
    up,
    wiped,
)
from tests.pipeline.commands import Ran, run
from tests.pipeline.ingest_history import STREAM

__all__ = ["browser"]

pytestmark = pytest.mark.timeout(600)
"""Three ingests, a compaction and all answers, one after the other."""

DAY_MS: Final = 1_795_219_200_000
"""2026-11-21 00:00:00 UTC."""

OLDER: Final = "an older page"
_NOTE: Final = '<span class="faint">(.+?)</span>'
_TILE: Final = re.compile(rf'<a class="tile \w*" href="#\w+">{_NOTE}<b>(.+?)</b>{_NOTE}')


@dataclass(frozen=True)
class Left:
    """The page of a report, and the tables beside it."""

    page: Path

    @property
    def html(self) -> str:
        return self.page.read_text(encoding="utf-8")

    @property
    def tiles(self) -> dict[str, tuple[str, str]]:
        """Value and note of each."""
        return {name: (value, note) for name, value, note in _TILE.findall(self.html)}

    def rows(self, name: str) -> list[dict[str, Any]]:
        path = self.page.parent / "tables" / f"{name}.parquet"
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return found


@dataclass(frozen=True)
class Written(Left):
    """What the commands printed, and the report that they left."""

    ingested: list[Ran]
    compacted: Ran
    reported: Ran

    @property
    def told(self) -> list[str]:
        """The answers in the order in which they were worked out."""
        return [line.partition(" ")[2] for line in self.steps]

    @property
    def steps(self) -> list[str]:
        """What was told of the progress."""
        return [line for line in self.reported.err.splitlines() if re.match(r"\d+/\d+ ", line)]


def known() -> list[Change]:
    """A broker is killed after a minute and back after two, one has four owners; a setting the day before."""
    at, lease = DAY_MS, {"lease_ttl_ms": TTL_MS}
    return [
        change(at - 1_000, ChangeKind.KV, "", namespace="n", key="k", reason="put"),
        change(at, ChangeKind.UP, "broker-a", address="a:1", **lease),
        change(at + 1, ChangeKind.TOPICS, "broker-a", added=("orders",)),
        change(at + 2, ChangeKind.UP, "broker-b", address="b:1", **lease),
        change(at + 3, ChangeKind.TOPICS, "broker-b", added=("orders", "<b>odd</b>")),
        *(
            change(at + 10_000 * n, ChangeKind.UP, "broker-c", n, address="c:1", **lease)
            for n in (1, 2, 3, 4)
        ),
        change(at + 60_000, ChangeKind.DOWN, "broker-b", reason="expired", lease_ended_ms=at + 59_900),
        change(at + 120_000, ChangeKind.UP, "broker-b", 2, address="b:1", **lease),
        change(at + 180_000, ChangeKind.KV, "", namespace="n", key="k", reason="put"),
    ]


def change(ms: int, kind: ChangeKind, broker: str, epoch: int = 1, **more: Any) -> Change:
    named: dict[str, Any] = {"broker_name": broker, "epoch": epoch, "cluster": "c"} if broker else {}
    return Change(kind=kind, change_id=f"{ms}-0", **named, **more)


def write(client: redis.Redis, *changes: Change) -> None:
    for one in changes:
        client.xadd(STREAM, {"c": encode_change(one)}, id=one.change_id)


def ingested(url: str, history: Path) -> list[Ran]:
    """Ingest the changes, one record that is none, and what came after others were lost."""
    ingest = ("ingest", "--once", "--redis", url, "--out", history)
    with redis.Redis.from_url(url) as client:
        client.xadd(STREAM, {"c": b"no change"}, id=f"{DAY_MS - 2_000}-0")
        write(client, *known())
        first = run(*ingest)
        client.xtrim(STREAM, maxlen=0)
        write(client, change(DAY_MS + 182_000, ChangeKind.UP, "broker-a", 3, address="a:1"))
        return [first, run(*ingest), run(*ingest, "--on-loss", "mark")]


def others(url: str, folder: Path) -> tuple[object, ...]:
    """Write samples, faults and routes; return the words that name them."""
    samples = [sample(DAY_MS + second * 1_000, "c", "broker-a") for second in range(180)]
    samples += [sample(DAY_MS + second * 1_000 + 500, "c", "broker-b") for second in range(50)]
    lines = [*map(orjson.dumps, samples), b"no sample"]
    (folder / "samples.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    killed = {**fault(DAY_MS + 50_000, "broker-b", "frozen"), "registry": "sharedroutes"}
    (folder / "faults.jsonl").write_bytes(orjson.dumps(killed))
    with RouteStore.from_url(url) as store:
        for name in ("broker-a", "broker-b"):
            store.register(Broker(name, f"{name}:1", cluster="c"), [TopicConfig("orders")])
    return ("--samples", folder / "samples.jsonl", "--faults", folder / "faults.jsonl", "--routes", url)


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    folder = tmp_path_factory.mktemp("report")
    history, out = folder / "history", folder / "report"
    out.mkdir()
    (out / "report.html").write_text(OLDER, encoding="utf-8")
    with EmbeddedServer() as server:
        came = ingested(server.url, history)
        compacted = run("compact", "--out", history)
        places = others(server.url, folder)
        reported = run(
            *("report", "--changes", history, *places, "--out", out, "--title", "A <drill>"),
            *("--slo", "99.9", "--until", DAY_MS + 182_000),
        )
        yield Written(out / "report.html", came, compacted, reported)


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(scope="module")
def killed(written: Written, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a report in which the next one was killed."""
    out = tmp_path_factory.mktemp("killed") / "report"
    shutil.copytree(written.page.parent, out)

    def kill(answer: str) -> None:
        if answer == "topic_budgets":
            raise Killed

    with pytest.raises(Killed):
        write_report(lasting(spark, DAY_MS), str(out), on_answer=kill)
    return out


def lasting(spark: SparkSession, last_ms: int) -> History:
    """A topic is out, a broker is wiped, another one had three owners, and since then nothing has changed."""
    began_ms = last_ms - 86_400_000
    rows = [
        *(topics(began_ms, "broker-a", added=["orders"]), up(began_ms + 1_000, "broker-a")),
        *(up(began_ms + 10_000 * turn, "owned", turn) for turn in (1, 2, 3)),
        *(up(began_ms + 40_000, "wiped"), wiped(last_ms - 60_000, "wiped")),
        down(last_ms, "broker-a", "broker gone"),
    ]
    return History(changes=changes_of(spark, rows), slo=99.0)


@dataclass(frozen=True)
class Told(Left):
    """A report without commands, and when the last change came."""

    done: Report
    last_ms: int

    @classmethod
    def of(cls, history: History, out: Path, last_ms: int) -> Told:
        done = write_report(history, str(out))
        return cls(Path(done.page), done, last_ms)


@pytest.fixture(scope="module")
def still_out(killed: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Return a report up to now, a minute after the last change, in the folder of the one that was killed."""
    out = tmp_path_factory.mktemp("still-out") / "report"
    shutil.copytree(killed, out)
    (out / "_unfinished" / "incidents.parquet" / "of-the-killed-one").touch()
    last_ms = time.time_ns() // 1_000_000 - 60_000
    return Told.of(lasting(spark, last_ms), out, last_ms)


@pytest.fixture(scope="module")
def operated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Return a report on what operators did, and on brokers that are alive and of no use."""
    by = {"by": "sharedroutes wipe of alice@ops", "user": "ops"}
    rows = [
        *(row for name in "ab" for row in (topics(DAY_MS, name, added=["gone", "back"]), up(DAY_MS, name))),
        *(up(DAY_MS + 10_000 * turn, "fought", turn + 1, address=f"{turn % 2}:1") for turn in range(4)),
        *(up(DAY_MS, "slow"), up(DAY_MS, "well")),
        wiped(DAY_MS + 5_000, "a") | by,
        deleted(DAY_MS + 6_000, "back", "a", "b") | by,
        topics(DAY_MS + 70_000, "b", added=["back"]),
        deleted(DAY_MS + 80_000, "gone", "a", "b") | {"by": "mqadmin at front f", "user": ""},
        down(DAY_MS + 90_000, "b", "drained") | by | {"by": "agent at host-b"},
        forgotten(DAY_MS + 95_000, "b") | {"by": "sharedroutes forget of bob@ops"},
    ]
    sent = [sample(DAY_MS + second * 1_000, "c", "slow", outcome="failed") for second in range(9)]
    sent += [sample(DAY_MS + second * 1_000, "c", "well") for second in range(9)]
    changes, until_ms = changes_of(spark, rows), DAY_MS + 100_000
    history = History(changes=changes, samples=samples_of(spark, sent), until_ms=until_ms)
    return Told.of(history, tmp_path_factory.mktemp("operated"), DAY_MS + 95_000)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_ingest_says_what_it_kept_and_that_changes_are_lost(written: Written) -> None:
    first, lost, marked = written.ingested
    assert (first.status, first.out) == (0, "12 changes in 1 batches, 1 set aside\n")
    started, batch = first.err.splitlines()
    assert started.startswith("ingesting into ")
    assert re.match(
        r"batch 0001-000000000000: 12 changes in [\d.]+ s; sharedroutes: 0 unread \(0 % of ", batch
    )
    assert (lost.status, lost.out) == (1, "")
    assert "Error: registry sharedroutes: no change stands at " in lost.err
    assert "mark the loss to go on with a row of kind gap" in lost.err
    assert (marked.status, marked.out) == (0, "2 changes in 1 batches, 0 set aside\n")


def test_a_compaction_says_how_many_days_of_which_tables(written: Written) -> None:
    assert (written.compacted.status, written.compacted.out) == (
        0,
        "compacted: 1 day of changes, 1 day of quarantine; dropped: nothing\n",
    )
    day = "2026-11-20: 1 rows of 1 folders, "
    assert [line[: line.index(day) + len(day)] for line in written.compacted.err.splitlines()] == [
        f"{table} of {day}" for table in ("changes", "quarantine")
    ]


def test_a_report_prints_its_progress_and_at_last_the_path_of_the_page(written: Written) -> None:
    assert written.reported.out == f"{written.page}\n"
    steps = [line.partition(" ")[0] for line in written.steps]
    count = len(ANSWERS) + 1  # the page
    assert steps == [f"{number}/{count}" for number in range(1, count + 1)]


def test_a_report_ends_as_the_objective_says(written: Written) -> None:
    assert written.reported.status == 3
    assert re.match(
        r"judged up to 20\S+: 1 topic missed the objective", written.reported.err.splitlines()[-1]
    )
    missed = [row["topic"] for row in written.rows("topic_budgets") if row["verdict"] == "missed"]
    assert missed == ["<b>odd</b>"]


def test_what_a_report_is_to_be_made_from_is_checked_before_the_first_answer(
    written: Written, tmp_path: Path
) -> None:
    history = written.page.parents[1] / "history"
    faults, routes = tmp_path / "faults.jsonl", tmp_path / "routes.parquet"
    pq.write_table(pa.table({"broker": ["b"]}), routes)
    report = ("report", "--changes", history, "--out", tmp_path / "out")
    for line, words, problem in (
        (
            '{"registry": "r", "at_ms": "noon", "what": "killed"}',
            ("--faults", faults),
            f"--faults: {faults}: ",
        ),
        ('{"at_ms": 1, "what": "killed"}', ("--faults", faults), "--faults: "),
        ("", ("--faults", tmp_path / "none"), "--faults: reading it failed: there is nothing at file:"),
        ("", ("--routes", routes), f"--routes: {routes} is no snapshot: registry, "),
        (
            "",
            ("--until", DAY_MS - 9_000_000),
            f"--until: {DAY_MS - 9_000_000} is before the first change, which came at ",
        ),
    ):
        faults.write_text(line)
        ran = run(*report, *words)
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
        assert ran.err.startswith(f"Error: {problem}")


def test_every_answer_is_a_parquet_and_a_csv_file_that_say_the_same(written: Written) -> None:
    folder = written.page.parent / "tables"
    names = {path.stem for path in folder.iterdir()}
    assert names == {*written.told} - {"page"}
    for name in names:
        parquet = pq.read_table(folder / f"{name}.parquet")
        rows = [
            row
            for path in (folder / f"{name}.csv").glob("*.csv")
            for row in csv.reader(path.read_text().splitlines())
        ]
        heads = {tuple(row) for row in rows if row[0] == parquet.column_names[0]}
        assert heads <= {tuple(parquet.column_names)}
        assert len(rows) - len(heads) == parquet.num_rows


def test_the_tables_show_the_failure_at_its_time(written: Written) -> None:
    (found,) = [row for row in written.rows("detection") if row["broker"] == "broker-b"]
    assert found["what"] == "frozen"
    assert (found["fault_ms"] - DAY_MS, found["told_ms"] - DAY_MS) == (50_000, 60_000)
    ended = [(row["end_ms"] - DAY_MS, row["ended"]) for row in written.rows("broker_sessions")]
    assert (59_900, "expired") in ended


def test_it_takes_the_place_of_an_older_report(written: Written) -> None:
    assert OLDER not in written.html
    assert sorted(path.name for path in written.page.parent.iterdir()) == ["report.html", "tables"]


def test_a_report_that_is_killed_leaves_the_older_one(written: Written, killed: Path) -> None:
    assert (killed / "_unfinished" / "incidents.parquet").is_dir()
    left = {path: text for path, text in contents(killed).items() if path.parts[0] != "_unfinished"}
    assert left == contents(written.page.parent)


def test_the_next_report_tidies_up_after_older_ones(still_out: Told) -> None:
    out = still_out.page.parent
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "tables"]
    assert not [*out.rglob("of-the-killed-one")]
    assert not (out / "tables" / "clients.parquet").exists()  # the older one had samples, this one has not
    assert (out / "tables" / "incidents.parquet").exists()


def test_an_outage_that_lasts_is_judged_up_to_now_and_never_met(still_out: Told) -> None:
    """Nothing changes after it began, a minute ago: its budget of a day is not spent yet."""
    done = still_out.done
    assert (done.missed, done.burning) == (0, 1)
    assert done.until_ms - 60_000 >= still_out.last_ms
    warning, quiet = done.warnings
    assert warning.startswith("1 topic still out at the end, ")
    assert quiet.startswith("nothing has changed since 20")
    assert f'<p class="warning">{warning}</p>' in still_out.html
    assert still_out.tiles["at the end"][0] == "1 topic out"
    value, note = still_out.tiles["objective 99 %"]
    assert (value, note.rpartition(" up to ")[0]) == (
        "burning",
        "0 missed it, 1 burning besides, of 1 topic,",
    )


def test_what_operators_did_stands_on_the_page_with_who_it_was(operated: Told) -> None:
    tiles = {name: note for name, (_, note) in operated.tiles.items()}
    assert tiles["latest topic that went"] == (
        "gone from a, b at 2026-11-21 00:01:20 (by mqadmin at front f), still gone after 20 s"
    )
    assert tiles["at the end"].endswith("2026-11-21 00:00:05: a (by sharedroutes wipe of alice@ops as ops)")
    acts = operated.rows("operations")
    assert [(row["did"], row["brokers"], row["topics"], row["by"]) for row in acts] == [
        ("wiped", ["a"], [], "sharedroutes wipe of alice@ops as ops"),
        ("deleted", ["a", "b"], ["back"], "sharedroutes wipe of alice@ops as ops"),
        ("deleted", ["a", "b"], ["gone"], "mqadmin at front f"),
        ("forgotten", ["b"], [], "sharedroutes forget of bob@ops"),
    ]
    assert {row["ended_by"] for row in operated.rows("broker_sessions")} == {"agent at host-b as ops", None}
    topics_of = operated.rows("topic_availability")
    assert {row["topic"]: row["absent_ms"] for row in topics_of} == {"back": 64_000, "gone": 20_000}


def test_who_is_alive_and_of_no_use_stands_on_top(operated: Told, still_out: Told) -> None:
    told = operated.tiles
    assert told["at the end"][0] == "1 broker wiped"
    assert '<i class="wiped"' in operated.html
    assert "without write permission for 1 min 35 s from 2026-11-21 00:00:05.000 on" in operated.html
    since = time_text(still_out.last_ms - 60_000)
    assert still_out.tiles["at the end"][1].endswith(f"; without write permission since {since}: wiped")
    assert told["most take-overs"] == (
        "3 take-overs",
        "fought:0 was taken from an owner that lived: has it two agents?",
    )
    assert told["worst client"][1].endswith("of all clients 9 failed, 0 at brokers that were gone, 9 at slow")


def test_two_agents_at_one_address_stand_on_top(written: Written, still_out: Told) -> None:
    assert written.tiles["most take-overs"][0] == "3 take-overs"  # four owners of broker-c
    assert "most take-overs" not in still_out.tiles  # three owners


def test_what_topics_lost_in_many_days_is_drawn(spark: SparkSession) -> None:
    day_ms = 86_400_000
    lost = [(DAY_MS + 59 * day_ms, DAY_MS + 60 * day_ms, False)]
    outages = spark.createDataFrame(lost, "from_ms bigint, to_ms bigint, system boolean")
    chart = lost_time(outages, Span(DAY_MS, DAY_MS + 60 * day_ms))
    assert chart is not None
    assert [round(bar.at, 1) for bar in chart.columns] == [96.7, 98.3]


def test_the_page_stands_in_a_real_browser_by_itself(written: Written, browser: webdriver.Chrome) -> None:
    browser.get(written.page.as_uri())
    assert browser.title == "A <drill>"
    bars = browser.find_elements(By.CSS_SELECTOR, "figure i")
    assert min(bar.size["width"] * bar.size["height"] for bar in bars) > 0
    tips = "\n".join(bar.get_attribute("data-tip") or "" for bar in bars)
    assert "frozen on purpose at 2026-11-21 00:00:50.000" in tips
    assert "away for 1 min from 2026-11-21 00:00:59.900 on (expired)" in tips
    text = browser.find_element(By.TAG_NAME, "body").text
    assert "2026-11-21 00:00:59" in text  # the end of the lease
    assert "changes were lost after 2026-11-21 00:03:00.000" in text
    assert "1 record could not be read" in text
    assert "1 line, row or file is no sample" in text
    assert browser.get_log("browser") == []
    schemes = {url.partition(":")[0] for url in requested(browser)}
    assert schemes <= {"file", "data", "chrome"}  # the last is its own empty first page


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_is_no_wider_than_the_window(
    written: Written, browser: webdriver.Chrome, width: int
) -> None:
    look_at(browser, width)
    browser.get(written.page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for table in browser.find_elements(By.CSS_SELECTOR, ".table"):
        # A shade stands at the edge, and a cover above it at the end of what is scrolled.
        assert table.value_of_css_property("background-attachment") == "local, scroll"
        assert table.value_of_css_property("background-image").count("linear-gradient") == 2
    for heading in browser.find_elements(By.CSS_SELECTOR, "th, td"):
        assert heading.size["width"] >= 20
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

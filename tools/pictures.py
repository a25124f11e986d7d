"""Makes the pictures in docs/pipeline/report/: a report on an hour that never was, in a real browser.

`python -m tools.pictures [FOLDER]`, with Java, Chromium and its driver. The report itself is left in FOLDER.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from sharedroutes.pipeline import session
from sharedroutes.pipeline.report import History, write_report
from tests.chromium import NARROW, WIDE, look_at, missing, running_browser
from tests.fix_spark import SESSION
from tests.pipeline import answering as make

PICTURES: Final = Path(__file__).resolve().parents[1] / "docs" / "pipeline" / "report"
_HEIGHT: Final = "return Math.ceil(document.getElementById('brokers').getBoundingClientRect().bottom) + 24"
"""Where the part on brokers ends: what follows is alike, and as long again."""

_WIDTHS: Final = {"wide": WIDE, "narrow": NARROW}
_BEGIN_MS: Final = 1_795_269_600_000
"""2026-11-21 14:00:00 UTC."""

_MINUTE_MS: Final = 60_000
_BROKERS: Final = tuple(f"broker-{letter}" for letter in "abcdef")
_TOPICS: Final = (
    *("orders", "payments", "stock", "mails", "invoices", "returns", "prices", "clicks", "audit", "search"),
)
_BY: Final = "sharedroutes {} of alice@ops"
_EACH: Final = 3
"""A topic is on every third broker: on two of six."""


def _at(minute: float) -> int:
    return _BEGIN_MS + round(minute * _MINUTE_MS)


def _of(number: int) -> list[str]:
    return [topic for place, topic in enumerate(_TOPICS) if place % _EACH == number % _EACH]


def _up(minute: float, broker: str, epoch: int = 1) -> make.Row:
    address = f"10.0.0.{_BROKERS.index(broker) + 1}:10911"
    return make.up(_at(minute), broker, epoch, address=address, cluster="shop", lease_ttl_ms=15_000)


def _gone(minute: float, broker: str, epoch: int = 1) -> make.Row:
    return make.down(_at(minute), broker, "broker gone", epoch)


def _expired(minute: float, broker: str) -> make.Row:
    return make.down(_at(minute), broker, "expired", lease_ended_ms=_at(minute) - 40)


def _hour() -> Iterator[make.Row]:
    """Yield what changed: one is killed, a rack of two is lost, one flaps, a topic moves, one is lost.

    The last one held topics with one that an operator had wiped.
    """
    for number, broker in enumerate(_BROKERS):
        yield _up(0.005 * number, broker)
        yield make.topics(_at(0.005 * number) + 1, broker, added=[*_of(number), "SELF_TEST_TOPIC", broker])
    yield from (_gone(8, "broker-b"), _up(10, "broker-b", 2))
    yield from (_expired(20, "broker-c"), _expired(20.07, "broker-f"))
    yield from (_up(27, "broker-c", 2), _up(28, "broker-f", 2))
    yield from (make.down(_at(35), "broker-d", "drained"), _up(37, "broker-d", 2))
    for epoch in range(1, 6):
        yield from (
            _gone(42 + epoch / 3, "broker-e", epoch),
            _up(42.15 + epoch / 3, "broker-e", epoch + 1),
        )
    yield {**make.deleted(_at(50), "returns", "broker-c", "broker-f"), "by": _BY.format("delete-topic")}
    yield make.topics(_at(52), "broker-a", added=["returns"])
    yield {**make.wiped(_at(54), "broker-d"), "by": _BY.format("wipe")}
    yield _expired(55, "broker-a")
    yield from (make.kv(_at(1.5 * number), "key") for number in range(41))


def _sent() -> Iterator[make.Row]:
    """Yield what five clients recorded: an attempt every two seconds each."""
    chance = random.Random(1)
    for client in range(1, 6):
        for second in range(0, 3_600, 2):
            broker = chance.choice(_BROKERS)
            failed = (broker, second // 16) in {("broker-c", 74), ("broker-b", 30)}
            yield make.sample(
                _BEGIN_MS + second * 1_000 + client * 100,
                f"checkout-{client}",
                broker,
                topic=chance.choice(_of(_BROKERS.index(broker))),
                latency_ms=3_000.0 if failed else round(chance.expovariate(1 / 4), 3),
                outcome="failed" if failed else "ok",
            )


def history(spark: SparkSession) -> History:
    """Return the hour."""
    faults = [make.fault(_at(8) - 20, "broker-b"), make.fault(_at(20) - 14_500, "broker-c", "frozen")]
    routes = [
        make.route(broker, topic, cluster="shop", master_address="a:1", perm=6, write_queue_nums=8)
        for number, broker in enumerate(_BROKERS)
        for topic in _of(number)
    ]
    return History(
        changes=make.changes_of(spark, sorted(_hour(), key=lambda row: int(row["ms"]))),
        samples=make.samples_of(spark, [*_sent()]),
        routes=make.routes_of(spark, routes),
        faults=make.faults_of(spark, faults),
        slo=99.9,
        until_ms=_at(60),
    )


def shoot(page: str, profile: Path) -> None:
    """Photograph a page from its top to the end of a part, at both widths, in both schemes."""
    with running_browser(profile) as browser:
        for size, width in _WIDTHS.items():
            for scheme in ("light", "dark"):
                look_at(browser, width, scheme)
                browser.get(Path(page).as_uri())
                height = browser.execute_script(_HEIGHT)
                look_at(browser, width, scheme, height)
                browser.save_screenshot(str(PICTURES / f"{size}-{scheme}.png"))


def main() -> None:
    """Write the report and the pictures of it."""
    if problem := missing():
        sys.exit(problem)
    out = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="sharedroutes-pictures-")
    spark = session(SESSION)
    try:
        done = write_report(history(spark), out, title="Shop: the registry from two to three")
    finally:
        spark.stop()
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sharedroutes-chromium-") as profile:
        shoot(done.page, Path(profile))
    print(done.page)


if __name__ == "__main__":
    main()

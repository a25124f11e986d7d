"""Outages of topics, and who caused them, worked out by hand."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sharedroutes.pipeline.answers.availability import (
    OUTAGE_CAUSES,
    TOPIC_AVAILABILITY,
    TOPIC_OUTAGES,
    outage_causes,
    topic_availability,
    topic_outages,
)
from sharedroutes.pipeline.answers.holdings import Seen
from sharedroutes.pipeline.answers.sessions import broker_sessions
from tests.pipeline.answering import (
    Row,
    changes_of,
    deleted,
    down,
    forgotten,
    gap,
    kept,
    kv,
    lifted,
    picked,
    route,
    routes_of,
    topics,
    up,
    wiped,
)

OUTAGE = ("topic", "from_ms", "to_ms", "over", "brokers", "fewest", "caused_by", "causes")
MINUTE_MS = 60_000


IN_A_GAP: Final = [
    topics(0, "a", added=["stays", "went"]),
    up(0, "a"),
    topics(50, "a", removed=["came"]),
    down(100, "a", "expired"),
    kv(200, "x"),
    gap(200, after_ms=600),
    up(700, "a", epoch=2),
    topics(800, "a", added=["went"], removed=["came"]),
    kv(1_000, "x"),
]

HISTORIES: Final[dict[str, list[Row]]] = {
    "masters": [
        *(topics(0, broker, added=["both"]) for broker in "ab"),
        topics(0, "a", added=["single"]),
        *(up(10, broker) for broker in "ab"),
        up(10, "a", broker_id=1, address="a:2"),  # a slave takes no messages
        down(100, "a", "expired", lease_ended_ms=90),
        down(200, "b", "agent stopped"),
        up(250, "a", epoch=2),
        up(400, "b", epoch=2),
        down(500, "a", "expired"),
        kv(600, "x"),
    ],
    "wiped": [
        topics(0, "a", added=["t"]),
        up(10, "a"),
        wiped(100, "a"),
        down(150, "a"),
        up(180, "a", epoch=2),
        lifted(200, "a"),
        down(300, "a"),
        wiped(310, "a"),
        up(320, "a", epoch=3),
        kv(500, "x"),
    ],
    "leaves": [
        *(topics(0, broker, added=["t"]) for broker in "ab"),
        *(up(10, broker) for broker in "ab"),
        down(100, "a", "expired"),
        topics(200, "b", removed=["t"]),  # only a has it now
        topics(300, "b", added=["t"]),
        deleted(400, "t", "b"),
        deleted(450, "t", "a"),
        kv(500, "x"),
    ],
    "changes": [
        *(topics(0, broker, added=["t"]) for broker in "ab"),
        *(up(10, broker) for broker in "ab"),
        down(100, "a"),
        down(200, "b"),
        topics(300, "b", removed=["t"]),
        up(400, "a", epoch=2),
    ],
    "unknown": [
        up(0, "x"),
        topics(5, "x", added=["before"]),
        topics(5, "dead", added=["silent"]),  # nothing is known of the master of this one
        down(100, "a"),
        topics(
            120, "a", added=["new"]
        ),  # a broker writes its table before its lease: nobody missed this topic
        up(150, "a", epoch=2),
        down(200, "x"),
        kv(300, "x"),
        gap(300, after_ms=800),
        kv(800, "x"),
    ],
    "masters change": [
        *(topics(0, broker, added=[f"of-{broker}"]) for broker in "ab"),
        *(up(10, broker) for broker in "ab"),
        down(100, "a", "expired"),
        topics(200, "a", removed=["of-a"]),
        forgotten(200, "a"),
        # The master becomes a slave; another one takes its place 40 ms later.
        down(300, "b", "has id 1 now", epoch=2),
        up(300, "b", epoch=2, broker_id=1),
        up(340, "b", epoch=3, address="b:2"),
        kv(400, "x"),
    ],
    "minutes": [
        *(topics(0, broker, added=["both"]) for broker in "ab"),
        topics(0, "a", added=["single"]),
        topics(0, "c", added=["fine"]),
        *(up(0, broker) for broker in "abc"),
        down(1 * MINUTE_MS, "a"),
        down(2 * MINUTE_MS, "b", "expired"),
        up(3 * MINUTE_MS, "a", epoch=2),
        down(5 * MINUTE_MS, "a", "expired"),
        up(9 * MINUTE_MS, "a", epoch=3),
        kv(10 * MINUTE_MS, "x"),
    ],
    "gap": IN_A_GAP,
    "no gap": [row for row in IN_A_GAP if row["kind"] != "gap"],
    "emptied": [
        topics(0, "a", added=["t"]),
        up(0, "a"),
        down(100, "a", "expired"),
        kv(150, "x"),
        gap(150),
        kv(500, "x"),
        kv(600, "x"),
    ],
    "before": [
        kv(0, "x"),
        down(100, "a"),
        topics(150, "a", removed=["gone"]),
        up(200, "a", epoch=2),
    ],
}
"""Each a registry of its own: Spark takes as long for all of them as for one."""

ROUTES_BEFORE: Final = [
    route("a", "old", registry="before"),
    route("a", "broken", registry="before", problem="no JSON"),
]

Outages: TypeAlias = dict[str, list[tuple[Any, ...]]]


class Found(NamedTuple):
    outages: DataFrame
    availability: DataFrame


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    """Return what is found in all histories."""
    rows = [{**row, "registry": name} for name, history in HISTORIES.items() for row in history]
    changes = changes_of(spark, rows).localCheckpoint()
    routes = routes_of(spark, ROUTES_BEFORE)
    sessions = broker_sessions(changes).localCheckpoint()
    seen = Seen(changes, routes, keep=kept)
    outages = topic_outages(seen, sessions).localCheckpoint()
    return Found(outages, topic_availability(seen, outages).localCheckpoint())


@pytest.fixture(scope="module")
def outages(found: Found) -> Outages:
    """Return the outages of each history."""
    assert found.outages.schema.names == list(TOPIC_OUTAGES.names)
    rows = picked(found.outages, "registry", *OUTAGE)
    return {name: [row[1:] for row in rows if row[0] == name] for name in HISTORIES}


def test_a_topic_is_out_while_none_of_its_masters_is_alive(outages: Outages) -> None:
    assert outages["masters"] == [
        ("both", 200, 250, True, 2, 0, ["b"], ["clean"]),
        ("single", 90, 250, True, 1, 0, ["a"], ["expired"]),
        ("single", 500, 600, False, 1, 0, ["a"], ["expired"]),
    ]


def test_wiped_and_away_at_once_is_one_silence(outages: Outages) -> None:
    assert outages["wiped"] == [
        ("t", 100, 200, True, 1, 0, ["a"], ["wiped"]),
        ("t", 300, 500, False, 1, 0, ["a"], ["clean"]),
    ]


def test_a_topic_that_leaves_those_who_live_has_an_outage_without_a_culprit(outages: Outages) -> None:
    assert outages["leaves"] == [
        ("t", 200, 300, True, 1, 0, [], []),
        ("t", 400, 450, True, 1, 0, [], []),
    ]


def test_a_change_of_brokers_in_an_outage_does_not_cut_it(outages: Outages) -> None:
    assert outages["changes"] == [("t", 200, 400, True, 2, 0, ["b"], ["clean"])]


def test_what_is_not_known_is_no_outage(outages: Outages) -> None:
    assert outages["unknown"] == [("before", 200, 300, False, 1, 0, ["x"], ["clean"])]


def test_an_outage_ends_with_the_knowledge_of_its_registry(outages: Outages) -> None:
    assert outages["gap"] == [
        ("stays", 100, 200, False, 1, 0, ["a"], ["expired"]),
        ("went", 100, 200, False, 1, 0, ["a"], ["expired"]),
    ]
    assert outages["no gap"] == [
        ("stays", 100, 700, True, 1, 0, ["a"], ["expired"]),
        ("went", 100, 700, True, 1, 0, ["a"], ["expired"]),
    ]
    assert outages["emptied"] == [("t", 100, 150, False, 1, 0, ["a"], ["expired"])]


def test_what_lies_in_a_gap_is_neither_held_nor_lost(found: Found) -> None:
    names = ("topic", "held_ms", "unknown_ms", "availability")
    assert picked(found.availability.where("registry = 'gap'"), *names) == [
        # 0 to 50; and behind the gap it is told to go at 800, so it had come in it.
        ("came", 250, 400, 1.0),
        ("stays", 600, 400, pytest.approx(5 / 6)),
        # 0 to 200; and behind the gap it is told to come at 800, so it had gone in it.
        ("went", 400, 400, 0.75),
    ]
    assert picked(found.availability.where("registry = 'no gap'"), *names) == [
        ("came", 50, 0, 1.0),
        ("stays", 1_000, 0, pytest.approx(0.4)),
        ("went", 1_000, 0, pytest.approx(0.4)),
    ]
    assert picked(found.availability.where("registry = 'emptied'"), *names) == [("t", 250, 350, 0.8)]


def test_forgotten_brokers_and_moved_masters(outages: Outages) -> None:
    assert outages["masters change"] == [
        ("of-a", 100, 200, True, 1, 0, ["a"], ["expired"]),
        ("of-b", 300, 340, True, 1, 0, ["b"], ["moved"]),
    ]


def test_a_snapshot_tells_what_was_held_before_the_first_change(outages: Outages) -> None:
    assert outages["before"] == [
        ("gone", 100, 150, True, 1, 0, ["a"], ["clean"]),
        ("old", 100, 200, True, 1, 0, ["a"], ["clean"]),
    ]


def test_minutes_are_summed_by_topic_and_by_culprit(found: Found) -> None:
    of_minutes = found.outages.where("registry = 'minutes'")
    minutes = found.availability.where("registry = 'minutes'").localCheckpoint()
    assert minutes.schema.names == list(TOPIC_AVAILABILITY.names)
    # both: minutes 2 to 3 by b, 5 to 9 by a; single: 1 to 3 and 5 to 9, both by a.
    assert picked(minutes, "topic", "held_ms", "outages", "lost_min", "longest_min", "availability") == [
        ("both", 10 * MINUTE_MS, 2, 5.0, 4.0, 0.5),
        ("fine", 10 * MINUTE_MS, 0, 0.0, 0.0, 1.0),
        ("single", 10 * MINUTE_MS, 2, 6.0, 4.0, pytest.approx(0.4)),
    ]
    own = of_minutes.where("topic = 'single'").withColumn("system", F.lit(col=True))
    causes = outage_causes(of_minutes.unionByName(own))
    assert causes.schema.names == list(OUTAGE_CAUSES.names)
    assert picked(causes, "system", "broker", "outages", "topics", "lost_min", "causes") == [
        (False, "a", 3, 2, 10.0, ["clean", "expired"]),
        (False, "b", 1, 1, 1.0, ["expired"]),
        (True, "a", 2, 1, 6.0, ["clean", "expired"]),  # RocketMQ's own count apart
    ]


def test_an_outage_names_who_took_no_messages_before_the_last_broker_fell(found: Found) -> None:
    of_both = found.outages.where("registry = 'minutes' AND topic = 'both'")
    assert picked(of_both, "caused_by", "silent") == [(["a"], ["b expired"]), (["b"], ["a clean"])]

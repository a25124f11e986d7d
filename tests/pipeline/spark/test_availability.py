"""Outages of topics, and who caused them, worked out by hand."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import pytest
from pyspark.sql import DataFrame, SparkSession

from sharedroutes.pipeline.answers.availability import (
    OUTAGE_CAUSES,
    TOPIC_AVAILABILITY,
    TOPIC_OUTAGES,
    outage_causes,
    topic_availability,
    topic_outages,
    worst_topics,
)
from sharedroutes.pipeline.answers.sessions import broker_sessions
from tests.pipeline.answering import (
    Row,
    changes_of,
    deleted,
    down,
    forgotten,
    gap,
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


def random_history(seed: int, length: int) -> list[Row]:
    """Return a history in which all brokers come first: what is not known at first has tests of its own."""
    rng = random.Random(seed)
    brokers, names = "abcd", [f"t{number}" for number in range(6)]
    rows = [*(up(0, broker) for broker in brokers), *(lifted(0, broker) for broker in brokers)]
    rows += [topics(1, broker, added=names) for broker in brokers]
    for step in range(1, length):
        ms, broker = 10 * step, rng.choice(brokers)
        rows.append(
            rng.choice(
                (
                    up(ms, broker, epoch=step),
                    down(ms, broker),
                    down(ms, broker),
                    wiped(ms, broker),
                    lifted(ms, broker),
                    topics(ms, broker, added=rng.sample(names, 2)),
                    topics(ms, broker, removed=rng.sample(names, 2)),
                    deleted(ms, rng.choice(names), *rng.sample(brokers, 2)),
                )
            )
        )
    return [*rows, kv(10 * length, "x")]


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
    "fewer": [
        *(topics(0, broker, added=["three"]) for broker in "abc"),
        topics(0, "a", added=["one"]),
        *(up(10, broker) for broker in "abc"),
        down(100, "a"),
        down(200, "b"),
        down(300, "c"),
        up(400, "c", epoch=2),
        up(500, "b", epoch=2),
        up(600, "a", epoch=2),
        kv(700, "x"),
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
    "before": [
        kv(0, "x"),
        down(100, "a"),
        topics(150, "a", removed=["gone"]),
        up(200, "a", epoch=2),
    ],
}
"""Each a registry of its own: Spark takes as long for all of them as for one."""

RANDOM: Final = {f"random {seed}": random_history(seed, 400) for seed in range(4)}
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
    """Return what is found in all histories, the random ones too."""
    histories = HISTORIES | RANDOM
    rows = [{**row, "registry": name} for name, history in histories.items() for row in history]
    changes = changes_of(spark, rows).localCheckpoint()
    routes = routes_of(spark, ROUTES_BEFORE)
    sessions = broker_sessions(changes).localCheckpoint()
    outages = topic_outages(changes, sessions, routes=routes).localCheckpoint()
    return Found(outages, topic_availability(changes, outages, routes=routes))


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


def test_fewer_than_n_counts_only_while_somebody_is_away(spark: SparkSession) -> None:
    changes = changes_of(spark, HISTORIES["fewer"])
    sessions = broker_sessions(changes).localCheckpoint()
    assert picked(topic_outages(changes, sessions, fewer_than=2), *OUTAGE) == [
        ("one", 100, 600, True, 1, 0, ["a"], ["clean"]),
        # Two of three from 100 on, one from 200 on, none from 300 on, one from 400 on, two from 500 on.
        ("three", 200, 500, True, 3, 0, ["b"], ["clean"]),
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
    assert [row.topic for row in worst_topics(minutes).collect()] == ["single", "both"]
    assert [row.topic for row in worst_topics(minutes, 1).collect()] == ["single"]
    causes = outage_causes(of_minutes)
    assert causes.schema.names == list(OUTAGE_CAUSES.names)
    assert picked(causes, "broker", "outages", "topics", "lost_min", "causes") == [
        ("a", 3, 2, 10.0, ["clean", "expired"]),
        ("b", 1, 1, 1.0, ["expired"]),
    ]


def low_time_ms(rows: list[Row]) -> dict[str, int]:
    """Return per topic how long all its brokers were silent, by a loop over the records.

    Not from its birth on, when it began so.
    """
    silent: dict[str, set[str]] = {broker: set() for broker in "abcd"}
    holders: dict[str, set[str]] = {}
    unborn: set[str] = set()
    lost: dict[str, int] = {}
    for row, after in pairwise(rows):
        broker, kind = row["broker"], row["kind"]
        born = {name for name in row.get("added", ()) if not holders.get(name)} if row["ms"] > 1 else set()
        for name in row.get("added", ()):
            holders.setdefault(name, set()).add(broker)
        for name in row.get("removed", ()):
            holders.get(name, set()).difference_update(row.get("brokers", [broker]))
        if kind in ("down", "wiped"):
            silent[broker].add(kind)
        elif kind in ("up", "lifted"):
            silent[broker].discard({"up": "down", "lifted": "wiped"}[kind])
        for name, having in holders.items():
            left = sum(not silent[one] for one in having)
            is_low = left == 0 and bool(having)
            if name in born and is_low:
                unborn.add(name)
            if not is_low:
                unborn.discard(name)
            elif name not in unborn:
                lost[name] = lost.get(name, 0) + after["ms"] - row["ms"]
    return lost


def test_random_histories_come_out_as_a_loop_follows_them(found: Found) -> None:
    lost: dict[tuple[str, str], int] = {}
    for registry, topic, lost_ms in picked(found.outages, "registry", "topic", "lost_ms"):
        if registry in RANDOM:
            lost[registry, topic] = lost.get((registry, topic), 0) + lost_ms
    assert lost == {
        (registry, topic): ms
        for registry, history in RANDOM.items()
        for topic, ms in low_time_ms(history).items()
    }

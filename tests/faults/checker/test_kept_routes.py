"""A client may be without a route when the leases of its brokers were over, but not most of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest
from msgspec.structs import replace

from sharedroutes.registry import EXPIRED, ChangeKind
from tests.faults.checker.history import (
    STORE,
    Change,
    Event,
    Expected,
    Fault,
    Item,
    Late,
    Lease,
    Record,
    Replica,
    Route,
    Run,
    Started,
    TableContent,
)
from tests.faults.checker.story import BOUNDS, BROKERS, TOPIC, address_of, reasons

OTHER_TOPIC: Final = "payments"
REPLICAS: Final = tuple(Replica(broker, 0, address_of(broker)) for broker in BROKERS)
TABLE: Final = TableContent(
    REPLICAS, {broker: (TOPIC if broker == "broker-a" else OTHER_TOPIC,) for broker in BROKERS}
)
LOST_US: Final = 9_500_000
"""When the client says that it has no route of broker-a's topic."""

UNTIL_US: Final = LOST_US + 2_000_000


def looks(broker: str, *, gone_us: int | None) -> list[Event]:
    """Return looks at a lease every 0.5 s; from `gone_us` to UNTIL_US there is none."""
    found: list[Event] = []
    for at_us in range(3_000_000, 12_000_000, 500_000):
        lease = Lease(at_us=at_us, who="auditor", broker=broker, id=0, epoch=1, address=address_of(broker))
        is_gone = gone_us is not None and gone_us <= at_us < UNTIL_US
        found.append(Lease(at_us=at_us, who="auditor", broker=broker, id=0) if is_gone else lease)
    return found


def history(
    gone_us: dict[str, int], *, others: bool = True, reset: str = "", reset_us: int = 0
) -> list[Event]:
    """Return a history in which a client has no route of a topic any more.

    `gone_us`: from when on which leases are over; `others`: whether the client uses brokers besides;
    `reset`: why a follower began anew, and when.
    """
    events: list[Event] = [
        Run(at_us=1, who="driver", deployment="aof", seed=1, bounds=BOUNDS),
        Expected(at_us=2, who="scheduler", table=TABLE),
        Route(at_us=4_000_000, who="client", topic=TOPIC, brokers=REPLICAS[:1]),
        Route(at_us=LOST_US, who="client", topic=TOPIC),
    ]
    for broker in BROKERS:
        events += looks(broker, gone_us=gone_us.get(broker))
    if others:
        events.append(Route(at_us=4_000_000, who="client", topic=OTHER_TOPIC, brokers=REPLICAS[1:]))
    if reset:
        events.append(Item(at_us=reset_us, who="follower", kind="reset", id="1-0", reason=reset))
    return events


def violations(events: Iterable[Event]) -> int:
    """Return how often a route was not kept."""
    return len(reasons(events, "f"))


@pytest.mark.parametrize(
    ("gone", "expected"),
    [(("broker-a",), 0), ((), 1), (("broker-b",), 1), (BROKERS[:2], 1), (BROKERS, 1)],
)
def test_who_may_be_without_a_route(gone: tuple[str, ...], expected: int) -> None:
    assert violations(history(dict.fromkeys(gone, 9_000_000))) == expected


@pytest.mark.parametrize(("begun_us", "expected"), [(LOST_US - 100_000, 0), (3_000_000, 1)])
def test_a_client_that_has_just_begun_may_see_those_first_that_come_back(
    begun_us: int, expected: int
) -> None:
    begin = Started(at_us=begun_us, who="client", pid=2, has_snapshot=True)
    events = [
        replace(event, epoch=1, address=address_of(event.broker))
        if isinstance(event, Lease) and event.broker in BROKERS[1:] and event.at_us > LOST_US
        else event
        for event in history(dict.fromkeys(BROKERS, 9_000_000))
    ]
    assert violations([*events, begin]) == expected


@pytest.mark.parametrize(("reason", "expected"), [("closed", 0), (EXPIRED, 1)])
def test_a_client_is_without_what_was_withdrawn_however_much_is_gone(reason: str, expected: int) -> None:
    down = Record(kind=ChangeKind.DOWN, broker="broker-a", epoch=1, reason=reason)
    told = Change(at_us=LOST_US - 100_000, who="auditor", id="9-0", record=down)
    gone = history(dict.fromkeys(BROKERS, 9_000_000))
    assert violations([*gone, told]) == expected


def test_an_end_between_two_looks_may_have_come_before_the_client_said_so() -> None:
    assert violations(history({"broker-a": LOST_US + 1})) == 0
    assert violations(history(dict.fromkeys(BROKERS, LOST_US + 1))) == 1


def test_an_end_after_the_client_said_so_is_no_excuse() -> None:
    assert violations(history({"broker-a": LOST_US + 500_001})) == 1


def test_the_only_broker_that_a_client_uses_is_more_than_half_of_them() -> None:
    assert violations(history({"broker-a": 9_000_000}, others=False)) == 1


@pytest.mark.parametrize(
    ("stood_s", "back", "expected"),
    [(BOUNDS.lease_ms / 1_000, BROKERS[1:], 0), (1.0, BROKERS[1:], 1), (BOUNDS.lease_ms / 1_000, (), 1)],
)
def test_after_the_store_stood_still_only_those_who_are_not_back_count(
    stood_s: float, back: tuple[str, ...], expected: int
) -> None:
    ended_us = LOST_US - 400_000
    begin = Fault(
        at_us=ended_us - round(stood_s * 1e6),
        who="scheduler",
        name="pause-store",
        target="the primary",
        phase="begin",
        disturbs=(STORE,),
    )
    events = [
        event
        for event in history(dict.fromkeys(BROKERS, LOST_US - 500_000))
        if not (isinstance(event, Lease) and event.broker in back and event.at_us == LOST_US)
    ]
    came = [
        Lease(at_us=LOST_US + 1, who="auditor", broker=name, id=0, epoch=2, address=address_of(name))
        for name in back
    ]
    story = [*events, begin, replace(begin, at_us=ended_us, phase="end"), *came]
    assert violations(story) == expected


@pytest.mark.parametrize(("reset", "expected"), [("lost", 1), ("start", 0)])
def test_a_client_believes_no_end_since_the_store_lost_changes(reset: str, expected: int) -> None:
    assert violations(history({"broker-a": 7_000_000}, reset=reset, reset_us=7_100_000)) == expected


@pytest.mark.parametrize(
    ("reset_us", "server", "expected"),
    [(7_100_000, "", 1), (7_100_000, "127.0.0.1:6379", 0), (0, "", 0), (11_000_000, "", 0)],
)
def test_a_client_goes_on_to_name_a_master_that_is_not_back_since_changes_were_lost(
    reset_us: int, server: str, expected: int
) -> None:
    slave = Replica("broker-a", 1, "127.0.0.1:1")
    said = Route(at_us=8_000_000, who="client", topic=TOPIC, brokers=(REPLICAS[0], slave))
    alone = replace(said, at_us=LOST_US, brokers=(slave._replace(id=0),), server=server)
    lost = history({"broker-a": 7_000_000}, reset="lost" if reset_us else "", reset_us=reset_us)
    story = [*(of for of in lost if not (isinstance(of, Route) and of.at_us == LOST_US)), said, alone]
    assert len(reasons(story, "f", "names broker-a no more")) == expected


def test_who_was_there_after_the_store_lost_changes_can_end() -> None:
    assert violations(history({"broker-a": 9_000_000}, reset="lost", reset_us=8_400_000)) == 0


@pytest.mark.parametrize(("process", "expected"), [("client", 0), ("somebody else", 1)])
def test_a_client_that_the_machine_kept_waiting_may_know_later(process: str, expected: int) -> None:
    back_us = LOST_US - 1_000 * (BOUNDS.stale_ms + 100)
    truths = [
        Expected(at_us=5_000_000, who="scheduler", table=TableContent()),
        Expected(at_us=back_us, who="scheduler", table=TABLE),
    ]
    late = Late(at_us=LOST_US - 300_000, who="driver", late_ms=500, process=process)
    story = [*history({}), *truths]
    assert violations(story) == 1
    assert violations([*story, late]) == expected

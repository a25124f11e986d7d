"""A client may be without a route when the leases of its brokers were over, and not when all were at once."""

from __future__ import annotations

import pytest

from tests.faults.checker.history import Event, Expected, Lease, Replica, Route, Run, TableContent
from tests.faults.checker.report import check
from tests.faults.checker.story import BOUNDS, BROKERS, TOPIC, address_of


def history_without_leases_of(*gone: str) -> list[Event]:
    """Return a history in which a client has no route of a topic of broker-a, when those leases are over."""
    leases = tuple(Replica(broker, 0, address_of(broker)) for broker in BROKERS)
    looks = [
        Lease(at_us=at_s * 1_000_000, who="auditor", broker=broker, id=0)
        if at_s == 9 and broker in gone
        else Lease(
            at_us=at_s * 1_000_000, who="auditor", broker=broker, id=0, epoch=1, address=address_of(broker)
        )
        for at_s in (3, 9, 12)
        for broker in BROKERS
    ]
    return [
        Run(at_us=1, who="driver", deployment="aof", seed=1, bounds=BOUNDS),
        Expected(at_us=2, who="scheduler", table=TableContent(leases, {"broker-a": (TOPIC,)})),
        *looks[:3],
        Route(at_us=4_000_000, who="client", topic=TOPIC, brokers=leases[:1]),
        *looks[3:6],
        Route(at_us=9_500_000, who="client", topic=TOPIC),
        *looks[6:],
    ]


@pytest.mark.parametrize(
    ("gone", "violations"),
    [(("broker-a",), 0), ((), 1), (("broker-b",), 1), (BROKERS[:2], 1), (BROKERS, 1)],
)
def test_who_may_be_without_a_route(gone: tuple[str, ...], violations: int) -> None:
    report = check(history_without_leases_of(*gone))
    assert len(report.verdicts["f"].violations) == violations

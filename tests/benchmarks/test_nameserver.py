"""The benchmarks that compare a name server front with RocketMQ's own; who is faster is not asserted."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from benchmarks import nameserver, nameserver_faults
from benchmarks.kit.figures import Outcome
from benchmarks.kit.load import OPAQUE
from benchmarks.kit.name_servers import registration, route_request
from benchmarks.kit.workload import tables, topic_names
from sharedroutes.nameserver import bodies
from sharedroutes.remoting import encode

SIZE = nameserver.Size(
    rounds=1,
    round_s=0.3,
    warm_up_s=0.3,
    connections=2,
    brokers=2,
    topics=5,
    many_topics=20,
    registrations=1,
    registering=3,
    settle_s=1.5,
    idle=5,
    paced=50,
)
FAULTS = nameserver_faults.Size(threads=1, before_s=1.0, after_s=0.5, kills=1, stops=0)


def measured(outcome: Outcome) -> dict[str, float]:
    """Return the figures by their names; skips the test where nothing was measured."""
    if not outcome.figures:
        pytest.skip(outcome.notes[0])
    found = {figure.name: figure.median for figure in outcome.figures}
    assert len(found) == len(outcome.figures)
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    return found


@pytest.mark.long
def test_fronts_are_compared_with_a_real_name_server() -> None:
    outcome = nameserver.run(SIZE)
    assert all(value > 0 for value in measured(outcome).values())
    assert sum(figure.target is not None for figure in outcome.figures) == 12


@pytest.mark.long
@pytest.mark.timeout(600)  # brokers take long to start, and producers to look at routes
def test_a_killed_broker_is_noticed_by_real_producers() -> None:
    found = measured(nameserver_faults.run(FAULTS))
    assert found["kill -9, front: until its answers lack the broker"] < 30


@pytest.mark.parametrize(
    "run",
    [lambda: nameserver.run(nameserver.QUICK), lambda: nameserver_faults.run(nameserver_faults.QUICK)],
    ids=["nameserver", "nameserver_faults"],
)
def test_without_java_nothing_is_measured_and_the_reason_is_said(
    run: Callable[[], Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    outcome = run()
    assert not outcome.figures
    assert any("java is not on PATH" in note for note in outcome.notes)


def test_a_request_has_an_opaque_that_can_be_replaced_digit_by_digit() -> None:
    frame = encode(route_request("orders"))
    assert frame.count(b'"opaque":%d,' % OPAQUE) == 1


def test_a_registration_has_all_topics() -> None:
    (table,) = tables(topic_names(20), 1)
    command = registration("broker-000", "127.0.1.1:10911", table)
    found = bodies.registration(command.body, version=command.version)
    assert found.topics == table

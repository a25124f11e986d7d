"""The benchmarks that compare a name server front with RocketMQ's own; who is faster is not asserted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import nameserver, nameserver_faults
from benchmarks.kit.figures import Outcome
from benchmarks.kit.load import OPAQUE
from benchmarks.kit.name_servers import registration, route_request
from benchmarks.kit.workload import tables, topic_names
from sharedroutes.nameserver import bodies
from sharedroutes.registry.codec import encode_config
from sharedroutes.remoting import encode


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
    assert found.topics == {name: encode_config(config) for name, config in table.items()}

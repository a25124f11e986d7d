"""When brokers that are left alone are probed, and what a probe changes."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from sharedroutes.client.detector import Detector, tcp_probe
from sharedroutes.client.faults.broker import Result
from sharedroutes.client.faults.config import LADDER_4, FaultConfig
from sharedroutes.client.faults.memory import FaultMemory
from sharedroutes.registry import InvalidInput

CONFIG = FaultConfig(detect=True, max_isolation_s=300.0)


class Steady(random.Random):
    """Draws nothing, so intervals are exact."""

    def random(self) -> float:
        return 0.0


def _failed(
    *names: str, config: FaultConfig = CONFIG, rng: random.Random | None = None
) -> tuple[FaultMemory, Detector]:
    memory = FaultMemory(config)
    for name in names:
        memory.record(name, Result(0.0, failed=True), 0.0)
    return memory, Detector(memory, config, rng or Steady())


def test_only_brokers_that_are_left_alone_are_probed() -> None:
    memory, detector = _failed("a")
    memory.record("b", Result(0.01, failed=False), 0.0)
    assert detector.due(0.0) == ("a",)


def test_a_suspected_broker_is_probed_and_a_probe_that_gets_through_refutes_it() -> None:
    memory, detector = _failed()
    memory.suspect(frozenset("a"))
    assert detector.due(0.0) == ("a",)
    memory.probed("a", reachable=True, now=0.0)
    assert memory.quiet


def test_a_broker_is_probed_once_an_interval() -> None:
    _, detector = _failed("a")
    assert detector.due(0.0) == ("a",)
    assert detector.due(1.9) == ()
    assert detector.wait_s(1.9) == pytest.approx(0.1)
    assert detector.due(2.0) == ("a",)


def test_the_intervals_of_two_clients_differ() -> None:
    first, second = (_failed("a", rng=random.Random(seed))[1] for seed in (1, 2))
    for detector in (first, second):
        assert detector.due(0.0) == ("a",)
        assert 2.0 <= detector.wait_s(0.0) <= 2.4
    assert first.wait_s(0.0) != second.wait_s(0.0)


def test_with_nobody_to_probe_it_looks_again_after_an_interval() -> None:
    memory, detector = _failed()
    assert detector.due(0.0) == ()
    assert detector.wait_s(0.0) == pytest.approx(2)
    memory.record("a", Result(0.0, failed=True), 1.0)
    assert detector.due(2.0) == ("a",)


def test_a_broker_that_is_back_is_probed_no_more() -> None:
    memory, detector = _failed("a")
    assert detector.due(0.0) == ("a",)
    memory.probed("a", reachable=True, now=0.1)
    assert detector.due(10.0) == ()
    assert detector.wait_s(10.0) == pytest.approx(2)


def test_a_probe_that_gets_through_does_not_end_the_ladders_isolation() -> None:
    memory, _ = _failed("a")
    assert memory.verdict(0.0).unreachable == {"a"}
    memory.probed("a", reachable=True, now=1.0)
    assert memory.verdict(1.0).unreachable == frozenset()
    assert memory.verdict(9.9).blocked == ("a",)
    assert memory.verdict(10.0).blocked == ()


def test_an_unreachable_broker_is_left_alone_until_a_probe_gets_through() -> None:
    memory, _ = _failed("a")
    memory.probed("a", reachable=False, now=11.0)
    assert memory.verdict(60.0).blocked == ("a",)
    memory.probed("a", reachable=True, now=61.0)
    verdict = memory.verdict(61.0)
    assert verdict.blocked == ()
    assert verdict.shares == {"a": 0.1}


def test_a_broker_that_no_probe_reaches_is_tried_again_in_the_end() -> None:
    memory, detector = _failed("a")
    for now in range(300):
        for name in detector.due(float(now)):
            memory.probed(name, reachable=False, now=float(now))
        assert memory.verdict(float(now)).blocked == ("a",)
    assert memory.verdict(300.0).blocked == ()


def test_a_flag_that_ends_before_the_isolation_is_seen_to_end() -> None:
    memory, _ = _failed("a", config=replace(CONFIG, ladder=LADDER_4))
    assert memory.verdict(299.0).unreachable == {"a"}
    verdict = memory.verdict(300.0)
    assert (verdict.blocked, verdict.unreachable) == (("a",), frozenset())


def test_without_a_detector_a_failure_does_not_make_a_broker_unreachable() -> None:
    memory, _ = _failed("a", config=FaultConfig())
    assert memory.verdict(0.0).unreachable == frozenset()


def test_without_a_detector_an_unreachable_broker_is_so_only_while_it_is_isolated() -> None:
    memory = FaultMemory()
    memory.record("a", Result(0.0, failed=True, reachable=False), 0.0)
    assert memory.verdict(0.0).unreachable == {"a"}
    assert memory.verdict(10.0).unreachable == frozenset()


def test_a_probe_of_a_broker_that_was_forgotten_changes_nothing() -> None:
    memory, _ = _failed("a")
    memory.forget("a", 1.0)
    memory.probed("a", reachable=True, now=1.0)
    assert memory.states(1.0) == {}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_broker_that_accepts_connections_is_reachable(listener: socket.socket) -> None:
    assert tcp_probe(_address(listener), 5.0)


def test_a_broker_that_refuses_connections_is_not(listener: socket.socket) -> None:
    address = _address(listener)
    listener.close()
    assert not tcp_probe(address, 5.0)


def test_a_broker_that_does_not_answer_in_time_is_not() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):  # fill its queue, so that the kernel lets further ones wait
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)  # noqa: FBT003
            waiting.connect_ex(server.getsockname())
        assert not tcp_probe(_address(server), 0.05)


def test_a_host_that_cannot_be_a_name_is_not_reachable() -> None:
    assert not tcp_probe("a..b:80", 1.0)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(InvalidInput, match="address: 'nowhere'"):
        tcp_probe("nowhere", 1.0)


def test_a_broker_with_an_ipv6_address_is_reachable() -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        assert not tcp_probe("[::1]:10911", 0.05)
        return
    with server:
        assert tcp_probe(f"[::1]:{server.getsockname()[1]}", 5.0)

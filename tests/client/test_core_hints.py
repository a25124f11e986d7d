"""What the core of a client makes of hints: what ends a suspicion, what withdraws a hint."""

from __future__ import annotations

from typing import Final

import pytest

from sharedroutes.client import HintConfig
from sharedroutes.client.brokers import HintBook
from sharedroutes.client.core import ClientCore
from sharedroutes.client.faults.broker import Result
from tests.client.fake_table import FakeTable
from tests.client.heard import Core

OTHERS: Final = frozenset(f"client-{number}" for number in range(5))


@pytest.fixture
def core(table: FakeTable) -> Core:
    """Return a core that uses the brokers a to d."""
    core = Core(table, hints=HintConfig(), topics=("t",))
    for name in "abcd":
        table.register(name, "t")
    core.look()
    return core


def hinting(core: ClientCore) -> HintBook:
    assert core.brokers.hints is not None
    return core.brokers.hints


def fail(core: ClientCore, now: float, *, reachable: bool | None = None) -> None:
    core.brokers.record("a", Result(0.1, failed=True, reachable=reachable), now)


def test_whom_enough_others_cannot_reach_is_avoided_until_the_store_fails(core: ClientCore) -> None:
    core.brokers.heard({"a": OTHERS}, list(core.known.table.groups), 0.0)
    assert core.brokers.faults.verdict(0.0).blocked == ("a",)
    core.follower.failed(ConnectionError("down"), 1.0)
    assert core.brokers.faults.verdict(1.0).blocked == ()


def test_failures_of_the_network_make_a_hint_and_a_probe_that_gets_through_withdraws_it(
    core: ClientCore,
) -> None:
    for now in (0.0, 0.1, 0.2):
        fail(core, now)
    assert hinting(core).due(0.2) == ("a",)
    core.brokers.probed("a", 0.3, reachable=True)
    assert hinting(core).due(10.0) == ()


def test_probes_that_do_not_get_through_make_a_hint(core: ClientCore) -> None:
    for now in (0.0, 0.1, 0.2):
        core.brokers.probed("a", now, reachable=False)
    assert hinting(core).due(0.2) == ("a",)


def test_answers_with_an_error_make_no_hint(core: ClientCore) -> None:
    for now in (0.0, 0.1, 0.2, 0.3):
        fail(core, now, reachable=False)
    assert hinting(core).due(0.3) is None


def test_a_late_failure_from_before_the_brokers_last_start_makes_no_hint(core: Core) -> None:
    core.hear(core.table.come_up("a"), now=2.0)
    for _ in range(3):
        core.brokers.record("a", Result(1.5, failed=True, began_at=1.0), 2.5)
    assert hinting(core).due(3.0) is None


def test_a_broker_that_is_started_anew_withdraws_what_was_said_of_it(core: Core) -> None:
    for now in (0.0, 0.1, 0.2):
        fail(core, now)
    assert hinting(core).due(0.2) == ("a",)
    core.hear(core.table.come_up("a"), now=1.0)
    assert hinting(core).due(100.0) == ()


def test_clients_read_hints_at_different_times(core: ClientCore) -> None:
    first = hinting(core)
    assert first.to_read(0.0, 1.0)
    times = set()
    now = 0.0
    for _ in range(3):
        begin = now
        while not first.to_read(now, 1.0):
            now += 0.001
        times.add(round(now - begin, 3))
        assert 1.0 <= now - begin <= 1.51
    assert len(times) == 3

"""How a client tells of itself: once, in order, and while no lock is held."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sharedroutes.client import ClientConfig, HintConfig
from sharedroutes.client.core import ClientCore
from sharedroutes.client.observers.events import (
    BrokerIsolated,
    BrokerReturned,
    BrokersSuspected,
    Event,
    FeedLost,
    LookupDone,
    LossHeld,
    LossReleased,
    RoutesChanged,
    SnapshotSaved,
    SourceChanged,
)
from tests.client.fake_table import FakeTable
from tests.client.heard import DOWN, PLACE, Core

SOON_S: Final = 10.0


# --- how it is told -----------------------------------------------------------------------------------------


class Asks:
    """An observer that asks the client for whatever there is."""

    def __init__(self) -> None:
        self.core: Core | None = None
        self.heard: list[type] = []

    def on_event(self, event: Event) -> None:
        core = self.core
        assert core is not None
        core.health(0.0)
        core.route("t")
        core.view("u")
        core.find_address("a", 0, only_this=False)
        core.brokers.faults.states(0.0)
        core.brokers.faults.verdict(0.0)
        core.wait_s(0.0)
        core.save_due(0.0)
        core.follower.heard(b"", 0.0)
        core.forget(["no-such"])
        if isinstance(event, BrokerIsolated):
            core.accept(0.0)
        self.heard.append(type(event))


def in_time(work: Callable[[], None]) -> None:
    """Do something in a thread, which must not hang."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(SOON_S)
    assert not thread.is_alive()


def test_an_observer_may_ask_the_client_for_anything(table: FakeTable, tmp_path: Path) -> None:
    asks = Asks()
    core = asks.core = Core(table, asks, snapshot_path=tmp_path / "routes.json", hints=HintConfig())
    table.register("a", "t")

    def everything() -> None:
        core.follower.failed(DOWN, 0.0)
        core.follower.found_place(PLACE, 0.0)
        core.ask("t")
        core.look()
        core.follower.caught_up()
        core.fail("a")
        core.hear(table.come_up("a"))
        core.look()
        assert core.brokers.hints is not None
        core.brokers.heard({"a": frozenset({"x", "y", "z"})}, ["a", "b"], 0.0)
        core.follower.take_snapshot(0.0)()
        core.hear(lost=True)
        core.follower.found_place("0-0", 0.0)
        table.lose_everything()
        core.look(0.5)
        core.accept(0.5)
        core.look(0.5)

    in_time(everything)
    assert {*asks.heard} >= {
        SourceChanged,
        RoutesChanged,
        LookupDone,
        BrokerIsolated,
        BrokerReturned,
        BrokersSuspected,
        SnapshotSaved,
        FeedLost,
        LossHeld,
        LossReleased,
    }


class Looks:
    """An observer that looks a topic up as soon as it hears that changes were lost."""

    core: Core | None = None

    def on_event(self, event: Event) -> None:
        if isinstance(event, FeedLost):
            assert self.core is not None
            self.core.ask("t")


def test_what_an_observer_causes_is_told_after_what_it_was_told(table: FakeTable) -> None:
    looks = Looks()
    core = looks.core = Core(table, looks)
    core.follower.found_place(PLACE, 0.0)
    core.heard.take()
    table.register("a", "t")
    core.hear(lost=True)
    assert core.heard.take() == [FeedLost(PLACE), RoutesChanged(("t",)), LookupDone(1, 0, 0.25)]


def test_each_event_is_told_once_whichever_thread_it_happens_on(core: Core) -> None:
    def work(number: int) -> None:
        for count in range(50):
            core.ask(*(f"t{number}-{count}-{topic}" for topic in range(number + 1)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [event.topics for event in core.heard.all(LookupDone)]
    assert {count: counts.count(count) for count in {*counts}} == {1: 50, 2: 50, 3: 50, 4: 50}


def test_a_copy_of_the_process_does_not_tell_what_the_original_tells(core: Core) -> None:
    core.known.lock.acquire()
    core.known.freshness.lost("of the original")
    core.begin_copy()
    core.follower.failed(DOWN, 0.0)
    assert core.heard.take() == [SourceChanged("memory", "memory", "down")]


def test_a_copy_of_the_process_trusts_what_it_knows_as_memory_until_it_follows(core: Core) -> None:
    assert core.health(0.0).source == "live"
    core.known.lock.acquire()
    core.begin_copy()
    assert core.health(0.0).source == "memory"
    assert core.tail_due(0.0)


def test_copies_of_the_process_draw_other_chances(core: Core) -> None:
    state = core._rng.getstate()
    drawn = set()
    for _ in range(3):
        core._rng.setstate(state)
        core.known.lock.acquire()
        core.begin_copy()
        drawn.add(core._rng.random())
    assert len(drawn) == 3


def test_a_copy_of_the_process_gives_hints_under_its_own_name() -> None:
    core = ClientCore(ClientConfig(hints=HintConfig()), random.Random(1))
    assert core.brokers.hints is not None
    original = core.brokers.hints.client_id
    core.known.lock.acquire()
    core.begin_copy()
    assert core.brokers.hints.client_id != original


def test_the_default_topic_is_not_forgotten(table: FakeTable) -> None:
    core = Core(table, default_topic="TBW102")
    table.register("a", "TBW102", "t")
    core.look()
    core.forget(["TBW102", "t"])
    assert core.route("TBW102") is not None

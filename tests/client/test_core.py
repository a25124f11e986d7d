"""What a client decides and says, without a store: views, isolation, health, the log."""

from __future__ import annotations

import logging
import random
from dataclasses import replace

import pytest

from sharedroutes.client import ClientConfig, NoRoute
from sharedroutes.client.cache import Request
from sharedroutes.client.core import ClientCore
from sharedroutes.client.faults.broker import Result
from sharedroutes.client.selection import PublishView, subscribe_queues
from sharedroutes.registry import Change, ChangePage, CorruptData, Lookup, codec
from tests.client.fake_table import FakeTable
from tests.client.heard import pause_s, tail_due, wait_s

CONFIG = ClientConfig(tail_s=1.0, refresh_s=20.0, jitter_s=0.5)
PLACE = "1700000000000-1"


@pytest.fixture
def core() -> ClientCore:
    core = ClientCore(CONFIG, random.Random(1))
    core.follower.found_place(PLACE, 0.0)
    return core


def look(core: ClientCore, table: FakeTable, now: float = 0.0) -> None:
    while (request := core.known.cache.due(now)) is not None:
        core.known.offer(request, table.answer(request), now)


def ask(core: ClientCore, topics: list[str], now: float) -> Request | None:
    """Return what a caller asks the store to learn about topics."""
    return core.question(topics, now).request


def view(core: ClientCore, table: FakeTable, topic: str = "t", now: float = 0.0) -> PublishView:
    """Return the view of a topic, read if it is not known."""
    request = ask(core, [topic], now)
    if request is not None:
        core.known.offer(request, table.answer(request), now)
    found = core.view(topic)
    assert found is not None
    return found


def page(*changes: Change, lost: bool = False, complete: bool = True) -> ChangePage:
    return ChangePage(changes, PLACE, lost, complete)


def pick(core: ClientCore, table: FakeTable, now: float) -> set[str]:
    """Return the brokers that get their turn."""
    found = view(core, table, now=now)
    return {core.brokers.pick("t", found, frozenset(), now).broker_name for _ in range(2 * found.size)}


# --- views -------------------------------------------------------------------------------------------------


def test_producers_begin_at_different_queues(table: FakeTable) -> None:
    table.register("a", "t")
    table.register("b", "t")
    firsts = set()
    for seed in range(50):
        core = ClientCore(CONFIG, random.Random(seed))
        firsts.add(core.brokers.pick("t", view(core, table), frozenset(), 0.0))
    assert len(firsts) == 8


def test_the_turns_go_on_when_the_route_changes(core: ClientCore, table: FakeTable) -> None:
    table.register("a", "t")
    first = view(core, table)
    core.brokers.pick("t", first, frozenset(), 0.0)
    core.follower.found_page(page(*table.register("b", "t")), 0.0)
    look(core, table)
    second = view(core, table)
    assert second.turns is first.turns
    assert {queue.broker_name for queue in second.queues} == {"a", "b"}


def test_a_view_is_dropped_when_an_answer_changes_its_route(core: ClientCore, table: FakeTable) -> None:
    for name in ("a", "b"):
        table.register(name, "t")
    view(core, table)
    table.expire("a")
    look(core, table, 1.0)
    assert core.views == {}
    assert pick(core, table, 1.0) == {"b"}


def test_a_view_is_kept_until_its_route_changes(core: ClientCore, table: FakeTable) -> None:
    table.register("a", "t")
    table.register("b", "other")
    views = {topic: view(core, table, topic) for topic in ("t", "other")}
    assert core.views == views
    core.follower.found_page(page(table.unregister("a")), 0.0)
    assert core.views == {"other": views["other"]}
    look(core, table, 1.0)
    assert core.views == {"other": views["other"]}


@pytest.mark.parametrize("avoid", ["a", ["a"], {"a"}, ("a", "c")])
def test_one_broker_or_several_are_avoided(
    core: ClientCore, table: FakeTable, avoid: str | list[str] | set[str] | tuple[str, ...]
) -> None:
    for name in ("a", "b"):
        table.register(name, "t")
    found = view(core, table)
    assert {
        core.brokers.pick("t", found, core.brokers.avoided(avoid), 0.0).broker_name for _ in range(8)
    } == {"b"}


def test_a_topic_without_a_live_master_is_no_route_for_a_producer(core: ClientCore, table: FakeTable) -> None:
    table.register("a", "t")
    table.come_up("a", 1)
    table.expire("a", 0)
    found = view(core, table)
    with pytest.raises(NoRoute, match="no live master accepts messages for topic 't'") as raised:
        core.brokers.pick("t", found, frozenset(), 0.0)
    assert raised.value.topic == "t"
    assert isinstance(raised.value, LookupError)
    route = core.route("t")
    assert route is not None
    assert {queue.address for queue in subscribe_queues(route)} == {table.leases["a", 1]}


def test_what_is_known_or_was_asked_just_now_is_not_asked(core: ClientCore, table: FakeTable) -> None:
    table.register("a", "t")
    view(core, table)
    request = ask(core, ["t", "u", "v"], 0.0)
    assert request is not None
    assert request.topics == ("u", "v")
    core.known.offer(request, table.answer(request), 0.0)
    assert ask(core, ["t", "u", "v"], 0.0) is None
    assert ask(core, ["t", "u", "v"], CONFIG.missing_retry_s) is not None


# --- isolation ---------------------------------------------------------------------------------------------


def test_a_broker_that_comes_back_ends_its_isolation(core: ClientCore, table: FakeTable) -> None:
    for name in ("a", "b"):
        table.register(name, "t")
    core.brokers.faults.record("a", Result(0.0, failed=True), 0.0)
    assert pick(core, table, 1.0) == {"b"}
    core.follower.found_page(page(table.come_up("a")), 1.0)
    look(core, table, 1.0)
    assert pick(core, table, 1.0) == {"a", "b"}


def test_an_isolation_ends_by_itself(core: ClientCore, table: FakeTable) -> None:
    for name in ("a", "b"):
        table.register(name, "t")
    core.brokers.faults.record("a", Result(0.0, failed=True), 0.0)
    assert pick(core, table, 9.9) == {"b"}
    assert pick(core, table, 10.0) == {"a", "b"}


def test_when_all_fail_the_one_that_comes_back_first_gets_its_turn(
    core: ClientCore, table: FakeTable
) -> None:
    for name, now in (("a", 0.0), ("b", 0.5)):
        table.register(name, "t")
        core.brokers.faults.record(name, Result(0.0, failed=True), now)
    assert pick(core, table, 1.0) == {"a"}


# --- the follower's next step ------------------------------------------------------------------------------


def test_in_place_the_follower_waits_until_something_is_due(core: ClientCore, table: FakeTable) -> None:
    look(core, table)
    assert wait_s(core, 0.25) == 0.75
    assert not tail_due(core, 0.25)
    assert tail_due(core, 1.0)
    assert wait_s(core, 5.0) == 0


@pytest.mark.parametrize("message", [b"", b"garbage", f"0-0 {PLACE[:-1]}2 {{}}".encode()])
def test_a_doorbell_out_of_sequence_makes_the_tail_due(
    core: ClientCore, table: FakeTable, message: bytes
) -> None:
    look(core, table)
    core.follower.heard(message)
    assert tail_due(core, 0.0)
    assert wait_s(core, 0.0) == 0
    core.follower.found_page(page(), 0.0)
    assert not tail_due(core, 0.0)


def test_a_doorbell_in_sequence_is_taken_in_without_a_read(core: ClientCore, table: FakeTable) -> None:
    for name in ("a", "b"):
        table.register(name, "t")
    view(core, table)
    look(core, table)
    record = codec.encode_change(table.unregister("a")).decode()
    core.follower.heard(f"{PLACE} {PLACE[:-1]}2 {record}".encode())
    assert pick(core, table, 0.0) == {"b"}
    assert core.known.stream.id == f"{PLACE[:-1]}2"
    assert not tail_due(core, 0.0)


def test_a_page_that_is_not_the_last_makes_the_next_one_due(core: ClientCore) -> None:
    core.follower.found_page(page(complete=False), 0.0)
    assert tail_due(core, 0.0)
    core.follower.found_page(page(), 0.0)
    assert not tail_due(core, 0.0)


def test_a_lost_position_is_said_and_looked_for_at_once(
    core: ClientCore, table: FakeTable, caplog: pytest.LogCaptureFixture
) -> None:
    look(core, table)
    core.follower.found_page(page(lost=True), 0.0)
    assert core.known.stream.id is None
    assert wait_s(core, 0.0) == 0
    assert f"the store lost changes after {PLACE}" in caplog.text
    core.follower.found_place("0-0", 0.0)
    request = core.known.cache.due(CONFIG.jitter_s)
    assert request is not None
    assert request.full


def unreadable(*changes: Change) -> ChangePage:
    error = CorruptData("{sharedroutes}:changes", "entry 1-1 is no change")
    return ChangePage(changes, PLACE, lost=False, complete=True, corrupt=(error, error))


def test_after_a_page_that_cannot_be_read_everything_is_read_again_once_and_soon(
    core: ClientCore, table: FakeTable
) -> None:
    table.register("a", "t")
    view(core, table)
    look(core, table)
    for now in (2.0, 4.0):
        look(core, table, now)
        core.follower.found_page(unreadable(), now)
        core.follower.found_page(unreadable(), now + 0.4)  # another one does not put it off
        assert wait_s(core, now) <= CONFIG.jitter_s
        soon = now + CONFIG.jitter_s
        request = core.known.cache.due(soon)
        assert request is not None
        assert (request.full, request.topics) == (True, ("t",))
        core.known.offer(request, table.answer(request), soon)
        core.follower.found_page(page(), soon)
        assert core.known.cache.due(soon) is None


def test_a_change_that_cannot_be_read_is_no_reason_to_hold_back_a_single_loss(
    core: ClientCore, table: FakeTable
) -> None:
    for name in ("a", "b", "c"):
        table.register(name, "t")
    view(core, table)
    look(core, table)
    table.expire("a")
    core.follower.found_page(unreadable(), 0.0)
    look(core, table, CONFIG.jitter_s)
    assert core.health(CONFIG.jitter_s).held == ()
    assert pick(core, table, CONFIG.jitter_s) == {"b", "c"}


def test_what_was_asked_before_a_change_that_cannot_be_read_is_asked_again(
    core: ClientCore, table: FakeTable
) -> None:
    look(core, table)
    asked, under_way = ask(core, ["t"], 0.0), ask(core, ["u"], 0.0)
    assert asked is not None
    assert under_way is not None
    core.known.offer(asked, table.answer(asked), 0.0)
    answer = table.answer(under_way)
    table.register("a", "t", "u")
    core.follower.found_page(unreadable(), 0.0)
    core.known.offer(under_way, answer, 0.0)
    again = ask(core, ["t", "u"], 0.0)
    assert again is not None
    assert again.topics == ("t", "u")


def test_the_first_try_comes_at_once_and_the_others_anywhere_within_the_time_to_reconnect(
    core: ClientCore,
) -> None:
    first_s, *pauses_s = [pause_s(core) for _ in range(200)]
    assert 0 < first_s <= 0.1
    assert 0.5 <= min(pauses_s) < 1
    assert CONFIG.reconnect_s - 1 < max(pauses_s) <= CONFIG.reconnect_s
    assert len(set(pauses_s)) == len(pauses_s)
    core.follower.found_place(PLACE, 0.0)
    core.follower.caught_up()
    assert pause_s(core) <= 0.1


# --- what it says ------------------------------------------------------------------------------------------


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage().partition(":")[0]) for record in caplog.records]


def test_an_outage_is_said_once_and_its_end_once(
    core: ClientCore, table: FakeTable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(3):
        core.follower.failed(ConnectionError("down"), 0.0)
    look(core, table)
    core.follower.found_page(page(), 0.0)
    for _ in range(2):
        core.follower.caught_up()
    assert messages(caplog) == [
        (logging.WARNING, "the store does not answer, serving the last known routes"),
        (logging.INFO, "the store answers again"),
    ]


def test_a_corrupt_key_is_said_once_wherever_it_is_met(
    core: ClientCore, caplog: pytest.LogCaptureFixture
) -> None:
    error = CorruptData("{sharedroutes}:topic:t", "is a list")
    request = ask(core, ["t"], 0.0)
    assert request is not None
    core.known.offer(request, Lookup(corrupt=(error,)), 0.0)
    core.follower.found_page(ChangePage((), PLACE, lost=False, complete=True, corrupt=(error,)), 0.0)
    assert messages(caplog) == [
        (logging.ERROR, "a key of the registry is corrupt, the rest is served"),
    ]
    assert "{sharedroutes}:topic:t" in caplog.text


def test_a_key_that_was_mended_and_is_corrupt_again_is_said_again(
    core: ClientCore, table: FakeTable, caplog: pytest.LogCaptureFixture
) -> None:
    table.register("a", "t")
    topic = CorruptData("{sharedroutes}:topic:t", "is a list")
    stream = CorruptData(core.known.stream.key, "is a list")

    def read_all(now: float, *corrupt: CorruptData) -> None:
        core.follower.failed(stream, now)
        core.accept(now)
        request = core.known.cache.due(now)
        assert request is not None
        assert request.full
        core.known.offer(request, replace(table.answer(request), corrupt=corrupt), now)

    for now in range(3):
        read_all(now, topic)
    assert said_of(caplog, topic.key) == 1
    read_all(3.0)
    read_all(4.0, topic)
    assert (said_of(caplog, topic.key), said_of(caplog, stream.key)) == (2, 1)


def said_of(caplog: pytest.LogCaptureFixture, key: str) -> int:
    """Return how often a key was reported."""
    return sum(f": {key}: " in message for message in caplog.messages)


def test_health_of_a_client_that_never_reached_the_store() -> None:
    health = ClientCore(CONFIG).health(5.0)
    assert (health.source, health.age_s, health.last_error, health.position) == ("none", None, None, None)
    assert (health.held, health.topics) == ((), 0)


def test_health_tells_whether_and_when_the_store_answered(core: ClientCore, table: FakeTable) -> None:
    table.register("a", "t")
    view(core, table)
    health = core.health(2.0)
    assert (health.source, health.age_s, health.last_error) == ("live", 2.0, None)
    assert (health.position, health.topics) == (PLACE, 1)
    core.follower.failed(ConnectionError("down"), 0.0)
    health = core.health(3.0)
    assert (health.source, health.age_s, health.last_error) == ("memory", 3.0, "down")
    core.follower.found_page(page(), 3.5)
    core.follower.caught_up()
    health = core.health(4.0)
    assert (health.source, health.age_s, health.last_error) == ("live", 0.5, None)


def test_health_names_what_is_held_back(core: ClientCore, table: FakeTable) -> None:
    table.register("b", "t")
    table.register("a", "t")
    view(core, table)
    table.lose_everything()
    core.follower.found_page(page(lost=True), 0.0)
    core.follower.found_place("0-0", 0.0)
    look(core, table, 1.0)
    health = core.health(1.0)
    assert (health.held_brokers, health.held_topics) == (("a", "b"), ("t",))
    assert health.held == ("a", "b", "t")

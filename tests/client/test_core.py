"""What a client decides and says, without a store: views, health, the log."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from sharedroutes.client import NoRoute
from sharedroutes.client.selection import PublishView, subscribe_queues
from sharedroutes.registry import Change, ChangePage, CorruptData, Lookup, codec
from tests.client.fake_table import FakeTable
from tests.client.heard import PLACE, Core

REFRESH_S = 20.0


@pytest.fixture
def core(table: FakeTable) -> Core:
    """Return a core that has its place, and reads everything now and then."""
    return Core(table, refresh_s=REFRESH_S).begin()


def view(core: Core, topic: str = "t", now: float = 0.0) -> PublishView:
    """Return the view of a topic, read if it is not known."""
    request = core.question([topic], now).request
    if request is not None:
        core.answer(request, now)
    found = core.view(topic)
    assert found is not None
    return found


def pick(core: Core, now: float) -> set[str]:
    """Return the brokers that get their turn."""
    found = view(core, now=now)
    return {core.brokers.pick("t", found, frozenset(), now).broker_name for _ in range(2 * found.size)}


# --- views -------------------------------------------------------------------------------------------------


def test_producers_begin_at_different_queues(table: FakeTable) -> None:
    table.register("a", "t")
    table.register("b", "t")
    firsts = set()
    for seed in range(50):
        core = Core(table, seed=seed)
        firsts.add(core.brokers.pick("t", view(core), frozenset(), 0.0))
    assert len(firsts) == 8


def test_the_turns_go_on_when_the_route_changes(core: Core) -> None:
    core.table.register("a", "t")
    first = view(core)
    core.brokers.pick("t", first, frozenset(), 0.0)
    core.hear(*core.table.register("b", "t"))
    core.look()
    second = view(core)
    assert second.turns is first.turns
    assert {queue.broker_name for queue in second.queues} == {"a", "b"}


def test_a_view_is_dropped_when_an_answer_changes_its_route(core: Core) -> None:
    for name in ("a", "b"):
        core.table.register(name, "t")
    view(core)
    core.hear(core.table.expire("a"))
    core.look(1.0)
    assert core.views == {}
    assert pick(core, 1.0) == {"b"}


def test_what_is_found_after_the_end_is_not_kept(core: Core) -> None:
    core.table.register("a", "t")
    request = core.question(["t"], 0.0).request
    core.close()
    core.answer(request)
    assert core.view("t") is not None
    assert core.route("t") is not None
    assert (core.views, core.routes) == ({}, {})


def test_a_view_is_kept_until_its_route_changes(core: Core) -> None:
    core.table.register("a", "t")
    core.table.register("b", "other")
    views = {topic: view(core, topic) for topic in ("t", "other")}
    assert core.views == views
    core.hear(core.table.unregister("a"))
    assert core.views == {"other": views["other"]}
    core.look(1.0)
    assert core.views == {"other": views["other"]}


@pytest.mark.parametrize("avoid", ["a", ["a"], {"a"}, ("a", "c")])
def test_one_broker_or_several_are_avoided(
    core: Core, avoid: str | list[str] | set[str] | tuple[str, ...]
) -> None:
    for name in ("a", "b"):
        core.table.register(name, "t")
    found = view(core)
    assert {
        core.brokers.pick("t", found, core.brokers.avoided(avoid), 0.0).broker_name for _ in range(8)
    } == {"b"}


def test_a_topic_without_a_live_master_is_no_route_for_a_producer(core: Core) -> None:
    core.table.register("a", "t")
    core.table.come_up("a", 1)
    core.table.expire("a", 0)
    found = view(core)
    with pytest.raises(NoRoute, match="no live master accepts messages for topic 't'") as raised:
        core.brokers.pick("t", found, frozenset(), 0.0)
    assert raised.value.topic == "t"
    assert isinstance(raised.value, LookupError)
    route = core.route("t")
    assert route is not None
    assert {queue.address for queue in subscribe_queues(route)} == {core.table.leases["a", 1]}


def test_what_is_known_or_was_asked_just_now_is_not_asked(core: Core) -> None:
    core.table.register("a", "t")
    view(core)
    request = core.question(["t", "u", "v"], 0.0).request
    assert request is not None
    assert request.topics == ("u", "v")
    core.answer(request, 0.0)
    assert core.question(["t", "u", "v"], 0.0).request is None
    assert core.question(["t", "u", "v"], core.config.missing_retry_s).request is not None


# --- the follower's next step ------------------------------------------------------------------------------


def test_in_place_the_follower_waits_until_something_is_due(core: Core) -> None:
    core.look()
    assert core.wait_s(0.25) == 0.75
    assert not core.tail_due(0.25)
    assert core.tail_due(1.0)
    assert core.wait_s(5.0) == 0


@pytest.mark.parametrize("message", [b"", b"garbage", f"0-0 {PLACE[:-1]}2 {{}}".encode()])
def test_a_doorbell_out_of_sequence_makes_the_tail_due(core: Core, message: bytes) -> None:
    core.look()
    core.follower.heard(message, 0.0)
    assert core.tail_due(0.0)
    assert core.wait_s(0.0) == 0
    core.hear()
    assert not core.tail_due(0.0)


def test_a_doorbell_in_sequence_is_taken_in_without_a_read(core: Core) -> None:
    for name in ("a", "b"):
        core.table.register(name, "t")
    view(core)
    core.look()
    record = codec.encode_change(core.table.unregister("a")).decode()
    core.follower.heard(f"{PLACE} {PLACE[:-1]}2 {record}".encode(), 0.0)
    assert pick(core, 0.0) == {"b"}
    assert core.known.stream.id == f"{PLACE[:-1]}2"
    assert not core.tail_due(0.0)


def test_a_page_that_is_not_the_last_makes_the_next_one_due(core: Core) -> None:
    core.hear(complete=False)
    assert core.tail_due(0.0)
    core.hear()
    assert not core.tail_due(0.0)


def test_a_lost_position_is_said_and_looked_for_at_once(core: Core, caplog: pytest.LogCaptureFixture) -> None:
    core.look()
    core.hear(lost=True)
    assert core.known.stream.id is None
    assert core.wait_s(0.0) == 0
    assert f"the store lost changes after {PLACE}" in caplog.text
    core.follower.found_place("0-0", 0.0)
    request = core.known.cache.due(core.config.jitter_s)
    assert request is not None
    assert request.full


def unreadable(*changes: Change) -> ChangePage:
    error = CorruptData("{sharedroutes}:changes", "entry 1-1 is no change")
    return ChangePage(changes, PLACE, lost=False, complete=True, corrupt=(error, error))


def test_after_a_page_that_cannot_be_read_everything_is_read_again_once_and_soon(core: Core) -> None:
    core.table.register("a", "t")
    view(core)
    core.look()
    for now in (2.0, 4.0):
        core.look(now)
        core.follower.found_page(unreadable(), now)
        core.follower.found_page(unreadable(), now + 0.4)  # another one does not put it off
        assert core.wait_s(now) <= core.config.jitter_s
        soon = now + core.config.jitter_s
        request = core.known.cache.due(soon)
        assert request is not None
        assert (request.full, request.topics) == (True, ("t",))
        core.answer(request, soon)
        core.hear(now=soon)
        assert core.known.cache.due(soon) is None


def test_a_change_that_cannot_be_read_is_no_reason_to_hold_back_a_single_loss(core: Core) -> None:
    for name in ("a", "b", "c"):
        core.table.register(name, "t")
    view(core)
    core.look()
    core.table.expire("a")
    core.follower.found_page(unreadable(), 0.0)
    for _ in range(2):
        core.look(core.config.jitter_s)
    assert core.health(core.config.jitter_s).held == ()
    assert pick(core, core.config.jitter_s) == {"b", "c"}


def test_what_was_asked_before_a_change_that_cannot_be_read_is_asked_again(core: Core) -> None:
    core.look()
    asked, under_way = core.question(["t"], 0.0).request, core.question(["u"], 0.0).request
    assert asked is not None
    assert under_way is not None
    core.answer(asked, 0.0)
    answer = core.table.answer(under_way)
    core.table.register("a", "t", "u")
    core.follower.found_page(unreadable(), 0.0)
    core.known.offer(under_way, answer, 0.0)
    again = core.question(["t", "u"], 0.0).request
    assert again is not None
    assert again.topics == ("t", "u")


def test_the_first_try_comes_at_once_and_the_others_anywhere_within_the_time_to_reconnect(core: Core) -> None:
    first_s, *pauses_s = [core.pause_s() for _ in range(200)]
    assert 0 < first_s <= 0.1
    assert 0.5 <= min(pauses_s) < 1
    assert core.config.reconnect_s - 1 < max(pauses_s) <= core.config.reconnect_s
    assert len(set(pauses_s)) == len(pauses_s)
    core.follower.found_place(PLACE, 0.0)
    core.follower.caught_up()
    assert core.pause_s() <= 0.1


# --- what it says ------------------------------------------------------------------------------------------


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage().partition(":")[0]) for record in caplog.records]


def test_a_corrupt_key_is_said_once_wherever_it_is_met(core: Core, caplog: pytest.LogCaptureFixture) -> None:
    error = CorruptData("{sharedroutes}:topic:t", "is a list")
    request = core.question(["t"], 0.0).request
    assert request is not None
    core.known.offer(request, Lookup(corrupt=(error,)), 0.0)
    core.follower.found_page(ChangePage((), PLACE, lost=False, complete=True, corrupt=(error,)), 0.0)
    assert messages(caplog) == [
        (logging.ERROR, "a key of the registry is corrupt, the rest is served"),
    ]
    assert "{sharedroutes}:topic:t" in caplog.text


def test_a_topic_whose_key_cannot_be_read_is_as_old_as_what_is_known_of_it(core: Core) -> None:
    core.table.register("a", "t")
    core.table.register("b", "u")
    core.begin()
    core.ask("t", "u")
    ages = []
    for now, is_corrupt in ((1.0, False), (5.0, True), (6.0, True), (7.0, False)):
        core.known.cache.refresh_at = now
        request = core.known.cache.due(now)
        assert request is not None
        answer = core.table.answer(request)
        if is_corrupt:
            error = CorruptData("test:topic:t", "is a list")
            answer = replace(answer, rows={"u": answer.rows["u"]}, missing=(), corrupt=(error,))
        core.known.offer(request, answer, now)
        routes = (core.route(topic) for topic in ("t", "u"))
        ages.append(tuple(route and route.as_of for route in routes))
    assert ages == [(1.0, 1.0), (1.0, 5.0), (1.0, 6.0), (7.0, 7.0)]


def test_a_key_that_was_mended_and_is_corrupt_again_is_said_again(
    core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    core.table.register("a", "t")
    topic = CorruptData("{sharedroutes}:topic:t", "is a list")
    stream = CorruptData(core.known.stream.key, "is a list")

    def read_all(now: float, *corrupt: CorruptData) -> None:
        core.follower.failed(stream, now)
        core.accept(now)
        request = core.known.cache.due(now)
        assert request is not None
        assert request.full
        core.known.offer(request, replace(core.table.answer(request), corrupt=corrupt), now)

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
    health = Core().health(5.0)
    assert (health.source, health.age_s, health.last_error, health.position) == ("none", None, None, None)
    assert (health.held, health.topics) == ((), 0)


def test_health_tells_whether_and_when_the_store_answered(core: Core) -> None:
    core.table.register("a", "t")
    view(core)
    health = core.health(2.0)
    assert (health.source, health.age_s, health.last_error) == ("live", 2.0, None)
    assert (health.position, health.topics) == (PLACE, 1)
    core.follower.failed(ConnectionError("down"), 0.0)
    health = core.health(3.0)
    assert (health.source, health.age_s, health.last_error) == ("memory", 3.0, "down")
    core.hear(now=3.5)
    core.follower.caught_up()
    health = core.health(4.0)
    assert (health.source, health.age_s, health.last_error) == ("live", 0.5, None)

"""Losses that leave a topic without a route: who has to agree before they are believed."""

from __future__ import annotations

import pytest

from sharedroutes.client.cache import Request, RouteCache
from sharedroutes.registry import TopicRoute
from tests.client.caches import HOLD_S, REFRESH_S, SETTLED, TAIL_S, ask, brokers_of, look
from tests.client.fake_table import FakeTable


@pytest.fixture
def before(cache: RouteCache, table: FakeTable) -> TopicRoute:
    """Return the route of topic t, of which broker-a is the only holder; three others hold u."""
    table.come_up("a", 1)
    look(cache, table)
    table.register("a", "t")
    for name in ("b", "c", "d"):
        table.register(name, "u")
    ask(cache, table, "t", "u")
    look(cache, table)
    route = cache.table.route("t")
    assert route is not None
    return route


def lose_row(table: FakeTable, topic: str) -> None:
    """Let a topic vanish, as when a store lost a part of its data."""
    del table.rows[topic]


def lose_leases(table: FakeTable, name: str = "a") -> None:
    """Let all replicas of a broker vanish, untold."""
    for broker_id in tuple(table.members[name]):
        table.expire(name, broker_id)


def one_full_look(cache: RouteCache, table: FakeTable, now: float) -> Request:
    """Answer one request for everything."""
    cache.refresh_at = now
    request = cache.due(now)
    assert request is not None
    assert request.full
    cache.offer(request, table.answer(request), now)
    return request


# --- the last broker of a topic -----------------------------------------------------------------------------


def test_a_silent_loss_of_the_last_broker_of_a_topic_is_kept_until_a_second_look(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    lose_leases(table)
    look(cache, table, TAIL_S)
    assert cache.table.route("t") == before
    assert cache.losses.held == {"a"}
    assert cache.losses.guarded_until is None
    look(cache, table, 2 * TAIL_S)
    assert cache.table.route("t") is None
    assert cache.losses.held == set()


def test_a_broker_that_the_second_look_finds_was_never_lost(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    leases = dict(table.leases)
    lose_leases(table)
    look(cache, table, TAIL_S)
    table.leases = leases
    look(cache, table, 2 * TAIL_S)
    assert cache.table.route("t") == before
    assert cache.losses.held == set()
    lose_leases(table)
    look(cache, table, 3 * TAIL_S)
    assert cache.table.route("t") == before


def test_a_loss_that_the_feed_told_of_is_believed_at_once(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    cache.take([table.expire("a", 0), table.expire("a", 1)])
    assert cache.table.route("t") == before
    look(cache, table)
    assert cache.table.route("t") is None
    assert cache.losses.held == set()


@pytest.mark.usefixtures("before")
def test_a_doubted_loss_that_the_feed_tells_of_next_is_looked_at_at_once(
    cache: RouteCache, table: FakeTable
) -> None:
    lose_leases(table)
    look(cache, table, TAIL_S)
    cache.take([table.expire("a")])
    look(cache, table, TAIL_S)
    assert cache.table.route("t") is None
    assert cache.losses.held == set()


@pytest.mark.usefixtures("before")
def test_a_broker_that_ends_its_lease_itself_needs_no_look(cache: RouteCache, table: FakeTable) -> None:
    cache.take([table.unregister("a", 1), table.unregister("a", 0)])
    assert cache.table.route("t") is None
    assert cache.losses.held == set()


def test_an_answer_that_was_overtaken_is_no_second_look(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    overtaken = cache.request(["other"])
    lose_leases(table)
    look(cache, table, TAIL_S)
    cache.offer(overtaken, table.answer(overtaken), TAIL_S)
    assert cache.table.route("t") == before
    assert cache.losses.held == {"a"}


def test_a_callers_look_is_a_second_look(cache: RouteCache, table: FakeTable, before: TopicRoute) -> None:
    lose_leases(table)
    ask(cache, table, "other", now=0.1)
    assert cache.table.route("t") == before
    ask(cache, table, "another", now=0.2)
    assert cache.table.route("t") is None


def test_a_partial_loss_is_believed_at_once(cache: RouteCache, table: FakeTable, before: TopicRoute) -> None:
    table.expire("b")
    look(cache, table, TAIL_S)
    assert set(brokers_of(cache, "u")) == {"c", "d"}
    assert cache.table.route("t") == before
    assert cache.losses.held == set()


@pytest.mark.usefixtures("before")
def test_several_brokers_without_which_a_topic_has_no_route_are_all_kept(
    cache: RouteCache, table: FakeTable
) -> None:
    table.register("b", "pair")
    table.register("c", "pair")
    ask(cache, table, "pair")
    pair = cache.table.route("pair")
    lose_leases(table, "b")
    lose_leases(table, "c")
    look(cache, table, TAIL_S)
    assert cache.table.route("pair") == pair
    assert cache.losses.held == {"b", "c"}


def test_a_broker_that_may_never_have_been_there_is_no_reason_to_let_a_sure_one_go(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    asked = cache.request(["t"])
    cache.begin()
    table.register("e", "t")
    cache.offer(asked, table.answer(asked), SETTLED)  # e may have ended before the place in the feed
    assert set(brokers_of(cache, "t")) == {"a", "e"}
    for name in ("a", "e"):
        lose_leases(table, name)
    request = cache.due(SETTLED)
    assert request is not None
    cache.offer(request, table.answer(request), SETTLED)
    assert brokers_of(cache, "t") == {"a": before.broker_datas[0].broker_addrs}
    assert cache.losses.held == {"a"}


# --- the replicas of a broker -------------------------------------------------------------------------------


def test_one_lost_replica_of_several_is_believed_at_once(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    assert set(brokers_of(cache, "t")["a"]) == {0, 1}
    table.expire("a", 1)
    look(cache, table, TAIL_S)
    assert brokers_of(cache, "t") == {"a": {0: before.broker_datas[0].broker_addrs[0]}}
    assert cache.losses.held == set()
    table.expire("a", 0)
    look(cache, table, 2 * TAIL_S)
    assert set(brokers_of(cache, "t")["a"]) == {0}
    assert cache.losses.held == {"a"}


def test_when_all_replicas_are_lost_all_are_kept(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    addresses = brokers_of(cache, "t")
    lose_leases(table)
    look(cache, table, TAIL_S)
    assert brokers_of(cache, "t") == addresses
    assert before.broker_datas[0].broker_addrs.keys() == {0, 1}


def test_a_replica_that_ends_itself_is_let_go_while_the_others_are_doubted(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    lose_leases(table)
    look(cache, table, TAIL_S)
    assert cache.table.route("t") == before
    cache.take([table.unregister("a", 1)])
    assert set(brokers_of(cache, "t")["a"]) == {0}
    assert cache.losses.held == {"a"}
    look(cache, table, TAIL_S)
    assert cache.table.route("t") is None
    assert cache.losses.held == set()


# --- the rows of a topic ------------------------------------------------------------------------------------


def test_a_topic_that_vanished_silently_is_looked_at_again_at_once(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    lose_row(table, "t")
    one_full_look(cache, table, SETTLED)
    assert cache.table.route("t") == before
    assert cache.losses.held == {"t"}
    assert cache.next_due() == 0
    again = cache.due(SETTLED)
    assert again is not None
    assert again.topics == ("t",)
    cache.offer(again, table.answer(again), SETTLED)
    assert cache.table.route("t") is None
    assert cache.losses.held == set()
    assert cache.due(SETTLED) is None


def test_a_topic_that_the_second_look_finds_was_never_lost(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    rows = table.rows["t"]
    lose_row(table, "t")
    one_full_look(cache, table, SETTLED)
    table.rows["t"] = rows
    assert look(cache, table, SETTLED) == set()
    assert cache.table.route("t") == before
    assert cache.losses.held == set()


@pytest.mark.parametrize("told", ["removed", "deleted"])
def test_a_topic_that_the_feed_told_to_be_gone_needs_one_look(
    cache: RouteCache, table: FakeTable, before: TopicRoute, told: str
) -> None:
    cache.take([table.delete("t") if told == "deleted" else table.write("a", [])])
    assert cache.table.route("t") == before
    request = cache.due(0.0)
    assert request is not None
    cache.offer(request, table.answer(request), 0.0)
    assert cache.table.route("t") is None
    assert cache.due(0.0) is None


def test_a_topic_that_lost_a_part_of_its_rows_is_believed_at_once(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    table.write("b", [])
    one_full_look(cache, table, SETTLED)
    assert set(brokers_of(cache, "u")) == {"c", "d"}
    assert cache.table.route("t") == before
    assert cache.losses.held == set()


def test_a_topic_whose_new_holder_is_dead_keeps_its_route_until_a_second_look(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    table.write("a", [])
    table.write("dead", ["t"])
    one_full_look(cache, table, SETTLED)
    assert cache.table.route("t") == before
    look(cache, table, SETTLED)
    assert cache.table.route("t") is None
    assert cache.losses.held == set()


@pytest.mark.usefixtures("before")
def test_a_doubted_topic_that_nobody_wants_any_more_is_held_no_longer(
    cache: RouteCache, table: FakeTable
) -> None:
    lose_row(table, "t")
    one_full_look(cache, table, SETTLED)
    cache.forget(["t"])
    assert cache.losses.held == set()
    assert cache.due(SETTLED) is None


# --- the end of a hold --------------------------------------------------------------------------------------


def test_a_hold_that_ran_out_of_time_is_not_doubted_once_more(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    cache.lose(SETTLED)
    lose_leases(table)
    lose_row(table, "t")
    one_full_look(cache, table, SETTLED)
    assert cache.table.route("t") == before
    assert cache.losses.held == {"a", "t"}
    one_full_look(cache, table, SETTLED + HOLD_S)
    assert cache.table.route("t") is None
    assert cache.losses.held == set()


def test_what_was_lost_only_at_the_end_of_a_hold_is_doubted(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    cache.lose(SETTLED)
    lose_leases(table, "b")
    one_full_look(cache, table, SETTLED)
    assert cache.losses.held == {"b"}
    lose_leases(table)
    one_full_look(cache, table, SETTLED + HOLD_S)
    assert set(brokers_of(cache, "u")) == {"c", "d"}
    assert cache.table.route("t") == before
    assert cache.losses.held == {"a"}


@pytest.mark.usefixtures("before")
def test_the_end_of_a_broker_that_nobody_uses_is_not_remembered(cache: RouteCache, table: FakeTable) -> None:
    for number in range(3):
        table.register(f"other-{number}", "theirs")
        cache.take([table.expire(f"other-{number}")])
    assert cache.losses.brokers._announced == set()


# --- an operator's word -------------------------------------------------------------------------------------


def test_what_an_operator_accepts_is_believed_at_the_next_look_which_comes_at_once(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    table.lose_everything()
    look(cache, table, TAIL_S)
    assert cache.table.route("t") == before
    cache.accept(TAIL_S + 0.1)
    assert cache.next_due() == TAIL_S + 0.1
    request = cache.due(TAIL_S + 0.1)
    assert request is not None
    assert request.full
    cache.offer(request, table.answer(request), TAIL_S + 0.1)
    assert (cache.table.rows, cache.table.alive, cache.losses.held) == ({}, {}, set())
    assert cache.losses.guarded_until is None
    assert cache.due(TAIL_S + 0.1) is None


def test_what_an_operator_accepted_is_asked_until_there_is_an_answer(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    table.lose_everything()
    look(cache, table, TAIL_S)
    cache.accept(TAIL_S)
    assert cache.due(TAIL_S) is not None  # and the store does not answer
    assert cache.table.route("t") == before
    look(cache, table, TAIL_S)
    assert cache.table.route("t") is None


def test_an_answer_that_was_under_way_is_not_what_the_operator_accepted(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    table.lose_everything()
    under_way = cache.request(["other"])
    cache.accept(TAIL_S)
    cache.offer(under_way, table.answer(under_way), TAIL_S)
    assert cache.table.route("t") == before
    look(cache, table, TAIL_S)
    assert (cache.table.rows, cache.losses.held, cache.losses.guarded_until) == ({}, set(), None)


@pytest.mark.usefixtures("before")
def test_after_an_operators_word_any_answer_is_believed_until_everything_was_read(
    cache: RouteCache, table: FakeTable
) -> None:
    lose_leases(table)
    lose_row(table, "t")
    cache.accept(TAIL_S)
    ask(cache, table, "other", now=TAIL_S)
    assert cache.table.route("t") is None
    assert cache.losses.held == set()
    one_full_look(cache, table, TAIL_S)
    assert cache.table.rows.keys() == {"u"}
    u = cache.table.route("u")
    lose_row(table, "u")
    one_full_look(cache, table, REFRESH_S)
    assert cache.table.route("u") == u
    assert cache.losses.held == {"u"}


def test_an_operators_word_while_nothing_is_held_changes_nothing(
    cache: RouteCache, table: FakeTable, before: TopicRoute
) -> None:
    cache.accept(SETTLED)
    assert look(cache, table, SETTLED) == set()
    assert cache.table.route("t") == before
    lose_leases(table)
    look(cache, table, SETTLED + TAIL_S)
    assert cache.table.route("t") == before

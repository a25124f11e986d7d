"""Losses that the stream has not told of: who has to agree before they are believed."""

from __future__ import annotations

import pytest

from sharedroutes.registry import TopicRoute
from tests.client.caches import HOLD_S, REFRESH_S, SETTLED, TAIL_S, Rig
from tests.client.fake_table import FakeTable


@pytest.fixture
def before(rig: Rig) -> TopicRoute:
    """Return the route of topic t, of which broker-a is the only holder; three others hold u."""
    rig.table.come_up("a", 1)
    rig.look()
    rig.table.register("a", "t")
    for name in ("b", "c", "d"):
        rig.table.register(name, "u")
    rig.ask("t", "u")
    rig.look()
    route = rig.route("t")
    assert route is not None
    return route


def lose_row(table: FakeTable, topic: str) -> None:
    """Let a topic vanish, as when a store lost a part of its data."""
    del table.rows[topic]


def lose_leases(table: FakeTable, name: str = "a") -> None:
    """Let all replicas of a broker vanish, untold."""
    for broker_id in tuple(table.members[name]):
        table.expire(name, broker_id)


# --- the last broker of a topic -----------------------------------------------------------------------------


def test_a_silent_loss_of_the_last_broker_of_a_topic_is_kept_until_a_second_look(
    rig: Rig, before: TopicRoute
) -> None:
    lose_leases(rig.table)
    rig.look(TAIL_S)
    assert rig.route("t") == before
    assert rig.held == {"a"}
    assert rig.cache.losses.guarded_until is None
    rig.look(2 * TAIL_S)
    assert rig.route("t") is None
    assert rig.held == set()


def test_a_broker_that_the_second_look_finds_was_never_lost(rig: Rig, before: TopicRoute) -> None:
    leases = dict(rig.table.leases)
    lose_leases(rig.table)
    rig.look(TAIL_S)
    rig.table.leases = leases
    rig.look(2 * TAIL_S)
    assert rig.route("t") == before
    assert rig.held == set()
    lose_leases(rig.table)
    rig.look(3 * TAIL_S)
    assert rig.route("t") == before


def test_a_loss_that_the_feed_told_of_is_believed_at_once(rig: Rig, before: TopicRoute) -> None:
    rig.cache.take([rig.table.expire("a", 0), rig.table.expire("a", 1)])
    assert rig.route("t") == before
    rig.look()
    assert rig.route("t") is None
    assert rig.held == set()


@pytest.mark.usefixtures("before")
def test_a_doubted_loss_that_the_feed_tells_of_next_is_looked_at_at_once(rig: Rig) -> None:
    lose_leases(rig.table)
    rig.look(TAIL_S)
    rig.cache.take([rig.table.expire("a")])
    rig.look(TAIL_S)
    assert rig.route("t") is None
    assert rig.held == set()


@pytest.mark.usefixtures("before")
def test_a_broker_that_ends_its_lease_itself_needs_no_look(rig: Rig) -> None:
    rig.cache.take([rig.table.unregister("a", 1), rig.table.unregister("a", 0)])
    assert rig.route("t") is None
    assert rig.held == set()


def test_an_answer_that_was_overtaken_is_no_second_look(rig: Rig, before: TopicRoute) -> None:
    overtaken = rig.cache.request(["other"])
    lose_leases(rig.table)
    rig.look(TAIL_S)
    rig.answer(overtaken, TAIL_S)
    assert rig.route("t") == before
    assert rig.held == {"a"}


def test_a_callers_look_is_a_second_look(rig: Rig, before: TopicRoute) -> None:
    lose_leases(rig.table)
    rig.ask("other", now=0.1)
    assert rig.route("t") == before
    rig.read_stream()
    rig.ask("another", now=0.2)
    assert rig.route("t") is None


def test_until_the_stream_was_read_no_look_is_a_second_one(rig: Rig, before: TopicRoute) -> None:
    lose_leases(rig.table)
    lose_row(rig.table, "u")
    u = rig.route("u")
    for number in range(3):
        rig.ask("u", f"other-{number}", now=0.1)
        rig.answer(rig.cache.request(["u"]), 0.1)
    assert (rig.route("t"), rig.route("u")) == (before, u)
    assert rig.held == {"a", "u"}


def test_the_last_broker_of_a_topic_has_until_the_next_look_at_leases(rig: Rig, before: TopicRoute) -> None:
    leases = dict(rig.table.leases)
    lose_leases(rig.table)
    rig.look(TAIL_S)
    rig.read_stream(TAIL_S)
    assert rig.cache.due(TAIL_S) is None
    assert rig.cache.next_due() == 2 * TAIL_S
    rig.table.leases = leases
    rig.look(2 * TAIL_S)
    assert rig.route("t") == before
    assert rig.held == set()


def test_a_loss_that_leaves_a_topic_other_brokers_is_doubted_and_looked_at_again_at_once(
    rig: Rig, before: TopicRoute
) -> None:
    rig.table.expire("b")
    rig.look(TAIL_S)
    assert set(rig.brokers_of("u")) == {"b", "c", "d"}
    assert rig.held == {"b"}
    rig.read_stream()
    assert rig.cache.next_due() == 0
    rig.answer(rig.due(TAIL_S), TAIL_S)
    assert set(rig.brokers_of("u")) == {"c", "d"}
    assert rig.route("t") == before
    assert rig.held == set()


@pytest.mark.usefixtures("before")
def test_several_brokers_without_which_a_topic_has_no_route_are_all_kept(rig: Rig) -> None:
    rig.table.register("b", "pair")
    rig.table.register("c", "pair")
    rig.ask("pair")
    pair = rig.route("pair")
    lose_leases(rig.table, "b")
    lose_leases(rig.table, "c")
    rig.look(TAIL_S)
    assert rig.route("pair") == pair
    assert rig.held == {"b", "c"}


def test_a_broker_that_may_never_have_been_there_is_no_reason_to_let_a_sure_one_go(
    rig: Rig, before: TopicRoute
) -> None:
    asked = rig.cache.request(["t"])
    rig.cache.begin()
    rig.table.register("e", "t")
    rig.answer(asked, SETTLED)  # e may have ended before the place in the feed
    assert set(rig.brokers_of("t")) == {"a", "e"}
    for name in ("a", "e"):
        lose_leases(rig.table, name)
    rig.answer(rig.due(SETTLED), SETTLED)
    assert rig.brokers_of("t") == {"a": before.broker_datas[0].broker_addrs}
    assert rig.held == {"a"}


# --- the replicas of a broker -------------------------------------------------------------------------------


def test_one_lost_replica_of_several_is_let_go_by_a_second_look(rig: Rig, before: TopicRoute) -> None:
    assert set(rig.brokers_of("t")["a"]) == {0, 1}
    rig.table.expire("a", 1)
    rig.look(TAIL_S)
    assert rig.route("t") == before
    assert rig.held == {"a"}
    rig.look(TAIL_S)
    assert rig.brokers_of("t") == {"a": {0: before.broker_datas[0].broker_addrs[0]}}
    assert rig.held == set()
    rig.table.expire("a", 0)
    rig.look(2 * TAIL_S)
    assert set(rig.brokers_of("t")["a"]) == {0}
    assert rig.held == {"a"}


def test_when_all_replicas_are_lost_all_are_kept(rig: Rig, before: TopicRoute) -> None:
    addresses = rig.brokers_of("t")
    lose_leases(rig.table)
    rig.look(TAIL_S)
    assert rig.brokers_of("t") == addresses
    assert before.broker_datas[0].broker_addrs.keys() == {0, 1}


def test_a_replica_that_ends_itself_is_let_go_while_the_others_are_doubted(
    rig: Rig, before: TopicRoute
) -> None:
    lose_leases(rig.table)
    rig.look(TAIL_S)
    assert rig.route("t") == before
    rig.cache.take([rig.table.unregister("a", 1)])
    assert set(rig.brokers_of("t")["a"]) == {0}
    assert rig.held == {"a"}
    rig.look(TAIL_S)
    assert rig.route("t") is None
    assert rig.held == set()


# --- the rows of a topic ------------------------------------------------------------------------------------


def test_a_topic_that_vanished_silently_is_looked_at_again_at_once(rig: Rig, before: TopicRoute) -> None:
    lose_row(rig.table, "t")
    rig.full_look(SETTLED)
    assert rig.route("t") == before
    assert rig.held == {"t"}
    rig.read_stream()
    assert rig.cache.next_due() == 0
    again = rig.due(SETTLED)
    assert again.topics == ("t",)
    rig.answer(again, SETTLED)
    assert rig.route("t") is None
    assert rig.held == set()
    assert rig.cache.due(SETTLED) is None


def test_a_topic_that_the_second_look_finds_was_never_lost(rig: Rig, before: TopicRoute) -> None:
    rows = rig.table.rows["t"]
    lose_row(rig.table, "t")
    rig.full_look(SETTLED)
    rig.table.rows["t"] = rows
    assert rig.look(SETTLED) == set()
    assert rig.route("t") == before
    assert rig.held == set()


@pytest.mark.parametrize("told", ["removed", "deleted"])
def test_a_topic_that_the_feed_told_to_be_gone_needs_one_look(
    rig: Rig, before: TopicRoute, told: str
) -> None:
    rig.cache.take([rig.table.delete("t") if told == "deleted" else rig.table.write("a", [])])
    assert rig.route("t") == before
    rig.answer(rig.due(0.0), 0.0)
    assert rig.route("t") is None
    assert rig.cache.due(0.0) is None


def test_a_topic_that_lost_a_part_of_its_rows_lets_them_go_by_a_second_look(
    rig: Rig, before: TopicRoute
) -> None:
    rig.table.write("b", [])
    rig.full_look(SETTLED)
    assert set(rig.brokers_of("u")) == {"b", "c", "d"}
    assert rig.held == {"u"}
    rig.look(SETTLED)
    assert set(rig.brokers_of("u")) == {"c", "d"}
    assert rig.route("t") == before
    assert rig.held == set()


def test_a_topic_whose_new_holder_is_dead_keeps_its_route_until_a_second_look(
    rig: Rig, before: TopicRoute
) -> None:
    rig.table.write("a", [])
    rig.table.write("dead", ["t"])
    rig.full_look(SETTLED)
    assert rig.route("t") == before
    rig.look(SETTLED)
    assert rig.route("t") is None
    assert rig.held == set()


@pytest.mark.usefixtures("before")
def test_a_doubted_topic_that_nobody_wants_any_more_is_held_no_longer(rig: Rig) -> None:
    lose_row(rig.table, "t")
    rig.full_look(SETTLED)
    rig.cache.forget(["t"])
    assert rig.held == set()
    assert rig.cache.due(SETTLED) is None


# --- the end of a hold --------------------------------------------------------------------------------------


def test_a_hold_that_ran_out_of_time_is_not_doubted_once_more(rig: Rig, before: TopicRoute) -> None:
    rig.cache.lose(SETTLED)
    lose_leases(rig.table)
    lose_row(rig.table, "t")
    rig.full_look(SETTLED)
    assert rig.route("t") == before
    assert rig.held == {"a", "t"}
    rig.full_look(SETTLED + HOLD_S)
    assert rig.route("t") is None
    assert rig.held == set()


def test_what_was_lost_only_at_the_end_of_a_hold_is_doubted(rig: Rig, before: TopicRoute) -> None:
    rig.cache.lose(SETTLED)
    lose_leases(rig.table, "b")
    rig.full_look(SETTLED)
    assert rig.held == {"b"}
    lose_leases(rig.table)
    rig.full_look(SETTLED + HOLD_S)
    assert set(rig.brokers_of("u")) == {"c", "d"}
    assert rig.route("t") == before
    assert rig.held == {"a"}
    rig.look(SETTLED + HOLD_S + TAIL_S)
    assert rig.route("t") is None


@pytest.mark.usefixtures("before")
def test_the_end_of_a_broker_that_nobody_uses_is_not_remembered(rig: Rig) -> None:
    for number in range(3):
        rig.table.register(f"other-{number}", "theirs")
        rig.cache.take([rig.table.expire(f"other-{number}")])
    assert rig.cache.losses.brokers._announced == {}


# --- an operator's word -------------------------------------------------------------------------------------


def test_what_an_operator_accepts_is_believed_at_the_next_look_which_comes_at_once(
    rig: Rig, before: TopicRoute
) -> None:
    rig.table.lose_everything()
    rig.look(TAIL_S)
    assert rig.route("t") == before
    rig.cache.accept(TAIL_S + 0.1)
    assert rig.cache.next_due() == TAIL_S + 0.1
    request = rig.due(TAIL_S + 0.1)
    assert request.full
    rig.answer(request, TAIL_S + 0.1)
    assert (rig.cache.table.rows, rig.cache.table.alive, rig.held) == ({}, {}, set())
    assert rig.cache.losses.guarded_until is None
    assert rig.cache.due(TAIL_S + 0.1) is None


def test_what_an_operator_accepted_is_asked_until_there_is_an_answer(rig: Rig, before: TopicRoute) -> None:
    rig.table.lose_everything()
    rig.look(TAIL_S)
    rig.cache.accept(TAIL_S)
    assert rig.cache.due(TAIL_S) is not None  # and the store does not answer
    assert rig.route("t") == before
    rig.look(TAIL_S)
    assert rig.route("t") is None


def test_an_answer_that_was_under_way_is_not_what_the_operator_accepted(rig: Rig, before: TopicRoute) -> None:
    rig.table.lose_everything()
    under_way = rig.cache.request(["other"])
    rig.cache.accept(TAIL_S)
    rig.answer(under_way, TAIL_S)
    assert rig.route("t") == before
    rig.look(TAIL_S)
    assert (rig.cache.table.rows, rig.held, rig.cache.losses.guarded_until) == ({}, set(), None)


@pytest.mark.usefixtures("before")
def test_after_an_operators_word_any_answer_is_believed_until_everything_was_read(rig: Rig) -> None:
    lose_leases(rig.table)
    lose_row(rig.table, "t")
    rig.cache.accept(TAIL_S)
    rig.ask("other", now=TAIL_S)
    assert rig.route("t") is None
    assert rig.held == set()
    rig.full_look(TAIL_S)
    assert rig.cache.table.rows.keys() == {"u"}
    u = rig.route("u")
    lose_row(rig.table, "u")
    rig.full_look(REFRESH_S)
    assert rig.route("u") == u
    assert rig.held == {"u"}


def test_an_operators_word_while_nothing_is_held_changes_nothing(rig: Rig, before: TopicRoute) -> None:
    rig.cache.accept(SETTLED)
    assert rig.look(SETTLED) == set()
    assert rig.route("t") == before
    lose_leases(rig.table)
    rig.look(SETTLED + TAIL_S)
    assert rig.route("t") == before

"""Losses that the cache holds back, and for how long; what it makes of an earlier process's routes."""

from __future__ import annotations

import random

from sharedroutes.client.cache import Request, RouteCache
from tests.client.caches import CONFIG, HOLD_S, REFRESH_S, SETTLED, TAIL_S, ask, brokers_of, learn, look
from tests.client.fake_table import FakeTable

# --- losses that are held back -----------------------------------------------------------------------------


def test_a_fleet_that_dies_at_once_is_served_until_the_time_is_over(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a", "b"])
    before = cache.table.route("t")
    table.lose_everything()
    for now in (TAIL_S, REFRESH_S, HOLD_S):
        look(cache, table, now)
        assert cache.table.route("t") == before
        assert {"a", "b"} <= cache.losses.held
    look(cache, table, TAIL_S + HOLD_S)
    assert cache.table.route("t") is None
    assert cache.due(TAIL_S + HOLD_S) is None


def test_what_is_held_back_is_told_until_it_is_confirmed(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a"])
    table.lose_everything()
    cache.lose(SETTLED)
    look(cache, table, SETTLED + 0.5)
    assert cache.losses.held == {"a", "t"}
    look(cache, table, SETTLED + 0.5 + TAIL_S)
    assert cache.losses.held == {"a", "t"}
    cache.take(table.register("a", "t"))
    look(cache, table, SETTLED + 0.6 + TAIL_S)
    assert cache.losses.held == set()
    assert cache.table.route("t") == table.route("t")


def test_an_overtaken_answer_does_not_say_that_nothing_is_held_back(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a"])
    overtaken = cache.request(["other"])
    answer = table.answer(overtaken)
    table.lose_everything()
    look(cache, table, TAIL_S)
    assert cache.losses.held == {"a"}
    cache.offer(overtaken, answer, TAIL_S)
    assert cache.losses.held == {"a"}


def test_after_the_feed_was_lost_a_single_loss_is_held_back(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a", "b", "c"])
    cache.lose(SETTLED)
    table.expire("a")
    look(cache, table, SETTLED + 0.5)
    assert set(brokers_of(cache, "t")) == {"a", "b", "c"}
    assert cache.losses.held == {"a"}


def test_a_fleet_whose_leases_end_at_once_is_held_back_although_the_feed_tells(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a", "b"])
    before = cache.table.route("t")
    cache.take([table.expire("a"), table.expire("b")])
    look(cache, table)
    assert cache.table.route("t") == before
    assert cache.losses.held == {"a", "b"}


def test_a_topic_that_lost_rows_keeps_them_while_losses_are_held_back(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a", "b"])
    cache.lose(SETTLED)
    table.write("a", [])
    look(cache, table, SETTLED + 0.5)
    assert set(brokers_of(cache, "t")) == {"a", "b"}
    assert cache.losses.held == {"t"}


def test_a_replica_that_was_lost_is_kept_while_losses_are_held_back(
    cache: RouteCache, table: FakeTable
) -> None:
    table.come_up("a", 1)
    learn(cache, table, ["a"])
    master = brokers_of(cache, "t")["a"][0]
    cache.lose(SETTLED)
    table.expire("a", 0)
    table.come_up("a", 1)
    look(cache, table, SETTLED + 0.5)
    assert brokers_of(cache, "t")["a"] == {0: master, 1: table.leases["a", 1]}
    assert cache.losses.held == {"a"}
    cache.take([table.come_up("a", 0)])
    look(cache, table, SETTLED + 0.6)
    assert cache.table.route("t") == table.route("t")
    assert not cache.losses.held


def test_a_broker_that_comes_back_elsewhere_is_believed_while_losses_are_held_back(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a", "b"])
    cache.lose(SETTLED)
    table.expire("b")
    table.come_up("a")
    look(cache, table, SETTLED + 0.5)
    assert brokers_of(cache, "t")["a"] == {0: table.leases["a", 0]}


def test_when_nothing_is_missing_losses_are_believed_again(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a", "b", "c"])
    cache.lose(SETTLED)
    look(cache, table, SETTLED + 0.5)
    table.expire("a")
    look(cache, table, SETTLED + 0.5 + TAIL_S)
    assert set(brokers_of(cache, "t")) == {"b", "c"}


def test_while_losses_are_held_back_everything_is_read_more_often(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a"])
    table.lose_everything()
    cache.lose(SETTLED)
    look(cache, table, SETTLED + 0.5)
    request = cache.due(SETTLED + 0.5 + REFRESH_S / 3)
    assert request is not None
    assert request.full


def test_when_nothing_is_lacking_any_more_the_next_look_at_everything_takes_its_usual_time(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a"])
    cache.lose(SETTLED)
    look(cache, table, SETTLED + 0.5)
    assert not cache.losses.held
    assert cache.refresh_at >= SETTLED + 0.5 + REFRESH_S / 2


def test_a_store_that_loses_its_data_again_right_after_the_time_was_over_is_held_back_again(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a"])
    table.expire("a")
    over = TAIL_S + HOLD_S
    look(cache, table, TAIL_S)
    look(cache, table, over)
    assert cache.table.route("t") is None
    cache.take([table.come_up("a")])
    look(cache, table, over)
    before = cache.table.route("t")
    assert before == table.route("t")
    table.lose_everything()
    cache.lose(over)
    look(cache, table, over + TAIL_S)
    assert cache.table.route("t") == before


def test_a_cache_that_knows_nothing_believes_an_empty_store(cache: RouteCache, table: FakeTable) -> None:
    cache.lose(0.0)
    look(cache, table, SETTLED)
    table.register("a", "t")
    ask(cache, table, "t", now=SETTLED)
    assert cache.losses.guarded_until is None


# --- what an earlier process knew --------------------------------------------------------------------------


def restored(table: FakeTable) -> RouteCache:
    """Return a cache that begins with what is in the table."""
    request = Request(1, tuple(table.rows))
    found = table.answer(request)
    cache = RouteCache(CONFIG, random.Random(1))
    cache.table.restore(found.rows, found.alive)
    return cache


def test_restored_routes_are_served_and_confirmed_first(table: FakeTable) -> None:
    table.register("a", "t")
    cache = restored(table)
    assert cache.table.route("t") == table.route("t")
    request = cache.due(0.0)
    assert request is not None
    assert request.full
    assert (request.topics, request.anew) == (("t",), ("a",))
    table.register("a", "t")
    look(cache, table)
    assert cache.table.route("t") == table.route("t")
    assert not cache.losses.held


def test_restored_routes_are_kept_when_the_store_is_empty(table: FakeTable) -> None:
    table.register("a", "t")
    cache = restored(table)
    before = cache.table.route("t")
    table.lose_everything()
    look(cache, table)
    assert cache.table.route("t") == before
    assert cache.losses.held == {"a", "t"}

"""Losses that the cache holds back, and for how long; what it makes of an earlier process's routes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sharedroutes.client.cache import Request, RouteCache
from sharedroutes.registry import MASTER_ID
from tests.client.caches import CONFIG, HOLD_S, REFRESH_S, SETTLED, TAIL_S, Rig
from tests.client.fake_table import FakeTable

# --- losses that are held back -----------------------------------------------------------------------------


def test_a_fleet_that_dies_at_once_is_served_until_the_time_is_over(rig: Rig) -> None:
    rig.learn(["a", "b"])
    before = rig.route("t")
    rig.table.lose_everything()
    for now in (TAIL_S, REFRESH_S, HOLD_S):
        rig.look(now)
        assert rig.route("t") == before
        assert {"a", "b"} <= rig.held
    rig.look(TAIL_S + HOLD_S)
    assert rig.route("t") is None
    assert rig.cache.due(TAIL_S + HOLD_S) is None


def test_what_is_held_back_is_told_until_it_is_confirmed(rig: Rig) -> None:
    rig.learn(["a"])
    rig.table.lose_everything()
    rig.cache.lose(SETTLED)
    rig.look(SETTLED + 0.5)
    assert rig.held == {"a", "t"}
    rig.look(SETTLED + 0.5 + TAIL_S)
    assert rig.held == {"a", "t"}
    rig.cache.take(rig.table.register("a", "t"))
    rig.look(SETTLED + 0.6 + TAIL_S)
    assert rig.held == set()
    assert rig.route("t") == rig.table.route("t")


def test_who_came_back_to_an_emptied_store_is_read_when_all_is_and_who_moved_at_once(rig: Rig) -> None:
    rig.learn(["a", "b"])
    known = rig.brokers_of("t")
    rig.table.lose_everything()
    topics, moved = rig.table.register("a", "t")
    back = replace(moved, address=known["a"][MASTER_ID])
    assert rig.cache.lose(SETTLED, [topics, back]) == set()
    look = rig.due(SETTLED)
    assert (look.topics, look.anew) == ((), ())
    rig.cache.lose(SETTLED, [topics, moved])
    assert rig.due(SETTLED).anew == ("a",)


def test_who_left_and_is_back_in_one_reading_is_served_until_it_was_looked_at(rig: Rig) -> None:
    rig.learn(["a"])
    before = rig.route("t")
    left, back = rig.table.unregister("a"), rig.table.come_up("a")
    assert rig.cache.take([left, back]) == set()
    assert rig.route("t") == before
    assert rig.due(0.0).anew == ("a",)
    assert rig.cache.take([back, left]) == {"t"}


def test_the_last_replica_of_a_group_is_served_until_the_one_was_looked_at_that_came_after_it(
    rig: Rig,
) -> None:
    rig.table.register("a", "t")
    rig.table.unregister("a")
    rig.table.register("a", broker_id=1)
    rig.look()
    rig.ask("t")
    before = rig.route("t")
    left, came = rig.table.unregister("a", 1), rig.table.come_up("a")
    assert rig.cache.take([left, came]) == set()
    assert rig.route("t") == before
    assert rig.look() == {"t"}
    assert rig.brokers_of("t") == {"a": {MASTER_ID: came.address}}


@pytest.mark.parametrize("guarded", [True, False])
def test_an_address_that_was_withdrawn_is_not_held_when_its_successor_has_ended(
    rig: Rig, *, guarded: bool
) -> None:
    rig.learn(["a", "b", "c"])
    if guarded:
        rig.cache.lose(SETTLED)
    rig.cache.take([rig.table.unregister("a"), rig.table.come_up("a")])
    rig.table.expire("a")
    rig.answer(rig.due(SETTLED), SETTLED)
    assert {*rig.brokers_of("t")} == {"b", "c"}
    assert rig.held == set()


def test_an_address_that_was_withdrawn_is_not_held_beside_its_successor(rig: Rig) -> None:
    rig.learn(["a"])
    rig.cache.lose(SETTLED)
    rig.cache.take([rig.table.unregister("a"), rig.table.come_up("a", 1)])
    rig.look(SETTLED)
    assert rig.brokers_of("t") == {"a": {1: rig.table.leases["a", 1]}}
    assert rig.held == set()


def test_a_replica_that_left_is_dropped_at_once_where_there_is_another_one(rig: Rig) -> None:
    rig.table.register("a", broker_id=1)
    rig.learn(["a"])
    left, again = rig.table.unregister("a", 1), rig.table.come_up("a")
    assert rig.cache.take([left, again]) == {"t"}
    assert [*rig.brokers_of("t")["a"]] == [MASTER_ID]


def test_who_left_and_is_back_where_it_was_is_served_also_if_changes_before_that_were_lost(rig: Rig) -> None:
    rig.learn(["a"])
    before = rig.route("t")
    left, up = rig.table.unregister("a"), rig.table.come_up("a")
    back = replace(up, address=rig.brokers_of("t")["a"][MASTER_ID])
    assert rig.cache.lose(SETTLED, [left, back]) == set()
    assert rig.route("t") == before
    assert rig.due(SETTLED).anew == ("a",)


def test_an_overtaken_answer_does_not_say_that_nothing_is_held_back(rig: Rig) -> None:
    rig.learn(["a"])
    overtaken = rig.cache.request(["other"])
    answer = rig.table.answer(overtaken)
    rig.table.lose_everything()
    rig.look(TAIL_S)
    assert rig.held == {"a"}
    rig.cache.offer(overtaken, answer, TAIL_S)
    assert rig.held == {"a"}


def test_after_the_feed_was_lost_a_single_loss_is_held_back(rig: Rig) -> None:
    rig.learn(["a", "b", "c"])
    rig.cache.lose(SETTLED)
    rig.table.expire("a")
    rig.look(SETTLED + 0.5)
    assert set(rig.brokers_of("t")) == {"a", "b", "c"}
    assert rig.held == {"a"}


def test_a_fleet_whose_leases_end_at_once_is_held_back_although_the_feed_tells(rig: Rig) -> None:
    rig.learn(["a", "b"])
    before = rig.route("t")
    rig.cache.take([rig.table.expire("a"), rig.table.expire("b")])
    rig.look()
    assert rig.route("t") == before
    assert rig.held == {"a", "b"}


def test_a_topic_that_lost_rows_keeps_them_while_losses_are_held_back(rig: Rig) -> None:
    rig.learn(["a", "b"])
    rig.cache.lose(SETTLED)
    rig.table.write("a", [])
    rig.look(SETTLED + 0.5)
    assert set(rig.brokers_of("t")) == {"a", "b"}
    assert rig.held == {"t"}


def test_a_replica_that_was_lost_is_kept_while_losses_are_held_back(rig: Rig) -> None:
    rig.table.come_up("a", 1)
    rig.learn(["a"])
    master = rig.brokers_of("t")["a"][0]
    rig.cache.lose(SETTLED)
    rig.table.expire("a", 0)
    rig.table.come_up("a", 1)
    rig.look(SETTLED + 0.5)
    assert rig.brokers_of("t")["a"] == {0: master, 1: rig.table.leases["a", 1]}
    assert rig.held == {"a"}
    rig.cache.take([rig.table.come_up("a", 0)])
    rig.look(SETTLED + 0.6)
    assert rig.route("t") == rig.table.route("t")
    assert not rig.held


def test_a_broker_that_comes_back_elsewhere_is_believed_while_losses_are_held_back(rig: Rig) -> None:
    rig.learn(["a", "b"])
    rig.cache.lose(SETTLED)
    rig.table.expire("b")
    rig.table.come_up("a")
    rig.look(SETTLED + 0.5)
    assert rig.brokers_of("t")["a"] == {0: rig.table.leases["a", 0]}


def test_when_nothing_is_missing_losses_are_believed_again(rig: Rig) -> None:
    rig.learn(["a", "b", "c"])
    rig.cache.lose(SETTLED)
    rig.look(SETTLED + 0.5)
    rig.table.expire("a")
    for now in (SETTLED + 0.5 + TAIL_S, SETTLED + 0.6 + TAIL_S):
        rig.look(now)
    assert set(rig.brokers_of("t")) == {"b", "c"}


def test_while_losses_are_held_back_everything_is_read_more_often(rig: Rig) -> None:
    rig.learn(["a"])
    rig.table.lose_everything()
    rig.cache.lose(SETTLED)
    rig.look(SETTLED + 0.5)
    request = rig.due(SETTLED + 0.5 + REFRESH_S / 3)
    assert request.full


def test_when_nothing_is_lacking_any_more_the_next_look_at_everything_takes_its_usual_time(rig: Rig) -> None:
    rig.learn(["a"])
    rig.cache.lose(SETTLED)
    rig.look(SETTLED + 0.5)
    assert not rig.held
    assert rig.cache.refresh_at >= SETTLED + 0.5 + REFRESH_S / 2


def test_a_store_that_loses_its_data_again_right_after_the_time_was_over_is_held_back_again(rig: Rig) -> None:
    rig.learn(["a"])
    rig.table.expire("a")
    over = TAIL_S + HOLD_S
    rig.look(TAIL_S)
    rig.look(over)
    assert rig.route("t") is None
    rig.cache.take([rig.table.come_up("a")])
    rig.look(over)
    before = rig.route("t")
    assert before == rig.table.route("t")
    rig.table.lose_everything()
    rig.cache.lose(over)
    rig.look(over + TAIL_S)
    assert rig.route("t") == before


@pytest.mark.parametrize("is_back", [True, False])
def test_who_came_back_before_the_feed_was_lost_again_is_found_before_the_time_is_over(
    rig: Rig, *, is_back: bool
) -> None:
    rig.learn(["a"])
    rig.table.lose_everything()
    rig.cache.lose(SETTLED)
    rig.look(SETTLED + REFRESH_S)
    assert rig.held == {"a", "t"}
    if is_back:
        rig.table.register("a", "t")
    over = SETTLED + HOLD_S
    rig.cache.lose(over - TAIL_S)
    rig.cache.refresh_at = over + REFRESH_S  # until then only leases are looked at
    rig.look(over)
    assert rig.brokers_of("t") == ({"a": {0: rig.table.leases["a", 0]}} if is_back else {})


def test_a_cache_that_knows_nothing_believes_an_empty_store(rig: Rig) -> None:
    rig.cache.lose(0.0)
    rig.look(SETTLED)
    rig.table.register("a", "t")
    rig.ask("t", now=SETTLED)
    assert rig.cache.losses.guarded_until is None


def test_a_guard_of_no_time_leaves_it_to_a_second_look_which_comes_at_once(table: FakeTable) -> None:
    rig = Rig(RouteCache(replace(CONFIG, guard_hold_s=0.0), random.Random(1)), table)
    rig.learn(["a", "b"])
    table.lose_everything()
    rig.full_look(SETTLED)
    assert rig.held == {"a", "b", "t"}
    rig.look(SETTLED)
    assert rig.route("t") is None
    assert rig.held == set()


# --- what an earlier process knew --------------------------------------------------------------------------


def restored(table: FakeTable) -> Rig:
    """Return a cache that begins with what is in the table."""
    found = table.answer(Request(1, tuple(table.rows)))
    rig = Rig(RouteCache(CONFIG, random.Random(1)), table)
    rig.cache.table.restore(found.rows, found.alive)
    return rig


def test_restored_routes_are_served_and_confirmed_first(table: FakeTable) -> None:
    table.register("a", "t")
    rig = restored(table)
    assert rig.route("t") == table.route("t")
    request = rig.due(0.0)
    assert request.full
    assert (request.topics, request.anew) == (("t",), ("a",))
    table.register("a", "t")
    rig.look()
    assert rig.route("t") == table.route("t")
    assert not rig.held


def test_restored_routes_are_kept_when_the_store_is_empty(table: FakeTable) -> None:
    table.register("a", "t")
    rig = restored(table)
    before = rig.route("t")
    table.lose_everything()
    rig.look()
    assert rig.route("t") == before
    assert rig.held == {"a", "t"}

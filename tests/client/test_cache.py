"""What the cache believes, keeps and asks for next, case by case."""

from __future__ import annotations

import random

import pytest

from sharedroutes.client.cache import Request, RouteCache
from sharedroutes.registry import CorruptData, Lookup, QueueData
from tests.client.caches import (
    CONFIG,
    REFRESH_S,
    RETRY_S,
    SETTLED,
    TAIL_S,
    ask,
    brokers_of,
    learn,
    look,
    refresh,
)
from tests.client.fake_table import FakeTable

# --- what is asked for -------------------------------------------------------------------------------------


def test_the_first_thing_to_do_is_a_look_at_everything(cache: RouteCache) -> None:
    request = cache.due(0.0)
    assert request == Request(1, (), {}, (), full=True)


def test_between_the_refreshes_only_the_leases_are_read(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a"])
    assert cache.due(TAIL_S - 0.01) is None
    request = cache.due(TAIL_S)
    assert request is not None
    assert (request.topics, request.known, request.anew) == ((), cache.table.groups, ())


def test_a_refresh_reads_all_topics_in_use_and_their_groups_anew(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a", "b"])
    ask(cache, table, "nobody-holds-it")
    request = cache.due(REFRESH_S)
    assert request is not None
    assert request.full
    assert (request.topics, request.known, set(request.anew)) == (("t",), {}, {"a", "b"})


def test_refreshes_are_spread_over_half_of_their_interval(table: FakeTable) -> None:
    times = set()
    for seed in range(20):
        cache = RouteCache(CONFIG, random.Random(seed))
        look(cache, table)
        times.add(cache.refresh_at)
    assert len(times) == 20
    assert REFRESH_S * 0.5 <= min(times) < REFRESH_S * 0.6
    assert REFRESH_S * 0.9 < max(times) <= REFRESH_S


def test_changed_topics_and_groups_are_read_at_once(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a", "b"])
    cache.take([table.write("a", ["t"]), table.come_up("b", 1)])
    assert cache.next_due() == 0
    request = cache.due(0.0)
    assert request is not None
    assert (request.topics, list(request.known), request.anew) == (("t",), ["a"], ("b",))
    cache.offer(request, table.answer(request), 0.0)
    assert cache.due(0.0) is None
    assert list(brokers_of(cache, "t")["b"]) == [0, 1]


def test_changes_of_what_nobody_uses_are_passed_over(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a"])
    assert cache.take(table.register("b", "other")) == set()
    assert cache.due(0.0) is None


@pytest.mark.parametrize("look_again_first", [False, True])
def test_a_change_after_the_request_was_made_is_asked_for_again(
    cache: RouteCache, table: FakeTable, *, look_again_first: bool
) -> None:
    learn(cache, table, ["a"])
    request = cache.request(["t"])
    answer = table.answer(request)
    cache.take([table.write("a", ["t"]), table.come_up("a", 1)])
    if look_again_first:
        look(cache, table)
    cache.offer(request, answer, 0.0)
    look(cache, table)
    assert cache.table.route("t") == table.route("t")


def test_a_change_during_the_first_look_at_a_topic_is_not_missed(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a"])
    request = cache.request(["new"])
    answer = table.answer(request)
    cache.take(table.register("b", "new"))
    cache.offer(request, answer, 0.0)
    look(cache, table)
    assert cache.table.route("new") == table.route("new")


def test_a_change_during_the_first_look_at_a_group_is_not_missed(cache: RouteCache, table: FakeTable) -> None:
    look(cache, table)
    table.register("a", "t")
    request = cache.request(["t"])
    answer = table.answer(request)
    cache.take([table.come_up("a", 1), table.unregister("a")])
    cache.offer(request, answer, 0.0)
    look(cache, table)
    assert cache.table.route("t") == table.route("t")


def test_a_topic_called_like_its_broker_does_not_stand_for_it(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a"])
    cache.take([table.come_up("a", 1)])
    ask(cache, table, "a")
    look(cache, table)
    assert cache.table.route("t") == table.route("t")


def test_groups_that_no_topic_names_any_more_are_forgotten(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a", "b"])
    table.write("b", [])
    refresh(cache, table, SETTLED)
    assert set(cache.table.groups) == set(cache.table.alive) == {"a"}


def test_a_lease_whose_end_is_told_is_looked_at_at_once(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a", "b"])
    assert cache.take([table.expire("a")]) == set()
    assert set(brokers_of(cache, "t")) == {"a", "b"}
    assert look(cache, table) == {"t"}
    assert set(brokers_of(cache, "t")) == {"b"}


# --- topics that nobody holds ------------------------------------------------------------------------------


def test_a_missing_topic_is_asked_for_again_after_a_while(cache: RouteCache, table: FakeTable) -> None:
    assert not cache.was_asked("t", 0.0)
    ask(cache, table, "t")
    assert cache.was_asked("t", RETRY_S - 0.01)
    assert not cache.was_asked("t", RETRY_S)


def test_a_topic_of_dead_brokers_is_asked_for_again_after_a_while(
    cache: RouteCache, table: FakeTable
) -> None:
    table.write("a", ["t"])
    ask(cache, table, "t")
    assert cache.table.route("t") is None
    assert cache.was_asked("t", RETRY_S - 0.01)


def test_a_missing_topic_that_the_feed_names_is_read_at_once(cache: RouteCache, table: FakeTable) -> None:
    look(cache, table)
    ask(cache, table, "t")
    cache.take(table.register("a", "t"))
    assert not cache.was_asked("t", 0.0)
    assert look(cache, table) == {"t"}
    assert cache.table.route("t") == table.route("t")


def test_what_was_missing_before_the_feed_had_a_place_is_asked_for_again(
    cache: RouteCache, table: FakeTable
) -> None:
    ask(cache, table, "t")
    cache.begin()
    assert not cache.was_asked("t", 0.0)


def test_missing_topics_do_not_pile_up(cache: RouteCache, table: FakeTable) -> None:
    names = [f"t{number}" for number in range(10_001)]
    ask(cache, table, *names)
    assert list(cache.table.missing) == names[1:]
    assert not cache.was_asked("t0", 0.0)
    assert cache.was_asked("t1", 0.0)


# --- what is believed --------------------------------------------------------------------------------------


def test_a_late_answer_does_not_overwrite_what_a_later_request_brought(
    cache: RouteCache, table: FakeTable
) -> None:
    look(cache, table)
    table.register("a", "t")
    first = cache.request(["t"])
    late = table.answer(first)
    table.register("a", "t")
    ask(cache, table, "t")
    newest = cache.table.route("t")
    assert cache.offer(first, late, 0.0) == set()
    assert cache.table.route("t") == newest == table.route("t")


def test_a_late_answer_without_a_topic_does_not_remove_it(cache: RouteCache, table: FakeTable) -> None:
    first = cache.request(["t"])
    late = table.answer(first)
    learn(cache, table, ["a"])
    cache.offer(first, late, 0.0)
    assert cache.table.route("t") == table.route("t")
    assert "t" not in cache.table.missing


def test_an_answer_that_knew_fewer_replicas_does_not_hide_the_new_one(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a"])
    cache.take([table.come_up("a", 1)])
    anew = cache.due(0.0)
    question = cache.request(["other"])
    assert anew is not None
    answers = table.answer(anew), table.answer(question)
    cache.offer(anew, answers[0], 0.0)
    cache.offer(question, answers[1], 0.0)
    assert cache.table.route("t") == table.route("t")


def test_a_look_at_a_group_that_was_overtaken_is_made_again(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a"])
    cache.take([table.come_up("a", 1)])
    anew = cache.due(0.0)
    assert anew is not None
    answer = table.answer(anew)
    ask(cache, table, "other")
    cache.offer(anew, answer, 0.0)
    look(cache, table)
    assert cache.table.route("t") == table.route("t")


def test_who_gave_up_is_gone_at_once(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a", "b"])
    assert cache.take([table.unregister("a")]) == {"t"}
    assert set(brokers_of(cache, "t")) == {"b"}


def test_a_replica_that_gave_up_leaves_the_others(cache: RouteCache, table: FakeTable) -> None:
    table.come_up("a", 1)
    learn(cache, table, ["a"])
    cache.take([table.unregister("a")])
    assert list(brokers_of(cache, "t")["a"]) == [1]


def test_who_gave_up_is_gone_at_once_even_while_losses_are_held_back(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a", "b"])
    cache.lose(0.0)
    refresh(cache, table, SETTLED / 2)
    cache.lose(SETTLED)
    assert cache.take([table.unregister("a")]) == {"t"}
    assert set(brokers_of(cache, "t")) == {"b"}


def test_who_gave_up_is_not_brought_back_by_an_older_answer(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a", "b"])
    request = cache.request(["other"])
    answer = table.answer(request)
    cache.take([table.unregister("a")])
    cache.offer(request, answer, 0.0)
    assert set(brokers_of(cache, "t")) == {"b"}


def test_who_came_and_gave_up_is_not_brought_back_by_an_older_answer(
    cache: RouteCache, table: FakeTable
) -> None:
    table.register("a", "t")
    table.expire("a")
    learn(cache, table, ["b"])
    up = table.come_up("a")
    request = cache.request(["other"])
    answer = table.answer(request)
    cache.take([up, table.unregister("a")])
    cache.offer(request, answer, 0.0)
    assert set(brokers_of(cache, "t")) == {"b"}


def test_a_lease_that_ended_is_believed_while_most_live(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a", "b"])
    table.expire("a")
    assert look(cache, table, TAIL_S) == {"t"}
    assert set(brokers_of(cache, "t")) == {"b"}
    assert not cache.losses.held


def test_a_corrupt_key_is_no_reason_to_forget_its_topic(cache: RouteCache, table: FakeTable) -> None:
    learn(cache, table, ["a"])
    before = cache.table.route("t")
    found: tuple[dict[str, tuple[QueueData, ...]], ...] = {}, {"t": ()}  # of another type, without a row
    for rows in found:
        request = cache.request(["t"])
        corrupt = CorruptData("key", "is foreign")
        groups = dict(request.known)
        cache.offer(request, Lookup(rows, (), groups, dict(cache.table.alive), (corrupt,)), SETTLED)
        assert cache.table.route("t") == before


def test_a_corrupt_key_of_a_group_is_no_reason_to_forget_its_broker(
    cache: RouteCache, table: FakeTable
) -> None:
    learn(cache, table, ["a", "b"])
    before = cache.table.route("t")
    request = cache.due(REFRESH_S)
    assert request is not None
    answer = table.answer(request)
    for found in (answer.groups, answer.alive):
        del found["a"]
    cache.offer(request, answer, REFRESH_S)
    assert cache.table.route("t") == before
    table.expire("a")
    look(cache, table, REFRESH_S + TAIL_S)
    assert set(brokers_of(cache, "t")) == {"b"}

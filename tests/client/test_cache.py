"""What the cache believes, keeps and asks for next, case by case."""

from __future__ import annotations

import random

import pytest

from sharedroutes.client.cache import Request, RouteCache
from sharedroutes.registry import CorruptData, Lookup, QueueData
from tests.client.caches import CONFIG, REFRESH_S, RETRY_S, SETTLED, TAIL_S, Rig

# --- what is asked for -------------------------------------------------------------------------------------


def test_the_first_thing_to_do_is_a_look_at_everything(rig: Rig) -> None:
    assert rig.due(0.0) == Request(1, (), {}, (), full=True)


def test_between_the_refreshes_only_the_leases_are_read(rig: Rig) -> None:
    rig.learn(["a"])
    assert rig.cache.due(TAIL_S - 0.01) is None
    request = rig.due(TAIL_S)
    assert (request.topics, request.known, request.anew) == ((), rig.cache.table.groups, ())


def test_a_refresh_reads_all_topics_in_use_and_their_groups_anew(rig: Rig) -> None:
    rig.learn(["a", "b"])
    rig.ask("nobody-holds-it")
    request = rig.due(REFRESH_S)
    assert request.full
    assert (request.topics, request.known, set(request.anew)) == (("t",), {}, {"a", "b"})


def test_refreshes_are_spread_over_half_of_their_interval() -> None:
    times = set()
    for seed in range(20):
        cache = RouteCache(CONFIG, random.Random(seed))
        Rig(cache).look()
        times.add(cache.refresh_at)
    assert len(times) == 20
    assert REFRESH_S * 0.5 <= min(times) < REFRESH_S * 0.6
    assert REFRESH_S * 0.9 < max(times) <= REFRESH_S


def test_changed_topics_and_groups_are_read_at_once(rig: Rig) -> None:
    rig.learn(["a", "b"])
    rig.cache.take([rig.table.write("a", ["t"]), rig.table.come_up("b", 1)])
    assert rig.cache.next_due() == 0
    request = rig.due(0.0)
    assert (request.topics, list(request.known), request.anew) == (("t",), ["a"], ("b",))
    rig.answer(request, 0.0)
    assert rig.cache.due(0.0) is None
    assert list(rig.brokers_of("t")["b"]) == [0, 1]


def test_changes_of_what_nobody_uses_are_passed_over(rig: Rig) -> None:
    rig.learn(["a"])
    assert rig.cache.take(rig.table.register("b", "other")) == set()
    assert rig.cache.due(0.0) is None


@pytest.mark.parametrize("look_again_first", [False, True])
def test_a_change_after_the_request_was_made_is_asked_for_again(rig: Rig, *, look_again_first: bool) -> None:
    rig.learn(["a"])
    request = rig.cache.request(["t"])
    answer = rig.table.answer(request)
    rig.cache.take([rig.table.write("a", ["t"]), rig.table.come_up("a", 1)])
    if look_again_first:
        rig.look()
    rig.cache.offer(request, answer, 0.0)
    rig.look()
    assert rig.route("t") == rig.table.route("t")


def test_a_change_during_the_first_look_at_a_topic_is_not_missed(rig: Rig) -> None:
    rig.learn(["a"])
    request = rig.cache.request(["new"])
    answer = rig.table.answer(request)
    rig.cache.take(rig.table.register("b", "new"))
    rig.cache.offer(request, answer, 0.0)
    rig.look()
    assert rig.route("new") == rig.table.route("new")


def test_a_change_during_the_first_look_at_a_group_is_not_missed(rig: Rig) -> None:
    rig.look()
    rig.table.register("a", "t")
    request = rig.cache.request(["t"])
    answer = rig.table.answer(request)
    rig.cache.take([rig.table.come_up("a", 1), rig.table.unregister("a")])
    rig.cache.offer(request, answer, 0.0)
    rig.look()
    assert rig.route("t") == rig.table.route("t")


def test_a_topic_called_like_its_broker_does_not_stand_for_it(rig: Rig) -> None:
    rig.learn(["a"])
    rig.cache.take([rig.table.come_up("a", 1)])
    rig.ask("a")
    rig.look()
    assert rig.route("t") == rig.table.route("t")


def test_groups_that_no_topic_names_any_more_are_forgotten(rig: Rig) -> None:
    rig.learn(["a", "b"])
    rig.table.write("b", [])
    for now in (SETTLED, SETTLED + TAIL_S):
        rig.full_look(now)
    assert set(rig.cache.table.groups) == set(rig.cache.table.alive) == {"a"}


def test_a_lease_whose_end_is_told_is_looked_at_at_once(rig: Rig) -> None:
    rig.learn(["a", "b"])
    assert rig.cache.take([rig.table.expire("a")]) == set()
    assert set(rig.brokers_of("t")) == {"a", "b"}
    assert rig.look() == {"t"}
    assert set(rig.brokers_of("t")) == {"b"}


# --- topics that nobody holds ------------------------------------------------------------------------------


def test_a_missing_topic_is_asked_for_again_after_a_while(rig: Rig) -> None:
    assert not rig.cache.was_asked("t", 0.0)
    rig.ask("t")
    assert rig.cache.was_asked("t", RETRY_S - 0.01)
    assert not rig.cache.was_asked("t", RETRY_S)


def test_a_topic_of_dead_brokers_is_asked_for_again_after_a_while(rig: Rig) -> None:
    rig.table.write("a", ["t"])
    rig.ask("t")
    assert rig.route("t") is None
    assert rig.cache.was_asked("t", RETRY_S - 0.01)


def test_a_missing_topic_that_the_feed_names_is_read_at_once(rig: Rig) -> None:
    rig.look()
    rig.ask("t")
    rig.cache.take(rig.table.register("a", "t"))
    assert not rig.cache.was_asked("t", 0.0)
    assert rig.look() == {"t"}
    assert rig.route("t") == rig.table.route("t")


def test_what_was_missing_before_the_feed_had_a_place_is_asked_for_again(rig: Rig) -> None:
    rig.ask("t")
    rig.cache.begin()
    assert not rig.cache.was_asked("t", 0.0)


def test_missing_topics_do_not_pile_up(rig: Rig) -> None:
    names = [f"t{number}" for number in range(10_001)]
    rig.ask(*names)
    assert list(rig.cache.table.missing) == names[1:]
    assert not rig.cache.was_asked("t0", 0.0)
    assert rig.cache.was_asked("t1", 0.0)


# --- what is believed --------------------------------------------------------------------------------------


def test_a_late_answer_does_not_overwrite_what_a_later_request_brought(rig: Rig) -> None:
    rig.look()
    rig.table.register("a", "t")
    first = rig.cache.request(["t"])
    late = rig.table.answer(first)
    rig.table.register("a", "t")
    rig.ask("t")
    newest = rig.route("t")
    assert rig.cache.offer(first, late, 0.0) == set()
    assert rig.route("t") == newest == rig.table.route("t")


def test_a_late_answer_without_a_topic_does_not_remove_it(rig: Rig) -> None:
    first = rig.cache.request(["t"])
    late = rig.table.answer(first)
    rig.learn(["a"])
    rig.cache.offer(first, late, 0.0)
    assert rig.route("t") == rig.table.route("t")
    assert "t" not in rig.cache.table.missing


def test_an_answer_that_knew_fewer_replicas_does_not_hide_the_new_one(rig: Rig) -> None:
    rig.learn(["a"])
    rig.cache.take([rig.table.come_up("a", 1)])
    anew = rig.due(0.0)
    question = rig.cache.request(["other"])
    answers = rig.table.answer(anew), rig.table.answer(question)
    rig.cache.offer(anew, answers[0], 0.0)
    rig.cache.offer(question, answers[1], 0.0)
    assert rig.route("t") == rig.table.route("t")


def test_a_look_at_a_group_that_was_overtaken_is_made_again(rig: Rig) -> None:
    rig.learn(["a"])
    rig.cache.take([rig.table.come_up("a", 1)])
    anew = rig.due(0.0)
    answer = rig.table.answer(anew)
    rig.ask("other")
    rig.cache.offer(anew, answer, 0.0)
    rig.look()
    assert rig.route("t") == rig.table.route("t")


@pytest.mark.parametrize("held_back", [False, True], ids=["as ever", "while losses are held back"])
def test_who_gave_up_is_gone_at_once(rig: Rig, *, held_back: bool) -> None:
    rig.learn(["a", "b"])
    if held_back:
        rig.cache.lose(0.0)
        rig.full_look(SETTLED / 2)
        rig.cache.lose(SETTLED)
    assert rig.cache.take([rig.table.unregister("a")]) == {"t"}
    assert set(rig.brokers_of("t")) == {"b"}


def test_a_replica_that_gave_up_leaves_the_others(rig: Rig) -> None:
    rig.table.come_up("a", 1)
    rig.learn(["a"])
    rig.cache.take([rig.table.unregister("a")])
    assert list(rig.brokers_of("t")["a"]) == [1]


def test_who_gave_up_is_not_brought_back_by_an_older_answer(rig: Rig) -> None:
    rig.learn(["a", "b"])
    request = rig.cache.request(["other"])
    answer = rig.table.answer(request)
    rig.cache.take([rig.table.unregister("a")])
    rig.cache.offer(request, answer, 0.0)
    assert set(rig.brokers_of("t")) == {"b"}


def test_who_came_and_gave_up_is_not_brought_back_by_an_older_answer(rig: Rig) -> None:
    rig.table.register("a", "t")
    rig.table.expire("a")
    rig.learn(["b"])
    up = rig.table.come_up("a")
    request = rig.cache.request(["other"])
    answer = rig.table.answer(request)
    rig.cache.take([up, rig.table.unregister("a")])
    rig.cache.offer(request, answer, 0.0)
    assert set(rig.brokers_of("t")) == {"b"}


def test_a_corrupt_key_is_no_reason_to_forget_its_topic(rig: Rig) -> None:
    rig.learn(["a"])
    before = rig.route("t")
    found: tuple[dict[str, tuple[QueueData, ...]], ...] = {}, {"t": ()}  # of another type, without a row
    for rows in found:
        request = rig.cache.request(["t"])
        corrupt = CorruptData("key", "is foreign")
        groups = dict(request.known)
        rig.cache.offer(request, Lookup(rows, (), groups, dict(rig.cache.table.alive), (corrupt,)), SETTLED)
        assert rig.route("t") == before


def test_a_corrupt_key_of_a_group_is_no_reason_to_forget_its_broker(rig: Rig) -> None:
    rig.learn(["a", "b"])
    before = rig.route("t")
    request = rig.due(REFRESH_S)
    answer = rig.table.answer(request)
    for found in (answer.groups, answer.alive):
        del found["a"]
    rig.cache.offer(request, answer, REFRESH_S)
    assert rig.route("t") == before
    rig.cache.take([rig.table.expire("a")])
    rig.look(REFRESH_S + TAIL_S)
    assert set(rig.brokers_of("t")) == {"b"}

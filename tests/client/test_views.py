"""The queues of a topic as a producer chooses from them, and whose turn it is."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.client.selection import Candidates, PublishView
from sharedroutes.registry import InvalidInput, MessageQueue
from tests.client.topics import NOBODY, QUIET, route_of, verdict, view_of

RNG = random.Random(7)


@pytest.mark.parametrize("start", [0, 1, 5, 1_023])
def test_the_queues_take_turns_from_any_start(start: int) -> None:
    view = view_of("ab", start=start)
    picked = [view.pick(QUIET, NOBODY, RNG) for _ in range(9)]
    assert picked == [view.queues[(start + turn) % 4] for turn in range(9)]


def test_the_schedule_is_what_pick_follows_while_all_is_quiet() -> None:
    view = view_of("ab", start=1)
    picked = [view.pick(QUIET, NOBODY, RNG) for _ in range(8)]
    again = view_of("ab", start=1)
    assert picked == [again.schedule[next(again.turns) % again.length] for _ in range(8)]


def test_what_is_ready_goes_on_as_pick_does_and_only_for_its_own_verdict() -> None:
    view, isolated, slow = view_of("abc"), verdict(blocked="a"), verdict(shares={"b": 0.5})
    assert view.ready.length == 0
    picked = [view.pick(isolated, NOBODY, RNG) for _ in range(4)]
    assert view.ready.verdict is isolated
    assert view.ready.length == len(view.ready.schedule) == 4
    assert picked == [view.ready.schedule[turn % 4] for turn in range(4)]
    view.pick(isolated, frozenset("b"), RNG)
    assert {queue.broker_name for queue in view.ready.schedule} == {*"bc"}
    view.pick(slow, NOBODY, RNG)
    assert view.ready.verdict is isolated


def test_a_topic_without_a_queue_has_an_empty_view_whatever_the_strategy() -> None:
    class Picky:
        def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
            return [candidates.queues[0]]

    view = PublishView(route_of({}), Picky(), itertools.count(), max_isolated_share=0.5)
    assert (view.size, view.length, view.schedule) == (0, 0, ())


CASES = [
    # blocked, unreachable, avoid, allowed
    ("", "", "", "abc"),
    ("a", "", "", "bc"),
    ("", "", "a", "bc"),
    ("a", "", "b", "c"),
    ("", "", "abc", "abc"),
    ("bc", "", "a", "bc"),
    ("bc", "b", "a", "c"),
    ("bc", "bc", "a", "bc"),
    ("a", "", "bc", "a"),
    ("a", "a", "bc", "a"),
    ("ab", "", "abc", "abc"),
    ("xa", "x", "y", "bc"),
]


@pytest.mark.parametrize(("blocked", "unreachable", "avoid", "allowed"), CASES)
def test_neither_blocked_nor_avoided_then_reachable_then_not_avoided_then_any(
    blocked: str, unreachable: str, avoid: str, allowed: str
) -> None:
    view, faults = view_of("abc"), verdict(blocked, unreachable)
    picked = {view.pick(faults, frozenset(avoid), RNG).broker_name for _ in range(12)}
    assert picked == set(allowed)
    for number in range(60):
        assert view.pick_for(f"key-{number}", faults, frozenset(avoid)).broker_name in allowed


@pytest.mark.parametrize(
    ("brokers", "share", "left_alone"),
    [
        ("a", 1.0, ""),
        ("ab", 1.0, "a"),
        ("ab", 0.1, "a"),
        ("ab", 0.0, "a"),
        ("abcd", 0.5, "ab"),
        ("abcd", 0.74, "ab"),
        ("abcd", 1.0, "abc"),
        ("abcdefghij", 0.3, "abc"),
    ],
)
def test_of_many_failing_brokers_only_the_worst_are_left_alone_up_to_the_cap(
    brokers: str, share: float, left_alone: str
) -> None:
    view = view_of(brokers, max_isolated_share=share)
    faults = verdict(["stranger", *brokers])
    picked = {view.pick(faults, NOBODY, RNG).broker_name for _ in range(40)}
    assert picked == set(brokers) - set(left_alone)


def test_the_cap_is_not_one_lower_for_a_share_that_binary_fractions_cannot_hold() -> None:
    brokers = [f"b{number:02}" for number in range(100)]
    view = view_of(brokers, 1, max_isolated_share=0.29)
    picked = {view.pick(verdict(brokers), NOBODY, RNG).broker_name for _ in range(200)}
    assert picked == set(brokers[29:])


def test_without_a_cap_all_may_be_left_alone_and_the_reachable_are_used() -> None:
    view = view_of("abc", max_isolated_share=None)
    picked = {view.pick(verdict("abc", "a"), NOBODY, RNG).broker_name for _ in range(40)}
    assert picked == {"b", "c"}


SOME = st.frozensets(st.sampled_from("abcdxyz"))


@given(
    names=st.sets(st.sampled_from("abcd"), min_size=1),
    blocked=st.lists(st.sampled_from("abcdxyz"), unique=True),
    unreachable=SOME,
    avoid=SOME,
    share=st.floats(0, 1),
    shares=st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1)),
)
def test_a_view_with_a_queue_always_gives_one_and_never_of_an_avoided_broker_if_there_is_another(
    names: set[str],
    blocked: list[str],
    unreachable: frozenset[str],
    avoid: frozenset[str],
    share: float,
    shares: dict[str, float],
) -> None:
    view = view_of(sorted(names), max_isolated_share=share)
    faults = verdict(blocked, unreachable, shares)
    picked = [view.pick(faults, avoid, RNG) for _ in range(2 * len(names))]
    picked.append(view.pick_for("key", faults, avoid))
    assert {queue.broker_name for queue in picked} <= (names - avoid or names)


@given(
    names=st.sets(st.sampled_from("abcdefgh"), min_size=2),
    blocked=st.permutations("abcdefgh"),
    share=st.floats(0, 1),
)
def test_no_larger_share_of_the_brokers_than_the_cap_is_left_alone(
    names: set[str], blocked: list[str], share: float
) -> None:
    view = view_of(sorted(names), max_isolated_share=share)
    picked = {view.pick(verdict(blocked), NOBODY, RNG).broker_name for _ in range(2 * len(names))}
    left_alone = names - picked
    assert len(left_alone) <= max(1, share * len(names) + 1e-9)
    assert left_alone == {name for name in blocked if name in names and name in left_alone}
    assert [name for name in blocked if name in names][: len(left_alone)] == [
        name for name in blocked if name in left_alone
    ]


def shares_of(view: PublishView, shares: dict[str, float], picks: int = 12_000) -> dict[str, float]:
    faults = verdict(shares=shares)
    rng = random.Random(11)
    counted = Counter(view.pick(faults, NOBODY, rng).broker_name for _ in range(picks))
    return {name: count / picks for name, count in counted.items()}


def test_a_broker_in_slow_start_takes_its_share_of_its_turns_and_all_others_share_the_rest() -> None:
    found = shares_of(view_of("abcd", 8), {"b": 0.2})
    assert found["b"] == pytest.approx(0.25 * 0.2 / (1 - 0.25 * 0.8 * 0.25), abs=0.02)
    for other in "acd":
        assert found[other] == pytest.approx((1 - found["b"]) / 3, abs=0.02)


def test_of_two_brokers_the_one_that_came_back_later_takes_less() -> None:
    found = shares_of(view_of("ab"), {"a": 0.9, "b": 0.1})
    assert found["b"] < 0.2


@pytest.mark.parametrize("blocked", ["", "a"])
def test_when_all_brokers_that_may_be_used_are_in_slow_start_alike_they_take_turns_as_ever(
    blocked: str,
) -> None:
    view = view_of("abc")
    used = [queue for queue in view.queues if queue.broker_name not in blocked]
    faults = verdict(blocked, shares={queue.broker_name: 0.1 for queue in used})
    assert [view.pick(faults, NOBODY, RNG) for _ in used] == used


def test_a_broker_whose_share_is_nought_is_used_when_there_is_no_other() -> None:
    view = view_of("a")
    assert view.pick(verdict(shares={"a": 0.0}), NOBODY, RNG).broker_name == "a"


def test_a_blocked_broker_that_turns_out_to_be_unreachable_is_not_the_second_choice_any_more() -> None:
    view, avoid = view_of("abc"), frozenset("a")
    first = {view.pick(verdict("bc"), avoid, RNG).broker_name for _ in range(8)}
    then = {view.pick(verdict("bc", "b"), avoid, RNG).broker_name for _ in range(8)}
    assert (first, then) == ({"b", "c"}, {"c"})


class Counting:
    """Round robin that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
        self.asked += 1
        return candidates.queues


def test_the_queues_are_arranged_once_for_one_set_of_faults() -> None:
    strategy = Counting()
    view = view_of("abcd", strategy=strategy)
    for share in range(100):  # a verdict with another share restricts the same brokers
        faults = verdict("a", shares={"c": share / 100})
        view.pick(faults, NOBODY, RNG)
        view.pick(faults, frozenset("b"), RNG)
    assert strategy.asked == 3


def test_with_more_sets_to_avoid_than_are_kept_the_queues_are_not_arranged_for_each() -> None:
    names = [f"b{number:02}" for number in range(60)]
    strategy = Counting()
    view = view_of(names, strategy=strategy)
    for _ in range(5):
        for last in names:
            assert view.pick(QUIET, frozenset({last}), RNG).broker_name != last
    assert strategy.asked <= 20


def test_what_is_kept_is_bounded() -> None:
    view = view_of("ab")
    for number in range(1_000):
        view.pick(QUIET, frozenset({"a", f"stranger-{number}"}), RNG)
    assert len(view._judged.plans) <= 16


def test_a_verdict_that_is_over_is_not_kept() -> None:
    view = view_of("ab")
    first, second = verdict("a"), verdict("b")
    view.pick(first, NOBODY, RNG)
    view.pick(second, NOBODY, RNG)
    assert view._judged.verdict is second
    assert {plan.allowed for plan in view._judged.plans.values()} == {frozenset("a")}


class Broken:
    def __init__(self, answer: Sequence[MessageQueue]) -> None:
        self.answer = answer

    def __repr__(self) -> str:
        return "Broken()"

    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:  # noqa: ARG002
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], r"strategy Broken\(\): it gave none of 4 queues a turn"),
        ([MessageQueue("t", "z", 0, "z:1")], r"strategy Broken\(\): .*broker_name='z'.* is not a queue"),
    ],
    ids=["no turn", "foreign queue"],
)
def test_a_strategy_that_breaks_the_contract_is_named(answer: list[MessageQueue], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        view_of("ab", strategy=Broken(answer))


def test_a_strategy_that_uses_a_blocked_broker_is_named() -> None:
    view = view_of("ab", strategy=Broken(view_of("ab").queues))
    with pytest.raises(InvalidInput, match=r"strategy Broken\(\): .*broker_name='a'"):
        view.pick(verdict("a"), NOBODY, RNG)


def test_threads_share_a_view_while_verdicts_change() -> None:
    names = [f"b{number:02}" for number in range(40)]
    view = view_of(names)
    verdicts = [verdict([name], shares={names[-1]: 0.5}) for name in names[:10]]

    def work(seed: int) -> bool:
        rng = random.Random(seed)
        for _ in range(300):
            faults, avoid = rng.choice(verdicts), frozenset(rng.sample(names, 2))
            if view.pick(faults, avoid, rng).broker_name in avoid | set(faults.blocked):
                return False
            if view.pick_for("key", faults, avoid).broker_name in avoid | set(faults.blocked):
                return False
        return True

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(before)

"""What a client tells of brokers that it cannot reach, and what it believes of what others tell."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterable
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from sharedroutes.client.brokers import HintBook, HintConfig, Pace
from sharedroutes.registry import InvalidInput, RouteStore
from tests.support import examples, wait_until

TWICE = Pace(failures_before_hint=2)
TEN = [f"b{number}" for number in range(10)]


def book(
    config: HintConfig | None = None, client_id: str = "me", seed: int = 7, pace: Pace = TWICE
) -> HintBook:
    return HintBook(config or HintConfig(), client_id, random.Random(seed), pace)


def fail(some: HintBook, *names: str, now: float = 0.0, times: int = 2) -> None:
    for name in names * times:
        some.ended(name, now, answered=False)


def next_told(some: HintBook, now: float) -> tuple[float, tuple[str, ...]]:
    """Return when it says something next, to 10 ms, and what."""
    times = itertools.takewhile(lambda at: at < now + 100, itertools.count(now, 0.01))
    return next((at, names) for at in times if (names := some.due(at)) is not None)


def said_by(clients: Iterable[str], *names: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys(names, frozenset(clients))


# --- what is told -------------------------------------------------------------------------------------------


def test_nothing_is_told_before_so_many_failures_in_a_row() -> None:
    some = book()
    assert some.due(0.0) is None
    some.ended("a", 0.0, answered=False)
    some.ended("a", 0.1, answered=True)
    some.ended("a", 0.2, answered=False)
    assert some.due(0.2) is None
    some.ended("a", 0.3, answered=False)
    assert some.due(0.3) == ("a",)


def test_what_was_told_is_told_again_before_it_ends_while_the_broker_fails() -> None:
    for seed in range(20):
        some = book(seed=seed)
        fail(some, "a", now=0.0)
        assert some.due(0.0) == ("a",)
        fail(some, "a", now=1.0, times=1)
        at, names = next_told(some, 1.0)
        assert 4.0 <= at <= 5.01
        assert names == ("a",)


def test_a_broker_that_nobody_tries_any_more_is_no_longer_named() -> None:
    some = book()
    fail(some, "a", now=0.0)
    assert some.due(0.0) == ("a",)
    assert some.due(9.9) == ("a",)
    assert some.due(10.0) is None
    assert some.due(59.9) is None
    some.ended("a", 60.0, answered=False)
    assert some.due(60.0) == ("a",)


def test_publications_are_rate_limited_and_say_all_that_came_together_meanwhile() -> None:
    for seed in range(20):
        some = book(seed=seed)
        fail(some, "a", now=0.0)
        assert some.due(0.0) == ("a",)
        fail(some, "c", "b", now=0.1)
        some.ended("a", 0.2, answered=True)
        at, names = next_told(some, 0.2)
        assert 3.0 <= at <= 4.51
        assert names == ("b", "c")


def test_what_is_told_again_is_rate_limited_too() -> None:
    for seed in range(20):
        some = book(pace=Pace(min_interval_s=5.0), seed=seed)
        fail(some, "a", times=3)
        assert some.due(0.0) == ("a",)
        assert 5.0 <= next_told(some, 0.0)[0] <= 7.51


def test_a_thousand_clients_that_meet_a_fault_at_once_do_not_publish_again_at_once() -> None:
    later = set()
    for seed in range(1_000):
        some = book(seed=seed)
        fail(some, "a")
        some.due(0.0)
        later.add(round(next_told(some, 0.0)[0], 1))
    assert len(later) >= 10


@pytest.mark.parametrize("end", ["succeeded", "forget", "no longer in use"])
def test_a_hint_is_withdrawn_once_when_the_broker_answers_was_started_anew_or_is_gone(end: str) -> None:
    some = book()
    fail(some, "a")
    assert some.due(0.0) == ("a",)
    if end == "succeeded":
        some.ended("a", 1.0, answered=True)
    elif end == "forget":
        some.forget("a")
    else:
        some.offer({}, ["b"], 1.0)
    assert some.due(2.9) is None
    assert some.due(4.5) == ()
    assert some.due(100.0) is None


def test_a_success_with_a_broker_that_was_not_named_is_nothing_to_tell() -> None:
    some = book()
    some.ended("a", 0.0, answered=False)
    some.ended("a", 0.1, answered=True)
    some.forget("b")
    assert some.due(100.0) is None


def test_no_more_brokers_are_named_than_a_client_may_and_the_most_failing_first() -> None:
    some = book()
    names = [f"b{number:02}" for number in range(20)]
    fail(some, *names)
    fail(some, "b19", "b18")
    found = some.due(0.0)
    assert found == (*names[:14], "b18", "b19")


def test_a_voice_that_nobody_needs_is_not_raised_until_it_is_needed() -> None:
    some, others = book(), ["c1", "c2", "c3", "c4"]
    some.offer(said_by(others, "a"), [*TEN, "a"], 0.0)
    fail(some, "a", "b0")
    assert some.due(0.0) == ("b0",)
    some.offer(said_by(others[:3], "a"), [*TEN, "a"], 4.5)  # each of those three hears of two others only
    assert some.due(4.5) == ("a", "b0")
    some.offer(said_by([*others, "me"], "a"), [*TEN, "a"], 4.6)  # who has spoken goes on
    some.ended("a", 9.0, answered=False)
    assert some.due(10.0) == ("a",)


# --- what is believed ---------------------------------------------------------------------------------------


def test_a_quorum_of_others_makes_a_broker_suspected_until_it_is_gone() -> None:
    some = book()
    assert some.offer(said_by(["c1", "c2"], "b1"), TEN, 0.0) == frozenset()
    assert some.offer(said_by(["c1", "c2", "c3"], "b1"), TEN, 0.0) == {"b1"}
    assert some.offer(said_by(["c1", "c2"], "b1"), TEN, 0.0) == frozenset()


def test_its_own_voice_does_not_count() -> None:
    some = book()
    assert some.offer(said_by(["c1", "c2", "me"], "b1"), TEN, 0.0) == frozenset()


def test_brokers_that_are_not_in_use_are_nobodys_business() -> None:
    some = book()
    assert some.offer(said_by(["c1", "c2", "c3"], "x", "b1"), TEN, 0.0) == {"b1"}
    assert some.offer(said_by(["c1", "c2", "c3"], "x", "b1"), [], 0.0) == frozenset()


@pytest.mark.parametrize(
    ("in_use", "share", "most"),
    [
        *((0, 0.3, 0), (1, 0.3, 0), (2, 0.3, 1), (3, 0.3, 1), (4, 0.3, 1), (7, 0.3, 2), (10, 0.3, 3)),
        *((1, 1.0, 0), (2, 1.0, 1), (10, 1.0, 9), (10, 0.0, 0), (100, 0.01, 1)),
    ],
)
def test_a_share_of_the_brokers_is_suspected_at_most_and_never_all(
    in_use: int, share: float, most: int
) -> None:
    some = book(HintConfig(max_suspected_share=share))
    names = [f"b{number}" for number in range(in_use)]
    assert len(some.offer(said_by(["c1", "c2", "c3"], *names), names, 0.0)) == most


def test_above_the_cap_the_most_named_are_suspected_and_among_equals_those_who_were() -> None:
    some = book()
    crowd = said_by(["c1", "c2", "c3"], *TEN)
    more = said_by(["c1", "c2", "c3", "c4"], "b7", "b8", "b9")
    assert some.offer(crowd | more, TEN, 0.0) == {"b7", "b8", "b9"}
    suspected = some.offer(crowd, TEN, 1.0)
    assert suspected == {"b7", "b8", "b9"}
    assert some.offer(dict(reversed(crowd.items())), TEN[::-1], 2.0) == suspected
    more = said_by(["c1", "c2", "c3", "c4"], "b0", "b1", "b2")
    assert some.offer(crowd | more, TEN, 3.0) == {"b0", "b1", "b2"}


def test_a_success_of_its_own_overrules_the_crowd_for_a_while() -> None:
    some, crowd = book(), said_by([f"c{number}" for number in range(8)], "b1")
    some.ended("b1", 0.0, answered=True)
    assert some.offer(crowd, TEN, 4.9) == frozenset()
    assert some.offer(crowd, TEN, 5.0) == {"b1"}


def test_a_failure_of_its_own_after_the_success_lets_the_crowd_be_heard() -> None:
    some = book()
    some.ended("b1", 0.0, answered=True)
    some.ended("b1", 0.1, answered=False)
    assert some.offer(said_by(["c1", "c2", "c3"], "b1"), TEN, 0.2) == {"b1"}


def test_a_broker_that_was_started_anew_has_no_old_success_either() -> None:
    some = book()
    some.ended("b1", 0.0, answered=True)
    some.forget("b1")
    assert some.offer(said_by(["c1", "c2", "c3"], "b1"), TEN, 0.2) == {"b1"}


# --- liars --------------------------------------------------------------------------------------------------


def test_a_liar_of_many_ids_costs_a_busy_client_nothing_and_an_idle_one_up_to_the_cap() -> None:
    lies = said_by([f"liar-{number}" for number in range(500)], *TEN)
    busy, idle = book(), book()
    for second in range(60):
        for name in TEN:
            busy.ended(name, float(second), answered=True)
        assert busy.offer(lies, TEN, float(second)) == frozenset()
        assert len(idle.offer(lies, TEN, float(second))) == 3
    assert idle.offer({}, TEN, 60.0) == frozenset()


def test_a_liar_in_the_registry_is_bounded_there_and_does_not_outlast_the_ttl(
    redis_url: str, admin: redis.Redis
) -> None:
    with RouteStore.from_url(redis_url) as store:
        liars = [f"liar-{number}" for number in range(100)]
        for liar in liars:
            store.hint(liar, TEN, ttl_s=60.0)
        some = book()
        hints = store.hints()
        assert {name: len(clients) for name, clients in hints.items()} == dict.fromkeys(TEN, 8)
        assert len(some.offer(hints, TEN, 0.0)) == 3
        for liar in liars:  # what a client says replaces what it said before
            store.hint(liar, TEN, ttl_s=0.05)
        wait_until(lambda: not some.offer(store.hints(), TEN, 0.0), description="the lies have ended")
        wait_until(lambda: not admin.exists(store.keys.hints), description="nothing is left")


# --- together -----------------------------------------------------------------------------------------------


IDS = st.sampled_from(["me", *(f"c{number}" for number in range(9))])
NAMES = st.sampled_from([*TEN, "unknown"])


@given(
    hints=st.dictionaries(NAMES, st.frozensets(IDS)),
    in_use=st.lists(st.sampled_from(TEN), unique=True),
    answered=st.sets(st.sampled_from(TEN)),
    share=st.floats(0, 1),
    quorum=st.integers(2, 7),
)
def test_who_is_suspected_is_in_use_named_by_a_quorum_of_others_and_within_the_cap(
    hints: dict[str, frozenset[str]],
    in_use: Collection[str],
    answered: set[str],
    share: float,
    quorum: int,
) -> None:
    some = book(HintConfig(max_suspected_share=share, quorum=quorum))
    for name in answered:
        some.ended(name, 0.0, answered=True)
    suspected = some.offer(hints, in_use, 1.0)
    convicted = {name for name in in_use if len(hints.get(name, frozenset()) - {"me"}) >= quorum} - answered
    assert suspected <= convicted
    assert len(suspected) < max(1, len(in_use)) or not suspected
    assert len(suspected) <= max(1, share * len(in_use))
    assert share == 0 or len(in_use) < 2 or bool(suspected) == bool(convicted)
    spared = convicted - suspected
    assert all(
        len(hints[one] - {"me"}) >= len(hints[other] - {"me"}) for one in suspected for other in spared
    )


class BookAgainstModel(RuleBasedStateMachine):
    """Any outcomes at any time: what fails is what is said, as soon as the rate limit lets it."""

    names = st.sampled_from("abc")

    def __init__(self) -> None:
        super().__init__()
        self.book = book(pace=Pace(ttl_s=10.0, failures_before_hint=2, min_interval_s=2.0))
        self.now = 0.0
        self.failures: dict[str, list[float]] = {}
        self.published: list[tuple[float, tuple[str, ...]]] = []

    @rule(name=names)
    def fails(self, name: str) -> None:
        self.book.ended(name, self.now, answered=False)
        self.failures.setdefault(name, []).append(self.now)

    @rule(name=names)
    def answers(self, name: str) -> None:
        self.book.ended(name, self.now, answered=True)
        self.failures.pop(name, None)

    @rule(name=names)
    def is_started_anew(self, name: str) -> None:
        self.book.forget(name)
        self.failures.pop(name, None)

    @rule(seconds=st.sampled_from([0.1, 1.0, 1.999, 3.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def is_asked(self) -> None:
        found = self.book.due(self.now)
        if found is None:
            assert not self.failing() or self.now < self.latest()
        else:
            assert set(found) == self.failing()
            assert not self.published or self.now - self.published[-1][0] >= 2.0
            self.published.append((self.now, found))
            assert self.book.due(self.now) is None

    def latest(self) -> float:
        """Return by when what fails has to be said."""
        return self.published[-1][0] + 5.0 if self.published else self.now

    def teardown(self) -> None:
        self.now = max(self.now, self.latest())
        self.is_asked()

    def failing(self) -> set[str]:
        return {name for name, when in self.failures.items() if len(when) >= 2 and self.now - when[-1] < 10.0}


TestBookAgainstModel = BookAgainstModel.TestCase
TestBookAgainstModel.settings = settings(max_examples=examples(100), stateful_step_count=40)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quorum", 1),
        ("quorum", 8),
        ("max_suspected_share", 1.1),
        ("max_suspected_share", float("nan")),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=field):
        HintConfig(**{field: value})

"""The cache against a model of the registry: answers, changes and losses in any order."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharedroutes.client import ClientConfig
from sharedroutes.client.cache import Request, RouteCache
from sharedroutes.registry import Change, ChangeKind, Lookup
from tests.client.fake_table import FakeTable
from tests.support import examples

CONFIG: Final = ClientConfig(
    tail_s=1.0, refresh_s=20.0, jitter_s=0.5, missing_retry_s=100.0, guard_hold_s=30.0
)
TOPICS: Final = ("t0", "t1", "a")  # brokers make a topic called like themselves
BROKERS: Final = ("a", "b", "c")
IDS: Final = (0, 1)
NEVER: Final = 1_000_000_000


@dataclass
class Asked:
    """A request under way; the answer is there when the store has read it."""

    request: Request
    answer: Lookup | None = None


@dataclass
class Told:
    """A change on its way, and the address that its owner gave up with it."""

    change: Change
    ended: str | None = None


class CacheUnderFaults(RuleBasedStateMachine):
    """One follower, any number of callers, and a store that reads requests in the order they were made."""

    brokers = st.sampled_from(BROKERS)
    ids = st.sampled_from(IDS)
    topics = st.sampled_from(TOPICS)

    def __init__(self) -> None:
        super().__init__()
        self.table = FakeTable()
        self.now = 0.0
        self.callers: list[Asked] = []
        self.follower: Asked | None = None
        self.feed: deque[Told] = deque()
        self.in_place = False  # whether the follower has a place in the feed
        self.ended: set[str] = set()  # addresses that were given up, as the cache was told
        self.newest: dict[tuple[str, str | int], int] = {}  # the newest stamp that the cache ever showed
        self.kept: set[str] = set()  # topics that must keep a route until `kept_until`
        self.kept_until = 0.0
        self.accepted = NEVER  # the newest request when an operator said to believe the next answers
        self.announced: set[str] = set()  # brokers and topics of whose end the feed told the cache
        self.doubted: dict[str, int] = {}  # topics that are held, since the newest request then
        self.reading: int | None = None  # the number of a read of the stream that is under way
        self.stream_read = 0  # that of the last one that was answered
        self.delivered = 0  # the newest request that was answered
        self.untold = False  # whether rows vanished without a word: only a full look finds that out

    @initialize(seed=st.integers(0, 1_000))
    def start(self, seed: int) -> None:
        self.cache = RouteCache(CONFIG, random.Random(seed))

    # --- the brokers ---------------------------------------------------------------------------------------

    @rule(name=brokers, topics=st.frozensets(topics))
    def a_broker_writes_its_topics(self, name: str, topics: frozenset[str]) -> None:
        self.feed.append(Told(self.table.write(name, topics)))

    @rule(name=brokers, broker_id=ids)
    def a_broker_comes_up(self, name: str, broker_id: int) -> None:
        self.feed.append(Told(self.table.come_up(name, broker_id)))

    @rule(name=brokers)
    def an_agent_registers_all(self, name: str) -> None:
        self.feed.extend(map(Told, self.table.register(name, *TOPICS)))

    @rule(name=brokers, broker_id=ids)
    def a_broker_unregisters(self, name: str, broker_id: int) -> None:
        address = self.table.leases.get((name, broker_id))
        if address is not None:
            self.feed.append(Told(self.table.unregister(name, broker_id), address))

    @rule(name=brokers, wiped=st.booleans())
    def an_operator_wipes_or_lifts(self, name: str, wiped: bool) -> None:  # noqa: FBT001 - by name
        self.feed.append(Told(self.table.set_wiped(name, wiped=wiped)))

    @rule(topic=topics)
    def an_operator_deletes_a_topic(self, topic: str) -> None:
        self.feed.append(Told(self.table.delete(topic)))

    @rule()
    def something_happens_that_concerns_no_route(self) -> None:
        self.feed.append(Told(Change(kind=ChangeKind.KV, namespace="ns", key="k")))

    @rule(name=brokers, broker_id=ids, told=st.booleans())
    def a_lease_ends(self, name: str, broker_id: int, told: bool) -> None:  # noqa: FBT001 - by name
        change = self.table.expire(name, broker_id)
        if told:
            self.feed.append(Told(change))

    # --- the callers ---------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.callers) < 3)
    @rule(topic=topics)
    def a_caller_asks(self, topic: str) -> None:
        if self.cache.table.route(topic) is None and not self.cache.was_asked(topic, self.now):
            self.callers.append(Asked(self.cache.request([topic])))

    @rule()
    def the_store_reads(self) -> None:
        for asked in self.unread():
            asked.answer = self.table.answer(asked.request)

    @precondition(lambda self: self.callers)
    @rule(data=st.data(), lost=st.booleans())
    def a_caller_is_answered(self, data: st.DataObject, lost: bool) -> None:  # noqa: FBT001 - by name
        asked = data.draw(st.sampled_from(self.callers))
        if not lost:
            self.deliver(asked)
        self.callers.remove(asked)

    # --- the follower --------------------------------------------------------------------------------------

    @precondition(lambda self: not self.in_place)
    @rule()
    def the_follower_finds_its_place(self) -> None:
        self.feed.clear()
        self.cache.begin()
        self.in_place = True

    @precondition(lambda self: self.is_idle())
    @rule()
    def the_follower_reads_the_stream(self) -> None:
        self.cache.reads_stream()
        self.reading = self.cache._number

    @precondition(lambda self: self.reading is not None)
    @rule(failed=st.booleans())
    def the_stream_was_read(self, failed: bool) -> None:  # noqa: FBT001 - by name
        if self.reading is not None and not failed:
            self.stream_read = self.reading
            for told in self.feed:
                self.hear(told.change)
            self.cache.take([told.change for told in self.feed])
            self.note_who_gave_up(*self.feed)
            self.feed.clear()
            self.cache.stream_was_read(self.now)
        self.reading = None

    @precondition(lambda self: self.is_idle())
    @rule()
    def the_follower_asks_what_is_due(self) -> None:
        request = self.cache.due(self.now)
        self.follower = None if request is None else Asked(request)

    @precondition(lambda self: self.follower is not None)
    @rule(lost=st.booleans())
    def the_follower_is_answered(self, lost: bool) -> None:  # noqa: FBT001 - by name
        if self.follower is not None and not lost:
            self.deliver(self.follower)
        self.follower = None

    @precondition(lambda self: self.is_idle())
    @rule(count=st.integers(1, 5), rows=st.booleans())
    def the_follower_hears(self, count: int, rows: bool) -> None:  # noqa: FBT001 - by name
        """Hear changes by doorbells, of which those that are short bring rows, or read them in the stream."""
        for _ in range(min(count, len(self.feed))):
            told = self.feed.popleft()
            self.hear(told.change)
            self.cache.take([told.change], self.table.told.get(told.change.epoch, {}) if rows else {})
            self.note_who_gave_up(told)

    @precondition(lambda self: self.is_idle())
    @rule(left=st.integers(0, 5))
    def the_feed_is_trimmed(self, left: int) -> None:
        """Lose the place in the feed, which still tells the last changes."""
        self.lose_the_feed(*list(self.feed)[max(0, len(self.feed) - left) :])

    @precondition(lambda self: self.is_idle())
    @rule()
    def the_store_loses_everything(self) -> None:
        self.table.lose_everything()
        routed = {topic for topic in TOPICS if self.is_sure_of(topic)}
        self.lose_the_feed()
        if routed and self.accepted == NEVER:
            assert self.cache.losses.guarded_until is not None
            assert self.now < self.cache.losses.guarded_until <= self.now + CONFIG.guard_hold_s
            self.kept, self.kept_until = routed, self.cache.losses.guarded_until

    @rule()
    def an_operator_accepts(self) -> None:
        self.cache.accept(self.now)
        self.accepted = self.cache._number
        self.kept.clear()

    @rule(topics=st.frozensets(topics, min_size=1))
    def the_store_loses_some_topics(self, topics: frozenset[str]) -> None:
        for topic in topics:
            self.untold |= self.table.rows.pop(topic, None) is not None

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    # --- what must always hold -----------------------------------------------------------------------------

    @invariant()
    def who_gave_up_is_not_served(self) -> None:
        served = {
            address for broker in self.cache.table.alive.values() for address in broker.broker_addrs.values()
        }
        # The answer to a first look may be older than the change; then the cache wants to look again at once.
        assert not (served & self.ended) or self.cache.next_due() == 0

    @invariant()
    def knowledge_never_gets_older(self) -> None:
        for topic, rows in self.cache.table.rows.items():
            for row in rows:
                self.see((topic, row.broker_name), row.topic_sys_flag)
        for name, broker in self.cache.table.alive.items():
            for broker_id, address in broker.broker_addrs.items():
                self.see((name, broker_id), int(address.rpartition(":")[2]))

    @invariant()
    def who_had_a_route_keeps_one_when_the_store_loses_its_data(self) -> None:
        if self.now < self.kept_until:
            assert {topic for topic in self.kept if self.cache.table.route(topic) is None} == set()

    def no_single_answer_takes_a_route_away(self, before: set[str], asked: Asked) -> None:
        """Check what an answer took away, of the topics that surely had a live broker `before`."""
        if asked.request.number > self.accepted:
            return
        for topic in before - self.routed():
            # Without a word of the feed, only a look after it was read, since the doubt, is believed.
            doubted = self.doubted.get(topic, NEVER)
            assert topic in self.announced or doubted < self.stream_read < asked.request.number, topic

    @invariant()
    def what_is_held_back_is_served(self) -> None:
        assert self.cache.losses.held <= self.cache.table.rows.keys() | self.cache.table.alive.keys()

    # --- helpers -------------------------------------------------------------------------------------------

    def is_idle(self) -> bool:
        """Whether the follower waits for nothing."""
        return self.in_place and self.follower is None and self.reading is None

    def is_sure_of(self, topic: str) -> bool:
        """Whether more than a first answer told of a broker of the topic: that can be older than its end."""
        route = self.cache.table.route(topic)
        names = set() if route is None else {data.broker_name for data in route.broker_datas}
        return not names <= self.cache._unsure

    def routed(self) -> set[str]:
        """Return the topics with a live broker."""
        return {topic for topic in TOPICS if self.cache.table.route(topic) is not None}

    def hear(self, change: Change) -> None:
        """Remember of which topics a change announces an end, or that of a broker."""
        if change.kind is ChangeKind.DOWN:
            rows = self.cache.table.rows
            self.announced |= {topic for topic in rows if change.broker_name in self.holders(topic)}
        self.announced.update(change.removed)

    def holders(self, topic: str) -> set[str]:
        return {row.broker_name for row in self.cache.table.rows.get(topic, ())}

    def note_what_was_decided(self, request: Request) -> None:
        """Forget the announcements that an answer has just settled; remember since when topics are held."""
        held = {topic for topic in TOPICS if self.cache.losses.is_held(topic, self.holders(topic))}
        self.doubted = {topic: self.doubted.get(topic, self.cache._number) for topic in held}
        if request.number > self.delivered:
            self.delivered = request.number
            if request.full:
                self.announced &= held
        if request.full and request.number > self.accepted:
            assert not self.cache.losses.held & {*request.topics, *request.anew}
            self.accepted = NEVER

    def lose_the_feed(self, *left: Told) -> None:
        self.in_place = False
        for told in left:
            self.hear(told.change)
        self.cache.lose(self.now, [told.change for told in left])
        self.note_who_gave_up(*left)

    def note_who_gave_up(self, *heard: Told) -> None:
        self.ended |= {told.ended for told in heard if told.ended is not None}
        if any(told.ended is not None for told in heard):
            self.kept -= {topic for topic in self.kept if self.cache.table.route(topic) is None}

    def see(self, what: tuple[str, str | int], stamp: int) -> None:
        assert stamp >= self.newest.get(what, 0)
        self.newest[what] = stamp

    def unread(self) -> list[Asked]:
        return [
            asked for asked in (*self.callers, self.follower) if asked is not None and asked.answer is None
        ]

    def deliver(self, asked: Asked) -> None:
        for earlier in self.unread():
            if earlier.request.number < asked.request.number:
                earlier.answer = self.table.answer(earlier.request)
        answer = asked.answer or self.table.answer(asked.request)
        armed = self.cache.losses.guarded_until
        sure = {topic for topic in TOPICS if self.is_sure_of(topic)}
        self.cache.offer(asked.request, answer, self.now)
        self.no_single_answer_takes_a_route_away(sure, asked)
        self.note_what_was_decided(asked.request)
        if armed is not None and self.cache.losses.guarded_until is None:
            self.kept.clear()

    def catch_up(self) -> None:
        """Let the follower do its work until nothing is due."""
        if self.follower is not None:
            self.the_follower_is_answered(lost=False)
        if not self.in_place:
            self.the_follower_finds_its_place()
        self.the_stream_was_read(failed=True)
        self.the_follower_hears(len(self.feed), rows=True)
        while self.cache.losses.awaits_stream or self.cache.due(self.now) is not None:
            self.the_follower_reads_the_stream()
            self.the_stream_was_read(failed=False)
            if (request := self.cache.due(self.now)) is not None:
                self.deliver(Asked(request))

    def check_that_cache_and_table_agree(self) -> None:
        for topic in self.cache.table.rows:
            assert self.cache.table.route(topic) == self.table.route(topic), topic
        for topic in self.cache.table.missing:
            if self.cache.was_asked(topic, self.now):  # else the next caller finds out
                assert self.table.route(topic) is None, topic

    def teardown(self) -> None:
        """End all faults; then the cache has to say what is true, soon."""
        while self.callers:
            self.deliver(self.callers[0])
            del self.callers[0]
        self.catch_up()
        self.now += CONFIG.tail_s
        self.catch_up()
        if not (self.cache.losses.held or self.untold):
            self.check_that_cache_and_table_agree()
        self.now += CONFIG.guard_hold_s
        self.catch_up()
        self.now += CONFIG.refresh_s
        self.catch_up()
        self.check_that_cache_and_table_agree()
        assert not self.cache.losses.held
        assert self.cache.losses.guarded_until is None


TestCacheUnderFaults = CacheUnderFaults.TestCase
TestCacheUnderFaults.settings = settings(max_examples=examples(200), stateful_step_count=50)

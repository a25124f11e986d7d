"""A client of a registry that misbehaves in every way: who has a route gets a queue, and a good one."""

from __future__ import annotations

import random
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sharedroutes.client import ClientConfig, FaultConfig, NoRoute
from sharedroutes.client.cache import Request
from sharedroutes.client.core import ClientCore
from sharedroutes.client.faults.broker import Result
from sharedroutes.registry import Change, ChangePage
from sharedroutes.registry.change_stream.stream import Do
from tests.client.fake_table import FakeTable
from tests.client.heard import DOWN
from tests.support import examples

TOPICS: Final = ("t0", "t1")
BROKERS: Final = ("a", "b", "c", "d")
CONFIG: Final = ClientConfig(
    tail_s=1.0, refresh_s=20.0, jitter_s=0.0, missing_retry_s=0.0, guard_hold_s=30.0, faults=FaultConfig()
)
PLACE: Final = "1700000000000-1"


class ClientUnderFaults(RuleBasedStateMachine):
    """Brokers come and go, attempts end well or not, the store answers, fails or forgets."""

    brokers = st.sampled_from(BROKERS)
    topics = st.sampled_from(TOPICS)

    def __init__(self) -> None:
        super().__init__()
        self.table = FakeTable()
        self.now = 0.0
        self.last_failed: str | None = None

    @initialize(seed=st.integers(0, 1_000), names=st.sets(brokers, min_size=1))
    def start(self, seed: int, names: set[str]) -> None:
        self.core = ClientCore(CONFIG, random.Random(seed))
        self.core.follower.found_place(PLACE, self.now)
        for name in names:
            self.table.register(name, *TOPICS)
        self.learn()

    # --- the registry ---------------------------------------------------------------------------------------

    @rule(name=brokers, told=st.booleans())
    def a_broker_registers(self, name: str, told: bool) -> None:  # noqa: FBT001 - by name
        self.tell(self.table.register(name, *TOPICS), told=told)

    @rule(name=brokers, told=st.booleans())
    def a_lease_ends(self, name: str, told: bool) -> None:  # noqa: FBT001 - by name
        self.tell([self.table.expire(name)], told=told)

    @rule(name=brokers, lost=st.booleans())
    def a_broker_unregisters(self, name: str, lost: bool) -> None:  # noqa: FBT001 - by name
        if (name, 0) in self.table.leases:
            page = ChangePage((self.table.unregister(name),), PLACE, lost, complete=True)
            self.core.follower.found_page(page, self.now)
            assert name not in {of for topic in TOPICS for of in self.writable(topic)}
            if lost:
                self.core.follower.found_place(PLACE, self.now)

    @rule(back=st.sets(brokers))
    def the_store_loses_everything(self, back: set[str]) -> None:
        self.table.lose_everything()
        told = tuple(change for name in sorted(back) for change in self.table.register(name, *TOPICS))
        self.core.follower.found_page(ChangePage(told, PLACE, lost=True, complete=True), self.now)
        self.core.follower.found_place(PLACE, self.now)

    @rule(gone=st.sets(brokers), asked=st.booleans())
    def the_store_is_rolled_back(self, gone: set[str], asked: bool) -> None:  # noqa: FBT001 - by name
        self.learn()
        live = {name for name in BROKERS if (name, 0) in self.table.leases}
        before = {topic: {*self.table.rows.get(topic, ())} & live & self.writable(topic) for topic in TOPICS}
        for name in gone:
            self.table.expire(name)
        if asked:
            self.look(self.core.known.cache.request(("other",)))
        self.core.follower.found_page(ChangePage((), PLACE, lost=True, complete=True), self.now)
        self.core.follower.found_place(PLACE, self.now)
        self.learn()
        assert all(self.writable(topic) >= before[topic] for topic in TOPICS)

    @rule()
    def the_store_answers(self) -> None:
        self.learn()

    @rule()
    def the_store_fails(self) -> None:
        self.core.follower.failed(DOWN, self.now)
        step = self.core.follower.next_step(self.now)
        assert step.do is Do.PAUSE
        assert 0 < step.wait_s <= CONFIG.reconnect_s

    @rule(seconds=st.sampled_from([0.01, 0.5, 2.0, 11.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    # --- attempts -------------------------------------------------------------------------------------------

    @rule(topic=topics, failed=st.booleans(), latency_s=st.sampled_from([0.0, 0.06, 0.6, 20.0]))
    def an_attempt_ends(self, topic: str, failed: bool, latency_s: float) -> None:  # noqa: FBT001 - by name
        name = self.choose(topic, self.last_failed)
        if name is not None:
            if name == self.last_failed:
                assert self.writable(topic) == {name}, "the broker that failed again, and another was there"
            self.core.brokers.record(name, Result(latency_s, failed=failed), self.now)
            self.last_failed = name if failed else None

    # --- what must always hold ------------------------------------------------------------------------------

    @invariant()
    def who_has_a_route_gets_a_queue_of_it(self) -> None:
        for topic in TOPICS:
            names = self.writable(topic)
            assert (self.choose(topic, None) in names) if names else (self.choose(topic, None) is None)
            for avoid in names:
                assert (self.choose(topic, avoid) != avoid) == (len(names) > 1)

    @invariant()
    def so_many_are_left_alone_as_may_be_and_no_more(self) -> None:
        verdict = self.core.brokers.faults.verdict(self.now)
        for topic in TOPICS:
            names = self.writable(topic)
            view = self.core.view(topic)
            if view is None or not names or verdict.shares:  # who comes back slowly is chosen by chance
                continue
            chosen = {
                self.core.brokers.pick(topic, view, frozenset(), self.now).broker_name
                for _ in range(view.size)
            }
            share = CONFIG.faults.max_isolated_share
            assert share is not None
            most = max(1, int(share * len(names))) if len(names) > 1 else 0
            assert len(names - chosen) == min(most, len(names & {*verdict.blocked}))
            assert names - chosen <= {*verdict.blocked}

    # --- helpers --------------------------------------------------------------------------------------------

    def tell(self, changes: list[Change], *, told: bool) -> None:
        if told:
            self.core.follower.found_page(
                ChangePage(tuple(changes), PLACE, lost=False, complete=True), self.now
            )

    def learn(self) -> None:
        """Let the store answer all that is to be asked, first a caller, and then the follower."""
        self.look(self.core.question(TOPICS, self.now).request)
        if self.core.known.stream.must_read:
            self.core.known.cache.reads_stream()
            self.tell([], told=True)
        self.look(self.core.known.cache.due(self.now))
        self.core.follower.caught_up()

    def look(self, request: Request | None) -> None:
        if request is not None:
            self.core.known.offer(request, self.table.answer(request), self.now)

    def writable(self, topic: str) -> set[str]:
        """Return the brokers of the known route that have a master."""
        route = self.core.route(topic)
        brokers = () if route is None else route.broker_datas
        return {data.broker_name for data in brokers if data.master_address is not None}

    def choose(self, topic: str, avoid: str | None) -> str | None:
        view = self.core.view(topic)
        if view is None:
            return None
        avoided = self.core.brokers.avoided(() if avoid is None else avoid)
        try:
            return self.core.brokers.pick(topic, view, avoided, self.now).broker_name
        except NoRoute:
            return None


TestClientUnderFaults = ClientUnderFaults.TestCase
TestClientUnderFaults.settings = settings(max_examples=examples(100), stateful_step_count=40)

"""A follower's copy is the writer's table, whatever becomes of doorbells, reads and the stream itself."""

from __future__ import annotations

import random
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharedroutes.registry import (
    Change,
    ChangeKind,
    Lookup,
    QueueData,
    Reset,
    StoreUnavailable,
    codec,
)
from sharedroutes.registry.change_stream import core as follow
from sharedroutes.registry.change_stream.core import FollowCore
from sharedroutes.registry.change_stream.stream import Do, Step
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import ORIGIN, ChangePage, changes_since
from tests.support import examples

KEYS = Keys("test")
BROKER = "broker-a"
TOPICS = ("t0", "t1", "t2", "t3")
NO_CHANGE = b'{"kind":"of a newer release"}'
PAGE = 3
AHEAD = 4
SETTLED_WITHIN = 500


class Registry:
    """A table of topics, its stream and the doorbells on their way."""

    def __init__(self) -> None:
        self.table: frozenset[str] = frozenset()
        self.entries: list[tuple[str, bytes]] = []
        self.tables: dict[str, frozenset[str]] = {ORIGIN: frozenset()}
        """The table after each change that was ever written."""

        self.previous: dict[str, str] = {}
        """The id that stood before each change when it was written."""

        self.bells: list[bytes] = []
        self._number = 0

    @property
    def last(self) -> str:
        return self.entries[-1][0] if self.entries else ORIGIN

    def toggle(self, topic: str, *, short: bool) -> None:
        gone = topic in self.table
        self.table = self.table ^ {topic}
        names = {"removed" if gone else "added": (topic,)}
        change = Change(kind=ChangeKind.TOPICS, broker_name=BROKER, broker_id=0, epoch=1, **names)  # type: ignore[arg-type]
        self.append(codec.encode_change(change), short=short)

    def append(self, record: bytes, *, short: bool) -> None:
        self._number += 1
        change_id, previous = f"{self._number}-0", self.last
        self.previous[change_id] = previous
        self.entries.append((change_id, record))
        self.tables[change_id] = self.table
        self.bells.append(f"{previous} {change_id} ".encode() + (record if short else b""))

    def pulse(self) -> None:
        """Ring as the sweep does."""
        self.bells.append(f"{self.last} {self.last} pulse 1700000000000".encode())

    def roll_back(self, count: int) -> None:
        """Become a replica that had not got the last changes yet."""
        kept = self.entries[: len(self.entries) - count]
        self.entries, self.table = kept, self.tables[kept[-1][0]]

    def page(self, position: str) -> ChangePage:
        """Answer the real plan."""
        plan = changes_since(KEYS, position, PAGE)
        next(plan)
        ms = int(position.partition("-")[0])
        found = [(i.encode(), {b"c": r}) for i, r in self.entries if int(i.partition("-")[0]) >= ms]
        try:
            plan.send([found[: PAGE + 1]])
        except StopIteration as done:
            page: ChangePage = done.value
            return page
        raise AssertionError("the plan asks for more")


def lookup(topics: frozenset[str]) -> Lookup:
    return Lookup(rows={topic: (QueueData(BROKER, 4, 4, 6),) for topic in topics})


class Following(RuleBasedStateMachine):
    """A writer, a store with faults, a follower and its consumer."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = mock.patch.object(follow, "_MOST_AHEAD", AHEAD)
        self.patch.start()
        self.registry = Registry()
        self.core = self.new_core(None)
        self.now = 0.0
        self.place_table: frozenset[str] = frozenset()
        self.copy: set[str] | None = None
        self.told: str | None = None
        """The id of the last item that the consumer has got."""

    def new_core(self, position: str | None) -> FollowCore:
        return FollowCore(KEYS, position, table=True, tail_s=1.0, rng=random.Random(0))

    def teardown(self) -> None:
        try:
            self.everything_settles()
        finally:
            self.patch.stop()

    @initialize(topics=st.lists(st.sampled_from(TOPICS), max_size=3), steps=st.sampled_from([0, 5, 10]))
    def some_have_registered_before(self, topics: list[str], steps: int) -> None:
        for topic in topics:
            self.registry.toggle(topic, short=True)
        self.registry.bells.clear()
        for _ in range(steps):
            self.do(self.core.next_step(self.now), set())
            self.take()

    # --- what happens to the registry -----------------------------------------------------------------------

    @rule(topic=st.sampled_from(TOPICS), short=st.sampled_from([True, True, False]))
    def a_topic_comes_or_goes(self, topic: str, *, short: bool) -> None:
        self.registry.toggle(topic, short=short)

    @rule(topic=st.sampled_from(TOPICS), short=st.booleans())
    def a_change_that_cannot_be_read_is_written(self, topic: str, *, short: bool) -> None:
        self.registry.table ^= {topic}
        self.registry.append(NO_CHANGE, short=short)

    @rule(how=st.sampled_from(["trim", "roll back", "flush", "delete the stream"]), share=st.floats(0, 1))
    def the_store_loses_something(self, how: str, share: float) -> None:
        registry = self.registry
        count = round(share * (len(registry.entries) - 1))
        if how == "flush":
            registry.entries, registry.table = [], frozenset()
        elif how == "trim" and registry.entries:
            registry.entries = registry.entries[count:]
        elif how == "roll back" and registry.entries:
            registry.roll_back(count)
        elif how == "delete the stream" and self.core.health(0).position not in (None, ORIGIN):
            registry.entries = []

    @rule()
    def the_sweep_rings_a_pulse(self) -> None:
        self.registry.pulse()

    # --- what happens to doorbells and reads ----------------------------------------------------------------

    @precondition(lambda self: self.registry.bells)
    @rule(which=st.sampled_from([0, 0, 0, 0, 1, 2, -1]), times=st.sampled_from([1, 1, 1, 2]))
    def a_doorbell_is_heard(self, which: int, times: int) -> None:
        bells = self.registry.bells
        message = bells.pop(min(which, len(bells) - 1))
        for _ in range(times):
            self.core.heard(message, self.now)

    @precondition(lambda self: self.registry.bells)
    @rule()
    def a_doorbell_is_lost(self) -> None:
        self.registry.bells.pop(0)

    @rule(what=st.sampled_from(["cut", "no doorbell", "no answer", "restart of the consumer"]))
    def there_is_trouble(self, what: str) -> None:
        if what == "cut":
            self.registry.bells.clear()
            self.core.heard(b"", self.now)
        elif what == "no doorbell":
            self.core.bell_failed(StoreUnavailable("cut"), self.now)
        elif what == "no answer":
            self.core.failed(StoreUnavailable("away"), self.now)
        elif self.told is not None:
            self.core = self.new_core(self.told)
            self.registry.bells.clear()

    # --- what the follower and its consumer do --------------------------------------------------------------

    @rule(steps=st.integers(1, 4), read_late=st.sets(st.sampled_from(TOPICS)))
    def the_follower_goes_on(self, steps: int, read_late: set[str]) -> None:
        for _ in range(steps):
            self.do(self.core.next_step(self.now), read_late)

    @rule(count=st.integers(1, 5))
    def items_are_taken(self, count: int) -> None:
        for _ in range(count):
            self.take()

    @invariant()
    def not_too_much_is_kept(self) -> None:
        assert len(self.core._items) <= AHEAD + PAGE
        assert sum(isinstance(item, Reset) for item in self.core._items) <= 1

    def do(self, step: Step, read_late: set[str]) -> None:
        """Do one step; the topics in `read_late` are read at the end of reading the table, others before."""
        if step.do is Do.READ_PLACE:
            self.place_table = self.registry.table
            self.core.found_place(self.registry.last, self.now)
        elif step.do is Do.READ_TABLE:
            late = self.registry.table & read_late
            self.core.found_table(lookup((self.place_table - read_late) | late), self.now)
        elif step.do is Do.READ_TAIL:
            self.core.found_page(self.registry.page(step.position), self.now)
        else:
            self.now += step.wait_s

    def take(self) -> bool:
        item = self.core.take()
        if isinstance(item, Reset):
            assert item.table is not None
            self.copy, self.told = {*item.table.rows}, item.position
        elif item is not None:
            assert self.copy is not None, "a change came before the first reset"
            previous = self.registry.previous[item.change_id]
            assert previous == self.told, "a change was missed, or told twice"
            self.copy = (self.copy | {*item.added}) - {*item.removed}
            self.told = item.change_id
        return item is not None

    def everything_settles(self) -> None:
        """Let everything work again, and compare after one more change."""
        registry = self.registry
        registry.toggle("t0", short=True)
        for _ in range(SETTLED_WITHIN):
            while registry.bells:
                self.core.heard(registry.bells.pop(0), self.now)
            while self.take():
                pass
            step = self.core.next_step(self.now)
            if step.do is Do.HEAR and self.core.health(self.now).position == registry.last:
                break
            self.do(step, set())
        assert self.core.health(self.now).position == registry.last
        assert self.copy == {*registry.table}


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=examples(300), stateful_step_count=30)

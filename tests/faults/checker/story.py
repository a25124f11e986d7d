"""A registry that does everything right, told as a history: what the tests of the rules alter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec

from sharedroutes.registry import ChangeKind
from sharedroutes.registry.keys import Keys as KeyTable
from sharedroutes.registry.model import EXPIRED
from tests.faults.checker.endings import DRAINED
from tests.faults.checker.feed import Replay
from tests.faults.checker.history import (
    STORE,
    Bounds,
    Change,
    Event,
    Expected,
    Fault,
    Item,
    Keys,
    Lease,
    Log,
    Received,
    Record,
    Replica,
    Route,
    Run,
    Sent,
    Started,
    State,
    Table,
    TableContent,
    Usage,
)
from tests.faults.checker.report import check

BOUNDS: Final = Bounds(
    lease_ms=3_000,
    stale_ms=1_500,
    hold_ms=3_000,
    back_ms=4_000,
    jitter_ms=1_500,
    reread_ms=2_000,
    converge_ms=6_000,
    first_failures=2,
    isolated_ms=4_000,
    slow_start_ms=3_500,
    rss_kb=1_000,
)
BROKERS: Final = ("broker-a", "broker-b", "broker-c")
CLIENTS: Final = ("client-asyncio", "client-threads")
FOLLOWER: Final = "follower"
TOPIC: Final = "orders"
ORIGIN: Final = "0-0"
CORRUPT: Final = "a key of the registry is corrupt"

_KEYS: Final = KeyTable("sharedroutes")


def address_of(broker: str) -> str:
    """Return where a broker listens."""
    return f"127.0.0.1:{10_000 + ord(broker[-1])}"


@dataclass(slots=True)
class Story:
    """Goes on by one event after the other; each method takes some time, and ends in a calm."""

    events: list[Event] = field(default_factory=list)
    now_ms: int = 1_000
    _epochs: dict[str, int] = field(default_factory=dict)
    _alive: set[str] = field(default_factory=set)
    _replay: Replay = field(default_factory=Replay)
    _last_id: str = ORIGIN
    _messages: int = 0

    def begin(self) -> None:
        """Start everything."""
        self.tell(Run(who="driver", deployment="standalone", seed=1, bounds=BOUNDS))
        for who in (*CLIENTS, FOLLOWER):
            self.tell(Started(who=who, pid=1))
        self.reset("start")
        for broker in BROKERS:
            self.own(broker, topics=(TOPIC,))
        self.expect()
        self.see()
        self._measure("before")
        self.calm()

    def calm(self, ms: int = 7_000) -> None:
        """Let time pass, in which all is well: messages are sent, and everybody says what there is."""
        for _ in range(ms // 1_000):
            self.look()
            self.send()
            self.see()
            self.now_ms += 1_000

    def crash(self, broker: str) -> None:
        """Let a broker and its agent die, and come back."""
        self._fault("kill-host", broker, "begin")
        self._alive.discard(broker)
        self.expect()
        self.send(fails_at=broker)
        self.now_ms += BOUNDS.lease_ms
        last = Lease(who="auditor", broker=broker, id=0, epoch=self.epoch(broker), left_ms=1)
        self.tell(msgspec.structs.replace(last, address=address_of(broker)))
        self.look()
        end = Record(kind=ChangeKind.DOWN, broker=broker, epoch=self.epoch(broker), reason=EXPIRED)
        self.change(msgspec.structs.replace(end, ended=self.now_ms - 1))
        self.see()
        self.calm(BOUNDS.told_ms + 2_000)
        self.own(broker)
        self.expect()
        self._fault("kill-host", broker, "end")
        self.see()
        self.calm()

    def drain(self, broker: str) -> None:
        """Let a broker withdraw itself, and come back."""
        self._fault("drain", broker, "begin")
        self._alive.discard(broker)
        self.expect()
        self.look()
        self.change(Record(kind=ChangeKind.DOWN, broker=broker, epoch=self.epoch(broker), reason=DRAINED))
        self.see()
        self.own(broker)
        self.expect()
        self._fault("drain", broker, "end")
        self.see()
        self.calm()

    def take_over(self, broker: str) -> None:
        """Let another agent take a broker over, so that the first is fenced."""
        self._fault("two-agents", broker, "begin")
        first = self.epoch(broker)
        self.own(broker, "second")
        self.tell(State(who=f"agent-{broker}-first", broker=broker, id=0, state="fenced", epoch=first))
        self._fault("two-agents", broker, "end")
        self.calm()
        self.own(broker)
        self.tell(
            State(
                who=f"agent-{broker}-second",
                broker=broker,
                id=0,
                state="fenced",
                epoch=self.epoch(broker) - 1,
            )
        )
        self.calm()

    def corrupt(self, broker: str) -> None:
        """Let somebody put something foreign in the place of a key, which an operator then repairs."""
        self._fault("corrupt-route", broker, "begin", disturbs=(STORE,), loses=True)
        self.tell(Log(who="driver", process="agent", level="ERROR", text=CORRUPT))
        self.change(Record(kind=ChangeKind.TOPICS, broker=broker, changed=(TOPIC,)))
        self._fault("corrupt-route", broker, "end", disturbs=(STORE,), loses=True)
        self.calm()

    def new_topic(self, broker: str, topic: str) -> None:
        """Let a broker have one topic more, or change it: no registry says twice that one is new."""
        known = topic in self._replay.table.topics[broker]
        record = Record(kind=ChangeKind.TOPICS, broker=broker, epoch=self.epoch(broker))
        change = {"changed" if known else "added": (topic,)}
        self.change(msgspec.structs.replace(record, **change))
        self.expect()
        self.calm()

    def flush(self) -> None:
        """Let the store lose everything: the stream begins anew, and all register again."""
        self._fault("flushall", "redis", "begin", disturbs=(STORE,), loses=True)
        self._last_id = ORIGIN
        self._fault("flushall", "redis", "end", disturbs=(STORE,), loses=True)
        self._replay = Replay()
        self.reset("lost")
        for broker in BROKERS:
            self.own(broker, topics=(TOPIC,))
        self.expect()
        self.see()
        self.calm()

    def end(self) -> None:
        """Say what there is in the end."""
        for source in (STORE, *CLIENTS):
            self.tell(Table(who="driver", source=source, table=self._replay.table))
        keys = [(_KEYS.lease(broker, 0), "string", BOUNDS.lease_ms) for broker in BROKERS]
        self.tell(
            Keys(
                who="driver",
                namespace="sharedroutes",
                keys=(*keys, (_KEYS.changes, "stream", None)),
                verify=(),
            )
        )
        self._measure("after")
        self.tell(Log(who="driver", process="agent", level="WARNING", text="the store is away"))

    # --- what the parts do ----------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Add an event, a millisecond after the one before."""
        self.now_ms += 1
        self.events.append(msgspec.structs.replace(event, at_us=1_000 * self.now_ms))

    def epoch(self, broker: str) -> int:
        """Return the newest epoch of a broker."""
        return self._epochs[broker]

    def own(self, broker: str, agent: str = "first", topics: tuple[str, ...] = ()) -> None:
        """Let an agent register a broker, with topics that were not there."""
        self._epochs[broker] = self.now_ms
        address, epoch = address_of(broker), self.epoch(broker)
        if topics:
            self.change(Record(kind=ChangeKind.TOPICS, broker=broker, epoch=epoch, added=topics))
        self._alive.add(broker)
        self.look()
        self.change(Record(kind=ChangeKind.UP, broker=broker, epoch=epoch, address=address))
        self.tell(State(who=f"agent-{broker}-{agent}", broker=broker, id=0, state="owner", epoch=epoch))

    def look(self) -> None:
        """Let the auditor look at all leases."""
        for broker, epoch in self._epochs.items():
            if broker in self._alive:
                look = Lease(broker=broker, id=0, epoch=epoch, address=address_of(broker), left_ms=900)
            else:
                look = Lease(broker=broker, id=0)
            self.tell(msgspec.structs.replace(look, who="auditor"))

    def change(self, record: Record) -> None:
        """Let a change happen: the auditor sees it, and the follower is told."""
        previous, self._last_id = self._last_id, f"{self.now_ms}-0"
        self.tell(Change(who="auditor", id=self._last_id, previous=previous, record=record))
        self._told(Item(who=FOLLOWER, kind="change", id=self._last_id, record=record))

    def reset(self, reason: str) -> None:
        """Let the follower begin anew."""
        table = self._replay.table
        self._told(Item(who=FOLLOWER, kind="reset", id=self._last_id, reason=reason, table=table))

    def expect(self) -> None:
        """Say what is true."""
        leases = tuple(Replica(broker, 0, address_of(broker)) for broker in sorted(self._alive))
        self.tell(Expected(who="scheduler", table=TableContent(leases, self._replay.table.topics)))

    def see(self) -> None:
        """Let everybody who looks up say what there is."""
        brokers = tuple(Replica(broker, 0, address_of(broker)) for broker in sorted(self._alive))
        for who in CLIENTS:
            self.tell(Route(who=who, topic=TOPIC, brokers=brokers))
        self.tell(Route(who="auditor", topic=TOPIC, brokers=brokers, fresh=True))

    def send(self, fails_at: str = "") -> None:
        """Let each client send a message; `fails_at`: the broker at which the first attempt fails."""
        for who in CLIENTS:
            self._messages += 1
            message, attempt = f"{who}-{self._messages}", 1
            if fails_at:
                self.tell(_sent(who, message, fails_at, attempt, error="refused"))
                attempt = 2
            broker = sorted(self._alive)[self._messages % len(self._alive)]
            self.tell(Received(who=broker, message=message, address=address_of(broker)))
            self.tell(_sent(who, message, broker, attempt))

    def _told(self, item: Item) -> None:
        self._replay.take(item)
        self.tell(item)

    def _fault(self, name: str, target: str, phase: Literal["begin", "end"], **more: Any) -> None:
        self.tell(Fault(who="scheduler", name=name, target=target, phase=phase, **more))

    def _measure(self, phase: Literal["before", "after"]) -> None:
        for process in CLIENTS:
            usage = Usage(
                process=process, phase=phase, rss_kb=40_000, threads=3, descriptors=9, connections=2
            )
            self.tell(msgspec.structs.replace(usage, who="driver"))


def _sent(who: str, message: str, broker: str, attempt: int, error: str = "") -> Sent:
    return Sent(
        who=who,
        message=message,
        topic=TOPIC,
        broker=broker,
        address=address_of(broker),
        attempt=attempt,
        ok=not error,
        error=error,
    )


def calm() -> Story:
    """Return a registry that has worked for longer than processes take to be back."""
    story = Story()
    story.begin()
    story.calm(BOUNDS.back_ms + BOUNDS.lease_ms)
    return story


def reasons(events: Iterable[Event], rule: str, text: str = "") -> list[str]:
    """Return what is wrong in a history by one rule, of what has a text in it."""
    found = check(sorted(events, key=attrgetter("at_us"))).verdicts[rule].violations
    return [violation.reason for violation in found if text in violation.reason]

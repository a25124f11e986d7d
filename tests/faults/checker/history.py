"""What happened in a run of the fault matrix: one JSON line an event, a file a process, merged by time.

All processes are on one machine, so the monotonic clock is the same for all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias

import msgspec

from sharedroutes.registry import Change as RegistryChange
from sharedroutes.registry.codec import encode_change

FAILOVER: Final = "failover"  # a fault that the auditor notes: another server has become the primary
OPERATOR: Final = "operator"  # in `Record.by`
LISTED: Final = "the list of brokers"
"""In `Route.topic`: what a front lists, which says what the store does, and holds nothing back."""

LEAST_LATE_MS: Final = 20  # less than that is no word
STORE: Final = "store"
"""In `Fault.disturbs`: the fault is at the store, and so concerns all processes."""


def now_us() -> int:
    """Return the time of the machine's monotonic clock, in microseconds."""
    return time.monotonic_ns() // 1_000


class Replica(NamedTuple):
    """A broker's replica and where it is."""

    broker: str
    id: int
    address: str


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the rules look at in a record of the change stream; its other fields are passed over."""

    kind: str
    broker: str = ""
    id: int = 0
    epoch: int = 0
    address: str = ""
    reason: str = ""
    ended: int | None = None
    """When the lease ended of whose end it tells, in ms of the store's clock; None = unknown."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    by: str = ""
    """Who asked for it; OPERATOR = an operator."""

    @classmethod
    def of(cls, change: RegistryChange) -> Self:
        """Return the record of a change as the product decoded it."""
        return msgspec.json.decode(encode_change(change), type=cls)


class TableContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who lives, and which topics brokers have, dead ones too."""

    leases: tuple[Replica, ...] = ()
    topics: dict[str, tuple[str, ...]] = {}
    """Broker to the names of its topics."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the design promises with the settings of a run."""

    lease_ms: int
    fronts_ms: int = 4_000
    """The longest lease that a broker asks of fronts."""

    stale_ms: int
    """So long after the end of a lease, a client that reaches the store may still use the address."""

    hold_ms: int
    """For so long a client holds back a loss that it does not believe (`guard_hold_s`)."""

    reread_ms: int = 16_000
    """So long after an entry that cannot be read, a client has read everything again (`jitter_s`)."""

    jitter_ms: int = 15_000
    """Within so long, at random, a client that has missed changes reads everything again (`jitter_s`)."""

    saved_ms: int = 2_500
    """So long after a change, a client's snapshot has it: it is written once a second."""

    looks_ms: int = 50
    """So often the auditor looks for each lease."""

    swept_ms: int = 100
    """So long after its end, the stream has told of a lease while the sweeper is at work."""

    elected_ms: int = 2_000
    """So long after a sweeper has ended, another one is at work: its lease is 1 s."""

    attempt_ms: int = 1_000
    """So long an attempt waits for its broker, if another one can follow."""

    told_ms: int = 6_000
    """So long after its end, the stream has told of a lease, even if its sweeper died with it."""

    heard_ms: int = 500
    """So long after a change, who hears the doorbell knows of it; a read finds it within a second."""

    confirm_ms: int = 1_000
    """For so long after a failover, who asks Sentinels once a second may still ask the former primary."""

    arrival_ms: int = 3_000
    """So long after a change, who reaches the store knows of it, even if it has missed the doorbell."""

    back_ms: int = 8_000
    """So long after a fault that kept a process from the store it is back: it tries again within 6 s."""

    gone_ms: int = 2_000
    """So long after all connections of a broker were closed, its lease has ended."""

    converge_ms: int
    """So long after the end of a fault, every view has to be what is true."""

    first_failures: int
    """So many first attempts of a client may fail for one fault, until the next begins."""

    alone_ms: int = 10_000
    """For so long, at least, a client leaves a broker alone that has failed, if others have not."""

    isolated_ms: int = 12_000
    """For so long, times the failures, a client leaves a broker alone: 10 s, and a fifth of jitter."""

    slow_start_ms: int = 5_000
    """For so long a broker that comes back gets a part of its turns."""

    rss_kb: int
    """By so much the memory of a process may have grown in the end; likewise the counts below."""

    threads: int = 0
    descriptors: int = 0
    connections: int = 0


class _Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="what",
):
    """What every event has; a Writer fills in what is left out."""

    at_us: int = 0
    who: str = ""
    """The name of the process that writes it."""


class Run(_Event, frozen=True, kw_only=True, tag="run"):
    """The first event: what is run, and what has to hold in it."""

    deployment: str
    seed: int
    bounds: Bounds


class Started(_Event, frozen=True, kw_only=True, tag="started"):
    """A process began, anew perhaps: the first that it writes; what it knew before is gone."""

    pid: int
    has_snapshot: bool = False
    """For a client: whether a snapshot of its routes was there, so that it has these from the start on."""


class Fault(_Event, frozen=True, kw_only=True, tag="fault"):
    """A fault begins or ends."""

    name: str
    target: str
    phase: Literal["begin", "end"]
    details: dict[str, Any] = {}
    disturbs: tuple[str, ...] = ()
    """The processes that it keeps from running or from the store; STORE = all of them."""

    restarts: tuple[str, ...] = ()
    """The processes that it starts anew in the beginning and in the end, and leaves alone in between."""

    loses: bool = False
    """Whether the store may forget what was written: then epochs may go back while the fault lasts."""


class Expected(_Event, frozen=True, kw_only=True, tag="expected"):
    """What is true from now on, and every view has to come to: the brokers that live, with their topics."""

    table: TableContent


class Lease(_Event, frozen=True, kw_only=True, tag="lease"):
    """What the primary says of one lease."""

    broker: str
    id: int
    epoch: int | None = None
    """None = there is no lease."""

    address: str = ""
    left_ms: int = 0
    vouched_ms: int = 0
    """For how long from then on fronts vouch for the broker; 0 = they do not."""

    server: str = ""


class Route(_Event, frozen=True, kw_only=True, tag="route"):
    """What a client says of a topic: whenever that changes, and once a second."""

    topic: str
    brokers: tuple[Replica, ...] | None = None
    """None = the client has no route."""

    queues: tuple[tuple[str, int], ...] = ()
    """How many queues each broker has, to read from; a front says none."""

    order: str = ""
    """What a front says of the order of the topic's queues."""

    stale: bool = False
    """Whether the client says that the store does not confirm its routes: `Health.source` is not live."""

    held: tuple[str, ...] = ()
    """The brokers that it says it holds back (`Health.held_brokers`)."""

    server: str = ""
    """Where the client reads, as host:port, if it may read at replicas."""

    age_ms: int | None = None
    """How long ago the store has confirmed it, as the client says; None = it does not say."""

    fresh: bool = False
    """Whether it is no cached view but a lookup, made for this event by the auditor."""

    began_us: int = 0
    """When that lookup began."""


class Sent(_Event, frozen=True, kw_only=True, tag="sent"):
    """One attempt of a client at a message; written when it is over."""

    message: str
    topic: str
    broker: str
    address: str
    attempt: int
    """From 1 on."""

    ok: bool
    error: str = ""
    began_us: int = 0
    """When the address was chosen."""

    held: bool = False
    """Whether the client says that it holds this broker back."""

    stale: bool = False
    """As in Route."""


class Lost(_Event, frozen=True, kw_only=True, tag="lost"):
    """A message of which all attempts failed."""

    message: str
    topic: str
    error: str


class Received(_Event, frozen=True, kw_only=True, tag="received"):
    """A broker took a message."""

    message: str
    address: str


class Written(_Event, frozen=True, kw_only=True, tag="written"):
    """A broker told a front of a topic that it has changed, and then asked it for the topic's route."""

    front: str
    topic: str
    queues: int
    """So many it has now."""

    found: int | None = None
    """So many the route has; None = none of this broker."""

    began_us: int


class Item(_Event, frozen=True, kw_only=True, tag="item"):
    """What a follower was told."""

    kind: Literal["change", "reset"]
    id: str
    """Of the change in the stream; with a reset, the position after which the changes follow."""

    reason: str = ""
    record: Record | None = None
    table: TableContent | None = None
    """With a reset."""


class Change(_Event, frozen=True, kw_only=True, tag="change"):
    """An entry of the change stream, as it stands at the primary."""

    id: str
    previous: str | None = None
    """The id of the entry before it, "0-0" = it is the first in the stream, None = nobody knows."""

    record: Record | None = None
    """None = it is no change that can be read."""


class State(_Event, frozen=True, kw_only=True, tag="state"):
    """What an agent or a front says of itself and a broker, whenever that changes."""

    broker: str
    id: int
    state: Literal["owner", "fenced", "standby", "left"]
    epoch: int | None = None


class Table(_Event, frozen=True, kw_only=True, tag="table"):
    """The whole table in the end."""

    source: str
    """STORE, or the client whose view it is."""

    table: TableContent


class Keys(_Event, frozen=True, kw_only=True, tag="keys"):
    """All keys of the server in the end, and what `verify` finds."""

    namespace: str
    keys: tuple[tuple[str, str, int | None], ...]
    """Name, type, TTL in ms (None = none)."""

    verify: tuple[str, ...]


class Saved(_Event, frozen=True, kw_only=True, tag="saved"):
    """The snapshot file of a client, whenever it has another content."""

    client: str
    problem: str = ""
    """Why nobody can begin with it; empty = it is whole."""


class Usage(_Event, frozen=True, kw_only=True, tag="usage"):
    """What a process takes of the machine."""

    process: str
    phase: Literal["before", "during", "after"]
    rss_kb: int
    threads: int
    descriptors: int
    connections: int


class Log(_Event, frozen=True, kw_only=True, tag="log"):
    """A line of a process's log."""

    process: str
    level: str
    text: str


class Behind(_Event, frozen=True, kw_only=True, tag="behind"):
    """The run waits no longer, since the last fault, for who does not see what is true, or says nothing."""

    whose: str
    since_us: int


class Late(_Event, frozen=True, kw_only=True, tag="late"):
    """For so long, until then, the machine did not run a process: so its timer says, or the kernel."""

    late_ms: int
    process: str = ""
    """Empty = what serves everybody: a watchdog, the harness, the store."""


Event: TypeAlias = (
    Run
    | Started
    | Fault
    | Expected
    | Lease
    | Route
    | Sent
    | Lost
    | Received
    | Written
    | Item
    | Change
    | State
    | Table
    | Keys
    | Saved
    | Usage
    | Log
    | Behind
    | Late
)
History: TypeAlias = Sequence[Event]
"""Events by time, `run` first."""

_DECODER: Final = msgspec.json.Decoder(Event)


class BadHistory(Exception):
    """A line of a history that is no event."""


def format_event(event: Event) -> bytes:
    """Return the line of an event, without its end."""
    return msgspec.json.encode(event)


def parse_event(line: bytes) -> Event:
    """Return the event that stands in a line; raise BadHistory."""
    try:
        event: Event = _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise BadHistory(f"{error}: {line[:120]!r}") from None
    if not (event.at_us and event.who):
        raise BadHistory(f"an event without at_us or who: {line[:120]!r}")
    return event


class Writer:
    """Appends the events of one process to its file in a folder; any thread may write.

    An event is one write, so a kill leaves no half of one.
    """

    def __init__(self, folder: Path, who: str, *, delays: str = "") -> None:
        """`delays`: the process that waits for a slow disk with it, as in `Late`."""
        self._who = who
        self._delays = delays
        self._file = os.open(folder / f"{who}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, event: Event) -> None:
        """Append an event, by this process and now unless it says otherwise."""
        event = msgspec.structs.replace(event, at_us=event.at_us or now_us(), who=event.who or self._who)
        began_us = now_us()
        os.write(self._file, format_event(event) + b"\n")
        if (late_ms := (now_us() - began_us) // 1_000) >= LEAST_LATE_MS:
            late = Late(at_us=now_us(), who=self._who, late_ms=late_ms, process=self._delays)
            os.write(self._file, format_event(late) + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_file(path: Path) -> list[Event]:
    """Return the events of one process, as they stand; raise BadHistory, which names file and line."""
    events = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            events.append(parse_event(line))
        except BadHistory as error:
            raise BadHistory(f"{path}:{number}: {error}") from None
    return events


def merged(histories: Iterable[Iterable[Event]]) -> list[Event]:
    """Return the events of several processes by time; raise BadHistory if it begins with no run."""
    events = sorted((event for history in histories for event in history), key=attrgetter("at_us"))
    if not events or not isinstance(events[0], Run):
        raise BadHistory("a history begins with `run`")
    return events


def read_history(folder: Path) -> list[Event]:
    """Return the events of all processes that wrote into a folder; raise BadHistory."""
    return merged(map(read_file, sorted(folder.glob("*.jsonl"))))

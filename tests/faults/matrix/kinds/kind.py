"""What a fault is: how it begins, how long it lasts, whom it disturbs, and how it ends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, Literal, Protocol, TypeAlias

from sharedroutes.registry import RegistryConfig, RegistryError, RouteStore
from tests.faults.checker.history import OPERATOR, STORE, now_us
from tests.faults.checker.promises import PROMISED
from tests.faults.matrix.auditor import KEYS, Auditor
from tests.faults.matrix.fleet import Fleet
from tests.faults.matrix.settings import BOUNDS, LEASE_S, ON, REFRESH_S, SENT_TO
from tests.faults.matrix.sockets import made_by
from tests.faults.matrix.stand_in import UPDATE_TOPIC
from tests.faults.matrix.stores import Store
from tests.faults.victims import Program
from tests.nameserver.running import Peer
from tests.proxy import Whose

Area: TypeAlias = Literal["processes", "owners", "follower", "network", "store", "keys", "files"]
"""What a fault lays hands on, or relies on; two faults that are together have no area in common."""

_PATIENT: Final = RegistryConfig(call_deadline_s=15.0, connect_deadline_s=15.0, actor=OPERATOR)
SHORT_S: Final = (0.3, LEASE_S / 2)
LONG_S: Final = (LEASE_S + 1.0, LEASE_S + 4.0)
UNTIL_TOLD_S: Final = (LONG_S[0] + BOUNDS.told_ms / 1_000, LONG_S[1] + BOUNDS.told_ms / 1_000)
"""Longer than it takes until the end of a lease was told, even if the sweeper died with its owner."""

UNTIL_READ_S: Final = (REFRESH_S + 0.5, REFRESH_S + 1.5)
"""Longer than it takes until a client has looked at each of its topics, whatever it has heard."""

AVOIDED_S: Final = 1.5 * (BOUNDS.isolated_ms + BOUNDS.slow_start_ms) / 1_000
"""Longer than a client leaves a broker alone that has failed once."""

BELIEVED_S: Final = 2.5
"""Longer than until a changed broker.conf has been there at two looks, a second apart."""

_ANSWER_S: Final = 2.0
_TOLD_S: Final = 3.0

_BACK_S: Final = BOUNDS.back_ms / 1_000 + 0.5
_TOO_LATE_S: Final = 3.0
"""For so much longer than promised is waited: the machine may have let nobody run for some of that time."""

_SELDOM_S: Final = 0.02
"""Longer than there is between two looks at a condition while nothing keeps the harness from running."""

WHOLE_STORE: Final = (STORE,)


class Wait(Protocol):
    """Waits for a condition; signals end the waiting."""

    def __call__(self, condition: Callable[[], bool], what: str) -> None:
        """Wait; raises TimeoutError if it does not become true in time."""


@dataclass(frozen=True, slots=True)
class Site:
    """What there is to break."""

    store: Store
    fleet: Fleet
    auditor: Auditor
    rng: random.Random
    """Of this fault alone: the same seed breaks the same things."""

    wait: Wait
    """Waits until a condition is true, and tells who waits for what; what is given up is told."""

    def wait_at_most(self, seconds: float, condition: Callable[[], bool], what: str) -> None:
        """Wait for what another fault may keep from coming: then go on."""
        end_s = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= end_s or condition(), what)

    def let_pass(self, seconds: float, why: str) -> None:
        """Wait for as long as something takes that nothing tells of."""
        self.wait_at_most(seconds, lambda: False, why)

    def start(self, *programs: Program) -> None:
        """Start processes that another fault has not started before, and wait until they work."""
        for program in programs:
            if not program.running:
                self.fleet.make_readable(program.name)
                program.start()
        for program in programs:
            self.wait(partial(self.fleet.is_up, program), f"{program.name} works")

    def promised(
        self, what: str, within_s: float, condition: Callable[[], bool], *who: Program
    ) -> dict[str, Any]:
        """Wait for what is promised within a time, of `who`; return details by which the checker judges.

        A harness that is kept from running looks seldom, and waits longer: the checker reckons with that.
        """
        since_us, end_s, looks = now_us(), time.monotonic() + within_s + _TOO_LATE_S, count()
        least = (within_s + _TOO_LATE_S) / _SELDOM_S
        self.wait(lambda: condition() or (next(looks) >= least and time.monotonic() >= end_s), what)
        names = [program.name for program in who]
        return {PROMISED: [what, round(1_000 * within_s), since_us, now_us(), *names]}

    def listeners(self) -> int:
        """Return how many listen to the doorbell at the primary; 0 = that does not answer."""
        ((_, found),) = self.auditor.at_primary(("PUBSUB", "NUMSUB", KEYS.changes)) or (("", 0),)
        return int(found)

    def rest(self) -> None:
        """Wait until everybody is back from what was before, and fronts know which brokers answer."""
        self.let_pass(_BACK_S, "all are back from what was before")

    def rebuild(self) -> None:
        """Do what an operator does whose registry is damaged: rebuild it."""
        with suppress(RegistryError), self.registry() as registry:
            for _ in registry.admin.rebuild():
                pass

    def change_topic(self, queues: int, topic: str = "", *, name: str = "broker-c") -> bool:
        """Have a broker at the fronts change a topic, or make it; return whether it has asked both for it."""
        topic = topic or next(topic for topic in ON[name] if topic != SENT_TO)
        if not self.order(name, UPDATE_TOPIC, {"topic": topic, "readQueueNums": str(queues)}):
            return False
        asked = partial(self.fleet.asked, name, queues)
        self.wait_at_most(_TOLD_S, asked, "fronts are asked for a change")
        return asked()

    def order(self, broker: str, code: int, fields: Mapping[str, str]) -> bool:
        """Tell a broker something; return whether it has answered."""
        address = "127.0.0.1", self.fleet.hosts[broker].port
        with suppress(OSError, AssertionError), Peer(address, _ANSWER_S) as peer:
            peer.ask(code, fields)
            return True
        return False

    def registry(self) -> RouteStore:
        """Return the registry as an operator has it, who waits for long."""
        return RouteStore.from_url(self.store.url, _PATIENT)

    def lasts(self, bounds_s: tuple[float, float]) -> float:
        """Draw how long the fault lasts, in seconds."""
        return self.rng.uniform(*bounds_s)


@dataclass(frozen=True, slots=True)
class Effect:
    """A fault that has begun."""

    target: str
    lasts_s: float
    disturbs: tuple[str, ...] = ()
    """As in the history: processes that it keeps from running or from the store; STORE = all."""

    takes: tuple[str, ...] = ()
    """The brokers that nobody is to be sent to while it lasts."""

    removes: tuple[str, ...] = ()
    """The topics that nobody finds while it lasts."""

    loses: bool = False
    """As in the history: whether the store may forget what was written."""

    restarts: tuple[str, ...] = ()
    """As in the history: processes that it starts anew in the beginning and in the end only."""

    began_us: int = 0
    """When it began; 0 = at once."""

    takes_us: int = 0
    """When it takes what it takes; 0 = as it begins."""

    rests_s: float = 0.0
    """For so long nothing breaks when it is over and all views are true."""

    details: dict[str, Any] = field(default_factory=dict)


def connections_of(*programs: Program) -> Whose:
    """Return what says which connections these processes have made, also after they were started anew."""
    return made_by(lambda: [program.pid for program in programs if program.pid is not None])


Begin: TypeAlias = Callable[[Site], AbstractContextManager[Effect]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault; the block of `begin` is the fault."""

    name: str
    areas: frozenset[Area]
    begin: Begin
    on: Callable[[Store], bool]
    """Whether a store can have it."""

    @property
    def meaning(self) -> str:
        """What it does, in a sentence."""
        return (self.begin.__doc__ or "").strip()


KINDS: Final[dict[str, Kind]] = {}
"""All kinds by name, in the order of the modules that define them."""


def fault(
    *areas: Area, on: Callable[[Store], bool] = lambda _: True
) -> Callable[[Callable[[Site], Iterator[Effect]]], Begin]:
    """Register the function as a kind of fault, named as the function with dashes."""

    def register(function: Callable[[Site], Iterator[Effect]]) -> Begin:
        begin = contextmanager(function)
        name = function.__name__.replace("_", "-")
        KINDS[name] = Kind(name, frozenset(areas), begin, on)
        return begin

    return register

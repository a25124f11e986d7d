"""How brokers do for one client: whom to choose, whom to leave alone, and what clients tell each other of it.

Fleet hints: a client names the brokers that it cannot reach in the registry, and reads whom others name.
RocketMQ has nothing like it: there every client finds a dead broker by itself. A hint is weak: it makes other
clients prefer other brokers, it takes no broker away. It helps clients that have not met the fault yet: one
that had a success with the broker lately goes by that.

An id is a claim and no credential; what a liar can do, and what not, is in docs/client/faults.md.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias
from uuid import uuid4

from ..registry.change_stream.stream import REFUSED_PAUSE_S
from ..registry.checks import check_broker_name, check_int, check_share, several
from ..registry.errors import RegistryError, StoreRefused
from ..registry.model import MessageQueue
from ..registry.plans.client_hints import MAX_HINTS_OF_A_BROKER, MAX_HINTS_OF_A_CLIENT
from .errors import NoRoute
from .faults.broker import Result
from .faults.config import FaultConfig
from .faults.memory import FaultMemory
from .observers import Tell
from .selection import PublishView

_log: Final = logging.getLogger("sharedroutes.client")

NOBODY: Final[frozenset[str]] = frozenset()

Avoid: TypeAlias = str | Collection[str] | None
"""A broker, or several, not to choose if there is another."""

_RENEWAL: Final = (0.4, 0.5)
_SPREAD: Final = (1.0, 1.5)
"""When a hint is given again, in TTLs; how far apart publications are, in `min_interval_s`. Drawn anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintConfig:
    """When a client believes the hints of others; raises InvalidInput for values that do not fit."""

    quorum: int = 3
    """So many *other* clients must name a broker (2 to 7); fewer = sooner, and easier to lie. Processes of
    one host count each: where a host runs many of them, its broken network can be a quorum."""

    max_suspected_share: float = 0.3
    """At most this share of the brokers in use is suspected; one of two or three is, never all; 0 = none."""

    def __post_init__(self) -> None:
        check_int("quorum", self.quorum, 2, MAX_HINTS_OF_A_BROKER - 1)  # one of them may be this client's
        check_share("max_suspected_share", self.max_suspected_share)


class Pace(NamedTuple):
    """Constants of giving hints: clients use these values, tests of them other ones."""

    ttl_s: float = 10.0
    """For how long a hint holds unless it is given again, which happens twice in that time: one may fail."""

    failures_before_hint: int = 3
    """So many network failures in a row, without a success between them, make a hint: one may be bad luck."""

    min_interval_s: float = 3.0
    """Publications are at least so far apart, and up to half as much again: a fault that all clients meet
    costs the store one write of each in that time. At most half of `ttl_s`, or hints would end between."""

    own_success_s: float = 5.0
    """A success with a broker, after which no failure came, overrules all others for so long."""


PACE: Final = Pace()


def own_id() -> str:
    """Return an id that no other client has, and that tells people where this one runs."""
    return f"{socket.gethostname()}@{os.getpid()}@{uuid4().hex}".replace(" ", "-")


class HintBook:
    """What one client has met itself, what it has published, and which brokers it suspects; thread-safe.

    Every `now` is in seconds of the monotonic clock. Each client has a `client_id` of its own.
    """

    def __init__(
        self,
        config: HintConfig,
        client_id: str,
        rng: random.Random | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._config = config
        self._pace = PACE if pace is None else pace
        self.client_id = client_id
        self._rng = rng or random.Random()
        self._lock = threading.Lock()
        self._failures: dict[str, tuple[int, float]] = {}  # how many in a row, when the last one
        self._successes: dict[str, float] = {}
        self._heard: Mapping[str, frozenset[str]] = {}
        self._said = NOBODY
        self._withdraws = False
        self._not_before = self._renew_at = float("-inf")
        self._suspected = NOBODY
        self._read_at = 0.0
        self._refused_until = 0.0

    @property
    def ttl_s(self) -> float:
        """For how long a published hint holds."""
        return self._pace.ttl_s

    def ended(self, broker_name: str, now: float, *, answered: bool) -> None:
        """Note how an attempt or a probe ended: with an answer, whatever it said, or without."""
        with self._lock:
            if answered:
                self._successes[broker_name] = now
                self._forgive(broker_name)
            else:
                count, _ = self._failures.get(broker_name, (0, now))
                self._failures[broker_name] = (count + 1, now)
                self._successes.pop(broker_name, None)

    def forget(self, broker_name: str) -> None:
        """Forget a broker that was restarted, or that is gone."""
        with self._lock:
            self._successes.pop(broker_name, None)
            self._forgive(broker_name)

    def due(self, now: float) -> tuple[str, ...] | None:
        """Return all brokers to name in the registry now; empty = withdraw the last hint, None = say nothing.

        It counts as said: the next publication makes up for one that is lost.
        """
        with self._lock:
            at = self._due_at(now)
            if at is None or now < max(at, self._refused_until):
                return None
            self._said = self._nameable(now)
            self._withdraws = False
            self._not_before = now + self._pace.min_interval_s * self._rng.uniform(*_SPREAD)
            self._renew_at = now + self._pace.ttl_s * self._rng.uniform(*_RENEWAL)
            return tuple(sorted(self._said))

    def not_taken(self, error: RegistryError, now: float) -> None:
        """Note that the store did not take a hint: a later one makes up for it."""
        if isinstance(error, StoreRefused):
            if self._refused_until == 0:
                _log.warning("the store takes no hints from this user: %s", error)
            self._refused_until = now + REFUSED_PAUSE_S

    def to_read(self, now: float, every_s: float) -> bool:
        """Whether to read now what others say; it counts as read."""
        if now < self._read_at:
            return False
        self._read_at = now + every_s * self._rng.uniform(1.0, 1.5)
        return True

    def offer(
        self, hints: Mapping[str, frozenset[str]], in_use: Collection[str], now: float
    ) -> frozenset[str]:
        """Take the clients that cannot reach each broker; return the brokers in use that are suspected.

        The most named come first, then those already suspected.
        When hints cannot be read, offer none: a suspicion ends unless it is confirmed.
        """
        names = frozenset(in_use)
        with self._lock:
            self._heard = hints
            for name in (self._failures.keys() | self._successes.keys()) - names:
                self._successes.pop(name, None)
                self._forgive(name)
            voices = {name: self._others(name) for name in names if not self._reached(name, now)}
            named = [name for name, count in voices.items() if count >= self._config.quorum]
            named.sort(key=lambda name: (-voices[name], name not in self._suspected, name))
            self._suspected = frozenset(named[: self._most(len(names))])
            return self._suspected

    def _forgive(self, broker_name: str) -> None:
        self._failures.pop(broker_name, None)
        self._withdraws = self._withdraws or broker_name in self._said

    def _due_at(self, now: float) -> float | None:
        names = self._nameable(now)
        if self._withdraws or not names <= self._said:
            return self._not_before
        return max(self._not_before, self._renew_at) if names else None

    def _nameable(self, now: float) -> frozenset[str]:
        """Return the brokers to name: those that still fail, unless enough others name them already."""
        failing = [
            (-count, name)
            for name, (count, last) in self._failures.items()
            if count >= self._pace.failures_before_hint
            and now - last < self._pace.ttl_s
            and (name in self._said or self._others(name) <= self._config.quorum)
        ]
        return frozenset(name for _, name in sorted(failing)[:MAX_HINTS_OF_A_CLIENT])

    def _others(self, broker_name: str) -> int:
        return len(self._heard.get(broker_name, NOBODY) - {self.client_id})

    def _reached(self, broker_name: str, now: float) -> bool:
        last = self._successes.get(broker_name)
        return last is not None and now - last < self._pace.own_success_s

    def _most(self, in_use: int) -> int:
        """Return how many of so many brokers may be suspected; a cap that rounds to none would be no help."""
        share = self._config.max_suspected_share
        return min(max(int(share * in_use), 1), in_use - 1) if share and in_use else 0


class Brokers:
    """Faults and hints of one client, and the choice of queues by them; thread-safe.

    `known`: the names of brokers in use.
    """

    def __init__(
        self,
        faults: FaultConfig,
        hints: HintConfig | None,
        known: Container[str],
        rng: random.Random,
        tell: Tell,
    ) -> None:
        self._configs = faults, hints
        self._known = known
        self._rng = rng
        self._tell = tell
        self.begin_copy()

    def begin_copy(self) -> None:
        """Know nothing, as in a copy of the process, where locks may be held."""
        faults, hints = self._configs
        self.faults = FaultMemory(faults, self._rng, self._tell)
        self.hints = None if hints is None else HintBook(hints, own_id(), self._rng)

    def pick(
        self, topic: str, view: PublishView, avoid: frozenset[str], now: float, key: str | bytes | None = None
    ) -> MessageQueue:
        """Return the queue whose turn it is, or the one of a message group; raises NoRoute without any."""
        if not view.size:
            raise NoRoute(topic, "no live master accepts messages for")
        verdict = self.faults.verdict(now)
        if key is None:
            return view.pick(verdict, avoid, self._rng)
        return view.pick_for(key, verdict, avoid)

    def avoided(self, avoid: str | Collection[str]) -> frozenset[str]:
        """Return the brokers to avoid as a set; raise InvalidInput for what cannot be a broker."""
        names = (avoid,) if isinstance(avoid, str) else several(avoid, "avoid")
        for name in names:
            if name not in self._known:
                check_broker_name(name, "avoid")
        return frozenset(names)

    def is_left_alone(self, broker_name: str, now: float) -> bool:
        """Whether a broker is not chosen if there is another."""
        return not self.faults.quiet and broker_name in self.faults.verdict(now).blocked

    def record(self, broker_name: str, result: Result, now: float) -> None:
        """Take in how an attempt ended; see FaultMemory.record."""
        counts = self.faults.record(broker_name, result, now)
        if self.hints is not None and counts:
            # Who refuses (attempts tell it by `reachable`, as RocketMQ does) has answered.
            answered = not result.failed or result.reachable is not None
            self.hints.ended(broker_name, now, answered=answered)

    def probed(self, broker_name: str, now: float, *, reachable: bool) -> None:
        """Take in how a probe ended."""
        self.faults.probed(broker_name, reachable=reachable, now=now)
        if self.hints is not None:
            self.hints.ended(broker_name, now, answered=reachable)

    def restarted(self, broker_name: str, now: float) -> None:
        """Begin with a clean slate for a broker that was started anew."""
        self.faults.forget(broker_name, now)
        if self.hints is not None:
            self.hints.forget(broker_name)

    def heard(self, hints: Mapping[str, frozenset[str]], in_use: Collection[str], now: float) -> None:
        """Take in what others say, if hints are wanted; nothing when it cannot be read."""
        if self.hints is not None:
            self.faults.suspect(self.hints.offer(hints, in_use, now))

"""At which server a client reads that may read at replicas: when it leaves one, and for which; pure.

A replica may be behind, may no longer hear its primary without knowing it, and may become one. The primary is
the last choice, and left again after a while. Every `now` is in seconds of the monotonic clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias

from ..config import RegistryConfig
from ..errors import InvalidInput
from ..keys import Keys
from ..plans import ORIGIN
from ..plans.changes import order
from .discovery import Whereabouts, text_of
from .url import Address, Endpoint, Mode, parse_url, slot_of

BEHIND_S: Final = 1.0
"""How long a client waits for a replica that does not have the client's place in the stream."""

_REST_S: Final = 10.0
"""How long a replica that did not come up to it is not asked again."""

_BACK_S: Final = (10.0, 30.0)
"""After how long at the primary replicas are tried again: all who fell back together go back one by one."""

_LEASES: Final = 3
"""A replica that stood still for so many leases of the sweeper, which writes twice in each, is left."""

_SHORTEST_S: Final = 0.005
_LONGEST_S: Final = 0.05
_WINDOW_S: Final = 60.0

Place: TypeAlias = Callable[[], str | None]
"""Returns the id of the last change that the client has taken in; None = it has no place in the stream."""

ServerRole: TypeAlias = Literal["primary", "replica"]


@dataclass(frozen=True, slots=True)
class ReadAt:
    """Where a client reads at the moment."""

    server: str
    """As host:port."""

    role: ServerRole
    lag_s: float | None
    """What is read is at most so much older than what the primary has; None = no pulse was heard there."""


class Lag:
    """How late pulses are, which carry the primary's clock: later than the quickest of a minute or two.

    Clocks are not compared: what counts is how much more time has gone by here than there.
    """

    def __init__(self) -> None:
        self._heard_at: float | None = None
        self._late_s = 0.0
        self._least_s = self._least_before_s = float("inf")
        self._window_ends = 0.0

    def heard(self, store_ms: int, now: float) -> None:
        """Take in a pulse that the primary wrote at this time of its own clock."""
        apart_s = now - store_ms / 1000
        if now >= self._window_ends:
            self._least_before_s, self._least_s = self._least_s, apart_s
            self._window_ends = now + _WINDOW_S
        self._least_s = min(self._least_s, apart_s)
        self._heard_at, self._late_s = now, apart_s - min(self._least_s, self._least_before_s)

    def forget(self) -> None:
        """Begin anew: another server was chosen."""
        self._heard_at = None

    def bound_s(self, now: float) -> float | None:
        """Return how old the last word of the primary is; None = there is none."""
        return None if self._heard_at is None else self._late_s + now - self._heard_at


class Reading(Whereabouts):
    """The server at which one client reads and listens: a replica that has all that the client knows."""

    def __init__(
        self,
        endpoint: Endpoint,
        slot: int,
        place: Place,
        *,
        spread_s: float,
        sweeper_lease_s: float,
        rng: random.Random | None = None,
    ) -> None:
        """`spread_s`: clients that lose their last replica at once all go to the primary within this time."""
        super().__init__(endpoint, slot, replicas=True)
        self.place = place
        self._spread_s = spread_s
        self._still_s = _LEASES * sweeper_lease_s
        self._rng = rng or random.Random()
        self._lag = Lag()
        self._primary: Address | None = None
        self._is_master = dict[Address, tuple[bool, float]]()
        """By server: whether it said so when it was last asked, and when."""

        self._offsets = dict[Address, tuple[str, float]]()
        """By replica: how far it has come, and since when."""

        self._rests_until = dict[Address, float]()
        self._left: Address | None = None
        self._behind_since: float | None = None
        self._primary_from: float | None = None
        """When the primary may be asked; None = none was wanted since a replica was believed."""

        self._back_at = 0.0
        self._at_primary = False
        self._swept = False
        """Whether somebody sweeps, as far as one can know: then the primary writes all the time."""

    @classmethod
    def of(cls, url: str, config: RegistryConfig, keys: Keys, place: Place, spread_s: float) -> Self:
        """Return where a client reads by a store's URL; raise InvalidInput if that names no replica."""
        endpoint, lease_s = parse_url(url), config.sweeper_lease_s
        if endpoint.mode is Mode.STANDALONE and not endpoint.replicas:
            raise InvalidInput("read_from: the URL names no replica; add ?replica=host:port")
        return cls(endpoint, slot_of(keys.prefix), place, spread_s=spread_s, sweeper_lease_s=lease_s)

    def __str__(self) -> str:
        return f"a server to read at, of {super().__str__()}"

    def read_at(self, now: float) -> ReadAt | None:
        """Return the server, its role and its lag; None = there is none at the moment."""
        if self.current is None:
            return None
        role: ServerRole = "primary" if self._at_primary else "replica"
        return ReadAt(f"{self.current.host}:{self.current.port}", role, self._lag.bound_s(now))

    def heard_pulse(self, store_ms: int, now: float) -> None:
        """Take in a pulse: somebody sweeps, and the server heard the primary at this time of its clock."""
        self._swept = True
        self._lag.heard(store_ms, now)

    # --- where the servers are ------------------------------------------------------------------------------

    @property
    def questions(self) -> tuple[tuple[str, ...], ...]:
        """The commands that ask for the addresses: Sentinels name the primary apart from its replicas."""
        if self.endpoint.mode is Mode.SENTINEL:
            return self.question, self.primary_question
        return super().questions

    @property
    def may_switch(self) -> bool:
        """Whether the server is a primary of Sentinels: then only these know whether it still is one."""
        return self.endpoint.mode is Mode.SENTINEL and self._at_primary

    def fixed(self) -> list[Address]:
        """Return the addresses that the URL names."""
        (self._primary,) = self.endpoint.nodes
        return [*super().fixed(), self._primary]

    def answer(self, reply: Any, asked: Address) -> list[Address]:
        """Return the addresses that a reply names, the primary last; empty if none."""
        if self.endpoint.mode is Mode.CLUSTER:
            replicas = super().answer(reply, asked)
            self._primary = self.owner
            return [*replicas, *([self.owner] if self.owner else [])]
        if reply and isinstance(reply[0], bytes | str):  # what names the primary: host and port
            self._primary = self.named_by(reply)
            return [self._primary] if self._primary else []
        return super().answer(reply or [], asked)

    def in_order(self, found: list[Address], now: float, /) -> list[Address]:
        """Return addresses in the order in which to try them: where we are, other replicas, the primary."""
        replicas = [
            each for each in found if each != self._primary and now >= self._rests_until.get(each, 0.0)
        ]
        replicas.sort(key=lambda each: (each != self.current, each == self._left))
        rest = [each for each in found if each == self._primary]
        return [*rest, *replicas] if self._at_primary and self.current in rest else [*replicas, *rest]

    # --- whether to go on at one ----------------------------------------------------------------------------

    def odd_role(self, role: Any, address: Address, now: float, /) -> str:
        """Return what is wrong with a server that answers so to ROLE; empty = nothing."""
        is_master = text_of(role[0]) == "master"
        self._is_master[address] = is_master, now
        odd = self._odd_primary(address, now) if is_master else self._odd_replica(role, address, now)
        if odd and address == self.current:
            self.doubt()
        return odd

    def found(self, address: Address) -> bool:
        """Note the server that was connected to; return whether other connections have to come there, too."""
        is_master, now = self._is_master[address]
        moves = self.current not in (None, address)
        if address != self.current:
            self._lag.forget()
            self._back_at = now + self._rng.uniform(*_BACK_S)
        self._at_primary = is_master
        super().found(address)
        if moves:
            self.token = object()
        return moves

    def doubt(self, owner: Address | None = None) -> None:
        """Make every connection look for a server before its next use; this one is the last to try."""
        if self.current is not None:
            self._left = self.current
        self.current, self._at_primary = None, False
        super().doubt(owner)

    def lacks(self, place: str | None, last: str | None, now: float) -> float | None:
        """Return how many seconds to wait before a server is asked again; None = believe this answer.

        `last`: the newest change that it had before it answered; None = nobody knows. A server without the
        client's place may be behind, or its primary has lost it: only the primary knows.
        """
        wanted = order(place or ORIGIN) or (0, 0)
        has = wanted if last is None else order(last) or (0, 0)
        if self._at_primary or has >= wanted:
            self._behind_since = None
            if not self._at_primary:
                self._primary_from = None
            return None
        if self._behind_since is None:
            self._behind_since = now
        waited_s = now - self._behind_since
        if waited_s < BEHIND_S:
            return min(max(waited_s, _SHORTEST_S), _LONGEST_S)
        if self.current is not None:
            self._rests_until[self.current] = now + _REST_S
        self.doubt()
        return 0.0

    def _odd_primary(self, address: Address, now: float) -> str:
        if address != self._primary:
            return "is a primary, and not the one that is named"
        if address == self.current:
            if now < self._back_at:
                return ""
            if self._lag.bound_s(now) is None:  # not even the primary pulses: silence says nothing
                self._swept = False
            return "is the primary, and a replica may be back"
        if self._primary_from is None:
            at_once = self.place() is None
            self._primary_from = now + (0.0 if at_once else self._rng.uniform(0, self._spread_s))
        return "" if now >= self._primary_from else "is the primary, which is not asked yet"

    def _odd_replica(self, role: Any, address: Address, now: float) -> str:
        odd = super().odd_role(role, address, now)
        if odd:
            return odd
        offset = text_of(role[4])
        known, since = self._offsets.get(address, ("", now))
        if offset != known:
            self._offsets[address] = offset, now
        elif self._swept and now >= since + self._still_s:
            return "hears nothing of its primary"
        return ""

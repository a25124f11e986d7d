"""When a client's routes lack a broker that has failed, for each system, had the broker stayed away.

What all clients share in a fault (when the broker last registered, when a name server scans, when the lease
is swept) is drawn once for a fault; what is a client's own (when it polls, whether its doorbell is lost) for
each pair of a client and a fault. Faults come at random moments, so every phase is evenly distributed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .clients import Met
from .config import KINDS, FleetConfig
from .draws import Floats, Ints, Purpose, exponential, uniform
from .faults import Faults, Outages
from .returning import agents_back_s, client_back_s, most_back_s
from .systems import NameServers, SharedRoutes, System

__all__ = ["World", "avoid_s"]

_HANG: Final = KINDS.index("hang")
_LOST: Final = KINDS.index("lost")
_RESTART: Final = KINDS.index("restart")
_STEPS: Final = 1 << 20
"""More than anybody's tries in an outage."""


Flags: TypeAlias = NDArray[np.bool_]
Again: TypeAlias = Callable[[Floats, Ints, Ints], Floats]
"""What an outage makes of a delay: the delays, the pairs, and their outages; the delays afterwards."""


@dataclass(frozen=True, slots=True)
class World:
    """What happens in a run, whatever the system."""

    config: FleetConfig
    faults: Faults
    outages: Outages


def avoid_s(world: World, system: System, met: Met, rng: np.random.Generator) -> Floats:
    """Return how long after its fault each client's routes lack the broker; inf = never.

    The numbers are drawn alike for every system of a kind: they differ by their settings alone.
    """
    if isinstance(system, NameServers):
        return _ByNameServers(world, system, met, rng).avoid_s()
    return _BySharedRoutes(world, system, met, rng).avoid_s()


class _Learning:
    """What both kinds of system have in common: the pairs, their faults, and outages in between."""

    def __init__(self, world: World, met: Met, drain_s: float) -> None:
        faults = world.faults
        self.config = world.config
        self.outages = world.outages
        self.met = met
        self.fault = met.fault
        self.kind = faults.kind[met.fault]
        self.drained_s = np.where(self.kind == _RESTART, drain_s, 0.0)
        self.told_s = faults.began_s[met.fault] - self.drained_s
        """When there is something to be learnt, in seconds since the start of the run."""

    def uniform(self, purpose: Purpose, other: Ints | int = 0) -> Floats:
        """Return a number within 0..1 for each pair that is that of its fault."""
        return uniform(self.config.seed, purpose, self.fault, other)

    def after_fault(self, delay_s: Floats) -> Floats:
        """Return how long after the fault it is, when it takes so long from `told_s` on."""
        return np.maximum(0.0, delay_s - self.drained_s)

    def through_outages(self, delay_s: Floats, back_within_s: float, again: Again) -> Floats:
        """Return the delays with the outages that they run into, one after the other."""
        outages = self.outages
        place = np.searchsorted(outages.ended_s, self.told_s - back_within_s, side="right")
        pairs = np.flatnonzero((place < len(outages)) & np.isfinite(delay_s))
        while len(pairs):
            pairs = pairs[outages.began_s[place[pairs]] <= self.told_s[pairs] + delay_s[pairs]]
            delay_s[pairs] = again(delay_s[pairs], pairs, place[pairs])
            place[pairs] += 1
            pairs = pairs[place[pairs] < len(outages)]
        return delay_s


class _ByNameServers(_Learning):
    """A broker's connection closes, or nothing comes from it until a scan; then its clients poll."""

    def __init__(self, world: World, system: NameServers, met: Met, rng: np.random.Generator) -> None:
        super().__init__(world, met, system.drain_s)
        self._system = system
        self._asked = rng.integers(0, 2**31, len(met)) % system.name_servers
        self._phase_s = rng.random(len(met)) * system.poll_s

    def avoid_s(self) -> Floats:
        """Return the delays."""
        if self.config.traffic.brokers_per_topic == 1:
            # A topic without brokers is an error to the client, which keeps the route that it has.
            return np.full(len(self.met), np.inf)
        silent = (self.kind == _HANG) | (self.kind == _LOST)
        delay_s = self._polled(np.where(silent, self._silent_s(), self._system.closed_s))
        if self._system.in_outages:
            delay_s = self.through_outages(delay_s, 0.0, self._again)
        return self.after_fault(delay_s)

    def _silent_s(self) -> Floats:
        """Return when the client's name server gives a silent broker up: in a scan, or by its idle time."""
        system = self._system
        registered_s = self.uniform(Purpose.HEARTBEAT) * system.register_s
        traffic_s = np.minimum(registered_s, self.uniform(Purpose.TRAFFIC) * system.traffic_s)
        scan_s = self.uniform(Purpose.SCAN, self._asked) * system.scan_s
        scanned_s = _next(scan_s, system.scan_s, system.timeout_s - registered_s)
        return np.minimum(scanned_s, system.idle_s - traffic_s)

    def _polled(self, known_s: Floats) -> Floats:
        return _next(self._phase_s, self._system.poll_s, known_s)

    def _again(self, delay_s: Floats, pairs: Ints, place: Ints) -> Floats:
        """Return when the client asks name servers that came back empty and have heard of another broker.

        Until one has registered, the topic has no route, and the client keeps the one it has.
        """
        system = self._system
        others = self.config.traffic.brokers_per_topic - 1
        drawn = uniform(self.config.seed, Purpose.REGISTER, self.fault[pairs], place)
        registered_s = system.register_s * (1 - (1 - drawn) ** (1 / others))
        back_s = self.outages.ended_s[place] - self.told_s[pairs]
        asked_s = _next(self._phase_s[pairs], system.poll_s, back_s + registered_s)
        return np.where(delay_s < back_s, asked_s, np.minimum(delay_s, asked_s))


class _BySharedRoutes(_Learning):
    """An agent or the end of a lease tells the store, and the doorbell or a look tells the client."""

    def __init__(self, world: World, system: SharedRoutes, met: Met, rng: np.random.Generator) -> None:
        super().__init__(world, met, system.drain_s)
        self._system = system
        self._rung_s = rng.standard_exponential(len(met)) * system.doorbell_s
        self._looked_s = rng.random(len(met)) * system.tail_s
        self._is_deaf = rng.random(len(met)) < system.doorbell_lost_share
        self._rng = rng

    def avoid_s(self) -> Floats:
        """Return the delays."""
        system = self._system
        lost = self.kind == _LOST
        said_s = np.select([lost, self.kind == _HANG], [self._lease_s(), self._hang_s()], system.closed_s)
        heard_s = np.where(lost, self._announced_s(said_s), said_s) + self._rung_s
        heard_s[self._is_deaf] = np.inf
        delay_s = np.minimum(heard_s, said_s + self._looked_s)
        delay_s = self.through_outages(delay_s, system.reconnect_s, self._again)
        return self.after_fault(delay_s + np.where(lost & self._uses_no_other(), system.guard_hold_s, 0.0))

    def _lease_s(self) -> Floats:
        """Return when the lease ends: it was renewed within the last heartbeat interval."""
        return self._system.lease_ttl_s - self.uniform(Purpose.HEARTBEAT) * self._system.heartbeat_s

    def _hang_s(self) -> Floats:
        """Return when so many requests of the agent in a row are unanswered; inf = it never asks."""
        system = self._system
        if not system.hang_check_s:
            return np.full(len(self.met), np.inf)
        asked_s = self.uniform(Purpose.HANG_CHECK) * system.hang_check_s
        return asked_s + system.hang_failures * system.hang_deadline_s

    def _announced_s(self, ended_s: Floats) -> Floats:
        """Return when the end of the lease is announced; inf = there is no other agent to do it."""
        swept_s = np.maximum(ended_s, self._taken_over_s())
        return swept_s + exponential(self.config.seed, Purpose.SWEEP, self.fault) * self._system.sweep_s

    def _taken_over_s(self) -> Floats:
        """Return when another agent sweeps if the lost host's was the sweeper; 0 = it was not.

        The sweeper renews its lease after 0.6 of it; the others look every 0.2 to 0.4 of a broker's lease.
        """
        system, brokers = self._system, self.config.brokers
        drawn = self.uniform(Purpose.SWEEPER) * brokers
        if brokers == 1:
            return np.full(len(self.met), np.inf)
        left_s = system.sweeper_lease_s * (1 - 0.6 * self.uniform(Purpose.SWEEPER_LEASE))
        apart_s = system.lease_ttl_s * (0.2 + 0.2 * self.uniform(Purpose.LOOK, 1))
        looked_s = apart_s * (1 - (1 - self.uniform(Purpose.LOOK)) ** (1 / (brokers - 1)))
        return np.where(drawn < 1, left_s + looked_s, 0.0)

    def _uses_no_other(self) -> Flags:
        """Whether the client loses all its brokers with this one, which it does not believe at once."""
        traffic = self.config.traffic
        return np.asarray((self.met.slots == traffic.topics_per_client) & (traffic.brokers_per_topic == 1))

    def _again(self, delay_s: Floats, pairs: Ints, place: Ints) -> Floats:
        """Return when the client is back and hears of what the store knows by then.

        The end of a lease needs no agent's word: the client reads the leases when it is back. If most of them
        have ended, it does not believe that until its guard lets go, and looks again.
        """
        system = self._system
        began_s, ended_s = self.outages.began_s[place], self.outages.ended_s[place]
        over_s = ended_s - self.told_s[pairs]
        client_s = over_s + client_back_s(self._rng, ended_s - began_s, system.reconnect_s)
        word_s = np.maximum(over_s, np.minimum(self._word_s(pairs, place), self._lapsed_s(pairs, place)))
        all_ended = ended_s - began_s >= system.lease_ttl_s
        many_s = over_s + most_back_s(self._rng, self._others(), system.rejoin_s, len(pairs))
        # Without a hold there is nothing to look at again.
        looked_s = self._rng.random(len(pairs)) * (system.tail_s if system.guard_hold_s else 0.0)
        held_s = np.where(all_ended & (client_s < many_s), system.guard_hold_s + looked_s, 0.0)
        learnt_s = np.maximum(client_s + held_s, word_s)
        return np.where(delay_s < over_s, learnt_s, np.maximum(delay_s, client_s))

    def _word_s(self, pairs: Ints, place: Ints) -> Floats:
        """Return when the broker's own agent has told the store; inf = it is lost with its host."""
        outages, told_s = self.outages, self.told_s[pairs]

        def draw(step: int) -> Floats:
            return uniform(self.config.seed, Purpose.REJOIN, self.fault[pairs], place * _STEPS + step)

        lasted_s = outages.ended_s[place] - outages.began_s[place]
        fails_s = told_s - outages.began_s[place]
        back_s = agents_back_s(draw, lasted_s, fails_s, self._system.heartbeat_s, self._system.rejoin_s)
        return np.where(self.kind[pairs] == _LOST, np.inf, outages.ended_s[place] - told_s + back_s)

    def _lapsed_s(self, pairs: Ints, place: Ints) -> Floats:
        """Return when the broker's lease ends, which was last renewed before the outage."""
        began_s = np.minimum(0.0, self.outages.began_s[place] - self.told_s[pairs])
        return began_s + self._lease_s()[pairs]

    def _others(self) -> int:
        """Return how many brokers a client uses besides the one that is gone, none of them twice."""
        traffic = self.config.traffic
        used = min(traffic.topics_per_client * traffic.brokers_per_topic, self.config.brokers)
        return used - 1


def _next(phase_s: Floats, every_s: float, from_s: Floats) -> Floats:
    """Return the first of the times phase, phase + every, phase + 2 every ... that is not before `from_s`."""
    return phase_s + np.maximum(0.0, np.ceil((from_s - phase_s) / every_s)) * every_s

"""Faults of the network between one process and its store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

from tests.faults.matrix.fleet import QUEUES
from tests.faults.matrix.kinds.kind import (
    LONG_S,
    SHORT_S,
    UNTIL_TOLD_S,
    Effect,
    Site,
    connections_of,
    fault,
)
from tests.faults.matrix.settings import BOUNDS, HOLD_S, ON
from tests.faults.victims import Program
from tests.proxy import FaultyProxy, Whose

_SLOW_S: Final = 0.3
"""Less than the deadline of a call, so that all goes on."""

_TOO_SLOW_S: Final = 3.0
_DRIP_S: Final = 0.002
_UNHEARD: Final = 9
"""Changes: so many that a follower whose doorbell is silent has noticed, and hears a new one."""

_UNTIL_BELIEVED_S: Final = (HOLD_S + UNTIL_TOLD_S[0], HOLD_S + UNTIL_TOLD_S[1])
_TOLD_S: Final = 3.0

_UNPROVEN_S: Final = 3.0
"""So long after the last pulse, who hears none reads by itself every second."""

_CHANGES: Final = 6
"""Of which the last one undoes the others."""

_Network = Callable[[FaultyProxy], AbstractContextManager[None]]


def _victim(site: Site) -> tuple[Program, Whose]:
    fleet = site.fleet
    of = {**fleet.agents, **fleet.fronts, **fleet.clients, fleet.follower.name: fleet.follower}
    victim = of[site.rng.choice(sorted(of))]
    return victim, connections_of(victim)


def _suffers(site: Site, network: _Network, bounds_s: tuple[float, float] = LONG_S) -> Iterator[Effect]:
    victim, whose = _victim(site)
    lasts_s = site.lasts(bounds_s)
    takes = ("broker-a",) if victim.name == "agent-a" and bounds_s == LONG_S else ()
    with site.store.network(network, whose):
        yield Effect(victim.name, lasts_s, (victim.name,), takes)


def _owners(site: Site) -> list[Program]:
    return [*site.fleet.agents.values(), *site.fleet.fronts.values()]


@fault("network")
def cut(site: Site) -> Iterator[Effect]:
    """All connections of a process to the store are closed, and new ones too."""
    return _suffers(site, FaultyProxy.refusing)


@fault("network", "owners")
def cut_owners(site: Site) -> Iterator[Effect]:
    """No agent and no front reaches the store, for longer than the leases: all brokers seem to die."""
    owners = _owners(site)
    names = tuple(owner.name for owner in owners)
    with site.store.network(FaultyProxy.refusing, connections_of(*owners)):
        yield Effect("+".join(names), site.lasts(UNTIL_TOLD_S), names)


@fault("network", "owners")
def cut_owners_for_long(site: Site) -> Iterator[Effect]:
    """The same, until clients believe that all brokers are gone, and use none of them."""
    fleet, owners = site.fleet, _owners(site)
    names = tuple(owner.name for owner in owners)
    with site.store.network(FaultyProxy.refusing, connections_of(*owners)):
        yield Effect("+".join(names), site.lasts(_UNTIL_BELIEVED_S), names, tuple(ON))
    site.wait_at_most(
        BOUNDS.converge_ms / 1_000,
        lambda: all(fleet.says(client, broker) for client in fleet.clients for broker in ON),
        "clients know of brokers again",
    )


@fault("network")
def half_open(site: Site) -> Iterator[Effect]:
    """Connections of a process stay open, and nothing is carried, not even when the fault is over."""
    return _suffers(site, FaultyProxy.abandoning)


def _tell(site: Site, topics: Sequence[str]) -> None:
    """Have broker-a write what topics it has besides, and wait until the follower was told."""
    fleet, before = site.fleet, site.auditor.position

    def is_told() -> bool:
        return fleet.told() == site.auditor.position != before

    fleet.write_topics(*topics)
    site.wait_at_most(_TOLD_S, is_told, "a change is told")


@fault("network")
def deaf(site: Site) -> Iterator[Effect]:
    """The follower's doorbell stays open and is silent while a broker creates and deletes a topic, often."""
    fleet = site.fleet
    site.store.deafen(connections_of(fleet.follower))
    try:
        for number in range(_UNHEARD):
            _tell(site, ["unheard"] if number % 2 == 0 else [])
        yield Effect(fleet.follower.name, site.lasts(SHORT_S))
    finally:
        fleet.write_topics()


@fault("network")
def deaf_fronts(site: Site) -> Iterator[Effect]:
    """The doorbells of fronts stay open and are silent while a broker that is at them changes a topic."""
    fronts = [*site.fleet.fronts.values()]
    site.store.deafen(connections_of(*fronts))
    site.let_pass(_UNPROVEN_S, "fronts hear no pulses")
    changes = [QUEUES * (1 + (number + 1) % 2) for number in range(_CHANGES)]
    for queues in changes[:-1]:
        site.change_topic(queues)
    try:
        yield Effect("+".join(front.name for front in fronts), 0.5)
    finally:
        site.change_topic(changes[-1])


@fault("network")
def hanging(site: Site) -> Iterator[Effect]:
    """Nothing is carried for a process; what piled up arrives in the end."""
    return _suffers(site, FaultyProxy.hanging)


@fault("network")
def requests_lost(site: Site) -> Iterator[Effect]:
    """What a process asks does not arrive."""
    return _suffers(site, lambda proxy: proxy.swallowing("requests"))


@fault("network")
def replies_lost(site: Site) -> Iterator[Effect]:
    """What a process asks arrives, and it hears no answer."""
    return _suffers(site, lambda proxy: proxy.swallowing("replies"))


@fault("network")
def slow(site: Site) -> Iterator[Effect]:
    """Every answer comes late, and in time."""
    return _suffers(site, lambda proxy: proxy.slow(_SLOW_S), SHORT_S)


@fault("network")
def too_slow(site: Site) -> Iterator[Effect]:
    """Every answer comes after the deadline of the call."""
    return _suffers(site, lambda proxy: proxy.slow(_TOO_SLOW_S))


@fault("network")
def drip(site: Site) -> Iterator[Effect]:
    """Bytes come one at a time."""
    return _suffers(site, lambda proxy: proxy.dripping(_DRIP_S), SHORT_S)


@fault("network")
def cut_in_replies(site: Site) -> Iterator[Effect]:
    """Connections are closed in the middle of an answer."""
    return _suffers(site, lambda proxy: proxy.cutting(20), SHORT_S)


@fault("network")
def reset(site: Site) -> Iterator[Effect]:
    """All connections of a process are reset, again and again."""
    victim, whose = _victim(site)
    for _ in range(3):
        site.store.reset(whose)
    yield Effect(victim.name, 0.5, (victim.name,))
    site.store.reset(whose)

"""Faults of one way between two processes, while all others reach both: client, agent or front and broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Final, TypeAlias

from tests.faults.checker.history import now_us
from tests.faults.matrix.fleet import AT_FRONTS, HAS_AGENT
from tests.faults.matrix.kinds.kind import (
    AVOIDED_S,
    LONG_S,
    UNTIL_TOLD_S,
    Effect,
    Site,
    connections_of,
    fault,
)
from tests.faults.matrix.settings import BOUNDS
from tests.proxy import FaultyProxy

_DRIP_S: Final = 0.05
"""So slow that no message arrives within the time of an attempt."""

_IN_AN_ANSWER_BYTES: Final = 20
_NOTICED_S: Final = (BOUNDS.slow_start_ms / 1_000 + 3.5, BOUNDS.slow_start_ms / 1_000 + 4.5)
"""So long that it shows whether others still send to the broker."""

_FAILS_S: Final = (1.5, 1.9)
"""So long that a message goes there."""

_Network: TypeAlias = Callable[[FaultyProxy], AbstractContextManager[None]]


def _to_broker(site: Site, network: _Network, bounds_s: tuple[float, float]) -> Iterator[Effect]:
    client = site.fleet.clients[site.rng.choice(sorted(site.fleet.clients))]
    broker = site.rng.choice(sorted(site.fleet.hosts))
    with site.fleet.network(network, connections_of(client), broker):
        cuts = {"cuts": [client.name, broker]}
        yield Effect(f"{client.name} to {broker}", site.lasts(bounds_s), details=cuts)


@fault("network")
def link_cut(site: Site) -> Iterator[Effect]:
    """One client reaches one broker no more: its connections are reset as they come."""
    return _to_broker(site, FaultyProxy.refusing, _NOTICED_S)


@fault("network")
def link_cut_and_rest(site: Site) -> Iterator[Effect]:
    """The same for a moment, and then all is well for longer than the client leaves the broker alone."""
    with contextmanager(_to_broker)(site, FaultyProxy.refusing, _FAILS_S) as effect:
        yield replace(effect, rests_s=AVOIDED_S)


@fault("network")
def link_hanging(site: Site) -> Iterator[Effect]:
    """Nothing is carried between one client and one broker; what piled up arrives in the end."""
    return _to_broker(site, FaultyProxy.hanging, _NOTICED_S)


@fault("network")
def link_half_open(site: Site) -> Iterator[Effect]:
    """Connections of one client to one broker stay open for ever, and nothing is carried."""
    return _to_broker(site, FaultyProxy.abandoning, _NOTICED_S)


@fault("network")
def link_drip(site: Site) -> Iterator[Effect]:
    """Bytes between one client and one broker come one at a time."""
    return _to_broker(site, lambda proxy: proxy.dripping(_DRIP_S), _NOTICED_S)


@fault("network")
def link_cut_in_replies(site: Site) -> Iterator[Effect]:
    """Connections of one client to one broker are closed in the middle of an answer."""
    return _to_broker(site, lambda proxy: proxy.cutting(_IN_AN_ANSWER_BYTES), _NOTICED_S)


def _from_agent(site: Site, network: _Network) -> Iterator[Effect]:
    agent, broker = site.fleet.agents["agent-a"], "broker-a"
    with site.fleet.network(network, connections_of(agent), broker):
        yield Effect(f"{agent.name} to {broker}", site.lasts(LONG_S), (broker,), (broker,))


@fault("network")
def agent_cut(site: Site) -> Iterator[Effect]:
    """The connections of an agent to its broker are reset as they come: the broker is out meanwhile."""
    return _from_agent(site, FaultyProxy.refusing)


@fault("network")
def agent_hanging(site: Site) -> Iterator[Effect]:
    """An agent hears no answer of its broker, which clients reach: the broker is out meanwhile."""
    return _from_agent(site, FaultyProxy.hanging)


@fault("network")
def agent_drip(site: Site) -> Iterator[Effect]:
    """The answers of a broker come to its agent one byte at a time: the broker is out meanwhile."""
    return _from_agent(site, lambda proxy: proxy.dripping(_DRIP_S))


@fault("network")
def prober_hanging(site: Site) -> Iterator[Effect]:
    """Fronts hear no answer of a broker that clients reach: it is out meanwhile, unless it has an agent."""
    broker, fronts = site.rng.choice(AT_FRONTS), connections_of(*site.fleet.fronts.values())
    site.rest()
    if broker in HAS_AGENT and site.fleet.agents[f"agent-{broker[-1]}"].says("phase") != "serving":
        broker = "broker-c"  # fronts have the other one, and its agent stands by
    of = () if broker in HAS_AGENT else (broker,)
    began_us = now_us()
    with site.fleet.network(FaultyProxy.hanging, fronts, broker):
        yield Effect(f"fronts to {broker}", site.lasts(LONG_S), of, of, began_us=began_us)


def _from_broker(site: Site, network: _Network, *fronts: str) -> Iterator[Effect]:
    broker = site.fleet.brokers["broker-c"]
    is_cut_off = {*fronts} == {*site.fleet.fronts}
    lasts_s = site.lasts(UNTIL_TOLD_S)
    with site.fleet.network(network, connections_of(broker), *fronts):
        of = (broker.name,) if is_cut_off else ()
        yield Effect(f"{broker.name} to {'+'.join(fronts)}", lasts_s, of, of)


@fault("network")
def front_cut(site: Site) -> Iterator[Effect]:
    """A broker reaches one of its two fronts no more: the other one keeps it."""
    return _from_broker(site, FaultyProxy.refusing, site.rng.choice(sorted(site.fleet.fronts)))


@fault("network")
def front_half_open(site: Site) -> Iterator[Effect]:
    """Connections of a broker to one of its fronts stay open and carry nothing: the other one keeps it."""
    return _from_broker(site, FaultyProxy.abandoning, site.rng.choice(sorted(site.fleet.fronts)))


@fault("network")
def fronts_cut(site: Site) -> Iterator[Effect]:
    """A broker reaches none of its fronts, and they reach it: it is out meanwhile."""
    return _from_broker(site, FaultyProxy.refusing, *site.fleet.fronts)


@fault("network")
def fronts_half_open(site: Site) -> Iterator[Effect]:
    """Connections of a broker to its fronts stay open and carry nothing: its lease ends by itself."""
    return _from_broker(site, FaultyProxy.abandoning, *site.fleet.fronts)

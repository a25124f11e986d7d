"""Faults of processes: killed, and stopped for shorter and longer than a lease."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.faults.matrix.kinds.kind import LONG_S, SHORT_S, Effect, Site, fault
from tests.faults.matrix.settings import BOUNDS, ON
from tests.faults.victims import Program

_NOBODY_ELSE: Final = {"agent-a": "broker-a"}
"""What is served by this process alone: for broker-b speaks also a front, for broker-c speak two."""

_UNTIL_TOLD_S: Final = (LONG_S[0] + BOUNDS.told_ms / 1_000, LONG_S[1] + BOUNDS.told_ms / 1_000)
"""Longer than it takes until the end of a lease was told, even if the sweeper died with its owner."""


def _killed(site: Site, victims: Sequence[Program], bounds_s: tuple[float, float]) -> Iterator[Effect]:
    lasts_s = site.lasts(bounds_s)
    for victim in victims:
        victim.kill()
    names = tuple(victim.name for victim in victims)
    try:
        yield Effect("+".join(names), lasts_s, names, _taken(names, bounds_s))
    finally:
        site.start(*victims)


def _paused(site: Site, victim: Program, bounds_s: tuple[float, float]) -> Iterator[Effect]:
    lasts_s = site.lasts(bounds_s)
    victim.pause()
    try:
        yield Effect(victim.name, lasts_s, (victim.name,), _taken((victim.name,), bounds_s))
    finally:
        victim.resume()


def _taken(names: Sequence[str], bounds_s: tuple[float, float]) -> tuple[str, ...]:
    """Return the brokers that are away with these processes."""
    brokers = [name for name in names if name in ON]
    alone = [_NOBODY_ELSE[name] for name in names if name in _NOBODY_ELSE and bounds_s == LONG_S]
    return tuple(sorted({*brokers, *alone}))


def _one(site: Site, of: Mapping[str, Program]) -> Program:
    return of[site.rng.choice(sorted(of))]


@fault("processes")
def kill_broker(site: Site) -> Iterator[Effect]:
    """A broker is killed, and started again after its lease would have ended."""
    return _killed(site, [_one(site, site.fleet.brokers)], LONG_S)


@fault("processes")
def kill_broker_briefly(site: Site) -> Iterator[Effect]:
    """A broker is killed, and started again within its lease."""
    return _killed(site, [_one(site, site.fleet.brokers)], SHORT_S)


@fault("processes")
def kill_agent(site: Site) -> Iterator[Effect]:
    """An agent is killed, and started again after its lease has ended."""
    return _killed(site, [_one(site, site.fleet.agents)], LONG_S)


@fault("processes")
def kill_agent_briefly(site: Site) -> Iterator[Effect]:
    """An agent is killed, and started again within its lease."""
    return _killed(site, [_one(site, site.fleet.agents)], SHORT_S)


@fault("processes")
def kill_host(site: Site) -> Iterator[Effect]:
    """A broker and its agent are killed together."""
    letter = site.rng.choice(sorted(name[-1] for name in site.fleet.agents))
    return _killed(
        site, [site.fleet.agents[f"agent-{letter}"], site.fleet.brokers[f"broker-{letter}"]], _UNTIL_TOLD_S
    )


@fault("processes")
def kill_front(site: Site) -> Iterator[Effect]:
    """One of the two fronts is killed."""
    return _killed(site, [_one(site, site.fleet.fronts)], LONG_S)


@fault("processes")
def kill_fronts(site: Site) -> Iterator[Effect]:
    """Both fronts are killed."""
    return _killed(site, list(site.fleet.fronts.values()), SHORT_S)


@fault("processes")
def kill_client(site: Site) -> Iterator[Effect]:
    """A client is killed, and begins again with its snapshot."""
    return _killed(site, [_one(site, site.fleet.clients)], SHORT_S)


@fault("processes")
def kill_follower(site: Site) -> Iterator[Effect]:
    """The follower is killed, and begins again."""
    return _killed(site, [site.fleet.follower], SHORT_S)


@fault("processes")
def pause_broker_briefly(site: Site) -> Iterator[Effect]:
    """A broker stands still for less than its lease."""
    return _paused(site, _one(site, site.fleet.brokers), SHORT_S)


@fault("processes")
def pause_broker(site: Site) -> Iterator[Effect]:
    """A broker stands still for longer than it takes to be found out."""
    return _paused(site, _one(site, site.fleet.brokers), LONG_S)


@fault("processes")
def pause_agent_briefly(site: Site) -> Iterator[Effect]:
    """An agent stands still for less than its lease."""
    return _paused(site, _one(site, site.fleet.agents), SHORT_S)


@fault("processes")
def pause_agent(site: Site) -> Iterator[Effect]:
    """An agent stands still for longer than its lease, and goes on as if it had it."""
    return _paused(site, _one(site, site.fleet.agents), LONG_S)


@fault("processes")
def pause_front(site: Site) -> Iterator[Effect]:
    """A front stands still for longer than the leases of its brokers."""
    return _paused(site, _one(site, site.fleet.fronts), LONG_S)


@fault("processes")
def pause_client(site: Site) -> Iterator[Effect]:
    """A client stands still for longer than a lease."""
    return _paused(site, _one(site, site.fleet.clients), LONG_S)


@fault("processes")
def pause_follower(site: Site) -> Iterator[Effect]:
    """The follower stands still."""
    return _paused(site, site.fleet.follower, LONG_S)

"""Faults of processes: killed, and stopped for shorter and longer than a lease."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeAlias

from tests.faults.checker.history import now_us
from tests.faults.matrix.auditor import KEYS
from tests.faults.matrix.fleet import HAS_AGENT, Fleet
from tests.faults.matrix.kinds.kind import (
    AVOIDED_S,
    LONG_S,
    SHORT_S,
    UNTIL_TOLD_S,
    Area,
    Effect,
    Site,
    connections_of,
    fault,
)
from tests.faults.matrix.settings import BOUNDS, LEASE_S, ON
from tests.faults.matrix.stand_in import CONFIGURE
from tests.faults.victims import AgentProcess, Program
from tests.proxy import FaultyProxy

_NOBODY_ELSE: Final = {"agent-a": "broker-a"}
"""What is served by this process alone: for broker-b speaks also a front, for broker-c speak two."""

_FAILS_S: Final = (1.5, 1.9)
"""Longer than an attempt takes, and less than it takes to find that a broker hangs."""

_ANSWERS_S: Final = 1.2
"""Longer than the time between two questions."""

_TWO_FAIL_S: Final = (2.2, 2.4)
"""The same for two, one after the other; a question at least stays without an answer in time."""

_ALL_FAIL_S: Final = (2.6, 2.9)
"""Longer than an attempt at each of two brokers takes, and the third one is slow."""

_FORGIVEN_S: Final = BOUNDS.slow_start_ms / 1_000 + 2.5
"""Longer than it takes until a broker that was restarted is used."""

_GHOST: Final = "broker-z"
"""A broker that nobody uses."""

_Victims: TypeAlias = Callable[[Site], Sequence[Program]]
_How: TypeAlias = Callable[[Site, Sequence[Program], tuple[float, float]], Iterator[Effect]]


def _killed(site: Site, victims: Sequence[Program], bounds_s: tuple[float, float]) -> Iterator[Effect]:
    lasts_s = site.lasts(bounds_s)
    for victim in victims:
        victim.kill()
    names = tuple(victim.name for victim in victims)
    try:
        yield Effect("+".join(names), lasts_s, names, _taken(names, bounds_s))
    finally:
        site.start(*victims)


def _paused(site: Site, victims: Sequence[Program], bounds_s: tuple[float, float]) -> Iterator[Effect]:
    lasts_s = site.lasts(bounds_s)
    for victim in victims:
        victim.pause()
    names = tuple(victim.name for victim in victims)
    try:
        yield Effect("+".join(names), lasts_s, names, _taken(names, bounds_s))
    finally:
        for victim in victims:
            victim.resume()


def _taken(names: Sequence[str], bounds_s: tuple[float, float]) -> tuple[str, ...]:
    """Return the brokers that are away with these processes."""
    brokers = [name for name in names if name in ON]
    alone = [_NOBODY_ELSE[name] for name in names if name in _NOBODY_ELSE and bounds_s != SHORT_S]
    return tuple(sorted({*brokers, *alone}))


def _one(of: Callable[[Fleet], Mapping[str, Program]]) -> _Victims:
    """Return what draws one process of a kind."""

    def drawn(site: Site) -> Sequence[Program]:
        programs = of(site.fleet)
        return [programs[site.rng.choice(sorted(programs))]]

    return drawn


def _host(site: Site) -> Sequence[Program]:
    letter = site.rng.choice(sorted(name[-1] for name in site.fleet.agents))
    return [site.fleet.agents[f"agent-{letter}"], site.fleet.brokers[f"broker-{letter}"]]


def _sweeper(site: Site) -> list[Program]:
    """Return who sweeps, and a host: its own if it is an agent, so that there is another agent."""
    (holder,) = site.auditor.at_primary(("GET", KEYS.sweeper)) or (None,)
    pid, agents = (holder or b"::").split(b":")[-2].decode(), site.fleet.agents
    sweeper = [program for program in site.fleet if str(program.pid) == pid]
    agent = next((agent for agent in sweeper if agent in agents.values()), agents["agent-a"])
    return [*dict.fromkeys((*sweeper, agent)), site.fleet.brokers[f"broker-{agent.name[-1]}"]]


def _at_agents(site: Site) -> Sequence[Program]:
    return [site.fleet.brokers[name] for name in HAS_AGENT]


def _brokers(site: Site) -> Sequence[Program]:
    return list(site.fleet.brokers.values())


def _fronts(site: Site) -> Sequence[Program]:
    return list(site.fleet.fronts.values())


def _follower(site: Site) -> Sequence[Program]:
    return [site.fleet.follower]


_BROKER: Final = _one(lambda fleet: fleet.brokers)
_AGENT: Final = _one(lambda fleet: fleet.agents)
_FRONT: Final = _one(lambda fleet: fleet.fronts)
_CLIENT: Final = _one(lambda fleet: fleet.clients)


def _register(name: str, how: _How, victims: _Victims, bounds_s: tuple[float, float], meaning: str) -> None:
    def begin(site: Site) -> Iterator[Effect]:
        return how(site, victims(site), bounds_s)

    begin.__name__, begin.__doc__ = name, meaning
    areas: tuple[Area, ...] = ("processes", "follower") if victims is _follower else ("processes",)
    fault(*areas)(begin)


_register(
    "kill_broker",
    _killed,
    _BROKER,
    LONG_S,
    "A broker is killed, and started again after its lease would have ended.",
)
_register(
    "kill_broker_briefly",
    _killed,
    _BROKER,
    SHORT_S,
    "A broker is killed, and started again within its lease.",
)
_register(
    "kill_agent", _killed, _AGENT, LONG_S, "An agent is killed, and started again after its lease has ended."
)
_register(
    "kill_agent_briefly", _killed, _AGENT, SHORT_S, "An agent is killed, and started again within its lease."
)
_register(
    "kill_brokers",
    _killed,
    _at_agents,
    LONG_S,
    "Two brokers of three are killed in the same moment, and their agents say so.",
)
_register("kill_host", _killed, _host, UNTIL_TOLD_S, "A broker and its agent are killed together.")
_register("kill_front", _killed, _FRONT, LONG_S, "One of the two fronts is killed.")
_register("kill_fronts", _killed, _fronts, SHORT_S, "Both fronts are killed.")
_register("kill_client", _killed, _CLIENT, SHORT_S, "A client is killed, and begins again with its snapshot.")
_register("kill_follower", _killed, _follower, SHORT_S, "The follower is killed, and begins again.")
_register(
    "pause_broker",
    _paused,
    _BROKER,
    LONG_S,
    "A broker stands still for longer than it takes to be found out.",
)
_register(
    "pause_brokers",
    _paused,
    _brokers,
    _ALL_FAIL_S,
    "All brokers stand still for so long that a client finds each of them bad.",
)
_register("pause_agent_briefly", _paused, _AGENT, SHORT_S, "An agent stands still for less than its lease.")
_register(
    "pause_agent",
    _paused,
    _AGENT,
    LONG_S,
    "An agent stands still for longer than its lease, and goes on as if it had it.",
)
_register(
    "pause_front", _paused, _FRONT, LONG_S, "A front stands still for longer than the leases of its brokers."
)
_register("pause_client", _paused, _CLIENT, LONG_S, "A client stands still for longer than a lease.")
_register("pause_follower", _paused, _follower, LONG_S, "The follower stands still.")


@fault("processes")
def pause_broker_briefly(site: Site) -> Iterator[Effect]:
    """A broker stands still three times, each time for less than its lease, and answers in between."""
    victims, began_us = _BROKER(site), now_us()
    for _ in range(2):
        with contextmanager(_paused)(site, victims, _TWO_FAIL_S) as effect:
            site.let_pass(effect.lasts_s, "it does not answer in time")
        site.let_pass(_ANSWERS_S, "it answers again")
    with contextmanager(_paused)(site, victims, _TWO_FAIL_S) as effect:
        yield replace(effect, takes=(), began_us=began_us)


@fault("processes")
def kill_broker_and_rest(site: Site) -> Iterator[Effect]:
    """A broker stands still for longer than an attempt takes, is killed, and is well when it is back."""
    victims, began_us = _BROKER(site), now_us()
    for victim in victims:
        victim.pause()
    site.let_pass(site.lasts(_FAILS_S), "attempts fail")
    takes_us = now_us()
    with contextmanager(_killed)(site, victims, SHORT_S) as effect:
        yield replace(effect, began_us=began_us, takes_us=takes_us, rests_s=_FORGIVEN_S)


def _has_looked(agent: AgentProcess) -> bool:
    """Whether an agent has a part; it has looked who sweeps before."""
    return agent.says("phase") in ("serving", "standby")


def _is_told(site: Site, broker: str) -> bool:
    """Whether the lease of a broker has ended, and the stream tells of it."""
    deadlines = site.auditor.at_primary(("ZSCORE", KEYS.deadlines, KEYS.lease_member(broker, 0)))
    return site.auditor.lease(broker) is None and deadlines == [None]


@fault("processes", "network")
def kill_sweeper(site: Site) -> Iterator[Effect]:
    """Who sweeps is killed with a host; in its place can come only an agent that has looked just before."""
    fleet, victims = site.fleet, _sweeper(site)
    (broker,) = (victim.name for victim in victims if victim.name in ON)
    agents = [agent for agent in fleet.agents.values() if agent not in victims]
    others = [of for of in (*fleet.fronts.values(), *fleet.clients.values()) if of not in victims]
    for agent in agents:
        agent.kill()
    site.start(*agents)
    site.wait_at_most(LEASE_S, lambda: all(map(_has_looked, agents)), "an agent has looked who sweeps")
    takes_us, left = now_us(), ("PTTL", KEYS.lease(broker, 0))

    def is_released() -> bool:
        return any(left_ms <= 1_000 * LEASE_S for left_ms in site.auditor.at_primary(left) or ())

    with contextmanager(_killed)(site, victims, UNTIL_TOLD_S) as effect:
        site.wait_at_most(1.0, is_released, "fronts vouch no more for who is dead")
        with site.store.network(FaultyProxy.refusing, connections_of(*others)):
            site.wait_at_most(LEASE_S + 1.0, lambda: _is_told(site, broker), "the end of a lease is told")
        disturbs = (*effect.disturbs, *(of.name for of in (*agents, *others)))
        yield replace(effect, takes_us=takes_us, disturbs=disturbs)


@fault("keys", "processes")
def corrupt_group(site: Site) -> Iterator[Effect]:
    """The group of a broker is a list whose lease is due, while a host dies, or a broker at fronts hangs."""
    fleet, group, member = site.fleet, KEYS.broker(_GHOST), KEYS.lease_member(_GHOST, 0)
    host = [fleet.agents["agent-a"], fleet.brokers["broker-a"]]
    how, victims = site.rng.choice([(_killed, host), (_paused, [fleet.brokers["broker-c"]])])
    site.rest()
    began_us = now_us()
    site.auditor.at_primary(
        ("LPUSH", group, "foreign"), ("HSET", KEYS.brokers, _GHOST, ""), ("ZADD", KEYS.deadlines, 1, member)
    )
    try:
        with contextmanager(how)(site, victims, UNTIL_TOLD_S) as effect:
            yield replace(effect, began_us=began_us)
    finally:
        site.auditor.at_primary(
            ("DEL", group), ("HDEL", KEYS.brokers, _GHOST), ("ZREM", KEYS.deadlines, member)
        )


@fault("processes")
def refuse_and_rest(site: Site) -> Iterator[Effect]:
    """A broker refuses messages, and takes them again for longer than it is avoided."""
    name = site.rng.choice(sorted(ON))
    site.order(name, CONFIGURE, {"refuses": "true"})
    try:
        yield Effect(name, site.lasts(SHORT_S), (name,), rests_s=AVOIDED_S)
    finally:
        site.order(name, CONFIGURE, {"refuses": "false"})


@fault("processes", "network")  # so that not all brokers are out
def pause_broker_and_rest(site: Site) -> Iterator[Effect]:
    """One broker or two stand still for longer than an attempt, and are well for longer than avoided."""
    victims, bounds_s = site.rng.choice([(_BROKER, _FAILS_S), (_at_agents, _TWO_FAIL_S)])
    with contextmanager(_paused)(site, victims(site), bounds_s) as effect:
        yield replace(effect, rests_s=AVOIDED_S)

"""Faults of ownership: two who speak for one broker, operators that take one out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from sharedroutes.registry import RegistryError
from sharedroutes.registry.scripts import UNREGISTER
from tests.faults.checker.history import now_us
from tests.faults.matrix.auditor import KEYS
from tests.faults.matrix.fleet import HAS_AGENT, QUEUES
from tests.faults.matrix.kinds.kind import LONG_S, SHORT_S, WHOLE_STORE, Effect, Site, connections_of, fault
from tests.faults.matrix.kinds.stores import is_alone
from tests.faults.matrix.settings import (
    ALONE,
    BOUNDS,
    CALL_S,
    HEARTBEAT_S,
    JITTER_S,
    LEASE_S,
    RECONNECT_S,
    SENT_TO,
    TOPICS,
)
from tests.faults.victims import AgentProcess
from tests.proxy import FaultyProxy

_LATE_S: Final = CALL_S / 2
"""So late an answer comes in time, and there is time to lose it."""

_TRIM: Final = ("XTRIM", KEYS.changes, "MAXLEN", 0)
"""To nothing."""

_UNHEARD: Final = "extra-unheard"

_DRAIN: Final = "drain?wait_s=0.5"
_DRAINS_S: Final = 0.5
"""Longer than it takes to begin, and shorter than a long one."""

_REGISTERED_S: Final = 6.0
"""Longer than until a broker says again at its fronts what it has."""

_SENDS_S: Final = CALL_S / 2
"""Longer than an agent takes to see a file and to send what is new; shorter than it waits for an answer."""


@contextmanager
def _guest(site: Site) -> Iterator[AgentProcess]:
    """Return a second agent beside broker-a, which is not started, and is killed in the end."""
    guest = site.fleet.guest("agent-a-2", "broker-a")
    try:
        yield guest
    finally:
        guest.kill()
        site.fleet.guests.clear()


@fault("processes")
def two_agents(site: Site) -> Iterator[Effect]:
    """A second agent is started beside a broker, and killed."""
    with _guest(site) as guest:
        site.start(guest)
        yield Effect("broker-a", site.lasts(LONG_S))


@fault("processes")
def two_agents_in_turn(site: Site) -> Iterator[Effect]:
    """The owner stands still, a second agent takes over, and the first goes on, with a change or without."""
    owner = site.fleet.agents["agent-a"]
    with _guest(site) as guest:
        owner.pause()
        site.start(guest)
        try:
            epoch = site.auditor.lease("broker-a")
            yield Effect("broker-a", site.lasts(LONG_S), ("agent-a",), details={"lease": list(epoch or ())})
        finally:
            writes = site.rng.choice((True, False))  # if not, a heartbeat is the first that it asks
            if writes:
                site.fleet.write_topics("extra-fenced")
            owner.resume()
            if writes:
                site.fleet.write_topics()


@fault("processes", on=is_alone)  # a Cluster has its subscribers elsewhere
def standby_again(site: Site) -> Iterator[Effect]:
    """An agent stands by for a second one, which is killed, and owns its broker again: it listens no more."""
    owner, began_us = site.fleet.agents["agent-a"], now_us()
    site.let_pass(RECONNECT_S, "all listen who did before")

    def is_now(agent: AgentProcess, phase: str) -> None:
        site.wait_at_most(2 * LEASE_S, lambda: agent.says("phase") == phase, f"{agent.name} is {phase}")

    before = site.listeners()
    with _guest(site) as guest:
        owner.pause()
        site.start(guest)
        is_now(guest, "serving")
        owner.resume()
        is_now(owner, "standby")
    is_now(owner, "serving")
    promised = site.promised(
        "who owns its broker listens no more", CALL_S, lambda: site.listeners() <= before, owner
    )
    yield Effect("broker-a", site.lasts(SHORT_S), (owner.name,), details=promised, began_us=began_us)


@fault("processes")
def late_writes(site: Site) -> Iterator[Effect]:
    """What an owner writes hangs in the network until a second agent has taken over, and arrives then."""
    yield from _late_writes(site, is_undone=False)


@fault("processes")
def late_writes_undone(site: Site) -> Iterator[Effect]:
    """The same, and the second agent finds the topics as they were: of the table, nothing has changed."""
    yield from _late_writes(site, is_undone=True)


def _late_writes(site: Site, *, is_undone: bool) -> Iterator[Effect]:
    owner, before = site.fleet.agents["agent-a"], site.auditor.lease("broker-a")
    whose = connections_of(owner)
    with _guest(site) as guest:
        try:
            with site.store.network(FaultyProxy.hanging, whose):
                site.fleet.write_topics("extra-late")
                if is_undone:
                    site.let_pass(_SENDS_S, "the owner has sent what it writes")
                    site.fleet.write_topics()
                site.start(guest)
                site.wait_at_most(
                    2 * LEASE_S,
                    lambda: site.auditor.lease("broker-a") not in (None, before),
                    "a second owner",
                )
            yield Effect("broker-a", site.lasts(SHORT_S), ("agent-a",))
        finally:
            site.fleet.write_topics()


@fault("processes")
def late_ends(site: Site) -> Iterator[Effect]:
    """An owner's word that its broker has ended hangs in the network until a second agent has it again."""
    owner, broker = site.fleet.agents["agent-a"], site.fleet.brokers["broker-a"]
    before, whose = site.auditor.lease(broker.name), connections_of(owner)
    site.auditor.at_primary(("SCRIPT", "LOAD", UNREGISTER.source))  # what comes late cannot be asked for it
    with _guest(site) as guest:
        with site.store.network(FaultyProxy.hanging, whose):
            broker.kill()
            site.start(broker, guest)
            site.wait_at_most(
                2 * LEASE_S,
                lambda: site.auditor.lease(broker.name) not in (None, before),
                "a second owner",
            )
        yield Effect(broker.name, site.lasts(SHORT_S), (owner.name, broker.name))


@fault("processes")
def restart_agent(site: Site) -> Iterator[Effect]:
    """An agent is told to end, as for an upgrade, and started again: its broker stays all the time."""
    agent = site.fleet.agents["agent-a"]
    agent.end()
    try:
        yield Effect(agent.name, 0.2, (agent.name,))
    finally:
        site.start(agent)


def _resume(site: Site, agent: AgentProcess, name: str) -> None:
    """Let a drained broker come back, and wait until it has."""
    agent.order("resume")
    site.wait_at_most(LEASE_S, lambda: site.auditor.lease(name) is not None, "a drained broker is back")


def _drain_unheard(site: Site, agent: AgentProcess, name: str) -> None:
    """Order a drain, and let the agent not hear that it has taken the write permission away."""
    whose, wiped = connections_of(agent), ("HGET", KEYS.broker(name), "wiped")
    with site.store.network(lambda proxy: proxy.slow(_LATE_S), whose):
        agent.order(_DRAIN)
        site.wait_at_most(
            LEASE_S / 2, lambda: site.auditor.at_primary(wiped) == [b"1"], "a permission is taken"
        )
        site.store.reset(whose)


@fault("processes", "network")
def drain(site: Site) -> Iterator[Effect]:
    """An operator drains a broker at its agent, which perhaps stands by for another one, and lets it back."""
    name, is_beside = site.rng.choice([*((name, False) for name in HAS_AGENT), ("broker-a", True)])
    agent = site.fleet.agents[f"agent-{name[-1]}"]
    with ExitStack() as stack:
        if is_beside:
            site.start(stack.enter_context(_guest(site)))
            site.wait_at_most(LEASE_S, lambda: agent.says("phase") == "standby", "an agent stands by")
        if site.rng.choice((False, True)):
            _drain_unheard(site, agent, name)
        else:
            agent.order(_DRAIN)
        try:
            yield Effect(name, site.lasts(LONG_S), takes=(name,))
        finally:
            _resume(site, agent, name)


@fault("processes")
def end_in_drain(site: Site) -> Iterator[Effect]:
    """An agent is told to end while it drains its broker, which is at fronts too: they leave it out."""
    name, agent, began_us = "broker-b", site.fleet.agents["agent-b"], now_us()
    with suppress(OSError):
        agent.order("drain?wait_s=2")
    site.let_pass(_DRAINS_S, "it drains")
    takes_us = now_us()
    agent.end()
    try:
        site.let_pass(_REGISTERED_S, "fronts are told again that the broker is there")
        promised = site.promised("who was drained is out", CALL_S, lambda: site.auditor.lease(name) is None)
        effect = Effect(name, site.lasts(SHORT_S), (agent.name,), (name,), details=promised)
        yield replace(effect, began_us=began_us, takes_us=takes_us)
    finally:
        site.start(agent)
        _resume(site, agent, name)


@fault("processes")
def drain_wiped(site: Site) -> Iterator[Effect]:
    """An operator takes the write permission of a broker away and drains it; it comes back without it."""
    agent, name = site.fleet.agents["agent-a"], "broker-a"
    with suppress(RegistryError), site.registry() as registry:
        registry.admin.wipe_write_perm(name)
    agent.order(_DRAIN)
    try:
        yield Effect(name, site.lasts(SHORT_S), takes=(name,))
    finally:
        _resume(site, agent, name)
        site.let_pass(2 * HEARTBEAT_S, "its agent may give the permission back, and clients may send")
        with suppress(RegistryError), site.registry() as registry:
            registry.admin.add_write_perm(name)


@fault("processes")
def delete_topic(site: Site) -> Iterator[Effect]:
    """An operator deletes a topic that brokers still have: it comes back by itself."""
    topic = site.rng.choice([topic for topic in TOPICS if topic != SENT_TO])
    agent, details, began_us = site.fleet.agents["agent-a"], {}, now_us()
    with suppress(RegistryError), site.registry() as registry:
        registry.admin.delete_topic(topic)
    if topic == ALONE:  # the next heartbeat finds out
        back_s, is_back = HEARTBEAT_S + 2 * CALL_S, partial(_is_routed, site, topic)
        details = site.promised(f"{topic} is back", back_s, is_back, agent)
    yield Effect(topic, 0.2, removes=(topic,), details=details, began_us=began_us)
    site.wait_at_most(LEASE_S, partial(_is_routed, site, topic), f"{topic} is back")
    site.let_pass(BOUNDS.stale_ms / 1_000, "clients know of it")


def _is_routed(site: Site, topic: str) -> bool:
    return site.auditor.at_primary(("EXISTS", KEYS.topic(topic))) == [1]


@fault("files", "network", "store")
def change_unheard(site: Site) -> Iterator[Effect]:
    """A broker changes topics while no client reaches the store, and the stream that told is trimmed."""
    began_us = now_us()
    try:
        with site.store.network(FaultyProxy.refusing, connections_of(*site.fleet.clients.values())):
            _change_and_trim(site)
            yield Effect("broker-b", site.lasts(SHORT_S), WHOLE_STORE, loses=True, began_us=began_us)
        site.let_pass(JITTER_S, "all is read again")
    finally:
        site.fleet.write_topics(of="broker-b")


@fault("files", "network", "store", "follower")
def change_without_place(site: Site) -> Iterator[Effect]:
    """The same with the follower, from a stream without entries on, which gives no place to hold on to."""
    fleet, began_us = site.fleet, now_us()
    if fleet.agents["agent-b"].says("phase") != "serving":  # nobody reads its file
        yield Effect("broker-b", 0.1)
        return
    whose = connections_of(*fleet.clients.values(), fleet.follower)
    site.auditor.at_primary(_TRIM)
    site.let_pass((BOUNDS.arrival_ms + BOUNDS.reread_ms) / 1_000, "all is read again")
    try:
        with site.store.network(FaultyProxy.refusing, whose):
            _change_and_trim(site, _UNHEARD)
        promised = site.promised(f"a follower tells of {_UNHEARD}", LEASE_S, lambda: _UNHEARD in fleet.said())
        lasts_s = (BOUNDS.stale_ms + BOUNDS.reread_ms) / 1_000  # until clients know of it, too
        yield Effect("broker-b", lasts_s, WHOLE_STORE, loses=True, details=promised, began_us=began_us)
    finally:
        fleet.write_topics(of="broker-b")


def _change_and_trim(site: Site, *more: str) -> None:
    index = ("GET", KEYS.topic(SENT_TO))
    before = site.auditor.at_primary(index)
    site.fleet.write_topics(*more, of="broker-b", queues=2 * QUEUES)
    site.wait_at_most(LEASE_S, lambda: site.auditor.at_primary(index) != before, "it is written")
    for topic in more:
        site.wait_at_most(LEASE_S, partial(_is_routed, site, topic), f"{topic} is written")
    site.auditor.at_primary(_TRIM)


@fault("processes", "store")
def end_unheard(site: Site) -> Iterator[Effect]:
    """The change stream is trimmed to nothing as a broker ends: of that alone it tells."""
    broker = site.fleet.brokers["broker-a"]
    site.auditor.at_primary(_TRIM)
    broker.kill()
    try:
        yield Effect(broker.name, site.lasts(LONG_S), (broker.name,), (broker.name,), loses=True)
    finally:
        site.start(broker)

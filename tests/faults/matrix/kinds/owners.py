"""Faults of ownership: two who speak for one broker, operators that take one out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Final

from sharedroutes.registry import RegistryError
from sharedroutes.registry.plans import ORDER_TOPIC_CONFIG
from sharedroutes.registry.scripts import UNREGISTER
from sharedroutes.remoting import RequestCode, ResponseCode
from tests.faults.checker.history import now_us
from tests.faults.matrix.auditor import KEYS
from tests.faults.matrix.fleet import HAS_AGENT, QUEUES
from tests.faults.matrix.kinds.kind import LONG_S, SHORT_S, WHOLE_STORE, Effect, Site, connections_of, fault
from tests.faults.matrix.settings import (
    ALONE,
    BOUNDS,
    CALL_S,
    FRONT_LEASE_MS,
    HEARTBEAT_S,
    JITTER_S,
    LEASE_S,
    SENT_TO,
    TOPICS,
)
from tests.faults.matrix.stand_in import COMES, DELETE_TOPIC, LEAVES, registration_in, said_by
from tests.faults.victims import AgentProcess, Program
from tests.nameserver.running import Peer
from tests.proxy import FaultyProxy

_SLOW_S: Final = 0.3
"""Longer than fronts take for a sign of their own life, unless it was asked for twice."""

_LATE_S: Final = CALL_S / 2
"""So late an answer comes in time, and there is time to lose it."""

_DRAIN: Final = "drain?wait_s=0.5"
_SENDS_S: Final = CALL_S / 2
"""Longer than an agent takes to see a file and to send what is new; shorter than it waits for an answer."""

_SAID_S: Final = BOUNDS.arrival_ms / 1_000
_STAYS_OUT_S: Final = (_SAID_S + 1.5, _SAID_S + 2.5)
"""Longer than it may take until it is said that a broker may come back."""

_FOUND_OUT_S: Final = 1.5
"""Longer than an agent finds later than a front that a broker hangs."""

_LIVES: Final = 2
_READ_S: Final = 3.0
"""Longer than a front takes to see whom it has to ask: it reads that every 2 s."""

_RESTORED_S: Final = 4.0
"""Longer than fronts take, at slow answers, to bring back what they take for lost."""


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
def restart_fronts(site: Site) -> Iterator[Effect]:
    """Both fronts are told to end, as for an upgrade, and started again: the brokers at them stay."""
    fronts = [*site.fleet.fronts.values()]
    site.rest()
    began_us = now_us()
    for front in fronts:
        front.tell_to_end()
    for front in fronts:
        front.wait_for_end()
    try:
        names = tuple(front.name for front in fronts)
        yield Effect("+".join(names), 0.2, names, began_us=began_us)
    finally:
        site.start(*fronts)


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


@fault("processes", "store", "keys")  # the stream alone tells fronts that a topic is deleted
def delete_for_good(site: Site) -> Iterator[Effect]:
    """A topic is deleted at its broker, which is at fronts, and by an operator, and the store is emptied."""
    host, topic = site.fleet.hosts["broker-c"], f"extra-{now_us()}"
    site.rest()
    if not site.change_topic(site.rng.randrange(QUEUES * 3, 1_000), topic):
        yield Effect("fronts are not there", 0.1)
        return
    site.order(host.name, DELETE_TOPIC, {"topic": topic})
    with suppress(RegistryError), site.registry() as registry:
        registry.admin.delete_topic(topic)
    site.wait_at_most(2 * HEARTBEAT_S, lambda: not _is_at_fronts(site, topic), "fronts have heard of it")
    began_us = now_us()
    site.auditor.at_primary(("FLUSHALL",))
    yield Effect(topic, site.lasts(SHORT_S), WHOLE_STORE, loses=True, began_us=began_us)


def _is_at_fronts(site: Site, topic: str) -> bool:
    """Whether a front has a route of a topic, or does not say that it has none."""
    for name in site.fleet.fronts:
        try:
            with Peer(site.fleet.front_address(name), CALL_S) as front:
                answer = front.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        except (OSError, AssertionError):
            return True
        if answer.code != ResponseCode.TOPIC_NOT_EXIST:
            return True
    return False


@fault("processes")
def order_topic(site: Site) -> Iterator[Effect]:
    """An operator says at a front in which order the queues of a topic are used: all fronts say so."""
    front, said = site.rng.choice(sorted(site.fleet.fronts)), f"broker-a:{site.rng.randrange(1, 1_000)}"
    fields = {"namespace": ORDER_TOPIC_CONFIG, "key": SENT_TO, "value": said}
    done = False
    with suppress(OSError, AssertionError), Peer(site.fleet.front_address(front), CALL_S * 4) as peer:
        done = peer.ask(RequestCode.PUT_KV_CONFIG, fields).code == ResponseCode.SUCCESS
    yield Effect(SENT_TO, site.lasts(_STAYS_OUT_S), details={"order": said} if done else {})


@fault("processes", "network")
def come_unheard(site: Site) -> Iterator[Effect]:
    """A broker comes back while no front reaches the store, and the stream that told of it is trimmed."""
    broker, fronts, began_us = site.fleet.brokers["broker-a"], [*site.fleet.fronts.values()], now_us()
    broker.kill()
    site.wait_at_most(LEASE_S, lambda: site.auditor.lease(broker.name) is None, "a broker is out")
    site.let_pass(HEARTBEAT_S, "fronts know")
    try:
        with site.store.network(FaultyProxy.refusing, connections_of(*fronts)):
            site.start(broker)
            site.wait_at_most(LEASE_S, lambda: site.auditor.lease(broker.name) is not None, "it is back")
            site.auditor.at_primary(("XTRIM", KEYS.changes, "MAXLEN", 0))
            yield Effect(broker.name, 0.2, WHOLE_STORE, (broker.name,), loses=True, began_us=began_us)
    finally:
        site.start(broker)


@fault("files", "network", "store")
def change_unheard(site: Site) -> Iterator[Effect]:
    """A broker changes topics while no client reaches the store, and the stream that told is trimmed."""
    index, began_us = ("GET", KEYS.topic(SENT_TO)), now_us()
    before = site.auditor.at_primary(index)
    try:
        with site.store.network(FaultyProxy.refusing, connections_of(*site.fleet.clients.values())):
            site.fleet.write_topics(of="broker-b", queues=2 * QUEUES)
            site.wait_at_most(LEASE_S, lambda: site.auditor.at_primary(index) != before, "it is written")
            site.auditor.at_primary(("XTRIM", KEYS.changes, "MAXLEN", 0))
            yield Effect("broker-b", site.lasts(SHORT_S), WHOLE_STORE, loses=True, began_us=began_us)
        site.let_pass(JITTER_S, "all is read again")
    finally:
        site.fleet.write_topics(of="broker-b")


@fault("processes", "store")
def end_unheard(site: Site) -> Iterator[Effect]:
    """The change stream is trimmed to nothing as a broker ends: of that alone it tells."""
    broker = site.fleet.brokers["broker-a"]
    site.auditor.at_primary(("XTRIM", KEYS.changes, "MAXLEN", 0))
    broker.kill()
    try:
        yield Effect(broker.name, site.lasts(LONG_S), (broker.name,), (broker.name,), loses=True)
    finally:
        site.start(broker)


@fault("processes")
def agent_leaves_fronts(site: Site) -> Iterator[Effect]:
    """The agent of a broker that is at fronts too ends: they hold it meanwhile, and take what it changes."""
    agent = site.fleet.agents["agent-b"]
    agent.kill()
    try:
        yield Effect("agent-b", site.lasts(LONG_S), ("agent-b",))
        for queues in (2 * QUEUES, QUEUES):
            site.change_topic(queues, name="broker-b")
    finally:
        site.start(agent)


@contextmanager
def _hung(site: Site, broker: Program) -> Iterator[int]:
    """Let a broker stand still; return since when, once it was found out and is taken out."""
    site.rest()
    began_us = now_us()
    broker.pause()
    try:
        site.wait_at_most(2 * LEASE_S, lambda: site.auditor.lease(broker.name) is None, "who hangs is out")
        yield began_us
    finally:
        broker.resume()


@fault("processes")
def pause_broker_slow_fronts(site: Site) -> Iterator[Effect]:
    """A broker hangs and is taken out, and then its fronts wait for the store: they leave it out."""
    broker, fronts = site.fleet.brokers["broker-c"], [*site.fleet.fronts.values()]
    names = (broker.name, *(front.name for front in fronts))
    whose = connections_of(*fronts)
    with _hung(site, broker) as began_us, site.store.network(lambda proxy: proxy.slow(_SLOW_S), whose):
        lasts_s = site.lasts(_STAYS_OUT_S) + _RESTORED_S
        yield Effect(broker.name, lasts_s, names, (broker.name,), began_us=began_us)


@fault("processes")
def pause_broker_reload(site: Site) -> Iterator[Effect]:
    """A broker hangs and is taken out, and its agent is told to look at it anew: it stays out."""
    broker, agent = site.fleet.brokers["broker-a"], site.fleet.agents["agent-a"]
    with _hung(site, broker) as began_us:
        site.let_pass(_FOUND_OUT_S, "nobody is in doubt any more")
        with suppress(OSError):
            agent.order("reload")
        yield Effect(broker.name, site.lasts(_STAYS_OUT_S), (broker.name,), (broker.name,), began_us=began_us)


@fault("processes", "network")  # so that fronts ask nobody besides
def asked_by_one(site: Site) -> Iterator[Effect]:
    """A broker at fronts is killed and comes back, again and again, while one front asks all brokers."""
    fleet, began_us = site.fleet, now_us()
    broker, whose = fleet.brokers["broker-c"], connections_of(*fleet.fronts.values())

    def is_asked() -> bool:
        return fleet.connections(whose, broker.name) > 0

    def is_asked_once() -> bool:
        return fleet.connections(whose, broker.name) == 1

    for _ in range(_LIVES):
        site.wait_at_most(LEASE_S, is_asked, "a front asks the broker")
        broker.kill()
        site.wait_at_most(LEASE_S, lambda: site.auditor.lease(broker.name) is None, "who was killed is out")
        site.let_pass(_READ_S, "no front asks it any more")
        site.start(broker)
    site.let_pass(_READ_S, "a front asks the broker again")
    promised = site.promised("one front asks a broker", 2 * CALL_S, is_asked_once, *fleet.fronts.values())
    yield Effect(broker.name, site.lasts(SHORT_S), (broker.name,), details=promised, began_us=began_us)


@fault("processes")
def late_goodbye(site: Site) -> Iterator[Effect]:
    """The connection of a broker's former life says late that it ends, when the broker is back."""
    fleet = site.fleet
    broker, host = fleet.brokers["broker-c"], fleet.hosts["broker-c"]
    fields = said_by(host.name, host.address, FRONT_LEASE_MS)
    command = registration_in(host.topics_path, fields)
    sessions, front = ("HLEN", KEYS.sessions(host.name, 0)), site.rng.choice(sorted(fleet.fronts))
    with suppress(OSError, AssertionError), Peer(fleet.front_address(front), CALL_S * 4) as former:
        former.ask(command.code, command.ext_fields, command.body)
        broker.signal(LEAVES)
        site.wait_at_most(LEASE_S, lambda: site.auditor.at_primary(sessions) == [1], "its own are over")
        broker.signal(COMES)
        both = 1 + len(fleet.fronts)
        site.wait_at_most(LEASE_S, lambda: site.auditor.at_primary(sessions) == [both], "it is back")
        site.rest()
        former.ask(RequestCode.UNREGISTER_BROKER, fields)
    yield Effect(host.name, site.lasts(SHORT_S))


@fault("processes")
def leave_with_a_front(site: Site) -> Iterator[Effect]:
    """A front is killed as a broker leaves both: its connection to the dead one holds nobody for long."""
    fronts = site.fleet.fronts
    broker, front = site.fleet.brokers["broker-c"], fronts[site.rng.choice(sorted(fronts))]
    site.rest()
    began_us = now_us()
    front.kill()
    broker.signal(LEAVES)
    try:
        names = (broker.name, front.name)
        yield Effect(broker.name, site.lasts(LONG_S), names, (broker.name,), began_us=began_us)
    finally:
        site.start(front)
        broker.signal(COMES)


@fault("processes")
def leave_fronts(site: Site) -> Iterator[Effect]:
    """A broker closes its connections to the fronts and goes on: to them it is gone, whatever it answers."""
    broker = site.fleet.brokers["broker-c"]
    broker.signal(LEAVES)
    try:
        yield Effect(broker.name, site.lasts(LONG_S), (broker.name,), (broker.name,))
    finally:
        broker.signal(COMES)

"""Faults of brokers at fronts: what these are told late, twice, or by one who goes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

import orjson

from sharedroutes.nameserver.server.limits import Limits
from sharedroutes.registry import RegistryError
from sharedroutes.registry.plans import ORDER_TOPIC_CONFIG
from sharedroutes.remoting import RequestCode, ResponseCode, encode, request
from tests.faults.checker.history import now_us
from tests.faults.matrix.auditor import KEYS
from tests.faults.matrix.fleet import QUEUES
from tests.faults.matrix.kinds.kind import LONG_S, SHORT_S, WHOLE_STORE, Effect, Site, connections_of, fault
from tests.faults.matrix.settings import (
    ALSO_SENT_TO,
    BOUNDS,
    CALL_S,
    FRONT_LEASE_MS,
    HEARTBEAT_S,
    LEASE_S,
    SENT_TO,
)
from tests.faults.matrix.stand_in import (
    COMES,
    CONFIGURE,
    DELETE_TOPIC,
    LEAVES,
    UPDATE_TOPIC,
    registration_in,
    said_by,
)
from tests.faults.victims import Program
from tests.nameserver.running import Peer
from tests.proxy import FaultyProxy

_LARGE_BYTES: Final = 200_000
"""More than a front reads at once."""

_AT_ONCE: Final = 250
"""Connections, fewer than wait to be accepted."""

_SLOW_S: Final = 0.3
"""Longer than fronts take for a sign of their own life, unless it was asked for twice."""

_SAID_S: Final = BOUNDS.arrival_ms / 1_000
_STAYS_OUT_S: Final = (_SAID_S + 1.5, _SAID_S + 2.5)
"""Longer than it may take until it is said that a broker may come back."""

_FOUND_OUT_S: Final = 1.5
"""Longer than an agent finds later than a front that a broker hangs."""

_WOKEN_S: Final = 3.0
"""Longer than until a broker that goes on is asked, once a second, and what it says is acted upon."""

_LIVES: Final = 2
_READ_S: Final = 3.0
"""Longer than a front takes to see whom it has to ask: it reads that every 2 s."""

_RESTORED_S: Final = 4.0
"""Longer than fronts take, at slow answers, to bring back what they take for lost."""

_TOLD_AGAIN_S: Final = 1.5
"""Longer than until fronts begin with that."""

_ESTABLISHED_S: Final = 4.0
"""Longer than it takes to find out that a broker hangs: who connects meanwhile lives."""


@fault("processes")
def silent_at_a_front(site: Site) -> Iterator[Effect]:
    """More connections than a host may have come to a front and go, without a word: it serves the next."""
    began_us, front = now_us(), site.rng.choice(sorted(site.fleet.fronts))
    address = site.fleet.front_address(front)
    host = f"127.0.{site.rng.randrange(1, 256)}.1", 0  # another one each time: closed ports have to rest
    asked = encode(request(RequestCode.GET_BROKER_CLUSTER_INFO))

    def is_served() -> bool:
        with suppress(OSError), socket.create_connection(address, CALL_S, host) as peer:
            peer.sendall(asked)
            return bool(peer.recv(1))
        return False

    for number in range(Limits().connections_per_host + 1):
        with suppress(OSError), socket.create_connection(address, CALL_S, host):
            pass
        if number % _AT_ONCE == 0:  # the front has taken those before
            is_served()
    promised = site.promised("a front serves who comes after the silent", 2 * CALL_S, is_served)
    yield Effect(front, 0.2, details=promised, began_us=began_us)


@fault("processes")
def hang_up_in_a_frame(site: Site) -> Iterator[Effect]:
    """Peers of a front begin frames that need all its room for large ones, and go: it reads the next one."""
    began_us, front = now_us(), site.rng.choice(sorted(site.fleet.fronts))
    address, limits = site.fleet.front_address(front), Limits()
    size = limits.frame_bytes // 2
    begin = encode(request(RequestCode.GET_BROKER_CLUSTER_INFO, body=bytes(size)))[
        : 2 * limits.large_frame_bytes
    ]
    asked = encode(request(RequestCode.GET_BROKER_CLUSTER_INFO, body=bytes(_LARGE_BYTES)))
    for _ in range(2 * limits.large_frames_bytes // size):
        with suppress(OSError), socket.create_connection(address, CALL_S) as peer:
            peer.sendall(begin)

    def is_read() -> bool:
        with suppress(OSError), socket.create_connection(address, CALL_S) as peer:
            peer.sendall(asked)
            return bool(peer.recv(1))
        return False

    promised = site.promised("a front reads a large frame after others were cut", 3 * CALL_S, is_read)
    yield Effect(front, 0.2, details=promised, began_us=began_us)


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
    done, said = _ordered(site)
    yield Effect(SENT_TO, site.lasts(_STAYS_OUT_S), details={"order": said} if done else {})


@fault("processes")
def order_topic_restarted(site: Site) -> Iterator[Effect]:
    """An operator says so, and a front is killed, and begins anew: it says so, too."""
    began_us, front = now_us(), site.fleet.fronts[site.rng.choice(sorted(site.fleet.fronts))]
    done, said = _ordered(site)
    front.kill()
    site.start(front)

    def says() -> bool:
        return _order_at(site, front.name) == said

    promised = site.promised("a front that begins says what is ordered", BOUNDS.arrival_ms / 1_000, says)
    yield Effect(SENT_TO, 0.2, (front.name,), details=promised if done else {}, began_us=began_us)


def _ordered(site: Site) -> tuple[bool, str]:
    """Say in which order the queues of a topic are used; return whether a front has taken it, and what."""
    front, said = site.rng.choice(sorted(site.fleet.fronts)), f"broker-a:{site.rng.randrange(1, 1_000)}"
    fields = {"namespace": ORDER_TOPIC_CONFIG, "key": SENT_TO, "value": said}
    done = False
    with suppress(OSError, AssertionError), Peer(site.fleet.front_address(front), CALL_S * 4) as peer:
        done = peer.ask(RequestCode.PUT_KV_CONFIG, fields).code == ResponseCode.SUCCESS
    return done, said


def _order_at(site: Site, front: str) -> str:
    with suppress(OSError, AssertionError), Peer(site.fleet.front_address(front), CALL_S) as peer:
        answer = peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": SENT_TO})
        if answer.code == ResponseCode.SUCCESS:
            return orjson.loads(answer.body).get("orderTopicConf") or ""
    return ""


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
def pause_broker_and_wake(site: Site) -> Iterator[Effect]:
    """A broker hangs, is taken out and goes on, and does not register: who asks it brings it back."""
    broker = site.fleet.brokers["broker-c"]
    site.order(broker.name, CONFIGURE, {"registers": "false"})
    with _hung(site, broker) as began_us:
        site.let_pass(_FOUND_OUT_S, "it is left out")
    promised = site.promised(
        "who answers again is back", _WOKEN_S, lambda: site.auditor.lease(broker.name) is not None
    )
    site.order(broker.name, CONFIGURE, {})
    yield Effect(broker.name, 0.2, (broker.name,), details=promised, began_us=began_us)


def _leave_fronts(site: Site, broker: Program) -> None:
    sessions = KEYS.sessions(broker.name, 0)
    broker.signal(LEAVES)
    site.wait_at_most(LEASE_S, lambda: site.auditor.at_primary(("EXISTS", sessions)) == [0], "it has left")


def _come_back(site: Site, broker: Program) -> None:
    sessions, both = KEYS.sessions(broker.name, 0), [len(site.fleet.fronts)]
    broker.signal(COMES)
    site.wait_at_most(LEASE_S, lambda: site.auditor.at_primary(("HLEN", sessions)) == both, "it is back")


@fault("processes", "network")
def die_while_asking(site: Site) -> Iterator[Effect]:
    """A broker that has just come is killed while its fronts wait for the store with what it has asked."""
    broker, whose = site.fleet.brokers["broker-c"], connections_of(*site.fleet.fronts.values())
    site.rest()
    began_us = takes_us = now_us()
    _leave_fronts(site, broker)
    # Who asks it whether it lives believes so for a while: what fronts see has to count.
    _come_back(site, broker)
    with site.store.network(lambda proxy: proxy.slow(_SLOW_S), whose):
        site.order(broker.name, UPDATE_TOPIC, {"topic": ALSO_SENT_TO, "readQueueNums": str(2 * QUEUES)})
        site.let_pass(_SLOW_S / 2, "it has asked both")
        broker.kill()
    try:
        within_s, ended = BOUNDS.gone_ms / 1_000, lambda: site.auditor.lease(broker.name) is None
        promised = site.promised("who dies while it asks is out", within_s, ended)
        effect = Effect(broker.name, site.lasts(LONG_S), (broker.name,), (broker.name,))
        yield replace(effect, details=promised, began_us=began_us, takes_us=takes_us)
    finally:
        site.start(broker)
        site.change_topic(QUEUES)


@fault("processes", "network")
def die_half_open(site: Site) -> Iterator[Effect]:
    """A broker comes back on new connections, and dies: former ones, half open, do not speak for it."""
    broker, began_us = site.fleet.brokers["broker-c"], now_us()

    def is_out() -> bool:
        return site.auditor.lease(broker.name) is None

    with site.fleet.network(FaultyProxy.abandoning, connections_of(broker), *site.fleet.fronts):
        site.wait_at_most(2 * LEASE_S, is_out, "who says nothing is out")
    site.wait_at_most(2 * LEASE_S, lambda: not is_out(), "it is back")
    site.let_pass(_ESTABLISHED_S, "its new connections are no news")
    with site.store.network(lambda proxy: proxy.slow(_SLOW_S), connections_of(*site.fleet.fronts.values())):
        site.let_pass(_TOLD_AGAIN_S, "its fronts tell the store of all connections")
        takes_us = now_us()
        broker.kill()
    try:
        promised = site.promised("who dies is out", BOUNDS.gone_ms / 1_000, is_out)
        effect = Effect(broker.name, site.lasts(SHORT_S), (broker.name,), (broker.name,))
        yield replace(effect, details=promised, began_us=began_us, takes_us=takes_us)
    finally:
        site.start(broker)


@fault("processes")
def leave_fronts_to_agent(site: Site) -> Iterator[Effect]:
    """A broker whose agent has it leaves its fronts, and comes back to them: its agent keeps it."""
    broker, agent, began_us = site.fleet.brokers["broker-b"], site.fleet.agents["agent-b"], now_us()
    before = site.auditor.lease(broker.name)
    if agent.says("phase") != "serving":
        yield Effect("fronts have it", 0.1)
        return
    _leave_fronts(site, broker)
    site.let_pass(2 * HEARTBEAT_S, "its agent renews it")
    _come_back(site, broker)
    site.let_pass(2 * HEARTBEAT_S, "its agent would have been told")

    def keeps() -> bool:
        return agent.says("phase") == "serving" and site.auditor.lease(broker.name) == before

    promised = site.promised("an agent keeps its broker beside fronts", HEARTBEAT_S, keeps)
    yield Effect(broker.name, 0.2, details=promised, began_us=began_us)


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

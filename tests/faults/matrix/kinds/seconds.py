"""Faults by a second broker of one name: another master, and a slave that goes on alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from sharedroutes.registry import RegistryError
from tests.broker_agent.data_files import rewrite, topics_json
from tests.faults.checker.history import now_us
from tests.faults.matrix.fleet import HAS_AGENT, QUEUES, BrokerHost
from tests.faults.matrix.kinds.kind import BELIEVED_S, LONG_S, SHORT_S, Effect, Site, connections_of, fault
from tests.faults.matrix.settings import BOUNDS, CALL_S, FRONT_LEASE_MS, LEASE_S, NEWCOMER, SENT_TO, SLAVE
from tests.faults.matrix.stand_in import registration_in, said_by
from tests.faults.victims import AgentProcess, Program
from tests.nameserver.running import Peer
from tests.proxy import FaultyProxy

_ASKED_S: Final = 1.0
"""Longer than it takes; what is found is believed unless the lease was renewed meanwhile."""

_TOLD_S: Final = 3 * CALL_S + 2.0
"""An agent that has lost its doorbell listens within a second, and asks; and a second later if that fails."""

_OF_A_SLAVE: Final = "brokerRole=SLAVE\nbrokerId=1\nenableSlaveActingMaster=true\n"
_OF_A_MASTER: Final = "brokerRole=ASYNC_MASTER\nbrokerId=0\n"


@contextmanager
def _second(
    site: Site, more: str = "", *, name: str = "broker-a"
) -> Iterator[tuple[BrokerHost, Program, AgentProcess]]:
    """Start a second broker of a name and its agent; in the end kill them, the broker first: it is out."""
    with _started(site, *site.fleet.second(name, more)) as found:
        yield found


@contextmanager
def _started(
    site: Site, host: BrokerHost, broker: Program, agent: AgentProcess
) -> Iterator[tuple[BrokerHost, Program, AgentProcess]]:
    site.start(broker, agent)
    try:
        yield host, broker, agent
    finally:
        broker.kill()
        site.wait_at_most(LEASE_S, lambda: not site.auditor.is_leased(host.address), "a second one is out")
        agent.kill()
        site.fleet.guests.clear()


@fault("processes")
def newcomer(site: Site) -> Iterator[Effect]:
    """A broker comes with whose name those of others begin, and clients send to it; it goes for good."""
    fleet, name, began_us = site.fleet, NEWCOMER[0], now_us()
    with _started(site, *fleet.newcomer(name, SENT_TO)):
        within_s, clients = BOUNDS.arrival_ms / 1_000, fleet.clients
        site.wait_at_most(LEASE_S, lambda: site.auditor.lease(*NEWCOMER) is not None, "it is there")
        promised = site.promised(
            "clients name who is new", within_s, lambda: all(fleet.says(client, name) for client in clients)
        )
        yield Effect(name, site.lasts(SHORT_S), details=promised, began_us=began_us)
    site.wait_at_most(2 * LEASE_S, lambda: site.auditor.lease(*NEWCOMER) is None, "it is gone")
    with suppress(RegistryError), site.registry() as registry:
        registry.admin.forget(name)


@fault("processes", "owners")  # a second agent reaches the store when the first are cut off from it
def second_master(site: Site) -> Iterator[Effect]:
    """A second broker of a name is started elsewhere, its agent twice or at a front: who has it keeps it."""
    name = site.rng.choice(("broker-a", "broker-c"))
    with _second(site, name=name) as (host, _, agent):
        site.let_pass(_ASKED_S, "it has asked the other one whether it lives")
        agent.kill()
        if name in HAS_AGENT:
            site.start(agent)
            yield Effect(name, site.lasts(LONG_S))
            return
        front = site.fleet.front_address(site.rng.choice(sorted(site.fleet.fronts)))
        said = registration_in(host.topics_path, said_by(name, host.address, FRONT_LEASE_MS))
        with suppress(OSError, AssertionError), Peer(front, 4 * CALL_S) as peer:
            peer.ask(said.code, said.ext_fields, said.body)
        yield Effect(name, site.lasts(SHORT_S))


@contextmanager
def a_slave(site: Site) -> Iterator[tuple[BrokerHost, Program, AgentProcess]]:
    """Start a slave of broker-a and its agent, and wait until it is registered."""
    with _second(site, _OF_A_SLAVE) as found:
        site.wait_at_most(2 * LEASE_S, lambda: site.auditor.lease(*SLAVE) is not None, "there is a slave")
        yield found


@contextmanager
def _slave_alone(
    site: Site, *, is_cut_off: bool = False
) -> Iterator[tuple[BrokerHost, tuple[Program, AgentProcess], Effect]]:
    """Start a slave of broker-a and kill its master; in the end the master is back, and alone.

    `is_cut_off`: whether the agent of the slave does not reach the store in that moment.
    """
    began_us, master = now_us(), site.fleet.brokers["broker-a"]
    try:
        with a_slave(site) as (slave, broker, agent):
            taken = (master.name,)
            effect = Effect(
                master.name, site.lasts(LONG_S), taken, taken, began_us=began_us, takes_us=now_us()
            )
            with ExitStack() as stack:
                if is_cut_off:
                    whose = connections_of(agent)
                    stack.enter_context(site.store.network(FaultyProxy.refusing, whose))
                master.kill()
                site.wait_at_most(
                    LEASE_S, lambda: site.auditor.lease(master.name) is None, "its master is out"
                )
            yield slave, (broker, agent), effect
    finally:
        site.start(master)


@fault("processes", "network", "store")  # who ends as the store loses data is held for longer
def slave_alone(site: Site) -> Iterator[Effect]:
    """A slave with fewer topics than its master goes on when that is killed, and changes one of its own."""
    with _slave_alone(site, is_cut_off=site.rng.choice((False, True))) as (slave, (_, agent), effect):
        told = "a slave is told that it has no master"
        promised = site.promised(told, _TOLD_S, partial(_is_alone, agent), agent)
        rewrite(slave.topics_path, topics_json(SENT_TO, counter=2, queues=2 * QUEUES))
        yield replace(effect, details=promised)
        site.start(site.fleet.brokers[effect.target])


def _is_alone(agent: AgentProcess) -> bool:
    """Whether the agent of a slave says that there is no master."""
    return bool(agent.says("master_address") == "")


@fault("processes", "network", "store")
def slave_rejoined(site: Site) -> Iterator[Effect]:
    """The master of a slave is killed and comes back, while the slave goes on."""
    with _slave_alone(site) as (_, (_, agent), effect):
        master = site.fleet.brokers[effect.target]
        address = site.fleet.hosts[effect.target].address
        site.wait_at_most(_TOLD_S, partial(_is_alone, agent), "a slave is told that it has no master")
        site.start(master)
        site.wait_at_most(
            LEASE_S, lambda: site.auditor.lease(effect.target) is not None, "its master is back"
        )
        told = "a slave is told of its master"
        promised = site.promised(told, _TOLD_S, lambda: agent.says("master_address") == address, agent)
        yield replace(effect, lasts_s=site.lasts(SHORT_S), details=promised)


@fault("processes", "store")
def slave_promoted(site: Site) -> Iterator[Effect]:
    """A slave that is alone is the master from now on: it begins anew, or its agent does beside it."""
    with _slave_alone(site) as (slave, programs, effect):
        program = site.rng.choice(programs)
        program.kill()
        with slave.conf.open("a") as conf:
            conf.write(_OF_A_MASTER)
        if not isinstance(program, AgentProcess):
            site.let_pass(BELIEVED_S, "its agent believes broker.conf, while a real broker starts")
        site.start(program)
        site.wait_at_most(LEASE_S, lambda: site.auditor.lease(effect.target) is not None, "it is the master")
        yield replace(effect, details={"promoted": slave.address})

"""A newcomer finds its name and id held by another address: whether it takes the broker over."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from sharedroutes.broker_agent.planner.events import (
    CallFailed,
    OwnerProbed,
    ProbeOwner,
    Register,
    RoleFound,
    TopicsLoaded,
)
from sharedroutes.broker_agent.planner.status import Phase
from sharedroutes.broker_agent.rocketmq.topics import TopicTable
from sharedroutes.registry import DataVersion, SeenLease, StaleEpoch
from sharedroutes.remoting.broker.owner import OwnerAnswer, probe_owner
from sharedroutes.remoting.broker.probing import BrokerUp
from tests.broker_agent.desk import (
    BROKER,
    HEARTBEAT_S,
    REGISTER,
    STAND_BY,
    START,
    Action,
    Desk,
    WakeAt,
    granted,
    refused,
)
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.broker_agent.stand_ins import ListeningBroker
from tests.ports import free_port

FORMER: Final = SeenLease(7, "10.0.0.2:10911", 1_000_000)
LOOK: Final = ProbeOwner(FORMER, BROKER.address)


def owned(lease: SeenLease, remaining_ms: int = 12_000) -> CallFailed:
    return refused(lease.address, remaining_ms, lease=lease)


class Newcomer(Desk):
    """A planner whose broker is up, and another address has its lease."""

    def find(self, answer: OwnerAnswer, lease: SeenLease = FORMER) -> Action | None:
        return self.send(OwnerProbed(lease, answer, f"{lease.address}: why"))


@pytest.fixture
def newcomer() -> Newcomer:
    return Newcomer(*START, owned(FORMER))


def test_a_newcomer_takes_over_the_lease_of_an_owner_that_does_not_answer(newcomer: Newcomer) -> None:
    assert newcomer.probes == [LOOK]
    register = newcomer.find(OwnerAnswer.NONE)
    assert register == replace(REGISTER, instead_of=FORMER)
    newcomer.send(granted(epoch=8))
    assert newcomer.phase() is Phase.SERVING
    assert newcomer.heard("10.0.0.2:10911 has the lease of this broker and is gone")


def test_a_newcomer_waits_for_an_owner_that_answers_and_says_so_once(newcomer: Newcomer) -> None:
    for looks in (2, 3, 4):
        newcomer.find(OwnerAnswer.SOME)
        assert newcomer.waited_s() > 0.5
        assert newcomer.wait() == REGISTER
        newcomer.send(owned(FORMER))
        assert len(newcomer.probes) == looks
    assert newcomer.phase() is Phase.STANDBY
    assert newcomer.heard("and keeps it: 10.0.0.2:10911: why") == 1


@pytest.mark.parametrize("answer", [OwnerAnswer.NO_WAY, OwnerAnswer.UNKNOWN, OwnerAnswer.SOME])
def test_what_does_not_show_that_the_owner_is_gone_takes_nothing_over(
    newcomer: Newcomer, answer: OwnerAnswer
) -> None:
    older = replace(FORMER, version=(0, 9, 0))
    newcomer.wait()
    newcomer.send(owned(older))
    newcomer.find(answer, older)
    assert newcomer.wait() == REGISTER


@pytest.mark.parametrize(
    ("version", "takes"), [((1, 0, 0), True), ((0, 0, 5), True), ((0, 1, 5), True), ((0, 0, 4), False)]
)
@pytest.mark.parametrize("answer", [OwnerAnswer.NO_WAY, OwnerAnswer.SOME])
def test_an_owner_to_whom_no_way_leads_is_gone_for_who_has_its_table_or_a_newer_one(
    version: tuple[int, int, int], answer: OwnerAnswer, *, takes: bool
) -> None:
    lease = replace(FORMER, version=(0, 5, 0))
    newcomer = Newcomer(BrokerUp(), TopicsLoaded(TopicTable({}, DataVersion(*version))), owned(lease))
    action = newcomer.find(answer, lease)
    assert isinstance(action, Register) is (takes and answer is OwnerAnswer.NO_WAY)


def test_an_owner_that_renews_its_lease_while_it_is_looked_at_is_not_gone(newcomer: Newcomer) -> None:
    renewed = replace(FORMER, ends_ms=FORMER.ends_ms + 5_000)
    newcomer.wait()
    newcomer.send(owned(renewed))
    newcomer.find(OwnerAnswer.NONE)
    began_s = newcomer.now
    while newcomer.probes == [LOOK]:  # nor for as long as its agent has a while to renew it again
        assert newcomer.wait() == REGISTER
        newcomer.send(owned(renewed))
    assert newcomer.now - began_s >= HEARTBEAT_S
    assert newcomer.find(OwnerAnswer.NONE, renewed) == replace(REGISTER, instead_of=renewed)


def test_a_take_over_that_comes_too_late_is_not_tried_again_with_the_same_lease(newcomer: Newcomer) -> None:
    newcomer.find(OwnerAnswer.NONE)
    newcomer.send(owned(replace(FORMER, epoch=9)))
    assert newcomer.waited_s() > 0.5
    assert newcomer.wait() == REGISTER


def test_a_refusal_that_crosses_the_look_is_followed_by_the_take_over(newcomer: Newcomer) -> None:
    newcomer.wait()
    assert newcomer.find(OwnerAnswer.NONE) is None  # a call is under way
    assert newcomer.send(owned(FORMER)) == replace(REGISTER, instead_of=FORMER)


def test_who_was_fenced_looks_at_nobody() -> None:
    desk = Newcomer(*START, granted())
    desk.wait()
    desk.send(refused(FORMER.address))
    other = replace(BROKER, address="10.0.0.5:1")
    desk.send(RoleFound(other), BrokerUp())
    assert desk.probes == []


def test_another_agent_beside_the_same_broker_is_not_looked_at() -> None:
    desk = Newcomer(*START, owned(replace(FORMER, address=BROKER.address)))
    assert desk.probes == []


async def looked(address: str, own: str) -> OwnerAnswer:
    found = await probe_owner(address, own)
    return found.answer


async def test_a_look_tells_who_answers_from_who_does_not() -> None:
    nobody = f"127.0.0.1:{free_port()}"
    async with SpeakingBroker() as own, SpeakingBroker() as broker:
        assert await looked(broker.address, own.address) is OwnerAnswer.SOME
        broker.late_s = 0.3  # busy
        assert await looked(broker.address, own.address) is OwnerAnswer.SOME
        broker.late_s = 0.0
        broker.hang()
        assert await looked(broker.address, own.address) is OwnerAnswer.NONE
        assert await looked(broker.address, nobody) is OwnerAnswer.UNKNOWN
        assert await looked("no-such-host.invalid:1", own.address) is OwnerAnswer.NO_WAY


async def test_silence_says_nothing_where_the_brokers_do_not_speak_the_protocol() -> None:
    async with ListeningBroker() as own, ListeningBroker() as former:
        assert await looked(former.address, own.address) is OwnerAnswer.UNKNOWN
        await former.die()
        assert await looked(former.address, own.address) is OwnerAnswer.NONE


OWN: Final = SeenLease(7, BROKER.address, 1_000_000)


@pytest.fixture
def standby() -> Newcomer:
    standby = Newcomer(*START, granted(epoch=6))
    standby.now += HEARTBEAT_S
    standby.send(BrokerUp(), CallFailed(StaleEpoch("broker-a", 0, 6, 7)))
    assert standby.wait() == STAND_BY
    return standby


def test_a_standby_takes_over_a_lease_that_its_agent_left_behind_before_it_ends(standby: Newcomer) -> None:
    for remaining_ms in (14_000, 9_000, 4_000):
        assert isinstance(standby.send(owned(OWN, remaining_ms)), WakeAt)
        assert standby.wait() == STAND_BY
    assert standby.send(owned(OWN, 3_700)) == replace(STAND_BY, instead_of=OWN)
    standby.send(granted(epoch=8))
    assert standby.phase() is Phase.SERVING
    assert standby.probes == []


def test_a_standby_leaves_a_lease_alone_that_was_renewed_meanwhile(standby: Newcomer) -> None:
    standby.send(owned(OWN, 3_700))
    standby.send(owned(replace(OWN, ends_ms=OWN.ends_ms + 11_300), 15_000))
    assert standby.wait() == STAND_BY


def test_a_standby_looks_in_time_where_leases_are_short(standby: Newcomer) -> None:
    standby.send(owned(OWN, 4_200))
    assert standby.waited_s() < 0.6

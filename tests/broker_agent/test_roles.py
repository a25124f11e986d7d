"""What a broker is: by a broker.conf that is rewritten, and by a broker whose role is elected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.broker_agent import AgentConfig, BrokerConf
from sharedroutes.broker_agent.planner.events import RoleFound, RoleUnknown
from sharedroutes.broker_agent.rocketmq.broker_conf import read, this_site
from sharedroutes.broker_agent.roles import role
from sharedroutes.broker_agent.roles.identity import ConfiguredRole, PermissionFound, RoleChanges, RoleEvent
from sharedroutes.broker_agent.roles.role import addresses, roles, running_settings
from sharedroutes.registry import Broker
from sharedroutes.remoting import RequestCode
from sharedroutes.remoting.broker.client import BrokerClient, BrokerUntrusted
from tests.broker_agent.data_files import put, remove, rewrite, rewrite_by_rename
from tests.broker_agent.follower import Told, following
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.support import await_until

OFTEN_S: Final = 0.05
MASTER: Final = Broker("broker-a", "10.0.0.7:10911", 0, "c1", "10.0.0.7:10912")
SLAVE: Final = replace(MASTER, broker_id=2)
CONF: Final = {
    "brokerName": "broker-a",
    "brokerClusterName": "c1",
    "brokerIP1": "10.0.0.7",
    "brokerIP2": "10.0.0.7",
}
SLAVE_CONF: Final = CONF | {"brokerRole": "SLAVE", "brokerId": "2"}


def text(settings: dict[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in settings.items()).encode()


def found_ids(told: list[RoleEvent]) -> list[int | None]:
    """Return the ids that were told, None for an unknown role."""
    return [
        one.broker.broker_id if isinstance(one, RoleFound) else None
        for one in told
        if isinstance(one, RoleFound | RoleUnknown)
    ]


def last_id(expected: int | None) -> Callable[[list[RoleEvent]], bool]:
    return lambda told: found_ids(told)[-1:] == [expected]


def permissions(told: list[RoleEvent]) -> list[int]:
    return [one.broker_permission for one in told if isinstance(one, PermissionFound)]


def kept(broker: Broker, broker_permission: int = 6) -> BrokerConf:
    return BrokerConf(broker=broker, topics_path=Path("topics.json"), broker_permission=broker_permission)


def test_only_what_has_changed_is_told() -> None:
    changes = RoleChanges(MASTER)
    assert changes.begin() == [RoleFound(MASTER)]
    assert changes.found(kept(MASTER), "conf") == [PermissionFound(6)]
    assert changes.found(kept(MASTER), "conf") == []
    assert changes.found(kept(MASTER, 4), "conf") == [PermissionFound(4)]
    assert changes.found(kept(SLAVE, 6), "conf") == [PermissionFound(6), RoleFound(SLAVE)]
    assert changes.unknown("why") == [RoleUnknown("why")]
    assert changes.unknown("why") == []
    assert changes.found(kept(SLAVE), "conf") == [RoleFound(SLAVE)]


@pytest.mark.parametrize("other", [replace(MASTER, broker_name="b"), replace(MASTER, cluster="c2")])
def test_another_broker_is_reported_once_and_not_followed(
    other: Broker, logs: pytest.LogCaptureFixture
) -> None:
    changes = RoleChanges(MASTER)
    changes.found(kept(MASTER), "conf")
    for _ in range(2):
        assert changes.found(kept(other, 4), "conf") == []
        (report,) = logs.messages
        assert report.startswith(f"conf: is about broker {other.broker_name!r} of cluster {other.cluster!r}")
    assert changes.found(kept(MASTER), "conf") == []
    assert logs.messages == [report, "conf: is in order again"]


def test_a_name_that_is_not_set_is_warned_of_once(logs: pytest.LogCaptureFixture) -> None:
    changes = RoleChanges(MASTER)
    unnamed = replace(kept(MASTER), named=False)
    changes.found(unnamed, "conf")
    assert changes.found(unnamed, "conf") == []
    assert logs.messages == [
        "conf: brokerName is not set, so that the broker is 'broker-a' after its host: set it"
    ]


def test_another_broker_by_a_name_that_is_not_set_is_warned_of_too(logs: pytest.LogCaptureFixture) -> None:
    changes = RoleChanges(MASTER)
    changes.found(replace(kept(replace(MASTER, broker_name="host-7")), named=False), "conf")
    assert [text[:20] for text in logs.messages] == ["conf: brokerName is ", "conf: is about broke"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    put(path, text(CONF))
    return path


def by_file(
    path: Path, *, recheck_s: float = OFTEN_S, **settings: Any
) -> AbstractAsyncContextManager[Told[RoleEvent]]:
    config = AgentConfig(
        broker=read(path, this_site(**settings)).broker,
        topics_path=Path("topics.json"),
        broker_conf_path=path,
        recheck_s=recheck_s,
        advertised=settings.get("advertised", ""),
        zone=settings.get("zone", ""),
        overrides=settings.get("overrides", {}),
    )
    return following(roles(config))


async def ticks_pass(told: Told[RoleEvent], count: int) -> None:
    since = told.ticks
    await await_until(lambda: told.ticks >= since + count, timeout_s=30.0, description="time passes")


@asynccontextmanager
async def holding(path: Path, **settings: Any) -> AsyncIterator[Told[RoleEvent]]:
    async with by_file(path, **settings) as told:
        await told.until(last_id(0), "the first role")
        yield told


async def test_without_a_file_to_follow_the_role_is_the_one_of_the_configuration() -> None:
    config = AgentConfig(broker=SLAVE, topics_path=Path("topics.json"))
    assert [event async for event in roles(config)] == [RoleFound(SLAVE)]


async def test_a_role_that_has_changed_since_is_told_and_the_old_one_is_not(path: Path) -> None:
    """As when an agent is told to look anew, long after it was started as the agent of a master."""
    put(path, text(SLAVE_CONF))
    config = AgentConfig(
        broker=MASTER, topics_path=Path("topics.json"), broker_conf_path=path, recheck_s=OFTEN_S
    )
    async with following(roles(config)) as told:
        await told.until(last_id(2), "the slave")
    assert found_ids(told.all) == [2]


@pytest.mark.parametrize("write", [rewrite, rewrite_by_rename])
async def test_a_master_that_becomes_a_slave_and_a_master_again_is_followed(
    path: Path, write: Callable[[Path, bytes], None]
) -> None:
    async with holding(path) as told:
        write(path, text(SLAVE_CONF))
        await told.until(last_id(2), "the slave")
        write(path, text(CONF))
        await told.until(last_id(0), "the master")
    assert [one for one in told.all if one != PermissionFound(6)] == [
        RoleFound(MASTER),
        RoleFound(SLAVE),
        RoleFound(MASTER),
    ]


async def test_another_address_and_another_permission_are_told(path: Path) -> None:
    async with holding(path) as told:
        rewrite(path, text(CONF | {"brokerPermission": "4", "listenPort": "20911", "haListenPort": "10912"}))
        moved = RoleFound(replace(MASTER, address="10.0.0.7:20911"))
        await told.until(lambda all_: all_[-1] == moved, "the other address")
    assert told.all[-2] == PermissionFound(4)


async def test_what_the_operator_has_set_goes_before_what_the_file_says_now(path: Path) -> None:
    given_ones = {"advertised": "broker.example:1", "zone": "z1", "overrides": {"brokerPermission": "2"}}
    async with holding(path, **given_ones) as told:
        rewrite(path, text(SLAVE_CONF | {"brokerPermission": "4", "listenPort": "1234", "haListenPort": "9"}))
        await told.until(last_id(2), "the slave")
    last = told.all[-1]
    assert isinstance(last, RoleFound)
    assert (last.broker.address, last.broker.zone_name) == ("broker.example:1", "z1")
    assert permissions(told.all) == [2]


async def test_half_a_file_is_not_taken_for_one_with_fewer_settings(path: Path) -> None:
    """The first half of this file is in order by itself, and says that the broker is a master."""
    whole = text(SLAVE_CONF)
    put(path, whole)
    async with by_file(path, recheck_s=2.0) as told:
        await told.until(last_id(2), "the slave")
        for _ in range(3):
            rewrite(path, whole[: whole.index(b"brokerRole")])
            await ticks_pass(told, 15)  # for the notification of the half; the next look is much later
            rewrite(path, whole)
            await ticks_pass(told, 15)
        rewrite(path, text(CONF))
        await told.until(last_id(0), "the master")
    assert found_ids(told.all) == [2, 0]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (CONF | {"listenPort": "x"}, "listenPort: 'x' is not a whole number"),
        (CONF | {"enableControllerMode": "true"}, "the role is elected now: restart the agent"),
        (CONF | {"brokerName": "broker-b"}, "is about broker 'broker-b' of cluster 'c1'"),
        (None, "cannot be read: No such file or directory"),
    ],
)
async def test_a_file_that_cannot_be_followed_is_reported_and_what_it_said_stays(
    path: Path, settings: dict[str, str] | None, problem: str
) -> None:
    async with holding(path) as told:
        if settings is None:
            remove(path)
        else:
            rewrite(path, text(settings))
        await told.until(lambda _: told.said(), "a report")
        rewrite(path, text(SLAVE_CONF))
        await told.until(last_id(2), "the mended file")
    report, mended = told.said()
    assert str(path) in report
    assert problem in report
    assert mended == f"{path}: is in order again"
    assert found_ids(told.all) == [0, 2]


@pytest.fixture(autouse=True)
def _elected_brokers_are_asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role, "_ELECTED_S", OFTEN_S)


class Elected(SpeakingBroker):
    """A broker in controller mode."""

    def __init__(self) -> None:
        super().__init__()
        self.become(-1)

    def become(self, broker_id: int) -> None:
        super().become(broker_id)
        told = CONF | {"enableSlaveActingMaster": "", "listenPort": "10911", "haListenPort": "10912"}
        self.settings = self.settings | told

    def events(self, **settings: Any) -> AbstractAsyncContextManager[Told[RoleEvent]]:
        config = AgentConfig(
            broker=MASTER,
            topics_path=Path("topics.json"),
            elected=True,
            probe=self.address,
            probe_deadline_s=0.5,
            **settings,
        )
        return following(roles(config))


async def test_a_broker_is_what_it_was_elected_to_be() -> None:
    async with Elected() as broker, broker.events() as told:
        await told.until(last_id(None), "no role")
        for broker_id in (2, 0, 3, -1, 0):
            broker.become(broker_id)
            await told.until(last_id(None if broker_id < 0 else broker_id), f"id {broker_id}")
    assert found_ids(told.all) == [None, 2, 0, 3, None, 0]
    assert [one.broker for one in told.all if isinstance(one, RoleFound)][1] == MASTER
    assert told.all[0] == RoleUnknown(f"{broker.address}: it has no role yet, or is changing it")


async def test_another_permission_of_a_running_broker_is_told() -> None:
    async with Elected() as broker, broker.events() as told:
        broker.become(0)
        await told.until(last_id(0), "the master")
        broker.settings = broker.settings | {"brokerPermission": "4"}
        await told.until(lambda all_: permissions(all_) == [6, 4], "the permission")


async def test_where_an_elected_broker_listens_is_told_when_its_file_says_another_place(path: Path) -> None:
    config = AgentConfig(broker=read(path).broker, broker_conf_path=path, elected=True, recheck_s=OFTEN_S)
    async with following(addresses(config)) as told:
        rewrite(path, text(CONF | {"listenPort": "20911"}))
        await told.until(lambda all_: all_ == ["10.0.0.7:20911"], "the other address")
        rewrite(path, b"listenPort=x")
        rewrite(path, text(CONF | {"listenPort": "20911", "brokerRole": "SLAVE", "brokerId": "3"}))
        rewrite(path, text(CONF))
        await told.until(lambda all_: all_[-1] == "10.0.0.7:10911", "the first address again")
    assert told.all == ["10.0.0.7:20911", "10.0.0.7:10911"]


async def test_nothing_is_told_of_the_address_of_a_broker_whose_role_is_configured(path: Path) -> None:
    """Its role says the address, too."""
    config = AgentConfig(broker=replace(MASTER, address="10.0.0.7:1"), broker_conf_path=path)
    assert [one async for one in addresses(config)] == []


async def test_a_broker_that_dies_has_no_role_and_gets_one_when_it_is_back() -> None:
    broker = Elected()
    broker.become(0)
    async with broker.events() as told:
        await told.until(last_id(None), "nobody there")
        await broker.start()
        await told.until(last_id(0), "the master")
        await broker.die()
        await told.until(last_id(None), "it has died")
        broker.become(2)
        await broker.start()
        await told.until(last_id(2), "the slave")
        await broker.die()
    assert found_ids(told.all)[:4] == [None, 0, None, 2]


def unknown(told: Told[RoleEvent]) -> list[RoleUnknown]:
    return [one for one in told.all if isinstance(one, RoleUnknown)]


async def test_a_lost_connection_takes_no_role_away() -> None:
    async with Elected() as broker:
        broker.become(0)
        async with broker.events() as told:
            await told.until(last_id(0), "the master")
            for _ in range(3):
                broker.hang_up()
                await broker.asked_again()
    assert told.all == [PermissionFound(6), RoleFound(MASTER)]


async def test_a_broker_that_hangs_has_no_role_after_some_attempts() -> None:
    async with Elected() as broker:
        broker.become(0)
        async with broker.events() as told:
            await told.until(last_id(0), "the master")
            broker.hang()
            await told.until(last_id(None), "no role")
            assert broker.asked[RequestCode.GET_BROKER_CONFIG] >= 3
            broker.wake()
            await told.until(last_id(0), "the master again")
    assert "no answer to GET_BROKER_CONFIG within 0.5 s" in unknown(told)[0].why


async def test_another_broker_at_the_address_has_no_role_here_and_is_reported() -> None:
    async with Elected() as broker:
        broker.become(0)
        async with broker.events() as told:
            await told.until(last_id(0), "the master")
            broker.settings = broker.settings | {"brokerName": "broker-b"}
            await told.until(last_id(None), "no role")
    assert "is about broker 'broker-b' of cluster 'c1'" in told.said()[0]


async def test_settings_of_a_running_broker_that_are_wrong_are_reported_once() -> None:
    async with Elected() as broker:
        broker.become(0)
        broker.settings = broker.settings | {"brokerPermission": "x"}
        async with broker.events() as told:
            await told.until(last_id(None), "no role")
            broker.settings = broker.settings | {"brokerPermission": "6"}
            await told.until(last_id(0), "the master")
    report, mended = told.said()
    assert "brokerPermission: 'x' is not a whole number" in report
    assert mended == f"{broker.address}: is in order again"


def test_a_broker_conf_that_is_wrong_is_a_problem_until_it_is_right_again() -> None:
    path = Path("/etc/broker.conf")
    known = ConfiguredRole(AgentConfig(broker=MASTER, broker_conf_path=path, topics_path=path))
    for content, problem in (
        (text(CONF), ""),
        (text(CONF | {"listenPort": "x"}), "listenPort"),
        (text(CONF), ""),
    ):
        known.read(content, path)
        assert problem in known.changes.problem
        assert bool(problem) == bool(known.changes.problem)


async def test_who_cannot_be_connected_is_tried_once_each_time_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = 0

    async def connect(*_: Any, **__: Any) -> None:
        nonlocal tries
        tries += 1
        assert tries < 9, "it is tried without a pause, and nothing else runs"
        raise BrokerUntrusted("10.0.0.7:10911: broker_tls_ca: cannot be read", closed=True)

    monkeypatch.setattr(BrokerClient, "connect", connect)
    again = asyncio.Event()
    config = AgentConfig(broker=MASTER, broker_conf_path=Path("/etc/broker.conf"))
    asking = asyncio.ensure_future(anext(running_settings(config, again)))
    for expected in (1, 2, 3):
        again.set()
        await asyncio.sleep(0.05)
        assert tries == expected
        assert not asking.done()
    asking.cancel()

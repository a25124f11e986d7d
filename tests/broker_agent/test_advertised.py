"""Addresses at which clients cannot reach a broker that lives."""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import pytest

from sharedroutes.broker_agent.roles.advertised import findings, is_remote, suspicion
from sharedroutes.remoting.broker.client import BrokerClient
from tests.broker_agent.follower import Told, following
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.broker_agent.stand_ins import deaf_port
from tests.support import await_until

REMOTE: Final = "redis://store.example:6379/0"
LOCAL: Final = "redis://127.0.0.1:6379/0"
ADVICE: Final = "set brokerIP1 in broker.conf, or --broker-address, to an address at which clients reach it"


def looking(address: str, probe: str, **settings: Any) -> AbstractAsyncContextManager[Told[str | None]]:
    return following(findings(address, probe, **({"every_s": 0.01, "deadline_s": 5.0} | settings)))


async def looked(broker: SpeakingBroker, times: int = 3) -> None:
    """Wait until the broker was looked for some times more."""
    before = broker.accepted
    await await_until(lambda: broker.accepted >= before + times, description="looked again")


async def test_an_address_at_which_the_broker_is_not_is_found_and_what_to_do_is_said() -> None:
    async with SpeakingBroker() as broker:
        told = f"127.0.0.2:{broker.port}"
        async with looking(told, broker.address) as found:
            assert await found.count(1) == (
                f"{told}: Connection refused; clients are told this address, and the broker is reached at "
                f"{broker.address}: {ADVICE}"
            )


async def test_a_broker_that_listens_at_the_loopback_interface_alone_is_found_there() -> None:
    async with SpeakingBroker() as broker:
        told = f"127.0.0.2:{broker.port}"
        async with looking(told, told) as found:
            assert await found.count(1) == (
                f"{told}: Connection refused; clients are told this address, and the broker is reached at "
                f"{broker.address}: {ADVICE}; or --probe {broker.address}"
            )


async def test_a_broker_that_is_nowhere_says_nothing_about_its_address() -> None:
    async with SpeakingBroker("127.0.0.2") as broker:
        await broker.die()
        async with looking(broker.address, broker.address) as found:
            await asyncio.sleep(0.05)  # some looks, of which none finds anything
            assert found.all == []
            await broker.start()
            assert await found.count(1) is None


async def test_nothing_is_wrong_with_an_address_that_accepts_connections() -> None:
    async with SpeakingBroker() as broker, SpeakingBroker("127.0.0.2", broker.port) as other:
        async with looking(other.address, broker.address) as found:
            assert await found.count(1) is None
            await looked(other)
        assert found.all == [None]


async def test_a_broker_that_starts_while_it_is_looked_for_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = BrokerClient.connect
    async with SpeakingBroker() as broker, SpeakingBroker("127.0.0.2", broker.port) as told:
        await told.die()

        async def started_meanwhile(host: str, port: int, *, deadline_s: float) -> BrokerClient:
            client = await connect(host, port, deadline_s=deadline_s)
            if host == broker.host:
                await told.start()
            return client

        monkeypatch.setattr(BrokerClient, "connect", started_meanwhile)
        async with looking(told.address, broker.address) as found:
            assert await found.count(1) is None


async def test_an_address_that_begins_to_work_is_right_from_then_on() -> None:
    async with SpeakingBroker() as broker:
        other = SpeakingBroker("127.0.0.2", broker.port)
        async with looking(other.address, broker.address) as found:
            await found.count(1)
            async with other:
                assert await found.count(2) is None
            assert "Connection refused" in (await found.count(3) or "")


async def test_a_finding_is_told_once() -> None:
    async with SpeakingBroker() as broker:
        async with looking(f"127.0.0.2:{broker.port}", broker.address) as found:
            await found.count(1)
            await looked(broker)
        assert len(found.all) == 1


async def test_while_the_broker_does_not_run_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    connect = BrokerClient.connect

    async def counted(*where: Any, deadline_s: float) -> BrokerClient:
        nonlocal tries
        tries += 1
        return await connect(*where, deadline_s=deadline_s)

    monkeypatch.setattr(BrokerClient, "connect", counted)
    broker = SpeakingBroker()
    async with looking(f"127.0.0.2:{broker.port}", broker.address) as found:
        await await_until(lambda: tries >= 8, description="looked some times")
        assert found.all == []
        async with broker:
            await found.count(1)
        tried = tries
        await await_until(lambda: tries >= tried + 8, description="looked some times more")
        assert len(found.all) == 1


async def test_an_address_that_does_not_answer_is_found() -> None:
    async with (
        SpeakingBroker() as broker,
        deaf_port("127.0.0.2") as port,
        looking(f"127.0.0.2:{port}", broker.address, deadline_s=0.1) as found,
    ):
        assert "no connection within 0.1 s" in (await found.count(1) or "")


@pytest.mark.parametrize("address", ["-nobody-:10911", "no..host:10911"])
async def test_a_name_that_leads_nowhere_is_found(address: str) -> None:
    async with SpeakingBroker() as broker, looking(address, broker.address) as found:
        assert (await found.count(1) or "").startswith(f"{address}: ")


async def test_an_odd_address_is_found_without_the_broker() -> None:
    async with looking("0.0.0.0:10911", "0.0.0.0:10911") as found:
        assert "every address of a host and none" in (await found.count(1) or "")


async def test_a_name_of_this_host_alone_is_odd_where_the_store_is_elsewhere() -> None:
    async with looking("localhost:10911", "localhost:10911", store_url=REMOTE) as found:
        assert "on their own" in (await found.count(1) or "")
    async with SpeakingBroker() as broker:
        address = f"localhost:{broker.port}"
        async with looking(address, address, store_url=LOCAL) as found:
            assert await found.count(1) is None


@pytest.mark.parametrize(
    ("ip", "remote", "said"),
    [
        ("0.0.0.0", False, "every address of a host and none"),  # noqa: S104 - it is refused
        ("::", False, "every address of a host and none"),
        ("169.254.7.7", False, "link-local"),
        ("fe80::1", False, "link-local"),
        ("127.0.0.1", True, "would look for the broker on their own"),
        ("::1", True, "would look for the broker on their own"),
        ("127.0.0.1", False, None),
        ("10.0.0.5", True, None),
        ("192.0.2.1", True, None),
        ("2001:db8::1", True, None),
    ],
)
def test_addresses_that_no_other_host_can_reach_are_odd(ip: str, remote: bool, said: str | None) -> None:  # noqa: FBT001
    odd = suspicion("broker:10911", [ipaddress.ip_address(ip)], store_is_remote=remote)
    if said is None:
        assert odd is None
    else:
        assert odd is not None
        assert odd.startswith("broker:10911: ")
        assert said in odd
        assert odd.endswith(ADVICE)


def test_a_name_with_one_address_that_can_be_reached_is_in_order() -> None:
    ips = [ipaddress.ip_address(ip) for ip in ("127.0.1.1", "10.0.0.5")]
    assert suspicion("broker:10911", ips, store_is_remote=True) is None


def test_a_name_without_an_address_is_no_suspicion() -> None:
    assert suspicion("broker:10911", [], store_is_remote=True) is None


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        (LOCAL, False),
        ("redis://localhost/0", False),
        ("redis://[::1]:6379/0", False),
        ("unix:///run/redis.sock", False),
        (REMOTE, True),
        ("redis+cluster://127.0.0.1:7000,10.0.0.1:7000", True),
        ("redis+sentinel://127.0.0.1:26379/main", False),
    ],
)
def test_a_store_is_remote_when_one_of_its_servers_is(url: str, remote: bool) -> None:  # noqa: FBT001
    assert is_remote(url) is remote

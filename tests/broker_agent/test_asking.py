"""How often a running broker is asked for its settings when it cannot be reached."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharedroutes.broker_agent import AgentConfig
from sharedroutes.broker_agent.rocketmq.broker_client import BrokerClient, BrokerUntrusted
from sharedroutes.broker_agent.roles.runtime_config import answers
from sharedroutes.registry import Broker

CONFIG = AgentConfig(broker=Broker("broker-a", "127.0.0.1:10911"), redis_url="redis://127.0.0.1:1/0")


async def test_who_cannot_be_connected_is_tried_once_each_time_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = 0

    async def connect(*_: Any, **__: Any) -> None:
        nonlocal tries
        tries += 1
        assert tries < 9, "it is tried without a pause, and nothing else runs"
        raise BrokerUntrusted("127.0.0.1:10911: broker_tls_ca: cannot be read", closed=True)

    monkeypatch.setattr(BrokerClient, "connect", connect)
    again = asyncio.Event()
    asking = asyncio.ensure_future(anext(answers(CONFIG, again)))
    for expected in (1, 2, 3):
        again.set()
        await asyncio.sleep(0.05)
        assert tries == expected
        assert not asking.done()
    asking.cancel()

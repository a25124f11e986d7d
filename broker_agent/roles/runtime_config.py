"""Asks a running broker now and then for its settings, over a connection on which nothing else depends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from ...registry.checks import split_address
from ..config import AgentConfig
from ..rocketmq.access import Access
from ..rocketmq.broker_client import BrokerCallError, BrokerClient, BrokerRefused, configuration

_ASK_S: Final = 10.0
_RECONNECT_S: Final = 1.0
_MOST_S: Final = 320.0
"""A broker that does not answer, or does not want to, is asked ever less often, and so seldom at last."""


async def answers(
    config: AgentConfig, again: asyncio.Event, access: Access | None = None
) -> AsyncGenerator[bytes | None, None]:
    """Yield the settings that the broker runs with when they have changed; None = it says nothing any more.

    It is asked at first, every 10 s, when `again` is set, and when the connection was closed. Who does not
    answer, and who does not speak the protocol, is left alone ever longer, without a word.
    """
    host, port = split_address(config.probe_address)
    known: bytes | None = None
    wait_s = _ASK_S
    while True:
        again.clear()  # also for who cannot be reached: else it would be tried without a pause
        try:
            connecting = BrokerClient.connect(host, port, deadline_s=config.probe_deadline_s, access=access)
            async with await connecting as client:
                while True:
                    again.clear()
                    text = await configuration(client, config.probe_deadline_s)
                    wait_s = _ASK_S
                    if text != known:
                        known = text
                        yield text
                    if await _closed(client, again):
                        break
            await _until(again, _RECONNECT_S)
        except BrokerCallError as error:
            if known is not None:
                known = None
                yield None
            if isinstance(error, BrokerRefused):
                wait_s = _MOST_S
            await _until(again, wait_s)
            wait_s = min(wait_s * 2, _MOST_S)


async def _closed(client: BrokerClient, again: asyncio.Event) -> bool:
    """Wait until it is time to ask; return whether that needs another connection."""
    waits = [asyncio.create_task(client.closed()), asyncio.create_task(_until(again, _ASK_S))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        return waits[0].done()
    finally:
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _until(again: asyncio.Event, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            await again.wait()
    except TimeoutError:
        pass

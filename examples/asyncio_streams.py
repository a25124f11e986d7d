"""A sender over asyncio streams; the protocol is a line out, and a code and a remark back."""

from __future__ import annotations

import asyncio

from sharedroutes.client import AsyncRouteClient, BrokerRefused, MessageQueue, RetryPolicy

POLICY = RetryPolicy(deadline_s=3.0)


async def send(routes: AsyncRouteClient, topic: str, message: str) -> str:
    """Return the answer of a broker; raises AttemptsFailed, and NoRoute if no broker holds the topic."""
    async for attempt in routes.attempts(topic, policy=POLICY):
        async with attempt as queue:  # ends the block when its time is up
            return await exchange(queue, message)
    raise AssertionError("not reached: the loop ends with an answer or an error")


async def exchange(queue: MessageQueue, message: str) -> str:
    """Send to one broker; raises OSError, EOFError and BrokerRefused, which the policy judges."""
    reader, writer = await asyncio.open_connection(queue.host, queue.port)
    try:
        writer.write(f"{queue.topic} {queue.queue_id} {message}\n".encode())
        await writer.drain()
        code, _, remark = (await reader.readuntil(b"\n")).decode().strip().partition(" ")
    finally:
        writer.close()
    if code != "0":
        raise BrokerRefused(int(code), remark)
    return remark

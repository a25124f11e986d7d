"""Watches whether a broker lives: keeps a TCP connection to its port open, and sends requests if wanted."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from .. import RequestCode, request
from .client import Access, BrokerCallError, BrokerClient, BrokerTimeout, BrokerUnreachable, BrokerUntrusted
from .probing import Probing, Verdict

_LOG: Final = logging.getLogger("sharedroutes.remoting")
_RETRY_S: Final = (0.1, 0.2)
_SHORT_S: Final = 1.0
"""A connection that ends sooner was not closed for being idle: the next one waits a moment."""

_FIRST_MOMENT_S: Final = 0.001
"""Short, because every other process that is dying takes one more connection before it refuses them."""

_MOST_DOUBLINGS: Final = 8

QUESTION: Final = request(
    RequestCode.HEART_BEAT, body=b'{"clientID":"sharedroutes","consumerDataSet":[],"producerDataSet":[]}'
)
"""A client's heartbeat without groups: every release answers it, from threads that serve clients, and it
leaves nothing behind. GET_MAX_OFFSET, RocketMQ's own probe, needs a topic and can make queues of it."""


async def verdicts(
    host: str,
    port: int,
    probing: Probing,
    *,
    deadline_s: float,
    rng: random.Random,
    access: Access | None = None,
) -> AsyncGenerator[Verdict, None]:
    """Yield whether the broker lives: the first finding, then every change of it, as `probing` judges.

    Brokers close idle connections, so the end of one means nothing: it is opened anew at once. One that is
    refused means that the broker is gone; so do several in a row that fail otherwise or take more than
    `deadline_s` seconds. If its rules say so, the broker is asked something cheap besides: several requests
    in a row without an answer mean that it is gone, several with one that it is back.
    """
    clock = asyncio.get_running_loop().time
    short_ones = 0
    while True:
        try:
            client = await BrokerClient.connect(host, port, deadline_s=deadline_s, access=access)
        except BrokerCallError as error:
            if (verdict := _not_connected(probing, error)) is not None:
                yield verdict
            tls_s = _SHORT_S if isinstance(error, BrokerUntrusted) else 0.0  # a handshake costs both sides
            await asyncio.sleep(tls_s + rng.uniform(*_RETRY_S))
            continue
        began_s = clock()
        async with client, aclosing(_while_connected(client, probing)) as found:
            async for verdict in found:
                yield verdict
        short_ones = short_ones + 1 if clock() - began_s < _SHORT_S else 0
        if short_ones:
            doublings = min(short_ones - 1, _MOST_DOUBLINGS)
            await asyncio.sleep(_FIRST_MOMENT_S * 2**doublings * rng.uniform(0.5, 1))


def _not_connected(probing: Probing, error: BrokerCallError) -> Verdict | None:
    if isinstance(error, BrokerUntrusted):
        now_s = asyncio.get_running_loop().time()
        return probing.untrusted(str(error), now_s, closed=error.closed)
    refused = isinstance(error, BrokerUnreachable) and error.refused
    return probing.not_connected(str(error), refused=refused)


async def _while_connected(client: BrokerClient, probing: Probing) -> AsyncGenerator[Verdict, None]:
    """Yield the verdicts of one connection, until it ends or another one is needed."""
    verdict, goes_on = probing.connected(), True
    while goes_on:
        if verdict is not None:
            yield verdict
        verdict, goes_on = await _next_verdict(client, probing)
    if verdict is not None:
        client.abort()
        yield verdict


async def _next_verdict(client: BrokerClient, probing: Probing) -> tuple[Verdict | None, bool]:
    """Send a request when it is time; return the verdict if it changes, and whether the connection stays."""
    clock = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout_at(probing.ask_at_s):
            await client.closed()
            return None, False
    except TimeoutError:
        probing.asked(clock())
    try:
        await client.invoke(QUESTION, deadline_s=probing.patience_s)
    except BrokerUntrusted as error:
        return probing.untrusted(str(error), clock(), closed=error.closed), False
    except BrokerCallError as error:
        was_mute, verdict = probing.is_mute, probing.unanswered(str(error))
        if probing.is_mute and not was_mute:
            _LOG.info("%s: only its connection is watched; %s: %s", client.address, probing.asks, error)
        # After the verdict a new connection: if only the old one was lost, the next request is answered.
        return verdict, isinstance(error, BrokerTimeout) and probing.alive is not False
    return probing.answered(clock()), True

"""Tells whether a broker lives by keeping a TCP connection to its listen port open."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from .events import BrokerGone, BrokerUp

__all__ = ["verdicts"]

_RETRY_S: Final = (0.1, 0.2)
_SHORT_S: Final = 1.0
"""A connection that ends sooner was not closed for being idle: the next one waits a moment."""

_FIRST_MOMENT_S: Final = 0.01
"""Short, because a process that is dying may take one more connection before it refuses them."""

_MOST_DOUBLINGS: Final = 5

_READ_BYTES: Final = 4096


async def verdicts(
    host: str, port: int, *, deadline_s: float, attempts: int, rng: random.Random
) -> AsyncGenerator[BrokerUp | BrokerGone, None]:
    """Yield whether the broker lives: the first finding, then every change of it.

    Brokers close idle connections, so the end of one means nothing: it is opened anew at once. One that is
    refused means that the broker is gone; so do `attempts` in a row that fail in another way or are not made
    within `deadline_s` seconds.
    """
    alive: bool | None = None
    failures = short_ones = 0
    while True:
        try:
            reader, writer = await _connect(host, port, deadline_s)
        except OSError as error:
            failures += 1
            if alive is not False and (isinstance(error, ConnectionRefusedError) or failures >= attempts):
                alive = False
                yield BrokerGone(f"{host}:{port}: {str(error) or type(error).__name__}")
            await asyncio.sleep(rng.uniform(*_RETRY_S))
            continue
        failures = 0
        if not alive:
            alive = True
            yield BrokerUp()
        if await _seconds_open(reader, writer) >= _SHORT_S:
            short_ones = 0
            continue
        await asyncio.sleep(_FIRST_MOMENT_S * 2 ** min(short_ones, _MOST_DOUBLINGS) * rng.uniform(0.5, 1))
        short_ones += 1


async def _connect(
    host: str, port: int, deadline_s: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(deadline_s):
        reader, writer = await asyncio.open_connection(host, port)
    # A TCP socket whose own port was chosen to be the one it calls is connected to itself.
    if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
        writer.transport.abort()
        raise ConnectionRefusedError("nobody listens")
    return reader, writer


async def _seconds_open(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    """Wait until the broker closes the connection; return how long that took."""
    clock = asyncio.get_running_loop().time
    began_s = clock()
    try:
        with suppress(OSError):
            while await reader.read(_READ_BYTES):
                pass
    finally:
        writer.transport.abort()
    return clock() - began_s

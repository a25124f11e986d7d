"""Something that listens where the brokers of drawn sequences say they are, and answers whoever asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sharedroutes.remoting import FrameError, FrameReader, encode, response_to


@contextmanager
def answering() -> Iterator[int]:
    """Answer every request on one port of every loopback address with code 3; yield the port."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(_serve, "0.0.0.0", 0))  # noqa: S104 - all of 127.*
    thread = threading.Thread(target=loop.run_forever, name="stand-in", daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    frames = FrameReader()
    with suppress(OSError, FrameError, asyncio.CancelledError):
        while data := await reader.read(1 << 16):
            for command in frames.feed(data):
                if not command.is_oneway:
                    writer.write(encode(response_to(command, 3, remark="of a test")))
            await writer.drain()
    writer.close()

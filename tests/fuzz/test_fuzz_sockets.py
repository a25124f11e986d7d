"""Mutated frames over real sockets, on both event loops."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

import pytest

from sharedroutes.remoting import FrameReader
from tests.fuzz.mutations import rounds
from tests.fuzz.named import Named
from tests.nameserver.server.rig import Caller, both_loops, serving
from tests.support import await_until

__all__ = ["both_loops"]

SEED: Final = 11_222_026


async def answers_to(port: int, data: bytes) -> None:
    """Send an input over a connection of its own, and check all that comes back."""
    with suppress(ConnectionError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            with suppress(OSError):  # closed already
                writer.write_eof()
            frames = FrameReader()
            async with asyncio.timeout(30.0):
                while received := await reader.read(65_536):
                    answers = frames.feed(received)
                    assert all(answer.is_response for answer in answers)
                    assert len({(answer.remark or "").rpartition(" ")[2] for answer in answers}) <= 1
            assert frames.pending_bytes == 0
        finally:
            writer.transport.abort()


@pytest.mark.parametrize(
    "count", [300, pytest.param(5_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
async def test_mutated_frames_harm_nobody_over_sockets(count: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "sharedroutes")
    async with serving(Named()) as front, Caller.of(front.port) as witness:
        first = await witness.asks()
        for round_, inputs in enumerate(rounds(SEED, count)):
            await asyncio.gather(*(answers_to(front.port, data) for data in inputs))
            answer = await witness.asks(round_)
            assert (answer.opaque, answer.remark) == (round_, first.remark)
        counters = front.counters
        assert (counters.accepted, counters.in_flight) == (count + 1, 0)
        assert sum(counters.requests.values()) > count // 10
        assert counters.decode_errors > count // 10
        await await_until(lambda: counters.connections == 1, description="the others are gone")

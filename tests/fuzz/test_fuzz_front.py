"""Mutated frames to a front on a real Redis: no error, no end, no growth, and nobody else notices."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

import pytest

from sharedroutes.nameserver import registrar
from sharedroutes.nameserver.front import Front
from sharedroutes.nameserver.server.limits import Limits
from sharedroutes.nameserver.server.peer_connection import ConnectionContext
from sharedroutes.registry import EmbeddedServer
from sharedroutes.remoting import FrameError, FrameReader, RemotingCommand, RequestCode, ResponseCode
from sharedroutes.remoting.broker.owner import OwnerAnswer, OwnerFound
from tests.fuzz.mutations import TOGETHER, resident_bytes, rounds
from tests.nameserver.rig import BrokerPeer, running
from tests.nameserver.server.rig import Peer
from tests.support import await_until

SEED: Final = 22_112_026
LONGEST_S: Final = 30.0
"""For a few inputs together on a busy machine: they take milliseconds."""

_BEATS: Final = 100
"""The witness registers again after so many rounds: its lease lasts two minutes."""

MOST_GROWTH: Final = 32 * 2**20


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect to no address that stands in a frame: a mutated one may be anybody's."""

    async def unknown(*_: str) -> OwnerFound:
        return OwnerFound(OwnerAnswer.UNKNOWN, "nobody is asked")

    monkeypatch.setattr(registrar, "probe_owner", unknown)


def asked_in(data: bytes) -> Counter[int]:
    """Return the opaques of the requests in an input, as a front reads them."""
    reader = FrameReader()
    try:
        frames = reader.feed(data)
    except FrameError:
        frames = reader.before
    return Counter(frame.opaque for frame in frames if not frame.is_response and not frame.is_oneway)


async def settled(context: ConnectionContext) -> None:
    """Wait until nothing is in flight."""
    async with asyncio.timeout(LONGEST_S):
        while tasks := context.dispatcher.tasks:
            await asyncio.gather(*tasks)


class Witness(Peer):
    """A broker whose names stand in no frame of the corpus, and that asks for its own route."""

    def __init__(self, context: ConnectionContext) -> None:
        super().__init__(context, "10.0.0.2")
        self._context = context

    async def registers(self) -> None:
        broker = BrokerPeer("witness", "127.0.0.1:1")
        broker.topics = {"witness": broker.topics["orders"] | {"topicName": "witness"}}
        answer = await self._answer(RequestCode.REGISTER_BROKER, broker.fields, broker.body())
        assert answer.code == ResponseCode.SUCCESS

    async def route(self) -> bytes:
        """Return the body of the answer, empty where there is no route."""
        return (await self._answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "witness"})).body

    async def _answer(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> RemotingCommand:
        self.asks(4_711, code=code, ext_fields=fields, body=body)
        await settled(self._context)
        (answer,) = self.got()
        assert answer.opaque == 4_711
        return answer


async def fuzzed(front: Front, count: int) -> Counter[int]:
    """Send mutated frames to a front, each over a connection of its own; return the codes of the answers."""
    context = ConnectionContext(front, Limits(), time.monotonic, quick=front)
    witness, codes, before = Witness(context), Counter[int](), 0
    await witness.registers()
    first = await await_until(witness.route, description="the witness has a route")
    for number, inputs in enumerate(rounds(SEED, count), 1):
        peers = [Peer(context) for _ in inputs]
        for peer, data in zip(peers, inputs, strict=True):
            peer.sends(data)
        await settled(context)
        for peer, data in zip(peers, inputs, strict=True):
            answers = peer.got()
            assert Counter(answer.opaque for answer in answers) <= asked_in(data)
            codes.update(answer.code for answer in answers)
            peer.leaves()
        if number % _BEATS == 0:
            await witness.registers()
        assert await witness.route() == first
        if number == count // TOGETHER // 2:
            gc.collect()
            before = resident_bytes()
    gc.collect()
    assert resident_bytes() - before < MOST_GROWTH
    counters = context.counters
    assert (counters.connections, counters.in_flight, counters.failures) == (1, 0, 0)
    return codes


@pytest.mark.parametrize(
    "count", [4_000, pytest.param(200_000, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])]
)
async def test_mutated_frames_harm_no_front(
    count: int, own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "sharedroutes")
    async with running(own_server.url, hang_check="0") as front:
        codes = await fuzzed(front, count)
        assert codes[ResponseCode.SUCCESS] > count // 20
        assert front.status().failure == ""

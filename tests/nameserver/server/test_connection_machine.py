"""Connections through any sequence of requests, waits, limits and ends: nothing is lost or told twice."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from sharedroutes.remoting import RemotingCommand, encode, request
from tests.nameserver.server.rig import ROUTE, Answer, Answers, Later, Peer, Stage, answered
from tests.support import examples

LATER = 104
LARGE = 40_000


class Connections(RuleBasedStateMachine):
    """Peers of one server with little room: what each asks is noted, and what it has got."""

    peers = Bundle("peers")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.later = Later()
        self.stage = Stage(
            Answers(self.answer),
            in_flight=6,
            in_flight_per_connection=3,
            frame_bytes=2 * LARGE,
            large_frame_bytes=1_000,
            large_frames_bytes=2 * LARGE,
            large_frames_waiting=2,
            unread_bytes=2_000,
            unread_bytes_in_all=20_000,
        )
        self.opaque = 0
        self.all: list[Peer] = []
        self.rest: dict[Peer, bytes] = {}
        self.asked: dict[int, Peer] = {}
        self.got: list[int] = []
        self.drained = False

    def answer(self, asked: RemotingCommand) -> Answer:
        return self.later(asked) if asked.code == LATER else answered(asked, bytes(500))

    def waiting(self) -> list[int]:
        """Return which requests wait for the store: those that found it busy do not."""
        return sorted(opaque for opaque, answer in self.later.waiting.items() if not answer.done())

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        self.runner.run(work)

    def brings(self, peer: Peer, data: bytes) -> None:
        """Bring bytes if the server reads, as its event loop would."""

        async def work() -> None:
            if not peer.transport.is_paused and not peer.transport.is_closed:
                peer.sends(data)
                await asyncio.sleep(0)

        self.run(work())

    def frame(self, peer: Peer, *, code: int, size: int = 0) -> bytes:
        self.opaque += 1
        self.asked[self.opaque] = peer
        return encode(request(code, opaque=self.opaque, body=bytes(size)))

    @rule(target=peers)
    def connects(self) -> Peer:
        peer = self.stage.peer()
        self.all.append(peer)
        return peer

    @rule(peer=peers, codes=st.lists(st.sampled_from((ROUTE, LATER)), min_size=1, max_size=6))
    def asks(self, peer: Peer, codes: list[int]) -> None:
        if peer not in self.rest:
            self.brings(peer, b"".join(self.frame(peer, code=code) for code in codes))

    @rule(peer=peers, code=st.sampled_from((ROUTE, LATER)), first=st.integers(1, LARGE))
    def begins_a_large_frame(self, peer: Peer, code: int, first: int) -> None:
        if peer not in self.rest and not peer.transport.is_paused:
            data = self.frame(peer, code=code, size=LARGE)
            self.rest[peer] = data[first:]
            self.brings(peer, data[:first])

    @rule(peer=peers, more=st.integers(1, LARGE))
    def sends_more_of_it(self, peer: Peer, more: int) -> None:
        if peer in self.rest and not peer.transport.is_paused:
            data = self.rest.pop(peer)
            self.brings(peer, data[:more])
            if data[more:]:
                self.rest[peer] = data[more:]

    @rule(peer=peers)
    def sends_what_is_no_frame(self, peer: Peer) -> None:
        if peer not in self.rest:
            self.brings(peer, b"\0\0\0\0")

    @rule(number=st.integers(0, 20))
    def the_store_answers(self, number: int) -> None:
        if opaques := self.waiting():
            self.run(self.later.give(opaques[number % len(opaques)]))

    @rule(peer=peers, takes=st.booleans())
    def takes_its_answers_or_not(self, peer: Peer, *, takes: bool) -> None:
        async def work() -> None:
            peer.transport.takes = takes
            if takes:
                peer.transport.take()

        if not peer.transport.is_closed:
            self.run(work())

    @rule(seconds=st.sampled_from((0.5, 6.0, 31.0, 121.0)))
    def time_passes(self, seconds: float) -> None:
        self.stage.passes(seconds)

    @rule(peer=consumes(peers))
    def leaves(self, peer: Peer) -> None:
        self.note(peer)
        self.all.remove(peer)
        self.run(self.left(peer))

    @rule()
    def the_server_drains(self) -> None:
        async def work() -> None:
            for peer in self.all:
                peer.connection.drain()

        self.drained = True
        self.stage.context.is_draining = True
        self.run(work())

    async def left(self, peer: Peer) -> None:
        peer.leaves()

    def note(self, peer: Peer) -> None:
        """Note the answers of a peer: each is one of its own requests, and the first to it."""
        for opaque in peer.opaques():
            assert self.asked.pop(opaque) is peer
            self.got.append(opaque)

    @invariant()
    def all_is_counted(self) -> None:
        counters, context = self.stage.context.counters, self.stage.context
        for peer in self.all:
            self.note(peer)
        assert counters.connections == len(context.connections) == len(self.all)
        assert counters.in_flight == len(self.waiting()) <= context.limits.in_flight
        assert 0 <= context.room.free_bytes <= context.limits.large_frames_bytes
        unread = sum(peer.transport.unread_bytes for peer in self.all if peer.transport.unread_bytes > 2_000)
        assert counters.unread_bytes >= unread
        ended = self.stage.service.ended
        assert len(ended) == len(set(ended))

    def teardown(self) -> None:
        """End all that is under way; then nothing may be left."""
        while self.waiting():
            self.the_store_answers(0)
        open_peers = [peer for peer in self.all if not peer.transport.is_closed]
        for peer in open_peers:
            self.takes_its_answers_or_not(peer, takes=True)
        while self.waiting():
            self.the_store_answers(0)
        if not self.drained:
            for peer in open_peers:
                assert peer in self.rest or peer.transport.is_closed or not peer.transport.is_paused
        for peer in tuple(self.all):
            self.leaves(peer)
        context = self.stage.context
        assert context.room.free_bytes == context.limits.large_frames_bytes
        assert not context.room.is_contended
        assert (context.counters.unread_bytes, context.counters.in_flight) == (0, 0)
        assert (context.connections, context.dispatcher.tasks) == (set(), set())
        self.runner.close()


Connections.TestCase.settings = settings(max_examples=examples(300), stateful_step_count=40)
TestConnections = Connections.TestCase

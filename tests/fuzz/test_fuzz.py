"""Mutated frames: no exception escapes, nothing hangs or grows, and nobody gets another one's answer."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import Final

import pytest

from sharedroutes.remoting import FrameReader, RemotingCommand
from tests.fuzz import fuzz_frames
from tests.fuzz.mutations import TOGETHER, corpus, cut, mutated, resident_bytes, rounds
from tests.fuzz.named import Named
from tests.nameserver.server.rig import Stage

SEED: Final = 20_261_122
CODES: Final = {
    *range(100, 107),
    205,
    206,
    216,
    217,
    219,
    224,
    304,
    311,
    312,
    313,
    318,
    319,
    322,
    327,
    901,
    904,
}
LONGEST_S: Final = 2.0
"""Of processor time, for one input: it takes 60 us. A busy machine may let the process wait for longer."""

MOST_GROWTH: Final = 32 * 2**20


def check_answers(number: int, answers: list[RemotingCommand]) -> None:
    """Check that all answers are for this connection."""
    remarks = {f"{number}", f"LookupError: {number}"}
    assert all(answer.is_response and answer.remark in remarks for answer in answers)


def test_the_corpus_has_every_request_that_name_servers_get() -> None:
    frames = [FrameReader().feed(frame)[0] for frame in corpus()]
    assert {frame.code for frame in frames} >= CODES


def test_a_seed_always_gives_the_same_inputs() -> None:
    assert list(mutated(SEED, 50)) == list(mutated(SEED, 50)) != list(mutated(SEED + 1, 50))


@pytest.mark.parametrize(
    "count", [8_000, pytest.param(200_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
async def test_mutated_frames_harm_nobody(count: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "sharedroutes")
    stage = Stage(Named())
    witness = stage.peer()
    source = random.Random(SEED)
    before, slowest_s, asked = 0, 0.0, 0
    for round_, inputs in enumerate(rounds(SEED, count)):
        peers = [stage.peer() for _ in inputs]
        for peer, data in zip(peers, inputs, strict=True):
            began_s = time.thread_time()
            for part in cut(source, data):
                peer.sends(part)
            slowest_s = max(slowest_s, time.thread_time() - began_s)
        witness.asks(round_)
        await asyncio.gather(*stage.context.dispatcher.tasks)
        for peer in peers:
            answers = peer.got()
            asked += len(answers)
            check_answers(peer.connection.number, answers)
            peer.leaves()
        (answer,) = witness.got()
        assert (answer.opaque, answer.remark) == (round_, str(witness.connection.number))
        if round_ == count // TOGETHER // 4:
            before = resident_bytes()
    counters = stage.context.counters
    assert (asked > count // 10, counters.decode_errors > count // 10) == (True, True)
    assert slowest_s < LONGEST_S
    assert resident_bytes() - before < MOST_GROWTH
    assert (counters.connections, counters.in_flight, counters.unread_bytes) == (1, 0, 0)
    assert stage.context.connections == {witness.connection}
    assert stage.context.room.free_bytes == stage.context.limits.large_frames_bytes


def test_the_target_of_the_fuzzer_takes_any_input() -> None:
    for data in (*corpus(), *mutated(SEED, 200), b""):
        fuzz_frames.test_one_input(data)

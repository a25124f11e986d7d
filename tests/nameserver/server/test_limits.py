"""What a peer may take up, and for how long."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sharedroutes.nameserver.server.limits import Limits
from sharedroutes.remoting import ResponseCode, encode, request
from tests.nameserver.server.rig import ROUTE, Answers, Later, Peer, Stage, answered

KIB = 1_024


def frame(size: int, opaque: int = 1, **given: Any) -> bytes:
    """Return a request whose frame is that long."""
    empty = len(encode(request(ROUTE, opaque=opaque, **given)))
    return encode(request(ROUTE, opaque=opaque, body=bytes(size - empty), **given))


def test_a_connection_without_a_byte_in_either_direction_ends() -> None:
    stage = Stage(idle_s=120.0)
    quiet, reads, writes = stage.peer(), stage.peer(), stage.peer()
    stage.passes(100.0)
    reads.asks(1)
    writes.connection.send(b"push")
    stage.passes(21.0)
    assert [peer.transport.is_closed for peer in (quiet, reads, writes)] == [True, False, False]
    assert stage.endings() == {"idle": 1}
    quiet.leaves()
    assert stage.service.ended == [quiet.connection.number]


async def test_an_answer_keeps_a_connection_from_being_idle() -> None:
    later = Later()
    stage = Stage(Answers(later))
    peer = stage.peer()
    peer.asks(1)
    stage.passes(100.0)
    await later.give(1)
    stage.passes(100.0)
    assert not peer.transport.is_closed


def test_a_frame_has_to_be_complete_in_time_however_it_trickles_in() -> None:
    stage = Stage(frame_s=30.0)
    peer = stage.peer()
    data = frame(200)
    for byte in data[:29]:
        peer.sends(bytes((byte,)))
        stage.passes(1.0)
    assert not peer.transport.is_closed
    peer.sends(data[29:31])
    stage.passes(1.5)
    assert (peer.transport.is_aborted, stage.endings()) == (True, {"slow_frame": 1})


def test_each_frame_has_a_time_of_its_own() -> None:
    stage = Stage(frame_s=30.0)
    peer = stage.peer()
    data = frame(200)
    peer.sends(data[:50])
    for _ in range(5):
        stage.passes(20.0)
        peer.sends(data[50:] + data[:50])
    peer.sends(data[50:])
    stage.passes(100.0)
    assert (peer.transport.is_closed, len(peer.got())) == (False, 6)


async def test_with_many_requests_in_flight_a_connection_is_not_read_from() -> None:
    later = Later()
    stage = Stage(Answers(later), in_flight_per_connection=4)
    peer = stage.peer()
    peer.asks(*range(7))
    assert (list(later.waiting), peer.transport.is_paused) == ([0, 1, 2, 3], True)
    await later.give(2)
    assert peer.transport.is_paused
    await later.give(0)
    assert (list(later.waiting), peer.transport.is_paused) == ([1, 3, 4, 5], True)
    await later.give(1)
    await later.give(3)
    assert (list(later.waiting), peer.transport.is_paused) == ([4, 5, 6], False)
    peer.asks(7, 8)
    assert (list(later.waiting), peer.transport.is_paused) == ([4, 5, 6, 7], True)
    for opaque in (4, 5, 6, 7, 8):
        await later.give(opaque)
    assert (peer.opaques(), peer.transport.is_paused) == ([2, 0, 1, 3, 4, 5, 6, 7, 8], False)


async def test_a_time_in_which_a_frame_is_not_read_does_not_count() -> None:
    later = Later()
    stage = Stage(Answers(later), in_flight_per_connection=1, frame_s=30.0)
    peer = stage.peer()
    peer.sends(frame(200) + frame(200, 2)[:10])
    stage.passes(100.0)
    await later.give(1)
    stage.passes(20.0)
    peer.sends(frame(200, 2)[10:])
    assert (peer.transport.is_closed, list(later.waiting)) == (False, [2])


async def coroutine_of_nothing(_: Any) -> None:
    raise AssertionError


@pytest.mark.parametrize("is_coroutine", [False, True])
async def test_with_too_many_requests_in_flight_in_all_one_more_is_told_that_we_are_busy(
    *, is_coroutine: bool
) -> None:
    later = Later()
    stage = Stage(Answers(later), in_flight=2)
    peer, other = stage.peer(), stage.peer()
    peer.asks(1, 2)
    if is_coroutine:
        stage.service.answer_to = coroutine_of_nothing
    other.asks(3)
    other.asks(4, oneway=True)
    (busy,) = other.got()
    assert (busy.code, busy.opaque) == (ResponseCode.SYSTEM_BUSY, 3)
    assert busy.remark == "[OVERLOAD]system busy, start flow control for a while"
    assert stage.context.counters.busy == 2
    stage.service.answer_to = answered
    other.asks(5)  # what is ready needs no room
    assert other.opaques() == [5]
    await later.give(1)
    stage.service.answer_to = later
    other.asks(6)
    await later.give(6)
    assert other.opaques() == [6]


def test_a_peer_that_does_not_take_its_answers_is_not_served_until_it_does() -> None:
    stage = Stage(Answers(lambda asked: answered(asked, bytes(600))), unread_bytes=1_000)
    peer = stage.peer()
    peer.transport.takes = False
    peer.asks(*range(10))
    assert (len(stage.service.asked), peer.transport.is_paused) == (2, True)
    assert stage.context.counters.unread_bytes == peer.transport.unread_bytes > 1_000
    peer.transport.take()
    assert len(stage.service.asked) == 4
    peer.transport.takes = True
    peer.transport.take()
    assert (peer.opaques(), peer.transport.is_paused) == (list(range(10)), False)
    assert stage.context.counters.unread_bytes == 0


def test_a_peer_that_takes_none_of_its_answers_for_long_is_closed_and_a_slow_one_is_not() -> None:
    stage = Stage(Answers(lambda asked: answered(asked, bytes(5_000))), unread_bytes=1_000, unread_s=30.0)
    deaf, slow = stage.peer(), stage.peer()
    for peer in (deaf, slow):
        peer.transport.takes = False
        peer.asks(1)
    for _ in range(20):
        slow.transport.take(10)
        stage.passes(10.0)
    assert [peer.transport.is_aborted for peer in (deaf, slow)] == [True, False]
    assert stage.endings() == {"unread": 1}
    slow.transport.take()
    stage.passes(10.0)
    assert not slow.transport.is_closed
    deaf.leaves()
    assert stage.context.counters.unread_bytes == 0


def test_who_exceeds_what_all_peers_together_may_leave_unread_is_closed() -> None:
    stage = Stage(
        Answers(lambda asked: answered(asked, bytes(1_000))), unread_bytes=500, unread_bytes_in_all=5_000
    )
    peers = [stage.peer() for _ in range(5)]
    for peer in peers:
        peer.transport.takes = False
        peer.asks(1)
    assert [peer.transport.is_aborted for peer in peers] == [False] * 4 + [True]
    peers[4].leaves()
    peers[0].connection.send(bytes(1_000))  # a push to one that takes none counts, too
    assert peers[0].transport.is_aborted
    for peer in peers[:4]:
        peer.leaves()
    assert stage.context.counters.unread_bytes == 0


def test_a_peer_that_does_not_take_its_last_answers_is_not_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage(unread_s=30.0)
    peer = stage.peer()
    peer.connection.close("enough")
    stage.passes(29.0)
    assert not peer.transport.is_aborted
    stage.passes(2.0)
    assert peer.transport.is_aborted


def room(stage: Stage) -> int:
    """Return how much room is taken."""
    return stage.context.limits.large_frames_bytes - stage.context.room.free_bytes


def paused(*peers: Peer) -> list[bool]:
    """Return which peers are not read from."""
    return [peer.transport.is_paused for peer in peers]


def large(**limits: Any) -> Stage:
    """Return a stage with room for two frames of 100 KiB."""
    sizes = {"large_frame_bytes": 10_000, "frame_bytes": 100 * KIB, "large_frames_bytes": 200 * KIB}
    return Stage(**{**sizes, **limits})


def test_large_frames_have_room_until_they_are_answered_and_those_that_find_none_wait() -> None:
    stage = large()
    peers = [stage.peer() for _ in range(4)]
    data = frame(100 * KIB)
    for peer in peers:
        peer.sends(data[:1_000])
    assert paused(*peers) == [False, False, True, True]
    peers[1].sends(data[1_000:])
    assert len(peers[1].got()) == 1
    assert paused(*peers) == [False, False, False, True]
    peers[0].leaves()
    assert paused(*peers[1:]) == [False, False, False]
    for peer in peers[2:]:
        peer.sends(data[1_000:])
        assert len(peer.got()) == 1
    assert room(stage) == 0


async def test_a_large_request_has_its_room_while_it_waits_for_the_store() -> None:
    later = Later()
    stage = large()
    stage.service.answer_to = later
    first, second, third = (stage.peer() for _ in range(3))
    for peer in (first, second):
        data = frame(100 * KIB, peer.connection.number)
        peer.sends(data)
    assert room(stage) == 200 * KIB
    third.sends(frame(100 * KIB)[: 50 * KIB])
    assert paused(third) == [True]
    first.leaves()
    assert room(stage) == 200 * KIB
    await later.give(first.connection.number)
    assert paused(third) == [False]
    await later.give(second.connection.number)
    third.leaves()
    assert room(stage) == 0


def test_frames_that_are_small_or_arrive_at_once_need_no_room() -> None:
    stage = large()
    holders = [stage.peer() for _ in range(2)]
    for peer in holders:
        peer.sends(frame(100 * KIB)[:5])
    peer = stage.peer()
    peer.sends(frame(10_000)[:5_000])
    peer.sends(frame(10_000)[5_000:] + frame(50 * KIB))
    assert (len(peer.got()), peer.transport.is_paused) == (2, False)


async def test_room_is_not_waited_for_for_ever_and_not_by_too_many() -> None:
    later = Later()
    stage = large(large_frame_wait_s=25.0, large_frames_waiting=1)
    stage.service.answer_to = later
    holders, waits, refused = [stage.peer() for _ in range(2)], stage.peer(), stage.peer()
    for number, peer in enumerate(holders):
        peer.sends(frame(100 * KIB, number))
    for peer in (waits, refused):
        peer.sends(frame(100 * KIB)[:1_000])
    assert (refused.transport.is_aborted, waits.transport.is_aborted) == (True, False)
    stage.passes(25.0)
    assert not waits.transport.is_aborted
    stage.passes(1.0)
    assert (waits.transport.is_aborted, stage.endings()) == (True, {"no_room": 2})
    for peer in (refused, waits):
        peer.leaves()
    for number in range(2):
        await later.give(number)
    assert room(stage) == 0


def test_a_large_frame_has_less_time_while_others_wait_for_its_room() -> None:
    stage = large(frame_s=30.0, contended_frame_s=5.0)
    slow, other, waits = (stage.peer() for _ in range(3))
    data = frame(100 * KIB)
    slow.sends(data[:1_000])
    stage.passes(20.0)
    assert not slow.transport.is_closed
    other.sends(data[:1_000])
    waits.sends(data[:1_000])
    stage.passes(1.0)
    assert [peer.transport.is_closed for peer in (slow, other, waits)] == [True, False, False]
    slow.leaves()
    waits.sends(data[1_000:])
    assert len(waits.got()) == 1


def test_a_connection_that_ends_waits_for_room_no_more() -> None:
    stage = large()
    holders, waits, last = [stage.peer() for _ in range(2)], stage.peer(), stage.peer()
    for peer in (*holders, waits):
        peer.sends(frame(100 * KIB)[:1_000])
    last.sends(frame(60 * KIB)[:1_000])
    waits.leaves()
    holders[0].leaves()
    assert not last.transport.is_paused
    holders[1].leaves()
    last.leaves()
    assert room(stage) == 0


def test_bodies_of_16_mib_on_200_connections_stay_within_their_bound() -> None:
    stage = Stage()
    peers = [stage.peer() for _ in range(200)]
    data = frame(2**24)
    sent = dict.fromkeys(peers, 0)
    for begin in range(0, 2**24 - 64 * KIB, 64 * KIB):
        for peer in peers:
            if not peer.transport.is_paused:
                peer.sends(data[begin : begin + 64 * KIB])
                sent[peer] += 64 * KIB
    assert sorted(sent.values()) == [64 * KIB] * 192 + [2**24 - 64 * KIB] * 8
    for peer in peers:
        peer.leaves()
    assert room(stage) == 0


@pytest.mark.parametrize("wrong", [{"idle_s": 0.0}, {"connections": -1}, {"large_frames_bytes": 2**24 - 1}])
def test_limits_that_let_nothing_through_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)


def test_who_is_closed_by_a_limit_stands_in_the_log_but_idle_ones_do_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    idle, slow = stage.peer(), stage.peer("10.0.0.2")
    slow.sends(frame(200)[:10])
    stage.passes(121.0)
    assert idle.transport.is_closed
    (record,) = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert record.getMessage() == (
        "closed the connection of 10.0.0.2:5000: a frame was not complete within 30 s"
    )

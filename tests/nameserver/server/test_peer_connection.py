"""One connection: which request has which answer, and when its end is told."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.nameserver.server.connection import Connection
from sharedroutes.remoting import (
    LanguageCode,
    RemotingCommand,
    RequestCode,
    ResponseCode,
    SerializeType,
    encode,
    request,
    response_to,
)
from tests.nameserver.server.rig import ROUTE, Answers, Later, Stage, answered
from tests.remoting.commands import COMMANDS


def test_requests_of_one_read_are_answered_with_one_write() -> None:
    peer = Stage().peer()
    peer.asks(1, 2, 3)
    assert len(peer.transport.written) == 1
    assert peer.opaques() == [1, 2, 3]


def test_the_answer_of_one_request_is_written_as_the_service_gave_it() -> None:
    frame = encode(RemotingCommand(code=0, body=b"ready"))
    peer = Stage(Answers(lambda _: frame)).peer()
    peer.asks(1)
    assert peer.transport.written == [frame]


class Quick:
    """Knows what it has learned, byte for byte."""

    def __init__(self) -> None:
        self.learned: dict[bytes, RemotingCommand] = {}

    def quick_answer(self, data: bytes, _: Connection) -> bytes | None:
        return answered(self.learned[data], b"quick") if data in self.learned else None

    def learn(self, data: bytes, request: RemotingCommand) -> None:
        self.learned[data] = request


def test_a_request_that_was_learned_is_answered_without_the_service() -> None:
    stage, quick = Stage(), Quick()
    stage.context.quick = quick
    peer, frame = stage.peer(), encode(request(ROUTE, opaque=1))
    peer.sends(frame)
    peer.sends(frame)
    peer.sends(frame * 2)  # not one request alone
    peer.sends(frame[:9])
    peer.sends(frame[9:])
    assert [*quick.learned] == [frame]
    assert len(stage.service.asked) == 4
    assert peer.opaques() == [1] * 5
    assert stage.context.counters.requests[ROUTE] == 5


async def test_while_no_more_requests_are_served_none_has_a_quick_answer() -> None:
    stage, quick = Stage(Answers(Later()), in_flight_per_connection=1), Quick()
    stage.context.quick = quick
    learned, frame = request(ROUTE, opaque=2), encode(request(ROUTE, opaque=2))
    quick.learn(frame, learned)
    peer = stage.peer()
    peer.asks(1)
    peer.sends(frame)
    assert peer.opaques() == []


@given(st.lists(COMMANDS, max_size=6), st.data())
def test_however_the_bytes_are_cut_each_request_is_asked_and_answered_once(
    commands: list[RemotingCommand], data: st.DataObject
) -> None:
    stage = Stage()
    peer = stage.peer()
    stream = b"".join(map(encode, commands))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10))
    for begin, end in pairwise([0, *sorted(cuts), len(stream)]):
        peer.sends(stream[begin:end])
    asked = [command for command in commands if not command.is_response]
    assert stage.service.asked == asked
    assert peer.opaques() == [command.opaque for command in asked if not command.is_oneway]
    assert stage.context.counters.bytes_in == len(stream)
    assert not peer.transport.is_closed


async def test_answers_may_overtake_each_other() -> None:
    later = Later()
    stage = Stage(Answers(lambda asked: later(asked) if asked.opaque < 3 else answered(asked)))
    peer = stage.peer()
    peer.asks(1, 2, 3)
    assert peer.opaques() == [3]
    assert stage.context.counters.in_flight == 2
    await later.give(2)
    await later.give(1)
    assert peer.opaques() == [2, 1]
    assert stage.context.counters.in_flight == 0


async def test_an_answer_that_is_awaited_has_the_number_of_its_request_and_is_a_response() -> None:
    later = Later()
    peer = Stage(Answers(later)).peer()
    peer.asks(77)
    await later.give(77, RemotingCommand(code=17, remark="no", opaque=5, language=LanguageCode.JAVA))
    (answer,) = peer.got()
    assert (answer.opaque, answer.is_response, answer.code, answer.remark) == (77, True, 17, "no")
    assert answer.language is LanguageCode.JAVA


async def test_what_a_coroutine_function_returns_is_awaited() -> None:
    async def answer(asked: RemotingCommand) -> RemotingCommand:
        return response_to(asked, ResponseCode.SUCCESS, body=b"there")

    stage = Stage(Answers(answer))
    peer = stage.peer()
    peer.asks(1)
    await asyncio.gather(*stage.context.dispatcher.tasks)
    assert [found.body for found in peer.got()] == [b"there"]


async def test_a_binary_request_has_a_json_answer_as_in_rocketmq_5() -> None:
    later = Later()
    peer = Stage(Answers(later)).peer()
    peer.asks(1, serialize_type=SerializeType.ROCKETMQ)
    await later.give(1)
    assert [answer.serialize_type for answer in peer.got()] == [SerializeType.JSON]


async def test_a_one_way_request_is_executed_and_never_answered() -> None:
    later = Later()
    stage = Stage(Answers(lambda asked: later(asked) if asked.opaque == 1 else answered(asked)))
    peer = stage.peer()
    peer.asks(1, 2, oneway=True)
    await later.give(1)
    assert [asked.opaque for asked in stage.service.asked] == [1, 2]
    assert peer.got() == []


def test_a_response_goes_nowhere() -> None:
    stage = Stage()
    peer = stage.peer()
    peer.sends(answered(request(ROUTE, opaque=9)))
    assert (stage.service.asked, peer.got(), peer.transport.is_closed) == ([], [], False)


def test_a_request_that_the_service_leaves_without_an_answer_has_none() -> None:
    peer = Stage(Answers(lambda _: None)).peer()
    peer.asks(1)
    assert peer.got() == []


async def test_an_awaited_answer_may_be_none() -> None:
    later = Later()
    stage = Stage(Answers(later))
    peer = stage.peer()
    peer.asks(1)
    later.waiting[1].set_result(None)
    await asyncio.gather(*stage.context.dispatcher.tasks)
    assert peer.got() == []


def ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what the server has logged, without asyncio's words about tasks that other tests left."""
    return [record for record in caplog.records if record.name.startswith("sharedroutes")]


def fails(_: RemotingCommand) -> Any:
    raise LookupError("out of order")


async def fails_later(_: RemotingCommand) -> RemotingCommand:
    raise LookupError("out of order")


def fails_strangely(_: RemotingCommand) -> Any:
    raise LookupError("out of \ud800 order")


async def is_cancelled(_: RemotingCommand) -> RemotingCommand:
    raise asyncio.CancelledError


async def answers_too_much(asked: RemotingCommand) -> RemotingCommand:
    return response_to(asked, ResponseCode.SUCCESS, body=bytes(2**24))


async def test_an_error_whose_text_no_frame_can_carry_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # pytest's processes cannot send each other such a line
    stage = Stage(Answers(fails_strangely))
    peer = stage.peer()
    peer.asks(1)
    (found,) = peer.got()
    assert found.remark == "LookupError: out of ? order"


@pytest.mark.parametrize(
    ("answer", "remark"),
    [
        (fails, "LookupError: out of order"),
        (fails_later, "LookupError: out of order"),
        (is_cancelled, "CancelledError: "),
        (answers_too_much, "FrameError: frame: 16777"),
    ],
)
async def test_an_unexpected_error_is_the_answer_and_logged_once(
    answer: Any, remark: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(Answers(answer))
    peer, other = stage.peer(), stage.peer()
    peer.asks(1, 2)
    await asyncio.gather(*stage.context.dispatcher.tasks)
    answers = peer.got()
    assert [(found.code, found.opaque) for found in answers] == [(1, 1), (1, 2)]
    assert all((found.remark or "").startswith(remark) for found in answers)
    assert (stage.context.counters.failures, other.got()) == (2, [])
    errors = [record for record in ours(caplog) if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == [
        "failed to answer request 105 of 10.0.0.1:5000; further failures of this connection are only counted"
    ]
    assert errors[0].exc_info


@pytest.mark.parametrize("answer", [fails, fails_later])
async def test_an_unexpected_error_of_a_one_way_request_is_only_logged(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(Answers(answer))
    peer = stage.peer()
    peer.asks(1, oneway=True)
    await asyncio.gather(*stage.context.dispatcher.tasks)
    assert (peer.got(), stage.context.counters.failures) == ([], 1)
    assert "failed to answer request 105" in caplog.text


def test_what_is_no_frame_ends_the_connection_without_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    peer = stage.peer()
    peer.sends(encode(request(ROUTE, opaque=1)) + b"\xff\xff\xff\xff" + encode(request(ROUTE, opaque=2)))
    assert peer.opaques() == [1]
    assert peer.transport.is_closed
    peer.leaves()
    assert stage.service.ended == [peer.connection.number]
    assert (stage.context.counters.decode_errors, stage.endings()) == (1, {"bad_frame": 1})
    (record,) = ours(caplog)
    assert record.getMessage().startswith("closed the connection of 10.0.0.1:5000: frame: length -1")


def test_a_header_that_is_longer_than_allowed_ends_the_connection() -> None:
    stage = Stage(header_bytes=1_000)
    peer = stage.peer()
    peer.asks(1, ext_fields={"value": "x" * 800})
    assert peer.opaques() == [1]
    peer.asks(2, ext_fields={"value": "x" * 1_000})
    assert (peer.opaques(), stage.endings()) == ([], {"bad_frame": 1})


async def test_the_end_is_told_once_and_after_the_last_request() -> None:
    later = Later()
    stage = Stage(Answers(later))
    peer = stage.peer()
    peer.asks(1, 2)
    peer.leaves()
    await later.give(1)
    assert stage.service.ended == []
    await later.give(2)
    assert stage.service.ended == [peer.connection.number]
    assert (peer.got(), stage.context.connections) == ([], set())
    assert stage.context.counters.connections == 0


def test_the_end_of_a_connection_that_never_asked_is_told_too() -> None:
    stage = Stage()
    first, second = stage.peer(), stage.peer()
    second.leaves()
    first.leaves()
    numbers = [peer.connection.number for peer in (first, second)]
    assert stage.service.ended == numbers[::-1]
    assert len(set(numbers)) == 2


def test_a_service_that_cannot_note_an_end_keeps_nobody_from_ending(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    peer = stage.peer()
    monkeypatch.setattr(stage.service, "closed", fails)
    peer.leaves()
    assert "failed to note the end of the connection of 10.0.0.1:5000" in caplog.text
    assert stage.context.counters.connections == 0


def test_a_push_is_sent_while_the_connection_lasts() -> None:
    peer = Stage().peer()
    push = encode(request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, oneway=True))
    peer.connection.send(push)
    assert peer.transport.written == [push]
    peer.leaves()
    peer.connection.send(push)
    assert peer.transport.written == [push]


def test_the_service_may_close_a_connection_while_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    stage = Stage()
    peer = stage.peer()

    def closes(asked: RemotingCommand) -> bytes:
        if asked.opaque == 2:
            peer.connection.close("it asked twice")
            peer.connection.close("again")
        return answered(asked)

    stage.service.answer_to = closes
    peer.asks(1)
    peer.asks(2, 3)
    assert (peer.opaques(), len(stage.service.asked)) == ([1], 2)
    assert (peer.transport.is_closed, peer.transport.is_aborted) == (True, False)
    assert stage.endings() == {"asked": 1}
    assert [record.getMessage() for record in ours(caplog)] == [
        "closed the connection of 10.0.0.1:5000: it asked twice"
    ]


def test_requests_are_counted_by_their_codes_and_unknown_ones_together() -> None:
    stage = Stage()
    peer = stage.peer()
    peer.asks(1, 2)
    for code in (999, 998, -5, 2**31 - 1):
        peer.asks(3, code=code)
    counted = {code: count for code, count in stage.context.counters.requests.items() if count}
    assert counted == {ROUTE: 2, -1: 4}


def test_bytes_are_counted_in_both_directions() -> None:
    stage = Stage()
    peers = [stage.peer(), stage.peer()]
    for peer in peers:
        peer.asks(1)
    counters = stage.context.counters
    assert counters.bytes_in == 2 * len(encode(request(ROUTE, opaque=1)))
    assert counters.bytes_out == sum(len(b"".join(peer.transport.written)) for peer in peers)

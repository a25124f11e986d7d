"""Frames: what arrives is what was sent, however it is cut; what is no frame is said to be none, and why."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharedroutes.remoting import (
    MAX_FRAME_BYTES,
    FrameError,
    FrameReader,
    FrameTemplate,
    RemotingCommand,
    RequestCode,
    SerializeType,
    decode,
    encode,
    request,
)
from tests.remoting.commands import COMMANDS

JSON_OVERHEAD = len(encode(request(0)))


def framed(kind: int, header: bytes, body: bytes = b"", *, header_bytes: int | None = None) -> bytes:
    word = kind << 24 | (len(header) if header_bytes is None else header_bytes)
    return struct.pack(">iI", 4 + len(header) + len(body), word) + header + body


def binary(tail: bytes) -> bytes:
    """Return a binary header with another end than it should have."""
    return struct.pack(">hbhii", 105, 0, 479, 7, 0) + tail


@given(COMMANDS)
def test_what_is_read_is_what_was_written(command: RemotingCommand) -> None:
    assert FrameReader().feed(encode(command)) == [command]


@given(COMMANDS, st.integers(-(2**31), 2**31 - 1), st.binary())
@example(request(0, {"opaque": "0"}), 1, b"")
def test_a_template_encodes_what_differs_in_opaque_and_body_alone(
    command: RemotingCommand, opaque: int, body: bytes
) -> None:
    command = replace(command, serialize_type=SerializeType.JSON)
    frame = FrameTemplate(command).encode(opaque, body)
    assert frame == encode(replace(command, opaque=opaque, body=body))


def test_a_template_refuses_a_body_that_no_frame_can_carry() -> None:
    template = FrameTemplate(request(0))
    most = MAX_FRAME_BYTES - JSON_OVERHEAD
    assert len(template.encode(0, bytes(most))) == MAX_FRAME_BYTES
    with pytest.raises(FrameError, match="is the most"):
        template.encode(0, bytes(most + 1))


@given(st.lists(COMMANDS, max_size=5), st.data())
def test_it_does_not_matter_how_the_bytes_are_cut(
    commands: list[RemotingCommand], data: st.DataObject
) -> None:
    stream = b"".join(map(encode, commands))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))
    reader = FrameReader()
    arrived: list[RemotingCommand] = []
    for begin, end in pairwise([0, *sorted(cuts), len(stream)]):
        arrived += reader.feed(stream[begin:end])
    assert arrived == commands
    assert reader.pending_bytes == 0


@given(COMMANDS)
def test_a_command_arrives_with_its_last_byte(command: RemotingCommand) -> None:
    reader = FrameReader()
    *all_but_one, last = (bytes((byte,)) for byte in encode(command))
    assert [found for byte in all_but_one for found in reader.feed(byte)] == []
    assert reader.feed(last) == [command]


@given(st.binary(max_size=200))
def test_any_bytes_are_commands_or_a_frame_error(data: bytes) -> None:
    with suppress(FrameError):  # and no other error
        assert all(decode(encode(command)[4:]) for command in FrameReader().feed(data))


@given(st.sampled_from(SerializeType), st.binary(max_size=80))
def test_any_header_is_a_command_or_a_frame_error(kind: SerializeType, header: bytes) -> None:
    with suppress(FrameError):  # and no other error
        (found,) = FrameReader().feed(framed(kind, header))
        assert found.serialize_type is kind


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (struct.pack(">i", 0), "frame: length 0"),
        (struct.pack(">i", -1), "frame: length -1"),
        (struct.pack(">i", 3), "frame: length 3"),
        (struct.pack(">i", MAX_FRAME_BYTES - 3), "frame: length 16777213"),
        (b"GET / HTTP/1.1\r\n", "b'GET '"),
        (b"\x16\x03\x01\x02", "this is how TLS begins"),
        (framed(0, b"{}", header_bytes=3), "header: 3 bytes in a frame of length 6"),
        (framed(2, b"{}"), "header: unknown serialize type 2"),
        (framed(0, b""), "header: is no JSON"),
        (framed(0, b"{"), "header: is no JSON"),
        (framed(0, b"[]"), "header: expected an object"),
        (framed(0, b'{"code":"x"}'), "code: expected a number, got 'x'"),
        (framed(0, b'{"code":1.5}'), "code: expected a whole number, got 1.5"),
        (framed(0, b'{"opaque":2147483648}'), "opaque: 2147483648 does not fit"),
        (framed(0, b'{"extFields":[]}'), "extFields: expected an object"),
        (framed(0, b'{"remark":%s}' % (b"[" * 500 + b"]" * 500)), "header: Recursion limit"),
        (framed(1, b"\0" * 12), "header: 12 bytes"),
        (framed(1, binary(b"\0\0\0")), "remark: the header ends before its length"),
        (framed(1, binary(b"\0\0\0\x01")), "remark: length 1, and 0 bytes are left"),
        (framed(1, binary(b"\xff\xff\xff\xff")), "remark: length -1"),
        (framed(1, binary(b"\0\0\0\0\0\0\0\x01\0")), "extFields: key: the header ends"),
        (framed(1, binary(b"\0\0\0\0\0\0\0\x02\xff\xff")), "extFields: key: length -1"),
        (framed(1, binary(b"\0\0\0\0\0\0\0\x07\0\x01k\0\0\0\x05")), "extFields['k']: length 5"),
    ],
)
def test_what_is_no_frame_is_said_to_be_none_and_why(data: bytes, said: str) -> None:
    with pytest.raises(FrameError) as caught:
        FrameReader().feed(data)
    assert said in str(caught.value)


def test_a_frame_that_is_too_long_is_refused_before_it_has_arrived() -> None:
    reader = FrameReader(max_frame_bytes=JSON_OVERHEAD + 10)
    longest, longer = (encode(request(0, body=b"x" * length)) for length in (10, 11))
    assert len(reader.feed(longest)) == 1
    with pytest.raises(FrameError, match="frame: length"):
        reader.feed(longer[:4])


@pytest.mark.parametrize("kind", SerializeType)
def test_a_header_that_is_too_long_is_refused(kind: SerializeType) -> None:
    reader = FrameReader(max_header_bytes=1_000)
    frame = encode(request(0, {"x": "y" * 800}, body=bytes(2_000), serialize_type=kind))
    assert len(reader.feed(frame)) == 1
    with pytest.raises(FrameError, match="and 1000 is the most"):
        reader.feed(encode(request(0, {"x": "y" * 1_000}, serialize_type=kind)))


def test_how_long_the_frame_is_that_has_begun_is_told_as_soon_as_it_is_known() -> None:
    reader = FrameReader()
    frame = encode(request(0, body=bytes(100)))
    told = []
    for begin, end in ((0, 3), (3, 4), (4, 50), (50, len(frame))):
        reader.feed(frame[begin:end])
        told.append((reader.pending_bytes, reader.frame_bytes))
    assert told == [(3, 0), (4, len(frame)), (50, len(frame)), (0, 0)]
    reader.feed(frame * 2 + frame[:10])
    assert (reader.pending_bytes, reader.frame_bytes) == (10, len(frame))


def test_the_longest_frame_is_what_rocketmq_takes() -> None:
    most = MAX_FRAME_BYTES - JSON_OVERHEAD
    frame = encode(request(0, body=bytes(most)))
    assert len(frame) == MAX_FRAME_BYTES
    (command,) = FrameReader().feed(frame)
    assert len(command.body) == most
    with pytest.raises(FrameError, match="16777217 bytes, and 16777216 is the most"):
        encode(request(0, body=bytes(most + 1)))


def test_what_arrived_before_the_error_is_kept_and_the_error_stays() -> None:
    reader = FrameReader()
    good = request(RequestCode.HEART_BEAT, opaque=1)
    with pytest.raises(FrameError) as first:
        reader.feed(encode(good) + struct.pack(">i", -1))
    assert reader.before == [good]
    with pytest.raises(FrameError) as second:
        reader.feed(encode(good))
    assert str(second.value) == str(first.value)


def test_a_header_longer_than_its_length_can_say_is_refused() -> None:
    with pytest.raises(FrameError, match="header: 167"):
        encode(request(0, {"x": "y" * 0xFFFFFF}), max_frame_bytes=2**30)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0"])
def test_less_than_the_header_word_is_no_frame(frame: bytes) -> None:
    with pytest.raises(FrameError, match="4 is the least"):
        decode(frame)

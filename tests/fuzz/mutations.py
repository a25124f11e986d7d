"""Frames that went over the wire, and what becomes of them when bytes are lost, doubled or changed."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).with_name("corpus.txt")

_LENGTH: Final = struct.Struct(">I")
_NUMBERS: Final = (
    0,
    1,
    3,
    4,
    5,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    0xFFFFFF,
    2**24 - 4,
    2**24 - 3,
    2**31 - 1,
    2**32 - 1,
)
TOGETHER: Final = 16
_MOST_MUTATIONS: Final = 4
_LONGEST: Final = 20_000
_TOKENS: Final = (
    b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"null", b"true", b"-1", b"1e999", b"NaN", b"0x10",
    b"99999999999999999999", b"2147483648", b'"\\ud800"', b"\xff", b"\0", b"\xed\xa0\x80", b"[" * 600,
    b'{"a":' * 300, b"{1:", b'"code":', b'"extFields":', b'"flag":1', b'"flag":2', b'"opaque":',
    b"\x16\x03\x01", b"PROXY UNKNOWN\r\n", b"\r\n\r\n\0\r\nQUIT\n",
)  # fmt: skip

_CHECKSUM: Final = re.compile(rb'(?<="bodyCrc32":")\d+')

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def corpus() -> list[bytes]:
    """Return the recorded frames: each line of the file has a name and the frame in hexadecimal digits."""
    lines = CORPUS.read_text(encoding="ascii").splitlines()
    return [bytes.fromhex(line.split()[-1]) for line in lines if line and not line.startswith("#")]


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """Yield inputs, the same ones for the same seed; most are one frame, and some several."""
    source = random.Random(seed)
    frames = corpus()
    for _ in range(count):
        data = source.choice(frames)
        if source.random() < 0.5:
            data = _CHECKSUM.sub(_unchecked, data)
        for _ in range(source.randint(1, _MOST_MUTATIONS)):
            data = source.choice(_MUTATIONS)(source, data, frames)
        yield data[:_LONGEST]


def rounds(seed: int, count: int) -> Iterator[list[bytes]]:
    """Yield the inputs, a few at a time."""
    inputs = mutated(seed, count)
    while together := list(islice(inputs, TOGETHER)):
        yield together


def cut(source: random.Random, data: bytes) -> list[bytes]:
    """Return the parts in which an input arrives."""
    if source.random() < 0.5:
        return [data]
    places = sorted(source.randint(0, len(data)) for _ in range(source.randint(1, 3)))
    return [data[begin:end] for begin, end in zip([0, *places], [*places, len(data)], strict=True)]


def _unchecked(checksum: re.Match[bytes]) -> bytes:
    """Return the checksum that fits every body: else none that was changed would be read."""
    return b"0" * len(checksum[0])


def resident_bytes() -> int:
    """Return how much memory this process has; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4_096 if statm.exists() else 0


def _place(source: random.Random, data: bytes) -> int:
    return source.randint(0, len(data))


def _flip(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[source.randrange(len(data))] ^= 1 << source.randrange(8)
    return bytes(changed)


def _set(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Overwrite a byte."""
    place = _place(source, data)
    return data[:place] + bytes((source.randrange(256),)) + data[place + 1 :]


def _insert(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    place = _place(source, data)
    return data[:place] + source.choice(_TOKENS) + data[place:]


def _lose(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = sorted((_place(source, data), _place(source, data)))
    return data[:begin] + data[min(end, begin + 8) :]


def _double(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = sorted((_place(source, data), _place(source, data)))
    return data[:end] + data[begin:end] + data[end:]


def _truncate(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: _place(source, data)]


def _number(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Change one of the lengths: of the frame, of the header, or four bytes anywhere."""
    place = source.choice((0, 4, 4, 25, 29, _place(source, data)))
    number = source.choice(_NUMBERS)
    if place == 4 and source.random() < 0.5:
        number |= source.choice((0, 1, 2, 0xFF)) << 24
    return data[:place] + _LENGTH.pack(number & 0xFFFFFFFF) + data[place + 4 :]


def _mended(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Give the frame the length that it has now, so that its header is looked at."""
    if len(data) < 8:
        return data
    word = data[4:8] if source.random() < 0.5 else bytes((data[4] & 1,)) + _LENGTH.pack(len(data) - 8)[1:]
    return _LENGTH.pack(len(data) - 4) + word + data[8:]


def _other_kind(_: random.Random, data: bytes, __: Sequence[bytes]) -> bytes:
    """Say that a JSON header is binary, or the other way round."""
    return data[:4] + bytes((data[4] ^ 1,)) + data[5:] if len(data) > 4 else data


def _splice(source: random.Random, data: bytes, frames: Sequence[bytes]) -> bytes:
    other = source.choice(frames)
    return data[: _place(source, data)] + other[_place(source, other) :]


def _follow(source: random.Random, data: bytes, frames: Sequence[bytes]) -> bytes:
    return data + source.choice(frames)


_MUTATIONS: Final[tuple[Mutation, ...]] = (
    _flip,
    _set,
    _insert,
    _lose,
    _double,
    _truncate,
    _number,
    _mended,
    _mended,
    _other_kind,
    _splice,
    _follow,
)

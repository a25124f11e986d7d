"""A plan: a generator that yields batches of commands and receives their replies.

A plan does no I/O and reads no clock, so the sync and the async store run the same one. A batch is *either*
plain reads *or* calls of scripts, each of which does nothing unless the one before it did its work: then
those from the first on that the server does not know can be sent again, without running anything twice. A
plan is single-use; its executor closes it in `finally`.

Every plan raises StoreUnavailable and StoreRefused, and CorruptData when a key that it needs holds something
foreign. The docstrings of plans name what else they raise.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from .. import codec
from ..errors import CorruptData, NewerSchema, StoreRefused
from ..keys import Keys
from ..scripts import SCHEMA, Script

T = TypeVar("T")

Command: TypeAlias = tuple[str | int | bytes, ...]
"""A read-only command, as Redis takes it."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Read-only commands, sent in one round trip."""

    commands: Sequence[Command]
    tolerant: bool = False
    """Whether errors of the whole store (no permission, busy, ...) are given as ErrorReply, not raised."""

    at_primary: bool = False
    """Whether a replica cannot answer for its primary."""


class Kept(Generic[T]):
    """The items of an iterator, each made when it is first needed; can be iterated again, after that."""

    def __init__(self, source: Iterable[T]) -> None:
        self._source = iter(source)
        self._made: list[T] = []

    def __iter__(self) -> Iterator[T]:
        yield from self._made
        for item in self._source:
            self._made.append(item)
            yield item


@dataclass(frozen=True, slots=True)
class Call:
    """One script call."""

    script: Script
    keys: Sequence[str]
    args: Sequence[str | int | bytes]
    following: Iterable[Call] = ()
    """Calls that are sent with it; each does nothing unless the one before it has run.

    They may be made while those before them are on their way.
    """


Batch: TypeAlias = Reads | Call


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """What Redis answered to one command instead of a value."""

    code: str
    message: str

    @property
    def reason(self) -> str:
        """Why there is no value, for people."""
        return "no permission" if self.code == "NOPERM" else f"{self.code} {self.message}".strip()


Reply: TypeAlias = Any
"""A reply of Redis: bytes, int, None, a list, a dict (HGETALL), or an ErrorReply."""

Plan: TypeAlias = Generator[Batch, list[Reply], T]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation has come, in keys and entries; `total` is an estimate."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of the result of a stream."""

    found: tuple[T, ...]
    progress: Progress


Stream: TypeAlias = Generator[Batch | Page[T], list[Reply], None]
"""A plan that yields its result in pages, so that a result of any size fits in memory."""

_WRONG_TYPE: Final = "WRONGTYPE"


def advance(stream: Stream[T]) -> Plan[Page[T] | None]:
    """Run a stream up to its next page; None at its end. The caller closes the stream."""
    given = next(stream, None)
    while given is not None and not isinstance(given, Page):
        replies = yield given
        try:
            given = stream.send(replies)
        except StopIteration:
            return None
    return given


def checked(key: str, reply: Reply) -> Reply:
    """Return the reply of a command on `key`; raise CorruptData or StoreRefused for an error."""
    if not isinstance(reply, ErrorReply):
        return reply
    if reply.code == _WRONG_TYPE:
        raise CorruptData(key, "holds another type than the registry writes; move the foreign key away")
    raise StoreRefused(f"{key}: {reply.code} {reply.message}")


def read(*command: str | int | bytes) -> Plan[Reply]:
    """Send one read and return its reply; raise CorruptData when its key, the second word, is foreign."""
    (reply,) = yield from read_all((command,))
    return reply


def read_all(commands: Sequence[Command]) -> Plan[list[Reply]]:
    """Send reads in one round trip and return their replies, each as `read` does."""
    replies = yield Reads(commands)
    return [checked(str(command[1]), reply) for command, reply in zip(commands, replies, strict=True)]


def clock_us(time: Sequence[int | bytes]) -> int:
    """Return the reply of TIME in microseconds since 1970."""
    seconds, us = time
    return int(seconds) * 1_000_000 + int(us)


def unless_foreign(key: str, reply: Reply, corrupt: list[CorruptData] | None = None) -> Reply:
    """Return the reply, None for a key of another type; raise StoreRefused for any other error.

    What is foreign is added to `corrupt`.
    """
    try:
        return checked(key, reply)
    except CorruptData as error:
        if corrupt is not None:
            corrupt.append(error)
        return None


def without(reply: Reply) -> tuple[Reply, tuple[str, ...]]:
    """Return a script's own reply, and the foreign keys that it skipped (see `told` in _common.lua)."""
    if isinstance(reply, list) and reply and reply[0] in (b"without", "without"):
        _, keys, inner = reply
        return inner, tuple(key.decode(errors="replace") for key in keys)
    return reply, ()


def script_reply(call: Call, left_out: set[str] | None = None) -> Plan[list[Any]]:
    """Run one script and return its reply as [status, ...]; raise CorruptData, NewerSchema, StoreRefused.

    Foreign keys that it skipped are added to `left_out`; the store that runs the plan logs them.
    """
    (told,) = yield call
    return read_reply(call, told, left_out)


def read_reply(call: Call, told: Reply, left_out: set[str] | None = None) -> list[Any]:
    """Return the reply of one script as `script_reply` does."""
    if isinstance(told, ErrorReply):
        raise StoreRefused(f"{call.script.name}: {told.code} {told.message}")
    reply, foreign = without(told)
    if left_out is not None:
        left_out.update(foreign)
    status, *rest = (item.decode(errors="replace") if isinstance(item, bytes) else item for item in reply)
    if status == "corrupt":
        key, what = rest
        raise CorruptData(key, f"{what}: something else than the registry wrote it; move it away")
    if status == "schema":
        key, found = rest
        raise NewerSchema(key, found, SCHEMA)
    return [status, *rest]


def check_schema(keys: Keys) -> Plan[None]:
    """Raise NewerSchema when a newer sharedroutes keeps the registry; pass over a foreign key."""
    (reply,) = yield Reads((("GET", keys.schema),))
    if reply is None or isinstance(reply, ErrorReply):
        return
    text = reply.decode(errors="replace")
    found = codec.number(text)
    if found is not None and found > SCHEMA:
        raise NewerSchema(keys.schema, text, SCHEMA)

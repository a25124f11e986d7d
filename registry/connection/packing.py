"""Commands packed by hiredis for connections of asyncio: redis-py itself has that for threads alone."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from inspect import iscoroutinefunction
from typing import Any, Final

from redis.connection import HiredisRespSerializer

_PACKER: Final[Any] = HiredisRespSerializer()


class _Packing:
    """How a connection packs; tests/registry/test_packing.py fails when redis-py packs elsewhere."""

    def pack_command(self, *command: Any) -> list[bytes]:
        """Return the bytes of one command."""
        return list(_PACKER.pack(*command))

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> list[bytes]:
        """Return the bytes of several, as one: a transport copies each piece."""
        return [b"".join(piece for command in commands for piece in _PACKER.pack(*command))]


@cache
def packing(kind: Any) -> Any:
    """Return the kind of connection that packs with hiredis: this one where it is for threads."""
    return type(kind.__name__, (_Packing, kind), {}) if iscoroutinefunction(kind.connect) else kind

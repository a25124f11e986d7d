"""What redis-py's connections of asyncio lack: they pack with hiredis, and lose no cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import cache
from inspect import iscoroutinefunction
from typing import Any, Final

from redis.asyncio.connection import AbstractConnection
from redis.connection import HiredisRespSerializer

_PACKER: Final[Any] = HiredisRespSerializer()

_LONG_BYTES: Final = 16_384
"""Less than what a call of a registration has, so that the server gets each as soon as it is made."""


class _Adapted(AbstractConnection):
    """Goes before a kind of connection; test_adapted.py fails when redis-py packs elsewhere."""

    def pack_command(self, *command: Any) -> list[bytes]:
        """Return the bytes of one command."""
        return list(_PACKER.pack(*command))

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002
        """Send; raises CancelledError also where redis-py goes on.

        It sends in asyncio.wait_for, which before Python 3.12 forgets a cancellation that comes as it ends.
        """
        task = asyncio.current_task()
        asked = task.cancelling() if task else 0
        await super().send_packed_command(command, check_health)
        if task and task.cancelling() > asked:
            await self.disconnect(nowait=True)  # nobody will read the reply
            raise asyncio.CancelledError

    async def _send_packed_command(self, command: Iterable[bytes]) -> None:
        """Send; what is long is sent by the transport, and others have their turn, before this returns."""
        await super()._send_packed_command(command)
        if sum(map(len, command)) >= _LONG_BYTES:
            await asyncio.sleep(0)


@cache
def adapted(kind: Any) -> Any:
    """Return the kind of connection that packs with hiredis: this one where it is for threads."""
    return type(kind.__name__, (_Adapted, kind), {}) if iscoroutinefunction(kind.connect) else kind

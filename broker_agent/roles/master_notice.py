"""Hands a slave's master to its operator: in a file, and to a command."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...registry import Broker
from ..daemon_threads import in_thread
from .master import Master

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_RETRY_S: Final = 10.0
_HOOK_S: Final = 30.0
"""A command that takes longer is killed, and tried again."""


class Telling:
    """Writes each new master to `path`, and runs `hook` with it; what fails is said, and tried again.

    Of several that follow one another quickly the last is told.
    """

    def __init__(self, path: Path | None, hook: str) -> None:
        self._path = path
        self._hook = shlex.split(hook)
        self._wanted: tuple[Broker, Master] | None = None
        self._news = asyncio.Event()

    def tell(self, slave: Broker, master: Master) -> None:
        """Hand this master on, soon."""
        self._wanted = slave, master
        self._news.set()

    async def run(self) -> None:
        """Hand on until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._wanted is None or (not self._path and not self._hook):
                continue
            try:
                await self._hand_on(*self._wanted)
            except OSError as error:
                name = self._wanted[0].broker_name
                _LOG.error("%s: its master was not told, trying again in %g s: %s", name, _RETRY_S, error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_S):
                        await self._news.wait()
                self._news.set()

    async def _hand_on(self, slave: Broker, master: Master) -> None:
        if self._path is not None:
            await in_thread(_write, self._path, master)
        if self._hook:
            await _run(self._hook, slave, master)


def _write(path: Path, master: Master) -> None:
    """Replace the file in one step: who reads it finds the old or the new one."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(f"masterAddr={master.address}\nhaServerAddr={master.ha_address}\n")
    new.replace(path)


async def _run(hook: list[str], slave: Broker, master: Master) -> None:
    said = {
        "BROKER_NAME": slave.broker_name,
        "BROKER_ID": str(slave.broker_id),
        "MASTER_ADDRESS": master.address,
        "MASTER_HA_ADDRESS": master.ha_address,
    }
    nothing = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *hook, env={**os.environ, **said}, stdin=nothing, stdout=nothing
    )
    try:
        async with asyncio.timeout(_HOOK_S):
            code = await process.wait()
    except TimeoutError:
        raise OSError(f"{hook[0]}: has not ended within {_HOOK_S:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code:
        raise OSError(f"{hook[0]}: has ended with exit code {code}")

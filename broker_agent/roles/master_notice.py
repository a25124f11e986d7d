"""Tells the operator of a slave where its master is: in a file, and by a command."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...daemon.threads import in_thread
from ...registry import Broker
from .master import Master

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_RETRY_S: Final = 10.0
_HOOK_S: Final = 30.0
"""A command that takes longer is killed, and tried again."""


class MasterNotice:
    """Writes each new master to `path`, and runs `hook` with it; a failure is logged, and tried again.

    Of several masters that follow one another quickly only the last counts.
    """

    def __init__(self, path: Path | None, hook: str) -> None:
        self._path = path
        self._hook = shlex.split(hook)
        self._latest: tuple[Broker, Master] | None = None
        self._changed = asyncio.Event()

    def send(self, slave: Broker, master: Master) -> None:
        """Hand this master on, soon."""
        self._latest = slave, master
        self._changed.set()

    async def run(self) -> None:
        """Hand on until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._latest is None:
                continue
            slave, master = self._latest
            try:
                if self._path is not None:
                    await in_thread(_write, self._path, master)
                if self._hook:
                    await _run(self._hook, slave, master)
            except OSError as error:
                name = slave.broker_name
                _LOG.error("%s: its master was not told, trying again in %g s: %s", name, _RETRY_S, error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_S):
                        await self._changed.wait()
                self._changed.set()


def _write(path: Path, master: Master) -> None:
    """Replace the file in one step: a reader finds the old or the new one."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(f"masterAddr={master.address}\nhaServerAddr={master.ha_address}\n")
    new.replace(path)


async def _run(hook: list[str], slave: Broker, master: Master) -> None:
    variables = {
        "BROKER_NAME": slave.broker_name,
        "BROKER_ID": str(slave.broker_id),
        "MASTER_ADDRESS": master.address,
        "MASTER_HA_ADDRESS": master.ha_address,
    }
    nothing = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *hook, env={**os.environ, **variables}, stdin=nothing, stdout=nothing
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

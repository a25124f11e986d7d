"""Finds out for a slave where its master is (RocketMQ: the answer to REGISTER_BROKER); tells its operator."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from ...daemon.threads import in_thread
from ...registry import MASTER_ID, AsyncRouteStore, Broker, RegistryError
from ...registry.change_stream.stream import pause_s
from ..doorbells import DOWN, UP, bells_of

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_NOTICE_RETRY_S: Final = 10.0
_HOOK_S: Final = 30.0
"""A command that takes longer is killed, and tried again."""


class Master(NamedTuple):
    """Where the live master of a group is; empty = there is none."""

    address: str = ""
    """RocketMQ: masterAddr."""

    ha_address: str = ""
    """From where it replicates (RocketMQ: haServerAddr)."""


class MasterFollower:
    """Follows the master of one broker while that is a slave, and calls `notify` with each change.

    The store is asked once whenever the doorbell rings for the group, and when the doorbell is connected
    anew: an agent costs nothing while nothing changes. Each question begins after the ring, so the last
    answer is never older than the last change. A store that does not answer takes no master away.
    """

    def __init__(self, notify: Callable[[Broker, Master], None]) -> None:
        self.known: Master | None = None
        """None = the broker is no slave, or the store has not answered yet."""

        self._notify = notify
        self._broker: Broker | None = None
        self._ask = asyncio.Event()
        self._failures = 0
        self._rng = random.Random()

    def note_role(self, broker: Broker | None, store: AsyncRouteStore) -> None:
        """Note what the broker is now; None = that is not known, and the master stays."""
        if broker is None or broker == self._broker:
            return
        before, self._broker = self._broker, broker
        if _is_slave(broker):
            self._ask.set()
            bells_of(store).join(store, self, broker.broker_name, self._ask.set, (DOWN, UP))
        elif _is_slave(before):
            self._ask.set()

    async def run(self, store: AsyncRouteStore) -> None:
        """Ask the store when it is time, until cancelled."""
        try:
            while True:
                await self._ask.wait()
                self._ask.clear()
                await self._look_up(store)
        finally:
            await bells_of(store).leave(self)

    async def _look_up(self, store: AsyncRouteStore) -> None:
        broker = self._broker
        if broker is None or not _is_slave(broker):
            if broker is not None and self.known:  # promoted: it follows nobody
                self._notify(broker, Master())
            self.known = None
            await bells_of(store).leave(self)
            return
        try:
            found = await store.owner(broker.broker_name)
        except RegistryError as error:
            _LOG.debug("%s: its master is not known now: %s", broker.broker_name, error)
            self._failures += 1
            asyncio.get_running_loop().call_later(pause_s(self._failures, self._rng), self._ask.set)
            return
        self._failures = 0
        master = Master(found.broker.address, found.broker.ha_address) if found is not None else Master()
        if master != self.known and broker == self._broker:
            self.known = master
            where = f"{master.address}, HA {master.ha_address}" if master.address else "not there"
            _LOG.info("%s:%s: its master is %s", broker.broker_name, broker.broker_id, where)
            self._notify(broker, master)


def _is_slave(broker: Broker | None) -> bool:
    return broker is not None and broker.broker_id != MASTER_ID


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
                    await _run_hook(self._hook, slave, master)
            except OSError as error:
                text = "%s: its master was not told, trying again in %g s: %s"
                _LOG.error(text, slave.broker_name, _NOTICE_RETRY_S, error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_NOTICE_RETRY_S):
                        await self._changed.wait()
                self._changed.set()


def _write(path: Path, master: Master) -> None:
    """Replace the file in one step: a reader finds the old or the new one."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(f"masterAddr={master.address}\nhaServerAddr={master.ha_address}\n")
    new.replace(path)


async def _run_hook(hook: list[str], slave: Broker, master: Master) -> None:
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

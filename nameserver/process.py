"""One process of the front: its store, its sockets and its pages, from the start to the drain."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..daemon.http_server import HttpServer
from ..daemon.notifier import Notifier
from ..daemon.option import DEFAULT, masked
from ..daemon.pages import version
from ..daemon.status_page.serving import reading
from ..daemon.threads import in_thread
from ..registry import AsyncRouteStore, InvalidInput
from ..registry.concurrency_async import end
from .config import WhenStale
from .front import Front, new_name
from .pages import Pages
from .process_config import OPTIONS
from .server.listener import RemotingServer
from .serving import address_text, bound_socket, counter_samples, server_of, tls_of
from .settings import Settings, switches
from .status import FrontStatus, ProcessStatus, front_samples

_LOG: Final = logging.getLogger("sharedroutes.nameserver")

LOOK_S: Final = 1.0
CLOSING_S: Final = 2.0
"""So long the end of store, front and pages may take, after the drain."""


async def serve_pages(server: HttpServer, settings: Settings) -> None:
    """Serve the pages where they are wanted; raises AddressTaken if somebody chose that address."""
    address, said = settings.process.http_address, settings.values["http"]
    if address is not None:
        await server.serve_at(*address, _LOG, is_chosen=said.place != DEFAULT)


class FrontProcess:
    """Runs one front until `stop` is called; for the event loop in which it runs.

    `reread` returns the settings of the moment, for a reload; it raises InvalidInput. A reload hands the
    format and the level of the log to `use_log`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        reread: Callable[[], Settings] | None = None,
        use_log: Callable[[str, str], None] = lambda *_: None,
        environment: Mapping[str, str] = os.environ,
        is_worker: bool = False,
    ) -> None:
        self._settings = settings
        self._switches = switches(settings.front)
        self._reread = reread
        self._use_log = use_log
        self._is_worker = is_worker
        self._notifier = Notifier(environment)
        self._tls = tls_of(settings.process)
        self._stopping = asyncio.Event()
        self._has_failed = False
        self._listen = ""
        self._store: AsyncRouteStore | None = None
        self._front: Front | None = None
        self._server: RemotingServer | None = None
        self._began_s = asyncio.get_running_loop().time()
        self._reloads: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Serve until `stop`, then drain, and return the exit code; raises AddressTaken and InvalidInput."""
        for warning in () if self._is_worker else self._settings.warnings:
            _LOG.warning("%s", warning)
        server = HttpServer(Pages(self._status_soon, reading(lambda: self._store)).answer)
        listening = bound_socket(self._settings.process, shared=self._is_worker)
        try:
            await serve_pages(server, self._settings)
            process, name = self._settings.process, new_name()
            config = replace(process.registry, actor=f"front {name}")
            async with AsyncRouteStore.from_url(process.redis_url, config) as store:
                self._store = store
                await self._serve(Front(store, self._settings, name), listening)
            return int(self._has_failed)
        finally:
            listening.close()
            await server.aclose()

    def stop(self) -> None:
        """Ask `run` to drain and to end."""
        self._stopping.set()

    def change(self, properties: Mapping[str, str]) -> None:
        """Change settings that may be changed while it runs."""
        if self._front is not None:
            self._front.change(properties)

    def reload(self) -> None:
        """Read certificates and settings anew; what can be applied is."""
        task = asyncio.create_task(self._reload(), name="sharedroutes: reload")
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    def status(self) -> ProcessStatus:
        """Return the state of the process."""
        process, front = self._settings.process, self._front.status() if self._front else None
        unready = self._unready(front)
        return ProcessStatus(
            version=version(),
            uptime_s=asyncio.get_running_loop().time() - self._began_s,
            listen=self._listen,
            store=masked(process.redis_url),
            namespace=process.namespace,
            unhealthy=(front.failure,) if front and front.failure else (),
            unready=unready,
            samples={
                "ready": [((), float(not unready))],
                **_usage(),
                **(front_samples(front) if front else {}),
                **(counter_samples(self._server.counters) if self._server else {}),
            },
            front=front,
        )

    async def _status_soon(self) -> ProcessStatus:
        return self.status()

    def _unready(self, front: FrontStatus | None) -> tuple[str, ...]:
        if self._stopping.is_set():
            return ("it is about to end",)
        if front is None or not self._listen:
            return ("it is starting",)
        age_s, config = front.feed_age_s, self._settings.front
        if config.when_stale is WhenStale.REFUSE and age_s is not None and age_s > config.stale_s:
            return (*front.unready, f"it has not heard from the store for {age_s:.1f} s")
        return front.unready

    async def _serve(self, front: Front, listening: socket.socket) -> None:
        self._front = front
        self._server = server = server_of(front, self._settings, listening, self._tls)
        helper = asyncio.create_task(self._watch(), name="sharedroutes: word to systemd")
        try:
            if await self._until_started(front, server, address_text(listening)):
                await self._stopping.wait()
                await self._drain(server)
        finally:
            await end(helper, *self._reloads)
            try:
                async with asyncio.timeout(CLOSING_S):
                    await front.aclose()
            except TimeoutError:
                _LOG.warning("ending without a word to the store, which does not answer")

    async def _until_started(self, front: Front, server: RemotingServer, address: str) -> bool:
        """Return whether it accepts connections now; else it was told to end before."""
        starting = asyncio.ensure_future(front.start())
        stopped = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        await end(stopped)
        if not starting.done():
            await end(starting)
            return False
        starting.result()
        await server.start()
        self._listen = address
        level = logging.DEBUG if self._is_worker else logging.INFO
        store = masked(self._settings.process.redis_url)
        _LOG.log(level, "name server at %s, store %s", self._listen, store)
        self._notifier.ready()
        return True

    async def _drain(self, server: RemotingServer) -> None:
        process = self._settings.process
        self._notifier.stopping(process.drain_wait_s + process.drain_s + CLOSING_S)
        _LOG.info("draining: %d s to notice, %d s to finish", process.drain_wait_s, process.drain_s)
        await asyncio.sleep(process.drain_wait_s)
        self._listen = ""
        await server.stop(process.drain_s)
        _LOG.info("drained")

    async def _watch(self) -> None:
        """Tell systemd that the event loop goes on, and what the front does."""
        watchdog_s = self._notifier.watchdog_s
        while True:
            self._notifier.progress()
            status = self.status()
            if status.front is not None and status.front.failure and not self._has_failed:
                _LOG.critical("%s: the process ends with it", status.front.failure)
                self._has_failed = True
                self.stop()
            unready = status.unready
            self._notifier.status("; ".join(unready) or f"serves at {self._listen}")
            await asyncio.sleep(LOOK_S if watchdog_s is None else min(LOOK_S, watchdog_s / 3))

    async def _reload(self) -> None:
        self._notifier.reloading()
        try:
            if self._reread is not None:
                self._apply(await in_thread(self._reread))
            await in_thread(self._tls.refresh)
        except InvalidInput as error:
            for problem in str(error).splitlines():
                _LOG.error("reload: the settings are unchanged: %s", problem)
        finally:
            if not self._stopping.is_set():
                self._notifier.ready()

    def _apply(self, settings: Settings) -> None:
        self._use_log(settings.process.log_format, settings.process.log_level)
        # What stands as before in the file may have been changed by mqadmin, and stays so.
        before, self._switches = self._switches, switches(settings.front)
        self.change({name: text for name, text in self._switches.items() if text != before[name]})
        for option in OPTIONS:
            known, after = self._settings.values[option.key], settings.values[option.key]
            if known.value != after.value and not option.is_live:
                where = option.key if after.is_default else after.place
                _LOG.error("reload: %s has changed: restart the front to apply it", where)
        _LOG.info("reloaded")


def _usage() -> dict[str, list[tuple[Sequence[str], float]]]:
    """Return memory and time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    found: dict[str, list[tuple[Sequence[str], float]]] = {
        "cpu_seconds_total": [((), used.ru_utime + used.ru_stime)]
    }
    with suppress(OSError, ValueError, IndexError):  # Linux alone has it
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        found["resident_memory_bytes"] = [((), float(pages * resource.getpagesize()))]
    return found

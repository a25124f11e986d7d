"""Several processes of one front at one port: the parent that keeps them, and their side of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from ..daemon.http_server import HttpServer
from ..daemon.notifier import Notifier
from ..daemon.option import masked
from ..daemon.pages import version
from ..daemon.status_page.serving import reading
from ..registry import AsyncRouteStore, InvalidInput
from ..registry.concurrency_async import end
from .pages import Pages
from .process import CLOSING_S, LOOK_S, FrontProcess, serve_pages
from .serving import address_text, bound_socket
from .settings import Settings, switches
from .status import ProcessStatus, Samples, merged, only_counters

_LOG: Final = logging.getLogger("sharedroutes.nameserver")

CHANNEL_VARIABLE: Final = "_SHAREDROUTES_NAMESERVER_CHANNEL"
"""In a worker: the number of the descriptor over which its parent asks it how it is."""

_FIXED: Final = {"--http": "off", "--workers": "1"}
_HOPELESS: Final = (2, 3)
"""Exit codes after which a new worker would end in the same way."""

_ANSWER_S: Final = 2.0
_SILENT_S: Final = 20.0
"""A worker that has not answered for so long is replaced."""

_BACKOFF_S: Final = (0.1, 10.0)
"""The pause before a new worker, which doubles from the first to the second while they end at once."""

_LIVED_S: Final = 10.0
_MOST_BYTES: Final = 2**20
_LOOK: Final = b"look\n"
"""A question of the parent; any other line is JSON of settings to change. Each is answered."""


async def obey_parent(descriptor: int, process: FrontProcess) -> None:
    """Tell the parent how this worker is whenever it asks, do as it says, and drain when it is gone."""
    channel = socket.socket(fileno=descriptor)
    reader, writer = await asyncio.open_unix_connection(sock=channel)
    try:
        with suppress(ConnectionError):
            while line := await reader.readline():
                if line != _LOOK:
                    process.change(orjson.loads(line))
                writer.write(_as_line(process.status()))
        process.stop()
    finally:
        writer.close()


def _as_line(status: ProcessStatus) -> bytes:
    found = {"listen": status.listen, "unready": status.unready, "samples": status.samples}
    return orjson.dumps({**found, "front": status.front}, option=orjson.OPT_APPEND_NEWLINE)


class _Worker:
    """One worker process after the other."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.restarts = 0
        self.process: asyncio.subprocess.Process | None = None
        self.seen: Mapping[str, Any] = {}
        """What the process has told last."""

        self.began_s = self.answered_s = 0.0
        self.pause_s = _BACKOFF_S[0]
        self._answered = asyncio.Event()
        self._is_to_reload = False
        self._hearing: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"worker {self.number}"

    @property
    def unready(self) -> tuple[str, ...]:
        """Why it should get no requests."""
        reasons = self.seen.get("unready", ("it is starting",))
        return tuple(f"{self.name}: {reason}" for reason in reasons)

    @property
    def switches(self) -> Mapping[str, str]:
        """The settings that an operator may have changed in it."""
        found: Mapping[str, str] = (self.seen.get("front") or {}).get("switches", {})
        return found

    def change(self, switches: Mapping[str, str]) -> None:
        """Change these settings."""
        if self._writer is not None:
            self._writer.write(orjson.dumps(switches, option=orjson.OPT_APPEND_NEWLINE))

    @property
    def samples(self) -> Samples:
        """Its numbers."""
        found: Samples = self.seen.get("samples", {})
        return found

    async def start(self, command: list[str], environment: Mapping[str, str]) -> None:
        """Start a process."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    env={**environment, CHANNEL_VARIABLE: str(theirs.fileno())},
                    pass_fds=(theirs.fileno(),),
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the parent, which then tells the workers
                )
        except BaseException:
            ours.close()
            raise
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=_MOST_BYTES)
        self._hearing = asyncio.create_task(self._hear(reader), name=f"sharedroutes: {self.name}")
        self.began_s = self.answered_s = asyncio.get_running_loop().time()
        self.process = process

    async def look(self) -> None:
        """Ask the process how it is; what it told before stays where it does not answer."""
        if self._writer is None:
            return
        self._answered.clear()
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_ANSWER_S):
                self._writer.write(_LOOK)
                await self._answered.wait()

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while line := await reader.readline():
                self.seen = orjson.loads(line)
                self.answered_s = asyncio.get_running_loop().time()
                self._answered.set()
                if self._is_to_reload:
                    self.reload()
        self._answered.set()  # nobody has to wait for one who is gone

    def reload(self) -> None:
        """Have the process read its settings anew, once it has answered: before, the signal may end it."""
        self._is_to_reload = not self.seen
        if self.seen:
            self.tell(signal.SIGHUP)

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    async def forget(self) -> Samples:
        """Close what belongs to a process that has ended; return what it has counted."""
        if self._hearing is not None:
            await end(self._hearing)
        if self._writer is not None:
            self._writer.close()
        counted, self.seen = only_counters(self.samples), {}
        self.process = self._hearing = self._writer = None
        return counted


class Workers:
    """Keeps the workers of a front running until `stop` is called; for the event loop in which it runs.

    `flags` are those of the command line, which each worker gets, too.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        flags: Mapping[str, str],
        reread: Callable[[], Settings],
        use_log: Callable[[str, str], None],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._flags = flags
        self._reread = reread
        self._use_log = use_log
        self._environment = environment
        self._notifier = Notifier(environment)
        self._workers = [_Worker(number) for number in range(1, settings.process.workers + 1)]
        self._stopping = asyncio.Event()
        self._counted: Samples = {}
        """What workers that have ended had counted."""

        self._switches: Mapping[str, str] = switches(settings.front)
        self._switches_of: dict[int, Mapping[str, str]] = {}
        """What each worker had when it was looked at last."""

        self._codes: list[int] = []
        self._listen = ""
        self._store: AsyncRouteStore | None = None
        self._began_s = asyncio.get_running_loop().time()

    async def run(self) -> int:
        """Keep the workers running until `stop`, let them drain, and return the worst of their exit codes.

        Raises AddressTaken.
        """
        for warning in self._settings.warnings:
            _LOG.warning("%s", warning)
        listening = _reserved(self._settings)
        process = self._settings.process
        server = HttpServer(Pages(self._status, reading(lambda: self._store)).answer)
        try:
            self._listen = address_text(listening)
            # It connects when somebody looks at the page.
            async with AsyncRouteStore.from_url(process.redis_url, process.registry) as self._store:
                await serve_pages(server, self._settings)
                await self._keep_all()
            return max(self._codes, default=0)
        finally:
            self.kill()
            listening.close()
            await server.aclose()

    def stop(self) -> None:
        """Ask all workers to drain, and `run` to end."""
        if not self._stopping.is_set():
            process = self._settings.process
            self._notifier.stopping(process.drain_wait_s + process.drain_s + 2 * CLOSING_S)
        self._stopping.set()
        for worker in self._workers:
            worker.tell(signal.SIGTERM)

    def reload(self) -> None:
        """Read the settings anew, in all workers, too."""
        self._notifier.reloading()
        with suppress(InvalidInput):  # the workers say what is wrong with them
            process = self._reread().process
            self._use_log(process.log_format, process.log_level)
        for worker in self._workers:
            worker.reload()
        self._notifier.ready()

    def kill(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            worker.tell(signal.SIGKILL)

    async def _keep_all(self) -> None:
        tasks = [asyncio.create_task(self._keep(worker), name=worker.name) for worker in self._workers]
        watch = asyncio.create_task(self._watch(), name="sharedroutes: the watch of the workers")
        try:
            await self._stopping.wait()
            process = self._settings.process
            latest_s = process.drain_wait_s + process.drain_s + CLOSING_S
            _, late = await asyncio.wait(tasks, timeout=latest_s)
            if late:
                _LOG.error("%s did not end in time", ", ".join(sorted(task.get_name() for task in late)))
                self.kill()
                await asyncio.wait(late)
            for task in tasks:
                task.result()
        finally:
            await end(watch, *tasks)

    async def _keep(self, worker: _Worker) -> None:
        """Start a worker, and another one whenever it ends, until all are to end."""
        while not self._stopping.is_set():
            try:
                await worker.start(self._command(), self._environment_of_workers())
            except OSError as error:  # no more processes, no memory, or the program is just being replaced
                _LOG.error("%s: cannot be started now: %s", worker.name, error)
                await self._rest(worker)
                continue
            process = worker.process
            assert process is not None  # noqa: S101 - it was just started
            _LOG.info("%s: process %d", worker.name, process.pid)
            if self._stopping.is_set():
                worker.tell(signal.SIGTERM)
            code = await process.wait()
            self._counted = merged((self._counted, await worker.forget()))
            self._switches_of.pop(worker.number, None)  # the next one begins with those of the start
            if self._stopping.is_set():
                self._codes.append(_worth(code))
                return
            if code in _HOPELESS:
                self._codes.append(code)
                self.stop()
                return
            await self._pause(worker, process.pid, code)

    async def _pause(self, worker: _Worker, pid: int, code: int) -> None:
        """Wait before the next process, the longer the more of them have ended at once."""
        lived_s = asyncio.get_running_loop().time() - worker.began_s
        worker.pause_s = _BACKOFF_S[0] if lived_s >= _LIVED_S else worker.pause_s
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        text = "%s: process %d has ended with %s after %.1f s: another one starts in %.1f s"
        _LOG.error(text, worker.name, pid, how, lived_s, worker.pause_s)
        await self._rest(worker)
        worker.restarts += 1

    async def _rest(self, worker: _Worker) -> None:
        """Wait for its pause, unless all are to end; the next one is longer."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), worker.pause_s)
        worker.pause_s = min(2 * worker.pause_s, _BACKOFF_S[1])

    def _command(self) -> list[str]:
        flags = {flag: value for flag, value in self._flags.items() if flag != "--redis"}
        flags |= {**_FIXED, "--listen": self._listen}
        return [sys.executable, "-P", "-m", "sharedroutes.nameserver", *map("=".join, flags.items())]

    def _environment_of_workers(self) -> Mapping[str, str]:
        """Return the parent's, with the store in use; systemd hears of the parent alone."""
        found = {name: value for name, value in self._environment.items() if name != "NOTIFY_SOCKET"}
        return found | {"SHAREDROUTES_REDIS_URL": self._settings.process.redis_url}

    async def _watch(self) -> None:
        """Look at the workers, replace those that hang, and tell systemd."""
        watchdog_s, is_known = self._notifier.watchdog_s, False
        clock = asyncio.get_running_loop().time
        while True:
            status = await self._status()
            if not is_known and all(worker.seen.get("listen") for worker in self._workers):
                is_known = True
                text = "name server at %s, %d workers, store %s"
                _LOG.info(text, self._listen, len(self._workers), status.store)
                self._notifier.ready()
            for worker in self._workers:
                if worker.process is not None and clock() - worker.answered_s > _SILENT_S:
                    _LOG.critical("%s: has not answered for %.0f s: killing it", worker.name, _SILENT_S)
                    worker.tell(signal.SIGKILL)
            self._notifier.progress()
            self._notifier.status("; ".join(status.unready) or f"serves at {self._listen}")
            await asyncio.sleep(LOOK_S if watchdog_s is None else min(LOOK_S, watchdog_s / 3))

    def _spread_changes(self) -> None:
        """Change in all workers what an operator has changed in the one that he was connected to."""
        found = {worker.number: worker.switches for worker in self._workers if worker.switches}
        for number, its in found.items():
            if its not in (self._switches, self._switches_of.get(number, its)):
                self._switches = its
        self._switches_of = found
        for worker in self._workers:
            if worker.switches and worker.switches != self._switches:
                worker.change(self._switches)

    async def _status(self) -> ProcessStatus:
        await asyncio.gather(*(worker.look() for worker in self._workers))
        self._spread_changes()
        unready = tuple(reason for worker in self._workers for reason in worker.unready)
        if self._stopping.is_set():
            unready = ("it is about to end",)
        process = self._settings.process
        samples = merged((self._counted, *(worker.samples for worker in self._workers)))
        return ProcessStatus(
            version=version(),
            uptime_s=asyncio.get_running_loop().time() - self._began_s,
            listen=self._listen,
            store=masked(process.redis_url),
            namespace=process.namespace,
            unready=unready,
            samples={**samples, "ready": [((), float(not unready))]},
            workers=tuple(_shown(worker) for worker in self._workers),
        )


def _shown(worker: _Worker) -> Mapping[str, Any]:
    found: dict[str, Any] = {"number": worker.number, "restarts": worker.restarts}
    if worker.process is not None:
        found["pid"] = worker.process.pid
    return found | {key: worker.seen[key] for key in ("unready", "front") if key in worker.seen}


def _worth(code: int) -> int:
    """Return what the end of a worker that was told to end is worth: a signal other than ours is a fault."""
    return 0 if code == -signal.SIGTERM else 1 if code < 0 else code


def _reserved(settings: Settings) -> socket.socket:
    """Return a socket that keeps the port for the workers; raises AddressTaken.

    It never listens. Another front's workers would share their port with ours: so it is tried alone first.
    """
    if settings.process.listen_address[1]:
        bound_socket(settings.process).close()
    return bound_socket(settings.process, shared=True)

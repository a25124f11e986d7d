"""The agent process: the agents of its brokers over one store, one sweep, HTTP, signals and systemd."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from ...daemon.http_server import HttpServer
from ...daemon.notifier import Notifier
from ...daemon.option import masked
from ...daemon.pages import version
from ...daemon.threads import in_thread
from ...registry import AsyncRouteStore, AsyncSweeper, InvalidInput, NotFound
from ...registry.concurrency_async import end
from ..agent import BrokerAgent
from ..config import AgentConfig
from ..planner.intent import LEAST_WATCH_S
from ..settings.reload import Changes, changes, looked_again
from ..settings.sidecar_config import AwaitedBroker, BrokerSettings, SidecarConfig
from .pages import Pages
from .process_status import ProcessStatus
from .supervision import Progress

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""The signals that the process handles: stop, stop, reload, drain, resume."""

_LOOK_S: Final = 1.0
_GRACE_S: Final = 0.4
"""Beyond the time that the agents allow the store when they end."""

_LEAVING_S: Final = 0.7
"""The same for all that the process does at its end, before its last words."""

_LAST_LOOK_S: Final = 0.3
"""So long HTTP goes on where the process was told something while it ends: `agent-ctl --wait` looks five
times a second whether it is done."""

_REREAD_S: Final = 20.0
"""A reload gives up then: systemd, as the unit says, waits for 30 s."""


class Fault(Exception):
    """A part of the process ended unexpectedly: the process has to be restarted."""


class Sidecar:
    """Runs what a configuration says until `stop` is called; for the event loop in which it runs.

    `reread` returns the configuration of the moment, for a reload; it raises InvalidInput. A reload hands the
    format and the level of the log to `use_log`.
    """

    def __init__(
        self,
        config: SidecarConfig,
        *,
        reread: Callable[[], SidecarConfig] | None = None,
        use_log: Callable[[str, str], None] = lambda *_: None,
        environment: Mapping[str, str] = os.environ,
        rng: random.Random | None = None,
    ) -> None:
        self._config = config
        self._reread = reread
        self._use_log = use_log
        self._rng = rng or random.Random()
        self._notifier = Notifier(environment)
        self._progress = Progress()
        self._agents: dict[BrokerAgent, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        """Agents whose broker was taken out of the configuration."""

        self._helpers: set[asyncio.Task[None]] = set()

        self._ended: asyncio.Queue[asyncio.Task[None] | None] = asyncio.Queue()
        self._stopping = False
        self._told_late = False
        """Whether a control came while the process ends."""

        self._started = asyncio.Event()
        """Set when the agents of the first configuration have been started."""

        self._reload_lock = asyncio.Lock()
        self._reloads: set[asyncio.Task[Sequence[str]]] = set()
        self._store: AsyncRouteStore | None = None
        self._sweeper: AsyncSweeper | None = None
        self._began_s: float | None = None

    async def run(self) -> None:
        """Work until `stop`, then take out the brokers that end too, and leave the others to the next agent.

        Raises AddressTaken, InvalidInput for what cannot be used of the configuration, and Fault.
        """
        for warning in self._config.warnings:
            _LOG.warning("%s", warning)
        pages = Pages(self, lambda: self._store, control=self._config.value("http_control"))
        server = HttpServer(pages.answer)
        self._began_s = asyncio.get_running_loop().time()
        try:
            await self._serve(server)
            async with AsyncRouteStore.from_url(self._config.redis_url, self._config.registry) as store:
                await self._work(store)
        finally:
            await server.aclose()

    def stop(self) -> None:
        """Ask `run` to end; a second call ends the watch of brokers that go on."""
        if self._stopping:
            for agent in self._agents:
                agent.hand_over(0.0)
        self._stopping = True
        self._ended.put_nowait(None)

    @property
    def leaving_s(self) -> float:
        """The longest time from a second `stop` to the end of `run`, if nothing hangs."""
        return LEAST_WATCH_S + self._longest("stop_deadline_s") + _LEAVING_S

    @property
    def watch_s(self) -> float:
        """So much longer may it take after the first `stop`, while brokers are up."""
        return self._longest("stop_watch_s")

    def status(self) -> ProcessStatus:
        """Return the state of the process."""
        now = asyncio.get_running_loop().time()
        brokers = [agent.status() for agent in self._agents]
        return ProcessStatus(
            version=version(),
            uptime_s=0.0 if self._began_s is None else now - self._began_s,
            store=masked(self._config.redis_url),
            namespace=self._config.registry.namespace,
            clock_problem=self._sweeper.clock_problem if self._sweeper is not None else None,
            brokers=tuple(replace(one, stuck=self._progress.stuck(one.name)) for one in brokers),
            awaited=tuple(map(_waiting, self._config.awaited)),
        )

    def drain(self, broker: str = "", wait_s: float | None = None) -> Sequence[str]:
        """Take the write permission away, wait, and take the broker out of the registry.

        As for `pause` and `resume`, `broker` is its name, with or without `:id`; empty = all of them. Returns
        the names of those that are meant; raises NotFound when none has that name.
        """
        return self._each(broker, lambda agent: agent.drain(wait_s))

    def pause(self, broker: str = "") -> Sequence[str]:
        """Take the broker out of the registry at once."""
        return self._each(broker, BrokerAgent.pause)

    def resume(self, broker: str = "") -> Sequence[str]:
        """Let the broker come back."""
        return self._each(broker, BrokerAgent.resume)

    async def reload(self) -> Sequence[str]:
        """Read all files anew; return the problems, and what needs a restart: both are logged.

        It is done also when the caller is cancelled: systemd is waiting for its end.
        """
        return await asyncio.shield(self._reload_soon())

    def obey_signals(self) -> None:
        """Reload at SIGHUP, drain at SIGUSR1 and resume at SIGUSR2, until the event loop is closed."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload_soon)
        loop.add_signal_handler(signal.SIGUSR1, self.drain)
        loop.add_signal_handler(signal.SIGUSR2, self.resume)

    def _longest(self, setting: str) -> float:
        return max((getattr(agent.config, setting) for agent in self._agents), default=0.0)

    async def _serve(self, server: HttpServer) -> None:
        said = self._config.values["http"]
        host, _, port = said.value.rpartition(":")
        if host:  # else it is off
            await server.serve_at(host.strip("[]"), int(port), _LOG, is_chosen=not said.is_default)

    async def _work(self, store: AsyncRouteStore) -> None:
        self._store = store
        self._sweeper = AsyncSweeper(store, self._rng, quiet=True)
        self._helpers |= {
            self._task("the sweep", self._sweeper.run()),
            self._task("the look at progress", self._watch_progress()),
            self._task("the wait for brokers", self._await_brokers()),
        }
        for config in self._config.agents:
            self._start(config)
        for broker in self._config.awaited:
            _LOG.warning("%s", _waiting(broker))
        self._started.set()
        self._notifier.ready()
        watch_s = 0.0  # after a fault the next process has to come soon
        try:
            fault = await self._until_ended()
            watch_s = self.watch_s if fault is None else 0.0
        finally:
            await self._leave(watch_s)
        if fault is not None:
            raise Fault(fault)

    def _task(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a part of the process whose end ends the process."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended.put_nowait)
        return task

    def _start(self, config: AgentConfig) -> None:
        if self._stopping:  # nobody would take the broker out of the registry
            return
        agent = BrokerAgent(config, store=self._store, rng=self._rng)
        self._agents[agent] = self._task(f"the agent of {agent.status().name}", agent.run())

    async def _until_ended(self) -> str | None:
        """Wait for `stop`; return which part ended instead, and None when none did."""
        while not self._stopping:
            task = await self._ended.get()
            if task is None:
                continue
            error = None if task.cancelled() else task.exception()
            if task in self._leaving and error is None:
                self._leaving.discard(task)
                continue
            _LOG.critical(
                "%s ended unexpectedly, and the process ends with it", task.get_name(), exc_info=error
            )
            return task.get_name()
        return None

    async def _leave(self, watch_s: float) -> None:
        """Take out the brokers that end as well, and leave the leases of the others to the next process.

        What takes too long is ended.
        """
        self._stopping = True
        self._notifier.stopping(watch_s + self.leaving_s)
        for task in self._reloads:
            task.cancel()
        for agent in self._agents:
            agent.hand_over(min(watch_s, agent.config.stop_watch_s))
        tasks = {*self._agents.values(), *self._leaving}
        if tasks:
            longest_s = max(watch_s, LEAST_WATCH_S) + self._longest("stop_deadline_s") + _GRACE_S
            await asyncio.wait(tasks, timeout=longest_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await end(*tasks, *self._helpers, *self._reloads)
                if self._told_late:
                    await asyncio.sleep(_LAST_LOOK_S)

    async def _await_brokers(self) -> None:
        """Start the agents of brokers whose broker.conf could not be read at first."""
        while True:
            for broker in self._config.awaited:
                found = await in_thread(looked_again, broker, self._config)
                self._take_again(broker, found)
            await asyncio.sleep(_LOOK_S)

    def _take_again(self, broker: AwaitedBroker, found: BrokerSettings | AwaitedBroker) -> None:
        config = self._config
        others = tuple(one for one in config.awaited if one is not broker)
        if len(others) == len(config.awaited):  # a reload came between
            return
        if isinstance(found, BrokerSettings):
            _LOG.info("%s: is there now", broker.path)
            self._config = replace(config, brokers=(*config.brokers, found), awaited=others)
            self._start(found.config)
        elif found.why != broker.why:
            _LOG.warning("%s", _waiting(found))
            awaited = tuple(found if one is broker else one for one in config.awaited)
            self._config = replace(config, awaited=awaited)

    async def _watch_progress(self) -> None:
        clock = asyncio.get_running_loop().time
        watchdog_s = self._notifier.watchdog_s
        look_s = _LOOK_S if watchdog_s is None else min(_LOOK_S, watchdog_s / 2)
        told_s = clock()
        while True:
            before = self._progress.any_stuck
            call_s = self._config.registry.call_deadline_s
            looked = [(agent.status(), agent.config.heartbeat_s + call_s) for agent in self._agents]
            self._progress.look(looked, clock())
            stuck = self._progress.any_stuck
            if stuck and not before:
                _LOG.critical("no progress: %s", "; ".join(stuck))
            if not stuck and watchdog_s is not None and clock() - told_s >= watchdog_s / 2 - look_s:
                self._notifier.progress()
                told_s = clock()
            self._notifier.status("; ".join(f"{status.name} {status.phase}" for status, _ in looked))
            await asyncio.sleep(look_s)

    def _each(self, broker: str, act: Callable[[BrokerAgent], None]) -> Sequence[str]:
        """Do something with the agents of that name; return their names. Raises NotFound."""
        names = {agent: agent.status().name for agent in self._agents}
        meant = [agent for agent in names if broker in ("", names[agent], agent.config.broker.broker_name)]
        if broker and not meant:
            raise NotFound(
                f"broker: {broker!r} is not one of this process: it has {', '.join(names.values())}"
            )
        for agent in meant:
            act(agent)
        self._told_late = self._told_late or self._stopping
        return [names[agent] for agent in meant]

    def _reload_soon(self) -> asyncio.Task[Sequence[str]]:
        task = asyncio.create_task(self._reload(), name="sharedroutes: reload")
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)
        return task

    async def _reload(self) -> Sequence[str]:
        async with self._reload_lock:
            await self._started.wait()
            if self._stopping:
                return ["the process is about to end"]
            self._notifier.reloading()
            try:
                problems = await self._take_changes()
                for problem in problems:
                    _LOG.error("reload: %s", problem)
                unreadable = await asyncio.gather(*(agent.reload() for agent in self._agents))
                _LOG.info("reloaded")
                return [*problems, *filter(None, unreadable)]
            finally:
                if not self._stopping:
                    self._notifier.ready()

    async def _take_changes(self) -> list[str]:
        if self._reread is None:
            return []
        try:
            async with asyncio.timeout(_REREAD_S):
                config = await in_thread(self._reread)
            found = changes(self._config, config)
        except InvalidInput as error:
            return [f"the settings are unchanged: {problem}" for problem in str(error).splitlines()]
        except TimeoutError:
            return [f"the settings are unchanged: they could not be read within {_REREAD_S:g} s"]
        self._use_log(config.value("log_format"), config.value("log_level"))
        self._apply(found)
        return list(found.need_restart)

    def _apply(self, found: Changes) -> None:
        known = {broker.path for broker in self._config.awaited}
        self._config = found.config
        for agent in [one for one in self._agents if one.config.broker_conf_path in found.gone]:
            _LOG.info("reload: %s is no longer in the configuration", agent.status().name)
            agent.stop()
            self._leaving.add(self._agents.pop(agent))
        for broker in found.config.awaited:
            if broker.path not in known:
                _LOG.warning("%s", _waiting(broker))
        for config in found.new:
            _LOG.info("reload: %s is new in the configuration", config.broker.broker_name)
            self._start(config)


def _waiting(broker: AwaitedBroker) -> str:
    return f"{broker.why}: waiting for it"

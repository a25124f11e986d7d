"""Makes the events happen, one after the other, and notes when the effect of each is there."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Final, TypeAlias

from sharedroutes.registry import EmbeddedServer, RouteStore, StoreUnavailable

from ..processes import LOOPBACK, DemoFailed, Patience, ProcessGroup, free_ports, kill, last_lines, listens
from . import rocketmq
from .front_watch import FrontWatch
from .results import Observed, Report
from .scenario import (
    BROKERS,
    FRONT_LIVES_S,
    FRONTS,
    MESSAGES_PER_S,
    RECEIVED_S,
    SCENARIO,
    TOPIC,
    Event,
)
from .show import Show
from .traffic import Traffic

_START_S: Final = 60.0
"""Between the effect of an event and the next event."""

_ALL: Final = frozenset(BROKERS)

_Effect: TypeAlias = Callable[[], bool]
"""Whether the effect of an event is there."""


class Stage:
    """Redis, two fronts, two brokers, a producer and a consumer; `stack` ends all of them."""

    def __init__(self, stack: ExitStack, folder: Path, patience: Patience, show: Show) -> None:
        self._stack = stack
        self._folder = folder
        self._patience = patience
        self._show = show
        # Nobody else can take a socket file while the server is away; a free port they can.
        self._server = stack.enter_context(EmbeddedServer(unix_socket=folder / "redis.sock"))
        self._store = stack.enter_context(RouteStore.from_url(self._server.url))
        self._traffic: Traffic | None = None
        stack.callback(self._end_traffic)
        self._processes = stack.enter_context(ProcessGroup())
        self._of: dict[str, subprocess.Popen[bytes]] = {}
        ports = free_ports(len(FRONTS) + 2 * len(BROKERS))
        self._front_ports = dict(zip(FRONTS, ports, strict=False))
        self._broker_ports = {name: ports[2 + 2 * place :][:2] for place, name in enumerate(BROKERS)}
        self._watches = [FrontWatch(name, port, rocketmq.CLUSTER) for name, port in self._front_ports.items()]
        self._live = _ALL

    def run(self, scenario: Sequence[Event] = SCENARIO) -> Report:
        """Make the events happen; return what was seen. Raises DemoFailed and Interrupted."""
        for name in FRONTS:
            self._start_front(name)
        self._await(lambda: all(map(listens, self._front_ports.values())), "the fronts do not listen")
        for watch in self._watches:
            self._stack.enter_context(watch)
        self._show.follow(self._watches)
        observed = [self._happen(event) for event in scenario]
        traffic = self._running_traffic()
        ended_s = monotonic()
        traffic.stop_sending()
        self._patience.until(lambda: traffic.is_done and not traffic.lost(), RECEIVED_S)
        return Report.of(observed, traffic.said, ended_s)

    def logs(self) -> str:
        """Return the last lines of every process."""
        return last_lines(self._folder)

    def _happen(self, event: Event) -> Observed:
        self._show.say(event.title)
        began_s = monotonic()
        seen_s = self._patience.until(self._act(event), event.bound_s)
        after_s = None if seen_s is None else seen_s - began_s
        self._show.seen(event.effect, after_s, event.bound_s)
        self._patience.until(lambda: False, event.calm_s)
        return Observed(event, began_s, after_s)

    def _act(self, event: Event) -> _Effect:
        """Carry out an event; return what tells whether its effect is there."""
        acts: dict[str, Callable[[str, float], _Effect]] = {
            "brokers-start": self._start_brokers,
            "topic-made": self._make_topic,
            "traffic-starts": self._start_traffic,
            "front-killed": self._kill_front,
            "front-back": self._start_front_again,
            "store-empty": self._empty_store,
            "broker-stopped": self._stop_broker,
            "broker-resumed": self._resume_broker,
            "broker-killed": self._kill_broker,
            "broker-back": self._start_broker_again,
        }
        return acts[event.name](event.about, monotonic())

    def _start_brokers(self, *_: object) -> _Effect:
        for name in BROKERS:
            self._start_broker(name)
        return self._are_routes_right

    def _make_topic(self, *_: object) -> _Effect:
        command = rocketmq.make_topic(TOPIC, self._folder_of("mqadmin"), self._name_servers)
        mqadmin = self._start("mqadmin", command)
        for watch in self._watches:
            watch.topic = TOPIC
        return lambda: mqadmin.poll() == 0 and self._are_routes_right()

    def _start_traffic(self, _: str, since_s: float) -> _Effect:
        folder = self._folder_of("traffic")
        command = rocketmq.traffic(folder, self._name_servers, TOPIC, MESSAGES_PER_S)
        traffic = Traffic(self._processes.start(command, folder / "traffic.log", piped=True))
        self._traffic = traffic
        self._show.follow(self._watches, traffic)
        return lambda: traffic.has_used(_ALL, since_s, "sent", "received")

    def _kill_front(self, name: str, since_s: float) -> _Effect:
        kill(self._of[name])
        return lambda: self._has_held(name, since_s)

    def _start_front_again(self, name: str, since_s: float) -> _Effect:
        self._start_front(name)
        return lambda: self._has_answered(name, since_s)

    def _empty_store(self, _: str, since_s: float) -> _Effect:
        self._server.kill()
        self._show.store(up=False)
        self._server.start()
        self._show.store(up=True)
        return lambda: self._is_table_whole() and self._were_routes_right(since_s)

    def _stop_broker(self, name: str, _: float) -> _Effect:
        self._of[name].send_signal(signal.SIGSTOP)
        self._live -= {name}
        return self._are_routes_right

    def _resume_broker(self, name: str, since_s: float) -> _Effect:
        self._of[name].send_signal(signal.SIGCONT)
        return self._comes_back(name, since_s)

    def _kill_broker(self, name: str, _: float) -> _Effect:
        kill(self._of[name])
        self._live -= {name}
        return self._are_routes_right

    def _start_broker_again(self, name: str, since_s: float) -> _Effect:
        self._start_broker(name)
        return self._comes_back(name, since_s)

    def _start_front(self, name: str) -> None:
        listen = f"{LOOPBACK}:{self._front_ports[name]}"
        words = ("--listen", listen, "--redis", self._server.url, "--http", "off")
        self._of[name] = self._start(name, (sys.executable, "-m", "sharedroutes.nameserver", *words))

    def _start_broker(self, name: str) -> None:
        folder = self._folder_of(name)
        command = rocketmq.broker(name, folder, self._broker_ports[name], self._name_servers)
        self._of[name] = self._start(name, command)

    def _start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return self._processes.start(command, self._folder_of(name) / f"{name}.log")

    def _folder_of(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def _name_servers(self) -> str:
        return ";".join(f"{LOOPBACK}:{port}" for port in self._front_ports.values())

    def _are_routes_right(self) -> bool:
        return all(watch.says(self._live) for watch in self._watches)

    def _were_routes_right(self, since_s: float, but: str = "") -> bool:
        answers = [one for watch in self._watches if watch.name != but for one in watch.since(since_s)]
        return bool(answers) and all(one.brokers == self._live for one in answers)

    def _has_held(self, killed: str, since_s: float) -> bool:
        """Whether the routes have stayed at the other front for long enough, and clients have gone on."""
        return (
            monotonic() - since_s >= FRONT_LIVES_S
            and self._were_routes_right(since_s, but=killed)
            and self._running_traffic().has_used(_ALL, since_s, "sent", "received")
        )

    def _has_answered(self, front: str, since_s: float) -> bool:
        """Whether the first answer of a front that was started again is right."""
        (watch,) = (one for one in self._watches if one.name == front)
        answers = [one.brokers for one in watch.since(since_s) if one.brokers is not None]
        return bool(answers) and answers[0] == self._live

    def _is_table_whole(self) -> bool:
        """Whether the store itself has the whole route."""
        try:
            found = self._store.routes((TOPIC,))
        except StoreUnavailable:
            return False
        return TOPIC in found and {row.broker_name for row in found[TOPIC].queue_datas} == self._live

    def _comes_back(self, broker: str, since_s: float) -> _Effect:
        self._live |= {broker}
        used, traffic = frozenset((broker,)), self._running_traffic()
        return lambda: self._are_routes_right() and traffic.has_used(used, since_s, "sent")

    def _end_traffic(self) -> None:
        if self._traffic is not None:
            self._traffic.end()

    def _running_traffic(self) -> Traffic:
        if self._traffic is None or self._traffic.has_ended:
            raise DemoFailed(f"producer and consumer have ended:\n{self.logs()}")
        return self._traffic

    def _await(self, condition: Callable[[], bool], problem: str) -> None:
        if self._patience.until(condition, _START_S) is None:
            raise DemoFailed(f"{problem} after {_START_S:g} s:\n{self.logs()}")

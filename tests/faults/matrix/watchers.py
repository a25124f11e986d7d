"""Who asks agents and fronts what they say, reads snapshots, and asks the system what processes take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Literal, Self

import orjson

from sharedroutes.client.snapshot import SnapshotError, decode
from sharedroutes.remoting import FrameError, RequestCode, ResponseCode, fastjson
from tests.faults.checker.history import LISTED, Replica, Route, Saved, State, Usage, Writer
from tests.faults.checker.leftovers import COUNTS, grown
from tests.faults.matrix.fleet import Fleet
from tests.faults.matrix.settings import BOUNDS, TOPICS, snapshot_of
from tests.faults.matrix.sockets import usage_of
from tests.faults.matrix.stalls import EVERY_S, Stalls
from tests.faults.matrix.stores import NAMESPACE
from tests.faults.matrix.watcher import Watcher
from tests.faults.victims import AgentProcess
from tests.nameserver.running import Peer

Phase = Literal["before", "during", "after"]
Says = Literal["owner", "standby", "left"]

_ANSWER_S: Final = 0.5
_LOOK_S: Final = 0.2
_SAID_AGAIN_S: Final = 1.0
_USAGE_S: Final = 2.0
_SAYS: Final[Mapping[str, Says]] = {
    "serving": "owner",
    "handing-over": "owner",
    "draining": "owner",
    "standby": "standby",
}


class AgentWatch:
    """Asks one agent what it says of its broker."""

    def __init__(self, agent: AgentProcess, history: Writer) -> None:
        self._agent = agent
        self._history = history
        self._said: tuple[Says, int | None] | None = None
        self._fenced = 0
        self.looked_s = 0.0
        """When it answered last, by the monotonic clock."""

    @property
    def says(self) -> Says | None:
        """What it said last."""
        return None if self._said is None else self._said[0]

    def look(self) -> None:
        """Ask, and write down what is new."""
        if not self._agent.running or self._agent.paused:
            return
        try:
            status = self._agent.status(_ANSWER_S)
        except (OSError, ValueError):  # it has just been killed, or starts
            return
        self.looked_s = time.monotonic()
        name, _, broker_id = str(status["name"]).partition(":")
        says, epoch = _SAYS.get(status["phase"], "left"), status["epoch"]
        if status["fenced"] > self._fenced:
            self._write(name, broker_id, "fenced", self._said[1] if self._said else None)
        self._fenced = status["fenced"]
        if (says, epoch) != self._said:
            self._said = says, epoch
            self._write(name, broker_id, says, epoch)

    def _write(self, name: str, broker_id: str, says: Says | Literal["fenced"], epoch: int | None) -> None:
        state = State(who=self._agent.name, broker=name, id=int(broker_id or 0), state=says, epoch=epoch)
        self._history.write(state)


class FrontReader:
    """Asks one front for routes over RocketMQ's protocol, as a client of it does."""

    def __init__(self, fleet: Fleet, name: str, history: Writer) -> None:
        self.says: dict[str, tuple[float, tuple[Replica, ...] | None]] = {}
        """Topic to when it was said (monotonic), and the brokers."""

        self._name = name
        self._address = fleet.front_address(name)
        self._front = fleet.fronts[name]
        self._history = history
        self._peer: Peer | None = None
        self._written: dict[str, tuple[float, object]] = {}

    def look(self) -> None:
        """Ask for all topics; write down what is new, and once a second what is not."""
        if self._front.paused:
            return
        try:
            self._peer = self._peer or Peer(self._address, _ANSWER_S)
            for topic in TOPICS:
                answer = self._peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
                if answer.code == ResponseCode.SUCCESS:
                    route = orjson.loads(answer.body)
                    self._say(topic, _replicas(route["brokerDatas"]), route.get("orderTopicConf") or "")
                elif answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    self._say(topic, None)
            answer = self._peer.cluster()
            if answer.code == ResponseCode.SUCCESS:
                self._say(LISTED, _replicas(fastjson.loads(answer.body)["brokerAddrTable"].values()))
        except (OSError, FrameError, AssertionError):  # it is away
            self._hang_up()

    def close(self) -> None:
        """Close the connection."""
        self._hang_up()

    def _hang_up(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.socket.close()

    def _say(self, topic: str, brokers: tuple[Replica, ...] | None, order: str = "") -> None:
        now_s = time.monotonic()
        self.says[topic] = now_s, brokers
        before_s, before = self._written.get(topic, (0.0, None))
        if (brokers, order) != before or now_s - before_s >= _SAID_AGAIN_S:
            self._written[topic] = now_s, (brokers, order)
            self._history.write(Route(who=self._name, topic=topic, brokers=brokers, order=order))


def _replicas(datas: Iterable[Any]) -> tuple[Replica, ...]:
    return tuple(
        Replica(data["brokerName"], int(broker_id), address)
        for data in sorted(datas, key=lambda data: str(data["brokerName"]))
        for broker_id, address in sorted(data["brokerAddrs"].items())
    )


class SnapshotWatch:
    """Reads the snapshot file of one client."""

    def __init__(self, name: str, path: Path, history: Writer) -> None:
        self._name = name
        self._path = path
        self._history = history
        self._content: bytes | None = None

    def look(self) -> None:
        """Write down whether it is whole, if it is another one; once there is one, there always is."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = None
        if content == self._content:
            return
        self._content, problem = content, ""
        try:
            decode(NAMESPACE, content or b"")
        except SnapshotError as error:
            problem = str(error) if content is not None else "it is gone"
        self._history.write(Saved(client=self._name, problem=problem))


class Watchers:
    """All of them, for one fleet."""

    def __init__(self, fleet: Fleet, history: Writer) -> None:
        self._fleet = fleet
        self._history = history
        self.fronts = {name: FrontReader(fleet, name, history) for name in fleet.fronts}
        self.agents = {name: AgentWatch(agent, history) for name, agent in fleet.agents.items()}
        looks = [*(one.look for one in self.agents.values()), *(one.look for one in self.fronts.values())]
        paths = {name: snapshot_of(fleet.folder, name) for name in fleet.clients}
        looks += [SnapshotWatch(name, path, history).look for name, path in paths.items()]
        self._watchers = [
            *(Watcher("watcher", _LOOK_S, look) for look in looks),
            Watcher("usage", _USAGE_S, self.take_usage),
            Watcher("stalls", EVERY_S, Stalls(fleet, history).look),
        ]
        self._stack = ExitStack()
        self._usages: dict[Phase, dict[str, Usage]] = {"before": {}, "during": {}, "after": {}}
        self._looked_s = 0.0

    def __enter__(self) -> Self:
        for reader in self.fronts.values():
            self._stack.callback(reader.close)
        for watcher in self._watchers:
            self._stack.enter_context(watcher)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self) -> None:
        """Raise what ended one of them, if something has."""
        for watcher in self._watchers:
            watcher.check()

    def take_usage(self, phase: Phase = "during") -> None:
        """Write down what the processes of ours take of the machine."""
        for program in tuple(self._fleet):
            pid = program.pid
            found = None if pid is None else usage_of(pid)
            if found is not None:
                rss_kb, threads, descriptors, connections = found
                usage = Usage(
                    process=program.name,
                    phase=phase,
                    rss_kb=rss_kb,
                    threads=threads,
                    descriptors=descriptors,
                    connections=connections,
                )
                self._usages[phase][program.name] = usage
                with suppress(OSError):
                    self._history.write(usage)

    def have_returned(self) -> bool:
        """Look now and then whether processes take no more than before, but for what is allowed."""
        if time.monotonic() - self._looked_s < _SAID_AGAIN_S:
            return False
        self._looked_s = time.monotonic()
        self.take_usage("after")
        first, last = self._usages["before"], self._usages["after"]
        return not any(
            grown(first[name], last[name], count, BOUNDS)
            for name in first.keys() & last.keys()
            for count in COUNTS
        )

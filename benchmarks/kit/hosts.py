"""Hosts for the benchmarks of the agent: a broker's files, a stand-in process, agents beside it.

Agents run on this Python, or as an operator installs them: as deploy/ says, without the other extras.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final, NamedTuple, Self, cast

from .processes import await_until, bound

_LOOPBACK: Final = "127.0.0.1"
_END_S: Final = 10.0
_POLL_S: Final = 0.005
_DRAINED: Final = "is out of the registry: drained"
_FIRST_VERSION_MS: Final = 1_795_202_976_261

_ROOT: Final = Path(__file__).resolve().parents[2]
_UNIT: Final = _ROOT / "deploy" / "sharedroutes-agent.service"
_PLACE: Final = "/opt/sharedroutes"
"""Where the operator installs it."""

_NOT_COPIED: Final = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "*.egg-info", "tests", "docs"
)

_BROKER: Final = """
import json, selectors, socket, struct, sys

def answers(data):
    while len(data) >= 8 and len(data) >= 4 + struct.unpack_from(">i", data)[0]:
        length, word = struct.unpack_from(">iI", data)
        asked = json.loads(data[8 : 8 + (word & 0xFFFFFF)])
        header = json.dumps({"code": 0, "flag": 1, "opaque": asked["opaque"]}).encode()
        yield struct.pack(">iI", 4 + len(header), len(header)) + header
        del data[: 4 + length]

host, port = sys.argv[1:]
with socket.create_server((host, int(port)), backlog=1024) as server, selectors.DefaultSelector() as ready:
    ready.register(server, selectors.EVENT_READ)
    print(server.getsockname()[1], flush=True)
    while True:
        for key, _ in ready.select():
            if key.fileobj is server:
                ready.register(server.accept()[0], selectors.EVENT_READ, bytearray())
                continue
            try:
                received = key.fileobj.recv(65536)
                key.data.extend(received)
                for answer in answers(key.data):
                    key.fileobj.sendall(answer)
            except OSError:
                received = b""
            if not received:
                ready.unregister(key.fileobj)
                key.fileobj.close()
"""
"""Answers every request with SUCCESS, as a healthy broker answers a probe."""

_CONF: Final = """\
brokerClusterName=DefaultCluster
brokerName={name}
brokerId=0
brokerIP1={host}
listenPort={port}
storePathRootDir={store}
brokerRole=ASYNC_MASTER
"""


def topics_json(names: Iterable[str], counter: int = 1, queues: int = 1) -> bytes:
    """Return a topics.json in the form of a broker's own."""
    table = {
        name: {
            "attributes": {},
            "order": False,
            "perm": 6,
            "readQueueNums": queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": queues,
        }
        for name in names
    }
    version = {"counter": counter, "stateVersion": 0, "timestamp": _FIRST_VERSION_MS + counter}
    return json.dumps({"dataVersion": version, "topicConfigTable": table}, indent="\t").encode()


def write_topics(path: Path, content: bytes) -> None:
    """Write as a broker does: rename to .bak, fsync of the folder, write in place, fsync.

    Source: RocketMQ's ConfigManager.persist.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(path.with_name(f"{path.name}.bak"))
        _fsync(path.parent)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _fsync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _start_stand_in(host: str, port: int) -> tuple[subprocess.Popen[str], int]:
    """Start what answers as a healthy broker; return its port, too: one that is free if `port` is 0."""
    process = subprocess.Popen(
        bound(sys.executable, "-S", "-c", _BROKER, host, str(port)), stdout=subprocess.PIPE, text=True
    )
    said = cast(IO[str], process.stdout).readline()
    if not said:
        raise RuntimeError("the stand-in for a broker has ended; it wrote the reason to standard error")
    return process, int(said)


@contextmanager
def stand_in() -> Iterator[int]:
    """Stand in for any number of brokers: one port of all loopback addresses, which is yielded."""
    process, port = _start_stand_in("0.0.0.0", 0)  # noqa: S104 - no other address means all of 127.*
    try:
        yield port
    finally:
        process.kill()
        process.communicate()


class Interpreter(NamedTuple):
    """A Python, and the environment in which it runs agents."""

    python: str
    environment: Mapping[str, str]


HERE: Final = Interpreter(sys.executable, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
"""The Python of this process, with all that it can import."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent besides its broker."""

    url: str
    heartbeat_s: float
    lease_ttl_s: float
    interpreter: Interpreter = HERE
    flags: Sequence[str] = ()
    """Of its command line, besides these."""


class Agent:
    """`python -m sharedroutes.broker_agent` as a process; its log goes to the file `log`."""

    def __init__(self, conf: Path, settings: AgentSettings, log: Path) -> None:
        self._log = log
        times = ("--heartbeat", str(settings.heartbeat_s), "--lease-ttl", str(settings.lease_ttl_s))
        python, environment = settings.interpreter
        command = (python, "-m", "sharedroutes.broker_agent", "--broker-conf", str(conf))
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                bound(*command, "--redis", settings.url, *times, *settings.flags),
                stderr=said,
                env={**environment, "SHAREDROUTES_HTTP": "off"},
            )

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def times_said(self, text: str) -> int:
        """Return how often it has logged a text."""
        return self._log.read_text(encoding="utf-8").count(text)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def await_end(self) -> int:
        """Wait for its end; return the exit code."""
        return self._process.wait(_END_S)

    def kill(self) -> None:
        """End it with SIGKILL, also when it is stopped."""
        self._process.kill()
        self._process.wait()


class Host:
    """A broker's files, the process that stands in for it, and its agents; the end of the block ends them."""

    def __init__(self, folder: Path, name: str, topics: Sequence[str], of_agents: AgentSettings) -> None:
        self.name = name
        self.topics_path = folder / "store" / "config" / "topics.json"
        self._topics = [*topics]
        self._counter = 1
        self._folder = folder
        self._of_agents = of_agents
        self._broker: subprocess.Popen[str] | None = None
        self._agents: list[Agent] = []
        self._started = 0
        self._drains = 0
        # Bound and not listening: no other process gets the port while the broker is dead.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((_LOOPBACK, 0))
        self._port: int = self._reserved.getsockname()[1]
        write_topics(self.topics_path, topics_json(self._topics))
        store = self.topics_path.parents[1]
        conf = _CONF.format(name=name, host=_LOOPBACK, port=self._port, store=store)
        (folder / "broker.conf").write_text(conf, encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for agent in self._agents:
            agent.kill()
        self.kill_broker()
        self._reserved.close()

    def start_broker(self) -> None:
        """Start the broker and wait until it listens."""
        self._broker, _ = _start_stand_in(_LOOPBACK, self._port)

    def kill_broker(self) -> None:
        """End the broker with SIGKILL."""
        if self._broker is not None:
            self._broker.kill()
            self._broker.communicate()
            self._broker = None

    def start_agent(self) -> Agent:
        """Start an agent beside the broker; the last of several takes over."""
        self._started += 1
        conf, log = self._folder / "broker.conf", self._folder / f"agent-{self._started}.log"
        agent = Agent(conf, self._of_agents, log)
        self._agents.append(agent)
        return agent

    def await_end(self, agent: Agent) -> None:
        """Wait for the end of an agent that was asked to end; raises RuntimeError when it fails."""
        exit_code = agent.await_end()
        if exit_code != 0:
            raise RuntimeError(f"the agent of {self.name} has ended with {exit_code}")
        self._agents.remove(agent)

    def freeze(self) -> None:
        """Stop broker and agents (SIGSTOP): nothing runs, and no connection is closed."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def hang(self) -> None:
        """Stop the broker alone (SIGSTOP): its port stays open, its agents run."""
        if self._broker is not None:
            self._broker.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let the broker go on."""
        if self._broker is not None:
            self._broker.send_signal(signal.SIGCONT)

    def drain(self) -> None:
        """Let the agents drain the broker."""
        self._drains += 1
        for agent in self._agents:
            agent.send(signal.SIGUSR1)

    def resume(self) -> None:
        """Let a drained broker come back."""
        for agent in self._agents:
            agent.send(signal.SIGUSR2)

    def await_drained(self) -> None:
        """Wait until the agents' last drain is over; raises TimeoutError."""
        await_until(
            lambda: all(agent.times_said(_DRAINED) >= self._drains for agent in self._agents),
            f"{self.name} is drained",
            deadline_s=_END_S,
            poll_s=_POLL_S,
        )

    def end(self) -> None:
        """Ask agents and broker to end, all at once, as a supervisor does; returns when they have ended."""
        self.tell_to_end()
        self.await_ended()

    def tell_to_end(self) -> None:
        """Send agents and broker the signal to end, all at once."""
        self._signal(signal.SIGTERM)

    def await_ended(self) -> None:
        """Wait for the end of agents and broker; raises RuntimeError when an agent fails."""
        for agent in [*self._agents]:
            self.await_end(agent)
        if self._broker is not None:
            self._broker.communicate()
            self._broker = None

    def create_topic(self, name: str) -> None:
        """Add a topic to the broker, and write its file again."""
        self._topics.append(name)
        self._counter += 1
        write_topics(self.topics_path, topics_json(self._topics, self._counter))

    def _signal(self, number: signal.Signals) -> None:
        for agent in self._agents:
            agent.send(number)
        if self._broker is not None:
            self._broker.send_signal(number)


def install_agent(folder: Path) -> Interpreter:
    """Install the agent of this checkout in a new environment: half a minute; raises CalledProcessError."""
    print("installing an agent as an operator does ...", file=sys.stderr, flush=True)
    place, checkout = folder / "installed", folder / "checkout"
    shutil.copytree(_ROOT, checkout, symlinks=True, ignore=_NOT_COPIED)  # a build leaves files there
    # What the shell of a developer sets, such as PYTHONDONTWRITEBYTECODE, is not set by systemd.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    constraints = checkout / "requirements" / "constraints.txt"
    pip = (place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(environment, sys.executable, "-m", "venv", place)
    _run(environment, *pip, "--constraint", constraints, f"{checkout}[agent]")
    environment |= _of_the_unit(place)
    _run(environment, place / "bin" / "sharedroutes", "agent", "--help")  # leaves the bytecode
    return Interpreter(str(place / "bin" / "python"), environment)


def _of_the_unit(place: Path) -> dict[str, str]:
    """Return the variables that the systemd unit sets, for another place than the operator's."""
    lines = _UNIT.read_text(encoding="utf-8").splitlines()
    words = [word for line in lines if line.startswith("Environment=") for word in shlex.split(line)]
    pairs = [word.removeprefix("Environment=").partition("=") for word in words]
    return {name: value.replace(_PLACE, str(place)) for name, _, value in pairs}


def _run(environment: Mapping[str, str], *command: str | Path) -> None:
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)

"""Real brokers and name servers of RocketMQ, as processes of their own, where their jars are at hand.

SHAREDROUTES_ROCKETMQ_JARS names a folder that has one of jars for each release, as 4.9.7 and 5.3.3; without
it, it is the folder to which `make interop` copies them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import pytest

from demo.nameserver.rocketmq import BUSY_MACHINE, FEW_THREADS, JARS, NO_TLS, own_files, write_broker_conf
from tests.ports import free_broker_port, free_port
from tests.support import wait_until

_STARTS_S: Final = 90.0
_ENDS_S: Final = 60.0
_STARTUP: Final = {
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
    "name server": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "controller": "org.apache.rocketmq.controller.ControllerStartup",
    "proxy": "org.apache.rocketmq.proxy.ProxyStartup",
}
_FOR_4: Final = tuple(
    f"--add-{how}=java.base/{package}=ALL-UNNAMED"
    for how, package in (("opens", "java.nio"), ("exports", "jdk.internal.ref"))
)
"""Lets a broker 4.x unmap files on Java 17, as it does when it starts after it was killed."""

_LOGBACK: Final = """\
<configuration>
  <appender name="output" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %c %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="output"/></root>
</configuration>
"""
"""Releases 4.x do not start without, and end without a word when they cannot read their store."""

_HEAP: Final = ("-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m")


def java(release: str, *words: str) -> list[str]:
    """Return a command for what is in the jars of a release; skips the test where they are not."""
    folder = JARS / release
    if not any(folder.glob("rocketmq-*.jar")):
        pytest.skip(f"{folder} has no jars of RocketMQ {release}: make interop copies them there")
    if shutil.which("java") is None:
        pytest.skip("java is not on PATH")
    return ["java", "-cp", f"{folder}/*", *words]


class RealProcess:
    """A process that listens on a port of the loopback interface; its output is in `folder`."""

    def __init__(
        self, command: Sequence[str], folder: Path, port: int, environment: Mapping[str, str] = {}
    ) -> None:
        self.port = port
        self._command = command
        self._folder = folder
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The number of the process, which runs."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait until it listens."""
        with Path(self._folder, "output").open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env={**_inherited(), **self._environment},
                stdout=output,
                stderr=output,
                start_new_session=True,  # of an orphaned group a stopped process gets SIGHUP
            )
        wait_until(self._listens, timeout_s=_STARTS_S, description=f"{self._folder.name} listens")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, for example SIGSTOP."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it with SIGTERM, and wait until it has."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_ENDS_S)
            self._process = None

    def said(self) -> str:
        """Return what it has written to its output and its logs."""
        files = [self._folder / "output", *self._folder.rglob("*.log")]
        return "\n".join(file.read_text(errors="replace") for file in files)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.said()[-4000:]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class RealNameServer(RealProcess):
    """A name server."""

    def __init__(self, release: str, folder: Path, settings: Mapping[str, str] = {}) -> None:
        (folder / "conf").mkdir(parents=True)
        (folder / "conf" / "logback_namesrv.xml").write_text(_LOGBACK)
        port = free_port()
        self.conf = folder / "namesrv.conf"
        said = {
            "listenPort": str(port),
            "kvConfigPath": f"{folder}/kv.json",
            "configStorePath": f"{folder}/namesrv.properties",
        } | dict(settings)
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in said.items()))
        words = (NO_TLS, *FEW_THREADS, "-Xmx256m", _STARTUP["name server"], "-c", str(self.conf))
        command = java(release, *own_files(folder), *words)
        super().__init__(command, folder, port, {"ROCKETMQ_HOME": str(folder)})


class RealBroker(RealProcess):
    """A broker; `settings` go into its broker.conf, `properties` are those of the Java process."""

    def __init__(
        self,
        release: str,
        folder: Path,
        settings: Mapping[str, str] = {},
        *,
        properties: Sequence[str] = (NO_TLS,),
    ) -> None:
        (folder / "conf").mkdir(parents=True, exist_ok=True)
        (folder / "conf" / "logback_broker.xml").write_text(_LOGBACK)
        port = free_broker_port()
        usual = {"brokerName": "broker-real", "autoCreateTopicEnable": "true"}
        self.conf = write_broker_conf(folder, (port, free_port()), {**usual, **BUSY_MACHINE, **settings})
        words = (*_FOR_4, *FEW_THREADS, *properties, *_HEAP, _STARTUP["broker"], "-c", str(self.conf))
        command = java(release, *own_files(folder), *words)
        super().__init__(command, folder, port, {"ROCKETMQ_HOME": str(folder)})


def _inherited() -> dict[str, str]:
    """Return the environment without what names a name server that is not the test's."""
    return {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"}


class RealController(RealProcess):
    """A controller, which chooses the masters of groups; it is alone, and so it leads."""

    def __init__(self, release: str, folder: Path, port: int) -> None:
        folder.mkdir(parents=True)
        conf = folder / "controller.conf"
        said = self.settings(folder, port)
        conf.write_text("".join(f"{key}={value}\n" for key, value in said.items()))
        words = (NO_TLS, *FEW_THREADS, "-Xmx256m", _STARTUP["controller"], "-c", str(conf))
        command = java(release, *own_files(folder), *words)
        super().__init__(command, folder, port, {"ROCKETMQ_HOME": str(folder)})

    @staticmethod
    def settings(folder: Path, port: int) -> dict[str, str]:
        """Return what makes a process the only controller at a port."""
        return {
            "controllerDLegerGroup": "group",
            "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": f"{folder}/DLedgerController",
        }


class RealProxy(RealProcess):
    """A proxy that speaks gRPC with clients, for the brokers that the name servers know."""

    def __init__(self, release: str, folder: Path, name_servers: str, port: int) -> None:
        folder.mkdir(parents=True)
        conf = folder / "rmq-proxy.json"
        said = {
            "rocketMQClusterName": "DefaultCluster",
            "proxyMode": "CLUSTER",
            "grpcServerPort": port,
            "remotingListenPort": free_port(),
            "namesrvAddr": name_servers,
        }
        conf.write_text(json.dumps(said))
        own = (*own_files(folder), f"-Dcom.rocketmq.proxy.configPath={conf}")
        command = java(release, *own, NO_TLS, *FEW_THREADS, "-Xmx512m", _STARTUP["proxy"], "-pc", str(conf))
        super().__init__(command, folder, port, {"ROCKETMQ_HOME": str(folder), "RMQ_PROXY_HOME": str(folder)})

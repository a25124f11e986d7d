"""The parts of RocketMQ that the demo runs: their jars from Maven Central, and how each is started."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..processes import LOOPBACK, DemoFailed

RELEASE: Final = "5.5.0"
JARS: Final = Path(
    os.environ.get("SHAREDROUTES_ROCKETMQ_JARS") or Path.home() / ".cache" / "sharedroutes" / "rocketmq"
)
"""A folder for each release; `make interop` copies the jars of several there."""

CLUSTER: Final = "DefaultCluster"

_POM: Final = Path(__file__).parents[2] / "tests" / "interop" / RELEASE / "pom.xml"
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_DOWNLOAD_S: Final = 300
_TRIES: Final = 3

_TRAFFIC: Final = Path(__file__).with_name("Traffic.java")
FEW_THREADS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
OFTEN_SHARED_OUT: Final = "-Drocketmq.client.rebalance.waitInterval=1000"
"""A consumer shares out queues anew so often, also when it could not do it; the default is 20 s."""

NO_TLS: Final = "-Dtls.server.mode=disabled"
"""It is not used, and its certificate takes a process 2 s to make."""

BUSY_MACHINE: Final = {
    "waitTimeMillsInSendQueue": "10000",  # by default a broker refuses what has waited for 0.2 s,
    "osPageCacheBusyTimeOutMills": "10000",  # and everything while a write takes longer than 1 s
    "transactionMetricFlushInterval": "1000",  # until the first one, a thread of 5.x spins: by default 10 s
    "timerFlushIntervalMs": "10000",
}
"""Settings of a broker that shares a few cores with much else."""


class JarsUnavailable(Exception):
    """Maven did not get the jars of a release."""


def fetch(pom: Path, folder: Path) -> None:
    """Have Maven copy the jars that a pom.xml names; the folder is there only when they all are.

    What was downloaded before a failure is there at the next try. Raises JarsUnavailable.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    words = ("-q", "-B", "-f", str(pom), _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={partial}")
    error: Exception | None = None
    for _ in range(_TRIES):
        shutil.rmtree(partial, ignore_errors=True)
        try:
            subprocess.run(("mvn", *words), check=True, timeout=_DOWNLOAD_S)  # noqa: S603, S607 - mvn is the user's
        except (OSError, subprocess.SubprocessError) as failure:
            error = failure
        else:
            partial.rename(folder)
            return
    raise JarsUnavailable(
        f"the jars of RocketMQ {folder.name} cannot be had from Maven Central, in {_TRIES} tries: {error}"
    )


def prepare() -> None:
    """Look for Java, and copy the jars where they are not there yet; raises DemoFailed."""
    if shutil.which("javac") is None:
        raise DemoFailed("the demo needs Java 17 with its compiler: apt-get install openjdk-17-jdk-headless")
    if (JARS / RELEASE).exists():
        return
    try:
        fetch(_POM, JARS / RELEASE)
    except JarsUnavailable as error:
        raise DemoFailed(str(error)) from error


def own_files(folder: Path) -> tuple[str, ...]:
    """Return what makes a process of RocketMQ keep its files in a folder of its own."""
    return (f"-Drocketmq.home.dir={folder}", f"-Duser.home={folder}")


def write_broker_conf(folder: Path, ports: Sequence[int], settings: Mapping[str, str]) -> Path:
    """Write the broker.conf of a master at these ports, its own and that for slaves; return the file."""
    port, ha_port = ports
    said = {
        "brokerClusterName": CLUSTER,
        "brokerId": "0",
        "brokerRole": "ASYNC_MASTER",
        "brokerIP1": LOOPBACK,
        "listenPort": str(port),
        "haListenPort": str(ha_port),
        "storePathRootDir": f"{folder}/store",
        "storePathCommitLog": f"{folder}/store/commitlog",
        "mappedFileSizeCommitLog": str(256 << 20),
    }
    conf = folder / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in {**said, **settings}.items()))
    return conf


def broker(name: str, folder: Path, ports: Sequence[int], name_servers: str) -> tuple[str, ...]:
    """Return the command that starts a broker, which keeps its files in `folder`."""
    settings = {
        "brokerName": name,
        "namesrvAddr": name_servers,
        "autoCreateTopicEnable": "false",
        **BUSY_MACHINE,
    }
    conf = write_broker_conf(folder, ports, {**settings, "mappedFileSizeCommitLog": str(16 << 20)})
    heap = ("-Xms256m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", *FEW_THREADS)
    return _java(folder, *heap, NO_TLS, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf))


def make_topic(topic: str, folder: Path, name_servers: str) -> tuple[str, ...]:
    """Return the mqadmin command that makes a topic on all brokers."""
    words = ("updateTopic", "-n", name_servers, "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4")
    return _java(folder, *FEW_THREADS, "org.apache.rocketmq.tools.command.MQAdminStartup", *words)


def traffic(folder: Path, name_servers: str, topic: str, messages_per_s: int) -> tuple[str, ...]:
    """Return the command that sends and receives messages."""
    words = (str(_TRAFFIC), name_servers, topic, str(messages_per_s))
    return _java(folder, "-Xmx256m", *FEW_THREADS, OFTEN_SHARED_OUT, *words)


def _java(folder: Path, *words: str) -> tuple[str, ...]:
    return ("java", "-cp", f"{JARS / RELEASE}/*", *own_files(folder), *words)

"""A standalone cluster of Spark for tests: a master and workers, processes of their own on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark

from tests.support import wait_until

LOOPBACK: Final = "127.0.0.1"
_SPARK: Final = Path(pyspark.__file__).parent
_DEPLOY: Final = "org.apache.spark.deploy"
_PATIENCE_S: Final = 120.0
_ANSWER_S: Final = 5.0
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"


class Cluster:
    """A master and its workers, each with a core and a gigabyte; what they run has folders below `folder`.

    A master that is started again knows the workers and the jobs of the one before.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        remembers = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={folder}/known"
        self._environment = {
            **environment,
            "SPARK_HOME": str(_SPARK),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_MASTER_OPTS": remembers,
        }
        self._port, self._web_port = _free_port(), _free_port()
        self._workers: list[subprocess.Popen[bytes]] = []
        self._master: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What `--master` is told."""
        return f"spark://{LOOPBACK}:{self._port}"

    def start(self, workers: int) -> None:
        """Start all processes, and await that the workers are the master's."""
        self.start_master()
        for number in range(workers):
            of_worker = ("-c", "1", "-m", "1g", "--webui-port", "0", "-d", self.folder / f"worker-{number}")
            self._workers.append(self._run("worker.Worker", *of_worker, self.url))
        self.await_workers()

    def start_master(self) -> None:
        """Start the master, where the one before was, and await its answer."""
        ports = ("--port", str(self._port), "--webui-port", str(self._web_port))
        self._master = self._run("master.Master", *ports)
        wait_until(self.state, timeout_s=_PATIENCE_S, pause_s=0.1, description="the master")

    def kill_master(self) -> None:
        """Kill the master; the others live on."""
        assert self._master is not None
        self._master.kill()
        self._master.wait()

    def await_workers(self) -> None:
        """Await that the master has all workers."""
        wait_until(
            lambda: self.state().get("aliveworkers") == len(self._workers),
            timeout_s=_PATIENCE_S,
            pause_s=0.1,
            description="the workers",
        )

    def state(self) -> dict[str, Any]:
        """Return what the master tells; empty while there is none."""
        try:
            with urllib.request.urlopen(
                f"http://{LOOPBACK}:{self._web_port}/json/", timeout=_ANSWER_S
            ) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return {}

    def executors(self) -> list[int]:
        """Return the processes in which tasks run now."""
        workers = {process.pid for process in self._workers}
        processes = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        return [pid for pid in processes if _is_executor(pid, workers)]

    def kill_executors(self, most: int) -> None:
        """Kill processes in which tasks run; their workers tell the master, which gives the job others."""
        found = wait_until(self.executors, timeout_s=_PATIENCE_S, pause_s=0.1, description="an executor")
        for pid in found[:most]:
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End all processes, and with the workers what they run."""
        processes = [*self._workers, *([self._master] if self._master else [])]
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=_PATIENCE_S)

    def _run(self, what: str, *options: str | Path) -> subprocess.Popen[bytes]:
        command = (_SPARK / "bin" / "spark-class", f"{_DEPLOY}.{what}", "--host", LOOPBACK, *options)
        with (self.folder / f"{what}.log").open("ab") as log:
            return subprocess.Popen(
                command, env=self._environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
            )


@contextmanager
def cluster(folder: Path, environment: Mapping[str, str], *, workers: int = 2) -> Iterator[Cluster]:
    """Give a cluster that is ready; its processes, and so the executors, have this environment."""
    folder.mkdir()
    found = Cluster(folder, environment)
    try:
        found.start(workers)
        yield found
    finally:
        found.stop()


def _is_executor(pid: int, workers: set[int]) -> bool:
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        return parent in workers and _EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        return int(found.getsockname()[1])

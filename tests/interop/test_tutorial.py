"""Every command of docs/tutorial.md, in the order of the page, beside a real broker, prints what is shown.

Put in are other ports, a home of its own, and RocketMQ's scripts: they come with its binary release, which is
not on Maven Central. `pkill` becomes an end of the very process that the test started.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import pytest

from demo.nameserver.rocketmq import FEW_THREADS, NO_TLS
from tests.markdown import commands, lacks, page
from tests.ports import free_port
from tests.real.rocketmq import java

from .conftest import RELEASES

pytestmark = pytest.mark.timeout(400)

ROOT: Final = Path(__file__).resolve().parents[2]
PORTS: Final = ("6379", "9876", "10911")
STAYING: Final = ("redis-server ", "sharedroutes nameserver ", "mqbroker ")
"""What runs in a terminal of its own."""

SCRIPTS: Final = {
    "mqbroker": (
        NO_TLS,
        "-Xmx512m",
        "-XX:MaxDirectMemorySize=256m",
        "org.apache.rocketmq.broker.BrokerStartup",
    ),
    "mqadmin": ("-Xmx256m", "org.apache.rocketmq.tools.command.MQAdminStartup"),
}
_PATIENCE_S: Final = 90.0
_TOLD_S: Final = 120.0


class Terminals:
    """Bash as a reader has it open: a session for what ends, and one for each command that stays."""

    def __init__(self, folder: Path) -> None:
        self._home = folder / "home"
        self._checkout = folder / "checkout"
        self._ports = {port: str(free_port()) for port in PORTS}
        self._said: list[str] = []
        self._staying: list[tuple[str, subprocess.Popen[bytes]]] = []
        (folder / "bin").mkdir(parents=True)
        (self._home / "conf").mkdir(parents=True)
        for name, words in SCRIPTS.items():
            own = (f"-Duser.home={self._home}", f"-Drocketmq.home.dir={self._home}", *FEW_THREADS)
            command = " ".join(f"'{word}'" for word in java(RELEASES[0], *own, *words))
            script = folder / "bin" / name
            script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
        subprocess.run(("git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), self._checkout), check=True)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SHAREDROUTES_")},
            "HOME": str(self._home),
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")),
            "ROCKETMQ_HOME": str(self._home),
            "SHAREDROUTES_NAMESERVER_HTTP": "off",
        }

    def run(self, block: str) -> str:
        """Run a block; return what it prints. What was set before, such as variables, is set."""
        block = self.put_in(block)
        if block.startswith(STAYING):
            self._staying.append((block, self._start(block)))
            return ""
        done = self._finish(block)
        if all(line.startswith(("export ", ". ")) for line in block.splitlines()[-1:]):
            self._said.append(block)
        return done

    def put_in(self, text: str) -> str:
        """Return a text of the page with the ports that are used here."""
        for port, other in self._ports.items():
            text = text.replace(port, other)
        return text

    def lacking(self, block: str, shown: str) -> str:
        """Run a block; return what is wrong with what it prints, or nothing."""
        try:
            said = self.run(block)
        except AssertionError as error:
            return str(error)
        missing = lacks(said, self.put_in(shown))
        return f"{block}\nlacks {missing}:\n{said}\n{self.output()}" if missing else ""

    def _start(self, block: str) -> subprocess.Popen[bytes]:
        with (self._home / "output").open("ab") as output:
            return subprocess.Popen(
                ("bash", "-ec", f"{self._before()}exec {block}"),
                cwd=self._checkout,
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _finish(self, block: str) -> str:
        if "pkill" in block:
            (broker,) = (process for command, process in self._staying if command.startswith("mqbroker"))
            end(broker)
            block = "".join(line for line in block.splitlines(keepends=True) if not line.startswith("pkill"))
        done = subprocess.run(
            ("bash", "-ec", self._before() + block),
            cwd=self._checkout,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_TOLD_S,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}\n{self.output()}"
        return done.stdout

    def _before(self) -> str:
        activate = self._home / "sharedroutes" / "bin" / "activate"
        return "".join([f". {activate}\n" if activate.exists() else "", *self._said])

    def output(self) -> str:
        """Return the end of what the commands that stay have printed."""
        path = self._home / "output"
        return path.read_text(errors="replace")[-4_000:] if path.exists() else ""

    def close(self) -> None:
        """End what stays."""
        for _, process in self._staying:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill what was started in a session of its own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def terminals(folder: Path) -> Iterator[Terminals]:
    opened = Terminals(folder / "tutorial")
    yield opened
    opened.close()


def test_each_command_does_what_the_page_says(terminals: Terminals) -> None:
    blocks = commands(page("tutorial.md"))
    assert sum(bool(shown) for _, shown in blocks) >= 7
    for block, shown in blocks:
        deadline_s = monotonic() + _PATIENCE_S
        while (wrong := terminals.lacking(block, shown)) and monotonic() < deadline_s:
            sleep(1)  # a server or the broker is not there yet, as for a reader
        assert not wrong, wrong

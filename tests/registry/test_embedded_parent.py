"""An embedded server never outlives its parent, and never dies before it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.registry.servers import answers, refuses
from tests.support import wait_until

SOURCES: Final = Path(__file__).parents[2] / "src"

BEGIN: Final = """
import os, signal, subprocess, sys, threading
from sharedroutes.registry import EmbeddedServer
server, other_pid = EmbeddedServer(), 0
"""
START: Final = "server.start()\n"
END: Final = """
print(server.port, other_pid, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Parent:
    """A Python process that started a server."""

    process: subprocess.Popen[str]
    port: int
    other_pid: int
    """Another process that it started, or 0."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


SpawnParent = Callable[[str], Parent]


@pytest.fixture
def spawn_parent(tmp_path: Path) -> Iterator[SpawnParent]:
    """Return a function that runs a program which starts a server and lives on until its stdin ends."""
    parents: list[Parent] = []

    def spawn(program: str) -> Parent:
        process = subprocess.Popen(
            (sys.executable, "-c", BEGIN + program + END),
            env={**os.environ, "PYTHONPATH": str(SOURCES), "TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        port, other_pid = process.stdout.readline().split()
        parents.append(Parent(process, int(port), int(other_pid)))
        return parents[-1]

    yield spawn
    for parent in parents:
        parent.process.kill()
        if parent.other_pid:
            os.kill(parent.other_pid, signal.SIGKILL)
        with contextlib.suppress(ValueError):  # its pipes are closed already
            parent.process.communicate()


def await_end(parent: Parent, tmp_path: Path) -> None:
    wait_until(lambda: refuses(parent.port), timeout_s=10, description="the server is gone")
    wait_until(lambda: not [*tmp_path.iterdir()], timeout_s=10, description="its folder is gone")


LIVES: Final = {
    "killed": (START, signal.SIGKILL),
    "terminated": (START, signal.SIGTERM),
    "ends without stopping it": (START, None),
    "started it again": (START + "server.kill()\n" + START, signal.SIGKILL),
    "started it in a thread that has ended": (
        "thread = threading.Thread(target=server.start); thread.start(); thread.join()",
        signal.SIGKILL,
    ),
}


@pytest.mark.parametrize(("program", "how"), LIVES.values(), ids=LIVES)
def test_a_server_lives_as_long_as_its_parent(
    spawn_parent: SpawnParent, program: str, how: signal.Signals | None, tmp_path: Path
) -> None:
    parent = spawn_parent(program)
    assert answers(parent.url)
    if how is None:
        parent.process.communicate()
        assert parent.process.returncode == 0
    else:
        parent.process.send_signal(how)
    await_end(parent, tmp_path)


def test_a_paused_server_dies_with_its_parent(spawn_parent: SpawnParent, tmp_path: Path) -> None:
    parent = spawn_parent(START + "server.pause()\n")
    assert not answers(parent.url)
    parent.process.kill()
    await_end(parent, tmp_path)


CHILDREN: Final = {
    "forked": "other_pid = os.fork()\nif not other_pid: signal.pause()",
    "executed": "other_pid = subprocess.Popen(['sleep', '600'], close_fds=False).pid",
}


@pytest.mark.parametrize("child", CHILDREN.values(), ids=CHILDREN)
def test_a_child_that_outlives_the_parent_keeps_no_server_alive(
    spawn_parent: SpawnParent, child: str, tmp_path: Path
) -> None:
    parent = spawn_parent(START + child)
    assert answers(parent.url)
    parent.process.kill()
    await_end(parent, tmp_path)
    os.kill(parent.other_pid, 0)  # raises if the child is gone: then this proved nothing


CHILDREN_THAT_END: Final = {
    "by itself": "sys.exit()",
    "at once": "os._exit(0)",
    "after a stop": "server.stop(); sys.exit()",
}


@pytest.mark.parametrize("end", CHILDREN_THAT_END.values(), ids=CHILDREN_THAT_END)
def test_a_forked_child_that_ends_takes_neither_the_server_nor_its_folder_with_it(
    spawn_parent: SpawnParent, end: str, tmp_path: Path
) -> None:
    parent = spawn_parent(START + f"if not (child := os.fork()): {end}\nos.waitpid(child, 0)")
    assert answers(parent.url)
    assert len([*tmp_path.iterdir()]) == 1

"""What processes take is counted once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.kit.usage import peak_memory, processes_are_seen
from tests.support import wait_until


@pytest.mark.skipif(not processes_are_seen(), reason="no /proc here")
def test_a_child_counts_from_the_second_look_on_when_it_has_memory_of_its_own() -> None:
    looks: list[list[int]] = []
    children: list[subprocess.Popen[bytes]] = []

    def own_mb(pid: int) -> float:
        if pid == os.getpid():
            looks.append([])
            if not children:
                children.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        looks[-1].append(pid)
        return 1.0

    try:
        with peak_memory(own_mb, 0.01) as peak_mb:
            wait_until(lambda: len(looks) > 4, description="the child was looked at")
        (child,) = children
        assert child.pid not in looks[0] + looks[1]
        assert child.pid in looks[2]
        assert peak_mb == [max(map(len, looks))]
    finally:
        for one in children:
            one.communicate(b"\n")

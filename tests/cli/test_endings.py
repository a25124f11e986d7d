"""How a command ends that is interrupted, terminated, or whose reader has gone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharedroutes.registry import EmbeddedServer
from tests.cli.terminal import COMMAND, started
from tests.support import wait_until


@pytest.fixture
def paused(own_server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """Return a server that accepts connections and does not answer."""
    own_server.pause()
    yield own_server
    own_server.resume()


def connected(server: EmbeddedServer) -> bool:
    listing = Path("/proc/net/tcp").read_text().splitlines()
    return sum(f":{server.port:04X} 01" in " ".join(line.split()[2:4]) for line in listing) > 0


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_that_waits_for_the_store_without_a_word(
    paused: EmbeddedServer, how: signal.Signals, code: int, tmp_path: Path
) -> None:
    with started("export", str(tmp_path / "file"), "--redis", paused.url) as process:
        wait_until(lambda: connected(paused), timeout_s=60.0, description="it has connected")
        process.send_signal(how)
        text, said = process.communicate(timeout=30.0)
    assert (process.returncode, text, said) == (code, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_gone_ends_a_command_without_a_word(redis_url: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "topics", "--redis", redis_url]
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True) as process:
        os.close(writer)
        _, said = process.communicate(timeout=60.0)
    assert (process.returncode, said) == (141, "")

"""A worker whose process the system does not start at once."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest

from sharedroutes.nameserver.settings import load
from sharedroutes.nameserver.workers import Workers
from sharedroutes.registry import EmbeddedServer
from tests.support import await_until


async def test_it_is_started_later(own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    settings = load(
        {"--redis": own_server.url, "--workers": "2", "--listen": "127.0.0.1:0", "--http": "off"}, {}
    )
    environment = {**os.environ, "TOO_LARGE": "x" * 1_000_000}  # the system refuses such a process
    workers = Workers(
        settings,
        flags={"--redis": own_server.url, "--http": "off"},
        reread=lambda: settings,
        use_log=lambda *_: None,
        environment=environment,
    )
    running = asyncio.create_task(workers.run())
    await await_until(lambda: "cannot be started now" in caplog.text, description="it is refused")
    del environment["TOO_LARGE"]
    await await_until(
        lambda: caplog.text.count(": process ") == 2, timeout_s=20.0, description="both are started"
    )
    workers.stop()
    await running

"""Workers that do not start at once, and what happens while they do."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from sharedroutes.nameserver.settings import load
from sharedroutes.nameserver.workers import Workers
from sharedroutes.registry import EmbeddedServer
from tests.support import await_until, kept_running


@asynccontextmanager
async def running(redis_url: str, environment: Mapping[str, str]) -> AsyncIterator[Workers]:
    """Keep two workers that have this environment."""
    settings = load({"--redis": redis_url, "--workers": "2", "--listen": "127.0.0.1:0", "--http": "off"}, {})
    workers = Workers(
        settings,
        flags={"--redis": redis_url, "--http": "off"},
        reread=lambda: settings,
        use_log=lambda *_: None,
        environment=environment,
    )
    async with kept_running(workers):
        yield workers


async def until_started(caplog: pytest.LogCaptureFixture) -> None:
    await await_until(
        lambda: caplog.text.count(": process ") == 2, timeout_s=20.0, description="both are started"
    )


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def test_one_whose_process_the_system_cannot_start_now_is_started_later(
    own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    environment = {**os.environ, "TOO_LARGE": "x" * 1_000_000}  # the system refuses such a process
    async with running(own_server.url, environment):
        await await_until(lambda: "cannot be started now" in caplog.text, description="it is refused")
        del environment["TOO_LARGE"]
        await until_started(caplog)


async def test_a_reload_reaches_those_that_are_just_starting_when_they_have_started(
    own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    said = ""

    def have_reloaded() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return said.count("reloaded") == 2

    async with running(own_server.url, os.environ) as workers:
        await until_started(caplog)
        workers.reload()
        await await_until(have_reloaded, timeout_s=20.0, description="both have reloaded")
    assert "has ended with" not in caplog.text

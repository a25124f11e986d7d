"""What importing the client does to a process: nothing; and what starting it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.client import RouteClient
from sharedroutes.registry import RouteStore
from tests.client.clients import QUICK
from tests.registry.builders import broker, topics

SOURCES: Final = Path(__file__).parents[2] / "src"

ASYNC_STORE: Final = "sharedroutes.registry.store_async"

PROGRAM: Final = """
import atexit, json, os, signal, sys, threading

seen = []

def noting(name, original):
    def call(*arguments, **named):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.partition(".")[0] == "sharedroutes":
            seen.append(f"{name} in {caller}")
        return original(*arguments, **named)
    return call

os.register_at_fork = noting("register_at_fork", os.register_at_fork)
atexit.register = noting("atexit", atexit.register)
signal.signal = noting("signal", signal.signal)
WATCHED = ("socket.", "subprocess.", "_thread.start_new_thread", "os.fork")
sys.addaudithook(lambda event, _: seen.append(event) if event.startswith(WATCHED) else None)

files = set(os.listdir("/dev/fd"))
from sharedroutes.client import *
json.dump({
    "seen": seen,
    "threads": [thread.name for thread in threading.enumerate()],
    "files": sorted(set(os.listdir("/dev/fd")) - files),
}, sys.stdout)
"""


def printed(program: str) -> str:
    """Return what a program prints that must not warn of anything."""
    done = subprocess.run(
        (sys.executable, "-W", "error", "-c", program),
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_importing_the_client_starts_registers_and_opens_nothing() -> None:
    found: dict[str, Any] = json.loads(printed(PROGRAM))
    assert found == {"seen": [], "threads": ["MainThread"], "files": []}


def modules_after(code: str) -> set[str]:
    """Return the names of the modules that a process has imported after this code."""
    return set(printed(f"{code}\nimport sys; print(*sys.modules)").split())


@pytest.mark.parametrize(
    ("code", "wanted", "unwanted"),
    [
        ("import sharedroutes.client", "", "redis"),
        ("from sharedroutes.client import NoRoute, StoreTimeout, ZoneAware", "", "redis"),
        ("from sharedroutes.client import RouteClient", "sharedroutes.registry.store", ASYNC_STORE),
        ("from sharedroutes.client import AsyncRouteClient", ASYNC_STORE, "sharedroutes.registry.store"),
        ("from sharedroutes.client import RouteClient", "", "sharedroutes.registry.plans.registration"),
        ("from sharedroutes.client import RouteClient", "", "sharedroutes.remoting.frames"),
        ("from sharedroutes.client import RouteClient", "", "sharedroutes.client.selection.allocation"),
        ("from sharedroutes.client import RouteClient", "", "fractions"),
        ("import sharedroutes.broker_agent.agent", "sharedroutes.registry.plans.registration", "none"),
        ("import sharedroutes.broker_agent.agent", "sharedroutes.registry.plans.operators", "none"),
        ("import sharedroutes.nameserver.front", "sharedroutes.registry.plans.registration", "none"),
    ],
)
def test_what_is_not_used_is_not_imported(code: str, wanted: str, unwanted: str) -> None:
    found = modules_after(code)
    assert not wanted or wanted in found
    assert unwanted not in found
    if unwanted == ASYNC_STORE:
        assert "sharedroutes.registry.connection.links_async" not in found
        assert "sharedroutes.client.route_client_async" not in found


def test_a_lookup_imports_nothing_that_only_writers_need(redis_url: str, agent: RouteStore) -> None:
    agent.register(broker(), topics(1))
    use = f"with RouteClient.from_url({redis_url!r}) as client: client.select_queue('t0')"
    found = modules_after(f"from sharedroutes.client import RouteClient\n{use}")
    assert not found & {f"sharedroutes.registry.plans.{name}" for name in ("leases", "operators", "table")}


def test_a_client_has_no_thread_before_its_start_and_then_named_daemons(
    redis_url: str, agent: RouteStore
) -> None:
    agent.register(broker(), topics(1))
    before = {*threading.enumerate()}
    client = RouteClient.from_url(redis_url, QUICK)
    assert not {*threading.enumerate()} - before
    with client:
        client.select_queue("t0")
        started = {*threading.enumerate()} - before
        assert started
        assert all(thread.daemon and thread.name.startswith("sharedroutes-") for thread in started)
    assert not {*threading.enumerate()} - before


WITHOUT_EXTRAS: Final = """
import importlib, pkgutil, sys
sys.modules["prometheus_client"] = sys.modules["opentelemetry"] = None  # as if they were not installed
import sharedroutes.client
for module in pkgutil.walk_packages(sharedroutes.client.__path__, "sharedroutes.client."):
    if module.name not in {"sharedroutes.client.observers.prometheus", "sharedroutes.client.observers.otel"}:
        importlib.import_module(module.name)
importlib.import_module("sharedroutes.client.observers." + sys.argv[1])
"""


@pytest.mark.parametrize(
    ("observer", "missing", "extra"),
    [("prometheus", "prometheus_client", "metrics"), ("otel", "opentelemetry", "otel")],
)
def test_only_the_observer_itself_needs_its_extra_and_says_so(
    observer: str, missing: str, extra: str
) -> None:
    command = [sys.executable, "-c", WITHOUT_EXTRAS, observer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ")
    assert f"needs {missing}: run `" in last
    assert last.endswith(f"[{extra}]'`")

"""Nobody needs an extra but who asks for what it brings."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
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
    command = [sys.executable, "-c", PROGRAM, observer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ")
    assert f"needs {missing}: run `" in last
    assert last.endswith(f"[{extra}]'`")

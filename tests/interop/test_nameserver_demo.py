"""The name server demo end to end, as `make nameserver-demo` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from demo.nameserver.scenario import SCENARIO

ROOT: Final = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(300)


def test_every_event_is_seen_no_send_fails_and_no_message_is_lost(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "demo.nameserver", "--json", str(report)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NAMESRV_ADDR": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert [event["event"] for event in found["events"]] == [event.name for event in SCENARIO]
    assert all(event["seen_after_s"] <= event["bound_s"] for event in found["events"])
    assert found["messages"]["sent"] == found["messages"]["received"] > 0
    assert found["messages"]["lost"] == found["messages"]["failed"] == 0
    assert all(event.title in done.stdout for event in SCENARIO)

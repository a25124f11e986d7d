"""Without the extra `agent`, the import says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_missing_extra_is_named_by_the_import() -> None:
    code = "import sys; sys.modules['watchdog'] = None; import sharedroutes.broker_agent"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert done.returncode != 0
    assert "the broker agent needs watchdog: run `" in done.stderr
    assert "pip install -e " in done.stderr
    assert "[agent]'`" in done.stderr

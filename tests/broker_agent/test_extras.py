"""Without the extra `agent`, the import says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("missing", ["javaproperties", "watchdog"])
def test_a_missing_extra_is_named_by_the_import(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import sharedroutes.broker_agent"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert done.returncode != 0
    assert f"needs {missing}: run `pip install 'sharedroutes[agent]'`" in done.stderr

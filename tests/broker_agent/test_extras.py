"""Without the extra `agent`, the import says what to install."""

from __future__ import annotations

from tests.support import run_python


def test_a_missing_extra_is_named_by_the_import() -> None:
    code = "import sys; sys.modules['watchdog'] = None; import sharedroutes.broker_agent"
    done = run_python(code)
    assert done.returncode != 0
    assert "the broker agent needs watchdog: run `" in done.stderr
    assert "pip install -e " in done.stderr
    assert "[agent]'`" in done.stderr

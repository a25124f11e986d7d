"""Without the extra `agent`, the import says what to install."""

from __future__ import annotations

from tests.support import run_python


def test_a_missing_extra_is_named_by_the_import() -> None:
    code = "import sys; sys.modules['watchdog'] = None; from sharedroutes.broker_agent import BrokerAgent"
    done = run_python(code)
    assert done.returncode != 0
    assert "the broker agent needs watchdog: run `" in done.stderr
    assert "pip install -e " in done.stderr
    assert "[agent]'`" in done.stderr


def test_an_agent_that_nobody_looks_at_has_not_imported_its_page() -> None:
    code = (
        "import sharedroutes.broker_agent.process.command, sys; "
        "print(*(name for name in sys.modules if 'status_page' in name or name == 'jinja2'))"
    )
    assert run_python(code).stdout == "\n"


def test_an_agent_imports_nothing_of_what_tells_the_versions_of_distributions() -> None:
    code = (
        "import sharedroutes.broker_agent.process.command, redis, sys; "
        "print(*({'csv', 'email', 'zipfile'} & sys.modules.keys()))"
    )
    assert run_python(code).stdout == "\n"

"""The command `sharedroutes` itself: what it says, what it imports, and what happens without its extras."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from sharedroutes import __version__
from sharedroutes.cli.commands import sharedroutes

SOURCE: Final = Path(__file__).parents[2] / "src"
NAMES: Final = (
    "agent",
    "brokers",
    "demo",
    "export",
    "forget",
    "import",
    "rebuild",
    "routes",
    "topics",
    "verify",
)


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program with those arguments in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["agent"], ["topics"]])
def test_without_any_extra_the_command_names_its_own_in_one_line(arguments: list[str]) -> None:
    missing = "click=None, rich=None, watchdog=None, h11=None"
    blocked = f"import sys; sys.modules.update({missing})"
    done = run_python(f"{blocked}; from sharedroutes.cli.main import main; main()", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "sharedroutes: missing click: run `pip install 'sharedroutes[cli]'`\n"


def test_the_list_of_commands_is_printed_without_importing_any() -> None:
    program = (
        "import sys; from sharedroutes.cli.main import main\n"
        "try: main()\n"
        "finally: print([name for name in ('redis', 'orjson', 'rich', 'watchdog') if name in sys.modules])"
    )
    done = run_python(program, "--help")
    assert done.returncode == 0, done.stderr
    *text, imported = done.stdout.splitlines()
    assert imported == "[]"
    assert all(f"\n  {name} " in "\n".join(text) for name in NAMES)


def test_the_version_is_that_of_the_package() -> None:
    done = CliRunner().invoke(sharedroutes, ["--version"])
    assert done.output == f"sharedroutes, version {__version__}\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_its_own_help(name: str) -> None:
    done = CliRunner().invoke(sharedroutes, [name, "--help"])
    assert done.exit_code == 0, done.output
    assert "Usage: sharedroutes" in done.output


@pytest.mark.parametrize("arguments", [["no-such-command"], ["topics", "--no-such-option"], ["routes"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(sharedroutes, arguments).exit_code == 2


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("agent", "h11", "agent"),
        ("agent", "watchdog", "agent"),
        ("demo", "watchdog", "agent"),
        ("demo", "rich", "cli"),
        ("routes", "rich", "cli"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, name: str, missing: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    done = CliRunner().invoke(sharedroutes, [name])
    assert done.exit_code == 2
    assert done.output == f"Error: `{name}`: missing {missing}: run `pip install 'sharedroutes[{extra}]'`\n"


def test_an_agent_needs_nothing_of_the_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert CliRunner().invoke(sharedroutes, ["agent", "--help"]).exit_code == 0


def test_the_package_can_be_run_as_a_module() -> None:
    program = "import runpy, sys; sys.argv = ['x', '--version']; runpy.run_module('sharedroutes.cli')"
    assert run_python(program).stdout == f"sharedroutes, version {__version__}\n"

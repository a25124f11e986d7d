"""The command `sharedroutes` itself: help, imports, missing extras, and its end by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from sharedroutes import __version__
from sharedroutes.cli.root import sharedroutes
from sharedroutes.registry import EmbeddedServer
from tests.cli.terminal import COMMAND, started
from tests.support import run_python, wait_until

NAMES: Final = (
    "agent",
    "brokers",
    "export",
    "forget",
    "import",
    "rebuild",
    "routes",
    "topics",
    "verify",
)


def run_without(missing: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as if those modules were not installed."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({missing}))"
    return run_python(f"{blocked}; from sharedroutes.cli.main import main; main()", *arguments)


@pytest.mark.parametrize("missing", [[], ["click", "rich", "watchdog", "h11"]])
def test_help_and_version_need_no_extra(missing: list[str]) -> None:
    listed = run_without(missing, "--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert all(f"\n  {name} " in listed.stdout for name in NAMES)
    assert run_without(missing, "--version").stdout == f"sharedroutes, version {__version__}\n"
    alone = run_without(missing)
    assert (alone.returncode, alone.stdout) == (2, "")
    assert alone.stderr == listed.stdout


def test_the_list_of_commands_is_printed_without_importing_any() -> None:
    program = (
        "import sys; from sharedroutes.cli.main import main\n"
        "try: main()\n"
        "finally: print([name for name in ('redis', 'orjson', 'rich', 'watchdog') if name in sys.modules])"
    )
    done = run_python(program, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [["no-such-command"], ["topics", "--no-such-option"], ["routes"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(sharedroutes, arguments).exit_code == 2


@pytest.mark.parametrize(
    ("command", "missing", "named", "extras"),
    [
        ("agent", ["h11"], "h11", "agent"),
        ("agent", ["h11", "watchdog"], "h11 and watchdog", "agent"),
        ("routes", ["rich"], "rich", "cli"),
        ("routes", ["click"], "click", "cli"),
        ("acl", ["click", "rich"], "click and rich", "cli"),
        ("doctor", ["rich"], "rich", "cli"),
        ("doctor", ["click"], "click", "cli"),
        ("pipeline report", ["pyspark"], "pyspark", "spark"),
    ],
)
def test_a_command_names_all_that_it_lacks_in_one_line(
    command: str, missing: list[str], named: str, extras: str
) -> None:
    done = run_without(missing, *command.split())
    assert (done.returncode, done.stdout) == (3 if command == "doctor" else 2, "")
    assert done.stderr.startswith(f"Error: `{command.partition(' ')[0]}` needs {named}: run `")
    assert done.stderr.endswith(f"[{extras}]'`\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [[], ["kv"], ["kv", "put"], ["agent-ctl", "status"], *([name] for name in NAMES)]
)
def test_h_is_help_everywhere(arguments: list[str]) -> None:
    long = CliRunner().invoke(sharedroutes, [*arguments, "--help"])
    short = CliRunner().invoke(sharedroutes, [*arguments, "-h"])
    assert (short.exit_code, short.output) == (0, long.output)
    assert short.output.startswith("Usage: sharedroutes")
    assert "-h, --help" in short.output


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["topcs"], "topics"),
        (["agent-ctrl"], "agent-ctl"),
        (["kv", "putt"], "put"),
        (["agent-ctl", "stat"], "status"),
        (["topics", "--namspace", "x"], "--namespace"),
        (["zzz"], ""),
    ],
)
def test_who_mistypes_is_told_what_was_probably_meant(arguments: list[str], meant: str) -> None:
    done = CliRunner().invoke(sharedroutes, arguments)
    assert done.exit_code == 2
    assert (f"Did you mean '{meant}'?" if meant else "No such command 'zzz'.\n") in done.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("brokrs", "No such command 'brokrs'. Did you mean 'brokers'?"),
        ("zzz", "No such command 'zzz'."),
        ("-x", "No such option '-x'."),
    ],
)
def test_a_mistake_is_no_missing_extra(word: str, said: str) -> None:
    done = run_without(["click", "rich"], word)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {said}\n")


@pytest.mark.parametrize("words", [("acl", "reader"), ("agent-ctl", "-h"), ("completion", "-h")])
def test_what_the_extra_of_an_agent_brings_is_enough(words: tuple[str, ...]) -> None:
    done = run_without(["rich"], *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_agent_needs_nothing_of_the_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert CliRunner().invoke(sharedroutes, ["agent", "--help"]).exit_code == 0


def test_the_package_can_be_run_as_a_module() -> None:
    for module in ("sharedroutes", "sharedroutes.cli"):
        done = run_python(f"import runpy; runpy.run_module({module!r}, run_name='__main__')", "--version")
        assert done.stdout == f"sharedroutes, version {__version__}\n"


def test_the_package_as_a_module_names_the_extra_too() -> None:
    blocked = "import runpy, sys; sys.modules['click'] = None"
    done = run_python(f"{blocked}; runpy.run_module('sharedroutes', run_name='__main__')")
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs click: run " in done.stderr
    assert ".[cli]" in done.stderr


@pytest.fixture
def paused(own_server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """Return a server that accepts connections and does not answer."""
    own_server.pause()
    yield own_server
    own_server.resume()


def connected(server: EmbeddedServer) -> bool:
    listing = Path("/proc/net/tcp").read_text().splitlines()
    return sum(f":{server.port:04X} 01" in " ".join(line.split()[2:4]) for line in listing) > 0


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_that_waits_for_the_store_without_a_word(
    paused: EmbeddedServer, how: signal.Signals, code: int, tmp_path: Path
) -> None:
    with started("export", str(tmp_path / "file"), "--redis", paused.url) as process:
        wait_until(lambda: connected(paused), timeout_s=60.0, description="it has connected")
        process.send_signal(how)
        text, said = process.communicate(timeout=30.0)
    assert (process.returncode, text, said) == (code, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_gone_ends_a_command_without_a_word(redis_url: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "topics", "--redis", redis_url]
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True) as process:
        os.close(writer)
        _, said = process.communicate(timeout=60.0)
    assert (process.returncode, said) == (141, "")

"""docs/agent.md and docs/agent/ say what the code has, show the files of deploy/, and their snippets run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import click
import pytest

from sharedroutes.broker_agent.planner.status import Phase
from sharedroutes.broker_agent.process.command import EXIT_CODES
from sharedroutes.broker_agent.process.pages import CONTROLS
from sharedroutes.broker_agent.process.sidecar import SIGNALS
from sharedroutes.broker_agent.settings.sidecar_config import OPTIONS
from sharedroutes.cli.agent_ctl import agent_ctl
from sharedroutes.cli.main import COMMANDS
from sharedroutes.daemon.option import Kind, Option
from sharedroutes.daemon.pages import VIEWS
from sharedroutes.registry import EmbeddedServer, InvalidInput, RegistryConfig
from tests.broker_agent.data_files import put, topics_json
from tests.broker_agent.stand_ins import BrokerProcess
from tests.deploy.files import AGENT
from tests.markdown import code_blocks, guide, names, rows
from tests.pages.blocks import blocks_of

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = guide("agent")
SNIPPETS: Final = [block.text for page in blocks_of(__file__).values() for block in page]


def options(section: str, *, each_broker: bool = False) -> list[Option]:
    return [option for option in OPTIONS if option.section == section and option.each_broker is each_broker]


def test_what_is_installed_has_every_command_of_the_page() -> None:
    (extras,) = re.findall(r"pip install '\.\[([a-z,]+)\]' +#", PAGE)
    commands = set(re.findall(r"\bsharedroutes ([a-z][a-z-]+)", PAGE)) & COMMANDS.keys()
    assert {"agent", "agent-ctl", "routes", "lift"} <= commands
    for name in commands:
        assert {*COMMANDS[name].extras} <= {*extras.split(",")}, name
    assert f"'.[{extras}]'" in (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "option", [one for one in options("store") if one.kind in (Kind.SECONDS, Kind.COUNT)]
)
def test_the_bounds_of_the_store_s_settings_are_those_of_the_registry(option: Option) -> None:
    within: list[Any] = (
        [option.low, 86_400.0] if option.kind is Kind.SECONDS else [int(option.low), option.high]
    )
    for value in within:
        assert getattr(RegistryConfig(**{option.key: value}), option.key) == value
    for value in (within[0] - 1, within[1] + 1):
        with pytest.raises(InvalidInput, match=option.key):
            RegistryConfig(**{option.key: value})


def test_what_a_reload_applies_is_said() -> None:
    (sentence,) = re.findall(
        r"New and lost `\[\[broker\]\]` tables, (.*?) are\s+applied at once", PAGE, re.DOTALL
    )
    assert names(sentence) == [option.key for option in OPTIONS if option.is_live]


def test_the_rule_that_makes_variables_from_flags_holds() -> None:
    odd = {
        option.flag: option.variable
        for option in OPTIONS
        if option.variable != "SHAREDROUTES_" + option.flag[2:].upper().replace("-", "_")
    }
    assert odd == {"--redis": "SHAREDROUTES_REDIS_URL"}
    assert "that of `--redis` is\n`SHAREDROUTES_REDIS_URL`" in PAGE


def test_every_request_is_in_the_table() -> None:
    written = [names(request)[0] for request, _ in rows(PAGE, "HTTP")]
    assert written == [*(f"GET {path}" for path in VIEWS), *(f"POST {path}" for path in CONTROLS)]


def test_every_control_command_is_in_the_table() -> None:
    assert isinstance(agent_ctl, click.Group)
    written = {names(command)[0]: set(names(does)) for command, does in rows(PAGE, "Commands")}
    assert set(written) == set(agent_ctl.commands)
    for name, command in agent_ctl.commands.items():
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert {word.partition(" ")[0] for word in written[name] if word.startswith("-")} == flags, name


def test_every_phase_is_in_the_table() -> None:
    assert [names(phase)[0] for phase, _ in rows(PAGE, "Phases")] == [phase.value for phase in Phase]


def test_every_signal_is_in_the_table() -> None:
    written = [getattr(signal, name) for said, _ in rows(PAGE, "Signals") for name in names(said)]
    assert written == list(SIGNALS)


def test_every_exit_code_is_in_the_table() -> None:
    assert {int(code): meaning for code, meaning in rows(PAGE, "Exit codes")} == EXIT_CODES


def test_every_source_of_topics_is_in_the_table() -> None:
    (option,) = [option for option in OPTIONS if option.key == "topics_from"]
    assert tuple(names(source)[0] for source, _ in rows(PAGE, "Sources of topics")) == option.choices


FILES: Final = [AGENT.kubernetes, *sorted(path for path in AGENT.folder.iterdir() if path.is_file())]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_a_file_of_deploy_is_shown_as_it_is(path: Path) -> None:
    assert path.read_text(encoding="utf-8") in code_blocks(PAGE)


def ran(snippet: str) -> subprocess.CompletedProcess[str]:
    """Run a snippet in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        (sys.executable, "-c", snippet), capture_output=True, text=True, check=False, env=environment
    )


def test_the_snippet_of_a_broker_in_python_runs(own_server: EmbeddedServer) -> None:
    _, snippet = SNIPPETS
    assert snippet.count("redis://127.0.0.1:6379/0") == 1
    done = ran(snippet.replace("redis://127.0.0.1:6379/0", own_server.url))
    assert done.returncode == 0, done.stderr
    assert "topics=2" in done.stdout


def test_the_snippet_of_the_library_runs(tmp_path: Path, own_server: EmbeddedServer) -> None:
    snippet, _ = SNIPPETS
    put(tmp_path / "topics.json", topics_json("orders", "payments"))
    with BrokerProcess() as broker:
        for written, real in (
            ("redis://127.0.0.1:6379/0", own_server.url),
            ("127.0.0.1:10911", broker.address),
            ("/home/rocketmq/store/config/topics.json", str(tmp_path / "topics.json")),
        ):
            assert snippet.count(written) == 1
            snippet = snippet.replace(written, real)
        done = ran(snippet)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 files: ")

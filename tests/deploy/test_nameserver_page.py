"""docs/nameserver.md and docs/nameserver/ say what the code has, and show the files of deploy/nameserver/."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.cli.main import COMMANDS
from sharedroutes.daemon.pages import VIEWS
from sharedroutes.nameserver.command import EXIT_CODES
from sharedroutes.nameserver.process_config import OPTIONS
from sharedroutes.nameserver.settings import NO_EFFECT
from sharedroutes.registry import EmbeddedServer
from sharedroutes.remoting import RequestCode, ResponseCode
from tests.deploy.files import FRONT
from tests.markdown import code_blocks, guide, names, rows
from tests.nameserver.running import FrontRun

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = guide("nameserver")
FILES: Final = [FRONT.kubernetes, *sorted(FRONT.folder.iterdir())]


def test_the_rule_that_makes_variables_from_flags_holds() -> None:
    odd = {
        option.flag: option.variable
        for option in OPTIONS
        if option.variable != "SHAREDROUTES_NAMESERVER_" + option.flag[2:].upper().replace("-", "_")
    }
    assert odd == {"--redis": "SHAREDROUTES_REDIS_URL", "--namespace": "SHAREDROUTES_NAMESPACE"}
    assert "those of `--redis` and `--namespace` are `SHAREDROUTES_REDIS_URL` and" in PAGE
    assert "`SHAREDROUTES_NAMESPACE`" in PAGE


def test_every_key_without_effect_is_in_its_table() -> None:
    assert {name: why for cell, why in rows(PAGE, "Keys without effect") for name in names(cell)} == NO_EFFECT


def test_every_page_is_in_the_table() -> None:
    assert [names(page)[0] for page, _ in rows(PAGE, "Pages")] == [*VIEWS]


def test_every_signal_is_in_the_table() -> None:
    written = [getattr(signal, name) for said, _ in rows(PAGE, "Signals to a front") for name in names(said)]
    assert written == [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


def test_every_exit_code_is_in_the_table() -> None:
    assert {int(code): meaning for code, meaning in rows(PAGE, "Exit codes of a front")} == EXIT_CODES


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_a_file_of_deploy_is_shown_as_it_is(path: Path) -> None:
    assert path.read_text(encoding="utf-8") in code_blocks(PAGE)


def test_what_is_installed_has_every_command_of_the_page() -> None:
    (extras,) = re.findall(r"pip install '\.\[([a-z,]+)\]'$", PAGE, re.MULTILINE)
    for name in ("nameserver", "agent-ctl", "routes"):
        assert {*COMMANDS[name].extras} <= {*extras.split(",")}, name
    assert f"'.[{extras}]'" in (ROOT / "deploy" / "nameserver" / "Dockerfile").read_text(encoding="utf-8")


def test_the_table_of_requests_has_the_codes_that_a_front_answers(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    written = {int(code): names(name) for code, name, *_ in rows(PAGE, "Requests")}
    with FrontRun(tmp_path, "--redis", own_server.url) as front, front.peer() as peer:
        answers = {code: peer.ask(code).code for code in range(1_000)}
    answered = {code for code, how in answers.items() if how != ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
    assert written.keys() == answered | {RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE}
    assert written == {code: [RequestCode(code).name] for code in written}

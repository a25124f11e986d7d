"""The commands of the how-to pages exist, and those that need no more than a store run as they stand."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import pytest

from sharedroutes.cli.root import sharedroutes
from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from tests.markdown import commands, lacks

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(DOCS.rglob("*.md"))
RUN: Final = ("redis-down", "incidents", "zones", "acl-and-tls")
"""Pages whose commands need a store alone; others need Sentinels, a Cluster, or a broker."""

SHELL: Final = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""`sh` is run by a test, `console` needs hosts of the reader's."""


def invocations(page: Path) -> list[list[str]]:
    """Return the words of each call of `sharedroutes` in the shell blocks of a page."""
    found = []
    for block in SHELL.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            call = re.search(r"(?:^|\$ |\| )(?:/opt/sharedroutes/bin/)?sharedroutes (.*)", line)
            if call is not None:
                lexer = shlex.shlex(call[1], posix=True, punctuation_chars=True)
                lexer.whitespace_split = True
                lexer.commenters = "#"
                words = list(lexer)
                ends = [words.index(mark) for mark in ("|", "||", "&&", ">", ";") if mark in words]
                found.append(words[: min(ends, default=len(words))])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_commands_and_flags_of_a_page_exist(page: Path) -> None:
    for words in invocations(page):
        command: click.Command = sharedroutes
        with click.Context(sharedroutes) as context:
            rest = list(words)
            while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
                inner = command.get_command(context, rest.pop(0))
                assert inner is not None, words
                command = inner
        known = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {
            "-h",
            "--help",
        }
        flags = {word.partition("=")[0] for word in rest if word.startswith("-") and len(word) > 2}
        assert flags <= known | {"--version"}, words


@pytest.fixture
def server(own_server: EmbeddedServer) -> EmbeddedServer:
    """Return a server with two brokers that hold the topic of the pages."""
    with RouteStore.from_url(own_server.url) as store:
        for name in ("broker-a", "broker-b"):
            store.register(Broker(name, f"10.0.0.{ord(name[-1])}:10911"), [TopicConfig("orders")])
    return own_server


def bash(block: str, server: EmbeddedServer, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block of a page as a reader does, whose registry is the server's."""
    return subprocess.run(
        ("bash", "-e", "-o", "pipefail", "-c", block),
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SHAREDROUTES_REDIS_URL": server.url,
            "PASSWORD": "of-the-reader",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page_run_as_they_stand(name: str, server: EmbeddedServer, tmp_path: Path) -> None:
    text = (DOCS / "howto" / f"{name}.md").read_text(encoding="utf-8")
    blocks = commands(text)
    assert blocks
    for block, shown in blocks:
        done = bash(past(block), server, tmp_path)
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        assert done.stdout or done.stderr == "nothing\n", "it shows nothing, so nobody can see that it works"
        assert not lacks(done.stdout, shown)


def past(block: str) -> str:
    """Return a block that asks of the youngest past: nothing has happened here yesterday."""
    return block.replace("yesterday noon", "now").replace("14:05", "now").replace("--from 2h", "--from 0s")


def test_a_user_of_the_page_may_read_and_not_write(server: EmbeddedServer, tmp_path: Path) -> None:
    page = (DOCS / "howto" / "acl-and-tls.md").read_text(encoding="utf-8")
    (block,) = [command for command, _ in commands(page) if "redis-cli" in command]
    assert bash(block, server, tmp_path).returncode == 0
    reader = server.url.replace("redis://", "redis://sharedroutes-reader:of-the-reader@")
    may = bash(f"sharedroutes brokers --redis {reader}", server, tmp_path)
    may_not = bash(f"sharedroutes wipe broker-a --redis {reader}", server, tmp_path)
    assert "broker-b" in may.stdout
    assert (may_not.returncode, may_not.stdout) == (1, "")
    assert "role" in may_not.stderr

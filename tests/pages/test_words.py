"""Every call of `sharedroutes` in a block of a page has a command and flags that exist."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from sharedroutes.cli.root import sharedroutes
from tests.pages.blocks import PAGES, SHELL, blocks


def invocations(page: str) -> list[list[str]]:
    """Return the words of each call of `sharedroutes` in the shell blocks of a page."""
    found = []
    for block in (one for one in blocks(page) if one.language in SHELL):
        for line in block.text.replace("\\\n", " ").splitlines():
            call = re.search(r"(?:^|\$ |\| |-- )(?:/opt/sharedroutes/bin/)?sharedroutes (.*)", line)
            if call is not None:
                lexer = shlex.shlex(call[1], posix=True, punctuation_chars=True)
                lexer.whitespace_split = True
                lexer.commenters = "#"
                words = list(lexer)
                ends = [words.index(mark) for mark in ("|", "||", "&&", ">", ";") if mark in words]
                found.append(words[: min(ends, default=len(words))])
    return found


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_flags_of_a_page_exist(page: str) -> None:
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

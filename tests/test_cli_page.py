"""docs/cli.md has every command as the parser has it, and its profile file is one."""

from __future__ import annotations

import re
import tomllib

from sharedroutes.cli.profiles import parse
from tests.markdown import page
from tests.pages.blocks import blocks_of
from tools import cli_docs


def test_the_reference_is_what_the_parser_says() -> None:
    text = page("cli.md")
    assert cli_docs.written(text) == text, "run `make generate`"


def test_every_command_has_a_place() -> None:
    headings = set(re.findall(r"^### (.+)$", page("cli.md"), re.MULTILINE))
    assert {name for name, _, _ in cli_docs.commands()} <= headings


def test_the_profiles_of_the_page_are_read() -> None:
    ((block,),) = blocks_of(__file__).values()
    found = parse(tomllib.loads(block.text))
    assert (found.default, found.named["prod"].namespace) == ("dev", "prod")

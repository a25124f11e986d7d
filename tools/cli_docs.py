"""Writes the reference of docs/cli.md from the parser of the command line.

`python -m tools.cli_docs` rewrites the page; `--check` shows how it would change, and ends with 1.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Final

import click

from sharedroutes.cli.json_schema import PRINTED
from sharedroutes.cli.main import ALIASES
from sharedroutes.cli.root import sharedroutes
from tools.pages import DOCS, write

PAGE: Final = DOCS / "cli.md"
_HEADING: Final = "## Commands\n"
_EVERYWHERE: Final = ("redis_url", "namespace", "profile", "output")
"""Options that the page tells of once."""

_ELSEWHERE: Final = {"agent": "agent/settings.md", "nameserver": "nameserver/settings.md"}
"""Commands whose options have a page of their own."""

_PRINTS: Final = {"agent": "With `--check` it prints"}
"""Where a command does not always print for programs."""


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield each command with its words and a context, as `--help` lists them."""
    root = click.Context(sharedroutes, info_name="sharedroutes")
    for name in sharedroutes.list_commands(root):
        found = sharedroutes.get_command(root, name)
        if found is not None:
            yield from _below((name,), found, root)


def _below(
    words: tuple[str, ...], command: click.Command, parent: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    context = click.Context(command, info_name=words[-1], parent=parent)
    if not isinstance(command, click.Group) or command.params:
        yield " ".join(words), command, context
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None:
            yield from _below((*words, name), found, context)


def reference() -> str:
    """Return the section about all commands."""
    return "\n".join((_HEADING, *(_entry(*each) for each in commands())))


def _entry(words: str, command: click.Command, context: click.Context) -> str:
    usage = f"sharedroutes {words} {' '.join(command.collect_usage_pieces(context))}"
    parts = [f"### {words}", f"```\n{usage}\n```"]
    others = [other for other, name in ALIASES.items() if name == words]
    if others:
        parts.append(f"Also `sharedroutes {others[0]}`.")
    # A form feed ends what click shows, as in click's own help.
    parts.append(_escaped(inspect.cleandoc(command.help or "").partition("\f")[0].strip()))
    if words in _ELSEWHERE:
        parts.append(f"Its options are among [its settings]({_ELSEWHERE[words]}).")
    elif rows := "".join(_row(one, context) for one in command.params if one.name not in _EVERYWHERE):
        parts.append(f"| option | meaning |\n|---|---|\n{rows.rstrip()}")
    if words.removeprefix("pipeline ask ") in PRINTED:
        name = words.removeprefix("pipeline ask ")
        parts.append(f"{_PRINTS.get(name, 'Prints')} {_what(name)}: `sharedroutes json-schema {name}`.")
    return "\n\n".join(parts) + "\n"


def _what(name: str) -> str:
    printed = PRINTED[name]
    fields = getattr(printed.record, "__annotations__", None) or (
        printed.record if isinstance(printed.record, dict) else {}
    )
    named = f" with {', '.join(f'`{one}`' for one in fields)}" if fields else ""
    return f"records{named}" if printed.is_list else f"one record{named}"


def _row(parameter: click.Parameter, context: click.Context) -> str:
    record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
    if record is None:
        return ""
    names, meaning = (_escaped(text).replace("|", r"\|") for text in record)
    return f"| `{names}` | {meaning} |\n"


def _escaped(text: str) -> str:
    """Return a text with what Markdown would take for a tag in backquotes."""
    return re.sub(r"(?<![`\w])<([a-z-]+)>", r"`<\1>`", text)


def written(text: str) -> str:
    """Return the page with its reference as the parser has it."""
    head, heading, _ = text.partition(_HEADING)
    if not heading:
        raise ValueError(f"{PAGE}: has no {_HEADING!r}")
    return head + reference()


if __name__ == "__main__":
    sys.exit(write({PAGE: written(PAGE.read_text(encoding="utf-8"))}))

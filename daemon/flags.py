"""The settings of a process as options of its command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from .option import Kind, Option

F = TypeVar("F", bound=Callable[..., Any])


def with_settings(options: Sequence[Option], help_of: Callable[[Option], str]) -> Callable[[F], F]:
    """Return what adds an option for every setting; all values are checked together, and not by click."""

    def add(command: F) -> F:
        for option in reversed(options):
            described: dict[str, Any] = {
                "metavar": option.metavar,
                "help": help_of(option),
                "multiple": bool(option.joined_by),
            }
            if option.kind is Kind.SWITCH:
                described |= {"is_flag": False, "flag_value": "true", "metavar": f"[{option.metavar}]"}
            command = click.option(option.flag, **described)(command)
        return command

    return add


def given(context: click.Context, options: Sequence[Option], *others: str) -> dict[str, str]:
    """Return what the command line says of the settings, and of `others`, by flag."""
    joined = dict.fromkeys(others, "") | {option.flag: option.joined_by for option in options}
    found = {}
    for parameter in context.command.params:
        flag, value = parameter.opts[-1], context.params.get(parameter.name or "")
        if flag not in joined:
            continue
        if isinstance(value, tuple) and value:
            found[flag] = joined[flag].join(value)
        elif isinstance(value, str):
            found[flag] = value
    return found

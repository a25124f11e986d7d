"""Finds the value of each setting: flags before environment before a file before defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from ..registry import InvalidInput
from .option import DEFAULT, Option, Value, nearest

Said: TypeAlias = tuple[str, Callable[[], Any]]
"""A place that gives a value, and what reads it; that raises InvalidInput."""

_OF_A_SERVICE: Final = re.compile(r"_SERVICE_(HOST|PORT)(_|$)|_PORT(_\d+_|$)")
"""What Kubernetes, and Docker's links, set for a service of our name."""


class Sources:
    """Flags (by name, as `--redis`) and environment; collects the problems of what is picked.

    `path`: the file with settings that the flag or the variable for it names.
    """

    def __init__(
        self, flags: Mapping[str, str], environment: Mapping[str, str], *, flag: str, variable: str
    ) -> None:
        self._flags, self._environment = flags, environment
        named = flags.get(flag) or environment.get(variable)
        self.path = Path(named) if named else None
        self.problems: list[str] = []

    def pick(self, option: Option, in_file: Said | None = None, otherwise: Value | None = None) -> Value:
        """Return the value in effect; an invalid one is noted as a problem, and the next one replaces it."""
        for place, read in (*self.said(option), *([in_file] if in_file else ())):
            try:
                value = read()
                option.check(value)
            except InvalidInput as error:
                self.problem(f"{place}: {str(error).removeprefix(f'{option.attribute}: ')}")
            else:
                return Value(value, place)
        return otherwise or Value(option.default, DEFAULT)

    def said(self, option: Option) -> Iterator[Said]:
        """Yield the flag and the variable that give a value; an empty text counts as unset."""
        if text := self._flags.get(option.flag):
            yield option.flag, partial(option.from_text, text)
        if text := self._environment.get(option.variable):
            yield option.variable, partial(option.from_text, text)

    def problem(self, text: str) -> None:
        """Note a problem once: a setting may be looked at several times."""
        if text not in self.problems:
            self.problems.append(text)


def unknown_variables(
    variables: Iterable[str], known: Collection[str], *, prefix: str, whose: str
) -> Iterator[str]:
    """Yield a warning for each variable that begins as those of a process and is no setting of it."""
    stems = [one.removeprefix(prefix) for one in known]  # what all begin with would make all of them near
    for name in sorted(variables):
        if name.startswith(prefix) and name not in known and not _OF_A_SERVICE.search(name):
            hint = nearest(name.removeprefix(prefix), stems, prefix)
            yield f"{name}: is not a setting of {whose} and is ignored{hint}"

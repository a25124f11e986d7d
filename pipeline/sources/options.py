"""The options of a source or a sink: read without case, and refused by name when they make no sense."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import BadOption


class Options:
    """What somebody set with `.option(...)`, for a source called `source` that knows the options `known`.

    Their case does not matter, as in Spark's own sources. Raises BadOption for an unknown one.
    """

    def __init__(self, source: str, given: Mapping[str, str], known: Iterable[str]) -> None:
        self._source = source
        names = {name.lower(): name for name in known}
        self._given = {key.lower(): text for key, text in given.items()}
        unknown = sorted(self._given.keys() - names.keys())
        if unknown:
            raise BadOption(f"{source}: there is no option {unknown[0]!r}, only {', '.join(names.values())}")

    def text(self, name: str, default: str = "") -> str:
        """Return an option as it was given."""
        return self._given.get(name.lower(), default)

    def number(self, name: str, default: int, *, low: int, high: int = 2**31 - 1) -> int:
        """Return an option that is a whole number within low..high; raises BadOption."""
        text = self.text(name, str(default))
        try:
            value = int(text)
        except ValueError:
            raise self.bad(name, f"{text!r} is not a whole number") from None
        if not low <= value <= high:
            raise self.bad(name, f"{value} is not within {low} to {high}")
        return value

    def choice(self, name: str, *allowed: str) -> str:
        """Return one of some words, of which the first is the default; raises BadOption."""
        text = self.text(name, allowed[0])
        if text.lower() not in allowed:
            raise self.bad(name, f"{text!r} is none of {', '.join(allowed)}")
        return text.lower()

    def flag(self, name: str, *, default: bool) -> bool:
        """Return an option that is true or false; raises BadOption."""
        return self.choice(name, *("true", "false") if default else ("false", "true")) == "true"

    def bad(self, name: str, what: str) -> BadOption:
        """Return the error that the option has no sensible value."""
        return BadOption(f"{self._source}: option {name}: {what}", option=name, what=what)

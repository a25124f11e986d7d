"""Settings, each declared once: its flag, variable, key in agent.toml, check and pages follow from that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from ..registry import InvalidInput
from ..registry.checks import check_address, check_int, check_seconds

T = TypeVar("T")

PREFIX: Final = "SHAREDROUTES_"
"""How every variable begins."""

_DECLARED: Final = "option"
_NO_ADDRESSES: Final = "none"
"""In a flag or a variable, where an empty text says nothing."""

_TOML_TYPES: Final = {
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    list: "an array",
    dict: "a table",
}


class Section(StrEnum):
    """The tables of agent.toml."""

    STORE = "store"
    AGENT = "agent"
    BROKER = "broker"


class Kind(StrEnum):
    """What a value is; also what stands for it in help texts."""

    TEXT = "TEXT"
    URL = "URL"
    PATH = "FILE"
    ADDRESS = "HOST:PORT"
    ADDRESSES = "HOST:PORT,..."
    LISTEN = "HOST:PORT|off"
    SECONDS = "SECONDS"
    COUNT = "NUMBER"
    CHOICE = "CHOICE"
    PAIRS = "KEY=VALUE;..."
    SECRET = "JSON"  # noqa: S105 - what stands for one in help texts
    """Taken from its variable alone: everybody sees the flags of a process, and many read agent.toml."""


_USUAL: Final = {
    str: Kind.TEXT,
    float: Kind.SECONDS,
    int: Kind.COUNT,
    dict: Kind.PAIRS,
    type(None): Kind.PATH,
}
"""What a setting is by its default, unless it says something else."""

_EXPECTED: Final[dict[Kind, tuple[tuple[type, ...], str]]] = {
    Kind.SECONDS: ((int, float), "a number of seconds"),
    Kind.COUNT: ((int,), "a whole number"),
    Kind.PAIRS: ((dict,), "a table"),
    Kind.ADDRESSES: ((list,), "an array of strings"),
}
"""What agent.toml may say of a kind; of all others, a string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting."""

    kind: Kind
    default: Any
    meaning: str
    """Sentences in Markdown: docs/agent.md has all of them, and `--help` the first."""

    section: Section = Section.AGENT
    each_broker: bool = False
    """Whether it stands in [agent], and every [[broker]] may have a value of its own."""

    is_live: bool = False
    """Whether a reload applies a change; all others wait for a restart of the agent."""

    key: str = ""
    """Its name in agent.toml, with the unit."""

    attribute: str = ""
    """The field of the configuration that it becomes; usually the key."""

    stem: str = ""
    """What its variable is made from, when that is not the key without its unit."""

    unit: str = ""
    low: float = 0
    high: int = 0
    """The bounds of numbers; those of seconds end with a day."""

    choices: tuple[str, ...] = ()
    also: Callable[[Any], object] | None = None
    """A further check, which raises InvalidInput."""

    @property
    def flag(self) -> str:
        """How it is named on the command line."""
        return "--" + (self.stem or self.key.removesuffix("_s")).removesuffix("_url").replace("_", "-")

    @property
    def variable(self) -> str:
        """How it is named in the environment."""
        return PREFIX + (self.stem or self.key.removesuffix("_s")).upper()

    @property
    def metavar(self) -> str:
        """What stands for the value in help texts."""
        return "|".join(self.choices) if self.choices else self.kind.value

    @property
    def help(self) -> str:
        """The first sentence of the meaning, as plain text."""
        return self.meaning.partition(". ")[0].removesuffix(".").replace("`", "") + "."

    def from_text(self, text: str) -> Any:
        """Return the value that a flag or a variable gives; raise InvalidInput for one that is none."""
        match self.kind:
            case Kind.SECONDS | Kind.COUNT:
                try:
                    return float(text) if self.kind is Kind.SECONDS else int(text)
                except ValueError:
                    raise InvalidInput(f"expected {_EXPECTED[self.kind][1]}, got {text!r:.80}") from None
            case Kind.PAIRS:
                return _pairs(text)
            case Kind.ADDRESSES:
                return () if text == _NO_ADDRESSES else tuple(each.strip() for each in text.split(","))
            case Kind.PATH:
                return Path(text)
            case _:
                return self._chosen(text)

    def from_toml(self, value: Any, folder: Path) -> Any:
        """Return the value that agent.toml in `folder` gives; raise InvalidInput for one that is none."""
        if self.kind is Kind.SECRET:
            raise InvalidInput(f"is a secret: say it in {self.variable}, or in a file")
        types, expected = _EXPECTED.get(self.kind, ((str,), "a string"))
        # A boolean is an integer to Python, and none to TOML.
        if type(value) not in types or (types == (list,) and {*map(type, value)} - {str}):
            shown = toml_type(value) if self.kind is Kind.URL else f"{value!r:.80}"
            raise InvalidInput(f"expected {expected}, got {shown}")
        match self.kind:
            case Kind.SECONDS:
                return float(value)
            case Kind.PAIRS:
                return _texts(value)
            case Kind.ADDRESSES:
                return tuple(value)
            case Kind.PATH:
                return folder / value
            case _:
                return self._chosen(value)

    def check(self, value: Any) -> None:
        """Raise InvalidInput, with the name of the field, for a value that no other setting could mend."""
        match self.kind:
            case Kind.SECONDS:
                check_seconds(self.attribute, value, self.low)
            case Kind.COUNT:
                check_int(self.attribute, value, int(self.low), self.high)
            case Kind.ADDRESS | Kind.ADDRESSES:
                for address in (value,) if isinstance(value, str) else value or ():
                    if address or self.kind is Kind.ADDRESSES:  # an empty one is none that was given
                        check_address(self.attribute, address)
            case Kind.CHOICE if value not in self.choices:
                raise InvalidInput(f"{self.attribute}: {value!r:.80} is none of {', '.join(self.choices)}")
        if self.also is not None:
            self.also(value)

    def _chosen(self, text: Any) -> Any:
        """Return the choice of that name, if there are choices."""
        return next((one for one in self.choices if one == text), text)


def declare(default: object, meaning: str, **rest: Any) -> Option:
    """Return a setting; `rest` are the other fields of Option, its kind by default that of such a value."""
    kind = Kind.CHOICE if "choices" in rest else _USUAL[type(default)]
    return Option(**{"kind": kind, "default": default, "meaning": meaning, **rest})


def option(default: T, meaning: str, **rest: Any) -> T:
    """Return the field of a dataclass that is a setting; `rest` as for `declare`."""
    found = declare(default, meaning, **rest)
    of_field: dict[str, Any] = {"metadata": {_DECLARED: found}, "repr": found.kind is not Kind.SECRET}
    if isinstance(default, dict):
        return field(default_factory=dict, hash=False, **of_field)  # type: ignore[return-value]
    return field(default=default, **of_field)


def options_of(config: type[Any]) -> Iterator[Option]:
    """Yield the settings among the fields of a dataclass."""
    for one in fields(config):
        if found := one.metadata.get(_DECLARED):
            yield replace(found, key=found.key or one.name, attribute=one.name)


def toml_type(value: object) -> str:
    """Return what TOML calls such a value: the value itself may hold a password."""
    return _TOML_TYPES.get(type(value), "a date or a time")


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for pair in filter(None, text.split(";")):
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise InvalidInput(f"{pair!r:.80} is not key=value")
        found[key.strip()] = value.strip()
    return found


def _texts(table: dict[str, Any]) -> dict[str, str]:
    """Return a table of TOML as a broker.conf says the same."""
    for key, said in table.items():
        if not isinstance(said, str | int):
            raise InvalidInput(f"{key}: expected a string, a whole number, true or false, got {said!r:.80}")
    return {key: str(said).lower() if isinstance(said, bool) else str(said) for key, said in table.items()}

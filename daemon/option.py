"""Settings, each declared once: flag, variable, key in a file, check and help follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote_plus

from ..registry import InvalidInput
from ..registry.checks import check_address, check_int, check_seconds

T = TypeVar("T")

PREFIX: Final = "SHAREDROUTES_"
"""The prefix of every variable."""

DEFAULT: Final = "default"
"""The place of a value that nobody has set."""

MASK: Final = "***"
"""What is shown of a secret."""

_USER_AND_PASSWORD: Final = re.compile(r"(?<=://)([^/?#@:]*):([^/?#]*)@")
_PARAMETER: Final = re.compile(r"([?&]([^=&#]*)=)[^&#]*")
_SECRETS: Final = frozenset(("password", "sentinel_password"))
_DECLARED: Final = "option"
_NO_ADDRESSES: Final = "none"
"""In a flag or a variable, where an empty text counts as unset."""

_TOML_TYPES: Final = {
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    list: "an array",
    dict: "a table",
}


class Kind(StrEnum):
    """The kind of a value; also its placeholder in help texts."""

    TEXT = "TEXT"
    URL = "URL"
    PATH = "FILE"
    ADDRESS = "HOST:PORT"
    ADDRESSES = "HOST:PORT,..."
    LISTEN = "HOST:PORT|off"
    SECONDS = "SECONDS"
    COUNT = "NUMBER"
    CHOICE = "CHOICE"
    SWITCH = "true|false"
    PAIRS = "KEY=VALUE;..."
    SECRET = "JSON"  # noqa: S105 - what stands for one in help texts
    """Taken from its variable alone: everybody sees the flags of a process, and many read its files."""


_USUAL: Final = {
    str: Kind.TEXT,
    bool: Kind.SWITCH,
    float: Kind.SECONDS,
    int: Kind.COUNT,
    dict: Kind.PAIRS,
    type(None): Kind.PATH,
}
"""The kind of a setting that names none, by the type of its default."""

_EXPECTED: Final[dict[Kind, tuple[tuple[type, ...], str]]] = {
    Kind.SECONDS: ((int, float), "a number of seconds"),
    Kind.COUNT: ((int,), "a whole number"),
    Kind.SWITCH: ((bool,), "true or false"),
    Kind.PAIRS: ((dict,), "a table"),
    Kind.ADDRESSES: ((list,), "an array of strings"),
}
"""The types that TOML may give for a kind, and how messages call them; all others are strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting."""

    kind: Kind
    default: Any
    meaning: str
    """Sentences in Markdown: the page of the process has all of them, and `--help` the first."""

    section: str = ""
    """The table of the file in which it stands, if the file has tables."""

    each_broker: bool = False
    """Whether it is set for all brokers of an agent, and each of them may override it."""

    is_live: bool = False
    """Whether a reload applies a change; all others wait for a restart of the process."""

    prefix: str = PREFIX
    """The beginning of its variable."""

    key: str = ""
    """Its name in the file, with the unit."""

    attribute: str = ""
    """The field of the configuration that it becomes; usually the key."""

    stem: str = ""
    """What the variable is derived from, if that is not the key without its unit."""

    unit: str = ""
    low: float = 0
    high: int = 0
    """The bounds of numbers; seconds end with a day."""

    choices: tuple[str, ...] = ()
    placeholder: str = ""
    """What stands for the value in help texts, if that is not its kind."""

    joined_by: str = ""
    """The flag may be given several times: what is between its values where they are one text."""

    original: str = ""
    """RocketMQ's name of the setting, if it has one."""

    also: Callable[[Any], object] | None = None
    """A further check, which raises InvalidInput."""

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + (self.stem or self.key.removesuffix("_s")).removesuffix("_url").replace("_", "-")

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return self.prefix + (self.stem or self.key.removesuffix("_s")).upper()

    @property
    def metavar(self) -> str:
        """The placeholder of the value in help texts."""
        return "|".join(self.choices) or self.placeholder or self.kind.value

    @property
    def help(self) -> str:
        """The first sentence of the meaning, as plain text."""
        return self.meaning.partition(". ")[0].removesuffix(".").replace("`", "") + "."

    def from_text(self, text: str) -> Any:
        """Return the value of a flag or a variable; raise InvalidInput for one of another kind."""
        match self.kind:
            case Kind.SECONDS | Kind.COUNT:
                try:
                    return float(text) if self.kind is Kind.SECONDS else int(text)
                except ValueError:
                    raise InvalidInput(f"expected {_EXPECTED[self.kind][1]}, got {text!r:.80}") from None
            case Kind.SWITCH:
                if text.lower() not in ("true", "false"):
                    raise InvalidInput(f"expected true or false, got {text!r:.80}")
                return text.lower() == "true"
            case Kind.PAIRS:
                return _pairs(text)
            case Kind.ADDRESSES:
                return () if text == _NO_ADDRESSES else tuple(each.strip() for each in text.split(","))
            case Kind.PATH:
                return Path(text)
            case _:
                return self._chosen(text)

    def from_toml(self, value: Any, folder: Path) -> Any:
        """Return the value from a TOML file in `folder`; raise InvalidInput for one of another kind."""
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
        """Raise InvalidInput, naming the field, for a value that is invalid whatever else is set."""
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


class Value(NamedTuple):
    """The value of a setting, and where it was set."""

    value: Any
    place: str

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.place.startswith(DEFAULT)


def declare(default: object, meaning: str, **rest: Any) -> Option:
    """Return a setting; `rest` are further fields of Option, and the default's type implies the kind."""
    kind = Kind.CHOICE if "choices" in rest else _USUAL[type(default)]
    return Option(**{"kind": kind, "default": default, "meaning": meaning, **rest})


def option(default: T, meaning: str, **rest: Any) -> T:
    """Return a dataclass field that is a setting; `rest` as for `declare`."""
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


def nearest(name: str, known: Sequence[str], prefix: str = "") -> str:
    """Return a hint at the known name that is most similar, or an empty text."""
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it, and it stays in memory

    found = get_close_matches(name, known, n=1)
    return f"; did you mean {prefix}{found[0]}?" if found else ""


def masked(url: str) -> str:
    """Return a store URL with *** in place of the passwords."""
    return _PARAMETER.sub(_masked_parameter, _USER_AND_PASSWORD.sub(rf"\1:{MASK}@", url))


def toml_type(value: object) -> str:
    """Return TOML's name for the type of a value that may hold a password."""
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
    """Return the values of a TOML table as a broker.conf writes them."""
    for key, said in table.items():
        if not isinstance(said, str | int):
            raise InvalidInput(f"{key}: expected a string, a whole number, true or false, got {said!r:.80}")
    return {key: str(said).lower() if isinstance(said, bool) else str(said) for key, said in table.items()}


def _masked_parameter(parameter: re.Match[str]) -> str:
    is_secret = unquote_plus(parameter[2]).strip().lower() in _SECRETS
    return parameter[1] + MASK if is_secret else parameter[0]

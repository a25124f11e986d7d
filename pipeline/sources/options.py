"""The options of sources and sinks, and the registries that they name; wrong ones are refused by name."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import orjson

from ...registry import InvalidInput, RegistryConfig, RouteStore
from ..errors import BadOption

REGISTRY_OPTIONS: Final = ("url", "namespace", "registries")
MOST_PARTITIONS: Final = 10_000
_URL: Final = "redis://127.0.0.1:6379"
_PARTS: Final = {"name", "url", "namespace"}


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


def check_number(job: str, name: str, value: object, low: float, high: float, *, whole: bool = True) -> None:
    """Raise BadOption for a setting of a job that is no number, by default a whole one, within low..high."""
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = "no whole number" if whole else "not"
        raise BadOption.of(job, name, f"{value!r} is {what} within {low} to {high}")


class Registry(NamedTuple):
    """A registry: what rows call it, where it is, and its namespace."""

    name: str
    url: str
    namespace: str

    def store(self) -> RouteStore:
        """Return a store on it, to be closed; raises InvalidInput. Nothing is sent yet."""
        actor = f"pipeline load at {socket.gethostname()}"  # of all sources, only a load writes
        return RouteStore.from_url(self.url, RegistryConfig(namespace=self.namespace, actor=actor))


def registries_of(options: Options) -> tuple[Registry, ...]:
    """Return the registries, each with a name of its own; raises BadOption.

    `registries` is a JSON list of objects with `name`, `url` and `namespace`, of which `name` may be left out
    when it is the namespace. Without it there is one, at `url`, called by its `namespace`.
    """
    namespace = options.text("namespace", RegistryConfig().namespace)
    text = options.text("registries")
    if not text:
        try:
            RegistryConfig(namespace=namespace)
        except InvalidInput as error:
            raise options.bad("namespace", str(error).removeprefix("namespace: ")) from None
        return (_checked(options, "url", Registry(namespace, options.text("url", _URL), namespace)),)
    try:
        listed = orjson.loads(text)
    except ValueError as error:
        raise options.bad("registries", f"is no JSON: {error}") from None
    if not isinstance(listed, list) or not listed:
        raise options.bad("registries", "is no list of registries")
    found = tuple(_of_json(options, number, item) for number, item in enumerate(listed, 1))
    if len({registry.name for registry in found}) < len(found):
        raise options.bad("registries", "two have the same name")
    return found


def one_of(options: Options) -> Registry:
    """Return the only registry; raises BadOption when there are several."""
    found = registries_of(options)
    if len(found) > 1:
        raise options.bad("registries", "only one can be written")
    return found[0]


def _of_json(options: Options, number: int, item: object) -> Registry:
    # By its number alone: a URL can have a password in it.
    if not isinstance(item, dict) or not all(isinstance(part, str) for part in item.values()):
        raise options.bad("registries", f"number {number} is no object of texts")
    if item.keys() - _PARTS or "url" not in item:
        has = ", ".join(item) or "nothing"
        raise options.bad(
            "registries", f"number {number} has {has}: it takes url, and perhaps name and namespace"
        )
    parts: dict[str, str] = item
    namespace = parts.get("namespace", RegistryConfig().namespace)
    return _checked(options, "registries", Registry(parts.get("name", namespace), parts["url"], namespace))


def _checked(options: Options, name: str, registry: Registry) -> Registry:
    """Return the registry if a store can be made of it; raises BadOption."""
    try:
        registry.store().close()
    except InvalidInput as error:
        raise options.bad(name, str(error)) from None
    return registry

"""Which registries a source reads or a sink writes: options `url` and `namespace`, or `registries`."""

from __future__ import annotations

import socket
from typing import Final, NamedTuple

import orjson

from ...registry import InvalidInput, RegistryConfig, RouteStore
from .options import Options

OPTIONS: Final = ("url", "namespace", "registries")
_URL: Final = "redis://127.0.0.1:6379"
_PARTS: Final = {"name", "url", "namespace"}


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

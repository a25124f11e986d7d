"""What a service needs by name is where one would look for it: in `sharedroutes.client`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import sharedroutes.client
from sharedroutes.client import AsyncRouteClient, ClientConfig, MessageQueue, RouteClient
from sharedroutes.client import errors as client_errors
from sharedroutes.registry import AsyncRouteStore, InvalidInput, RegistryConfig, RegistryError, RouteStore
from sharedroutes.registry import errors as registry_errors
from tests.markdown import guide

ROOT: Final = Path(__file__).parents[2]
READERS: Final = ("base", "changes", "client_hints", "routes")
"""The plans that a client runs, and what they use."""

SOURCES: Final = (
    *(ROOT / "client").rglob("*.py"),
    *(ROOT / "registry" / "connection").glob("*.py"),
    *(ROOT / "registry" / "plans" / f"{name}.py" for name in READERS),
    *(ROOT / "registry" / f"{name}.py" for name in ("checks", "codec", "store", "store_async")),
)
ERRORS: Final = {
    name: kind
    for module in (client_errors, registry_errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, RegistryError)
}
URL: Final = "redis://127.0.0.1:1/0"


def raised(source: Path) -> Iterator[str]:
    """Yield the names of what the code of a file raises, and of what its docstrings say that it raises."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield ast.unparse(node.exc.func).partition(".")[0]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for said in re.findall(r"[Rr]aises? [^.]*", ast.get_docstring(node) or ""):
                yield from re.findall(r"\w+", said)


def test_every_error_that_a_client_can_raise_is_imported_from_the_client() -> None:
    found = {name for source in SOURCES for name in raised(source)} & ERRORS.keys()
    wanted = {"NoRoute", "AttemptsFailed", "StoreTimeout", "StoreRefused", "NewerSchema", "CorruptData"}
    assert wanted <= found
    writers = {"StaleEpoch", "BrokerOwned", "BrokerWithdrawn", "NotFound"}  # raised by what only writers call
    assert found - writers <= set(sharedroutes.client.__all__)
    own = {
        name
        for name, kind in vars(client_errors).items()
        if isinstance(kind, type) and kind.__module__ == client_errors.__name__
    }
    assert own <= {*sharedroutes.client.__all__}


def test_the_guide_of_the_client_names_no_error_that_it_does_not_have() -> None:
    named = {*re.findall(r"`(\w+)`", guide("client"))}
    assert named & ERRORS.keys() <= set(sharedroutes.client.__all__)


def test_every_public_name_exists() -> None:
    assert [name for name in sharedroutes.client.__all__ if not hasattr(sharedroutes.client, name)] == []
    assert {*sharedroutes.client.__all__} <= {*dir(sharedroutes.client)}


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("10.0.0.1:10911", "10.0.0.1", 10911),
        ("broker-a.example.net:80", "broker-a.example.net", 80),
        ("[::1]:10911", "::1", 10911),
        ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
    ],
)
def test_a_queue_has_the_host_and_the_port_of_its_address(address: str, host: str, port: int) -> None:
    queue = MessageQueue("orders", "broker-a", 0, address)
    assert (queue.host, queue.port) == (host, port)


OTHERWISE: Final = ClientConfig(registry=RegistryConfig(namespace="a", call_deadline_s=1.5), refresh_s=9.0)


@pytest.mark.parametrize("kind", [RouteClient, AsyncRouteClient])
def test_the_namespace_of_a_client_can_be_named_alone(kind: type[RouteClient | AsyncRouteClient]) -> None:
    assert kind.from_url(URL).config == ClientConfig()
    assert kind.from_url(URL, OTHERWISE).config is OTHERWISE
    assert kind.from_url(URL, namespace="b").config == ClientConfig(registry=RegistryConfig(namespace="b"))
    both = kind.from_url(URL, OTHERWISE, namespace="b").config
    assert both == replace(OTHERWISE, registry=replace(OTHERWISE.registry, namespace="b"))
    with pytest.raises(InvalidInput, match="namespace"):
        kind.from_url(URL, namespace="no name")


@pytest.mark.parametrize("kind", [RouteStore, AsyncRouteStore])
def test_the_namespace_of_a_store_can_be_named_alone(kind: type[RouteStore | AsyncRouteStore]) -> None:
    store = kind.from_url(URL, namespace="b")
    assert (store.config, store.keys.namespace) == (RegistryConfig(namespace="b"), "b")
    assert kind.from_url(URL, OTHERWISE.registry, namespace="b").config.call_deadline_s == 1.5

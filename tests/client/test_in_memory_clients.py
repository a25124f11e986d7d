"""What clients do over a server they do over the registry in memory: the same tests, and no server."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import pytest

from sharedroutes.registry import RouteStore
from sharedroutes.testing import InMemoryRegistry
from tests.client import (
    test_client_changes,
    test_client_lookups,
    test_client_names,
    test_client_routes,
    test_client_watch,
)

MODULES: Final = (
    test_client_changes,
    test_client_lookups,
    test_client_names,
    test_client_routes,
    test_client_watch,
)
NEEDED: Final = {"stage"}
OF_A_SERVER: Final = {
    *("own_server", "own_agent", "from_url", "client_kill_filter", "namespace"),
    *("calls", "lookups", "no_lookup"),
}
"""What a test asks for, or calls, that needs a server: to break it, its address, or to count its commands."""


def portable(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the tests that ask for a client and for any store that is well."""
    for name, test in vars(module).items():
        if name.startswith("test_") and callable(test):
            asked = {*inspect.signature(test).parameters}
            if asked >= NEEDED and not (asked | {*test.__code__.co_names}) & OF_A_SERVER:
                yield name, test


globals().update(found for module in MODULES for found in portable(module))


@pytest.fixture
def memory() -> Iterator[InMemoryRegistry]:
    """Return a registry in memory."""
    with InMemoryRegistry() as registry:
        yield registry


@pytest.fixture
def redis_url(memory: InMemoryRegistry) -> InMemoryRegistry:
    """Return what the tests hand on to `make_client`."""
    return memory


@pytest.fixture
def agent(memory: InMemoryRegistry) -> RouteStore:
    """Return what does as agents do."""
    return memory.store


@pytest.fixture
def admin(memory: InMemoryRegistry) -> Any:
    """Return a plain client of the store."""
    return memory._redis


def test_there_are_such_tests() -> None:
    assert len([name for module in MODULES for name, _ in portable(module)]) >= 39

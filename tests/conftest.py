"""What concerns every test: the fixtures' files, coroutine tests, and how hypothesis runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.fix_redis"]

_NEEDS_CLUSTER: Final = Path(__file__).with_name("cluster")

_ONE_SERVER_ONLY: Final = {
    "test_key_guard": "plants keys of other slots than the registry's",
    "test_reply_shapes": "plants keys of other slots than the registry's",
    "test_a_client_of_the_callers_stays_open": "makes a client of one server",
    "test_keys_of_others_are_not_looked_at": "plants keys of other slots than the registry's",
}
"""Why a file of tests, or a test, does not run with `--topology cluster`."""

# A shared machine makes single examples slow, and what draws the first ones; pytest-timeout ends what hangs.
settings.register_profile("sharedroutes", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sharedroutes")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `make cluster-test` asks for."""
    group = parser.getgroup("sharedroutes")
    group.addoption("--cluster", action="store_true", help="run tests/cluster too: it needs Debian's servers")
    group.addoption(
        "--topology",
        choices=("standalone", "cluster"),
        default="standalone",
        help="where the tests that share a server run",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave tests/cluster out unless it is asked for."""
    return True if collection_path == _NEEDS_CLUSTER and not config.getoption("--cluster") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the tests on the shared server when that is a Cluster: the others do not change by it."""
    if config.getoption("--topology") == "standalone":
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (kept if "shared_server" in getattr(item, "fixturenames", ()) else left_out).append(item)
        name = getattr(item, "originalname", "")
        reason = _ONE_SERVER_ONLY.get(item.path.stem) or _ONE_SERVER_ONLY.get(name)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    """Return the runner of this test's event loop; it makes the loop when it is first used."""
    runner = asyncio.Runner()
    yield runner
    runner.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in the loop of the `runner` fixture."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    names = pyfuncitem._fixtureinfo.argnames
    runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True

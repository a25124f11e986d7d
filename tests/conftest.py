"""What concerns every test: the fixtures' files, coroutine tests, and how hypothesis runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest_plugins = ["tests.fix_redis"]

# A shared machine makes single examples slow; pytest-timeout ends what hangs.
settings.register_profile("sharedroutes", deadline=None)
settings.load_profile("sharedroutes")


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

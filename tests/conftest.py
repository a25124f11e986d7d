"""What concerns every test: the fixtures' files, coroutine tests, and how hypothesis runs."""

from __future__ import annotations

import asyncio
import gc
import inspect
import re
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.support import ASKED_EXAMPLES, LONG, examples

pytest_plugins = ["tests.fix_redis", "tests.fix_spark"]

_ON_REQUEST: Final = {
    Path(__file__).with_name("cluster"): "--cluster",
    Path(__file__).parent / "faults" / "long": "--faults",
    Path(__file__).with_name("interop"): "--interop",
}
"""Folders of tests that need more servers, or much time: each has an option that asks for it."""

_SPARK: Final = "tests/pipeline/spark/"
ANSWERS: Final = tuple(
    f"{_SPARK}test_{name}.py" for name in ("availability", "history", "random_answers", "report")
)
"""Half of the time of those on Spark: what works out most answers."""

_BEYOND: Final = {
    Path(__file__).parent / folder
    for folder in (
        "benchmarks",
        "cluster",
        "deploy/test_monitoring.py",
        "faults",
        "interop",
        "pipeline/processes",
        "pipeline/spark",
        "real",
        "status_page/test_browser.py",
        "test_release.py",
    )
}
"""Where tests need servers, Spark or brokers, and that are not even imported with `--offline`."""

LONG_S: Final = {
    "tests/interop/test_registrations.py": 400.0,
    "tests/pages/test_spark.py": 380.0,
    _SPARK: 130.0,
    ANSWERS[0]: 129.0,
    "tests/interop/test_cluster.py": 250.0,
    "tests/benchmarks/test_benchmarks.py": 170.0,
    "tests/benchmarks/test_peers.py": 160.0,
    "tests/fuzz/test_fuzz_front.py": 160.0,
    "tests/pages/test_installed.py": 160.0,
    "tests/interop/test_roles.py": 120.0,
    "tests/interop/test_benchmark.py": 100.0,
    "tests/interop/test_python_producer.py": 80.0,
    "tests/interop/test_migration.py": 60.0,
    "tests/interop/test_differential.py": 50.0,
    "tests/interop/test_nameserver_demo.py": 50.0,
    "tests/pipeline/processes/test_submit.py": 80.0,
    "tests/demo/test_demo.py": 60.0,
    "tests/pipeline/processes/test_ingest_kills.py": 60.0,
    "tests/pipeline/processes/test_ingest_s3.py": 240.0,
    "tests/pipeline/processes/test_kills.py": 240.0,
    "tests/pipeline/processes/test_standard_error.py": 60.0,
    "tests/benchmarks/test_select.py": 40.0,
    "tests/nameserver/test_process.py": 60.0,
    "tests/broker_agent/test_process.py": 40.0,
    "tests/nameserver/test_workers.py": 40.0,
    "tests/status_page/test_browser.py": 40.0,
    "tests/benchmarks/test_fleet.py": 30.0,
    "tests/pipeline/processes/test_stopping.py": 30.0,
    "tests/benchmarks/test_scale.py": 50.0,
    "tests/registry/test_registry_machine.py": 30.0,
    "tests/client/test_client_changes.py": 20.0,
    "tests/deploy/test_nameserver_deploy.py": 20.0,
    "tests/broker_agent/test_former_hosts.py": 20.0,
    "tests/cli/doctor/test_processes.py": 20.0,
    "tests/faults/test_ending.py": 20.0,
    "tests/client/test_typing.py": 20.0,
    "tests/pages/test_store.py": 30.0,
    "tests/pages/test_python.py": 20.0,
    "tests/test_wheel.py": 20.0,
    "tests/broker_agent/test_agent_slaves.py": 20.0,
    "tests/broker_agent/test_roles.py": 20.0,
    "tests/cli/watch/test_view.py": 20.0,
    "tests/real/test_secured.py": 20.0,
    "tests/cli/test_main.py": 15.0,
    "tests/client/test_cache_machine.py": 15.0,
    "tests/client/test_client_network.py": 25.0,
    "tests/faults/test_drains.py": 15.0,
    "tests/faults/test_pauses.py": 15.0,
    "tests/faults/test_walk.py": 15.0,
    "tests/registry/test_table_property.py": 15.0,
    "tests/broker_agent/test_sidecar.py": 15.0,
    "tests/broker_agent/test_sources_files.py": 15.0,
    "tests/client/test_attempts_hanging.py": 15.0,
    "tests/nameserver/test_front_liveness.py": 15.0,
    "tests/pipeline/test_sample_round_trip.py": 10.0,
    "tests/cli/test_json.py": 10.0,
    "tests/cli/test_tables.py": 10.0,
    "tests/cli/watch/test_terminal.py": 10.0,
    "tests/client/test_client_import.py": 10.0,
    "tests/client/test_core_machine.py": 10.0,
    "tests/deploy/test_monitoring.py": 10.0,
    "tests/registry/test_follow_machine.py": 10.0,
    "tests/broker_agent/test_sidecar_reloads.py": 10.0,
    "tests/broker_agent/test_sources_remote.py": 10.0,
    "tests/registry/test_acl.py": 10.0,
    "tests/simulation/test_single_sends.py": 10.0,
}
"""About how long the longest take, by `--durations`. Only their order matters: it need not be exact."""

_USUAL_TEST_S: Final = 0.1

_IMPORTS_SERVER: Final = re.compile(
    r"^(from .* import .*\bEmbeddedServer\b|    EmbeddedServer,$)", re.MULTILINE
)

_ONE_SERVER_ONLY: Final = {
    "test_adapted": "makes clients of one server",
    "test_key_guard": "plants keys of other slots than the registry's",
    "test_reply_shapes": "plants keys of other slots than the registry's",
    "test_a_client_of_the_callers_stays_open": "makes a client of one server",
    "test_keys_of_others_are_not_looked_at": "plants keys of other slots than the registry's",
}
"""Why a file of tests, or a test, does not run with `--topology cluster`."""

# The same examples at every run, unless a hunt is asked for. A shared machine makes single examples slow,
# and what draws the first ones; pytest-timeout ends what hangs.
settings.register_profile(
    "sharedroutes",
    deadline=None,
    derandomize=not ASKED_EXAMPLES,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sharedroutes")


def pytest_configure() -> None:
    """Heed SIGINT: in the background of a shell it is ignored, and so it would be by what tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is collected out of all garbage collections: it stays, and is most of what there is."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `make cluster-test`, `make agent-faults` and `make interop` ask for."""
    group = parser.getgroup("sharedroutes")
    group.addoption("--cluster", action="store_true", help="run tests/cluster too: it needs Debian's servers")
    group.addoption("--faults", action="store_true", help="run tests/faults/long too: it takes minutes")
    group.addoption(
        "--interop", action="store_true", help="run tests/interop too: it needs RocketMQ's jars, and minutes"
    )
    group.addoption(
        "--original",
        action="store_true",
        help="run tests/interop on RocketMQ's own name servers, to try the tests",
    )
    group.addoption(
        "--topology",
        choices=("standalone", "cluster"),
        default="standalone",
        help="where the tests that share a server run",
    )
    group.addoption("--on-server", action="store_true", help="run only what can depend on the server's kind")
    group.addoption("--offline", action="store_true", help="run only what needs no server and no Spark")


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each file to one worker, the longest first, so that all workers end together.

    All that need Spark go to two workers: in one they would be done last, and each session takes ten seconds.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ANSWERS):
            return ANSWERS[0]
        return _SPARK if nodeid.startswith(_SPARK) else str(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(max(self.workqueue, key=self._expected_s), last=False)
        super()._assign_work_unit(node)

    def _expected_s(self, scope: str) -> float:
        return LONG_S.get(scope, _USUAL_TEST_S * len(self.workqueue[scope]))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Share the tests out as `--dist loadfile`, but the longest files first, and Spark to two workers."""
    return LongestFirst(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a folder out unless it is asked for."""
    if config.getoption("--offline") and (collection_path in _BEYOND or _starts_servers(collection_path)):
        return True
    option = _ON_REQUEST.get(collection_path)
    return True if option is not None and not config.getoption(option) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what the options ask for; a hunt with many examples is given the time for them.

    Long tests also run when they are named. With `--topology cluster`, only those on the shared server do.
    """
    for item in items if ASKED_EXAMPLES else ():
        item.add_marker(pytest.mark.timeout(600 + ASKED_EXAMPLES))
    if not (LONG or ASKED_EXAMPLES or any("::" in argument for argument in config.args)):
        _keep(config, items, lambda item: item.get_closest_marker("long") is None)
    if config.getoption("--topology") == "cluster":
        _keep(config, items, lambda item: "shared_server" in _fixtures(item))
        for item in items:
            reason = _ONE_SERVER_ONLY.get(item.path.stem) or _ONE_SERVER_ONLY.get(_name(item))
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))
    elif config.getoption("--on-server"):
        _keep(config, items, _needs_server)
    elif config.getoption("--offline"):
        _keep(config, items, lambda item: not (_needs_server(item) or "spark" in _fixtures(item)))


def _keep(
    config: pytest.Config, items: list[pytest.Item], condition: Callable[[pytest.Item], object]
) -> None:
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (kept if condition(item) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _needs_server(item: pytest.Item) -> bool:
    """Whether a test takes a server from a fixture, or its file starts some of its own."""
    return bool(_fixtures(item) & {"shared_server", "own_server"}) or hasattr(_module(item), "EmbeddedServer")


def _starts_servers(path: Path) -> bool:
    """Whether a file of tests starts servers of its own, by its imports: to import it takes time."""
    return path.name.startswith("test_") and bool(_IMPORTS_SERVER.search(path.read_text(encoding="utf-8")))


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def _name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", ""))


def _module(item: pytest.Item) -> object:
    return getattr(item, "module", None)


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

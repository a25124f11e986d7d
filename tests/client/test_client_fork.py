"""A route client in forked children, as pre-forking servers and multiprocessing make them."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from sharedroutes.client import AsyncRouteClient, ClientConfig, RouteClient
from sharedroutes.registry import EmbeddedServer, RegistryConfig, RouteStore, TopicConfig, TopicRoute
from tests.children import Child
from tests.client.clients import BELL_ONLY, FOLLOWER, QUICK, attempt, until_held_by, until_in_place
from tests.registry.builders import broker, topics
from tests.support import wait_until

if not hasattr(os, "fork"):
    pytest.skip("there is no fork here", allow_module_level=True)

# Python warns from 3.12 on of what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

SOURCES: Final = Path(__file__).parents[2] / "src"
EXIT_S: Final = 60.0

LOOKUPS: Final[dict[str, Callable[[Any], Any]]] = {
    "select_queue": lambda client: client.select_queue("t0"),
    "subscribe_queues": lambda client: client.subscribe_queues("t0"),
    "route": lambda client: client.route("t0"),
    "get": lambda client: client.get(["t0"]),
}


def send(client: RouteClient) -> None:
    for one in client.attempts("t0"):
        with one:
            pass


USES: Final = LOOKUPS | {"attempts": send}
ASYNC_USES: Final = LOOKUPS | {"attempts": lambda client: attempt(client, "t0", str)}


def holders(client: RouteClient, topic: str = "t0") -> set[str]:
    return {data.broker_name for data in client.route(topic).queue_datas}


def until_held(client: RouteClient, *names: str) -> None:
    wait_until(lambda: holders(client) == {*names}, timeout_s=15, description=f"t0 is held by {names}")


def until_heard(client: RouteClient, change_id: str) -> None:
    wait_until(
        lambda: client.health().position == change_id, timeout_s=20, description=f"{change_id} is heard of"
    )


def followers() -> int:
    return sum(thread.name == FOLLOWER and thread.is_alive() for thread in threading.enumerate())


@contextlib.contextmanager
def knowing(url: str, agent: RouteStore, config: ClientConfig = QUICK) -> Iterator[RouteClient]:
    """Return a client that knows of broker-a and hears of every change."""
    agent.register(broker("broker-a"), topics(1))
    with RouteClient.from_url(url, config) as client:
        until_held(client, "broker-a")
        until_heard(client, agent.changes_since().position)
        yield client


# --- started before the fork --------------------------------------------------------------------------------


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_child_serves_the_known_routes_at_once_and_follows_from_its_first_use_on(
    own_server: EmbeddedServer, own_agent: RouteStore, use: Callable[[RouteClient], Any]
) -> None:
    with knowing(own_server.url, own_agent) as client:
        expected = client.route("t0")
        use(client)  # what is kept ready for the next use must not hide the fork

        def work() -> None:
            assert followers() == 0
            use(client)
            assert followers() == 1
            assert client.route("t0") == expected

        own_server.pause()  # nothing can have been read anew
        with Child(work):
            pass
        own_server.resume()


@pytest.mark.parametrize("config", [QUICK, BELL_ONLY], ids=["by the tail", "by the doorbell"])
def test_changes_after_the_fork_reach_the_child_and_the_parent(
    redis_url: str, agent: RouteStore, config: ClientConfig
) -> None:
    with knowing(redis_url, agent, config) as client:
        with Child(lambda: until_held(client, "broker-a", "broker-b")):
            agent.register(broker("broker-b"), topics(1))
            until_held(client, "broker-a", "broker-b")
        agent.register(broker("broker-c"), topics(1))
        until_held(client, "broker-a", "broker-b", "broker-c")


def test_a_change_between_the_fork_and_the_first_use_is_not_lost(redis_url: str, agent: RouteStore) -> None:
    with knowing(redis_url, agent, BELL_ONLY) as client:
        made, go_on = os.pipe()

        def work() -> None:
            os.read(made, 1)
            until_held(client, "broker-a", "broker-b")

        with Child(work):
            agent.register(broker("broker-b"), topics(1))
            os.write(go_on, b".")
        os.close(made)
        os.close(go_on)


def test_parent_and_children_that_ask_at_the_same_time_get_their_own_answers(
    redis_url: str, agent: RouteStore
) -> None:
    agent.register(broker(), [TopicConfig(f"t{number}", number + 1, number + 1) for number in range(60)])
    right = agent.routes([f"t{number}" for number in range(60)])
    with RouteClient.from_url(redis_url, QUICK) as client, contextlib.ExitStack() as children:
        client.route("t0")
        for _ in range(3):
            children.enter_context(Child(lambda: every_route_is_right(client, right)))
        every_route_is_right(client, right)


def every_route_is_right(client: RouteClient, right: dict[str, TopicRoute]) -> None:
    for topic, route in right.items():
        assert client.route(topic) == route


@pytest.mark.parametrize("closes", [False, True], ids=["exits", "closes"])
def test_a_child_that_ends_leaves_the_connections_of_the_parent_alone(
    own_server: EmbeddedServer, own_agent: RouteStore, *, closes: bool
) -> None:
    with knowing(own_server.url, own_agent) as client, redis.Redis.from_url(own_server.url) as admin:

        def work() -> None:
            until_held(client, "broker-a", "broker-b")
            if closes:
                client.close()
                assert followers() == 0

        def connections() -> set[str]:
            return {one["id"] for one in admin.client_list()}

        before = connections()
        with Child(work):
            own_agent.register(broker("broker-b"), topics(1))
        until_held(client, "broker-a", "broker-b")
        assert connections() >= before


@pytest.mark.parametrize("used", [True, False], ids=["used", "never used"])
def test_a_child_of_a_child_follows_too(redis_url: str, agent: RouteStore, *, used: bool) -> None:
    with knowing(redis_url, agent) as client:

        def work() -> None:
            if used:
                client.select_queue("t0")
            with Child(lambda: until_held(client, "broker-a", "broker-b"), within_s=20):
                if used:
                    until_held(client, "broker-a", "broker-b")

        with Child(work):
            agent.register(broker("broker-b"), topics(1))


def test_a_child_of_a_thread_that_is_not_the_main_one_follows_too(redis_url: str, agent: RouteStore) -> None:
    with knowing(redis_url, agent) as client:

        def fork() -> None:
            with Child(lambda: until_held(client, "broker-a", "broker-b")):
                agent.register(broker("broker-b"), topics(1))

        asyncio.run(asyncio.to_thread(fork))


def test_a_fork_at_whatever_moment_leaves_no_lock_behind(redis_url: str) -> None:
    over = threading.Event()
    patient = RegistryConfig(call_deadline_s=30, lease_ttl_s=300)  # all this is much for a busy machine
    agent = RouteStore.from_url(redis_url, patient)

    def change() -> None:
        while not over.is_set():
            agent.unregister(agent.register(broker("broker-b"), topics(1)))

    def use() -> None:
        while not over.is_set():
            client.health()
            client.route("t0")
            client.record("broker-a", 0.0, failed=True)

    def work() -> None:
        assert client.select_queue("t0").topic == "t0"
        heard = client.health().position
        wait_until(lambda: client.health().position != heard, timeout_s=10, description="changes are heard")
        client.close()

    with agent, knowing(redis_url, agent, replace(QUICK, registry=patient)) as client:
        threads = [threading.Thread(target=target) for target in (change, use, use)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(30):
                with Child(work):
                    pass
        finally:
            over.set()
            for thread in threads:
                thread.join()
        until_heard(client, agent.changes_since().position)


def test_a_client_that_was_closed_before_the_fork_is_closed_in_the_child(redis_url: str) -> None:
    client = RouteClient.from_url(redis_url, QUICK)
    client.start()
    client.close()

    def work() -> None:
        with pytest.raises(RuntimeError, match="does not run"):
            client.select_queue("t0")
        with pytest.raises(RuntimeError, match="closed"):
            client.start()

    with Child(work):
        pass


def test_processes_of_multiprocessing_follow_and_end_by_themselves(redis_url: str, agent: RouteStore) -> None:
    with knowing(redis_url, agent) as client:
        forking = multiprocessing.get_context("fork")
        processes = [
            forking.Process(target=until_held, args=(client, "broker-a", "broker-b")) for _ in range(2)
        ]
        for process in processes:
            process.start()
        agent.register(broker("broker-b"), topics(1))
        for process in processes:
            process.join(EXIT_S)
            process.kill()  # one that hangs; the exit code of another does not change by it
            process.join()
            assert process.exitcode == 0
            process.close()
        until_held(client, "broker-a", "broker-b")


# --- made before the fork, and started in each child --------------------------------------------------------


def test_workers_start_a_client_that_was_made_before_the_fork(redis_url: str, agent: RouteStore) -> None:
    agent.register(broker("broker-a"), topics(1))
    client = RouteClient.from_url(redis_url, QUICK)

    def work() -> None:
        with pytest.raises(RuntimeError, match="does not run"):
            client.select_queue("t0")
        with client:
            until_held(client, "broker-a", "broker-b")

    with contextlib.ExitStack() as workers:
        for _ in range(3):
            workers.enter_context(Child(work))
        agent.register(broker("broker-b"), topics(1))
    with client:  # the parent may do so as well
        until_held(client, "broker-a", "broker-b")


# --- whole processes ----------------------------------------------------------------------------------------

PROGRAM: Final = """
import os, sys
from sharedroutes.client import RouteClient
client = RouteClient.from_url(sys.argv[1])
client.start()
before = client.route("t0")
child = os.fork()
assert client.route("t0") == before
if child == 0:
    sys.exit(7)
_, status = os.waitpid(child, 0)
client.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_child_that_never_closed_its_client_exits_as_ever(redis_url: str, agent: RouteStore) -> None:
    agent.register(broker("broker-a"), topics(1))
    warnings = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")
    done = subprocess.run(
        (sys.executable, "-X", "dev", *warnings, "-c", PROGRAM, redis_url),
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=EXIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


# --- the asyncio client -------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", ASYNC_USES.values(), ids=ASYNC_USES)
async def test_the_asyncio_client_tells_a_child_to_make_a_new_one(
    redis_url: str, agent: RouteStore, use: Callable[[AsyncRouteClient], Any]
) -> None:
    agent.register(broker("broker-a"), topics(1))

    async def in_child() -> None:
        with pytest.raises(RuntimeError, match="make a new one"):
            await use(client)
        async with AsyncRouteClient.from_url(redis_url, QUICK) as new:
            await use(new)

    async with AsyncRouteClient.from_url(redis_url, QUICK) as client:
        await until_in_place(client)
        await until_held_by(client, "t0", "broker-a")
        with Child(lambda: asyncio.run(in_child())):
            pass
        agent.register(broker("broker-b"), topics(1))
        await until_held_by(client, "t0", "broker-a", "broker-b")

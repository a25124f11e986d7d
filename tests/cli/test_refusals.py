"""What users of Redis are told who lack a permission: the role that it takes, and where to get its rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
import redis
from click.testing import Result

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from sharedroutes.registry.acl import Role, acl_rules
from tests.cli.terminal import run

SECRET: Final = "secret"  # noqa: S105
PASSWORD_RULE: Final = f">{SECRET}"
COMMANDS: Final = {
    Role.READER: (
        ("topics",),
        ("brokers",),
        ("brokers", "--all"),
        ("clusters",),
        ("leases",),
        ("routes", "orders"),
        ("changes",),
        ("history", "topic", "orders"),
        ("table", "--at", "now"),
        ("diff", "--from", "1h"),
        ("before", "now"),
        ("kv", "list"),
        ("kv", "get", "ns", "k"),
        ("export",),
    ),
    Role.FRONT: (
        ("wipe", "broker-a"),
        ("lift", "broker-a"),
        ("kv", "put", "ns", "k", "v"),
        ("kv", "delete", "ns", "other"),
        ("delete-topic", "audit"),
        ("forget", "broker-b"),
    ),
    Role.ADMIN: (("verify",), ("rebuild",)),
}
"""What each role is needed for."""


@pytest.fixture(scope="module")
def users() -> Iterator[EmbeddedServer]:
    """Return a server with a user of each role, a live broker and one that left."""
    with EmbeddedServer() as server, RouteStore.from_url(server.url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        store.kv.put("ns", "k", "v")
        with redis.Redis.from_url(server.url) as admin:
            for role in Role:
                rules = acl_rules("sharedroutes", role, user=role, password=PASSWORD_RULE)
                admin.execute_command(*rules.split(" "))
        yield server


def run_as(role: str, server: EmbeddedServer, *arguments: str, secret: str = SECRET) -> Result:
    url = f"redis://{role}:{secret}@127.0.0.1:{server.port}/0"
    with RouteStore.from_url(server.url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders"), TopicConfig("audit")])
        store.unregister(store.register(Broker("broker-b", "10.0.0.2:10911"), []))
    return run(url, *arguments)


@pytest.mark.parametrize(
    ("role", "arguments"), [(role, one) for role, commands in COMMANDS.items() for one in commands]
)
def test_every_command_runs_with_the_role_that_it_names(
    users: EmbeddedServer, role: Role, arguments: tuple[str, ...]
) -> None:
    done = run_as(role, users, *arguments)
    assert done.exit_code == 0, done.output


def test_who_may_not_run_a_command_of_redis_is_told_which_role_may(users: EmbeddedServer) -> None:
    done = run_as("agent", users, "verify")
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert "has no permissions to run the '" in lines[0]
    assert lines[1].startswith(
        "sharedroutes verify needs a user of Redis with the role admin; reader, hinter,"
    )
    assert lines[1].endswith("'.")
    assert lines[2] == "`sharedroutes acl admin` prints the line that makes one."


@pytest.mark.parametrize(
    ("role", "arguments"), [("reader", ("kv", "put", "ns", "k", "2")), ("reader", ("wipe", "broker-a"))]
)
def test_a_reader_who_writes_is_told_of_the_role_front(
    users: EmbeddedServer, role: str, arguments: tuple[str, ...]
) -> None:
    done = run_as(role, users, *arguments)
    assert done.exit_code == 1
    assert f"sharedroutes {arguments[0]}" in done.stderr
    assert "needs a user of Redis with the role front; reader" in done.stderr
    assert "`sharedroutes acl front`" in done.stderr


def test_another_namespace_is_named_in_the_advice(users: EmbeddedServer) -> None:
    done = run_as("reader", users, "topics", "--namespace", "other")
    assert done.exit_code == 1
    assert "`sharedroutes acl reader --namespace other` prints the line that makes one." in done.stderr


def test_a_wrong_password_is_said_with_where_to_say_the_right_one(users: EmbeddedServer) -> None:
    done = run_as("reader", users, "topics", secret="wrong")  # noqa: S106
    assert done.exit_code == 1
    assert "redis://USER:PASSWORD@HOST:PORT/DB" in done.stderr

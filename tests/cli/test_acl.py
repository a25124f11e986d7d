"""`acl` prints lines that a server takes as they are, but for the password."""

from __future__ import annotations

import pytest
import redis
from click.testing import CliRunner, Result

from sharedroutes.cli.root import sharedroutes
from sharedroutes.registry import EmbeddedServer
from sharedroutes.registry.acl import PASSWORD_PLACEHOLDER, Role, acl_rules


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(sharedroutes, ["acl", *arguments], env=environment)


def line(*arguments: str, **environment: str) -> str:
    done = run(*arguments, **environment)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("\n") == 1
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize("role", list(Role))
def test_each_role_has_its_line(role: Role) -> None:
    assert line(role.value) == acl_rules("sharedroutes", role)


def test_the_options_are_those_of_the_rules() -> None:
    expected = acl_rules("other", Role.AGENT, user="joe", read_only_patterns=False, cluster=True, database=2)
    options = ("--user", "joe", "--server-version", "6.2", "--cluster", "--db", "2")
    assert line("agent", "--namespace", "other", *options) == expected
    assert line("agent", *options, SHAREDROUTES_NAMESPACE="other") == expected


def test_the_printed_line_makes_the_user_once_it_has_a_password(own_server: EmbeddedServer) -> None:
    rules = line("reader").replace(PASSWORD_PLACEHOLDER, ">secret").split(" ")
    with redis.Redis.from_url(own_server.url) as admin:
        admin.execute_command(*rules)
    with redis.Redis.from_url(f"redis://sharedroutes-reader:secret@127.0.0.1:{own_server.port}") as reader:
        assert reader.get("{sharedroutes}:topic:orders") is None
        with pytest.raises(redis.exceptions.NoPermissionError):
            reader.set("{sharedroutes}:topic:orders", "1")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nobody",),
        ("reader", "--namespace", "a b"),
        ("reader", "--user", "a b"),
        ("reader", "--db", "-1"),
        ("hinter", "--server-version", "6.2"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""

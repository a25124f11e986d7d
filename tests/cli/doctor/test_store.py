"""What `doctor` says of stores that are really in that state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import redis

from sharedroutes.cli.doctor.finding import Level
from sharedroutes.cli.doctor.snapshot import Connection
from sharedroutes.cli.doctor.store_checks import WHY, check_connection
from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig
from sharedroutes.registry.acl import Role, acl_rules
from tests.cli.doctor.examined import ERROR, OK, SKIPPED, WARNING, doctor
from tests.cli.terminal import run

LIBFAKETIME: Final = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
RULE: Final = ">secret"


@pytest.fixture
def admin(own_server: EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_server.url) as admin:
        yield admin


def in_order(url: str) -> None:
    """Make a registry with a broker, and somebody who announces the end of its lease."""
    with RouteStore.from_url(url, RegistryConfig(sweeper_lease_s=30.0)) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        store.sweep("somebody")


def test_all_is_well_of_a_server_that_keeps_its_data(own_server: EmbeddedServer, admin: redis.Redis) -> None:
    admin.config_set("appendonly", "yes")
    in_order(own_server.url)
    done = run(own_server.url, "doctor")
    assert done.exit_code == 0, done.output
    first, _, fine, last = done.stdout.splitlines()
    assert first.startswith("OK: all is well | errors=0 warnings=0 checks=")
    assert fine.startswith("OK store, ")
    assert last.startswith("agents not looked at: the agents of broker-a:0; asked: 127.0.0.1:9877")


def test_every_finding_of_the_health_report_is_told_with_why_it_matters(own_server: EmbeddedServer) -> None:
    with RouteStore.from_url(own_server.url) as store:
        names = {finding.what for finding in store.health().findings}
    assert names == {*WHY}
    assert names <= {*doctor(own_server.url)}


def test_a_setting_that_loses_data_is_an_error(own_server: EmbeddedServer, admin: redis.Redis) -> None:
    admin.config_set("maxmemory", "1gb")
    admin.config_set("maxmemory-policy", "allkeys-lru")
    in_order(own_server.url)
    done = run(own_server.url, "doctor")
    assert done.exit_code == 2
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ERROR: eviction, persistence | errors=1 warnings=1 ")
    assert lines[2].startswith("ERROR eviction: allkeys-lru")
    assert lines[3] == f"  why: {WHY['eviction']}"
    assert lines[4].startswith("  do:  CONFIG SET maxmemory-policy noeviction")
    assert doctor(own_server.url)["eviction"].level is ERROR


def test_a_setting_that_may_lose_data_is_a_warning(own_server: EmbeddedServer) -> None:
    assert doctor(own_server.url)["persistence"].level is WARNING
    assert run(own_server.url, "doctor").exit_code == 1


def test_a_store_that_is_away_is_an_error_and_the_rest_is_not_looked_at(own_server: EmbeddedServer) -> None:
    own_server.stop()
    found = doctor(own_server.url)
    assert (found["store"].level, found["store"].what[:30]) == (ERROR, "the store cannot be reached: E")
    assert {found[check].what for check in ("access", "brokers", "clock-skew", "verify")} == {
        "not looked at: the store does not answer"
    }


def test_a_schema_of_a_newer_release_is_an_error_and_the_rest_is_said(
    own_server: EmbeddedServer, admin: redis.Redis
) -> None:
    with RouteStore.from_url(own_server.url) as store:
        admin.set(store.keys.schema, "99")
    found = doctor(own_server.url)
    assert found["schema"].level is ERROR
    assert found["brokers"].what.startswith("not looked at: ")


def test_wrong_usage_is_no_error_of_the_registry(own_server: EmbeddedServer) -> None:
    for words in (
        ["--agent", "nowhere"],
        ["--agent", "https://h:1"],
        ["--front", "h:0"],
        ["--no-such-option"],
        ["--namespace", "a b"],
    ):
        assert run(own_server.url, "doctor", *words).exit_code == 3
    assert run("http://h", "doctor").exit_code == 3


def test_a_server_for_everybody_is_a_warning(own_server: EmbeddedServer, admin: redis.Redis) -> None:
    assert doctor(own_server.url)["access"].level is OK
    admin.config_set("protected-mode", "no")
    said = doctor(own_server.url)["access"]
    assert (said.level, "without a password" in said.what) == (WARNING, True)


def test_a_user_who_lacks_a_right_of_its_role_is_an_error(
    own_server: EmbeddedServer, admin: redis.Redis
) -> None:
    for role in (Role.AGENT, Role.READER):
        admin.execute_command(*acl_rules("sharedroutes", role, password=RULE).split(" "))
    assert doctor(own_server.url)["rights"].level is OK
    admin.execute_command("ACL", "SETUSER", "sharedroutes-agent", "-pexpireat", "-xadd")
    said = doctor(own_server.url)["rights"]
    assert said.level is ERROR
    assert said.what == "user sharedroutes-agent may not run pexpireat, xadd"
    assert "`sharedroutes acl agent --namespace sharedroutes --user sharedroutes-agent`" in said.advice


@pytest.mark.parametrize(
    ("rules", "lacking"),
    [
        (("+@all",), ""),
        (("+@all", "-eval"), "eval"),
        (("-@all", "+@read", "+@write", "+@scripting", "+@connection", "+@pubsub"), "role, time"),
    ],
)
def test_a_user_with_rules_of_somebody_else_is_judged_by_what_it_may(
    own_server: EmbeddedServer, admin: redis.Redis, rules: tuple[str, ...], lacking: str
) -> None:
    admin.execute_command("ACL", "SETUSER", "sharedroutes-agent", "on", RULE, "~*", *rules)
    said = doctor(own_server.url)["rights"]
    assert said.level is (ERROR if lacking else OK)
    assert said.what.endswith(f"may not run {lacking}" if lacking else "what the role agent needs")


def test_who_may_not_look_is_told_what_was_not_looked_at(
    own_server: EmbeddedServer, admin: redis.Redis
) -> None:
    admin.config_set("appendonly", "yes")
    admin.execute_command(*acl_rules("sharedroutes", Role.ADMIN, password=RULE).split(" "))
    url = f"redis://sharedroutes-admin:secret@127.0.0.1:{own_server.port}"
    found = doctor(url)
    assert (found["access"].level, found["access"].what) == (SKIPPED, "not looked at: no permission")
    assert {check for check, said in found.items() if "not looked at" in said.what} == {"access"}
    assert "access not looked at: no permission" in run(url, "doctor").stdout


@pytest.mark.skipif(LIBFAKETIME is None, reason="libfaketime is not installed")
@pytest.mark.parametrize(("shift", "what"), [("-60", "ahead of"), ("+60", "behind")])
def test_a_clock_that_differs_from_the_servers_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, shift: str, what: str
) -> None:
    # libc before jemalloc, which asks for the time when it allocates, as libfaketime does when it is asked.
    monkeypatch.setenv("LD_PRELOAD", f"{LIBFAKETIME} libc.so.6")
    monkeypatch.setenv("FAKETIME", shift)
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    with EmbeddedServer() as server:
        said = doctor(server.url)["clock-skew"]
    assert said.level is WARNING
    assert said.what == f"this host's clock is 60.0 s {what} the server's"


def test_a_clock_that_goes_with_the_servers_is_in_order(own_server: EmbeddedServer) -> None:
    assert doctor(own_server.url)["clock-skew"].level is OK


def test_a_unix_socket_needs_no_encryption(tmp_path: Path) -> None:
    with EmbeddedServer(unix_socket=tmp_path / "s") as server:
        assert doctor(server.url)["tls"].what == "the store is on this host"


CHECKED: Final = Connection(hosts=("h",), is_encrypted=True, checks_certificate=True)
A_DAY_S: Final = 86_400
GOOD_FOR: Final = "the certificate of the server is good for"


@pytest.mark.parametrize(
    ("connection", "level", "what"),
    [
        (Connection(hosts=("db-1", "127.0.0.1")), WARNING, "the connection to db-1 is not encrypted"),
        (Connection(hosts=("::1", "localhost")), OK, "the store is on this host"),
        (replace(CHECKED, checks_certificate=False), WARNING, "the certificate of the server is not checked"),
        (CHECKED, OK, "encrypted, and the certificate is checked"),
        (replace(CHECKED, certificate_ends_s=6 * A_DAY_S), ERROR, f"{GOOD_FOR} 6 days"),
        (replace(CHECKED, certificate_ends_s=20 * A_DAY_S), WARNING, f"{GOOD_FOR} 20 days"),
        (replace(CHECKED, certificate_ends_s=31 * A_DAY_S), OK, f"{GOOD_FOR} 31 days"),
    ],
)
def test_the_way_to_servers_elsewhere(connection: Connection, level: Level, what: str) -> None:
    (finding,) = check_connection(connection, now_s=0.0)
    assert (finding.level, finding.what) == (level, what)

"""From flags, environment and namesrv.conf to one checked configuration, with every problem named at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.daemon.option import Kind, Option
from sharedroutes.nameserver.access import AllowList, networks
from sharedroutes.nameserver.command import nameserver_command
from sharedroutes.nameserver.config import FrontConfig, WhenStale
from sharedroutes.nameserver.process_config import OPTIONS, ProcessConfig, address_of
from sharedroutes.nameserver.server.tls import TlsMode
from sharedroutes.nameserver.settings import (
    Settings,
    as_file,
    as_properties,
    changed,
    load,
    property_of,
)
from sharedroutes.registry import InvalidInput


def of_file(folder: Path, text: str, **flags: str) -> Settings:
    """Return what a namesrv.conf and flags say."""
    path = folder / "namesrv.conf"
    path.write_text(text)
    given = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    return load({"--config": str(path), **given}, {})


def problems(flags: dict[str, str], environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(flags, environment or {})
    return str(caught.value).splitlines()


def test_nothing_has_to_be_said() -> None:
    settings = load({}, {})
    assert settings.process.listen_address == ("0.0.0.0", 9876)  # noqa: S104 - as mqnamesrv does
    assert settings.process.http_address == ("127.0.0.1", 9878)
    assert settings.process.redis_url == ""
    assert settings.front == FrontConfig()
    assert settings.warnings == ()


def test_a_flag_counts_more_than_a_variable_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.conf"
    path.write_text("maxConnections = 1\nserverChannelMaxIdleTimeSeconds = 2\nhangCheck = 3\n")
    environment = {
        "SHAREDROUTES_NAMESERVER_MAX_CONNECTIONS": "10",
        "SHAREDROUTES_NAMESERVER_IDLE": "20",
        "SHAREDROUTES_NAMESERVER_CONFIG": str(path),
        "SHAREDROUTES_REDIS_URL": "redis://h/1",
        "SHAREDROUTES_NAMESPACE": "",
    }
    settings = load({"--max-connections": "100"}, environment)
    assert (settings.process.max_connections, settings.process.idle_s, settings.front.hang_check_s) == (
        100,
        20,
        3,
    )
    assert (settings.process.redis_url, settings.process.registry.namespace) == (
        "redis://h/1",
        "sharedroutes",
    )


def test_a_namesrv_conf_of_rocketmq_is_taken(tmp_path: Path) -> None:
    settings = of_file(
        tmp_path,
        "# as mqnamesrv -c takes it\nlistenPort=19876\nbindAddress = 10.0.0.1\nsupportActingMaster=TRUE\n"
        "returnOrderTopicConfigToBroker: false\ntls.server.mode=disabled\nnotifyMinBrokerIdChanged true\n",
    )
    assert settings.process.listen_address == ("10.0.0.1", 19876)
    assert settings.process.tls_mode is TlsMode.DISABLED
    front = settings.front
    assert front.support_acting_master and front.notify_min_broker_id_changed  # noqa: PT018 - one idea
    assert not front.return_order_topic_config
    assert of_file(tmp_path, "bindAddress=::1\n").process.listen_address == ("::1", 9876)
    assert settings.warnings == ()


def test_a_key_that_has_no_effect_and_one_that_is_none_are_warned_of(tmp_path: Path) -> None:
    lines = "kvConfigPath=/x\nsupportActingMasters=true\nwholly=unknown\nneedWaitForService=true\n"
    path = f"{tmp_path}/namesrv.conf"
    assert of_file(tmp_path, lines).warnings == (
        f"{path}:1: kvConfigPath: has no effect: the key-value store is in the shared store",
        f"{path}:2: supportActingMasters: is not a setting and is ignored; did you mean supportActingMaster?",
        f"{path}:3: wholly: is not a setting and is ignored",
        f"{path}:4: needWaitForService: has no effect: the first answer has every route",
    )


def test_a_variable_that_is_none_is_warned_of() -> None:
    environment = {
        "SHAREDROUTES_NAMESERVER_IDL": "1",
        "SHAREDROUTES_NAMESERVER_SERVICE_HOST": "10.0.0.1",  # Kubernetes sets it for a service of that name
        "SHAREDROUTES_HEARTBEAT": "the agent's",
    }
    (warning,) = load({}, environment).warnings
    assert warning.startswith(
        "SHAREDROUTES_NAMESERVER_IDL: is not a setting of the name server and is ignored"
    )
    assert warning.endswith("; did you mean SHAREDROUTES_NAMESERVER_IDLE?")


def test_every_problem_is_named_at_once_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.conf"
    path.write_text("listenPort=many\nenableTopicList=perhaps\n")
    found = problems(
        {"--config": str(path), "--redis": "nonsense", "--allow": "10.0.0.0/8", "--workers": "0"},
        {"SHAREDROUTES_NAMESERVER_IDLE": "long", "SHAREDROUTES_NAMESERVER_PROXY_FROM": "here"},
    )
    (url,) = [one for one in found if one.startswith("--redis: ")]
    assert "redis[s]://" in url
    assert {*found} - {url} == {
        f"{path}:1: listenPort: 'many' is not [host:]port with a port within 0..65535",
        f"{path}:2: enableTopicList: expected true or false, got 'perhaps'",
        "--allow: '10.0.0.0/8' is not network=codes",
        "--workers: 0 is not within 1..64",
        "SHAREDROUTES_NAMESERVER_IDLE: expected a number of seconds, got 'long'",
        "SHAREDROUTES_NAMESERVER_PROXY_FROM: 'here' is no network, such as 10.0.0.0/8",
    }


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"--tls-mode": "enforcing"}, "--tls-cert: is missing: with tls_mode enforcing nobody could connect"),
        (
            {"--tls-cert": "c", "--tls-client-auth": "require"},
            "--tls-client-ca: is missing: no certificate of a client could be checked",
        ),
        ({"--tls-key": "k"}, "--tls-cert: is missing: tls_key is the key of one"),
        ({"--config": "/nowhere"}, "/nowhere: cannot be read: No such file or directory"),
    ],
)
def test_what_does_not_fit_together_is_a_problem(flags: dict[str, str], problem: str) -> None:
    assert problems(flags) == [problem]


def test_a_file_that_is_malformed_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.conf"
    path.write_text("http=off\nnamespace=\\u12\n")
    (found,) = problems({"--config": str(path)})
    assert found.startswith(f"{path}:2: Invalid \\u escape sequence")


@pytest.mark.parametrize("text", ["9876", ":9876", "[::1]:9876", "localhost:0"])
def test_an_address_to_listen_at(text: str) -> None:
    host, port = address_of(text)
    assert host in ("0.0.0.0", "::1", "localhost")  # noqa: S104 - as mqnamesrv does
    assert port in (0, 9876)


def of_option(option: Option) -> st.SearchStrategy[str]:
    """Draw texts that a setting takes."""
    match option.kind:
        case Kind.SECONDS:
            return st.integers(max(1, int(option.low)), 86_400).map(str)
        case Kind.COUNT:
            return st.integers(int(option.low), option.high).map(str)
        case Kind.SWITCH:
            return st.sampled_from(["true", "false"])
        case Kind.CHOICE:
            return st.sampled_from([*option.choices])
        case _:
            return st.nothing()


@given(st.data())
def test_what_is_printed_is_read_as_the_same_settings(data: Any) -> None:
    drawn = {
        option.flag: data.draw(of_option(option))
        for option in OPTIONS
        if not of_option(option).is_empty and data.draw(st.booleans())
    }
    fixed = {
        "--tls-cert": "a\\b",
        "--tls-client-ca": "/ca",
        "--redis": "redis://h:1/0",
        "--listen": "[::1]:7",
    }
    settings = load({**drawn, **fixed, "--allow": "10.0.0.0/8=*;::/0=105"}, {})
    text = as_file(settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda _: text.encode())
        read = load({"--config": "namesrv.conf"}, {})
    assert (read.process, read.front, read.warnings) == (settings.process, settings.front, ())


def test_passwords_are_not_printed() -> None:
    result = CliRunner().invoke(nameserver_command, ["-p", "--redis", "redis://u:secret@h:1/0"])
    assert result.exit_code == 0
    assert "secret" not in result.output
    assert "# --redis\nredis=redis://u:***@h:1/0\n" in result.output


def test_a_wrong_configuration_ends_with_2() -> None:
    result = CliRunner().invoke(nameserver_command, ["--idle", "x", "--read-only=maybe"])
    assert result.exit_code == 2
    assert "--idle: expected a number of seconds, got 'x'" in result.output
    assert "--read-only: expected true or false, got 'maybe'" in result.output


def test_a_switch_needs_no_value_and_a_list_may_be_given_in_parts() -> None:
    arguments = ["-p", "--read-only", "--allow", "10.0.0.0/8=*", "--allow", "0.0.0.0/0=105,106"]
    output = CliRunner().invoke(nameserver_command, arguments).output
    assert "# --read-only\nreadOnly=true\n" in output
    assert "# --allow\nallow=10.0.0.0/8=*;0.0.0.0/0=105,106\n" in output


def test_names_are_unique_and_those_of_rocketmq_where_it_has_them() -> None:
    for names in (
        [one.flag for one in OPTIONS],
        [one.variable for one in OPTIONS],
        [property_of(one) for one in OPTIONS],
    ):
        assert len(names) == len({*names})
    of_rocketmq = {property_of(one): one.flag for one in OPTIONS if one.original}
    assert of_rocketmq["deleteTopicWithBrokerRegistration"] == "--delete-topic-with-registration"
    assert of_rocketmq["serverChannelMaxIdleTimeSeconds"] == "--idle"


def test_switches_of_rocketmq_can_be_changed_while_it_runs_and_nothing_else() -> None:
    before = FrontConfig()
    after = changed(before, {"supportActingMaster": "true", "enableTopicList": "false"})
    assert (after.support_acting_master, after.enable_topic_list) == (True, False)
    assert changed(before, {}) == before
    for name in ("readOnly", "updateConfig", "listenPort", "kvConfigPath", "hangCheck", "logLevel"):
        with pytest.raises(InvalidInput, match=f"{name}: cannot be changed while the front runs"):
            changed(before, {name: "true"})
    with pytest.raises(InvalidInput, match="enableTopicList: expected true or false, got 'no'"):
        changed(before, {"enableTopicList": "no"})


def test_the_settings_as_properties_have_rocketmq_s_names() -> None:
    found = as_properties(ProcessConfig(listen="10.0.0.1:1"), FrontConfig(when_stale=WhenStale.ASK))
    assert (found["bindAddress"], found["listenPort"]) == ("10.0.0.1", "1")
    assert (found["whenStale"], found["supportActingMaster"], found["tls.server.certPath"]) == (
        "ask",
        "false",
        "",
    )


def test_a_request_is_allowed_if_one_rule_allows_it() -> None:
    rules = AllowList("10.0.0.0/8=*; 192.168.1.5 = 103,104 ;0.0.0.0/0=105,106;::1=105")
    for host, code, expected in (
        ("10.1.2.3", 205, True),
        ("::ffff:10.1.2.3", 205, True),
        ("192.168.1.5", 103, True),
        ("192.168.1.5", 105, True),
        ("192.168.1.6", 103, False),
        ("8.8.8.8", 106, True),
        ("8.8.8.8", 318, False),
        ("::1", 105, True),
        ("fe80::1%eth0", 105, False),
        ("nonsense", 105, False),
    ):
        assert rules.allows(host, code) is expected, (host, code)
    assert AllowList("").allows("8.8.8.8", 318)
    assert not AllowList("")


def test_hosts_that_come_and_go_take_no_memory() -> None:
    rules = AllowList("0.0.0.0/0=105")
    for number in range(30_000):
        assert rules.allows(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 105)
    assert len(rules._of_host) <= 10_000


@pytest.mark.parametrize(
    "text", ["10.0.0.0/8", "10.0.0.0/8=x", "nowhere=105", "10.0.0.1/8=105", "1.1.1.1=-1"]
)
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        AllowList(text)


def test_networks() -> None:
    assert list(map(str, networks("10.0.0.0/8, ::1"))) == ["10.0.0.0/8", "::1/128"]
    assert networks("") == ()

"""From flags, environment and agent.toml to one checked configuration, with every problem named at once."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.broker_agent.config import TopicsFrom
from sharedroutes.broker_agent.process.command import agent_command
from sharedroutes.broker_agent.settings.loader import load
from sharedroutes.broker_agent.settings.sidecar_config import DEFAULT_HTTP, OPTIONS
from sharedroutes.broker_agent.settings.text import _toml, as_toml
from sharedroutes.daemon.option import Kind, Option, masked
from sharedroutes.registry import InvalidInput
from tests.broker_agent.settings_site import CONF, A, B, loaded, problems, write_brokers


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with the broker.conf of the brokers a and b."""
    return write_brokers(tmp_path)


def test_a_broker_conf_is_all_that_is_needed(site: Path) -> None:
    config = load({"--broker-conf": str(site / "a.conf")}, {})
    (agent,) = config.agents
    assert agent.broker.broker_name == "broker-a"
    assert agent.broker.address == agent.probe_address == "10.0.0.1:10911"
    assert agent.topics_path == Path("/store-a/config/topics.json")
    assert agent.registry == config.registry
    assert config.value("http") == DEFAULT_HTTP
    assert config.values["http"].is_default


def test_a_flag_counts_more_than_a_variable_than_the_file_than_the_default(site: Path) -> None:
    toml = "[agent]\nheartbeat_s = 2\nrecheck_s = 3\nhang_check_s = 4\n"
    environment = {"SHAREDROUTES_HEARTBEAT": "2.5", "SHAREDROUTES_RECHECK": "3.5"}
    (agent,) = loaded(site, toml, flags={"--heartbeat": "2.7"}, **environment).agents
    assert (agent.heartbeat_s, agent.recheck_s, agent.hang_check_s, agent.hang_failures) == (2.7, 3.5, 4.0, 3)


def test_a_value_of_a_broker_counts_more_than_that_of_all_of_them(site: Path) -> None:
    toml = f"[agent]\ndrain_wait_s = 2\n{A}drain_wait_s = 3\n{B}"
    assert [agent.drain_wait_s for agent in loaded(site, toml).agents] == [3.0, 2.0]
    flagged = loaded(site, toml, flags={"--drain-wait": "9"})
    assert [agent.drain_wait_s for agent in flagged.agents] == [9.0, 9.0]


def test_several_brokers_run_in_one_process(site: Path) -> None:
    toml = (
        f'[store]\nurl = "redis://h/1"\nnamespace = "n"\n[[broker]]\nbroker_conf = "{site}/a.conf"\n'
        '[[broker]]\nbroker_conf = "b.conf"\nbroker_address = "b.example:1"\nprobe = "[::1]:2"\n'
        'topics = "b.json"\ntopics_from = "files"\n'
    )
    config = loaded(site, toml)
    first, second = config.agents
    assert (first.broker.broker_name, second.broker.broker_name) == ("broker-a", "broker-b")
    assert (second.broker.address, second.probe_address) == ("b.example:1", "[::1]:2")
    assert (second.topics_path, second.topics_from) == (site / "b.json", TopicsFrom.FILES)
    assert {agent.redis_url for agent in config.agents} == {config.redis_url} == {"redis://h/1"}
    assert {agent.registry.namespace for agent in config.agents} == {"n"}


def test_what_is_wrong_with_one_of_several_brokers_names_it(site: Path) -> None:
    wrong = f'{A}topics = "x.json"\ntopics_from = "broker"\n{B}heartbeat_s = 10\n'
    first, second = problems(site, wrong)
    assert first.startswith("a.conf: topics_from: broker: then ")
    assert second.startswith("agent.toml: broker[2].heartbeat_s: lease_ttl_s: 15.0 is less than twice heartb")


def test_brokers_whose_ids_are_elected_are_no_twins(site: Path) -> None:
    for name in "ab":
        (site / f"{name}.conf").write_text(CONF.format(name="a", port=10911) + "enableControllerMode=true\n")
    assert [agent.elected for agent in loaded(site, A + B).agents] == [True, True]


def test_an_empty_variable_says_nothing(site: Path) -> None:
    assert loaded(site, SHAREDROUTES_HEARTBEAT="", SHAREDROUTES_PROBE="").agents[0].heartbeat_s == 5.0


def test_without_a_word_about_it_the_store_gets_no_more_time_than_a_heartbeat(site: Path) -> None:
    assert loaded(site).registry.call_deadline_s == 3.0
    assert loaded(site, "[agent]\nheartbeat_s = 0.5\n").registry.call_deadline_s == 0.5
    said = loaded(site, "[store]\ncall_deadline_s = 1\n[agent]\nheartbeat_s = 0.5\n")
    assert said.registry.call_deadline_s == 1.0


def test_every_problem_is_named_at_once_with_its_place(site: Path) -> None:
    toml = (
        '[store]\nlease_ttl = 9\nnamespace = "a b"\n[agent]\nheartbeat_s = "5"\nhttp = "nowhere"\n[stor]\n'
        '[[broker]]\nbroker_conf = "missing.conf"\nprobe = 1\n'
    )
    found = problems(
        site, toml, flags={"--redis": "nonsense", "--log-level": "loud"}, SHAREDROUTES_HANG_FAILURES="many"
    )
    wanted = {
        "agent.toml: stor: is not a table of agent.toml; did you mean store?",
        "agent.toml: store.lease_ttl: is not a setting of [store]; did you mean lease_ttl_s?",
        "agent.toml: store.namespace: 'a b' is not 1 to 64 letters, digits or _ . : -",
        "agent.toml: agent.heartbeat_s: expected a number of seconds, got '5'",
        "agent.toml: agent.http: 'nowhere' is neither off nor host:port with a port within 0..65535",
        "agent.toml: broker[1].probe: expected a string, got 1",
        "SHAREDROUTES_HANG_FAILURES: expected a whole number, got 'many'",
        "--log-level: 'loud' is none of debug, info, warning, error",
    }
    assert wanted <= set(found)
    (url,) = set(found) - wanted
    assert url.startswith("--redis: Redis URL: expected redis[s]://")


def test_what_does_not_fit_together_is_a_problem(site: Path) -> None:
    (found,) = problems(site, "[agent]\nheartbeat_s = 10\n")
    assert found.startswith(
        "agent.toml: agent.heartbeat_s: lease_ttl_s: 15.0 is less than twice heartbeat_s (10.0)"
    )
    (found,) = problems(site, "[store]\ncall_deadline_s = 8\n", flags={"--lease-ttl": "12"})
    assert found.startswith(
        "--lease-ttl, agent.toml: store.call_deadline_s: lease_ttl_s: 12.0 is less than heart"
    )


def test_what_does_not_fit_is_said_once_for_all_brokers_and_hides_nothing_else(site: Path) -> None:
    lease, twin = problems(site, A + A, flags={"--lease-ttl": "5"})
    assert lease.startswith("--lease-ttl: lease_ttl_s: 5.0 is less than twice heartbeat_s")
    assert twin == "a.conf: is broker-a:0, as is a.conf"


@pytest.mark.parametrize("toml", ["", A + B])
def test_what_is_wrong_with_a_flag_for_all_brokers_is_said_once(site: Path, toml: str) -> None:
    assert problems(site, toml, flags={"--heartbeat": "x"}) == (
        "--heartbeat: expected a number of seconds, got 'x'",
    )


@pytest.mark.parametrize(
    ("toml", "problem"),
    [("[store", "is no TOML: "), ("[broker]\nbroker_conf = 'a.conf'", "broker: write [[")],
)
def test_where_nobody_can_tell_the_brokers_none_is_said_to_be_missing(
    site: Path, toml: str, problem: str
) -> None:
    (site / "agent.toml").write_text(toml)
    with pytest.raises(InvalidInput) as caught:
        load({"--config": str(site / "agent.toml")}, {})
    (found,) = str(caught.value).splitlines()
    assert found.startswith(f"{site}/agent.toml: {problem}")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SHAREDROUTES_HEARTBEATS", "; did you mean SHAREDROUTES_HEARTBEAT?"),
        ("SHAREDROUTES_REDIS", "; did you mean SHAREDROUTES_REDIS_URL?"),
        ("SHAREDROUTES_XYZZY", ""),
    ],
)
def test_a_variable_that_is_no_setting_is_warned_of(site: Path, name: str, hint: str) -> None:
    environment = {name: "1", "SHAREDROUTES_RECHECK": "1", "OTHER": "1"}
    (warning,) = load({"--broker-conf": str(site / "a.conf")}, environment).warnings
    assert warning == f"{name}: is not a setting of the agent and is ignored{hint}"


@pytest.mark.parametrize(
    "name",
    [
        "SHAREDROUTES_REDIS_SERVER",
        "SHAREDROUTES_EXAMPLES",
        "SHAREDROUTES_TESTS",
        "SHAREDROUTES_SERVICE_HOST",  # of a service in Kubernetes that has the name sharedroutes
        "SHAREDROUTES_SERVICE_PORT_HTTP",
        "SHAREDROUTES_PORT_9877_TCP_ADDR",
        "SHAREDROUTES_PORT",
        "SHAREDROUTES_AGENT_PORT",
    ],
)
def test_a_variable_of_somebody_else_is_none_of_ours(site: Path, name: str) -> None:
    assert load({"--broker-conf": str(site / "a.conf")}, {name: "1"}).warnings == ()


def test_what_a_broker_conf_says_can_be_overridden(site: Path) -> None:
    said = 'brokerName = "other", listenPort = 1, enableSlaveActingMaster = true'
    toml = f'{A}zone = "z"\noverrides = {{ {said} }}\n'
    (agent,) = loaded(site, toml).agents
    assert (agent.broker.broker_name, agent.broker.address) == ("other", "10.0.0.1:1")
    assert (agent.broker.zone_name, agent.broker.enable_acting_master) == ("z", True)
    assert (agent.zone, agent.overrides["listenPort"]) == ("z", "1")
    (agent,) = loaded(site, toml, SHAREDROUTES_OVERRIDES="brokerName=third; listenPort = 2").agents
    assert (agent.broker.broker_name, agent.broker.address) == ("third", "10.0.0.1:2")
    assert loaded(site, as_toml(loaded(site, toml))).agents == loaded(site, toml).agents


def test_what_a_slave_is_told_of_its_master_and_filter_servers_are_said_everywhere(site: Path) -> None:
    said = (
        'master_file = "run/master"\nmaster_hook = "hook \'an argument\'"\nfilter_servers = ["h:1", "h:2"]\n'
    )
    (agent,) = loaded(site, A + said).agents
    assert (agent.master_file, agent.master_hook) == (site / "run/master", "hook 'an argument'")
    assert agent.filter_servers == ("h:1", "h:2")
    assert loaded(site, as_toml(loaded(site, A + said))).agents == loaded(site, A + said).agents
    flags = {"--master-file": "/run/m", "--master-hook": "other", "--filter-servers": "h:3, [::1]:4"}
    (agent,) = loaded(site, A + said, flags=flags).agents
    assert (agent.master_file, agent.master_hook, agent.filter_servers) == (
        Path("/run/m"),
        "other",
        ("h:3", "[::1]:4"),
    )
    (agent,) = loaded(site, A + said, SHAREDROUTES_FILTER_SERVERS="none").agents
    assert agent.filter_servers == ()
    assert "filter_servers = []" in as_toml(loaded(site, A + "filter_servers = []\n"))
    (agent,) = loaded(site, A).agents
    assert (agent.master_file, agent.master_hook, agent.filter_servers) == (None, "", None)


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ("[store", "is no TOML: "),
        ("store = 3", "store: expected a table, got an integer"),
        ("store = 'redis://u:SECRET@h'", "store: expected a table, got a string"),
        ("store = ['redis://u:SECRET@h']", "store: expected a table, got an array"),
        ("[store]\nurl = ['redis://u:SECRET@h']", "store.url: expected a string, got an array"),
        ("[store]\nurl = {a = 'SECRET'}", "store.url: expected a string, got a table"),
        ("[store]\nurl = 2026-01-01", "store.url: expected a string, got a date or a time"),
        ("[agent]\nxyzzy = 3", "agent.xyzzy: is not a setting of [agent]: they are http, "),
        ("[agent]\nhang_failures = true", "agent.hang_failures: expected a whole number, got True"),
        ("[agent]\nhang_failures = 1.5", "agent.hang_failures: expected a whole number, got 1.5"),
        ("[agent]\nrecheck_s = true", "agent.recheck_s: expected a number of seconds, got True"),
        ("[agent]\nrecheck_s = 0", "agent.recheck_s: 0.0 is not within 0.01..86400 seconds"),
        ("[agent]\nrecheck_s = nan", "agent.recheck_s: nan is not within"),
        ("[broker]\nbroker_conf = 'a.conf'", "broker: write [[broker]] instead of [broker]"),
        ("broker = [3]", "broker[1]: expected a table, got an integer"),
        ("[[broker]]\nprobe = 'x:1'", "broker[1].broker_conf: is missing"),
        (A + "overrides = 3", "broker[1].overrides: expected a table, got 3"),
        (A + "overrides = {a = []}", "broker[1].overrides: a: expected a string, a whole"),
        (A + "filter_servers = 'h:1'", "broker[1].filter_servers: expected an array of strings, got 'h:1'"),
        (A + "filter_servers = ['h']", "broker[1].filter_servers: 'h' is not host:port"),
        (A + 'master_hook = "don\'t"', "broker[1].master_hook: "),
    ],
)
def test_a_wrong_file_is_a_problem_that_shows_no_password(site: Path, toml: str, problem: str) -> None:
    (found,) = problems(site, toml)
    assert found.startswith(f"agent.toml: {problem}")
    assert "SECRET" not in found


def test_the_quickest_heartbeat_leaves_the_store_the_shortest_time_that_it_may_have(site: Path) -> None:
    config = loaded(site, "[agent]\nheartbeat_s = 0.02\n")
    assert (config.agents[0].heartbeat_s, config.registry.call_deadline_s) == (0.02, 0.05)


@pytest.mark.parametrize("text", ["a", "=b", "a=b;c"])
def test_overrides_that_are_no_pairs_are_a_problem(site: Path, text: str) -> None:
    (found,) = problems(site, flags={"--overrides": text})
    assert found.startswith("--overrides: ")
    assert found.endswith(" is not key=value")


def test_a_file_that_cannot_be_read_is_a_problem(site: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere.toml: cannot be read: No such file"):
        load({"--config": str(site / "nowhere.toml"), "--broker-conf": str(site / "a.conf")}, {})
    (site / "latin.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(InvalidInput, match=r"latin.toml: is no UTF-8: .* at byte 5"):
        load({}, {"SHAREDROUTES_CONFIG": str(site / "latin.toml")})


def test_without_a_broker_there_is_nothing_to_do() -> None:
    with pytest.raises(InvalidInput, match="no broker is named: --broker-conf, SHAREDROUTES_BROKER_CONF"):
        load({}, {})


def test_what_names_one_broker_is_refused_where_there_are_several(site: Path) -> None:
    found = problems(site, A + B, flags={"--probe": "h:1"}, SHAREDROUTES_BROKER_ADDRESS="h:1")
    assert found == (
        "SHAREDROUTES_BROKER_ADDRESS: is for one broker, and agent.toml has 2: set it in their tables",
        "--probe: is for one broker, and agent.toml has 2: set it in their tables",
    )


def test_one_broker_of_a_file_can_be_told_more_by_flags(site: Path) -> None:
    toml = '[[broker]]\nbroker_conf = "b.conf"\nprobe = "h:1"\n'
    assert loaded(site, toml, flags={"--probe": "h:2"}).agents[0].probe == "h:2"


def test_the_same_broker_twice_is_a_problem(site: Path) -> None:
    toml = '[[broker]]\nbroker_conf = "a.conf"\n[[broker]]\nbroker_conf = "./a.conf"\n'
    assert problems(site, toml) == ("a.conf: is broker-a:0, as is a.conf",)


@pytest.mark.parametrize("text", ["off", "127.0.0.1:0", "[::1]:80", "localhost:80"])
def test_an_address_of_http_may_be_off_or_any_port(site: Path, text: str) -> None:
    assert loaded(site, flags={"--http": text}).value("http") == text


@pytest.mark.parametrize("text", ["", "9877", ":9877", "h:", "h:65536", "h:-1", "h:٣", "on"])
def test_what_is_no_address_of_http_is_refused(site: Path, text: str) -> None:
    (found,) = problems(site, f"[agent]\nhttp = '{text}'\n")
    assert found.startswith(f"agent.toml: agent.http: {text!r} is neither off nor host:port")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://:secret@h:1/0", "redis://:***@h:1/0"),
        ("rediss://u:secret@h/0?db=1", "rediss://u:***@h/0?db=1"),
        ("redis+sentinel://u:s%40@h:1,i:2/m?sentinel_password=secret&db=1",
         "redis+sentinel://u:***@h:1,i:2/m?sentinel_password=***&db=1"),
        ("unix:///run/r.sock?db=1&password=secret", "unix:///run/r.sock?db=1&password=***"),
        ("unix:///p?p%61ssword=secret&Sentinel_passwor%64=secret&db=1",
         "unix:///p?p%61ssword=***&Sentinel_passwor%64=***&db=1"),
    ],
)  # fmt: skip
def test_passwords_are_never_shown(url: str, shown: str) -> None:
    assert masked(url) == shown


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_written_as_toml_reads_it(text: str) -> None:
    assert tomllib.loads(f"x = {_toml(text)}") == {"x": text}


def test_the_printed_configuration_says_where_values_come_from_and_can_be_read_again(site: Path) -> None:
    toml = f"[agent]\nrecheck_s = 2\n{A}hang_check_s = 1.5\n{B}"
    config = loaded(site, toml, flags={"--lease-ttl": "20"}, SHAREDROUTES_REDIS_URL="redis://:secret@h:1/0")
    text = as_toml(config)
    assert "secret" not in text
    assert 'url = "redis://:***@h:1/0"  # SHAREDROUTES_REDIS_URL\n' in text
    assert "lease_ttl_s = 20.0  # --lease-ttl\n" in text
    assert f"recheck_s = 2.0  # {site}/agent.toml: agent.recheck_s\n" in text
    assert f"hang_check_s = 1.5  # {site}/agent.toml: broker[1].hang_check_s\n" in text
    assert "drain_wait_s = 10.0  # default\n" in text
    assert f'# brokerName = "broker-b"  # {site}/b.conf:1\n' in text
    where = f"brokerIP1: {site}/b.conf:2; listenPort: {site}/b.conf:3"
    assert f'# broker_address = "10.0.0.1:20911"  # {where}\n' in text
    assert f'# topics = "/store-b/config/topics.json"  # {site}/b.conf:4\n' in text
    again = loaded(site, text.replace(":***@", ":secret@"))
    assert again.agents == config.agents


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_every_setting_has_a_flag_a_variable_and_a_line_in_the_help(option: Option) -> None:
    text = " ".join(CliRunner().invoke(agent_command, ["--help"], terminal_width=400).output.split())
    if option.kind is Kind.SECRET:  # who looks at the processes sees flags
        assert option.flag not in text
        assert f"Set by variables only: {option.variable}" in text
    else:
        assert f"{option.flag} {option.metavar} {option.help} [env var: {option.variable}" in text


def test_flags_and_variables_are_unique() -> None:
    assert (
        len({option.flag for option in OPTIONS})
        == len({option.variable for option in OPTIONS})
        == len(OPTIONS)
    )


def test_a_check_warns_of_what_is_odd_and_says_every_problem(site: Path) -> None:
    warned = CliRunner().invoke(
        agent_command,
        ["--broker-conf", str(site / "a.conf"), "--check=files"],
        env={"SHAREDROUTES_HEARTBEATS": "1"},
    )
    assert warned.exit_code == 0
    assert "SHAREDROUTES_HEARTBEATS: is not a setting" in warned.stderr
    bad = CliRunner().invoke(agent_command, ["--check", "--heartbeat", "x", "--probe", "y"])
    assert bad.exit_code == 2
    assert "--heartbeat: expected a number of seconds" in bad.output
    assert "--probe: 'y' is not host:port" in bad.output


NOT_SET = (
    "broker_credentials",
    "broker_credentials_json",
    "broker_tls_ca",
    "broker_tls_cert",
    "broker_tls_key",
)
"""Settings without a value unless somebody gives them one."""


def test_what_no_file_says_is_credited_to_the_default_or_to_who_said_it(site: Path) -> None:
    (site / "a.conf").write_text("brokerIP1=10.0.0.1\nbrokerRole=SLAVE\nbrokerId=2\nbrokerPermission=6\n")
    text = as_toml(loaded(site, '[[broker]]\nbroker_conf = "a.conf"\noverrides = { brokerPermission = 4 }\n'))
    said = {line.split()[1]: line.rpartition("  # ")[2] for line in text.splitlines() if line[:1] == "#"}
    assert said == {
        "brokerName": "default: the name of this host",
        "brokerId": f"{site}/a.conf:3",
        "brokerClusterName": "default",
        "brokerPermission": f"{site}/agent.toml: broker[1].overrides",
        "broker_address": f"brokerIP1: {site}/a.conf:1; listenPort: default",
        "topics": "default: below this user's home",
        **dict.fromkeys(NOT_SET, "default"),
    }


def test_a_master_has_its_id_by_its_role_whatever_stands_there(site: Path) -> None:
    (site / "a.conf").write_text("brokerIP1=10.0.0.1\nbrokerId=7\n")
    assert '# brokerId = "0"  # of a master; brokerRole: default\n' in as_toml(loaded(site))


def test_a_binary_file_is_no_broker_conf(site: Path) -> None:
    (site / "a.conf").write_bytes(b"\x7fELF\0\0")
    assert problems(site) == ("a.conf: is no text: a byte in it is 0",)


def test_print_config_prints_and_ends(site: Path) -> None:
    done = CliRunner().invoke(agent_command, ["--broker-conf", str(site / "a.conf"), "--print-config"])
    assert done.exit_code == 0
    assert tomllib.loads(done.stdout)["broker"] == [
        {"broker_conf": str(site / "a.conf"), "topics_from": "auto"}
    ]

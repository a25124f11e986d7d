"""Agents of brokers that know their users, and of those that speak TLS."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.broker_agent import AgentConfig, BrokerAgent, Phase
from sharedroutes.broker_agent.config import BrokerTls, TopicsFrom
from sharedroutes.broker_agent.process.command import agent_command
from sharedroutes.broker_agent.process.pages import Pages
from sharedroutes.broker_agent.process.sidecar import Sidecar
from sharedroutes.broker_agent.rocketmq.access import AgentAccess, credentials_of
from sharedroutes.broker_agent.settings.sidecar_config import OPTIONS
from sharedroutes.broker_agent.settings.text import as_toml
from sharedroutes.daemon.http_server import Request
from sharedroutes.daemon.option import Kind
from sharedroutes.registry import Broker, InvalidInput
from sharedroutes.remoting import Credentials
from tests.broker_agent.data_files import put, topics_json
from tests.broker_agent.settings_site import loaded, problems, write_brokers
from tests.broker_agent.sidecar_host import BASICS, Host
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.broker_agent.world import World, running
from tests.cluster.certificates import Certificates
from tests.support import await_until

SECRET: Final = "top-secret-9"  # noqa: S105 - of nobody
USERS: Final = {"the-agent": SECRET}
CREDENTIALS: Final = json.dumps({"accessKey": "the-agent", "secretKey": SECRET})


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "sharedroutes")
    return caplog


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on PATH")
    return Certificates(tmp_path_factory.mktemp("certificates")).make()


def server_tls(certificates: Certificates, *, wants_one: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.crt("server"), certificates.key("server"))
    if wants_one:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates.crt("ca"))
    return context


def config_of(world: World, broker: SpeakingBroker, **settings: Any) -> AgentConfig:
    """Return the settings of an agent whose topics are in a file, so that it serves whatever it may ask."""
    put(world.path, topics_json("orders"))
    usual = {"hang_check_s": 0.05, "topics_from": TopicsFrom.FILES}
    return world.config(broker=Broker("broker-a", broker.address), **{**usual, **settings})


def errors(logs: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in logs.records if record.levelno >= logging.ERROR]


async def until_asked(agent: BrokerAgent) -> None:
    await await_until(
        lambda: agent.status().hang_check.startswith("asked every"), description="the broker answers"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"accessKey: the-agent\nsecretKey: {SECRET}\n",
        f"# of tools.yml\n\naccessKey: 'the-agent'\nsecretKey: \"{SECRET}\"  \nsecurityToken:\n",
        f"accessKey=the-agent\r\nsecretKey = {SECRET}\r\n",
        CREDENTIALS,
    ],
)
def test_credentials_are_read_as_rocketmq_writes_them(text: str) -> None:
    assert credentials_of(text, "here") == Credentials("the-agent", SECRET)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "here: accessKey is missing"),
        ("accessKey: a\nsecretKey:\n", "here: secretKey is missing"),
        (f"{SECRET}\n", "here: line 1 is not `key: value`"),
        (f"accessKey: a\nsecret: {SECRET}", "here: 'secret' is none of accessKey, secretKey, securityToken"),
        (f'{{"accessKey": "{SECRET}', "here: is no JSON: line 1, column 28"),
        ('{"accessKey": "a", "secretKey": 12345678}', "here: expected strings"),
    ],
)
def test_what_is_wrong_with_credentials_is_said_without_them(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        credentials_of(text, "here")
    assert str(caught.value) == problem


async def test_what_the_agent_asks_is_signed(world: World) -> None:
    async with SpeakingBroker() as broker:
        broker.users = USERS
        broker.create("orders")
        config = config_of(world, broker, topics_from=TopicsFrom.BROKER, broker_credentials_json=CREDENTIALS)
        async with running(config) as agent:
            await world.until_served(orders=4)
            await until_asked(agent)
            assert agent.status().source_trouble == ""


async def test_a_refused_user_is_said_once_with_what_to_do_and_the_broker_lives(
    world: World, logs: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "credentials"
    path.write_text("accessKey: the-agent\nsecretKey: rotated-away\n")
    async with SpeakingBroker() as broker:
        broker.users = USERS
        async with running(config_of(world, broker, broker_credentials=path)) as agent:
            await agent.until(Phase.SERVING)
            await until_asked(agent)
            assert agent.status().source_trouble == (
                f"{broker.address}: refuses HEART_BEAT with code 16 (check signature failed.): look at the "
                "user 'the-agent' in the broker's ACL, its secret key and what it may do, and at "
                "broker_credentials; then reload the agent"
            )
            await broker.asked_again(6)
            assert errors(logs) == [agent.status().source_trouble]
            assert agent.status().broker_up
            path.write_text(f"accessKey: the-agent\nsecretKey: {SECRET}\n")
            await agent.reload()
            await await_until(lambda: not agent.status().source_trouble, description="the new secret counts")
    assert "rotated-away" not in logs.text
    assert SECRET not in logs.text


async def test_a_broker_that_wants_a_user_is_alive_without_one(world: World) -> None:
    async with SpeakingBroker() as broker:
        broker.users = USERS
        async with running(config_of(world, broker)) as agent:
            await agent.until(Phase.SERVING)
            await await_until(lambda: agent.status().source_trouble, description="the refusal is told")
            assert (
                "(username cannot be null.): give the agent a user of the broker"
                in agent.status().source_trouble
            )


async def test_credentials_that_cannot_be_read_are_told_and_those_from_before_stay(
    world: World, logs: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "credentials"
    path.write_text(CREDENTIALS)
    async with SpeakingBroker() as broker:
        broker.users = USERS
        async with running(config_of(world, broker, broker_credentials=path)) as agent:
            await until_asked(agent)
            path.unlink()
            await agent.reload()
            expected = f"broker_credentials: {path}: cannot be read: No such file or directory"
            await await_until(lambda: agent.status().source_trouble == expected, description="told")
            await broker.asked_again(6)
            assert agent.status().source_trouble == expected
    assert errors(logs) == [f"{broker.address}: {expected}"]


@pytest.mark.parametrize("mode", [BrokerTls.INSECURE, BrokerTls.VERIFY_CA, BrokerTls.VERIFY_FULL])
async def test_what_the_agent_asks_is_encrypted(
    world: World, certificates: Certificates, mode: BrokerTls
) -> None:
    ca = None if mode is BrokerTls.INSECURE else Path(certificates.crt("ca"))
    async with secured(certificates) as broker:
        broker.create("orders")
        config = config_of(world, broker, topics_from=TopicsFrom.BROKER, broker_tls=mode, broker_tls_ca=ca)
        async with running(config) as agent:
            await world.until_served(orders=4)
            await until_asked(agent)
            assert agent.status().source_trouble == ""
            await broker.die()
            await agent.until(Phase.BROKER_GONE)


async def test_a_broker_that_hangs_is_found_over_tls_too(world: World, certificates: Certificates) -> None:
    async with secured(certificates) as broker:
        config = config_of(world, broker, broker_tls=BrokerTls.INSECURE, hang_deadline_s=0.3)
        async with running(config) as agent:
            await until_asked(agent)
            broker.hang()
            await agent.until(Phase.BROKER_GONE)
            broker.wake()
            await agent.until(Phase.SERVING)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"broker_tls_ca": "other-ca"}, "certificate verify failed|unable to get local issuer certificate"),
        ({"broker_tls_ca": "ca", "broker_tls_name": "broker-a.example"}, "Hostname mismatch"),
    ],
)
async def test_a_broker_that_is_not_trusted_lives_and_the_reason_is_told_once(
    world: World,
    certificates: Certificates,
    logs: pytest.LogCaptureFixture,
    settings: dict[str, str],
    why: str,
) -> None:
    said = {**settings, "broker_tls_ca": Path(certificates.crt(settings["broker_tls_ca"]))}
    async with secured(certificates) as broker:
        config = config_of(world, broker, broker_tls=BrokerTls.VERIFY_FULL, **said)
        async with running(config) as agent:
            await agent.until(Phase.SERVING)
            await await_until(lambda: agent.status().source_trouble, description="told")
            assert any(text in agent.status().source_trouble for text in why.split("|"))
            assert "look at broker_tls and its certificates" in agent.status().source_trouble
            (error,) = errors(logs)
            assert error == agent.status().source_trouble
            await broker.die()
            await agent.until(Phase.BROKER_GONE)


async def test_a_broker_that_wants_a_certificate_gets_the_one_of_a_reload(
    world: World, certificates: Certificates, tmp_path: Path
) -> None:
    crt, key = tmp_path / "agent.crt", tmp_path / "agent.key"
    shutil.copy(certificates.crt("other-ca"), crt)
    shutil.copy(certificates.key("other-ca"), key)
    async with secured(certificates, wants_one=True) as broker:
        tls = {"broker_tls": BrokerTls.INSECURE, "broker_tls_cert": crt, "broker_tls_key": key}
        async with running(config_of(world, broker, **tls)) as agent:
            await agent.until(Phase.SERVING)
            await await_until(lambda: "TLS: " in agent.status().source_trouble, description="told")
            assert agent.status().broker_up
            assert not broker.asked
            shutil.copy(certificates.crt("client"), crt)
            shutil.copy(certificates.key("client"), key)
            await agent.reload()
            await await_until(
                lambda: broker.asked and not agent.status().source_trouble, description="let in"
            )
            await agent.until(Phase.SERVING)


async def test_without_its_files_nothing_is_sent_in_the_clear_and_the_broker_is_watched(
    world: World, certificates: Certificates, tmp_path: Path
) -> None:
    missing = tmp_path / "missing.pem"
    async with SpeakingBroker() as broker:
        config = config_of(world, broker, broker_tls=BrokerTls.VERIFY_CA, broker_tls_ca=missing)
        async with running(config) as agent:
            await agent.until(Phase.SERVING)
            expected = f"broker_tls_ca: {missing}: cannot be read: No such file or directory"
            assert agent.status().source_trouble == expected
            assert agent.status().hang_check == f"not asked: {expected}"
            assert not broker.asked
            await broker.die()
            await agent.until(Phase.BROKER_GONE)


async def test_a_broker_without_tls_is_alive_and_the_mistake_is_told(world: World) -> None:
    async with SpeakingBroker() as broker:
        config = config_of(world, broker, broker_tls=BrokerTls.INSECURE)
        async with running(config) as agent:
            await agent.until(Phase.SERVING)
            await await_until(
                lambda: "has the broker TLS on" in agent.status().source_trouble, description="told"
            )


def test_a_key_with_a_password_is_named(certificates: Certificates, tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-aes256", "-passout", "pass:1234", "-in", certificates.key("client")]
    subprocess.run([*command, "-out", str(locked)], check=True, capture_output=True)
    config = replace(
        AgentConfig(broker=Broker("broker-a", "127.0.0.1:1"), broker_tls=BrokerTls.INSECURE),
        broker_tls_cert=Path(certificates.crt("client")),
        broker_tls_key=locked,
    )
    access = AgentAccess(config)
    asyncio.run(access.load())
    assert access.trouble == "broker_tls_key: is encrypted: the agent reads only keys without a password"
    assert access.is_closed


def test_a_mode_of_tls_that_is_none_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match="broker_tls: 'yes' is none of off, insecure, verify-ca, verify-full"
    ):
        AgentConfig(broker=Broker("broker-a", "127.0.0.1:1"), broker_tls="yes")  # type: ignore[arg-type]


def test_secrets_are_taken_from_files_and_variables_alone_and_are_never_shown(tmp_path: Path) -> None:
    site = write_brokers(tmp_path)
    config = loaded(site, SHAREDROUTES_BROKER_CREDENTIALS_JSON=CREDENTIALS)
    assert config.agents[0].broker_credentials_json == CREDENTIALS
    assert '# broker_credentials_json = "***"  # SHAREDROUTES_BROKER_CREDENTIALS_JSON' in as_toml(config)
    for text in (
        as_toml(config),
        repr(config.agents[0]),
        repr(config.agents),
        str(AgentAccess(config.agents[0])),
    ):
        assert SECRET not in text
    (problem,) = problems(site, f"[agent]\nbroker_credentials_json = '{CREDENTIALS}'\n")
    assert problem == (
        "agent.toml: agent.broker_credentials_json: is a secret: say it in "
        "SHAREDROUTES_BROKER_CREDENTIALS_JSON, or in a file"
    )
    flags = {flag for parameter in agent_command.params for flag in parameter.opts}
    assert {option.flag for option in OPTIONS if option.kind is Kind.SECRET}.isdisjoint(flags)


def test_the_settings_of_access_are_taken_from_agent_toml_flags_and_variables(tmp_path: Path) -> None:
    site = write_brokers(tmp_path)
    toml = '[[broker]]\nbroker_conf = "a.conf"\nbroker_credentials = "acl"\nbroker_tls_ca = "ca.pem"\n'
    (agent,) = loaded(
        site, toml, flags={"--broker-tls": "verify-ca"}, SHAREDROUTES_BROKER_TLS_NAME="b"
    ).agents
    assert agent.broker_credentials == site / "acl"
    assert (agent.broker_tls, agent.broker_tls_ca) == (BrokerTls.VERIFY_CA, site / "ca.pem")
    assert agent.broker_tls_name == "b"


async def test_a_reload_puts_no_broker_back_that_hangs(world: World) -> None:
    async with SpeakingBroker() as broker:
        config = config_of(world, broker, hang_deadline_s=0.3)
        async with running(config) as agent:
            await until_asked(agent)
            await agent.until(Phase.SERVING)
            broker.hang()
            await agent.until(Phase.BROKER_GONE)
            asked, registrations = broker.accepted, agent.status().registrations
            await agent.reload()
            await await_until(lambda: broker.accepted > asked + 1, description="asked anew")
            assert agent.status().phase is Phase.BROKER_GONE
            broker.wake()
            await agent.until(Phase.SERVING)
            assert agent.status().registrations == registrations + 1


async def test_the_pages_of_the_process_tell_whether_a_broker_is_asked_and_no_secret(
    host: Host, logs: pytest.LogCaptureFixture
) -> None:
    (host.folder / "credentials").write_text(CREDENTIALS)
    async with SpeakingBroker() as broker:
        broker.users = {"the-agent": "another"}
        host.toml("b", "a", agent=f"{BASICS}broker_credentials = 'credentials'\nhang_deadline_s = 0.05\n")
        with (host.folder / "agent.toml").open("a") as toml:
            toml.write(f'probe = "{broker.address}"\n')
        sidecar = Sidecar(host.load(), environment={})
        running = asyncio.create_task(sidecar.run())
        pages = Pages(sidecar, lambda: None, control="off")

        async def page() -> str:
            return (await pages.answer(Request(method="GET", path="/status"))).body.decode()

        async def is_told() -> bool:
            asked = [one["hang_check"] for one in json.loads(await page())["brokers"]]
            return len(asked) == 2 and "does not speak" in asked[0] and asked[1] == "asked every 1 s"

        await await_until(is_told, description="what is asked")
        body = await page()
        sidecar.stop()
        await running
    assert "check signature failed" in body
    assert SECRET not in body + logs.text


def secured(certificates: Certificates, *, wants_one: bool = False) -> SpeakingBroker:
    broker = SpeakingBroker()
    broker.tls = server_tls(certificates, wants_one=wants_one)
    return broker

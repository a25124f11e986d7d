"""Agents of real brokers that know their users (ACL) and demand TLS, with users that may do nothing else."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from sharedroutes.broker_agent import AgentConfig, BrokerAgent, Phase
from sharedroutes.broker_agent.config import BrokerTls, TopicsFrom
from sharedroutes.broker_agent.rocketmq.access import AgentAccess
from sharedroutes.registry import Broker, EmbeddedServer
from sharedroutes.remoting import request
from sharedroutes.remoting.broker.client import BrokerClient, BrokerRefused
from tests.cluster.certificates import Certificates
from tests.pages.blocks import blocks_of
from tests.real.rocketmq import RealBroker, java
from tests.support import await_until

pytestmark = pytest.mark.timeout(300)

((OF_AGENT, OF_BROKER, CREATE_USER),) = blocks_of(__file__).values()
"""The file of the agent, that of a broker 4.x, and the command for 5.x, as the page has them."""

USER: Final = "sharedroutes"
CREDENTIALS: Final = json.dumps(yaml.safe_load(OF_AGENT.text))
WRONG: Final = json.dumps({"accessKey": USER, "secretKey": "another-secret"})
CREATE_TOPIC: Final = request(
    17,
    {"topic": "made", "defaultTopic": "TBW102", "readQueueNums": "1"}
    | {
        "writeQueueNums": "1",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    },
)

_AUTH: Final = "org.apache.rocketmq.auth"
AUTHENTICATION: Final[Mapping[str, str]] = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": '{"username":"superuser","password":"super-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on PATH")
    return Certificates(tmp_path_factory.mktemp("certificates")).make()


def enforcing(certificates: Certificates) -> list[str]:
    """Return what lets a broker speak with nobody without TLS and a certificate of the authority."""
    return [
        "-Dtls.test.mode.enable=false",
        "-Dtls.server.mode=enforcing",
        f"-Dtls.server.certPath={certificates.crt('server')}",
        f"-Dtls.server.keyPath={certificates.key('server')}",
        "-Dtls.server.need.client.auth=require",
        "-Dtls.server.authClient=true",
        f"-Dtls.server.trustCertPath={certificates.crt('ca')}",
    ]


def tls_of(certificates: Certificates, name: str = "client") -> dict[str, Any]:
    return {
        "broker_tls": BrokerTls.VERIFY_FULL,
        "broker_tls_ca": Path(certificates.crt("ca")),
        "broker_tls_cert": Path(certificates.crt(name)),
        "broker_tls_key": Path(certificates.key(name)),
    }


def config_of(broker: RealBroker, url: str, **settings: Any) -> AgentConfig:
    return AgentConfig(
        broker=Broker("broker-real", broker.address),
        topics_from=TopicsFrom.BROKER,
        redis_url=url,
        probe_deadline_s=10.0,
        hang_deadline_s=10.0,
        **settings,
    )


async def is_served(config: AgentConfig) -> None:
    """Check that an agent with these settings can read the topics, and that its question is answered."""
    async with BrokerAgent(config) as agent:
        assert (await agent.until(Phase.SERVING)).topics > 0
        await await_until(
            lambda: agent.status().hang_check.startswith("asked every"), timeout_s=60, description="asked"
        )
        assert agent.status().source_trouble == ""


async def is_refused(config: AgentConfig, why: str) -> None:
    """Check that an agent with these settings is not let in, tells why, and knows that the broker lives."""
    async with BrokerAgent(config) as agent:
        await await_until(
            lambda: why in agent.status().source_trouble, timeout_s=60, description=f"{why!r} is told"
        )
        await await_until(lambda: agent.status().broker_up, timeout_s=60, description="the broker lives")


async def may_not_create_topics(config: AgentConfig, broker: RealBroker) -> None:
    access = AgentAccess(config)
    await access.load()
    connecting = BrokerClient.connect("127.0.0.1", broker.port, deadline_s=10, access=access)
    async with await connecting as client:
        with pytest.raises(BrokerRefused):
            await client.call(CREATE_TOPIC, deadline_s=10)


async def test_a_broker_of_4_9_with_users_and_tls(
    tmp_path: Path, own_server: EmbeddedServer, certificates: Certificates
) -> None:
    folder = tmp_path / "broker"
    (folder / "conf" / "acl").mkdir(parents=True)
    (folder / "conf" / "plain_acl.yml").write_text(OF_BROKER.text)
    settings = {"aclEnable": "true"}
    with RealBroker("4.9.7", folder, settings, properties=enforcing(certificates)) as broker:
        url, tls = own_server.url, tls_of(certificates)
        config = config_of(broker, url, broker_credentials_json=CREDENTIALS, **tls)
        await is_served(config)
        await may_not_create_topics(config, broker)
        await is_refused(
            config_of(broker, url, broker_credentials_json=WRONG, **tls), "Check signature failed"
        )
        await is_refused(config_of(broker, url, **tls), "No accessKey is configured")
        strange = tls_of(certificates, "other-ca")
        await is_refused(config_of(broker, url, broker_credentials_json=CREDENTIALS, **strange), "TLS: ")


async def test_a_broker_of_5_3_with_users_and_tls(
    tmp_path: Path, own_server: EmbeddedServer, certificates: Certificates
) -> None:
    with RealBroker("5.3.3", tmp_path / "broker", AUTHENTICATION) as broker:
        create_user(broker, tmp_path)
        url = own_server.url
        config = config_of(broker, url, broker_credentials_json=CREDENTIALS)
        await is_served(config)
        await may_not_create_topics(config, broker)
        await is_refused(config_of(broker, url, broker_credentials_json=WRONG), "check signature failed")
        await is_refused(config_of(broker, url), "username cannot be null")
    properties = enforcing(certificates)
    with RealBroker("5.3.3", tmp_path / "broker", AUTHENTICATION, properties=properties) as broker:
        tls = tls_of(certificates)
        await is_served(config_of(broker, url, broker_credentials_json=CREDENTIALS, **tls))
        strange = tls_of(certificates, "other-ca")
        await is_refused(config_of(broker, url, broker_credentials_json=CREDENTIALS, **strange), "TLS: ")
        other = tls | {"broker_tls_ca": Path(certificates.crt("other-ca"))}
        await is_refused(config_of(broker, url, broker_credentials_json=CREDENTIALS, **other), "TLS: ")


async def test_a_broker_with_the_certificate_that_it_makes_itself(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    with RealBroker("5.3.3", tmp_path / "broker", properties=()) as broker:
        await is_served(config_of(broker, own_server.url))
        await is_served(config_of(broker, own_server.url, broker_tls=BrokerTls.INSECURE))
        await is_refused(config_of(broker, own_server.url, broker_tls=BrokerTls.VERIFY_CA), "TLS: ")


def create_user(broker: RealBroker, folder: Path) -> None:
    """Let the agent's user be one that may do nothing."""
    home = folder / "tools"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "tools.yml").write_text("accessKey: superuser\nsecretKey: super-secret\n")
    own = (
        f"-Drocketmq.home.dir={home}",
        f"-Duser.home={home}",
        "org.apache.rocketmq.tools.command.MQAdminStartup",
    )
    mqadmin, *words = shlex.split(CREATE_USER.text.replace("10.0.0.7:10911", broker.address))
    assert (mqadmin, words[2]) == ("mqadmin", broker.address)
    command = java("5.3.3", *own, *words)
    environment = {**os.environ, "ROCKETMQ_HOME": str(home)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "success" in said, said

"""`agent`: runs one broker's agent until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from ..registry import InvalidInput, RegistryConfig
from . import broker_conf
from .agent import BrokerAgent
from .config import AgentConfig

__all__ = ["agent_command"]

_CALL_DEADLINE_S: Final = 3.0
_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"


class _BadConfiguration(click.ClickException):
    """What the user has to correct."""

    exit_code = 2


@click.command("agent")
@click.option(
    "--broker-conf",
    "broker_conf_path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="SHAREDROUTES_BROKER_CONF",
    show_envvar=True,
    help="The broker.conf of the broker.",
)
@click.option(
    "--topics",
    "topics_path",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="SHAREDROUTES_TOPICS",
    show_envvar=True,
    help="The broker's topics.json; by default <storePathRootDir>/config/topics.json.",
)
@click.option(
    "--redis",
    "redis_url",
    metavar="URL",
    default="redis://127.0.0.1:6379/0",
    envvar="SHAREDROUTES_REDIS_URL",
    show_envvar=True,
    show_default=True,
    help="The shared store: redis[s]://, redis[s]+sentinel://, redis[s]+cluster:// or unix://.",
)
@click.option(
    "--namespace",
    default="sharedroutes",
    envvar="SHAREDROUTES_NAMESPACE",
    show_envvar=True,
    show_default=True,
    help="The registry in the store.",
)
@click.option(
    "--heartbeat",
    "heartbeat_s",
    type=click.FloatRange(0.05, 3600),
    metavar="SECONDS",
    default=5.0,
    envvar="SHAREDROUTES_HEARTBEAT",
    show_envvar=True,
    show_default=True,
    help="Between two renewals of the lease.",
)
@click.option(
    "--lease-ttl",
    "lease_ttl_s",
    type=float,
    metavar="SECONDS",
    default=15.0,
    envvar="SHAREDROUTES_LEASE_TTL",
    show_envvar=True,
    show_default=True,
    help="A broker whose agent was silent for so long is dead; at least twice the heartbeat.",
)
@click.option(
    "--broker-address",
    metavar="HOST:PORT",
    default="",
    envvar="SHAREDROUTES_BROKER_ADDRESS",
    show_envvar=True,
    help="The address clients are told; by default brokerIP1:listenPort of the broker.conf.",
)
@click.option(
    "--probe",
    metavar="HOST:PORT",
    default="",
    envvar="SHAREDROUTES_PROBE",
    show_envvar=True,
    help="Where to watch whether the broker lives; by default the address clients are told.",
)
def agent_command(
    broker_conf_path: Path,
    topics_path: Path | None,
    redis_url: str,
    namespace: str,
    heartbeat_s: float,
    lease_ttl_s: float,
    broker_address: str,
    probe: str,
) -> None:
    """Keep the topics and the heartbeat of one broker in the shared registry.

    SIGTERM and SIGINT take the broker out of the registry and end the agent. Trouble with the store, the
    broker or topics.json does not end it.

    Exit codes: 0 = ended by a signal, 2 = the configuration is wrong.
    """
    try:
        conf = broker_conf.read(broker_conf_path, address=broker_address)
        config = AgentConfig.for_broker(
            conf,
            topics_path=topics_path,
            broker_conf_path=broker_conf_path,
            probe=probe,
            redis_url=redis_url,
            registry=RegistryConfig(
                namespace=namespace,
                lease_ttl_s=lease_ttl_s,
                call_deadline_s=min(_CALL_DEADLINE_S, heartbeat_s),
            ),
            heartbeat_s=heartbeat_s,
        )
        with _logging_to_stderr():
            asyncio.run(_run(BrokerAgent(config)))
    except InvalidInput as error:
        raise _BadConfiguration(str(error)) from error


async def _run(agent: BrokerAgent) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stop)
    await agent.run()


@contextmanager
def _logging_to_stderr() -> Iterator[None]:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    log = logging.getLogger("sharedroutes")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)

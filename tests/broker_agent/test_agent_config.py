"""The settings of the agent, how they have to fit together, and where they have the topics read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharedroutes.broker_agent import AgentConfig, BrokerConf
from sharedroutes.broker_agent.config import TopicsFrom
from sharedroutes.broker_agent.settings.loader import agent_config
from sharedroutes.broker_agent.topic_sources.source import choose
from sharedroutes.registry import Broker, InvalidInput, RegistryConfig

BROKER = Broker("broker-a", "10.0.0.1:10911")
PATH = Path("/store/config/topics.json")


def config(**settings: Any) -> AgentConfig:
    return AgentConfig(broker=BROKER, topics_path=PATH, **settings)


def test_the_defaults_fit_together() -> None:
    assert config().heartbeat_s * 2 <= config().registry.lease_ttl_s


def test_the_broker_is_probed_where_clients_find_it_unless_told_otherwise() -> None:
    assert config().probe_address == "10.0.0.1:10911"
    assert config(probe="127.0.0.1:1").probe_address == "127.0.0.1:1"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heartbeat_s": 8.0}, "lease_ttl_s: 15.0 is less than twice heartbeat_s"),
        (
            {"heartbeat_s": 2.0, "registry": RegistryConfig(lease_ttl_s=4.5)},
            r"lease_ttl_s: 4.5 is less than heartbeat_s \+ call_deadline_s",
        ),
        ({"heartbeat_s": 0}, "heartbeat_s: 0 is not within"),
        ({"heartbeat_s": float("nan")}, "heartbeat_s: nan is not within"),
        ({"stop_deadline_s": 1e9}, "stop_deadline_s: 1000000000.0 is not within"),
        ({"probe": "nonsense"}, "probe: 'nonsense' is not host:port"),
        ({"hang_failures": 0}, "hang_failures: 0 is not within"),
        ({"broker_permission": 8}, "broker_permission: 8 is not within 0..7"),
    ],
)
def test_values_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        config(**settings)


def test_the_password_of_the_store_does_not_show() -> None:
    assert "secret" not in repr(config(redis_url="redis://:secret@127.0.0.1/0"))


def test_the_topics_of_the_broker_conf_are_followed_unless_told_otherwise() -> None:
    conf = BrokerConf(broker=BROKER, topics_path=PATH, broker_permission=4)
    made = agent_config(conf, heartbeat_s=1.0)
    assert (made.broker, made.topics_path, made.broker_permission) == (BROKER, PATH, 4)
    assert (made.topics_from, made.heartbeat_s) == (TopicsFrom.AUTO, 1.0)
    assert agent_config(conf, topics_path=Path("/t.json")).topics_path == Path("/t.json")


NAMED = Path("/elsewhere/topics.json")
FILES = BrokerConf(broker=BROKER, topics_path=PATH)
ROCKSDB = BrokerConf(broker=BROKER, topics_path=PATH, topics_elsewhere="storeType=defaultRocksDB")


def chosen(conf: BrokerConf | None, topics_from: TopicsFrom, path: Path = PATH) -> tuple[TopicsFrom, str]:
    found = choose(AgentConfig(broker=BROKER, topics_path=path, topics_from=topics_from), conf)
    return found.topics_from, found.topics_why


@pytest.mark.parametrize(
    ("conf", "path", "expected"),
    [
        (FILES, PATH, (TopicsFrom.AUTO, "the broker keeps its topics in files")),
        (None, PATH, (TopicsFrom.AUTO, "the broker keeps its topics in files")),
        (FILES, NAMED, (TopicsFrom.AUTO, "as it was named")),
        (ROCKSDB, NAMED, (TopicsFrom.AUTO, "as it was named")),
        (ROCKSDB, PATH, (TopicsFrom.BROKER, "by storeType=defaultRocksDB it keeps them in RocksDB")),
    ],
)
def test_without_a_choice_it_goes_by_where_the_broker_keeps_them(
    conf: BrokerConf | None, path: Path, expected: tuple[TopicsFrom, str]
) -> None:
    assert chosen(conf, TopicsFrom.AUTO, path) == expected


def test_the_operator_may_choose_the_broker() -> None:
    assert chosen(FILES, TopicsFrom.BROKER) == (TopicsFrom.BROKER, "as was chosen")


@pytest.mark.parametrize(("conf", "path"), [(FILES, PATH), (None, PATH), (ROCKSDB, NAMED)])
def test_the_operator_may_choose_files_that_are_kept_up_to_date(conf: BrokerConf | None, path: Path) -> None:
    assert chosen(conf, TopicsFrom.FILES, path) == (TopicsFrom.FILES, "as was chosen")


def test_files_that_the_broker_does_not_keep_up_to_date_are_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"^topics_from: files: by storeType=defaultRocksDB this broker keeps"
    ):
        chosen(ROCKSDB, TopicsFrom.FILES)


def test_a_file_that_would_not_be_read_is_refused() -> None:
    with pytest.raises(InvalidInput, match=rf"^topics_from: broker: then {NAMED} would not be read"):
        chosen(FILES, TopicsFrom.BROKER, NAMED)

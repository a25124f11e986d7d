"""Where the topics are read: from the files, from the broker, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharedroutes.broker_agent import AgentConfig, BrokerConf
from sharedroutes.broker_agent.config import TopicsFrom
from sharedroutes.broker_agent.topic_sources.source import choose
from sharedroutes.registry import Broker, InvalidInput

BROKER = Broker("broker-a", "10.0.0.7:10911")
OWN, NAMED = Path("/store/config/topics.json"), Path("/elsewhere/topics.json")
FILES = BrokerConf(broker=BROKER, topics_path=OWN)
ROCKSDB = BrokerConf(broker=BROKER, topics_path=OWN, topics_elsewhere="storeType=defaultRocksDB")


def config(topics_from: TopicsFrom, path: Path = OWN) -> AgentConfig:
    return AgentConfig(broker=BROKER, topics_path=path, topics_from=topics_from)


def chosen(config: AgentConfig, conf: BrokerConf | None) -> tuple[TopicsFrom, str]:
    found = choose(config, conf)
    return found.topics_from, found.topics_why


@pytest.mark.parametrize(
    ("conf", "path", "expected"),
    [
        (FILES, OWN, (TopicsFrom.AUTO, "the broker keeps its topics in files")),
        (None, OWN, (TopicsFrom.AUTO, "the broker keeps its topics in files")),
        (FILES, NAMED, (TopicsFrom.AUTO, "as it was named")),
        (ROCKSDB, NAMED, (TopicsFrom.AUTO, "as it was named")),
        (ROCKSDB, OWN, (TopicsFrom.BROKER, "by storeType=defaultRocksDB it keeps them in RocksDB")),
    ],
)
def test_without_a_choice_it_goes_by_where_the_broker_keeps_them(
    conf: BrokerConf | None, path: Path, expected: tuple[TopicsFrom, str]
) -> None:
    assert chosen(config(TopicsFrom.AUTO, path), conf) == expected


def test_the_operator_may_choose_the_broker() -> None:
    assert chosen(config(TopicsFrom.BROKER), FILES) == (TopicsFrom.BROKER, "as was chosen")


@pytest.mark.parametrize(("conf", "path"), [(FILES, OWN), (None, OWN), (ROCKSDB, NAMED)])
def test_the_operator_may_choose_files_that_are_kept_up_to_date(conf: BrokerConf | None, path: Path) -> None:
    assert chosen(config(TopicsFrom.FILES, path), conf) == (TopicsFrom.FILES, "as was chosen")


def test_files_that_the_broker_does_not_keep_up_to_date_are_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"^topics_from: files: by storeType=defaultRocksDB this broker keeps"
    ):
        choose(config(TopicsFrom.FILES), ROCKSDB)


def test_a_file_that_would_not_be_read_is_refused() -> None:
    with pytest.raises(InvalidInput, match=rf"^topics_from: broker: then {NAMED} would not be read"):
        choose(config(TopicsFrom.BROKER, NAMED), FILES)

"""Decides where the topics of a broker are read, and says why: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...registry import InvalidInput
from ..config import AgentConfig, TopicsFrom
from ..rocketmq.broker_conf import BrokerConf

_CHOSEN: Final = "as was chosen"


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the topics are read, and why: for the operator.

    AUTO: in the files, and until there are any, from the running broker.
    """

    source: TopicsFrom
    why: str


def choose(config: AgentConfig, conf: BrokerConf | None = None) -> Choice:
    """Return where the topics are read; `conf` is the broker.conf behind the config, if there is one.

    A topics_path that is not the one of the broker.conf was named by the operator, and counts as a file that
    is kept up to date. Raises InvalidInput for what cannot work.
    """
    if config.topics_from is TopicsFrom.PROGRAM or (config.topics_path is None and not conf):
        return _without_a_file(config)
    named = conf is not None and config.topics_path != conf.topics_path
    elsewhere = conf.topics_elsewhere if conf and not named else ""
    if config.topics_from is not TopicsFrom.AUTO:
        return _chosen(config, elsewhere, named=named)
    if elsewhere:
        return Choice(TopicsFrom.BROKER, f"by {elsewhere} it keeps them in RocksDB")
    return Choice(TopicsFrom.AUTO, "as it was named" if named else "the broker keeps its topics in files")


def _chosen(config: AgentConfig, elsewhere: str, *, named: bool) -> Choice:
    """Return what the operator has chosen; raises InvalidInput."""
    if config.topics_from is TopicsFrom.FILES:
        if elsewhere:
            raise InvalidInput(
                f"topics_from: files: by {elsewhere} this broker keeps its topics in RocksDB, and "
                f"{config.topics_path} is not kept up to date; read them from the broker, or name a file "
                "that follows them"
            )
        return Choice(TopicsFrom.FILES, _CHOSEN)
    if named:
        raise InvalidInput(
            f"topics_from: broker: then {config.topics_path} would not be read; leave one of them out"
        )
    return Choice(TopicsFrom.BROKER, _CHOSEN)


def _without_a_file(config: AgentConfig) -> Choice:
    match config.topics_from:
        case TopicsFrom.FILES:
            raise InvalidInput("topics_from: files: there is no topics_path to read")
        case TopicsFrom.BROKER:
            return Choice(TopicsFrom.BROKER, _CHOSEN)
    return Choice(TopicsFrom.PROGRAM, "told by the program that the agent is part of")

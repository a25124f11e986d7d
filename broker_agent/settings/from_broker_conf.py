"""Makes the settings of an agent from the broker.conf of its broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..config import AgentConfig
from ..rocketmq.broker_conf import BrokerConf
from ..topic_sources import choose


def agent_config(conf: BrokerConf, *, topics_path: Path | None = None, **settings: Any) -> AgentConfig:
    """Return the settings for the broker of a broker.conf; raises InvalidInput.

    Without `topics_path` the broker's own topics are read; `settings` are those of AgentConfig.
    """
    config = AgentConfig(
        broker=conf.broker,
        topics_path=topics_path or conf.topics_path,
        broker_permission=conf.broker_permission,
        elected=conf.elected,
        **settings,
    )
    choice = choose(config, conf)
    return replace(config, topics_from=choice.source, topics_why=choice.why)

"""The sidecar that registers brokers, their topics and their heartbeats."""

try:
    from .agent import BrokerAgent
    from .config import AgentConfig, TopicsFrom
    from .planner.status import AgentStatus, Phase
    from .rocketmq.broker_conf import BrokerConf
except ModuleNotFoundError:
    from ..extras import check

    check("the broker agent", "agent")
    raise

__all__ = ["AgentConfig", "AgentStatus", "BrokerAgent", "BrokerConf", "Phase", "TopicsFrom"]

"""The sidecar that keeps the topics and the heartbeats of brokers in the registry."""

try:
    from .agent import BrokerAgent
    from .broker_conf import BrokerConf
    from .config import AgentConfig, TopicsFrom
    from .status import AgentStatus, Phase
except ModuleNotFoundError:
    from ..extras import check

    check("the broker agent", "agent")
    raise

__all__ = ["AgentConfig", "AgentStatus", "BrokerAgent", "BrokerConf", "Phase", "TopicsFrom"]

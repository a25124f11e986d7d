"""The sidecar that keeps one broker's topics and heartbeat in the registry."""

from .agent import BrokerAgent
from .broker_conf import BrokerConf
from .config import AgentConfig

__all__ = ["AgentConfig", "BrokerAgent", "BrokerConf"]

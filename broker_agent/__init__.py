"""The sidecar that keeps the topics and the heartbeats of brokers in the registry."""

try:
    from .agent import BrokerAgent
    from .broker_conf import BrokerConf
    from .config import AgentConfig, TopicsFrom
    from .status import AgentStatus, Phase
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing != "watchdog":
        raise
    message = f"the broker agent needs {missing}: run `pip install 'sharedroutes[agent]'`"
    raise ModuleNotFoundError(message, name=missing) from error

__all__ = ["AgentConfig", "AgentStatus", "BrokerAgent", "BrokerConf", "Phase", "TopicsFrom"]

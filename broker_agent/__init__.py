"""The sidecar that keeps one broker's topics and heartbeat in the registry."""

try:
    from .agent import BrokerAgent
    from .broker_conf import BrokerConf
    from .config import AgentConfig
except ModuleNotFoundError as error:
    if error.name not in ("javaproperties", "watchfiles"):
        raise
    message = f"the broker agent needs {error.name}: run `pip install 'sharedroutes[agent]'`"
    raise ModuleNotFoundError(message, name=error.name) from error

__all__ = ["AgentConfig", "BrokerAgent", "BrokerConf"]

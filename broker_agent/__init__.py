"""The sidecar that registers brokers, their topics and their heartbeats."""

from typing import TYPE_CHECKING

from ..registry.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .agent import BrokerAgent
    from .config import AgentConfig, TopicsFrom
    from .planner.status import AgentStatus, Phase
    from .rocketmq.broker_conf import BrokerConf
else:  # imported when they are first asked for: before that, the process says what is to be imported late
    _get, __dir__ = lazy_imports(
        __name__,
        {
            "AgentConfig": "config",
            "AgentStatus": "planner.status",
            "BrokerAgent": "agent",
            "BrokerConf": "rocketmq.broker_conf",
            "Phase": "planner.status",
            "TopicsFrom": "config",
        },
    )

    def __getattr__(name: str) -> object:
        """Import a name; an extra that is missing is named."""
        try:
            return _get(name)
        except ModuleNotFoundError:
            from ..extras import check  # noqa: PLC0415 - it is seldom needed

            check("the broker agent", "agent")
            raise


__all__ = ["AgentConfig", "AgentStatus", "BrokerAgent", "BrokerConf", "Phase", "TopicsFrom"]

"""The settings of the agent process: from flags, environment and agent.toml to a checked configuration."""

from .brokers import Awaiting, agent_config, settings_of
from .changes import Changes, changes
from .loading import load
from .sidecar_config import (
    CONFIG_FLAG,
    CONFIG_VARIABLE,
    DEFAULT_HTTP,
    OPTIONS,
    BrokerSettings,
    SidecarConfig,
)
from .text import as_toml, masked

__all__ = [
    "CONFIG_FLAG",
    "CONFIG_VARIABLE",
    "DEFAULT_HTTP",
    "OPTIONS",
    "Awaiting",
    "BrokerSettings",
    "Changes",
    "SidecarConfig",
    "agent_config",
    "as_toml",
    "changes",
    "load",
    "masked",
    "settings_of",
]

"""The settings of the agent process: from flags, environment and agent.toml to a checked configuration."""

from .loader import agent_config, load, settings_of
from .reload import Awaiting, Changes, changes
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

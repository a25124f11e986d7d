"""The settings of the agent process: from flags, environment and agent.toml to a checked configuration."""

from ..option import CONFIG_FLAG, CONFIG_VARIABLE, DEFAULT_HTTP, OPTIONS, Kind, Option, Section
from .awaiting import Awaiting
from .changes import Changes, changes
from .loading import load
from .sidecar_config import (
    AwaitedBroker,
    BrokerSettings,
    HttpAddress,
    SettingsInvalid,
    SidecarConfig,
    Value,
)
from .text import as_toml, masked

__all__ = [
    "CONFIG_FLAG",
    "CONFIG_VARIABLE",
    "DEFAULT_HTTP",
    "OPTIONS",
    "AwaitedBroker",
    "Awaiting",
    "BrokerSettings",
    "Changes",
    "HttpAddress",
    "Kind",
    "Option",
    "Section",
    "SettingsInvalid",
    "SidecarConfig",
    "Value",
    "as_toml",
    "changes",
    "load",
    "masked",
]

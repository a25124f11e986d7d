"""Bulk load of topic configurations: from files in the forms of others into a registry."""

from ..sources.routes_loading import Rules
from ..sources.routes_outcome import BrokerLoad
from .forms import Configs, Form, Source, read_configs
from .loading import LoadedInPart, LoadSummary, Target, load
from .tables import LOAD_CHANGES, LOAD_SUMMARY, SET_ASIDE

__all__ = [
    "LOAD_CHANGES",
    "LOAD_SUMMARY",
    "SET_ASIDE",
    "BrokerLoad",
    "Configs",
    "Form",
    "LoadSummary",
    "LoadedInPart",
    "Rules",
    "Source",
    "Target",
    "load",
    "read_configs",
]

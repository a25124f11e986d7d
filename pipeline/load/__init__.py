"""Bulk load of topic configurations: from files in the forms of others into a registry."""

from ..sources.routes_loading import BrokerLoad, Rules
from .forms import Configs, Form, Source, read_configs
from .loading import LoadSummary, Target, load
from .tables import LOAD_CHANGES, LOAD_SUMMARY, SET_ASIDE

__all__ = [
    "LOAD_CHANGES",
    "LOAD_SUMMARY",
    "SET_ASIDE",
    "BrokerLoad",
    "Configs",
    "Form",
    "LoadSummary",
    "Rules",
    "Source",
    "Target",
    "load",
    "read_configs",
]

"""Bulk load of topic configurations: from files in the forms of others into a registry."""

from ..schemas import LOAD_CHANGES, LOAD_SUMMARY, SET_ASIDE
from ..sources.routes_load import BrokerLoad, Rules
from .forms import Configs, Form, Source, read_configs
from .loader import LoadedInPart, LoadSummary, Target, load

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

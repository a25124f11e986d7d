"""A fleet that exists in Spark alone: what would clients meet?"""

from .config import FaultModel, FleetConfig, Happening, Traffic
from .outcome import HISTOGRAM, QUANTILES, SIMULATED_FAULTS, TABLES, TOTALS
from .run import Simulation, simulate
from .systems import SYSTEMS, ClientFaults, NameServers, SharedRoutes, System

__all__ = [
    "HISTOGRAM",
    "QUANTILES",
    "SIMULATED_FAULTS",
    "SYSTEMS",
    "TABLES",
    "TOTALS",
    "ClientFaults",
    "FaultModel",
    "FleetConfig",
    "Happening",
    "NameServers",
    "SharedRoutes",
    "Simulation",
    "System",
    "Traffic",
    "simulate",
]

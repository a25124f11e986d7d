"""Which brokers not to send to for a while, and how they come back."""

from .config import FaultConfig, Rules
from .detector import Detector
from .ladder import LADDER, LADDER_4, Ladder
from .memory import FaultMemory
from .probes import Probe, async_tcp_probe, tcp_probe
from .state import FaultReason, FaultState, IsolationReason, Verdict

__all__ = [
    "LADDER",
    "LADDER_4",
    "Detector",
    "FaultConfig",
    "FaultMemory",
    "FaultReason",
    "FaultState",
    "IsolationReason",
    "Ladder",
    "Probe",
    "Rules",
    "Verdict",
    "async_tcp_probe",
    "tcp_probe",
]

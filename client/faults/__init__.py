"""Which brokers not to send to for a while, and how they come back."""

from .broker import FaultReason, FaultState, IsolationReason
from .config import LADDER, LADDER_4, FaultConfig, Ladder, Rules, Tuning
from .memory import FaultMemory, Verdict
from .probes import Detector, Probe, async_tcp_probe, tcp_probe

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
    "Tuning",
    "Verdict",
    "async_tcp_probe",
    "tcp_probe",
]

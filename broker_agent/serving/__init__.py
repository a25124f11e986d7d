"""What the agent process serves over HTTP: its health, its status, its metrics, and its controls."""

from .http import AddressTaken, HttpServer
from .pages import Pages
from .process import BrokerStatus, Process, ProcessStatus

__all__ = ["AddressTaken", "BrokerStatus", "HttpServer", "Pages", "Process", "ProcessStatus"]

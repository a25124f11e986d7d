"""What the agent process serves over HTTP: its health, its status, its metrics, and its controls."""

from .pages import Pages
from .server import AddressTaken, HttpServer
from .state import BrokerStatus, Process, ProcessStatus

__all__ = ["AddressTaken", "BrokerStatus", "HttpServer", "Pages", "Process", "ProcessStatus"]

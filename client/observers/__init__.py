"""Observers of a route client: logs, metrics, samples; `prometheus` and `otel` need an extra each."""

from .events import Event, Observer, Tell, tell_all
from .log import LogObserver

__all__ = ["Event", "LogObserver", "Observer", "Tell", "tell_all"]

"""What a route client tells of itself, and who listens; `prometheus` and `otel` need an extra each."""

from .events import Event, Observer, Tell
from .fanout import tell_all, tell_nobody
from .log import LogObserver

__all__ = ["Event", "LogObserver", "Observer", "Tell", "tell_all", "tell_nobody"]

"""What observers that feed a system of metrics have in common."""

from __future__ import annotations

from typing import Protocol

from .events import Event
from .metrics import COUNTERS, Metric, measured
from .watched import Watched, WatchedClients


class Sink(Protocol):
    """Where numbers go: the metrics of all clients in one system of metrics."""

    @property
    def clients(self) -> WatchedClients: ...  # noqa: D102
    def add(self, metric: Metric, client: str, labels: tuple[str, ...], value: float) -> None:
        """Take in a number of the client of this name."""


class MetricsObserver:
    """Counts the events of the client of this name, and shows its state."""

    def __init__(self, sink: Sink, name: str) -> None:
        self._sink = sink
        self._name = name
        for metric in COUNTERS:
            if not metric.labels:  # begun with 0, a counter's first step is seen as an increase
                sink.add(metric, name, (), 0)

    def named(self, name: str) -> MetricsObserver:
        """Return an observer for the client of another name, which adds to the same metrics."""
        return MetricsObserver(self._sink, name)

    def on_event(self, event: Event) -> None:
        """Count one event."""
        for metric, labels, value in measured(event):
            self._sink.add(metric, self._name, labels, value)

    def watch(self, client: Watched) -> None:
        """Show the state of a client under this observer's name for as long as somebody uses the client.

        A client that was shown under this name before is no longer.
        """
        self._sink.clients.watch(self._name, client)

"""State changes of a route client as structured log lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from logging import INFO, WARNING
from typing import Any, Final, TypeAlias

from ...registry.wording import some
from .events import (
    BrokerIsolated,
    BrokerReturned,
    BrokersSuspected,
    Event,
    FeedLost,
    LossHeld,
    LossReleased,
    ServerChanged,
    SnapshotUnusable,
    SourceChanged,
)

_log: Final = logging.getLogger("sharedroutes.client")

_NAMED: Final = 5
"""So many names are written out in a message; the fields of the record have them all."""

_Line: TypeAlias = tuple[int, str, tuple[object, ...]]
"""Level, message, and the values in it."""


class LogObserver:
    """Logs state changes to `sharedroutes.client`, and nothing that happens with each message or lookup.

    A record has the name of the event's class in its attribute `event`, and each field of the event in an
    attribute of the field's name, which is what formatters for JSON print.
    """

    def on_event(self, event: Event) -> None:
        """Log one event, if it is a change of state."""
        line_of = _LINES.get(type(event))
        line = None if line_of is None else line_of(event)
        if line is None:
            return
        level, message, values = line
        extra = {field.name: getattr(event, field.name) for field in fields(event)}
        _log.log(level, message, *values, extra={"event": type(event).__name__, **extra})


def _some(names: tuple[str, ...]) -> str:
    return some(names, _NAMED) or "none"


def _source_changed(event: SourceChanged) -> _Line | None:
    if event.new != "live":
        if event.reason:
            message = "the store does not answer, serving the last known routes: %s"
            return WARNING, message, (event.reason,)
        return INFO, "routes come from %s until the store answers", (event.new,)
    if event.reason or event.old == "memory":
        return INFO, "the store answers again", ()
    return None  # the first contact, as it should be


def _feed_lost(event: FeedLost) -> _Line:
    return WARNING, "the store lost changes after %s: all is read again", (event.position,)


def _server_changed(event: ServerChanged) -> _Line:
    level = WARNING if event.role == "primary" else INFO
    return level, "the store is read at %s, a %s", (event.server, event.role)


def _loss_held(event: LossHeld) -> _Line:
    message = "the store lacks what is known, which stays in use until that is sure: brokers %s; topics %s"
    return WARNING, message, (_some(event.brokers), _some(event.topics))


def _loss_released(event: LossReleased) -> _Line:
    if event.how == "returned":
        return INFO, "all that was held back has come back", ()
    return WARNING, "what was lacking is believed to be lost now (%s)", (event.how,)


def _isolated(event: BrokerIsolated) -> _Line:
    message = "broker %s is left alone for %.1f s (%s)"
    return WARNING, message, (event.broker_name, event.for_s, event.reason)


def _suspected(event: BrokersSuspected) -> _Line:
    if not event.broker_names:
        return INFO, "no broker is suspected by other clients any more", ()
    return WARNING, "other clients cannot reach brokers %s", (_some(event.broker_names),)


def _unusable(event: SnapshotUnusable) -> _Line:
    how = "is not used" if event.use == "read" else "cannot be written"
    return WARNING, f"the snapshot %s {how}: %s", (event.path, event.reason)


_LINES: Final[Mapping[type[object], Callable[[Any], _Line | None]]] = {
    SourceChanged: _source_changed,
    FeedLost: _feed_lost,
    ServerChanged: _server_changed,
    LossHeld: _loss_held,
    LossReleased: _loss_released,
    BrokerIsolated: _isolated,
    BrokerReturned: lambda event: (INFO, "broker %s is used again", (event.broker_name,)),
    BrokersSuspected: _suspected,
    SnapshotUnusable: _unusable,
}

"""State changes of a route client as structured log lines."""

from __future__ import annotations

import logging
from dataclasses import fields
from logging import INFO, WARNING
from typing import Final, TypeAlias

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
        line = _line_of(event)
        if line is None:
            return
        level, message, values = line
        extra = {field.name: getattr(event, field.name) for field in fields(event)}
        _log.log(level, message, *values, extra={"event": type(event).__name__, **extra})


def _line_of(event: Event) -> _Line | None:
    line: _Line | None = None
    match event:
        case SourceChanged():
            line = _source_changed(event)
        case LossHeld() | LossReleased():
            line = _loss(event)
        case BrokerIsolated(name, reason, for_s):
            line = WARNING, "broker %s is left alone for %.1f s (%s)", (name, for_s, reason)
        case BrokerReturned(name):
            line = INFO, "broker %s is used again", (name,)
        case BrokersSuspected(names) if names:
            line = WARNING, "other clients cannot reach brokers %s", (_some(names),)
        case BrokersSuspected():
            line = INFO, "no broker is suspected by other clients any more", ()
        case FeedLost(position):
            line = WARNING, "the store lost changes after %s: all is read again", (position,)
        case ServerChanged(server, role):
            line = WARNING if role == "primary" else INFO, "the store is read at %s, a %s", (server, role)
        case SnapshotUnusable(path, reason, use):
            how = "is not used" if use == "read" else "cannot be written"
            line = WARNING, f"the snapshot %s {how}: %s", (path, reason)
    return line


def _source_changed(event: SourceChanged) -> _Line | None:
    if event.new != "live":
        if event.reason:
            return WARNING, "the store does not answer, serving the last known routes: %s", (event.reason,)
        return INFO, "routes come from %s until the store answers", (event.new,)
    if event.reason or event.old == "memory":
        return INFO, "the store answers again", ()
    return None  # the first contact, as it should be


def _loss(event: LossHeld | LossReleased) -> _Line:
    if isinstance(event, LossHeld):
        message = (
            "the store lacks what is known, which stays in use until that is sure: brokers %s; topics %s"
        )
        return WARNING, message, (_some(event.brokers), _some(event.topics))
    if event.how == "returned":
        return INFO, "all that was held back has come back", ()
    return WARNING, "what was lacking is believed to be lost now (%s)", (event.how,)


def _some(names: tuple[str, ...]) -> str:
    return some(names, _NAMED) or "none"

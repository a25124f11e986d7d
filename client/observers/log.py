"""State changes of a route client as structured log lines."""

from __future__ import annotations

import logging
from dataclasses import fields
from functools import singledispatch
from typing import Final, TypeAlias

from .events import (
    BrokerIsolated,
    BrokerReturned,
    BrokersSuspected,
    Event,
    FeedLost,
    LossHeld,
    LossReleased,
    SnapshotUnusable,
    SourceChanged,
)

_NAMED: Final = 5
"""So many names are written out in a message; the fields of the record have them all."""

_Line: TypeAlias = tuple[int, str, tuple[object, ...]]


class LogObserver:
    """Logs state changes, and nothing that happens with each message or lookup.

    A record has the name of the event's class in its attribute `event`, and each field of the event in an
    attribute of the field's name, which is what formatters for JSON print.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("sharedroutes.client")

    def on_event(self, event: Event) -> None:
        """Log one event, if it is a change of state."""
        line = _line(event)
        if line is None:
            return
        level, message, values = line
        extra = {field.name: getattr(event, field.name) for field in fields(event)}
        self._logger.log(level, message, *values, extra={"event": type(event).__name__, **extra})


def _some(names: tuple[str, ...]) -> str:
    told = ", ".join(names[:_NAMED])
    return f"{told} and {len(names) - _NAMED} more" if len(names) > _NAMED else told or "none"


@singledispatch
def _line(_event: object) -> _Line | None:
    return None


@_line.register
def _(event: SourceChanged) -> _Line | None:
    if event.new != "live":
        if event.reason:
            message = "the store does not answer, serving the last known routes: %s"
            return logging.WARNING, message, (event.reason,)
        return logging.INFO, "routes come from %s until the store answers", (event.new,)
    if event.reason or event.old == "memory":
        return logging.INFO, "the store answers again", ()
    return None  # the first contact, as it should be


@_line.register
def _(event: FeedLost) -> _Line:
    return logging.WARNING, "the store lost changes after %s: all is read again", (event.position,)


@_line.register
def _(event: LossHeld) -> _Line:
    message = "the store lacks what is known, which stays in use until that is sure: brokers %s; topics %s"
    return logging.WARNING, message, (_some(event.brokers), _some(event.topics))


@_line.register
def _(event: LossReleased) -> _Line:
    if event.how == "returned":
        return logging.INFO, "all that was held back has come back", ()
    return logging.WARNING, "what was lacking is believed to be lost now (%s)", (event.how,)


@_line.register
def _(event: BrokerIsolated) -> _Line:
    message = "broker %s is left alone for %.1f s (%s)"
    return logging.WARNING, message, (event.broker_name, event.for_s, event.reason)


@_line.register
def _(event: BrokerReturned) -> _Line:
    return logging.INFO, "broker %s is used again", (event.broker_name,)


@_line.register
def _(event: BrokersSuspected) -> _Line:
    if not event.broker_names:
        return logging.INFO, "no broker is suspected by other clients any more", ()
    return logging.WARNING, "other clients cannot reach brokers %s", (_some(event.broker_names),)


@_line.register
def _(event: SnapshotUnusable) -> _Line:
    read = event.use == "read"
    message = "the snapshot %s is not used: %s" if read else "the snapshot %s cannot be written: %s"
    return logging.WARNING, message, (event.path, event.reason)

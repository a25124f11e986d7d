"""Tells every observer, whatever one of them does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from .events import Event, Observer, Tell

_log: Final = logging.getLogger("sharedroutes.client")

_Told: TypeAlias = tuple[str, Callable[[Event], None]]


def tell_nobody(event: Event) -> None:
    """Do nothing: compare with this to save making an event that nobody hears."""


def tell_all(observers: Iterable[Observer]) -> Tell:
    """Return what tells each observer in turn; tell_nobody when there is none.

    What an observer raises reaches neither the caller nor the others; each kind of error of each observer is
    logged once, because events can be as frequent as messages.
    """
    told: tuple[_Told, ...] = tuple(
        (type(observer).__qualname__, observer.on_event) for observer in observers
    )
    if not told:
        return tell_nobody
    known: set[tuple[int, type[Exception]]] = set()

    def complain(place: int, error: Exception, event: Event) -> None:
        if (place, type(error)) not in known:
            known.add((place, type(error)))
            _log.exception("observer %s failed at %s, said once", told[place][0], type(event).__name__)

    if len(told) == 1:
        return _tell_one(told[0][1], complain)

    def tell(event: Event) -> None:
        for place, (_, on_event) in enumerate(told):
            try:
                on_event(event)
            except Exception as error:  # noqa: BLE001 - nobody's routes suffer from who looks on
                complain(place, error, event)

    return tell


def _tell_one(on_event: Tell, complain: Callable[[int, Exception, Event], None]) -> Tell:
    """Return what tells the only observer: at each message a loop would cost more than the call itself."""

    def tell(event: Event) -> None:
        try:
            on_event(event)
        except Exception as error:  # noqa: BLE001 - nobody's routes suffer from who looks on
            complain(0, error, event)

    return tell

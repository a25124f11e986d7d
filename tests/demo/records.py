"""Records of a run of the demo, made up."""

from __future__ import annotations

from collections.abc import Iterable

from demo.results import Log, Observed
from demo.scenario import SCENARIO, Event
from demo.sender import Message, Try


def event(name: str) -> Event:
    """Return the event of the demo with this name."""
    (found,) = (one for one in SCENARIO if one.name == name)
    return found


def observed(
    name: str,
    at_s: float,
    noticed_s: float | None,
    live: Iterable[str] = (),
    began_s: float | None = None,
) -> Observed:
    """Return an event that began at `at_s` unless said otherwise."""
    return Observed(event(name), at_s if began_s is None else began_s, at_s, noticed_s, frozenset(live))


def try_of(message_id: int, broker: str, at_s: float, *, number: int = 1, failed: bool = False) -> Try:
    """Return an attempt that took 1 ms."""
    return Try(message_id, number, broker, at_s - 0.001, at_s, failed)


def log_of(tries: Iterable[Try], ended_s: float) -> Log:
    """Return the log in which every message's last attempt decided, and the journals tell the same."""
    tries = tuple(tries)
    first = {one.message_id: one.began_s for one in reversed(tries)}
    last = {one.message_id: "" if one.failed else one.broker_name for one in tries}
    messages = [
        Message(message_id, first[message_id], last[message_id], "" if last[message_id] else "gave up")
        for message_id in sorted(first)
    ]
    brokers = {one.broker_name for one in tries}
    stored = {name: {message_id for message_id, by in last.items() if by == name} for name in brokers}
    return Log(tries, messages, stored, ended_s)

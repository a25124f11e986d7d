"""What the demo's records say; pure. All times are in seconds of one monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from .scenario import Event


class Try(NamedTuple):
    """One attempt to send one message."""

    message_id: int
    number: int
    """1 for the first attempt."""

    broker_name: str
    began_s: float
    ended_s: float
    failed: bool


class Message(NamedTuple):
    """One message, after its last attempt."""

    message_id: int
    began_s: float
    acknowledged_by: str
    """The broker that acknowledged it; empty = none did."""

    problem: str = ""
    """Why none did."""


@dataclass(frozen=True, slots=True)
class Log:
    """All that was recorded in one run."""

    tries: Sequence[Try]
    messages: Sequence[Message]
    stored: Mapping[str, AbstractSet[int]]
    """The ids that each broker's own journal holds."""

    ended_s: float


@dataclass(frozen=True, slots=True)
class Observed:
    """One event, as it was seen while it happened."""

    event: Event
    began_s: float
    """When the act began; what was sent from here on belongs to this event."""

    at_s: float
    """What is measured from: a process is killed, or listens again, or Redis answers."""

    noticed_s: float | None
    """When the awaited effect was there; None = not within the deadline."""

    live: frozenset[str]
    """The brokers that live throughout the event."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one event came to."""

    event: Event
    at_s: float
    """Since the first event."""

    seen: bool
    client_s: float | None
    """Until the client used a dead broker for the last time, or a new one for the first; None = neither."""

    noticed_s: float | None
    """Until the awaited effect was there; None = it never was."""

    sent: int
    failed_first: int
    lost: int
    longest_pause_s: float
    """The longest time for which some live broker was not used."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the whole run came to."""

    outcomes: tuple[Outcome, ...]
    duration_s: float
    sent: int
    failed_first: int
    losses: tuple[str, ...]
    """A sentence for every message that was lost."""

    @property
    def ok(self) -> bool:
        """Whether every event was seen and no message was lost."""
        return not self.losses and all(outcome.seen for outcome in self.outcomes)


def measure(observed: Sequence[Observed], log: Log, *, pause_limit_s: float) -> Report:
    """Return what the records say about the events, which are in the order in which they happened.

    A live broker that the client leaves unused for longer than `pause_limit_s` while Redis is away or empty
    means that the event was not survived.
    """
    start_s = observed[0].began_s
    losses = {message.message_id: text for message in log.messages if (text := _loss(message, log))}
    outcomes = []
    for number, one in enumerate(observed):
        later = observed[number + 1 :]
        window = _window(log, one.began_s, later[0].began_s if later else log.ended_s)
        client_s = _client_s(one, log.tries, _return_s(one, later, log.ended_s))
        pause_s = max((_pause_s(window, name) for name in one.live), default=0.0)
        outcomes.append(
            Outcome(
                event=one.event,
                at_s=one.at_s - start_s,
                seen=_seen(one, client_s, len(window.messages), pause_s, pause_limit_s),
                client_s=client_s,
                noticed_s=None if one.noticed_s is None else max(0.0, one.noticed_s - one.at_s),
                sent=len(window.messages),
                failed_first=_failed_first(window.tries),
                lost=sum(message.message_id in losses for message in window.messages),
                longest_pause_s=pause_s,
            )
        )
    return Report(
        outcomes=tuple(outcomes),
        duration_s=log.ended_s - start_s,
        sent=len(log.messages),
        failed_first=_failed_first(log.tries),
        losses=tuple(losses.values()),
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """What was sent between one event and the next."""

    from_s: float
    to_s: float
    messages: Sequence[Message]
    tries: Sequence[Try]


def _window(log: Log, from_s: float, to_s: float) -> _Window:
    messages = [message for message in log.messages if from_s <= message.began_s < to_s]
    ids = {message.message_id for message in messages}
    return _Window(from_s, to_s, messages, [one for one in log.tries if one.message_id in ids])


def _loss(message: Message, log: Log) -> str:
    """Return how a message was lost; empty = it was not."""
    if not message.acknowledged_by:
        return f"message {message.message_id}: {message.problem}"
    if message.message_id not in log.stored.get(message.acknowledged_by, ()):
        return f"message {message.message_id}: {message.acknowledged_by} acknowledged it and does not have it"
    return ""


def _failed_first(tries: Iterable[Try]) -> int:
    return sum(one.failed and one.number == 1 for one in tries)


def _return_s(one: Observed, later: Iterable[Observed], end_s: float) -> float:
    """Return when a broker of the event begins to come back, or the end of all."""
    brokers = set(one.event.brokers)
    return next((other.began_s for other in later if brokers & set(other.event.brokers)), end_s)


def _client_s(one: Observed, tries: Sequence[Try], return_s: float) -> float | None:
    event = one.event
    if event.happening.is_death:
        lasts = [
            use.ended_s
            for use in tries
            if use.broker_name in event.brokers and use.ended_s >= one.at_s and use.began_s < return_s
        ]
        return max(lasts, default=one.at_s) - one.at_s
    if event.happening.is_birth:
        firsts = [_first_s(tries, name, one.began_s) for name in event.brokers]
        if None in firsts:
            return None
        return max(0.0, *(first_s - one.at_s for first_s in firsts if first_s is not None))
    return None


def _first_s(tries: Iterable[Try], name: str, from_s: float) -> float | None:
    """Return when a broker acknowledged a message for the first time."""
    firsts = (use.ended_s for use in tries if use.broker_name == name and not use.failed)
    return min((ended_s for ended_s in firsts if ended_s >= from_s), default=None)


def _pause_s(window: _Window, name: str) -> float:
    """Return the longest time for which a broker acknowledged nothing."""
    uses = [use.ended_s for use in window.tries if use.broker_name == name and not use.failed]
    return max(later - earlier for earlier, later in pairwise(sorted([window.from_s, *uses, window.to_s])))


def _seen(one: Observed, client_s: float | None, sent: int, pause_s: float, pause_limit_s: float) -> bool:
    """Whether the awaited effect was there in time, and what was not to be affected was not."""
    if one.noticed_s is None or sent == 0:
        return False
    if one.event.happening.is_of_broker:
        return client_s is not None and client_s <= one.event.deadline_s
    return pause_s <= pause_limit_s

"""What the demo found: computed from its records, as a table for people and a document for programs.

All times are in seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import orjson
from rich.console import Group, RenderableType
from rich.text import Text

from sharedroutes import __version__
from sharedroutes.client import ClientConfig
from sharedroutes.registry import RegistryConfig

from .command import event_table, first_of
from .scenario import SETTINGS, Event
from .sender import Message, Try


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
    """When the act began; messages from here on belong to this event."""

    at_s: float
    """When a process was killed, or listened again, or Redis answered: the event is measured from here."""

    noticed_s: float | None
    """When the awaited effect was there; None = not within the deadline."""

    live: frozenset[str]
    """The brokers that live throughout the event."""

    @property
    def noticed_after_s(self) -> float | None:
        """How long it took until the awaited effect was there; None = not within the deadline."""
        return None if self.noticed_s is None else max(0.0, self.noticed_s - self.at_s)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one event."""

    event: Event
    at_s: float
    """Since the first event."""

    seen: bool
    client_s: float | None
    """Until the client used a dead broker for the last time, or a new one for the first; None = neither."""

    noticed_s: float | None
    sent: int
    failed_first: int
    lost: int
    longest_pause_s: float
    """The longest time for which some live broker was not used."""


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of the whole run."""

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


def measure(observed: Sequence[Observed], log: Log) -> Report:
    """Compute the figures of the events, which are in the order in which they happened.

    A live broker that the client leaves unused for longer than `pause_limit_s` of the settings while Redis is
    away or empty means that the event was not survived.
    """
    start_s = observed[0].began_s
    losses = {message.message_id: text for message in log.messages if (text := _loss(message, log))}
    outcomes = []
    for number, one in enumerate(observed):
        later = observed[number + 1 :]
        end_s = later[0].began_s if later else log.ended_s
        messages = {message.message_id for message in log.messages if one.began_s <= message.began_s < end_s}
        tries = [use for use in log.tries if use.message_id in messages]
        client_s = _client_s(one, log.tries, _return_s(one, later, log.ended_s))
        pause_s = max((_pause_s(tries, name, one.began_s, end_s) for name in one.live), default=0.0)
        outcomes.append(
            Outcome(
                event=one.event,
                at_s=one.at_s - start_s,
                seen=bool(messages) and _is_seen(one, client_s, pause_s),
                client_s=client_s,
                noticed_s=one.noticed_after_s,
                sent=len(messages),
                failed_first=_failed_first(tries),
                lost=len(messages & losses.keys()),
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


def _loss(message: Message, log: Log) -> str:
    """Return how a message was lost; empty = it was not."""
    if not message.acknowledged_by:
        return f"message {message.message_id}: {message.problem}"
    if message.message_id not in log.stored.get(message.acknowledged_by, ()):
        return f"message {message.message_id}: {message.acknowledged_by} acknowledged it and does not have it"
    return ""


def _failed_first(tries: Iterable[Try]) -> int:
    return sum(use.failed and use.number == 1 for use in tries)


def _return_s(one: Observed, later: Iterable[Observed], end_s: float) -> float:
    """Return when a broker of the event begins to come back, or the end of all."""
    brokers = set(one.event.brokers)
    return next((other.began_s for other in later if brokers & set(other.event.brokers)), end_s)


def _client_s(one: Observed, tries: Sequence[Try], return_s: float) -> float | None:
    event = one.event
    uses = [use for use in tries if use.broker_name in event.brokers]
    if event.kind == "death":
        ends_s = [use.ended_s for use in uses if use.ended_s >= one.at_s and use.began_s < return_s]
        return max(ends_s, default=one.at_s) - one.at_s
    if event.kind == "birth":
        firsts: dict[str, float] = {}
        for use in sorted(uses, key=lambda use: use.ended_s):
            if not use.failed and use.ended_s >= one.began_s:
                firsts.setdefault(use.broker_name, use.ended_s)
        if len(firsts) == len(event.brokers):
            return max(0.0, max(firsts.values()) - one.at_s)
    return None


def _pause_s(tries: Iterable[Try], name: str, from_s: float, to_s: float) -> float:
    """Return the longest time for which a broker acknowledged nothing."""
    uses = [use.ended_s for use in tries if use.broker_name == name and not use.failed]
    return max(later - earlier for earlier, later in pairwise(sorted([from_s, *uses, to_s])))


def _is_seen(one: Observed, client_s: float | None, pause_s: float) -> bool:
    """Whether the awaited effect was there in time, and nothing else was affected."""
    if one.noticed_s is None:
        return False
    if one.event.kind == "outage":
        return pause_s <= SETTINGS.pause_limit_s
    return client_s is not None and client_s <= one.event.deadline_s


def to_json(report: Report) -> str:
    """Return one document with all figures; times are in seconds."""
    document = {
        "version": __version__,
        "ok": report.ok,
        "duration_s": _rounded(report.duration_s),
        "settings": asdict(SETTINGS),
        "messages": {
            "sent": report.sent,
            "first_attempts_failed": report.failed_first,
            "lost": len(report.losses),
            "losses": report.losses,
        },
        "events": [_event(outcome) for outcome in report.outcomes],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def _event(outcome: Outcome) -> dict[str, Any]:
    return {
        "event": outcome.event.name,
        "title": outcome.event.title,
        "brokers": outcome.event.brokers,
        "at_s": _rounded(outcome.at_s),
        "seen": outcome.seen,
        "client_s": _rounded(outcome.client_s),
        "noticed_s": _rounded(outcome.noticed_s),
        "longest_pause_s": _rounded(outcome.longest_pause_s),
        "messages": outcome.sent,
        "first_attempts_failed": outcome.failed_first,
        "lost": outcome.lost,
        "name_server": {"calculated_worst_s": outcome.event.worst_s, "why": outcome.event.why},
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def summary(report: Report) -> RenderableType:
    """Return a line for each event, the meaning of its figures, and the verdict; 80 columns wide."""
    figures = ("noticed", "in use", "pause", "RocketMQ*", "sent", "retried", "lost")
    table = event_table("what the client saw", *figures)
    for outcome in report.outcomes:
        table.add_row(outcome.event.short_title, *_figures(outcome), style="" if outcome.seen else "bold red")
    return Group("", table, "", *map(Text, _notes()), *_verdict(report))


def _figures(outcome: Outcome) -> Iterator[str]:
    yield _seconds(outcome.noticed_s) if outcome.seen else "NOT SEEN"
    yield _seconds(outcome.client_s)
    yield _seconds(outcome.longest_pause_s if outcome.event.kind == "outage" else None)
    worst_s = outcome.event.worst_s
    yield "as here" if worst_s is None else f"{worst_s:g} s"
    yield from (f"{number:,}" for number in (outcome.sent, outcome.failed_first, outcome.lost))


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f} s"


def _notes() -> list[str]:
    """Return the notes below the table."""
    usual_ttl_s, look_s = RegistryConfig().lease_ttl_s, ClientConfig().tail_s
    here_s, usual_s = SETTINGS.lease_ttl_s + look_s, usual_ttl_s + look_s
    return [
        "noticed: the client's routes were right again. in use: the last use of a broker",
        "that died, or the first of one that came. pause: the longest time without a use",
        "of some live broker. retried: messages whose first attempt failed.",
        "* RocketMQ 5's name server at worst, calculated from its default timers:",
        "  clients ask every 30 s, brokers register every 30 s, silence is noticed after",
        "  120 s. Here every event is measured once.",
        f"A lost host is noticed when its lease ends, here {here_s:g} s later at worst: leases last",
        f"{SETTINGS.lease_ttl_s:g} s. By default that is {usual_s:g} s, and leases last {usual_ttl_s:g} s.",
        "",
    ]


def _verdict(report: Report) -> Iterator[Text]:
    seen = sum(outcome.seen for outcome in report.outcomes)
    attempts = "attempt" if report.failed_first == 1 else "attempts"
    yield Text(
        f"{report.sent:,} messages in {report.duration_s:.1f} s, {len(report.losses)} lost, "
        f"{report.failed_first} first {attempts} failed; {seen} of {len(report.outcomes)} events seen",
        style="bold green" if report.ok else "bold red",
    )
    for one in report.outcomes:
        if not one.seen:
            yield Text(f"  {one.event.short_title}: NOT SEEN {_why_not_seen(one)}")
    yield from first_of(report.losses)


def _why_not_seen(outcome: Outcome) -> str:
    if outcome.noticed_s is None or (outcome.client_s is None and outcome.event.kind == "birth"):
        return f"within {outcome.event.deadline_s:g} s"
    if outcome.client_s is not None:
        return f"within {outcome.event.deadline_s:g} s: {outcome.client_s:.2f} s"
    return f"as it should: {outcome.sent} messages, longest pause {outcome.longest_pause_s:.2f} s"

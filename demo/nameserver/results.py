"""What the name server demo found, as a table for people and a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self

import orjson
from rich.console import Group, RenderableType
from rich.text import Text

from sharedroutes import __version__

from ..command import event_table, first_of
from .rocketmq import RELEASE
from .scenario import RECEIVED_S, Event
from .traffic import Said


@dataclass(frozen=True, slots=True)
class Observed:
    """One event, as it was seen while it happened."""

    event: Event
    began_s: float
    """By the monotonic clock."""

    seen_after_s: float | None
    """When its effect was there; None = not within its bound."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One event, and the messages until the next one."""

    observed: Observed
    sent: int
    failed: int
    received: int


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of the whole run."""

    outcomes: tuple[Outcome, ...]
    duration_s: float
    sent: int
    received: int
    """Messages that the consumer has, each counted once."""

    repeated: int
    """Times that it has got one again: RocketMQ delivers at least once."""

    lost: int
    """Messages that a broker has acknowledged, and the consumer has not received."""

    failures: tuple[str, ...]
    """Why sends have failed, after all their attempts."""

    @classmethod
    def of(cls, observed: Sequence[Observed], said: Sequence[Said], ended_s: float) -> Self:
        """Count what was said about messages, in all and between the beginnings of the events."""

        def count(what: str, from_s: float, to_s: float) -> int:
            return sum(one.what == what and from_s <= one.at_s < to_s for one in said)

        begins = [*(one.began_s for one in observed), float("inf")]
        spans = zip(observed, pairwise(begins), strict=True)
        sent, received = (
            {one.message_id for one in said if one.what == what} for what in ("sent", "received")
        )
        return cls(
            outcomes=tuple(
                Outcome(one, count("sent", *span), count("failed", *span), count("received", *span))
                for one, span in spans
            ),
            duration_s=ended_s - observed[0].began_s,
            sent=len(sent),
            received=len(received),
            repeated=sum(one.what == "received" for one in said) - len(received),
            lost=len(sent - received),
            failures=tuple(f"message {one.message_id}: {one.rest}" for one in said if one.what == "failed"),
        )

    @property
    def ok(self) -> bool:
        """Whether every event was seen, and no send has failed and no message was lost."""
        seen = all(one.observed.seen_after_s is not None for one in self.outcomes)
        return seen and self.sent > 0 and not self.lost and not self.failures


def to_json(report: Report) -> str:
    """Return one document with all figures; times are in seconds."""
    document = {
        "version": __version__,
        "rocketmq": RELEASE,
        "ok": report.ok,
        "duration_s": round(report.duration_s, 2),
        "messages": {
            "sent": report.sent,
            "received": report.received,
            "repeated": report.repeated,
            "lost": report.lost,
            "failed": len(report.failures),
            "failures": report.failures,
        },
        "events": [_event(one, report.outcomes[0].observed.began_s) for one in report.outcomes],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def _event(outcome: Outcome, start_s: float) -> dict[str, Any]:
    event, after_s = outcome.observed.event, outcome.observed.seen_after_s
    return {
        "event": event.name,
        "title": event.title,
        "at_s": round(outcome.observed.began_s - start_s, 2),
        "seen": after_s is not None,
        "seen_after_s": None if after_s is None else round(after_s, 3),
        "bound_s": event.bound_s,
        "original": event.original,
        "sent": outcome.sent,
        "failed": outcome.failed,
        "received": outcome.received,
    }


def summary(report: Report) -> RenderableType:
    """Return a line for each event, the meaning of its figures, and the verdict; 80 columns wide."""
    figures = ("seen after", "at most", "RocketMQ*", "sent", "failed", "received")
    table = event_table("what happened", *figures)
    for one in report.outcomes:
        event, after_s = one.observed.event, one.observed.seen_after_s
        seen = "NOT SEEN" if after_s is None else f"{after_s:.2f} s"
        numbers = (f"{number:,}" for number in (one.sent, one.failed, one.received))
        style = "" if after_s is not None and not one.failed else "bold red"
        table.add_row(event.short_title, seen, f"{event.bound_s:g} s", event.original, *numbers, style=style)
    return Group("", table, "", *map(Text, _NOTES), *_verdict(report))


_NOTES: Final = (
    "seen after: until both fronts' answers, and the clients, showed the effect.",
    "The clients ask for routes each second (by default every 30 s), and after 2 s go",
    "from a broker that does not answer to the other one.",
    "* The same at RocketMQ's own name servers, whose brokers register every 30 s;",
    "  where Redis is emptied here, a name server that was started again.",
    "",
)


def _verdict(report: Report) -> Iterator[Text]:
    seen = sum(one.observed.seen_after_s is not None for one in report.outcomes)
    again = f" ({report.repeated:,} of them more than once)" if report.repeated else ""
    yield Text(
        f"{report.sent:,} messages sent in {report.duration_s:.1f} s, {report.received:,} received{again}, "
        f"{report.lost:,} lost, {len(report.failures):,} sends failed; "
        f"{seen} of {len(report.outcomes)} events seen",
        style="bold green" if report.ok else "bold red",
    )
    if report.lost:
        yield Text(f"  lost: acknowledged, and not received within {RECEIVED_S:g} s after the end")
    for one in report.outcomes:
        if one.observed.seen_after_s is None:
            event = one.observed.event
            yield Text(f"  {event.short_title}: NOT SEEN within {event.bound_s:g} s: {event.effect}")
    yield from first_of(report.failures)

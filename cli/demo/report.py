"""The end of the demo: a table for people, a document for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import orjson
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ... import __version__
from ...client import ClientConfig
from ...registry import RegistryConfig
from .measure import Outcome, Report
from .scenario import Settings

_MAX_LOSSES: Final = 10


def summary(report: Report, settings: Settings) -> RenderableType:
    """Return a line for each event, what its figures mean, and the verdict; 80 columns wide."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("what the client saw", no_wrap=True)
    for header in ("noticed", "in use", "pause", "RocketMQ*", "sent", "retried", "lost"):
        table.add_column(header, justify="right", no_wrap=True)
    for outcome in report.outcomes:
        table.add_row(outcome.event.short_title, *_figures(outcome), style="" if outcome.seen else "bold red")
    return Group("", table, "", *(Text(line) for line in _notes(settings)), *_verdict(report))


def to_json(report: Report, settings: Settings) -> str:
    """Return one document with all figures; times are in seconds."""
    document = {
        "version": __version__,
        "ok": report.ok,
        "duration_s": _rounded(report.duration_s),
        "settings": asdict(settings),
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
        "event": outcome.event.happening,
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
        "name_server": {
            "calculated_worst_s": outcome.event.name_server.worst_s,
            "why": outcome.event.name_server.why,
        },
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def _figures(outcome: Outcome) -> Iterator[str]:
    yield _seconds(outcome.noticed_s) if outcome.seen else "NOT SEEN"
    yield _seconds(outcome.client_s)
    yield _seconds(None if outcome.event.happening.is_of_broker else outcome.longest_pause_s)
    worst_s = outcome.event.name_server.worst_s
    yield "as here" if worst_s is None else f"{worst_s:g} s"
    yield from (f"{number:,}" for number in (outcome.sent, outcome.failed_first, outcome.lost))


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f} s"


def _why_not_seen(outcome: Outcome) -> str:
    if outcome.noticed_s is None or (outcome.client_s is None and outcome.event.happening.is_birth):
        return f"within {outcome.event.deadline_s:g} s"
    if outcome.client_s is not None:
        return f"within {outcome.event.deadline_s:g} s: {outcome.client_s:.2f} s"
    return f"as it should: {outcome.sent} messages, longest pause {outcome.longest_pause_s:.2f} s"


def _notes(settings: Settings) -> list[str]:
    """Return what has to be known to judge the table."""
    usual_ttl_s, look_s = RegistryConfig().lease_ttl_s, ClientConfig().tail_s
    here_s, usual_s = settings.lease_ttl_s + look_s, usual_ttl_s + look_s
    return [
        "noticed: the client's routes were right again. in use: the last use of a broker",
        "that died, or the first of one that came. pause: the longest time without a use",
        "of some live broker. retried: messages whose first attempt failed.",
        "* RocketMQ 5's name server at worst, calculated from its default timers:",
        "  clients ask every 30 s, brokers register every 30 s, silence is noticed after",
        "  120 s. Here every event is measured once.",
        f"A lost host is noticed when its lease ends, here {here_s:g} s later at worst: leases last",
        f"{settings.lease_ttl_s:g} s. By default that is {usual_s:g} s, and leases last {usual_ttl_s:g} s.",
        "",
    ]


def _verdict(report: Report) -> list[Text]:
    losses = [f"  {loss}" for loss in report.losses[:_MAX_LOSSES]]
    if len(report.losses) > _MAX_LOSSES:
        losses.append(f"  and {len(report.losses) - _MAX_LOSSES} more")
    seen = sum(outcome.seen for outcome in report.outcomes)
    attempts = "attempt" if report.failed_first == 1 else "attempts"
    verdict = (
        f"{report.sent:,} messages in {report.duration_s:.1f} s, {len(report.losses)} lost, "
        f"{report.failed_first} first {attempts} failed; {seen} of {len(report.outcomes)} events seen"
    )
    return [
        Text(verdict, style="bold green" if report.ok else "bold red"),
        *(
            Text(f"  {one.event.short_title}: NOT SEEN {_why_not_seen(one)}")
            for one in report.outcomes
            if not one.seen
        ),
        *map(Text, losses),
    ]

"""The end of the demo: a table for people, a document for machines."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, Final

import orjson
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ... import __version__
from ...broker_agent import AgentConfig
from ...client import ClientConfig
from ...registry import RegistryConfig
from .measure import Outcome, Report
from .scenario import Happening, NameServer, Settings

__all__ = ["summary", "to_json"]

_MAX_LOSSES: Final = 10


def summary(report: Report, settings: Settings) -> RenderableType:
    """Return the table of the events and the verdict."""
    table = Table(title="What the client noticed", title_justify="left", show_lines=True)
    for header in ("event", "measured here", "RocketMQ's name server, worst case *"):
        table.add_column(header)
    for header in ("messages", "first attempts failed", "lost"):
        table.add_column(header, justify="right")
    for outcome in report.outcomes:
        table.add_row(
            Text(outcome.event.title),
            Text(_measured(outcome), style="" if outcome.seen else "bold red"),
            Text(_worst(outcome.event.name_server)),
            *(f"{number:,}" for number in (outcome.sent, outcome.failed_first, outcome.lost)),
        )
    return Group(table, *(Text(line) for line in _notes(settings)), *_verdict(report))


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


def _measured(outcome: Outcome) -> str:
    if not outcome.seen:
        return "NOT SEEN " + _why_not_seen(outcome)
    client_s, noticed_s = outcome.client_s or 0.0, outcome.noticed_s or 0.0
    if outcome.event.happening.is_death:
        return f"used for the last time after {client_s:.2f} s; gone from the routes after {noticed_s:.2f} s"
    if outcome.event.happening.is_birth:
        return f"used after {client_s:.2f} s"
    if outcome.event.happening is Happening.STORE_STOPPED:
        return f"served from memory; longest pause {outcome.longest_pause_s:.2f} s"
    return f"registered again after {noticed_s:.2f} s; longest pause {outcome.longest_pause_s:.2f} s"


def _why_not_seen(outcome: Outcome) -> str:
    if outcome.noticed_s is None or (outcome.client_s is None and outcome.event.happening.is_birth):
        return f"within {outcome.event.deadline_s:g} s"
    if outcome.client_s is not None:
        return f"within {outcome.event.deadline_s:g} s: {outcome.client_s:.2f} s"
    return f"as it should: {outcome.sent} messages, longest pause {outcome.longest_pause_s:.2f} s"


def _worst(name_server: NameServer) -> str:
    return f"{name_server.worst_s:g} s: {name_server.why}" if name_server.worst_s else name_server.why


def _notes(settings: Settings) -> list[str]:
    """Return what has to be known to judge the table."""
    (heartbeat_s,) = (field.default for field in fields(AgentConfig) if field.name == "heartbeat_s")
    usual_ttl_s, look_s = RegistryConfig().lease_ttl_s, ClientConfig().tail_s
    here_s, usual_s = settings.lease_ttl_s + look_s, usual_ttl_s + look_s
    return [
        "* Calculated from the default timers of RocketMQ 5; here every event is measured once.",
        (
            f"  The agents renew a lease of {settings.lease_ttl_s:g} s every {settings.heartbeat_s:g} s; "
            f"without options it is {usual_ttl_s:g} s and {heartbeat_s:g} s."
        ),
        (
            f"  A lost host is noticed by the end of its lease, which clients look at every {look_s:g} s: "
            f"calculated as well, {here_s:g} s at worst, and {usual_s:g} s without options."
        ),
    ]


def _verdict(report: Report) -> list[Text]:
    losses = [f"  {loss}" for loss in report.losses[:_MAX_LOSSES]]
    if len(report.losses) > _MAX_LOSSES:
        losses.append(f"  and {len(report.losses) - _MAX_LOSSES} more")
    seen = sum(outcome.seen for outcome in report.outcomes)
    verdict = (
        f"{report.sent:,} messages in {report.duration_s:.1f} s, {len(report.losses)} lost, "
        f"{report.failed_first} first attempts failed; {seen} of {len(report.outcomes)} events seen"
    )
    return [Text(verdict, style="bold green" if report.ok else "bold red"), *map(Text, losses)]

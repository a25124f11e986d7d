"""What a reader of the page has to know at a glance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..answers.churn import CHURN
from ..answers.detection import DETECTION_SUMMARY
from ..answers.uptime import BROKER_RELIABILITY
from .page import Fact, time_text

__all__ = ["Answered", "Overview", "facts", "warnings"]


class Answered(Protocol):
    """The first rows of an answer, and how many there are."""

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]: ...  # noqa: D102
    @property
    def total(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What the report is about, and what is missing from it; times in ms since 1970."""

    begin_ms: int
    end_ms: int
    registries: tuple[str, ...]
    gaps: tuple[tuple[str, int, str], ...] = ()
    """Registry, when, and why changes were lost."""

    quarantined: int = 0
    """Records that could not be read."""

    marks: tuple[tuple[str, int, str], ...] = ()
    """Broker ('' = the store), when, and what somebody did to it on purpose."""


def warnings(overview: Overview) -> list[str]:
    """Return what makes the answers doubtful."""
    found = [
        f"{registry}: changes were lost after {time_text(at_ms)} ({why}): what happened then is not known"
        for registry, at_ms, why in overview.gaps
    ]
    if overview.quarantined:
        found.append(f"{overview.quarantined:,} records could not be read; they are in the quarantine")
    return found


def facts(overview: Overview, found: Mapping[str, Answered]) -> list[Fact]:
    """Return the facts, of those answers that there are."""
    return [
        Fact("registries", ", ".join(overview.registries) or "none"),
        Fact("changes", f"{sum(row['changes'] for row in found[CHURN.name].rows):,}"),
        *_of_brokers(found[BROKER_RELIABILITY.name].rows),
        *_of_detection(found[DETECTION_SUMMARY.name].rows),
    ]


def _of_brokers(reliability: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
    alive_ms = sum(row["alive_ms"] for row in reliability)
    all_ms = alive_ms + sum(row["away_ms"] for row in reliability)
    yield Fact("replicas of brokers", f"{len(reliability):,}")
    yield Fact("failures", f"{sum(row['failures'] for row in reliability):,}")
    yield Fact("alive", f"{100 * alive_ms / all_ms:.3f} % of the time" if all_ms else "unknown")


def _of_detection(summary: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
    """Yield how long it took until an end was told, and what RocketMQ would have taken."""
    names = {"told": "end told, p50", "rocketmq told": "by RocketMQ's name server, p50 (computed)"}
    for row in summary:
        name = names.get(row["stage"])
        if name is not None and row["p50_ms"] is not None:
            yield Fact(name, f"{row['p50_ms'] / 1000:.2f} s")

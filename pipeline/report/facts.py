"""What a reader of the page has to know at a glance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..answers.churn import CHURN
from ..answers.detection import DETECTION_SUMMARY
from ..answers.uptime import BROKER_RELIABILITY
from .found import Found
from .page import Fact, time_text

__all__ = ["Overview", "facts", "warnings"]


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

    corrupt_samples: int = 0
    """Lines, rows and files that are no samples."""

    marks: tuple[tuple[str, str, int, str], ...] = ()
    """Registry, broker ('' = the store), when, and what somebody did to it on purpose."""

    @property
    def several(self) -> bool:
        """Whether rows have to say which registry they are about."""
        return len(self.registries) > 1


def warnings(overview: Overview) -> list[str]:
    """Return what makes the answers doubtful."""
    found = [
        f"{registry}: changes were lost after {time_text(at_ms)} ({why}): what happened then is not known"
        for registry, at_ms, why in overview.gaps
    ]
    if overview.quarantined:
        found.append(f"{overview.quarantined:,} records could not be read; they are in the quarantine")
    if overview.corrupt_samples:
        found.append(f"{overview.corrupt_samples:,} lines, rows or files are no samples and were left out")
    return found


def facts(overview: Overview, found: Mapping[str, Found]) -> list[Fact]:
    """Return the facts, of those answers that there are."""
    return [
        Fact("registries", ", ".join(overview.registries) or "none"),
        Fact("changes", f"{found[CHURN.name].sum('changes'):,}"),
        *_of_brokers(found[BROKER_RELIABILITY.name]),
        *_of_detection(found[DETECTION_SUMMARY.name], several=overview.several),
    ]


def _of_brokers(reliability: Found) -> Iterator[Fact]:
    alive_ms = reliability.sum("alive_ms")
    all_ms = alive_ms + reliability.sum("away_ms")
    yield Fact("replicas of brokers", f"{reliability.total:,}")
    yield Fact("failures", f"{reliability.sum('failures'):,}")
    yield Fact("alive", f"{100 * alive_ms / all_ms:.3f} % of the time" if all_ms else "unknown")


def _of_detection(summary: Found, *, several: bool) -> Iterator[Fact]:
    """Yield how long it took until an end was told, and what RocketMQ would have taken."""
    names = {"told": "end told, p50", "rocketmq told": "by RocketMQ's name server, p50 (computed)"}
    for row in summary.rows:
        name = names.get(row["stage"])
        if name is not None and row["p50_ms"] is not None:
            yield Fact(f"{row['registry']}: {name}" if several else name, f"{row['p50_ms'] / 1000:.2f} s")

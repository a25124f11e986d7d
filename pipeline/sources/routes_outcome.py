"""What a load did with each broker, or would do, and the words in which a refusal is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..errors import TargetRefused

_NAMED: Final = 10
"""So many refused brokers are named with the reason, the others by name alone."""


@dataclass(frozen=True, slots=True)
class TopicChange:
    """One thing that a load changes; before and after are configurations as JSON, or names of clusters."""

    broker: str
    topic: str | None
    action: str
    before: str | None
    after: str | None


@dataclass(slots=True)
class BrokerLoad:
    """What was done with a broker, or in a dry run would be, in numbers of topics."""

    broker: str
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    refused: str = ""
    """Why nothing of it, or not all, was written; empty = it was."""

    stops_all: bool = False
    """In a dry run: whether the load itself would be refused as a whole for it."""

    changes: list[TopicChange] = field(default_factory=list, repr=False)
    """In a dry run."""


def not_in_full(done: Sequence[BrokerLoad]) -> TargetRefused | None:
    """Return the error that not all brokers were written; None = they were."""
    refused = {load.broker: load.refused for load in done if load.refused}
    if not refused:
        return None
    return TargetRefused(
        f"of {len(done)} brokers {len(refused)} were not written in full, the others were: {_told(refused)}"
    )


def would_refuse(done: Sequence[BrokerLoad]) -> TargetRefused | None:
    """Return the error with which a load would end, by its dry run; None = with none."""
    alive = {load.broker: load.refused for load in done if load.stops_all}
    if alive:
        return TargetRefused(f"nothing would be written: {live_refused(alive, len(done))}")
    refused = {load.broker: load.refused for load in done if load.refused}
    if not refused:
        return None
    return TargetRefused(
        f"of {len(done)} brokers {len(refused)} would not be written, the others would be: {_told(refused)}"
    )


def live_refused(refused: Mapping[str, str], count: int) -> str:
    """Return what is to be said of live brokers that stop a load, and how it would not be stopped."""
    return (
        f"of {count} brokers {len(refused)} are alive and would be changed: {_told(refused, '{why}')}; "
        "to change them all the same, let the load touch live brokers"
    )


def _told(refused: Mapping[str, str], form: str = "{name}: {why}") -> str:
    """Return the reasons of the first brokers, and the names of the others."""
    told = "; ".join(form.format(name=name, why=why) for name, why in list(refused.items())[:_NAMED])
    return told + "".join(f", {name}" for name in list(refused)[_NAMED:])

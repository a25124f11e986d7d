"""Registries of any size and any names, as the page gets them."""

from __future__ import annotations

from typing import Any, Final

from sharedroutes.daemon.status_page.model import Process
from sharedroutes.registry import Change, ChangeKind
from sharedroutes.registry.model import BrokerData, Group, QueueData
from sharedroutes.registry.plans import HistoryBounds, Lookup
from sharedroutes.registry.plans.overview import Names, Overview

NOW_MS: Final = 1_795_427_000_000
ROWS: Final = 50


def process(**said: Any) -> Process:
    usual = {"title": "Name server front", "place": "at :9876", "version": "1.2", "uptime_s": 3.0}
    return Process(**{**usual, "store": "redis://h/0", "namespace": "n", **said})


def overview_of(brokers: list[str], topics: list[str], address: str = "10.0.0.1:10911") -> Overview:
    """Return a registry in which every broker is alive and has every topic, up to the bound of a look."""
    shown, first = brokers[:ROWS], topics[:ROWS]
    rows = tuple(QueueData.__new__(QueueData) for _ in shown)
    for row, name in zip(rows, shown, strict=True):  # what foreign writers write is not checked
        for field, value in (
            ("broker_name", name),
            ("read_queue_nums", 4),
            ("write_queue_nums", 4),
            ("perm", 6),
        ):
            object.__setattr__(row, field, value)
    up = Change(
        kind=ChangeKind.UP, broker_name=shown[0], address=address, by=address, change_id=f"{NOW_MS}-0"
    )
    added = Change(
        kind=ChangeKind.TOPICS, broker_name=shown[0], added=tuple(topics), change_id=f"{NOW_MS - 5_000}-0"
    )
    down = Change(kind=ChangeKind.DOWN, broker_name=shown[0], reason=address, change_id=f"{NOW_MS - 9_000}-0")
    return Overview(
        now_ms=NOW_MS,
        brokers=Names(tuple(shown), len(brokers), len(brokers)),
        topics=Names(tuple(first), len(topics), len(topics)),
        table=Lookup(
            rows=dict.fromkeys(first, rows),
            groups={name: Group(name, name, (0,)) for name in shown},
            alive={name: BrokerData(name, name, {0: address}) for name in shown},
        ),
        deadlines={(name, 0): NOW_MS + 9_500 for name in shown},
        leases=len(brokers),
        away=0,
        changes=(up, added, down),
        feed=HistoryBounds(f"{NOW_MS - 60_000}-0", f"{NOW_MS}-0", f"{NOW_MS}-0", 3, 3),
        hints={shown[0]: frozenset((address,))},
    )

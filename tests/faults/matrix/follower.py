"""A program that writes down what a follower is told: python -m tests.faults.matrix.follower URL FOLDER."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from sharedroutes.daemon.logs import LogOutput
from sharedroutes.registry import Change, Idle, RegistryError, Reset, RouteStore
from sharedroutes.registry.plans import Lookup
from tests.faults.checker.history import Item, Record, Replica, Started, TableContent, Writer
from tests.faults.matrix.settings import REGISTRY

NAME: Final = "follower"
_AGAIN_S: Final = 0.5


def content_of(table: Lookup) -> TableContent:
    """Return what a look at the whole table says."""
    topics: dict[str, set[str]] = {}
    for topic, rows in table.rows.items():
        for row in rows:
            topics.setdefault(row.broker_name, set()).add(topic)
    leases = tuple(
        Replica(name, broker_id, address)
        for name, data in sorted(table.alive.items())
        for broker_id, address in sorted(data.broker_addrs.items())
    )
    return TableContent(leases, {name: tuple(sorted(found)) for name, found in sorted(topics.items())})


def item_of(told: Reset | Change) -> Item:
    """Return the event of what a follower was told."""
    if isinstance(told, Change):
        return Item(kind="change", id=told.change_id, record=Record.of(told))
    table = None if told.table is None else content_of(told.table)
    return Item(kind="reset", id=told.position, reason=told.reason, table=table)


def main(url: str, folder: str) -> None:
    """Follow until killed."""
    with (
        LogOutput("json", "info"),
        Writer(Path(folder, "history"), NAME, delays=NAME) as history,
        RouteStore.from_url(url, REGISTRY) as store,
    ):
        history.write(Started(pid=os.getpid()))
        while True:
            try:
                with store.follow() as follower:
                    for told in follower:
                        if not isinstance(told, Idle):
                            history.write(item_of(told))
            except RegistryError as error:  # refused at the first contact: begin again
                sys.stderr.write(f"{error}\n")
                time.sleep(_AGAIN_S)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Names that a shell completes: topics, brokers and clusters of the registry that the line is about.

Tab waits for them for a second; a store that does not answer by then completes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, TypeAlias

import click

from ..registry import RegistryConfig, RouteStore
from ..registry.plans.replicas import Replica, roster

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]
"""What click calls with what was typed so far of a word."""

LONGEST_S: Final = 1.0


def _completing(look: Callable[[RouteStore], Iterable[str]]) -> Complete:
    """Return what completes names that a look at the store tells."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        found: list[str] = []

        def run() -> None:
            with suppress(Exception), _store(context) as store:  # Tab shows no errors
                found.extend({name for name in look(store) if name.startswith(incomplete)})

        # The name of a host may be looked up for long, which no deadline of a store ends.
        thread = threading.Thread(target=run, name="sharedroutes completion", daemon=True)
        thread.start()
        thread.join(LONGEST_S)
        return [] if thread.is_alive() else sorted(found)

    return complete


def _store(context: click.Context) -> RouteStore:
    url, namespace = context.params["redis_url"], context.params["namespace"]
    return RouteStore.from_url(url, RegistryConfig(namespace=namespace))


def _replicas(store: RouteStore) -> Iterable[Replica]:
    return store.run(roster(store.keys, since=False)).found


topic_names: Final = _completing(lambda store: store.topics())
broker_names: Final = _completing(lambda store: (one.broker_name for one in _replicas(store)))
cluster_names: Final = _completing(lambda store: (one.cluster for one in _replicas(store)))

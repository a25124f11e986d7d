"""A selection strategy: brokers of one cluster take the messages while enough of them are there.

It suits a move to new machines: clients prefer the new cluster,
and the old one steps in when that is too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sharedroutes.client import ClientConfig, MessageQueue, RouteClient
from sharedroutes.client.selection import Candidates


@dataclass(frozen=True, slots=True)
class ClusterFirst:
    """Brokers of `cluster` alone, as long as at least `enough` of them can take messages; else all."""

    cluster: str
    enough: int = 2

    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
        """Return the order of turns; asked when the route or the failing brokers change, so it is pure."""
        preferred = [
            queue
            for queue in candidates.queues
            if candidates.brokers[queue.broker_name].cluster == self.cluster
        ]
        brokers = {queue.broker_name for queue in preferred}
        return preferred if len(brokers) >= self.enough else candidates.queues


def client(url: str, cluster: str) -> RouteClient:
    """Return a client of the registry at `url` that sends to a cluster first."""
    return RouteClient.from_url(url, ClientConfig(strategy=ClusterFirst(cluster)))

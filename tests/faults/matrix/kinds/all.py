"""All kinds of faults that there are."""

from __future__ import annotations

from tests.faults.matrix.kinds import (
    askers,
    clocks,
    files,
    fronts,
    keys,
    links,
    network,
    owners,
    processes,
    replicas,
    seconds,
    stores,
)
from tests.faults.matrix.kinds.kind import KINDS

__all__ = [
    "KINDS",
    "askers",
    "clocks",
    "files",
    "fronts",
    "keys",
    "links",
    "network",
    "owners",
    "processes",
    "replicas",
    "seconds",
    "stores",
]

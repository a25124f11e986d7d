"""All registries that are compared, and how to run several of them at once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from .by_hand import BY_HAND
from .etcd import ETCD
from .name_server import ROCKETMQ, ROCKETMQ_FAST
from .ours import OURS, OURS_ALWAYS, OURS_EVERYSEC
from .registry import Absent, Registry, Server, Session
from .zookeeper import ZOOKEEPER

REGISTRIES: Final = {
    registry.name: registry
    for registry in (
        *(OURS, OURS_EVERYSEC, OURS_ALWAYS, BY_HAND),
        *(ZOOKEEPER, ETCD, ROCKETMQ, ROCKETMQ_FAST),
    )
}
USUAL: Final = (OURS, BY_HAND, ZOOKEEPER, ETCD, ROCKETMQ)
"""Each once, as it is set up most often."""


class Running(NamedTuple):
    """A registry whose server runs."""

    registry: Registry
    server: Server

    def session(self, lease_s: float) -> Session:
        """Open a session."""
        return self.registry.session(self.server.address, lease_s)


class Field(NamedTuple):
    """Those that can be compared here."""

    running: dict[str, Running]
    notes: list[str]
    """How they are set up, and why others are not compared."""


@contextmanager
def running(registries: Iterable[Registry]) -> Iterator[Field]:
    """Run a server for each, all at once, in folders that are removed; an absent one is left out."""
    with ExitStack() as stack:
        found = Field({}, [])
        for registry in registries:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-registry-")))
            try:
                server = stack.enter_context(registry.run(folder))
            except Absent as reason:
                found.notes.append(f"{registry.name} is not compared: {reason}")
                continue
            found.running[registry.name] = Running(registry, server)
            found.notes.append(f"{registry.name}: {server.version}; {registry.terms}")
        yield found

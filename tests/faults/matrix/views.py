"""Whether everybody sees what is true: the store, a fresh look at it, the clients and the fronts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from sharedroutes.registry import RegistryError, RouteStore
from sharedroutes.registry.plans import whole_table
from sharedroutes.registry.plans.changes import order
from tests.faults.checker.feed import Replay, in_one_form
from tests.faults.checker.history import (
    LISTED,
    STORE,
    BadHistory,
    Event,
    Item,
    Replica,
    Route,
    Table,
    TableContent,
    Writer,
    parse_event,
)
from tests.faults.checker.past import addresses_of
from tests.faults.matrix.auditor import Auditor
from tests.faults.matrix.fleet import CHURN, Fleet
from tests.faults.matrix.follower import content_of
from tests.faults.matrix.settings import REGISTRY, TOPICS
from tests.faults.matrix.watchers import Watchers

_AT_WORK: Final = {"agent-a": ("owner",), "agent-b": ("owner", "standby")}
"""What agents say when all is well: beside agent-b, fronts may own the broker."""


class _Reader:
    """Reads what a process writes into its history."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def news(self) -> Iterator[Event]:
        """Yield the events since the last time."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._read_bytes)
            whole, end, _ = file.read().rpartition(b"\n")
            self._read_bytes += len(whole) + len(end)
            for line in whole.splitlines():
                with suppress(BadHistory):
                    yield parse_event(line)


class ClientView(_Reader):
    """What a client has said of each topic."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.routes: dict[str, Route] = {}

    def look(self) -> None:
        """Read what is new."""
        for event in self.news():
            if isinstance(event, Route):
                self.routes[event.topic] = event


class FollowerView(_Reader):
    """What a follower was told."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._replay = Replay()
        self._id = ""

    def knows(self, table: TableContent, change_id: str) -> bool:
        """Whether it was told of a change, or of later ones, and a table follows from all of it."""
        for event in self.news():
            if isinstance(event, Item):
                self._replay.take(event)
                self._id = event.id
        is_told = (order(self._id) or ()) >= (order(change_id) or ())
        return is_told and self._replay.is_complete and self._replay.table == in_one_form(table)


class Views:
    """Who has not yet come to see what is true."""

    def __init__(self, fleet: Fleet, watchers: Watchers, auditor: Auditor) -> None:
        self._fleet = fleet
        self._auditor = auditor
        self._watchers = watchers
        history = fleet.folder / "history"
        self._clients = {name: ClientView(history / f"{name}.jsonl") for name in fleet.clients}
        self._follower = FollowerView(history / f"{fleet.follower.name}.jsonl")
        self._store = RouteStore.from_url(fleet.store.url, REGISTRY)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def table(self) -> TableContent | None:
        """Return what the store says; None = it does not answer."""
        with suppress(RegistryError):
            return content_of(self._store.run(whole_table(self._store.keys)))
        return None

    def behind(self, since_us: int) -> Iterator[str]:
        """Name who does not see what is true, by what it said after a time."""
        if not self._fleet.store.is_settled():
            yield "the servers"
            return
        expected, found = self._fleet.expected(), self.table()
        if found is None or {*found.leases} != {*expected.leases} or _steady(found) != expected.topics:
            yield f"the store ({found})"
            return
        if not self._follower.knows(found, self._auditor.position):
            yield self._fleet.follower.name
        yield from self._clients_behind(since_us)
        yield from self._agents_behind(since_us)
        yield from self._fronts_behind(since_us)

    def _clients_behind(self, since_us: int) -> Iterator[str]:
        for name, view in self._clients.items():
            view.look()
            for topic in TOPICS:
                said = view.routes.get(topic)
                is_new = said is not None and said.at_us >= since_us and not said.stale
                if not is_new or said is None or {*(said.brokers or ())} != self._true(topic):
                    yield f"{name} ({topic})"

    def _agents_behind(self, since_us: int) -> Iterator[str]:
        for name, agent in self._watchers.agents.items():
            if agent.looked_s * 1e6 < since_us or agent.says not in _AT_WORK[name]:
                yield f"{name} ({agent.says})"

    def _fronts_behind(self, since_us: int) -> Iterator[str]:
        for name, reader in self._watchers.fronts.items():
            for topic in (*TOPICS, LISTED):
                at_s, brokers = reader.says.get(topic, (0.0, None))
                if at_s * 1e6 < since_us or {*(brokers or ())} != self._true(topic):
                    yield f"{name} ({topic})"

    def _true(self, topic: str) -> set[Replica]:
        """Return who holds a topic."""
        return addresses_of(self._fleet.expected(), topic)

    def write_tables(self, history: Writer) -> None:
        """Write down the table of the store, and that of each client."""
        found = self.table()
        if found is not None:
            history.write(Table(source=STORE, table=found))
        for name, view in self._clients.items():
            view.look()
            leases, topics = set[Replica](), dict[str, set[str]]()
            for topic, route in view.routes.items():
                for replica in route.brokers or ():
                    leases.add(replica)
                    topics.setdefault(replica.broker, set()).add(topic)
            content = {broker: tuple(sorted(names)) for broker, names in sorted(topics.items())}
            history.write(Table(source=name, table=TableContent(tuple(sorted(leases)), content)))


def _steady(table: TableContent) -> dict[str, tuple[str, ...]]:
    """Return the topics of each broker, but for those that come and go."""
    return {
        broker: tuple(topic for topic in topics if not topic.startswith(CHURN))
        for broker, topics in table.topics.items()
    }

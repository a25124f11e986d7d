"""A broker with its files, agents beside it and a store, for tests to break."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self, TypeVar

import redis

from sharedroutes.registry import (
    Change,
    ChangeKind,
    EmbeddedServer,
    RegistryConfig,
    RegistryError,
    RouteStore,
)
from tests.broker_agent.data_files import broker_conf, put, rewrite, topics_json
from tests.faults.auditor import BROKER, TOPIC, Auditor, Look, look, plain_client
from tests.faults.victims import AgentProcess, Broker, Server
from tests.ports import held_port
from tests.support import wait_until

T = TypeVar("T")

LEASE_TTL_S: Final = 3.0
"""By default: so short that its end can be awaited, so long that a slow machine renews it."""

_CALL_DEADLINE_S: Final = 0.8
"""Less than the delay of the outage that is called slower than the deadline."""

_WITHIN_S: Final = 40.0
_SETTLED_S: Final = 1.5
_MANY: Final = 100_000
_POLL_S: Final = 0.02  # each look makes a connection of its own
_ANSWER_S: Final = 5.0
_PATIENT: Final = RegistryConfig(call_deadline_s=_ANSWER_S)


class Plant:
    """A broker with its files, its agents and the server, with an auditor; the end of the block ends all.

    The end also checks what has to hold after every test.
    """

    def __init__(
        self,
        folder: Path,
        server: EmbeddedServer,
        *,
        heartbeat_s: float = 0.5,
        lease_ttl_s: float = LEASE_TTL_S,
    ) -> None:
        self._ports = ExitStack()  # held while who listens there is dead: it comes back
        self.broker = Broker(self._ports.enter_context(held_port()))
        self.server = Server(server)
        self.agents: list[AgentProcess] = []
        self.url = server.url
        self.port = server.port
        self._folder = folder
        self._conf = folder / "broker.conf"
        self._topics_path = folder / "store" / "config" / "topics.json"
        deadline_s = min(_CALL_DEADLINE_S, lease_ttl_s - heartbeat_s)
        times_s = {"--heartbeat": heartbeat_s, "--lease-ttl": lease_ttl_s, "--call-deadline": deadline_s}
        self._times = [word for name, time_s in times_s.items() for word in (name, str(time_s))]
        self._counter = 1
        self.topics = {TOPIC}
        self.auditor = Auditor(server.url)
        put(self._topics_path, topics_json(TOPIC))
        port = self.broker.address.rpartition(":")[2]
        self._conf.write_text(broker_conf(BROKER, port, folder / "store"))

    def __enter__(self) -> Self:
        self.broker.start()
        self.auditor.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            self.auditor.__exit__()
            for agent in self.agents:
                with suppress(AssertionError):
                    agent.kill()
            self.broker.kill()
            self._ports.close()

    def agent(self, name: str, url: str = "") -> AgentProcess:
        """Start an agent beside the broker, by default one that reaches the server itself."""
        arguments = ("--broker-conf", str(self._conf), "--redis", url or self.url, *self._times)
        http_port = self._ports.enter_context(held_port())
        agent = AgentProcess(name, self._folder, *arguments, http_port=http_port)
        self.agents.append(agent)
        agent.start()
        return agent

    def rewrite_topics(self, *names: str) -> None:
        """Let the broker have other topics, besides the usual one."""
        self._counter += 1
        self.topics = {TOPIC, *names}
        rewrite(self._topics_path, topics_json(*sorted(self.topics), counter=self._counter))

    def look(self) -> Look:
        """Return what the server says of the lease."""
        with plain_client(self.url, _ANSWER_S) as admin:
            return look(admin)

    def served(self) -> set[str]:
        """Return the topics that the live broker holds, at the broker's address."""
        with RouteStore.from_url(self.url, _PATIENT) as store:
            routes = store.routes(store.topics())
        assert all(
            data.broker_addrs == {0: self.broker.address}
            for route in routes.values()
            for data in route.broker_datas
        )
        return set(routes)

    def changes(self) -> Sequence[Change]:
        """Return what has happened to the registry since the server started."""
        with RouteStore.from_url(self.url, _PATIENT) as store:
            return store.changes_since(limit=_MANY).changes

    def until_served(self) -> Look:
        """Wait until the broker is served with all its topics; return the lease."""
        self.until(lambda: self.served() == self.topics, f"{sorted(self.topics)} are served")
        return self.look()

    def until_gone(self) -> None:
        """Wait until the broker is not served."""
        self.until(lambda: not self.served(), "nothing is served")

    def until_owned_anew(self, than: Look) -> Look:
        """Wait until somebody else holds the lease than then; return it."""

        def owned_anew() -> Look | None:
            found = self.look()
            return found if found.epoch not in (None, than.epoch) else None

        return self.until(owned_anew, "the broker has a new owner")

    def until_settled(self) -> Look:
        """Wait until the broker has had one owner for a while, who renews the lease; return it."""
        since_s, owner = time.monotonic(), self.look()

        def settled() -> Look | None:
            nonlocal since_s, owner
            found = self.look()
            if found.epoch is None or found.epoch != owner.epoch:
                since_s, owner = time.monotonic(), found
            return found if time.monotonic() - since_s > _SETTLED_S else None

        return self.until(settled, "the broker keeps its owner")

    def until_all_say_so(self) -> None:
        """Wait until one agent says that it serves the broker, with the lease's epoch, and the others wait.

        Of a dead broker, all say that it is gone.
        """

        def agree() -> bool:
            said = [agent.status() for agent in self.agents if agent.running]
            phases = sorted(status["phase"] for status in said)
            if not self.broker.running:
                return phases == ["broker-gone"] * len(said)
            epochs = [str(status["epoch"]) for status in said if status["phase"] == "serving"]
            others = ["standby"] * (len(said) - 1)
            return phases == ["serving", *others][: len(said)] and epochs in ([], [self.look().epoch])

        self.until(agree, "the agents say what is so")

    def until_passed(self, seconds: float) -> None:
        """Wait so long: where it is time itself that has an effect, and nothing tells of it."""
        began_s = time.monotonic()
        self.until(lambda: time.monotonic() - began_s > seconds, f"{seconds} s have passed")

    def registered_at_ms(self, owner: Look) -> float:
        """Return when (the server's clock) an owner registered."""
        ids = {
            str(change.epoch): change.change_id for change in self.changes() if change.kind is ChangeKind.UP
        }
        assert owner.epoch is not None
        return float(ids[owner.epoch].partition("-")[0])

    def check(self) -> None:
        """Check the rules that hold at all times; the server answers."""
        self.auditor.check()
        assert self.auditor.lookups, "nobody has looked"
        for agent in self.agents:
            agent.check()
        owners = [
            change.epoch for change in self.changes() if change.kind in (ChangeKind.UP, ChangeKind.TOPICS)
        ]
        assert owners == sorted(owners), f"an owner that was replaced has written: {owners}"

    def until(self, predicate: Callable[[], T | None], what: str) -> T:
        """Wait until something is so, while the server may be away; return what the predicate found."""

        def outlived() -> T | None:
            for agent in self.agents:
                agent.check_alive()
            with suppress(RegistryError, redis.RedisError, OSError):  # who is asked is only coming back
                return predicate()
            return None

        found = wait_until(outlived, timeout_s=_WITHIN_S, pause_s=_POLL_S, description=what)
        assert found is not None
        return found

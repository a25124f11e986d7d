"""An agent stays small: as operators install it, with many topics, and whatever happens to its broker."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Final

import pytest

from benchmarks.idle import MOST_MB, await_registered
from benchmarks.kit.hosts import Agent, AgentSettings, Host, install_agent, topics_json, write_topics
from benchmarks.kit.usage import processes_are_seen, resident_mb
from benchmarks.kit.workload import long_topic_names
from sharedroutes.registry import EmbeddedServer, RouteStore
from tests.faults.auditor import plain_client
from tests.support import wait_until

_TOPICS: Final = 10_000
_BEATS: Final = 3
_POLL_S: Final = 0.05

_CHURNED_TOPICS: Final = 1_000
_CHANGED: Final = 100
_ROUNDS: Final = 120
"""Of half a second each, on a machine that has nothing else to do."""

_WARM_UP: Final = _ROUNDS // 3
_MOST_GROWTH_MB: Final = 2.0
_WITHIN_S: Final = 40.0
_ANSWER_S: Final = 5.0

pytestmark = pytest.mark.skipif(
    not processes_are_seen(), reason="only Linux tells memory and files of a process, in /proc"
)


@pytest.mark.timeout(300)
def test_an_agent_with_10_000_topics_stays_small(tmp_path: Path, own_server: EmbeddedServer) -> None:
    settings = AgentSettings(own_server.url, 1.0, 10.0, install_agent(tmp_path))
    host = Host(tmp_path / "host", "broker-a", long_topic_names(_TOPICS), settings)
    with host, RouteStore.from_url(own_server.url) as store:
        host.start_broker()
        first = host.start_agent()
        await_registered(own_server.url, "broker-a")
        assert len(store.topics()) == _TOPICS
        assert _at_rest_mb(first, settings) < MOST_MB
        first.kill()
        second = host.start_agent()  # finds the table in the store
        wait_until(lambda: second.times_said("registered: "), timeout_s=60, description="registered again")
        assert _at_rest_mb(second, settings) < MOST_MB


@pytest.mark.timeout(600)
def test_an_agent_stays_flat_through_rewrites_reloads_and_restarts(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    settings = AgentSettings(own_server.url, 1.0, 10.0)
    with Host(tmp_path, "broker-a", _names_of(0), settings) as host:
        host.start_broker()
        churn = _Churn(host, host.start_agent(), own_server.url)
        churn.go_on(_WARM_UP)
        warm_mb, warm_files = churn.resident_mb(), churn.files()
        churn.go_on(_ROUNDS)
        assert churn.resident_mb() <= warm_mb + _MOST_GROWTH_MB
        assert churn.files() <= warm_files


class _Churn:
    """What happens to a broker with many topics and to its agent, round after round."""

    def __init__(self, host: Host, agent: Agent, url: str) -> None:
        self._host = host
        self._agent = agent
        self._url = url
        self._rounds = 0

    def go_on(self, rounds: int) -> None:
        """Go on until there have been so many rounds, each when the agent has dealt with the one before."""
        self._until_said(" registered: ", self._rounds + 1)
        while self._rounds < rounds:
            self._rounds += 1
            self._have_a_round()

    def resident_mb(self) -> float:
        """Return the memory of the agent."""
        return resident_mb(self._agent.pid)

    def files(self) -> int:
        """Return how many files it has open, besides its connections to the store, of which a pool has some.

        That pool has a bound: an agent that did not give back its connections would stand still.
        """
        with plain_client(self._url, _ANSWER_S) as admin:
            ours = int(admin.info("clients")["connected_clients"]) - 1
        return len([*Path(f"/proc/{self._agent.pid}/fd").iterdir()]) - ours

    def _have_a_round(self) -> None:
        count = self._rounds
        write_topics(self._host.topics_path, topics_json(_names_of(count), counter=count + 1))
        self._until_said("wrote its changed table: ", count)
        self._agent.send(signal.SIGHUP)
        self._until_said("reloaded", count)
        self._host.kill_broker()
        self._until_said("unregistered", count)
        self._host.start_broker()
        self._until_said(" registered: ", count + 1)

    def _until_said(self, text: str, times: int) -> None:
        wait_until(
            lambda: self._agent.times_said(text) >= times,
            timeout_s=_WITHIN_S,
            pause_s=_POLL_S,
            description=f"round {self._rounds}: the agent says {text!r}",
        )


def _names_of(count: int) -> list[str]:
    """Return the topics of a round, some of which no other round has."""
    stay = long_topic_names(_CHURNED_TOPICS - _CHANGED)
    return [*stay, *(f"of-round-{count}-{number}" for number in range(_CHANGED))]


def _at_rest_mb(agent: Agent, settings: AgentSettings) -> float:
    """Return the memory of an agent some heartbeats later: nothing tells that it is at rest."""
    time.sleep(_BEATS * settings.heartbeat_s)
    return resident_mb(agent.pid)

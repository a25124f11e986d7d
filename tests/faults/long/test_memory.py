"""An agent as operators install it, with many topics: it stays small."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from benchmarks.hosts import Agent, AgentSettings, Host
from benchmarks.idle import MOST_MB, await_registered, processes_are_seen, resident_mb
from benchmarks.installed import install_agent
from benchmarks.workload import long_topic_names
from sharedroutes.registry import EmbeddedServer, RouteStore

_TOPICS: Final = 10_000
_BEATS: Final = 3
_POLL_S: Final = 0.05


@pytest.mark.timeout(300)
@pytest.mark.skipif(not processes_are_seen(), reason="only Linux tells the memory of a process, in /proc")
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
        while not second.times_said("registered: "):
            time.sleep(_POLL_S)
        assert _at_rest_mb(second, settings) < MOST_MB


def _at_rest_mb(agent: Agent, settings: AgentSettings) -> float:
    """Return the memory of an agent some heartbeats later: nothing tells that it is at rest."""
    time.sleep(_BEATS * settings.heartbeat_s)
    return resident_mb(agent.pid)

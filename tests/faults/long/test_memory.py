"""An agent as operators install it, with many topics: it stays small."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from benchmarks.hosts import AgentSettings, Host
from benchmarks.idle import MOST_MB, await_registered, processes_are_seen, resident_mb
from benchmarks.installed import install_agent
from benchmarks.workload import long_topic_names
from sharedroutes.registry import EmbeddedServer, RouteStore

_TOPICS: Final = 10_000
_BEATS: Final = 3


@pytest.mark.timeout(300)
@pytest.mark.skipif(not processes_are_seen(), reason="only Linux tells the memory of a process, in /proc")
def test_an_agent_with_10_000_topics_stays_small(tmp_path: Path, own_server: EmbeddedServer) -> None:
    settings = AgentSettings(own_server.url, 1.0, 10.0, install_agent(tmp_path))
    with Host(tmp_path / "host", "broker-a", long_topic_names(_TOPICS), settings) as host:
        host.start_broker()
        agent = host.start_agent()
        await_registered(own_server.url, "broker-a")
        with RouteStore.from_url(own_server.url) as store:
            assert len(store.topics()) == _TOPICS
        time.sleep(_BEATS * settings.heartbeat_s)  # nothing tells that it is at rest
        assert resident_mb(agent.pid) < MOST_MB

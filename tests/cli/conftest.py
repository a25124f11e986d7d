"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sharedroutes.registry import EmbeddedServer, RouteStore
from tests.broker_agent.agent_site import Site
from tests.broker_agent.data_files import put, topics_json
from tests.broker_agent.stand_ins import BrokerProcess


@pytest.fixture(autouse=True)
def _no_profiles(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the profiles of whoever runs the tests out of them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-profiles"))


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where profiles are to be written; no variable names another one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("SHAREDROUTES_PROFILE", "SHAREDROUTES_REDIS_URL", "SHAREDROUTES_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "sharedroutes").mkdir()
    return tmp_path / "sharedroutes" / "profiles.toml"


@pytest.fixture
def store(redis_url: str) -> Iterator[RouteStore]:
    with RouteStore.from_url(redis_url) as store:
        yield store


@pytest.fixture
def site(tmp_path: Path, own_server: EmbeddedServer) -> Iterator[Site]:
    """Return a broker with its files, whose agent nobody has started."""
    with BrokerProcess() as broker:
        site = Site(tmp_path, own_server, broker)
        folder, port = tmp_path / "store", broker.port
        site.conf.write_text(
            f"brokerName=broker-a\nbrokerIP1=127.0.0.1\nlistenPort={port}\nstorePathRootDir={folder}\n"
        )
        put(site.topics, topics_json("orders"))
        yield site

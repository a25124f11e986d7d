"""Fixtures of the tests that need a Cluster, Sentinels or TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeAlias

import pytest

from tests.cluster.certificates import Certificates
from tests.cluster.servers import ClusterServers, SentinelServers, Stock

Group: TypeAlias = ClusterServers | SentinelServers


@pytest.fixture(scope="session")
def cluster() -> Iterator[ClusterServers]:
    """Return the Cluster of all tests that do not break it; not emptied: use a namespace of your own."""
    with ClusterServers() as servers:
        yield servers


@pytest.fixture(scope="session")
def sentinels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelServers]:
    """Return the service of all tests that do not break it; not emptied: use a namespace of your own."""
    with SentinelServers(tmp_path_factory.mktemp("sentinels")) as servers:
        yield servers


@pytest.fixture(scope="session")
def fresh_clusters() -> Iterator[Stock[ClusterServers]]:
    """Return the stock of Clusters that tests may break."""
    with closing(Stock(ClusterServers)) as stock:
        yield stock


@pytest.fixture(scope="session")
def fresh_sentinels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock[SentinelServers]]:
    """Return the stock of services that tests may break."""
    folder = tmp_path_factory.mktemp("fresh-sentinels")
    with closing(Stock(lambda: SentinelServers(Path(mkdtemp(dir=folder))))) as stock:
        yield stock


@pytest.fixture
def own_cluster(fresh_clusters: Stock[ClusterServers]) -> Iterator[ClusterServers]:
    """Return a fresh Cluster whose nodes the test may pause and kill."""
    servers = fresh_clusters.take()
    yield servers
    servers.stop()


@pytest.fixture
def own_sentinels(fresh_sentinels: Stock[SentinelServers]) -> Iterator[SentinelServers]:
    """Return a fresh service whose servers the test may pause and kill."""
    servers = fresh_sentinels.take()
    yield servers
    servers.stop()


@pytest.fixture(params=["cluster", "sentinels"])
def group(request: pytest.FixtureRequest) -> Group:
    """Return each of the groups that stay whole."""
    found: Group = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["own_cluster", "own_sentinels"])
def own_group(request: pytest.FixtureRequest) -> Group:
    """Return each of the groups that may be broken."""
    found: Group = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return the certificates of this session."""
    return Certificates(tmp_path_factory.mktemp("certificates")).make()


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """Return a namespace that no other test uses."""
    return f"test-{abs(hash(request.node.nodeid))}"

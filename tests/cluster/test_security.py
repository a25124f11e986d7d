"""TLS with client certificates, users and passwords: what does not fit is refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sharedroutes.registry import EmbeddedServer, LeaseStatus, StoreRefused, StoreUnavailable
from tests.cluster.certificates import Certificates
from tests.cluster.servers import SERVICE, ClusterServers, SentinelServers, server_binary
from tests.fix_redis import Store, StoreMaker
from tests.ports import free_port
from tests.registry.builders import broker, topics

PASSWORD = "s3cret/%"  # noqa: S105 - of servers that live for a test
QUOTED = "s3cret%2F%25"
WRONG = "wr0ng"
GUARD = "of-the-sentinels"
DATA = "of-the-data"


async def works(store: Store) -> None:
    held = await store.register(broker(), topics(1))
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert list(await store.routes(["t0"])) == ["t0"]
    bell = store.doorbell()
    assert await bell.wait(10.0) == b""
    await bell.aclose()
    await store.unregister(held)


class TlsServer:
    """A server that speaks TLS at a port, to those who show a certificate."""

    def __init__(self, certificates: Certificates) -> None:
        self.port = free_port()
        self.server = EmbeddedServer(*certificates.server_options(self.port), binary=server_binary())
        self.address = f"rediss://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def tls(certificates: Certificates) -> Iterator[TlsServer]:
    made = TlsServer(certificates)
    with made.server:
        yield made


async def test_tls_with_a_client_certificate_works(
    make_store: StoreMaker, tls: TlsServer, certificates: Certificates
) -> None:
    await works(make_store(tls.address + certificates.query()))


async def test_a_server_of_another_authority_is_refused(
    make_store: StoreMaker, tls: TlsServer, certificates: Certificates
) -> None:
    store = make_store(tls.address + certificates.query("other-ca"))
    with pytest.raises(StoreRefused, match=r"certificate is not trusted.*ssl_ca_certs.*verify failed"):
        await store.topics()


async def test_a_client_without_a_certificate_is_refused(
    make_store: StoreMaker, tls: TlsServer, certificates: Certificates
) -> None:
    store = make_store(tls.address + certificates.query(client=False))
    with pytest.raises((StoreRefused, StoreUnavailable), match=r"(?i)certificate|closed|reset|EOF"):
        await store.topics()


async def test_the_name_in_the_certificate_is_checked_unless_told_otherwise(
    make_store: StoreMaker, tls: TlsServer, certificates: Certificates
) -> None:
    by_name = f"rediss://localhost:{tls.port}{certificates.query()}"
    with pytest.raises(StoreRefused, match=r"certificate is not trusted.*[Hh]ostname mismatch"):
        await make_store(by_name).topics()
    await works(make_store(by_name + "&ssl_check_hostname=false"))


async def test_a_cluster_over_tls_is_found_and_read(
    make_store: StoreMaker, certificates: Certificates
) -> None:
    port = free_port()
    options = (*certificates.server_options(port), "--tls-cluster", "yes")
    with ClusterServers(*options, primaries=1, replicas=False):
        url = f"rediss+cluster://127.0.0.1:{port}{certificates.query()}"
        await works(make_store(url))
        wrong = make_store(f"rediss+cluster://127.0.0.1:{port}{certificates.query('other-ca')}")
        with pytest.raises(StoreRefused, match="certificate is not trusted"):
            await wrong.topics()


@pytest.fixture(scope="module")
def locked() -> Iterator[EmbeddedServer]:
    """Return a server with a password, and a user `agent` who may do everything with one registry."""
    with EmbeddedServer("--requirepass", PASSWORD, binary=server_binary()) as server:
        with redis.Redis(port=server.port, password=PASSWORD) as admin:
            admin.execute_command(
                *("ACL", "SETUSER", "agent", "on", f">{PASSWORD}", "~{acl}:*", "&{acl}:*", "+@all")
            )
        yield server


async def test_a_user_works_in_the_registry_that_is_theirs_and_in_no_other(
    make_store: StoreMaker, locked: EmbeddedServer
) -> None:
    url = f"redis://agent:{QUOTED}@127.0.0.1:{locked.port}"
    await works(make_store(url, namespace="acl"))
    with pytest.raises(StoreRefused, match="permission"):
        await make_store(url, namespace="other").register(broker(), topics(1))


async def test_a_wrong_password_is_refused_and_not_shown(
    make_store: StoreMaker, locked: EmbeddedServer
) -> None:
    for who in (f"agent:{WRONG}@", f":{WRONG}@", ""):
        with pytest.raises(StoreRefused, match="credentials") as refused:
            await make_store(f"redis://{who}127.0.0.1:{locked.port}").topics()
        assert WRONG not in str(refused.value)


async def test_sentinels_and_their_servers_may_have_different_passwords(
    make_store: StoreMaker, tmp_path: Path
) -> None:
    with SentinelServers(tmp_path, sentinel_password=GUARD, password=DATA) as servers:
        await works(make_store(servers.url))
        for right, wrong in ((f"password={GUARD}", f"password={WRONG}"), (f":{DATA}@", f":{WRONG}@")):
            with pytest.raises(StoreRefused, match="credentials") as refused:
                await make_store(servers.url.replace(right, wrong)).topics()
            assert WRONG not in str(refused.value)


async def test_a_service_that_no_sentinel_knows_is_named(
    make_store: StoreMaker, sentinels: SentinelServers
) -> None:
    store = make_store(sentinels.url.replace(f"/{SERVICE}", "/unknown"))
    with pytest.raises(
        StoreUnavailable, match="no server that was asked knows the primary of the service 'unknown'"
    ):
        await store.topics()


async def test_a_server_that_is_in_no_cluster_is_refused_as_one(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    store = make_store(f"redis+cluster://127.0.0.1:{own_server.port}")
    with pytest.raises(StoreRefused, match="cluster support disabled"):
        await store.topics()


async def test_a_server_that_is_no_sentinel_is_refused_as_one(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    store = make_store(f"redis+sentinel://127.0.0.1:{own_server.port}/{SERVICE}")
    with pytest.raises(StoreRefused, match="unknown command"):
        await store.topics()

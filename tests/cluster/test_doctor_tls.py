"""What `doctor` says of servers that speak TLS: encryption, authority, and when the certificate ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sharedroutes.registry import EmbeddedServer
from tests.cli.doctor.examined import ERROR, WARNING, doctor
from tests.cluster.certificates import Certificates
from tests.cluster.servers import server_binary
from tests.ports import free_port


@pytest.fixture(scope="module")
def address(certificates: Certificates) -> Iterator[str]:
    """Return where a server speaks TLS, whose certificate is good for two days."""
    port = free_port()
    with EmbeddedServer(*certificates.server_options(port), binary=server_binary()):
        yield f"rediss://127.0.0.1:{port}"


def test_a_certificate_that_ends_soon_is_an_error(address: str, certificates: Certificates) -> None:
    said = doctor(address + certificates.query())["tls"]
    assert (said.level, said.what) == (ERROR, "the certificate of the server is good for 2 days")


def test_a_certificate_that_nobody_checks_is_a_warning(address: str, certificates: Certificates) -> None:
    said = doctor(f"{address}{certificates.query()}&ssl_cert_reqs=none")["tls"]
    assert (said.level, said.what) == (WARNING, "the certificate of the server is not checked")


def test_a_server_of_another_authority_is_an_error(address: str, certificates: Certificates) -> None:
    said = doctor(address + certificates.query("other-ca"))["store"]
    assert (said.level, "certificate" in said.what) == (ERROR, True)

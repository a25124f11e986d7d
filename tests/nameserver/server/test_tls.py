"""TLS at the port of the protocol: three modes, clients' certificates, and renewed ones."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import shutil
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sharedroutes.nameserver.server.tls import ClientAuth, Tls, TlsFiles, TlsMode
from sharedroutes.registry import InvalidInput
from sharedroutes.remoting import encode, request
from tests.cluster.certificates import Certificates
from tests.nameserver.server.rig import ROUTE, Answers, Caller, Later, answered, both_loops, serving
from tests.support import await_until

__all__ = ["both_loops"]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on PATH")
    return Certificates(tmp_path_factory.mktemp("certificates")).make()


def tls(made: Certificates, mode: TlsMode = TlsMode.PERMISSIVE, auth: ClientAuth = ClientAuth.NONE) -> Tls:
    files = TlsFiles(
        certificate=Path(made.crt("server")),
        key=Path(made.key("server")),
        client_ca=Path(made.crt("ca")),
        client_auth=auth,
    )
    return Tls(mode, files)


def trusting(made: Certificates, *, shows: str = "") -> ssl.SSLContext:
    """Return the context of a client that trusts the server's authority, and may show a certificate."""
    context = ssl.create_default_context(cafile=made.crt("ca"))
    if shows:
        context.load_cert_chain(made.crt(shows), made.key(shows))
    return context


@pytest.mark.parametrize("is_tls", [True, False])
@pytest.mark.parametrize(
    ("mode", "taken"),
    [(TlsMode.PERMISSIVE, {True, False}), (TlsMode.ENFORCING, {True}), (TlsMode.DISABLED, {False})],
)
async def test_which_connections_are_taken(
    made: Certificates,
    mode: TlsMode,
    taken: set[bool],
    caplog: pytest.LogCaptureFixture,
    *,
    is_tls: bool,
) -> None:
    caplog.set_level(logging.WARNING, "sharedroutes")
    async with serving(tls=tls(made, mode)) as front:
        try:
            async with Caller.of(front.port, ssl=trusting(made) if is_tls else None) as caller:
                assert (await caller.asks(1)).opaque == 1
                assert is_tls in taken
        except (OSError, EOFError):
            assert is_tls not in taken
        assert front.endings() == ({} if is_tls in taken else {"tls": 1})
        assert len(caplog.records) == (is_tls not in taken)


async def test_without_a_certificate_tls_is_refused_and_the_log_says_why(
    made: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as front:
        for _ in range(3):
            with pytest.raises(OSError):  # noqa: PT011 - each system and loop has its own
                async with Caller.of(front.port, ssl=trusting(made)):
                    pass
        async with Caller.of(front.port) as caller:
            assert (await caller.asks(1)).opaque == 1
        assert front.endings() == {"tls": 3}
        (record,) = [record for record in caplog.records if record.name.startswith("sharedroutes")]
        assert "no certificate is configured: TLS is not possible" in record.getMessage()


@pytest.mark.parametrize(
    ("auth", "shows", "is_taken"),
    [
        (ClientAuth.NONE, "", True),
        (ClientAuth.OPTIONAL, "", True),
        (ClientAuth.OPTIONAL, "client", True),
        (ClientAuth.OPTIONAL, "other-ca", False),
        (ClientAuth.REQUIRE, "", False),
        (ClientAuth.REQUIRE, "client", True),
        (ClientAuth.REQUIRE, "other-ca", False),
    ],
)
async def test_which_certificates_of_clients_are_taken(
    made: Certificates, auth: ClientAuth, shows: str, *, is_taken: bool
) -> None:
    async with serving(tls=tls(made, auth=auth)) as front:
        answers = 0
        with suppress(OSError, EOFError):
            async with Caller.of(front.port, ssl=trusting(made, shows=shows)) as caller:
                answers += (await caller.asks(1)).opaque
        assert bool(answers) == is_taken
        if not is_taken:
            await await_until(lambda: front.endings() == {"tls": 1}, description="it is counted")


async def test_requests_of_all_sizes_over_tls_and_behind_a_proxy(made: Certificates) -> None:
    service = Answers(lambda asked: answered(asked, asked.body))
    local = [ipaddress.ip_network("127.0.0.0/8")]
    async with serving(service, tls=tls(made), trusted_proxies=local) as front:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 9876\r\n")
        await writer.start_tls(trusting(made), server_hostname="127.0.0.1")
        caller = Caller(reader, writer)
        for size in (0, 1_000, 100_000, 5_000_000):
            assert len((await caller.asks(size, body=bytes(size))).body) == size
        assert service.connections[0].peer == "192.0.2.7:4711"
        writer.transport.abort()
        await await_until(lambda: len(service.ended) == 1, description="the end is told")


async def test_a_peer_over_tls_that_does_not_take_its_answers_is_held_up(made: Certificates) -> None:
    service = Answers(lambda asked: answered(asked, bytes(2**20)))
    async with serving(service, tls=tls(made)) as front:
        _, writer = await asyncio.open_connection("127.0.0.1", front.port, ssl=trusting(made), limit=1)
        writer.write(b"".join(encode(request(ROUTE, opaque=number)) for number in range(1_000)))
        await await_until(lambda: front.counters.unread_bytes, description="it is held up")
        assert len(service.asked) < 100
        writer.transport.abort()
        await await_until(lambda: not front.counters.unread_bytes, description="all is freed")


async def test_a_handshake_has_to_end_in_time_and_a_broken_one_is_counted(made: Certificates) -> None:
    async with (
        serving(tls=tls(made), opening_s=0.1) as front,
        Caller.of(front.port) as silent,
        Caller.of(front.port) as broken,
    ):
        await silent.sends(b"\x16\x03\x01")
        await broken.sends(b"\x16\x03\x01\0\x05hello")
        await await_until(lambda: front.endings() == {"tls": 2}, description="both are refused")
        await await_until(lambda: not front.counters.connections, description="both are gone")
        assert front.service.ended == []


async def test_a_renewed_certificate_is_for_new_connections_and_drops_none(
    made: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharedroutes.nameserver.server.listener._TLS_CHECK_S", 0.02)
    caplog.set_level(logging.INFO, "sharedroutes")
    files = TlsFiles(certificate=tmp_path / "crt", key=tmp_path / "key")

    def put(name: str) -> None:
        """Replace both files, one after the other, as a renewal would."""
        for kind, source in (("crt", made.crt(name)), ("key", made.key(name))):
            (tmp_path / "new").write_bytes(Path(source).read_bytes())
            (tmp_path / "new").replace(tmp_path / kind)

    put("other-ca")
    context = trusting(made)
    context.check_hostname = False
    async with serving(tls=Tls(TlsMode.ENFORCING, files)) as front:
        untrusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        untrusting.check_hostname = False
        untrusting.verify_mode = ssl.CERT_NONE
        async with Caller.of(front.port, ssl=untrusting) as before:
            assert (await before.asks(1)).opaque == 1
            with pytest.raises(ssl.SSLError):
                async with Caller.of(front.port, ssl=context):
                    pass
            (tmp_path / "crt").write_text("half a certi")
            await await_until(said(caplog, "the old certificate stays in use"), description="it is refused")
            put("server")
            await await_until(said(caplog, "the certificate was renewed"), description="it is in use")
            async with Caller.of(front.port, ssl=context) as after:
                assert (await after.asks(2)).opaque == 2
            assert (await before.asks(3)).opaque == 3


def said(caplog: pytest.LogCaptureFixture, text: str) -> Callable[[], bool]:
    return lambda: text in caplog.text


async def test_a_drain_over_tls_answers_what_was_asked(made: Certificates) -> None:
    later = Later()
    async with (
        serving(Answers(later), tls=tls(made)) as front,
        Caller.of(front.port, ssl=trusting(made)) as caller,
    ):
        await caller.sends(encode(request(ROUTE, opaque=1)))
        await await_until(lambda: later.waiting, description="it is asked")
        stopping = asyncio.create_task(front.server.stop(5.0))
        await asyncio.sleep(0)
        await later.give(1)
        assert (await caller.answer()).opaque == 1
        assert await caller.is_closed()
        await stopping
        assert front.counters.connections == 0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"certificate": "gone"}, "No such file"),
        ({"certificate": "key"}, "TLS: "),
        ({"key": "other-key"}, "KEY_VALUES_MISMATCH"),
        ({"key": "secret-key"}, "the key is encrypted"),
        ({"client_ca": "key"}, "TLS: "),
        ({"client_ca": "gone"}, "No such file"),
    ],
)
async def test_what_is_wrong_with_the_files_is_said(
    made: Certificates, tmp_path: Path, given: dict[str, str], problem: str
) -> None:
    paths = {
        "crt": made.crt("server"),
        "key": made.key("server"),
        "gone": "/nowhere/at/all",
        "other-key": made.key("client"),
        "secret-key": await encrypted(made.key("server"), tmp_path),
    }
    names = {"certificate": "crt", "key": "key", **given}
    files: dict[str, Any] = {name: Path(paths[source]) for name, source in names.items()}
    with pytest.raises(InvalidInput, match=problem):
        Tls(TlsMode.PERMISSIVE, TlsFiles(**files))


async def encrypted(key: str, folder: Path) -> str:
    """Return the same key with a password."""
    target = str(folder / "encrypted.key")
    command = ("openssl", "pkey", "-aes256", "-passout", "pass:1234", "-in", key, "-out", target)
    assert await (await asyncio.create_subprocess_exec(*command)).wait() == 0
    return target


def test_a_key_may_stand_in_the_file_of_its_certificate(made: Certificates, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(Path(made.crt("server")).read_text() + Path(made.key("server")).read_text())
    assert Tls(TlsMode.ENFORCING, TlsFiles(certificate=both)).context is not None


def test_enforced_tls_needs_a_certificate() -> None:
    with pytest.raises(InvalidInput, match="needs a certificate"):
        Tls(TlsMode.ENFORCING)

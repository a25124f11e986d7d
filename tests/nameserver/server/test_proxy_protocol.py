"""The header of a proxy: who the client is, and that not one byte behind it is taken."""

from __future__ import annotations

import ipaddress
import socket
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.nameserver.server.proxy_protocol import ProxyHeader, ProxyHeaderError
from sharedroutes.remoting import encode, request
from tests.nameserver.server.rig import ROUTE, Caller, both_loops, serving

__all__ = ["both_loops"]

LOCAL = [ipaddress.ip_network("127.0.0.0/8")]
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def binary(command: int, family: int, rest: bytes) -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(rest)) + rest


def ipv4(tail: bytes = b"", *, command: int = 0x21) -> bytes:
    addresses = socket.inet_aton("192.0.2.7") + socket.inet_aton("10.0.0.1") + struct.pack(">HH", 4711, 9876)
    return binary(command, 0x11, addresses + tail)


IPV6 = binary(
    0x21,
    0x21,
    ipaddress.ip_address("2001:db8::7").packed + bytes(16) + struct.pack(">HH", 4711, 9876) + b"\x04\0\x01x",
)
TEXT = b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 9876\r\n"
HEADERS = {
    TEXT: ("192.0.2.7", 4711),
    b"PROXY TCP6 2001:db8::7 ::1 4711 9876\r\n": ("2001:db8::7", 4711),
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n": None,
    ipv4(): ("192.0.2.7", 4711),
    ipv4(b"\x03\0\x04\1\2\3\4"): ("192.0.2.7", 4711),
    ipv4(command=0x20): None,
    IPV6: ("2001:db8::7", 4711),
    binary(0x20, 0x00, b""): None,
    binary(0x21, 0x00, b"whatever"): None,
    binary(0x21, 0x31, bytes(216)): None,
}


@given(st.sampled_from(sorted(HEADERS)), st.binary(max_size=20), st.data())
def test_however_a_header_is_cut_its_end_is_found(header: bytes, behind: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(header) - 1), max_size=5)))
    found, taken = ProxyHeader(), 0
    for end in [*cuts, len(header + behind)]:
        if end > taken:
            assert not found.is_complete
            taken += found.take((header + behind)[taken:end])
    assert (found.is_complete, taken, found.source) == (True, len(header), HEADERS[header])


@pytest.mark.parametrize(
    "data",
    [
        b"PUT / HTTP/1.1",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 65536\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 -1\r\n",
        b"PROXY TCP4 somewhere 10.0.0.1 4711 9876\r\n",
        b"PROXY UDP4 192.0.2.7 10.0.0.1 4711 9876\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 9876\n",
        b"PROXY \r\n",
        b"PROXY " + b"x" * 107,
        b"\r\n\r\n\0\r\nQUIT!",
        ipv4(command=0x31),
        ipv4(command=0x22),
        binary(0x21, 0x11, bytes(11)),
        ipv4(bytes(5_000)),
    ],
)
def test_what_only_begins_like_a_header_is_none(data: bytes) -> None:
    with pytest.raises(ProxyHeaderError, match="PROXY protocol"):
        ProxyHeader().take(data)
    trickled = ProxyHeader()
    with pytest.raises(ProxyHeaderError):
        [trickled.take(bytes((byte,))) for byte in data]


@given(st.sampled_from([b"PROXY ", SIGNATURE + b"\x21\x11", b""]), st.binary(max_size=120))
def test_any_bytes_are_a_header_or_an_error(begin: bytes, rest: bytes) -> None:
    data = begin + rest
    with suppress(ProxyHeaderError):  # and no other error
        assert 0 <= ProxyHeader().take(data) <= len(data)


@pytest.mark.parametrize("header", sorted(HEADERS))
async def test_a_connection_is_named_after_the_client_behind_the_proxy(header: bytes) -> None:
    async with serving(trusted_proxies=LOCAL) as front, Caller.of(front.port) as caller:
        await caller.sends(header + encode(request(ROUTE, opaque=1)))
        assert (await caller.answer()).opaque == 1
        source = HEADERS[header]
        host, port = source or ("", 0)
        named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        assert front.service.connections[0].peer == (named if source else caller.address)


async def test_a_header_may_arrive_a_byte_at_a_time_and_the_request_later() -> None:
    async with serving(trusted_proxies=LOCAL) as front, Caller.of(front.port) as caller:
        caller.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in TEXT:
            await caller.sends(bytes((byte,)))
        assert (await caller.asks(1)).opaque == 1
        assert front.service.connections[0].peer == "192.0.2.7:4711"


async def test_the_clients_behind_a_proxy_are_counted_each() -> None:
    async with (
        serving(connections_per_host=1, trusted_proxies=LOCAL) as front,
        Caller.of(front.port) as first,
        Caller.of(front.port) as second,
        Caller.of(front.port) as third,
    ):
        await first.sends(TEXT)
        assert (await first.asks(1)).opaque == 1
        await second.sends(ipv4())
        assert await second.is_closed()
        await third.sends(IPV6)
        assert (await third.asks(1)).opaque == 1
        assert front.endings() == {"too_many_of_host": 1}


@pytest.mark.parametrize("header", [TEXT, ipv4()])
@pytest.mark.parametrize(
    ("trusted", "is_taken"),
    [(["127.0.0.0/8", "2001:db8::/32"], True), (["10.0.0.0/8", "2001:db8::/32"], False), ([], False)],
)
async def test_only_a_trusted_proxy_is_believed(header: bytes, trusted: list[str], *, is_taken: bool) -> None:
    networks = [ipaddress.ip_network(one) for one in trusted]
    async with serving(trusted_proxies=networks) as front, Caller.of(front.port) as caller:
        await caller.sends(header + encode(request(ROUTE, opaque=1)))
        if is_taken:
            assert (await caller.answer()).opaque == 1
        else:
            assert await caller.is_closed()
        assert front.endings() == ({} if is_taken else {"proxy": 1})
        async with Caller.of(front.port) as plain:
            assert (await plain.asks(2)).opaque == 2


@pytest.mark.parametrize("data", [b"POST / HTTP/1.1\r\n\r\n", b"\r\n\r\nPING", b"PROXY TCP4 \r\n"])
async def test_a_broken_header_closes_the_connection(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(trusted_proxies=LOCAL) as front, Caller.of(front.port) as caller:
        await caller.sends(data)
        assert await caller.is_closed()
        assert (front.endings(), front.counters.decode_errors) == ({"proxy": 1}, 1)
        (record,) = caplog.records
        assert caller.address in record.getMessage()


async def test_a_header_has_to_arrive_in_time() -> None:
    async with serving(opening_s=0.05, trusted_proxies=LOCAL) as front, Caller.of(front.port) as caller:
        await caller.sends(b"PROXY ")
        assert await caller.is_closed()
        assert front.endings() == {"proxy": 1}

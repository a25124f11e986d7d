"""Who may ask what: rules by network and request code."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple, TypeAlias

from ..registry import InvalidInput

Network: TypeAlias = IPv4Network | IPv6Network

_ANY_CODE: Final = "*"
_LAST_CODE: Final = 2**31 - 1
_MOST_REMEMBERED: Final = 10_000


def networks(text: str) -> tuple[Network, ...]:
    """Return the networks of `10.0.0.0/8,::1`; raises InvalidInput."""
    return tuple(_network(one) for one in text.split(",") if one.strip())


class _Rule(NamedTuple):
    network: Network
    codes: frozenset[int] | None
    """None = all of them."""


class AllowList:
    """Decides who may ask what: a request is allowed if one of the rules allows it, or if there are none.

    The rules are written as `10.0.0.0/8=*;0.0.0.0/0=105,106`. Raises InvalidInput.
    """

    def __init__(self, text: str) -> None:
        self._rules = tuple(_rule(one) for one in text.split(";") if one.strip())
        self._of_host: dict[str, frozenset[int] | None] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def allows(self, host: str, code: int) -> bool:
        """Return whether this host may send this request code."""
        if not self._rules:
            return True
        try:
            codes = self._of_host[host]
        except KeyError:
            if len(self._of_host) >= _MOST_REMEMBERED:
                self._of_host.clear()
            codes = self._of_host[host] = self._codes(host)
        return codes is None or code in codes

    def _codes(self, host: str) -> frozenset[int] | None:
        """Return what the host may ask; None = everything."""
        address = _plain(host)
        found: frozenset[int] = frozenset()
        for network, codes in self._rules:
            if address is not None and address in network:
                if codes is None:
                    return None
                found |= codes
        return found


def _rule(text: str) -> _Rule:
    network, separator, codes = text.partition("=")
    if not separator:
        raise InvalidInput(f"{text.strip()!r:.80} is not network=codes")
    if codes.strip() == _ANY_CODE:
        return _Rule(_network(network), None)
    return _Rule(_network(network), frozenset(_code(one.strip()) for one in codes.split(",")))


def _code(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= _LAST_CODE):
        raise InvalidInput(f"{text!r:.80} is neither a request code nor {_ANY_CODE}")
    return int(text)


def _network(text: str) -> Network:
    try:
        return ip_network(text.strip())
    except ValueError:
        raise InvalidInput(f"{text.strip()!r:.80} is no network, such as 10.0.0.0/8") from None


def _plain(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address, an IPv4 address within IPv6 as such; None for what is no address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address

"""Hints: clients tell each other for a short time which brokers they cannot reach (not in RocketMQ)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from .. import scripts
from ..checks import check_broker_name, check_name, check_seconds, several
from ..errors import CorruptData, InvalidInput
from ..keys import Keys
from .base import Call, Plan, Reads, checked, clock_us, read, script_reply

MAX_HINT_TTL_S: Final = 60.0
MAX_HINTS_OF_A_CLIENT: Final = 16
MAX_HINTS_OF_A_BROKER: Final = 8
"""More hints would add nothing."""

_MAX_HINTS: Final = 512
"""Of a registry: the number that each reader reads and each writer looks through."""

_MIN_TTL_S: Final = 0.05
_MAX_TTL_MS: Final = round(MAX_HINT_TTL_S * 1000)


def hint(keys: Keys, client_id: str, broker_names: Iterable[str], ttl_s: float) -> Plan[dict[str, str]]:
    """Publish for `ttl_s` (0.05..60 s) which brokers (up to 16) a client cannot reach.

    This replaces the client's earlier hints; without names it withdraws them. Returns the names that were not
    taken, and why: 8 other clients name the broker, or there are 512 hints. Raises InvalidInput.
    """
    check_name("clientId", client_id)
    names = tuple(dict.fromkeys(several(broker_names, "brokerNames")))
    for name in names:
        check_broker_name(name)
    if len(names) > MAX_HINTS_OF_A_CLIENT:
        raise InvalidInput(f"brokerNames: {len(names)} are more than the {MAX_HINTS_OF_A_CLIENT} allowed")
    check_seconds("ttl_s", ttl_s, _MIN_TTL_S)
    if ttl_s > MAX_HINT_TTL_S:
        raise InvalidInput(f"ttl_s: {ttl_s!r} is more than {MAX_HINT_TTL_S} seconds")
    bounds = (_MAX_TTL_MS, MAX_HINTS_OF_A_BROKER, _MAX_HINTS)
    call = Call(scripts.HINT, (keys.hints,), (client_id, round(ttl_s * 1000), *bounds, *names))
    _, *refused = yield from script_reply(call)
    return dict(zip(refused[::2], refused[1::2], strict=True))


def hints(keys: Keys) -> Plan[tuple[dict[str, frozenset[str]], tuple[CorruptData, ...]]]:
    """Return for each named broker the ids of the clients that cannot reach it, and what is corrupt.

    Hints that have ended by the server's clock, or would end later than one can, are left out.
    """
    (clock,) = yield Reads((("TIME",),))
    now_ms = clock_us(checked(keys.hints, clock)) // 1_000
    span = (f"({now_ms}", now_ms + _MAX_TTL_MS)
    return _decoded(keys, (yield from read("ZRANGEBYSCORE", keys.hints, *span, "LIMIT", 0, _MAX_HINTS)))


def _decoded(
    keys: Keys, members: Sequence[bytes]
) -> tuple[dict[str, frozenset[str]], tuple[CorruptData, ...]]:
    found: dict[str, set[str]] = {}
    odd: list[bytes] = []
    for member in members:
        try:
            broker_name, _, client_id = member.decode().partition(" ")
            check_broker_name(broker_name)
            check_name("clientId", client_id)
        except ValueError:  # no UTF-8, or InvalidInput
            odd.append(member)
        else:
            found.setdefault(broker_name, set()).add(client_id)
    hinted = {name: frozenset(clients) for name, clients in found.items()}
    if not odd:
        return hinted, ()
    what = f"{len(odd)} members are no hint, {odd[0][:80]!r} among them; they go when they end"
    return hinted, (CorruptData(keys.hints, what),)

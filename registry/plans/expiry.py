"""The sweep: announces the end of leases at once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from .. import codec, scripts
from ..config import RegistryConfig
from ..errors import CorruptData
from ..keys import Keys
from ..model import EXPIRED, Change, ChangeKind, Sweep
from .base import (
    Call,
    Command,
    ErrorReply,
    Plan,
    Reads,
    Reply,
    checked,
    clock_us,
    script_reply,
    unless_foreign,
)
from .routes import broker_names, groups

_AT_ONCE: Final = 100
_SLACK_MS: Final = 1_000
_NO_TIME_MS: Final = 2**53
"""A score from here on is not exact to the millisecond."""

_LEASE: Final = re.compile("([^:\ufffd]+):(0|[1-9][0-9]{0,18})")  # U+FFFD: it was no UTF-8


def sweep(config: RegistryConfig, holder: str) -> Plan[Sweep]:
    """Announce the brokers whose lease has ended (RocketMQ: RouteInfoManager.scanNotActiveBroker).

    Redis ends leases to the millisecond, but deletes expired keys, and says so, much later. One process at a
    time sweeps: the first to call keeps the sweep as long as it calls again within `sweeper_lease_s`. Nothing
    becomes due before `wait_s`, except a lease that is made, or made shorter, after this look: the sweeper
    looks again before its own lease ends, and so is late by less than that.
    """
    keys = Keys(config.namespace)
    expired: list[tuple[str, int]] = []
    corrupt: list[CorruptData] = []
    passed_over = 0
    while True:
        arguments = (holder, round(config.sweeper_lease_s * 1000), _AT_ONCE, passed_over)
        names = (keys.sweeper, keys.deadlines, keys.changes)
        look, left_out = Call(scripts.SWEEP, names, arguments), set[str]()
        status, clock, ms, *more = yield from script_reply(look, left_out)
        wait_s = None if ms < 0 else ms / 1000
        if status == "held":
            return Sweep(held=True, wait_s=wait_s, clock_ms=int(clock))
        before_ms, after_ms, *due = more
        if left_out:
            yield from _announce_unlisted(config, expired, corrupt)
        yield from _announce(config, due, expired, corrupt)
        if len(due) < _AT_ONCE or expired:  # else all of them stand in the way of others: look behind them
            return Sweep(
                held=False,
                wait_s=0.0 if len(due) == _AT_ONCE else wait_s,
                expired=tuple(expired),
                corrupt=tuple(corrupt),
                clock_ms=int(clock),
                lease_before_ms=None if before_ms < 0 else before_ms,
                lease_after_ms=after_ms,
            )
        passed_over += _AT_ONCE  # what cannot be swept stays where it is


def expire(config: RegistryConfig, name: str, broker_id: int) -> Plan[bool]:
    """Announce that one lease has ended, and return whether it had to be.

    False: the broker is alive, has another owner by now, or its end was announced before.
    """
    replies = yield Reads(_who(Keys(config.namespace), name, broker_id))
    return (yield from _end(config, (name, broker_id), *replies))


def _who(keys: Keys, name: str, broker_id: int) -> tuple[Command, Command]:
    """Return the reads of the owner whose lease has ended, and of its deadline."""
    return (
        ("HMGET", keys.broker(name), f"epoch:{broker_id}", "cluster"),
        ("ZSCORE", keys.deadlines, keys.lease_member(name, broker_id)),
    )


def _end(config: RegistryConfig, lease: tuple[str, int], owner: Reply, deadline: Reply) -> Plan[bool]:
    """Announce that the lease of that owner has ended, at that deadline."""
    keys, (name, broker_id) = Keys(config.namespace), lease
    known = checked(keys.broker(name), owner)
    epoch, cluster = (value.decode(errors="replace") if value else "" for value in known)
    ended_ms = unless_foreign(keys.deadlines, deadline)
    record = Change(
        kind=ChangeKind.DOWN,
        broker_name=name,
        broker_id=broker_id,
        epoch=codec.number(epoch) or 0,
        cluster=cluster,
        reason=EXPIRED,
        lease_ended_ms=whole_ms(ended_ms),
    )
    call = Call(
        scripts.EXPIRE,
        (keys.broker(name), keys.lease(name, broker_id), keys.deadlines, keys.changes),
        (
            broker_id,
            epoch or "0",
            keys.lease_member(name, broker_id),
            codec.encode_change(record),
            config.feed_bounds,
        ),
    )
    status, *announced = yield from script_reply(call)
    return bool(status == "ok" and announced == ["1"])


def _announce_unlisted(
    config: RegistryConfig, expired: list[tuple[str, int]], corrupt: list[CorruptData]
) -> Plan[None]:
    """Announce the end of leases while the deadlines are foreign: look at all replicas."""
    keys = Keys(config.namespace)
    what = "holds another type than the registry writes: all brokers are looked at instead; move it away"
    corrupt.append(CorruptData(keys.deadlines, what))
    try:
        names = yield from broker_names(keys)
    except CorruptData as error:
        corrupt.append(error)
        return
    found = yield from groups(keys, names)
    ended = [
        (name, broker_id)
        for name, group in found.groups.items()
        for broker_id in group.broker_ids
        if name not in found.alive or broker_id not in found.alive[name].broker_addrs
    ]
    members = [keys.lease_member(*lease) for lease in ended]
    yield from _announce(config, members, expired, corrupt)


def whole_ms(score: float | None) -> int | None:
    """Return a deadline; None when there is none, or one that is no time."""
    return int(score) if score is not None and math.isfinite(score) and 0 < score < _NO_TIME_MS else None


def server_time() -> Plan[int | ErrorReply]:
    """Return the primary's clock in microseconds since 1970."""
    (reply,) = yield Reads((("TIME",),), tolerant=True, at_primary=True)
    return reply if isinstance(reply, ErrorReply) else clock_us(reply)


def lease_of(member: str) -> tuple[str, int] | None:
    """Return broker name and id of a member of the deadlines; None = it names no lease."""
    found = _LEASE.fullmatch(member)
    return (found[1], int(found[2])) if found else None


def late_ms(config: RegistryConfig) -> int:
    """Return how late the end of a lease may be announced: the sweep changes hands, and 1 s on top."""
    return round(config.sweeper_lease_s * 1000) + _SLACK_MS


def _announce(
    config: RegistryConfig, due: Iterable[str], expired: list[tuple[str, int]], corrupt: list[CorruptData]
) -> Plan[None]:
    """Announce the end of leases, or add the reason why not to `corrupt`."""
    keys = Keys(config.namespace)
    leases: list[tuple[str, int]] = []
    for member in due:
        lease = lease_of(member)
        if lease is None:
            what = f"the member {member[:80]!r} is no broker:id; remove it"
            corrupt.append(CorruptData(keys.deadlines, what))
        else:
            leases.append(lease)
    if not leases:
        return
    replies = yield Reads([command for lease in leases for command in _who(keys, *lease)])
    for lease, owner, deadline in zip(leases, replies[::2], replies[1::2], strict=True):
        try:
            if (yield from _end(config, lease, owner, deadline)):
                expired.append(lease)
        except CorruptData as error:
            corrupt.append(error)

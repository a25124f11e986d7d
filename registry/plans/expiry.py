"""The sweep: makes the end of a lease known at once."""

from __future__ import annotations

from typing import Final

from .. import codec, scripts
from ..config import RegistryConfig
from ..errors import CorruptData
from ..keys import Keys
from ..model import EXPIRED, Change, ChangeKind, Sweep
from .base import Call, Plan, Reads, checked, script_reply

__all__ = ["sweep"]

_AT_ONCE: Final = 100


def sweep(config: RegistryConfig, holder: str) -> Plan[Sweep]:
    """Announce the brokers whose lease has ended (RocketMQ: RouteInfoManager.scanNotActiveBroker).

    Redis itself ends leases to the millisecond, but deletes what has ended, and tells of it, much later. One
    process does this at a time: whoever called first keeps the sweep as long as it calls again within
    `sweeper_lease_s`. Nothing becomes due before `wait_s`, except by a lease with a shorter TTL.
    Raises CorruptData, StoreRefused, StoreUnavailable.
    """
    keys = Keys(config.namespace)
    expired: list[tuple[str, int]] = []
    corrupt: list[CorruptData] = []
    while True:
        status, ms, *due = yield from script_reply(_look(config, keys, holder, passed_over=len(corrupt)))
        wait_s = None if ms < 0 else ms / 1000
        if status == "held":
            return Sweep(held=True, wait_s=wait_s)
        for member in due:
            yield from _announce(config, keys, member, expired, corrupt)
        if len(due) < _AT_ONCE or expired:  # else all of them stand in the way of others: look behind them
            wait_s = 0.0 if len(due) == _AT_ONCE else wait_s
            return Sweep(held=False, wait_s=wait_s, expired=tuple(expired), corrupt=tuple(corrupt))


def _look(config: RegistryConfig, keys: Keys, holder: str, *, passed_over: int) -> Call:
    lease_ms = round(config.sweeper_lease_s * 1000)
    return Call(scripts.SWEEP, (keys.sweeper, keys.deadlines), (holder, lease_ms, _AT_ONCE, passed_over))


def _announce(
    config: RegistryConfig,
    keys: Keys,
    member: str,
    expired: list[tuple[str, int]],
    corrupt: list[CorruptData],
) -> Plan[None]:
    """Announce the end of one lease, or add to `corrupt` why that cannot be done."""
    name, _, broker_id = member.rpartition(":")
    if not broker_id.isdecimal():
        what = f"the member {member[:80]!r} is no broker:id; remove it"
        corrupt.append(CorruptData(keys.deadlines, what))
        return
    try:
        if (yield from _expire(config, keys, name, int(broker_id))):
            expired.append((name, int(broker_id)))
    except CorruptData as error:
        corrupt.append(error)


def _expire(config: RegistryConfig, keys: Keys, name: str, broker_id: int) -> Plan[bool]:
    """Announce one death; False when the broker turns out to be alive, or to be somebody else's by now."""
    broker_key = keys.broker(name)
    (reply,) = yield Reads((("HMGET", broker_key, f"epoch:{broker_id}", "cluster"),))
    epoch, cluster = (value.decode(errors="replace") if value else "" for value in checked(broker_key, reply))
    record = Change(
        kind=ChangeKind.DOWN,
        broker_name=name,
        broker_id=broker_id,
        epoch=int(epoch) if epoch.isdecimal() else 0,
        cluster=cluster,
        reason=EXPIRED,
    )
    call = Call(
        scripts.EXPIRE,
        (broker_key, keys.lease(name, broker_id), keys.deadlines, keys.changes),
        (
            broker_id,
            epoch or "0",
            keys.lease_member(name, broker_id),
            codec.encode_change(record),
            config.feed_max_entries,
        ),
    )
    status, *_ = yield from script_reply(call)
    return bool(status == "ok")

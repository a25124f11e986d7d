"""Finds out whether the owner of a lease, which has another address than this broker, still answers."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Final, NamedTuple

from ...registry.checks import split_address
from .client import BrokerCallError, BrokerClient, BrokerTimeout, BrokerUnreachable
from .liveness import QUESTION

_PROBE_S: Final = 0.75
_EVERY_S: Final = 0.25
"""Another connection is tried so long after the one before, which is waited for all the while."""

_TRIES: Final = 3
_STALL_S: Final = 0.25
"""A probe that takes so much longer says nothing: this process stood still, and the answer may lie here."""


class OwnerAnswer(IntEnum):
    """What was found at the address of another owner; of several answers the greatest counts."""

    NONE = 0
    """Nobody listens there, or nobody answers."""

    NO_WAY = 1
    """No route leads to that host, or it has no such name: the fault may be this host's."""

    UNKNOWN = 2
    """The probe proves nothing."""

    SOME = 3
    """Something answers, whatever it says."""


class OwnerFound(NamedTuple):
    """What was found at an address, and why one thinks so."""

    answer: OwnerAnswer
    why: str
    is_there: bool = False
    """Whether a connection was accepted."""


async def probe_owner(address: str, own_address: str) -> OwnerFound:
    """Return whether a broker answers at the owner's address, within 0.75 s.

    While `own_address`, that of the broker that asks, is not reached from here either, that says nothing.
    """
    clock = asyncio.get_running_loop().time
    began_s = clock()
    asking = asyncio.gather(*(_ask(address, tries * _EVERY_S) for tries in range(_TRIES)))
    own, results = await asyncio.gather(_ask(own_address), asking)
    if clock() - began_s > _PROBE_S + _STALL_S:
        return OwnerFound(OwnerAnswer.UNKNOWN, "this process stood still while it looked")
    if not own.is_there:  # the addresses that clients are told may not be reached from here at all
        why = f"{own_address}, this broker's own address, is not reached from here either"
        return OwnerFound(OwnerAnswer.UNKNOWN, why)
    best = max(results, key=lambda one: one.answer)
    is_silent = best.answer is OwnerAnswer.NONE and any(one.is_there for one in results)
    if is_silent and own.answer is not OwnerAnswer.SOME:
        why = f"{address} accepts connections, and may or may not answer: this broker does not"
        return OwnerFound(OwnerAnswer.UNKNOWN, why)
    return best


async def _ask(address: str, after_s: float = 0.0) -> OwnerFound:
    """Send a cheap request; any answer counts, and so does the end of the connection."""
    await asyncio.sleep(after_s)
    deadline_s = _PROBE_S - after_s
    try:
        async with await BrokerClient.connect(*split_address(address), deadline_s=deadline_s) as client:
            try:
                await client.invoke(QUESTION, deadline_s=deadline_s)
            except BrokerTimeout as error:  # the system accepts connections for a process that does not run
                return OwnerFound(OwnerAnswer.NONE, str(error), is_there=True)
            except BrokerCallError as error:
                return OwnerFound(OwnerAnswer.SOME, f"something is there: {error}", is_there=True)
            why = f"{address} answers: two brokers have one name and id"
            return OwnerFound(OwnerAnswer.SOME, why, is_there=True)
    except BrokerTimeout as error:
        return OwnerFound(OwnerAnswer.NONE, str(error))
    except BrokerUnreachable as error:
        return OwnerFound(OwnerAnswer.NONE if error.refused else OwnerAnswer.NO_WAY, str(error))

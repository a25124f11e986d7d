"""Carries out what the planner decided: one call of the store each."""

from __future__ import annotations

from contextlib import suppress

from ...registry import AsyncRouteStore, NotFound, RegistryError
from .events import (
    Event,
    Heartbeat,
    HeartbeatAnswered,
    Register,
    Registered,
    SetWritePerm,
    StoreCall,
    Unregister,
    Unregistered,
    Withdraw,
    Withdrawn,
    WritePermSet,
)


async def carry_out(store: AsyncRouteStore, call: StoreCall) -> Event:
    """Make the call and return what the planner has to know of it; raises what the store raises."""
    match call:
        case Register(broker, file, held, take_over, admit, instead_of):
            registration = await store.register(
                broker,
                file.topics,
                held=held,
                take_over=take_over,
                admit=admit,
                instead_of=instead_of,
                version=file.version,
            )
            # A delta has been preceded by a registration that told it.
            wiped = False
            with suppress(RegistryError):  # the registration has succeeded all the same
                wiped = held is None and await _is_wiped(store, broker.broker_name)
            return Registered(file, registration, wiped=wiped)
        case Heartbeat(held, listings):
            return HeartbeatAnswered(await store.heartbeat(held, listings=listings))
        case Unregister(held, reason):
            await store.unregister(held, reason=reason)
            return Unregistered()
        case Withdraw(broker, reason):
            await store.admin.withdraw(broker, reason=reason)
            return Withdrawn()
        case SetWritePerm(broker_name, allowed):
            return WritePermSet(await _set_write_perm(store, broker_name, allowed=allowed))


async def _set_write_perm(store: AsyncRouteStore, broker_name: str, *, allowed: bool) -> bool:
    """Return whether it was otherwise before: what an operator has wiped is not this agent's to give back."""
    if not allowed and await _is_wiped(store, broker_name):
        return False
    try:
        await (store.admin.add_write_perm if allowed else store.admin.wipe_write_perm)(broker_name)
    except NotFound:  # the store lost its data: nothing is wiped there
        return False
    return True


async def _is_wiped(store: AsyncRouteStore, broker_name: str) -> bool:
    group = await store.member_group(broker_name)
    return group is not None and group.wiped

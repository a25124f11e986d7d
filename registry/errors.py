"""Every error of the registry, by what the caller can do about it.

RegistryError
 +-- InvalidInput        correct the value; nothing was sent (also a ValueError)
 +-- StoreUnavailable    try again later; the outcome of a write is unknown (also a ConnectionError)
 |    +-- StoreTimeout   the store accepted the connection and did not answer in time (also a TimeoutError)
 +-- StoreRefused        the store answered with an error: credentials, ACL, memory, ...
 +-- NotFound           there is no such thing in the registry; nothing was changed (also a LookupError)
 +-- NewerSchema        a newer sharedroutes keeps this registry: upgrade this one
 +-- StaleEpoch          another owner has the broker now; nothing was changed
 +-- BrokerOwned         a live owner with another address holds the broker; nothing was changed
 +-- BrokerWithdrawn     an operator keeps the broker out of the registry; nothing was changed
 +-- CorruptData         one key holds what the registry did not write; the message names the key
 +-- EmbeddedServerError no server to embed was found, or it did not start
"""

from __future__ import annotations

import copyreg
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

_log = logging.getLogger("sharedroutes.registry")


class RegistryError(Exception):
    """The root of all errors of sharedroutes."""

    code: int | None = None
    """RocketMQ's code for such an error, of its client or its broker; None = it has none."""

    def __reduce__(self) -> tuple[object, ...]:
        """Be pickled as it is, whatever it was made from: errors of worker processes are."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InvalidInput(RegistryError, ValueError):
    """A value that the caller passed is not allowed; nothing was changed."""


class StoreUnavailable(RegistryError, ConnectionError):
    """The store cannot be reached; a write that was under way may or may not have happened."""

    code = 10004  # RocketMQ: ClientErrorCode.NO_NAME_SERVER_EXCEPTION


class StoreTimeout(StoreUnavailable, TimeoutError):
    """The store did not answer within the deadline of the call."""


class StoreRefused(RegistryError):
    """The store answered with an error that will not pass by trying again."""


class NotFound(RegistryError, LookupError):
    """The registry does not have what the operation is about; nothing was changed."""


class NewerSchema(RegistryError):
    """The registry is kept by a newer sharedroutes than this one; nothing was changed."""

    def __init__(self, key: str, found: str, known: int) -> None:
        super().__init__(
            f"{key}: the registry has schema {found}, this sharedroutes knows schemas up to {known}: "
            "upgrade it, or use another namespace"
        )
        self.found = found
        self.known = known


class CorruptData(RegistryError):
    """A key of the registry holds something that the registry did not write there."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class StaleEpoch(RegistryError):
    """The caller no longer owns this (broker, id); nothing was changed.

    A `current_epoch` below the caller's means that the store lost data, and that there is no owner.
    """

    def __init__(self, broker_name: str, broker_id: int, epoch: int, current_epoch: int) -> None:
        if current_epoch > epoch:
            what = (
                f"epoch {epoch} has been superseded by epoch {current_epoch}; stop writing, or register anew"
            )
        else:
            what = f"the store lost epoch {epoch} (it knows {current_epoch or 'none'}); register anew"
        super().__init__(f"{broker_name}:{broker_id}: {what}")
        self.broker_name = broker_name
        self.broker_id = broker_id
        self.epoch = epoch
        self.current_epoch = current_epoch


@dataclass(frozen=True, slots=True)
class SeenLease:
    """The lease of another owner as it was seen; only this one may be taken over when the owner is gone."""

    epoch: int
    address: str
    ends_ms: int
    """By the store's clock, ms since 1970; a renewal moves it."""

    version: tuple[int, int, int] | None = field(default=None, compare=False)
    """Of the table: state version, counter, timestamp, as RocketMQ compares them; None = not known."""


class BrokerOwned(RegistryError):
    """A live owner holds this (broker, id); nothing was changed. `advice` is what the caller may do now.

    `lease` is the lease it holds: a caller that finds the owner gone can register `instead_of` it.
    """

    def __init__(
        self,
        broker_name: str,
        broker_id: int,
        owner_address: str,
        remaining_ms: int,
        owner_state_version: int = 0,
        *,
        advice: str = "",
        lease: SeenLease | None = None,
    ) -> None:
        fact = (
            f"{broker_name}:{broker_id} is held by {owner_address} (state version {owner_state_version}) "
            f"for another {remaining_ms} ms unless it is renewed"
        )
        super().__init__(f"{fact}; {advice}" if advice else fact)
        self.broker_name = broker_name
        self.broker_id = broker_id
        self.owner_address = owner_address
        self.remaining_ms = remaining_ms
        self.owner_state_version = owner_state_version
        self.lease = lease


class BrokerWithdrawn(RegistryError):
    """An operator took the broker at this address out of the registry; nothing was changed."""

    def __init__(self, broker_name: str, broker_id: int, address: str) -> None:
        super().__init__(
            f"{broker_name}:{broker_id} at {address} was taken out of the registry by an operator, and stays "
            "out until one of its agents is resumed or started"
        )
        self.broker_name = broker_name
        self.broker_id = broker_id
        self.address = address


class EmbeddedServerError(RegistryError):
    """The embedded server could not be found or started."""


def log_corrupt(corrupt: Iterable[CorruptData]) -> None:
    """Log the corrupt keys that an operation left out of its answer."""
    for error in corrupt:
        _log.error("a key of the registry is corrupt, the rest is served: %s", error)
